//! The order in which the queues of one port become ready.
//!
//! Most entries come in the order of their instants: queues of one rate that are emptied in turn,
//! and queues that packets of one burst have begun. Such entries form a run, whose first and last
//! are at hand. An entry that is earlier than the last of the run goes to a heap. The first of all
//! is the earlier of the run's first and the heap's.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use transport::Instant;

/// When a queue is ready. At one instant, that which was entered first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready {
    pub(super) at: Instant,
    /// No two entries have one number, and later entries have higher ones.
    pub(super) entry: u64,
    pub(super) queue: u32,
}

/// Entries by their order.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyOrder {
    /// Ascending.
    run: VecDeque<Ready>,
    rest: BinaryHeap<Reverse<Ready>>,
}

impl ReadyOrder {
    /// Enters `ready`. O(1) where it is the last, else O(log n).
    #[inline]
    pub(super) fn push(&mut self, ready: Ready) {
        if self.run.back().is_none_or(|last| last.at <= ready.at) {
            self.run.push_back(ready);
        } else {
            self.rest.push(Reverse(ready));
        }
    }

    /// The first entry. O(1).
    #[inline]
    pub(super) fn first(&self) -> Option<&Ready> {
        let of_rest = self.rest.peek().map(|Reverse(ready)| ready);
        match (self.run.front(), of_rest) {
            (Some(run), Some(rest)) => Some(run.min(rest)),
            (run, rest) => run.or(rest),
        }
    }

    /// Takes the first entry out. O(1) where it is of the run, else O(log n).
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Ready> {
        if let Some(Reverse(rest)) = self.rest.peek()
            && self.run.front().is_none_or(|run| rest < run)
        {
            return self.rest.pop().map(|Reverse(ready)| ready);
        }
        self.run.pop_front()
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.run.len() + self.rest.len()
    }

    /// Keeps the entries for which `holds` is true. O(n).
    pub(super) fn retain(&mut self, holds: impl Fn(&Ready) -> bool) {
        self.run.retain(|ready| holds(ready));
        self.rest.retain(|Reverse(ready)| holds(ready));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_leave_by_instant_and_then_as_they_came(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0u64..20), 1..200),
        ) {
            let mut order = ReadyOrder::default();
            let mut oracle: Vec<Ready> = Vec::new();
            for (entry, step) in (1..).zip(steps) {
                if let Some(at) = step {
                    let queue = u32::try_from(entry % 7).unwrap();
                    let ready = Ready { at: Instant::from_ps(at), entry, queue };
                    order.push(ready);
                    oracle.push(ready);
                    oracle.sort_unstable();
                } else {
                    let first = (!oracle.is_empty()).then(|| oracle.remove(0));
                    prop_assert_eq!(order.pop(), first);
                }
                prop_assert_eq!(order.first(), oracle.first());
            }
        }
    }

    #[test]
    fn entries_in_the_order_of_time_need_no_heap() {
        let mut order = ReadyOrder::default();
        let ready = |at, entry| Ready { at: Instant::from_ps(at), entry, queue: 0 };
        for entry in 1..100 {
            order.push(ready(entry / 3, entry));
        }
        assert!(order.rest.is_empty());
        order.push(ready(5, 100));
        assert_eq!(order.rest.len(), 1);
    }
}
