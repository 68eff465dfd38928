//! One path a flow, drawn once, as in a network where the transport leaves the choice to the
//! switches' hash. Source: \[rfc2992\]. The flow never changes its path, not even when the path is
//! dead.

use super::{Balancer, LbParams, LoadBalancer, PathFeedback, draw};
use crate::params::NoParams;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::Instant;
use crate::units::EntropyValue;

/// One path for the life of the flow.
#[derive(Clone, Debug)]
pub struct Ecmp {
    ev: EntropyValue,
}

impl Ecmp {
    /// Draws the path.
    #[must_use]
    pub fn new(params: &LbParams, rng: &mut Rng) -> Self {
        Self { ev: draw(params.common.paths, rng) }
    }
}

impl Registered for Ecmp {
    const ABOUT: &'static str = "one random path for a flow";
    type Params = NoParams;
}

impl Balancer for Ecmp {
    fn build(params: &LbParams, _path: &Path, _block: u8, rng: &mut Rng) -> Self {
        Self::new(params, rng)
    }

    fn keeps_path() -> bool {
        true
    }

    fn keeps_order() -> bool {
        true
    }
}

impl LoadBalancer for Ecmp {
    fn next_ev(&mut self, _now: Instant, _rng: &mut Rng) -> EntropyValue {
        self.ev
    }
    fn on_feedback(&mut self, _ev: EntropyValue, _what: PathFeedback, _now: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_keeps_its_path_and_flows_differ() {
        let mut rng = Rng::new(4);
        let mut first = Ecmp::new(&LbParams::default(), &mut rng);
        let second = Ecmp::new(&LbParams::default(), &mut rng);
        let ev = first.next_ev(Instant::ZERO, &mut rng);
        first.on_feedback(ev, PathFeedback::Timeout, Instant::ZERO);
        assert_eq!(first.next_ev(Instant::ZERO, &mut rng), ev);
        assert_ne!(second.ev, ev);
    }
}
