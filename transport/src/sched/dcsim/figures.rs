//! Counters and measurements of DCsim at one host.

use alloc::boxed::Box;

use crate::stats::SimCounts;
use crate::time::Duration;

/// Spans of time with a resolution of a 32nd.
#[derive(Clone, Debug)]
pub struct Spans {
    count: u64,
    sum_ps: u128,
    max: Duration,
    /// Number of spans in each 32nd of each octave.
    buckets: Box<[u32; BUCKETS]>,
}

const STEPS: u32 = 32;
/// All spans of 2^44 ps, 17 s, and more count as one length.
const OCTAVES: u32 = 40;
const BUCKETS: usize = (STEPS * OCTAVES) as usize;

impl Default for Spans {
    fn default() -> Self {
        Self { count: 0, sum_ps: 0, max: Duration::ZERO, buckets: Box::new([0; BUCKETS]) }
    }
}

impl Spans {
    /// Counts a span.
    pub fn note(&mut self, span: Duration) {
        self.count += 1;
        self.sum_ps += u128::from(span.as_ps());
        self.max = self.max.max(span);
        let bucket = &mut self.buckets[Self::bucket(span.as_ps())];
        *bucket = bucket.saturating_add(1);
    }

    /// The bucket of a span: the number of its bits gives the octave, the five bits below the
    /// highest one give the 32nd.
    fn bucket(ps: u64) -> usize {
        let shift = (64 - ps.leading_zeros()).saturating_sub(6);
        let bucket = u64::from(shift * STEPS) + (ps >> shift);
        usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
    }

    /// The shortest span of a bucket.
    fn least(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        let steps = u64::from(STEPS);
        let shift = (bucket / steps).saturating_sub(1);
        (bucket - shift * steps) << shift
    }

    /// Adds the spans of `other`.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ps += other.sum_ps;
        self.max = self.max.max(other.max);
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// The number of spans that were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean of all spans; zero when there are none.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let mean = self.sum_ps / u128::from(self.count.max(1));
        Duration::from_ps(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The longest span; zero when there are none.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// The span that `percent` (0..=100) of all spans do not exceed, at most a 32nd too short; zero
    /// when there are none.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Duration {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Duration::from_ps(Self::least(bucket)).min(self.max);
            }
        }
        self.max
    }
}

/// All figures of one host, or the sums over several hosts.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Counts of SIMs and SIM-ACKs.
    pub sims: SimCounts,
    /// Times from a SIM's departure to the arrival of its SIM-ACK.
    pub sim_rtt: Spans,
    /// Times from the instant at which a DATA might leave to its departure.
    pub departure_error: Spans,
}

impl Figures {
    /// Adds the figures of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sims.add(&other.sims);
        self.sim_rtt.add(&other.sim_rtt);
        self.departure_error.add(&other.departure_error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_spans_within_a_32nd(
            mut spans in prop::collection::vec(0_u64..1 << 43, 1..200), percent in 1_u64..=100,
        ) {
            let mut counted = Spans::default();
            spans.iter().for_each(|ps| counted.note(Duration::from_ps(*ps)));
            spans.sort_unstable();
            let rank = (spans.len() as u64 * percent).div_ceil(100).max(1);
            let exact = spans[usize::try_from(rank - 1).unwrap()];
            let seen = counted.percentile(percent).as_ps();
            prop_assert!(seen <= exact && exact - seen <= exact / 32, "{seen} for {exact}");
            let sum: u64 = spans.iter().sum();
            prop_assert_eq!(counted.mean().as_ps(), sum / spans.len() as u64);
            prop_assert_eq!(counted.max().as_ps(), *spans.last().unwrap());
        }
    }
}
