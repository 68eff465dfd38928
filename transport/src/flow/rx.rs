//! The receiving side of a flow: duplicates, placement, and answers to the sender.

use alloc::collections::VecDeque;
use core::num::NonZeroU32;

mod ack_queue;
mod blocks;
#[cfg(test)]
mod tests;

use super::notice::Notice;
use super::open_blocks::{OpenBlock, OpenBlocks};
use super::pending::{Pending, PendingAck, Waiting, word_of};
use super::reassembly::{MsgState, MsgWindow, RxMsg, open_messages};
use super::received::{Insertion, ReceivedPsns};
use super::rx_buffers::{Lease, RxBuffer, RxBuffers};
use crate::config::Config;
use crate::event::Event;
use crate::sched::AckMode;
use crate::segment::{Placement, Restore, RxSegment};
use crate::slab::Slab;
use crate::stats::{DropReason, Stats};
use crate::time::Instant;
use crate::units::{Bytes, EntropyValue, FlowId, HostId, Key, MsgId, Psn};
use crate::wire::{Ack, Body, Data, Header, Open, Receipt, Report};
pub(crate) use ack_queue::AckQueue;
use blocks::BlockPosition;

/// The receiving side of one flow: the state that is kept while nothing is on its way. The rest is
/// on loan from [`RxBuffers`].
#[derive(Clone, Debug)]
pub(crate) struct RxFlow {
    /// When a segment last arrived.
    pub(crate) received_at: Instant,
    /// The flow at this host.
    pub(crate) id: FlowId,
    /// The host that sends.
    pub(crate) from: HostId,
    /// The flow at the sender.
    pub(crate) src_flow: FlowId,
    /// The key that every packet of the flow carries.
    pub(crate) key: Key,
    received: ReceivedPsns,
    msgs: MsgWindow,
    /// The buffers that the flow has while a message is open or something has arrived out of order.
    lease: Lease,
}

// 40 octets and the key of the flow.
const _: () = assert!(size_of::<RxFlow>() <= 48);

/// Parts of the endpoint that a receiving flow borrows.
pub(crate) struct RxContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) msgs: &'a mut Slab<MsgId, RxMsg>,
    pub(crate) buffers: &'a mut RxBuffers,
    pub(crate) acks: &'a mut AckQueue,
    /// Incoming flows with a message that is open.
    pub(crate) receiving: &'a mut u16,
    pub(crate) stats: &'a mut Stats,
    pub(crate) events: &'a mut VecDeque<Event>,
    /// Blocks with packets missing.
    pub(crate) blocks: &'a mut OpenBlocks,
    /// Blocks to be restored.
    pub(crate) restores: &'a mut VecDeque<Restore>,
    /// Wire bytes to be sent again, for the segment arrived trimmed; zero before the call.
    pub(crate) missing: Bytes,
    /// Length of the message that the segment completed; 0 before the call and for none.
    pub(crate) delivered: u32,
}

/// An answer of a receiver to a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The acknowledgement or refusal of a segment, and its flow.
    Segment(FlowId, PendingAck),
    /// A report of the 256 PSNs from this one on, over this path.
    Report(FlowId, Psn, EntropyValue),
    /// A request for packets that a block lacks.
    Block(OpenBlock),
    /// A report of whether a flow exists. The flow is not here, unless its sender keeps it at its
    /// receiver.
    Presence(Notice),
}

const _: () = assert!(size_of::<Answer>() <= 32);

impl Answer {
    const fn has_echo(&self) -> bool {
        matches!(self, Self::Segment(_, PendingAck { echo: true, .. }))
    }
}

impl RxFlow {
    /// A flow of which nothing has been received.
    pub(crate) fn new(id: FlowId, from: HostId, (src_flow, key): (FlowId, Key)) -> Self {
        Self {
            received_at: Instant::ZERO,
            id,
            from,
            src_flow,
            key,
            received: ReceivedPsns::default(),
            msgs: MsgWindow::default(),
            lease: Lease::NONE,
        }
    }

    /// Whether a segment that names this flow is of it: from its host, with its key.
    #[inline]
    pub(crate) fn check(&self, (rx, data): (&RxSegment, &Data)) -> Result<(), DropReason> {
        let differs = |open: Open| open.src_flow != self.src_flow;
        if self.from != rx.from || data.open.is_some_and(differs) {
            return Err(DropReason::UnknownFlow);
        }
        if self.key == rx.hdr.key { Ok(()) } else { Err(DropReason::WrongKey) }
    }

    /// Takes in a DATA segment; returns where its bytes belong. A segment that begins a message is
    /// refused where `admit`, which is given the message's length, refuses it.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        (rx, data): (&RxSegment, &Data),
        cx: &mut RxContext<'_>,
        admit: impl FnOnce(u32) -> Result<(), DropReason>,
    ) -> Result<Placement, DropReason> {
        let is_hint = rx.trimmed && cx.config.sealed;
        if !is_hint {
            self.received_at = rx.at;
        }
        let mut ack = PendingAck {
            psn: data.psn,
            at: rx.at,
            sent_at: data.sent_at,
            ev: rx.hdr.ev,
            ce: rx.ce,
            trimmed: rx.trimmed,
            receipt: Receipt::First,
            echo: false,
        };
        if self.has_arrived(data.psn, cx.buffers) {
            // Parity of a block that is whole counts as arrived before it does.
            let unneeded = data.parity_index().is_some() && !data.retransmission;
            let decoded = self.is_whole(data, cx);
            ack.receipt = if decoded { Receipt::Decoded } else { Receipt::Again };
            // The sender uses the times of an acknowledgement.
            ack.trimmed = is_hint;
            cx.stats.parity_unneeded += u64::from(unneeded);
            cx.stats.duplicates += u64::from(!unneeded);
            cx.stats.trimmed += u64::from(rx.trimmed);
            self.answer(ack, cx);
            return Ok(Placement::Release);
        }
        if self.lease == Lease::NONE {
            self.lease = cx.buffers.lend().ok_or(DropReason::TableFull)?;
        }
        let was_receiving = self.is_receiving();
        let placed = self.place((rx, data), ack, cx, admit);
        let is_receiving = self.is_receiving();
        if was_receiving != is_receiving {
            let fewer = cx.receiving.saturating_sub(1);
            *cx.receiving = if is_receiving { cx.receiving.saturating_add(1) } else { fewer };
        }
        if !is_receiving {
            self.end_lease(cx.buffers);
        }
        placed
    }

    /// A segment that has not arrived before, with buffers on loan.
    #[inline]
    fn place(
        &mut self,
        (rx, data): (&RxSegment, &Data),
        mut ack: PendingAck,
        cx: &mut RxContext<'_>,
        admit: impl FnOnce(u32) -> Result<(), DropReason>,
    ) -> Result<Placement, DropReason> {
        let Some(buffer) = cx.buffers.get(self.lease) else { return Err(DropReason::TableFull) };
        let (id, msg) = self.message((rx, data), buffer.ring, cx.msgs, admit)?;
        let place = BlockPosition::claimed(data, msg.len, cx.config)?;
        if rx.trimmed {
            let payload = msg.len.saturating_sub(data.offset).min(cx.config.payload_max.into());
            let overhead = cx.config.segment_overhead() + cx.config.ext_beside(rx.hdr.ext);
            cx.missing = Bytes(u64::from(payload) + u64::from(overhead));
            cx.stats.trimmed += 1;
            self.answer(ack, cx);
            return Ok(Placement::Release);
        }
        let end = u64::from(data.offset) + u64::from(rx.payload_len);
        let own = if data.parity_index().is_some() { 0 } else { u32::from(rx.payload_len) };
        let room = msg.len - msg.received;
        let odd = place.as_ref().is_some_and(|place| place.payload_len != rx.payload_len);
        if end > u64::from(msg.len) || rx.payload_len == 0 || own > room || odd {
            return Err(DropReason::BadSegment);
        }
        let overtaken = self.received.is_overtaken(buffer.words, data.psn);
        if self.received.insert(buffer.words, data.psn) == Insertion::OutOfWindow {
            return Err(DropReason::PsnOutOfWindow);
        }
        cx.stats.reordered += u64::from(overtaken);
        msg.received += own;
        msg.kept = true;
        if data.tag != 0 {
            msg.tag = data.tag;
        }
        let msg_len = msg.len;
        let gain = place.map(|place| place.after(&mut self.received, buffer.words, cx.config));
        if let Some(gain) = gain.as_ref().filter(|gain| gain.whole) {
            ack.receipt = Receipt::Decoded;
            // A sender that contradicts itself may send more bytes than are missing.
            msg.received += gain.bytes.min(msg_len - msg.received);
        }
        let whole = msg.received == msg_len;
        if whole {
            self.msgs.finish(buffer.ring, data.msg);
        }
        if cx.config.ack_every == 1 {
            cx.acks.push(self.id, ack, cx.stats);
        } else {
            let restored = gain.as_ref().is_some_and(|gain| gain.segments > 0);
            let at_once = whole || data.retransmission || restored;
            acknowledge(ack, at_once, buffer.pending, cx.config, |answer| {
                cx.acks.answer(answer.on(self.id, ack.ev), cx.stats);
            });
        }
        cx.stats.data_placed_bytes += u64::from(own);
        if let Some(gain) = gain {
            self.note(&gain, id, rx, cx);
        }
        if whole {
            self.deliver(id, cx);
        }
        let (msg, offset) = (id, data.offset);
        if let Some(index) = data.parity_index() {
            cx.stats.parity_kept += 1;
            return Ok(Placement::Parity { msg, offset, msg_len, index });
        }
        cx.stats.data_placed += 1;
        Ok(Placement::Place { msg, offset, msg_len })
    }

    /// Acknowledges a segment that brought nothing new: at once, or when it is granted.
    fn answer(&mut self, ack: PendingAck, cx: &mut RxContext<'_>) {
        match cx.config.ack_mode() {
            AckMode::Granted => {}
            AckMode::Reported => return,
            _ => return cx.acks.push(self.id, ack, cx.stats),
        }
        if self.lease == Lease::NONE
            && let Some(lease) = cx.buffers.lend()
        {
            self.lease = lease;
        }
        // Without a buffer the segment is not answered, as if it had been lost.
        if let Some(buffer) = cx.buffers.get(self.lease) {
            acknowledge(ack, false, buffer.pending, cx.config, |_| ());
        }
    }

    fn deliver(&self, id: MsgId, cx: &mut RxContext<'_>) {
        if let Some(RxMsg { from, len, tag, .. }) = cx.msgs.remove(id) {
            cx.stats.messages_delivered += 1;
            cx.delivered = len;
            cx.events.push_back(Event::Delivered { msg: id, from, len, tag });
        }
    }

    /// Gives the buffers back once their contents follow from the flow's own state.
    fn end_lease(&mut self, buffers: &mut RxBuffers) {
        if !self.msgs.is_vacant() || !self.received.is_gapless() {
            return;
        }
        let Some(buffer) = buffers.get(self.lease) else { return };
        if buffer.pending.is_none() {
            self.received.wipe(buffer.words);
            buffers.take_back(self.lease);
            self.lease = Lease::NONE;
        }
    }

    /// The length of the message that `data` would be the first to bring bytes of.
    pub(crate) fn would_open(
        &self,
        data: &Data,
        msgs: &Slab<MsgId, RxMsg>,
        buffers: &RxBuffers,
    ) -> Option<NonZeroU32> {
        match self.msgs.state(buffers.ring(self.lease), data.msg) {
            // The message is beyond the window now, but earlier segments of the burst may move the
            // window.
            None | Some(MsgState::Unseen) => data.open.map(|open| open.msg_len),
            Some(MsgState::Open(id)) => {
                let untouched = msgs.get(id).filter(|msg| !msg.kept)?;
                NonZeroU32::new(untouched.len)
            }
            Some(MsgState::Done) => None,
        }
    }

    /// Whether `data` would begin its message, whatever it brings of it.
    pub(crate) fn would_begin(&self, data: &Data, buffers: &RxBuffers) -> bool {
        // Without buffers nothing is known of any message that is not done.
        let state = self.msgs.state(buffers.ring(self.lease), data.msg);
        matches!(state, None | Some(MsgState::Unseen))
    }

    /// Whether the message of `data` has begun and is as long as `data` says.
    pub(crate) fn has_begun(
        &self,
        data: &Data,
        msgs: &Slab<MsgId, RxMsg>,
        buffers: &RxBuffers,
    ) -> bool {
        match self.msgs.state(buffers.ring(self.lease), data.msg) {
            None | Some(MsgState::Unseen) => false,
            Some(MsgState::Open(id)) => {
                let agrees =
                    |msg: &RxMsg| data.open.is_none_or(|open| open.msg_len.get() == msg.len);
                msgs.get(id).is_some_and(agrees)
            }
            Some(MsgState::Done) => true,
        }
    }

    /// The message that `data` belongs to, opened when this is its first segment.
    #[inline]
    fn message<'m>(
        &mut self,
        (rx, data): (&RxSegment, &Data),
        ring: &mut [MsgState],
        msgs: &'m mut Slab<MsgId, RxMsg>,
        admit: impl FnOnce(u32) -> Result<(), DropReason>,
    ) -> Result<(MsgId, &'m mut RxMsg), DropReason> {
        let id = match self.msgs.state(ring, data.msg) {
            Some(MsgState::Open(id)) => id,
            // A new segment of a finished message is a contradiction.
            Some(MsgState::Done) | None => return Err(DropReason::BadSegment),
            Some(MsgState::Unseen) => {
                let open = data.open.ok_or(DropReason::UnknownFlow)?;
                let len = open.msg_len.get();
                admit(len)?;
                let (flow, from) = (self.id, rx.from);
                let msg = RxMsg { flow, from, len, received: 0, kept: false, tag: 0 };
                let id = msgs.insert(msg).ok_or(DropReason::TableFull)?;
                self.msgs.open(ring, data.msg, id);
                id
            }
        };
        let msg = msgs.get_mut(id).ok_or(DropReason::BadSegment)?;
        if data.open.is_some_and(|open| open.msg_len.get() != msg.len) {
            return Err(DropReason::BadSegment);
        }
        Ok((id, msg))
    }

    /// True when the segment of `psn` has arrived, or is needed no more.
    #[inline]
    pub(crate) fn has_arrived(&self, psn: Psn, buffers: &RxBuffers) -> bool {
        self.received.contains(buffers.words(self.lease), psn)
    }

    /// True while a message of this flow is on its way.
    #[inline]
    pub(crate) fn is_receiving(&self) -> bool {
        self.msgs.has_open()
    }

    /// True when a message of this flow was delivered or given up.
    pub(crate) fn has_done(&self) -> bool {
        self.msgs.has_done()
    }

    /// True while every message and every PSN that began to arrive has arrived: nothing of the flow
    /// is kept but this value.
    pub(crate) fn is_whole_so_far(&self) -> bool {
        self.lease == Lease::NONE
    }

    /// When [`RxFlow::take_pending`] is due.
    #[inline]
    pub(crate) fn ack_due(&self, config: &Config, buffers: &RxBuffers) -> Option<Instant> {
        if config.ack_every == 1 || config.ack_mode() == AckMode::Granted {
            return None;
        }
        buffers.pending(self.lease).map(|waiting| waiting.since + config.ack_delay())
    }

    /// The segments that wait to be acknowledged.
    pub(crate) fn pending(&self, buffers: &RxBuffers) -> Option<Taken> {
        let waiting = buffers.pending(self.lease)?;
        Some(Taken { ack: waiting.ack, report: waiting.report() })
    }

    /// The acknowledgement that has waited long enough, or is granted.
    pub(crate) fn take_pending(&mut self, buffers: &mut RxBuffers) -> Option<Taken> {
        let taken = self.pending(buffers)?;
        if let Some(buffer) = buffers.get(self.lease) {
            *buffer.pending = None;
        }
        self.end_lease(buffers);
        Some(taken)
    }

    /// The path of the segment that an acknowledgement answers.
    pub(crate) const fn ev_of(ack: &PendingAck) -> EntropyValue {
        ack.ev
    }

    /// The header of the acknowledgement `ack`, at the moment it leaves.
    #[inline]
    pub(crate) fn header(
        &self,
        ack: &PendingAck,
        now: Instant,
        sharers: u16,
        buffers: &RxBuffers,
    ) -> Header {
        let body = Ack {
            src_flow: self.id,
            psn: ack.psn,
            cumulative: self.received.cumulative(),
            sack: self.received.word_of(buffers.words(self.lease), ack.psn),
            echo_sent_at: ack.sent_at,
            held: now.since(ack.at).to_wire(),
            sharers,
            ce: ack.ce,
            receipt: ack.receipt,
        };
        let body = if ack.trimmed { Body::Nack(body) } else { Body::Ack(body) };
        Header::new(ack.ev, self.src_flow, body).keyed(self.key)
    }

    /// The header of a report on the 256 PSNs from `first` on, a multiple of 64.
    pub(crate) fn report(&self, first: Psn, ev: EntropyValue, buffers: &RxBuffers) -> Header {
        let mut arrived = [0; 8];
        for (word, halves) in (0..).zip(arrived.chunks_exact_mut(2)) {
            let bits = self.received.word_of(buffers.words(self.lease), first.plus(word * 64));
            for (half, shift) in halves.iter_mut().zip([0, 32]) {
                *half = u32::try_from(bits >> shift & u64::from(u32::MAX)).unwrap_or(0);
            }
        }
        let body = Body::Report(Report { first, arrived });
        Header::new(ev, self.src_flow, body).keyed(self.key)
    }

    /// Ends a flow that is forgotten: gives its buffers back, and calls `aborted` for each message
    /// that was open.
    pub(crate) fn end(self, buffers: &mut RxBuffers, aborted: impl FnMut(MsgId)) {
        let Some(RxBuffer { words, ring, pending }) = buffers.get(self.lease) else { return };
        open_messages(ring).for_each(aborted);
        words.fill(0);
        ring.fill(MsgState::Unseen);
        // Only an acknowledgement that the scheduler never granted still waits.
        *pending = None;
        buffers.take_back(self.lease);
    }
}

/// An acknowledgement taken from those that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) ack: PendingAck,
    /// The first PSN of the report that goes with it; `None` when the acknowledgement is enough.
    pub(crate) report: Option<Psn>,
}

/// 64-PSN words that a report covers.
const REPORT_WORDS: u32 = 4;

/// The answers that [`acknowledge`] lets leave.
enum Leaving {
    Ack(PendingAck),
    /// A report of more PSNs than an ACK reports, from this one on.
    Report(Psn),
}

impl Leaving {
    /// The answer of `flow`, on the path `ev`.
    #[inline]
    fn on(self, flow: FlowId, ev: EntropyValue) -> Answer {
        match self {
            Self::Ack(ack) => Answer::Segment(flow, ack),
            Self::Report(first) => Answer::Report(flow, first, ev),
        }
    }
}

/// Decides which acknowledgements leave now. An ACK reports one 64-PSN word. So a pending
/// acknowledgement of another word leaves first. Where the scheduler decides how often segments are
/// acknowledged, a report of 256 PSNs covers both, and only an acknowledgement that does not fit
/// the report leaves first. Where acknowledgements are granted, one report goes with each, and a
/// later acknowledgement covers segments beyond it. Where the scheduler itself reports arrivals, no
/// acknowledgement leaves.
fn acknowledge(
    ack: PendingAck,
    at_once: bool,
    pending: &mut Pending,
    config: &Config,
    mut send: impl FnMut(Leaving),
) {
    let ack_mode = config.ack_mode();
    let mut waiting = Waiting::of(ack);
    if let Some(older) = pending.take() {
        let apart = match ack_mode {
            AckMode::Free => word_of(older.ack.psn) != word_of(ack.psn),
            AckMode::Every { .. } | AckMode::Paced { .. } => older.reach(ack.psn).1 > REPORT_WORDS,
            AckMode::Granted | AckMode::Reported => false,
        };
        if apart {
            leave(&older, &mut send);
        } else {
            waiting = older.with(ack);
        }
    }
    let due = at_once || ack.ce || waiting.count >= config.ack_every;
    match ack_mode {
        AckMode::Reported => return,
        AckMode::Granted => {}
        _ if due => return leave(&waiting, &mut send),
        _ => {}
    }
    *pending = Some(waiting);
}

/// Lets all that waits leave.
fn leave(waiting: &Waiting, send: &mut impl FnMut(Leaving)) {
    if let Some(first) = waiting.report() {
        send(Leaving::Report(first));
    }
    send(Leaving::Ack(waiting.ack));
}
