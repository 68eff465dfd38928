//! A hierarchical timing wheel: many timers, most of them cancelled, popped in exact order.
//!
//! Times are divided into ticks of a power of two picoseconds. Level 0 has a slot per tick for the
//! 64 ticks around the wheel's own time, level 1 a slot per 64 ticks, and so on. A timer lies at
//! the level of the highest group of 6 bits in which its tick differs from the wheel's. Advancing
//! moves the next slot's timers one or more levels down, or, from level 0, into a short queue
//! sorted by (time, insertion).
//!
//! Insert, cancel and expire are O(1) amortised: a timer moves down at most once a level, and the
//! queue holds the timers of one tick. Choose the tick so that few timers share one. Source of the
//! idea: \[varghese\] scheme 7. There is no clock here.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::time::{Duration, Instant};

/// Names a pending timer. Stale after it expired or was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerHandle {
    /// One more than the timer's index, so that a handle that may be absent takes no more room.
    place: NonZeroU32,
    generation: u32,
}

const _: () = assert!(size_of::<Option<TimerHandle>>() == size_of::<TimerHandle>());

impl TimerHandle {
    const fn index(self) -> u32 {
        self.place.get() - 1
    }
}

/// Pending timers with a value each.
#[derive(Clone, Debug)]
pub struct Wheel<T> {
    timers: Vec<Timer<T>>,
    /// Head of the list of free timers, or [`NIL`].
    free: u32,
    /// First timer of each slot, or [`NIL`]; [`SLOTS`] for each level that the wheel's ticks reach.
    slots: Vec<u32>,
    /// Which slots of each level have timers.
    occupied: [u64; LEVELS],
    /// Timers of ticks up to `tick`, by (time, insertion).
    due: VecDeque<u32>,
    /// Every timer of a later tick is in a slot, every other in `due`.
    tick: u64,
    /// log2 of the tick in picoseconds, 0..=63.
    shift: u32,
    inserted: u64,
    pending: usize,
}

#[derive(Clone, Debug)]
struct Timer<T> {
    at: Instant,
    /// Order among equal times.
    order: u64,
    value: T,
    /// Neighbours in the slot, or the next free timer in `next`.
    next: u32,
    prev: u32,
    generation: u32,
    place: TimerState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TimerState {
    Free,
    Due,
    Slot { level: u8, slot: u8 },
}

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Enough for any 64-bit tick: 11 x 6 bits.
const LEVELS: usize = 11;
const NIL: u32 = u32::MAX;

impl<T: Copy> Wheel<T> {
    /// A wheel whose tick is `resolution` rounded down to a power of two picoseconds, with room for
    /// `capacity` timers at once. More are accepted at the price of an allocation, so on the hot
    /// path `capacity` must be the bound.
    #[must_use]
    pub fn new(resolution: Duration, capacity: usize) -> Self {
        let shift = resolution.as_ps().max(1).ilog2();
        let levels = (u64::BITS - shift).div_ceil(BITS) as usize;
        Self {
            timers: Vec::with_capacity(capacity),
            free: NIL,
            slots: alloc::vec![NIL; levels * SLOTS],
            occupied: [0; LEVELS],
            due: VecDeque::with_capacity(capacity),
            tick: 0,
            shift,
            inserted: 0,
            pending: 0,
        }
    }

    /// How many timers are pending.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pending
    }

    /// True when none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// Sets a timer; `at` may have passed.
    ///
    /// # Panics
    /// At 2^32 - 1 timers at once.
    pub fn insert(&mut self, at: Instant, value: T) -> TimerHandle {
        let order = self.inserted;
        self.inserted += 1;
        self.pending += 1;
        let index = if self.free == NIL {
            let index = u32::try_from(self.timers.len()).unwrap_or(NIL);
            assert!(index != NIL, "more timers than a handle can name");
            self.timers.push(Timer {
                at,
                order,
                value,
                next: NIL,
                prev: NIL,
                generation: 0,
                place: TimerState::Free,
            });
            index
        } else {
            let index = self.free;
            let timer = &mut self.timers[index as usize];
            self.free = timer.next;
            (timer.at, timer.order, timer.value) = (at, order, value);
            index
        };
        self.file(index);
        TimerHandle {
            // An index is below `NIL`.
            place: NonZeroU32::MIN.saturating_add(index),
            generation: self.timers[index as usize].generation,
        }
    }

    /// Takes a timer back; `None` when it is not pending any more.
    pub fn cancel(&mut self, handle: TimerHandle) -> Option<T> {
        let timer = self.timers.get(handle.index() as usize)?;
        if timer.generation != handle.generation {
            return None;
        }
        match timer.place {
            TimerState::Free => return None,
            TimerState::Due => {
                let at = self.due_position(timer.at, timer.order);
                self.due.remove(at);
            }
            TimerState::Slot { level, slot } => self.unlink(handle.index(), level, slot),
        }
        Some(self.release(handle.index()))
    }

    /// An instant not after the next expiry, exact within a tick once it is near; `None` when
    /// nothing is pending. A call of [`Wheel::expire`] at that instant may find nothing due, and
    /// moves the next answer on.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        if self.pending == 0 {
            return None;
        }
        if let Some(first) = self.due.front() {
            return Some(self.timers[*first as usize].at);
        }
        let (level, slot) = self.next_slot()?;
        Some(Instant::from_ps(self.slot_start(level, slot) << self.shift))
    }

    /// Takes the next timer with a time up to `now`, by (time, order of insertion). Call until
    /// `None`.
    pub fn expire(&mut self, now: Instant) -> Option<(Instant, T)> {
        let now_tick = now.as_ps() >> self.shift;
        // Each round moves a slot down; a timer moves at most LEVELS times.
        while self.due.is_empty() {
            let next =
                self.next_slot().filter(|(level, slot)| self.slot_start(*level, *slot) <= now_tick);
            let Some((level, slot)) = next else {
                // No slot starts by now, so every timer keeps its level under the new time.
                self.tick = self.tick.max(now_tick);
                return None;
            };
            self.tick = self.slot_start(level, slot);
            self.spill(level, slot);
        }
        let index = *self.due.front()?;
        let at = self.timers[index as usize].at;
        if at > now {
            return None;
        }
        self.due.pop_front();
        Some((at, self.release(index)))
    }

    /// The occupied slot with the earliest start. Slots of lower levels are all before those of
    /// higher.
    fn next_slot(&self) -> Option<(usize, usize)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    /// First tick of a slot: the wheel's tick with group `level` replaced and the lower ones zero.
    fn slot_start(&self, level: usize, slot: usize) -> u64 {
        let low = BITS * u32::try_from(level).unwrap_or(0);
        let high = low + BITS;
        let kept = if high >= u64::BITS { 0 } else { self.tick >> high << high };
        kept | (slot as u64) << low
    }

    /// Files every timer of a slot anew, after the wheel's tick moved to its start.
    fn spill(&mut self, level: usize, slot: usize) {
        let mut index = core::mem::replace(&mut self.slots[level * SLOTS + slot], NIL);
        self.occupied[level] &= !(1 << slot);
        while index != NIL {
            let next = self.timers[index as usize].next;
            self.file(index);
            index = next;
        }
    }

    /// Files a timer in the slot or the queue of its time.
    #[expect(clippy::cast_possible_truncation, reason = "a level is below 11, a slot below 64")]
    fn file(&mut self, index: u32) {
        let timer = &self.timers[index as usize];
        let tick = timer.at.as_ps() >> self.shift;
        if tick <= self.tick {
            let position = self.due_position(timer.at, timer.order);
            self.due.insert(position, index);
            self.timers[index as usize].place = TimerState::Due;
            return;
        }
        let level = (tick ^ self.tick).ilog2() / BITS;
        let slot = ((tick >> (BITS * level)) & (SLOTS as u64 - 1)) as u8;
        let level = level as u8;
        let place = usize::from(level) * SLOTS + usize::from(slot);
        let head = core::mem::replace(&mut self.slots[place], index);
        if head != NIL {
            self.timers[head as usize].prev = index;
        }
        self.occupied[usize::from(level)] |= 1 << slot;
        let timer = &mut self.timers[index as usize];
        (timer.next, timer.prev) = (head, NIL);
        timer.place = TimerState::Slot { level, slot };
    }

    fn unlink(&mut self, index: u32, level: u8, slot: u8) {
        let Timer { next, prev, .. } = self.timers[index as usize];
        if next != NIL {
            self.timers[next as usize].prev = prev;
        }
        if prev != NIL {
            self.timers[prev as usize].next = next;
            return;
        }
        self.slots[usize::from(level) * SLOTS + usize::from(slot)] = next;
        if next == NIL {
            self.occupied[usize::from(level)] &= !(1 << slot);
        }
    }

    /// The position in `due` of a timer of (at, order), present or to be inserted.
    fn due_position(&self, at: Instant, order: u64) -> usize {
        self.due.partition_point(|index| {
            let timer = &self.timers[*index as usize];
            (timer.at, timer.order) < (at, order)
        })
    }

    fn release(&mut self, index: u32) -> T {
        let timer = &mut self.timers[index as usize];
        timer.generation = timer.generation.wrapping_add(1);
        timer.place = TimerState::Free;
        timer.next = self.free;
        self.free = index;
        self.pending -= 1;
        timer.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Cancel(usize),
        Expire(u64),
        Early(u64),
    }

    /// Delays of every magnitude, and many equal ones.
    fn delay() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..4, 0_u64..10_000, (0_u32..63).prop_map(|bits| 1 << bits), any::<u64>()]
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => delay().prop_map(Step::Insert),
            2 => any::<usize>().prop_map(Step::Cancel),
            3 => delay().prop_map(Step::Expire),
            1 => (0_u64..5_000).prop_map(Step::Early),
        ]
    }

    fn run(resolution: u64, all: Vec<Step>) -> Result<(), TestCaseError> {
        let mut wheel = Wheel::new(Duration::from_ps(resolution), 4);
        let mut oracle: BTreeMap<(Instant, usize), TimerHandle> = BTreeMap::new();
        let mut issued: Vec<(Instant, TimerHandle)> = Vec::new();
        let mut now = Instant::ZERO;
        for step in all {
            match step {
                Step::Insert(delay) => {
                    let at = now + Duration::from_ps(delay);
                    let handle = wheel.insert(at, issued.len());
                    oracle.insert((at, issued.len()), handle);
                    issued.push((at, handle));
                }
                Step::Cancel(pick) if !issued.is_empty() => {
                    let number = pick % issued.len();
                    let (at, handle) = issued[number];
                    let theirs = oracle.remove(&(at, number)).map(|_| number);
                    prop_assert_eq!(wheel.cancel(handle), theirs);
                }
                Step::Cancel(_) => {}
                Step::Early(back) => {
                    // Timers set in the past come out too, in order.
                    let at = Instant::from_ps(now.as_ps().saturating_sub(back));
                    let handle = wheel.insert(at, issued.len());
                    oracle.insert((at, issued.len()), handle);
                    issued.push((at, handle));
                }
                Step::Expire(step) => {
                    now += Duration::from_ps(step);
                    while let Some((at, number)) = wheel.expire(now) {
                        let first = oracle.pop_first().map(|(key, _)| key);
                        prop_assert_eq!(Some((at, number)), first);
                    }
                    prop_assert!(oracle.keys().next().is_none_or(|(at, _)| *at > now));
                }
            }
            prop_assert_eq!(wheel.len(), oracle.len());
            let next = oracle.keys().next().map(|(at, _)| *at);
            prop_assert_eq!(wheel.poll_at().is_some(), next.is_some());
            prop_assert!(wheel.poll_at() <= next);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_wheel_pops_what_a_sorted_map_pops(
            shift in 0_u32..40, all in proptest::collection::vec(steps(), 0..200),
        ) {
            run(1 << shift, all)?;
        }
    }

    #[test]
    fn following_poll_at_reaches_every_timer_in_a_few_steps() {
        let mut wheel = Wheel::new(Duration::from_ns(1), 8);
        for exponent in 0..20_u32 {
            wheel.insert(Instant::from_ps(7_u64.pow(exponent)), exponent);
        }
        let (mut polls, mut popped) = (0, Vec::new());
        while let Some(at) = wheel.poll_at() {
            polls += 1;
            while let Some((_, exponent)) = wheel.expire(at) {
                popped.push(exponent);
            }
        }
        assert_eq!(popped, (0..20).collect::<Vec<u32>>());
        assert!(polls <= 20 * LEVELS, "{polls}");
    }

    #[test]
    fn a_handle_of_an_expired_timer_does_not_cancel_its_successor() {
        let mut wheel = Wheel::new(Duration::from_ns(1), 1);
        let old = wheel.insert(Instant::from_ps(5), 'a');
        assert_eq!(wheel.expire(Instant::from_ps(5)), Some((Instant::from_ps(5), 'a')));
        let new = wheel.insert(Instant::from_ps(9), 'b');
        assert_eq!(wheel.cancel(old), None);
        assert_eq!(wheel.cancel(new), Some('b'));
        assert_eq!(wheel.poll_at(), None);
    }
}
