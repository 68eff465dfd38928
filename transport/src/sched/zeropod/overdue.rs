//! Reports that are overdue: a host asks whether its scheduler is there, and sends cells for other
//! pods again whose reports were lost with one that was not.
//!
//! Source: ours; \[zeropod\] has no losses. Cells for other pods are reported by a Core, through
//! the scheduler of their own pod. A scheduler that begins anew, or to which or from which nothing
//! comes for a time, loses such reports. Where a pod has no backup, a working scheduler answers
//! repeated totals only. So a host whose cells wait for reports repeats a total when no answer has
//! come for long, and a Core does so that has handed reports over. This is a probe, and no answer
//! but one with a standing answers it: others may have left before it.
//!
//! ```text
//!   cells --> no answer for D epochs --> a total again ----> a standing within D epochs
//!                     ^                      |      |                  |
//!                     +-- after 2 D, 4 D, .. +      +-- a later one, or an answer of another
//!                                                       term: Cores repeat reports. Cells that
//!                                                       left before it and are unreported
//!                                                       RESEND_AFTER epochs later leave again
//! ```
//!
//! A Core may wait for nothing when it hands a report over, so it repeats a total right behind it.
//! So a cut of two times D is noticed whenever it comes. What is lost in a shorter one may have to
//! wait for the timeout of its flow. A standing shows that all reports came that left up to its
//! probe, unless such a cut lost some: only later ones are repeated.

use super::{DemandEnd, Zeropod};
use crate::sched::Reported;
use crate::time::Instant;
use crate::units::FlowId;

/// The patience with a scheduler that does not answer, at first D, doubles at most so often.
const DOUBLINGS: u8 = 6;

/// Reports on cells in other pods that a Core keeps and repeats.
pub const REPORTS_KEPT: usize = 256;

/// Epochs after which cells are sent again whose reports a scheduler may have lost. Each repeated
/// report takes an epoch to the scheduler and one from it to the host.
const RESEND_AFTER: u64 = 2 * REPORTS_KEPT as u64;

/// What a host waits for where its pod has no backup, and the cells that it is to send again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overdue {
    /// The epoch from which on an answer is waited for: that of the last answer, of the first cell
    /// or report since, or of the last probe.
    since: Option<u64>,
    /// Probes since the last answer.
    tries: u8,
    /// The epoch of the first probe that has had no answer.
    probed: Option<u64>,
    /// When the epoch of the last probe ended that was answered.
    confirmed: Instant,
    /// Whether a report has been handed over since the last probe.
    handed_over: bool,
    /// The epoch in which cells are sent again, and the instant before which they left.
    again: Option<(u64, Instant)>,
    /// Like `again`, for the last of all answers that came late.
    latest: Option<(u64, Instant)>,
    /// The cells that are being sent again: before when they left, and the flow to look at next.
    resending: Option<(Instant, usize)>,
}

impl Overdue {
    /// Nothing is waited for any more.
    pub(super) const fn end(&mut self) {
        (self.since, self.tries, self.probed) = (None, 0, None);
    }
}

impl Zeropod {
    /// Something leaves in `epoch` that the scheduler is to pass on, or that a Core is to report.
    pub(super) fn expect_answer(&mut self, epoch: u64) {
        if !self.watch.is_on() && self.joining.is_none() {
            self.overdue.since.get_or_insert(epoch);
        }
    }

    /// Whether a flow has something in flight. Reports on cells for other pods are waited for.
    pub(super) fn note_in_flight(&mut self, flow: FlowId, in_flight: bool) {
        if self.params.pods <= 1 || !self.queues.set_in_flight(flow, in_flight) {
            return;
        }
        if in_flight {
            self.expect_answer(self.epoch);
        } else if self.queues.across_in_flight() == 0 {
            self.overdue.end();
        }
    }

    /// A report has been handed over in the last request. A later one asks whether the scheduler is
    /// there: the next one, unless a probe has had no answer.
    pub fn expect_passing_on(&mut self) {
        self.expect_answer(self.epoch);
        self.overdue.handed_over = self.overdue.since.is_some();
    }

    /// Reports that left before this instant have come, except where the scheduler was cut off for
    /// a shorter time than a probe notices.
    #[must_use]
    pub const fn confirmed(&self) -> Instant {
        self.overdue.confirmed
    }

    /// The epoch of the next probe.
    pub(super) fn probes_from(&self) -> Option<u64> {
        if self.overdue.handed_over && self.overdue.probed.is_none() {
            return Some(self.epoch);
        }
        let patience = self.timing.request_to_data();
        self.overdue.since.map(|since| since + (patience << self.overdue.tries))
    }

    /// The total of the first queue, where the request of `epoch` is to be a probe. Any queue would
    /// do.
    pub(super) fn next_probe(&mut self, epoch: u64) -> Option<(DemandEnd, u32)> {
        self.probes_from().filter(|from| *from <= epoch && self.queues.len() > 0)?;
        (self.overdue.since, self.overdue.handed_over) = (Some(epoch), false);
        self.overdue.probed.get_or_insert(epoch);
        self.overdue.tries = (self.overdue.tries + 1).min(DOUBLINGS);
        Some(self.repeat(0, epoch))
    }

    /// Whether the answer to a probe is overdue.
    pub(super) fn is_probe_overdue(&self) -> bool {
        self.overdue.probed.is_some_and(|asked| asked + self.timing.request_to_data() < self.epoch)
    }

    /// The epoch in which the host looks whether an answer is overdue, or sends cells again. It
    /// looks in the first epoch in which it is, and every D epochs from then on, so that the host
    /// does not seem to have been stalled when the answer comes.
    pub(super) fn overdue_at(&self) -> Option<u64> {
        let patience = self.timing.request_to_data();
        let asked = self.overdue.probed.filter(|_| self.overdue.since.is_some());
        let look = asked.map(|asked| {
            let looks = self.epoch.saturating_sub(asked + 1) / patience + 1;
            asked + 1 + looks * patience
        });
        let again = self.overdue.again.map(|(at, _)| at);
        crate::time::earliest(look, again)
    }

    /// An answer came at `at`, of whatever term, with the standing of `standing` or without one.
    /// One that comes late, or of another term, may have been preceded by others that were lost.
    pub(super) fn note_answer(&mut self, at: Instant, standing: Option<DemandEnd>) {
        let is_late = self.is_overdue();
        if let Some(probed) = self.overdue.probed {
            let first = (self.queues.len() > 0).then(|| self.queues.queue(0).to);
            let is_answered = standing.is_some() && standing == first;
            if is_answered {
                self.overdue.confirmed = self.start(probed + 1);
            }
            if is_answered || self.outage.is_in_new_term() {
                self.overdue.end();
            }
        } else {
            self.overdue.end();
        }
        if self.queues.across_in_flight() == 0 {
            return;
        }
        self.expect_answer(self.epoch);
        if is_late {
            let latest = Some((self.epoch + RESEND_AFTER, at));
            self.overdue.latest = latest;
            self.overdue.again = self.overdue.again.or(latest);
        }
    }

    /// The next flow of which cells are to be sent again.
    pub(super) fn next_overdue(&mut self) -> Option<Reported> {
        if let Some((_, sent_before)) = self.overdue.again.filter(|(at, _)| *at <= self.epoch) {
            self.overdue.resending = Some((sent_before, 0));
            let later = self.overdue.latest.filter(|(_, at)| *at > sent_before);
            self.overdue.again = later;
        }
        let (sent_before, from) = self.overdue.resending?;
        let next: Option<(usize, FlowId)> = self.queues.across_in_flight_from(from);
        self.overdue.resending = next.map(|(place, _)| (sent_before, place + 1));
        let sent_before = self.local_time(sent_before);
        next.map(|(_, flow)| Reported::Before { flow, sent_before })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{BACKUP, HOST, Host, SCHEDULER, backlog, config, flow, granted};
    use super::super::watch::PodWatch;
    use super::*;
    use crate::rng::Rng;
    use crate::sched::{Backlog, Label, Protocol, SchedSetup, Sending};
    use crate::time::Duration;
    use crate::units::{Bytes, HostId};
    use crate::wire::pod::Schd;
    use alloc::vec::Vec;

    /// A host of one of two pods, whose four cells for the other pod left in epoch 32 and are in
    /// flight.
    fn across() -> Host {
        let config = config();
        let mut params = config.sched_params.clone();
        (params.zeropod.pods, params.zeropod.cores) = (2, 16);
        let setup = SchedSetup { params: &params, ..config.sched_setup(HOST, Rng::new(3)) };
        let mut host = Host { sched: Zeropod::new(&setup), ..Host::new() };
        host.sched.on_open(flow(0), HostId(256 + 17), &config.default_path(), Label::NONE);
        host.sched.on_backlog(flow(0), &backlog(4), host.now);
        host.run(host.epoch(2));
        let mut schd = granted(32, 4, 4 * 512);
        let grant = schd.grant.as_mut().unwrap();
        (grant.to, grant.layer) = (DemandEnd::Pod(1), Some(0));
        assert!(host.answer(SCHEDULER, &schd));
        host.run(host.epoch(33));
        assert_eq!((host.cells.len(), host.sched.queues.across_in_flight()), (4, 1));
        host
    }

    /// All that the host reports to its endpoint.
    fn reports(host: &mut Host) -> Vec<Reported> {
        let rest = core::iter::from_fn(|| host.sched.next_reported());
        core::mem::take(&mut host.reported).into_iter().chain(rest).collect()
    }

    #[test]
    fn a_host_whose_cells_for_another_pod_are_not_reported_asks_whether_its_scheduler_is_there() {
        let mut host = across();
        let standing = Some((DemandEnd::Pod(1), 4 * 512));
        let answer = Schd { grant: None, standing, ..granted(0, 4, 0) };
        let before = host.requests.len();
        host.run(host.epoch(75));
        let asked = |host: &Host| -> Vec<u32> {
            let rest = &host.requests[before..];
            assert!(rest.iter().all(|(_, rts)| rts.update == standing), "{rest:?}");
            rest.iter().map(|(_, rts)| rts.epoch).collect()
        };
        // D, which is 30 epochs, after they left.
        assert_eq!(asked(&host), [62]);
        assert!(host.answer(SCHEDULER, &answer));
        host.run(host.epoch(75 + 30 + 60 + 120 + 100));
        // As long after the answer, and then with growing patience.
        assert_eq!(asked(&host), [62, 105, 165, 285]);
        assert!(host.sched.is_overdue());
        // It comes at last. What had been sent before it is sent again where nothing reports it.
        assert!(host.answer(SCHEDULER, &answer));
        let answered = host.now;
        assert_eq!(reports(&mut host), []);
        let due = host.epoch(host.sched.epoch + 512);
        host.keep_times(due.before(Duration::from_ns(1)));
        assert_eq!(reports(&mut host), []);
        host.keep_times(due);
        assert_eq!(reports(&mut host), [Reported::Before { flow: flow(0), sent_before: answered }]);
        // All has been reported: nothing is asked for any more.
        let asks = host.requests.len();
        host.sched.on_backlog(flow(0), &backlog(0), host.now);
        host.run(host.epoch(5000));
        assert_eq!((host.requests.len(), reports(&mut host)), (asks, Vec::new()));
    }

    #[test]
    fn answers_in_time_send_nothing_again_and_no_host_asks_beside_a_backup_or_in_a_single_pod() {
        let mut host = across();
        let answer = Schd { grant: None, ..granted(0, 4, 0) };
        for epoch in (40..2000).step_by(25) {
            host.run(host.epoch(epoch));
            assert!(host.answer(SCHEDULER, &answer));
        }
        assert_eq!((host.sched.counts().repeated, reports(&mut host)), (0, Vec::new()));
        host.sched.watch = PodWatch::new(Some(BACKUP));
        host.sched.overdue = Overdue::default();
        host.sched.expect_answer(2000);
        assert_eq!(host.sched.probes_from(), None);
        let mut alone = Host::new();
        alone.post(0, 3);
        let in_flight = Backlog { in_flight: Bytes(552), ..backlog(3) };
        alone.sched.on_backlog(flow(0), &in_flight, alone.now);
        assert_eq!(alone.sched.probes_from(), None);
    }

    /// What is handed over may be lost in a cut that ends soon.
    #[test]
    fn a_report_that_is_handed_over_is_followed_by_a_total_that_is_to_be_answered() {
        let mut host = across();
        host.sched.on_backlog(flow(0), &backlog(0), host.now);
        let before = host.requests.len();
        let standing = Some((DemandEnd::Pod(1), 4 * 512));
        let answer = Schd { grant: None, standing, ..granted(0, 4, 0) };
        let asked = |host: &Host| -> Vec<u32> {
            host.requests[before..].iter().map(|(_, rts)| rts.epoch).collect()
        };
        host.sched.expect_passing_on();
        host.run(host.epoch(35));
        assert_eq!(asked(&host), [33]);
        // While its answer is waited for, the others go without one.
        host.sched.expect_passing_on();
        host.run(host.epoch(37));
        assert_eq!(asked(&host), [33]);
        assert!(host.answer(SCHEDULER, &answer));
        host.run(host.epoch(40));
        assert_eq!(asked(&host), [33, 37], "for the second one");
        assert!(host.answer(SCHEDULER, &answer));
        host.run(host.epoch(2000));
        assert_eq!(asked(&host), [33, 37]);
    }

    /// Answers that left before a cut may come after a probe that was lost in it.
    #[test]
    fn no_answer_but_a_standing_answers_a_probe() {
        let mut host = across();
        host.sched.on_backlog(flow(0), &backlog(0), host.now);
        host.sched.expect_passing_on();
        host.run(host.epoch(40));
        let before = host.requests.len();
        assert!(host.answer(SCHEDULER, &Schd { grant: None, ..granted(0, 4, 0) }));
        host.run(host.epoch(64));
        let asked = (host.sched.is_overdue(), host.sched.confirmed());
        assert_eq!(asked, (true, Instant::ZERO), "D after the probe in epoch 33");
        host.run(host.epoch(94));
        assert_eq!(host.requests[before..].iter().map(|(_, rts)| rts.epoch).next_back(), Some(93));
        let standing = Some((DemandEnd::Pod(1), 4 * 512));
        assert!(host.answer(SCHEDULER, &Schd { grant: None, standing, ..granted(0, 4, 0) }));
        let asked = (host.sched.is_overdue(), host.sched.confirmed());
        assert_eq!(asked, (false, host.epoch(34)));
    }

    /// Whatever begins an epoch, what is due in it is named until it has been done.
    #[test]
    fn a_packet_that_begins_the_epoch_hides_nothing_that_is_due_in_it() {
        let mut host = across();
        host.run(host.epoch(40));
        assert!(host.answer(SCHEDULER, &Schd { term: 3, grant: None, ..granted(0, 4, 0) }));
        let sent_before = host.now;
        let due = host.epoch(40 + 512);
        host.keep_times(due.before(Duration::from_ns(1)));
        let in_flight = Backlog { in_flight: Bytes(552), ..backlog(0) };
        host.sched.on_backlog(flow(0), &in_flight, due);
        assert!(host.sched.poll_timeout().is_some_and(|at| at <= due));
        assert_eq!(reports(&mut host), [Reported::Before { flow: flow(0), sent_before }]);
        assert!(host.sched.poll_timeout().is_none_or(|at| at > due));
    }

    /// An answer of another term says that the former scheduler is gone, with all that it had.
    #[test]
    fn cells_for_another_pod_are_sent_again_some_time_after_a_new_term() {
        let mut host = across();
        let answer = |term| Schd { term, grant: None, ..granted(0, 4, 0) };
        host.run(host.epoch(40));
        assert!(host.answer(SCHEDULER, &answer(3)));
        let first = host.now;
        // Another one, before the cells are sent again for the first.
        host.run(host.epoch(300));
        assert!(host.answer(SCHEDULER, &answer(5)));
        let second = host.now;
        let mut again = Vec::new();
        for epoch in 301..1000 {
            host.run(host.epoch(epoch));
            again.extend(reports(&mut host).into_iter().map(|said| (epoch, said)));
        }
        let said = |sent_before| Reported::Before { flow: flow(0), sent_before };
        assert_eq!(again, [(40 + 512, said(first)), (300 + 512, said(second))]);
    }
}
