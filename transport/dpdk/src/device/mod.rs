//! Devices: found by name, set up by their offers, steered by rules, opened and closed.

pub mod caps;
pub(crate) mod driver_socket;
pub mod drivers;
pub mod error;
pub(crate) mod ethdev;
pub mod link;
pub(crate) mod listener;
pub mod name;
pub mod open;
pub mod port;
pub mod rules;
pub mod socket;
pub mod stats;
