//! Demands of a measured pod that change as those of applications do, and arrivals that wait to be
//! reported.
//!
//! Flows come one by one at each host, independently of one another, with sizes of the web search
//! distribution and receivers drawn at random. A host asks for a flow's bytes when the flow comes,
//! and for nothing else. A receiver reports the cells of the epochs in which others were granted
//! cells for it.

use std::collections::VecDeque;

use experiments::workload::{Cdf, distributions};
use transport::Rng;
use transport::wire::pod::REPORTED_MAX;

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

/// Cells that arrived and were not reported, by the epoch in which they were sent; ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrived {
    epochs: VecDeque<(u64, u32)>,
    /// Epochs that became too old for a request.
    unreported: u64,
}

impl Arrived {
    /// All cells of `epoch` that were granted, `slots`, will arrive.
    pub(super) fn note(&mut self, epoch: u64, slots: u32) {
        let at = self.epochs.partition_point(|(other, _)| *other < epoch);
        self.epochs.insert(at, (epoch, slots));
    }

    /// Whether cells of `last` or an epoch before it wait.
    pub(super) fn is_any_by(&self, last: u64) -> bool {
        self.epochs.front().is_some_and(|(sent, _)| *sent <= last)
    }

    /// Epochs that no request reported.
    pub(super) const fn unreported(&self) -> u64 {
        self.unreported
    }

    /// What a request says whose turn epoch `last` is: cells, and the epochs in which they arrived,
    /// as hosts say it that report several epochs.
    pub(super) fn take(&mut self, last: u64) -> (u32, u16) {
        while self.epochs.front().is_some_and(|(sent, _)| sent + REPORTED_MAX <= last) {
            self.epochs.pop_front();
            self.unreported += 1;
        }
        let first = self.epochs.front().filter(|(sent, _)| *sent <= last);
        let Some((_, slots)) = first.copied() else { return (0, 1) };
        let mut epochs = 0;
        self.epochs.retain(|(sent, others)| {
            let is_reported = *sent <= last && *others == slots;
            epochs |= if is_reported { 1 << (last - sent) } else { 0 };
            !is_reported
        });
        (slots, epochs)
    }

    /// Like [`Arrived::take`], where a request reports one epoch alone.
    pub(super) fn take_one(&mut self, last: u64) -> u32 {
        let is_due = |front: Option<&(u64, u32)>| front.copied().filter(|(sent, _)| *sent <= last);
        while let Some((sent, slots)) = is_due(self.epochs.front()) {
            self.epochs.pop_front();
            if sent == last {
                return slots;
            }
            self.unreported += 1;
        }
        0
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

    #[test]
    fn arrivals_are_reported_as_hosts_report_them() {
        let mut arrived = Arrived::default();
        [(20, 7), (18, 7), (19, 1), (3, 7), (21, 7)]
            .into_iter()
            .for_each(|(e, s)| arrived.note(e, s));
        assert_eq!(arrived.take(20), (7, 0b101));
        assert_eq!(arrived.take(20), (1, 0b10));
        assert_eq!((arrived.take_one(20), arrived.take_one(21), arrived.take_one(22)), (0, 7, 0));
        assert_eq!(arrived.unreported(), 1, "the epoch 3, 17 epochs before");
    }
}
