//! Events in time order: a few FIFO lanes and a heap for what fits in none.
//!
//! Almost every event of a network lies a constant after the present (serialisation of a full
//! packet, the delay of a link), and the present only grows, so events of one constant are born in
//! order: a FIFO holds them sorted for nothing. A lane is not tied to a constant: a push goes where
//! the last push of its delay went, or, when that lane has run ahead, to the lane whose last event
//! is the latest not after it, which sorts the constants apart by itself and copes with odd sizes.
//! What fits in no lane goes to a binary heap. Correct for any order of pushes; fast for the usual
//! one.
//!
//! Events of one instant come out by their [`Key`], never by the order of insertion.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use transport::Instant;

/// What orders events of one instant: the origin's id and its sequence number.
pub trait Key: Copy {
    /// Origin id in the high half, sequence in the low half. Two events of one instant with equal
    /// keys must be interchangeable.
    fn key(&self) -> u64;
}

/// Pending events. Memory follows the largest number pending; nothing is freed.
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    /// When the first event of each lane is due, picoseconds, above the lane's number, so that the
    /// least of them says both; [`NEVER`] for an empty lane.
    heads: [u64; LANES],
    /// When the last event of each lane is due, picoseconds; 0 for an empty lane.
    tails: [u64; LANES],
    lanes: [VecDeque<(u64, T)>; LANES],
    irregular: BinaryHeap<Reverse<Timed<T>>>,
    /// Where the last event of a delay went, by a hash of the delay.
    lane_of: [u8; HINTS],
    /// When the next event is due, picoseconds; [`NEVER`] when there is none.
    next: u64,
    /// The instant last asked for: the present, from which delays count.
    now: u64,
    len: usize,
    /// Scratch of `pop_batch`.
    order: Vec<u64>,
    sorted: Vec<T>,
}

/// Enough for the links and packet sizes of one network and a few odd ones; a pop scans them all.
const LANES: usize = 16;
const HINTS: usize = 64;
/// Bits of a lane's number.
const LANE_BITS: u32 = LANES.ilog2();
const NEVER: u64 = u64::MAX;
/// Instants from here on, 13 days, leave no room for the lane's number and go to the heap.
const LANE_END: u64 = 1 << (u64::BITS - LANE_BITS);
/// The place of an event in a batch; a batch of 2^32 events would not fit memory.
const PLACE: u64 = u32::MAX as u64;

#[derive(Clone, Copy, Debug)]
struct Timed<T> {
    at: u64,
    item: T,
}

impl<T: Key> EventQueue<T> {
    /// No events.
    #[must_use]
    pub fn new() -> Self {
        Self {
            heads: [NEVER; LANES],
            tails: [0; LANES],
            lanes: std::array::from_fn(|_| VecDeque::new()),
            irregular: BinaryHeap::new(),
            lane_of: [0; HINTS],
            next: NEVER,
            now: 0,
            len: 0,
            order: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// Events pending.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no event is pending.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. O(1) while few distinct delays are in use, else O(log n).
    #[inline]
    pub fn push(&mut self, at: Instant, item: T) {
        let at = at.as_ps();
        self.len += 1;
        self.next = self.next.min(at);
        let hint = hint(at.wrapping_sub(self.now));
        let mut lane = usize::from(self.lane_of[hint]);
        if self.tails[lane] > at || at >= LANE_END {
            let Some(found) = self.tightest_lane(at) else {
                self.irregular.push(Reverse(Timed { at, item }));
                return;
            };
            lane = found;
            self.lane_of[hint] = u8::try_from(lane).unwrap_or(0);
        }
        self.tails[lane] = at;
        self.heads[lane] = self.heads[lane].min(head(at, lane));
        self.lanes[lane].push_back((at, item));
    }

    /// The lane whose last event is the latest not after `at`.
    #[cold]
    fn tightest_lane(&self, at: u64) -> Option<usize> {
        let fitting = (0..LANES).filter(|lane| self.tails[*lane] <= at && at < LANE_END);
        fitting.max_by_key(|lane| self.tails[*lane])
    }

    /// When the next event is due.
    #[inline]
    #[must_use]
    pub const fn peek_time(&self) -> Option<Instant> {
        if self.len == 0 { None } else { Some(Instant::from_ps(self.next)) }
    }

    /// Replaces `batch` by every event due exactly at `at`, ascending by key; O(n log n) in their
    /// number, O(n) when they were pushed in that order.
    #[inline]
    pub fn pop_batch(&mut self, at: Instant, batch: &mut Vec<T>) {
        batch.clear();
        let at = at.as_ps();
        self.now = at;
        if self.next != at {
            return;
        }
        let mut least = self.least_head();
        while least >> LANE_BITS == at && least != NEVER {
            self.pop_lane(lane_of(least), at, batch);
            least = self.least_head();
        }
        while self.irregular.peek().is_some_and(|Reverse(event)| event.at == at) {
            batch.extend(self.irregular.pop().map(|Reverse(event)| event.item));
        }
        self.len -= batch.len();
        let irregular = self.irregular.peek().map_or(NEVER, |Reverse(event)| event.at);
        let regular = if least == NEVER { NEVER } else { least >> LANE_BITS };
        self.next = regular.min(irregular);
        if !batch.is_sorted_by_key(Key::key) {
            self.sort(batch);
        }
    }

    /// Sorts by key: by origin and place first, as plain numbers, which is three times as fast as
    /// moving events about; then the few events of one origin by their sequence.
    fn sort(&mut self, batch: &mut Vec<T>) {
        self.order.clear();
        self.order.extend((0..).zip(&*batch).map(|(place, event)| event.key() >> 32 << 32 | place));
        self.order.sort_unstable();
        self.sorted.clear();
        self.sorted.extend(self.order.iter().map(|key| batch[(key & PLACE) as usize]));
        let same_origin = |a: &T, b: &T| a.key() >> 32 == b.key() >> 32;
        for run in self.sorted.chunk_by_mut(same_origin).filter(|run| run.len() > 1) {
            run.sort_unstable_by_key(Key::key);
        }
        std::mem::swap(batch, &mut self.sorted);
    }

    fn least_head(&self) -> u64 {
        self.heads.iter().copied().fold(NEVER, u64::min)
    }

    fn pop_lane(&mut self, lane: usize, at: u64, batch: &mut Vec<T>) {
        let queue = &mut self.lanes[lane];
        while let Some((due, item)) = queue.front() {
            if *due != at {
                self.heads[lane] = head(*due, lane);
                return;
            }
            batch.push(*item);
            queue.pop_front();
        }
        self.heads[lane] = NEVER;
        self.tails[lane] = 0;
    }
}

/// An entry of `heads`.
const fn head(at: u64, lane: usize) -> u64 {
    at << LANE_BITS | lane as u64
}

/// The lane of an entry of `heads`.
#[expect(clippy::cast_possible_truncation, reason = "the mask leaves less than LANES")]
const fn lane_of(head: u64) -> usize {
    (head & (LANES as u64 - 1)) as usize
}

/// The place of a delay among the hints.
#[expect(clippy::cast_possible_truncation, reason = "the shift leaves less than HINTS")]
const fn hint(delay: u64) -> usize {
    (delay.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - HINTS.ilog2())) as usize
}

impl<T: Key> Default for EventQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Key> Timed<T> {
    fn order(&self) -> (u64, u64) {
        (self.at, self.item.key())
    }
}

impl<T: Key> PartialEq for Timed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T: Key> Eq for Timed<T> {}

impl<T: Key> PartialOrd for Timed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Key> Ord for Timed<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few origins, so that sequences matter.
    impl Key for u64 {
        fn key(&self) -> u64 {
            (*self % 7) << 32 | *self
        }
    }

    fn drain(queue: &mut EventQueue<u64>) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let mut batch = Vec::new();
        while let Some(at) = queue.peek_time() {
            queue.pop_batch(at, &mut batch);
            all.extend(batch.iter().map(|item| (at.as_ps(), *item)));
        }
        all
    }

    proptest! {
        #[test]
        fn it_pops_what_a_binary_heap_pops(
            // Delays after the present: a few constants, and odd ones.
            steps in prop::collection::vec(
                (prop_oneof![Just(10u64), Just(640), Just(41_600), 0u64..100_000], any::<bool>()),
                1..400,
            ),
        ) {
            let mut queue = EventQueue::new();
            let mut oracle = BinaryHeap::new();
            let mut batch = Vec::new();
            let mut now = 0;
            for (item, (delay, pop)) in (0..).zip(steps) {
                queue.push(Instant::from_ps(now + delay), item);
                oracle.push(Reverse((now + delay, item.key(), item)));
                prop_assert_eq!(queue.len(), oracle.len());
                let next = oracle.peek().map(|Reverse((at, ..))| Instant::from_ps(*at));
                prop_assert_eq!(queue.peek_time(), next);
                if let (true, Some(at)) = (pop, next) {
                    now = at.as_ps();
                    queue.pop_batch(at, &mut batch);
                    for item in &batch {
                        prop_assert_eq!(oracle.pop(), Some(Reverse((now, item.key(), *item))));
                    }
                }
            }
            let rest: Vec<_> =
                std::iter::from_fn(|| oracle.pop().map(|Reverse((at, _, item))| (at, item)))
                    .collect();
            prop_assert_eq!(drain(&mut queue), rest);
            prop_assert!(queue.is_empty());
        }

        #[test]
        fn the_order_of_insertion_never_shows(
            events in prop::collection::vec((0u64..20, 0u64..50), 0..100), seed in any::<u64>(),
        ) {
            let mut shuffled = events.clone();
            let mut rng = transport::Rng::new(seed);
            for i in (1..shuffled.len()).rev() {
                let j = rng.below(i as u64 + 1);
                shuffled.swap(i, usize::try_from(j).unwrap());
            }
            let fill = |events: &[(u64, u64)]| {
                let mut queue = EventQueue::new();
                for (at, item) in events {
                    queue.push(Instant::from_ps(*at), *item);
                }
                drain(&mut queue)
            };
            prop_assert_eq!(fill(&events), fill(&shuffled));
        }
    }

    #[test]
    fn events_of_constant_delays_never_touch_the_heap() {
        let mut queue = EventQueue::new();
        let mut batch = Vec::new();
        for now in 0..100_000u64 {
            queue.pop_batch(Instant::from_ps(now * 10), &mut batch);
            for delay in [1_041_600, 41_600, 641_600, 640, 600_640] {
                queue.push(Instant::from_ps(now * 10 + delay), now);
            }
        }
        assert!(queue.irregular.is_empty());
    }
}
