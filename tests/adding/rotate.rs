//! A balancer that `tests/adding.rs` adds: the next path after so many segments. It shows all that
//! a balancer's file has to state.

use super::{Balancer, LbParams, LoadBalancer, PathFeedback, entropy};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::Instant;
use crate::units::EntropyValue;

params! {
    /// Settings of [`Rotate`].
    pub struct RotateParams {
        /// Rotate: segments on one path.
        rotate_after: u16 = 4, in 1..=64;
    }
}

/// All paths in turn.
#[derive(Clone, Debug)]
pub struct Rotate {
    paths: u16,
    path: u16,
    after: u16,
    sent: u16,
}

impl Registered for Rotate {
    const ABOUT: &'static str = "all paths in turn, added by a test";
    type Params = RotateParams;
}

impl Balancer for Rotate {
    fn build(params: &LbParams, _path: &Path, _block: u8, _rng: &mut Rng) -> Self {
        let (paths, after) = (params.common.paths, params.rotate.rotate_after);
        Self { paths, path: 0, after, sent: 0 }
    }
}

impl LoadBalancer for Rotate {
    fn next_ev(&mut self, _now: Instant, _rng: &mut Rng) -> EntropyValue {
        if self.sent == self.after {
            (self.path, self.sent) = ((self.path + 1) % self.paths, 0);
        }
        self.sent += 1;
        entropy(self.path)
    }
    fn on_feedback(&mut self, _ev: EntropyValue, _what: PathFeedback, _now: Instant) {}
}
