//! pFabric's window: a BDP at once, and TCP's slow start after a timeout. Only a timeout shows that
//! segments are lost.
//!
//! Source: \[pfabric\] sec. 4, rate control. Switches drop packets of the flow with the most left,
//! so hosts need control only where losses persist.
//!
//! ```text
//!   timeout          threshold = cwnd / 2, cwnd = 1
//!   acknowledgement  cwnd + 1 below the threshold, else cwnd + 1 / cwnd
//! ```
//!
//! Units: packets. A timeout of a segment that left before the last reaction changes nothing: it
//! belongs to the window that was reacted to. Marks and refusals change nothing, since pFabric's
//! switches neither mark nor trim.

use super::bounds::Bounds;
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::registry::Registered;
use crate::time::Instant;

params! {
    /// Settings of [`Pfabric`].
    pub struct PfabricParams {
        /// First and largest window in BDPs: a flow starts at the rate of its line.
        window: f32 = 1.0, in 0.01..=64.0;
        /// Least threshold between slow start and additive increase, packets.
        threshold_min: f32 = 2.0, in 1.0..=1000.0;
    }
}

/// One flow's window.
#[derive(Clone, Debug)]
pub struct Pfabric {
    /// Packets, within `bounds`.
    cwnd: f64,
    /// Below this window, in packets, each acknowledged packet adds one.
    threshold: f64,
    threshold_min: f64,
    /// The last reaction to a timeout.
    reacted_at: Option<Instant>,
    bounds: Bounds,
}

impl Pfabric {
    /// The initial state on `path`.
    #[must_use]
    pub fn new(params: &PfabricParams, path: &Path) -> Self {
        let bounds = Bounds::new(path, params.window);
        Self {
            cwnd: bounds.most(),
            // Nothing is lost yet: slow start up to the largest window, whichever that becomes.
            threshold: f64::INFINITY,
            threshold_min: params.threshold_min.into(),
            reacted_at: None,
            bounds,
        }
    }
}

impl Registered for Pfabric {
    const ABOUT: &'static str = "a BDP at once, slow start after a timeout, as pFabric's hosts";
    type Params = PfabricParams;
}

impl Controller for Pfabric {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.pfabric, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.pfabric.window
    }
}

impl CongestionControl for Pfabric {
    #[inline]
    fn window(&self) -> Window {
        Window { cwnd: self.bounds.bytes(self.cwnd), pacing: None, wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.bounds.follow(path);
        let packets = self.bounds.packets(ack.acked);
        // An acknowledgement of several packets is slow start up to the threshold, and additive
        // increase beyond it.
        let slow_start = packets.min((self.threshold - self.cwnd).max(0.0));
        let cwnd = self.cwnd + slow_start;
        self.cwnd = self.bounds.clamp(cwnd + (packets - slow_start) / cwnd);
    }

    fn on_nack(&mut self, _loss: &LossSample, path: &Path) {
        self.bounds.follow(path);
        self.cwnd = self.bounds.clamp(self.cwnd);
    }

    //= pfabric#4
    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.bounds.follow(path);
        if self.reacted_at.is_some_and(|at| loss.sent_at < at) {
            return;
        }
        self.reacted_at = Some(loss.now);
        self.threshold = (self.cwnd / 2.0).max(self.threshold_min);
        self.cwnd = self.bounds.clamp(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Inference;
    use crate::time::{Duration, Rate};
    use crate::units::Bytes;

    const MTU: Bytes = Bytes(4000);
    /// 300 packets of BDP.
    const PATH: Path =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(800), mtu: MTU };

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    fn packets(cc: &Pfabric) -> f64 {
        cc.window().cwnd.as_f64() / MTU.as_f64()
    }

    fn acknowledge(cc: &mut Pfabric, count: u64) {
        let (rtt, held, in_flight) = (PATH.base_rtt, Duration::ZERO, Bytes::ZERO);
        for _ in 0..count {
            let now = at(0);
            let ack = AckSample { now, rtt, held, acked: MTU, in_flight, ecn: true, sharers: 0 };
            cc.on_ack(&ack, &PATH);
        }
    }

    fn time_out(cc: &mut Pfabric, sent_at: Instant, now: Instant) {
        let in_flight = Bytes::ZERO;
        let loss = LossSample {
            now,
            sent_at,
            bytes: MTU,
            in_flight,
            sharers: 0,
            by: Some(Inference::Silence),
        };
        cc.on_timeout(&loss, &PATH);
    }

    #[test]
    fn a_flow_starts_with_its_largest_window_and_marks_do_not_move_it() {
        let mut cc = Pfabric::new(&PfabricParams::default(), &PATH);
        acknowledge(&mut cc, 1000);
        assert_eq!(packets(&cc), 300.0);
    }

    #[test]
    fn a_timeout_leaves_a_packet_and_the_window_doubles_up_to_half_of_what_it_was() {
        let mut cc = Pfabric::new(&PfabricParams::default(), &PATH);
        time_out(&mut cc, at(0), at(60));
        assert_eq!(packets(&cc), 1.0);
        acknowledge(&mut cc, 149);
        assert_eq!(packets(&cc), 150.0);
        // From there on a window of acknowledgements adds one packet.
        acknowledge(&mut cc, 150);
        assert!((packets(&cc) - 151.0).abs() < 0.01, "{}", packets(&cc));
    }

    #[test]
    fn segments_of_one_window_that_time_out_one_after_the_other_are_one_timeout() {
        let mut cc = Pfabric::new(&PfabricParams::default(), &PATH);
        time_out(&mut cc, at(0), at(60));
        acknowledge(&mut cc, 9);
        time_out(&mut cc, at(1), at(61));
        assert_eq!(packets(&cc), 10.0);
        // One that left since then is another: half of ten is the threshold.
        time_out(&mut cc, at(62), at(122));
        acknowledge(&mut cc, 4);
        assert_eq!(packets(&cc), 5.0);
        acknowledge(&mut cc, 1);
        assert_eq!(packets(&cc), 5.2);
    }

    #[test]
    fn one_acknowledgement_of_several_packets_passes_the_threshold_as_many_do() {
        let mut cc = Pfabric::new(&PfabricParams::default(), &PATH);
        time_out(&mut cc, at(0), at(60));
        acknowledge(&mut cc, 140);
        let (rtt, held, in_flight) = (PATH.base_rtt, Duration::ZERO, Bytes::ZERO);
        let acked = Bytes(24 * MTU.0);
        let ack = AckSample { now: at(0), rtt, held, acked, in_flight, ecn: false, sharers: 0 };
        cc.on_ack(&ack, &PATH);
        // 141 at first, nine to the threshold, and fifteen shares of 150.
        assert!((packets(&cc) - 150.1).abs() < 1e-9, "{}", packets(&cc));
    }

    #[test]
    fn the_window_follows_the_bdp_of_its_path_until_a_timeout() {
        let longer = Path { base_rtt: Duration::from_us(24), ..PATH };
        let mut cc = Pfabric::new(&PfabricParams::default(), &longer);
        let loss = LossSample {
            now: at(0),
            sent_at: at(0),
            bytes: MTU,
            in_flight: Bytes::ZERO,
            sharers: 0,
            by: None,
        };
        cc.on_nack(&loss, &PATH);
        assert_eq!(packets(&cc), 300.0, "a shorter path, at a refusal");
        let (rtt, held, in_flight) = (longer.base_rtt, Duration::ZERO, Bytes::ZERO);
        for _ in 0..400 {
            let ack =
                AckSample { now: at(0), rtt, held, acked: MTU, in_flight, ecn: false, sharers: 0 };
            cc.on_ack(&ack, &longer);
        }
        assert_eq!(packets(&cc), 600.0, "a longer path, packet by packet");
    }

    #[test]
    fn the_threshold_has_a_floor() {
        let mut cc = Pfabric::new(&PfabricParams::default(), &PATH);
        for turn in 1..5 {
            time_out(&mut cc, at(100 * turn), at(100 * turn + 60));
        }
        acknowledge(&mut cc, 1);
        assert_eq!(packets(&cc), 2.0);
        acknowledge(&mut cc, 1);
        assert_eq!(packets(&cc), 2.5);
    }
}
