//! Shared by the system tests.

pub mod watcher;
