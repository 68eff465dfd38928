//! Emulated networks, workloads and measurements.
#![forbid(unsafe_code)]

pub mod fabric;
pub mod topology;
