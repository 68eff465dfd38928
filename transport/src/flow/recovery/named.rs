//! Segments that a refusal names, and segments of which no report can come any more. They are sent
//! again at once.

use super::{Fate, Recovery, SentPacket};
use crate::time::Instant;
use crate::units::Psn;

impl Recovery {
    /// Takes in a refusal of `psn` as sent at `echo_sent_at`. Returns the segment, unless another
    /// transmission of it is in flight, which this refusal does not concern.
    pub(crate) fn on_refused(&mut self, psn: Psn, echo_sent_at: u32) -> Option<SentPacket> {
        if self.is_refusal(psn, echo_sent_at) { self.mark_lost(psn) } else { None }
    }

    /// When `psn` left, and whether it had left before, where it is in flight.
    pub(crate) fn in_flight_since(&self, psn: Psn) -> Option<(Instant, bool)> {
        let entry = self.sent.entry(psn).filter(|entry| entry.fate == Fate::InFlight);
        entry.map(|entry| (entry.sent_at, !entry.is_first_flight()))
    }

    /// Sends `psn` again where it is in flight.
    pub(crate) fn send_again(&mut self, psn: Psn) {
        if self.in_flight_since(psn).is_some() {
            self.mark_lost(psn);
        }
    }

    /// True when `psn` is in flight, and was sent at `echo_sent_at`.
    pub(crate) fn is_refusal(&self, psn: Psn, echo_sent_at: u32) -> bool {
        self.sent.entry(psn).is_some_and(|entry| {
            entry.fate == Fate::InFlight && entry.sent_at.to_wire() == echo_sent_at
        })
    }
}
