//! How far ahead of their time paced segments may be given to the driver, and in which order.
//!
//! What was given counts against the window, so a flow that gives a time t ahead has a share of
//! t / RTT less of it. So it is at most a [`SHARE`]th of the flow's base RTT.
//!
//! A device that sends at a time keeps the pace itself, however late the polls are, but it takes
//! frames in the order in which they leave. Flows are asked one after the other, so the segments of
//! one instant are in any order, for the driver to sort; of a later instant none may leave before
//! one that was given earlier: it waits for its time and is given then, as without such a device.

use crate::path::Path;
use crate::sched::Choice;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;

/// See above: 6 % of a window at most.
const SHARE: u64 = 16;

/// What an endpoint's segments may be given early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    /// Zero: nothing is given early.
    pub(crate) horizon: Duration,
    /// The same for packets whose departure the scheduler chooses.
    pub(crate) kept: Duration,
    /// The instant of the last question.
    asked_at: Instant,
    /// The last departure given before that instant.
    after: Instant,
    /// The last departure given.
    latest: Instant,
}

/// What may leave: anything that is due, and what is paced to between two instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave<C = ()> {
    pub(crate) now: Instant,
    after: Instant,
    until: Instant,
    /// What the scheduler has chosen for one segment; `()` when nothing.
    pub(crate) choice: C,
}

/// What a scheduler may choose for a segment. By type, so that a turn without a choice costs no
/// question.
pub(crate) trait Steering: Copy {
    fn ev(&self) -> Option<EntropyValue> {
        None
    }
    fn at(&self) -> Option<Instant> {
        None
    }
    fn copy(&self) -> bool {
        false
    }
}

impl Steering for () {}

impl Steering for Choice {
    fn ev(&self) -> Option<EntropyValue> {
        self.ev
    }
    fn at(&self) -> Option<Instant> {
        self.at
    }
    fn copy(&self) -> bool {
        self.copy
    }
}

impl Ahead {
    /// What may leave of a flow over `path`, asked at `now`.
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

    /// A segment that leaves at `at` was given.
    #[inline]
    pub(crate) fn given(&mut self, at: Instant) {
        self.latest = self.latest.max(at);
    }
}

impl Leave {
    /// The same for one segment that the scheduler has chosen something of.
    pub(crate) fn with(self, choice: Choice) -> Leave<Choice> {
        let Self { now, after, until, choice: () } = self;
        Leave { now, after, until, choice }
    }
}

impl<C: Steering> Leave<C> {
    /// When a segment leaves that its pacer lets leave at `at`; `None` when that is too early to
    /// say.
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
