//! Whether the pod's scheduler still answers, and what a host does when it does not.
//!
//! Source: \[zeropod\] IV-E names a second scheduler; terms and fences are ours. Where a pod has a
//! backup, its schedulers answer every request, and hosts send one every few epochs at least. A
//! scheduler goes on without requests for a while. A host that gets no answer for longer than that
//! asks the other scheduler to begin the next term of its own. Odd terms are the first one's, even
//! ones the backup's, so no term has two schedulers. A host that gets an answer of a later term
//! forgets its grants of earlier terms, and asks anew for all that waits.
//!
//! A host that turns to another scheduler, by itself or because of that one's answer, also sends
//! one request to the former scheduler, which makes the former one stop.
//!
//! Where neither scheduler answers, a host asks both in turn. Its patience then doubles, so that
//! terms, which never go back, do not run out.

use super::timing::ASK_EVERY;
use super::{Odd, Rts, Zeropod};
use crate::time::Instant;
use crate::units::HostId;
use crate::wire::pod::Schd;

/// The term in which schedulers begin.
const FIRST_TERM: u16 = 1;

/// How many schedulers a host asks in vain before its patience begins to double, and how often it
/// doubles at most.
const ALIKE: u32 = 3;
const DOUBLINGS: u32 = 14;

/// The first term after `term` of a scheduler that is a backup or not. Terms are below 2^16.
#[must_use]
pub const fn next_term(term: u32, backup: bool) -> u32 {
    let next = term + 1;
    if next.is_multiple_of(2) == backup { next } else { next + 1 }
}

/// Whether a term is later than another one, 0 before the first. Terms of a scheduler that serves
/// one run after another begin again behind 65535, so they compare in serial arithmetic.
#[must_use]
pub const fn is_later(term: u16, than: u16) -> bool {
    than == 0 || (term != 0 && term != than && term.wrapping_sub(than) < 1 << 15)
}

/// The schedulers of a host's pod as their answers show them.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodWatch {
    /// The scheduler that is not asked; `None` where the pod has one.
    other: Option<HostId>,
    /// Whether that one is the backup.
    other_is_backup: bool,
    /// The epoch of the first request since the last answer.
    unanswered: Option<u64>,
    /// Schedulers asked since the last answer, beyond the first.
    tries: u32,
    /// The former scheduler, which is to be notified that it serves no more.
    former: Option<HostId>,
    /// The epoch of the last request.
    asked: u64,
    /// The last epoch of a grant; forgotten grants do not count.
    pub(super) granted: u64,
}

impl PodWatch {
    pub(super) const fn new(backup: Option<HostId>) -> Self {
        let other = backup;
        Self {
            other,
            other_is_backup: true,
            unanswered: None,
            tries: 0,
            former: None,
            asked: 0,
            granted: 0,
        }
    }

    /// Forgets epochs, and what depends on them: they were of another clock.
    pub(super) const fn forget_epochs(&mut self) {
        (self.unanswered, self.asked, self.granted) = (None, 0, 0);
    }

    pub(super) const fn is_on(&self) -> bool {
        self.other.is_some()
    }
}

impl Zeropod {
    /// A request leaves in `epoch`. Asks the other scheduler from this request on, where this one
    /// has not answered for too long.
    pub(super) fn watch(&mut self, epoch: u64) {
        if !self.watch.is_on() {
            return;
        }
        // A host that was not polled for long has answers to look at first.
        if epoch > self.watch.asked + 2 * ASK_EVERY {
            self.watch.unanswered = None;
        }
        self.watch.asked = epoch;
        self.outage.asked(epoch);
        let since = *self.watch.unanswered.get_or_insert(epoch);
        let doublings = self.watch.tries.saturating_sub(ALIKE).min(DOUBLINGS);
        if epoch < since + (self.timing.patience() << doublings) {
            return;
        }
        let Some(other) = self.watch.other else { return };
        let term = next_term(self.term.into(), self.watch.other_is_backup);
        if let Ok(term) = u16::try_from(term) {
            self.turn_to(other);
            self.begin_term(term);
            self.watch.unanswered = Some(epoch);
            self.watch.tries += 1;
        }
    }

    /// The epoch in which a host sends a request at the latest, where its pod has a backup and the
    /// host has had an answer or waits for one. Its scheduler grants only to and from hosts that
    /// send requests.
    pub(super) fn asks_from(&self) -> Option<u64> {
        let asks = self.watch.is_on() && (self.term != 0 || self.awaited.due().is_some());
        asks.then_some(self.watch.asked + ASK_EVERY)
    }

    fn turn_to(&mut self, scheduler: HostId) {
        if self.pod_end.scheduler != scheduler {
            self.watch.other = Some(self.pod_end.scheduler);
            self.watch.former = Some(self.pod_end.scheduler);
            self.watch.other_is_backup = !self.watch.other_is_backup;
            self.pod_end.scheduler = scheduler;
        }
    }

    /// Whether a former scheduler is to be notified that it is.
    pub(super) const fn has_former(&self) -> bool {
        self.watch.former.is_some()
    }

    /// The request that notifies a former scheduler: it asks for nothing, in the present term.
    pub(super) fn last_request(&mut self, now: Instant) -> Option<(Instant, HostId, Rts)> {
        let former = self.watch.former?;
        let (epoch, at) = self.due_request(now)?;
        self.watch.former = None;
        self.request_from = epoch + 1;
        self.counts.requests += 1;
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let epoch = epoch as u32;
        let rts = Rts { term: self.term, epoch, ..Rts::VACANT };
        Some((at, former, rts))
    }

    /// Whether a host may be a scheduler of this pod.
    pub(super) fn is_scheduler(&self, host: HostId) -> bool {
        host == self.pod_end.scheduler || self.watch.other == Some(host)
    }

    /// An answer came from a scheduler of the pod: of the term that the host is in, or of a later
    /// one, which then begins here. A scheduler that is a process is silent before it begins a
    /// later term; an answer of a later term that comes sooner is forged.
    pub(super) fn admit(&mut self, from: HostId, schd: &Schd, local: Instant) -> Result<(), Odd> {
        let is_later = is_later(schd.term, self.term);
        if self.is_early(schd.term, local) {
            return Err(Odd::EarlyTerm);
        }
        let is_present = schd.term == self.term;
        if !(is_later || is_present && from == self.pod_end.scheduler) {
            if from != self.pod_end.scheduler {
                // It serves on, for hosts that do not reach the later one.
                self.watch.former = Some(from);
            }
            return Err(Odd::OldTerm);
        }
        self.turn_to(from);
        if is_later && (self.term != 0 || self.has_asked_in_vain(schd)) {
            self.begin_term(schd.term);
            if self.joining.is_some() {
                self.forget_time();
            }
        }
        (self.watch.unanswered, self.watch.tries) = (None, 0);
        self.term = schd.term;
        Ok(())
    }

    /// Whether what was asked for before this answer, the first one, was lost with the scheduler of
    /// the first term. One with a total is about what the present scheduler has been asked for.
    fn has_asked_in_vain(&self, schd: &Schd) -> bool {
        let has_total = schd.grant.is_some() || schd.standing.is_some();
        schd.term > FIRST_TERM && !has_total && self.joining.is_none()
    }

    /// Forgets what was granted in earlier terms, and asks for all that waits anew. Cells that no
    /// receiver has reported are sent again: their receipts are lost with the former scheduler.
    fn begin_term(&mut self, term: u16) {
        self.watch.granted = self.watch.granted.min(self.epoch);
        self.term = term;
        self.records.begin_term(self.epoch + 1);
        if self.filling.is_some() {
            // Cells that have been handed over leave in this epoch, with the gap of their receiver.
            self.request_from = self.request_from.max(self.epoch + 1);
        }
        self.end_filling();
        while let Some((_, grant)) = self.grants.take_until(u64::MAX) {
            if let Some(place) = self.queues.place(grant.to) {
                let queue = self.queues.queue(place);
                queue.pending = queue.pending.saturating_sub(grant.cells.into());
            }
        }
        for place in 0..self.queues.len() {
            let queue = self.queues.queue(place);
            (queue.asked, queue.granted, queue.tries) = (0, 0, 0);
            self.review(place);
        }
        self.outage.begin_term();
    }

    /// A grant for `epoch` was taken.
    pub(super) fn note_granted(&mut self, epoch: u64) {
        self.watch.granted = self.watch.granted.max(epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::{is_later, next_term};

    #[test]
    fn terms_begin_again_behind_the_last_one() {
        assert!(is_later(1, 0) && is_later(40_000, 0) && is_later(2, 1) && is_later(1, 65_535));
        assert!(!is_later(1, 1) && !is_later(1, 2) && !is_later(65_535, 1) && !is_later(0, 40_000));
    }

    #[test]
    fn odd_terms_are_the_first_schedulers_and_even_ones_the_backups() {
        let next = |term| [next_term(term, false), next_term(term, true)];
        assert_eq!([0, 1, 2, 5].map(next), [[1, 2], [3, 2], [3, 4], [7, 6]]);
    }
}
