//! The live worlds: the endpoints and switches of a simulation on DPDK devices, in real time.
//!
//! | Module | Is | Command |
//! |---|---|---|
//! | [`vdev`] | the `vdev` world: hosts and emulated switches | `run --world vdev` |
//! | [`nic`] | the `nic` world: one process a server, a real network | `run --world nic` |
//! | [`nic::scheduler`] | the scheduler of Zeropod's hosts in that world | `scheduler` |
//! | `workers` | hosts as workers on polling threads, in every world | |
//! | [`peers`] | throughput and round trips between two processes | `perf`, `ping` |
//! | [`datapath`] | what one segment costs on a DPDK device | `bench` |
//! | [`border`] | MLCC's border switch between real devices | `dci` |
//! | `switching` | emulated switches over mbufs | |
//! | `capture` | the thread that writes frames of workers into a file | |
//! | [`inspect`] | what a device is and does | `doctor --device` |
//! | [`dpdk_error`] | what DPDK refuses | |
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
