//! The receiving side of an endpoint: segments find their flow, and answers to them leave.

use core::num::NonZeroU32;

use super::timers::{DueTimer, Timed, rearm};
use super::{Endpoint, RxBurst, SenderFlow};
use crate::event::Event;
use crate::flow::halves::Halves;
use crate::flow::open_blocks::OpenBlock;
use crate::flow::rx::{AckQueue, Answer, RxContext, RxFlow};
use crate::rc;
use crate::sched::{Arrival, Granted, Scheduler};
use crate::segment::{Burst, PayloadRef, Placement, RxSegment, TxSegment};
use crate::stats::DropReason;
use crate::time::Instant;
use crate::trace::TraceKind;
use crate::units::{Bytes, EntropyValue, FlowId};
use crate::wire::int::Int;
use crate::wire::{Body, Data, Extensions};

impl<S: Scheduler> Endpoint<S> {
    /// The length of the message of which `rx` may be the first segment to be placed; `None` when
    /// another segment was placed before, or `rx` places nothing.
    ///
    /// A driver with bounded memory calls this for every segment before [`Endpoint::handle_burst`],
    /// and drops segments of messages that it has no memory for, or hands them over without their
    /// payload, as trimmed. If a segment turns out to be the first of its message, the answer for
    /// it was not `None`, even when earlier segments of the burst changed the state. A flow that
    /// gave way to another in a burst is not opened again by the same burst.
    #[must_use]
    pub fn would_open(&self, rx: &RxSegment) -> Option<NonZeroU32> {
        let Body::Data(data) = &rx.hdr.body else { return None };
        if rx.trimmed {
            return None;
        }
        match self.known_flow(rx, data) {
            Some(flow) => flow.would_open(data, &self.rx_msgs, &self.rx_buffers),
            None => data.open.map(|open| open.msg_len),
        }
    }

    /// Whether `rx` is data of a message that has begun, of a flow that is here by its name and its
    /// key, and agrees with the message's length.
    #[must_use]
    pub fn has_message_of(&self, rx: &RxSegment) -> bool {
        let Body::Data(data) = &rx.hdr.body else { return false };
        let flow = self.known_flow(rx, data);
        flow.is_some_and(|flow| flow.has_begun(data, &self.rx_msgs, &self.rx_buffers))
    }

    /// Whether `rx` is data of a flow that is not here, or is here under another key. If `rx` names
    /// the flow by this host's name for it, it will be dropped, unless an earlier packet of the
    /// burst opens a flow of that name. The sender of `rx` can only guess that name.
    #[must_use]
    #[inline]
    pub fn is_strange(&self, rx: &RxSegment) -> bool {
        let Body::Data(data) = &rx.hdr.body else { return false };
        self.known_flow(rx, data).is_none()
    }

    /// Whether `rx` is data that will be dropped, whatever its payload is, unless an earlier packet
    /// of the burst opens its flow. That is so when the flow is not here, and `rx` names it by this
    /// host's name, or names no flow, or its sender has to prove its address first. False where
    /// packets are sealed, since a trimmed one begins no flow there.
    #[must_use]
    pub fn would_refuse(&self, rx: &RxSegment) -> bool {
        let Body::Data(data) = &rx.hdr.body else { return false };
        let named = rx.hdr.dst_flow != FlowId::UNKNOWN;
        let unused = named || data.open.is_none() || self.must_prove();
        unused && !self.config.sealed && self.is_strange(rx)
    }

    /// The incoming flow of a segment, if it is known.
    pub(super) fn known_flow(&self, rx: &RxSegment, data: &Data) -> Option<&RxFlow> {
        let named = rx.hdr.dst_flow;
        let flow = if named == FlowId::UNKNOWN {
            let sender = (rx.from, data.open?.src_flow, rx.hdr.key);
            self.rx_by_sender.get(&sender).copied()?
        } else {
            named
        };
        let flow = self.rx_flows.get(flow).map(|timed| &timed.flow)?;
        (flow.key == rx.hdr.key).then_some(flow)
    }

    pub(super) fn on_data(
        &mut self,
        rx: &RxSegment,
        data: &Data,
        (burst, at): (&RxBurst<'_>, usize),
        now: Instant,
    ) -> Placement {
        match self.take_data(rx, data, now) {
            Ok(placement) => {
                if self.halves.is_some() {
                    self.on_arrival(rx, data, burst.extensions(at), &placement);
                }
                placement
            }
            Err(reason) => {
                self.drop_data((rx, data), reason, now);
                Placement::Release
            }
        }
    }

    /// Counts a segment that was dropped, and answers its sender where the sender can act on it.
    #[cold]
    fn drop_data(&mut self, (rx, data): (&RxSegment, &Data), reason: DropReason, now: Instant) {
        self.stats.drops.count(reason);
        self.trace.record(now, TraceKind::Drop, rx.hdr.dst_flow, data.psn.0, reason as u32);
        match (reason, data.open) {
            (DropReason::UnknownFlow | DropReason::WrongKey, _) => self.disown(rx, now),
            (DropReason::PeerShare | DropReason::GroupShare, Some(open)) => {
                self.refuse((rx.from, open.src_flow, rx.hdr.key), (rx.hdr.ev, rx.at));
            }
            _ => {}
        }
    }

    fn take_data(
        &mut self,
        rx: &RxSegment,
        data: &Data,
        now: Instant,
    ) -> Result<Placement, DropReason> {
        let flow = self.rx_flow_of(rx, data.open.map(|open| open.src_flow))?;
        if self.proofs.lacks(flow) {
            self.look_at(flow, (rx, data))?;
        }
        let timed = self.rx_flows.get_mut(flow).ok_or(DropReason::UnknownFlow)?;
        timed.flow.check((rx, data))?;
        let src_flow = timed.flow.src_flow;
        let open = self.rx_msgs.len();
        let mut cx = RxContext {
            config: &self.config,
            msgs: &mut self.rx_msgs,
            buffers: &mut self.rx_buffers,
            acks: &mut self.acks,
            receiving: &mut self.receiving,
            stats: &mut self.stats,
            events: &mut self.events,
            blocks: &mut self.blocks,
            restores: &mut self.restores,
            missing: Bytes::ZERO,
            delivered: 0,
        };
        // Only a message that begins takes a share; its other segments repeat the announcement.
        let admit = |len| self.proofs.admit_message(flow, rx.from, len);
        let placement = timed.flow.on_data((rx, data), &mut cx, admit);
        let (missing, delivered) = (cx.missing, cx.delivered);
        if placement.is_ok() {
            let (from, at, ev) = (rx.from, rx.at, rx.hdr.ev);
            let len = rx.payload_len;
            let arrival = Arrival { from, at, src_flow, ev, data, len, missing };
            self.sched.on_arrival(flow, &arrival, now);
        }
        let due = timed.flow.ack_due(&self.config, &self.rx_buffers);
        let forget_at = timed.flow.received_at + self.linger;
        let wanted = due.map_or(forget_at, |at| at.min(forget_at));
        // The timer is set also when the segment was refused: a flow without a timer is never
        // forgotten.
        rearm(&mut self.wheel, &mut timed.timer, Some(wanted), DueTimer::Rx(flow));
        if open != self.rx_msgs.len() {
            let begun = open < self.rx_msgs.len();
            let opened = data.open.map_or(0, |open| open.msg_len.get());
            self.proofs.on_message(flow, rx.from, if begun { opened } else { delivered }, begun);
        }
        placement
    }

    /// Handles a segment of a flow that is not proven: it may take no more than the share of such
    /// flows.
    #[cold]
    fn look_at(&mut self, flow: FlowId, (rx, data): (&RxSegment, &Data)) -> Result<(), DropReason> {
        let timed = self.rx_flows.get(flow).ok_or(DropReason::UnknownFlow)?;
        timed.flow.check((rx, data))?;
        let looked = self.look_at_proof(flow, rx);
        if looked.is_err()
            && let Some(timed) = self.rx_flows.get_mut(flow)
            && timed.timer.is_none()
        {
            // A flow without a timer is never forgotten.
            rearm(&mut self.wheel, &mut timed.timer, Some(rx.at + self.linger), DueTimer::Rx(flow));
        }
        looked
    }

    /// A segment was accepted: its flow's half of the controller sees it, and its acknowledgement,
    /// if there is one already, echoes its telemetry.
    #[cold]
    fn on_arrival(
        &mut self,
        rx: &RxSegment,
        data: &Data,
        extensions: Extensions<'_>,
        placement: &Placement,
    ) {
        let flow = self.known_flow(rx, data).map(|flow| flow.id);
        let (Some(halves), Some(flow)) = (&mut self.halves, flow) else { return };
        let is_new = *placement != Placement::Release;
        let bytes = Bytes(if is_new { rx.payload_len.into() } else { 0 });
        let (at, psn, ce, trimmed) = (rx.at, data.psn, rx.ce, rx.trimmed);
        let sharers = self.receiving;
        let arrival = rc::SegmentArrival { at, psn, bytes, ce, trimmed, sharers, extensions };
        let refusal = halves.on_segment(flow, data.sent_at, &arrival);
        self.stats.refuse(refusal);
        self.acks.echo(flow, halves);
    }

    /// The flow that a packet from its sender belongs to: by its id, or by the sender's name for
    /// it while the flow opens.
    pub(super) fn rx_flow_of(
        &mut self,
        rx: &RxSegment,
        src_flow: Option<FlowId>,
    ) -> Result<FlowId, DropReason> {
        if rx.hdr.dst_flow != FlowId::UNKNOWN {
            return Ok(rx.hdr.dst_flow);
        }
        let src_flow = src_flow.ok_or(DropReason::UnknownFlow)?;
        let sender = (rx.from, src_flow, rx.hdr.key);
        if let Some(&flow) = self.rx_by_sender.get(&sender) {
            return Ok(flow);
        }
        if self.must_prove() {
            self.ask_for_proof(sender, (rx.hdr.ev, rx.at));
            return Err(DropReason::Unproven);
        }
        self.new_flow(sender, (rx.hdr.ev, rx.at))
    }

    /// A place for a flow that was not known, of which a packet with `ev` arrived at `now`.
    pub(super) fn new_flow(
        &mut self,
        sender: SenderFlow,
        (ev, now): (EntropyValue, Instant),
    ) -> Result<FlowId, DropReason> {
        if self.evicted.contains(&sender) {
            return Err(DropReason::NoBuffer);
        }
        if self.rx_flows.is_full() {
            self.evict();
        }
        let (from, src_flow, key) = sender;
        let new = |id| Timed { flow: RxFlow::new(id, from, (src_flow, key)), timer: None };
        let Some(id) = self.rx_flows.insert_with(new) else {
            self.refuse(sender, (ev, now));
            return Err(DropReason::TableFull);
        };
        self.proofs.on_new(id);
        self.rx_by_sender.insert(sender, id);
        Ok(id)
    }

    /// Acknowledgements that may leave.
    pub(super) fn transmit_acks(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        if self.granted {
            self.transmit_granted(now, tx);
        }
        while tx.room() > 0 {
            let Some(answer) = self.acks.pop() else { return };
            let (Answer::Segment(flow, _)
            | Answer::Report(flow, ..)
            | Answer::Block(OpenBlock { flow, .. })) = answer
            else {
                if let Answer::Presence(notice) = &answer {
                    self.transmit_presence(notice, now, tx);
                }
                continue;
            };
            // The flow may have been forgotten meanwhile; then its sender has forgotten it, too.
            let Some(timed) = self.rx_flows.get(flow) else {
                self.acks.echoed(&answer);
                continue;
            };
            let buffers = &self.rx_buffers;
            // Written where it stays: a copy of what was just written is slow to read.
            let TxSegment { hdr, payload, peer } = tx.place();
            match &answer {
                Answer::Segment(_, ack) => {
                    *hdr = timed.flow.header(ack, now, self.receiving, buffers);
                }
                Answer::Report(_, first, ev) => *hdr = timed.flow.report(*first, *ev, buffers),
                Answer::Block(block) => match timed.flow.block_header(block, buffers) {
                    Some(asked) => *hdr = asked,
                    None => continue,
                },
                Answer::Presence(_) => continue,
            }
            (*payload, *peer) = (PayloadRef::default(), timed.flow.from);
            // Before the scheduler is asked: the packet is as long as what it carries.
            let echo = match &mut self.halves {
                Some(halves) => extend((&answer, &mut self.acks), now, halves, tx),
                None => None,
            };
            let hdr = &tx.place().hdr;
            if self.paced && !self.sched.may_acknowledge(self.config.wire_sizes().of(hdr, 0), now) {
                return self.acks.put_back(answer, echo);
            }
            match hdr.body {
                Body::Nack(_) => self.stats.nacks_sent += 1,
                Body::BlockNack(_) => self.stats.block_nacks_sent += 1,
                _ => self.stats.acks_sent += 1,
            }
            tx.commit();
        }
    }

    /// Acknowledgements of flows that the scheduler names, each with a report where the
    /// acknowledgement alone says too little.
    #[cold]
    fn transmit_granted(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        let until = now + self.ahead.kept;
        // Bounded: each round fills a place or takes a grant of the scheduler's.
        while tx.room() > 0 {
            if let Some((segment, leaves)) = self.granted_next.take() {
                push(segment, self.halves.as_deref_mut(), (leaves, now), tx);
                continue;
            }
            let Some(Granted { flow, ev, at }) = self.sched.next_granted(now, until) else {
                return;
            };
            let Some(timed) = self.rx_flows.get_mut(flow) else { continue };
            let peer = timed.flow.from;
            let Some(waiting) = timed.flow.pending(&self.rx_buffers) else { continue };
            let leaves = at.unwrap_or(now).max(now);
            let mut ack = timed.flow.header(&waiting.ack, leaves, self.receiving, &self.rx_buffers);
            ack.ev = ev.unwrap_or(ack.ev);
            let report = waiting.report.map(|at| timed.flow.report(at, ack.ev, &self.rx_buffers));
            timed.flow.take_pending(&mut self.rx_buffers);
            match ack.body {
                Body::Nack(_) => self.stats.nacks_sent += 1,
                _ => self.stats.acks_sent += 1,
            }
            let segment = |hdr| TxSegment { hdr, payload: PayloadRef::default(), peer };
            let Some(report) = report else {
                push(segment(ack), self.halves.as_deref_mut(), (leaves, now), tx);
                continue;
            };
            self.stats.acks_sent += 1;
            push(segment(report), self.halves.as_deref_mut(), (leaves, now), tx);
            self.granted_next = Some((segment(ack), leaves));
        }
    }

    /// Gives up an incoming flow; its messages that are not whole are aborted.
    pub(super) fn forget(&mut self, flow: FlowId) {
        self.sched.on_forgotten(flow);
        if let Some(halves) = &mut self.halves {
            halves.end(flow);
        }
        let Some(Timed { flow, .. }) = self.rx_flows.remove(flow) else { return };
        self.proofs.on_forgotten(flow.id, flow.from);
        self.receiving = self.receiving.saturating_sub(u16::from(flow.is_receiving()));
        self.rx_by_sender.remove(&(flow.from, flow.src_flow, flow.key));
        let from = flow.from;
        flow.end(&mut self.rx_buffers, |msg| {
            if self.rx_msgs.remove(msg).is_some() {
                self.events.push_back(Event::Aborted { msg, from });
            }
        });
    }
}

/// Lets a granted answer leave at `leaves`, which may be `now`, with the content that it has at
/// that time.
fn push(
    mut segment: TxSegment,
    halves: Option<&mut Halves>,
    (leaves, now): (Instant, Instant),
    tx: &mut Burst<TxSegment>,
) {
    if let (Some(halves), Body::Ack(ack) | Body::Nack(ack)) = (halves, &segment.hdr.body) {
        let echo = halves.echo(ack.src_flow, (ack.psn, ack.echo_sent_at));
        segment.hdr.ext = halves.answer(ack.src_flow, leaves, echo, tx.place_ext());
    }
    if leaves > now { tx.push_at(segment, leaves) } else { tx.push(segment) }
}

/// Writes the extensions of the answer that was taken from `acks` last, which leaves at `now`, for
/// the next place of `tx`, and names them in the header there. Returns the telemetry that the
/// answer echoes.
#[cold]
fn extend(
    (answer, acks): (&Answer, &mut AckQueue),
    now: Instant,
    halves: &mut Halves,
    tx: &mut Burst<TxSegment>,
) -> Option<Int> {
    let echo = acks.echoed(answer);
    if let Answer::Segment(flow, _) = answer {
        tx.place().hdr.ext = halves.answer(*flow, now, echo, tx.place_ext());
    }
    echo
}
