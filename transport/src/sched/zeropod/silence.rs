//! How long a pod's scheduler has been silent, and which flows are given up for that.
//!
//! Source: ours; \[zeropod\] IV-C has no losses. A working scheduler answers every total that is
//! repeated, and every introduction. So a host that gets no answer for as long as a flow survives
//! silence has no scheduler, and gives up all flows that wait for one. Times are of whatever clock
//! the host counts by until an answer comes: the pod's, or its own while it introduces itself.

use super::queues::Queues;
use crate::time::{Duration, Instant};
use crate::units::FlowId;

/// The silence of a scheduler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// Silence after which flows are given up.
    patience: Duration,
    /// Whether a flow that comes later is given up at the next look, or waits as long. A host that
    /// introduces itself needs no waiting flow to find out that its scheduler is back.
    lasts: bool,
    /// When the scheduler was asked first since its last answer.
    since: Option<Instant>,
    /// The check that found it silent for too long, until all flows that wait are given up.
    over_at: Option<Instant>,
}

impl Silence {
    pub(super) const fn new(patience: Duration, lasts: bool) -> Self {
        Self { patience, lasts, since: None, over_at: None }
    }

    /// The scheduler is asked, or will be, at `at`.
    pub(super) fn asked(&mut self, at: Instant) {
        self.since.get_or_insert(at);
    }

    /// The scheduler has answered.
    pub(super) const fn answered(&mut self) {
        (self.since, self.over_at) = (None, None);
    }

    /// Checks how long the scheduler has been silent by `now`.
    pub(super) fn look(&mut self, now: Instant) {
        if self.since.is_some_and(|since| now >= since + self.patience) {
            self.over_at = Some(now);
        }
    }

    /// When the scheduler was asked first since its last answer; `None` where it has answered.
    pub(super) const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// When flows are to be given up; `None` where none are.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.over_at
    }

    /// The next flow that is given up.
    pub(super) fn next_given_up(&mut self, queues: &mut Queues) -> Option<FlowId> {
        self.over_at?;
        let flow = queues.first_waiting();
        match flow {
            Some(flow) => _ = queues.update(flow, 0),
            None if self.lasts => self.over_at = None,
            None => self.answered(),
        }
        flow
    }
}
