//! What the schedulers of pods have counted.

use transport::Duration;

use super::{Lateness, Pod, PodScheduler};
use crate::pod::Shape;
use crate::pod::scheduler::Refused;

/// What the schedulers of pods have counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PodCounters {
    /// Decisions made while some demand was open.
    pub epochs: u64,
    /// Grants of all decisions.
    pub grants: u64,
    /// Hosts that could have got a grant in these decisions, whether they asked or not.
    pub chances: u64,
    /// Requests, or parts of some, that made no sense, in the order of [`Refused::ALL`].
    refused: [u64; Refused::ALL.len()],
    /// Times that a link was accused of losing cells.
    pub accused: u64,
    /// The term, the highest of all.
    pub term: u32,
    /// The most by which a request of a host was early or late, where clocks of hosts may be off
    /// and that of the host had settled.
    pub clock_error: Duration,
}

impl PodCounters {
    /// The sums of these counters and those of other pods.
    #[must_use]
    pub const fn with(mut self, other: &Self) -> Self {
        self.epochs += other.epochs;
        self.grants += other.grants;
        self.chances += other.chances;
        self.accused += other.accused;
        let mut reason = 0;
        while reason < self.refused.len() {
            self.refused[reason] += other.refused[reason];
            reason += 1;
        }
        if other.term > self.term {
            self.term = other.term;
        }
        if other.clock_error.as_ps() > self.clock_error.as_ps() {
            self.clock_error = other.clock_error;
        }
        self
    }
}

impl Pod {
    pub(super) fn counters(&self) -> PodCounters {
        let counters = self.scheduler.counters();
        PodCounters {
            epochs: counters.epochs,
            grants: counters.grants,
            chances: counters.epochs * self.members.hosts() as u64,
            refused: core::array::from_fn(|reason| counters.refused(Refused::ALL[reason])),
            accused: counters.accused,
            term: self.scheduler.term(),
            clock_error: self.lateness.as_ref().map_or(Duration::ZERO, Lateness::most),
        }
    }
}

impl PodScheduler {
    /// The shape of the pod, and the time of a cell on a line; `None` where the switch is no pod's
    /// scheduler.
    #[must_use]
    pub fn dimensions(&self) -> Option<(Shape, Duration)> {
        self.pod.as_ref().map(|pod| (pod.members.shape, pod.timing.cell))
    }
}

impl PodCounters {
    /// The requests, or parts of some, that made no sense, by reason.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refused::ALL.iter().map(|reason| reason.name()).zip(self.refused)
    }
}
