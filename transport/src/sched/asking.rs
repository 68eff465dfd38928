//! Timers of flows that wait for credit or tokens: when a flow repeats its request, and when it is
//! given up.
//!
//! While a flow waits, only a CREDIT counts as an answer, and an acknowledgement does not: it shows
//! that the receiver is there, not that a request reached it. A flow that waits sends nothing, so
//! acknowledgements can come for one round trip only, and a flow is given up after many round
//! trips. An acknowledgement that ends a wait, since nothing is left to send, ends the silence as
//! well.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::sched::SchedSetup;
use crate::sched::place_queue::PlaceQueue;
use crate::time::{Duration, Instant};
use crate::timer::{TimerHandle, Wheel};
use crate::units::FlowId;

/// The questions of one flow.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// The flow; [`FlowId::UNKNOWN`] when none.
    id: FlowId,
    /// When the flow asks again, while it waits.
    ask_at: Option<Instant>,
    /// The timer of the next question, no later than `ask_at`.
    timer: Option<(Instant, TimerHandle)>,
    /// Requests in a row; the back-off follows from them.
    asked: u8,
    /// How many of the latest requests in a row had no answer of any kind.
    unanswered: u8,
    /// When the first unanswered request was counted; means nothing while `unanswered` is 0.
    silent_since: Instant,
}

const VACANT: Question = Question {
    id: FlowId::UNKNOWN,
    ask_at: None,
    timer: None,
    asked: 0,
    unanswered: 0,
    silent_since: Instant::ZERO,
};

/// The questions of all flows of a host.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// The questions of outgoing flows, by slab index.
    questions: Vec<Question>,
    timers: Wheel<FlowId>,
    outbox: PlaceQueue,
    given_up: VecDeque<FlowId>,
    rto: Duration,
    backoff_max: u8,
    retries_max: u8,
    give_up: Duration,
}

/// Resolution of the timers: far below any timeout.
const TIMER_TICK: Duration = Duration::from_ps(1 << 18);

impl Asking {
    pub(super) fn new(setup: &SchedSetup<'_>) -> Self {
        let flows = setup.tx_flows_max as usize;
        Self {
            questions: vec![VACANT; flows],
            timers: Wheel::new(TIMER_TICK, flows),
            outbox: PlaceQueue::new(flows),
            given_up: VecDeque::with_capacity(flows + 1),
            rto: setup.rto,
            backoff_max: setup.backoff_max,
            retries_max: setup.retries_max,
            give_up: setup.give_up,
        }
    }

    /// A flow begins. Timer and place in the outbox go by slab index: they serve the next flow
    /// there too.
    pub(super) fn open(&mut self, flow: FlowId) {
        let question = &mut self.questions[flow.index()];
        *question = Question { id: flow, timer: question.timer, ..VACANT };
    }

    /// Whether the flow waits.
    pub(super) fn waits(&self, flow: FlowId) -> bool {
        self.questions[flow.index()].ask_at.is_some()
    }

    /// The flow waits: it asks again after a timeout.
    pub(super) fn wait(&mut self, flow: FlowId, now: Instant) {
        let question = &mut self.questions[flow.index()];
        if question.ask_at.is_none() {
            let backoff = question.asked.min(self.backoff_max);
            question.ask_at = Some(now + self.rto * (1 << backoff));
            self.set_timer(flow);
        }
    }

    /// The flow does not wait: it may send, or has nothing to send. A later silence counts from its
    /// own beginning.
    pub(super) fn stop(&mut self, flow: FlowId) {
        let question = &mut self.questions[flow.index()];
        (question.ask_at, question.unanswered) = (None, 0);
    }

    /// The flow is to send a REQUEST now.
    pub(super) fn ask(&mut self, flow: FlowId) {
        self.outbox.push(flow.index());
    }

    /// The receiver has answered; `served` when it gave what was asked for.
    pub(super) fn answered(&mut self, flow: FlowId, served: bool) {
        let question = &mut self.questions[flow.index()];
        question.unanswered = 0;
        if served {
            question.asked = 0;
            question.ask_at = None;
        }
    }

    /// Whether a flow is to send a REQUEST now.
    #[inline]
    pub(super) fn has_requests(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The next flow that sends a REQUEST now.
    pub(super) fn next_request(&mut self) -> Option<FlowId> {
        Some(self.questions[self.outbox.pop()?].id)
    }

    pub(super) fn next_given_up(&mut self) -> Option<FlowId> {
        self.given_up.pop_front()
    }

    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.poll_at()
    }

    /// Flows whose timeout has come ask again.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, flow)) = self.timers.expire(now) {
            let question = &mut self.questions[flow.index()];
            question.timer = None;
            let flow = question.id;
            if question.ask_at.is_some_and(|at| at <= now) {
                self.ask_again(flow, now);
            }
            self.set_timer(flow);
        }
    }

    fn ask_again(&mut self, flow: FlowId, now: Instant) {
        let question = &mut self.questions[flow.index()];
        if question.unanswered == 0 {
            question.silent_since = now;
        }
        let silence = now.since(question.silent_since);
        if question.unanswered >= self.retries_max && silence >= self.give_up {
            question.ask_at = None;
            self.given_up.push_back(flow);
            return;
        }
        question.unanswered = question.unanswered.saturating_add(1);
        question.asked = question.asked.saturating_add(1);
        let backoff = question.asked.min(self.backoff_max);
        question.ask_at = Some(now + self.rto * (1 << backoff));
        self.ask(flow);
    }

    fn set_timer(&mut self, flow: FlowId) {
        let question = &mut self.questions[flow.index()];
        let Some(at) = question.ask_at else { return };
        // An early timer is cheaper than a moved one: when it fires, the flow looks again.
        if let Some((set_for, handle)) = question.timer {
            if set_for <= at {
                return;
            }
            self.timers.cancel(handle);
        }
        question.timer = Some((at, self.timers.insert(at, flow)));
    }
}
