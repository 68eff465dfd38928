//! DCsim's port: four FIFOs in strict order of priority, the first at a limited rate.
//!
//! Source: \[dcsim\] sec. 2.3 and fig. 1. SIMs (class Probe) leave first, each with a token of a
//! bucket; the bucket's rate keeps the line free for the DATA that follows them. Then come SIM-ACKs
//! (ProbeAck), DATA-ACKs with all other control, and DATA. A FIFO of a small class holds a few
//! packets, the FIFO of DATA the rest of the buffer; a full FIFO drops the packet that comes.
//! Unscheduled data, which the paper does not have, leaves last. It enters only while it and DATA
//! together take less than its share of DATA's room. DATA that finds no room pushes out the
//! unscheduled packet that came last and is long enough. A packet that is being sent does not
//! count. Nothing is marked or trimmed. Units: bytes on the wire, packets, picoseconds.

use std::collections::VecDeque;

use transport::params::params;
use transport::registry::Registered;
use transport::token_bucket::{ProbeShare, TokenBucket};
use transport::wire::class::TrafficClass;
use transport::{Bytes, DropReason, Instant, Rate, Rng};

use super::{
    Dequeued, Discipline, LinkState, PacketSizes, Qdisc, QdiscParams, QdiscSettings, Queued,
    Verdict,
};
use crate::packet::Packet;

params! {
    /// Settings of [`DcSim`]; hosts that run the scheduler of this name obey them too.
    pub struct DcSimParams {
        /// Packets of each small class that a port holds: B.
        //= dcsim#4.1
        queue: u16 = 12, in 1..=1024;
        /// Tokens for SIMs that a port holds, from 1 to B: 2 keeps bursts short.
        //= dcsim#3.2
        bucket: u16 = 2, in 1..=1024;
        /// Packets as long as a SIM that a port leaves room for beside each DATA: a SIM, a SIM-ACK,
        /// a tenth of a DATA-ACK.
        //= dcsim#eq2
        overhead: f32 = 2.1, in 1.0..=64.0;
        /// Share of the room for DATA up to which unscheduled data enters, behind all else.
        unscheduled: f32 = 0.6, in 0.0..=1.0;
    }
}

/// SIMs with tokens, SIM-ACKs, other control, DATA, unscheduled data.
#[derive(Clone, Debug)]
pub struct DcSim {
    bucket: TokenBucket,
    share: ProbeShare,
    data: VecDeque<Packet>,
    data_bytes: u64,
    data_limit: u64,
    /// FIFOs of small classes by [`Small`], of at most `limit` packets, and of unscheduled data.
    beside: Box<[VecDeque<Packet>; 4]>,
    /// Packets in each FIFO of a small class.
    waiting: [u16; LAST],
    limit: u16,
    /// The link's data class is paused.
    paused: bool,
    /// Bytes in the FIFOs of the small classes.
    small_bytes: u32,
    /// Bytes of unscheduled data.
    last_bytes: u32,
    /// Bytes of DATA and unscheduled data together up to which unscheduled data enters.
    last_limit: u32,
}

// Every port has room for the largest discipline.
const _: () = assert!(size_of::<DcSim>() <= 128);

/// The small classes, highest priority first.
#[derive(Clone, Copy)]
enum Small {
    Sim = 0,
    SimAck = 1,
    Control = 2,
}

/// The place of unscheduled data in `beside`.
const LAST: usize = 3;

/// The FIFO of a small class; `None` for data.
const fn small(class: TrafficClass) -> Option<Small> {
    match class {
        TrafficClass::Probe => Some(Small::Sim),
        TrafficClass::ProbeAck => Some(Small::SimAck),
        TrafficClass::Control | TrafficClass::Trimmed => Some(Small::Control),
        TrafficClass::Data | TrafficClass::Unscheduled => None,
    }
}

/// Lengths of queues are kept in 32 bits.
fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl DcSim {
    /// An empty queue of a port whose link has `rate`.
    #[must_use]
    pub fn new(params: &DcSimParams, port: &QdiscParams, rate: Rate) -> Self {
        let PacketSizes { probed, probe } = port.sizes;
        let share = ProbeShare { data: probed, probe, overhead: params.overhead };
        //= dcsim#2.3: DATA has the remainder of the buffer.
        let small = 3 * u64::from(params.queue) * probe.0;
        let data_limit = port.data_limit.0.saturating_sub(small);
        Self {
            bucket: TokenBucket::new(share.interval(rate), params.bucket.into()),
            share,
            data: VecDeque::new(),
            data_bytes: 0,
            data_limit,
            beside: Box::default(),
            waiting: [0; LAST],
            limit: params.queue,
            paused: false,
            small_bytes: 0,
            last_bytes: 0,
            last_limit: narrow(Bytes(data_limit).scaled(params.unscheduled.into()).0),
        }
    }

    /// Whether a packet waits that needs no token.
    #[inline]
    fn has_free(&self) -> bool {
        let data = (self.data_bytes > 0 || self.last_bytes > 0) && !self.paused;
        data || self.waiting[1] > 0 || self.waiting[2] > 0
    }

    fn pop_small(&mut self, class: Small) -> Option<Packet> {
        let packet = self.beside[class as usize].pop_front()?;
        self.waiting[class as usize] -= 1;
        self.small_bytes -= u32::from(packet.len);
        Some(packet)
    }

    fn pop_data(&mut self) -> Option<Packet> {
        if self.paused {
            return None;
        }
        if self.data_bytes == 0 {
            return self.pop_last();
        }
        let packet = self.data.pop_front()?;
        self.data_bytes -= packet.wire_bytes();
        Some(packet)
    }

    #[cold]
    fn pop_last(&mut self) -> Option<Packet> {
        let packet = self.beside[LAST].pop_front()?;
        self.last_bytes -= u32::from(packet.len);
        Some(packet)
    }

    /// Takes out the packet of unscheduled data that came last of those whose place is enough for
    /// DATA to take `data_bytes`; `None` without one. O(unscheduled packets that are too short).
    #[cold]
    fn make_room(&mut self, data_bytes: u64) -> Option<Packet> {
        let over = (data_bytes + u64::from(self.last_bytes)).saturating_sub(self.data_limit);
        let last = &mut self.beside[LAST];
        let at = last.iter().rposition(|packet| packet.wire_bytes() >= over)?;
        let packet = last.remove(at)?;
        self.last_bytes -= u32::from(packet.len);
        Some(packet)
    }

    /// Adds unscheduled data; false where there is no room for it.
    #[cold]
    fn push_last(&mut self, packet: Packet) -> bool {
        let last_bytes = u64::from(self.last_bytes) + packet.wire_bytes();
        if self.data_bytes + last_bytes > u64::from(self.last_limit) {
            return false;
        }
        self.last_bytes = narrow(last_bytes);
        self.beside[LAST].push_back(packet);
        true
    }
}

impl Registered for DcSim {
    const ABOUT: &'static str =
        "probes with tokens, their answers, control, data: what DCsim's switches do";
    type Params = DcSimParams;
}

impl Discipline for DcSim {
    fn marks() -> bool {
        false
    }
    fn build(settings: &QdiscSettings, port: &QdiscParams, rate: Rate) -> Self {
        Self::new(&settings.dcsim, port, rate)
    }
}

impl Qdisc for DcSim {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Instant, lost: &mut Option<Packet>) -> Verdict {
        let full = Verdict::Dropped(DropReason::queue_full(packet.class()));
        match small(packet.class()) {
            Some(class) => {
                let class = class as usize;
                if self.waiting[class] >= self.limit {
                    return full;
                }
                self.waiting[class] += 1;
                self.small_bytes += u32::from(packet.len);
                self.beside[class].push_back(packet);
            }
            None if packet.class() == TrafficClass::Unscheduled => {
                if !self.push_last(packet) {
                    return full;
                }
            }
            None => {
                let bytes = self.data_bytes + packet.wire_bytes();
                if bytes + u64::from(self.last_bytes) > self.data_limit {
                    *lost = self.make_room(bytes);
                    if lost.is_none() {
                        return full;
                    }
                }
                self.data_bytes = bytes;
                self.data.push_back(packet);
            }
        }
        if lost.is_some() { Verdict::Evicted } else { Verdict::Queued }
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, _rng: &mut Rng) -> Option<Dequeued> {
        let sim = self.waiting[0] > 0 && self.bucket.ready_at() <= now;
        let packet = if sim {
            self.bucket.take(now);
            self.pop_small(Small::Sim)
        } else if self.waiting[1] > 0 {
            self.pop_small(Small::SimAck)
        } else if self.waiting[2] > 0 {
            self.pop_small(Small::Control)
        } else {
            self.pop_data()
        };
        let packet = packet?;
        Some(Dequeued { packet, marked: false })
    }

    #[inline]
    fn ready_at(&self) -> Instant {
        if self.has_free() {
            Instant::ZERO
        } else if self.waiting[0] > 0 {
            self.bucket.ready_at()
        } else {
            Instant::FAR_FUTURE
        }
    }

    /// A degraded link lets SIMs through at its present rate.
    fn set_link(&mut self, LinkState { rate, paused }: LinkState, now: Instant) {
        self.bucket.set_interval(self.share.interval(rate), now);
        self.paused = paused;
    }

    #[inline]
    fn queued(&self) -> Queued {
        Queued {
            data_bytes: self.data_bytes + u64::from(self.last_bytes),
            data_packets: self.data.len() + self.beside[LAST].len(),
            control_bytes: self.small_bytes.into(),
            control_packets: self.waiting.iter().map(|&n| usize::from(n)).sum(),
        }
    }

    #[inline]
    fn passes(&mut self, packet: &Packet, now: Instant) -> bool {
        match small(packet.class()) {
            Some(Small::Sim) if self.bucket.ready_at() > now => false,
            Some(Small::Sim) => {
                self.bucket.take(now);
                true
            }
            Some(Small::SimAck | Small::Control) => true,
            None => {
                let last = packet.class() == TrafficClass::Unscheduled;
                let limit = if last { self.last_limit.into() } else { self.data_limit };
                !self.paused && packet.wire_bytes() <= limit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Flags;
    use crate::port::Port;
    use transport::{Duration, HostId};

    const RATE: Rate = Rate::from_gbps(800);
    /// L and l on an 800G link.
    const DATA_PS: u64 = 90_000;
    const SIM_PS: u64 = 640;

    fn at(ps: u64) -> Instant {
        Instant::from_ps(ps)
    }

    fn qdisc(change: impl FnOnce(&mut DcSimParams)) -> DcSim {
        within(500_000, change)
    }

    /// The queue of a port with a buffer of so many bytes.
    fn within(buffer: u64, change: impl FnOnce(&mut DcSimParams)) -> DcSim {
        let mut params = DcSimParams::default();
        change(&mut params);
        let sizes = PacketSizes { probed: Bytes(9000), probe: Bytes(64) };
        let port = QdiscParams {
            sizes,
            ..QdiscParams::for_buffer(Bytes(buffer), Bytes(9000), QdiscParams::MARK)
        };
        DcSim::new(&params, &port, RATE)
    }

    fn packet(handle: u32, class: TrafficClass) -> Packet {
        let len = if class.is_data() { 9000 } else { 64 };
        Packet { handle, dst: HostId(0), hash: 0, len, trim_len: 64, flags: Flags::of(class) }
    }

    /// The start and class of each packet that leaves a port until `end`; its queue of SIMs is
    /// refilled whenever one leaves. With `follow`, a DATA arrives that long after each SIM;
    /// without, DATAs always wait.
    fn departures(
        change: impl FnOnce(&mut DcSimParams),
        follow: Option<Duration>,
        end: Instant,
    ) -> Vec<(Instant, TrafficClass)> {
        let mut port = Port::new(RATE, Duration::ZERO, qdisc(change));
        let mut rng = Rng::new(1);
        let mut data = VecDeque::new();
        let mut left = Vec::new();
        for _ in 0..4 {
            port.enqueue(packet(0, TrafficClass::Probe), at(0), &mut None);
        }
        if follow.is_none() {
            (0..4).for_each(|_| {
                port.enqueue(packet(0, TrafficClass::Data), at(0), &mut None);
            });
        }
        loop {
            let next = port.next_departure();
            let comes = data.front().copied().unwrap_or(Instant::FAR_FUTURE);
            if next.min(comes) > end {
                return left;
            }
            if comes < next {
                data.pop_front();
                port.enqueue(packet(0, TrafficClass::Data), comes, &mut None);
                continue;
            }
            let (departure, _) = port.depart(next, &mut rng).unwrap();
            let class = departure.packet.class();
            left.push((next, class));
            match (class, follow) {
                (TrafficClass::Probe, Some(after)) => data.push_back(next + after),
                (TrafficClass::Data, Some(_)) => continue,
                _ => {}
            }
            port.enqueue(packet(0, class), next, &mut None);
        }
    }

    //= dcsim#3.1: theorem 1.
    #[test]
    fn sims_and_their_data_alternate_and_fill_the_line_at_the_rate_of_equation_1() {
        let wait = Duration::from_ns(22_041);
        let end = at(2_000_000_000);
        let left = departures(|params| params.overhead = 1.0, Some(wait), end);
        let first = left.iter().position(|(_, class)| *class == TrafficClass::Data).unwrap();
        for pair in left[first..].windows(2) {
            let [(start, class), (next, next_class)] = pair else { unreachable!() };
            assert_ne!(class, next_class, "strict alternation from {start:?} on");
            let busy = if *class == TrafficClass::Data { DATA_PS } else { SIM_PS };
            assert_eq!(*next, *start + Duration::from_ps(busy), "the link never idles");
        }
        assert!(left.len() > 40_000);
    }

    //= dcsim#eq2
    #[test]
    fn with_room_for_acknowledgements_data_has_its_share_of_the_line() {
        let wait = Duration::from_ns(22_041);
        let end = at(4_000_000_000);
        let left = departures(|_| (), Some(wait), end);
        let since = at(1_000_000_000);
        let data =
            left.iter().filter(|(start, class)| *class == TrafficClass::Data && *start >= since);
        let share = data.count() as f64 * DATA_PS as f64 / 3_000_000_000.0;
        assert!((share / (9000.0 / 9134.4) - 1.0).abs() < 0.001, "{share}");
    }

    //= dcsim#3.2: theorem 3.
    #[test]
    fn one_token_falls_behind_behind_data_and_two_do_not() {
        let sims = |bucket| {
            let left = departures(|params| params.bucket = bucket, None, at(1_000_000_000));
            left.iter().filter(|(_, class)| *class == TrafficClass::Probe).count()
        };
        let full = 1_000_000_000 / 91_344;
        assert!(sims(1) <= full * 51 / 100, "{} of {full}", sims(1));
        for bucket in [2, 3, 12] {
            let sent = sims(bucket);
            assert!((full..=full + 1 + usize::from(bucket)).contains(&sent), "{bucket}: {sent}");
        }
    }

    #[test]
    fn classes_leave_in_the_papers_order_and_a_sim_without_token_lets_others_go() {
        let mut port = Port::new(RATE, Duration::ZERO, qdisc(|params| params.bucket = 1));
        let mut rng = Rng::new(1);
        port.enqueue(packet(0, TrafficClass::Data), at(0), &mut None);
        assert_eq!(port.depart(at(0), &mut rng).unwrap().0.packet.handle, 0);
        for (handle, class) in [
            (5, TrafficClass::Data),
            (4, TrafficClass::Trimmed),
            (3, TrafficClass::Control),
            (2, TrafficClass::ProbeAck),
            (1, TrafficClass::Probe),
            (6, TrafficClass::Probe),
        ] {
            port.enqueue(packet(handle, class), at(1), &mut None);
        }
        let left: Vec<_> = std::iter::from_fn(|| port.depart(at(1 << 30), &mut rng))
            .map(|(departure, _)| (departure.packet.handle, departure.start.as_ps()))
            .collect();
        let first = DATA_PS;
        let order = [
            (1, first),
            (2, first + SIM_PS),
            (4, first + 2 * SIM_PS),
            (3, first + 3 * SIM_PS),
            (5, first + 4 * SIM_PS),
            (6, first + 4 * SIM_PS + DATA_PS),
        ];
        assert_eq!(left, order, "the second SIM's token came while the DATA was sent");
    }

    #[test]
    fn a_sim_that_waits_for_a_token_alone_is_overtaken_by_what_comes() {
        let mut port = Port::new(RATE, Duration::ZERO, qdisc(|params| params.bucket = 1));
        let mut rng = Rng::new(1);
        port.enqueue(packet(1, TrafficClass::Probe), at(0), &mut None);
        port.enqueue(packet(2, TrafficClass::Probe), at(0), &mut None);
        assert_eq!(port.depart(at(0), &mut rng).unwrap().0.packet.handle, 1);
        assert_eq!(port.next_departure(), at(91_344));
        assert_eq!(port.pass(&packet(3, TrafficClass::Data), at(50_000)), None, "one waits");
        port.enqueue(packet(3, TrafficClass::Data), at(50_000), &mut None);
        let (departure, _) = port.depart(at(50_000), &mut rng).unwrap();
        assert_eq!((departure.packet.handle, departure.start), (3, at(50_000)));
        assert_eq!(port.next_departure(), at(140_000), "behind the data");
        // At a hundredth of the rate tokens come a hundred times slower.
        port.set_rate(Rate::from_gbps(8), at(50_000));
        assert_eq!(port.next_departure(), at(50_000 + 4_134_400));
    }

    #[test]
    fn a_small_queue_holds_b_packets_and_data_what_is_left_of_the_buffer() {
        let mut queue = qdisc(|_| ());
        for class in [TrafficClass::Probe, TrafficClass::ProbeAck, TrafficClass::Control] {
            for handle in 0..20 {
                let verdict = queue.enqueue(packet(handle, class), at(0), &mut None);
                let full = Verdict::Dropped(DropReason::queue_full(class));
                assert_eq!(verdict, if handle < 12 { Verdict::Queued } else { full });
            }
        }
        // 500,000 - 3 * 12 * 64 bytes are 55 DATAs of 9000.
        for handle in 0..60 {
            let verdict = queue.enqueue(packet(handle, TrafficClass::Data), at(0), &mut None);
            let full = Verdict::Dropped(DropReason::DataQueueFull);
            assert_eq!(verdict, if handle < 55 { Verdict::Queued } else { full });
        }
        let queued = queue.queued();
        assert_eq!((queue.data_limit, queued.data_packets), (497_696, 55));
        assert_eq!((queued.control_packets, queued.control_bytes), (36, 36 * 64));
    }

    /// Sends packets of `class` through a port, with SIM-ACKs that come at `acks`. Returns when
    /// each has left, and its handle; those that are dropped are missing.
    fn through(
        queue: DcSim,
        class: TrafficClass,
        arrivals: &[(u64, u32)],
        acks: &[u64],
    ) -> Vec<(u64, u32)> {
        const ACK: u32 = u32::MAX;
        let (mut port, mut rng) = (Port::new(RATE, Duration::ZERO, queue), Rng::new(1));
        let mut comes: Vec<_> = arrivals.to_vec();
        comes.extend(acks.iter().map(|ps| (*ps, ACK)));
        comes.sort_unstable();
        comes.push((u64::MAX / 2, ACK));
        let mut left = Vec::new();
        for (ps, handle) in comes {
            while port.next_departure() <= at(ps) {
                let departure = port.depart(at(ps), &mut rng).unwrap().0;
                let busy = if departure.packet.is_data() { DATA_PS } else { SIM_PS };
                left.push((departure.start.as_ps() + busy, departure.packet.handle));
            }
            let class = if handle == ACK { TrafficClass::ProbeAck } else { class };
            port.enqueue(packet(handle, class), at(ps), &mut None);
        }
        left.retain(|(_, handle)| *handle != ACK);
        left
    }

    /// Three packets come before those of the sources A, B and C. B and C share a switch, and the
    /// SIM of B finds the next one full. So the DATA of C, which follows no DATA of B there, comes
    /// a slot sooner than its SIM did, when the DATA of A has the place that C's SIM had.
    //= dcsim#3.1: figure 3.
    #[test]
    fn the_counterexample_loses_its_one_data_unless_there_is_room_for_twice_as_many() {
        const FIRST: [(u64, u32); 3] = [(2, 1), (2000, 2), (2001, 3)];
        const A: u32 = 10;
        const B: u32 = 11;
        const C: u32 = 12;
        let port = |data: u64| {
            within(data * 9000 + 3 * 2 * 64, |params| (params.queue, params.bucket) = (2, 1))
        };
        let pass = |class, shared: &[(u64, u32)], acks: &[u64], data| {
            let mut comes = FIRST.to_vec();
            comes.push((93_000, A));
            comes.extend(through(port(data), class, shared, &[]));
            let left = through(port(data), class, &comes, acks);
            left.iter().map(|(_, handle)| *handle).collect::<Vec<_>>()
        };
        let sims = pass(TrafficClass::Probe, &[(93_100, B), (93_101, C)], &[], 2);
        assert_eq!(sims, [1, 2, 3, A, C]);
        // Two SIM-ACKs a slot, for which equation 2 leaves room.
        let acks = [0, 1, 50_000, 50_001, 100_000, 100_001];
        let data = |room| pass(TrafficClass::Data, &[(93_101, C)], &acks, room);
        assert_eq!(data(2), [1, 2, 3, A], "the DATA of C is lost");
        assert_eq!(data(4), [1, 2, 3, A, C]);
    }

    #[test]
    fn unscheduled_data_leaves_last_enters_up_to_its_share_and_gives_way_to_data() {
        let mut port = Port::new(RATE, Duration::ZERO, within(92_304, |p| p.unscheduled = 0.4));
        let mut rng = Rng::new(1);
        let mut lost = None;
        let mut enqueue = |port: &mut Port<DcSim>, handle, class| {
            lost = None;
            let verdict = port.enqueue(packet(handle, class), at(0), &mut lost);
            (verdict, lost.map(|packet| packet.handle))
        };
        let full = Verdict::Dropped(DropReason::UnscheduledQueueFull);
        // The line is busy with the first. Room for ten of data, and for four unscheduled.
        enqueue(&mut port, 0, TrafficClass::Data);
        port.depart(at(0), &mut rng).unwrap();
        for handle in 1..=4 {
            let verdict = enqueue(&mut port, handle, TrafficClass::Unscheduled);
            assert_eq!(verdict, (Verdict::Queued, None));
        }
        assert_eq!(enqueue(&mut port, 5, TrafficClass::Unscheduled), (full, None));
        for handle in 11..=16 {
            assert_eq!(enqueue(&mut port, handle, TrafficClass::Data), (Verdict::Queued, None));
        }
        for (handle, evicted) in (17..=20).zip([4, 3, 2, 1]) {
            let verdict = enqueue(&mut port, handle, TrafficClass::Data);
            assert_eq!(verdict, (Verdict::Evicted, Some(evicted)));
        }
        let full = Verdict::Dropped(DropReason::DataQueueFull);
        assert_eq!(enqueue(&mut port, 21, TrafficClass::Data), (full, None));
        for _ in 0..8 {
            port.depart(at(1 << 40), &mut rng).unwrap();
        }
        assert_eq!(enqueue(&mut port, 6, TrafficClass::Unscheduled), (Verdict::Queued, None));
        assert_eq!(enqueue(&mut port, 22, TrafficClass::Data), (Verdict::Queued, None));
        let left = std::iter::from_fn(|| port.depart(at(1 << 40), &mut rng));
        let left: Vec<_> = left.map(|(departure, _)| departure.packet.handle).collect();
        assert_eq!(left, [19, 20, 22, 6]);
    }

    #[test]
    fn data_pushes_out_unscheduled_data_that_is_long_enough() {
        let mut queue = within(20_304, |p| p.unscheduled = 1.0);
        let mut lost = None;
        let mut enqueue = |handle, class, len| {
            lost = None;
            let verdict = queue.enqueue(Packet { len, ..packet(handle, class) }, at(0), &mut lost);
            (verdict, lost.map(|packet| packet.handle), queue.queued().data_packets)
        };
        let all = (Verdict::Queued, None);
        for (handle, len) in [(1, 9000), (2, 8900), (3, 100)] {
            let (verdict, evicted, count) = enqueue(handle, TrafficClass::Unscheduled, len);
            assert_eq!(((verdict, evicted), count), (all, handle as usize));
        }
        // The last is too short, and so is the one before it.
        let data = enqueue(4, TrafficClass::Data, 9000);
        assert_eq!(data, (Verdict::Evicted, Some(1), 3));
        let full = Verdict::Dropped(DropReason::DataQueueFull);
        assert_eq!(enqueue(5, TrafficClass::Data, 9000), (full, None, 3));
        assert_eq!(enqueue(6, TrafficClass::Data, 8000), (Verdict::Evicted, Some(2), 3));
    }
}
