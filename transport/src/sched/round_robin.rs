//! One segment a flow, in turn. No protocol of its own.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::Scheduler;
use crate::segment::{Burst, TxSegment};
use crate::time::Instant;
use crate::units::{Bytes, FlowId, HostId};
use crate::wire::Header;

/// A queue of the flows that can send. A flow is in it at most once.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    queue: VecDeque<FlowId>,
    /// By slab index: the id that is queued, or [`FlowId::UNKNOWN`].
    queued: Vec<FlowId>,
    /// By slab index: the id that can send, or [`FlowId::UNKNOWN`]. A queued id that is not here is
    /// skipped when its turn comes.
    ready: Vec<FlowId>,
}

impl RoundRobin {
    /// For slab indices below `flows_max`.
    #[must_use]
    pub fn new(flows_max: u32) -> Self {
        let slots = flows_max as usize;
        Self {
            queue: VecDeque::with_capacity(slots + 1),
            queued: vec![FlowId::UNKNOWN; slots],
            ready: vec![FlowId::UNKNOWN; slots],
        }
    }
}

impl Scheduler for RoundRobin {
    fn on_backlog(&mut self, flow: FlowId, bytes: Bytes, _now: Instant) {
        let index = flow.index();
        if bytes == Bytes::ZERO {
            self.ready[index] = FlowId::UNKNOWN;
            return;
        }
        self.ready[index] = flow;
        if self.queued[index] == FlowId::UNKNOWN {
            self.queued[index] = flow;
            self.queue.push_back(flow);
        }
    }

    fn on_control(&mut self, _: HostId, _: &Header, _: Instant, _: &mut Burst<TxSegment>) {}

    fn next_flow(&mut self, _now: Instant) -> Option<FlowId> {
        // Bounded by the queue's length: each turn takes one entry out.
        while let Some(flow) = self.queue.pop_front() {
            let index = flow.index();
            self.queued[index] = FlowId::UNKNOWN;
            let ready = self.ready[index];
            if ready != FlowId::UNKNOWN {
                self.queued[index] = ready;
                self.queue.push_back(ready);
                return Some(ready);
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Burst<TxSegment>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_turns_and_a_flow_that_cannot_send_is_passed_over() {
        let mut sched = RoundRobin::new(4);
        let flow = |i| FlowId::new(i, 1);
        for i in 0..3 {
            sched.on_backlog(flow(i), Bytes(1), Instant::ZERO);
        }
        let turns: Vec<_> = (0..4).filter_map(|_| sched.next_flow(Instant::ZERO)).collect();
        assert_eq!(turns, [flow(0), flow(1), flow(2), flow(0)]);
        sched.on_backlog(flow(1), Bytes::ZERO, Instant::ZERO);
        let turns: Vec<_> = (0..4).filter_map(|_| sched.next_flow(Instant::ZERO)).collect();
        assert_eq!(turns, [flow(2), flow(0), flow(2), flow(0)]);
    }

    #[test]
    fn a_reused_slot_is_served_under_its_new_id() {
        let mut sched = RoundRobin::new(1);
        sched.on_backlog(FlowId::new(0, 1), Bytes(1), Instant::ZERO);
        sched.on_backlog(FlowId::new(0, 1), Bytes::ZERO, Instant::ZERO);
        sched.on_backlog(FlowId::new(0, 2), Bytes(1), Instant::ZERO);
        assert_eq!(sched.next_flow(Instant::ZERO), Some(FlowId::new(0, 2)));
        assert_eq!(sched.next_flow(Instant::ZERO), Some(FlowId::new(0, 2)));
    }
}
