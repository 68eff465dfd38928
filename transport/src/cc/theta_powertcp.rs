//! Theta-PowerTCP: PowerTCP without telemetry. Its power follows from round-trip times and their
//! gradient. Source: \[powertcp\] sec. 3.4 and alg. 2; constants of its public code.
//!
//! ```text
//!   power = max(dRTT / dt + 1, 1 / 2) * RTT / (1.05 * T), smoothed over T
//!   rate  = gain * (reference / power + additive) + (1 - gain) * reference
//!   once a round: reference = rate
//! ```
//!
//! Round-trip times show only queues, so a flow on an idle link grows by its additive increase and
//! by no more. It does not choose paths. Units: bits a second, seconds.

use super::global_t;
use super::hpcc::{HpccParams, Paced};
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::telemetry::{RateLaw, seconds};
use crate::time::{Duration, Instant};

params! {
    /// Settings of [`ThetaPowerTcp`]. Rates are shares of the line rate.
    pub struct ThetaPowerTcpParams {
        /// The power to aim at.
        target: f32 = 1.0, in 0.01..=1.0;
        /// gamma: weight of what the power calls for.
        gain: f32 = 0.7, in 0.01..=1.0;
        /// Round-trip times up to so many base RTTs count as without a queue.
        slack: f32 = 1.05, in 1.0..=2.0;
        /// beta: additive increase; 150 Mb/s of 25 Gb/s.
        rate_ai: f32 = 0.006, in 0.0..=1.0;
        /// Smallest rate; 100 Mb/s of 25 Gb/s.
        rate_min: f32 = 0.004, in 0.000001..=1.0;
        /// The window, in what the rate sends in T; see `cc.hpcc.window`.
        window: f32 = 1.09, in 1.0..=8.0;
        /// T and window of every flow are those of the network's longest base RTT, as the
        /// simulator's configuration has it; off: each flow has its own.
        global_t: bool = false;
        /// The longest base RTT, for global_t; 0 is that of the network.
        longest_rtt: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_s(2),
            of_network "0ns";
    }
}

/// The least current: the shipped code assumes at least half of a link's rate.
const CURRENT_MIN: f64 = 0.5;

/// The least power: a clock that steps must not raise a rate without bound.
const POWER_MIN: f64 = 1e-3;

/// One flow's Theta-PowerTCP state.
#[derive(Clone, Debug)]
pub struct ThetaPowerTcp {
    paced: Paced,
    slack: f64,
    /// The round-trip time of the last acknowledgement, and when that came.
    last: Option<(Duration, Instant)>,
    /// The smoothed power, above 0.
    power: f64,
}

impl ThetaPowerTcp {
    /// The initial state on `path`: line rate.
    #[must_use]
    pub fn new(params: &ThetaPowerTcpParams, path: &Path) -> Self {
        let ThetaPowerTcpParams {
            target, rate_ai, rate_min, window, global_t, longest_rtt, ..
        } = *params;
        let hpcc = HpccParams::default();
        let shared =
            HpccParams { target, rate_ai, rate_min, window, global_t, longest_rtt, ..hpcc };
        let paced = Paced::new(&shared, path).with_gain(params.gain);
        Self { paced, slack: params.slack.into(), last: None, power: 1.0 }
    }

    /// The smoothed power after an acknowledgement; `None` for the first, and where no time has
    /// passed since the last.
    fn measure(&mut self, ack: &AckSample) -> Option<f64> {
        if self.last.is_some_and(|(_, at)| ack.now <= at) {
            return None;
        }
        let (rtt_last, at) = self.last.replace((ack.rtt, ack.now))?;
        let (base, span) = (self.paced.rtt_s().max(1e-9), seconds(ack.now.since(at)));
        //= powertcp#alg2
        let gradient = (seconds(ack.rtt) - seconds(rtt_last)) / span;
        let current = (gradient + 1.0).max(CURRENT_MIN);
        let power = current * seconds(ack.rtt) / (self.slack * base);
        let weight = (span / base).min(1.0);
        self.power = (self.power * (1.0 - weight) + power * weight).max(POWER_MIN);
        Some(self.power)
    }
}

impl Registered for ThetaPowerTcp {
    const ABOUT: &'static str = "Theta-PowerTCP: power from round-trip times, without telemetry";
    type Params = ThetaPowerTcpParams;

    fn resolve(params: &mut ThetaPowerTcpParams, facts: &NetworkFacts) {
        params.longest_rtt = global_t::longest(params.longest_rtt, facts);
    }
}

impl Controller for ThetaPowerTcp {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.theta_powertcp, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.theta_powertcp.window
    }
}

impl CongestionControl for ThetaPowerTcp {
    as_paced!(paced);

    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.paced.follow(path);
        if let Some(power) = self.measure(ack) {
            self.paced.obey(ack, power, RateLaw::follow_power);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::units::Bytes;

    const PATH: Path =
        Path { base_rtt: Duration::from_us(10), line_rate: Rate::from_gbps(100), mtu: Bytes(1090) };

    fn ack(cc: &mut ThetaPowerTcp, at: u64, rtt: u64) -> f64 {
        let (now, rtt) = (Instant::ZERO + Duration::from_us(at), Duration::from_us(rtt));
        let (acked, in_flight, held) = (PATH.mtu, PATH.mtu, Duration::ZERO);
        let sample = AckSample { now, rtt, held, acked, in_flight, ecn: false, sharers: 0 };
        cc.on_ack(&sample, &PATH);
        cc.paced.law.rate() / 1e9
    }

    fn exact() -> ThetaPowerTcp {
        let params = ThetaPowerTcpParams { slack: 1.0, ..ThetaPowerTcpParams::default() };
        ThetaPowerTcp::new(&params, &PATH)
    }

    #[test]
    fn a_round_trip_that_doubles_in_a_round_quarters_the_rate() {
        let mut cc = exact();
        ack(&mut cc, 20, 10);
        // Current 2, voltage 2: 0.7 x (100 / 4 + 0.6) + 0.3 x 100.
        let rate = ack(&mut cc, 30, 20);
        assert!((rate - 47.92).abs() < 0.1, "{rate}");
    }

    #[test]
    fn a_queue_that_stands_halves_it_and_one_that_drains_at_line_rate_keeps_it() {
        let mut cc = exact();
        ack(&mut cc, 20, 20);
        let stands = ack(&mut cc, 30, 20);
        assert!((stands - 65.42).abs() < 0.1, "{stands}");
        let mut cc = exact();
        ack(&mut cc, 20, 20);
        // The current is half at least, and the voltage that of the base RTT.
        let drains = ack(&mut cc, 30, 10);
        assert!((drains - 100.0).abs() < 0.1, "{drains}");
    }

    #[test]
    fn acknowledgements_that_come_together_and_steps_of_a_clock_keep_the_rate_in_bounds() {
        let mut cc = ThetaPowerTcp::new(&ThetaPowerTcpParams::default(), &PATH);
        for (at, rtt) in [(20, 10), (20, 10_000), (21, 0), (22, 900_000), (23, 0), (9_000, 10)] {
            let rate = ack(&mut cc, at, rtt);
            assert!((0.4..=100.0).contains(&rate), "{rate}");
        }
    }
}
