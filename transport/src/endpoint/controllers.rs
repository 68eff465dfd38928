//! Controllers of flows yet to open. A flow gets a clone of the one for its path, so that what a
//! controller works out once for a path is shared by all flows over it.

use alloc::vec::Vec;

use crate::cc::{Cc, CcKind, Path};
use crate::config::Config;

/// A controller in its initial state for each of the first [`PATHS`] different paths.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    known: Vec<(Path, Cc)>,
}

/// A network has few different base RTTs; paths beyond these are merely not shared.
const PATHS: usize = 16;

impl Controllers {
    /// The controller of a new flow over `path`, which is `kind` on all flows over it. Bounded by a
    /// look at each known path.
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
