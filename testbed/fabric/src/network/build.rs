//! A network from its blueprint: ports, programs, links, and how fine its time is.

use transport::{Bytes, Duration, Instant, Rng};

use crate::blueprint::Blueprint;
use crate::calendar::Calendar;
use crate::elements::{Node, PortId, PortSpec, SwitchSpec};
use crate::mesh::Mesh;
use crate::port::Port;
use crate::program::pfc::room;
use crate::program::{AnyProgram, LinkSpec, Program, ProgramSetup, Programmed};
use crate::qdisc::{AnyQdisc, QdiscParams};
use crate::routing::Switch;
use crate::stats::{PacketCounts, PortStats, QueueStats};
use crate::transit::{DRIVER, Far, NO_FAULT, PortState, Transit};
use crate::wiring::{Wiring, ways_to};

/// Slots of the calendar in a window: so many that the flights handed to a port are nearly in
/// order.
const SLOTS_A_WINDOW: u64 = 64;

/// The longest slot, picoseconds. Longer ones would leave many flights to sort.
const SLOT_MAX: u64 = 1 << 13;

/// The longest slot where windows are instants: the near level then just spans a link of 600 ns and
/// a switch.
const SLOT_OF_INSTANTS: u64 = 1 << 9;

/// The longest window, whatever the lookahead: the flights of a window should fit the caches.
const WINDOW_MAX: Duration = Duration::from_ps(1 << 22);

/// Checks that `blueprint` names only ports and switches that it has.
pub(super) fn check(blueprint: &Blueprint) {
    let Blueprint { hosts, ports, switches, programs, .. } = blueprint;
    assert!(ports.len() >= *hosts as usize, "each host has a NIC");
    assert!(u32::try_from(ports.len()).is_ok_and(|ports| ports < NO_FAULT));
    let exists = |switch: u32| (switch as usize) < switches.len();
    assert!(ports.iter().all(|port| match port.to {
        Node::Host(host) => host < *hosts,
        Node::Switch(switch) => exists(switch),
    }));
    assert!(programs.keys().all(|switch| exists(*switch)));
    assert!(switches.iter().all(|spec| spec.child_hosts > 0 && spec.bundle > 0));
}

/// The ports of `blueprint`, idle.
pub(super) fn ports(blueprint: &Blueprint, wiring: &Wiring, rng: &Rng) -> Vec<PortState> {
    let room = room(&blueprint.ports, blueprint.switches.len());
    let port = |(number, spec): (u32, &PortSpec)| {
        let params = match spec.owner {
            Node::Switch(switch) if spec.qdisc.needs_pauses() => {
                QdiscParams { data_limit: room[switch as usize], ..spec.params }
            }
            _ => spec.params,
        };
        let to = match spec.to {
            _ if blueprint.outward.contains(&PortId(number)) => DRIVER,
            Node::Host(host) => Far::Host(host),
            Node::Switch(switch) if blueprint.programs.contains_key(&switch) => {
                Far::Programmed(wiring.target[wiring.back[number as usize] as usize])
            }
            Node::Switch(switch) if blueprint.explicit => Far::Named(switch),
            Node::Switch(switch) => Far::Plain(switch),
        };
        let qdisc = AnyQdisc::new(spec.qdisc, &blueprint.qdiscs, &params, spec.rate);
        let port = Port::new(spec.rate, spec.delay, qdisc);
        PortState {
            port: if matches!(to, Far::Host(_)) { port.to_end() } else { port },
            number,
            to,
            fault: NO_FAULT,
            measured: number >= blueprint.hosts,
            stamps: spec.stamps,
            wake_at: Instant::FAR_FUTURE,
            stats: PortStats::default(),
            rng: rng.fork("port", u64::from(number)),
        }
    };
    (0..).zip(&blueprint.ports).map(port).collect()
}

/// The programs of the switches of `blueprint`, and the links as programs need them.
pub(super) fn programs(blueprint: &Blueprint, rng: &Rng) -> (Vec<Programmed>, Wiring) {
    if blueprint.programs.is_empty() {
        return (Vec::new(), Wiring::default());
    }
    let specs = &blueprint.ports;
    let programmed: Vec<u32> = blueprint.programs.keys().copied().collect();
    let wiring = Wiring::new(specs, &programmed);
    let made = (specs.len()..).zip(&blueprint.programs).map(|(target, (switch, kind))| {
        let ports = blueprint.switches[*switch as usize].ports();
        let link = |number: u32| LinkSpec {
            port: specs[number as usize],
            back: specs[wiring.back[number as usize] as usize],
        };
        let others = blueprint.switches_with(*kind).filter(|other| other != switch);
        let setup = ProgramSetup {
            address: blueprint.address_of(*switch),
            peers: &others.map(|other| blueprint.address_of(other)).collect::<Vec<_>>(),
            first_port: PortId(ports.start),
            links: &ports.clone().map(link).collect::<Vec<_>>(),
            switches: &blueprint.switches,
            sched: &blueprint.sched,
            outages: blueprint.outages.get(switch).map_or(&[], Vec::as_slice),
            rng: &rng.fork("program", u64::from(*switch)),
        };
        let target = u32::try_from(target).unwrap_or(u32::MAX);
        let program = AnyProgram::new(*kind, &blueprint.program_settings, &setup);
        Programmed::new(*switch, target, ports, program)
    });
    let made = made.collect();
    (made, wiring)
}

/// The links of `blueprint` with nothing on them.
pub(super) fn links(
    blueprint: &Blueprint,
    programs: &[Programmed],
    lookahead: Duration,
    rng: &Rng,
) -> Transit {
    let Blueprint { hosts, ports, switches, detection_delay, .. } = blueprint;
    let switch = |(index, spec): (u64, &SwitchSpec)| {
        Switch::new(*spec, rng.fork("switch", index).next_u32())
    };
    let mut ways = vec![None; switches.len()];
    for end in programs.iter().filter(|programmed| programmed.program.is_end()) {
        ways[end.switch as usize] = Some(ways_to(ports, switches.len(), end.switch));
    }
    let paused_since = if programs.is_empty() { 0 } else { ports.len() };
    let mesh = Mesh::new(&blueprint.borders, ports, switches).map(Box::new);
    Transit {
        calendar: Calendar::new(slot(lookahead).ilog2()),
        crossings: None,
        switches: (0..).zip(switches).map(switch).collect(),
        plainly_routed: if mesh.is_some() { 0 } else { *hosts },
        mesh,
        hosts: *hosts,
        ways,
        paused_since: vec![Instant::ZERO; paused_since],
        pauses: None,
        notes_steps: false,
        faults: Vec::new(),
        fault_of: vec![NO_FAULT; ports.len()],
        detection: *detection_delay,
        counts: PacketCounts::default(),
        queue_stats: QueueStats::new(),
    }
}

/// The least time that a packet takes over the quickest link: a byte, and the delay.
pub(super) fn lookahead(blueprint: &Blueprint) -> Duration {
    let shortest = |spec: &PortSpec| spec.rate.time_for(Bytes(1)) + spec.delay;
    let least = blueprint.ports.iter().map(shortest).min().unwrap_or(WINDOW_MAX);
    let least = least.min(WINDOW_MAX);
    let slot = slot(least);
    Duration::from_ps(least.as_ps() / slot * slot)
}

/// A calendar for windows of one instant: shorter slots leave less to look through for each.
pub(super) fn calendar_of_instants(lookahead: Duration) -> Calendar {
    Calendar::new(slot(lookahead).min(SLOT_OF_INSTANTS).ilog2())
}

/// The slot of a calendar for windows of `lookahead`, a power of two picoseconds.
fn slot(lookahead: Duration) -> u64 {
    let slot = (lookahead.as_ps() / SLOTS_A_WINDOW).clamp(1, SLOT_MAX);
    1 << slot.ilog2()
}
