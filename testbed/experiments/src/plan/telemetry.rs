//! Telemetry (INT): which switches write it, and whether it can arrive where it is read.
//!
//! A packet has room for a fixed number of hops, which its sender reserves. What a path adds beyond
//! that is missing, and a controller ignores such packets: a plan in which that would happen on
//! some path is refused, unless it asks for it.

use fabric::{Blueprint, PortId, PortSpec, ProgramKind};
use transport::cc::CcKind;
use transport::lb::LbKind;
use transport::wire::int::{HOPS_MAX, Hop};
use transport::{Config, Settings};

use super::{Draft, Origin, RunError, Stamping};
use crate::input::InputError;
use crate::scenario::fault::{FaultKind, FaultSpec};
use crate::topology::programs::Switches;
use crate::topology::{FatTree, FatTreeSpec};
use crate::workload::Matrix;
use crate::workload::matrix::SwitchTier;

/// Raises the room for telemetry that a preset chose, because a preset is made for its paper's
/// networks. The room becomes the hops of the longest path of `matrix` whose flows read telemetry,
/// as far as packets have room for as many.
pub(super) fn fit(
    draft: &mut Draft,
    matrix: &Matrix,
    topology: &FatTreeSpec,
) -> Result<(), RunError> {
    let is_preset =
        matches!(draft.origin("switch.int_room"), Origin::Transport(_) | Origin::Topology);
    if !is_preset || draft.int_cut || !draft.settings.has_int() {
        return Ok(());
    }
    let settings = &draft.settings;
    let far = settings.far.cc.unwrap_or(settings.cc);
    let cc_at = |top| if crosses(topology, top) { far } else { settings.cc };
    let longest = longest(draft, matrix, topology, cc_at);
    let room = u8::try_from((longest as usize).min(HOPS_MAX)).unwrap_or(u8::MAX);
    if room > draft.settings.int_room {
        draft.set("switch.int_room", &room.to_string(), Origin::Topology)?;
    }
    Ok(())
}

/// Has the ports of the switches that `draft` names write telemetry.
pub(super) fn stamp(
    draft: &Draft,
    tree: &FatTree,
    blueprint: &mut Blueprint,
) -> Result<(), RunError> {
    let named = match &draft.stamping {
        Stamping::Auto if draft.settings.has_int() => &[Switches::All][..],
        Stamping::Auto | Stamping::Off => &[],
        Stamping::At(named) => named,
    };
    for switches in named {
        let all = tree.switches(switches).map_err(|error| {
            let help = "see the tiers with `headrace list topologies`";
            let found = format!("`{}`: {error}", draft.stamping);
            InputError::new(found, "switches of this network").at("switch.int", 0, 0).help(help)
        })?;
        all.for_each(|switch| blueprint.stamp(switch));
    }
    check_rate(blueprint.ports.iter(), 1.0, || "a link".to_owned())
}

/// Refuses a fault that leaves a link whose port writes telemetry less than telemetry can say.
pub(super) fn check_degraded(
    fault: &FaultSpec,
    ports: &[PortId],
    blueprint: &Blueprint,
) -> Result<(), RunError> {
    let FaultKind::Degrade(share) = fault.kind else { return Ok(()) };
    let ports = ports.iter().filter_map(|port| blueprint.ports.get(port.0 as usize));
    check_rate(ports, share, || format!("`{fault}`, a link"))
}

/// Refuses `ports` that write telemetry and that send, at `share` of their rate, more slowly than
/// telemetry can say. A controller would see such a link as faster than it is, and fill it.
fn check_rate<'a>(
    ports: impl Iterator<Item = &'a PortSpec>,
    share: f64,
    link: impl FnOnce() -> String,
) -> Result<(), RunError> {
    let rates = ports.filter(|port| port.stamps).map(|port| port.rate.as_gbps_f64() * share);
    let slowest = rates.fold(f64::INFINITY, f64::min);
    let least = Hop::RATE_LEAST.as_gbps_f64();
    if slowest >= least {
        return Ok(());
    }
    let found = format!("{} of {slowest} Gb/s, whose port writes telemetry", link());
    let expected = format!("at least {least} Gb/s, the least rate that telemetry can say");
    let help = "make it faster, or choose a controller that reads no telemetry";
    Err(refused("switch.int", found, expected, help))
}

/// Refuses a run whose controllers would wait for telemetry that never comes. `cc_at` gives the
/// controller of flows by the tier at which their path turns.
pub(super) fn check(
    draft: &Draft,
    config: &Config,
    matrix: &Matrix,
    (topology, cc_at): (&FatTreeSpec, impl Fn(u8) -> CcKind),
) -> Result<(), RunError> {
    let far = (config.far.cc.unwrap_or(config.cc), config.far.lb.unwrap_or(config.lb));
    for ((cc, lb), key) in [((config.cc, config.lb), "lb"), (far, "far.lb")] {
        if cc.reads_int(&config.cc_params) {
            check_written(draft, config, cc)?;
            check_balancer(cc, lb, key)?;
        }
    }
    check_room(draft, config, matrix, (topology, cc_at))
}

fn refused(key: &str, found: String, expected: String, help: &str) -> RunError {
    InputError::new(found, expected).at(key, 0, 0).help(help).into()
}

fn check_written(draft: &Draft, config: &Config, reader: CcKind) -> Result<(), RunError> {
    let expected = format!("telemetry, which {} reads", reader.name());
    if draft.stamping == Stamping::Off {
        let help = "leave switch.int out, or choose another controller with --cc";
        return Err(refused("switch.int", "`off`".to_owned(), expected, help));
    }
    if config.int_room == 0 {
        let help = "add --set switch.int_room=8, or choose another controller with --cc";
        return Err(refused("switch.int_room", "no room".to_owned(), expected, help));
    }
    Ok(())
}

/// Hops of different paths cannot be compared, so a balancer that changes the path of each packet
/// leaves a controller without a measurement.
fn check_balancer(cc: CcKind, lb: LbKind, key: &str) -> Result<(), RunError> {
    if lb.keeps_path() {
        return Ok(());
    }
    let found = format!("balancer `{}`, which changes the path of each packet", lb.name());
    let expected = format!("one path at a time: {} compares hops", cc.name());
    let help = if key == "lb" { "use --lb ecmp or --lb plb" } else { "use --set far.lb=ecmp" };
    Err(refused(key, found, expected, help))
}

/// No path of the matrix has more switches that write telemetry than packets have room for.
fn check_room(
    draft: &Draft,
    config: &Config,
    matrix: &Matrix,
    (topology, cc_at): (&FatTreeSpec, impl Fn(u8) -> CcKind),
) -> Result<(), RunError> {
    if !config.has_int() || draft.int_cut {
        return Ok(());
    }
    let longest = longest(draft, matrix, topology, cc_at);
    let room = u32::from(config.int_room);
    if longest <= room {
        return Ok(());
    }
    let found = format!("room for {room} hops");
    let expected = format!("room for {longest}, which switches write on the longest path");
    let help = format!("raise it with --set switch.int_room={longest}");
    let help =
        help + ", or run it all the same, with packets ignored, with --set switch.int_cut=on";
    Err(refused("switch.int_room", found, expected, &help))
}

/// Hops that packets of `matrix` collect at most on paths of flows whose controller reads them, and
/// on all paths where packets of all flows have room.
fn longest(
    draft: &Draft,
    matrix: &Matrix,
    topology: &FatTreeSpec,
    cc_at: impl Fn(u8) -> CcKind,
) -> u32 {
    let Settings { int_always, cc_params, .. } = &draft.settings;
    let tops = matrix.flows.iter().map(|flow| topology.meeting_tier(flow.src, flow.dst));
    let read = tops.filter(|top| *int_always || cc_at(*top).reads_int(cc_params));
    read.map(|top| hops(draft, topology, top)).max().unwrap_or(0)
}

/// Whether a path that turns at tier `top` leads to another site.
fn crosses(topology: &FatTreeSpec, top: u8) -> bool {
    topology.wan.is_some() && top == topology.tiers
}

/// Hops that a packet collects at most on a path that turns at tier `top`.
fn hops(draft: &Draft, topology: &FatTreeSpec, top: u8) -> u32 {
    hops_where(draft, topology, top, Switches::may_hold)
}

/// Hops that a packet has at least when it arrives over a path that turns at tier `top`.
pub(super) fn hops_least(draft: &Draft, topology: &FatTreeSpec, top: u8) -> u32 {
    hops_where(draft, topology, top, Switches::holds_all).min(hops(draft, topology, top))
}

/// Hops that a packet collects where the switches `named` are those of which `holds` says so.
fn hops_where(
    draft: &Draft,
    topology: &FatTreeSpec,
    top: u8,
    holds: impl Fn(&Switches, Option<SwitchTier>) -> bool,
) -> u32 {
    let writes = |tier: u8| match &draft.stamping {
        Stamping::Auto => draft.settings.has_int(),
        Stamping::Off => false,
        Stamping::At(named) => {
            named.iter().any(|switches| holds(switches, tier_named(topology, tier)))
        }
    };
    let crosses = crosses(topology, top);
    let climb = (0..top).filter(|tier| writes(*tier)).count();
    let at_top = usize::from(writes(top)) * if crosses { 2 } else { 1 };
    let has_border = |spec: &crate::topology::programs::ProgramSpec| {
        spec.program == ProgramKind::Dci && spec.switches.may_hold(Some(SwitchTier::Border))
    };
    let all = if crosses && draft.programs.iter().any(has_border) {
        // Border switches take telemetry out, and write a hop of the flow's queue.
        climb + usize::from(writes(top)) + 1
    } else {
        2 * climb + at_top
    };
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// The name of the tier `tier` of a network; `None` when it has none.
fn tier_named(topology: &FatTreeSpec, tier: u8) -> Option<SwitchTier> {
    if topology.wan.is_some() && tier == topology.tiers {
        return Some(SwitchTier::Border);
    }
    [SwitchTier::Tor, SwitchTier::Agg, SwitchTier::Core].get(usize::from(tier)).copied()
}
