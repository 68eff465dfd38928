//! Load balancing: which entropy value, hence which path, the next segment takes. One file a
//! balancer, one line in the registry.

mod paths;
mod rounds;

pub use spray::SprayOrder;
pub use subflow::Reroute;

use crate::params::params;
use crate::path::Path;
use crate::registry::{Registered, registry};
use crate::rng::Rng;
use crate::time::Instant;
use crate::units::EntropyValue;

/// The fate of a segment that travelled with some entropy value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathFeedback {
    /// Acknowledged without mark.
    Good,
    /// Acknowledged with CE.
    Ecn,
    /// Trimmed on the way: its header has arrived.
    Nack,
    /// Inferred lost from what has arrived: later segments, or others of its block.
    Lost,
    /// Inferred lost from silence.
    Timeout,
}

/// Chooses paths from feedback; a pure state machine apart from the random numbers that are passed
/// in.
pub trait LoadBalancer {
    /// The entropy value of the next segment.
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue;
    /// Reports the fate of a segment sent with `ev`.
    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant);
    /// True when the balancer takes the path of `ev` for dead, so that the packets on it are lost.
    /// Always false for a balancer that does not look for dead paths.
    fn is_silent(&self, _ev: EntropyValue, _now: Instant) -> bool {
        false
    }
}

params! {
    /// Settings that several balancers read.
    pub struct CommonParams {
        /// Entropy values that a flow may use; the switches' hash decides how many paths they
        /// reach.
        paths: u16 = paths::Paths::MAX, in 1..=65535;
    }
}

/// The registration of a balancer, in its file.
pub trait Balancer: LoadBalancer + Registered {
    /// The balancer of a new flow over `path`, whose full blocks have `block` packets; 0 for a flow
    /// without code.
    fn build(params: &LbParams, path: &Path, block: u8, rng: &mut Rng) -> Self;
    /// Whether the segments of a flow take one path until that path is given up.
    fn keeps_path() -> bool {
        false
    }
    /// Whether all segments of a flow take one path for good, so that none overtakes another.
    fn keeps_order() -> bool {
        false
    }
    /// What `lb.paths` may be; `None` where a flow may have as many paths as `paths`.
    fn paths_expected(_paths: u16) -> Option<&'static str> {
        None
    }
}

registry! {
    /// Names the registered balancers.
    pub enum LbKind;
    /// One flow's balancer, stored inline in the flow.
    pub enum Lb: LoadBalancer;
    new: Balancer::build(params: &LbParams, path: &Path, block: u8, rng: &mut Rng);
    params {
        /// The settings of every balancer, `lb.<key>`: one name space, in which a key that belongs
        /// to one balancer begins with its name unless its meaning is plain.
        pub struct LbParams {
            /// Settings that several balancers read.
            pub common: CommonParams,
        }
    }
    kinds {
        /// Whether the segments of a flow take one path until that path is given up.
        fn keeps_path() -> bool;
        /// Whether all segments of a flow take one path for good, so that none overtakes another.
        fn keeps_order() -> bool;
        /// What `lb.paths` may be; `None` where a flow may have as many paths as `paths`.
        fn paths_expected(paths: u16) -> Option<&'static str>;
    }
    policies {
        "reps" => reps::Reps,
        "spray" => spray::Spray,
        "plb" => plb::Plb,
        "subflow" => subflow::Subflow,
        "wary" => wary::Wary,
        "ecmp" => ecmp::Ecmp,
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
/// Ports start where the dynamic range does and wrap past zero, so every number has a port of its
/// own. Up to 16384 paths avoid the registered ports, for which firewalls may have rules.
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
    use crate::params::ParamError;
    use crate::time::{Duration, Rate};
    use crate::units::Bytes;

    #[test]
    fn no_two_balancers_share_a_key_and_every_key_sets_what_it_shows() {
        let mut params = LbParams::default();
        for (at, known) in LbParams::KEYS.iter().enumerate() {
            let twice = LbParams::KEYS[..at].iter().any(|other| other.key == known.key);
            assert!(!twice, "{}", known.key);
            let shown = params.show(known.key).unwrap();
            params.set(known.key, &shown).unwrap();
        }
        assert_eq!(params, LbParams::default());
        params.set("plb_rounds", "7").unwrap();
        params.set("paths", "9").unwrap();
        assert_eq!((params.plb.plb_rounds, params.common.paths), (7, 9));
        let unknown = ParamError::UnknownKey(LbParams::KEYS);
        assert_eq!(params.set("plb_round", "7"), Err(unknown));
        assert!(matches!(params.set("plb_rounds", "-1"), Err(ParamError::BadValue(_))));
    }

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
    fn every_balancer_stays_within_its_paths_whatever_becomes_of_segments() {
        for kind in LbKind::ALL {
            for paths in [1, 2, 3, 256] {
                let mut rng = Rng::new(5);
                let path = Path {
                    base_rtt: Duration::from_us(12),
                    line_rate: Rate::from_gbps(800),
                    mtu: Bytes(4160),
                };
                let params = LbParams { common: CommonParams { paths }, ..LbParams::default() };
                let mut lb = Lb::new(*kind, &params, &path, 10, &mut rng);
                assert_eq!((lb.kind(), LbKind::by_name(kind.name())), (*kind, Some(*kind)));
                for step in 0..2000 {
                    let now = Instant::from_ps(step * 50_000_000);
                    let ev = lb.next_ev(now, &mut rng);
                    assert!((49_152..49_152 + paths).contains(&ev.0), "{}", kind.name());
                    let what = [
                        PathFeedback::Good,
                        PathFeedback::Ecn,
                        PathFeedback::Nack,
                        PathFeedback::Lost,
                        PathFeedback::Timeout,
                    ][usize::try_from(rng.below(5)).unwrap()];
                    lb.on_feedback(ev, what, now);
                }
            }
        }
    }
}
