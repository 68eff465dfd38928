//! How a flow makes its segments: lost ones first, then new ones.

use super::super::ahead::{Leave, MaybeChoice};
use super::super::sent_packets::{ChainLinks, Fate, Marks, SentPacket};
use super::blocks::code_marks;
use super::{TxContext, TxFlow, TxMsg, Wait};
use crate::config::Config;
use crate::ec::ErasureCode as _;
use crate::lb::LoadBalancer as _;
use crate::sched::Choice;
use crate::segment::{Coding, PayloadRef, TxSegment};
use crate::time::Instant;
use crate::units::{Bytes, EntropyValue, FlowId, MsgId, MsgNo, Psn};
use crate::wire::{Body, Coded, Data, Header, Open, data};

impl TxFlow {
    /// Makes the next segment in `out`, or returns why there is none.
    #[inline]
    pub(crate) fn poll_segment(
        &mut self,
        leave: Leave,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        let sent = self.try_segment(leave, cx, out);
        self.wait = sent.err();
        sent
    }

    /// Makes the segment of a turn for which the scheduler has chosen path, instant or kind, as
    /// [`TxFlow::poll_segment`] does.
    pub(crate) fn poll_chosen(
        &mut self,
        leave: Leave,
        choice: Choice,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        self.steered |= choice.ev.is_some();
        let leave = leave.with(choice);
        let sent = if choice.copy {
            self.send_copy(leave, cx, out)
        } else {
            self.try_segment(leave, cx, out)
        };
        self.wait = sent.err();
        sent
    }

    /// Sends a copy outside of the window: of the next segment that was never sent, or of one that
    /// has left only as copies. The segment itself is still sent in its turn.
    #[cold]
    fn send_copy(
        &mut self,
        leave: Leave<impl MaybeChoice>,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        if self.failed {
            return Err(Wait::Failed);
        }
        if self.code.is_some() {
            return Err(Wait::Scheduler);
        }
        let now = leave.at(leave.now).unwrap_or(leave.now);
        if self.unsent > 0 || !leave.choice.again() {
            return self.send_new(leave, now, Marks::COPY, cx, out);
        }
        let (psn, mut packet) = self.recovery.oldest_copy().ok_or(Wait::Application)?;
        let carried = cx.msgs.get(packet.msg).map_or_else(Carried::default, |state| {
            self.carried(cx.config, state, packet.offset, packet.marks)
        });
        (packet.ev, packet.sent_at) = (self.path_of(leave, now), now);
        self.recovery.on_copied_again(psn, &packet);
        cx.stats.copies += 1;
        self.segment(psn, &packet, &carried, out);
        Ok(())
    }

    /// Sends the segment that waits behind `skip` others. Segments that are passed over for it and
    /// were never sent wait for their turns from now on.
    #[inline(never)]
    fn send_nth(
        &mut self,
        skip: u16,
        leave: Leave<impl MaybeChoice>,
        now: Instant,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        match self.recovery.nth_waiting(skip.into(), self.unsent_segments) {
            Ok(psn) => {
                let packet = psn.and_then(|psn| Some((psn, *self.recovery.entry(psn)?)));
                let Some((psn, packet)) = packet else {
                    let first = skip == 0;
                    let none = Err(Wait::Acknowledgement);
                    return if first { none } else { self.send_nth(0, leave, now, cx, out) };
                };
                self.resend(psn, packet, leave, now, cx, out)
            }
            Err(before) => {
                let sent = self.send_behind(before, leave, now, cx, out);
                // A window that is full of segments that wait has room once one has had its turn.
                let first = self.recovery.next_lost().map(|(psn, &packet)| (psn, packet));
                match (sent, first) {
                    (Err(_), Some((psn, packet))) => self.resend(psn, packet, leave, now, cx, out),
                    (sent, _) => sent,
                }
            }
        }
    }

    /// Sends the segment behind the first `before` of those that were never sent.
    fn send_behind(
        &mut self,
        before: usize,
        leave: Leave<impl MaybeChoice>,
        now: Instant,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        for _ in 0..before {
            self.send_new(leave, now, Marks::PASSED_OVER, cx, out)?;
        }
        self.send_new(leave, now, Marks::default(), cx, out)
    }

    #[inline]
    fn try_segment(
        &mut self,
        leave: Leave<impl MaybeChoice>,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        if self.failed {
            return Err(Wait::Failed);
        }
        // From here on `now` is the segment's departure.
        let now = match self.window.pacing {
            Some(_) => leave.at(self.pacer.next_at()).ok_or(Wait::Pacing)?,
            None => leave.at(leave.now).unwrap_or(leave.now),
        };
        if self.held_until > leave.now {
            return Err(Wait::Refusals);
        }
        if let Some(skip) = leave.choice.nth().filter(|_| self.code.is_none()) {
            return self.send_nth(skip, leave, now, cx, out);
        }
        while let Some((psn, &packet)) = self.recovery.next_lost() {
            // Each turn ends the loop or takes a block off the queue.
            if self.code.is_none() || !self.settle(psn, &packet, cx) {
                return self.resend(psn, packet, leave, now, cx, out);
            }
        }
        if self.parity.left > 0 {
            return self.send_parity(leave, now, cx, out);
        }
        self.send_new(leave, now, Marks::default(), cx, out)
    }

    fn resend(
        &mut self,
        psn: Psn,
        mut packet: SentPacket,
        leave: Leave<impl MaybeChoice>,
        now: Instant,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        let carried = cx.msgs.get(packet.msg).map_or_else(Carried::default, |state| {
            self.carried(cx.config, state, packet.offset, packet.marks)
        });
        let segments = segments_of(packet.payload_len, cx.config);
        // A turn without a choice has room for any train: no other turn may ever come.
        if leave.choice.train().is_some_and(|most| segments > most) {
            return Err(Wait::Scheduler);
        }
        packet.wire_len =
            self.overhead * segments + carried.wire_len(cx.config, packet.payload_len);
        self.fits(packet.wire_len)?;
        packet.ev = self.path_of(leave, now);
        packet.sent_at = now;
        packet.fate = Fate::InFlight;
        let first_turn = packet.marks.awaits_turn();
        packet.marks = packet.marks.again();
        let (probe, pacer) = (self.recovery.on_resent(psn, packet), self.pacer);
        if first_turn {
            cx.stats.data_new += 1;
            cx.stats.data_new_bytes += u64::from(packet.payload_len);
        } else {
            cx.stats.retransmitted += 1;
        }
        self.segment(psn, &packet, &carried, out);
        mark_train(segments, out);
        if probe {
            cx.stats.probes += 1;
            // A probe puts off no other segment.
            self.pacer = pacer;
        }
        Ok(())
    }

    #[inline]
    fn send_new(
        &mut self,
        leave: Leave<impl MaybeChoice>,
        now: Instant,
        marks: Marks,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        if self.unsent == 0 {
            let waiting = !self.unfinished.is_empty();
            return Err(if waiting { Wait::Acknowledgement } else { Wait::Application });
        }
        // A segment is sent only with room for the parity of its block, too.
        let parity = self.code.as_ref().map_or(0, |code| usize::from(code.shape().parity()));
        if self.recovery.room() <= parity {
            return Err(Wait::PsnWindow);
        }
        let ahead = self.unfinished.len() - self.unsent as usize;
        if ahead >= usize::from(cx.config.msg_window) {
            return Err(Wait::MsgWindow);
        }
        let msg = self.unfinished.get(ahead).copied().unwrap_or_default();
        let Some(state) = cx.msgs.get_mut(msg) else { return Err(Wait::Application) };
        let (offset, left) = (state.next_offset, state.len.get() - state.next_offset);
        let marks = match &self.code {
            None => marks,
            Some(code) => {
                let leaves = (now, self.window.cwnd);
                code_marks((code, &mut self.watch), state, leaves, cx.config, cx.losses)
            }
        };
        let train = leave.choice.train().filter(|_| self.code.is_none());
        let payload_max = cx.config.payload_max.saturating_mul(train.unwrap_or(1));
        let payload_len = u16::try_from(left).unwrap_or(u16::MAX).min(payload_max);
        // Where no turn can be for a train this is a constant.
        let segments = if train.is_some() { segments_of(payload_len, cx.config) } else { 1 };
        let new = New { msg, offset, payload_len, segments, marks };
        self.send(&new, state, (leave, now), cx.config, out)?;
        state.next_offset += u32::from(payload_len);
        let last = left == u32::from(payload_len);
        if self.code.is_some() {
            self.owe_parity((state.len.get(), offset, last), now, cx);
        }
        self.unsent -= u32::from(last && self.parity.left == 0);
        if marks.awaits_turn() {
            cx.stats.copies += u64::from(marks == Marks::COPY);
        } else {
            cx.stats.data_new += 1;
            cx.stats.data_new_bytes += u64::from(payload_len);
        }
        Ok(())
    }

    /// The path of the next packet: the scheduler's choice, else the balancer's.
    #[inline(always)]
    fn path_of(&mut self, leave: Leave<impl MaybeChoice>, now: Instant) -> EntropyValue {
        match leave.choice.ev() {
            Some(ev) => ev,
            None => self.lb.next_ev(now, &mut self.rng),
        }
    }

    /// Sends a packet for the first time, if the window lets it.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        new: &New,
        state: &TxMsg,
        (leave, now): (Leave<impl MaybeChoice>, Instant),
        config: &Config,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        let New { msg, offset, payload_len, segments, marks } = *new;
        let carried = self.carried(config, state, offset, marks);
        let wire_len = self.overhead * segments + carried.wire_len(config, payload_len);
        let waits = marks.awaits_turn();
        if !waits {
            self.fits(wire_len)?;
        }
        let packet = SentPacket {
            sent_at: now,
            msg,
            offset,
            wire_len,
            payload_len,
            ev: self.path_of(leave, now),
            fate: Fate::InFlight,
            marks,
            links: ChainLinks::default(),
        };
        let psn =
            if waits { self.recovery.on_waiting(packet) } else { self.recovery.on_sent(packet) };
        self.unsent_segments -= u64::from(segments);
        self.unsent_bytes -= Bytes(u64::from(self.coded_overhead * segments + payload_len));
        self.segment(psn, &packet, &carried, out);
        mark_train(segments, out);
        Ok(())
    }

    /// One packet may always be in flight, or a window below one packet would stop the flow.
    fn fits(&self, wire_len: u16) -> Result<(), Wait> {
        let in_flight = self.recovery.in_flight();
        let after = in_flight + Bytes(u64::from(wire_len));
        if in_flight == Bytes::ZERO || after <= self.cwnd() {
            return Ok(());
        }
        Err(self.full())
    }

    /// Writes the segment of `packet` to the place where it stays.
    #[inline]
    fn segment(&mut self, psn: Psn, packet: &SentPacket, carried: &Carried, out: &mut TxSegment) {
        if let Some(rate) = self.window.pacing
            && !packet.marks.awaits_turn()
        {
            self.pacer.on_sent(packet.sent_at, packet.wire_bytes(), rate);
        }
        let body = Body::Data(Data {
            psn,
            msg: carried.no,
            offset: packet.offset,
            sent_at: packet.sent_at.to_wire(),
            retransmission: packet.marks.repeats(),
            open: carried.open,
            tag: carried.tag,
            demand: None,
            code: carried.code,
        });
        let plain = if packet.marks == Marks::COPY { Coding::Copy } else { Coding::Data };
        let coding = carried.code.map_or(plain, |code| match packet.marks.parity_index() {
            Some(parity) => Coding::Parity(parity),
            None if packet.marks.resent() => Coding::Data,
            None => Coding::Block(code.packet()),
        });
        *out = TxSegment {
            hdr: Header::new(packet.ev, self.dst_flow, body)
                .keyed(self.key)
                .extended(self.extended.extent),
            payload: PayloadRef {
                msg: packet.msg,
                offset: packet.offset,
                len: packet.payload_len,
                coding,
            },
            peer: self.peer,
        };
    }
}

/// A packet to be sent for the first time.
pub(super) struct New {
    pub(super) msg: MsgId,
    pub(super) offset: u32,
    pub(super) payload_len: u16,
    /// How many segments it is: more than one for a train.
    pub(super) segments: u16,
    pub(super) marks: Marks,
}

/// How many segments so much payload is.
#[inline(always)]
fn segments_of(payload_len: u16, config: &Config) -> u16 {
    if payload_len <= config.payload_max { 1 } else { payload_len.div_ceil(config.payload_max) }
}

/// Marks what is several segments as a train. [`Config::train_max`] keeps their number within 8
/// bits.
#[inline(always)]
fn mark_train(segments: u16, out: &mut TxSegment) {
    if segments > 1 {
        out.payload.coding = Coding::Train(u8::try_from(segments).unwrap_or(u8::MAX));
    }
}

/// Header fields of a segment beside the fixed ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) open: Option<Open>,
    pub(super) tag: u64,
    pub(super) no: MsgNo,
    pub(super) code: Option<Coded>,
}

impl Carried {
    /// The header fields of a segment at `offset` of a message of flow `src`.
    #[inline]
    pub(super) fn of(state: &TxMsg, offset: u32, src: FlowId, dst: FlowId) -> Self {
        let known = state.opened && dst != FlowId::UNKNOWN;
        let open = (!known).then_some(Open { src_flow: src, msg_len: state.len });
        let tag = if offset == 0 { state.tag } else { 0 };
        Self { open, tag, no: state.no, code: None }
    }

    /// Bytes on the wire of these fields and of `payload_len` bytes of payload.
    #[inline]
    fn wire_len(&self, config: &Config, payload_len: u16) -> u16 {
        if self.open.is_none() && self.tag == 0 && self.code.is_none() {
            return payload_len;
        }
        let extensions = if self.open.is_some() { data::OPEN_LEN } else { 0 }
            + if self.tag == 0 { 0 } else { data::TAG_LEN }
            + if self.code.is_some() { data::CODE_LEN } else { 0 };
        config.extensions(extensions) + payload_len
    }
}
