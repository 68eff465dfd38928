//! Networks, workloads and measurements: the same switch code in virtual and in real time.
//!
//! This part holds the inputs of a run: traffic (`workload`), networks (`topology`), and scenarios that put the two
//! together with policies and faults (`scenario`).

pub mod input;
pub mod scenario;
pub mod topology;
pub mod workload;
