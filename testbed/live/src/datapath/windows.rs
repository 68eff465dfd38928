//! Computes a cost a segment that is not disturbed by other programs on the machine.
//!
//! Turns are gathered into windows of some thousands of segments. A window takes about a
//! millisecond, less than a slice of the kernel's scheduler. Other programs on the machine can only
//! make a window longer, never shorter, so the fastest quarter of the windows is averaged. On a
//! quiet machine that average is a few percent below the mean of all windows.

/// The times of one window, or an average of several. Ticks, and ticks a segment once averaged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TurnGroup {
    pub(super) segments: u64,
    /// Ticks of each measured part; the first ones make up the worker's cost.
    pub(super) parts: Vec<u64>,
}

impl TurnGroup {
    /// An empty window of `parts` parts.
    pub(super) fn new(parts: usize) -> Self {
        Self { segments: 0, parts: vec![0; parts] }
    }

    fn cost(&self, counted: usize) -> f64 {
        let ticks: u64 = self.parts.iter().take(counted).sum();
        precise(ticks) / precise(self.segments.max(1))
    }
}

/// Ticks a segment of each part, over the fastest quarter of `windows` by the sum of the first
/// `counted` parts; nothing without windows.
pub(super) fn fastest_quarter(windows: Vec<TurnGroup>, counted: usize) -> Vec<f64> {
    let mut windows = by_cost(windows, counted);
    windows.truncate(windows.len().div_ceil(4));
    mean(&windows)
}

/// Like [`fastest_quarter`], over the two quarters in the middle: where the work of windows
/// differs, too.
pub(super) fn middle_half(windows: Vec<TurnGroup>, counted: usize) -> Vec<f64> {
    let windows = by_cost(windows, counted);
    let left_out = windows.len() / 4;
    mean(&windows[left_out..windows.len() - left_out])
}

/// The windows with segments, the fastest one first.
fn by_cost(mut windows: Vec<TurnGroup>, counted: usize) -> Vec<TurnGroup> {
    windows.retain(|window| window.segments > 0);
    windows.sort_by(|a, b| a.cost(counted).total_cmp(&b.cost(counted)));
    windows
}

fn mean(windows: &[TurnGroup]) -> Vec<f64> {
    let segments: u64 = windows.iter().map(|window| window.segments).sum();
    let Some(first) = windows.first() else { return Vec::new() };
    let sum = |part: usize| windows.iter().map(|window| window.parts[part]).sum::<u64>();
    (0..first.parts.len()).map(|part| precise(sum(part)) / precise(segments)).collect()
}

/// Exact below 2^53, which a counter of ticks reaches after a month.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub(super) fn precise(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(segments: u64, parts: [u64; 2]) -> TurnGroup {
        TurnGroup { segments, parts: parts.to_vec() }
    }

    #[test]
    fn only_the_fastest_quarter_counts() {
        let mut windows = vec![window(10, [100, 7]), window(30, [300, 21])];
        windows.extend((0..6).map(|slow| window(10, [99_999 + slow, 7])));
        assert_eq!(fastest_quarter(windows, 1), [10.0, 0.7]);
    }

    #[test]
    fn the_middle_half_leaves_out_a_quarter_at_either_end() {
        let windows = [90, 10, 30, 20].map(|ticks| window(10, [ticks, 1])).to_vec();
        assert_eq!(middle_half(windows, 1), [2.5, 0.1]);
        assert!(middle_half(Vec::new(), 1).is_empty());
    }

    #[test]
    fn parts_keep_adding_up_and_no_window_is_no_cost() {
        let windows = vec![window(2, [10, 30]), window(0, [1, 1])];
        assert_eq!(fastest_quarter(windows, 2), [5.0, 15.0]);
        assert!(fastest_quarter(Vec::new(), 1).is_empty());
        assert!(fastest_quarter(vec![window(0, [1, 1])], 1).is_empty());
    }
}
