//! How far one clock is ahead of another, from questions and answers that take time to travel.
//!
//! Source: RFC 5905 sec. 8, with one time at the other side: a question leaves at `a`, is read at
//! `t` of the other clock, and its answer is back at `b`. Then the other clock is `t - (a + b) / 2`
//! ahead, with an error of at most half of `b - a`. So the fastest answer is the best one.

use transport::{Duration, Instant};

/// The best answer so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offset {
    best: Option<Best>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Best {
    ahead_ps: i64,
    error: Duration,
}

impl Offset {
    /// The clock that is compared with itself.
    pub(super) const fn none() -> Self {
        Self { best: Some(Best { ahead_ps: 0, error: Duration::ZERO }) }
    }

    /// Takes an answer: `theirs` is their clock's time, `asked` and `now` ours.
    pub(super) fn add(&mut self, asked: Instant, theirs_ps: u64, now: Instant) {
        let error = now.since(asked).mul_ratio(1, 2);
        if self.best.is_some_and(|best| best.error <= error) {
            return;
        }
        let middle = (asked + error).as_ps();
        let ahead_ps = theirs_ps.cast_signed().wrapping_sub(middle.cast_signed());
        self.best = Some(Best { ahead_ps, error });
    }

    /// How far their clock is ahead, picoseconds.
    pub(super) fn ahead_ps(&self) -> i64 {
        self.best.map_or(0, |best| best.ahead_ps)
    }

    /// How wrong that may be.
    pub(super) fn error(&self) -> Duration {
        self.best.map_or(Duration::MAX, |best| best.error)
    }

    /// Converts the other host's time to ours; returns the epoch for times before it.
    pub(super) fn ours(&self, theirs_ps: u64) -> Instant {
        Instant::from_ps(theirs_ps.saturating_add_signed(self.ahead_ps().saturating_neg()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_true_offset_lies_within_the_error(
            ahead in -1_000_000_i64..1_000_000,
            ways in prop::collection::vec((1_u64..5000, 1_u64..5000), 1..20),
        ) {
            let mut offset = Offset::default();
            let mut at = 10_000_000_u64;
            for (there, back) in ways {
                let theirs = (at + there).saturating_add_signed(ahead);
                let [asked, now] = [at, at + there + back].map(Instant::from_ps);
                offset.add(asked, theirs, now);
                at += there + back + 100;
            }
            // Halves are cut to whole picoseconds.
            prop_assert!(offset.ahead_ps().abs_diff(ahead) <= offset.error().as_ps() + 1);
            let theirs = at.saturating_add_signed(ahead);
            let ours = offset.ours(theirs).as_ps();
            prop_assert!(ours.abs_diff(at) <= offset.error().as_ps() + 1);
        }
    }

    #[test]
    fn the_fastest_answer_counts() {
        let us = |us| Instant::ZERO + Duration::from_us(us);
        let mut offset = Offset::default();
        assert_eq!(offset.error(), Duration::MAX);
        offset.add(us(100), us(160).as_ps(), us(120));
        offset.add(us(200), us(300).as_ps(), us(300));
        assert_eq!((offset.ahead_ps(), offset.error()), (50_000_000, Duration::from_us(10)));
        assert_eq!(Offset::none().ours(77), Instant::from_ps(77));
    }
}
