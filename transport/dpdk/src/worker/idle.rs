//! How a thread that polls passes the time between polls without work.
//!
//! `Busy` polls without a break and is best on a core of its own. Where pollers share cores, a
//! poller that only spins costs each of the others a scheduler's slice in each turn. A round trip
//! then takes about 12 ms, where it takes 3 us when pollers yield, as `Adaptive` does. `Busy` and
//! `Adaptive` never sleep: timers of microseconds are due at any time. `Shared` sleeps a little
//! among busy threads of others; `Sleepy` is for threads that only wait.

use std::hint;
use std::thread;
use std::time::Duration;

use crate::eal;

/// How a worker waits between polls without work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdleMode {
    /// Poll on. For threads with a core of their own.
    #[default]
    Busy,
    /// Pause for 64 polls, then yield the core to waiting threads at each poll.
    Adaptive,
    /// `Adaptive`, with one exception. Where a yield has taken 100 us, because busy threads share
    /// the core, the worker sleeps for 20 us at each of the next 256 turns. A kernel prefers a
    /// thread that wakes to one that yields. Then it yields once more, to find out whether the core
    /// is still shared.
    Shared,
    /// `Shared`; after 4096 polls without work the worker also sleeps for 250 us at each. For
    /// threads that may have nothing to do for hours and no timer of microseconds.
    Sleepy,
}

/// Counts polls without work: they found nothing, or fewer packets than a full burst, all dropped
/// without an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    mode: IdleMode,
    polls: u32,
    /// Sleeps that are left since others had the core for long when it was given away.
    blinks: u32,
}

/// Polls without work before a thread yields.
const PAUSES: u32 = 64;
/// Polls without work before a sleepy thread sleeps.
const YIELDS: u32 = 4096;
/// Ticks of the time-stamp counter, 100 us at 2.6 GHz: no scheduler's slice is shorter.
const CROWDED: u64 = 260_000;
/// Sleeps between two checks of whether busy threads still share the core.
const BLINKS: u32 = 256;
const BLINK: Duration = Duration::from_micros(20);
const NAP: Duration = Duration::from_micros(250);

impl Idle {
    /// Passes the time by `mode`.
    #[must_use]
    pub const fn new(mode: IdleMode) -> Self {
        Self { mode, polls: 0, blinks: 0 }
    }

    /// Ends a poll that was `busy`, or was not. Returns whether the core was given away.
    #[inline]
    pub fn turn(&mut self, busy: bool) -> bool {
        if busy || self.mode == IdleMode::Busy {
            self.polls = 0;
        } else if self.polls < PAUSES {
            self.polls += 1;
            hint::spin_loop();
        } else if self.mode == IdleMode::Sleepy && self.polls >= YIELDS {
            thread::sleep(NAP);
            return true;
        } else if self.blinks > 0 {
            self.blinks -= 1;
            self.polls = self.polls.saturating_add(1);
            thread::sleep(BLINK);
            return true;
        } else {
            self.polls = self.polls.saturating_add(1);
            let before = eal::tsc();
            thread::yield_now();
            let ticks = eal::tsc().wrapping_sub(before);
            if matches!(self.mode, IdleMode::Shared | IdleMode::Sleepy) && ticks > CROWDED {
                self.blinks = BLINKS;
            }
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_core_is_given_away_after_64_polls_until_there_is_work() {
        let mut idle = Idle::new(IdleMode::Adaptive);
        for _ in 0..2 {
            assert!((0..PAUSES).all(|_| !idle.turn(false)));
            assert!(idle.turn(false) && idle.turn(false) && !idle.turn(true));
        }
    }

    #[test]
    fn where_giving_the_core_away_was_dear_a_thread_sleeps_for_a_while_and_yields_again() {
        let mut idle = Idle::new(IdleMode::Shared);
        (0..PAUSES).for_each(|_| assert!(!idle.turn(false)));
        idle.blinks = 2;
        assert!(idle.turn(false) && idle.blinks == 1, "it slept");
        assert!(!idle.turn(true) && !idle.turn(false), "work comes first, then pauses");
        (1..PAUSES).for_each(|_| assert!(!idle.turn(false)));
        assert!(idle.turn(false) && idle.blinks == 0, "still crowded: it slept");
        let polls = idle.polls;
        assert!(idle.turn(false) && idle.polls == polls + 1, "it yielded");
    }

    #[test]
    fn a_sleepy_thread_wakes_for_work_and_is_prompt_again() {
        let mut idle = Idle::new(IdleMode::Sleepy);
        for _ in 0..2 {
            (0..=YIELDS).for_each(|_| _ = idle.turn(false));
            assert_eq!(idle.polls, YIELDS, "it sleeps by now");
            assert!(!idle.turn(true) && idle.polls == 0);
        }
    }

    #[test]
    fn a_sleepy_thread_among_busy_ones_sleeps_longer_after_as_many_polls() {
        let mut idle = Idle::new(IdleMode::Sleepy);
        (idle.polls, idle.blinks) = (YIELDS - 2, 10);
        assert!((0..5).all(|_| idle.turn(false)));
        assert_eq!((idle.polls, idle.blinks), (YIELDS, 8), "two short sleeps, then three long");
    }

    #[test]
    fn a_core_of_ones_own_is_never_given_away() {
        let mut idle = Idle::default();
        assert!((0..1000).all(|_| !idle.turn(false)));
    }
}
