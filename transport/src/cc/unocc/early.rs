//! QuickAdapt before its round trip is over, for bursts that are shorter than their path; ours.
//!
//! A message of a part of a BDP leaves at line rate at once. Where many do, most of them is lost,
//! and one timeout later it would leave again as fast, and be lost again, for QuickAdapt still
//! counts: on a path of 1.8 ms each such turn is 4 ms. At the first loss it is known what of the
//! burst has arrived, and how fast that came; so the rest leaves at that rate.
//!
//! ```text
//!   sent      |======|                         |====   ====   ====
//!   acked             .. RTT ..  |= = = =|     |
//!                                from  until   a loss: the window becomes the rate from..until
//! ```
//!
//! That rate is a share of a moment that everybody sent in. What was cut doubles each RTT while
//! real queues are empty, marked or not: phantom queues remember an overload for longer than one.

use super::{Measurement, QaMeasure, UnoCc};
use crate::cc::{AckSample, LossSample};
use crate::time::Instant;
use crate::units::Bytes;

/// Bursts shorter than this many packets say nothing of a rate.
const BURST_MIN: f64 = 16.0;
/// RTTs after the cut in which the window may grow back. Eight doublings are the cut to a 256th;
/// afterwards it is marks that say what is free.
const REGROWTH_RTTS: u64 = 8;

impl UnoCc {
    /// Reacts to a loss of what was sent with the present window, if that settles what QuickAdapt
    /// will find. True when it did.
    pub(super) fn adapt_early(&mut self, loss: &LossSample) -> bool {
        let by_rate = self.params.quick_adapt && self.params.qa_measure == QaMeasure::Rate;
        let Some(done) = self.measurement.filter(|_| by_rate && self.params.qa_early > 0.0) else {
            return false;
        };
        if !self.is_starved(&done, loss.now) {
            return false;
        }
        self.former = self.former.max(self.cwnd);
        let arrived = self.at.in_a_period(&done).clamp(1.0, self.cwnd);
        self.adapt(arrived * f64::from(self.params.qa_early), loss.now);
        true
    }

    /// Whether so little of the burst that was in flight has arrived that QuickAdapt has to act,
    /// although all of it has had the time that it takes at the window's rate.
    fn is_starved(&self, done: &Measurement, now: Instant) -> bool {
        let burst = self.cwnd.min(done.in_flight);
        let span_ps = Bytes(now.since(done.from).as_ps()).as_f64();
        let due_ps = Bytes(self.at.qa_period.as_ps()).as_f64() * burst / self.cwnd;
        burst >= BURST_MIN
            && span_ps >= due_ps
            && done.acked < burst * f64::from(self.params.qa_factor)
    }

    /// Gives back what was cut early.
    pub(super) fn regrow(&mut self, sent_at: Instant, acked: f64, ack: &AckSample) {
        if ack.rtt <= self.at.empty_rtt {
            self.set((self.cwnd + acked).min(self.former));
        }
        let span = self.bounds.base_rtt * REGROWTH_RTTS;
        if self.cwnd >= self.former || sent_at.since(self.adapted_at) > span {
            self.former = 0.0;
        }
    }
}
