//! How packets move through a [`Network`]: in, from port to port, and out.
//!
//! ```text
//!           calendar --flights of a window--> ports, each with its own
//!              ^                                 | departures due by each arrival, then enqueue
//!              +-- launch: fate, next port <-----+ at last, departures due by the window's end
//! ```
//!
//! A packet's next port is decided when it leaves the one before, for the instant at which it will
//! be there: the state of links is a function of time.

use std::hint::black_box;

use transport::stats::DropReason;
use transport::{Duration, HostId, Instant};

use super::blueprint::Node;
use super::calendar::Flight;
use super::network::{NO_FAULT, Network, Output};
use super::packet::{Flags, Packet};
use super::qdisc::{Departure, Verdict};
use super::window::Group;

/// How many groups ahead a port is touched: neither ports nor queues fit the nearest caches.
const AHEAD: usize = 2;

const PICOSECOND: Duration = Duration::from_ps(1);

impl Network {
    /// Hands `packet` to the NIC of `host` at `at`; an instant before the one already run to counts
    /// as that one. What happens at once (a drop) is pushed to `out`.
    #[inline]
    pub fn inject(&mut self, host: HostId, packet: Packet, at: Instant, out: &mut Vec<Output>) {
        self.send(host, packet, at.max(self.now), out);
        if host.0 < self.blueprint.hosts {
            self.wake_for_departure(host.0);
        }
    }

    /// The instant of the next event, a packet that is somewhere or a link that becomes free;
    /// `None` when nothing is on its way. O(packets on links within a window).
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        self.calendar.peek().map(|at| at.max(self.now))
    }

    /// Processes everything up to and at the instant of the next event and says which it was;
    /// `None` when there is none.
    pub fn step(&mut self, out: &mut Vec<Output>) -> Option<Instant> {
        let at = self.next_event_at()?;
        self.run_until(at, out);
        Some(at)
    }

    /// Processes everything up to and at `now`. Outputs of one host are in the order of time.
    pub fn run_until(&mut self, now: Instant, out: &mut Vec<Output>) {
        // What lies as far as time can be told never happens.
        let due = |at: &Instant| *at <= now && *at < Instant::FAR_FUTURE;
        while let Some(at) = self.next_event_at().filter(due) {
            let end = (at + self.lookahead()).min(now + PICOSECOND);
            self.open(end);
            for index in 0..self.host_groups() {
                self.run_host(self.window.groups()[index], end, out);
            }
            self.run_ports(end, out);
            self.now = self.now.max(before(end));
        }
        self.now = self.now.max(now);
    }

    /// Puts everything due before `end` to work: hosts by [`Network::arrivals`], ports of switches
    /// by [`Network::run_ports`]. The span from the first thing due to `end` must be no longer than
    /// the lookahead.
    pub(crate) fn open(&mut self, end: Instant) {
        self.window.take(&mut self.calendar, end);
    }

    /// Hosts for which something is due in the open window; they come first, ascending.
    pub(crate) fn host_groups(&self) -> usize {
        self.window.groups().partition_point(|group| group.target < self.blueprint.hosts)
    }

    /// Flights in the open window.
    pub(crate) fn window_len(&self) -> usize {
        self.window.len()
    }

    /// The host of one of [`Network::host_groups`].
    pub(crate) fn host_of(&self, group: usize) -> HostId {
        HostId(self.window.groups()[group].target)
    }

    /// What arrives at the host of one of [`Network::host_groups`], in order, wake-ups among it.
    pub(crate) fn arrivals(&self, group: usize) -> &[Flight] {
        self.window.flights(self.window.groups()[group])
    }

    /// Notes that `count` packets were given to their host.
    #[inline]
    pub(crate) fn count_delivered(&mut self, count: u64) {
        self.counts.delivered += count;
        self.counts.on_wire -= count;
    }

    /// The window that ends at `end` is over for `host`: what woke it is used up.
    pub(crate) fn host_done(&mut self, host: HostId, end: Instant) {
        self.wakes_used_up(host.0, end);
    }

    /// Runs the ports of switches through the open window, which ends at `end`.
    pub(crate) fn run_ports(&mut self, end: Instant, out: &mut Vec<Output>) {
        let last = before(end);
        for index in self.host_groups()..self.window.groups().len() {
            if let Some(soon) = self.window.groups().get(index + AHEAD) {
                black_box(self.ports[soon.target as usize].port.waiting());
            }
            let group = self.window.groups()[index];
            for flight in 0..self.window.flights(group).len() {
                let flight = self.window.flights(group)[flight];
                if !flight.is_wake() {
                    self.counts.on_wire -= 1;
                    self.offer(group.target, flight.packet, flight.at, out);
                }
            }
            self.depart_until(group.target, last, out);
            self.wakes_used_up(group.target, end);
            self.wake_for_departure(group.target);
        }
    }

    /// A host that nobody drives: what arrives is put out, and its NIC departs what is due.
    fn run_host(&mut self, group: Group, end: Instant, out: &mut Vec<Output>) {
        let host = HostId(group.target);
        let flights = self.window.flights(group).iter().filter(|flight| !flight.is_wake());
        let outputs = out.len();
        out.extend(flights.map(|flight| Output::Delivered {
            host,
            packet: flight.packet,
            at: flight.at,
        }));
        self.count_delivered((out.len() - outputs) as u64);
        self.host_done(host, end);
        self.depart_until(host.0, before(end), out);
        self.wake_for_departure(host.0);
    }

    /// Asks that `host` has a group in the window of `at`, even when nothing arrives.
    pub(crate) fn wake_host(&mut self, host: HostId, at: Instant) {
        self.wake(host.0, at);
    }

    /// When the next packet that waits at the NIC of `host` starts to be sent.
    #[inline]
    pub(crate) fn nic_departure(&self, host: HostId) -> Option<Instant> {
        self.ports[host.0 as usize].port.next_departure()
    }

    /// Packets that wait at the NIC of `host`.
    #[inline]
    pub(crate) fn nic_waiting(&self, host: HostId) -> usize {
        self.ports[host.0 as usize].port.waiting()
    }

    /// Runs the departures of the NIC of `host` that are due by `at`.
    #[inline]
    pub(crate) fn run_nic(&mut self, host: HostId, at: Instant, out: &mut Vec<Output>) {
        self.depart_until(host.0, at, out);
    }

    /// [`Network::inject`] by a driver that itself wakes the host when its NIC has to depart.
    #[inline]
    pub(crate) fn send(&mut self, host: HostId, packet: Packet, at: Instant, out: &mut Vec<Output>) {
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

    fn wake_for_departure(&mut self, port: u32) {
        if let Some(at) = self.ports[port as usize].port.next_departure() {
            self.wake(port, at);
        }
    }

    fn wake(&mut self, port: u32, at: Instant) {
        let state = &mut self.ports[port as usize];
        if at < state.wake_at {
            state.wake_at = at;
            self.calendar.push(Flight::wake(port, at));
        }
    }

    fn wakes_used_up(&mut self, port: u32, end: Instant) {
        let state = &mut self.ports[port as usize];
        if state.wake_at < end {
            state.wake_at = Instant::FAR_FUTURE;
        }
    }

    /// Queues `packet` at `port`, after what was due there and before what is due now.
    #[inline]
    fn offer(&mut self, port: u32, packet: Packet, at: Instant, out: &mut Vec<Output>) {
        let state = &mut self.ports[port as usize];
        if state.fault == NO_FAULT
            && let Ok((departure, arrival)) = state.port.pass(packet, at)
        {
            self.after_departure(port, &departure, arrival, out);
            return;
        }
        self.depart_until(port, at, out);
        let state = &mut self.ports[port as usize];
        match state.port.enqueue(packet, at, &mut state.rng) {
            Verdict::Queued => {
                if port >= self.blueprint.hosts && !packet.is_control() {
                    let peak = &mut state.stats.data_peak;
                    *peak = (*peak).max(state.port.backlog().data_bytes);
                }
            }
            Verdict::Trimmed => state.stats.trimmed += 1,
            Verdict::Dropped(reason) => self.lose(Some(port), packet, reason, at, out),
        }
        // An idle link takes it now, not when somebody looks again: what waits has come before the
        // next departure, which the port relies on.
        self.depart_until(port, at, out);
    }

    /// Runs the departures of `port` due by `at`.
    #[inline]
    fn depart_until(&mut self, port: u32, at: Instant, out: &mut Vec<Output>) {
        while let Some(start) = self.ports[port as usize].port.next_departure()
            && start <= at
        {
            let state = &mut self.ports[port as usize];
            if state.fault != NO_FAULT {
                state.port.set_rate(self.faults[state.fault as usize].rate_at(start));
            }
            let Some((departure, arrival)) = state.port.depart(at, &mut state.rng) else { return };
            self.after_departure(port, &departure, arrival, out);
        }
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
        self.counts.hops += 1;
        let state = &mut self.ports[port as usize];
        state.stats.marked += u64::from(departure.marked);
        if port >= self.blueprint.hosts && !departure.packet.is_control() {
            self.queue_stats.sample(departure.data_left);
        }
        if state.fault == NO_FAULT {
            self.launch(port, departure.packet, arrival, out);
        } else {
            self.launch_faulty(port, departure, arrival, out);
        }
    }

    /// Puts a packet on the link of `port`, bound for the port it will take at the far end.
    #[inline]
    fn launch(&mut self, port: u32, packet: Packet, at: Instant, out: &mut Vec<Output>) {
        let target = match self.ports[port as usize].to {
            Node::Host(host) => host,
            Node::Switch(switch) => {
                let is_dead = |port: u32| self.is_dead(port, at);
                let switch = &self.switches[switch as usize];
                let Some(target) = switch.route(packet.dst, packet.hash, at, is_dead) else {
                    self.lose(Some(port), packet, DropReason::NoRoute, at, out);
                    return;
                };
                target
            }
        };
        self.counts.on_wire += 1;
        self.calendar.push(Flight { at, origin: port, target, packet });
    }

    /// Whether routing avoids `port` at `at`.
    fn is_dead(&self, port: u32, at: Instant) -> bool {
        let faults = self.faults.get(self.ports[port as usize].fault as usize);
        faults.is_some_and(|faults| faults.known_dead(at, self.blueprint.detection_delay))
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
        let faults = &mut self.faults[self.ports[port as usize].fault as usize];
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
            self.launch(port, packet, arrival, out);
        }
        self.launch(port, packet, arrival + fate.extra, out);
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
            self.ports[port as usize].stats.dropped += 1;
        }
        out.push(Output::Dropped { packet, reason, at });
    }
}

/// The last instant before `end`.
fn before(end: Instant) -> Instant {
    Instant::from_ps(end.as_ps().saturating_sub(1))
}
