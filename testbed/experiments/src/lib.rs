//! Networks, workloads and measurements: the same switch code in virtual and in real time.
//!
//! | Module | Is |
//! |---|---|
//! | [`input`] | diagnostics with file, line and column; tokens, numbers, nearest names |
//! | [`workload`], [`topology`], [`scenario`] | traffic, network, and both with faults |
//! | [`plan`] | a run wholly decided, and every setting with its source |
//! | [`forecast`] | hops, time and memory of a simulation, before it runs |
//! | [`fabric`] | ports, queues, switches, links and faults as a discrete-event machine |
//! | [`hosts_file`] | the hosts of a real network |
//! | [`conductor`] | starts flows when due and keeps their records |
//! | [`virtual_time`] | the `sim` world |
//! | `real_time` | the `vdev` world, with the feature `dpdk` |
//! | `nic` | the `nic` world, with the feature `dpdk` |
//! | `datapath` | what one segment costs on a DPDK device, with the feature `dpdk` |
//! | `inspect` | what a device is and does, with the feature `dpdk` |
//! | `dpdk_error` | what DPDK refuses, with the feature `dpdk` |
//! | [`capture`] | frames in a file that Wireshark reads |
//! | [`observe`] | what a run shows of itself while it goes on |
//! | `peers` | two processes with a device each, with the feature `dpdk` |
//! | [`measure`] | what a run leaves behind: summary, flows, samples, audit |
#![forbid(unsafe_code)]

pub mod capture;
pub mod conductor;
#[cfg(feature = "dpdk")]
pub mod datapath;
#[cfg(feature = "dpdk")]
pub mod dpdk_error;
pub mod fabric;
pub mod forecast;
pub mod hosts_file;
pub mod input;
#[cfg(feature = "dpdk")]
pub mod inspect;
pub mod measure;
#[cfg(feature = "dpdk")]
pub mod nic;
pub mod observe;
#[cfg(feature = "dpdk")]
pub mod peers;
pub mod plan;
pub mod progress;
#[cfg(feature = "dpdk")]
pub mod real_time;
pub mod scenario;
pub mod topology;
pub mod virtual_time;
pub mod workload;
