//! Probes: a segment in flight is sent again where nothing arrives, and its acknowledgement shows
//! what else is missing.
//!
//! Tail probes come once, where a flow has nothing else to send. Flows whose loops pass through
//! border switches probe any silence, as long as it lasts: such a switch may die and begin anew,
//! and timeouts, which double meanwhile, would outlast its return by far. They send no tail probes,
//! whatever `loss.tail_probe` is. Source: ours.
//!
//! Probes of a silence put no timeout off. The segment that is probed counts as sent when it left
//! as no probe, so a peer that is gone is given up as if there were no probes. That bounds the
//! number of probes. Any other segment of the flow that leaves is as good as a probe, so the next
//! probe is due a silence later.

use alloc::boxed::Box;

use super::Recovery;
use crate::config::Config;
use crate::flow::sent_packets::{Fate, SentPacket};
use crate::path::Path;
use crate::rng::mix;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, Key, Psn};

/// What a flow needs to probe silences.
#[derive(Clone, Debug)]
pub(super) struct Probing {
    /// The least silence before a probe.
    silence: Duration,
    /// How long a receiver may hold an acknowledgement.
    held: Duration,
    /// The longer part of a silence by which the probes of flows are spread, in parts of
    /// [`SPREAD_OF`].
    spread: u64,
    /// The last round trip that was measured.
    took: Duration,
    /// The segment that was probed last.
    probed: Option<ProbedSegment>,
}

/// A segment that is sent again as a probe.
#[derive(Clone, Copy, Debug)]
struct ProbedSegment {
    psn: Psn,
    /// When the segment left as no probe.
    since: Instant,
    /// When the probe left; `None` while it waits to leave.
    left_at: Option<Instant>,
}

impl Probing {
    /// The wait for the next probe.
    fn gap(&self) -> Duration {
        let silence = self.silence.max(self.took + self.held);
        silence + silence / SPREAD_OF * self.spread
    }

    /// The probed segment while its entry is `entry`: nothing else has happened to it since.
    fn probed(&self, psn: Psn, entry: &SentPacket) -> Option<ProbedSegment> {
        self.probed.filter(|probed| {
            let stands = match probed.left_at {
                Some(at) => entry.fate == Fate::InFlight && entry.sent_at == at,
                None => entry.fate == Fate::Lost,
            };
            probed.psn == psn && stands
        })
    }
}

impl Recovery {
    /// The state of a flow that probes any silence.
    pub(crate) fn with_probes(self, config: &Config, path: &Path, key: Key) -> Self {
        let held = config.ack_delay();
        let silence = (path.base_rtt * SILENCE_RTTS + held).max(config.loss.rto_min);
        let spread = mix(key.0 ^ u64::from(self.salt)) % SPREAD;
        let probing = Probing { silence, held, spread, took: Duration::ZERO, probed: None };
        Self { probing: Some(Box::new(probing)), ..self }
    }

    /// True when the flow probes any silence.
    #[inline]
    pub(crate) fn probes_silences(&self) -> bool {
        self.probing.is_some()
    }

    /// When the next probe of a silence is due. Chooses that where nothing has been chosen since
    /// something last left or arrived. The last round trip took `took`, zero where it is too old
    /// for other uses: queues may be as long as they were.
    pub(crate) fn next_probe(&mut self, now: Instant, took: Duration) -> Option<Instant> {
        if self.probe_at.is_some() || self.in_flight == Bytes::ZERO || self.has_waiting_probe() {
            return self.probe_at;
        }
        let probing = self.probing.as_deref_mut()?;
        if took > Duration::ZERO {
            probing.took = took;
        }
        self.probe_at = Some(now + probing.gap());
        self.probe_at
    }

    /// Whether a probe waits to leave.
    fn has_waiting_probe(&self) -> bool {
        let probed = self.probing.as_deref().and_then(|probing| probing.probed);
        let waits = probed.filter(|probed| probed.left_at.is_none());
        waits.is_some_and(|probed| {
            self.sent.entry(probed.psn).is_some_and(|entry| self.is_probe(probed.psn, entry))
        })
    }

    /// Probes a silence, unless nothing is in flight.
    #[cold]
    pub(super) fn probe_silence(&mut self) {
        let again = self.probe_in_flight();
        let last = || self.last_in_flight().map(|(psn, entry)| (psn, entry.sent_at));
        let Some((psn, since)) = again.or_else(last) else { return };
        let (Some(probing), Some(packet)) = (&mut self.probing, self.sent.lose_first(psn)) else {
            return;
        };
        probing.probed = Some(ProbedSegment { psn, since, left_at: None });
        self.probed = true;
        self.in_flight -= packet.wire_bytes();
        self.lost_bytes += packet.wire_bytes();
    }

    /// The segment in flight whose last transmission was a probe of the silence that lasts, and
    /// when it left as no probe. Once something has arrived a probe is as good as any segment.
    pub(super) fn probe_in_flight(&self) -> Option<(Psn, Instant)> {
        let probing = self.probing.as_deref().filter(|_| self.probed)?;
        let ProbedSegment { psn, since, left_at } = probing.probed?;
        left_at?;
        probing.probed(psn, self.sent.entry(psn)?).map(|_| (psn, since))
    }

    /// True when `entry`, that of `psn`, left or waits as a probe: its loss was not declared.
    pub(super) fn is_probe(&self, psn: Psn, entry: &SentPacket) -> bool {
        self.probing.as_ref().is_some_and(|probing| probing.probed(psn, entry).is_some())
    }

    /// Notes that `psn` leaves at `at`. True when it leaves as a probe.
    pub(super) fn note_probe(&mut self, psn: Psn, at: Instant) -> bool {
        let Some(probing) = &mut self.probing else { return false };
        let Some(probed) = probing.probed.filter(|probed| probed.psn == psn) else { return false };
        let probe = probed.left_at.is_none();
        probing.probed = probe.then_some(ProbedSegment { left_at: Some(at), ..probed });
        probe
    }

    /// Segments that left before `limit` are lost: a probe of one of them that waits to leave is
    /// none any more, and what is sent again takes the place of the next probe.
    pub(super) fn end_probe(&mut self, limit: Instant) {
        if let Some(probing) = &mut self.probing {
            let waits = |probed: &ProbedSegment| probed.left_at.is_none() && probed.since < limit;
            probing.probed = probing.probed.filter(|probed| !waits(probed));
            self.probe_at = None;
        }
    }

    /// Sends the last outstanding segment again; its acknowledgement shows what else is missing.
    pub(super) fn probe_tail(&mut self) {
        if let Some(psn) = self.last_in_flight().map(|(psn, _)| psn) {
            self.mark_lost(psn);
        }
    }

    /// The segment in flight with the last PSN. O(PSN window).
    fn last_in_flight(&self) -> Option<(Psn, &SentPacket)> {
        let mut psn = self.sent.next();
        while psn != self.sent.base() {
            psn = psn.plus(u32::MAX);
            if let Some(entry) = self.sent.entry(psn).filter(|entry| entry.fate == Fate::InFlight) {
                return Some((psn, entry));
            }
        }
        None
    }
}

/// Base RTTs before a tail probe: long enough for a full queue on the way, short against the
/// timeout of 7.
pub(super) const TAIL_RTTS: u64 = 3;

/// Base RTTs between the probes of a silence. A probe that leaves as soon as a dead switch is back
/// is answered within one more, and what was lost arrives half a base RTT later.
const SILENCE_RTTS: u64 = 2;

/// Silences differ among flows by up to a 16th, so that flows that fell silent together do not
/// probe together. With a larger part, what was lost could arrive later than four base RTTs after a
/// switch's return. The fineness is 1 in [`SPREAD_OF`].
const SPREAD: u64 = SPREAD_OF / 16;

/// The parts of a silence.
const SPREAD_OF: u64 = 4096;
