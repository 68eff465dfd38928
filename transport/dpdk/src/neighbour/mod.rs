//! Hardware addresses by IP address: ARP, IPv6 neighbour discovery and echoes, as pure state
//! machines.
//!
//! Source: RFC 826 (ARP), RFC 4861 (neighbour solicitation and advertisement), RFC 792 and 4443
//! (echo). A [`Station`] answers what others ask of our addresses, a [`Resolver`] asks for those of
//! peers, a [`Prober`] measures how long an echo takes and whether full frames pass. Frames in,
//! frames out, time passed in; the device's owner moves the frames. None of it is on the path of
//! segments: peers are resolved before a run, and a worker passes to a station only frames that are
//! no packets of Headrace.
//!
//! There is no cache that ages, no redirect, no router or prefix discovery and no duplicate address
//! detection. Frames have no VLAN tag; lengths are octets without FCS.

mod arp;
mod icmp;
mod octets;
mod prober;
mod resolver;
mod station;
#[cfg(test)]
mod tests;

pub use prober::{ProbeResult, Prober, Reach};
pub use resolver::{Resolution, Resolver};
pub use station::Station;

/// A hardware address.
pub type Mac = [u8; 6];
