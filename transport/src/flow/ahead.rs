//! How far ahead of their departure paced segments may be given to the driver, and in which order.
//!
//! Segments given ahead count against the window: a flow that gives them a time t ahead loses the
//! share t / RTT of its window. So t is at most a [`SHARE`]th of the flow's base RTT.
//!
//! A device that sends at a given time keeps the pace itself, however late the polls are, but it
//! takes frames in the order of their departures. Flows are polled one after the other, so segments
//! given at one instant are in any order, and the driver sorts them. A segment given ahead at a
//! later instant must not leave before one that was given earlier. A segment that would overtake an
//! earlier one is given at its departure and leaves at once.

use core::num::NonZeroU16;

use crate::path::Path;
use crate::sched::Choice;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;

/// Divisor of the base RTT that bounds how far ahead a segment is given: 6 % of a window at most.
const SHARE: u64 = 16;

/// How early an endpoint may give its segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    /// The longest time between giving a paced segment and its departure; zero: none is given
    /// early.
    pub(crate) horizon: Duration,
    /// The longest time between giving a packet and the departure that the scheduler chooses.
    pub(crate) kept: Duration,
    /// How many segments may be given as one at most; `None` where each is given by itself.
    pub(crate) train_max: Option<NonZeroU16>,
    /// The instant of the last poll.
    asked_at: Instant,
    /// The last departure given before that instant.
    after: Instant,
    /// The last departure given.
    latest: Instant,
}

/// The segments that may leave: all that are due, and those whose paced departure lies between two
/// instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave<C = ()> {
    pub(crate) now: Instant,
    after: Instant,
    until: Instant,
    /// The scheduler's choice for one segment; `()` without one.
    pub(crate) choice: C,
}

/// The choice of a scheduler for a segment, or none (`()`). Both are types, so that a turn without
/// a choice costs no branch.
pub(crate) trait MaybeChoice: Copy {
    fn ev(&self) -> Option<EntropyValue> {
        None
    }
    fn at(&self) -> Option<Instant> {
        None
    }
    fn nth(&self) -> Option<u16> {
        None
    }
    fn again(&self) -> bool {
        false
    }
    /// Most segments of a train; `None` where there is no choice, and so no train.
    fn train(&self) -> Option<u16> {
        None
    }
}

impl MaybeChoice for () {}

impl MaybeChoice for Choice {
    fn ev(&self) -> Option<EntropyValue> {
        self.ev
    }
    fn at(&self) -> Option<Instant> {
        self.at
    }
    fn nth(&self) -> Option<u16> {
        self.nth
    }
    fn again(&self) -> bool {
        self.again
    }
    fn train(&self) -> Option<u16> {
        let alone = self.copy || self.nth.is_some();
        Some(if alone { 1 } else { self.train.get() })
    }
}

impl Ahead {
    /// The segments of a flow over `path` that may leave in a poll at `now`.
    #[inline]
    pub(crate) fn leave(&mut self, now: Instant, path: &Path) -> Leave {
        if now > self.asked_at {
            (self.asked_at, self.after) = (now, self.latest);
        }
        Leave { now, after: self.after, until: now + self.of(path), choice: () }
    }

    /// How far ahead a flow over `path` may give its segments.
    #[inline]
    pub(crate) fn of(&self, path: &Path) -> Duration {
        if self.horizon == Duration::ZERO {
            return Duration::ZERO;
        }
        self.horizon.min(path.base_rtt / SHARE)
    }

    /// Notes that a segment which leaves at `at` was given.
    #[inline]
    pub(crate) fn given(&mut self, at: Instant) {
        self.latest = self.latest.max(at);
    }
}

impl Leave {
    /// Adds the scheduler's choice for one segment.
    pub(crate) fn with(self, choice: Choice) -> Leave<Choice> {
        let Self { now, after, until, choice: () } = self;
        Leave { now, after, until, choice }
    }
}

impl<C: MaybeChoice> Leave<C> {
    /// The departure of a segment that its pacer lets leave at `at`; `None` when it is too early to
    /// give it.
    #[inline]
    pub(crate) fn at(&self, at: Instant) -> Option<Instant> {
        if let Some(chosen) = self.choice.at() {
            return Some(chosen.max(self.now));
        }
        if at <= self.now {
            return Some(self.now);
        }
        (at <= self.until && at >= self.after).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::units::Bytes;

    const PATH: Path = Path {
        base_rtt: Duration::from_us(800),
        line_rate: Rate::from_gbps(100),
        mtu: Bytes(4096),
    };

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn without_a_horizon_what_is_due_leaves_now_and_the_rest_waits() {
        let leave = Ahead::default().leave(at(10), &PATH);
        assert_eq!([9, 10, 11].map(|us| leave.at(at(us))), [Some(at(10)), Some(at(10)), None]);
    }

    #[test]
    fn segments_of_one_instant_are_in_any_order_and_later_ones_behind_them() {
        let mut ahead = Ahead { horizon: Duration::from_us(20), ..Ahead::default() };
        let leave = ahead.leave(at(10), &PATH);
        for us in [30, 12, 25] {
            assert_eq!(leave.at(at(us)), Some(at(us)));
            ahead.given(at(us));
        }
        assert_eq!(leave.at(at(31)), None);
        assert_eq!(ahead.leave(at(10), &PATH).at(at(12)), Some(at(12)));
        let later = ahead.leave(at(15), &PATH);
        assert_eq!(
            [29, 30, 35, 36].map(|us| later.at(at(us)).is_some()),
            [false, true, true, false]
        );
        assert_eq!(ahead.leave(at(29), &PATH).at(at(29)), Some(at(29)), "its time has come");
    }

    #[test]
    fn a_near_flow_gives_a_16th_of_its_base_rtt_ahead_at_most() {
        let ahead = Ahead { horizon: Duration::from_us(20), ..Ahead::default() };
        let near = Path { base_rtt: Duration::from_us(32), ..PATH };
        assert_eq!([ahead.of(&near), ahead.of(&PATH)], [2, 20].map(Duration::from_us));
        assert_eq!(Ahead::default().of(&PATH), Duration::ZERO);
    }
}
