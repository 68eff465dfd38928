//! Histograms of fixed size: how often values of about one size occurred.
//!
//! With `BITS` of 3 an octave has eight buckets. Values below 8 have a bucket each. For larger
//! values, the highest bit and the three below it name the bucket, so a bucket is at most an eighth
//! of its values wide. Values beyond the last bucket are counted in it. Nothing allocates but
//! [`Spans`], once.

use alloc::boxed::Box;

use crate::time::Duration;

/// Counted values, in 8 bytes a bucket.
#[derive(Clone, Debug)]
pub struct Histogram<const BITS: u32, const BUCKETS: usize> {
    buckets: [u64; BUCKETS],
    samples: u64,
    sum: u128,
    max: u64,
}

/// Buckets that octaves of 2^`bits` steps need for all values below 2^`width`.
#[must_use]
pub const fn buckets(bits: u32, width: u32) -> usize {
    ((width - bits + 1) as usize) << bits
}

/// The bucket of `value`, however many there are.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "below 2 << BITS")]
pub const fn bucket_of<const BITS: u32>(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((octave as usize) << BITS) + (value >> octave) as usize
}

/// The lowest value of a bucket.
#[must_use]
pub const fn bucket_start<const BITS: u32>(bucket: usize) -> u64 {
    let octave = (bucket >> BITS).saturating_sub(1);
    ((bucket - (octave << BITS)) as u64) << octave
}

/// The highest value of a bucket.
#[must_use]
pub const fn bucket_end<const BITS: u32>(bucket: usize) -> u64 {
    let octave = (bucket >> BITS).saturating_sub(1);
    let width = 1 << octave;
    bucket_start::<BITS>(bucket) + (width - 1)
}

/// The rank, from 1, of the value that a share of `samples` values does not exceed; `share` is
/// clamped to 0..=1.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank for reports; the float is within 0 ..= samples"
)]
pub fn rank_of(share: f64, samples: u64) -> u64 {
    let exact = samples as f64 * share.clamp(0.0, 1.0);
    let whole = exact as u64;
    (whole + u64::from(whole as f64 != exact)).max(1)
}

/// The bucket of the value of `rank`, counted from 1; `None` where there are fewer values.
pub fn bucket_at(rank: u64, buckets: impl IntoIterator<Item = u64>) -> Option<usize> {
    let mut seen = 0;
    buckets.into_iter().position(|count| {
        seen += count;
        seen >= rank
    })
}

impl<const BITS: u32, const BUCKETS: usize> Default for Histogram<BITS, BUCKETS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BITS: u32, const BUCKETS: usize> Histogram<BITS, BUCKETS> {
    /// A histogram without samples.
    #[must_use]
    pub const fn new() -> Self {
        Self { buckets: [0; BUCKETS], samples: 0, sum: 0, max: 0 }
    }

    /// Counts one sample.
    #[inline]
    pub fn sample(&mut self, value: u64) {
        self.sample_times(value, 1);
    }

    /// Counts so many samples of one value.
    #[inline]
    pub fn sample_times(&mut self, value: u64, times: u64) {
        self.buckets[bucket_of::<BITS>(value).min(BUCKETS - 1)] += times;
        self.samples += times;
        self.sum += u128::from(value) * u128::from(times);
        self.max = self.max.max(value);
    }

    /// Takes the samples of `other`, too.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *mine += theirs;
        }
        self.samples += other.samples;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Samples taken.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// The sum of all samples.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The largest sample; 0 without samples.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
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
    pub fn quantile(&self, q: f64) -> u64 {
        let bucket = bucket_at(rank_of(q, self.samples), self.buckets);
        bucket.map_or(0, |bucket| self.within(bucket_end::<BITS>(bucket)))
    }

    /// The value that `percent` (0..=100) of the samples do not exceed, rounded down to the start
    /// of its bucket; 0 without samples.
    #[must_use]
    pub fn percentile_down(&self, percent: u64) -> u64 {
        let rank = (self.samples * percent).div_ceil(100).max(1);
        bucket_at(rank, self.buckets).map_or(0, |bucket| self.within(bucket_start::<BITS>(bucket)))
    }

    const fn within(&self, value: u64) -> u64 {
        if value < self.max { value } else { self.max }
    }
}

/// Steps of an octave of [`Spans`], as a power of two.
const SPAN_BITS: u32 = 5;
/// All spans of 2^44 ps, 17 s, and more count as one length.
const SPAN_BUCKETS: usize = buckets(SPAN_BITS, 44);

/// Spans of time with a resolution of a 32nd.
#[derive(Clone, Debug, Default)]
pub struct Spans(Box<Histogram<SPAN_BITS, SPAN_BUCKETS>>);

impl Spans {
    /// Counts a span.
    pub fn note(&mut self, span: Duration) {
        self.note_times(span, 1);
    }

    /// Counts so many spans of one length.
    pub fn note_times(&mut self, span: Duration, times: u64) {
        self.0.sample_times(span.as_ps(), times);
    }

    /// Adds the spans of `other`.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
    }

    /// The number of spans that were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.0.samples()
    }

    /// The mean of all spans; zero when there are none.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let mean = self.0.sum() / u128::from(self.count().max(1));
        Duration::from_ps(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The longest span; zero when there are none.
    #[must_use]
    pub const fn max(&self) -> Duration {
        Duration::from_ps(self.0.max())
    }

    /// The span that `percent` (0..=100) of all spans do not exceed, at most a 32nd too short; zero
    /// when there are none.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Duration {
        Duration::from_ps(self.0.percentile_down(percent))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    type Eighths = Histogram<3, { buckets(3, 64) }>;

    proptest! {
        #[test]
        fn a_bucket_is_at_most_an_eighth_of_what_is_in_it_wide(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let bucket = bucket_of::<3>(value);
            let (start, end) = (bucket_start::<3>(bucket), bucket_end::<3>(bucket));
            prop_assert!(start <= value && value <= end && end - start <= value / 8);
            prop_assert_eq!((bucket_of::<3>(start), bucket_of::<3>(end)), (bucket, bucket));
        }

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

    #[test]
    fn mean_and_quantiles_are_those_of_the_samples() {
        let mut stats = Eighths::new();
        assert_eq!((stats.quantile(0.99), stats.samples()), (0, 0));
        for bytes in 1..=1000 {
            stats.sample(bytes * 100);
        }
        assert!((stats.mean() - 50_050.0).abs() < 1e-9);
        let p99 = stats.quantile(0.99);
        assert!((99_000..=100_000).contains(&p99), "{p99}");
        assert_eq!(stats.quantile(1.0), 100_000);
    }

    #[test]
    fn the_largest_value_has_the_last_bucket() {
        assert_eq!(bucket_of::<3>(u64::MAX), buckets(3, 64) - 1);
        assert_eq!(bucket_end::<3>(buckets(3, 64) - 1), u64::MAX);
    }

    #[test]
    fn values_beyond_the_last_bucket_are_counted_in_it() {
        let mut spans = Spans::default();
        spans.note(Duration::from_s(60));
        assert_eq!((spans.count(), spans.max()), (1, Duration::from_s(60)));
        assert!(spans.percentile(100) < Duration::from_s(18));
    }

    #[test]
    fn a_rank_is_rounded_up_and_at_least_the_first() {
        let ranks: Vec<u64> = [0.0, 0.1, 0.25, 0.3, 1.0, 7.0].map(|q| rank_of(q, 4)).into();
        assert_eq!(ranks, [1, 1, 1, 2, 4, 4]);
    }
}
