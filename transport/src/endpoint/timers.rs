//! The timers of an endpoint: one for each flow, in one wheel, and their handling.

use super::outgoing::Outgoing;
use super::{Endpoint, tx_context};
use crate::config::Config;
use crate::flow::ahead::Ahead;
use crate::flow::rx::{Answer, RxFlow};
use crate::flow::tx::TxContext;
use crate::sched::Scheduler;
use crate::time::{Duration, Instant, earliest};
use crate::timer::{TimerHandle, Wheel};
use crate::trace::TraceKind;
use crate::units::FlowId;

/// The flow that a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DueTimer {
    Tx(FlowId),
    Rx(FlowId),
}

/// A flow in its slab, with its one timer.
#[derive(Debug)]
pub(super) struct Timed<T> {
    pub(super) flow: T,
    pub(super) timer: Option<FlowTimer>,
}

/// When a flow's timer fires, and its name in the wheel.
pub(super) type FlowTimer = (Instant, TimerHandle);

// Bytes of a table's place, used or not: the memory of a flow that is over or idle.
const _: () = assert!(size_of::<Timed<Outgoing>>() <= 48);
const _: () = assert!(size_of::<Timed<RxFlow>>() <= 64);

/// Resolution of the endpoint's timers.
pub(super) const TIMER_TICK: Duration = Duration::from_ps(1 << 16);

impl<S: Scheduler> Endpoint<S> {
    /// The instant at which to call [`Endpoint::handle_timeout`]; `None` when only other calls can
    /// change anything. This call changes nothing itself.
    #[inline(always)]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = earliest(self.wheel.poll_at(), self.sched.poll_timeout());
        earliest(timers, self.blocks.poll_at())
    }

    /// Does everything that is due by `now`. Calling it early does nothing. Afterwards drain
    /// [`Endpoint::poll_event`], ask [`Endpoint::poll_transmit`] and [`Endpoint::poll_timeout`]
    /// again.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, due)) = self.wheel.expire(now) {
            match due {
                DueTimer::Tx(flow) => self.tx_timer_fired(flow, now),
                DueTimer::Rx(flow) => self.rx_timer_fired(flow, now),
            }
        }
        self.ask_for_blocks(now);
        self.sched.handle_timeout(now);
        self.take_reported(now);
        while let Some(flow) = self.sched.next_given_up() {
            self.give_up(flow, now);
        }
    }

    fn tx_timer_fired(&mut self, flow: FlowId, now: Instant) {
        let Some(timed) = self.tx_flows.get_mut(flow) else { return };
        timed.timer = None;
        let open = match &mut timed.flow {
            Outgoing::Over { until, .. } if *until <= now => {
                self.tx_flows.remove(flow);
                return;
            }
            Outgoing::Over { .. } => {
                return rearm_tx(&mut self.wheel, timed, flow, (now, &self.ahead), &self.config);
            }
            Outgoing::Open(open) => open,
        };
        let mut cx = tx_context!(self);
        open.on_timer(now, &mut cx);
        self.trace.record(now, TraceKind::Timer, flow, 0, 0);
        if self.config.keep_alive.is_some() {
            self.keep_alive(flow, now);
        }
        self.update_tx(flow, now);
    }

    fn rx_timer_fired(&mut self, flow: FlowId, now: Instant) {
        let Some(timed) = self.rx_flows.get_mut(flow) else { return };
        timed.timer = None;
        let due = timed.flow.ack_due(&self.config, &self.rx_buffers).filter(|at| *at <= now);
        if let Some(taken) = due.and_then(|_| timed.flow.take_pending(&mut self.rx_buffers)) {
            if let Some(first) = taken.report {
                let report = Answer::Report(flow, first, RxFlow::ev_of(&taken.ack));
                self.acks.answer(report, &mut self.stats);
            }
            self.acks.push(flow, taken.ack, &mut self.stats);
            if let Some(halves) = &mut self.halves {
                self.acks.echo(flow, halves);
            }
        }
        let due = timed.flow.ack_due(&self.config, &self.rx_buffers);
        let forget_at = timed.flow.received_at + self.linger;
        if forget_at <= now {
            // Segments for which no grant came are not acknowledged any more.
            timed.flow.take_pending(&mut self.rx_buffers);
            self.rest(flow);
        } else {
            let wanted = due.map_or(forget_at, |at| at.min(forget_at));
            rearm(&mut self.wheel, &mut timed.timer, Some(wanted), DueTimer::Rx(flow));
        }
    }
}

/// Sets an outgoing flow's timer to the next instant at which something of the flow is due.
#[inline]
pub(super) fn rearm_tx(
    wheel: &mut Wheel<DueTimer>,
    timed: &mut Timed<Outgoing>,
    id: FlowId,
    (now, ahead): (Instant, &Ahead),
    config: &Config,
) {
    let wanted = match &mut timed.flow {
        Outgoing::Open(open) => open.next_timer(now, ahead, config),
        Outgoing::Over { until, .. } => Some(*until),
    };
    rearm(wheel, &mut timed.timer, wanted, DueTimer::Tx(id));
}

/// Moves a flow's one timer to `wanted`, unless it fires no later already: an early timer is
/// cheaper than a moved one, since a flow that is woken early only looks again.
#[inline]
pub(super) fn rearm(
    wheel: &mut Wheel<DueTimer>,
    timer: &mut Option<FlowTimer>,
    wanted: Option<Instant>,
    due: DueTimer,
) {
    let Some(wanted) = wanted else { return };
    if let Some((at, handle)) = *timer {
        if at <= wanted {
            return;
        }
        wheel.cancel(handle);
    }
    *timer = Some((wanted, wheel.insert(wanted, due)));
}
