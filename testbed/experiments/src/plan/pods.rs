//! Networks of pods: the facts of a pod that its hosts get, and the programs of switches, which a
//! topology places and no setting.

use fabric::{Blueprint, ProgramKind};
use transport::path::PodFacts;

use super::{ClockSettings, Draft, real_pod};
use crate::topology::{FatTree, FatTreeSpec};

/// The facts of their pods that hosts get; `None` where pods have no scheduler.
pub(super) fn facts(draft: &Draft, topology: &FatTreeSpec) -> Option<PodFacts> {
    if let Some(real) = draft.real_pod {
        let hosts = u16::try_from(real.scheduler).unwrap_or(u16::MAX);
        return Some(real_pod::facts(real, hosts, draft.settings.payload_max));
    }
    let switches: u32 = (0..topology.levels()).map(|tier| topology.switches(tier)).sum();
    let narrow = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    let scheduler = topology.nodes + switches;
    (topology.schedulers > 0).then(|| PodFacts {
        per_tor: narrow(topology.tier[0].radix_down),
        hosts: narrow(topology.podsize),
        aggs: narrow(topology.aggs_per_pod()),
        pods: narrow(topology.pods()),
        cores: narrow(if topology.tiers == 3 { topology.cores() } else { 0 }),
        cell: draft.settings.payload_max,
        scheduler,
        backup: if topology.schedulers > 1 { scheduler + topology.pods() } else { 0 },
        hop: topology.tier[0].link_latency(),
        clock_jitter: (draft.clocks != ClockSettings::EXACT).then_some(draft.clocks.jitter),
        real: None,
    })
}

/// Programs of pods.
pub(super) const PLACED: [ProgramKind; 2] = [ProgramKind::PodScheduler, ProgramKind::PodCore];

/// Places the schedulers of pods and the program of Cores, where hosts send in slots.
pub(super) fn place(draft: &Draft, tree: &FatTree, blueprint: &mut Blueprint) {
    if !draft.settings.sched.facts().departs_in_slots {
        return;
    }
    let pods = 0..tree.spec().pods();
    let schedulers = pods.flat_map(|pod| [tree.scheduler_of(pod), tree.backup_of(pod)]);
    for scheduler in schedulers.flatten() {
        blueprint.programs.insert(scheduler, ProgramKind::PodScheduler);
    }
    for core in tree.core_switches() {
        blueprint.programs.insert(core, ProgramKind::PodCore);
    }
}
