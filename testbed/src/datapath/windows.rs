//! From turns to a cost a segment that other programs on the machine have not disturbed.
//!
//! Turns are gathered into windows of some thousands of segments. Whoever else runs on the core can
//! only make a window longer, never shorter, so the middle half of the windows, by cost, is what is
//! averaged: the slow quarter was disturbed, and the fast quarter is left out so that the mean
//! stays one.

/// What one window, or an average of them, took. Ticks, and ticks a segment once averaged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Window {
    pub(super) segments: u64,
    /// Ticks of each measured part; the first ones make up the worker's cost.
    pub(super) parts: Vec<u64>,
}

impl Window {
    /// An empty window of `parts` parts.
    pub(super) fn new(parts: usize) -> Self {
        Self { segments: 0, parts: vec![0; parts] }
    }

    fn cost(&self, counted: usize) -> f64 {
        let ticks: u64 = self.parts.iter().take(counted).sum();
        precise(ticks) / precise(self.segments.max(1))
    }
}

/// Ticks a segment of each part, over the middle half of `windows` by the sum of the first
/// `counted` parts; nothing without windows.
pub(super) fn middle_half(mut windows: Vec<Window>, counted: usize) -> Vec<f64> {
    windows.retain(|window| window.segments > 0);
    windows.sort_by(|a, b| a.cost(counted).total_cmp(&b.cost(counted)));
    let quarter = windows.len() / 4;
    let middle = &windows[quarter..windows.len() - quarter];
    let segments: u64 = middle.iter().map(|window| window.segments).sum();
    let Some(first) = middle.first() else { return Vec::new() };
    let sum = |part: usize| middle.iter().map(|window| window.parts[part]).sum::<u64>();
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

    fn window(segments: u64, parts: [u64; 2]) -> Window {
        Window { segments, parts: parts.to_vec() }
    }

    #[test]
    fn the_slowest_and_the_fastest_quarter_do_not_count() {
        let mut windows = vec![window(10, [100, 7]); 2];
        windows.extend([window(10, [99_999, 7]), window(10, [1, 7])]);
        assert_eq!(middle_half(windows, 1), [10.0, 0.7]);
    }

    #[test]
    fn parts_keep_adding_up_and_no_window_is_no_cost() {
        let windows = vec![window(2, [10, 30]), window(6, [30, 90])];
        let costs = middle_half(windows, 2);
        assert_eq!(costs, [5.0, 15.0]);
        assert!(middle_half(Vec::new(), 1).is_empty());
        assert!(middle_half(vec![window(0, [1, 1])], 1).is_empty());
    }
}
