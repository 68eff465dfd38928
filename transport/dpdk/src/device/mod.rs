//! Devices: found by name, set up by what they offer, steered by rules, opened and closed.

pub mod caps;
pub mod error;
pub(crate) mod ethdev;
pub mod link;
pub mod meeting;
pub mod name;
pub mod netns;
pub mod port;
pub mod rules;
pub mod stats;
