//! Deliveries in other pods that a pod's scheduler passes on to one of its hosts.
//!
//! Source: ours; \[zeropod\] has no acknowledgements. Cores report them in their requests. Units:
//! PSNs.

use std::collections::VecDeque;

use transport::wire::pod::Delivered;

/// Runs that wait for answers to one host at most. Further runs are not reported, and the host
/// sends these cells again.
const RUNS_MAX: usize = 256;

/// Cells of one host that have been delivered, in runs that wait for its answers.
#[derive(Clone, Debug)]
pub(super) struct CellRuns(VecDeque<Delivered>);

impl CellRuns {
    /// None yet, with room for them where `expected`.
    pub(super) fn new(expected: bool) -> Self {
        Self(VecDeque::with_capacity(if expected { RUNS_MAX } else { 0 }))
    }

    /// Adds a run; false without room for it.
    pub(super) fn add(&mut self, run: Delivered) -> bool {
        let is_same = |other: &&mut Delivered| {
            (other.flow, other.first, other.again) == (run.flow, run.first, run.again)
        };
        if let Some(known) = self.0.iter_mut().find(is_same) {
            known.arrived |= run.arrived;
        } else if self.0.len() < RUNS_MAX {
            self.0.push_back(run);
        } else {
            return false;
        }
        true
    }

    /// Takes what the next answer has room for: a whole run, or the first cells of one where the
    /// answer has a receipt too.
    pub(super) fn take(&mut self, beside_receipt: bool) -> Option<Delivered> {
        let run = self.0.front_mut().filter(|_| beside_receipt);
        let Some(run) = run else { return self.0.pop_front() };
        let few = run.take_few();
        if run.arrived == 0 {
            self.0.pop_front();
        }
        Some(few)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::{FlowId, Psn};

    fn run(first: u32, arrived: u32) -> Delivered {
        Delivered { flow: FlowId::new(1, 1), first: Psn(first), arrived, again: false }
    }

    #[test]
    fn a_run_goes_whole_or_part_by_part_beside_receipts_and_nothing_is_left() {
        let mut runs = CellRuns::new(true);
        assert!(runs.add(run(64, 0xf0)) && runs.add(run(0, !0)) && runs.add(run(64, 0xf)));
        assert_eq!(runs.take(false), Some(run(64, 0xff)));
        assert_eq!(runs.take(true), Some(run(0, 0xffff)));
        // Reported again while a part of it waits.
        assert!(runs.add(run(0, 1)));
        assert_eq!(runs.take(true), Some(run(0, 1)));
        assert_eq!(runs.take(true), Some(run(16, 0xffff)));
        assert_eq!((runs.take(true), runs.take(false), runs.is_empty()), (None, None, true));
    }

    #[test]
    fn runs_without_room_are_not_kept() {
        let mut runs = CellRuns::new(true);
        assert!((0..RUNS_MAX).all(|at| runs.add(run(32 * u32::try_from(at).unwrap(), 1))));
        assert!(!runs.add(run(!31, 1)) && runs.add(run(0, 2)));
        // An empty run of a Core that misbehaves takes a place for one answer.
        runs.clear();
        assert!(runs.add(run(0, 0)));
        assert_eq!((runs.take(true), runs.is_empty()), (Some(run(0, 0)), true));
    }
}
