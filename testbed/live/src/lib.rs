//! The live worlds: the endpoints and switches of a simulation on DPDK devices, in real time.
//!
//! | Module | Is |
//! |---|---|
//! | [`vdev`] | the `vdev` world: hosts on virtual devices, emulated switches between them |
//! | [`nic`] | the `nic` world: one process a server, real devices, a real network |
//! | `workers` | what both worlds share: hosts as workers on polling threads |
//! | [`peers`] | throughput and round trips between two processes with a device each |
//! | [`datapath`] | what one segment costs on a DPDK device |
//! | [`border`] | MLCC's border switch between real devices |
//! | `switching` | emulated switches over mbufs |
//! | `capture` | the thread that writes frames of workers into a file |
//! | [`inspect`] | what a device is and does |
//! | [`dpdk_error`] | what DPDK refuses |
//!
//! DPDK starts once in a process, so a process has one run.
#![forbid(unsafe_code)]

pub mod border;
mod capture;
pub mod datapath;
pub mod dpdk_error;
pub mod inspect;
pub mod nic;
pub mod peers;
mod switching;
pub mod vdev;
mod workers;

pub use transport_dpdk::eal::dpdk_version;
pub use workers::LATE_SHARE_MAX;
