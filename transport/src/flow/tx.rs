//! The sending half of a flow: what to send next, and what acknowledgements say.
//!
//! It joins what the rest of the core keeps apart: messages to cut into segments, the window of the
//! controller, the paths of the balancer, and the fate of what was sent ([`super::recovery`]).

use alloc::collections::VecDeque;

mod blocks;

use super::ahead::{Ahead, Leave};
use super::pacer::Pacer;
use super::recovery::{Inference, Loss, Recovery, Timeout, earliest};
use super::round_trips::RoundTrips;
use super::sent_packets::{Fate, Links, Marks, SentPacket};
use crate::cc::{AckSample, Cc, CongestionControl as _, LossSample, Path, Window};
use crate::config::{Config, Policies};
use crate::ec::{Ec, ErasureCode as _};
use crate::event::{Event, FailReason};
use crate::lb::{Lb, LoadBalancer as _, PathFeedback};
use crate::rng::Rng;
use crate::sched::Backlog;
use crate::segment::{Coding, PayloadRef, RxSegment, TxSegment};
use crate::slab::Slab;
use crate::stats::Stats;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, FlowId, HostId, MsgId, MsgNo, Psn};
use crate::wire::{Ack, Body, Coded, Data, Header, Open, Receipt, data};
use blocks::ParityDue;

/// One message on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxMsg {
    /// Its number on the wire.
    pub(crate) no: MsgNo,
    /// Length, bytes, at least 1.
    pub(crate) len: core::num::NonZeroU32,
    /// First byte that has not been sent, 0..=len.
    pub(crate) next_offset: u32,
    /// Bytes acknowledged, 0..=len.
    pub(crate) acked: u32,
    /// The application's tag; 0 is none.
    pub(crate) tag: u64,
    /// The receiver has acknowledged a segment, so it knows the message.
    pub(crate) opened: bool,
}

/// What a flow that is not sending waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Nothing: the application has posted no more, and all is acknowledged.
    Application,
    /// Acknowledgements of what is in flight; there is nothing more to send.
    Acknowledgement,
    /// The congestion window to open.
    Window,
    /// The scheduler's leave: a peer's credit, for one.
    Scheduler,
    /// The pacer.
    Pacing,
    /// Time to make room, where the receiver refuses one segment again and again.
    Refusals,
    /// An old segment to be acknowledged: too many PSNs are outstanding.
    PsnWindow,
    /// An old message to be finished: too many are unfinished.
    MsgWindow,
    /// Nothing any more: the peer did not answer and the flow was given up.
    Failed,
}

/// What the rest of the endpoint lends a flow.
pub(crate) struct TxContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) msgs: &'a mut Slab<MsgId, TxMsg>,
    pub(crate) round_trips: &'a mut RoundTrips,
    pub(crate) stats: &'a mut Stats,
    pub(crate) events: &'a mut VecDeque<Event>,
}

/// The sending half of one flow.
#[derive(Clone, Debug)]
pub(crate) struct TxFlow {
    /// The cached answer of the controller.
    window: Window,
    pub(crate) id: FlowId,
    pub(crate) peer: HostId,
    dst_flow: FlowId,
    failed: bool,
    pub(crate) closing: bool,
    /// Why the last poll yielded nothing.
    wait: Option<Wait>,
    recovery: Recovery,
    cc: Cc,
    lb: Lb,
    rng: Rng,
    path: Path,
    pacer: Pacer,
    /// Messages started or waiting, of consecutive numbers; done ones are taken off the front.
    unfinished: VecDeque<MsgId>,
    /// The last so many of them have bytes that were never sent; the first of these is being sent.
    unsent: u32,
    next_msg: MsgNo,
    /// Segments of posted messages that were never sent.
    unsent_segments: u64,
    /// Their wire bytes, without extensions that only some have.
    unsent_bytes: Bytes,
    /// Wire bytes that the receiver has refused.
    refused: Bytes,
    /// How often in a row a segment that was in flight alone was sent again and refused again.
    refused_again: u8,
    /// Nothing is sent before: after such a refusal.
    held_until: Instant,
    /// The erasure code; `None` when its messages are sent as they are.
    code: Option<Ec>,
    /// Parity that belongs right behind the last segment sent.
    parity: ParityDue,
    /// What dead paths carry is not looked for again before this.
    swept_until: Instant,
}

impl TxFlow {
    /// A flow to `peer` that has sent nothing.
    pub(crate) fn new(
        config: &Config,
        id: FlowId,
        peer: HostId,
        path: Path,
        cc: Cc,
        lb: Lb,
        rng: Rng,
    ) -> Self {
        let code = config.code_of(&path);
        let mut loss = config.loss;
        if code.is_some() {
            // A gap says nothing before its block can no longer be decoded; receivers see that.
            loss.reorder_window_quarters = None;
        }
        Self {
            window: cc.window(),
            id,
            peer,
            dst_flow: FlowId::UNKNOWN,
            failed: false,
            closing: false,
            wait: None,
            recovery: Recovery::new(&loss, &path, config.rto(&path)),
            cc,
            lb,
            rng,
            path,
            pacer: Pacer::default(),
            unfinished: VecDeque::new(),
            unsent: 0,
            next_msg: MsgNo(0),
            unsent_segments: 0,
            unsent_bytes: Bytes::ZERO,
            refused: Bytes::ZERO,
            refused_again: 0,
            held_until: Instant::ZERO,
            code,
            parity: ParityDue::default(),
            swept_until: Instant::ZERO,
        }
    }

    /// Takes a message of `len` bytes. Allocates so that sending does not have to.
    pub(crate) fn post(&mut self, config: &Config, id: MsgId, len: u32) {
        let (packets, payload) = self.packets_of(config, len);
        self.unsent_segments += packets;
        let overhead = packets * u64::from(self.overhead(config));
        self.unsent_bytes += Bytes(payload + overhead);
        // Half the window, so that the receiver's open part always covers what is outstanding.
        self.recovery.reserve(self.unsent_segments, config.psn_window / 2);
        self.unsent += 1;
        self.unfinished.push_back(id);
        self.next_msg = self.next_msg.plus(1);
    }

    /// What is known of its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What controls and balances it.
    pub(crate) fn policies(&self) -> Policies {
        Policies { cc: self.cc.kind(), lb: self.lb.kind() }
    }

    /// The number of the next message on the wire.
    pub(crate) fn next_msg_no(&self) -> MsgNo {
        self.next_msg
    }

    /// What there is to send, and whether some of it might go now; [`TxFlow::poll_segment`]
    /// decides.
    pub(crate) fn backlog(&self) -> Backlog {
        let (cwnd, refused) = (self.window.cwnd, self.refused);
        if self.failed {
            return Backlog { cwnd, refused, ..Backlog::default() };
        }
        let in_flight = self.recovery.in_flight();
        let work = self.recovery.has_lost() || self.unsent > 0;
        let open = in_flight == Bytes::ZERO || in_flight < cwnd;
        let sendable = if work && open { self.path.mtu } else { Bytes::ZERO };
        let waiting = self.unsent_bytes + self.recovery.lost_bytes();
        Backlog { sendable, waiting, in_flight, cwnd, refused }
    }

    /// True when nothing is outstanding and nothing is to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.unfinished.is_empty() || self.failed
    }

    /// The cached window and the bytes in flight, for traces and samples.
    pub(crate) fn window(&self) -> (Window, Bytes) {
        (self.window, self.recovery.in_flight())
    }

    /// What kept the flow from sending when it was last asked; `None` when it sent.
    pub(crate) fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// Makes the next segment in `out`, or says why there is none.
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

    fn try_segment(
        &mut self,
        leave: Leave,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        if self.failed {
            return Err(Wait::Failed);
        }
        // All that follows is as of the segment's departure.
        let now = match self.window.pacing {
            Some(_) => leave.at(self.pacer.next_at()).ok_or(Wait::Pacing)?,
            None => leave.now,
        };
        if self.held_until > leave.now {
            return Err(Wait::Refusals);
        }
        while let Some((psn, &packet)) = self.recovery.next_lost() {
            // Each turn ends the loop or takes a block off the queue.
            if self.code.is_none() || !self.settle(psn, &packet, cx) {
                return self.resend(psn, packet, now, cx, out);
            }
        }
        if self.parity.left > 0 {
            return self.send_parity(now, cx, out);
        }
        self.send_new(now, cx, out)
    }

    fn resend(
        &mut self,
        psn: Psn,
        mut packet: SentPacket,
        now: Instant,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        let carried = cx.msgs.get(packet.msg).map_or_else(Carried::default, |state| {
            self.carried(cx.config, state, packet.offset, packet.marks)
        });
        packet.wire_len = carried.wire_len(cx.config, packet.payload_len);
        self.fits(packet.wire_len)?;
        packet.ev = self.lb.next_ev(now, &mut self.rng);
        packet.sent_at = now;
        packet.fate = Fate::InFlight;
        packet.marks = packet.marks.again();
        self.recovery.on_resent(psn, packet);
        cx.stats.retransmitted += 1;
        self.segment(psn, &packet, &carried, out);
        Ok(())
    }

    #[inline]
    fn send_new(
        &mut self,
        now: Instant,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        if self.unsent == 0 {
            let waiting = !self.unfinished.is_empty();
            return Err(if waiting { Wait::Acknowledgement } else { Wait::Application });
        }
        // Whoever sends a segment has room for the parity of its block, too.
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
        let payload_len = u16::try_from(left).unwrap_or(u16::MAX).min(cx.config.payload_max);
        let new = New { msg, offset, payload_len, marks: Marks::default() };
        self.send(&new, state, now, cx.config, out)?;
        state.next_offset += u32::from(payload_len);
        let last = left == u32::from(payload_len);
        if self.code.is_some() {
            self.parity = self.parity_behind(cx.config, state.len.get(), offset, last);
        }
        self.unsent -= u32::from(last && self.parity.left == 0);
        cx.stats.data_new += 1;
        cx.stats.data_new_bytes += u64::from(payload_len);
        Ok(())
    }

    /// Sends a packet for the first time, if the window lets it.
    #[inline(always)]
    fn send(
        &mut self,
        new: &New,
        state: &TxMsg,
        now: Instant,
        config: &Config,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        let New { msg, offset, payload_len, marks } = *new;
        let carried = self.carried(config, state, offset, marks);
        let wire_len = carried.wire_len(config, payload_len);
        self.fits(wire_len)?;
        let packet = SentPacket {
            sent_at: now,
            msg,
            offset,
            wire_len,
            payload_len,
            ev: self.lb.next_ev(now, &mut self.rng),
            fate: Fate::InFlight,
            marks,
            links: Links::default(),
        };
        let psn = self.recovery.on_sent(packet);
        self.unsent_segments -= 1;
        self.unsent_bytes -= Bytes(u64::from(self.overhead(config) + payload_len));
        self.segment(psn, &packet, &carried, out);
        Ok(())
    }

    /// One packet may always be in flight, or a window below one packet would stop the flow.
    fn fits(&self, wire_len: u16) -> Result<(), Wait> {
        let in_flight = self.recovery.in_flight();
        let after = in_flight + Bytes(u64::from(wire_len));
        if in_flight == Bytes::ZERO || after <= self.window.cwnd {
            return Ok(());
        }
        Err(Wait::Window)
    }

    /// Makes the segment that `packet` stands for, on its way, where it stays.
    #[inline]
    fn segment(&mut self, psn: Psn, packet: &SentPacket, carried: &Carried, out: &mut TxSegment) {
        if let Some(rate) = self.window.pacing {
            self.pacer.on_sent(packet.sent_at, packet.wire_bytes(), rate);
        }
        let body = Body::Data(Data {
            psn,
            msg: carried.no,
            offset: packet.offset,
            sent_at: packet.sent_at.to_wire(),
            retransmission: packet.marks.resent(),
            open: carried.open,
            tag: carried.tag,
            demand: None,
            code: carried.code,
        });
        let coding = carried.code.map_or(Coding::Data, |code| match packet.marks.parity_index() {
            Some(parity) => Coding::Parity(parity),
            None if packet.marks.resent() => Coding::Data,
            None => Coding::Block(code.packet),
        });
        *out = TxSegment {
            hdr: Header { ev: packet.ev, dst_flow: self.dst_flow, body },
            payload: PayloadRef {
                msg: packet.msg,
                offset: packet.offset,
                len: packet.payload_len,
                coding,
            },
            peer: self.peer,
        };
    }

    /// An ACK arrived. False when it contradicts what was sent: a forgery, to be counted and
    /// dropped.
    pub(crate) fn on_ack(&mut self, rx: &RxSegment, ack: &Ack, cx: &mut TxContext<'_>) -> bool {
        let Some((acked, rtt)) = self.on_feedback(rx, ack, cx) else { return false };
        cx.stats.acks_received += 1;
        cx.stats.ecn_echoes += u64::from(ack.ce);
        let what = if ack.ce { PathFeedback::Ecn } else { PathFeedback::Good };
        self.lb.on_feedback(rx.hdr.ev, what, rx.at);
        let in_flight = self.recovery.in_flight();
        let held = Duration::from_wire(ack.held);
        let (now, ecn, sharers) = (rx.at, ack.ce, ack.sharers);
        let sample = AckSample { now, rtt, held, acked, in_flight, ecn, sharers };
        self.cc.on_ack(&sample, &self.path);
        while let Some(loss) = self.recovery.next_overtaken() {
            self.on_loss(&loss, rx.at, cx.stats);
        }
        self.window = self.cc.window();
        true
    }

    /// A NACK arrived: the payload of one segment was trimmed away. False as in [`TxFlow::on_ack`].
    pub(crate) fn on_nack(&mut self, rx: &RxSegment, nack: &Ack, cx: &mut TxContext<'_>) -> bool {
        let Some((acked, rtt)) = self.on_feedback(rx, nack, cx) else { return false };
        cx.stats.nacks_received += 1;
        self.lb.on_feedback(rx.hdr.ev, PathFeedback::Nack, rx.at);
        let now = rx.at;
        if acked > Bytes::ZERO {
            // A header alone passes the queues that the payload met, so its round trip says nothing
            // of them; that it was trimmed does.
            let in_flight = self.recovery.in_flight();
            let held = Duration::from_wire(nack.held);
            let (ecn, sharers) = (true, nack.sharers);
            let sample = AckSample { now, rtt, held, acked, in_flight, ecn, sharers };
            self.cc.on_ack(&sample, &self.path);
        }
        if let Some(packet) = self.take_refused(nack, cx) {
            self.refused += packet.wire_bytes();
            if packet.marks.resent() && self.recovery.in_flight() == Bytes::ZERO {
                self.hold(now, cx.config);
            }
            let loss = LossSample { sharers: nack.sharers, ..self.loss_sample(&packet, now) };
            self.cc.on_nack(&loss, &self.path);
        }
        self.window = self.cc.window();
        true
    }

    /// The only segment in flight was refused again: a window cannot be smaller, so time has to
    /// make room. The next copy waits, twice as long each time, until something has arrived.
    fn hold(&mut self, now: Instant, config: &Config) {
        let wait = self.path.base_rtt * (1 << self.refused_again.min(config.loss.backoff_max));
        self.held_until = now + wait.min(self.recovery.patience_max(&config.loss));
        self.refused_again = self.refused_again.saturating_add(1);
    }

    /// What ACK and NACK have in common: news of which segments have arrived, and a round trip.
    /// `None` when the news is impossible.
    fn on_feedback(
        &mut self,
        rx: &RxSegment,
        ack: &Ack,
        cx: &mut TxContext<'_>,
    ) -> Option<(Bytes, Duration)> {
        if !self.recovery.is_plausible(ack, self.parity.left) {
            return None;
        }
        self.dst_flow = ack.src_flow;
        let round_trip = rx.at.round_trip(ack.echo_sent_at);
        let sent_at = Instant::from_ps(rx.at.as_ps().saturating_sub(round_trip.as_ps()));
        if self.recovery.is_slow(round_trip) {
            cx.round_trips.note(self.peer, round_trip, rx.at);
        }
        let mut acked = Bytes::ZERO;
        // Before the news moves what is outstanding past it.
        let whole = if ack.receipt == Receipt::Decoded { self.span_at(ack.psn, cx) } else { None };
        let arrived = arrivals(&mut self.unfinished, &mut acked, cx);
        let spurious = self.recovery.on_news(ack, sent_at, round_trip, arrived);
        if let Some(span) = whole {
            let arrived = arrivals(&mut self.unfinished, &mut acked, cx);
            self.recovery.on_arrived_of(span, u64::MAX, arrived);
        }
        if acked > Bytes::ZERO {
            (self.refused_again, self.held_until) = (0, Instant::ZERO);
        }
        self.pass_over_parity(cx);
        cx.stats.spurious += u64::from(spurious);
        Some((acked, round_trip.saturating_sub(Duration::from_wire(ack.held))))
    }

    /// A segment was declared lost without being refused.
    fn on_loss(&mut self, loss: &Loss, now: Instant, stats: &mut Stats) {
        let feedback = match loss.by {
            Inference::LaterAck => {
                stats.lost_by_sack += 1;
                PathFeedback::Nack
            }
            Inference::Silence => {
                stats.lost_by_timeout += 1;
                PathFeedback::Timeout
            }
            Inference::Block => {
                stats.lost_by_block += 1;
                PathFeedback::Nack
            }
        };
        self.lb.on_feedback(loss.packet.ev, feedback, now);
        let silent = loss.by == Inference::Silence;
        let sample = LossSample { silent, ..self.loss_sample(&loss.packet, now) };
        self.cc.on_timeout(&sample, &self.path);
    }

    fn loss_sample(&self, packet: &SentPacket, now: Instant) -> LossSample {
        let in_flight = self.recovery.in_flight();
        let (bytes, sent_at) = (packet.wire_bytes(), packet.sent_at);
        LossSample { now, bytes, in_flight, sent_at, sharers: 0, silent: false }
    }

    /// When [`TxFlow::on_timer`] wants to be called; for a paced segment as far `ahead` of its
    /// departure, and when that is past and it was not given, at its departure.
    pub(crate) fn next_timer(
        &mut self,
        now: Instant,
        ahead: &Ahead,
        config: &Config,
    ) -> Option<Instant> {
        if self.failed {
            return None;
        }
        let work = self.recovery.has_lost() || self.unsent > 0;
        // Receivers ask for the tail of a coded flow themselves.
        let tail = self.unsent == 0 && self.code.is_none();
        let recovery = self.recovery.next_timer(now, tail, &config.loss);
        let paced = self.window.pacing.map(|_| self.pacer.next_at());
        let paced = paced.map(|at| {
            let early = at.as_ps().saturating_sub(ahead.of(&self.path).as_ps());
            let early = Instant::from_ps(early);
            if early > now { early } else { at }
        });
        let leave_at = paced.map_or(self.held_until, |at| at.max(self.held_until));
        let leave_at = (leave_at > now && work).then_some(leave_at);
        earliest(earliest(recovery, leave_at), self.window.wake_at)
    }

    /// Does what is due. Spurious calls are no-ops.
    pub(crate) fn on_timer(&mut self, now: Instant, cx: &mut TxContext<'_>) {
        if self.window.wake_at.is_some_and(|at| at <= now) {
            self.cc.on_wake(now, &self.path);
        }
        let lately = cx.round_trips.lately(self.peer, now);
        match self.recovery.on_timer(now, &cx.config.loss, lately) {
            Timeout::NotDue => {}
            Timeout::Before(limit) if self.code.is_some() => self.on_silence(limit, now, cx),
            Timeout::Before(limit) => {
                let by = Inference::Silence;
                while let Some(loss) = self.recovery.next_sent_before(limit, by) {
                    self.on_loss(&loss, now, cx.stats);
                }
            }
            Timeout::GiveUp => self.fail(cx),
        }
        self.window = self.cc.window();
    }

    /// The peer does not answer: every unfinished message fails, by name.
    pub(crate) fn fail(&mut self, cx: &mut TxContext<'_>) {
        self.failed = true;
        self.unsent = 0;
        self.parity = ParityDue::default();
        self.recovery.clear();
        for msg in self.unfinished.drain(..) {
            if cx.msgs.remove(msg).is_some() {
                cx.stats.messages_failed += 1;
                cx.events.push_back(Event::Failed { msg, reason: FailReason::PeerSilent });
            }
        }
    }

    /// True when it was closed and is finished: nothing of it is needed any more.
    pub(crate) fn is_over(&self) -> bool {
        self.closing && self.is_idle()
    }

    /// True once the peer was given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }
}

/// What is done about each packet that arrived: it counts towards `acked` and its message, and
/// messages that are whole are taken off the front.
fn arrivals(
    unfinished: &mut VecDeque<MsgId>,
    acked: &mut Bytes,
    cx: &mut TxContext<'_>,
) -> impl FnMut(&SentPacket) {
    |packet| {
        *acked += packet.wire_bytes();
        if credit(packet, cx) {
            while unfinished.front().is_some_and(|&id| cx.msgs.get(id).is_none()) {
                unfinished.pop_front();
            }
        }
    }
}

/// A packet to be sent for the first time.
struct New {
    msg: MsgId,
    offset: u32,
    payload_len: u16,
    marks: Marks,
}

/// Counts `packet` towards its message. True when that is all of it now.
fn credit(packet: &SentPacket, cx: &mut TxContext<'_>) -> bool {
    let Some(msg) = cx.msgs.get_mut(packet.msg) else { return false };
    msg.opened = true;
    if packet.marks.parity_index().is_some() {
        return false;
    }
    msg.acked += u32::from(packet.payload_len);
    if msg.acked < msg.len.get() {
        return false;
    }
    cx.msgs.remove(packet.msg);
    cx.stats.messages_sent += 1;
    cx.events.push_back(Event::Sent { msg: packet.msg });
    true
}

/// What a segment carries beside its payload.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    open: Option<Open>,
    tag: u64,
    no: MsgNo,
    code: Option<Coded>,
}

impl Carried {
    /// What a segment of a message of flow `src` at `offset` carries.
    #[inline]
    fn of(state: &TxMsg, offset: u32, src: FlowId, dst: FlowId) -> Self {
        let known = state.opened && dst != FlowId::UNKNOWN;
        let open = (!known).then_some(Open { src_flow: src, msg_len: state.len });
        let tag = if offset == 0 { state.tag } else { 0 };
        Self { open, tag, no: state.no, code: None }
    }

    /// Bytes on the wire of a segment that carries this and `payload_len` bytes.
    fn wire_len(&self, config: &Config, payload_len: u16) -> u16 {
        config.segment_overhead()
            + if self.open.is_some() { data::OPEN_LEN } else { 0 }
            + if self.tag == 0 { 0 } else { data::TAG_LEN }
            + if self.code.is_some() { data::CODE_LEN } else { 0 }
            + payload_len
    }
}
