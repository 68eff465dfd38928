//! Load balancing: which entropy value, hence which path, the next segment takes. One file a
//! balancer, one line in the registry.

pub mod ecmp;
pub mod plb;
pub mod reps;
pub mod spray;
pub mod subflow;

pub use ecmp::Ecmp;
pub use plb::Plb;
pub use reps::Reps;
pub use spray::{Spray, SprayOrder};
pub use subflow::{Reroute, Subflow};

use crate::params::params;
use crate::path::Path;
use crate::registry::registry;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;

/// What became of a segment that travelled with some entropy value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathFeedback {
    /// Acknowledged without mark.
    Good,
    /// Acknowledged with CE.
    Ecn,
    /// Trimmed on the way.
    Nack,
    /// Inferred lost.
    Timeout,
}

/// Chooses paths from feedback; a pure state machine apart from the chance handed in.
pub trait LoadBalancer {
    /// The entropy value of the next segment.
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue;
    /// What became of a segment sent with `ev`.
    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant);
    /// True when the path of `ev` is taken for dead: what it carries now is lost. Of a balancer
    /// that does not look for dead paths never.
    fn is_silent(&self, _ev: EntropyValue, _now: Instant) -> bool {
        false
    }
}

params! {
    /// Settings of all balancers; each reads those it knows.
    pub struct LbParams {
        /// Entropy values a flow may use; how many paths they reach is for the switches' hash to
        /// say.
        paths: u16 = 256, in 1..=65535;
        /// REPS: how long exploring stops after a timeout. The reference simulator's 10 ms.
        freeze: Duration = Duration::from_ms(10), in Duration::ZERO..=Duration::from_s(3600);
        /// REPS: segments that explore when a freeze ends, in BDPs of full segments.
        explore: f32 = 1.0, in 0.0..=64.0;
        /// REPS: in which order new entropy values are tried. The paper draws them; permuted is an
        /// improvement of ours.
        explore_order: SprayOrder = SprayOrder::Permuted;
        /// Spraying: in which order paths are taken.
        spray_order: SprayOrder = SprayOrder::Permuted;
        /// PLB: K, share of a round's segments that makes it congested.
        plb_fraction: f32 = 0.5, in 0.0..=1.0;
        /// PLB: N, congested rounds in a row after which the path changes; 0 is never.
        plb_rounds: u16 = 12, in 0..=1000;
        /// PLB: M, congested rounds in a row after which an idle flow changes path; 0 is never.
        plb_idle_rounds: u16 = 3, in 0..=1000;
        /// PLB: after a timeout congestion changes no path for this time up to twice this time.
        plb_suspend: Duration = Duration::from_s(60), in Duration::ZERO..=Duration::from_s(3600);
        /// UnoLB: subflows of a flow; the default is the packets of an (8,2) block.
        subflows: u16 = 10, in 1..=20;
        /// UnoLB: where a subflow that loses is moved.
        reroute: Reroute = Reroute::Acked;
    }
}

registry! {
    /// Names the registered balancers.
    pub enum LbKind;
    /// One flow's balancer, stored inline in the flow.
    pub enum Lb: LoadBalancer;
    new(params: &LbParams, path: &Path, rng: &mut Rng);
    {
        /// [`Reps`].
        "reps" => Reps: Reps::new(params, path),
        /// [`Spray`].
        "spray" => Spray: Spray::new(params, rng),
        /// [`Plb`].
        "plb" => Plb: Plb::new(params, path, rng),
        /// [`Subflow`].
        "subflow" => Subflow: Subflow::new(params, path, rng),
        /// [`Ecmp`].
        "ecmp" => Ecmp: Ecmp::new(params, rng),
    }
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue;
    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant);
    fn is_silent(&self, ev: EntropyValue, now: Instant) -> bool;
}

/// A path drawn uniformly from `paths`.
pub(crate) fn draw(paths: u16, rng: &mut Rng) -> EntropyValue {
    // The draw is below `paths`, so it fits.
    entropy(u16::try_from(rng.below(u64::from(paths))).unwrap_or(0))
}

/// The entropy value of path number `path`, 0..=65534: a UDP source port, which must not be zero.
/// Ports start where the dynamic range does and wrap past zero, so that up to 16384 paths stay
/// clear of the registered ports that firewalls know, and every number has a port of its own.
//= rfc6335#6
#[must_use]
pub const fn entropy(path: u16) -> EntropyValue {
    const FIRST: u16 = 49_152;
    // 65535 - 49152 numbers before the wrap, the rest from port 1 on.
    const BEFORE_WRAP: u16 = u16::MAX - FIRST;
    if path <= BEFORE_WRAP { EntropyValue(FIRST + path) } else { EntropyValue(path - BEFORE_WRAP) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::units::Bytes;

    #[test]
    fn every_path_has_a_legal_port_of_its_own() {
        let mut seen = alloc::vec![false; 65_536];
        for path in 0..65_535 {
            let EntropyValue(port) = entropy(path);
            assert!(port != 0 && !seen[usize::from(port)], "path {path}");
            seen[usize::from(port)] = true;
        }
    }

    #[test]
    fn every_balancer_stays_within_its_paths_whatever_it_hears() {
        for kind in LbKind::ALL {
            for paths in [1, 2, 3, 256] {
                let mut rng = Rng::new(5);
                let path = Path {
                    base_rtt: Duration::from_us(12),
                    line_rate: Rate::from_gbps(800),
                    mtu: Bytes(4160),
                };
                let params = LbParams { paths, ..LbParams::default() };
                let mut lb = Lb::new(*kind, &params, &path, &mut rng);
                assert_eq!((lb.kind(), LbKind::by_name(kind.name())), (*kind, Some(*kind)));
                for step in 0..2000 {
                    let now = Instant::from_ps(step * 50_000_000);
                    let ev = lb.next_ev(now, &mut rng);
                    assert!((49_152..49_152 + paths).contains(&ev.0), "{}", kind.name());
                    let what = [
                        PathFeedback::Good,
                        PathFeedback::Ecn,
                        PathFeedback::Nack,
                        PathFeedback::Timeout,
                    ][usize::try_from(rng.below(4)).unwrap()];
                    lb.on_feedback(ev, what, now);
                }
            }
        }
    }
}
