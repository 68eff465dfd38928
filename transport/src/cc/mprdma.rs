//! MPRDMA: a window that every acknowledgement moves, up when it is unmarked and down when it is
//! marked. Source: \[mprdma\] sec. 3, the congestion control of multi-path ACK clocking.
//!
//! ```text
//!   unmarked    cwnd + 1 / cwnd
//!   marked      cwnd - 1 / 2
//!   lost        cwnd - 1
//! ```
//!
//! Units: packets. There is no average and no state but the window: one window for all paths. The
//! paper's choice of paths by acknowledgements is a balancer's ([`crate::lb::Reps`] recycles the
//! path of an acknowledgement in the same way). The paper's limit on how far packets may be
//! overtaken is left out, because receivers here place segments in any order.

use super::bounds::Bounds;
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::registry::Registered;

params! {
    /// Settings of [`Mprdma`].
    pub struct MprdmaParams {
        /// Packets that a window of unmarked acknowledgements adds.
        increase: f32 = 1.0, in 0.0..=64.0;
        /// Packets that a marked acknowledgement of one packet takes away.
        decrease: f32 = 0.5, in 0.0..=1.0;
        /// Initial window in BDPs: a short message is sent at once, as SMaRTT sends it.
        initial: f32 = 1.0, in 0.0..=64.0;
        /// Largest window in BDPs. The paper names none; the default is SMaRTT's, so that
        /// comparisons are of control laws.
        window_max: f32 = 1.5, in 0.01..=64.0;
    }
}

/// One flow's MPRDMA state.
#[derive(Clone, Debug)]
pub struct Mprdma {
    /// Packets, within `bounds`.
    cwnd: f64,
    bounds: Bounds,
    params: MprdmaParams,
}

impl Mprdma {
    /// The initial state on `path`.
    #[must_use]
    pub fn new(params: &MprdmaParams, path: &Path) -> Self {
        let bounds = Bounds::new(path, params.window_max);
        Self { cwnd: bounds.bdps(params.initial), bounds, params: *params }
    }

    fn lose(&mut self, loss: &LossSample, path: &Path) {
        // DEVIATION(mprdma#sec3): the paper runs over a lossless network and recovers from the rare
        // loss by rules of its own. Where switches trim, refused bytes are those that the path
        // could not carry, so they come off the window, as in the reference simulator's per-packet
        // ECN
        // control. Timeouts of a whole window leave one packet.
        self.bounds.follow(path);
        self.cwnd = self.bounds.clamp(self.cwnd - self.bounds.packets(loss.bytes));
    }
}

impl Registered for Mprdma {
    const ABOUT: &'static str = "ECN packet by packet: up by 1 / cwnd, down by half a packet";
    type Params = MprdmaParams;
}

impl Controller for Mprdma {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.mprdma, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.mprdma.window_max
    }
}

impl CongestionControl for Mprdma {
    #[inline]
    fn window(&self) -> Window {
        Window { cwnd: self.bounds.bytes(self.cwnd), pacing: None, wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.bounds.follow(path);
        let packets = self.bounds.packets(ack.acked);
        //= mprdma#sec3
        let change = if ack.ecn {
            -packets * f64::from(self.params.decrease)
        } else {
            packets * f64::from(self.params.increase) / self.cwnd
        };
        self.cwnd = self.bounds.clamp(self.cwnd + change);
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.lose(loss, path);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.lose(loss, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Inference;
    use crate::time::{Duration, Instant, Rate};
    use crate::units::Bytes;

    const MTU: Bytes = Bytes(4000);
    /// 300 packets of BDP.
    const PATH: Path =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(800), mtu: MTU };

    fn ack(acked: Bytes, ecn: bool) -> AckSample {
        let (rtt, held) = (PATH.base_rtt, Duration::ZERO);
        AckSample { now: Instant::ZERO, rtt, held, acked, in_flight: Bytes::ZERO, ecn, sharers: 0 }
    }

    fn packets(cc: &Mprdma) -> f64 {
        cc.window().cwnd.as_f64() / MTU.as_f64()
    }

    #[test]
    fn a_window_of_unmarked_acknowledgements_adds_a_packet() {
        let mut cc = Mprdma::new(&MprdmaParams::default(), &PATH);
        for _ in 0..300 {
            cc.on_ack(&ack(MTU, false), &PATH);
        }
        assert!((packets(&cc) - 301.0).abs() < 0.01, "{}", packets(&cc));
    }

    #[test]
    fn a_mark_costs_half_a_packet_however_often_it_comes() {
        let mut cc = Mprdma::new(&MprdmaParams::default(), &PATH);
        for _ in 0..100 {
            cc.on_ack(&ack(MTU, true), &PATH);
        }
        assert_eq!(packets(&cc), 250.0);
        // An acknowledgement of no new bytes moves nothing.
        cc.on_ack(&ack(Bytes::ZERO, true), &PATH);
        assert_eq!(packets(&cc), 250.0);
    }

    #[test]
    fn the_window_settles_where_marks_and_gains_are_equal() {
        // With a share p of marks: (1 - p) / w = p / 2, so w = 2 (1 - p) / p.
        let mut cc = Mprdma::new(&MprdmaParams::default(), &PATH);
        let (mut sum, mut count) = (0.0, 0.0);
        for i in 0..100_000 {
            cc.on_ack(&ack(MTU, i % 50 == 0), &PATH);
            if i >= 80_000 {
                (sum, count) = (sum + packets(&cc), count + 1.0);
            }
        }
        assert!((sum / count - 98.0).abs() < 1.0, "{}", sum / count);
    }

    #[test]
    fn what_is_lost_comes_off_and_one_packet_is_left() {
        let mut cc = Mprdma::new(&MprdmaParams::default(), &PATH);
        let now = Instant::ZERO;
        let in_flight = Bytes::ZERO;
        let loss = LossSample { now, sent_at: now, bytes: MTU, in_flight, sharers: 0, by: None };
        cc.on_nack(&loss, &PATH);
        assert_eq!(packets(&cc), 299.0);
        for _ in 0..400 {
            cc.on_timeout(&LossSample { by: Some(Inference::Silence), ..loss }, &PATH);
        }
        assert_eq!(packets(&cc), 1.0);
    }
}
