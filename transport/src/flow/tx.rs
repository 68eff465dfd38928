//! The sending half of a flow: what to send next, and what acknowledgements and silence say.
//!
//! ```text
//!            push                    ack
//!  unsent ---------> InFlight -----------------> Acked
//!                     |    ^                       ^
//!     nack, later ack |    | resend                | ack after all (spurious)
//!     or silence      v    |                       |
//!                    Lost (queued) ----------------+
//! ```
//!
//! Each segment is looked at once per transmission by loss inference: first transmissions are in
//! PSN order and retransmissions in a queue of their own, both in order of time, so the oldest
//! segment in flight is at one of two heads.

use alloc::collections::VecDeque;

use super::pacer::Pacer;
use super::sent_packets::{Fate, SentPacket, SentPackets};
use crate::cc::{AckSample, Cc, CongestionControl as _, LossSample, Path, Window};
use crate::config::Config;
use crate::event::{Event, FailReason};
use crate::lb::{Lb, LoadBalancer as _, PathFeedback};
use crate::rng::Rng;
use crate::segment::{PayloadRef, RxSegment, TxSegment};
use crate::slab::Slab;
use crate::stats::Stats;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, HostId, MsgId, MsgNo, Psn};
use crate::wire::{Ack, Body, Data, Header, Open, data};

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
    /// The pacer.
    Pacing,
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
    pub(crate) stats: &'a mut Stats,
    pub(crate) events: &'a mut VecDeque<Event>,
}

/// How a loss became known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inference {
    LaterAck,
    Silence,
}

/// The sending half of one flow.
#[derive(Clone, Debug)]
pub(crate) struct TxFlow {
    /// The cached answer of the controller.
    window: Window,
    /// Wire bytes in flight: the sum over segments whose fate is `InFlight`.
    in_flight: Bytes,
    pub(crate) id: FlowId,
    pub(crate) peer: HostId,
    dst_flow: FlowId,
    /// First transmissions before this PSN have been looked at by loss inference.
    scan: Psn,
    sent: SentPackets,
    /// Segments to send again, oldest loss first. Entries whose fate has changed are skipped.
    lost: VecDeque<Psn>,
    /// Retransmissions in order of time. Entries that were sent yet again are skipped.
    resent: VecDeque<(Psn, Instant)>,
    /// When the most recently sent of all acknowledged segments was sent.
    newest_acked: Instant,
    /// Segments sent this long before `newest_acked` are lost.
    reorder_window: Option<Duration>,
    cc: Cc,
    lb: Lb,
    rng: Rng,
    pub(crate) path: Path,
    pacer: Pacer,
    /// Messages with bytes that were never sent; the front one is being sent.
    unsent: VecDeque<MsgId>,
    /// Messages started or waiting, in order; done ones are taken off the front.
    unfinished: VecDeque<MsgId>,
    next_msg: MsgNo,
    /// Segments of posted messages that were never sent.
    unsent_segments: u64,
    rto: Duration,
    /// When a tail probe is due, unless something is heard before.
    probe_at: Option<Instant>,
    /// Timeouts in a row without an acknowledgement.
    timeouts: u8,
    failed: bool,
    pub(crate) closing: bool,
    /// Once closed and finished: when the receiver has forgotten the flow too.
    forget_at: Option<Instant>,
    /// Why the last poll yielded nothing.
    wait: Option<Wait>,
}

impl TxFlow {
    /// A flow to `peer` that has sent nothing.
    pub(crate) fn new(config: &Config, id: FlowId, peer: HostId, path: Path, mut rng: Rng) -> Self {
        let cc = Cc::new(config.cc, &config.cc_params, &path);
        let lb = Lb::new(config.lb, &config.lb_params, &path, &mut rng);
        let quarters = config.loss.reorder_window_quarters;
        Self {
            window: cc.window(),
            in_flight: Bytes::ZERO,
            id,
            peer,
            dst_flow: FlowId::UNKNOWN,
            scan: Psn(0),
            sent: SentPackets::new(16),
            lost: VecDeque::new(),
            resent: VecDeque::new(),
            newest_acked: Instant::ZERO,
            reorder_window: quarters.map(|q| path.base_rtt.mul_ratio(u64::from(q), 4)),
            cc,
            lb,
            rng,
            path,
            pacer: Pacer::default(),
            unsent: VecDeque::new(),
            unfinished: VecDeque::new(),
            next_msg: MsgNo(0),
            unsent_segments: 0,
            rto: config.rto(&path),
            probe_at: None,
            timeouts: 0,
            failed: false,
            closing: false,
            forget_at: None,
            wait: None,
        }
    }

    /// Takes a message of `len` bytes. Allocates so that sending does not have to.
    pub(crate) fn post(&mut self, config: &Config, id: MsgId, len: u32) {
        self.reserve(config, len);
        self.unsent.push_back(id);
        self.unfinished.push_back(id);
        self.next_msg = self.next_msg.plus(1);
    }

    /// Makes room for the PSNs of `len` more bytes. Not for the hot path.
    fn reserve(&mut self, config: &Config, len: u32) {
        self.unsent_segments += u64::from(len.div_ceil(u32::from(config.payload_max)));
        let wanted = u64::from(self.sent.outstanding()) + self.unsent_segments;
        // Half the window, so that the receiver's open part always covers what is outstanding.
        let most = config.psn_window / 2;
        let wanted = u32::try_from(wanted).unwrap_or(most).min(most);
        self.sent.reserve(wanted);
        let room = self.sent.capacity();
        self.lost.reserve(room.saturating_sub(self.lost.len()));
        self.resent.reserve((2 * room).saturating_sub(self.resent.len()));
    }

    /// The number of the next message on the wire.
    pub(crate) fn next_msg_no(&self) -> MsgNo {
        self.next_msg
    }

    /// Whether the flow might send now; [`TxFlow::poll_segment`] decides.
    pub(crate) fn backlog(&self) -> Bytes {
        let work = !self.lost.is_empty() || !self.unsent.is_empty();
        let open = self.in_flight == Bytes::ZERO || self.in_flight < self.window.cwnd;
        if work && open && !self.failed { self.path.mtu } else { Bytes::ZERO }
    }

    /// True when nothing is outstanding and nothing is to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.unfinished.is_empty() || self.failed
    }

    /// The cached window and the bytes in flight, for traces and samples.
    pub(crate) fn window(&self) -> (Window, Bytes) {
        (self.window, self.in_flight)
    }

    /// The next segment, or why there is none.
    pub(crate) fn poll_segment(
        &mut self,
        now: Instant,
        cx: &mut TxContext<'_>,
    ) -> Result<TxSegment, Wait> {
        let segment = self.try_segment(now, cx);
        self.wait = segment.err();
        segment
    }

    fn try_segment(&mut self, now: Instant, cx: &mut TxContext<'_>) -> Result<TxSegment, Wait> {
        if self.failed {
            return Err(Wait::Failed);
        }
        if self.window.pacing.is_some() && self.pacer.next_at() > now {
            return Err(Wait::Pacing);
        }
        match self.next_lost() {
            Some(psn) => self.resend(psn, now, cx),
            None => self.send_new(now, cx),
        }
    }

    /// What kept the flow from sending when it was last asked; `None` when it sent.
    pub(crate) fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// The oldest segment that is still believed lost.
    fn next_lost(&mut self) -> Option<Psn> {
        // Bounded by the queue: each turn takes one stale entry out.
        while let Some(&psn) = self.lost.front() {
            if self.sent.entry(psn).is_some_and(|entry| entry.fate == Fate::Lost) {
                return Some(psn);
            }
            self.lost.pop_front();
        }
        None
    }

    fn resend(
        &mut self,
        psn: Psn,
        now: Instant,
        cx: &mut TxContext<'_>,
    ) -> Result<TxSegment, Wait> {
        let Some(mut packet) = self.sent.entry(psn).copied() else { return Err(Wait::Window) };
        let (open, tag, no) = self.extensions(packet.msg, packet.offset, cx);
        packet.wire_len = wire_len(cx.config, packet.payload_len, open.is_some(), tag);
        self.fits(packet.wire_len)?;
        self.lost.pop_front();
        packet.ev = self.lb.next_ev(now, &mut self.rng);
        packet.sent_at = now;
        packet.fate = Fate::InFlight;
        packet.resent = true;
        if let Some(entry) = self.sent.entry(psn) {
            *entry = packet;
        }
        self.resent.push_back((psn, now));
        cx.stats.retransmitted += 1;
        Ok(self.segment(psn, &packet, no, open, tag))
    }

    fn send_new(&mut self, now: Instant, cx: &mut TxContext<'_>) -> Result<TxSegment, Wait> {
        let Some(&msg) = self.unsent.front() else {
            let waiting = !self.unfinished.is_empty();
            return Err(if waiting { Wait::Acknowledgement } else { Wait::Application });
        };
        if self.sent.is_full() {
            return Err(Wait::PsnWindow);
        }
        let first = self.unfinished.front().and_then(|&id| cx.msgs.get(id)).map(|m| m.no);
        let Some(state) = cx.msgs.get(msg).copied() else { return Err(Wait::Application) };
        if first
            .is_some_and(|first| state.no.distance_from(first) >= i32::from(cx.config.msg_window))
        {
            return Err(Wait::MsgWindow);
        }
        let left = state.len.get() - state.next_offset;
        let payload_len = u16::try_from(left).unwrap_or(u16::MAX).min(cx.config.payload_max);
        let (open, tag, no) = self.extensions(msg, state.next_offset, cx);
        let wire_len = wire_len(cx.config, payload_len, open.is_some(), tag);
        self.fits(wire_len)?;
        let ev = self.lb.next_ev(now, &mut self.rng);
        let offset = state.next_offset;
        let fate = Fate::InFlight;
        let packet = SentPacket {
            sent_at: now,
            msg,
            offset,
            wire_len,
            payload_len,
            ev,
            fate,
            resent: false,
        };
        let psn = self.sent.push(packet);
        self.unsent_segments -= 1;
        if let Some(state) = cx.msgs.get_mut(msg) {
            state.next_offset += u32::from(payload_len);
        }
        if left == u32::from(payload_len) {
            self.unsent.pop_front();
        }
        cx.stats.data_new += 1;
        cx.stats.data_new_bytes += u64::from(payload_len);
        Ok(self.segment(psn, &packet, no, open, tag))
    }

    /// What a segment of `msg` at `offset` carries beside its payload.
    fn extensions(
        &self,
        msg: MsgId,
        offset: u32,
        cx: &TxContext<'_>,
    ) -> (Option<Open>, u64, MsgNo) {
        let Some(state) = cx.msgs.get(msg) else { return (None, 0, MsgNo(0)) };
        let known = state.opened && self.dst_flow != FlowId::UNKNOWN;
        let open = (!known).then_some(Open { src_flow: self.id, msg_len: state.len });
        (open, if offset == 0 { state.tag } else { 0 }, state.no)
    }

    /// One packet may always be in flight, or a window below one packet would stop the flow.
    fn fits(&self, wire_len: u16) -> Result<(), Wait> {
        let after = self.in_flight + Bytes(u64::from(wire_len));
        if self.in_flight == Bytes::ZERO || after <= self.window.cwnd {
            return Ok(());
        }
        Err(Wait::Window)
    }

    /// Accounts for `packet` as sent and makes the segment.
    fn segment(
        &mut self,
        psn: Psn,
        packet: &SentPacket,
        no: MsgNo,
        open: Option<Open>,
        tag: u64,
    ) -> TxSegment {
        let len = Bytes(u64::from(packet.wire_len));
        self.in_flight += len;
        if let Some(rate) = self.window.pacing {
            self.pacer.on_sent(packet.sent_at, len, rate);
        }
        self.probe_at = None;
        let body = Body::Data(Data {
            psn,
            msg: no,
            offset: packet.offset,
            sent_at: packet.sent_at.to_wire(),
            retransmission: packet.resent,
            open,
            tag,
        });
        TxSegment {
            hdr: Header { ev: packet.ev, dst_flow: self.dst_flow, body },
            payload: PayloadRef { msg: packet.msg, offset: packet.offset, len: packet.payload_len },
            peer: self.peer,
        }
    }

    /// An ACK arrived. False when it contradicts what was sent: a forgery, to be counted and
    /// dropped.
    pub(crate) fn on_ack(&mut self, rx: &RxSegment, ack: &Ack, cx: &mut TxContext<'_>) -> bool {
        let Some((acked, rtt)) = self.on_feedback(rx, ack, cx) else { return false };
        cx.stats.acks_received += 1;
        cx.stats.ecn_echoes += u64::from(ack.ce);
        let what = if ack.ce { PathFeedback::Ecn } else { PathFeedback::Good };
        self.lb.on_feedback(rx.hdr.ev, what, rx.at);
        let sample = AckSample { now: rx.at, rtt, acked, in_flight: self.in_flight, ecn: ack.ce };
        self.cc.on_ack(&sample, &self.path);
        self.window = self.cc.window();
        self.infer_from_later_ack(rx.at, cx);
        true
    }

    /// A NACK arrived: the payload of one segment was trimmed away. False as in [`TxFlow::on_ack`].
    pub(crate) fn on_nack(&mut self, rx: &RxSegment, nack: &Ack, cx: &mut TxContext<'_>) -> bool {
        let Some((acked, rtt)) = self.on_feedback(rx, nack, cx) else { return false };
        cx.stats.nacks_received += 1;
        self.lb.on_feedback(rx.hdr.ev, PathFeedback::Nack, rx.at);
        if acked > Bytes::ZERO {
            // A header alone passes the queues that the payload met, so its round trip says nothing
            // of them; that it was trimmed does.
            let in_flight = self.in_flight;
            let sample = AckSample { now: rx.at, rtt, acked, in_flight, ecn: true };
            self.cc.on_ack(&sample, &self.path);
        }
        // A refusal of an earlier transmission says nothing about the one in flight now.
        let refused = self.sent.entry(nack.psn).is_some_and(|entry| {
            entry.fate == Fate::InFlight && entry.sent_at.to_wire() == nack.echo_sent_at
        });
        if refused {
            let (bytes, sent_at) = self.mark_lost(nack.psn);
            let loss = LossSample {
                now: rx.at,
                bytes,
                in_flight: self.in_flight,
                sent_at,
                sharers: nack.sharers,
            };
            self.cc.on_nack(&loss, &self.path);
        }
        self.window = self.cc.window();
        true
    }

    /// What ACK and NACK have in common: news of which segments have arrived, and a round trip.
    /// `None` when the news is impossible.
    fn on_feedback(
        &mut self,
        rx: &RxSegment,
        ack: &Ack,
        cx: &mut TxContext<'_>,
    ) -> Option<(Bytes, Duration)> {
        let beyond = |psn: Psn| psn.distance_from(self.sent.next());
        if beyond(ack.cumulative) > 0 || beyond(ack.psn) >= 0 {
            return None;
        }
        self.dst_flow = ack.src_flow;
        let held = Duration::from_wire(ack.held);
        let round_trip = rx.at.since_wire(ack.echo_sent_at);
        let sent_at = Instant::from_ps(rx.at.as_ps().saturating_sub(round_trip.as_ps()));
        self.newest_acked = self.newest_acked.max(sent_at);
        self.widen_if_spurious(ack, cx);
        let mut acked = Bytes::ZERO;
        while self.sent.base().distance_from(ack.cumulative) < 0 {
            acked += self.acknowledge(self.sent.base(), cx);
        }
        let base = Psn(ack.psn.0 & !63);
        let mut news = ack.sack;
        while news != 0 {
            acked += self.acknowledge(base.plus(news.trailing_zeros()), cx);
            news &= news - 1;
        }
        if acked > Bytes::ZERO {
            self.timeouts = 0;
            self.probe_at = None;
        }
        Some((acked, round_trip.saturating_sub(held)))
    }

    /// `psn` has arrived. Wire bytes this is news of.
    fn acknowledge(&mut self, psn: Psn, cx: &mut TxContext<'_>) -> Bytes {
        let Some(packet) = self.sent.ack(psn) else { return Bytes::ZERO };
        let len = Bytes(u64::from(packet.wire_len));
        if packet.fate == Fate::InFlight {
            self.in_flight -= len;
        }
        if !packet.resent {
            self.newest_acked = self.newest_acked.max(packet.sent_at);
        }
        let Some(msg) = cx.msgs.get_mut(packet.msg) else { return len };
        msg.opened = true;
        msg.acked += u32::from(packet.payload_len);
        if msg.acked == msg.len.get() {
            cx.msgs.remove(packet.msg);
            cx.stats.messages_sent += 1;
            cx.events.push_back(Event::Sent { msg: packet.msg });
            while self.unfinished.front().is_some_and(|&id| cx.msgs.get(id).is_none()) {
                self.unfinished.pop_front();
            }
        }
        len
    }

    /// A segment that was declared lost had arrived: be more patient from now on.
    fn widen_if_spurious(&mut self, ack: &Ack, cx: &mut TxContext<'_>) {
        let spurious = self.sent.entry(ack.psn).is_some_and(|entry| match entry.fate {
            Fate::Lost => true,
            Fate::InFlight => entry.resent && entry.sent_at.to_wire() != ack.echo_sent_at,
            Fate::Acked => false,
        });
        if spurious && ack.sack & 1 << (ack.psn.0 & 63) != 0 {
            cx.stats.spurious += 1;
            self.reorder_window = self.reorder_window.map(|w| (w + w / 2).min(self.rto));
        }
    }

    fn infer_from_later_ack(&mut self, now: Instant, cx: &mut TxContext<'_>) {
        let Some(window) = self.reorder_window else { return };
        let limit = self.newest_acked.as_ps().checked_sub(window.as_ps());
        if let Some(limit) = limit {
            self.infer(Instant::from_ps(limit), Inference::LaterAck, now, cx);
        }
    }

    /// Declares lost every segment in flight that was sent before `limit`.
    fn infer(&mut self, limit: Instant, by: Inference, now: Instant, cx: &mut TxContext<'_>) {
        // Bounded by the PSN window: each turn takes one segment out of flight.
        while let Some((psn, ev)) =
            self.oldest().filter(|&(_, at, _)| at < limit).map(|o| (o.0, o.2))
        {
            let (bytes, sent_at) = self.mark_lost(psn);
            let (count, feedback) = match by {
                Inference::LaterAck => (&mut cx.stats.lost_by_sack, PathFeedback::Nack),
                Inference::Silence => (&mut cx.stats.lost_by_timeout, PathFeedback::Timeout),
            };
            *count += 1;
            self.lb.on_feedback(ev, feedback, now);
            let loss = LossSample { now, bytes, in_flight: self.in_flight, sent_at, sharers: 0 };
            self.cc.on_timeout(&loss, &self.path);
        }
        self.window = self.cc.window();
    }

    /// Takes `psn` out of flight and queues it to be sent again. Its wire bytes, and when it was
    /// sent.
    fn mark_lost(&mut self, psn: Psn) -> (Bytes, Instant) {
        let Some(entry) = self.sent.entry(psn) else { return (Bytes::ZERO, Instant::ZERO) };
        entry.fate = Fate::Lost;
        let sent_at = entry.sent_at;
        let len = Bytes(u64::from(entry.wire_len));
        self.in_flight -= len;
        self.lost.push_back(psn);
        (len, sent_at)
    }

    /// The segment in flight that was sent longest ago. Amortised O(1).
    fn oldest(&mut self) -> Option<(Psn, Instant, EntropyValue)> {
        if self.scan.distance_from(self.sent.base()) < 0 {
            self.scan = self.sent.base();
        }
        let mut first = None;
        while let Some(entry) = self.sent.entry(self.scan) {
            if entry.fate == Fate::InFlight && !entry.resent {
                first = Some((self.scan, entry.sent_at, entry.ev));
                break;
            }
            self.scan = self.scan.plus(1);
        }
        while let Some(&(psn, at)) = self.resent.front() {
            let current =
                self.sent.entry(psn).filter(|e| e.fate == Fate::InFlight && e.sent_at == at);
            if let Some(entry) = current {
                let again = (psn, at, entry.ev);
                return Some(first.filter(|f| f.1 <= at).unwrap_or(again));
            }
            self.resent.pop_front();
        }
        first
    }

    /// When [`TxFlow::on_timer`] wants to be called.
    pub(crate) fn next_timer(&mut self, now: Instant, config: &Config) -> Option<Instant> {
        if self.failed {
            return None;
        }
        let rto = self.backed_off(config);
        let silence = self.oldest().map(|(_, at, _)| at + rto);
        self.arm_probe(now, config);
        let paced = self
            .window
            .pacing
            .map(|_| self.pacer.next_at())
            .filter(|&at| at > now && (!self.lost.is_empty() || !self.unsent.is_empty()));
        [silence, self.probe_at, paced, self.window.wake_at].into_iter().flatten().min()
    }

    /// With nothing left to send, silence after the tail is probed sooner than the timeout.
    fn arm_probe(&mut self, now: Instant, config: &Config) {
        let tail = config.loss.tail_probe
            && self.unsent.is_empty()
            && self.lost.is_empty()
            && self.in_flight > Bytes::ZERO
            && self.timeouts == 0;
        if tail && self.probe_at.is_none() {
            self.probe_at = Some(now + self.path.base_rtt * 3);
        }
    }

    fn backed_off(&self, config: &Config) -> Duration {
        self.rto * (1 << self.timeouts.min(config.loss.backoff_max))
    }

    /// Does what is due. Spurious calls are no-ops.
    pub(crate) fn on_timer(&mut self, now: Instant, cx: &mut TxContext<'_>) {
        if self.window.wake_at.is_some_and(|at| at <= now) {
            self.cc.on_wake(now, &self.path);
            self.window = self.cc.window();
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            self.probe();
        }
        let rto = self.backed_off(cx.config);
        if self.oldest().is_none_or(|(_, at, _)| at + rto > now) {
            return;
        }
        if self.timeouts >= cx.config.loss.retries_max {
            self.fail(cx);
            return;
        }
        self.timeouts += 1;
        // All that was silent nearly as long goes with it: what was sent in one burst was lost in
        // one burst, and a timeout apiece with its own back-off would never end.
        let limit = now.as_ps().saturating_sub(rto.as_ps() / 4 * 3);
        self.infer(Instant::from_ps(limit), Inference::Silence, now, cx);
    }

    /// Sends the last outstanding segment again; its acknowledgement shows what else is missing.
    fn probe(&mut self) {
        let mut psn = self.sent.next();
        while psn != self.sent.base() {
            psn = psn.plus(u32::MAX);
            if self.sent.entry(psn).is_some_and(|entry| entry.fate == Fate::InFlight) {
                self.mark_lost(psn);
                return;
            }
        }
    }

    /// The peer does not answer: every unfinished message fails, by name.
    fn fail(&mut self, cx: &mut TxContext<'_>) {
        self.failed = true;
        self.unsent.clear();
        self.lost.clear();
        for msg in self.unfinished.drain(..) {
            if cx.msgs.remove(msg).is_some() {
                cx.stats.messages_failed += 1;
                cx.events.push_back(Event::Failed { msg, reason: FailReason::PeerSilent });
            }
        }
    }

    /// For a closed and finished flow: when its id is free again. `linger` is how long receivers
    /// remember; the memory of the flow is given back at once.
    pub(crate) fn forget_at(&mut self, now: Instant, linger: Duration) -> Option<Instant> {
        if !(self.closing && self.is_idle()) {
            return None;
        }
        if self.forget_at.is_none() {
            self.forget_at = Some(now + linger * 2);
            self.sent = SentPackets::new(0);
            self.lost = VecDeque::new();
            self.resent = VecDeque::new();
            self.in_flight = Bytes::ZERO;
        }
        self.forget_at
    }

    /// True once the peer was given up.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }
}

/// Bytes on the wire of a segment with these extensions.
fn wire_len(config: &Config, payload_len: u16, open: bool, tag: u64) -> u16 {
    config.frame_overhead
        + data::LEN
        + if open { data::OPEN_LEN } else { 0 }
        + if tag == 0 { 0 } else { data::TAG_LEN }
        + payload_len
}
