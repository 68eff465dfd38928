//! A network of ports, switches and links that a driver feeds and runs "until now".
//!
//! Two kinds of events: a packet arrives at the far end of a link, and a link becomes free. Within
//! one instant, links that become free come first, by port; then arrivals, by the port they came
//! from and its sequence. So a run is a function of what was injected and of the seed, never of the
//! order in which events were inserted. Nothing is allocated once queues and buffers have reached
//! their largest size. Time is the driver's: this file has no clock.

use std::hint::black_box;

use transport::{HostId, Instant, Rng};

use super::audit::Audit;
use super::blueprint::{Blueprint, Node, PortSpec};
use super::event_queue::{EventQueue, Key};
use super::fault::{FaultError, FaultKind, FaultSpec, LinkFaults};
use super::packet::{Flags, Packet};
use super::port::Port;
use super::qdisc::{AnyQdisc, Backlog, Departure, Verdict};
use super::routing::Switch;
use super::stats::{PortStats, QueueStats};
use transport::stats::{DropCounts, DropReason};

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
    /// A packet that had to wait has left the queue of a host's NIC: there is room for another.
    NicRoom {
        /// Whose NIC.
        host: HostId,
        /// When its transmission started.
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

/// A running network. Memory: about 350 bytes a port, plus 24 bytes a packet queued and 32 a packet
/// on a link, at their peaks.
#[derive(Clone, Debug)]
pub struct Network {
    ports: Vec<Port<AnyQdisc>>,
    wires: Vec<Wire>,
    switches: Vec<Switch>,
    /// The marks of each port are drawn from a stream of its own.
    rngs: Vec<Rng>,
    /// All but `hops` and `bytes`, which the ports count.
    stats: Vec<PortStats>,
    faults: Vec<LinkFaults>,
    wakes: EventQueue<Wake>,
    arrivals: EventQueue<Arrival>,
    wake_batch: Vec<Wake>,
    arrival_batch: Vec<Arrival>,
    targets: Vec<Target>,
    /// Everything before it and at it has been processed.
    now: Instant,
    counts: Counts,
    queue_stats: QueueStats,
    blueprint: Blueprint,
    fault_rng: Rng,
}

/// What a departure needs to know about a port's link.
#[derive(Clone, Copy, Debug)]
struct Wire {
    to: Node,
    /// Index into `faults`, or [`NO_FAULT`].
    fault: u32,
    /// Sequence of the next packet on it; wraps, only neighbours are compared.
    next_seq: u32,
}

const NO_FAULT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Wake(u32);

#[derive(Clone, Copy, Debug)]
struct Arrival {
    packet: Packet,
    /// The port it came from.
    origin: u32,
    seq: u32,
}

const _: () = assert!(size_of::<Arrival>() == 24, "32 bytes with its time: two to a cache line");

/// Where an arrival goes next.
#[derive(Clone, Copy, Debug)]
enum Target {
    Port(u32),
    Host(u32),
    Nowhere,
}

/// How many events ahead a port is touched.
const AHEAD: usize = 6;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hops: u64,
    injected: u64,
    duplicated: u64,
    delivered: u64,
    dropped: DropCounts,
}

impl Key for Wake {
    fn key(&self) -> u64 {
        u64::from(self.0)
    }
}

impl Key for Arrival {
    fn key(&self) -> u64 {
        u64::from(self.origin) << 32 | u64::from(self.seq)
    }
}

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
        let wire = |spec: &PortSpec| {
            let hosts = blueprint.hosts;
            assert!(match spec.to {
                Node::Host(host) => host < hosts,
                Node::Switch(switch) => (switch as usize) < blueprint.switches.len(),
            });
            Wire { to: spec.to, fault: NO_FAULT, next_seq: 0 }
        };
        Self {
            ports: specs
                .iter()
                .map(|spec| Port::new(spec.rate, spec.delay, spec.qdisc.build(&spec.params)))
                .collect(),
            wires: specs.iter().map(wire).collect(),
            switches: switches.collect(),
            rngs: (0..).zip(specs).map(|(index, _)| rng.fork("port", index)).collect(),
            stats: vec![PortStats::default(); specs.len()],
            faults: Vec::new(),
            wakes: EventQueue::new(),
            arrivals: EventQueue::new(),
            wake_batch: Vec::new(),
            arrival_batch: Vec::new(),
            targets: Vec::new(),
            now: Instant::ZERO,
            counts: Counts::default(),
            queue_stats: QueueStats::new(),
            fault_rng: rng.fork("fault", 0),
            blueprint,
        }
    }

    /// Adds a fault to the links that `ports` transmit on. It acts on transmissions that start from
    /// now on.
    ///
    /// # Errors
    /// When the fault makes no sense; nothing is added then. Ports that do not exist are skipped.
    pub fn add_fault(&mut self, ports: &[PortId], spec: FaultSpec) -> Result<(), FaultError> {
        spec.check()?;
        let detection = self.blueprint.detection_delay;
        for PortId(port) in ports {
            let Some(wire) = self.wires.get_mut(*port as usize) else { continue };
            let blueprint = &self.blueprint.ports[*port as usize];
            if wire.fault == NO_FAULT {
                wire.fault = u32::try_from(self.faults.len()).unwrap_or(NO_FAULT);
                let rng = self.fault_rng.fork("link", u64::from(*port));
                self.faults.push(LinkFaults::new(blueprint.rate, rng));
            }
            let faults = &mut self.faults[wire.fault as usize];
            faults.add(spec);
            if let (Node::Switch(owner), FaultKind::Down) = (blueprint.owner, spec.kind) {
                for (from, until) in faults.outages(detection) {
                    self.switches[owner as usize].widen_outage(from, until);
                }
            }
        }
        Ok(())
    }

    /// Hands `packet` to the NIC of `host` at `at`; an instant before the one already run to counts
    /// as that one. What happens at once (a departure, a drop) is pushed to `out`.
    #[inline]
    pub fn inject(&mut self, host: HostId, packet: Packet, at: Instant, out: &mut Vec<Output>) {
        let at = at.max(self.now);
        self.counts.injected += 1;
        let hosts = self.blueprint.hosts;
        if host.0 >= hosts || packet.dst.0 >= hosts {
            self.lose(None, packet, DropReason::NoRoute, at, out);
        } else if packet.len == 0 {
            self.lose(None, packet, DropReason::Malformed, at, out);
        } else {
            self.offer(host.0, packet, at, out);
        }
    }

    /// The instant of the next event; `None` when nothing is on its way.
    #[inline]
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        match (self.wakes.peek_time(), self.arrivals.peek_time()) {
            (Some(wake), Some(arrival)) => Some(wake.min(arrival)),
            (one, None) | (None, one) => one,
        }
    }

    /// Processes all events of the next instant and says which it was; `None` when there is none.
    #[inline]
    pub fn step(&mut self, out: &mut Vec<Output>) -> Option<Instant> {
        let at = self.next_event_at()?;
        self.process(at, out);
        Some(at)
    }

    /// Processes events before `limit`, instant by instant, until one says something; which that
    /// was, or `None` when nothing is left before `limit`.
    pub fn run_to_output(&mut self, limit: Instant, out: &mut Vec<Output>) -> Option<Instant> {
        while let Some(at) = self.next_event_at().filter(|at| *at < limit) {
            self.process(at, out);
            if !out.is_empty() {
                return Some(at);
            }
        }
        None
    }

    /// Processes all events up to and at `now`.
    pub fn run_until(&mut self, now: Instant, out: &mut Vec<Output>) {
        while let Some(at) = self.next_event_at().filter(|at| *at <= now) {
            self.process(at, out);
        }
        self.now = self.now.max(now);
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
        self.ports.get(port.0 as usize).map(Port::backlog).unwrap_or_default()
    }

    /// The counters of each port, in the order of the blueprint.
    pub fn port_stats(&self) -> impl Iterator<Item = PortStats> + '_ {
        self.ports.iter().zip(&self.stats).map(|(port, stats)| {
            let (hops, bytes) = port.sent();
            PortStats { hops, bytes, ..*stats }
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
            in_queues: self.ports.iter().map(|port| port.backlog().packets as u64).sum(),
            on_wire: self.arrivals.len() as u64,
        }
    }

    fn process(&mut self, at: Instant, out: &mut Vec<Output>) {
        self.now = at;
        // What these two loops cause lies after `at`: a packet takes at least a picosecond.
        let mut wakes = std::mem::take(&mut self.wake_batch);
        self.wakes.pop_batch(at, &mut wakes);
        for (index, Wake(port)) in wakes.iter().enumerate() {
            // Neither ports nor queues fit the nearest caches: touch early what is needed soon.
            if let Some(Wake(soon)) = wakes.get(index + AHEAD) {
                black_box(self.ports[*soon as usize].next_departure());
            }
            self.depart(*port, at, out);
            if *port < self.blueprint.hosts {
                out.push(Output::NicRoom { host: HostId(*port), at });
            }
        }
        self.wake_batch = wakes;
        let mut arrivals = std::mem::take(&mut self.arrival_batch);
        let mut targets = std::mem::take(&mut self.targets);
        self.arrivals.pop_batch(at, &mut arrivals);
        targets.clear();
        targets.extend(arrivals.iter().map(|arrival| self.target(arrival, at)));
        for (index, (arrival, target)) in arrivals.iter().zip(&targets).enumerate() {
            if let Some(Target::Port(soon)) = targets.get(index + AHEAD) {
                black_box(self.ports[*soon as usize].waiting());
            }
            self.arrive(arrival, *target, at, out);
        }
        self.arrival_batch = arrivals;
        self.targets = targets;
    }

    /// Where an arrival goes. Depends on nothing that other arrivals of the instant change.
    #[inline]
    fn target(&self, arrival: &Arrival, at: Instant) -> Target {
        let switch = match self.wires[arrival.origin as usize].to {
            Node::Host(host) => return Target::Host(host),
            Node::Switch(switch) => &self.switches[switch as usize],
        };
        let is_dead = |port: u32| {
            let faults = self.faults.get(self.wires[port as usize].fault as usize);
            faults.is_some_and(|faults| faults.known_dead(at, self.blueprint.detection_delay))
        };
        let packet = &arrival.packet;
        switch.route(packet.dst, packet.hash, at, is_dead).map_or(Target::Nowhere, Target::Port)
    }

    #[inline]
    fn arrive(&mut self, arrival: &Arrival, target: Target, at: Instant, out: &mut Vec<Output>) {
        let packet = arrival.packet;
        match target {
            Target::Port(port) => self.offer(port, packet, at, out),
            Target::Host(host) => {
                self.counts.delivered += 1;
                out.push(Output::Delivered { host: HostId(host), packet, at });
            }
            Target::Nowhere => {
                self.lose(Some(arrival.origin), packet, DropReason::NoRoute, at, out);
            }
        }
    }

    /// Queues `packet` at `port`, after what was due there and before what is due now.
    #[inline]
    fn offer(&mut self, port: u32, packet: Packet, at: Instant, out: &mut Vec<Output>) {
        let index = port as usize;
        if self.wires[index].fault == NO_FAULT {
            let passed = self.ports[index].pass(packet, at);
            if let Ok((departure, arrival)) = passed {
                self.after_departure(port, &departure, arrival, out);
                return;
            }
        }
        while self.depart(port, at, out) {}
        match self.ports[index].enqueue(packet, at, &mut self.rngs[index]) {
            Verdict::Queued => {
                if port >= self.blueprint.hosts && !packet.is_control() {
                    let stats = &mut self.stats[index];
                    stats.data_peak = stats.data_peak.max(self.ports[index].backlog().data_bytes);
                }
            }
            Verdict::Trimmed => self.stats[index].trimmed += 1,
            Verdict::Dropped(reason) => {
                self.lose(Some(port), packet, reason, at, out);
                return;
            }
        }
        // A wake is pending exactly while something waits: the first to wait behind a busy link
        // asks for it, and each departure that leaves something behind.
        if !self.depart(port, at, out) && self.ports[index].waiting() == 1 {
            self.wakes.push(self.ports[index].busy_until(), Wake(port));
        }
    }

    /// Runs the next departure of `port` if it starts by `now`; whether there was one.
    #[inline]
    fn depart(&mut self, port: u32, now: Instant, out: &mut Vec<Output>) -> bool {
        let index = port as usize;
        if self.ports[index].busy_until() > now {
            return false;
        }
        if let Some(faults) = self.faults.get(self.wires[index].fault as usize)
            && let Some(start) = self.ports[index].next_departure()
        {
            self.ports[index].set_rate(faults.rate_at(start));
        }
        let Some((departure, arrival)) = self.ports[index].depart(now, &mut self.rngs[index])
        else {
            return false;
        };
        self.after_departure(port, &departure, arrival, out);
        true
    }

    /// Counts a departure and puts the packet on the link.
    #[inline]
    fn after_departure(
        &mut self,
        port: u32,
        departure: &Departure,
        arrival: Instant,
        out: &mut Vec<Output>,
    ) {
        let index = port as usize;
        if self.ports[index].waiting() > 0 {
            self.wakes.push(self.ports[index].busy_until(), Wake(port));
        }
        self.counts.hops += 1;
        if departure.marked {
            self.stats[index].marked += 1;
        }
        if port >= self.blueprint.hosts && !departure.packet.is_control() {
            self.queue_stats.sample(departure.data_left);
        }
        if self.wires[index].fault == NO_FAULT {
            self.launch(port, departure.packet, arrival);
        } else {
            self.launch_faulty(port, departure, arrival, out);
        }
    }

    #[inline]
    fn launch(&mut self, port: u32, packet: Packet, arrival: Instant) {
        let wire = &mut self.wires[port as usize];
        let seq = wire.next_seq;
        wire.next_seq = seq.wrapping_add(1);
        self.arrivals.push(arrival, Arrival { packet, origin: port, seq });
    }

    #[cold]
    fn launch_faulty(
        &mut self,
        port: u32,
        departure: &Departure,
        arrival: Instant,
        out: &mut Vec<Output>,
    ) {
        let mut packet = departure.packet;
        let at = departure.start;
        let faults = &mut self.faults[self.wires[port as usize].fault as usize];
        let fate = faults.fate(at, arrival);
        if let Some(reason) = fate.lost {
            self.lose(Some(port), packet, reason, at, out);
            return;
        }
        if fate.corrupt {
            packet.flags = packet.flags.with(Flags::CORRUPT);
        }
        if fate.duplicate {
            self.counts.duplicated += 1;
            out.push(Output::Duplicated { packet, at });
            self.launch(port, packet, arrival);
        }
        self.launch(port, packet, arrival + fate.extra);
    }

    #[cold]
    fn lose(
        &mut self,
        port: Option<u32>,
        packet: Packet,
        reason: DropReason,
        at: Instant,
        out: &mut Vec<Output>,
    ) {
        self.counts.dropped.count(reason);
        if let Some(port) = port {
            self.stats[port as usize].dropped += 1;
        }
        out.push(Output::Dropped { packet, reason, at });
    }
}

#[cfg(test)]
mod tests;
