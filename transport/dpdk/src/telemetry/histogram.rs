//! Histograms with buckets of one eighth of a power of two, in a fixed array.
//!
//! A bucket holds the values above its lower and up to its upper bound, so bounds at powers of two
//! are those that are exposed. Values up to 8 have a bucket each; above, a bucket is at most an
//! eighth of its values wide. What exceeds the last bound is counted in the last bucket. One thread
//! counts, with plain loads and stores; others may read at any time, and every count they see was
//! true at some instant. Values are nanoseconds or frames.

use std::sync::atomic::{AtomicU64, Ordering};

use transport::histogram;

/// Buckets of a power of two: 2^3.
const FINE_BITS: u32 = 3;
/// The largest power of two: 2^40 ns are 18 minutes.
const OCTAVE_MAX: u32 = 40;
const BUCKETS: usize = histogram::buckets(FINE_BITS, OCTAVE_MAX);

/// Counted values.
#[derive(Debug)]
pub struct SharedHistogram {
    buckets: [AtomicU64; BUCKETS],
    /// Sum of all values; wraps after 584 years of nanoseconds.
    sum: AtomicU64,
    max: AtomicU64,
}

/// A histogram as of a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    buckets: [u64; BUCKETS],
    /// The sum of all values.
    pub sum: u64,
    /// The largest value.
    pub max: u64,
}

impl SharedHistogram {
    pub(super) const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }

    /// Counts `value`. One thread's.
    #[inline]
    pub(super) fn count(&self, value: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let sum = self.sum.load(Ordering::Relaxed).wrapping_add(value);
        self.sum.store(sum, Ordering::Relaxed);
        if value > self.max.load(Ordering::Relaxed) {
            self.max.store(value, Ordering::Relaxed);
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn picture(&self) -> Picture {
        Picture {
            buckets: self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        }
    }
}

impl Picture {
    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The values that came after `before`, an earlier picture of the same histogram. The largest
    /// of them is known up to its bucket.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let buckets = std::array::from_fn(|at| self.buckets[at].wrapping_sub(before.buckets[at]));
        let top = buckets.iter().rposition(|count| *count > 0).map_or(0, bound_of);
        Self { buckets, sum: self.sum.wrapping_sub(before.sum), max: top.min(self.max) }
    }

    /// The least bound that `share` of all values (0 to 1) do not exceed; at most [`Self::max`].
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = histogram::rank_of(share, self.count());
        let bucket = histogram::bucket_at(rank, self.buckets);
        bucket.map_or(self.max, |bucket| bound_of(bucket).min(self.max))
    }

    /// How many values are at most 2^`octave`.
    #[must_use]
    pub fn up_to(&self, octave: u32) -> u64 {
        let last = bucket_of(1u64 << octave.min(OCTAVE_MAX));
        self.buckets.iter().take(last + 1).sum()
    }
}

/// The bucket of `value`: that of the value before it, so that a power of two is the last of its
/// bucket and not the first of the next.
#[inline]
fn bucket_of(value: u64) -> usize {
    histogram::bucket_of::<FINE_BITS>(value.saturating_sub(1)).min(BUCKETS - 1)
}

/// The largest value of `bucket`.
const fn bound_of(bucket: usize) -> u64 {
    histogram::bucket_end::<FINE_BITS>(bucket) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_bucket_and_buckets_are_an_eighth_wide() {
        let near = |power: u32| [0, 1, 2, 3, 5].map(|off| (1u64 << power) + off);
        let values = (0..40).flat_map(near).chain((0..40).map(|power| (1 << power) - 1));
        for value in values {
            let bucket = bucket_of(value);
            let below = bucket.checked_sub(1).map_or(0, bound_of);
            assert!(value <= bound_of(bucket), "{value} in {bucket}");
            assert!(value > below || value == 0, "{value} in {bucket} above {below}");
            assert!((bound_of(bucket) - below - 1) * 8 <= value.max(8), "{value} in {bucket}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bound_of(BUCKETS - 1), 1 << OCTAVE_MAX);
    }

    #[test]
    fn a_picture_since_another_has_what_came_between_them() {
        let histogram = SharedHistogram::new();
        [5000, 9].into_iter().for_each(|value| histogram.count(value));
        let before = histogram.picture();
        [100, 120, 7].into_iter().for_each(|value| histogram.count(value));
        let since = histogram.picture().since(&before);
        assert_eq!((since.count(), since.sum), (3, 227));
        assert!((120..=135).contains(&since.max), "{}", since.max);
        assert_eq!(since.quantile(0.1), 7);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list_to_an_eighth() {
        let histogram = SharedHistogram::new();
        let mut values: Vec<u64> = (1..=1000u64).map(|i| i * i * 37).collect();
        values.iter().for_each(|value| histogram.count(*value));
        values.sort_unstable();
        let picture = histogram.picture();
        for (share, exact) in [(0.5, values[499]), (0.99, values[989]), (1.0, values[999])] {
            let found = picture.quantile(share);
            assert!(found >= exact && found <= exact + exact / 8, "{share}: {found} for {exact}");
        }
        assert_eq!((picture.count(), picture.sum), (1000, values.iter().sum()));
        assert_eq!(picture.max, 37_000_000);
        let below = values.iter().filter(|value| **value <= 1 << 20).count();
        assert_eq!(picture.up_to(20), below as u64);
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        let picture = SharedHistogram::new().picture();
        assert_eq!((picture.count(), picture.quantile(0.5), picture.up_to(31)), (0, 0, 0));
    }
}
