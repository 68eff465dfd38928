//! How long a pod's scheduler has been silent, and which flows are given up for that.
//!
//! Source: ours; \[zeropod\] IV-C has no losses. A working scheduler answers every total that is
//! repeated, and every introduction. So a host that gets no answer for as long as a flow survives
//! silence has no scheduler, and gives up all flows that wait for one. Times are of whatever clock
//! the host counts by until an answer comes: the pod's, or its own while it introduces itself.
//!
//! Where clocks are off, every host gets answers that help it to follow the pod's clock, whatever
//! it asks. A scheduler refuses requests of a host whose clock has got away from the pod's by many
//! epochs, and the answers then say of none that it came. Such answers end no silence.

use super::queues::Queues;
use super::timing::{ASK_EVERY, Timing};
use super::{PodCounts, Zeropod};
use crate::time::{Duration, Instant};
use crate::units::FlowId;
use crate::wire::pod::Schd;

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

/// The times in which a host was without a scheduler.
///
/// A working scheduler answers some requests in a known time: all of them where the pod has a
/// backup, and else those that repeat a total. An outage begins when such an answer is due, but not
/// before the last granted epoch is over. It ends with the next answer, of whatever request; where
/// this is the first one of another term, it ends with the first epoch that the term may grant. So
/// a demand that waits for its turn is no outage, however long it waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outage {
    /// The epoch of the first such request since the last answer.
    unanswered: Option<u64>,
    /// Whether another term has begun since the last answer.
    in_new_term: bool,
}

impl Outage {
    /// A request leaves in `epoch` that a working scheduler answers.
    pub(super) fn asked(&mut self, epoch: u64) {
        self.unanswered.get_or_insert(epoch);
    }

    /// Whether another term has begun since the last answer.
    pub(super) const fn is_in_new_term(&self) -> bool {
        self.in_new_term
    }

    /// Another term has begun.
    pub(super) const fn begin_term(&mut self) {
        self.in_new_term = true;
    }

    /// Forgets epochs, which were of another clock.
    pub(super) const fn clear(&mut self) {
        (self.unanswered, self.in_new_term) = (None, false);
    }

    /// The first epoch of the outage that lasts in `epoch`, where an answer comes within `due`
    /// epochs; `None` where there is none.
    fn since(&self, due: u64, epoch: u64) -> Option<u64> {
        let late = self.unanswered.map(|asked| asked + due).filter(|due| *due < epoch);
        late.or(self.in_new_term.then_some(epoch))
    }
}

impl Zeropod {
    /// An answer ends the silence of the scheduler if a request of a host came to it in time. An
    /// answer that says of no request that it came goes to hosts whose requests are refused, too.
    pub(super) fn note_heeded(&mut self, schd: &Schd) {
        let takes_requests = schd.stamp.is_none_or(|stamp| stamp.late.is_some());
        let answers = schd.grant.is_some() || schd.standing.is_some();
        // A host of a real network may still introduce itself, and that gets no other answer.
        if takes_requests || answers || self.joining.is_some() {
            self.silence.answered();
        }
    }

    /// A host that is not polled for long has answers to look at when `epoch` begins there: what it
    /// asked before is not the beginning of an outage. A host that waits for an answer is polled at
    /// its next request, or when it looks at its demands.
    pub(super) fn pass_stall(&mut self, epoch: u64) {
        let polled = if self.watch.is_on() { ASK_EVERY } else { self.timing.request_to_data() };
        if epoch > self.epoch + 2 * polled {
            self.outage.unanswered = None;
        }
    }

    /// Epochs within which a working scheduler answers a request that it answers in any case.
    fn answer_due(&self) -> u64 {
        if self.watch.is_on() { self.timing.round_trip } else { self.timing.request_to_data() }
    }

    /// The first epoch of the outage that lasts at present; `None` where there is none.
    pub(super) fn outage_since(&self) -> Option<u64> {
        self.outage.since(self.answer_due(), self.epoch)
    }

    /// What this host has counted. An outage that lasts counts up to the present epoch.
    #[must_use]
    pub fn counts(&self) -> PodCounts {
        let mut counts = *self.counts;
        counts.outage = self.longest_outage(self.epoch);
        counts
    }

    /// The longest outage so far, where the present one ends in `end`, an epoch.
    pub(super) fn longest_outage(&self, end: u64) -> Duration {
        let since = self.outage_since().map(|since| since.max(self.watch.granted + 1));
        let epochs = since.map_or(0, |since| end.saturating_sub(since));
        self.counts.outage.max(self.timing.epoch * epochs)
    }

    /// No answer has come, and none is expected any more where only repeated totals get answers.
    pub(super) fn give_up_outage(&mut self) {
        self.counts.outage = self.longest_outage(self.epoch);
        if !self.watch.is_on() {
            self.outage.clear();
        }
    }

    /// An answer came at `at`, with a grant for `granted` or without one.
    pub(super) fn end_outage(&mut self, at: Instant, granted: Option<u64>) {
        let end = if self.outage.in_new_term {
            let fence = self.timing.term_fence(self.term_began(at), self.params.superepoch.into());
            granted.map_or(fence, |epoch| epoch.min(fence))
        } else {
            self.epoch
        };
        self.counts.outage = self.longest_outage(end);
        self.outage.clear();
    }

    /// The epoch in which a term began, whose first answer came at `at`. That answer left in the
    /// window in which answers are known that are due in the epoch after it.
    fn term_began(&self, at: Instant) -> u64 {
        let Timing { answers_at, core_answers_at, control_flight, epoch, .. } = self.timing;
        let left = at.before(control_flight + answers_at.saturating_sub(self.pod_end.behind));
        let opens = if self.params.pods > 1 { core_answers_at } else { answers_at };
        let known = self.timing.epoch_at(left) + opens.as_ps() / epoch.as_ps();
        known.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::tests::{Host, SCHEDULER, flow, granted};
    use super::*;
    use crate::sched::Protocol as _;
    use crate::wire::pod::Stamp;

    /// A scheduler refuses all requests of a host whose clock is off by many epochs, and answers
    /// for its clock all the same.
    #[test]
    fn answers_that_say_of_no_request_that_it_came_end_no_silence() {
        let said = |late| Some(Stamp { window: Some(0), behind_gap: false, late });
        for (stamp, given_up) in [(said(None), 1), (said(Some(3)), 0), (None, 0)] {
            let mut host = Host::new();
            host.sched.silence.patience = host.sched.timing.epoch * 400;
            host.post(0, 3);
            let answer = Schd { stamp, grant: None, ..granted(0, 0, 0) };
            let mut flows = Vec::new();
            for epoch in 1..1000 {
                host.run(host.epoch(epoch));
                assert!(host.answer(SCHEDULER, &answer));
                flows.extend(core::iter::from_fn(|| host.sched.next_given_up()));
            }
            let expected = [flow(0)];
            assert_eq!(flows, expected[..given_up], "{stamp:?}");
        }
    }
}
