//! A port: one link's transmitter with the queue before it.
//!
//! Source: the departure rule of the style guide. A departure starts when the link is free and the
//! discipline lets a packet go, whatever the time of the call. So a late poll costs no rate. A
//! caller that enqueues at `t` first runs every departure due by `t`, so late polls and exact
//! events agree bit for bit. For each port one instant says when the next departure starts. It is a
//! function of state: the latest of the instants at which the link is free, the state last changed,
//! and the discipline is ready. Store and forward: a packet is at the far end when its last bit is.
//! Faults and routing are the network's business.

use std::mem::Discriminant;

use transport::{Bytes, Duration, Instant, Rate, Rng};

use super::packet::Packet;
use super::qdisc::{Dequeued, LinkState, Qdisc, Queued, Service, Verdict};

/// One link transmitter. The fields for a packet that need not wait are in the first cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Port<Q> {
    /// When the link is free again.
    busy_until: Instant,
    /// When the next departure starts; [`Instant::FAR_FUTURE`] when nothing that waits may leave.
    starts_at: Instant,
    /// Picoseconds a byte takes where that is a whole number, else 0.
    ps_per_byte: u64,
    /// Time from the last bit sent to the packet being at the far end's queue: propagation plus the
    /// far switch's traversal.
    delay: Duration,
    /// Packets in `qdisc`.
    waiting: u32,
    /// Data has to wait.
    paused: bool,
    /// Anything that waits may leave when the link is free, unless data is paused.
    work_conserving: bool,
    /// The longest packet that passes an idle port for certain, unless data is paused.
    passes_up_to: u16,
    /// Bytes of data in `qdisc`.
    data_bytes: u64,
    /// Packets transmitted.
    sent: u64,
    /// Bytes transmitted.
    sent_bytes: u64,
    rate: Rate,
    qdisc: Q,
}

/// A packet that has left its queue, and the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The packet; CE is set in it when `marked`.
    pub packet: Packet,
    /// Whether its queue set CE as it left.
    pub marked: bool,
    /// Data bytes that still wait behind it.
    pub data_left: u64,
    /// When its transmission starts.
    pub start: Instant,
}

impl<Q: Qdisc> Port<Q> {
    /// An idle port with an empty queue. A rate of zero counts as one bit a second.
    #[must_use]
    pub fn new(rate: Rate, delay: Duration, qdisc: Q) -> Self {
        debug_assert_eq!(qdisc.queued().packets(), 0, "an idle port");
        let Service { work_conserving, passes } = qdisc.service();
        let mut port = Self {
            busy_until: Instant::ZERO,
            starts_at: Instant::FAR_FUTURE,
            ps_per_byte: 0,
            delay,
            waiting: 0,
            paused: false,
            work_conserving,
            passes_up_to: u16::try_from(passes.0).unwrap_or(u16::MAX),
            data_bytes: 0,
            sent: 0,
            sent_bytes: 0,
            rate,
            qdisc,
        };
        port.set_rate(rate, Instant::ZERO);
        port
    }

    /// Changes the rate at `now`; a packet being sent is not disturbed. Every departure due before
    /// `now` must have been run. A rate of zero counts as one bit a second.
    pub fn set_rate(&mut self, rate: Rate, now: Instant) {
        debug_assert!(self.starts_at >= now, "run what is due first");
        let bps = rate.as_bps().max(1);
        self.rate = Rate::from_bps(bps);
        self.ps_per_byte = if BYTE_PS.is_multiple_of(bps) { BYTE_PS / bps } else { 0 };
        self.link_changes(now);
    }

    /// The rate now.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// When the link is free.
    #[inline]
    #[must_use]
    pub const fn busy_until(&self) -> Instant {
        self.busy_until
    }

    /// Time from the last bit sent to the packet being at the far end's queue.
    #[inline]
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Whether data has to wait.
    #[inline]
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Packets and bytes transmitted so far.
    #[must_use]
    pub const fn sent(&self) -> (u64, u64) {
        (self.sent, self.sent_bytes)
    }

    /// Bytes of data that wait.
    #[inline]
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The discipline.
    pub(crate) const fn qdisc(&self) -> &Q {
        &self.qdisc
    }

    /// Reads the first bytes of the discipline, for a caller that needs its memory in a cache.
    #[inline]
    pub(crate) fn touch(&self) -> Discriminant<Q> {
        std::mem::discriminant(&self.qdisc)
    }

    /// The packets that wait.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> Queued {
        self.qdisc.queued()
    }

    /// Notes when the next departure starts, after a change of state at `change`. A waiting packet
    /// may not leave before the change that allows it.
    #[inline(always)]
    fn settle(&mut self, change: Instant) {
        let free = self.busy_until.max(change);
        self.starts_at = if self.waiting == 0 {
            Instant::FAR_FUTURE
        } else if self.work_conserving && !self.paused {
            debug_assert_eq!(self.qdisc.ready_at(), Instant::ZERO, "work-conserving");
            free
        } else {
            free.max(self.qdisc.ready_at())
        };
    }

    /// Gives a packet to the queue; `lost` is as in [`Qdisc::enqueue`]. Every departure due before
    /// `now` must have been run, and those due at `now`, too, unless only packets enqueued at `now`
    /// have made them possible.
    #[inline]
    pub fn enqueue(&mut self, packet: Packet, now: Instant, lost: &mut Option<Packet>) -> Verdict {
        debug_assert!(self.waiting == 0 || self.starts_at >= now, "run what is due first");
        let verdict = self.qdisc.enqueue(packet, now, lost);
        if !matches!(verdict, Verdict::Dropped(_)) {
            self.waiting += 1;
            if verdict == Verdict::Evicted
                && let Some(lost) = lost
            {
                self.waiting -= 1;
                self.data_bytes -= lost.wire_bytes();
            }
            if packet.is_data() && verdict != Verdict::Trimmed {
                self.data_bytes += packet.wire_bytes();
            }
            if verdict == Verdict::Cut {
                self.busy_until = now;
            }
            self.settle(now);
        }
        debug_assert_eq!(self.data_bytes, self.qdisc.queued().data_bytes, "data that waits");
        verdict
    }

    /// Pauses the data class at `now`, or lets it go on. Every departure due by `now` must have
    /// been run; a packet being sent is not disturbed.
    pub fn pause(&mut self, paused: bool, now: Instant) {
        debug_assert!(self.starts_at > now, "run what is due first");
        self.paused = paused;
        self.link_changes(now);
    }

    fn link_changes(&mut self, now: Instant) {
        self.qdisc.set_link(LinkState { rate: self.rate, paused: self.paused }, now);
        self.settle(now);
    }

    /// Sends `len` bytes of the link's own, before all packets that wait and after the one being
    /// sent; returns when they are at the far end.
    pub fn interject(&mut self, len: u16, now: Instant) -> Instant {
        self.busy_until = self.busy_until.max(now) + self.time_for(len);
        self.settle(now);
        self.busy_until + self.delay
    }

    /// Enqueues `packet` and runs its departure at once, unmarked, if nothing waits and the link is
    /// free: the outcome of `enqueue` and `depart`, cheaper. Returns when it is at the far end;
    /// `None` when it has to go through the queue.
    #[inline(always)]
    pub fn pass(&mut self, packet: &Packet, now: Instant) -> Option<Instant> {
        let is_idle = self.waiting == 0 && self.busy_until <= now;
        (is_idle && self.lets_through(packet, now)).then(|| self.transmit(packet, now))
    }

    /// Whether the discipline lets a packet through that meets an idle port.
    #[inline(always)]
    fn lets_through(&mut self, packet: &Packet, now: Instant) -> bool {
        let is_certain = packet.len <= self.passes_up_to && !self.paused;
        debug_assert!(!is_certain || self.qdisc.passes(packet, now), "a promise of the discipline");
        is_certain || self.qdisc.passes(packet, now)
    }

    /// When the next departure starts; [`Instant::FAR_FUTURE`] when nothing that waits may leave.
    #[inline]
    #[must_use]
    pub const fn next_departure(&self) -> Instant {
        self.starts_at
    }

    /// Runs the next departure if it starts by `now`; returns the packet, and when it is at the far
    /// end. The departure started at [`Port::next_departure`]; call until `None`.
    #[inline(always)]
    pub fn depart(&mut self, now: Instant, rng: &mut Rng) -> Option<(Departure, Instant)> {
        // Most calls end here.
        if self.starts_at > now { None } else { self.depart_due(rng) }
    }

    /// Runs the next departure, if there is one.
    fn depart_due(&mut self, rng: &mut Rng) -> Option<(Departure, Instant)> {
        if self.starts_at == Instant::FAR_FUTURE {
            return None;
        }
        let start = self.starts_at;
        let dequeued = self.qdisc.dequeue(start, rng);
        debug_assert!(dequeued.is_some(), "a discipline that is ready gives a packet");
        let Dequeued { packet, marked } = dequeued?;
        self.waiting -= 1;
        if packet.is_data() {
            self.data_bytes -= packet.wire_bytes();
        }
        debug_assert_eq!(self.data_bytes, self.qdisc.queued().data_bytes, "data that waits");
        let arrival = self.transmit(&packet, start);
        self.settle(start);
        Some((Departure { packet, marked, data_left: self.data_bytes, start }, arrival))
    }

    /// Occupies the link with a packet from `start` on; when it is at the far end.
    #[inline]
    fn transmit(&mut self, packet: &Packet, start: Instant) -> Instant {
        self.sent += 1;
        self.sent_bytes += packet.wire_bytes();
        self.busy_until = start + self.time_for(packet.len);
        self.busy_until + self.delay
    }

    /// The result of `Rate::time_for`, without its 128-bit division: a packet's bits in picoseconds
    /// fit 64 bits.
    #[inline]
    fn time_for(&self, len: u16) -> Duration {
        let bytes = u64::from(len);
        Duration::from_ps(if self.ps_per_byte != 0 {
            bytes * self.ps_per_byte
        } else {
            (bytes * BYTE_PS).div_ceil(self.rate.as_bps())
        })
    }
}

/// Picoseconds a byte takes at one bit a second.
const BYTE_PS: u64 = 8_000_000_000_000;
const _: () = assert!(u16::MAX as u64 <= u64::MAX / BYTE_PS, "time_for stays in 64 bits");

/// How long `len` bytes take at `rate`, for bounds and tests.
#[must_use]
pub fn serialisation(len: u64, rate: Rate) -> Duration {
    rate.time_for(Bytes(len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use transport::wire::class::TrafficClass;
    use transport::{HostId, Rng};

    use super::*;
    use crate::packet::Flags;
    use crate::qdisc::{
        AnyQdisc, PacketSizes, PhantomParams, QdiscKind, QdiscParams, QdiscSettings, paced,
    };

    const PHANTOM: PhantomParams =
        PhantomParams { drain: 0.1, size: None, kmin: 0.05, kmax: 0.8, physical: true };

    /// Steps of a test: the gap before a step in picoseconds, how late a poll in between is, and
    /// the step.
    type Schedule = Vec<(u64, u64, Step)>;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// A packet of a length and a class comes.
        Packet(u16, TrafficClass),
        Pause(bool),
        /// The rate changes, gigabits a second.
        Rate(u64),
        /// A frame of the link's own goes first.
        Interject,
    }

    fn class() -> impl Strategy<Value = TrafficClass> {
        prop::sample::select(TrafficClass::ALL.to_vec())
    }

    fn schedule() -> impl Strategy<Value = Schedule> {
        let step = prop_oneof![
            20 => (1u16..5_000, class()).prop_map(|(len, class)| Step::Packet(len, class)),
            2 => any::<bool>().prop_map(Step::Pause),
            1 => (1u64..900).prop_map(Step::Rate),
            1 => Just(Step::Interject),
        ];
        prop::collection::vec((0u64..90_000, 0u64..200_000, step), 1..200)
    }

    fn port(kind: QdiscKind, rate: Rate) -> Port<AnyQdisc> {
        let params = QdiscParams {
            data_limit: Bytes(20_000),
            control_limit: Bytes(2_000),
            kmin: Bytes(2_000),
            kmax: Bytes(16_000),
            path_bdp: Some(Bytes(60_000)),
            packet_max: Bytes(5_000),
            sizes: PacketSizes { probed: Bytes(5_000), probe: Bytes(64) },
        };
        let settings = QdiscSettings { phantom: PHANTOM, ..QdiscSettings::default() };
        let qdisc = AnyQdisc::new(kind, &settings, &params, rate);
        Port::new(rate, Duration::from_ns(600), qdisc)
    }

    /// The results of a port: verdicts with what was lost, and departures with their arrival.
    #[derive(Debug, Default, PartialEq)]
    struct Trace {
        verdicts: Vec<(Verdict, Option<Packet>)>,
        departures: Vec<(Departure, Instant)>,
    }

    /// Runs `schedule`; `polls(port, from, to)` says when to poll between two enqueues.
    fn run(
        mut port: Port<AnyQdisc>,
        schedule: &Schedule,
        mut poll: impl FnMut(&mut Port<AnyQdisc>, &mut Rng, &mut Trace, u64, Instant),
    ) -> Trace {
        let mut trace = Trace::default();
        let mut rng = Rng::new(9);
        let mut now = Instant::ZERO;
        for (handle, (gap, late, step)) in (0..).zip(schedule) {
            now += Duration::from_ps(*gap);
            poll(&mut port, &mut rng, &mut trace, *late, now);
            depart_all(&mut port, &mut rng, &mut trace, now);
            match *step {
                Step::Packet(len, class) => {
                    let packet = of_class(handle, len, class);
                    // Half of the data has a rank, so that a full queue may lose what waits.
                    let ranks = packet.is_data() && handle % 2 == 1;
                    let packet = if ranks { packet.ranked_by(handle % 40) } else { packet };
                    let mut lost = None;
                    let verdict = port.enqueue(packet, now, &mut lost);
                    trace.verdicts.push((verdict, lost));
                }
                Step::Pause(paused) => port.pause(paused, now),
                Step::Rate(gbps) => port.set_rate(Rate::from_gbps(gbps), now),
                Step::Interject => {
                    port.interject(64, now);
                }
            }
        }
        depart_all(&mut port, &mut rng, &mut trace, now);
        port.pause(false, now);
        depart_all(&mut port, &mut rng, &mut trace, Instant::FAR_FUTURE);
        assert_eq!((port.waiting(), port.queued().packets()), (0, 0), "everything has left");
        trace
    }

    fn depart_all(port: &mut Port<AnyQdisc>, rng: &mut Rng, trace: &mut Trace, now: Instant) {
        trace.departures.extend(std::iter::from_fn(|| port.depart(now, rng)));
    }

    fn packet(handle: u32, len: u16, urgent: bool) -> Packet {
        let class = if urgent { TrafficClass::Control } else { TrafficClass::Data };
        of_class(handle, len, class)
    }

    fn of_class(handle: u32, len: u16, class: TrafficClass) -> Packet {
        let flags = match class {
            TrafficClass::Data => Flags::ECT.with(Flags::TRIMMABLE),
            _ => Flags::of(class),
        };
        Packet { handle, dst: HostId(0), hash: 0, len, trim_len: 64, flags }
    }

    proptest! {
        #[test]
        fn late_polls_and_exact_events_agree_bit_for_bit(
            schedule in schedule(),
            gbps in prop_oneof![Just(800u64), Just(400), Just(3), 1u64..900],
        ) {
            for kind in paced::and_registered() {
                let port = port(kind, Rate::from_gbps(gbps));
                let exact = run(port.clone(), &schedule, |port, rng, trace, _, until| {
                    while port.next_departure() <= until {
                        let at = port.next_departure();
                        trace.departures.extend(port.depart(at, rng));
                    }
                });
                let never = run(port.clone(), &schedule, |_, _, _, _, _| {});
                let sloppy = run(port, &schedule, |port, rng, trace, late, until| {
                    let at = Instant::from_ps(until.as_ps().saturating_sub(late));
                    trace.departures.extend(port.depart(at, rng));
                });
                prop_assert_eq!(&exact, &never);
                prop_assert_eq!(&exact, &sloppy);
                prop_assert!(exact.departures.is_sorted_by_key(|(_, arrival)| *arrival));
            }
        }

        #[test]
        fn passing_an_idle_port_is_enqueuing_and_departing(
            schedule in prop::collection::vec((0u64..200_000, 1u16..25_000, class()), 1..99),
        ) {
            for kind in paced::and_registered() {
                let mut quick = port(kind, Rate::from_gbps(800));
                let mut slow = quick.clone();
                let mut rngs = [Rng::new(1), Rng::new(1)];
                let mut now = Instant::ZERO;
                for (handle, (gap, len, class)) in (0..).zip(&schedule) {
                    now += Duration::from_ps(*gap);
                    let packet = of_class(handle, *len, *class);
                    let [left, right] = &mut rngs;
                    while let Some(departed) = slow.depart(now, right) {
                        prop_assert_eq!(quick.depart(now, left), Some(departed));
                    }
                    match quick.pass(&packet, now) {
                        Some(arrival) => {
                            prop_assert_eq!(slow.enqueue(packet, now, &mut None), Verdict::Queued);
                            let departure =
                                Departure { packet, marked: false, data_left: 0, start: now };
                            prop_assert_eq!(slow.depart(now, right), Some((departure, arrival)));
                        }
                        None => {
                            let verdict = slow.enqueue(packet, now, &mut None);
                            prop_assert_eq!(quick.enqueue(packet, now, &mut None), verdict);
                        }
                    }
                    prop_assert_eq!(quick.queued(), slow.queued());
                    prop_assert_eq!(quick.waiting(), quick.queued().packets());
                    prop_assert_eq!(quick.sent(), slow.sent());
                }
            }
        }

        #[test]
        fn serialisation_is_what_the_rate_says(bps in 1u64..2_000_000_000_000, len: u16) {
            let port = port(QdiscKind::DropTail, Rate::from_bps(bps));
            prop_assert_eq!(port.time_for(len), serialisation(u64::from(len), Rate::from_bps(bps)));
        }
    }

    #[test]
    fn a_late_poll_costs_no_rate() {
        let mut port = port(QdiscKind::DropTail, Rate::from_gbps(800));
        let mut rng = Rng::new(1);
        for handle in 0..3 {
            while port.depart(Instant::ZERO, &mut rng).is_some() {}
            port.enqueue(packet(handle, 4160, false), Instant::ZERO, &mut None);
        }
        let late = Instant::from_ps(1_000_000_000);
        let arrivals: Vec<_> =
            std::iter::from_fn(|| port.depart(late, &mut rng)).map(|(_, at)| at.as_ps()).collect();
        assert_eq!(arrivals, [683_200, 724_800], "the first left before the second was enqueued");
    }

    #[test]
    fn a_paused_port_sends_control_alone_and_goes_on_where_it_stopped() {
        let at = Instant::from_ps;
        let mut port = port(QdiscKind::Ecn, Rate::from_gbps(800));
        let mut rng = Rng::new(1);
        port.pause(true, at(0));
        assert_eq!(port.pass(&packet(1, 1000, false), at(0)), None);
        port.enqueue(packet(1, 1000, false), at(0), &mut None);
        assert_eq!((port.next_departure(), port.waiting()), (Instant::FAR_FUTURE, 1));
        port.enqueue(packet(2, 1000, true), at(5), &mut None);
        let (departure, _) = port.depart(at(5), &mut rng).unwrap();
        assert_eq!((departure.packet.handle, departure.data_left), (2, 1000));
        assert_eq!(port.depart(Instant::FAR_FUTURE, &mut rng), None);
        port.pause(false, at(7));
        assert_eq!(port.next_departure(), at(10_005), "after the control packet");
        // A pause frame of 64 bytes goes first.
        assert_eq!(port.interject(64, at(8)), at(10_645) + Duration::from_ns(600));
        assert_eq!(port.next_departure(), at(10_645));
        assert_eq!(port.depart(at(10_645), &mut rng).unwrap().0.packet.handle, 1);
    }

    #[test]
    fn a_new_rate_holds_from_the_next_departure() {
        let mut port = port(QdiscKind::DropTail, Rate::from_gbps(800));
        port.set_rate(Rate::from_gbps(400), Instant::ZERO);
        assert_eq!(port.time_for(4160), Duration::from_ps(83_200));
        port.set_rate(Rate::ZERO, Instant::ZERO);
        assert_eq!(port.rate(), Rate::from_bps(1));
    }

    #[test]
    fn a_head_that_waits_leaves_at_its_time_and_control_does_not_wait_for_it() {
        let at = Instant::from_ps;
        let mut port = port(QdiscKind::Paced, Rate::from_gbps(800));
        let mut rng = Rng::new(1);
        for handle in 0..2 {
            port.enqueue(packet(handle, 1000, false), at(1), &mut None);
        }
        assert_eq!(port.next_departure(), at(50_000), "the next slot");
        assert_eq!(port.depart(at(49_999), &mut rng), None);
        port.enqueue(packet(2, 1000, true), at(30_000), &mut None);
        assert_eq!(port.next_departure(), at(30_000), "brought forward");
        let order: Vec<_> = std::iter::from_fn(|| port.depart(at(1_000_000), &mut rng))
            .map(|(departure, _)| (departure.packet.handle, departure.start))
            .collect();
        assert_eq!(order, [(2, at(30_000)), (0, at(50_000)), (1, at(70_000))]);
    }
}
