//! Terms of a pod's schedulers: which one serves, when it stops, and when another takes over.
//!
//! Source: \[zeropod\] IV-E; terms and fences are ours. A scheduler that does not serve begins a
//! term when a host asks it to; nothing is granted in it for epochs before a fence, which no grant
//! of an earlier term reaches. No message passes between schedulers.
//!
//! - A scheduler that restarts has forgotten everything. It waits until all that it may have
//!   granted before is over.
//! - A scheduler with a backup answers every request, so that hosts notice when it is gone. One
//!   that gets no requests for longer than hosts wait between theirs is cut off: it stops before
//!   hosts turn to the backup.

use std::collections::VecDeque;

use transport::Instant;
use transport::sched::zeropod::next_term;
use transport::sched::zeropod::timing::Timing;
use transport_pod::scheduler::Refused;

use super::{NEVER, Pod};
use crate::program::Setup;

/// Epochs without requests after which a scheduler with a backup stops, while demands are open:
/// hosts that wait ask more often, and turn to the backup later.
const SILENT_MAX: u64 = 16;

/// Terms that a request may be ahead of a scheduler's: it may have missed some.
const AHEAD_MAX: u32 = 16;

/// The state of one scheduler among those of its pod.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// Whether this is the backup.
    backup: bool,
    /// Whether the pod has a backup.
    pub(super) guarded: bool,
    /// From when until when it is down, ascending.
    outages: Box<[(Instant, Instant)]>,
    /// Outages that have begun.
    begun: usize,
    pub(super) serves: bool,
    /// The first epoch in which it may begin a term.
    from: u64,
    /// The epoch of the last request.
    asked_in: u64,
}

/// What a request does to its scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TermStep {
    /// The request is of the present term, or of an earlier one.
    Goes,
    /// The request begins this term.
    Begins(u32),
}

impl Pod {
    /// Loses everything where an outage has begun.
    pub(super) fn pass_outages(&mut self, now: Instant) {
        if self.terms.pass_outages(now, &self.timing) {
            self.clear();
        }
    }

    /// Begins a term in `epoch`, and says so to all members. What the former scheduler has granted
    /// is over: it has stopped, or is down, for longer than its grants reach.
    pub(super) fn begin_term(&mut self, term: u32, epoch: u64) {
        self.clear();
        if self.scheduler.begin_term(term, epoch + self.timing.lead + 2) {
            self.owed.fill(true);
            self.open_window(self.window_of(epoch + 1));
        }
    }

    /// Serves no more until a host asks for another term.
    pub(super) fn stop(&mut self) {
        self.terms.serves = false;
        self.clear();
    }

    /// Forgets all that waits.
    fn clear(&mut self) {
        self.requests.clear();
        self.waiting.fill(0);
        self.next = NEVER;
        self.windows.clear();
        self.receipts.fill(None);
        self.standings.clear();
        self.grants.iter_mut().for_each(VecDeque::clear);
        self.delivered.iter_mut().for_each(VecDeque::clear);
        self.owed.fill(false);
        self.answers.clear();
    }
}

impl Terms {
    /// The state of the scheduler that is made by `setup`.
    pub(super) fn of(setup: &Setup<'_>) -> Self {
        let backup = setup.sched.zeropod.backup;
        Self::new(backup > 0 && setup.address.0 >= backup, backup > 0, setup.outages)
    }

    fn new(backup: bool, guarded: bool, outages: &[(Instant, Instant)]) -> Self {
        let outages = outages.into();
        Self { backup, guarded, outages, begun: 0, serves: !backup, from: 0, asked_in: 0 }
    }

    /// Whether the scheduler is down at `now`.
    pub(super) fn is_down(&self, now: Instant) -> bool {
        let last = self.begun.checked_sub(1).and_then(|last| self.outages.get(last));
        last.is_some_and(|(_, until)| now < *until)
    }

    /// Passes the outages that have begun by `now`; whether there were any.
    fn pass_outages(&mut self, now: Instant, timing: &Timing) -> bool {
        let before = self.begun;
        while let Some((from, until)) =
            self.outages.get(self.begun).filter(|(from, _)| *from <= now)
        {
            debug_assert!(from <= until);
            self.begun += 1;
            self.serves = false;
            if *until < Instant::FAR_FUTURE {
                self.from = timing.epoch_at(*until) + timing.lead + 2;
            }
        }
        self.begun > before
    }

    /// A request of `term` has come in `epoch`, while the scheduler's last term is `own`.
    pub(super) fn on_request(
        &mut self,
        term: u32,
        own: u32,
        epoch: u64,
    ) -> Result<TermStep, Refused> {
        // Where there are two schedulers, hosts say which one is to begin a term.
        let asked =
            term > own && term <= own + AHEAD_MAX && next_term(term - 1, self.backup) == term;
        let begins = if self.guarded { asked } else { !self.serves };
        if !begins && self.serves {
            self.asked_in = epoch;
            return Ok(TermStep::Goes);
        }
        if !begins || epoch < self.from {
            return Err(Refused::StandingBy);
        }
        let next = if asked { term } else { next_term(own, self.backup) };
        if next >= 1 << 16 {
            return Err(Refused::FutureTerm);
        }
        (self.serves, self.asked_in) = (true, epoch);
        Ok(TermStep::Begins(next))
    }

    /// Whether the scheduler, with demands open in `epoch`, is cut off and has to stop.
    pub(super) fn is_cut_off(&self, epoch: u64) -> bool {
        self.guarded && epoch.saturating_sub(self.asked_in) > SILENT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 1;

    #[test]
    fn a_backup_begins_the_term_that_is_asked_for_and_stays_in_it() {
        let mut terms = Terms::new(true, true, &[]);
        assert_eq!(terms.on_request(OWN, OWN, 5), Err(Refused::StandingBy));
        assert_eq!(terms.on_request(2, OWN, 5), Ok(TermStep::Begins(2)));
        assert_eq!(terms.on_request(2, 2, 6), Ok(TermStep::Goes));
        // A host that was not notified of it.
        assert_eq!(terms.on_request(1, 2, 7), Ok(TermStep::Goes));
        // One of the first scheduler's.
        assert_eq!(terms.on_request(3, 2, 8), Ok(TermStep::Goes), "refused as a future term");
        assert_eq!(terms.on_request(4, 2, 8), Ok(TermStep::Begins(4)));
        assert_eq!(terms.on_request(200, 4, 9), Ok(TermStep::Goes), "refused as a future term");
    }

    #[test]
    fn without_a_backup_no_host_begins_a_term_but_after_a_restart() {
        let at = Instant::from_ps;
        let mut terms = Terms::new(false, false, &[(at(100), at(200))]);
        assert_eq!(terms.on_request(2, OWN, 5), Ok(TermStep::Goes), "refused as a future term");
        terms.serves = false;
        assert_eq!(terms.on_request(OWN, OWN, 5), Ok(TermStep::Begins(3)));
    }

    #[test]
    fn one_without_requests_is_cut_off_only_where_there_is_a_backup() {
        for guarded in [false, true] {
            let mut terms = Terms::new(false, guarded, &[]);
            assert_eq!(terms.on_request(OWN, OWN, 100), Ok(TermStep::Goes));
            assert!(!terms.is_cut_off(100 + SILENT_MAX));
            assert_eq!(terms.is_cut_off(101 + SILENT_MAX), guarded);
        }
    }
}
