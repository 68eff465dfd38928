//! Terms of a pod's schedulers: which one serves, when it stops, and when another takes over.
//!
//! Source: \[zeropod\] IV-E; terms and fences are ours. A scheduler that does not serve begins a
//! term when a host asks it to; nothing is granted in it for epochs before a fence, which no grant
//! of an earlier term reaches. No message passes between schedulers.
//!
//! - A scheduler that restarts has forgotten everything. It waits until all that it may have
//!   granted before is over. Without a backup it then begins a term by itself.
//! - Where cells of an earlier term are still under way, a scheduler has no record of the gaps that
//!   they leave. Its answers yield to these cells, so until the fence it repeats that its term has
//!   begun.
//! - A host that turns to another scheduler reports that to the former one, which stops.
//! - A scheduler with a backup answers every request, so that hosts notice when it is gone. One
//!   that gets no requests for longer than hosts wait between theirs is cut off: it stops so soon
//!   that its grants end before those of the backup begin, see [`Timing::patience`].
//! - A host's term rises by at most one in [`Timing::patience`] epochs. So a scheduler accepts a
//!   term that is further ahead from a host that has sent it no request for long.
//! - Some hosts may reach one scheduler only and others the other one only. Then both schedulers
//!   serve, each the members that send it requests. All members send requests again and again; a
//!   member that does not is granted nothing. A member that comes from the other scheduler is
//!   granted nothing until all grants are over that it may have got there. As ToRs lie between
//!   hosts and schedulers, the two groups have no link in common. From time to time a scheduler
//!   sends an answer to members that are silent. So hosts of both groups gather at the scheduler of
//!   the later term when they reach it, and stop the other one. Where there are also hosts that
//!   reach both schedulers, the schedulers take turns (docs/ZEROPOD.md).

use transport::Instant;
use transport::sched::zeropod::next_term;
use transport::sched::zeropod::timing::{SILENT_MAX, Timing};

use super::{CellRuns, DueGrants, Lateness, NEVER, OWED, Pod, Receipts};
use crate::pod::scheduler::Refused;
use crate::program::ProgramSetup;

/// Terms that a request may be ahead of a scheduler's, beyond those that the silence of its host
/// explains.
const AHEAD_MAX: u64 = 16;

/// Windows among which silent members get an answer in one.
const NOTIFY_EVERY: u64 = 32;

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
    /// When a scheduler without a backup looks at its own outages again: where the next one begins,
    /// or where it may begin a term.
    wakes_at: Instant,
    /// The first epoch in which it may begin a term.
    from: u64,
    /// The decision that the last request counts in.
    asked_for: u64,
    /// Epochs after which a host turns to the other scheduler.
    patience: u64,
}

/// What a request does to its scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TermStep {
    /// The request is of the present term, or of an earlier one.
    Goes,
    /// The request begins this term.
    Begins(u32),
    /// The request is of a term of the other scheduler's, which has taken over.
    Ends,
}

impl Pod {
    /// Loses everything where an outage has begun.
    pub(super) fn pass_outages(&mut self, now: Instant) {
        if self.terms.pass_outages(now, &self.timing) {
            self.clear();
            self.lateness.iter_mut().for_each(Lateness::clear);
            self.asked_for.fill(0);
        }
    }

    /// Begins a term where the scheduler is there again by `now`, and no other one is.
    pub(super) fn return_alone(&mut self, now: Instant) {
        if let Some(term) = self.terms.returns(self.scheduler.term(), now) {
            let epoch = self.epoch_at(now);
            self.begin_term(term, epoch);
        }
    }

    /// Begins a term in `epoch`, and says so to all members. What the former scheduler has granted
    /// is over: it has stopped, or is down, for longer than its grants reach.
    pub(super) fn begin_term(&mut self, term: u32, epoch: u64) {
        self.clear();
        let superepoch = self.scheduler.superepoch().into();
        if self.scheduler.begin_term(term, self.timing.term_fence(epoch, superepoch)) {
            self.unaware.fill(true);
            self.open_window(self.window_of(epoch + 1));
        }
    }

    /// Notifies members of the term in `window`, and again in the next one, as these answers yield.
    /// Where there is another scheduler, members that are silent get an answer now and then for as
    /// long as they are: those that the other one serves turn to the later term.
    pub(super) fn notify(&mut self, window: u64) {
        let begins = window < self.scheduler.fence() && self.unaware.contains(&true);
        if begins {
            for member in 0..self.unaware.len() {
                if self.unaware[member] {
                    self.owe(member);
                }
            }
            self.open_window(window + 1);
        }
        if !self.terms.guarded || !self.terms.serves {
            return;
        }
        if window.is_multiple_of(NOTIFY_EVERY) {
            for member in 0..self.due.len() {
                let client = self.members.client(u16::try_from(member).unwrap_or(u16::MAX));
                if self.scheduler.is_silent(client, window) {
                    self.owe(member);
                }
            }
        }
        self.open_window((window / NOTIFY_EVERY + 1) * NOTIFY_EVERY);
    }

    /// Where the pod has a backup, all members get an answer at first. From then on they ask again
    /// and again, which shows which members this scheduler reaches.
    pub(super) fn greet(&mut self) {
        if self.terms.guarded && self.terms.serves {
            self.due.fill(OWED);
            self.open_window(0);
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
        self.receipts.iter_mut().for_each(Receipts::clear);
        self.standings.clear();
        self.grants.iter_mut().for_each(DueGrants::clear);
        self.delivered.iter_mut().for_each(CellRuns::clear);
        self.due.fill(NEVER);
        self.unaware.fill(false);
        self.answers.clear();
    }
}

impl Terms {
    /// The state of the scheduler that is made by `setup`.
    pub(super) fn of(setup: &ProgramSetup<'_>, timing: &Timing) -> Self {
        let backup = setup.sched.zeropod.backup;
        let is_backup = backup > 0 && setup.address.0 >= backup;
        Self::new(is_backup, backup > 0, setup.outages, timing.patience())
    }

    /// The state of a scheduler without a backup that serves from the beginning on.
    pub(super) fn alone(timing: &Timing) -> Self {
        Self::new(false, false, &[], timing.patience())
    }

    pub(super) fn new(
        backup: bool,
        guarded: bool,
        outages: &[(Instant, Instant)],
        patience: u64,
    ) -> Self {
        let (outages, serves): (Box<[_]>, _) = (outages.into(), !backup);
        let (begun, from, asked_for) = (0, 0, 0);
        let wakes_at = Instant::FAR_FUTURE;
        let mut terms =
            Self { backup, guarded, outages, begun, serves, wakes_at, from, asked_for, patience };
        terms.wakes_at = terms.next_outage();
        terms
    }

    /// When the next outage begins, where the scheduler has to be there for it.
    fn next_outage(&self) -> Instant {
        let next = self.outages.get(self.begun).filter(|_| !self.guarded);
        next.map_or(Instant::FAR_FUTURE, |(from, _)| *from)
    }

    /// When to look at outages, where no packet comes before.
    #[inline]
    pub(super) const fn wakes_at(&self) -> Instant {
        self.wakes_at
    }

    /// The term that a scheduler without a backup begins by itself at `now`, after its last term
    /// `own`: it is there again, and all that it may have granted before is over. Hosts need not
    /// ask for anything to be informed that what it had not passed on is lost.
    fn returns(&mut self, own: u32, now: Instant) -> Option<u32> {
        if now < self.wakes_at {
            return None;
        }
        self.wakes_at = self.next_outage();
        let next = next_term(own, self.backup);
        let begins = !self.serves && !self.is_down(now) && next < 1 << 16;
        self.serves |= begins;
        begins.then_some(next)
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
            let returns = if *until < Instant::FAR_FUTURE {
                self.from = timing.fence(timing.epoch_at(*until));
                timing.start(self.from)
            } else {
                Instant::FAR_FUTURE
            };
            self.wakes_at = if self.guarded { Instant::FAR_FUTURE } else { returns };
        }
        self.wakes_at = self.wakes_at.min(self.next_outage());
        self.begun > before
    }

    /// A request of `term` has come in `epoch`, while the scheduler's last term is `own`; in time,
    /// it counts in `decision`. Its sender had been silent for `silence` epochs.
    pub(super) fn on_request(
        &mut self,
        term: u32,
        own: u32,
        (decision, epoch): (u64, u64),
        silence: u64,
    ) -> Result<TermStep, Refused> {
        // So are nearly all requests.
        if self.serves && term <= own {
            self.asked_for = self.asked_for.max(decision);
            return Ok(TermStep::Goes);
        }
        // Where there are two schedulers, hosts name the one that is to begin a term.
        let ahead = AHEAD_MAX + silence / self.patience;
        let plausible = term > own && u64::from(term - own) <= ahead;
        let asked = plausible && next_term(term - 1, self.backup) == term;
        if self.guarded && self.serves && plausible && !asked {
            return Ok(TermStep::Ends);
        }
        let begins = if self.guarded { asked } else { !self.serves };
        if !begins && self.serves {
            self.asked_for = self.asked_for.max(decision);
            return Ok(TermStep::Goes);
        }
        if !begins || epoch < self.from {
            return Err(Refused::StandingBy);
        }
        let next = if asked { term } else { next_term(own, self.backup) };
        if next >= 1 << 16 {
            return Err(Refused::FutureTerm);
        }
        (self.serves, self.asked_for) = (true, decision);
        Ok(TermStep::Begins(next))
    }

    /// Whether the scheduler, with demands open at `decision`, is cut off and has to stop.
    pub(super) fn is_cut_off(&self, decision: u64) -> bool {
        self.guarded && decision.saturating_sub(self.asked_for) > SILENT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::sched::zeropod::timing::TimingInputs;
    use transport::{Bytes, Duration, Rate};

    const OWN: u32 = 1;
    const PATIENCE: u64 = 20;

    fn terms(backup: bool, guarded: bool, outages: &[(Instant, Instant)]) -> Terms {
        Terms::new(backup, guarded, outages, PATIENCE)
    }

    /// A request in `epoch`, which counts in that one's decision.
    fn ask(terms: &mut Terms, term: u32, own: u32, epoch: u64) -> Result<TermStep, Refused> {
        terms.on_request(term, own, (epoch, epoch), 0)
    }

    #[test]
    fn a_backup_begins_the_term_that_is_asked_for_and_stays_in_it() {
        let mut terms = terms(true, true, &[]);
        assert_eq!(ask(&mut terms, OWN, OWN, 5), Err(Refused::StandingBy));
        assert_eq!(ask(&mut terms, 2, OWN, 5), Ok(TermStep::Begins(2)));
        assert_eq!(ask(&mut terms, 2, 2, 6), Ok(TermStep::Goes));
        // A host that was not notified of it.
        assert_eq!(ask(&mut terms, 1, 2, 7), Ok(TermStep::Goes));
        assert_eq!(ask(&mut terms, 4, 2, 8), Ok(TermStep::Begins(4)));
        assert_eq!(ask(&mut terms, 200, 4, 9), Ok(TermStep::Goes), "refused as a future term");
    }

    #[test]
    fn a_scheduler_stops_when_the_other_one_has_taken_over() {
        for backup in [false, true] {
            let mut terms = terms(backup, true, &[]);
            let own = 3 + u32::from(backup);
            assert_eq!(ask(&mut terms, own, 1, 5), Ok(TermStep::Begins(own)));
            assert_eq!(ask(&mut terms, own + 1, own, 6), Ok(TermStep::Ends));
            terms.serves = false;
            assert_eq!(ask(&mut terms, own + 1, own, 6), Err(Refused::StandingBy));
            assert_eq!(ask(&mut terms, own + 2, own, 7), Ok(TermStep::Begins(own + 2)));
            // Far from any term that hosts can be in.
            assert_eq!(ask(&mut terms, own + 1001, own + 2, 8), Ok(TermStep::Goes));
        }
    }

    #[test]
    fn without_a_backup_no_host_begins_a_term_but_after_a_restart() {
        let at = Instant::from_ps;
        let mut terms = terms(false, false, &[(at(100), at(200))]);
        assert_eq!(ask(&mut terms, 2, OWN, 5), Ok(TermStep::Goes), "refused as a future term");
        terms.serves = false;
        assert_eq!(ask(&mut terms, OWN, OWN, 5), Ok(TermStep::Begins(3)));
    }

    #[test]
    fn one_without_a_backup_begins_a_term_by_itself_once_its_grants_are_over() {
        let timing = Timing::new(&TimingInputs {
            cell: Bytes(552),
            control: Bytes(40),
            rate: Rate::from_gbps(100),
            hop: Duration::from_us(1),
            cells: 16,
            guard: Duration::ZERO,
            delay: Duration::from_us(15),
            layers: 0,
            early: Duration::ZERO,
            guards_answers: false,
        });
        let epochs = |count: u64| Instant::ZERO + timing.epoch * count;
        let outages = [(10, 10), (50, 60), (65, 70)];
        let outages = outages.map(|(from, until)| (epochs(from), epochs(until)));
        let never = (epochs(500), Instant::FAR_FUTURE);
        let mut terms = terms(false, false, &[&outages[..], &[never]].concat());
        let mut own = OWN;
        // The epoch that it wakes in, and the term that it begins then.
        let mut wakes = Vec::new();
        while terms.wakes_at() < Instant::FAR_FUTURE {
            let now = terms.wakes_at();
            terms.pass_outages(now, &timing);
            let begins = terms.returns(own, now);
            own = begins.unwrap_or(own);
            wakes.push((timing.epoch_at(now), begins));
            assert!(terms.wakes_at() > now, "{now:?}");
        }
        let from = |epoch| timing.fence(epoch);
        let expected = [
            (10, None),
            (from(10), Some(3)),
            (50, None),
            (65, None),
            (from(70), Some(5)),
            (500, None),
        ];
        assert_eq!(wakes, expected);
        // One that a request made begin its term is left alone.
        let mut asked = Terms::new(false, false, &outages[..1], PATIENCE);
        asked.pass_outages(epochs(10), &timing);
        assert_eq!(ask(&mut asked, OWN, OWN, from(10)), Ok(TermStep::Begins(3)));
        assert_eq!(asked.returns(3, epochs(from(10))), None);
        // A scheduler beside another one waits to be asked.
        assert_eq!(Terms::new(false, true, &outages, PATIENCE).wakes_at(), Instant::FAR_FUTURE);
    }

    #[test]
    fn one_without_requests_is_cut_off_only_where_there_is_a_backup() {
        for guarded in [false, true] {
            let mut terms = terms(false, guarded, &[]);
            assert_eq!(terms.on_request(OWN, OWN, (100, 98), 0), Ok(TermStep::Goes));
            assert!(!terms.is_cut_off(100 + SILENT_MAX));
            assert_eq!(terms.is_cut_off(101 + SILENT_MAX), guarded);
            // A request that was under way for long says nothing about the present.
            assert_eq!(terms.on_request(OWN, OWN, (90, 120), 0), Ok(TermStep::Goes));
            assert_eq!(terms.is_cut_off(101 + SILENT_MAX), guarded);
        }
    }

    #[test]
    fn a_term_may_be_as_far_ahead_as_the_silence_of_its_host_allows() {
        let soon = OWN + u32::try_from(AHEAD_MAX).unwrap() + 1;
        for (silence, ahead, begins) in
            [(0, 0, false), (2 * PATIENCE, 0, true), (2 * PATIENCE, 2, false)]
        {
            let mut terms = terms(true, true, &[]);
            assert_eq!(ask(&mut terms, 2, OWN, 100), Ok(TermStep::Begins(2)));
            let step = terms.on_request(soon + 2 + ahead, 2, (200, 200), silence);
            let expected = if begins { TermStep::Begins(soon + 2 + ahead) } else { TermStep::Goes };
            assert_eq!(step, Ok(expected), "{silence}: {ahead} more");
        }
    }
}
