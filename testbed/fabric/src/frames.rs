//! What a switch program may do with the bytes of packets: a driver's answer to it.
//!
//! The fabric moves handles; what a handle stands for only the driver knows. In virtual time that
//! is the header as its sender made it, in real time a frame in an mbuf, so a program runs in both.
//! Only programs call this: a plain switch never looks at a header.

use transport::wire::Header;
use transport::{HostId, TxSegment};

use super::packet::Packet;

/// Frames by the handles of their packets.
pub trait Frames {
    /// The header of a packet; `None` when its frame cannot be read.
    fn header(&self, packet: &Packet) -> Option<Header>;

    /// Lets `change` edit the header of a packet, which keeps its length, its entropy value and its
    /// extensions. A packet that shares its frame with a copy gets a frame, and a handle, of its
    /// own. False when nothing was changed: no buffer was left, or `change` broke that rule.
    fn rewrite(&mut self, packet: &mut Packet, change: &mut dyn FnMut(&mut Header)) -> bool;

    /// A packet for a segment without payload, with `from` as its sender; `None` when no buffer is
    /// left or one of both has no address.
    fn make(&mut self, segment: &TxSegment, from: HostId) -> Option<Packet>;

    /// A packet has reached its end inside the network.
    fn end(&mut self, packet: Packet);
}

/// For networks without programs, and for tests of them: no packet has a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFrames;

impl Frames for NoFrames {
    fn header(&self, _packet: &Packet) -> Option<Header> {
        None
    }

    fn rewrite(&mut self, _packet: &mut Packet, _change: &mut dyn FnMut(&mut Header)) -> bool {
        false
    }

    fn make(&mut self, _segment: &TxSegment, _from: HostId) -> Option<Packet> {
        None
    }

    fn end(&mut self, _packet: Packet) {}
}
