//! Demands of a measured pod that change as those of applications do.
//!
//! Flows come one by one at each host, independently of one another, with sizes of the web search
//! distribution and receivers drawn at random. A host asks for a flow's bytes when the flow comes,
//! and for nothing else. A receiver reports the cells of the epochs in which others were granted
//! cells for it.

use std::collections::VecDeque;

use experiments::workload::{Cdf, distributions};
use transport::Rng;

/// When flows come, and how large they are.
#[derive(Clone, Debug)]
pub(super) struct FlowSource {
    sizes: Cdf,
    /// Epochs between two flows of one host in the mean.
    gap: f64,
}

impl FlowSource {
    /// Flows that take up `percent` of the epochs of a host, which have `bytes` bytes each. `None`
    /// where there is no such distribution.
    pub(super) fn new(percent: u8, bytes: u32) -> Option<Self> {
        let sizes = distributions::by_name("websearch")?.cdf().ok()?;
        let gap = sizes.mean_bytes() / f64::from(bytes) * 100.0 / f64::from(percent.max(1));
        Some(Self { sizes, gap })
    }
}

/// The flows of one host.
#[derive(Clone, Debug, Default)]
pub(super) struct HostFlows {
    /// When the next one comes, in epochs from the first one looked at on.
    next_at: f64,
    /// Flows that came and were not asked for: the receiver's place among those of the host, and
    /// bytes.
    news: VecDeque<(usize, u32)>,
}

impl HostFlows {
    /// The next flow that has come by the epoch `now` from the first one on and was not asked for:
    /// the place of its receiver among `receivers`, and its bytes in cells of `cell` bytes.
    pub(super) fn next(
        &mut self,
        (source, rng): (&FlowSource, &mut Rng),
        (receivers, cell): (usize, u32),
        now: f64,
    ) -> Option<(usize, u32)> {
        if self.next_at == 0.0 {
            self.next_at = now + source.gap * -(1.0 - rng.next_f64()).ln();
        }
        while self.next_at <= now {
            self.next_at += source.gap * -(1.0 - rng.next_f64()).ln();
            let to = usize::try_from(rng.below(receivers as u64)).unwrap_or(0);
            let bytes = u32::try_from(source.sizes.sample(rng).0).unwrap_or(u32::MAX >> 2);
            self.news.push_back((to, bytes.next_multiple_of(cell)));
        }
        self.news.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_up_the_share_of_the_epochs_that_is_asked_for() {
        let source = FlowSource::new(80, 8192).unwrap();
        let (mut rng, mut bytes) = (Rng::new(1), 0);
        for _ in 0..64 {
            let mut flows = HostFlows::default();
            for epoch in 0..20_000_u32 {
                while let Some((to, flow)) =
                    flows.next((&source, &mut rng), (15, 512), epoch.into())
                {
                    assert!(to < 15 && flow > 0 && flow % 512 == 0);
                    bytes += u64::from(flow);
                }
            }
        }
        let share = bytes * 1000 / (64 * 20_000 * 8192);
        assert!((760..=840).contains(&share), "{share} of 1000");
    }
}
