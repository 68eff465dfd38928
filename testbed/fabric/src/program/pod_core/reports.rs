//! Reports of a Core's port on cells that were delivered in other pods, for the hosts that sent
//! them.
//!
//! Source: ours; \[zeropod\] has no acknowledgements. A request has room for one report. A
//! scheduler that fails loses what it has not passed on, so reports are kept for a while, and a new
//! term begins with them.

use std::collections::VecDeque;

use transport::sched::zeropod::REPORTS_KEPT;
use transport::units::Psn;
use transport::wire::pod::Delivered;
use transport::{Duration, Instant};

use super::delivered::SourceSegment;

/// Reports that wait for requests at most. Further ones are dropped, and their hosts send these
/// cells again after a timeout.
const WAITING_MAX: usize = 1024;

/// Waiting reports among which one is looked for that a cell may join.
const NEAR: usize = 32;

/// The term in which schedulers begin.
const FIRST_TERM: u16 = 1;

/// The host of the pod that sent the cells, and the cells.
pub(super) type DeliveredReport = (u16, Delivered);

/// The reports of one port.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    /// Reports that wait for a request.
    waiting: VecDeque<DeliveredReport>,
    /// The last ones that requests had, and when these left.
    passed: VecDeque<(Instant, DeliveredReport)>,
    /// The term of the pod's scheduler; 0 before its first answer.
    term: u16,
    /// Cells that found no room.
    pub(super) dropped: u64,
}

impl Reports {
    /// Whether no report waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a cell of a host of this pod: it has been delivered, or is to be sent `again`.
    pub(super) fn note(&mut self, host: u16, origin: &SourceSegment, again: bool) {
        let (first, arrived) = (Psn(origin.psn.0 & !31), 1 << (origin.psn.0 & 31));
        let report = (host, Delivered { flow: origin.flow, first, arrived, again });
        let near = self.waiting.iter_mut().rev().take(NEAR);
        if let Some((_, run)) = near.into_iter().find(|known| is_alike(known, &report)) {
            run.arrived |= arrived;
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(report);
        } else {
            self.dropped += 1;
        }
    }

    /// Takes the report for a request that leaves at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Option<DeliveredReport> {
        let report = self.waiting.pop_front()?;
        if self.passed.len() >= REPORTS_KEPT {
            self.passed.pop_front();
        }
        self.passed.push_back((now, report));
        Some(report)
    }

    /// The pod's scheduler is of `term` at `now`. Where the term is another one, the reports that
    /// were kept are to be made again, as [`Reports::repeat`] does.
    pub(super) fn follow_term(&mut self, term: u16, young: Option<Duration>, now: Instant) {
        // A port that asks for nothing has no answer of the first term.
        let known = self.term.max(FIRST_TERM);
        self.term = term;
        if term.max(FIRST_TERM) != known {
            self.repeat(young, now);
        }
    }

    /// Reports that were kept are to be made again. Requests to send cells again are repeated where
    /// they are younger than `young` at `now`, if that is given. Older ones were passed on before
    /// the scheduler failed, and each repetition sends the cells once more.
    fn repeat(&mut self, young: Option<Duration>, now: Instant) {
        // Bounded: REPORTS_KEPT reports.
        while let Some((at, report)) = self.passed.pop_back() {
            if !(report.1.again && young.is_some_and(|young| now.since(at) > young)) {
                self.wait_again(report);
            }
        }
    }

    /// Reports that left at `confirmed` or later are to be made again. The earlier ones have come,
    /// and stay for a later term.
    pub(super) fn repeat_from(&mut self, confirmed: Instant) {
        // Bounded: REPORTS_KEPT reports.
        while let Some((_, report)) = self.passed.back().copied().filter(|(at, _)| *at >= confirmed)
        {
            self.passed.pop_back();
            self.wait_again(report);
        }
    }

    /// A report joins one that waits and is like it, or goes before all that wait. Bounded: a look
    /// at WAITING_MAX.
    fn wait_again(&mut self, report: DeliveredReport) {
        if let Some((_, run)) = self.waiting.iter_mut().find(|it| is_alike(it, &report)) {
            run.arrived |= report.1.arrived;
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_front(report);
        } else {
            self.dropped += u64::from(report.1.arrived.count_ones());
        }
    }
}

/// Whether two reports are about the same PSNs and have the same meaning.
fn is_alike((host, run): &DeliveredReport, (other_host, other): &DeliveredReport) -> bool {
    (host, run.flow, run.first, run.again) == (other_host, other.flow, other.first, other.again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::{FlowId, HostId};

    const YOUNG: Option<Duration> = Some(Duration::from_us(50));

    fn cell(flow: u32, psn: u32) -> SourceSegment {
        SourceSegment { from: HostId(3), flow: FlowId::new(flow, 1), psn: Psn(psn) }
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// What requests report: the flow, the first PSN, the cells, and whether to send these again.
    fn all(reports: &mut Reports, now: Instant) -> Vec<(usize, u32, u32, bool)> {
        let next = std::iter::from_fn(|| reports.next(now));
        next.map(|(_, run)| (run.flow.index(), run.first.0, run.arrived, run.again)).collect()
    }

    #[test]
    fn a_new_term_begins_with_the_reports_that_the_last_one_had() {
        let mut reports = Reports::default();
        reports.follow_term(1, YOUNG, at(0));
        // A cell a request: two flows in turn.
        for psn in 0..4 {
            for flow in [1, 2] {
                reports.note(3, &cell(flow, psn), false);
                assert_eq!(all(&mut reports, at(1)).len(), 1);
            }
        }
        reports.note(3, &cell(5, 40), false);
        reports.follow_term(1, YOUNG, at(2));
        assert_eq!(all(&mut reports, at(2)), [(5, 32, 1 << 8, false)], "the same term");
        reports.note(3, &cell(1, 9), false);
        reports.follow_term(2, YOUNG, at(3));
        let merged = [(2, 0, 0xf, false), (5, 32, 1 << 8, false), (1, 0, 0x20f, false)];
        assert_eq!(all(&mut reports, at(3)), merged, "alike ones are one");
        assert!(all(&mut reports, at(4)).is_empty(), "once a term");
    }

    #[test]
    fn a_port_that_has_had_no_answer_notices_the_second_term() {
        let mut reports = Reports::default();
        reports.follow_term(0, YOUNG, at(0));
        reports.note(3, &cell(1, 0), false);
        assert_eq!(all(&mut reports, at(0)).len(), 1);
        reports.follow_term(1, YOUNG, at(1));
        assert!(all(&mut reports, at(1)).is_empty(), "the first scheduler has had it");
        let mut later = reports.clone();
        later.follow_term(3, YOUNG, at(2));
        assert_eq!(all(&mut later, at(2)), [(1, 0, 1, false)]);
        reports.term = 0;
        reports.follow_term(3, YOUNG, at(2));
        assert_eq!(all(&mut reports, at(2)), [(1, 0, 1, false)]);
    }

    #[test]
    fn what_is_to_be_sent_again_is_not_repeated_in_each_later_term() {
        let mut reports = Reports::default();
        reports.follow_term(1, YOUNG, at(0));
        reports.note(3, &cell(1, 0), true);
        reports.note(3, &cell(1, 0), false);
        let (again, arrived) = ((1, 0, 1, true), (1, 0, 1, false));
        assert_eq!(all(&mut reports, at(0)), [again, arrived]);
        reports.follow_term(2, YOUNG, at(50));
        assert_eq!(all(&mut reports, at(50)), [again, arrived]);
        reports.follow_term(3, YOUNG, at(101));
        assert_eq!(all(&mut reports, at(101)), [arrived]);
    }

    #[test]
    fn reports_that_are_known_to_have_come_are_not_repeated_in_the_same_term() {
        let mut reports = Reports::default();
        reports.follow_term(1, None, at(0));
        for flow in 0..4_u32 {
            reports.note(3, &cell(flow + 1, 0), flow == 1);
            assert_eq!(all(&mut reports, at(flow.into())).len(), 1);
        }
        reports.repeat_from(at(2));
        assert_eq!(all(&mut reports, at(5)), [(3, 0, 1, false), (4, 0, 1, false)]);
        reports.repeat_from(at(6));
        assert!(all(&mut reports, at(6)).is_empty());
        // A scheduler that begins anew may not have passed them on.
        reports.follow_term(3, None, at(7));
        assert_eq!(all(&mut reports, at(7)).len(), 4);
    }

    #[test]
    fn without_room_new_reports_go_first_and_the_others_are_counted() {
        let mut reports = Reports::default();
        reports.follow_term(1, YOUNG, at(0));
        for flow in 0..10 {
            reports.note(3, &cell(flow, 0), false);
        }
        assert_eq!(all(&mut reports, at(0)).len(), 10);
        for flow in 10..1031 {
            reports.note(3, &cell(flow, 0), false);
        }
        reports.follow_term(2, YOUNG, at(1));
        assert_eq!((reports.waiting.len(), reports.dropped), (WAITING_MAX, 7));
        reports.note(3, &cell(2000, 0), false);
        assert_eq!(reports.dropped, 8);
        assert_eq!(all(&mut reports, at(1)).last(), Some(&(1030, 0, 1, false)));
    }
}
