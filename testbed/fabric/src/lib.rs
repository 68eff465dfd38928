//! The emulated network: sans-IO, the same code in virtual time and in the DPDK soft switch.
//!
//! A driver hands packets in and gets what comes out as plain data in a buffer of its own. Time and
//! chance are handed in. The fabric moves packets of 16 bytes without payload.
//!
//! - A driver in real time injects packets (`Network::inject`), asks when something happens next
//!   (`next_event_at`) and lets the network run until now (`run_until`).
//! - A driver in virtual time opens a window of time (`open`) in which hosts can be handled one
//!   after another, has each host's NIC send what the host hands in (`send`), lets the switches run
//!   (`run_switches`), and closes the window (`close`).
//!
//! ```text
//! inject -> Port (NIC) -> link -> Switch::route -> Port -> link -> ... -> Output::Delivered
//!           qdisc         fault                    qdisc
//! ```
//!
//! [`pod`] decides for a pod as plain data; the program `pod_scheduler` and `PodServer` run it.

#![deny(unsafe_code)]

mod audit;
mod blueprint;
mod calendar;
mod copies;
mod crossings;
mod elements;
mod fault;
mod frames;
#[cfg(test)]
mod leaf_spine;
mod mesh;
mod network;
mod packet;
mod parts;
pub mod pod;
mod port;
pub mod program;
pub mod qdisc;
mod routing;
mod stats;
mod time_window;
mod train;
mod transit;
mod wiring;

pub use audit::{Imbalance, PacketBalance};
pub use blueprint::{Blueprint, Unpaused};
pub use calendar::Flight;
pub use copies::{CopySlab, Counted};
pub use elements::{Node, PortId, PortSpec, SwitchSpec};
pub use fault::{BLOCK_MAX, FaultError, FaultKind, FaultSpec, LOSSES_MAX};
pub use frames::{Frames, Headers, NoFrames, PacketStep};
pub use network::{Network, SwitchQueues};
pub use packet::{Ends, Flags, Output, Packet, flow_hash};
pub use parts::Parts;
pub use port::{Departure, Port, serialisation};
pub use program::pfc::Shortage;
pub use program::pod_core::CoreCounters;
pub use program::pod_scheduler::{PodCounters, PodServer, PodWaits};
pub use program::{AnyProgram, ProgramKind, ProgramSettings};
pub use qdisc::{PacketSizes, PhantomParams, QdiscKind, QdiscParams, QdiscSettings, Queued};
pub use stats::{Eighths, Pause, PortStats, QueueStats};
pub use time_window::{Group, TimeWindow};
pub use train::Gaps;
