//! A network of ports, switches and links that a driver feeds and runs "until now".
//!
//! Time goes in windows no longer than the lookahead, the least time a packet spends on a link:
//! whatever arrives within a window left its origin before the window began, so within it no port
//! affects another. Each port is handed the arrivals of a window at once, in the order (arrival,
//! origin, departure), and before each it runs the departures due by then; at the end of the window
//! those due by then. That is all: there is no event for a link that becomes free. So a run is a
//! function of what was injected and of the seed, never of the order in which things were handed
//! over nor of how time was cut into windows. How packets move is in `transit`.
//!
//! Nothing is allocated once queues and buffers have reached their largest size. Time is the
//! driver's: this file has no clock.

use transport::stats::{DropCounts, DropReason};
use transport::{Bytes, Duration, HostId, Instant, Rng};

use super::audit::Audit;
use super::blueprint::{Blueprint, Node, PortSpec};
use super::calendar::Calendar;
use super::fault::{FaultError, FaultKind, FaultSpec, LinkFaults};
use super::packet::Packet;
use super::port::Port;
use super::qdisc::{AnyQdisc, Backlog};
use super::routing::Switch;
use super::stats::{PortStats, QueueStats};
use super::window::Window;

/// A port by its index in the blueprint; the NIC of host `h` is port `h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortId(pub u32);

/// What a network tells its driver. Every packet ends exactly once, delivered or dropped, and each
/// second copy that `Duplicated` announces ends once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A packet is at its destination.
    Delivered {
        /// The destination.
        host: HostId,
        /// The packet, with what the network did to it in its flags and length.
        packet: Packet,
        /// When its last bit was there.
        at: Instant,
    },
    /// A packet is lost.
    Dropped {
        /// The packet as it was then.
        packet: Packet,
        /// Why.
        reason: DropReason,
        /// When.
        at: Instant,
    },
    /// From now on two packets with this handle travel; each will end.
    Duplicated {
        /// The packet.
        packet: Packet,
        /// When.
        at: Instant,
    },
}

/// A running network. Memory: about 350 bytes a port, plus 16 bytes a packet queued and, a packet on
/// a link, 32 and at most twice 32 while its window is at work, at their peaks.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) ports: Vec<PortState>,
    pub(super) switches: Vec<Switch>,
    pub(super) faults: Vec<LinkFaults>,
    /// What is on links, and which ports have to be looked at.
    pub(super) calendar: Calendar,
    /// What is at work now.
    pub(super) window: Window,
    /// No window may be longer.
    lookahead: Duration,
    /// Everything before it and at it has been processed.
    pub(super) now: Instant,
    pub(super) counts: Counts,
    pub(super) queue_stats: QueueStats,
    pub(super) blueprint: Blueprint,
    fault_rng: Rng,
}

/// A port with all that the network keeps for it.
#[derive(Clone, Debug)]
pub(super) struct PortState {
    pub(super) port: Port<AnyQdisc>,
    /// Where its link ends.
    pub(super) to: Node,
    /// Index into `faults`, or [`NO_FAULT`].
    pub(super) fault: u32,
    /// The earliest wake-up in the calendar that is for this port; [`Instant::FAR_FUTURE`] without
    /// one.
    pub(super) wake_at: Instant,
    /// All but `hops` and `bytes`, which the port counts.
    pub(super) stats: PortStats,
    /// The marks of each port are drawn from a stream of its own.
    pub(super) rng: Rng,
}

pub(super) const NO_FAULT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) hops: u64,
    pub(super) injected: u64,
    pub(super) duplicated: u64,
    pub(super) delivered: u64,
    pub(super) on_wire: u64,
    pub(super) dropped: DropCounts,
}

/// Slots of the calendar in a window: enough that what a port is handed is nearly in order.
const SLOTS_A_WINDOW: u64 = 64;

/// The longest slot, picoseconds. Longer ones would leave much to sort.
const SLOT_MAX: u64 = 1 << 13;

/// The longest window, whatever the lookahead: what is at work should fit the caches.
const WINDOW_MAX: Duration = Duration::from_ps(1 << 22);

impl Network {
    /// An idle network at time zero; `rng` names its chance.
    ///
    /// # Panics
    /// When the blueprint names ports or switches it does not have: a bug of a topology.
    #[must_use]
    pub fn new(blueprint: Blueprint, rng: &Rng) -> Self {
        let specs = &blueprint.ports;
        assert!(specs.len() >= blueprint.hosts as usize, "each host has a NIC");
        assert!(u32::try_from(specs.len()).is_ok_and(|ports| ports < NO_FAULT));
        let switches = (0..).zip(&blueprint.switches).map(|(index, spec)| {
            assert!(spec.child_hosts > 0 && spec.bundle > 0, "switch {index}");
            Switch::new(*spec, rng.fork("switch", index).next_u32())
        });
        let port = |(index, spec): (u64, &PortSpec)| {
            let hosts = blueprint.hosts;
            assert!(match spec.to {
                Node::Host(host) => host < hosts,
                Node::Switch(switch) => (switch as usize) < blueprint.switches.len(),
            });
            PortState {
                port: Port::new(spec.rate, spec.delay, spec.qdisc.build(&spec.params)),
                to: spec.to,
                fault: NO_FAULT,
                wake_at: Instant::FAR_FUTURE,
                stats: PortStats::default(),
                rng: rng.fork("port", index),
            }
        };
        let lookahead = lookahead(&blueprint);
        Self {
            ports: (0..).zip(specs).map(port).collect(),
            switches: switches.collect(),
            faults: Vec::new(),
            calendar: Calendar::new(slot(lookahead).ilog2()),
            window: Window::new(specs.len()),
            lookahead,
            now: Instant::ZERO,
            counts: Counts::default(),
            queue_stats: QueueStats::new(),
            fault_rng: rng.fork("fault", 0),
            blueprint,
        }
    }

    /// The longest a window may be: what a packet takes over the quickest link at least, in whole
    /// slots of the calendar, and no more than is good for the caches.
    #[must_use]
    pub const fn lookahead(&self) -> Duration {
        self.lookahead
    }

    /// Adds a fault to the links that `ports` transmit on. It acts on transmissions that start from
    /// now on; packets on links have their next port already.
    ///
    /// # Errors
    /// When the fault makes no sense; nothing is added then. Ports that do not exist are skipped.
    pub fn add_fault(&mut self, ports: &[PortId], spec: FaultSpec) -> Result<(), FaultError> {
        spec.check()?;
        let detection = self.blueprint.detection_delay;
        for PortId(port) in ports {
            let Some(state) = self.ports.get_mut(*port as usize) else { continue };
            let blueprint = &self.blueprint.ports[*port as usize];
            if state.fault == NO_FAULT {
                state.fault = u32::try_from(self.faults.len()).unwrap_or(NO_FAULT);
                let rng = self.fault_rng.fork("link", u64::from(*port));
                self.faults.push(LinkFaults::new(blueprint.rate, rng));
            }
            let faults = &mut self.faults[state.fault as usize];
            faults.add(spec);
            if let (Node::Switch(owner), FaultKind::Down) = (blueprint.owner, spec.kind) {
                for (from, until) in faults.outages(detection) {
                    self.switches[owner as usize].widen_outage(from, until);
                }
            }
        }
        Ok(())
    }

    /// Everything before this instant and at it has been processed.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Hosts.
    #[must_use]
    pub const fn hosts(&self) -> u32 {
        self.blueprint.hosts
    }

    /// What it was built from.
    #[must_use]
    pub const fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// What waits at the NIC of `host`, without the packet being sent; nothing for a host that does
    /// not exist.
    #[must_use]
    pub fn nic_backlog(&self, host: HostId) -> Backlog {
        if host.0 < self.blueprint.hosts {
            self.backlog(PortId(host.0))
        } else {
            Backlog::default()
        }
    }

    /// What waits at `port`; nothing at one that does not exist.
    #[must_use]
    pub fn backlog(&self, port: PortId) -> Backlog {
        self.ports.get(port.0 as usize).map(|state| state.port.backlog()).unwrap_or_default()
    }

    /// The counters of each port, in the order of the blueprint.
    pub fn port_stats(&self) -> impl Iterator<Item = PortStats> + '_ {
        self.ports.iter().map(|state| {
            let (hops, bytes) = state.port.sent();
            PortStats { hops, bytes, ..state.stats }
        })
    }

    /// The counters of all ports together; the peak is that of switch ports.
    #[must_use]
    pub fn totals(&self) -> PortStats {
        let mut totals = PortStats::default();
        self.port_stats().for_each(|port| totals.merge(&port));
        totals.dropped = self.counts.dropped.total();
        totals
    }

    /// Hops so far: packets put on links. O(1).
    #[must_use]
    pub const fn hops(&self) -> u64 {
        self.counts.hops
    }

    /// How long the data queues of switch ports were.
    #[must_use]
    pub const fn queue_stats(&self) -> &QueueStats {
        &self.queue_stats
    }

    /// Where all packets are now. O(ports).
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit {
            injected: self.counts.injected,
            duplicated: self.counts.duplicated,
            delivered: self.counts.delivered,
            dropped: self.counts.dropped,
            in_queues: self.ports.iter().map(|state| state.port.waiting() as u64).sum(),
            on_wire: self.counts.on_wire,
        }
    }
}

/// How long a packet takes over the quickest link at least: a byte, and the delay.
fn lookahead(blueprint: &Blueprint) -> Duration {
    let shortest = |spec: &PortSpec| spec.rate.time_for(Bytes(1)) + spec.delay;
    let least = blueprint.ports.iter().map(shortest).min().unwrap_or(WINDOW_MAX);
    let least = least.min(WINDOW_MAX);
    let slot = slot(least);
    Duration::from_ps(least.as_ps() / slot * slot)
}

/// The slot of a calendar for windows of `lookahead`, a power of two picoseconds.
fn slot(lookahead: Duration) -> u64 {
    let slot = (lookahead.as_ps() / SLOTS_A_WINDOW).clamp(1, SLOT_MAX);
    1 << slot.ilog2()
}

#[cfg(test)]
mod tests;
