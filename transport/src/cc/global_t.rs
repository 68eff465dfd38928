//! T, the base RTT by which a controller chooses its window: that of the flow's path, or the
//! longest of the network. Source: `GLOBAL_T` of the public simulator of \[hpcc\], whose
//! configuration gives every flow T and window of the longest path.

use super::Path;
use crate::path::NetworkFacts;
use crate::time::Duration;

/// The setting `longest_rtt` as it acts: the longest base RTT of the network where it is zero.
pub(super) fn longest(set: Duration, facts: &NetworkFacts) -> Duration {
    let of_network = facts.base_rtt.filter(|_| set == Duration::ZERO);
    of_network.unwrap_or(set)
}

/// The T of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct GlobalT {
    /// The longest base RTT of the network; zero where each path has its own T.
    longest: Duration,
}

impl GlobalT {
    /// The T that the settings `global_t` and `longest_rtt` of a controller choose.
    pub(super) fn new(global_t: bool, longest_rtt: Duration) -> Self {
        Self { longest: if global_t { longest_rtt } else { Duration::ZERO } }
    }

    /// T of a flow over `path`.
    pub(super) fn of(self, path: &Path) -> Duration {
        path.base_rtt.max(self.longest)
    }

    /// `path` with T as its base RTT.
    pub(super) fn on(self, path: &Path) -> Path {
        Path { base_rtt: self.of(path), ..*path }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::cc::{Cc, CcKind, CcParams, CongestionControl as _, Path};
    use crate::path::NetworkFacts;
    use crate::time::{Duration, Rate};
    use crate::units::Bytes;

    const NEAR: Path =
        Path { base_rtt: Duration::from_us(24), line_rate: Rate::from_gbps(25), mtu: Bytes(1090) };
    const FAR: Path = Path { base_rtt: Duration::from_us(6000), ..NEAR };

    #[test]
    fn near_flows_have_the_window_of_the_longest_path_where_the_setting_is_on() {
        let facts = NetworkFacts { base_rtt: Some(FAR.base_rtt), ..NetworkFacts::default() };
        let mut found = Vec::new();
        for &kind in CcKind::ALL {
            if CcParams::keys(kind).iter().all(|key| key.key != "global_t") {
                continue;
            }
            found.push(kind.name());
            let cwnd = |settings: &[(&str, &str)], path| {
                let mut params = CcParams::default();
                for (key, value) in settings {
                    params.set(kind, key, value).unwrap();
                }
                params.resolve(&facts);
                Cc::new(kind, &params, path).window().cwnd
            };
            let (name, on) = (kind.name(), ("global_t", "on"));
            assert!(cwnd(&[], &NEAR) < cwnd(&[], &FAR), "{name}");
            assert_eq!(cwnd(&[on], &NEAR), cwnd(&[], &FAR), "{name}");
            let by_hand = [on, ("longest_rtt", "12ms")];
            let farther = Path { base_rtt: Duration::from_ms(12), ..FAR };
            assert_eq!(cwnd(&by_hand, &NEAR), cwnd(&[], &farther), "{name}: by hand");
        }
        assert_eq!(found, ["dcqcn", "hpcc", "powertcp", "theta-powertcp", "timely"]);
    }
}
