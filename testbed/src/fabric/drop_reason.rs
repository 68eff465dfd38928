//! Why the fabric lost a packet: every loss has one of these names, and a counter of its own.

use core::fmt;

/// Where and why a packet ended before its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// A data queue was full and the packet could not be trimmed.
    DataQueueFull,
    /// The control queue was full: a control packet, or a header that trimming left.
    ControlQueueFull,
    /// It left on a link that was down, or was on the link when the link went down.
    LinkDown,
    /// Independent random loss of a fault schedule.
    RandomLoss,
    /// Correlated loss of a fault schedule.
    BurstLoss,
    /// The destination is not a host of this network.
    NoRoute,
    /// It had no bytes.
    Malformed,
}

impl DropReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 7] = [
        Self::DataQueueFull,
        Self::ControlQueueFull,
        Self::LinkDown,
        Self::RandomLoss,
        Self::BurstLoss,
        Self::NoRoute,
        Self::Malformed,
    ];

    /// The name that results carry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DataQueueFull => "data_queue_full",
            Self::ControlQueueFull => "control_queue_full",
            Self::LinkDown => "link_down",
            Self::RandomLoss => "random_loss",
            Self::BurstLoss => "burst_loss",
            Self::NoRoute => "no_route",
            Self::Malformed => "malformed",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Packets lost, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// Counts one more packet lost to `reason`.
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Packets lost to `reason`.
    #[must_use]
    pub const fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Packets lost in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with its count, in the order of [`DropReason::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let mut drops = Drops::default();
        for (times, reason) in DropReason::ALL.into_iter().enumerate() {
            for _ in 0..=times {
                drops.count(reason);
            }
        }
        let mut names: Vec<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
        for ((reason, count), expected) in drops.iter().zip(1..) {
            assert_eq!((drops.of(reason), count), (expected, expected));
        }
        assert_eq!(drops.total(), (1..=7).sum::<u64>());
    }
}
