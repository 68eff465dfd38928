//! DCTCP: a window cut once per round trip, by the share of bytes that were marked. Source:
//! \[dctcp\] sec. 3 and \[rfc8257\]; everything that is not DCTCP's own is TCP's, \[rfc5681\].
//!
//! ```text
//!   unmarked, cwnd < ssthresh    cwnd + acked           slow start
//!   unmarked, else               cwnd + acked / cwnd    congestion avoidance
//!   marked                       cwnd * (1 - alpha / 2), at most once per window
//!   refused or overtaken         cwnd / 2, at most once per window
//!   silence                      one packet
//!   end of a window              alpha + g * (marked / acked - alpha)
//! ```
//!
//! Units: packets. A window of data is counted in bytes. It has passed when as many bytes were
//! acknowledged or lost as were in flight when it began. This needs no sequence numbers and holds
//! for any order of arrival. DCTCP does not choose paths or pace.

use super::bounds::Bounds;
use super::{
    AckSample, CcParams, CongestionControl, Controller, Inference, LossSample, Path, Window,
};
use crate::params::params;
use crate::registry::Registered;
use crate::units::Bytes;

params! {
    /// Settings of [`Dctcp`].
    pub struct DctcpParams {
        /// g: weight of the last window in alpha.
        gain: f32 = 0.0625, in 0.0..=1.0;
        /// alpha before the first acknowledgement; 1 cuts as TCP does.
        alpha: f32 = 1.0, in 0.0..=1.0;
        /// Initial window in packets.
        initial: u16 = 10, in 1..=65535;
        /// Largest window in BDPs. A TCP has its receiver's; the default is SMaRTT's, so that
        /// comparisons are of control laws.
        window_max: f32 = 1.5, in 0.01..=64.0;
    }
}

/// One flow's DCTCP state.
#[derive(Clone, Debug)]
pub struct Dctcp {
    /// Packets, within `bounds`.
    cwnd: f64,
    /// Slow start threshold, packets: slow start is below it.
    ssthresh: f64,
    /// Estimated share of marked bytes, 0..=1.
    alpha: f64,
    /// Bytes acknowledged in this window of data; saturates.
    acked: u64,
    /// Bytes acknowledged with a mark in this window of data, 0..=`acked`.
    marked: u64,
    /// Bytes that must still pass before alpha is estimated anew.
    until_estimate: u64,
    /// Bytes that must still pass before the window may be cut again; 0 when it may.
    until_cut: u64,
    bounds: Bounds,
    gain: f64,
}

impl Dctcp {
    /// The initial state on `path`.
    #[must_use]
    pub fn new(params: &DctcpParams, path: &Path) -> Self {
        let bounds = Bounds::new(path, params.window_max);
        Self {
            //= rfc6928#2
            cwnd: bounds.clamp(f64::from(params.initial)),
            ssthresh: f64::INFINITY,
            //= rfc8257#3.3
            // "Alpha SHOULD be initialized to 1".
            alpha: f64::from(params.alpha),
            acked: 0,
            marked: 0,
            until_estimate: 0,
            until_cut: 0,
            bounds,
            gain: f64::from(params.gain),
        }
    }

    /// Counts `bytes` that were acknowledged or lost.
    fn pass(&mut self, bytes: Bytes, in_flight: Bytes) {
        self.until_cut = self.until_cut.saturating_sub(bytes.0);
        self.until_estimate = self.until_estimate.saturating_sub(bytes.0);
        if self.until_estimate > 0 {
            return;
        }
        if self.acked > 0 {
            //= rfc8257#3.3
            let share = Bytes(self.marked).as_f64() / Bytes(self.acked).as_f64();
            self.alpha += self.gain * (share - self.alpha);
        }
        (self.acked, self.marked) = (0, 0);
        self.until_estimate = in_flight.0;
    }

    /// Multiplies the window by `factor`, unless this window of data has cost a cut already.
    fn cut(&mut self, factor: f64, in_flight: Bytes) {
        if self.until_cut > 0 {
            return;
        }
        self.cwnd = self.bounds.clamp(self.cwnd * factor);
        self.ssthresh = self.cwnd.max(2.0);
        self.until_cut = in_flight.0;
    }

    fn grow(&mut self, acked: Bytes) {
        let packets = self.bounds.packets(acked);
        //= rfc5681#3.1
        let more = if self.cwnd < self.ssthresh { packets } else { packets / self.cwnd };
        self.cwnd = self.bounds.clamp(self.cwnd + more);
    }
}

impl Registered for Dctcp {
    const ABOUT: &'static str = "the share of marked bytes, once per window; else TCP";
    type Params = DctcpParams;
}

impl Controller for Dctcp {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.dctcp, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.dctcp.window_max
    }
}

impl CongestionControl for Dctcp {
    #[inline]
    fn window(&self) -> Window {
        Window { cwnd: self.bounds.bytes(self.cwnd), pacing: None, wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.bounds.follow(path);
        self.acked = self.acked.saturating_add(ack.acked.0);
        if ack.ecn {
            self.marked = self.marked.saturating_add(ack.acked.0);
        }
        self.pass(ack.acked, ack.in_flight);
        if ack.ecn {
            //= rfc8257#3.3
            self.cut(1.0 - self.alpha / 2.0, ack.in_flight);
        } else {
            //= rfc8257#3.4
            self.grow(ack.acked);
        }
        // A base RTT that fell lowers the bound also where nothing else did.
        self.cwnd = self.bounds.clamp(self.cwnd);
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.on_timeout(loss, path);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.bounds.follow(path);
        self.pass(loss.bytes, loss.in_flight);
        if loss.by == Some(Inference::Silence) {
            //= rfc5681#3.1
            // The loss window. One timer loses many segments: the first sets the threshold.
            if self.cwnd > 1.0 {
                self.ssthresh = (self.cwnd / 2.0).max(2.0);
            }
            self.cwnd = 1.0;
            self.until_cut = loss.in_flight.0;
        } else {
            //= rfc8257#3.5
            // As TCP's fast recovery: a loss halves the window, whatever alpha is.
            self.cut(0.5, loss.in_flight);
        }
        self.cwnd = self.bounds.clamp(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Duration, Instant, Rate};

    const MTU: Bytes = Bytes(4000);
    /// 300 packets of BDP.
    const PATH: Path =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(800), mtu: MTU };

    fn new(settings: &[(&str, &str)]) -> Dctcp {
        let mut params = DctcpParams::default();
        settings.iter().for_each(|(key, value)| params.set(key, value).unwrap());
        Dctcp::new(&params, &PATH)
    }

    /// One acknowledgement of a packet while the window is full.
    fn ack(cc: &mut Dctcp, ecn: bool) {
        let (now, in_flight) = (Instant::ZERO, cc.window().cwnd);
        let (rtt, held) = (PATH.base_rtt, Duration::ZERO);
        cc.on_ack(&AckSample { now, rtt, held, acked: MTU, in_flight, ecn, sharers: 0 }, &PATH);
    }

    fn lose(cc: &mut Dctcp, silent: bool) {
        let (now, in_flight) = (Instant::ZERO, cc.window().cwnd);
        let by = silent.then_some(Inference::Silence);
        let loss = LossSample { now, sent_at: now, bytes: MTU, in_flight, sharers: 0, by };
        if silent { cc.on_timeout(&loss, &PATH) } else { cc.on_nack(&loss, &PATH) }
    }

    /// Handles one unmarked acknowledgement for each packet of a window.
    fn round(cc: &mut Dctcp) {
        (0..cc.window().cwnd.0 / MTU.0).for_each(|_| ack(cc, false));
    }

    fn packets(cc: &Dctcp) -> f64 {
        cc.window().cwnd.as_f64() / MTU.as_f64()
    }

    #[test]
    fn slow_start_doubles_until_the_first_mark_and_then_a_round_adds_a_packet() {
        let mut cc = new(&[]);
        round(&mut cc);
        round(&mut cc);
        assert_eq!(packets(&cc), 40.0);
        ack(&mut cc, true);
        let before = packets(&cc);
        assert!((before - 40.0 * (1.0 - cc.alpha / 2.0)).abs() < 0.01, "{before}");
        round(&mut cc);
        assert!((packets(&cc) - before - 1.0).abs() < 0.05, "{}", packets(&cc));
    }

    #[test]
    fn alpha_follows_the_share_of_marks_and_the_cut_follows_alpha() {
        let mut cc = new(&[("initial", "200")]);
        ack(&mut cc, true);
        (0..20_000).for_each(|i| ack(&mut cc, i % 10 == 0));
        assert!((cc.alpha - 0.1).abs() < 0.02, "{}", cc.alpha);
        while cc.until_cut > 0 {
            ack(&mut cc, false);
        }
        let before = packets(&cc);
        ack(&mut cc, true);
        let kept = packets(&cc) / before;
        assert!((kept - (1.0 - cc.alpha / 2.0)).abs() < 0.001, "{kept} at {}", cc.alpha);
    }

    #[test]
    fn a_window_of_marks_costs_one_cut_and_no_marks_bring_alpha_down() {
        let mut cc = new(&[("initial", "200"), ("gain", "0.5")]);
        for _ in 0..100 {
            ack(&mut cc, true);
        }
        assert_eq!(packets(&cc), 100.0);
        for _ in 0..12 {
            round(&mut cc);
        }
        assert!(cc.alpha < 0.01, "{}", cc.alpha);
    }

    #[test]
    fn a_loss_halves_once_per_window_and_silence_leaves_one_packet() {
        let mut cc = new(&[("initial", "200")]);
        (0..50).for_each(|_| lose(&mut cc, false));
        assert_eq!(packets(&cc), 100.0);
        (0..50).for_each(|_| lose(&mut cc, true));
        assert_eq!((packets(&cc), cc.ssthresh), (1.0, 50.0));
        // Slow start goes up to half of the window before the loss.
        (0..49).for_each(|_| ack(&mut cc, false));
        assert_eq!(packets(&cc), 50.0);
        ack(&mut cc, false);
        assert!(packets(&cc) < 50.1, "{}", packets(&cc));
    }
}
