//! Networks, workloads and measurements: the same switch code in virtual and in real time.
#![forbid(unsafe_code)]

pub mod conductor;
pub mod fabric;
pub mod input;
pub mod measure;
pub mod plan;
pub mod progress;
#[cfg(feature = "dpdk")]
pub mod real_time;
pub mod scenario;
pub mod topology;
pub mod virtual_time;
pub mod workload;
