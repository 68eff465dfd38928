//! Swift: two windows steered to target delays, one for the network and one for the receiver.
//! Source: \[swift\] algorithm 1, sec. 3.2 to 3.6.
//!
//! ```text
//!                    delay < target              delay >= target, once per RTT
//!   cwnd >= 1        cwnd + ai / cwnd per packet
//!   cwnd < 1         cwnd + ai per packet        cwnd * max(1 - beta (delay - target) / delay,
//!                                                           1 - max_mdf)
//!   loss             cwnd * (1 - max_mdf), once per RTT
//!   timeouts in a row                            the smallest window
//!
//!   network: delay = RTT, target = base_target + what flow scaling adds
//!   host:    delay = time the receiver held the acknowledgement, target = endpoint_target
//! ```
//!
//! The smaller window counts. Below one packet the flow is paced at `cwnd / rtt`.
//!
//! The paper's targets are times of the paper's network. Here they are relative to the base RTT of
//! the path, so that they fit any network. Scaling by hops is left out for the same reason: hops x
//! h stands for the part of the base RTT that the hops add, and the topology gives the whole base
//! RTT.
//!
//! Units: packets, picoseconds. Swift ignores marks and does not choose paths.

use super::bounds::Bounds;
use super::{
    AckSample, CcParams, CongestionControl, Controller, Inference, LossSample, Path, Window,
};
use crate::params::params;
use crate::registry::Registered;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

params! {
    /// Settings of [`Swift`].
    pub struct SwiftParams {
        /// Fabric target delay of a large window, in base RTTs; see `BASE_TARGET`.
        base_target: f32 = BASE_TARGET, in 1.01..=16.0;
        /// The most that flow scaling adds to the fabric target, in base RTTs; see `FS_RANGE`.
        fs_range: f32 = FS_RANGE, in 0.0..=16.0;
        /// Window, packets, below which flow scaling adds all of its range.
        fs_min_cwnd: f32 = 0.1, in 0.001..=1000.0;
        /// Window, packets, above which flow scaling adds nothing.
        fs_max_cwnd: f32 = 100.0, in 0.001..=100000.0;
        /// Target of the time that the receiver holds a packet before it acknowledges.
        endpoint_target: Duration = Duration::from_us(100), in Duration::ZERO..=Duration::from_s(1);
        /// Packets that an RTT below target adds.
        ai: f32 = 1.0, in 0.0..=64.0;
        /// Weight of the relative excess delay in the decrease.
        beta: f32 = 0.8, in 0.0..=1.0;
        /// Largest decrease, as a share of the window.
        max_mdf: f32 = 0.5, in 0.0..=1.0;
        /// Smallest window, packets; below 1 the flow is paced.
        min_cwnd: f32 = 0.001, in 0.001..=1.0;
        /// Timeouts in a row that bring the window down to the smallest.
        retx_reset_threshold: u16 = 5, in 1..=1000;
        /// Initial window in BDPs: a short message is sent at once, as SMaRTT sends it.
        initial: f32 = 1.0, in 0.0..=64.0;
        /// Largest window in BDPs; the default is SMaRTT's, so that comparisons are of control
        /// laws.
        window_max: f32 = 1.5, in 0.01..=64.0;
    }
}

/// SMaRTT's target, so that both controllers aim at half a queue of one BDP and comparisons are of
/// control laws.
const BASE_TARGET: f32 = 1.5;
/// The target stays below the delay of a full queue of one BDP: with a target that no queue
/// reaches, losses alone would move the window.
const FS_RANGE: f32 = 0.5;

/// One flow's Swift state.
#[derive(Clone, Debug)]
pub struct Swift {
    /// fcwnd: the network's.
    fabric: Aimd,
    /// ecwnd: the receiver's.
    endpoint: Aimd,
    /// The last round trip measured, at least the base RTT.
    rtt: Duration,
    /// Timeouts since the last acknowledgement.
    retransmits: u16,
    /// When the last timeout came: one timer reports many lost segments.
    retransmit_at: Instant,
    line_rate: Rate,
    bounds: Bounds,
    scaling: FlowScaling,
    params: SwiftParams,
}

const _: () = assert!(size_of::<Swift>() <= 208);

/// One of the two windows, the network's or the receiver's.
#[derive(Clone, Copy, Debug)]
struct Aimd {
    /// Packets, `min_cwnd..=` the largest window.
    cwnd: f64,
    /// When the window was last decreased.
    decreased_at: Instant,
}

/// Flow scaling: small windows raise the fabric target, because packets of many flows meet in a
/// queue by chance, the more the smaller their windows are.
#[derive(Clone, Copy, Debug)]
struct FlowScaling {
    /// Target of a large window, ps.
    base_ps: f64,
    /// Largest addition, ps.
    range_ps: f64,
    /// The factor of one over the root of the window, alpha, ps.
    alpha_ps: f64,
    /// The offset of the addition, -beta, ps.
    offset_ps: f64,
}

impl FlowScaling {
    fn new(params: &SwiftParams, base_rtt: Duration) -> Self {
        let rtt_ps = as_f64(base_rtt);
        let range_ps = rtt_ps * f64::from(params.fs_range);
        let inverse_root = |cwnd: f64| 1.0 / libm::sqrt(cwnd);
        let low = f64::from(params.fs_min_cwnd);
        // A range without width would divide by zero; a thousandth of width is a step.
        let high = f64::from(params.fs_max_cwnd).max(low * 1.001);
        //= swift#3.5
        let alpha_ps = range_ps / (inverse_root(low) - inverse_root(high));
        Self {
            base_ps: rtt_ps * f64::from(params.base_target),
            range_ps,
            alpha_ps,
            offset_ps: alpha_ps * inverse_root(high),
        }
    }

    fn target_ps(&self, cwnd: f64) -> f64 {
        //= swift#3.5
        let more = self.alpha_ps / libm::sqrt(cwnd) - self.offset_ps;
        self.base_ps + more.clamp(0.0, self.range_ps)
    }
}

impl Aimd {
    const fn new(cwnd: f64) -> Self {
        Self { cwnd, decreased_at: Instant::ZERO }
    }

    /// Algorithm 1, on receiving an acknowledgement of `packets`.
    fn adjust(&mut self, delay_ps: f64, target_ps: f64, packets: f64, at: &At) {
        //= swift#alg1
        if delay_ps < target_ps {
            let gain = f64::from(at.params.ai) * packets;
            self.cwnd += if self.cwnd >= 1.0 { gain / self.cwnd } else { gain };
        } else {
            let excess = (delay_ps - target_ps) / delay_ps.max(1.0);
            let least = 1.0 - f64::from(at.params.max_mdf);
            self.decrease((1.0 - f64::from(at.params.beta) * excess).max(least), at);
        }
        self.bound(at);
    }

    /// Multiplies the window by `factor`, unless it was decreased within the last RTT.
    fn decrease(&mut self, factor: f64, at: &At) {
        //= swift#3.2
        if at.now.since(self.decreased_at) >= at.rtt {
            self.cwnd *= factor;
            self.decreased_at = at.now;
        }
        self.bound(at);
    }

    fn bound(&mut self, at: &At) {
        self.cwnd = self.cwnd.clamp(f64::from(at.params.min_cwnd), at.most);
    }
}

/// The state of the flow that both windows read.
struct At {
    now: Instant,
    rtt: Duration,
    /// Largest window, packets.
    most: f64,
    params: SwiftParams,
}

impl Swift {
    /// The initial state on `path`.
    #[must_use]
    pub fn new(params: &SwiftParams, path: &Path) -> Self {
        let bounds = Bounds::new(path, params.window_max);
        Self {
            fabric: Aimd::new(bounds.bdps(params.initial)),
            endpoint: Aimd::new(bounds.most()),
            rtt: path.base_rtt,
            retransmits: 0,
            retransmit_at: Instant::ZERO,
            line_rate: path.line_rate,
            bounds,
            scaling: FlowScaling::new(params, path.base_rtt),
            params: *params,
        }
    }

    fn follow(&mut self, path: &Path) {
        if self.bounds.follow(path) {
            self.scaling = FlowScaling::new(&self.params, path.base_rtt);
            self.rtt = self.rtt.max(path.base_rtt);
            let most = self.bounds.most();
            self.fabric.cwnd = self.fabric.cwnd.min(most);
            self.endpoint.cwnd = self.endpoint.cwnd.min(most);
        }
    }

    const fn at(&self, now: Instant) -> At {
        At { now, rtt: self.rtt, most: self.bounds.most(), params: self.params }
    }
}

impl Registered for Swift {
    const ABOUT: &'static str =
        "delay against targets for network and host, pacing below one packet";
    type Params = SwiftParams;
}

impl Controller for Swift {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.swift, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.swift.window_max
    }
}

impl CongestionControl for Swift {
    #[inline]
    fn window(&self) -> Window {
        let cwnd = self.fabric.cwnd.min(self.endpoint.cwnd);
        let pacing = (cwnd < 1.0).then(|| {
            //= swift#3.4
            // A packet every rtt / cwnd.
            // DEVIATION(swift#3.4): at least the rate of the smallest window at the base RTT. Where
            // queues hold thousands of base RTTs, a receiver would forget a slower flow.
            let rarest_ps = as_f64(self.bounds.base_rtt) / f64::from(self.params.min_cwnd);
            let gap_ps = (as_f64(self.rtt) / cwnd).min(rarest_ps).max(1.0);
            let bits = self.bounds.bytes(1.0).as_f64() * 8.0;
            let rate = Rate::from_bps(Bytes(1).scaled(bits * PS_PER_S / gap_ps).0.max(1));
            rate.min(self.line_rate)
        });
        Window { cwnd: self.bounds.bytes(cwnd), pacing, wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.follow(path);
        self.rtt = ack.rtt.max(path.base_rtt);
        self.retransmits = 0;
        let packets = self.bounds.packets(ack.acked);
        let at = self.at(ack.now);
        //= swift#3.3
        // The two parts of the delay, each against its own target; the smaller window counts.
        let target_ps = self.scaling.target_ps(self.fabric.cwnd);
        self.fabric.adjust(as_f64(ack.rtt), target_ps, packets, &at);
        self.endpoint.adjust(as_f64(ack.held), as_f64(at.params.endpoint_target), packets, &at);
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.on_timeout(loss, path);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        let at = self.at(loss.now);
        let params = &at.params;
        //= swift#3.6
        if loss.by != Some(Inference::Silence) {
            // Refused or overtaken: fast recovery.
            self.retransmits = 0;
        } else if self.retransmits == 0 || loss.now != self.retransmit_at {
            self.retransmits = self.retransmits.saturating_add(1);
            self.retransmit_at = loss.now;
        }
        if self.retransmits >= params.retx_reset_threshold {
            self.fabric = Aimd { cwnd: f64::from(params.min_cwnd), decreased_at: loss.now };
        } else {
            // Losses count as the network's: drops at the receiver show in the time that it holds
            // others.
            self.fabric.decrease(1.0 - f64::from(params.max_mdf), &at);
        }
    }
}

const PS_PER_S: f64 = 1e12;

const fn as_f64(span: Duration) -> f64 {
    Bytes(span.as_ps()).as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: Bytes = Bytes(4000);
    /// 300 packets of BDP.
    const PATH: Path =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(800), mtu: MTU };

    fn new(settings: &[(&str, &str)]) -> Swift {
        let mut params = SwiftParams::default();
        settings.iter().for_each(|(key, value)| params.set(key, value).unwrap());
        Swift::new(&params, &PATH)
    }

    fn ack(cc: &mut Swift, at_us: u64, rtt_us: u64, held_us: u64) {
        let now = Instant::ZERO + Duration::from_us(at_us);
        let (rtt, held) = (Duration::from_us(rtt_us), Duration::from_us(held_us));
        let in_flight = cc.window().cwnd;
        cc.on_ack(
            &AckSample { now, rtt, held, acked: MTU, in_flight, ecn: false, sharers: 0 },
            &PATH,
        );
    }

    fn lose(cc: &mut Swift, at_us: u64, silent: bool) {
        let now = Instant::ZERO + Duration::from_us(at_us);
        let (bytes, in_flight) = (MTU, Bytes::ZERO);
        let by = silent.then_some(Inference::Silence);
        let loss = LossSample { now, sent_at: now, bytes, in_flight, sharers: 0, by };
        if silent { cc.on_timeout(&loss, &PATH) } else { cc.on_nack(&loss, &PATH) }
    }

    fn packets(cc: &Swift) -> f64 {
        cc.window().cwnd.as_f64() / MTU.as_f64()
    }

    #[test]
    fn a_round_trip_below_target_adds_a_packet() {
        let mut cc = new(&[]);
        for _ in 0..300 {
            ack(&mut cc, 100, 17, 0);
        }
        assert!((packets(&cc) - 301.0).abs() < 0.01, "{}", packets(&cc));
    }

    #[test]
    fn a_decrease_follows_the_excess_once_per_rtt_and_takes_at_most_max_mdf() {
        for (rtt, kept) in [(24, 1.0 - 0.8 * 6.0 / 24.0), (10_000, 0.5)] {
            let mut cc = new(&[]);
            ack(&mut cc, 20_000, rtt, 0);
            assert!((packets(&cc) / 300.0 - kept).abs() < 1e-3, "rtt {rtt}: {}", packets(&cc));
            let after = cc.fabric.cwnd;
            ack(&mut cc, 20_000 + rtt - 1, rtt, 0);
            assert_eq!(cc.fabric.cwnd, after);
            ack(&mut cc, 20_000 + rtt, rtt, 0);
            assert!(cc.fabric.cwnd < after);
        }
    }

    #[test]
    fn the_target_rises_by_the_inverse_root_of_the_window_within_its_range() {
        let scaling = new(&[("fs_range", "2")]).scaling;
        let above = |cwnd| (scaling.target_ps(cwnd) - 18e6) / 12e6;
        assert_eq!((above(0.01), above(100.0), above(1000.0)), (2.0, 0.0, 0.0));
        assert!((above(0.1) - 2.0).abs() < 1e-6);
        // alpha = 2 / (1 / sqrt(0.1) - 1 / 10); at 4 packets alpha x (1 / 2 - 1 / 10).
        let alpha = 2.0 / (libm::sqrt(10.0) - 0.1);
        assert!((above(4.0) - 0.4 * alpha).abs() < 1e-6, "{}", above(4.0));
        // No width: a step.
        let step = new(&[("fs_min_cwnd", "50"), ("fs_max_cwnd", "5")]).scaling;
        assert_eq!((step.target_ps(49.0), step.target_ps(51.0)), (24e6, 18e6));
    }

    #[test]
    fn a_far_host_that_holds_packets_slows_the_flow_though_the_network_is_idle() {
        let mut cc = new(&[]);
        ack(&mut cc, 100, 12, 200);
        // From the largest window: 1 - 0.8 x 100 / 200.
        assert!((packets(&cc) - 0.6 * 450.0).abs() < 0.1, "{}", packets(&cc));
        assert!(cc.fabric.cwnd > 300.0);
    }

    #[test]
    fn below_one_packet_the_flow_is_paced_at_its_window_per_rtt() {
        let mut cc = new(&[]);
        for i in 0..10 {
            lose(&mut cc, 1000 * (i + 1), false);
        }
        let cwnd = 300.0 / 1024.0;
        let window = cc.window();
        assert_eq!(window.cwnd, MTU);
        let expected = cwnd * 32_000.0 / 12e-6;
        let rate = Bytes(window.pacing.unwrap().as_bps()).as_f64();
        assert!((rate / expected - 1.0).abs() < 1e-6, "{rate} for {expected}");
        // Growing back, ai is added whole until there is a packet, then the pacing ends.
        ack(&mut cc, 20_000, 12, 0);
        assert!((cc.fabric.cwnd - cwnd - 1.0).abs() < 1e-9);
        assert_eq!(cc.window().pacing, None);
        // However long the queues: 1000 base RTTs a packet.
        for i in 0..20 {
            ack(&mut cc, 1_000_000 * (i + 1), 100_000, 0);
        }
        let rate = Bytes(cc.window().pacing.unwrap().as_bps()).as_f64();
        assert!((rate * 12e-3 / 32_000.0 - 1.0).abs() < 1e-5, "{rate}");
    }

    #[test]
    fn losses_halve_once_per_rtt_and_only_timeouts_in_a_row_reset() {
        let mut cc = new(&[]);
        // One timer loses many segments: one timeout.
        (0..50).for_each(|_| lose(&mut cc, 100, true));
        assert_eq!((packets(&cc), cc.retransmits), (150.0, 1));
        for i in 1..4 {
            lose(&mut cc, 100 + 100 * i, true);
        }
        lose(&mut cc, 450, false);
        assert_eq!(cc.retransmits, 0);
        for i in 0..5 {
            lose(&mut cc, 500 + 100 * i, true);
        }
        assert_eq!(cc.fabric.cwnd, f64::from(0.001_f32));
        assert!(cc.window().pacing.is_some());
    }
}
