//! One segment a flow, in turn. No protocol of its own.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::{Arrival, Backlog, SchedSetup, Scheduler, Scheduling};
use crate::params::NoParams;
use crate::path::Path;
use crate::registry::Registered;
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

    /// Says whether `flow` takes part in the turns.
    pub(super) fn set_ready(&mut self, flow: FlowId, ready: bool) {
        let index = flow.index();
        if !ready {
            self.ready[index] = FlowId::UNKNOWN;
            return;
        }
        self.ready[index] = flow;
        if self.queued[index] == FlowId::UNKNOWN {
            self.queued[index] = flow;
            self.queue.push_back(flow);
        }
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
}

impl Scheduler for RoundRobin {
    fn on_open(&mut self, _flow: FlowId, _peer: HostId, _path: &Path) {}

    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, _now: Instant) {
        self.set_ready(flow, backlog.sendable > Bytes::ZERO);
    }

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

    fn turns(&self) -> usize {
        // A flow that is alone is behind itself.
        if self.queue.len() == 1 { usize::MAX } else { 1 }
    }

    fn on_sent(&mut self, _: FlowId, _: &mut TxSegment, _: impl FnOnce() -> Backlog, _: Instant) {}

    fn holds(&self, _flow: FlowId) -> bool {
        false
    }

    fn next_given_up(&mut self) -> Option<FlowId> {
        None
    }

    fn on_arrival(&mut self, _flow: FlowId, _arrival: &Arrival<'_>, _now: Instant) {}

    fn on_forgotten(&mut self, _flow: FlowId) {}

    fn on_control(&mut self, _: FlowId, _: HostId, _: &Header, _: Instant) -> bool {
        false
    }

    fn poll_control(&mut self, _now: Instant, _out: &mut Burst<TxSegment>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _now: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backlog(sendable: u64) -> Backlog {
        Backlog { sendable: Bytes(sendable), ..Backlog::default() }
    }

    #[test]
    fn flows_take_turns_and_a_flow_that_cannot_send_is_passed_over() {
        let mut sched = RoundRobin::new(4);
        let flow = |i| FlowId::new(i, 1);
        for i in 0..3 {
            sched.on_backlog(flow(i), &backlog(1), Instant::ZERO);
        }
        let turns: Vec<_> = (0..4).filter_map(|_| sched.next_flow(Instant::ZERO)).collect();
        assert_eq!(turns, [flow(0), flow(1), flow(2), flow(0)]);
        sched.on_backlog(flow(1), &backlog(0), Instant::ZERO);
        let turns: Vec<_> = (0..4).filter_map(|_| sched.next_flow(Instant::ZERO)).collect();
        assert_eq!(turns, [flow(2), flow(0), flow(2), flow(0)]);
    }

    #[test]
    fn only_a_flow_that_is_alone_has_more_than_one_turn() {
        let mut sched = RoundRobin::new(2);
        let flow = |i| FlowId::new(i, 1);
        sched.on_backlog(flow(0), &backlog(1), Instant::ZERO);
        assert_eq!((sched.next_flow(Instant::ZERO), sched.turns()), (Some(flow(0)), usize::MAX));
        sched.on_backlog(flow(1), &backlog(1), Instant::ZERO);
        assert_eq!((sched.next_flow(Instant::ZERO), sched.turns()), (Some(flow(0)), 1));
    }

    #[test]
    fn a_reused_slot_is_served_under_its_new_id() {
        let mut sched = RoundRobin::new(1);
        sched.on_backlog(FlowId::new(0, 1), &backlog(1), Instant::ZERO);
        sched.on_backlog(FlowId::new(0, 1), &backlog(0), Instant::ZERO);
        sched.on_backlog(FlowId::new(0, 2), &backlog(1), Instant::ZERO);
        assert_eq!(sched.next_flow(Instant::ZERO), Some(FlowId::new(0, 2)));
        assert_eq!(sched.next_flow(Instant::ZERO), Some(FlowId::new(0, 2)));
    }
}
