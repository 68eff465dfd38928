//! The programs of switches in a network of pods: a topology places them, and no setting does.

use fabric::{Blueprint, ProgramKind};

use super::Draft;
use crate::topology::FatTree;

/// Programs of pods.
pub(super) const PLACED: [ProgramKind; 2] = [ProgramKind::PodScheduler, ProgramKind::PodCore];

/// Places the schedulers of pods and the program of Cores, where hosts need a network that works
/// with them.
pub(super) fn place(draft: &Draft, tree: &FatTree, blueprint: &mut Blueprint) {
    if !draft.settings.sched.needs_network() {
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
