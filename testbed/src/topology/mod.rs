//! Networks by name and by file: what is connected to what, how fast and how far.
//!
//! Everything here ends in a [`FatTreeSpec`], plain numbers; turning it into switches is the
//! fabric's part.

pub mod builtin;
pub mod spec;
pub mod topo_file;

pub use builtin::{NAMES, by_name};
pub use spec::{FatTreeSpec, SpecError, TierSpec};
