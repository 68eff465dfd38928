//! What the hosts of a simulated run use and share: network, conductor, packets under way.

use fabric::{Network, Output};

use super::packets::PacketSlab;
use crate::conductor::Conductor;

/// The parts of a simulation that its hosts share.
pub(super) struct Environment<'a> {
    pub(super) network: Network,
    pub(super) conductor: Conductor<'a>,
    pub(super) packets: PacketSlab,
    /// Packets that ended before their destination.
    pub(super) out: Vec<Output>,
}
