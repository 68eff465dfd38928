//! Paced queues of flows: one queue a flow, emptied at a rate of its own and, with a clock, by the
//! credits of its receiver.
//!
//! ```text
//!   push --> queue of the flow --ready at next_at, with allowance left--> heap of its port --> pop
//!                 ^ rate, credit: a new allowance
//! ```
//!
//! A port serves its queues in the order in which they became ready. Which packet leaves next, and
//! when it may, is a function of state, never of when [`Queues::ready_at`] is asked. A queue that
//! is late, because the link was taken, catches up by one packet. A queue whose credits have
//! stopped for good is emptied at its rate. The pool is bounded: a flow that finds it exhausted has
//! no queue. A queue that has been empty for some time is free again.
//!
//! Nothing is allocated once the pool and its queues have reached their largest size. Each packet
//! costs O(log n) of the queues of its port that wait.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use transport::units::Key;
use transport::{ByKey, Bytes, Duration, HostId, Instant, KeyHash, Rate};

use super::recent::{NEVER, Recent};
use crate::packet::Packet;

/// What bounds the queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Queues at most.
    pub(super) queues: usize,
    /// Bytes in all queues at most.
    pub(super) bytes: u64,
    /// How long an empty queue stays its flow's.
    pub(super) idle: Duration,
    /// Flows to a host are counted over such spans.
    pub(super) span: Duration,
    /// RTT_D: the least time between two credits.
    pub(super) rtt: Duration,
    /// Bytes that may leave under one credit, as a multiple of the bytes that the rate sends in
    /// RTT_D; 0: any number.
    pub(super) clock: f32,
    /// Bytes that leave under one credit however low the rate is.
    pub(super) allowance_least: u64,
    /// Bytes of the longest packet.
    pub(super) packet_max: u64,
}

/// After so many RTT_D without a credit a queue still gets a small allowance.
const PATIENCE: u64 = 10;

/// After so many silences in a row the control loop counts as gone: only the rate bounds the queue
/// then, until a credit comes. (Acknowledgements of a flow that has moved to another border switch
/// pass that one.)
const SILENCES_MAX: u8 = 2;

/// Why a packet has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushError {
    /// No queue is free.
    Exhausted,
    /// The buffer is full.
    Full,
}

/// A packet that leaves its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Popped {
    pub(super) packet: Packet,
    /// C_D: the last credit; 0 before the first.
    pub(super) credit: u16,
    /// Bytes left in the queue.
    pub(super) left: u64,
    /// Bytes that have left the queue.
    pub(super) sent: u64,
}

/// The queue of one flow.
#[derive(Clone, Debug)]
struct Queue {
    packets: VecDeque<Packet>,
    bytes: u64,
    sent: u64,
    key: Key,
    host: HostId,
    /// The span of time in which it was counted last among the flows to `host`.
    counted: u64,
    port: usize,
    rate: Rate,
    credit: Option<u16>,
    /// When the last credit came, or the queue began.
    credit_at: Instant,
    /// Bytes that may leave under this credit.
    allowance: u64,
    /// Silences in a row after which there was no credit.
    silences: u8,
    /// When the pace lets the next packet go.
    next_at: Instant,
    /// The number of its entry in the heap of its port; others are old.
    entry: u64,
    emptied_at: Instant,
    /// Whether the queue is in the list of queues that were empty.
    listed: bool,
}

/// The queues of one switch.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    limits: Limits,
    queues: Vec<Queue>,
    /// The queue of each flow, by its key. A switch is no end of flows, so packets carry no index
    /// of the switch's tables. Never iterated.
    of: ByKey<u32>,
    /// Flows to each host that have sent lately.
    recent: Recent,
    free: Vec<u32>,
    /// Queues that were empty, the one that was first on top; each once.
    empty: BinaryHeap<Reverse<(Instant, u32)>>,
    /// For each port: (ready, entry, queue).
    waiting: Vec<BinaryHeap<Reverse<(Instant, u64, u32)>>>,
    entries: u64,
    bytes: u64,
}

impl Queues {
    /// Queues for `ports` ports, all empty; `hash` finds those of flows.
    pub(super) fn new(limits: Limits, ports: usize, hash: KeyHash) -> Self {
        Self {
            limits,
            queues: Vec::new(),
            of: ByKey::with_hasher(hash),
            recent: Recent::new(limits.span),
            free: Vec::new(),
            empty: BinaryHeap::new(),
            waiting: vec![BinaryHeap::new(); ports],
            entries: 0,
            bytes: 0,
        }
    }

    /// Queues that belong to a flow.
    pub(super) fn open(&self) -> usize {
        self.of.len()
    }

    /// Forgets all flows; returns the packets that waited, with their ports.
    pub(super) fn clear(&mut self) -> Vec<(usize, Packet)> {
        let ports = self.waiting.len();
        let fresh = Self::new(self.limits, ports, *self.of.hasher());
        let old = std::mem::replace(self, fresh);
        let of_one = |queue: Queue| queue.packets.into_iter().map(move |one| (queue.port, one));
        old.queues.into_iter().flat_map(of_one).collect()
    }

    /// The flows that have a queue: their keys, the bytes in it, and its rate.
    pub(super) fn of_flows(&self) -> impl Iterator<Item = (Key, Bytes, Rate)> + '_ {
        let is_open = |(index, queue): &(u32, &Queue)| self.of.get(&queue.key.0) == Some(index);
        let open = (0..).zip(&self.queues).filter(is_open);
        open.map(|(_, queue)| (queue.key, Bytes(queue.bytes), queue.rate))
    }

    /// Flows with a queue that have sent to `host` lately, at `now`. A queue stays open for long
    /// after its flow has ended, so open queues show little of which flows share the link.
    pub(super) fn flows_to(&self, host: HostId, now: Instant) -> u16 {
        self.recent.flows_to(host, now)
    }

    /// Queues `packet` of the flow of `key` for `port`; a new queue has the rate that `initial`
    /// gives for the number of flows with a queue that have sent to its host lately.
    ///
    /// # Errors
    /// Why there is no place.
    pub(super) fn push(
        &mut self,
        key: Key,
        (packet, port): (Packet, usize),
        initial: impl FnOnce(u16) -> Rate,
        now: Instant,
    ) -> Result<(), PushError> {
        if self.bytes + packet.wire_bytes() > self.limits.bytes {
            return Err(PushError::Full);
        }
        let index = match self.of.get(&key.0) {
            Some(index) => *index,
            None => {
                let rate = initial(self.flows_to(packet.dst, now));
                self.open_queue(key, packet.dst, rate, now).ok_or(PushError::Exhausted)?
            }
        };
        self.bytes += packet.wire_bytes();
        let queue = &mut self.queues[index as usize];
        self.recent.count(queue.host, &mut queue.counted, now);
        queue.bytes += packet.wire_bytes();
        queue.packets.push_back(packet);
        if queue.packets.len() == 1 {
            queue.port = port;
            queue.next_at = queue.next_at.max(now);
            self.file(index, now);
        }
        Ok(())
    }

    /// The receiver of the flow of `key` has sent `credit` with a rate for its queue. Returns the
    /// port of the queue; `None` when there is no queue, or the credit is older than the one that
    /// it has. A wait that remains from a lower rate is cut to the time of a packet at the new
    /// rate.
    pub(super) fn advise(
        &mut self,
        key: Key,
        credit: u16,
        rate: Rate,
        now: Instant,
    ) -> Option<usize> {
        let index = self.of.get(&key.0).copied()?;
        let fresh = self.allowance(rate);
        let queue = &mut self.queues[index as usize];
        //= mlcc#alg1
        let ahead = queue.credit.map_or(1, |known| credit.wrapping_sub(known));
        if ahead >= 1 << 15 {
            return None;
        }
        queue.rate = rate;
        queue.credit = Some(credit);
        let port = queue.port;
        let soonest = now + rate.time_for(Bytes(self.limits.packet_max));
        let mut is_changed = queue.next_at > soonest;
        queue.next_at = queue.next_at.min(soonest);
        if ahead > 0 {
            is_changed |= queue.allowance == 0;
            (queue.allowance, queue.credit_at, queue.silences) = (fresh, now, 0);
        }
        if is_changed && !queue.packets.is_empty() {
            queue.next_at = queue.next_at.max(now);
            self.file(index, now);
        }
        Some(port)
    }

    /// When the next packet for `port` may leave.
    pub(super) fn ready_at(&self, port: usize) -> Instant {
        self.waiting[port].peek().map_or(Instant::FAR_FUTURE, |Reverse((at, _, _))| *at)
    }

    /// The packet for `port` whose transmission starts at `now`, if one may leave.
    pub(super) fn pop(&mut self, port: usize, now: Instant) -> Option<Popped> {
        if self.ready_at(port) > now {
            return None;
        }
        let Reverse((_, _, index)) = self.waiting[port].pop()?;
        let least = self.limits.allowance_least;
        let queue = &mut self.queues[index as usize];
        if queue.allowance == 0 {
            // No credit for too long: acknowledgements were lost, or the receiver is gone.
            queue.silences = (queue.silences + 1).min(SILENCES_MAX);
            let is_gone = queue.silences == SILENCES_MAX;
            queue.allowance = if is_gone { u64::MAX } else { least };
            queue.credit_at = now;
            queue.next_at = queue.next_at.max(now);
        }
        let packet = queue.packets.pop_front()?;
        let len = packet.wire_bytes();
        let sent = queue.sent;
        queue.bytes -= len;
        queue.sent += len;
        queue.allowance = queue.allowance.saturating_sub(len);
        queue.next_at = (queue.next_at + queue.rate.time_for(Bytes(len))).max(now);
        let popped = Popped { packet, credit: queue.credit.unwrap_or(0), left: queue.bytes, sent };
        self.bytes -= len;
        if queue.packets.is_empty() {
            queue.entry = 0;
            queue.emptied_at = now;
            if !queue.listed {
                queue.listed = true;
                self.empty.push(Reverse((now, index)));
            }
            self.drop_old(port);
        } else {
            self.file(index, now);
        }
        Some(popped)
    }

    /// A new queue; `None` when none is free.
    fn open_queue(&mut self, key: Key, host: HostId, rate: Rate, now: Instant) -> Option<u32> {
        self.free_idle(now);
        let queue = Queue {
            packets: VecDeque::new(),
            bytes: 0,
            sent: 0,
            key,
            host,
            counted: NEVER,
            port: 0,
            rate,
            credit: None,
            credit_at: now,
            allowance: self.allowance(rate),
            silences: 0,
            next_at: now,
            entry: 0,
            emptied_at: now,
            listed: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                let place = &mut self.queues[index as usize];
                let packets = std::mem::take(&mut place.packets);
                *place = Queue { packets, ..queue };
                index
            }
            None if self.queues.len() < self.limits.queues => {
                self.queues.push(queue);
                u32::try_from(self.queues.len() - 1).ok()?
            }
            None => return None,
        };
        self.of.insert(key.0, index);
        Some(index)
    }

    /// Frees queues that have been empty for long.
    fn free_idle(&mut self, now: Instant) {
        while let Some(Reverse((since, index))) = self.empty.peek().copied()
            && since + self.limits.idle <= now
        {
            self.empty.pop();
            let queue = &mut self.queues[index as usize];
            if !queue.packets.is_empty() {
                queue.listed = false;
            } else if queue.emptied_at > since {
                self.empty.push(Reverse((queue.emptied_at, index)));
            } else {
                queue.listed = false;
                self.of.remove(&queue.key.0);
                self.free.push(index);
            }
        }
    }

    /// Bytes that may leave under a credit at `rate`; [`u64::MAX`] without a clock.
    fn allowance(&self, rate: Rate) -> u64 {
        if self.limits.clock <= 0.0 {
            return u64::MAX;
        }
        //= mlcc#3.2.2
        // DEVIATION(mlcc#3.2.2): the paper's queue sends at its rate until the next credit, however
        // long a round becomes while queues inside the site grow.
        let round = rate.bytes_in(self.limits.rtt).scaled(f64::from(self.limits.clock));
        round.0.max(self.limits.allowance_least)
    }

    /// Enters a queue that waits in the heap of its port, at the instant at which it is ready.
    fn file(&mut self, index: u32, now: Instant) {
        self.entries += 1;
        let queue = &mut self.queues[index as usize];
        queue.entry = self.entries;
        let ready = if queue.allowance > 0 {
            queue.next_at
        } else {
            queue.next_at.max(queue.credit_at + self.limits.rtt * PATIENCE).max(now)
        };
        let port = queue.port;
        self.waiting[port].push(Reverse((ready, self.entries, index)));
        self.drop_old(port);
    }

    /// Drops entries that are old from the top of a heap.
    fn drop_old(&mut self, port: usize) {
        while let Some(Reverse((_, entry, index))) = self.waiting[port].peek()
            && self.queues[*index as usize].entry != *entry
        {
            self.waiting[port].pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::Flags;

    const RTT: Duration = Duration::from_us(24);
    const HASH: KeyHash = KeyHash::new([1, 2]);

    fn limits() -> Limits {
        Limits {
            queues: 4,
            bytes: 1 << 20,
            idle: Duration::from_ms(12),
            span: RTT * 8,
            rtt: RTT,
            clock: 0.0,
            allowance_least: 3000,
            packet_max: 1000,
        }
    }

    fn packet(handle: u32, host: u32) -> Packet {
        let flags = Flags::NONE;
        Packet { handle, dst: HostId(host), hash: 0, len: 1000, trim_len: 64, flags }
    }

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// Every departure of port 0 by `until` when the link is always free.
    fn drain(queues: &mut Queues, until: Instant) -> Vec<(Instant, u32)> {
        std::iter::from_fn(|| {
            let at = queues.ready_at(0);
            let popped = (at <= until).then(|| queues.pop(0, at)).flatten()?;
            Some((at, popped.packet.handle))
        })
        .collect()
    }

    const GBPS: Rate = Rate::from_gbps(1);

    #[test]
    fn a_flow_leaves_at_its_rate_in_order_and_stops_no_other() {
        let mut queues = Queues::new(limits(), 1, HASH);
        let slow = Rate::from_bps(100_000_000);
        for handle in 0..3 {
            queues.push(Key(1), (packet(handle, 0), 0), |_| slow, us(0)).unwrap();
            queues.push(Key(2), (packet(10 + handle, 0), 0), |_| GBPS, us(0)).unwrap();
        }
        let left = drain(&mut queues, us(200));
        let expected =
            [(0, 0), (0, 10), (8, 11), (16, 12), (80, 1), (160, 2)].map(|(at, h)| (us(at), h));
        assert_eq!(left, expected);
    }

    #[test]
    fn a_queue_that_the_link_kept_waiting_catches_up_by_one_packet() {
        let mut queues = Queues::new(limits(), 1, HASH);
        for handle in 0..4 {
            queues.push(Key(1), (packet(handle, 0), 0), |_| GBPS, us(0)).unwrap();
        }
        assert!(queues.pop(0, us(5)).is_some());
        assert_eq!(queues.ready_at(0), us(8));
        assert!(queues.pop(0, us(100)).is_some());
        assert_eq!(queues.ready_at(0), us(100), "one at once, no burst");
        assert!(queues.pop(0, us(100)).is_some());
        assert_eq!(queues.ready_at(0), us(108));
    }

    #[test]
    fn a_higher_rate_ends_the_pace_of_a_lower_one() {
        let mut queues = Queues::new(limits(), 1, HASH);
        let trickle = Rate::from_bps(8000);
        for handle in 0..3 {
            queues.push(Key(1), (packet(handle, 0), 0), |_| trickle, us(0)).unwrap();
        }
        assert!(queues.pop(0, us(0)).is_some());
        assert_eq!(queues.ready_at(0), us(1_000_000), "a packet a second");
        assert_eq!(queues.advise(Key(1), 1, GBPS, us(100)), Some(0));
        assert_eq!(drain(&mut queues, us(200)), [(us(108), 1), (us(116), 2)]);
    }

    #[test]
    fn credits_never_go_back_and_the_first_one_is_any() {
        let mut queues = Queues::new(limits(), 1, HASH);
        assert!(queues.advise(Key(1), 1, GBPS, us(0)).is_none(), "no queue");
        queues.push(Key(1), (packet(0, 0), 0), |_| GBPS, us(0)).unwrap();
        assert!(queues.advise(Key(1), 40_000, GBPS, us(1)).is_some());
        assert!(queues.advise(Key(1), 39_999, GBPS, us(1)).is_none());
        assert!(queues.advise(Key(1), 65_535, GBPS, us(1)).is_some());
        assert!(queues.advise(Key(1), 1, GBPS, us(1)).is_some(), "wraps");
        assert_eq!(queues.pop(0, us(1)).unwrap().credit, 1);
    }

    #[test]
    fn a_clock_holds_what_no_credit_covers_and_lets_go_after_long_silence() {
        let clocked = Limits { clock: 2.0, ..limits() };
        let mut queues = Queues::new(clocked, 1, HASH);
        for handle in 0..20 {
            queues.push(Key(1), (packet(handle, 0), 0), |_| GBPS, us(0)).unwrap();
        }
        // Twice 1 Gb/s in 24 us: 6000 bytes.
        assert_eq!(drain(&mut queues, us(100)).len(), 6);
        assert!(queues.advise(Key(1), 1, GBPS, us(100)).is_some());
        let left = drain(&mut queues, us(200));
        assert_eq!((left.len(), left[0].0), (6, us(100)));
        assert!(
            queues.advise(Key(1), 1, GBPS, us(200)).is_some(),
            "the same credit again: the rate alone"
        );
        assert_eq!(drain(&mut queues, us(339)), []);
        assert_eq!(
            drain(&mut queues, us(500)),
            [12, 13, 14].map(|h| (us(340 + (u64::from(h) - 12) * 8), h))
        );
    }

    #[test]
    fn a_queue_whose_loop_is_gone_empties_at_its_rate_until_a_credit_comes() {
        let clocked = Limits { clock: 2.0, ..limits() };
        let mut queues = Queues::new(clocked, 1, HASH);
        for handle in 0..50 {
            queues.push(Key(1), (packet(handle, 0), 0), |_| GBPS, us(0)).unwrap();
        }
        // Six packets at once and three after a silence of 240 us; the next one is the last.
        assert_eq!(drain(&mut queues, us(470)).len(), 9);
        let left = drain(&mut queues, us(600));
        let expected = (9..25).map(|h| (us(480 + (u64::from(h) - 9) * 8), h));
        assert_eq!(left, expected.collect::<Vec<_>>());
        // The rate was all: with a credit the clock is back.
        assert!(queues.advise(Key(1), 1, GBPS, us(601)).is_some());
        assert_eq!(drain(&mut queues, us(800)).len(), 6);
    }

    #[test]
    fn a_pool_is_bounded_and_an_idle_queue_is_free_again() {
        let mut queues = Queues::new(limits(), 1, HASH);
        for key in 0..4 {
            queues.push(Key(key), (packet(0, 7), 0), |_| GBPS, us(0)).unwrap();
        }
        let refused = queues.push(Key(9), (packet(0, 7), 0), |_| GBPS, us(1));
        assert_eq!((refused, queues.flows_to(HostId(7), us(1))), (Err(PushError::Exhausted), 4));
        // Their queues are open for longer than they count.
        assert_eq!((queues.open(), queues.flows_to(HostId(7), us(400))), (4, 0));
        drain(&mut queues, us(50));
        assert!(queues.push(Key(9), (packet(0, 7), 0), |_| GBPS, us(12_000 - 1)).is_err());
        assert!(queues.push(Key(9), (packet(0, 7), 0), |_| GBPS, us(12_050)).is_ok());
        assert_eq!((queues.open(), queues.flows_to(HostId(7), us(12_050))), (1, 1));
        assert!(queues.of.contains_key(&9) && !queues.of.contains_key(&1));
        let full = Limits { bytes: 1500, ..limits() };
        let mut queues = Queues::new(full, 1, HASH);
        queues.push(Key(1), (packet(0, 7), 0), |_| GBPS, us(0)).unwrap();
        assert_eq!(queues.push(Key(1), (packet(1, 7), 0), |_| GBPS, us(0)), Err(PushError::Full));
    }

    proptest! {
        /// Whatever packets come, and whenever the queues are asked, the same packets leave at the
        /// same instants. Each flow's packets leave in order, and no flow sends more than its rate.
        #[test]
        fn late_polls_and_exact_events_agree(
            steps in prop::collection::vec((0u64..30, 0u64..3, 0u8..4, 1u64..20), 1..200),
            clock in prop_oneof![Just(0.0f32), Just(2.0f32)],
        ) {
            let run = |exact: bool| {
                let mut queues = Queues::new(Limits { clock, ..limits() }, 1, HASH);
                let (mut now, mut left) = (us(0), Vec::new());
                for (handle, (gap, key, step, rate)) in (0..).zip(&steps) {
                    let before = now;
                    now += Duration::from_us(*gap);
                    if exact {
                        for at in 0..*gap {
                            left.extend(drain(&mut queues, before + Duration::from_us(at)));
                        }
                    }
                    left.extend(drain(&mut queues, now));
                    let rate = Rate::from_gbps(*rate);
                    if *step == 0 {
                        queues.advise(Key(*key), handle, rate, now);
                    } else {
                        let named = u32::from(handle) * 4 + u32::try_from(*key).unwrap();
                        let packet = packet(named, 0);
                        queues.push(Key(*key), (packet, 0), |_| rate, now).unwrap();
                    }
                }
                left.extend(drain(&mut queues, Instant::FAR_FUTURE));
                assert_eq!(queues.bytes, 0, "everything has left");
                left
            };
            let exact = run(true);
            prop_assert_eq!(&exact, &run(false));
            prop_assert!(exact.is_sorted_by_key(|(at, _)| *at));
            for key in 0..3 {
                let own = exact.iter().filter(|(_, handle)| handle % 4 == key);
                prop_assert!(own.is_sorted_by_key(|(_, handle)| *handle));
            }
        }
    }
}
