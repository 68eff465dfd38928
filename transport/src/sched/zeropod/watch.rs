//! Whether the pod's scheduler still answers, and what a host does when it does not.
//!
//! Source: \[zeropod\] IV-E names a second scheduler; terms and fences are ours. Where a pod has a
//! backup, its schedulers answer every request, and hosts that wait for a grant send one at least
//! every few epochs. A host that gets no answer for as long as a demand takes asks the other
//! scheduler to begin the next term of its own: odd terms are the first one's, even ones the
//! backup's, so no term has two schedulers. A host that gets an answer of a later term forgets
//! what it was granted in earlier ones, and asks for all that waits anew.

use super::{Odd, Zeropod};
use crate::time::{Duration, Instant};
use crate::units::HostId;
use crate::wire::pod::Schd;

/// Epochs between requests of a host that waits, where its pod has a backup.
pub(super) const ASK_EVERY: u64 = 4;

/// The first term after `term` of a scheduler that is a backup or not. Terms are below 2^16.
#[must_use]
pub const fn next_term(term: u32, backup: bool) -> u32 {
    let next = term + 1;
    if next.is_multiple_of(2) == backup { next } else { next + 1 }
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
    /// The epoch of the last request.
    asked: u64,
    /// The last epoch of a grant.
    pub(super) granted: u64,
    /// Since when nothing has been granted, from a change of terms to the next grant.
    silent_since: Option<Instant>,
}

impl PodWatch {
    pub(super) const fn new(backup: Option<HostId>) -> Self {
        let other = backup;
        Self {
            other,
            other_is_backup: true,
            unanswered: None,
            asked: 0,
            granted: 0,
            silent_since: None,
        }
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
        let since = *self.watch.unanswered.get_or_insert(epoch);
        if epoch < since + self.timing.request_to_data() {
            return;
        }
        let Some(other) = self.watch.other else { return };
        let term = next_term(self.term.into(), self.watch.other_is_backup);
        if let Ok(term) = u16::try_from(term) {
            self.turn_to(other);
            self.begin_term(term);
            self.watch.unanswered = Some(epoch);
        }
    }

    /// The epoch in which a host that waits asks again at the latest.
    pub(super) fn asks_from(&self) -> Option<u64> {
        (self.watch.is_on() && self.awaited.due().is_some()).then_some(self.watch.asked + ASK_EVERY)
    }

    fn turn_to(&mut self, scheduler: HostId) {
        if self.seat.scheduler != scheduler {
            self.watch.other = Some(self.seat.scheduler);
            self.watch.other_is_backup = !self.watch.other_is_backup;
            self.seat.scheduler = scheduler;
        }
    }

    /// Whether a host may be a scheduler of this pod.
    pub(super) fn is_scheduler(&self, host: HostId) -> bool {
        host == self.seat.scheduler || self.watch.other == Some(host)
    }

    /// An answer came from a scheduler of the pod: of the term that the host is in, or of a later
    /// one, which then begins here.
    pub(super) fn admit(&mut self, from: HostId, schd: &Schd) -> Result<(), Odd> {
        let is_later = schd.term > self.term;
        if schd.term < self.term || (from != self.seat.scheduler && !is_later) {
            return Err(Odd::OldTerm);
        }
        self.turn_to(from);
        self.watch.unanswered = None;
        if is_later && self.term != 0 {
            self.begin_term(schd.term);
        }
        self.term = schd.term;
        Ok(())
    }

    /// Forgets what was granted in earlier terms, and asks for all that waits anew.
    fn begin_term(&mut self, term: u16) {
        let since = self.watch.unanswered.unwrap_or(self.epoch);
        let since = self.start(since.max(self.watch.granted + 1));
        self.watch.silent_since.get_or_insert(since);
        self.term = term;
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
    }

    /// A grant for `epoch` was taken.
    pub(super) fn note_granted(&mut self, epoch: u64) {
        self.watch.granted = self.watch.granted.max(epoch);
        if let Some(since) = self.watch.silent_since.take() {
            let from = self.start(epoch);
            let silence = if from > since { from.since(since) } else { Duration::ZERO };
            self.counts.silence = self.counts.silence.max(silence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::next_term;

    #[test]
    fn odd_terms_are_the_first_schedulers_and_even_ones_the_backups() {
        let next = |term| [next_term(term, false), next_term(term, true)];
        assert_eq!([0, 1, 2, 5].map(next), [[1, 2], [3, 2], [3, 4], [7, 6]]);
    }
}
