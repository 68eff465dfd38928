//! A token bucket in integers, and the interval at which DCsim's ports give tokens to probes.
//!
//! Source: \[dcsim\] sec. 2.3 and theorem 3. Hosts and switches use the same bucket. A token comes
//! every interval as long as the bucket is not full; a packet that leaves takes one. The state is
//! one instant, so the times of tokens follow from it and never from the times of calls. Units:
//! picoseconds, bytes on the wire.

use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

/// A bucket that starts full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenBucket {
    interval: Duration,
    /// The most tokens that the bucket holds, at least 1.
    depth: u32,
    /// The instant at which the bucket is full if no token is taken before.
    full_at: Instant,
}

impl TokenBucket {
    /// A full bucket of `depth` tokens, at least 1, that gets one every `interval`.
    #[must_use]
    pub const fn new(interval: Duration, depth: u32) -> Self {
        let depth = if depth == 0 { 1 } else { depth };
        Self { interval, depth, full_at: Instant::ZERO }
    }

    /// The instant at which the bucket is full if no token is taken before: all of its state.
    #[must_use]
    pub(crate) const fn full_at(&self) -> Instant {
        self.full_at
    }

    /// This bucket with another state.
    #[must_use]
    pub(crate) const fn with_full_at(self, full_at: Instant) -> Self {
        Self { full_at, ..self }
    }

    /// The instant from which on there is a token.
    #[inline]
    #[must_use]
    pub fn ready_at(&self) -> Instant {
        let others = self.interval * u64::from(self.depth - 1);
        Instant::from_ps(self.full_at.as_ps().saturating_sub(others.as_ps()))
    }

    /// Takes a token at `now`, which is not before [`TokenBucket::ready_at`].
    #[inline]
    pub fn take(&mut self, now: Instant) {
        debug_assert!(self.ready_at() <= now, "there is a token");
        self.full_at = self.full_at.max(now) + self.interval;
    }

    /// Gives a token back at `now`, as far as there is room for it.
    pub fn give_back(&mut self, now: Instant) {
        let missing = self.full_at.since(now).saturating_sub(self.interval);
        self.full_at = now + missing;
    }

    /// Lets tokens come every `interval` from `now` on. Tokens that have come stay, and so does a
    /// part of a token.
    pub fn set_interval(&mut self, interval: Duration, now: Instant) {
        let missing = u128::from(self.full_at.since(now).as_ps());
        if missing > 0 {
            let before = u128::from(self.interval.as_ps().max(1));
            let left = (missing * u128::from(interval.as_ps())).div_ceil(before);
            self.full_at = now + Duration::from_ps(u64::try_from(left).unwrap_or(u64::MAX));
        }
        self.interval = interval;
    }

    /// The time between tokens.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }
}

/// The share of a line that one probe takes: itself, the data after it, and acknowledgements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProbeShare {
    /// Bytes of data that follow one probe, L.
    pub data: Bytes,
    /// Bytes of a probe, l.
    pub probe: Bytes,
    /// Packets of the size of a probe that each probe causes, itself included.
    //= dcsim#eq2
    pub overhead: f32,
}

impl ProbeShare {
    /// Bytes of a line that one probe takes in all, L + overhead * l.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.data.as_f64() + f64::from(self.overhead) * self.probe.as_f64()
    }

    /// The time between two tokens at a port of `rate`, to the nearest picosecond.
    //= dcsim#eq2: the bucket's rate is C / (alpha + 2.1) probes of l bytes.
    #[must_use]
    pub fn interval(&self, rate: Rate) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53 bit/s")]
        let bps = rate.as_bps().max(1) as f64;
        let ps = self.bytes() * 8e12 / bps + 0.5;
        #[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
        #[expect(clippy::cast_sign_loss, reason = "a quotient of positive numbers")]
        Duration::from_ps(ps as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn a_token_that_comes_back_is_there_at_once_unless_the_bucket_is_full() {
        let (now, mut bucket) = (Instant::from_ps(500), TokenBucket::new(Duration::from_ps(70), 2));
        bucket.give_back(now);
        assert_eq!(bucket, TokenBucket { full_at: now, ..bucket }, "full");
        (0..2).for_each(|_| bucket.take(now));
        assert_eq!(bucket.ready_at(), Instant::from_ps(570));
        bucket.give_back(now);
        assert_eq!(bucket.ready_at(), now);
    }

    fn share(data: u64) -> ProbeShare {
        ProbeShare { data: Bytes(data), probe: Bytes(64), overhead: 2.1 }
    }

    #[test]
    fn a_slot_is_as_long_as_the_papers_rate_says() {
        for (data, ps) in [(9000, 91_344), (4096, 42_304), (1500, 16_344)] {
            assert_eq!(share(data).interval(Rate::from_gbps(800)).as_ps(), ps);
        }
        assert_eq!(share(9000).interval(Rate::from_gbps(8)).as_ps(), 9_134_400);
    }

    #[test]
    fn a_new_interval_keeps_the_share_of_a_token_that_has_come() {
        let at = Instant::from_ps;
        let mut bucket = TokenBucket::new(Duration::from_ps(100), 2);
        bucket.take(at(0));
        bucket.take(at(0));
        assert_eq!(bucket.ready_at(), at(100));
        // A quarter of the first token has come; three quarters take ten times as long.
        bucket.set_interval(Duration::from_ps(1000), at(25));
        assert_eq!(bucket.ready_at(), at(25 + 750));
        bucket.set_interval(Duration::from_ps(100), at(25));
        assert_eq!(bucket.ready_at(), at(100));
    }

    proptest! {
        /// The oracle counts credit in picoseconds, as the text of the paper does.
        #[test]
        fn tokens_are_those_of_a_bucket_that_fills_step_by_step(
            interval in 1_u64..1000, depth in 1_u32..20,
            steps in prop::collection::vec((0_u64..3000, any::<bool>()), 1..300),
        ) {
            let mut bucket = TokenBucket::new(Duration::from_ps(interval), depth);
            let most = interval * u64::from(depth);
            let (mut now, mut credit) = (Instant::ZERO, most);
            let mut taken = Vec::new();
            for (step, take) in steps {
                now += Duration::from_ps(step);
                credit = most.min(credit + step);
                prop_assert_eq!(bucket.ready_at() <= now, credit >= interval);
                if credit < interval {
                    let wait = Duration::from_ps(interval - credit);
                    prop_assert_eq!(bucket.ready_at(), now + wait);
                } else if take {
                    bucket.take(now);
                    credit -= interval;
                    taken.push(now.as_ps());
                }
            }
            // In any span t at most depth + t / interval tokens are taken.
            for (at, first) in taken.iter().enumerate() {
                for (count, last) in (1..).zip(&taken[at..]) {
                    prop_assert!(count <= u64::from(depth) + (last - first) / interval);
                }
            }
        }
    }
}
