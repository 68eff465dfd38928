//! Segments that have arrived and wait to be acknowledged, several with one acknowledgement.

use crate::time::Instant;
use crate::units::{EntropyValue, Psn};
use crate::wire::Receipt;

/// Segments that wait to be acknowledged.
pub(crate) type Pending = Option<Waiting>;

/// Segments that have arrived and wait for others to be acknowledged with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    /// The segment that the acknowledgement names: the newest, or the first that was trimmed.
    pub(super) ack: PendingAck,
    /// When the first segment arrived: later ones do not delay its acknowledgement.
    pub(super) since: Instant,
    /// Number of segments, 1..`ack_every`.
    pub(super) count: u16,
    /// The first PSN of the 64-PSN words that they lie in.
    pub(super) low: Psn,
    /// How many words that is.
    pub(super) words: u16,
}

const _: () = assert!(size_of::<Pending>() <= 40);

/// The part of an acknowledgement about the segment that causes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingAck {
    pub(super) at: Instant,
    pub(super) psn: Psn,
    pub(super) sent_at: u32,
    pub(super) ev: EntropyValue,
    pub(super) ce: bool,
    pub(super) trimmed: bool,
    pub(super) receipt: Receipt,
    /// The queue of answers has its telemetry.
    pub(super) echo: bool,
}

impl Waiting {
    /// A single segment.
    #[inline]
    pub(super) const fn of(ack: PendingAck) -> Self {
        Self { ack, since: ack.at, count: 1, low: word_of(ack.psn), words: 1 }
    }

    /// The pending segments with one more, which arrived last.
    #[inline]
    pub(super) fn with(self, newer: PendingAck) -> Self {
        let (low, words) = self.reach(newer.psn);
        let words = u16::try_from(words).unwrap_or(u16::MAX);
        // The acknowledgement of a trimmed segment is its refusal, which no report replaces.
        let mut ack = if self.ack.trimmed { self.ack } else { newer };
        ack.ce = self.ack.ce || newer.ce;
        Self { ack, since: self.since, count: self.count.saturating_add(1), low, words }
    }

    /// The first of the words with `psn` among them, and how many words it is to the last.
    #[inline]
    pub(super) fn reach(&self, psn: Psn) -> (Psn, u32) {
        let (own, words) = (word_of(psn), u32::from(self.words));
        let ahead = own.distance_from(self.low);
        let apart = ahead.unsigned_abs() / 64;
        if ahead < 0 { (own, words + apart) } else { (self.low, words.max(apart + 1)) }
    }

    /// The first PSN of the report that must go with the acknowledgement.
    #[inline]
    pub(super) fn report(&self) -> Option<Psn> {
        (self.words > 1).then_some(self.low)
    }
}

/// The first PSN of the 64-PSN word of `psn`.
#[inline]
pub(super) const fn word_of(psn: Psn) -> Psn {
    Psn(psn.0 & !63)
}
