//! PowerTCP: a window that follows the power of the busiest link, its current times its voltage,
//! from telemetry. Source: \[powertcp\] sec. 3.2 and alg. 1; constants of its public code.
//!
//! ```text
//!   current = max(sent + growth of the queue, B / 2)     voltage = queue + B * T
//!   power   = current * voltage / (B^2 * T), smoothed over T
//!   rate    = gain * (reference * 0.95 / power + additive) + (1 - gain) * reference
//!   once a round: reference = rate
//! ```
//!
//! PowerTCP does not choose paths. Units: bits a second, picoseconds.

use super::global_t;
use super::hpcc::{HpccParams, Telemetric};
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::telemetry::{RateLaw, Sample};
use crate::time::Duration;
use crate::wire::{ExtRefusal, Extensions};

params! {
    /// Settings of [`PowerTcp`]. Rates are shares of the line rate.
    pub struct PowerTcpParams {
        /// The power to aim at.
        target: f32 = 0.95, in 0.01..=1.0;
        /// gamma: weight of the rate that the power calls for.
        gain: f32 = 0.9, in 0.01..=1.0;
        /// beta: additive increase; 150 Mb/s of 25 Gb/s.
        rate_ai: f32 = 0.006, in 0.0..=1.0;
        /// Smallest rate; 100 Mb/s of 25 Gb/s.
        rate_min: f32 = 0.004, in 0.000001..=1.0;
        /// The window, as a multiple of what the rate sends in T; see `cc.hpcc.window`.
        window: f32 = 1.09, in 1.0..=8.0;
        /// T and window of every flow are those of the network's longest base RTT, as the
        /// simulator's configuration has it; off: each flow has its own.
        global_t: bool = false;
        /// The longest base RTT, for global_t; 0 is that of the network.
        longest_rtt: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_s(2),
            of_network "0ns";
    }
}

/// One flow's PowerTCP state.
#[derive(Clone, Debug)]
pub struct PowerTcp {
    flow: Telemetric,
}

impl PowerTcp {
    /// The initial state on `path`: line rate.
    #[must_use]
    pub fn new(params: &PowerTcpParams, path: &Path) -> Self {
        let PowerTcpParams { target, rate_ai, rate_min, window, global_t, longest_rtt, gain } =
            *params;
        let hpcc = HpccParams::default();
        let shared =
            HpccParams { target, rate_ai, rate_min, window, global_t, longest_rtt, ..hpcc };
        Self { flow: Telemetric::new(&shared, path).with_gain(gain) }
    }
}

impl Registered for PowerTcp {
    const ABOUT: &'static str = "PowerTCP: the power of the busiest link, by telemetry";
    type Params = PowerTcpParams;

    fn resolve(params: &mut PowerTcpParams, facts: &NetworkFacts) {
        params.longest_rtt = global_t::longest(params.longest_rtt, facts);
    }
}

impl Controller for PowerTcp {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.powertcp, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.powertcp.window
    }

    fn reads_int(_params: &CcParams) -> bool {
        true
    }
}

impl CongestionControl for PowerTcp {
    as_paced!(flow.paced);

    fn on_ack(&mut self, _ack: &AckSample, path: &Path) {
        self.flow.paced.follow(path);
    }

    fn on_ack_with(
        &mut self,
        ack: &AckSample,
        extensions: Extensions<'_>,
        path: &Path,
    ) -> Option<ExtRefusal> {
        self.flow.on_hops((ack, extensions), path, Sample::power, RateLaw::follow_power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Duration, Instant, Rate};
    use crate::units::Bytes;
    use crate::wire::int::{Hop, Int};
    use crate::wire::{Ext, Extent};

    const PATH: Path =
        Path { base_rtt: Duration::from_us(10), line_rate: Rate::from_gbps(100), mtu: Bytes(1090) };

    fn ack(cc: &mut PowerTcp, at: u64, sent: u64, waiting: u64) {
        let now = Instant::ZERO + Duration::from_us(at);
        let mut int = Int::with_room(1);
        int.stamp(Hop::new(now, Bytes(sent), Bytes(waiting), PATH.line_rate, 1));
        let ext = Ext { int, ..Ext::VACANT };
        let (rtt, held) = (PATH.base_rtt, Duration::ZERO);
        let (acked, in_flight) = (PATH.mtu, PATH.mtu);
        let sample = AckSample { now, rtt, held, acked, in_flight, ecn: false, sharers: 0 };
        cc.on_ack_with(&sample, Extensions::new(Extent::NONE.with_int(&int), &ext), &PATH);
    }

    fn gbps(cc: &PowerTcp) -> f64 {
        cc.flow.paced.law.rate() / 1e9
    }

    #[test]
    fn a_queue_that_grows_by_its_bdp_in_a_round_quarters_the_rate() {
        let mut cc = PowerTcp::new(&PowerTcpParams::default(), &PATH);
        ack(&mut cc, 20, 0, 0);
        ack(&mut cc, 30, 125_000, 125_000);
        // Power 4: 0.9 x (100 x 0.95 / 4 + 0.6) + 0.1 x 100.
        assert!((gbps(&cc) - 31.915).abs() < 0.1, "{}", gbps(&cc));
    }

    #[test]
    fn an_idle_link_is_taken_at_no_more_than_twice_a_round() {
        let mut cc = PowerTcp::new(&PowerTcpParams::default(), &PATH);
        ack(&mut cc, 20, 0, 500_000);
        ack(&mut cc, 30, 125_000, 500_000);
        let low = gbps(&cc);
        assert!(low < 35.0, "{low}");
        ack(&mut cc, 40, 125_000, 0);
        ack(&mut cc, 50, 125_000, 0);
        assert!(gbps(&cc) > low && gbps(&cc) <= 100.0, "{}", gbps(&cc));
    }
}
