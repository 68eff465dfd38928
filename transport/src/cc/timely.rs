//! Timely: a rate that follows round-trip times and their gradient. Source: \[timely\] sec. 4,
//! alg. 1; constants of the public simulator of HPCC and PowerTCP.
//!
//! ```text
//!   once a round:   diff = (1 - alpha) * diff + alpha * (RTT - RTT of the round before)
//!                   gradient = diff / RTT_min
//!   RTT < T_low, or gradient <= 0:   rate + ai, five in a row: rate + hai
//!   RTT > T_high:                    rate * (1 - beta * (1 - T_high / RTT))
//!   else:                            rate * (1 - beta * gradient)
//! ```
//!
//! A flow whose base RTT is above T_high is cut in every round, as happens with Timely between
//! sites. The rate is the control; the window is a bound on memory. Timely does not choose paths.
//!
//! Units: bits a second, microseconds.

use super::global_t::{self, GlobalT};
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::telemetry::{rate_of, to_rate};
use crate::time::{Duration, Instant};
use crate::units::Bytes;

params! {
    /// Settings of [`Timely`]. Rates are shares of the line rate.
    pub struct TimelyParams {
        /// alpha: weight of the newest difference of RTTs.
        alpha: f32 = 0.875, in 0.0..=1.0;
        /// beta: share of the rate that a cut takes at most.
        beta: f32 = 0.8, in 0.0..=1.0;
        /// T_low: below this RTT the rate rises.
        t_low: Duration = Duration::from_us(50), in Duration::from_ns(1)..=Duration::from_s(4);
        /// T_high: above this RTT the rate falls, whatever the gradient is.
        t_high: Duration = Duration::from_us(500), in Duration::from_ns(1)..=Duration::from_s(4);
        /// RTT_min: the unit of gradients.
        rtt_min: Duration = Duration::from_us(20), in Duration::from_ns(1)..=Duration::from_s(1);
        /// Additive increase; 50 Mb/s of 25 Gb/s.
        rate_ai: f32 = 0.002, in 0.0..=1.0;
        /// Increase after five in a row; 100 Mb/s of 25 Gb/s.
        rate_hai: f32 = 0.004, in 0.0..=1.0;
        /// Smallest rate; 100 Mb/s of 25 Gb/s.
        rate_min: f32 = 0.004, in 0.000001..=1.0;
        /// The window in BDPs.
        window_max: f32 = 4.0, in 0.01..=64.0;
        /// The window of every flow is that of the network's longest base RTT, as the simulator's
        /// configuration has it; off: each flow has that of its own path.
        global_t: bool = false;
        /// The longest base RTT, for global_t; 0 is that of the network.
        longest_rtt: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_s(2),
            of_network "0ns";
    }
}

/// Increases in a row after which they are larger.
//= timely#4.3
const HYPER_AFTER: u16 = 5;

/// One flow's Timely state.
#[derive(Clone, Debug)]
pub struct Timely {
    /// The rate in force, bit/s.
    rate: f64,
    line: f64,
    /// RTT of the last round, microseconds; `None` before the first.
    last: Option<f64>,
    /// Smoothed difference of RTTs, microseconds.
    diff: f64,
    /// Increases in a row.
    stage: u16,
    /// When the round began: what was sent before does not end it.
    round_at: Instant,
    cwnd: Bytes,
    base_rtt: Duration,
    params: TimelyParams,
}

impl Timely {
    /// The initial state on `path`: line rate.
    #[must_use]
    pub fn new(params: &TimelyParams, path: &Path) -> Self {
        let line = rate_of(path.line_rate).max(1.0);
        Self {
            rate: line,
            line,
            last: None,
            diff: 0.0,
            stage: 0,
            round_at: Instant::ZERO,
            cwnd: window(params, path),
            base_rtt: path.base_rtt,
            params: *params,
        }
    }

    fn follow(&mut self, path: &Path) {
        if path.base_rtt != self.base_rtt {
            self.base_rtt = path.base_rtt;
            self.cwnd = window(&self.params, path);
        }
    }

    fn set(&mut self, rate: f64) {
        let least = self.line * f64::from(self.params.rate_min);
        self.rate = rate.clamp(least, self.line);
    }

    /// A round has ended with `rtt`, microseconds.
    fn on_round(&mut self, rtt: f64) {
        let Some(last) = self.last.replace(rtt) else { return };
        let p = &self.params;
        //= timely#alg1
        let alpha = f64::from(p.alpha);
        self.diff = (1.0 - alpha) * self.diff + alpha * (rtt - last);
        let gradient = self.diff / p.rtt_min.as_us_f64();
        let (high, beta) = (p.t_high.as_us_f64(), f64::from(p.beta));
        let kept = if rtt < p.t_low.as_us_f64() {
            None
        } else if rtt > high {
            Some(1.0 - beta * (1.0 - high / rtt))
        } else if gradient <= 0.0 {
            None
        } else {
            Some((1.0 - beta * gradient).max(0.0))
        };
        if let Some(kept) = kept {
            self.stage = 0;
            self.set(self.rate * kept);
        } else {
            let share = if self.stage < HYPER_AFTER { p.rate_ai } else { p.rate_hai };
            self.stage = self.stage.saturating_add(1);
            self.set(self.rate + self.line * f64::from(share));
        }
    }
}

fn window(params: &TimelyParams, path: &Path) -> Bytes {
    let path = GlobalT::new(params.global_t, params.longest_rtt).on(path);
    path.bdp().scaled(f64::from(params.window_max)).max(path.mtu)
}

impl Registered for Timely {
    const ABOUT: &'static str = "Timely: round-trip times and their gradient";
    type Params = TimelyParams;

    fn resolve(params: &mut TimelyParams, facts: &NetworkFacts) {
        params.longest_rtt = global_t::longest(params.longest_rtt, facts);
    }
}

impl Controller for Timely {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.timely, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.timely.window_max
    }
}

impl CongestionControl for Timely {
    #[inline]
    fn window(&self) -> Window {
        Window { cwnd: self.cwnd, pacing: Some(to_rate(self.rate)), wake_at: None }
    }

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.follow(path);
        if ack.sent_at() >= self.round_at {
            self.round_at = ack.now;
            self.on_round(ack.rtt.as_us_f64());
        }
    }

    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        // DEVIATION(timely#4): its network loses nothing. A loss halves the rate once a round.
        if loss.sent_at >= self.round_at {
            self.round_at = loss.now;
            self.stage = 0;
            self.set(self.rate / 2.0);
        }
    }

    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.on_nack(loss, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;

    const PATH: Path =
        Path { base_rtt: Duration::from_us(24), line_rate: Rate::from_gbps(25), mtu: Bytes(1090) };

    /// Rounds with these RTTs, one after the other; the rate after each, Mb/s.
    fn rounds(cc: &mut Timely, rtts: &[u64]) -> Vec<u64> {
        let mut now = cc.round_at + Duration::from_ms(1);
        let of = |rtt: &u64| {
            let rtt = Duration::from_us(*rtt);
            now += rtt;
            let (acked, in_flight, held) = (PATH.mtu, PATH.mtu, Duration::ZERO);
            let ack = AckSample { now, rtt, held, acked, in_flight, ecn: false, sharers: 0 };
            cc.on_ack(&ack, &PATH);
            (cc.window().pacing.unwrap().as_bps() + 500_000) / 1_000_000
        };
        rtts.iter().map(of).collect()
    }

    use alloc::vec::Vec;

    #[test]
    fn a_long_path_loses_most_of_its_rate_in_every_round() {
        let mut cc = Timely::new(&TimelyParams::default(), &PATH);
        // 1 - 0.8 (1 - 500 / 6050) = 0.266.
        let rates = rounds(&mut cc, &[6050, 6050, 6050, 6050, 6050, 6050, 6050]);
        assert_eq!(rates, [25_000, 6653, 1770, 471, 125, 100, 100]);
    }

    #[test]
    fn short_round_trips_raise_the_rate_in_steps_that_grow_after_five() {
        let mut cc = Timely::new(&TimelyParams::default(), &PATH);
        rounds(&mut cc, &[6050; 8]);
        assert_eq!(rounds(&mut cc, &[30; 7]), [150, 200, 250, 300, 350, 450, 550]);
    }

    #[test]
    fn between_the_thresholds_the_gradient_decides() {
        let mut cc = Timely::new(&TimelyParams::default(), &PATH);
        // 0.875 x 10 us of 20 us: 1 - 0.8 x 0.4375; then it falls.
        assert_eq!(rounds(&mut cc, &[100, 110, 80]), [25_000, 16_250, 16_300]);
    }

    #[test]
    fn a_loss_halves_the_rate_once_a_round() {
        let mut cc = Timely::new(&TimelyParams::default(), &PATH);
        let us = |us| Instant::ZERO + Duration::from_us(us);
        for (at, sent) in [(100, 50), (101, 51), (130, 101)] {
            let loss = LossSample {
                now: us(at),
                sent_at: us(sent),
                bytes: PATH.mtu,
                in_flight: Bytes(0),
                sharers: 0,
                by: None,
            };
            cc.on_nack(&loss, &PATH);
        }
        assert_eq!(cc.window().pacing.unwrap().as_bps(), 6_250_000_000);
    }
}
