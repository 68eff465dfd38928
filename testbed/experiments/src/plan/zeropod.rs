//! Whether the parts of a run fit Zeropod's hosts. They need a pod with a scheduler, links and
//! cells that are all alike, switches without buffers that take the routes of cells, and slots for
//! all hosts.

use std::collections::{BTreeMap, BTreeSet};

use fabric::pod::matcher::MatcherKind;
use fabric::program::pod_scheduler;
use fabric::{PortId, QdiscKind};
use transport::cc::CcKind;
use transport::ec::EcKind;
use transport::lb::LbKind;
use transport::params::ParamValue as _;
use transport::sched::SchedKind;
use transport::sched::zeropod::timing::Timing;
use transport::sched::zeropod::{Zeropod, ZeropodParams};
use transport::wire::pod::{AGGS_MAX, CELLS_MAX, LAYERS_MAX, PODS_MAX, Stamp};
use transport::{Config, Duration, HostId, Rng};

use super::pods::PLACED;
use super::{ClockSettings, Draft, Origin, Plan, RunError, facts, keys, policy_keys};
use crate::input::{InputError, did_you_mean};
use crate::scenario::fault::{FaultKind, FaultSpec};
use crate::topology::{FabricParams, FatTree, FatTreeSpec, LinkSelector};

/// Epochs that a receipt may take: hosts keep what their cells were for 64 epochs at most.
const RECEIPT_MAX: u64 = 48;
/// Bounds of what is outstanding or given at once, which no run reaches with values of presets.
const BOUNDS: [&str; 3] = ["psn_window", "cc.fixed.bdps", "nic.depth"];
/// Epochs from a decision to its cells at most, as schedulers keep them.
const LEAD_MAX: u64 = 4096;

/// The discipline of NICs. A clock that is off brings cells back to back closer together than the
/// line, by picoseconds: a NIC then sends one when it has sent the one before it.
pub(super) fn nic_qdisc(draft: &Draft) -> QdiscKind {
    let waits = draft.clocks != ClockSettings::EXACT && draft.nic.qdisc == QdiscKind::Bufferless;
    if waits { QdiscKind::DropTail } else { draft.nic.qdisc }
}

/// Whether packets may meet since clocks may be off by more than half of a guard.
pub(super) fn expects_collisions(draft: &Draft, config: &Config, tree: &FatTree) -> bool {
    if config.sched != SchedKind::Zeropod || draft.clocks == ClockSettings::EXACT {
        return false;
    }
    let host = Zeropod::new(&config.sched_setup(HostId(0), Rng::new(0)));
    let (timing, guard) = (host.timing(), config.sched_params.zeropod.guard);
    // An answer comes in every epoch, or in one of `ask_every`, so a host goes without answers for
    // no more of these than packets are lost in a row.
    let ways = ways_of_answers(tree);
    let on_ways = draft.faults.iter().filter(|fault| is_on(fault, &ways, tree));
    let silent: f64 = on_ways.map(|fault| fault.kind.losses_in_a_row()).sum();
    // A median of eight readings lags by four epochs; half of the jitter is left of it.
    let every = f64::from(config.sched_params.zeropod.ask_every);
    let lag_us = timing.epoch.as_us_f64() * (2.0 * LAG_EPOCHS + silent) * every;
    let off_us = draft.clocks.jitter.as_us_f64() / 2.0 + lag_us * draft.clocks.drift_ppm * 1e-6;
    off_us * 2.0 > guard.min(timing.slot_guard).as_us_f64()
}

/// Epochs by which a host's estimate of its clock lags.
const LAG_EPOCHS: f64 = 4.0;

/// The links by which answers of schedulers come to hosts, and requests of hosts to schedulers.
/// Links of schedulers to aggregation switches lead to Cores alone, whose clocks are exact.
fn ways_of_answers(tree: &FatTree) -> BTreeSet<PortId> {
    let spec = tree.spec();
    let ends = (0..spec.pods()).flat_map(|pod| [false, true].map(|backup| (pod, backup)));
    let schedulers = ends.flat_map(|(pod, backup)| {
        let to_tor = move |tor| LinkSelector::Scheduler { pod, backup, link: Some(tor) };
        (0..spec.tors_per_pod()).map(to_tor)
    });
    // A pod without a backup has no links of one.
    let ports = |links: LinkSelector| tree.select(&links).unwrap_or_default();
    schedulers.chain([LinkSelector::Hosts]).flat_map(ports).collect()
}

/// Whether a fault is on some of these links. One on a link that the tree does not have is refused
/// elsewhere.
fn is_on(fault: &FaultSpec, links: &BTreeSet<PortId>, tree: &FatTree) -> bool {
    tree.select(&fault.links).unwrap_or_default().iter().any(|port| links.contains(port))
}

impl Plan {
    /// Whether nothing can happen to one cell alone, so that several may be one event: no link
    /// fails, no clock is off, ports take trains as cells, no backup answers, no bound is changed.
    #[must_use]
    pub fn may_have_trains(&self) -> bool {
        let Draft { faults, clocks, .. } = &self.draft;
        let is_regular =
            faults.is_empty() && self.matrix.failures.is_empty() && *clocks == ClockSettings::EXACT;
        let has_cells =
            [self.fabric.qdisc, self.fabric.nic_qdisc].iter().all(|q| *q == QdiscKind::Bufferless);
        let is_unbounded = !BOUNDS.iter().any(|key| self.draft.is_given(key));
        let has_backups = self.settings.sched_params.zeropod.backup > 0;
        is_regular && has_cells && is_unbounded && !has_backups
    }
}

/// Refuses what Zeropod cannot work with. Where another scheduler runs, only a wrong name of a
/// matcher and programs that a topology has to place are refused.
pub(super) fn check(
    draft: &Draft,
    config: &Config,
    fabric: &FabricParams,
    tree: &FatTree,
) -> Result<(), RunError> {
    let topology = tree.spec();
    if let Some(spec) = draft.programs.iter().find(|spec| PLACED.contains(&spec.program)) {
        let found = format!("`{}`", spec.program.name());
        let expected = format!("no {}: a topology places it", spec.program.name());
        let help = "leave it out, and use a topology like zeropod:32 or zeropod:8,8,7";
        return Err(refused("switch.program", found, expected, help));
    }
    // A wrong name is refused where no scheduler of this run reads it, too.
    check_name(&config.sched_params.zeropod)?;
    if config.sched != SchedKind::Zeropod {
        return Ok(());
    }
    check_ends(draft, config)?;
    if draft.origin("sched.zeropod.run") == Origin::Set {
        let found = config.sched_params.zeropod.run.to_string();
        let expected = "the number that hosts of a real network draw for each run".to_owned();
        return Err(refused("sched.zeropod.run", found, expected, "leave it out"));
    }
    if let Some(real) = draft.real_pod {
        // The scheduler of a real pod is another process, which chooses its own kernel.
        return check_slots(draft, config, real.run > 0);
    }
    check_matcher(&config.sched_params.zeropod)?;
    check_pod(topology)?;
    check_described(draft, topology, fabric)?;
    check_switches(config, fabric)?;
    check_clocks(draft, config)?;
    check_cut_off(draft, tree)?;
    check_regular(draft)?;
    check_slots(draft, config, true)?;
    check_drift(draft, config)?;
    check_cores(config, fabric, topology)
}

/// There is such a matcher, and the processor runs the code that it is to run on.
///
/// # Errors
/// When that is not so.
pub fn check_matcher(params: &ZeropodParams) -> Result<(), InputError> {
    check_name(params)?;
    if pod_scheduler::kernel(params).is_some() {
        return Ok(());
    }
    let found = format!("`{}`, which this processor cannot run", params.kernel.show());
    let error = InputError::new(found, "auto, or what it can run");
    Err(error.at("sched.zeropod.kernel", 0, 0).help("leave it out"))
}

/// There is such a matcher.
fn check_name(params: &ZeropodParams) -> Result<(), InputError> {
    if pod_scheduler::matcher(params).is_some() {
        return Ok(());
    }
    let (name, all) = (params.matcher.show(), MatcherKind::NAMES);
    let error = InputError::new(format!("`{name}`"), format!("one of {}", all.join(", ")));
    Err(error.at("sched.zeropod.matcher", 0, 0).help(did_you_mean(&name, all)))
}

fn refused(key: &str, found: String, expected: String, help: &str) -> RunError {
    InputError::new(found, expected).at(key, 0, 0).help(help).into()
}

/// Pods whose links are all alike, no larger than cells can name.
fn check_pod(topology: &FatTreeSpec) -> Result<(), RunError> {
    if topology.schedulers == 0 {
        let expected = "a scheduler in each pod, with sched=zeropod";
        return wrong((None, "Schedulers"), "no scheduler".to_owned(), expected);
    }
    if topology.wan.is_some() {
        let found = format!("{} sites", topology.sites());
        return wrong((None, "Sites"), found, "pods of one site");
    }
    if topology.tiers == 3 && topology.dealt_cores.is_none() {
        let found = "groups of core switches".to_owned();
        return wrong((None, "Tiers"), found, "Cores, dealt out to all pods alike");
    }
    check_links(topology)?;
    check_counts(topology)
}

/// Refuses a number of the topology: a key of a tier, or of the header.
fn wrong(
    (tier, key): (Option<u8>, &'static str),
    found: String,
    expected: &str,
) -> Result<(), RunError> {
    let error = InputError::new(found, expected).help("correct it, or use zeropod:K, as zeropod:8");
    Err(RunError::at_topology(tier, key, error))
}

/// All links of a pod, and to its Cores, are alike, and switches take no time.
fn check_links(topology: &FatTreeSpec) -> Result<(), RunError> {
    let first = &topology.tier[0];
    for (number, tier) in (0..topology.tiers).zip(&topology.tier) {
        if tier.downlink_mbps != first.downlink_mbps {
            let found = format!("{} Gb/s in tier {number}", tier.downlink_gbps());
            let expected = format!("{}, as in tier 0: links of one speed", first.downlink_gbps());
            return wrong((Some(number), "Downlink_speed_Gbps"), found, &expected);
        }
        if tier.downlink_latency_ns != first.downlink_latency_ns {
            let found = format!("{} ns in tier {number}", tier.downlink_latency_ns);
            let same = first.downlink_latency_ns;
            let expected = format!("{same}, as in tier 0: links of one latency");
            return wrong((Some(number), "Downlink_Latency_ns"), found, &expected);
        }
        if tier.switch_latency_ns > 0 {
            let found = format!("{} ns of a switch in tier {number}", tier.switch_latency_ns);
            let expected = "0, and the latency of switches in that of links";
            return wrong((Some(number), "Switch_Latency_ns"), found, expected);
        }
    }
    let bundle = topology.tier[1].bundle;
    if bundle != 1 {
        let expected = "one link between two switches";
        return wrong((Some(1), "Bundle"), format!("{bundle} parallel links"), expected);
    }
    Ok(())
}

/// Pods, Cores and the parts of a pod are as many as cells can name.
fn check_counts(topology: &FatTreeSpec) -> Result<(), RunError> {
    let hosts_per_tor = topology.tier[0].radix_down;
    for (place, count, what) in [
        ((Some(0), "Radix_Down"), hosts_per_tor, "hosts of a ToR"),
        ((None, "Podsize"), topology.tors_per_pod(), "ToRs of a pod"),
        ((Some(0), "Radix_Up"), topology.aggs_per_pod(), "aggregation switches of a pod"),
    ] {
        if count > AGGS_MAX {
            return wrong(place, format!("{count} {what}"), &format!("at most {AGGS_MAX}"));
        }
    }
    if topology.tiers != 3 {
        return Ok(());
    }
    // A switch is taken for a ToR when what is below each of its ports is one host.
    if hosts_per_tor < 2 {
        let found = "1 host of a ToR".to_owned();
        return wrong((Some(0), "Radix_Down"), found, "at least 2 hosts of a ToR, with Cores");
    }
    let pods = topology.pods();
    if !(2..=PODS_MAX).contains(&pods) {
        let s = if pods == 1 { "" } else { "s" };
        let expected = format!("2 to {PODS_MAX} pods with Cores");
        return wrong((None, "Nodes"), format!("{pods} pod{s} with Cores"), &expected);
    }
    if topology.cores_per_group() > LAYERS_MAX {
        let found = format!("{} Cores of an aggregation switch", topology.cores_per_group());
        let expected = format!("at most {LAYERS_MAX} Cores of each");
        return wrong((Some(1), "Radix_Up"), found, &expected);
    }
    Ok(())
}

/// Some Core carries more than mice, and each has a slot and a buffer in which pauses can act.
fn check_cores(
    config: &Config,
    fabric: &FabricParams,
    topology: &FatTreeSpec,
) -> Result<(), RunError> {
    let params = &config.sched_params.zeropod;
    let cores = if topology.tiers == 3 { topology.cores() } else { 0 };
    let mice = u32::from(params.mice_cores);
    if mice > 0 && mice >= cores {
        let expected = format!("fewer than the Cores, {cores}");
        let help = "a Core for mice alone is one beside others: use zeropod:K,PODS,CORES";
        return Err(refused("sched.zeropod.mice_cores", mice.to_string(), expected, help));
    }
    if cores > 0 {
        check_core_buffer(config, fabric, topology.pods())?;
    }
    let layers = topology.cores_per_group();
    if u32::from(params.cells) + 1 < layers {
        let expected = format!("at least {}: a control slot for each Core", layers - 1);
        let help = "raise it, or use a topology with fewer Cores";
        return Err(refused("sched.zeropod.cells", params.cells.to_string(), expected, help));
    }
    Ok(())
}

/// A Core has room for the cells of one port, which leads to a pod, until a pause of this port
/// acts. Several full ports may need more.
fn check_core_buffer(config: &Config, fabric: &FabricParams, pods: u32) -> Result<(), RunError> {
    let params = &config.sched_params.zeropod;
    let host = Zeropod::new(&config.sched_setup(HostId(0), Rng::new(0)));
    let timing = host.timing();
    // A pause is in the next request; its last cells leave an epoch before those that its decision
    // is about, and they take three hops to the Core.
    let way = (timing.hop * 3).as_ps().div_ceil(timing.epoch.as_ps());
    let epochs = 1 + timing.request_to_data() + way;
    let late = u64::from(pods.saturating_sub(1)) * u64::from(params.cells) * epochs;
    let room = (u64::from(params.pause_cells) + late) * u64::from(fabric.mtu);
    if u64::from(params.core_buffer) >= room {
        return Ok(());
    }
    let pause = params.pause_cells;
    let expected = format!(
        "at least {room} bytes, room for {pause} cells (sched.zeropod.pause_cells) and for {late} \
         that arrive before a pause acts"
    );
    let found = format!("{} bytes", params.core_buffer);
    let help = "raise it, or lower sched.zeropod.pause_cells, .cells or .delay";
    Err(refused("sched.zeropod.core_buffer", found, expected, help))
}

/// Settings that describe the network have the values of this one.
fn check_described(
    draft: &Draft,
    topology: &FatTreeSpec,
    fabric: &FabricParams,
) -> Result<(), RunError> {
    let resolved = policy_keys::resolved(&Draft::default(), &facts::of(draft, topology, fabric));
    let resolved: BTreeMap<String, String> = resolved.into_iter().collect();
    for key in policy_keys::of_network("sched.zeropod.") {
        let expected = resolved.get(&key).cloned().or_else(|| keys::default_of(&key));
        let found = policy_keys::show(draft, &key);
        if let (Some(found), Some(expected)) = (found, expected)
            && found != expected
        {
            let expected = format!("{expected}, as the network has it");
            return Err(refused(&key, found, expected, "leave it out"));
        }
    }
    Ok(())
}

/// The value that `what` has to have, and why.
fn with(what: &str) -> String {
    format!("{what}, with sched=zeropod")
}

/// Hosts are those that slots need.
fn check_ends(draft: &Draft, config: &Config) -> Result<(), RunError> {
    let unfit = |key, found: String, expected: &str| {
        let help = match draft.origin(key) {
            Origin::Transport(_) => {
                "use --transport zeropod, whose preset has what fits".to_owned()
            }
            _ => format!("leave --{key} out"),
        };
        Err(refused(key, found, with(expected), &help))
    };
    if draft.trim {
        return unfit("trim", "`on`".to_owned(), "switches that do not trim");
    }
    if config.cc != CcKind::Fixed {
        let found = format!("`{}`", config.cc.name());
        return unfit("cc", found, "fixed, since hosts measure no round trip");
    }
    if config.lb != LbKind::Spray {
        let found = format!("`{}`", config.lb.name());
        return unfit("lb", found, "spray, since the scheduler chooses the way of each cell");
    }
    // A receiver reports incomplete blocks in control packets that have no slot.
    if config.ec != EcKind::Uncoded {
        let found = format!("`{}`", keys::show(draft, "ec").unwrap_or_default());
        return unfit("ec", found, "off, since reports of incomplete blocks have no slots");
    }
    Ok(())
}

/// Emulated switches and the lengths of cells in them are those that slots need.
fn check_switches(config: &Config, fabric: &FabricParams) -> Result<(), RunError> {
    if fabric.qdisc != QdiscKind::Bufferless {
        let found = format!("`{}`", fabric.qdisc.name());
        let help = "use --set switch.qdisc=bufferless";
        return Err(refused("switch.qdisc", found, with("bufferless"), help));
    }
    if !fabric.explicit {
        let help = "use --set switch.routing=explicit";
        return Err(refused("switch.routing", "`hash`".to_owned(), with("explicit"), help));
    }
    let sizes = &config.accounted;
    if sizes.data_overhead.is_none() || sizes.data_min != config.payload_max {
        let expected =
            with(&format!("{}, as mtu, since all cells are as long", config.payload_max));
        let found = format!("{} bytes", sizes.data_min);
        let help = "set wire.data_overhead, and wire.data_min as mtu";
        return Err(refused("wire.data_min", found, expected, help));
    }
    if sizes.control.is_none() {
        let expected = with("a number of bytes, since control slots are as long as this");
        let help = "leave it out, or write a number, as 40";
        return Err(refused("wire.control", "`headers`".to_owned(), expected, help));
    }
    Ok(())
}

/// Readings of clocks show the epoch.
fn check_clocks(draft: &Draft, config: &Config) -> Result<(), RunError> {
    let cells = config.line_rate.time_for(config.mtu()) * config.sched_params.zeropod.cells.into();
    let most = Duration::from_ps(cells.as_ps() / 4);
    let jitter = draft.clocks.jitter;
    if jitter > most {
        let expected = format!("at most {most}, a quarter of what the cells of an epoch take");
        let help = "lower it, or raise sched.zeropod.cells";
        return Err(refused("sched.zeropod.clock_jitter", jitter.to_string(), expected, help));
    }
    Ok(())
}

/// A host that an answer corrects by a step keeps the pod's time while its clock gains less than
/// that between two answers. Packets that meet since clocks are off a little may be answers: half
/// of these are left out of account.
fn check_drift(draft: &Draft, config: &Config) -> Result<(), RunError> {
    let host = Zeropod::new(&config.sched_setup(HostId(0), Rng::new(0)));
    let (timing, step) = (host.timing(), host.timing().clock_step());
    let between = timing.epoch * u64::from(config.sched_params.zeropod.ask_every);
    let most = (step.as_us_f64() / (2.0 * between.as_us_f64()) * 1e6).floor();
    if draft.clocks.drift_ppm <= most {
        return Ok(());
    }
    let found = format!("{} parts in a million", draft.clocks.drift_ppm);
    let expected = format!(
        "at most {most}: in {between}, the time between two answers, a clock may gain half of the \
         {step} by which an answer corrects it"
    );
    let help = match config.sched_params.zeropod.ask_every {
        1 => "lower it, or lower sched.zeropod.cells",
        _ => "lower it, or lower sched.zeropod.ask_every",
    };
    Err(refused("sched.zeropod.clock_drift", found, expected, help))
}

/// Hosts get the time only from the answers of their scheduler. The clock of a host that gets none
/// drifts away, and what the host sends afterwards meets what others send.
fn check_cut_off(draft: &Draft, tree: &FatTree) -> Result<(), RunError> {
    if draft.clocks == ClockSettings::EXACT {
        return Ok(());
    }
    let ways = ways_of_answers(tree);
    let cuts_off = |fault: &&FaultSpec| {
        fault.kind.losses_in_a_row().is_infinite() && is_on(fault, &ways, tree)
    };
    let Some(fault) = draft.faults.iter().find(cuts_off) else { return Ok(()) };
    let expected = "exact clocks, where a fault cuts hosts off from their scheduler";
    let help = "leave out sched.zeropod.clock_offset, clock_drift and clock_jitter, or the fault";
    Err(RunError::of_fault(fault, expected, help))
}

/// Switches without buffers rely on links that deliver each packet once and after the same time.
fn check_regular(draft: &Draft) -> Result<(), RunError> {
    use FaultKind::{Degrade, Duplicate, Reorder};
    let irregular =
        |fault: &&FaultSpec| matches!(fault.kind, Duplicate(_) | Reorder { .. } | Degrade(_));
    let Some(fault) = draft.faults.iter().find(irregular) else { return Ok(()) };
    let expected = "links that deliver each packet once, and all after the same time, with \
                    sched=zeropod";
    let help = "packets would meet in switches without buffers: leave the fault out, or compare \
                transports with losses and with links that are down";
    Err(RunError::of_fault(fault, expected, help))
}

/// A time to the picosecond, in nanoseconds, where both of two are alike in microseconds.
fn exact(time: Duration) -> String {
    format!("{}.{:03}ns", time.as_ps() / 1000, time.as_ps() % 1000)
}

/// Epochs until the host that sent a cell has the report of its arrival.
fn epochs_to_report(timing: &Timing) -> u64 {
    timing.to_receipt + timing.to_decision + timing.to_gather + 4
}

/// Reports of arrivals come before records of the cells are gone, and schedulers keep what they
/// decide.
fn check_receipts(draft: &Draft, config: &Config, timing: &Timing) -> Result<(), RunError> {
    let fits = |timing: &Timing| epochs_to_report(timing) <= RECEIPT_MAX && timing.lead <= LEAD_MAX;
    if fits(timing) {
        return Ok(());
    }
    let mut needed = remedies(draft);
    let fits_with = |changes: &[Remedy]| {
        let mut settings = (**config).clone();
        changes.iter().for_each(|change| (change.apply)(&mut settings.sched_params.zeropod));
        let config = Config::new(settings).ok();
        config.is_some_and(|config| {
            fits(Zeropod::new(&config.sched_setup(HostId(0), Rng::new(0))).timing())
        })
    };
    let (key, help) = if fits_with(&needed) {
        // What is left is needed: without any one of them the others do not help.
        for at in (0..needed.len()).rev() {
            let mut others = needed.clone();
            others.remove(at);
            if fits_with(&others) {
                needed = others;
            }
        }
        let more = needed.iter().skip(1).map(|more| format!(", and {} {}", more.verb, more.key));
        let first = needed.first().map_or(("topology", ""), |first| (first.key, first.verb));
        (first.0, format!("{} it{}", first.1, more.collect::<String>()))
    } else {
        ("topology", "use one whose links have less delay".to_owned())
    };
    let (taken, what, most) = match timing.lead > LEAD_MAX {
        true => (timing.lead, "from a decision to its cells", LEAD_MAX),
        false => (epochs_to_report(timing), "until an arrival is reported", RECEIPT_MAX),
    };
    let found = format!("epochs of {}, {taken} {what}", timing.epoch);
    Err(refused(key, found, format!("at most {most} epochs"), &help))
}

/// A change of a setting by which reports take fewer epochs: its key, what to do with it, and the
/// change as far as it goes.
#[derive(Clone, Copy)]
struct Remedy {
    key: &'static str,
    verb: &'static str,
    apply: fn(&mut ZeropodParams),
}

/// The changes of settings by which reports take fewer epochs, the one to prefer first.
fn remedies(draft: &Draft) -> Vec<Remedy> {
    let early = "sched.zeropod.early";
    // A world makes hosts early that are polled. In `nic` that is measured, and no setting.
    let (key, verb) = match () {
        () if draft.is_given(early) => (early, "lower"),
        () if draft.real_pod.is_none() => ("vdev.time_scale", "raise"),
        () => (early, "lower"),
    };
    vec![
        Remedy { key, verb, apply: |params| params.early = Duration::ZERO },
        Remedy {
            key: "sched.zeropod.ask_every",
            verb: "lower",
            apply: |params| params.ask_every = 1,
        },
        Remedy {
            key: "sched.zeropod.cells",
            verb: "raise",
            apply: |params| params.cells = CELLS_MAX,
        },
    ]
}

/// Every host has a slot, and answers come in time where it is known when.
fn check_slots(draft: &Draft, config: &Config, timed: bool) -> Result<(), RunError> {
    let host = Zeropod::new(&config.sched_setup(HostId(0), Rng::new(0)));
    let (timing, params) = (host.timing(), &config.sched_params.zeropod);
    let per_tor = params.per_tor;
    //= zeropod#IV-C
    if params.cells + 1 < per_tor {
        let expected = format!("at least {}: a control slot for each host of a ToR", per_tor - 1);
        let help = "raise it, or use a topology with fewer hosts a ToR";
        return Err(refused("sched.zeropod.cells", params.cells.to_string(), expected, help));
    }
    if timing.control * 2 >= timing.cell {
        let found = format!("{} a control cell", timing.control);
        let expected = format!("less than half of a data cell, {}", timing.cell);
        let help = "lower it, or raise mtu and wire.data_min";
        return Err(refused("wire.control", found, expected, help));
    }
    let busy = timing.epoch.saturating_sub(params.guard + timing.slot_guard);
    if params.guard >= busy {
        let expected = format!("less than the cells of an epoch take, {busy}");
        let help = "lower it, or raise sched.zeropod.cells";
        return Err(refused("sched.zeropod.guard", params.guard.to_string(), expected, help));
    }
    if !timed {
        return Ok(());
    }
    if params.run > 0 && !host.introduces_itself() {
        let found = format!("epochs of {}", timing.epoch);
        let expected = "cells that take half a microsecond an epoch, and sizes that a JOIN can say";
        let help = "raise sched.zeropod.cells or mtu";
        return Err(refused("sched.zeropod.cells", found, expected.to_owned(), help));
    }
    let longest = timing.epoch * (LEAD_MAX / 2);
    if params.delay < timing.epoch || params.delay > longest {
        let is_alike = params.delay.to_string() == timing.epoch.to_string();
        let shown = |time: Duration| if is_alike { exact(time) } else { time.to_string() };
        let expected = format!("{} (an epoch) to {longest}", shown(timing.epoch));
        let help = "one decision follows another every epoch";
        return Err(refused("sched.zeropod.delay", shown(params.delay), expected, help));
    }
    check_receipts(draft, config, timing)?;
    let opens = if params.layers() > 0 { timing.core_answers_at } else { timing.answers_at };
    let comes = timing.request_behind(per_tor - 1, true) + timing.control_flight;
    let by = timing.epoch * Stamp::BEHIND + opens;
    if params.follow && comes > by {
        let found = format!("epochs of {}, and {comes} until a request comes", timing.epoch);
        let expected = format!("at most {by}, so that an answer says how late a request was");
        let help = "raise sched.zeropod.cells, or leave out sched.zeropod.clock_*";
        return Err(refused("sched.zeropod.cells", found, expected, help));
    }
    debug_assert!(timing.epoch > Duration::ZERO);
    Ok(())
}

#[cfg(test)]
mod tests;
