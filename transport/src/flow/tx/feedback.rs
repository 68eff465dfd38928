//! Acknowledgements, refusals and timeouts of a flow's segments.

use alloc::collections::VecDeque;

use super::super::recovery::{Loss, Timeout};
use super::super::sent_packets::SentPacket;
use super::{TxContext, TxFlow, Wait};
use crate::cc::{AckSample, CongestionControl as _, Inference, LossSample};
use crate::config::Config;
use crate::event::Event;
use crate::lb::{LoadBalancer as _, PathFeedback};
use crate::segment::RxSegment;
use crate::stats::Stats;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, MsgId, Psn};
use crate::wire::{Ack, ExtRefusal, Extensions, Note, Receipt, Report};

/// How often the wait of a refused segment doubles, from a base RTT.
const HOLD_DOUBLINGS: u8 = 6;

/// Round trips in a row in which all that arrives is refused, after which a flow has one segment in
/// flight, whatever its window. The round trip of the first refusals is not counted, since only
/// segments that were sent again are. With it, the time is about as long as the silence that counts
/// as loss. Refused headers and their NACKs go before data: windows that do not shrink could
/// otherwise fill a slow link with them, so that no data passes it any more.
const REFUSED_ROUNDS: u8 = 8;

impl TxFlow {
    /// Takes in an ACK. False when it contradicts the segments that were sent: it is forged, and is
    /// counted and dropped.
    #[inline]
    pub(crate) fn on_ack(&mut self, rx: &RxSegment, ack: &Ack, cx: &mut TxContext<'_>) -> bool {
        self.take_ack(rx, ack, Extensions::NONE, cx)
    }

    /// [`TxFlow::on_ack`] of one that has extensions.
    #[inline(never)]
    pub(crate) fn on_ack_with(
        &mut self,
        rx: &RxSegment,
        ack: &Ack,
        extensions: Extensions<'_>,
        cx: &mut TxContext<'_>,
    ) -> bool {
        self.take_ack(rx, ack, extensions, cx)
    }

    #[inline(always)]
    fn take_ack(
        &mut self,
        rx: &RxSegment,
        ack: &Ack,
        extensions: Extensions<'_>,
        cx: &mut TxContext<'_>,
    ) -> bool {
        // Switches serve copies last: their round trips say nothing of the queues of segments.
        let of_turn = self.recovery.answers_turn(ack);
        let Some((acked, rtt)) = self.on_feedback(rx, ack, true, cx) else { return false };
        cx.stats.acks_received += 1;
        cx.stats.ecn_echoes += u64::from(ack.ce);
        let what = if ack.ce { PathFeedback::Ecn } else { PathFeedback::Good };
        self.balance(rx.hdr.ev, what, rx.at);
        let in_flight = self.recovery.in_flight();
        let held = Duration::from_wire(ack.held);
        let (now, ecn, sharers) = (rx.at, ack.ce, ack.sharers);
        let acked = acked + core::mem::take(&mut self.reported);
        if of_turn {
            self.rtt = rtt.to_wire();
        }
        let sample = AckSample { now, rtt, held, acked, in_flight, ecn, sharers };
        self.sample(&sample, extensions, cx.stats);
        if self.watch.is_some() {
            self.watch_ack(rx, ack, cx);
        } else {
            while let Some(loss) = self.recovery.next_overtaken() {
                self.on_loss(&loss, rx.at, cx);
            }
        }
        self.window = self.cc.window();
        true
    }

    /// Takes in a NACK: the payload of one segment was trimmed. False as in [`TxFlow::on_ack`].
    pub(crate) fn on_nack(
        &mut self,
        rx: &RxSegment,
        nack: &Ack,
        extensions: Extensions<'_>,
        cx: &mut TxContext<'_>,
    ) -> bool {
        // A trimmed packet without its seal may name any time; that of a segment in flight is here.
        let timed = !cx.config.sealed || self.recovery.is_refusal(nack.psn, nack.echo_sent_at);
        let Some((acked, rtt)) = self.on_feedback(rx, nack, timed, cx) else { return false };
        cx.stats.nacks_received += 1;
        if self.alone == Some(Wait::Opening) {
            self.alone = None;
        }
        self.balance(rx.hdr.ev, PathFeedback::Nack, rx.at);
        let now = rx.at;
        if !timed {
            self.reported += acked;
        } else if acked > Bytes::ZERO {
            // The round trip of a trimmed header says nothing about the queues that its payload
            // met, because the header has passed them; the trim itself does.
            let in_flight = self.recovery.in_flight();
            let held = Duration::from_wire(nack.held);
            let (ecn, sharers) = (true, nack.sharers);
            let sample = AckSample { now, rtt, held, acked, in_flight, ecn, sharers };
            self.sample(&sample, extensions, cx.stats);
        }
        if timed {
            self.watch_answer(rx, nack, true);
        }
        if let Some(packet) = self.take_refused(nack, cx) {
            self.refused += packet.wire_bytes();
            if packet.marks.is_retransmission() {
                self.on_refused_again(&packet, now, cx.config);
            }
            let loss = LossSample { sharers: nack.sharers, ..self.loss_sample(&packet, now) };
            self.cc.on_nack(&loss, &self.path);
        }
        self.window = self.cc.window();
        true
    }

    /// Hands an acknowledgement to the controller.
    #[inline]
    fn sample(&mut self, sample: &AckSample, extensions: Extensions<'_>, stats: &mut Stats) {
        if extensions.is_some() {
            let refusal = self.cc.on_ack_with(sample, extensions, &self.path);
            stats.refuse(refusal);
        } else {
            self.cc.on_ack(sample, &self.path);
        }
    }

    /// Takes in a REPORT. False as in [`TxFlow::on_ack`].
    #[cold]
    pub(crate) fn on_report(&mut self, report: &Report, cx: &mut TxContext<'_>) -> bool {
        if !self.recovery.is_plausible_report(report, self.parity.left) {
            return false;
        }
        cx.stats.acks_received += 1;
        self.take_report(report, cx);
        true
    }

    /// Takes in the scheduler's report of segments that have arrived: bit i of `arrived` is PSN
    /// `first + i`. The report has no round trips, so controllers do not get it.
    #[cold]
    pub(crate) fn on_reported(&mut self, first: Psn, arrived: u64, cx: &mut TxContext<'_>) {
        #[expect(clippy::cast_possible_truncation, reason = "halves")]
        let halves = [arrived as u32, (arrived >> 32) as u32];
        let report = Report { first, arrived: [halves[0], halves[1], 0, 0, 0, 0, 0, 0] };
        self.take_report(&report, cx);
    }

    /// No report of these segments can come any more at `now`: bit i of `segments` is PSN
    /// `first + i`. They are sent again, as far as [`Again`](super::again::Again) lets them, and no
    /// controller gets that, since they may have arrived.
    #[cold]
    pub(crate) fn send_again(&mut self, first: Psn, segments: u64, now: Instant) {
        for psn in (0..u64::BITS).filter(|bit| segments >> bit & 1 == 1).map(|bit| first.plus(bit))
        {
            if let Some((sent_at, again)) = self.recovery.in_flight_since(psn)
                && self.again.may_leave(sent_at, again, now)
            {
                self.recovery.send_again(psn);
            }
        }
    }

    /// No report of the segments that left before `limit` has come for too long. They are sent
    /// again, and no controller gets that, since they may have arrived.
    #[cold]
    pub(crate) fn send_again_before(&mut self, limit: Instant) {
        // Bounded by the PSN window: each turn takes one segment out of flight.
        while self.recovery.next_sent_before(limit, Inference::Silence).is_some() {}
    }

    fn take_report(&mut self, report: &Report, cx: &mut TxContext<'_>) {
        let mut acked = Bytes::ZERO;
        let arrived = arrivals(&mut self.unfinished, &mut acked, cx);
        self.recovery.on_report(report, arrived);
        self.end_hold(acked);
        self.pass_over_parity();
        self.reported += acked;
        if acked > Bytes::ZERO
            && let Some(limit) = self.again.arrived()
        {
            self.send_again_before(limit);
        }
    }

    /// Takes in a note for the controller. Returns what of it the controller refuses.
    pub(crate) fn on_note(
        &mut self,
        note: &Note,
        ext: Extensions<'_>,
        now: Instant,
    ) -> Result<(), ExtRefusal> {
        let used = self.cc.on_note(note, ext, now, &self.path);
        self.window = self.cc.window();
        used
    }

    /// Gives the balancer feedback about a path, unless the scheduler chooses paths.
    #[inline]
    fn balance(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant) {
        if !self.steered {
            self.lb.on_feedback(ev, what, now);
        }
    }

    /// `packet`, which was sent again, was refused again. Where it left after the end of the last
    /// such round trip, and nothing has arrived since, a further one has brought nothing.
    fn on_refused_again(&mut self, packet: &SentPacket, now: Instant, config: &Config) {
        if self.recovery.in_flight() == Bytes::ZERO {
            self.hold(now, config);
        } else if packet.sent_at >= self.held_until {
            self.refused_rounds = self.refused_rounds.saturating_add(1);
            self.held_until = now;
            if self.refused_rounds >= REFUSED_ROUNDS {
                self.alone = Some(Wait::Refusals);
            }
        }
    }

    /// Holds the next copy back after the only segment in flight was refused again, since a window
    /// cannot be smaller than one segment: the wait doubles each time, until something has arrived.
    fn hold(&mut self, now: Instant, config: &Config) {
        let wait = self.path.base_rtt * (1 << self.refused_again.min(HOLD_DOUBLINGS));
        self.held_until = now + wait.min(self.recovery.patience_max(&config.loss));
        self.refused_again = self.refused_again.saturating_add(1);
    }

    /// Lets the flow send at once again where something has arrived.
    #[inline]
    fn end_hold(&mut self, acked: Bytes) {
        if acked > Bytes::ZERO {
            (self.refused_again, self.refused_rounds) = (0, 0);
            self.alone = None;
            self.held_until = Instant::ZERO;
            self.refused_flow = false;
        }
    }

    /// The bytes that may be in flight: none beside the first segment while all is refused, or
    /// while many attempts to open the flow have no answer.
    #[inline]
    pub(super) fn cwnd(&self) -> Bytes {
        if self.alone.is_some() { Bytes::ZERO } else { self.window.cwnd }
    }

    /// Why no more may be in flight.
    pub(super) fn full(&self) -> Wait {
        self.alone.unwrap_or(Wait::Window)
    }

    /// True when the receiver's name of this flow is `name`, which the first plausible feedback
    /// gives. Feedback under another name is of a flow that the receiver has forgotten.
    #[inline]
    pub(crate) fn is_named(&mut self, name: FlowId) -> bool {
        // The first feedback gives the name; after that, one comparison is enough where the name is
        // right.
        if self.dst_flow != name {
            if self.dst_flow != FlowId::UNKNOWN {
                return false;
            }
            self.dst_flow = name;
        }
        true
    }

    /// False when the receiver is known to have another name for this flow than `name`.
    pub(crate) fn may_be_named(&self, name: FlowId) -> bool {
        self.dst_flow == FlowId::UNKNOWN || self.dst_flow == name
    }

    /// Handles the common part of ACK and NACK: segments that have arrived, and a round trip, which
    /// means nothing unless `timed`. `None` when the acknowledgement is impossible.
    fn on_feedback(
        &mut self,
        rx: &RxSegment,
        ack: &Ack,
        timed: bool,
        cx: &mut TxContext<'_>,
    ) -> Option<(Bytes, Duration)> {
        if !self.recovery.is_plausible(ack, self.parity.left) || !self.is_named(ack.src_flow) {
            return None;
        }
        let (mut round_trip, mut sent) = (Duration::ZERO, None);
        if timed {
            round_trip = rx.at.round_trip(ack.echo_sent_at);
            let at = Instant::from_ps(rx.at.as_ps().saturating_sub(round_trip.as_ps()));
            sent = Some((at, round_trip));
            if self.recovery.is_slow(round_trip) {
                cx.round_trips.note(self.peer, round_trip, rx.at);
            }
        }
        let mut acked = Bytes::ZERO;
        // The block is looked up before the acknowledgement moves the outstanding PSNs past it.
        let whole = if ack.receipt == Receipt::Decoded { self.span_at(ack.psn, cx) } else { None };
        let arrived = arrivals(&mut self.unfinished, &mut acked, cx);
        let spurious = self.recovery.on_news(ack, sent, arrived);
        if let Some(span) = whole {
            let arrived = arrivals(&mut self.unfinished, &mut acked, cx);
            self.recovery.on_arrived_of(span, u64::MAX, arrived);
        }
        self.end_hold(acked);
        self.pass_over_parity();
        if spurious {
            cx.stats.spurious += 1;
            if let (Some(watch), Some((sent_at, _))) = (&mut self.watch, sent) {
                watch.on_spurious(sent_at);
            }
        }
        Some((acked, round_trip.saturating_sub(Duration::from_wire(ack.held))))
    }

    /// Handles a segment that was declared lost without a refusal.
    pub(super) fn on_loss(&mut self, loss: &Loss, now: Instant, cx: &mut TxContext<'_>) {
        let stats = &mut *cx.stats;
        let feedback = match loss.by {
            Inference::LaterAck => {
                stats.lost_by_sack += 1;
                PathFeedback::Lost
            }
            Inference::Silence => {
                stats.lost_by_timeout += 1;
                PathFeedback::Timeout
            }
            Inference::Block => {
                stats.lost_by_block += 1;
                PathFeedback::Lost
            }
        };
        let marks = loss.packet.marks;
        if let Some(watch) = &mut self.watch
            && marks.parity_index().is_none()
            && !marks.resent()
        {
            watch.on_loss(loss.packet.sent_at);
        }
        self.balance(loss.packet.ev, feedback, now);
        let sample = LossSample { by: Some(loss.by), ..self.loss_sample(&loss.packet, now) };
        self.cc.on_timeout(&sample, &self.path);
    }

    fn loss_sample(&self, packet: &SentPacket, now: Instant) -> LossSample {
        let in_flight = self.recovery.in_flight();
        let (bytes, sent_at) = (packet.wire_bytes(), packet.sent_at);
        LossSample { now, bytes, in_flight, sent_at, sharers: 0, by: None }
    }

    /// Does what is due. Spurious calls are no-ops.
    pub(crate) fn on_timer(&mut self, now: Instant, cx: &mut TxContext<'_>) {
        self.wake(now);
        let lately = cx.round_trips.lately(self.peer, now);
        let due = self.recovery.on_timer(now, &cx.config.loss, lately);
        if self.recovery.opens_alone(&cx.config.loss) {
            self.alone = Some(Wait::Opening);
        }
        match due {
            Timeout::NotDue => {}
            Timeout::Before(limit) if self.code.is_some() => {
                self.lose_before(limit, Inference::Silence, now, cx);
                self.judge_idle(now, cx);
            }
            Timeout::Before(limit) => {
                let by = Inference::Silence;
                while let Some(loss) = self.recovery.next_sent_before(limit, by) {
                    self.on_loss(&loss, now, cx);
                }
            }
            Timeout::GiveUp => self.fail(cx),
        }
        self.window = self.cc.window();
    }
}

/// The handler of each packet that arrived: the packet counts towards `acked` and its message, and
/// whole messages are taken off the front.
pub(super) fn arrivals(
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

/// Counts `packet` towards its message. True when the message is whole now.
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

#[cfg(test)]
mod tests {
    use super::super::super::round_trips::LongRoundTrips;
    use super::super::super::sent_packets::{ChainLinks, Fate, Marks};
    use super::*;
    use crate::cc::Cc;
    use crate::config::Settings;
    use crate::ec::{EcKind, EcParams, PathLosses, QueueSign};
    use crate::lb::Lb;
    use crate::rng::Rng;
    use crate::slab::Slab;
    use crate::units::{HostId, Key};

    /// Whether a flow that is coded by loss codes its next block after 100 segments of which three
    /// packets with these marks are found lost.
    fn is_coded_after(marks: Marks) -> bool {
        let ec_params = EcParams { base_rtt_min: Duration::ZERO, ..EcParams::default() };
        let settings = Settings { ec: EcKind::Auto, ec_params, ..Settings::default() };
        let config = Config::new(settings).unwrap();
        let (path, mut rng) = (config.default_path(), Rng::new(1));
        let cc = Cc::new(config.cc, &config.cc_params, &path);
        let lb = Lb::new(config.lb, &config.lb_params, &path, 0, &mut rng);
        let ids = (FlowId(1), Key::default());
        let mut flow = TxFlow::new(&config, ids, HostId(1), path, cc, lb, rng);
        let mut paths = PathLosses::new(true);
        let (sent_at, now) = (Instant::ZERO, Instant::ZERO + path.base_rtt * 4);
        let watch = flow.watch.as_mut().unwrap();
        (0..100).for_each(|_| watch.on_sent(sent_at, &mut paths));
        (0..97).for_each(|_| watch.on_answer(sent_at, Duration::ZERO, QueueSign::None));
        let cx = &mut TxContext {
            config: &config,
            msgs: &mut Slab::new(1),
            round_trips: &mut LongRoundTrips::new(),
            losses: &mut paths,
            stats: &mut Stats::default(),
            events: &mut VecDeque::new(),
        };
        for by in [Inference::LaterAck, Inference::Silence, Inference::Block] {
            let packet = SentPacket {
                sent_at,
                msg: MsgId(0),
                offset: 0,
                wire_len: 4200,
                payload_len: 4096,
                ev: EntropyValue(0),
                fate: Fate::Lost,
                marks,
                links: ChainLinks::default(),
            };
            flow.on_loss(&Loss { packet, by }, now, cx);
        }
        flow.judge_idle(now, cx);
        let watch = flow.watch.as_mut().unwrap();
        watch.on_offset((0, 1, 1), (now, path.bdp()), cx.losses);
        watch.coding
    }

    #[test]
    fn losses_of_parity_and_of_what_is_sent_again_are_no_reason_to_code() {
        for (case, marks, coded) in [
            ("a segment", Marks::default(), true),
            ("a segment of a block", Marks::CODED, true),
            ("parity", Marks::parity(0), false),
            ("the last parity", Marks::parity(15), false),
            ("a segment again", Marks::default().again(), false),
            ("a segment of a block again", Marks::CODED.again(), false),
            ("parity again", Marks::parity(1).again(), false),
        ] {
            assert_eq!(is_coded_after(marks), coded, "{case}");
        }
    }
}
