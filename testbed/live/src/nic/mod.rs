//! The `nic` world: one process a server, real devices, a real network.
//!
//! ```text
//!   Meeting (TCP, star) ---- rounds, pokes of triggers, the end ---- other hosts
//!      |
//!   Control <--app ring--> Worker (endpoint) <--PortIo--> device <--network--> other hosts
//! ```
//!
//! Every host has the same inputs and runs its own flows of the matrix. Before flows start, hosts
//! wait for links, ask for MACs, measure base RTTs and the longest frame, and compare clocks with
//! the first host's. Network time begins at the same instant everywhere. At the end every host has
//! the reports of all hosts and computes the same outcome. Time is real and is not scaled.

mod agreement;
mod connection;
mod control_port;
mod meeting;
mod message;
mod offset;
mod ongoing_run;
mod pod;
mod real_network;
mod report;
mod round_trips;
mod run;
pub mod scheduler;
mod succession;
mod successor_port;
mod warm_up;

pub use real_network::RealNetwork;
pub use run::run;

/// Whether a device of a hosts file is a card, so that the machine must be fit for one.
#[must_use]
pub fn is_card(device: &str) -> bool {
    device.parse::<transport_dpdk::DeviceName>().is_ok_and(|device| {
        let resolved = device.clone().resolved().unwrap_or(device);
        resolved.is_card()
    })
}
