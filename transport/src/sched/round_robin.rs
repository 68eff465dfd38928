//! Round robin: one segment a flow, in turn, the most urgent flows first. No protocol of its own.
//!
//! Flows with a priority ([`Label::prio`]) are served in its order, flows of one priority in turn:
//! a less urgent flow sends only when no more urgent one can. Flows without one have the priority
//! [`Label::PRIO_NONE`]. Where no flow has a priority, priorities cost neither memory nor time.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::num::NonZeroU32;

use super::{
    Backlog, Label, Protocol, Receiving, SchedFacts, SchedSetup, Scheduling, Sending, Turn,
};
use crate::params::NoParams;
use crate::path::Path;
use crate::registry::Registered;
use crate::segment::TxSegment;
use crate::time::Instant;
use crate::units::{Bytes, FlowId, HostId};

/// A queue of the flows that can send. A flow is in it at most once.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    queue: VecDeque<FlowId>,
    /// For each slab index: the id that is queued, or [`FlowId::UNKNOWN`].
    queued: Vec<FlowId>,
    /// For each slab index: the id that can send, or [`FlowId::UNKNOWN`]. A queued id that is not
    /// here is skipped when its turn comes.
    ready: Vec<FlowId>,
    /// Made when the first flow with a priority is opened.
    ranked: Option<Box<Ranked>>,
}

/// Flows with a priority, of which each is queued at most once.
#[derive(Clone, Debug)]
struct Ranked {
    /// For each slab index: the priority of the flow, [`Label::PRIO_NONE`] for one in the plain
    /// queue.
    prio: Vec<u32>,
    /// Flows by priority, then by when they were queued.
    heap: BinaryHeap<Reverse<(u32, u64, FlowId)>>,
    /// Flows queued so far.
    queued: u64,
}

impl Ranked {
    #[cold]
    fn new(slots: usize) -> Box<Self> {
        let heap = BinaryHeap::with_capacity(slots + 1);
        Box::new(Self { prio: vec![Label::PRIO_NONE; slots], heap, queued: 0 })
    }

    /// Queues a flow if it has a priority.
    fn push(&mut self, flow: FlowId) -> bool {
        let prio = self.prio[flow.index()];
        if prio != Label::PRIO_NONE {
            self.heap.push(Reverse((prio, self.queued, flow)));
            self.queued += 1;
        }
        prio != Label::PRIO_NONE
    }
}

impl RoundRobin {
    /// An empty queue for slab indices below `flows_max`.
    #[must_use]
    pub fn new(flows_max: u32) -> Self {
        let slots = flows_max as usize;
        Self {
            queue: VecDeque::with_capacity(slots + 1),
            queued: vec![FlowId::UNKNOWN; slots],
            ready: vec![FlowId::UNKNOWN; slots],
            ranked: None,
        }
    }

    /// Sets whether `flow` takes part in the turns.
    pub(super) fn set_ready(&mut self, flow: FlowId, ready: bool) {
        let index = flow.index();
        if !ready {
            self.ready[index] = FlowId::UNKNOWN;
            return;
        }
        self.ready[index] = flow;
        if self.queued[index] == FlowId::UNKNOWN {
            self.queued[index] = flow;
            self.push(flow);
        }
    }

    #[inline]
    fn push(&mut self, flow: FlowId) {
        if self.ranked.as_mut().is_none_or(|ranked| !ranked.push(flow)) {
            self.queue.push_back(flow);
        }
    }

    /// The flow whose turn it is, of those with a priority and those without one.
    #[cold]
    fn next_ranked(&mut self) -> Option<FlowId> {
        // Bounded by the queues' lengths: each round takes one entry out.
        loop {
            let flow = self.pop_ranked()?;
            let ready = self.ready[flow.index()];
            self.queued[flow.index()] = ready;
            if ready != FlowId::UNKNOWN {
                self.push(ready);
                return Some(ready);
            }
        }
    }

    /// The front of the queues: flows without a priority come before less urgent ones.
    fn pop_ranked(&mut self) -> Option<FlowId> {
        let ranked = self.ranked.as_mut()?;
        let first = ranked.heap.peek().map(|Reverse((prio, ..))| *prio);
        let plain = first.is_none_or(|prio| prio > Label::PRIO_NONE);
        let plain = if plain { self.queue.pop_front() } else { None };
        plain.or_else(|| ranked.heap.pop().map(|Reverse((_, _, flow))| flow))
    }
}

impl Registered for RoundRobin {
    const ABOUT: &'static str = "every flow that its window lets send, in turn";
    type Params = NoParams;
}

impl Scheduling for RoundRobin {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self::new(setup.tx_flows_max)
    }

    fn serves_prio() -> bool {
        true
    }

    fn facts() -> SchedFacts {
        SchedFacts { only_takes_turns: true, ..SchedFacts::DEFAULT }
    }
}

impl Sending for RoundRobin {
    fn on_open(&mut self, flow: FlowId, _peer: HostId, _path: &Path, label: Label) {
        let slots = self.ready.len();
        if label.prio != Label::PRIO_NONE && self.ranked.is_none() {
            self.ranked = Some(Ranked::new(slots));
        }
        let Some(ranked) = &mut self.ranked else { return };
        ranked.prio[flow.index()] = label.prio;
        if self.queued[flow.index()] != FlowId::UNKNOWN {
            // The entry of the slot's former flow has that flow's priority.
            let other = |queued: &FlowId| queued.index() != flow.index();
            self.queue.retain(other);
            ranked.heap.retain(|Reverse((_, _, queued))| other(queued));
            self.queued[flow.index()] = FlowId::UNKNOWN;
        }
    }

    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, _now: Instant) {
        self.set_ready(flow, backlog.sendable > Bytes::ZERO);
    }

    #[inline(always)]
    fn next_turn(&mut self, _now: Instant, _until: Instant) -> Option<Turn> {
        if self.ranked.is_some() {
            return self.next_ranked().map(Turn::of);
        }
        // Bounded by the queue's length: each round takes one entry out.
        while let Some(flow) = self.queue.pop_front() {
            let ready = self.ready[flow.index()];
            self.queued[flow.index()] = ready;
            if ready != FlowId::UNKNOWN {
                // A flow that is alone is behind itself.
                let alone = self.queue.is_empty();
                let repeats = if alone { NonZeroU32::MAX } else { NonZeroU32::MIN };
                self.queue.push_back(ready);
                return Some(Turn { repeats, ..Turn::of(ready) });
            }
        }
        None
    }

    fn on_sent(&mut self, _: FlowId, _: &mut TxSegment, _: impl FnOnce() -> Backlog, _: Instant) {}

    fn holds(&self, _flow: FlowId) -> bool {
        false
    }
}

only_sends!(RoundRobin);

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(sched: &mut RoundRobin) -> Option<Turn> {
        sched.next_turn(Instant::ZERO, Instant::ZERO)
    }

    fn next(sched: &mut RoundRobin) -> Option<FlowId> {
        turn(sched).map(|turn| turn.flow)
    }

    fn backlog(sendable: u64) -> Backlog {
        Backlog { sendable: Bytes(sendable), ..Backlog::default() }
    }

    /// Opens `flow` with this priority and something to send.
    fn open(sched: &mut RoundRobin, flow: FlowId, prio: u32) {
        let path = crate::config::Config::new(crate::Settings::default()).unwrap().default_path();
        sched.on_open(flow, HostId(1), &path, Label { prio, ..Label::NONE });
        sched.on_backlog(flow, &backlog(1), Instant::ZERO);
    }

    #[test]
    fn flows_take_turns_and_a_flow_that_cannot_send_is_passed_over() {
        let mut sched = RoundRobin::new(4);
        let flow = |i| FlowId::new(i, 1);
        for i in 0..3 {
            sched.on_backlog(flow(i), &backlog(1), Instant::ZERO);
        }
        let turns: Vec<_> = (0..4).filter_map(|_| next(&mut sched)).collect();
        assert_eq!(turns, [flow(0), flow(1), flow(2), flow(0)]);
        sched.on_backlog(flow(1), &backlog(0), Instant::ZERO);
        let turns: Vec<_> = (0..4).filter_map(|_| next(&mut sched)).collect();
        assert_eq!(turns, [flow(2), flow(0), flow(2), flow(0)]);
    }

    #[test]
    fn only_a_flow_that_is_alone_has_more_than_one_turn() {
        let mut sched = RoundRobin::new(2);
        let flow = |i| FlowId::new(i, 1);
        sched.on_backlog(flow(0), &backlog(1), Instant::ZERO);
        assert_eq!(turn(&mut sched), Some(Turn { repeats: NonZeroU32::MAX, ..Turn::of(flow(0)) }));
        sched.on_backlog(flow(1), &backlog(1), Instant::ZERO);
        assert_eq!(turn(&mut sched), Some(Turn::of(flow(0))));
    }

    #[test]
    fn a_reused_slot_is_served_under_its_new_id() {
        let mut sched = RoundRobin::new(1);
        sched.on_backlog(FlowId::new(0, 1), &backlog(1), Instant::ZERO);
        sched.on_backlog(FlowId::new(0, 1), &backlog(0), Instant::ZERO);
        sched.on_backlog(FlowId::new(0, 2), &backlog(1), Instant::ZERO);
        assert_eq!(next(&mut sched), Some(FlowId::new(0, 2)));
        assert_eq!(next(&mut sched), Some(FlowId::new(0, 2)));
    }

    #[test]
    fn a_reused_slot_has_the_priority_of_its_new_flow() {
        let mut sched = RoundRobin::new(2);
        let (former, new, other) = (FlowId::new(0, 1), FlowId::new(0, 2), FlowId::new(1, 1));
        open(&mut sched, former, 1);
        open(&mut sched, other, 5);
        sched.on_backlog(former, &backlog(0), Instant::ZERO);
        open(&mut sched, new, 9);
        assert_eq!([(); 2].map(|()| next(&mut sched)), [Some(other); 2]);
        sched.on_backlog(other, &backlog(0), Instant::ZERO);
        assert_eq!([(); 2].map(|()| next(&mut sched)), [Some(new); 2]);
        open(&mut sched, FlowId::new(0, 3), 2);
        sched.on_backlog(other, &backlog(1), Instant::ZERO);
        assert_eq!(next(&mut sched), Some(FlowId::new(0, 3)));
    }

    #[test]
    fn a_reused_slot_of_a_flow_without_a_priority_has_the_priority_of_its_new_flow() {
        let mut sched = RoundRobin::new(2);
        let (former, new, other) = (FlowId::new(0, 1), FlowId::new(0, 2), FlowId::new(1, 1));
        open(&mut sched, former, Label::PRIO_NONE);
        open(&mut sched, other, Label::PRIO_NONE);
        sched.on_backlog(former, &backlog(0), Instant::ZERO);
        open(&mut sched, new, Label::PRIO_NONE + 1);
        assert_eq!([(); 3].map(|()| next(&mut sched)), [Some(other); 3]);
    }

    #[test]
    fn the_most_urgent_flows_take_turns_and_others_send_when_they_cannot() {
        let mut sched = RoundRobin::new(5);
        let flow = |i| FlowId::new(i, 1);
        for (i, prio) in [(0, 7), (1, Label::PRIO_NONE), (2, 3), (3, 3), (4, u32::MAX)] {
            open(&mut sched, flow(i), prio);
        }
        let turns = |sched: &mut RoundRobin| {
            [(); 3].map(|()| {
                let Turn { flow, repeats, .. } = turn(sched).unwrap();
                assert_eq!(repeats.get(), 1, "others may become more urgent");
                flow.index()
            })
        };
        for (done, order) in [(5, [2, 3, 2]), (2, [3, 3, 3]), (3, [0, 0, 0]), (0, [1, 1, 1])] {
            sched.on_backlog(flow(done % 5), &backlog(u64::from(done == 5)), Instant::ZERO);
            assert_eq!(turns(&mut sched), order, "without {done}");
        }
        sched.on_backlog(flow(1), &backlog(0), Instant::ZERO);
        assert_eq!(turns(&mut sched), [4, 4, 4]);
        sched.on_backlog(flow(4), &backlog(0), Instant::ZERO);
        assert_eq!(next(&mut sched), None);
    }
}
