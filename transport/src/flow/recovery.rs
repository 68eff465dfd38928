//! Loss detection: which segments of a flow are in flight, which are lost, and when silence counts
//! as loss.
//!
//! ```text
//!            sent                    acknowledge
//!  (new) ---------> InFlight -----------------> Acked
//!                     |    ^                       ^
//!     refused,        |    | sent again            | acknowledged after all (spurious)
//!     overtaken       v    |                       |
//!     or silent     Lost (queued) -----------------+
//! ```
//!
//! Where blocks are erasure-coded a lost packet may also be spare, neither in flight nor queued:
//! see [`blocks`].
//!
//! Loss is detected by a refusal (NACK), by acknowledgements of later segments, and last by
//! silence. Each segment is examined once per transmission. First transmissions are in PSN order
//! and retransmissions in a chain of their own, both in order of time. So the segment that has been
//! in flight longest is at the head of one of the two. This code reads no windows, paths or
//! messages.

mod blocks;
mod named;
mod probes;

pub(crate) use blocks::BlockSpan;

use alloc::boxed::Box;

use super::sent_packets::{Fate, SentPacket, SentPackets};
use crate::cc::Inference;
use crate::config::LossSettings;
use crate::path::Path;
use crate::rng::mix;
use crate::time::{Duration, Instant, earliest};
use crate::units::{Bytes, Psn};
use crate::wire::{Ack, Report};
use probes::Probing;

/// The state of one flow's segments.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    sent: SentPackets,
    /// Wire bytes in flight: the sum over segments whose fate is `InFlight`.
    in_flight: Bytes,
    /// Wire bytes to be sent again: the sum over segments whose fate is `Lost`.
    lost_bytes: Bytes,
    /// First transmissions before this PSN are no longer the oldest in flight.
    scan: Psn,
    /// When the most recently sent of all acknowledged segments was sent.
    newest_acked: Instant,
    /// Segments sent this long before `newest_acked` are lost.
    reorder_window: Option<Duration>,
    /// Packets of a block sent longer ago than this are lost when the receiver lacks them.
    block_window: Duration,
    /// Silence after which a segment is lost, without back-off.
    rto: Duration,
    /// Silence after which a segment is lost where recent round trips to the peer took longer than
    /// `rto`, else zero; as of the last timer.
    slow: Duration,
    base_rtt: Duration,
    /// When a probe is due, unless an acknowledgement arrives before.
    probe_at: Option<Instant>,
    /// Whether this silence has been probed: a further tail probe would only put off the timeout.
    probed: bool,
    /// How any silence is probed; `None` in flows that probe tails alone.
    probing: Option<Box<Probing>>,
    /// Timeouts in a row without news of an arrival; the back-off follows from them.
    timeouts: u8,
    /// When the last timeout was counted. Segments sent before it are silent for the same reason:
    /// they cause no further timeout, and do not wait longer.
    counted_at: Instant,
    /// Timeouts in a row without a packet from the peer, after which the flow is given up. A peer
    /// that refuses everything is not silent.
    silent: u8,
    /// Differs among flows of an endpoint, whose attempts to reach a silent peer it spreads.
    salt: u8,
    /// When the first of these timeouts was counted; means nothing while `silent` is 0.
    silent_since: Instant,
}

/// A segment that has just been declared lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) packet: SentPacket,
    pub(crate) by: Inference,
}

/// The result of a timer that fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timeout {
    /// Nothing was due.
    NotDue,
    /// Segments sent before this instant are lost.
    Before(Instant),
    /// There were too many timeouts in a row: the peer is silent.
    GiveUp,
}

impl Recovery {
    /// The timeout without backing off.
    pub(crate) const fn rto(&self) -> Duration {
        self.rto
    }

    /// The state of a flow over `path` that has sent nothing; `rto` is its timeout without
    /// back-off.
    pub(crate) fn new(loss: &LossSettings, path: &Path, rto: Duration, salt: u8) -> Self {
        // A path keeps order, so a gap shows a loss nearly at once.
        let parts = |quarters| if loss.in_order { (1, 64) } else { (u64::from(quarters), 4) };
        let reorder = loss.reorder_window_quarters.map(parts);
        Self {
            sent: SentPackets::new(),
            in_flight: Bytes::ZERO,
            lost_bytes: Bytes::ZERO,
            scan: Psn(0),
            newest_acked: Instant::ZERO,
            reorder_window: reorder.map(|(parts, of)| path.base_rtt.mul_ratio(parts, of)),
            block_window: path.base_rtt,
            rto,
            slow: Duration::ZERO,
            base_rtt: path.base_rtt,
            probe_at: None,
            probed: false,
            probing: None,
            timeouts: 0,
            counted_at: Instant::ZERO,
            silent: 0,
            salt,
            silent_since: Instant::ZERO,
        }
    }

    /// Makes room for `more` PSNs beside those outstanding, at most `most` in all. Not for the hot
    /// path.
    pub(crate) fn reserve(&mut self, more: u64, most: u32) {
        let wanted = u64::from(self.sent.outstanding()) + more;
        self.sent.reserve(u32::try_from(wanted).unwrap_or(most).min(most));
    }

    /// Frees the memory of a flow that is over.
    pub(crate) fn clear(&mut self) {
        self.sent = SentPackets::new();
        self.in_flight = Bytes::ZERO;
        self.lost_bytes = Bytes::ZERO;
        self.probe_at = None;
        self.end_probe(Instant::FAR_FUTURE);
    }

    /// The receiver has taken nothing of what was sent: all of it is to be sent again. It says
    /// nothing of the network.
    pub(crate) fn resend_all(&mut self, now: Instant) {
        self.end_probe(now);
        // Bounded by the PSN window: each turn takes one segment out of flight.
        while self.next_sent_before(now + Duration::from_ps(1), Inference::Silence).is_some() {}
    }

    /// The receiver has lost its state of the flow: nothing is outstanding, and PSNs begin again.
    pub(crate) fn restart(&mut self) {
        self.clear();
        (self.scan, self.newest_acked) = (Psn(0), Instant::ZERO);
        (self.timeouts, self.silent, self.probed) = (0, 0, false);
    }

    /// True when a round trip took longer than the timeout; the next timer reads how long.
    #[inline]
    pub(crate) fn is_slow(&mut self, round_trip: Duration) -> bool {
        let slow = round_trip >= self.rto;
        if !slow {
            self.slow = Duration::ZERO;
        }
        slow
    }

    /// Wire bytes in flight.
    pub(crate) fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// Wire bytes to be sent again.
    pub(crate) fn lost_bytes(&self) -> Bytes {
        self.lost_bytes
    }

    /// Segments to be sent again.
    pub(crate) fn lost(&self) -> u32 {
        self.sent.lost()
    }

    /// True when some segment may have to be sent again.
    pub(crate) fn has_lost(&self) -> bool {
        self.sent.has_lost()
    }

    /// How many more PSNs can be outstanding.
    pub(crate) fn room(&self) -> usize {
        self.sent.room()
    }

    /// Notes a new segment and names it.
    ///
    /// # Panics
    /// When full: the flow asks first.
    #[inline]
    pub(crate) fn on_sent(&mut self, packet: SentPacket) -> Psn {
        self.in_flight += packet.wire_bytes();
        self.probe_at = None;
        self.sent.push(packet)
    }

    /// Notes a new segment that leaves as a copy, or does not leave yet: it waits to be sent in its
    /// turn, and is not in flight. Otherwise this is [`Recovery::on_sent`].
    pub(crate) fn on_waiting(&mut self, packet: SentPacket) -> Psn {
        self.lost_bytes += packet.wire_bytes();
        self.sent.push_waiting(packet)
    }

    /// The segment of which one more copy leaves next, where some have left only as copies.
    pub(crate) fn oldest_copy(&self) -> Option<(Psn, SentPacket)> {
        self.sent.oldest_copy()
    }

    /// Notes that one more copy of the segment `psn` leaves, as `packet`.
    pub(crate) fn on_copied_again(&mut self, psn: Psn, packet: &SentPacket) {
        self.sent.copy_again(psn, packet);
    }

    /// The segment to send again next: the oldest that still counts as lost.
    pub(crate) fn next_lost(&self) -> Option<(Psn, &SentPacket)> {
        self.sent.first_lost()
    }

    /// The segment that waits behind `skip` others. Segments that have left only as a copy wait
    /// behind `unsent` segments that were never sent, and these wait behind all others. `Err` means
    /// that the segment itself was never sent; it has the number of such segments before it.
    pub(crate) fn nth_waiting(&self, skip: usize, unsent: u64) -> Result<Option<Psn>, usize> {
        let before = (self.sent.lost() - self.sent.copies()) as usize;
        let Some(beyond) = skip.checked_sub(before) else {
            return Ok(self.sent.nth_lost(skip, false).map(|(psn, _)| psn));
        };
        match usize::try_from(unsent).unwrap_or(usize::MAX) {
            unsent if beyond < unsent => Err(beyond),
            unsent => Ok(self.sent.nth_lost(beyond - unsent, true).map(|(psn, _)| psn)),
        }
    }

    /// Notes that the lost segment `psn` was sent again, as `packet`. True when it is a probe of a
    /// silence.
    pub(crate) fn on_resent(&mut self, psn: Psn, packet: SentPacket) -> bool {
        self.in_flight += packet.wire_bytes();
        self.lost_bytes -= self.sent.entry(psn).map_or(Bytes::ZERO, SentPacket::wire_bytes);
        self.probe_at = None;
        let probe = self.note_probe(psn, packet.sent_at);
        self.sent.resend(psn, packet);
        probe
    }

    /// False when an acknowledgement contradicts the segments that were sent: it is forged.
    /// `parity` packets of the last block were not sent yet; a receiver that has decoded the block
    /// reports them as arrived.
    #[inline]
    pub(crate) fn is_plausible(&self, ack: &Ack, parity: u8) -> bool {
        let next = self.sent.next();
        ack.psn.distance_from(next) < 0 && ack.cumulative.distance_from(next) <= i32::from(parity)
    }

    /// False when the transmission that caused an acknowledgement was a copy, or may have been one.
    #[inline]
    pub(crate) fn answers_turn(&self, ack: &Ack) -> bool {
        self.sent.had_its_turn(ack.psn, ack.echo_sent_at)
    }

    /// Takes in an acknowledgement and calls `arrived` with each segment that it is the first to
    /// report. The segment that caused it was `sent` at that time and so long ago, where that is
    /// known. True when the acknowledgement shows that a loss was declared wrongly.
    pub(crate) fn on_news(
        &mut self,
        ack: &Ack,
        sent: Option<(Instant, Duration)>,
        mut arrived: impl FnMut(&SentPacket),
    ) -> bool {
        let current = self.sent.is_outstanding(ack.psn);
        let mut spurious = false;
        if let Some((sent_at, round_trip)) = sent {
            self.newest_acked = self.newest_acked.max(sent_at);
            spurious = self.is_spurious(ack);
            if spurious {
                self.reorder_window = self.reorder_window.map(|w| (w + w / 2).min(self.rto));
                self.block_window = self.block_window.max(round_trip).min(self.rto);
            }
        }
        let word = Psn(ack.psn.0 & !63);
        let (mut any, mut sack) = (false, ack.sack);
        let mut at = Psn(self.sent.base().0 & !63);
        // Bounded by the words of the PSN window.
        loop {
            let before = ack.cumulative.distance_from(at);
            if before <= 0 {
                break;
            }
            let all = if before >= 64 { u64::MAX } else { (1 << before) - 1 };
            // The word of the SACK is read once.
            let sack = if at == word { core::mem::take(&mut sack) } else { 0 };
            any |= self.acknowledge(at, all | sack, &mut arrived);
            at = at.plus(64);
        }
        if sack != 0 {
            any |= self.acknowledge(word, sack, &mut arrived);
        }
        self.note_feedback(any, current);
        spurious
    }

    /// True when a report agrees with the segments that were sent; `parity` as in
    /// [`Self::is_plausible`].
    pub(crate) fn is_plausible_report(&self, report: &Report, parity: u8) -> bool {
        let last = (0..8).rev().find(|word| report.arrived[*word] != 0);
        let Some(word) = last else { return true };
        let bit = 31 - report.arrived[word].leading_zeros();
        let last = report.first.plus(u32::try_from(word).unwrap_or(0) * 32 + bit);
        last.distance_from(self.sent.next()) < i32::from(parity)
    }

    /// Takes in a report and calls `arrived` with each segment that it is the first to report.
    pub(crate) fn on_report(&mut self, report: &Report, mut arrived: impl FnMut(&SentPacket)) {
        let mut any = false;
        for (word, halves) in (0..).zip(report.arrived.chunks_exact(2)) {
            let bits = u64::from(halves[1]) << 32 | u64::from(halves[0]);
            any |= self.acknowledge(report.first.plus(word * 64), bits, &mut arrived);
        }
        self.note_feedback(any, any);
    }

    /// Handles feedback of the peer, which reports an arrival that was not known yet (`any`) or is
    /// about a segment that is outstanding (`current`). Feedback about other segments is late or
    /// replayed: it does not show that the peer is still there.
    #[inline]
    fn note_feedback(&mut self, any: bool, current: bool) {
        if any || current {
            self.silent = 0;
        }
        if any {
            self.sent.advance();
            self.timeouts = 0;
            self.probe_at = None;
            self.probed = false;
        }
    }

    /// Notes that the PSNs `word + i` of the bits i of `bits` have arrived. True when an arrival
    /// was not known.
    #[inline]
    fn acknowledge(&mut self, word: Psn, bits: u64, arrived: &mut impl FnMut(&SentPacket)) -> bool {
        let mut news = self.sent.note(word, bits);
        let any = news != 0;
        while news != 0 {
            let packet = self.sent.arrive(word.plus(news.trailing_zeros()));
            match packet.fate {
                Fate::InFlight => self.in_flight -= packet.wire_bytes(),
                Fate::Lost => self.lost_bytes -= packet.wire_bytes(),
                Fate::Spare | Fate::Acked => {}
            }
            if !packet.marks.resent() {
                self.newest_acked = self.newest_acked.max(packet.sent_at);
            }
            arrived(&packet);
            news &= news - 1;
        }
        any
    }

    /// True when the segment that caused the acknowledgement had been declared lost, and its first
    /// transmission arrived. False for a copy, whose loss is never declared.
    fn is_spurious(&self, ack: &Ack) -> bool {
        let arrived = ack.sack & 1 << (ack.psn.0 & 63) != 0;
        arrived
            && self.sent.entry(ack.psn).is_some_and(|entry| match entry.fate {
                _ if entry.marks.copied() => false,
                Fate::Lost | Fate::Spare => !self.is_probe(ack.psn, entry),
                Fate::InFlight => {
                    entry.marks.resent()
                        && entry.sent_at.to_wire() != ack.echo_sent_at
                        && !self.is_probe(ack.psn, entry)
                }
                Fate::Acked => false,
            })
    }

    /// The next segment that later acknowledgements show to be lost. Call until `None`.
    #[inline]
    pub(crate) fn next_overtaken(&mut self) -> Option<Loss> {
        let limit = self.overtaken_before()?;
        self.next_sent_before(limit, Inference::LaterAck)
    }

    /// Segments in flight that were sent before this instant are lost, by later acknowledgements.
    #[inline]
    pub(crate) fn overtaken_before(&self) -> Option<Instant> {
        let window = self.reorder_window?;
        self.newest_acked.as_ps().checked_sub(window.as_ps()).map(Instant::from_ps)
    }

    /// The next segment in flight that was sent before `limit`, now declared lost. Call until
    /// `None`: each call takes one out of flight.
    #[inline]
    pub(crate) fn next_sent_before(&mut self, limit: Instant, by: Inference) -> Option<Loss> {
        let (psn, at) = self.oldest().filter(|&(_, at)| at < limit)?;
        self.mark_lost(psn).map(|packet| Loss { packet: SentPacket { sent_at: at, ..packet }, by })
    }

    /// Takes `psn` out of flight and queues it to be sent again.
    #[inline(never)]
    fn mark_lost(&mut self, psn: Psn) -> Option<SentPacket> {
        let packet = self.sent.lose(psn)?;
        self.in_flight -= packet.wire_bytes();
        self.lost_bytes += packet.wire_bytes();
        Some(packet)
    }

    /// The segment in flight that was sent longest ago, and when. Amortised O(1).
    #[inline]
    fn oldest(&mut self) -> Option<(Psn, Instant)> {
        if self.scan.distance_from(self.sent.base()) < 0 {
            self.scan = self.sent.base();
        }
        match self.sent.entry(self.scan) {
            Some(entry) if entry.is_first_flight() && !self.sent.has_resent() => {
                Some((self.scan, entry.sent_at))
            }
            _ => self.search_oldest(),
        }
    }

    #[inline(never)]
    fn search_oldest(&mut self) -> Option<(Psn, Instant)> {
        let mut first = None;
        while let Some(entry) = self.sent.entry(self.scan) {
            if entry.is_first_flight() {
                first = Some((self.scan, entry.sent_at));
                break;
            }
            self.scan = self.scan.plus(1);
        }
        let again = self.sent.first_resent().map(|(psn, entry)| (psn, entry.sent_at));
        let again = match (again, self.probe_in_flight()) {
            (Some(again), Some(probed)) if again.1 < probed.1 => Some(again),
            (again, probed) => probed.or(again),
        };
        match (first, again) {
            (Some(first), Some(again)) if again.1 < first.1 => Some(again),
            (first, again) => first.or(again),
        }
    }

    /// When to call [`Recovery::on_timer`]. `tail`: the flow has nothing else to send, so that a
    /// probe is sent before the timeout.
    pub(crate) fn next_timer(
        &mut self,
        now: Instant,
        tail: bool,
        loss: &LossSettings,
    ) -> Option<Instant> {
        let quiet = self.in_flight > Bytes::ZERO && self.timeouts == 0 && !self.has_lost();
        let unplanned = !self.probed && self.probe_at.is_none();
        if loss.tail_probe && tail && quiet && unplanned && !self.probes_silences() {
            self.probe_at = Some(now + self.base_rtt * probes::TAIL_RTTS);
        }
        let silence = self.oldest().map(|(_, at)| at + self.patience(at, loss));
        earliest(silence, self.probe_at)
    }

    /// How long a segment sent at `sent_at` may go without an answer.
    #[inline]
    fn patience(&self, sent_at: Instant, loss: &LossSettings) -> Duration {
        let before = sent_at < self.counted_at;
        match self.timeouts.saturating_sub(u8::from(before)) {
            0 => self.rto.max(self.slow),
            timeouts => self.backed_off(sent_at, timeouts, loss),
        }
    }

    /// How long such a segment may go without an answer after `timeouts` in a row, at least one.
    #[cold]
    fn backed_off(&self, sent_at: Instant, timeouts: u8, loss: &LossSettings) -> Duration {
        let backed_off = self.rto * (1 << timeouts.min(loss.backoff_max));
        if !loss.tries_seldom(self.rto) {
            return backed_off.max(self.slow);
        }
        let is_fast = self.is_unanswered() && self.silent < OPENINGS;
        let backed_off = if is_fast { backed_off.min(OPEN_WITHIN) } else { backed_off };
        // Neither flows of an endpoint that fell silent together nor a link that comes and goes at
        // regular times keep step with the attempts.
        let spread = mix(sent_at.as_ps() ^ u64::from(self.salt) << 56) & 63;
        let least = self.rto.max(self.slow);
        let wait = backed_off.mul_ratio(256 - spread, 256);
        if wait >= least { wait } else { least.mul_ratio(256 + spread, 256) }
    }

    /// True while the peer has answered nothing that this flow has sent.
    fn is_unanswered(&self) -> bool {
        self.newest_acked == Instant::ZERO
    }

    /// True while a flow whose attempts are spread has had no answer through several timeouts, and
    /// these would be longer than [`OPEN_WITHIN`] by now if they doubled: one segment is sent after
    /// each.
    pub(crate) fn opens_alone(&self, loss: &LossSettings) -> bool {
        let doubled = || self.rto * (1 << self.timeouts.min(OPEN_DOUBLINGS));
        self.timeouts >= OPENING_WINDOWS
            && self.is_unanswered()
            && loss.tries_seldom(self.rto)
            && doubled() > OPEN_WITHIN
    }

    /// How long a segment that was refused is held back at most. If so much time passes several
    /// times in a row, the receiver still keeps the flow.
    pub(crate) fn patience_max(&self, loss: &LossSettings) -> Duration {
        self.rto * (1 << loss.slow_doublings())
    }

    /// Does what is due at `now`. Spurious calls are no-ops. `lately` is the recent round-trip time
    /// to the peer, where that is longer than the timeout.
    //= rfc6298#2: a timeout is longer than the round trips that were measured.
    pub(crate) fn on_timer(
        &mut self,
        now: Instant,
        loss: &LossSettings,
        lately: Option<Duration>,
    ) -> Timeout {
        // A quarter is added, because the queue may be growing; the sum is bounded, so that the
        // receiver does not forget the flow meanwhile.
        let slow = lately.map_or(Duration::ZERO, |took| took + took / 4);
        self.slow = slow.min(loss.slow_max(self.rto));
        let probe = self.probe_at.is_some_and(|at| at <= now);
        if probe {
            self.probe_at = None;
            self.probed |= !self.probes_silences();
        }
        let probe = probe && lately.is_none();
        if probe && !self.probes_silences() {
            self.probe_tail();
        }
        let oldest = self.oldest().map(|(_, at)| (at, self.patience(at, loss)));
        let Some((sent_at, patience)) = oldest.filter(|&(at, patience)| at + patience <= now)
        else {
            // A timeout that is due as well would send more than a probe does.
            if probe && self.probes_silences() {
                self.probe_silence();
            }
            return Timeout::NotDue;
        };
        if sent_at >= self.counted_at {
            if self.silent == 0 {
                self.silent_since = now;
            }
            if self.silent >= loss.retries_max && now.since(self.silent_since) >= loss.give_up {
                return Timeout::GiveUp;
            }
            self.silent = self.silent.saturating_add(1);
            self.timeouts = self.timeouts.saturating_add(1);
            self.counted_at = now;
        }
        // Segments that were silent nearly as long are lost with it, which saves a timer for each;
        // segments whose answer may still be on its way are not.
        let nearly = patience.mul_ratio(3, 4).max((self.base_rtt + patience) / 2);
        let limit = Instant::from_ps(now.as_ps().saturating_sub(nearly.as_ps()));
        let limit = limit.max(sent_at + Duration::from_ps(1));
        self.end_probe(limit);
        Timeout::Before(limit)
    }
}

/// The longest wait between two attempts to open a flow, while there were fewer than [`OPENINGS`].
/// Up to a quarter less is waited, or, where that would be less than a timeout without back-off,
/// that timeout and up to a quarter more. A receiver under a flood of openings from the same host
/// answers few of them: one in 24 where there are 143,000 a second (`endpoint/presence.rs`).
const OPEN_WITHIN: Duration = Duration::from_ms(10);

/// Attempts to open a flow that come so fast.
const OPENINGS: u8 = 250;

/// Whole windows that a flow that opens sends at least, the first transmission among them, since
/// paths may have failed. Further attempts are of one segment.
const OPENING_WINDOWS: u8 = 3;

/// Doublings of the timeout after which any timeout is longer than [`OPEN_WITHIN`].
const OPEN_DOUBLINGS: u8 = 20;

#[cfg(test)]
mod tests;
