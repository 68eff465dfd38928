//! Topologies: what networks look like, how their links are called, and what they could do at best.

mod fat_tree;
mod ideal;
mod selector;

pub use fat_tree::{FabricParams, FatTree, TierSpec, TreeError, TreeSpec};
pub use ideal::{Transfer, base_one_way, base_rtt, ideal_completion};
pub use selector::SelectorError;
