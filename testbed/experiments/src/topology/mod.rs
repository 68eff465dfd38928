//! Networks: plain numbers by name or by file ([`FatTreeSpec`]), the networks built from them
//! ([`FatTree`]), names of their links, and their lower bounds.

pub mod builtin;
pub mod fat_tree;
mod ideal;
mod links;
pub mod programs;
mod selector;
pub mod spec;
pub mod topo_file;
mod wiring;

pub use builtin::{NamedNetwork, by_name, networks};
pub use fat_tree::{FabricParams, FatTree};
pub use ideal::{
    FlowPackets, Level, Transfer, base_one_way, base_rtt, delivery_alone, ideal_completion,
};
pub use links::{LinkSelector, Ports, SelectorError};
pub use spec::{FatTreeSpec, SpecError, TIERS_MAX, TierSpec, WanSpec};
pub use wiring::Uplink;
