//! Shared by the system tests.

pub mod cases;
pub mod examples;
pub mod lab;
pub mod metrics;
pub mod netns;
pub mod process;
pub mod watcher;
