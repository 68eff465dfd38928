//! Counters of a network while it runs: for each port, in all, and how long its queues were.
//!
//! Bytes are wire bytes. Nothing here allocates after `new`.

use transport::Duration;

/// Counters of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets it transmitted.
    pub hops: u64,
    /// Bytes it transmitted.
    pub bytes: u64,
    /// Packets it trimmed.
    pub trimmed: u64,
    /// Packets it marked.
    pub marked: u64,
    /// Packets that ended at it, for any reason.
    pub dropped: u64,
    /// Most data bytes that waited at once; a packet that meets an idle link does not wait.
    pub data_peak: u64,
    /// Pause frames it sent, without those that let a link go on.
    pub pauses: u64,
    /// How long its own data class was paused; a pause counts when it is over.
    pub paused: Duration,
}

impl PortStats {
    /// Adds `other`'s counts; the peak is the higher of the two.
    pub(super) fn merge(&mut self, other: &Self) {
        self.hops += other.hops;
        self.bytes += other.bytes;
        self.trimmed += other.trimmed;
        self.marked += other.marked;
        self.dropped += other.dropped;
        self.data_peak = self.data_peak.max(other.data_peak);
        self.pauses += other.pauses;
        self.paused += other.paused;
    }
}

/// Data backlogs of switch ports in bytes, sampled whenever a data packet leaves: the bytes that it
/// leaves behind.
pub type QueueStats = Histogram;

/// A fixed histogram, eight buckets an octave: a quantile is at most 1/8 too high. 4 KiB.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    samples: u64,
    sum: u64,
    max: u64,
}

const SUB_BITS: u32 = 3;
const BUCKETS: usize = ((64 - SUB_BITS as usize) + 1) << SUB_BITS;

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// A histogram without samples.
    pub const fn new() -> Self {
        Self { buckets: [0; BUCKETS], samples: 0, sum: 0, max: 0 }
    }

    /// Counts one sample.
    #[inline]
    pub fn sample(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.samples += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Takes `other`'s samples too.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.samples += other.samples;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Samples taken.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Mean of the samples; 0 without samples.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for reports")]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.samples.max(1) as f64
    }

    /// The value that a share `q` of the samples does not exceed, rounded up to the end of its
    /// bucket but never above the largest; 0 without samples. `q` is clamped to 0..=1.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank for reports; the float is within 0 ..= samples"
    )]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((self.samples as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return bucket_end(index).min(self.max);
            }
        }
        0
    }
}

/// Values below 8 have a bucket each; above, the top bit and the three below it name the bucket.
#[inline]
fn bucket(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    ((octave as usize) << SUB_BITS) + usize::try_from(value >> octave).unwrap_or(0)
}

/// The highest value of a bucket.
fn bucket_end(index: usize) -> u64 {
    let octave = (index >> SUB_BITS).saturating_sub(1);
    let step = (index - (octave << SUB_BITS)) as u64 + 1;
    u64::try_from((u128::from(step) << octave) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_ends_at_most_an_eighth_above_what_is_in_it(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let end = bucket_end(bucket(value));
            prop_assert!(end >= value && end - value <= value / 8, "{} in ..={}", value, end);
            prop_assert_eq!(bucket(end), bucket(value));
        }
    }

    #[test]
    fn mean_and_quantiles_are_those_of_the_samples() {
        let mut stats = Histogram::new();
        assert_eq!((stats.quantile(0.99), stats.samples()), (0, 0));
        for bytes in 1..=1000 {
            stats.sample(bytes * 100);
        }
        assert!((stats.mean() - 50_050.0).abs() < 1e-9);
        let p99 = stats.quantile(0.99);
        assert!((99_000..=100_000).contains(&p99), "{p99}");
        assert_eq!(stats.quantile(1.0), 100_000);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
