//! Which flow gets the next SIM: the most urgent flows go first. Among flows of one urgency,
//! collectives take turns, and so do the flows of one collective. With [`SimOrder::Smallest`] the
//! smallest collective goes first, and all groups are among the urgent ones.
//!
//! Source: \[dcsim\] sec. 2.4 (1). A flow that needs SIMs stands once in the queue of its group:
//! the flows of one collective and one priority ([`Label`]). A group with such flows stands once in
//! the ring, or among the urgent groups if it has a priority. All flows without a collective count
//! as one collective.
// DEVIATION(dcsim#2.4): the paper has no priorities. A flow with one gets SIMs before the less
// urgent flows of its host.

use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::params::SimOrder;
use crate::sched::Label;

/// Stands for no flow in a list.
const NONE: u32 = u32::MAX;

/// The flows of one collective and priority that need SIMs: a list through [`FlowEntry::next`].
#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    last: u32,
    /// Flows of this host that were opened in this group and still have their places.
    flows: u32,
    label: Label,
}

/// The state of the flow at one slab index.
#[derive(Clone, Copy, Debug)]
struct FlowEntry {
    group: u32,
    next: u32,
    queued: bool,
}

/// The flows that need SIMs.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    order: SimOrder,
    places: Vec<FlowEntry>,
    groups: Vec<Group>,
    /// Groups without flows.
    spare: Vec<u32>,
    /// Groups by label; read when a flow opens, never iterated.
    by_label: BTreeMap<Label, u32>,
    /// Groups without a priority that have flows that need SIMs.
    ring: VecDeque<u32>,
    /// Groups with a priority that have flows that need SIMs, by priority, then by when they were
    /// queued; for [`SimOrder::Smallest`] all groups, by priority, then by their flows, then by the
    /// number of the collective.
    urgent: BinaryHeap<Reverse<(u32, u64, u32)>>,
    /// For [`SimOrder::Shortest`]: flows ordered by priority, by the segments without SIM that they
    /// had when they were queued, then by when they were queued.
    heap: BinaryHeap<Reverse<(u32, u32, u64, u32)>>,
    /// Entries of both heaps so far.
    pushed: u64,
}

impl Turns {
    /// Turns for flows with slab indices below `flows`.
    pub(super) fn new(order: SimOrder, flows: usize) -> Self {
        let heap = if order == SimOrder::Shortest { flows + 1 } else { 0 };
        Self {
            order,
            places: vec![FlowEntry { group: NONE, next: NONE, queued: false }; flows],
            groups: Vec::new(),
            spare: Vec::new(),
            by_label: BTreeMap::new(),
            ring: VecDeque::with_capacity(flows + 1),
            urgent: BinaryHeap::new(),
            heap: BinaryHeap::with_capacity(heap),
            pushed: 0,
        }
    }

    /// Puts the flow at `index` into the group of its label. Not for the hot path.
    pub(super) fn open(&mut self, index: usize, label: Label) {
        let by_collective = matches!(self.order, SimOrder::Collectives | SimOrder::Smallest);
        let collective = if by_collective { label.collective } else { 0 };
        let label = Label { collective, ..label };
        let before = self.places[index].group;
        if self.places[index].queued {
            self.remove(index);
        }
        if label.prio != Label::PRIO_NONE || self.order == SimOrder::Smallest {
            // No more groups than flows wait, so that later calls allocate nothing.
            self.urgent.reserve((self.places.len() + 1).saturating_sub(self.urgent.len()));
        }
        let group = self.group(label);
        self.groups[group as usize].flows += 1;
        self.places[index].group = group;
        if before != NONE {
            self.leave(before);
        }
    }

    /// Takes the former flow at `index` out of its queue. O(flows that are queued).
    fn remove(&mut self, index: usize) {
        let flow = u32::try_from(index).unwrap_or(NONE);
        if self.order == SimOrder::Shortest {
            self.places[index].queued = false;
            return self.heap.retain(|Reverse((.., queued))| *queued != flow);
        }
        let number = self.places[index].group;
        // Bounded: once around the queue.
        let mut rest = Vec::new();
        let mut at = self.groups[number as usize].first;
        while at != NONE {
            let place = &mut self.places[at as usize];
            place.queued = false;
            if at != flow {
                rest.push(at);
            }
            at = place.next;
        }
        let group = &mut self.groups[number as usize];
        (group.first, group.last) = (NONE, NONE);
        self.ring.retain(|queued| *queued != number);
        self.urgent.retain(|Reverse((.., queued))| *queued != number);
        rest.into_iter().for_each(|flow| self.push(flow as usize, 0));
    }

    /// The group of a label.
    fn group(&mut self, label: Label) -> u32 {
        if let Some(&group) = self.by_label.get(&label) {
            return group;
        }
        let new = Group { first: NONE, last: NONE, flows: 0, label };
        let group = self.spare.pop().unwrap_or_else(|| {
            self.groups.push(new);
            u32::try_from(self.groups.len() - 1).unwrap_or(NONE)
        });
        self.groups[group as usize] = new;
        self.by_label.insert(label, group);
        group
    }

    /// Takes one flow out of a group.
    fn leave(&mut self, group: u32) {
        let state = &mut self.groups[group as usize];
        state.flows -= 1;
        if state.flows == 0 {
            let label = state.label;
            self.by_label.remove(&label);
            self.spare.push(group);
        }
    }

    /// Flows of this host with the collective and the priority of the flow at `index`. It counts
    /// itself, and flows that have ended until another takes their place. 0 where the flow belongs
    /// to no collective, or the order does not distinguish collectives.
    #[inline]
    pub(super) fn group_flows(&self, index: usize) -> u32 {
        let group = &self.groups[self.places[index].group as usize];
        if group.label.collective == Label::NONE.collective { 0 } else { group.flows }
    }

    /// Queues the flow at `index`, which needs SIMs for `lacking` segments.
    pub(super) fn push(&mut self, index: usize, lacking: u32) {
        let flow = u32::try_from(index).unwrap_or(NONE);
        let place = &mut self.places[index];
        if place.queued {
            return;
        }
        place.queued = true;
        place.next = NONE;
        let number = place.group;
        let group = &mut self.groups[number as usize];
        if self.order == SimOrder::Shortest {
            self.heap.push(Reverse((group.label.prio, lacking, self.pushed, flow)));
            self.pushed += 1;
        } else if group.first == NONE {
            (group.first, group.last) = (flow, flow);
            self.push_group(number);
        } else {
            let last = core::mem::replace(&mut group.last, flow);
            self.places[last as usize].next = flow;
        }
    }

    /// Puts a group with flows behind those of its priority, or behind smaller ones.
    fn push_group(&mut self, number: u32) {
        let Group { label: Label { prio, collective }, flows, .. } = self.groups[number as usize];
        if self.order == SimOrder::Smallest {
            // The hosts of an all-to-all have as many flows of it each, so all agree on the order
            // as long as no places are reused.
            let size = u64::from(flows) << 32 | u64::from(collective);
            self.urgent.push(Reverse((prio, size, number)));
        } else if prio == Label::PRIO_NONE {
            self.ring.push_back(number);
        } else {
            self.urgent.push(Reverse((prio, self.pushed, number)));
            self.pushed += 1;
        }
    }

    /// The group whose turn it is, taken out. One without a priority comes before a less urgent
    /// one.
    fn pop_group(&mut self) -> Option<u32> {
        let first = self.urgent.peek().map(|Reverse((prio, ..))| *prio);
        let plain = first.is_none_or(|prio| prio > Label::PRIO_NONE);
        let plain = if plain { self.ring.pop_front() } else { None };
        plain.or_else(|| self.urgent.pop().map(|Reverse((.., number))| number))
    }

    /// The slab index of the flow whose turn it is, taken out of the queue.
    pub(super) fn pop(&mut self) -> Option<usize> {
        let flow = if self.order == SimOrder::Shortest {
            self.heap.pop().map(|Reverse((.., flow))| flow)?
        } else {
            let number = self.pop_group()?;
            let group = &mut self.groups[number as usize];
            let flow = group.first;
            group.first = self.places[flow as usize].next;
            if group.first == NONE {
                group.last = NONE;
            } else {
                self.push_group(number);
            }
            flow
        };
        self.places[flow as usize].queued = false;
        Some(flow as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective_of(collective: u32) -> Label {
        Label { collective, ..Label::NONE }
    }

    /// Turns of flows of these collectives, each of which always needs more.
    fn turns(order: SimOrder, collectives: &[u32], count: usize) -> Vec<usize> {
        let mut turns = Turns::new(order, collectives.len());
        for (index, collective) in collectives.iter().enumerate() {
            turns.open(index, collective_of(*collective));
            turns.push(index, 10 - u32::try_from(index).unwrap());
        }
        (0..count)
            .map(|_| {
                let index = turns.pop().unwrap();
                turns.push(index, 10 - u32::try_from(index).unwrap());
                index
            })
            .collect()
    }

    #[test]
    fn collectives_take_turns_and_flows_within_them() {
        let collectives = [5, 5, 5, 9];
        assert_eq!(turns(SimOrder::Collectives, &collectives, 8), [0, 3, 1, 3, 2, 3, 0, 3]);
        assert_eq!(turns(SimOrder::Flows, &collectives, 8), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(turns(SimOrder::Shortest, &collectives, 3), [3, 3, 3]);
    }

    #[test]
    fn the_smallest_collective_comes_first_and_of_two_as_large_that_of_the_lower_number() {
        for (collectives, first) in [([5, 5, 9, 5], [2, 2, 2]), ([5, 3, 5, 3], [1, 3, 1])] {
            let mut turns = Turns::new(SimOrder::Smallest, 4);
            let all = || collectives.into_iter().enumerate();
            all().for_each(|(index, collective)| turns.open(index, collective_of(collective)));
            all().for_each(|(index, _)| turns.push(index, 1));
            let taken = first.map(|_| {
                let index = turns.pop().unwrap();
                turns.push(index, 1);
                index
            });
            assert_eq!(taken, first, "{collectives:?}");
            // Larger ones have their turn when the smallest needs nothing.
            let rest = core::iter::from_fn(|| turns.pop()).map(|index| collectives[index]);
            assert_eq!(rest.last(), Some(5));
        }
    }

    #[test]
    fn a_flow_is_queued_once_and_one_that_reuses_a_place_is_of_its_own_collective() {
        let mut turns = Turns::new(SimOrder::Collectives, 3);
        turns.open(0, collective_of(1));
        turns.open(1, collective_of(2));
        turns.push(0, 1);
        turns.push(0, 1);
        assert_eq!((turns.pop(), turns.pop()), (Some(0), None));
        turns.push(0, 1);
        turns.open(0, collective_of(2));
        assert_eq!(turns.pop(), None, "the flow that was queued is gone");
        turns.open(2, collective_of(3));
        (0..3).for_each(|index| turns.push(index, 1));
        assert_eq!([turns.pop(), turns.pop(), turns.pop()], [Some(0), Some(2), Some(1)]);
        assert_eq!(turns.by_label.len(), 2, "collective 1 has no flow any more");
    }

    #[test]
    fn a_flow_that_reuses_a_place_has_a_rank_of_its_own() {
        let mut turns = Turns::new(SimOrder::Shortest, 2);
        turns.open(0, collective_of(0));
        turns.push(0, 1);
        turns.open(0, collective_of(0));
        turns.open(1, collective_of(0));
        turns.push(1, 5);
        turns.push(0, 9);
        assert_eq!([turns.pop(), turns.pop(), turns.pop()], [Some(1), Some(0), None]);
    }

    #[test]
    fn urgent_flows_come_first_and_flows_of_one_priority_in_turn() {
        let orders =
            [SimOrder::Collectives, SimOrder::Flows, SimOrder::Shortest, SimOrder::Smallest];
        for order in orders {
            let mut turns = Turns::new(order, 5);
            // One is less urgent than flows without a priority.
            for (index, prio) in [7, Label::PRIO_NONE, 3, 3, u32::MAX].into_iter().enumerate() {
                turns.open(index, Label { collective: 1, prio });
                turns.push(index, 1);
            }
            let taken: Vec<usize> = core::iter::from_fn(|| turns.pop()).collect();
            assert_eq!(taken, [2, 3, 0, 1, 4], "{order:?}");
            [0, 2, 3].into_iter().for_each(|index| turns.push(index, 1));
            for expected in [2, 3, 2, 3] {
                assert_eq!(turns.pop(), Some(expected), "{order:?}");
                turns.push(expected, 1);
            }
            // A flow that reuses the place has its own priority.
            turns.open(2, Label { collective: 1, prio: 9 });
            turns.push(2, 1);
            let taken: Vec<usize> = core::iter::from_fn(|| turns.pop()).collect();
            assert_eq!(taken, [3, 0, 2], "{order:?}");
        }
    }
}
