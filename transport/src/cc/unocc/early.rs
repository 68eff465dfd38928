//! QuickAdapt before its round trip is over, for bursts that are shorter than their path; ours.
//!
//! A message shorter than a BDP leaves at line rate at once. Where many hosts send short messages
//! at the same time, most packets are lost. One timeout later they would leave again as fast, and
//! be lost again, because QuickAdapt is still counting. With an RTT of 1.8 ms each of these rounds
//! takes 4 ms. At the first loss the sender has measured how much of the burst has arrived, and how
//! fast; the rest leaves at that rate.
//!
//! Silence shows a loss when the burst has passed. A receiver asks for the packets of a coded block
//! while the burst still arrives, and switches that trim report packets then, too. They would leave
//! at line rate until the burst is over, and be lost again. The rate at which packets have come so
//! far decides then. One trimmed packet is no evidence of a slow path: headers overtake the packets
//! in a queue, and a device hands over many reports at once. So most reports of the burst have to
//! be of packets that did not arrive, and some packets have to show a rate. The rate of a few
//! packets may be far too low by chance, so the window keeps a part from which it can grow back.
//!
//! ```text
//!   sent      |======|                         |====   ====   ====
//!   acked             .. RTT ..  |= = = =|     |
//!                                from  until   a loss: the window becomes the rate from..until
//! ```
//!
//! The rate between `from` and `until` is the flow's share at a moment when all flows sent. A
//! window that was cut early doubles each RTT while real queues are empty, whether packets are
//! marked or not: phantom queues stay full for longer than one RTT after an overload.

use super::{Measurement, QaMeasure, UnoCc, short};
use crate::cc::{AckSample, Inference, LossSample};
use crate::time::{Duration, Instant};
use crate::units::Bytes;

/// Packets of the shortest burst that shows a rate.
const BURST_MIN: f64 = 16.0;
/// Part of QuickAdapt's factor below which packets that come while the burst arrives show that the
/// rest will be starved: the first of them show its rate roughly.
const PART_SURE: f64 = 0.8;
/// Part of the reported packets above which trimmed ones show that the rest will be trimmed.
const PART_TRIMMED: f64 = 0.5;
/// Packets that have to arrive after the first acknowledgement before trimmed ones can show a rate:
/// the rate of fewer may be far too low by chance.
const ARRIVED_MIN: f64 = 4.0;
/// Part of the window that trimmed packets leave: four doublings make up for it, of the eight that
/// the window has to grow back.
const WINDOW_LEFT: f64 = 1.0 / 16.0;
/// Part of an equal share of the receiver that trimmed packets leave, if it counts several flows.
/// Few packets show less than the share by chance; two doublings make up for a quarter.
const SHARE_LEFT: f64 = 0.25;
/// RTTs after the cut in which the window may grow back. Eight doublings undo a cut to a 256th;
/// afterwards marks show what is free.
const REGROWTH_RTTS: u64 = 8;

impl UnoCc {
    /// Reacts to the loss of a packet sent with the present window, if QuickAdapt will cut the
    /// window: certainly once the time of the burst is over, very likely if a receiver asks for
    /// packets before that or a switch has trimmed most. True when the window was cut.
    pub(super) fn adapt_early(&mut self, loss: &LossSample) -> bool {
        let by_rate = self.params.quick_adapt && self.params.qa_measure == QaMeasure::Rate;
        let Some(done) = self.measurement.filter(|_| by_rate && self.params.qa_early > 0.0) else {
            return false;
        };
        let Some(arrived) = self.starved(&done, loss) else { return false };
        self.former = self.former.max(short(self.cwnd));
        let arrived = arrived.clamp(1.0, self.cwnd);
        self.adapt(arrived * f64::from(self.params.qa_early), loss.now, loss.in_flight);
        true
    }

    /// Packets that a period brings at the rate of the burst in flight, if that is too few. When
    /// the time of the burst at the window's rate is over, the packets that have arrived are
    /// compared with the burst. If a receiver asks for packets before that, or most were trimmed,
    /// the rate at which packets have come so far is compared with the window's.
    fn starved(&self, done: &Measurement, loss: &LossSample) -> Option<f64> {
        let burst = self.cwnd.min(f64::from(done.in_flight));
        if burst < BURST_MIN || burst > self.cwnd * f64::from(self.params.qa_early_burst) {
            return None;
        }
        let span_ps = Bytes(loss.now.since(done.from).as_ps()).as_f64();
        let due_ps = Bytes(self.at.qa_period.as_ps()).as_f64() * burst / self.cwnd;
        let factor = f64::from(self.params.qa_factor);
        if span_ps >= due_ps {
            let starved = done.acked < burst * factor;
            return starved.then(|| self.at.in_a_period(done));
        }
        let (until, least) = match loss.by {
            // A path that dies ends a burst, and a last packet may come long after: that is no slow
            // path, and the time between does not count.
            // In whole nanoseconds, as in the runs whose results are kept.
            Some(Inference::Block) if done.acked >= BURST_MIN => {
                let pause = Duration::from_ns((done.pause_ps.get() / 1000).max(1));
                (done.until.before(pause), 0.0)
            }
            None if self.params.qa_early_trimmed && self.trims_most(done) => {
                (loss.now, self.least_left())
            }
            _ => return None,
        };
        let arrived = self.at.in_a_period(&Measurement { until, ..*done }).max(least);
        (arrived < self.cwnd * factor * PART_SURE).then_some(arrived)
    }

    /// Whether most packets of which there was a report since the measurement began did not arrive,
    /// with enough reports to show that and enough packets to show a rate.
    fn trims_most(&self, done: &Measurement) -> bool {
        // `outset` was `in_flight` then, and lacks the packets that have arrived or were refused.
        let reported = f64::from(done.in_flight - self.outset);
        let enough = reported >= BURST_MIN && done.acked >= ARRIVED_MIN;
        enough && reported - done.acked > reported * PART_TRIMMED
    }

    /// The least window that trimmed packets leave before the time of the burst is over, which
    /// `qa_early` lowers a little: a part of the present window. Where the window follows a
    /// receiver's count of several flows, it is at least a part of an equal share.
    fn least_left(&self) -> f64 {
        let least = self.cwnd * WINDOW_LEFT;
        if self.counted < 2 || !self.params.counts(self.bounds.base_rtt) {
            return least;
        }
        least.max(self.bounds.bdp() * SHARE_LEFT / f64::from(self.counted))
    }

    /// Lets the window grow back to where it was before the early cut.
    pub(super) fn regrow(&mut self, sent_at: Instant, acked: f64, ack: &AckSample) {
        if ack.rtt <= self.at.empty_rtt {
            self.set((self.cwnd + acked).min(f64::from(self.former)));
        }
        let span = self.bounds.base_rtt * REGROWTH_RTTS;
        if self.cwnd >= f64::from(self.former) || sent_at.since(self.adapted_at) > span {
            self.former = 0.0;
        }
    }
}
