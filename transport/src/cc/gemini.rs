//! Gemini: one window, which ECN moves inside a datacentre and delay moves across. Source:
//! \[gemini\] sec. III, algorithm 1, with the settings that \[uno\] compared itself with.
//!
//! ```text
//!   each round      E is averaged over marked fractions; marked, or RTT_min > RTT_base + T:
//!                   cwnd * (1 - max(E * 4K / (K + BDP), beta))
//!   else, per ack   cwnd + h * acked / cwnd
//! ```
//!
//! Units: packets, picoseconds. A round lasts from the sending of a segment to its acknowledgement:
//! one RTT of the flow's own, where UnoCC has epochs of one length for all flows.

use super::bounds::Bounds;
use super::{
    AckSample, CcParams, CongestionControl, Controller, Inference, LossSample, Path, Window,
};
use crate::params::{params, words};
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;

words! {
    /// How the additive increase follows the path.
    pub enum GeminiIncrease: "additive or fair" {
        /// Every flow grows by the same bytes an RTT, as in the comparison of \[uno\].
        Additive = "additive",
        /// A flow grows in proportion to its own BDP.
        Fair = "fair",
    }
}

params! {
    /// Settings of [`Gemini`]: those that the simulator of \[uno\] ran it with.
    pub struct GeminiParams {
        /// RTT between datacentres, by which the additive increase is scaled.
        //= uno#5.1
        inter_rtt: Duration = Duration::from_ms(2),
            in Duration::from_ns(100)..=Duration::from_s(2);
        /// H: what an RTT without congestion adds, in BDPs.
        h: f32 = 2.4e-4, in 0.0..=1.0;
        /// The BDP that scales the increase: that between datacentres for all flows, or each flow's
        /// own.
        increase: GeminiIncrease = GeminiIncrease::Additive;
        /// K: the queue from which on ECN marks, packets.
        k: f32 = 6.0, in 0.0..=65536.0;
        /// beta: the part of the window that delay takes.
        beta: f32 = 0.1, in 0.0..=1.0;
        /// T: queueing delay above which the path between datacentres is congested.
        delay: Duration = Duration::from_us(100), in Duration::ZERO..=Duration::from_s(1);
        /// g: weight of the last round in E.
        ewma_gain: f32 = 0.5, in 0.0..=1.0;
        /// Spread the window over one base RTT.
        pacing: bool = true;
        /// Initial window in BDPs.
        initial: f32 = 1.0, in 0.0..=64.0;
        /// Largest window in BDPs.
        window_max: f32 = 1.0, in 0.01..=64.0;
    }
}

/// One flow's Gemini state.
#[derive(Clone, Debug)]
pub struct Gemini {
    /// Packets, within `bounds`.
    cwnd: f64,
    bounds: Bounds,
    /// The average share of marked bytes, E, 0..=1.
    ecn: f64,
    /// Packets acknowledged in this round.
    acked: f64,
    /// Packets acknowledged with a mark in this round, 0..=`acked`.
    marked: f64,
    /// Smallest RTT of this round.
    rtt_min: Duration,
    /// Whether the last round found the path between datacentres congested by delay.
    delayed: bool,
    /// When the round began: the acknowledgement of a segment sent since ends it; `None` before the
    /// first round.
    round: Option<Instant>,
    /// Slow start threshold, packets: slow start is below it.
    ssthresh: f64,
    /// When a loss last cut the window; zero if never.
    cut_at: Instant,
    at: Scale,
    params: GeminiParams,
}

/// The constants of one path.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Packets that an RTT of unmarked acknowledgements adds.
    increase: f64,
    /// 4K / (K + BDP).
    md: f64,
    /// RTTs above this one are congested.
    delayed_rtt: Duration,
    /// Bits a second for each packet of window, so that a window takes one base RTT.
    bps_per_packet: f64,
    line_rate: Rate,
}

impl Scale {
    /// The pacing rate of a window of `cwnd` packets.
    fn rate(&self, cwnd: f64) -> Rate {
        let bps = Bytes(1).scaled(cwnd * self.bps_per_packet).0;
        Rate::from_bps(bps.clamp(1, self.line_rate.as_bps().max(1)))
    }

    fn new(params: &GeminiParams, path: &Path) -> Self {
        let mtu = path.mtu.max(Bytes(1)).as_f64();
        let k = f64::from(params.k);
        let bdp = path.bdp().as_f64() / mtu;
        let scaled_by = match params.increase {
            GeminiIncrease::Fair => bdp,
            GeminiIncrease::Additive => path.line_rate.bytes_in(params.inter_rtt).as_f64() / mtu,
        };
        Self {
            //= gemini#alg1
            // h = H * C * RTT.
            increase: scaled_by * f64::from(params.h),
            //= gemini#alg1
            md: if k > 0.0 { (4.0 * k / (k + bdp)).min(1.0) } else { 0.0 },
            delayed_rtt: path.base_rtt + params.delay,
            bps_per_packet: Bytes(path.line_rate.as_bps()).as_f64() / bdp.max(1.0),
            line_rate: path.line_rate,
        }
    }
}

impl Gemini {
    /// The initial state on `path`.
    #[must_use]
    pub fn new(params: &GeminiParams, path: &Path) -> Self {
        let bounds = Bounds::new(path, params.window_max);
        Self {
            cwnd: bounds.bdps(params.initial),
            bounds,
            ecn: 0.0,
            acked: 0.0,
            marked: 0.0,
            rtt_min: Duration::MAX,
            delayed: false,
            round: None,
            ssthresh: 0.0,
            cut_at: Instant::ZERO,
            at: Scale::new(params, path),
            params: *params,
        }
    }

    fn follow(&mut self, path: &Path) {
        if self.bounds.follow(path) {
            self.at = Scale::new(&self.params, path);
            self.set(self.cwnd);
        }
    }

    fn set(&mut self, cwnd: f64) {
        self.cwnd = self.bounds.clamp(cwnd);
    }

    fn end_round(&mut self, now: Instant) {
        self.round = Some(now);
        let (acked, marked) = (core::mem::take(&mut self.acked), core::mem::take(&mut self.marked));
        let rtt_min = core::mem::replace(&mut self.rtt_min, Duration::MAX);
        self.delayed = rtt_min > self.at.delayed_rtt;
        if acked > 0.0 {
            self.ecn += (marked / acked - self.ecn) * f64::from(self.params.ewma_gain);
        }
        //= gemini#alg1
        // The deeper of the two cuts, at most once an RTT.
        let near = if marked > 0.0 { self.ecn * self.at.md } else { 0.0 };
        let far = if self.delayed { f64::from(self.params.beta) } else { 0.0 };
        self.set(self.cwnd * (1.0 - near.max(far)));
    }

    /// Reacts to a loss as TCP does, which Gemini is built into. The window is halved, or after
    /// silence set to one packet in slow start. All segments that were in flight together cause one
    /// reaction.
    fn on_lost(&mut self, loss: &LossSample) {
        if loss.sent_at >= self.cut_at {
            self.cut_at = loss.now;
            self.ssthresh = self.bounds.clamp(self.cwnd / 2.0);
            self.set(if loss.by == Some(Inference::Silence) { 1.0 } else { self.ssthresh });
        }
    }

    /// Adds the increase of one unmarked acknowledgement.
    fn increase(&mut self, acked: f64) {
        if self.cwnd < self.ssthresh {
            //= rfc5681#3.1
            self.set((self.cwnd + acked).min(self.ssthresh));
        } else {
            //= gemini#alg1
            self.set(self.cwnd + self.at.increase * acked / self.cwnd);
        }
    }
}

impl Registered for Gemini {
    const ABOUT: &'static str = "Gemini: ECN inside a datacentre, delay across";
    type Params = GeminiParams;

    fn resolve(params: &mut GeminiParams, facts: &NetworkFacts) {
        params.inter_rtt = facts.inter_rtt.unwrap_or(params.inter_rtt);
    }
}

impl Controller for Gemini {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.gemini, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.gemini.window_max
    }
}

impl CongestionControl for Gemini {
    #[inline]
    fn window(&self) -> Window {
        let pacing = self.params.pacing.then(|| self.at.rate(self.cwnd));
        Window { cwnd: self.bounds.bytes(self.cwnd), pacing, wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.follow(path);
        let sent_at = ack.sent_at();
        let acked = self.bounds.packets(ack.acked);
        self.acked += acked;
        self.rtt_min = self.rtt_min.min(ack.rtt);
        if ack.ecn {
            self.marked += acked;
        } else if !self.delayed {
            self.increase(acked);
        }
        if sent_at >= *self.round.get_or_insert(ack.now) {
            self.end_round(ack.now);
        }
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        self.on_lost(loss);
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        self.on_lost(loss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;

    const MTU: Bytes = Bytes(4000);
    /// 50 packets of BDP.
    const NEAR: Path =
        Path { base_rtt: Duration::from_us(16), line_rate: Rate::from_gbps(100), mtu: MTU };
    /// 6250 packets of BDP.
    const FAR: Path = Path { base_rtt: Duration::from_ms(2), ..NEAR };

    struct Driver {
        cc: Gemini,
        path: Path,
        now: Instant,
    }

    impl Driver {
        fn new(path: Path, settings: &[(&str, &str)]) -> Self {
            let mut params = GeminiParams::default();
            settings.iter().for_each(|(key, value)| params.set(key, value).unwrap());
            let now = Instant::ZERO + path.base_rtt;
            Self { cc: Gemini::new(&params, &path), path, now }
        }

        /// One round: `acks` acknowledgements of a packet each, the first `marked` of them marked.
        fn round(&mut self, rtt: Duration, acks: u64, marked: u64) {
            for i in 0..acks {
                self.now += rtt / acks;
                let ack = AckSample {
                    now: self.now,
                    rtt,
                    held: Duration::ZERO,
                    acked: MTU,
                    in_flight: self.cc.window().cwnd,
                    ecn: i < marked,
                    sharers: 0,
                };
                self.cc.on_ack(&ack, &self.path);
            }
        }

        fn packets(&self) -> f64 {
            self.cc.cwnd
        }
    }

    #[test]
    fn a_window_takes_a_base_rtt_to_leave_unless_set_otherwise() {
        for (value, rate) in [("on", Some(Rate::from_gbps(50))), ("off", None)] {
            let mut params = GeminiParams::default();
            params.set("initial", "0.5").unwrap();
            params.set("pacing", value).unwrap();
            assert_eq!(Gemini::new(&params, &FAR).window().pacing, rate);
        }
    }

    #[test]
    fn unmarked_rounds_add_as_many_packets_to_near_and_far_windows() {
        // 2.4e-4 * 6250 packets.
        for path in [NEAR, FAR] {
            let mut flow = Driver::new(path, &[("initial", "0.5")]);
            let before = flow.packets();
            let acks = path.bdp().0 / MTU.0 / 2;
            flow.round(path.base_rtt, acks, 0);
            let added = flow.packets() - before;
            assert!((added - 1.5).abs() < 0.05, "{added}");
        }
        let mut fair = Driver::new(NEAR, &[("initial", "0.5"), ("increase", "fair")]);
        fair.round(NEAR.base_rtt, 25, 0);
        assert!((fair.packets() - 25.012).abs() < 0.001, "{}", fair.packets());
    }

    #[test]
    fn a_marked_round_cuts_once_and_by_the_average_of_marks() {
        let mut flow = Driver::new(NEAR, &[]);
        flow.round(NEAR.base_rtt, 50, 0);
        let before = flow.packets();
        flow.round(NEAR.base_rtt, 50, 50);
        flow.round(NEAR.base_rtt, 1, 1);
        // E is 1/2 after one round of marks alone, 4K / (K + BDP) is 24 / 56.
        let expected = before * (1.0 - 0.5 * 24.0 / 56.0);
        assert!((flow.packets() / expected - 1.0).abs() < 0.02, "{} {expected}", flow.packets());
    }

    #[test]
    fn delay_cuts_a_far_window_by_beta_and_stops_its_increase() {
        let mut flow = Driver::new(FAR, &[]);
        let rtt = FAR.base_rtt + Duration::from_us(150);
        for left in [1.0, 0.9, 0.81] {
            flow.round(rtt, 100, 0);
            let expected = 6250.0 * left;
            assert!((flow.packets() - expected).abs() < 1e-3, "{} {expected}", flow.packets());
        }
        // Below T nothing happens.
        let mut calm = Driver::new(FAR, &[]);
        for _ in 0..4 {
            calm.round(FAR.base_rtt + Duration::from_us(99), 100, 0);
        }
        assert_eq!(calm.packets(), 6250.0);
    }

    #[test]
    fn losses_of_one_flight_halve_the_window_once() {
        let mut flow = Driver::new(NEAR, &[]);
        let (now, bytes) = (flow.now, MTU);
        let mut loss =
            LossSample { now, sent_at: now, bytes, in_flight: MTU, sharers: 0, by: None };
        loss.sent_at = Instant::ZERO;
        for _ in 0..10 {
            flow.cc.on_timeout(&loss, &NEAR);
        }
        assert_eq!(flow.packets(), 25.0);
        loss.sent_at = now + Duration::from_us(1);
        flow.cc.on_nack(&loss, &NEAR);
        assert_eq!(flow.packets(), 12.5);
    }

    #[test]
    fn silence_leaves_one_packet_which_doubles_each_rtt_up_to_half_of_what_was() {
        let mut flow = Driver::new(NEAR, &[]);
        let (now, bytes) = (flow.now, MTU);
        let (sent_at, in_flight) = (Instant::ZERO, Bytes::ZERO);
        let loss =
            LossSample { now, sent_at, bytes, in_flight, sharers: 0, by: Some(Inference::Silence) };
        flow.cc.on_timeout(&loss, &NEAR);
        assert_eq!(flow.packets(), 1.0);
        for expected in [2.0, 4.0, 8.0, 16.0] {
            let acks = flow.cc.window().cwnd.0 / MTU.0;
            flow.round(NEAR.base_rtt, acks, 0);
            assert_eq!(flow.packets(), expected);
        }
        flow.round(NEAR.base_rtt, 16, 0);
        assert!((25.0..26.0).contains(&flow.packets()), "{}", flow.packets());
    }
}
