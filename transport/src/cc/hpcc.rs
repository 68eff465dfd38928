//! HPCC: a rate and a window from the telemetry of every link on the path. Source: \[hpcc\] sec. 3
//! and alg. 1; constants of its simulator.
//!
//! The arithmetic is in `telemetry.rs`. The window is what the rate sends in T, so a queue that
//! grows slows the flow before the next acknowledgement does. Packets that had no room for all hops
//! are ignored. HPCC does not choose paths: a flow that changes its path measures anew.
//!
//! Units: bits a second, picoseconds.

use super::global_t::{self, GlobalT};
use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::params;
use crate::path::NetworkFacts;
use crate::registry::Registered;
use crate::telemetry::{LawConstants, Load, RateLaw, Sample, rate_of, seconds, to_rate};
use crate::time::Duration;
use crate::units::Bytes;
use crate::wire::int::HOPS_MAX;
use crate::wire::{ExtRefusal, Extensions};

params! {
    /// Settings of [`Hpcc`]. Rates are shares of the line rate, so that they fit any.
    pub struct HpccParams {
        /// eta: the utilisation to aim at.
        target: f32 = 0.95, in 0.01..=1.0;
        /// maxStage: rounds of additive increase before the next multiplicative one.
        stages: u16 = 5, in 0..=1000;
        /// Additive increase; 50 Mb/s of 25 Gb/s.
        rate_ai: f32 = 0.002, in 0.0..=1.0;
        /// Smallest rate; 100 Mb/s of 25 Gb/s.
        rate_min: f32 = 0.004, in 0.000001..=1.0;
        /// The window, in what the rate sends in T. The simulator counts windows in payload, 1000
        /// of 1090 octets: without that room a rate that falls stops the flow for a while, and
        /// telemetry of the gap raises it again.
        window: f32 = 1.09, in 1.0..=8.0;
        /// T and window of every flow are those of the network's longest base RTT, as the
        /// simulator's configuration has it; off: each flow has its own.
        global_t: bool = false;
        /// The longest base RTT, for global_t; 0 is that of the network.
        longest_rtt: Duration = Duration::ZERO, in Duration::ZERO..=Duration::from_s(2),
            of_network "0ns";
    }
}

/// A rate that is kept once a round, and a window that follows it: all of HPCC but its load.
#[derive(Clone, Debug)]
pub(super) struct Paced {
    pub(super) law: RateLaw,
    pub(super) constants: LawConstants,
    /// The base RTT, T.
    rtt: Duration,
    /// The window, in what the rate sends in T.
    slack: f64,
    mtu: Bytes,
    global_t: GlobalT,
}

impl Paced {
    /// The initial state on `path`: line rate.
    pub(super) fn new(params: &HpccParams, path: &Path) -> Self {
        let line = rate_of(path.line_rate).max(1.0);
        let constants = LawConstants {
            target: params.target,
            stages: params.stages,
            increase: line * f64::from(params.rate_ai),
            least: line * f64::from(params.rate_min),
            line,
        };
        let global_t = GlobalT::new(params.global_t, params.longest_rtt);
        let (rtt, slack) = (global_t.of(path), f64::from(params.window));
        Self { law: RateLaw::new(line), constants, rtt, slack, mtu: path.mtu, global_t }
    }

    /// The state with PowerTCP's gamma.
    pub(super) const fn with_gain(mut self, gain: f32) -> Self {
        self.law = self.law.with_gain(gain);
        self
    }

    /// The base RTT, T, in seconds.
    pub(super) fn rtt_s(&self) -> f64 {
        seconds(self.rtt)
    }

    pub(super) fn follow(&mut self, path: &Path) {
        self.rtt = self.global_t.of(path);
    }

    /// Changes the rate by a load that an acknowledgement brought, as `obey` has it.
    pub(super) fn obey(
        &mut self,
        ack: &AckSample,
        load: f64,
        obey: impl FnOnce(&mut RateLaw, f64, bool, &LawConstants),
    ) {
        let ends_round = self.law.ends_round(ack.sent_at(), ack.now);
        obey(&mut self.law, load, ends_round, &self.constants);
    }

    /// Halves the rate, once a round.
    // DEVIATION(hpcc#3): the paper's network pauses and loses nothing. Telemetry of a packet that
    // was dropped is lost with it, so a loss counts as a load of two.
    // DEVIATION(powertcp#3): its network loses nothing either, and a loss counts as much.
    pub(super) fn on_loss(&mut self, loss: &LossSample, path: &Path) {
        self.follow(path);
        self.law.cut(loss.sent_at, loss.now, &self.constants);
    }

    /// The window of the flow at its rate.
    #[inline]
    pub(super) fn window(&self) -> Window {
        let rate = self.law.rate();
        let sent = rate * seconds(self.rtt) / 8.0;
        let cwnd = Bytes(1).scaled(sent * self.slack).max(self.mtu);
        Window { cwnd, pacing: Some(to_rate(rate)), wake_at: None }
    }
}

/// A flow whose rate follows telemetry.
#[derive(Clone, Debug)]
pub(super) struct Telemetric {
    load: Load<HOPS_MAX>,
    pub(super) paced: Paced,
}

impl Telemetric {
    /// The initial state on `path`: line rate.
    pub(super) fn new(params: &HpccParams, path: &Path) -> Self {
        Self { load: Load::new(), paced: Paced::new(params, path) }
    }

    /// The state with PowerTCP's gamma.
    pub(super) const fn with_gain(mut self, gain: f32) -> Self {
        self.paced = self.paced.with_gain(gain);
        self
    }

    /// Takes in the telemetry of an acknowledgement, unless hops are missing: `obey` changes the
    /// rate by the load that `measured` finds, and by whether a round ends. Returns what is
    /// refused.
    pub(super) fn on_hops(
        &mut self,
        (ack, extensions): (&AckSample, Extensions<'_>),
        path: &Path,
        measured: impl Fn(&Sample, f64) -> f64,
        obey: impl FnOnce(&mut RateLaw, f64, bool, &LawConstants),
    ) -> Option<ExtRefusal> {
        self.paced.follow(path);
        let int = extensions.int().filter(|int| !int.is_cut())?;
        match self.load.measure(int.hops(), self.paced.rtt, measured) {
            Ok(Some(load)) => self.paced.obey(ack, load, obey),
            Ok(None) => {}
            Err(refusal) => return Some(refusal),
        }
        None
    }
}

/// One flow's HPCC state.
#[derive(Clone, Debug)]
pub struct Hpcc {
    flow: Telemetric,
}

impl Hpcc {
    /// The initial state on `path`: line rate.
    #[must_use]
    pub fn new(params: &HpccParams, path: &Path) -> Self {
        Self { flow: Telemetric::new(params, path) }
    }
}

impl Registered for Hpcc {
    const ABOUT: &'static str = "HPCC: the load of every link of the path, by telemetry";
    type Params = HpccParams;

    fn resolve(params: &mut HpccParams, facts: &NetworkFacts) {
        params.longest_rtt = global_t::longest(params.longest_rtt, facts);
    }
}

impl Controller for Hpcc {
    fn build(params: &CcParams, path: &Path) -> Self {
        Self::new(&params.hpcc, path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.hpcc.window
    }

    fn reads_int(_params: &CcParams) -> bool {
        true
    }
}

impl CongestionControl for Hpcc {
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
        self.flow.on_hops((ack, extensions), path, Sample::utilisation, RateLaw::follow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Instant, Rate};
    use crate::wire::int::{Hop, Int};
    use crate::wire::{Ext, Extent};

    const PATH: Path =
        Path { base_rtt: Duration::from_us(10), line_rate: Rate::from_gbps(100), mtu: Bytes(1090) };

    fn us(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// An acknowledgement at `at` of what left a base RTT before, by `ports` ports that have sent
    /// `sent` bytes each.
    fn ack(cc: &mut Hpcc, at: u64, sent: u64, (ports, room): (u16, u8)) {
        let mut int = Int::with_room(room);
        for port in 0..ports {
            int.stamp(Hop::new(us(at), Bytes(sent), Bytes(0), PATH.line_rate, port));
        }
        let ext = Ext { int, ..Ext::VACANT };
        let (rtt, held) = (PATH.base_rtt, Duration::ZERO);
        let (acked, in_flight) = (PATH.mtu, PATH.mtu);
        let sample = AckSample { now: us(at), rtt, held, acked, in_flight, ecn: false, sharers: 0 };
        cc.on_ack_with(&sample, Extensions::new(Extent::NONE.with_int(&int), &ext), &PATH);
    }

    fn gbps(cc: &Hpcc) -> f64 {
        cc.flow.paced.law.rate() / 1e9
    }

    #[test]
    fn a_full_link_lowers_the_rate_to_the_target_and_the_window_is_a_round_trip_of_it() {
        let mut cc = Hpcc::new(&HpccParams::default(), &PATH);
        assert_eq!(cc.window().cwnd, PATH.bdp().scaled(1.09_f32.into()));
        ack(&mut cc, 20, 0, (2, 6));
        ack(&mut cc, 30, 125_000, (2, 6));
        assert!((gbps(&cc) - 95.2).abs() < 0.1, "{}", gbps(&cc));
        let window = cc.window();
        let expected = 1.09 * 125_000.0 * gbps(&cc) / 100.0;
        assert!((window.cwnd.as_f64() - expected).abs() < 2.0, "{:?}", window.cwnd);
    }

    #[test]
    fn a_path_with_more_ports_than_room_is_never_followed() {
        let mut cc = Hpcc::new(&HpccParams::default(), &PATH);
        (2..20).for_each(|round| ack(&mut cc, round * 10, round * 250_000, (6, 5)));
        assert_eq!(gbps(&cc), 100.0);
        (20..30).for_each(|round| ack(&mut cc, round * 10, round * 250_000, (6, 6)));
        assert!(gbps(&cc) < 50.0, "{}", gbps(&cc));
    }
}
