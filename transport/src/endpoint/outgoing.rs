//! The sending side of an endpoint: flows open and close, messages are posted, segments leave, and
//! acknowledgements of them arrive.

use alloc::boxed::Box;
use core::num::{NonZeroU16, NonZeroU32};
use core::ops::Range;

use super::error::PostError;
use super::timers::{DueTimer, Timed, rearm, rearm_tx};
use super::{Endpoint, RxBurst, tx_context};
use crate::cc::Path;
use crate::flow::tx::{TxContext, TxFlow, TxMsg, Wait};
use crate::lb::Lb;
use crate::sched::{Backlog, Choice, Label, Scheduler};
use crate::segment::{BURST, Burst, RxSegment, TxSegment};
use crate::stats::{DropReason, Stats};
use crate::time::{Duration, Instant};
use crate::trace::TraceKind;
use crate::units::{Bytes, FlowId, HostId, Key, MsgId};
use crate::wire::Body;

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsgSpec {
    /// The flow that carries the message.
    pub flow: FlowId,
    /// Length, bytes.
    pub len: NonZeroU32,
    /// Handed to the receiving application; 0 is none.
    pub tag: u64,
}

/// An outgoing flow.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// An open flow. Its state is behind a pointer, so that a table with room for many flows is
    /// small.
    Open(Box<TxFlow>),
    /// A flow that is closed and finished; its id stays taken until the receiver has forgotten it.
    Over { peer: HostId, key: Key, until: Instant, cwnd: Bytes },
}

impl Timed<Outgoing> {
    pub(super) fn peer(&self) -> HostId {
        match &self.flow {
            Outgoing::Open(flow) => flow.peer,
            Outgoing::Over { peer, .. } => *peer,
        }
    }

    pub(super) fn key(&self) -> Key {
        match &self.flow {
            Outgoing::Open(flow) => flow.key,
            Outgoing::Over { key, .. } => *key,
        }
    }

    pub(super) fn open(&self) -> Option<&TxFlow> {
        match &self.flow {
            Outgoing::Open(flow) => Some(flow),
            Outgoing::Over { .. } => None,
        }
    }

    #[inline]
    pub(super) fn open_mut(&mut self) -> Option<&mut TxFlow> {
        match &mut self.flow {
            Outgoing::Open(flow) => Some(flow),
            Outgoing::Over { .. } => None,
        }
    }
}

impl<S: Scheduler> Endpoint<S> {
    /// [`Endpoint::open_labelled`] without a label. Nothing has to be polled afterwards.
    ///
    /// # Errors
    /// [`PostError::FlowTableFull`], [`PostError::SelfSend`].
    pub fn open_flow(&mut self, peer: HostId, path: Path) -> Result<FlowId, PostError> {
        self.open_labelled(peer, path, Label::NONE)
    }

    /// Opens a flow to `peer` over `path`, with a label for the scheduler. Nothing is sent until a
    /// message is posted, so no other call is needed afterwards. Amortised O(1).
    ///
    /// # Errors
    /// [`PostError::FlowTableFull`], [`PostError::SelfSend`].
    pub fn open_labelled(
        &mut self,
        peer: HostId,
        path: Path,
        label: Label,
    ) -> Result<FlowId, PostError> {
        if peer == self.host {
            return Err(PostError::SelfSend);
        }
        let mut rng = self.rng.fork("flow", self.flows_opened);
        let config = &self.config;
        let chosen = config.policies(&path);
        let ext = config.ext_beside(config.extended(chosen.cc).extent);
        let path = Path { mtu: path.mtu + Bytes(ext.into()), ..path };
        let cc = self.controllers.on(config, chosen.cc, &path);
        let block = config.block_packets(&path);
        let lb = Lb::new(chosen.lb, &config.lb_params, &path, block, &mut rng);
        let (secret, opened, host) = (&self.secret, self.flows_opened, self.host);
        let new = |id: FlowId| {
            let key = secret.key(host, opened, id.index());
            TxFlow::new(config, (id, key), peer, path, cc, lb, rng)
        };
        let opened = self
            .tx_flows
            .insert_with(|id| Timed { flow: Outgoing::Open(Box::new(new(id))), timer: None });
        let flow = opened.ok_or(PostError::FlowTableFull)?;
        self.flows_opened += 1;
        self.sched.on_open(flow, peer, &path, label);
        Ok(flow)
    }

    /// Closes a flow once its messages are finished. Its id stays taken until the receiver has
    /// forgotten it too. Ask [`Endpoint::poll_timeout`] again.
    pub fn close_flow(&mut self, now: Instant, flow: FlowId) {
        if let Some(open) = self.tx_flows.get_mut(flow).and_then(Timed::open_mut) {
            open.closing = true;
            self.update_tx(flow, now);
        }
    }

    /// Takes a message for its flow. Allocates; never call it between the polls of a burst.
    /// Afterwards ask [`Endpoint::poll_transmit`] and [`Endpoint::poll_timeout`] again.
    ///
    /// # Errors
    /// Every variant of [`PostError`] but [`PostError::FlowTableFull`].
    pub fn post_send(&mut self, now: Instant, spec: MsgSpec) -> Result<MsgId, PostError> {
        let timed = self.tx_flows.get_mut(spec.flow).ok_or(PostError::NoSuchFlow)?;
        let Timed { flow: Outgoing::Open(open), timer } = timed else {
            return Err(PostError::NoSuchFlow);
        };
        if open.closing {
            return Err(PostError::NoSuchFlow);
        }
        if open.has_failed() {
            return Err(PostError::FlowFailed);
        }
        let no = open.next_msg_no();
        let (len, tag, flow) = (spec.len, spec.tag, spec.flow);
        let (next_offset, acked, opened) = (0, 0, false);
        let begun_again = 0;
        let msg = TxMsg { no, len, next_offset, acked, tag, opened, begun_again, since: now };
        let id = self.tx_msgs.insert(msg).ok_or(PostError::MsgTableFull)?;
        // The timer of an idle flow that is kept alive is far away: the first segment sets its own.
        if self.config.keep_alive.is_some()
            && open.is_idle()
            && let Some((_, handle)) = timer.take()
        {
            self.wheel.cancel(handle);
        }
        open.post(&self.config, id, len.get(), now);
        self.trace.record(now, TraceKind::Post, flow, len.get(), 0);
        self.sched.on_backlog(flow, &open.backlog(self.config.msg_window), now);
        // While the timer of a flow runs, a new message can move only the pacer's instant forward.
        if timer.is_none() || open.window().0.pacing.is_some() {
            let wanted = open.next_timer(now, &self.ahead, &self.config);
            rearm(&mut self.wheel, timer, wanted, DueTimer::Tx(flow));
        }
        Ok(id)
    }

    /// Acknowledgements and refusals for one flow. False when all of them were dropped.
    pub(super) fn on_acks(
        &mut self,
        flow: FlowId,
        burst: &RxBurst<'_>,
        run: Range<usize>,
        now: Instant,
    ) -> bool {
        let mut cx = tx_context!(self);
        let Some(timed) = self.tx_flows.get_mut(flow) else {
            run.for_each(|_| cx.stats.drops.count(DropReason::UnknownFlow));
            return false;
        };
        let Outgoing::Open(open) = &mut timed.flow else {
            count_late(&burst.rx[run], (timed.peer(), timed.key()), cx.stats);
            return false;
        };
        let mut accepted = false;
        for rx in &burst.rx[run] {
            if let Err(reason) = check(rx, open.peer, open.key) {
                cx.stats.drops.count(reason);
                continue;
            }
            let (sane, psn, kind) = match &rx.hdr.body {
                Body::Ack(ack) if rx.hdr.ext.is_some() => {
                    let extensions = burst.extensions_of(rx);
                    (open.on_ack_with(rx, ack, extensions, &mut cx), ack.psn, TraceKind::Ack)
                }
                Body::Ack(ack) => (open.on_ack(rx, ack, &mut cx), ack.psn, TraceKind::Ack),
                Body::Nack(nack) => {
                    let extensions = burst.extensions_of(rx);
                    (open.on_nack(rx, nack, extensions, &mut cx), nack.psn, TraceKind::Nack)
                }
                Body::BlockNack(nack) => {
                    (open.on_block_nack(rx, nack, &mut cx), nack.psn, TraceKind::BlockNack)
                }
                Body::Report(report) => {
                    (open.on_report(report, &mut cx), report.first, TraceKind::Ack)
                }
                Body::Data(_)
                | Body::Credit(_)
                | Body::Request(_)
                | Body::Note(_)
                | Body::Presence(_) => continue,
            };
            if !sane {
                cx.stats.drops.count(DropReason::BadSegment);
                continue;
            }
            accepted = true;
            let cwnd = u32::try_from(open.window().0.cwnd.0).unwrap_or(u32::MAX);
            self.trace.record(now, kind, flow, psn.0, cwnd);
        }
        accepted
    }

    /// Lets the endpoint give packets up to `horizon` ahead of their departure
    /// ([`Burst::departure`]), for a driver whose device sends at a given time. Paced segments are
    /// given at most a 16th of their path's base RTT ahead; a scheduler that chooses departures may
    /// use all of `horizon`. It is zero at first, and stays so for all other drivers.
    ///
    /// A packet counts as in flight when it is given, and as sent when it leaves. Packets given at
    /// one `now` are in any order. A packet given at a later `now` leaves at once, or after all
    /// packets that were given earlier. Afterwards ask [`Endpoint::poll_transmit`] and
    /// [`Endpoint::poll_timeout`] again.
    pub fn send_ahead(&mut self, horizon: Duration) {
        self.ahead.horizon = horizon;
        self.ahead.kept = horizon;
        self.sched.send_ahead(horizon);
    }

    /// [`Endpoint::send_ahead`] only for packets whose departure the scheduler chooses, for a
    /// driver that keeps such packets itself until their time. Afterwards ask
    /// [`Endpoint::poll_transmit`] and [`Endpoint::poll_timeout`] again.
    pub fn keep_until_departure(&mut self, horizon: Duration) {
        self.ahead.kept = horizon;
    }

    /// Lets the endpoint give several segments as one, a train ([`crate::Coding::Train`]), where
    /// its scheduler makes trains. This is for a driver in virtual time: nothing may happen to one
    /// segment of a train alone.
    pub fn carry_trains(&mut self) {
        self.ahead.train_max = Some(self.config.train_max());
    }

    /// Fills `tx` with packets that may leave now: control packets first, then acknowledgements,
    /// then segments by the scheduler's turns. Call it again at the same `now` when it has filled
    /// `tx`, and [`Endpoint::poll_timeout`] in any case: a packet that was sent may have set a
    /// timer.
    pub fn poll_transmit(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        self.poll_control(now, tx);
        let mut void = 0;
        // Bounded: each turn fills a place, takes a flow out of the scheduler's ready set, or is
        // void, of which few are taken.
        let until = now + self.ahead.kept;
        while tx.room() > 0 && void < BURST {
            let Some(turn) = self.sched.next_turn(now, until) else { return };
            match turn.choice {
                None => self.transmit(turn.flow, turn.repeats.get(), now, tx),
                Some(choice) => {
                    void += usize::from(self.transmit_chosen(turn.flow, choice, now, tx));
                }
            }
        }
    }

    /// Sends the segment of a turn for which the scheduler has chosen path, instant or kind. True
    /// where the turn is void: for a copy where there is nothing to copy, and for a train that it
    /// has no room for.
    #[inline(never)]
    fn transmit_chosen(
        &mut self,
        flow: FlowId,
        choice: Choice,
        now: Instant,
        tx: &mut Burst<TxSegment>,
    ) -> bool {
        let mut cx = tx_context!(self);
        let timed = self.tx_flows.get_mut(flow);
        let Some(Timed { flow: Outgoing::Open(open), timer }) = timed else {
            self.sched.on_backlog(flow, &Backlog::default(), now);
            return choice.copy;
        };
        let leave = self.ahead.leave(now, open.path());
        let train_max = self.ahead.train_max.unwrap_or(NonZeroU16::MIN);
        let choice = Choice { train: choice.train.min(train_max), ..choice };
        let segment = tx.place();
        let mut void = false;
        if let Err(wait) = open.poll_chosen(leave, choice, &mut cx, segment) {
            void = choice.copy || wait == Wait::Scheduler;
            let mut backlog = open.backlog(self.config.msg_window);
            if !void {
                // A flow that cannot send now is not asked again; after a void turn it is.
                backlog.sendable = Bytes::ZERO;
            }
            self.sched.on_backlog(flow, &backlog, now);
        } else {
            self.trace.record(now, TraceKind::Send, flow, segment.payload.offset, 0);
            self.sched.on_sent(flow, segment, || open.backlog(self.config.msg_window), now);
            if segment.hdr.ext.is_some() {
                open.extend(&self.config, tx.place_ext());
            }
            match choice.at.filter(|at| *at > now) {
                Some(at) => tx.commit_at(at),
                None => tx.commit(),
            }
            self.ahead.given(tx.departure(tx.len() - 1, now));
        }
        let wanted = open.next_timer(now, &self.ahead, &self.config);
        rearm(&mut self.wheel, timer, wanted, DueTimer::Tx(flow));
        void
    }

    /// Sends up to `repeats` segments of a flow, as far as `tx` has room.
    fn transmit(&mut self, flow: FlowId, repeats: u32, now: Instant, tx: &mut Burst<TxSegment>) {
        let mut cx = tx_context!(self);
        let timed = self.tx_flows.get_mut(flow);
        let Some(Timed { flow: Outgoing::Open(open), timer }) = timed else {
            self.sched.on_backlog(flow, &Backlog::default(), now);
            return;
        };
        let leave = self.ahead.leave(now, open.path());
        let segments = tx.room().min(repeats as usize);
        for _ in 0..segments {
            let segment = tx.place();
            if open.poll_segment(leave, &mut cx, segment).is_err() {
                let backlog =
                    Backlog { sendable: Bytes::ZERO, ..open.backlog(self.config.msg_window) };
                self.sched.on_backlog(flow, &backlog, now);
                let wanted = open.next_timer(now, &self.ahead, &self.config);
                rearm(&mut self.wheel, timer, wanted, DueTimer::Tx(flow));
                return;
            }
            self.trace.record(now, TraceKind::Send, flow, segment.payload.offset, 0);
            self.sched.on_sent(flow, segment, || open.backlog(self.config.msg_window), now);
            if self.ahead.horizon > Duration::ZERO {
                self.ahead.given(segment.departure(now));
            }
            if segment.hdr.ext.is_some() {
                open.extend(&self.config, tx.place_ext());
            }
            tx.commit();
            if timer.is_none() {
                let wanted = open.next_timer(now, &self.ahead, &self.config);
                rearm(&mut self.wheel, timer, wanted, DueTimer::Tx(flow));
            }
        }
    }

    /// Fails the messages of a flow whose peer's scheduler is silent.
    pub(super) fn give_up(&mut self, flow: FlowId, now: Instant) {
        let mut cx = tx_context!(self);
        if let Some(open) = self.tx_flows.get_mut(flow).and_then(Timed::open_mut) {
            open.fail(&mut cx);
        }
        self.update_tx(flow, now);
    }

    /// Brings scheduler and timer in line with an outgoing flow after something happened to it. It
    /// is a function of its own: inlined, it would be twice in the handler of a burst, whose
    /// acknowledgements then take more instructions.
    #[inline(never)]
    pub(super) fn update_tx(&mut self, flow: FlowId, now: Instant) {
        let Some(timed) = self.tx_flows.get_mut(flow) else { return };
        let Outgoing::Open(open) = &mut timed.flow else { return };
        let backlog = open.backlog(self.config.msg_window);
        self.sched.on_backlog(flow, &backlog, now);
        if open.is_over() {
            // The id stays taken for twice as long as receivers keep the flow.
            let (peer, key, until) = (open.peer, open.key, now + self.linger * 2);
            timed.flow = Outgoing::Over { peer, key, until, cwnd: open.window().0.cwnd };
        }
        rearm_tx(&mut self.wheel, timed, flow, (now, &self.ahead), &self.config);
    }
}

/// Whether a packet that names a flow comes from the flow's peer and has its key.
#[inline]
fn check(rx: &RxSegment, peer: HostId, key: Key) -> Result<(), DropReason> {
    if rx.from != peer {
        return Err(DropReason::UnknownFlow);
    }
    if rx.hdr.key == key { Ok(()) } else { Err(DropReason::WrongKey) }
}

/// Counts acknowledgements for a flow that is over. The acknowledgement that finished the flow has
/// overtaken them: they report nothing new.
#[cold]
fn count_late(late: &[RxSegment], (peer, key): (HostId, Key), stats: &mut Stats) {
    for rx in late {
        match (check(rx, peer, key), &rx.hdr.body) {
            (Err(reason), _) => stats.drops.count(reason),
            (Ok(()), Body::Ack(_) | Body::Report(_)) => stats.acks_received += 1,
            (Ok(()), Body::Nack(_)) => stats.nacks_received += 1,
            (Ok(()), _) => stats.block_nacks_received += 1,
        }
    }
}
