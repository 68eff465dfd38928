//! The policies' share of a segment's cost: controller and balancer called alone, warm.
//!
//! Controller and balancer are a part of the core's stage, which cannot be taken apart from outside
//! while it runs.

use std::hint::black_box;

use transport::cc::{AckSample, Cc, CcKind, CcParams, CongestionControl as _, Path};
use transport::lb::{Lb, LbKind, LbParams, LoadBalancer as _, PathFeedback};
use transport::{Bytes, Duration, Instant, Rate, Rng};
use transport_dpdk::{Calibration, eal};

use super::windows::precise;

/// Nanoseconds a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyCosts {
    /// The controller: an acknowledgement, and reading the window.
    pub cc_ns: f64,
    /// The balancer: an entropy value, and feedback about one.
    pub lb_ns: f64,
}

const ROUNDS: u64 = 64;
const CALLS: u64 = 4096;

/// SMaRTT and REPS, the best of some rounds.
#[must_use]
pub(super) fn policies(rate: Calibration) -> PolicyCosts {
    let path =
        Path { base_rtt: Duration::from_us(12), line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
    let mut rng = Rng::new(1);
    let mut cc = Cc::new(CcKind::Smartt, &CcParams::default(), &path);
    let mut lb = Lb::new(LbKind::Reps, &LbParams::default(), &path, 0, &mut rng);
    let ns = |ticks: u64| precise(ticks) * 1e9 / precise(rate.hz()) / precise(CALLS);
    let mut now = Instant::ZERO;
    let cc_ticks = best(|| {
        now += Duration::from_ns(100);
        let sample = AckSample {
            now,
            rtt: Duration::from_us(13),
            acked: path.mtu,
            in_flight: Bytes(100_000),
            ecn: false,
            held: Duration::ZERO,
            sharers: 1,
        };
        cc.on_ack(black_box(&sample), &path);
        black_box(cc.window());
    });
    let lb_ticks = best(|| {
        let ev = black_box(lb.next_ev(now, &mut rng));
        lb.on_feedback(ev, PathFeedback::Good, now);
    });
    PolicyCosts { cc_ns: ns(cc_ticks), lb_ns: ns(lb_ticks) }
}

/// Ticks of the fastest round.
fn best(mut call: impl FnMut()) -> u64 {
    let mut round = |_| {
        let start = eal::tsc();
        (0..CALLS).for_each(|_| call());
        eal::tsc().wrapping_sub(start)
    };
    (0..ROUNDS).map(&mut round).min().unwrap_or(0)
}
