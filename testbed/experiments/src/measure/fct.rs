//! Statistics over flows: completion times, and how much longer they took than alone.

use serde::Serialize;
use transport::Duration;

/// Flow completion times in microseconds, or their ratios to others; all `None` when no flow
/// finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fct {
    /// Shortest.
    pub min: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile, nearest rank.
    pub p99: Option<f64>,
    /// 99.9th percentile, nearest rank.
    pub p999: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
}

impl Fct {
    /// The statistics of `times`, in any order. O(n log n).
    #[must_use]
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        Self::of_values(times.into_iter().map(Duration::as_us_f64).collect())
    }

    /// The statistics of `values`, in any order. O(n log n).
    #[must_use]
    pub fn of_values(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |per_mille: usize| {
            let rank = (values.len() * per_mille).div_ceil(1000).max(1) - 1;
            values.get(rank).copied()
        };
        let sum: f64 = values.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53 flows")]
        let mean = (!values.is_empty()).then(|| sum / values.len() as f64);
        Self { min: at(0), mean, p50: at(500), p99: at(990), p999: at(999), max: at(1000) }
    }
}

/// Jain's fairness index of `rates`, 1/n ..= 1; `None` without a rate above 0.
#[must_use]
pub fn jain(rates: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        n += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let fct = Fct::of((1..=1000).rev().map(Duration::from_us));
        let all = [fct.min, fct.p50, fct.p99, fct.p999, fct.max].map(Option::unwrap);
        assert_eq!(all, [1.0, 500.0, 990.0, 999.0, 1000.0]);
        assert_eq!(fct.mean, Some(500.5));
    }

    #[test]
    fn no_flows_have_no_times() {
        assert_eq!(Fct::of(Vec::new()), Fct::default());
    }

    #[test]
    fn equal_rates_are_fair_and_one_hog_is_not() {
        assert_eq!(jain([3.0, 3.0, 3.0].into_iter()), Some(1.0));
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(jain(std::iter::empty()), None);
    }
}
