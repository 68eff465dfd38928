//! Controllers of flows that will open. A flow gets a clone of the controller for its path, so that
//! all flows over a path share the constants that the controller computes once.

use alloc::vec::Vec;

use crate::cc::{Cc, CcKind, Path};
use crate::config::Config;

/// A controller in its initial state for each of the first [`PATHS`] different paths.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    known: Vec<(Path, Cc)>,
}

/// The most paths whose controllers are shared. A network has few different base RTTs; beyond this
/// number each flow gets a controller of its own.
const PATHS: usize = 16;

impl Controllers {
    /// The controller of a new flow over `path`; all flows over it have `kind`. Bounded by a look
    /// at each known path.
    pub(super) fn on(&mut self, config: &Config, kind: CcKind, path: &Path) -> Cc {
        if let Some((_, cc)) = self.known.iter().find(|(known, _)| known == path) {
            return cc.clone();
        }
        let cc = Cc::new(kind, &config.cc_params, path);
        if self.known.len() < PATHS {
            self.known.push((*path, cc.clone()));
        }
        cc
    }
}
