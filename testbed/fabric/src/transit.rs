//! How packets move: through a port, onto its link, and to the port they take next.
//!
//! ```text
//!   calendar --flights of a window--> ports, each by itself:
//!      ^                                 departures due by an arrival, then the arrival's enqueue;
//!      |                                 at last, departures due by the window's end
//!      +-- launch: fate, next port <-----+
//! ```
//!
//! A packet's next port is decided when it leaves the one before, for the instant at which it will
//! be there: the state of links is a function of time. Only a packet to a programmed switch, whose
//! ports are run together (`program`), is bound for the switch. A hop between plain switches costs
//! only what happens here, so it is compiled into one loop.

mod ways;

use std::hint::black_box;

use transport::stats::DropReason;
use transport::wire::int::Hop;
use transport::{Bytes, Duration, HostId, Instant, Rate, Rng};

use super::calendar::{Calendar, Flight};
use super::crossings::Crossings;
use super::fault::LinkFaults;
use super::frames::{Driver, PacketStep};
use super::mesh::Mesh;
use super::packet::{Flags, Output, Packet};
use super::port::{Departure, Port};
use super::qdisc::{AnyQdisc, Verdict};
use super::routing::Switch;
use super::stats::{PacketCounts, Pause, PortStats, QueueStats};
use super::wiring::Ways;

/// A port with all that the network keeps for it.
#[derive(Clone, Debug)]
pub(super) struct PortState {
    pub(super) port: Port<AnyQdisc>,
    pub(super) number: u32,
    /// The far end of its link.
    pub(super) to: Far,
    /// Index into the faults, or [`NO_FAULT`].
    pub(super) fault: u32,
    /// A switch's port, whose queue is measured; not a NIC.
    pub(super) measured: bool,
    /// Writes its telemetry into packets that have room for it.
    pub(super) stamps: bool,
    /// The earliest wake-up in the calendar that is for this port, [`Instant::FAR_FUTURE`] without
    /// one: a port of a programmed switch has none.
    pub(super) wake_at: Instant,
    /// All but `hops` and `bytes`, which the port counts.
    pub(super) stats: PortStats,
    /// The marks of each port are drawn from a stream of its own.
    pub(super) rng: Rng,
}

pub(super) const NO_FAULT: u32 = u32::MAX;

/// The far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Far {
    /// A host.
    Host(u32),
    /// A programmed switch, which is a target as a whole.
    Programmed(u32),
    /// A plain switch: packets are bound for its ports.
    Plain(u32),
    /// A plain switch in a network with explicit routes, or [`DRIVER`].
    Named(u32),
}

/// The driver as the far end, which gets a packet when its transmission starts. It has no variant
/// of its own, because one more variant to distinguish costs 5 instructions a hop.
pub(super) const DRIVER: Far = Far::Named(u32::MAX);

/// The state behind the ports: links, the packets on them and where they lead; and the counters.
#[derive(Clone, Debug)]
pub(super) struct Transit {
    /// The packets on links, and the ports that have to be looked at.
    pub(super) calendar: Calendar,
    /// The flights that leave, where this network is only a part of another.
    pub(super) crossings: Option<Box<Crossings>>,
    pub(super) switches: Vec<Switch>,
    /// The border switches where a site has several.
    pub(super) mesh: Option<Box<Mesh>>,
    /// Hosts; higher numbers are switches that are ends of packets.
    pub(super) hosts: u32,
    /// Packets to lower numbers go by the routes of their switches alone: all hosts, or none where
    /// there is a mesh.
    pub(super) plainly_routed: u32,
    /// For each switch that is an end of packets: the ports of each switch on the ways to it.
    pub(super) ways: Vec<Option<Ways>>,
    /// For each port: since when its data is paused; empty where no switch pauses a link.
    pub(super) paused_since: Vec<Instant>,
    /// Whether the driver records the steps of packets: [`PacketStep`].
    pub(super) notes_steps: bool,
    /// The pauses that are over, where a driver asks for them.
    pub(super) pauses: Option<Vec<Pause>>,
    pub(super) faults: Vec<LinkFaults>,
    /// For each port: index into `faults`, or [`NO_FAULT`]. Read only while some link is dead.
    pub(super) fault_of: Vec<u32>,
    /// How long a switch goes on using a dead link.
    pub(super) detection: Duration,
    pub(super) counts: PacketCounts,
    pub(super) queue_stats: QueueStats,
}

impl PortState {
    /// Prefetches the memory of a port that is needed soon: neither ports nor queues fit the
    /// caches.
    #[inline]
    pub(super) fn touch(&self) {
        black_box((self.port.waiting(), self.port.touch(), self.wake_at, self.stats.data_peak));
    }

    /// The hop that telemetry records when this port starts to transmit a packet at `at`. `sent`
    /// bytes have been sent before the packet, the packets that wait are behind it, and the link
    /// has `rate`.
    pub(super) fn hop(&self, at: Instant, sent: u64, rate: Rate) -> Hop {
        let queued = self.port.queued();
        let waiting = Bytes(queued.data_bytes + queued.control_bytes);
        Hop::new(at, Bytes(sent), waiting, rate, port_name(self.number))
    }

    /// Notes the data that waits, after all departures of an instant: what leaves at once has not
    /// waited.
    #[inline]
    pub(super) fn note_peak(&mut self) {
        let peak = &mut self.stats.data_peak;
        *peak = (*peak).max(self.port.data_bytes());
    }

    /// A window that ends just after `last` is over: the wake-ups in it are used up.
    #[inline]
    pub(super) fn wakes_used_up(&mut self, last: Instant) {
        if self.wake_at <= last {
            self.wake_at = Instant::FAR_FUTURE;
        }
    }
}

impl Transit {
    /// Hands a port the flights of a window that ends just after `last`.
    #[inline]
    pub(super) fn run(
        &mut self,
        state: &mut PortState,
        flights: &[Flight],
        last: Instant,
        driver: &mut Driver<'_>,
    ) {
        for flight in flights {
            if flight.is_packet() {
                self.counts.on_wire -= 1;
                self.arrive(state, &flight.packet, flight.at, driver);
            } else if let Some(paused) = flight.pause() {
                self.depart_until(state, flight.at, driver);
                self.obey(state, paused, flight.at);
            }
        }
        self.finish(state, last, driver);
    }

    /// A pause or resume frame is at the transmitter that it is for. A frame that changes nothing
    /// is ignored: the pause that is on began earlier.
    #[cold]
    pub(super) fn obey(&mut self, state: &mut PortState, paused: bool, at: Instant) {
        if paused == state.port.is_paused() {
            return;
        }
        state.port.pause(paused, at);
        let since = &mut self.paused_since[state.number as usize];
        if paused {
            *since = at;
        } else {
            state.stats.paused += at.since(*since);
            if let Some(pauses) = &mut self.pauses {
                pauses.push(Pause { port: state.number, from: *since, until: at });
            }
        }
    }

    /// Runs the departures of a window that ends just after `last`, and makes sure that the next
    /// one is run.
    #[inline]
    pub(super) fn finish(&mut self, state: &mut PortState, last: Instant, driver: &mut Driver<'_>) {
        self.depart_until(state, last, driver);
        state.wakes_used_up(last);
        self.wake_for_departure(state);
    }

    /// Makes sure that the next departure is run.
    #[inline]
    pub(super) fn wake_for_departure(&mut self, state: &mut PortState) {
        self.wake(state, self.next_turn(state));
    }

    /// When a port has its next turn: a departure, or a change of its rate that matters to a packet
    /// which waits for more than the link. [`Instant::FAR_FUTURE`] when it has none.
    #[inline]
    pub(super) fn next_turn(&self, state: &PortState) -> Instant {
        let departure = state.port.next_departure();
        if state.fault == NO_FAULT { departure } else { self.turn_by_faults(state, departure) }
    }

    #[cold]
    fn turn_by_faults(&self, state: &PortState, departure: Instant) -> Instant {
        if state.port.waiting() == 0 || departure <= state.port.busy_until() {
            return departure;
        }
        departure.min(self.faults[state.fault as usize].rate_changes_at())
    }

    /// Makes sure that the port has its turn in the window of `at`.
    #[inline]
    pub(super) fn wake(&mut self, state: &mut PortState, at: Instant) {
        if at < state.wake_at {
            state.wake_at = at;
            self.calendar.push(Flight::wake(state.number, at));
        }
    }

    /// Queues `packet` after the departures that were due at the port before, and before those due
    /// now.
    #[inline(always)]
    pub(super) fn arrive(
        &mut self,
        state: &mut PortState,
        packet: &Packet,
        at: Instant,
        driver: &mut Driver<'_>,
    ) {
        self.depart_until(state, at, driver);
        if state.fault == NO_FAULT
            && let Some(arrival) = state.port.pass(packet, at)
        {
            self.leave(state, packet, 0, (at, arrival), driver);
            return;
        }
        let mut lost = None;
        // Of what the link is sending, which the packet may cut off.
        let due = state.port.busy_until() + state.port.delay();
        let verdict = state.port.enqueue(*packet, at, &mut lost);
        match verdict {
            Verdict::Queued => {}
            Verdict::Cut => self.cut(state, lost, (due, at), driver),
            Verdict::Slips => {
                let arrival = state.port.slip(packet, at);
                return self.leave(state, packet, 0, (at, arrival), driver);
            }
            Verdict::Trimmed => note_trimmed(state, packet, driver),
            Verdict::Dropped(reason) => self.lose(state, *packet, reason, at, driver),
            Verdict::Evicted => self.lose_evicted(state, lost, at, driver),
        }
        // An idle link takes the packet now, not at the next poll: the port relies on it that a
        // packet that waits has come before the next departure.
        if state.port.busy_until() <= at {
            self.depart_until(state, at, driver);
        }
        if state.measured && matches!(verdict, Verdict::Queued | Verdict::Evicted) {
            state.note_peak();
        }
    }

    /// Runs the departures due by `at`.
    #[inline]
    pub(super) fn depart_until(
        &mut self,
        state: &mut PortState,
        at: Instant,
        driver: &mut Driver<'_>,
    ) {
        while self.depart_next(state, at, driver) {}
    }

    /// Runs the next departure, if it is due by `at`; returns whether it was.
    #[inline(always)]
    fn depart_next(&mut self, state: &mut PortState, at: Instant, driver: &mut Driver<'_>) -> bool {
        if state.fault != NO_FAULT {
            self.change_rates(state, at);
        }
        // The departure stays in the option: see `leave`.
        let departed = state.port.depart(at, &mut state.rng);
        if let Some((departure, arrival)) = &departed {
            self.after_departure(state, departure, *arrival, driver);
        }
        departed.is_some()
    }

    /// The rate of a transmission of a port that starts at `at`.
    pub(super) fn rate_at(&self, state: &PortState, at: Instant) -> Rate {
        let faults = self.faults.get(state.fault as usize);
        faults.map_or(state.port.rate(), |faults| faults.rate_at(at))
    }

    /// Changes the rate of a link as its faults say, up to the next departure and to `at`.
    #[cold]
    pub(super) fn change_rates(&mut self, state: &mut PortState, at: Instant) {
        let faults = &mut self.faults[state.fault as usize];
        loop {
            let change = faults.rate_changes_at();
            let departure = state.port.next_departure();
            if change > at.min(departure) || change == Instant::FAR_FUTURE {
                return;
            }
            let rate = faults.pass_rate_change();
            state.port.set_rate(rate, change);
        }
    }

    /// Counts a departure and puts the packet on the link.
    #[inline(always)]
    pub(super) fn after_departure(
        &mut self,
        state: &mut PortState,
        departure: &Departure,
        arrival: Instant,
        driver: &mut Driver<'_>,
    ) {
        state.stats.marked += u64::from(departure.marked);
        let Departure { packet, data_left, start, .. } = departure;
        self.leave(state, packet, *data_left, (*start, arrival), driver);
    }

    /// [`Transit::leave`] of a packet that a program has sent by a port without faults, and that
    /// leaves at once. The hop `own` of the program comes before that of the port in its telemetry.
    /// For programs: their code has no copy of what happens on a link.
    #[inline(never)]
    pub(super) fn leave_at_once(
        &mut self,
        state: &mut PortState,
        (packet, own): (&mut Packet, Option<&Hop>),
        times: (Instant, Instant),
        driver: &mut Driver<'_>,
    ) {
        debug_assert_eq!(state.fault, NO_FAULT, "only such a port lets packets pass");
        self.count_leaving(state, packet, 0);
        if packet.flags.has(Flags::INT) && !self.stamp(state, (packet, own), times, driver) {
            self.lose(state, *packet, DropReason::NoBuffer, times.0, driver);
        } else {
            self.launch(state, packet, times.1, driver);
        }
    }

    /// Counts a packet that leaves a port, with `data_left` bytes behind it, and puts it on the
    /// link. The packet stays behind its reference. A compiler would split a copy of it into
    /// fields, write it in parts and read it back as a whole, and a processor stalls on such a
    /// read.
    #[inline(always)]
    fn leave(
        &mut self,
        state: &mut PortState,
        packet: &Packet,
        data_left: u64,
        times: (Instant, Instant),
        driver: &mut Driver<'_>,
    ) {
        self.count_leaving(state, packet, data_left);
        if packet.flags.has(Flags::INT) {
            self.launch_stamped(state, *packet, times, driver);
        } else if state.fault == NO_FAULT {
            self.launch(state, packet, times.1, driver);
        } else {
            self.launch_faulty(state, *packet, times, driver);
        }
    }

    #[inline(always)]
    fn count_leaving(&mut self, state: &PortState, packet: &Packet, data_left: u64) {
        self.counts.hops += 1;
        if state.measured && packet.is_data() {
            self.queue_stats.sample(data_left);
        }
    }

    /// Puts a packet with room for telemetry on the link of a port.
    #[inline(never)]
    fn launch_stamped(
        &mut self,
        state: &mut PortState,
        mut packet: Packet,
        times: (Instant, Instant),
        driver: &mut Driver<'_>,
    ) {
        if !self.stamp(state, (&mut packet, None), times, driver) {
            self.lose(state, packet, DropReason::NoBuffer, times.0, driver);
        } else if state.fault == NO_FAULT {
            self.launch(state, &packet, times.1, driver);
        } else {
            self.launch_faulty(state, packet, times, driver);
        }
    }

    /// Notes that a packet leaves, and writes the hop `own` of a program, and the telemetry of its
    /// port if that does so, into it. False when no buffer was left for that of the port, without
    /// which the path would look shorter than it is; a packet goes on without that of a program.
    #[inline(always)]
    fn stamp(
        &self,
        state: &PortState,
        (packet, own): (&mut Packet, Option<&Hop>),
        (start, arrival): (Instant, Instant),
        driver: &mut Driver<'_>,
    ) -> bool {
        if self.notes_steps {
            driver.frames.note(packet, PacketStep::Left { port: state.number, start, arrival });
        }
        if !state.stamps {
            if let Some(own) = own {
                driver.frames.stamp(packet, &[*own]);
            }
            return true;
        }
        // The packet's own bytes are counted already.
        let sent = state.port.sent().1 - packet.wire_bytes();
        let hop = state.hop(start, sent, state.port.rate());
        match own {
            Some(own) => driver.frames.stamp(packet, &[*own, hop]),
            None => driver.frames.stamp(packet, &[hop]),
        }
    }

    /// Puts a packet on the link of a port, bound for the port it will take at the far end.
    #[inline(always)]
    fn launch(
        &mut self,
        state: &mut PortState,
        packet: &Packet,
        at: Instant,
        driver: &mut Driver<'_>,
    ) {
        let target = match state.to {
            Far::Host(target) | Far::Programmed(target) => Some(target),
            Far::Plain(switch) => self.route(switch, packet, at),
            DRIVER => return self.hand_over(packet, at, driver),
            Far::Named(switch) => self.route_named(switch, (state, packet), at, driver),
        };
        let Some(target) = target else {
            self.lose(state, *packet, DropReason::NoRoute, at, driver);
            return;
        };
        if self.file(Flight { at, origin: state.number, target, packet: *packet }) {
            self.counts.on_wire += 1;
        }
    }

    /// Gives a packet to the driver, which is the far end.
    #[inline(never)]
    fn hand_over(&mut self, packet: &Packet, at: Instant, driver: &mut Driver<'_>) {
        self.counts.delivered += 1;
        driver.out.push(Output::Delivered { host: packet.dst, packet: *packet, at });
    }

    /// Files a flight, unless it leaves for another part.
    #[inline(always)]
    pub(super) fn file(&mut self, flight: Flight) -> bool {
        if let Some(crossings) = &mut self.crossings
            && let Some(home) = crossings.leads_to(flight.target)
        {
            crossings.keep(home, flight);
            return false;
        }
        self.calendar.push(flight);
        true
    }

    /// The port of `switch` that `packet`, which is there at `at`, takes.
    #[inline(always)]
    pub(super) fn route(&self, switch: u32, packet: &Packet, at: Instant) -> Option<u32> {
        if packet.dst.0 >= self.plainly_routed {
            return self.route_specially(switch, packet, at);
        }
        let is_dead = |port: u32| self.is_dead(port, at);
        self.switches[switch as usize].route(packet.dst, packet.hash, at, is_dead)
    }

    /// Whether a packet for `dst` has an end in this network.
    #[inline]
    pub(super) fn has_end(&self, dst: HostId) -> bool {
        let switch = || self.ways.get((dst.0 - self.hosts) as usize);
        dst.0 < self.hosts || switch().is_some_and(Option::is_some)
    }

    /// Whether routing avoids `port` at `at`.
    #[cold]
    fn is_dead(&self, port: u32, at: Instant) -> bool {
        let faults = self.faults.get(self.fault_of[port as usize] as usize);
        faults.is_some_and(|faults| faults.known_dead(at, self.detection))
    }

    #[cold]
    fn launch_faulty(
        &mut self,
        state: &mut PortState,
        mut packet: Packet,
        (at, arrival): (Instant, Instant),
        driver: &mut Driver<'_>,
    ) {
        let fate = self.faults[state.fault as usize].fate(at, arrival);
        if let Some(reason) = fate.lost {
            self.lose(state, packet, reason, at, driver);
            return;
        }
        if fate.corrupt {
            packet.flags = packet.flags.with(Flags::CORRUPT);
        }
        if fate.duplicate {
            self.counts.duplicated += 1;
            driver.frames.duplicate(&packet);
            self.launch(state, &packet, arrival, driver);
        }
        if fate.extra > Duration::ZERO && packet.flags.has(Flags::INT) {
            driver.frames.note(&packet, PacketStep::Held(fate.extra));
        }
        self.launch(state, &packet, arrival + fate.extra, driver);
    }

    /// A packet ends at a port.
    #[cold]
    pub(super) fn lose(
        &mut self,
        state: &mut PortState,
        packet: Packet,
        reason: DropReason,
        at: Instant,
        driver: &mut Driver<'_>,
    ) {
        state.stats.dropped += 1;
        if packet.flags.has(Flags::INT) {
            driver.frames.note(&packet, PacketStep::Lost { port: state.number, reason });
        }
        self.drop_packet(packet, reason, at, driver);
    }

    /// Data that waited at a port is lost for a packet that came.
    #[cold]
    pub(super) fn lose_evicted(
        &mut self,
        state: &mut PortState,
        lost: Option<Packet>,
        at: Instant,
        driver: &mut Driver<'_>,
    ) {
        if let Some(packet) = lost {
            self.lose(state, packet, DropReason::queue_full(packet.class()), at, driver);
        }
    }

    /// A packet that was to arrive from a port at `due` is cut off at `at`. A packet that has left
    /// for another part of the network cannot be cut off.
    #[cold]
    pub(super) fn cut(
        &mut self,
        state: &mut PortState,
        lost: Option<Packet>,
        (due, at): (Instant, Instant),
        driver: &mut Driver<'_>,
    ) {
        if let Some(packet) = lost
            && self.calendar.cancel(due, state.number, packet.handle)
        {
            self.counts.on_wire -= 1;
            self.lose(state, packet, DropReason::Optimistic, at, driver);
        }
    }

    /// A packet ends.
    #[cold]
    pub(super) fn drop_packet(
        &mut self,
        packet: Packet,
        reason: DropReason,
        at: Instant,
        driver: &mut Driver<'_>,
    ) {
        self.counts.dropped.count(reason);
        driver.frames.end(packet);
        driver.out.push(Output::Dropped { packet, reason, at });
    }
}

/// A port has cut off the payload of `packet`.
#[cold]
pub(super) fn note_trimmed(state: &mut PortState, packet: &Packet, driver: &mut Driver<'_>) {
    state.stats.trimmed += 1;
    if packet.flags.has(Flags::INT) {
        driver.frames.note(packet, PacketStep::Trimmed { port: state.number });
    }
}

/// The name of a port in telemetry: the low half of its number, which is unique among the ports of
/// a path in any network of at most 65536 ports.
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
const fn port_name(number: u32) -> u16 {
    number as u16
}

#[cfg(test)]
mod tests;
