//! Shared by the system tests.

pub mod cases;
pub mod metrics;
pub mod watcher;
