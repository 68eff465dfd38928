//! The emulated network: sans-IO, the same code in virtual time and in the DPDK soft switch.
//!
//! A driver hands packets in (`Network::inject`), asks when something happens next
//! (`next_event_at`) and lets the network run until now (`run_until`, `step`); what comes out is
//! plain data in a buffer of the driver's. Time and chance are handed in. A packet is 16 bytes here
//! and its payload never is.
//!
//! ```text
//! inject -> Port (NIC) -> link -> Switch::route -> Port -> link -> ... -> Output::Delivered
//!           qdisc         fault                    qdisc
//! ```

#![forbid(unsafe_code)]

mod audit;
mod blueprint;
mod calendar;
mod fault;
#[cfg(test)]
mod leaf_spine;
mod network;
mod packet;
mod parts;
mod pfc;
mod port;
pub mod qdisc;
mod routing;
mod stats;
mod transit;
mod window;

pub use audit::{Audit, Imbalance};
pub use blueprint::{Blueprint, Node, PortSpec, SwitchSpec};
pub use calendar::Flight;
pub use fault::{BLOCK_MAX, FaultError, FaultKind, FaultSpec, LOSSES_MAX};
pub use network::{Network, Output, PortId};
pub use packet::{Flags, Packet, flow_hash};
pub use parts::Parts;
pub use pfc::{Shortage, check_buffers, least_buffer};
pub use port::{Port, serialisation};
pub use qdisc::{PauseParams, PhantomParams, PhantomShares, QdiscKind, QdiscParams, Queued};
pub use stats::{Histogram, PortStats, QueueStats};
pub use window::{Group, Window};
