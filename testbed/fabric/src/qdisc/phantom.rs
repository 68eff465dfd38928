//! Phantom queues. A phantom queue is a counter beside a real queue that fills as the real one
//! does, and drains more slowly than the link. So marks report a load near the line rate before
//! anything waits.
//!
//! Source: \[uno\] sec. 4.1.3: the occupancy grows by every packet that is queued, shrinks at a
//! constant share of the link's rate, and marks between two thresholds of its own, whatever the
//! real queue holds. Only data counts, with its size on the wire, and no more than the phantom's
//! size; a trimmed or dropped packet was not queued. Marks of both queues count; with `physical`
//! off only those of the phantom queue do. As with the real queue the departing packet is marked.
//! When the rate of the link changes, the phantom queue drains at its share of the new rate.
//! No timer runs: a phantom queue is kept as the instant at which it would be empty, and its
//! occupancy follows from the time until then and the rate. That is exact, except that each
//! packet's time is rounded down to a picosecond.

use transport::params::params;
use transport::registry::Registered;
use transport::{Bytes, Duration, Instant, Rate, Rng};

use super::{
    Dequeued, Discipline, Ecn, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued, Service,
    Verdict,
};
use crate::packet::{Flags, Packet};

/// A phantom queue beside drop-tail with RED marks.
pub type PhantomEcn = Phantom<Ecn>;

params! {
    /// A phantom queue as users set it: shares of what a port and a network have.
    pub struct PhantomParams {
        /// drain rate of a phantom queue by its link's, 1e-9..=1
        //= uno#5.1
        drain: f64 = 0.9, in 1e-9..=1.0;
        /// bytes a phantom queue holds, or auto: a BDP of the longest path, whose thresholds are
        /// never below 1.5 and 60 of the longest packets
        size: Option<Bytes> = None;
        /// share of a phantom queue up to which it marks nothing, 0..=1
        //= uno#5.1
        kmin: f64 = 0.25, in 0.0..=1.0;
        /// share of a phantom queue above which it marks everything, 0..=1
        kmax: f64 = 0.75, in 0.0..=1.0;
        /// whether the real queue beside a phantom one marks, too: on or off
        physical: bool = true;
    }
}

/// The phantom queue of one port.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PhantomSizes {
    /// The phantom queue's drain rate by the link's rate, 1e-9..=1.
    drain: f64,
    /// The most bytes that the phantom queue holds; none where no phantom queue is.
    size: Bytes,
    /// Bytes up to which nothing is marked.
    kmin: Bytes,
    /// Bytes above which everything is, at least `kmin`.
    kmax: Bytes,
    /// Whether the real queue marks, too.
    physical: bool,
}

impl PhantomSizes {
    /// A phantom queue that holds nothing and never marks.
    const NONE: Self =
        Self { drain: 1.0, size: Bytes(0), kmin: Bytes(0), kmax: Bytes(0), physical: true };

    /// The sizes at a `port`; [`Self::NONE`] at a NIC.
    // DEVIATION(uno#4.1.3): thresholds are never below some packets, as a share of a short path's
    // BDP is: there a single packet would be above them, and everything would be marked.
    fn at(params: &PhantomParams, port: &QdiscParams) -> Self {
        let Some(path) = port.path_bdp else { return Self::NONE };
        let least = |packets| match params.size {
            Some(_) => Bytes::ZERO,
            None => port.packet_max.scaled(packets),
        };
        let size = params.size.unwrap_or(path);
        let part = |share: f64| size.scaled(share.clamp(0.0, 1.0));
        let kmin = part(params.kmin).max(least(KMIN_PACKETS));
        let kmax = part(params.kmax.max(params.kmin)).max(least(KMAX_PACKETS));
        let (drain, size) = (params.drain.clamp(0.0, 1.0), size.max(kmax));
        Self { drain, size, kmin, kmax, physical: params.physical }
    }

    /// The rate at which it drains where the link has `rate`.
    fn drain(&self, rate: Rate) -> Rate {
        Rate::from_bps(Bytes(rate.as_bps()).scaled(self.drain).0.max(1))
    }

    /// Size, kmin and kmax in the time that they take to drain at the rate `drain`.
    fn times(&self, drain: Rate) -> [Duration; 3] {
        [self.size, self.kmin, self.kmax].map(|bytes| drain.time_for(bytes))
    }
}

/// The longest packets that an automatic phantom queue holds, at least, before it marks anything,
/// and before it marks everything (docs/PAPERS.md, `uno`, has what other numbers give). They are
/// below the thresholds of the preset `uno` where the BDP is larger than 300 packets, as it is on
/// all far paths of the paper.
const KMIN_PACKETS: f64 = 1.5;
const KMAX_PACKETS: f64 = 60.0;

/// A queue with a phantom beside it.
#[derive(Clone, Debug)]
pub struct Phantom<Q> {
    queue: Q,
    /// When the phantom queue would be empty if no more packets came.
    empty_at: Instant,
    /// The rate at which the phantom queue drains, above zero.
    drain: Rate,
    /// The most that the phantom queue holds, as the time in which it drains.
    size: Duration,
    /// The threshold up to which nothing is marked, in the same unit.
    kmin: Duration,
    /// The second threshold, and the sizes in bytes.
    rest: Box<Rest>,
}

/// What a phantom queue needs only above the first threshold, or when its link changes.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// The threshold above which everything is marked, in the time that draining it takes.
    kmax: Duration,
    /// The sizes in bytes.
    sizes: PhantomSizes,
}

// Every port has room for the largest discipline.
const _: () = assert!(size_of::<Phantom<super::Trim>>() <= 160 && size_of::<PhantomEcn>() <= 160);

impl<Q: Qdisc> Phantom<Q> {
    /// An empty phantom at a `port` of `rate`, beside the queue that `real` builds from the port's
    /// parameters; where only the phantom marks, `real` gets thresholds that no queue exceeds.
    pub(super) fn beside(
        real: impl FnOnce(&QdiscParams) -> Q,
        params: &PhantomParams,
        port: &QdiscParams,
        rate: Rate,
    ) -> Self {
        let sizes = PhantomSizes::at(params, port);
        let never = Bytes(u64::MAX);
        let (kmin, kmax) = if sizes.physical { (port.kmin, port.kmax) } else { (never, never) };
        let queue = real(&QdiscParams { kmin, kmax, ..*port });
        let drain = sizes.drain(rate);
        let [size, kmin, kmax] = sizes.times(drain);
        let rest = Box::new(Rest { kmax, sizes });
        Self { queue, empty_at: Instant::ZERO, drain, size, kmin, rest }
    }

    /// Drains at `drain` from `now` on. What it holds, and its thresholds, stay as many bytes.
    #[cold]
    fn set_drain(&mut self, drain: Rate, now: Instant) {
        let held = self.drain.bytes_in(self.empty_at.since(now));
        self.empty_at = now + drain.time_for(held);
        self.drain = drain;
        [self.size, self.kmin, self.rest.kmax] = self.rest.sizes.times(drain);
    }

    /// When the phantom queue would be empty with `packet` queued at `now`.
    #[inline]
    fn with(&self, packet: &Packet, now: Instant) -> Instant {
        let time = Duration::from_ps(packet.wire_bytes() * BYTE_PS / self.drain.as_bps());
        (self.empty_at.max(now) + time).min(now + self.size)
    }

    /// Whether chance marks a packet at this `occupancy`. In integers, as RED does; draws only
    /// between the thresholds.
    #[inline]
    fn wants_mark(&self, occupancy: Duration, rng: &mut Rng) -> bool {
        if occupancy <= self.kmin {
            return false;
        }
        let (above, kmax) = (occupancy.saturating_sub(self.kmin), self.rest.kmax);
        occupancy > kmax || rng.below(kmax.saturating_sub(self.kmin).as_ps()) < above.as_ps()
    }
}

impl Registered for PhantomEcn {
    const ABOUT: &'static str =
        "as ecn, and a counter that drains more slowly than the link marks, too";
    type Params = PhantomParams;
}

impl Discipline for PhantomEcn {
    fn build(settings: &QdiscSettings, port: &QdiscParams, rate: Rate) -> Self {
        Self::beside(Ecn::new, &settings.phantom, port, rate)
    }

    fn keeps_order() -> bool {
        true
    }
}

impl<Q: Qdisc> Qdisc for Phantom<Q> {
    #[inline]
    fn enqueue(&mut self, packet: Packet, now: Instant, lost: &mut Option<Packet>) -> Verdict {
        let verdict = self.queue.enqueue(packet, now, lost);
        if verdict == Verdict::Queued && packet.is_data() {
            self.empty_at = self.with(&packet, now);
        }
        verdict
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, rng: &mut Rng) -> Option<Dequeued> {
        let mut dequeued = self.queue.dequeue(now, rng)?;
        let packet = &mut dequeued.packet;
        let open = packet.is_data() && packet.flags.has(Flags::ECT) && !packet.flags.has(Flags::CE);
        if open && self.wants_mark(self.empty_at.since(now), rng) {
            packet.flags = packet.flags.with(Flags::CE);
            dequeued.marked = true;
        }
        Some(dequeued)
    }

    #[inline]
    fn ready_at(&self) -> Instant {
        self.queue.ready_at()
    }

    fn service(&self) -> Service {
        // Each packet of data may have to be marked.
        Service { passes: Bytes::ZERO, ..self.queue.service() }
    }

    fn set_link(&mut self, link: LinkState, now: Instant) {
        self.queue.set_link(link, now);
        let drain = self.rest.sizes.drain(link.rate);
        if drain != self.drain {
            self.set_drain(drain, now);
        }
    }

    #[inline]
    fn queued(&self) -> Queued {
        self.queue.queued()
    }

    /// Passes no packet that the phantom may mark, because marking takes a draw.
    #[inline]
    fn passes(&mut self, packet: &Packet, now: Instant) -> bool {
        if !packet.is_data() {
            return self.queue.passes(packet, now);
        }
        let empty_at = self.with(packet, now);
        let passes = empty_at.since(now) <= self.kmin && self.queue.passes(packet, now);
        if passes {
            self.empty_at = empty_at;
        }
        passes
    }
}

/// Picoseconds a byte takes at one bit a second.
const BYTE_PS: u64 = 8_000_000_000_000;
const _: () = assert!(u16::MAX as u64 <= u64::MAX / BYTE_PS, "a packet's time stays in 64 bits");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use transport::wire::class::TrafficClass;
    use transport::{HostId, Rng};

    use super::*;
    use crate::qdisc::{PacketSizes, PhantomTrim};

    /// A port whose longest path has a BDP of `size`.
    fn port(size: u64) -> QdiscParams {
        QdiscParams {
            data_limit: Bytes(60_000),
            control_limit: Bytes(1_000),
            kmin: Bytes(20_000),
            kmax: Bytes(40_000),
            path_bdp: Some(Bytes(size)),
            packet_max: Bytes(4_160),
            sizes: PacketSizes { probed: Bytes(4_160), probe: Bytes(64) },
        }
    }

    fn built<D: Discipline>(phantom: PhantomParams, gbps: u64, size: u64) -> D {
        let settings = QdiscSettings { phantom, ..QdiscSettings::default() };
        D::build(&settings, &port(size), Rate::from_gbps(gbps))
    }

    fn standard<D: Discipline>(gbps: u64, size: u64) -> D {
        built(PhantomParams { size: Some(Bytes(size)), ..PhantomParams::default() }, gbps, size)
    }

    fn data(len: u16) -> Packet {
        let flags = Flags::ECT.with(Flags::TRIMMABLE);
        Packet { handle: 0, dst: HostId(0), hash: 0, len, trim_len: 64, flags }
    }

    fn at(ps: u64) -> Instant {
        Instant::from_ps(ps)
    }

    /// The occupancy of the phantom at `now`, bytes.
    fn occupancy(queue: &PhantomEcn, now: Instant) -> f64 {
        let ps = queue.empty_at.since(now).as_us_f64() * 1e6;
        ps * Bytes(queue.drain.as_bps()).as_f64() / 8e12
    }

    /// The definition: a counter that loses a little each tick of 100 ps.
    struct Ticking {
        bytes: f64,
        size: f64,
        drain: f64,
        now: u64,
    }

    impl Ticking {
        const TICK: u64 = 100;

        fn run_until(&mut self, ps: u64) {
            while self.now < ps {
                self.bytes = (self.bytes - self.drain * 1e-10 / 8.0).max(0.0);
                self.now += Self::TICK;
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_drained_lazily_is_what_a_ticking_counter_holds(
            arrivals in prop::collection::vec((0u64..8_000, 1u16..9000, any::<bool>()), 1..120),
            gbps in 1u64..801,
            size in 1_000u64..200_000,
        ) {
            let mut queue: PhantomEcn = standard(gbps, size);
            let drain = Bytes(queue.drain.as_bps()).as_f64();
            let mut ticking =
                Ticking { bytes: 0.0, size: Bytes(size).as_f64(), drain, now: 0 };
            let mut rng = Rng::new(1);
            let mut now = 0;
            for (ticks, len, control) in arrivals {
                now += ticks * Ticking::TICK;
                ticking.run_until(now);
                let flags = if control { Flags::of(TrafficClass::Control) } else { Flags::ECT };
                let packet = Packet { flags, ..data(len) };
                let verdict = queue.enqueue(packet, at(now), &mut None);
                if verdict == Verdict::Queued && !control {
                    ticking.bytes = (ticking.bytes + f64::from(len)).min(ticking.size);
                }
                while queue.dequeue(at(now), &mut rng).is_some() {}
                let difference = (occupancy(&queue, at(now)) - ticking.bytes).abs();
                prop_assert!(difference < 20.0, "{difference} bytes at {now} ps");
            }
        }
    }

    #[test]
    fn marks_begin_at_kmin_and_are_certain_above_kmax_though_nothing_waits() {
        // Packets of 1000 bytes back to back at the line rate: the phantom keeps a tenth of each.
        let mut queue: PhantomTrim = standard(80, 40_000);
        let mut rng = Rng::new(3);
        let mut marks = Vec::new();
        for i in 0..400 {
            let now = at(i * 100_000);
            if queue.passes(&data(1000), now) {
                marks.push(false);
                continue;
            }
            assert_eq!(queue.enqueue(data(1000), now, &mut None), Verdict::Queued);
            let Dequeued { packet, marked } = queue.dequeue(now, &mut rng).unwrap();
            assert_eq!((queue.queued(), packet.flags.has(Flags::CE)), (Queued::default(), marked));
            marks.push(marked);
        }
        // 9.1 KB after 91 packets, 29.1 KB after 291.
        assert!(!marks[..85].contains(&true));
        assert!(!marks[300..].contains(&false));
        let between = marks[100..290].iter().filter(|marked| **marked).count();
        assert!((60..130).contains(&between), "{between} of 190");
    }

    #[test]
    fn it_holds_no_more_than_its_size_and_is_empty_that_much_later() {
        let size = Some(Bytes(9_000));
        let half = PhantomParams { drain: 0.5, size, ..PhantomParams::default() };
        let mut queue: PhantomEcn = built(half, 16, 9_000);
        for _ in 0..5 {
            queue.enqueue(data(4_000), at(0), &mut None);
        }
        // 8 Gb/s are a byte a nanosecond.
        assert_eq!(queue.empty_at, at(9_000_000));
        assert!(queue.passes(&data(100), at(9_000_001)));
    }

    #[test]
    fn a_full_real_queue_marks_only_if_it_counts() {
        for physical in [true, false] {
            let params = PhantomParams { physical, ..PhantomParams::default() };
            let mut queue: PhantomEcn = built(params, 100, 1 << 30);
            let mut rng = Rng::new(1);
            for _ in 0..14 {
                assert_eq!(queue.enqueue(data(4_160), at(0), &mut None), Verdict::Queued);
            }
            assert_eq!(queue.dequeue(at(1), &mut rng).unwrap().marked, physical);
        }
    }

    #[test]
    fn it_drains_by_its_own_link_and_is_as_large_as_the_longest_path_unless_set() {
        let sizes = PhantomSizes::at(&PhantomParams::default(), &port(22_401_600));
        assert_eq!(sizes.drain(Rate::from_gbps(100)), Rate::from_gbps(90));
        assert_eq!(sizes.size, Bytes(22_401_600));
        assert_eq!((sizes.kmin, sizes.kmax), (Bytes(5_600_400), Bytes(16_801_200)));
        let set = PhantomParams { size: Some(Bytes(8)), ..PhantomParams::default() };
        assert_eq!(PhantomSizes::at(&set, &port(1)).size, Bytes(8));
        let nic = QdiscParams { path_bdp: None, ..port(1) };
        assert_eq!(PhantomSizes::at(&set, &nic), PhantomSizes::NONE);
    }

    #[test]
    fn automatic_thresholds_are_some_packets_at_least() {
        let shares = PhantomParams { kmin: 0.005, kmax: 0.2, ..PhantomParams::default() };
        let thresholds = |size| {
            let PhantomSizes { kmin, kmax, size, .. } = PhantomSizes::at(&shares, &port(size));
            assert!(kmax <= size);
            [kmin, kmax].map(|bytes| bytes.0)
        };
        assert_eq!(thresholds(97_000), [6_240, 60 * 4_160]);
        assert_eq!(thresholds(22_401_600), [112_008, 4_480_320]);
    }

    #[test]
    fn it_drains_as_its_link_does_and_keeps_its_bytes() {
        let mut queue: PhantomEcn = standard(80, 40_000);
        queue.enqueue(data(9_000), at(0), &mut None);
        // 9 Gb/s are 9 bytes in 8 ns: a millionth of a second leaves 7875 of 9000 bytes.
        let slow = LinkState { rate: Rate::from_gbps(10), paused: false };
        queue.set_link(slow, at(0));
        assert_eq!(occupancy(&queue, at(1_000_000)).round(), 7_875.0);
        let thresholds = [queue.size, queue.kmin, queue.rest.kmax];
        let at_nine = |bytes| Rate::from_gbps(9).time_for(Bytes(bytes));
        assert_eq!(thresholds, [at_nine(40_000), at_nine(10_000), at_nine(30_000)]);
        queue.set_link(LinkState { rate: Rate::from_gbps(80), paused: true }, at(1_000_000));
        assert_eq!(occupancy(&queue, at(1_000_000)).round(), 7_875.0);
        assert_eq!(queue.kmin, Rate::from_gbps(72).time_for(Bytes(10_000)));
    }

    #[test]
    fn what_is_dropped_or_trimmed_does_not_count() {
        let mut queue: PhantomTrim = standard(100, 1 << 20);
        let verdicts: Vec<_> =
            (0..16).map(|_| queue.enqueue(data(4_160), at(0), &mut None)).collect();
        assert_eq!(verdicts[13..], [Verdict::Queued, Verdict::Trimmed, Verdict::Trimmed]);
        assert_eq!(queue.empty_at.as_ps(), 14 * (4_160 * BYTE_PS / 90_000_000_000));
    }
}
