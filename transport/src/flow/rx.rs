//! The receiving half of a flow: duplicates, placement, and what to tell the sender.

use core::num::NonZeroU32;

use super::reassembly::{MsgState, MsgWindow, RxMsg};
use super::received::{Arrival, ReceivedPsns};
use crate::config::Config;
use crate::segment::{Placement, RxSegment};
use crate::slab::Slab;
use crate::stats::DropReason;
use crate::time::{Duration, Instant};
use crate::units::{EntropyValue, FlowId, HostId, MsgId, Psn};
use crate::wire::{Ack, Body, Data, Header};

/// The large parts of a receiving flow; pooled, so that an opening flow allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct RxBuffers {
    received: ReceivedPsns,
    msgs: MsgWindow,
}

impl RxBuffers {
    /// Buffers for one flow.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            received: ReceivedPsns::new(config.psn_window),
            msgs: MsgWindow::new(config.msg_window),
        }
    }

    /// As new.
    pub(crate) fn reset(&mut self) {
        self.received.reset();
        self.msgs.reset();
    }
}

/// The receiving half of one flow.
#[derive(Clone, Debug)]
pub(crate) struct RxFlow {
    /// This flow here.
    pub(crate) id: FlowId,
    /// Who sends.
    pub(crate) from: HostId,
    /// The flow there.
    pub(crate) src_flow: FlowId,
    pub(crate) buffers: RxBuffers,
    /// When a segment last arrived.
    pub(crate) heard_at: Instant,
    /// The newest segment not yet acknowledged, and how many there are.
    pending: Option<(PendingAck, u16)>,
    /// Messages that are open.
    open_msgs: u16,
}

/// What an acknowledgement says of the segment that causes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingAck {
    pub(crate) psn: Psn,
    pub(crate) at: Instant,
    sent_at: u32,
    ev: EntropyValue,
    ce: bool,
    duplicate: bool,
    trimmed: bool,
}

impl PendingAck {
    /// True when the segment had arrived before.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.duplicate
    }
}

/// What [`RxFlow::on_data`] made of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    pub(crate) placement: Placement,
    /// Acknowledgements to send now: at most two, when a change of PSN word flushes an older one.
    pub(crate) acks: [Option<PendingAck>; 2],
    /// The message that this segment completed.
    pub(crate) completed: Option<MsgId>,
}

impl Received {
    fn just(ack: PendingAck) -> Self {
        Self { placement: Placement::Release, acks: [Some(ack), None], completed: None }
    }
}

impl RxFlow {
    /// A flow of which nothing has been received. `buffers` are as new.
    pub(crate) fn new(id: FlowId, from: HostId, src_flow: FlowId, buffers: RxBuffers) -> Self {
        Self { id, from, src_flow, buffers, heard_at: Instant::ZERO, pending: None, open_msgs: 0 }
    }

    /// A DATA segment arrived.
    pub(crate) fn on_data(
        &mut self,
        rx: &RxSegment,
        data: &Data,
        config: &Config,
        msgs: &mut Slab<MsgId, RxMsg>,
    ) -> Result<Received, DropReason> {
        self.heard_at = rx.at;
        let mut ack = PendingAck {
            psn: data.psn,
            at: rx.at,
            sent_at: data.sent_at,
            ev: rx.hdr.ev,
            ce: rx.ce,
            duplicate: false,
            trimmed: rx.trimmed,
        };
        if self.buffers.received.contains(data.psn) {
            ack.duplicate = true;
            ack.trimmed = false;
            return Ok(Received::just(ack));
        }
        let (id, msg) = self.message(rx, data, msgs)?;
        if rx.trimmed {
            return Ok(Received::just(ack));
        }
        let end = u64::from(data.offset) + u64::from(rx.payload_len);
        let room = msg.len - msg.received;
        if end > u64::from(msg.len) || rx.payload_len == 0 || u32::from(rx.payload_len) > room {
            return Err(DropReason::BadSegment);
        }
        if self.buffers.received.insert(data.psn) == Arrival::OutOfWindow {
            return Err(DropReason::PsnOutOfWindow);
        }
        msg.received += u32::from(rx.payload_len);
        if data.tag != 0 {
            msg.tag = data.tag;
        }
        let placement = Placement::Place { msg: id, offset: data.offset, msg_len: msg.len };
        let whole = msg.received == msg.len;
        if whole {
            self.buffers.msgs.finish(data.msg);
            self.open_msgs -= 1;
        }
        let acks = self.acknowledge(ack, whole || data.retransmission, config);
        Ok(Received { placement, acks, completed: whole.then_some(id) })
    }

    /// The length of the message that `data` would be the first to bring bytes of.
    pub(crate) fn would_open(&self, data: &Data, msgs: &Slab<MsgId, RxMsg>) -> Option<NonZeroU32> {
        match self.buffers.msgs.state(data.msg) {
            // Beyond the window now, but segments before it in the same burst may move that.
            None | Some(MsgState::Unseen) => data.open.map(|open| open.msg_len),
            Some(MsgState::Open(id)) => {
                let untouched = msgs.get(id).filter(|msg| msg.received == 0)?;
                NonZeroU32::new(untouched.len)
            }
            Some(MsgState::Done) => None,
        }
    }

    /// The message that `data` belongs to, opened when this is its first segment.
    fn message<'m>(
        &mut self,
        rx: &RxSegment,
        data: &Data,
        msgs: &'m mut Slab<MsgId, RxMsg>,
    ) -> Result<(MsgId, &'m mut RxMsg), DropReason> {
        let id = match self.buffers.msgs.state(data.msg) {
            Some(MsgState::Open(id)) => id,
            // A segment of a finished message that was never received: no sender does that.
            Some(MsgState::Done) | None => return Err(DropReason::BadSegment),
            Some(MsgState::Unseen) => {
                let open = data.open.ok_or(DropReason::UnknownFlow)?;
                let len = open.msg_len.get();
                let msg = RxMsg { flow: self.id, from: rx.from, len, received: 0, tag: 0 };
                let id = msgs.insert(msg).ok_or(DropReason::TableFull)?;
                self.buffers.msgs.open(data.msg, id);
                self.open_msgs += 1;
                id
            }
        };
        let msg = msgs.get_mut(id).ok_or(DropReason::BadSegment)?;
        if data.open.is_some_and(|open| open.msg_len.get() != msg.len) {
            return Err(DropReason::BadSegment);
        }
        Ok((id, msg))
    }

    /// Decides which acknowledgements leave now. An ACK reports one 64-PSN word, so pending news of
    /// another word leaves first.
    fn acknowledge(
        &mut self,
        ack: PendingAck,
        at_once: bool,
        config: &Config,
    ) -> [Option<PendingAck>; 2] {
        let pending = self.pending.take();
        let other_word = pending.filter(|(p, _)| p.psn.0 / 64 != ack.psn.0 / 64).map(|(p, _)| p);
        let waiting = if other_word.is_some() { 0 } else { pending.map_or(0, |(_, n)| n) };
        if at_once || ack.ce || waiting + 1 >= config.ack_every {
            return [other_word, Some(ack)];
        }
        self.pending = Some((ack, waiting + 1));
        [other_word, None]
    }

    /// True while a message of this flow is on its way.
    pub(crate) fn is_receiving(&self) -> bool {
        self.open_msgs > 0
    }

    /// How long a segment may wait for others to be acknowledged with it.
    pub(crate) fn ack_delay(config: &Config) -> Duration {
        config.base_rtt / 4
    }

    /// When [`RxFlow::take_pending`] is due.
    pub(crate) fn ack_due(&self, config: &Config) -> Option<Instant> {
        self.pending.map(|(ack, _)| ack.at + Self::ack_delay(config))
    }

    /// The acknowledgement that has waited long enough.
    pub(crate) fn take_pending(&mut self) -> Option<PendingAck> {
        self.pending.take().map(|(ack, _)| ack)
    }

    /// The packet that says it, at the moment it leaves.
    pub(crate) fn header(&self, ack: &PendingAck, now: Instant, sharers: u16) -> Header {
        let body = Ack {
            src_flow: self.id,
            psn: ack.psn,
            cumulative: self.buffers.received.cumulative(),
            sack: self.buffers.received.word_of(ack.psn),
            echo_sent_at: ack.sent_at,
            held: now.since(ack.at).to_wire(),
            sharers,
            ce: ack.ce,
            duplicate: ack.duplicate,
        };
        let body = if ack.trimmed { Body::Nack(body) } else { Body::Ack(body) };
        Header { ev: ack.ev, dst_flow: self.src_flow, body }
    }

    /// The messages that end with this flow.
    pub(crate) fn open_messages(&self) -> impl Iterator<Item = MsgId> {
        self.buffers.msgs.open_messages()
    }
}
