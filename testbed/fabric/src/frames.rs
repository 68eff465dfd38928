//! The bytes of packets, as switches may read and change them through the driver.
//!
//! The fabric moves handles; only the driver has what a handle stands for. In virtual time that is
//! the header as its sender made it, in real time a frame in an mbuf, so a program runs in both.
//! Programs call these methods, and ports that write their telemetry into packets with room for it;
//! a plain switch never looks at a header. A frame that gets one more packet, or one less, is
//! reported here, too. This happens at that very instant, because a program may edit or end the
//! frame in the same poll.

use transport::stats::DropReason;
use transport::wire::data::Glance;
use transport::wire::int::Hop;
use transport::wire::{Ext, Header};
use transport::{Duration, HostId, Instant, TxSegment};

use super::packet::{Output, Packet};

/// The headers of packets by the handles of these. Methods that are provided are those of a driver
/// whose packets have no frames.
pub trait Headers {
    /// Shows `look` the host that has sent a packet, its header, and the extensions that its header
    /// names. `look` is not called when the frame cannot be read.
    fn read(&self, _packet: &Packet, _look: &mut dyn FnMut(HostId, &Header, &Ext)) {}

    /// What a border switch needs of a packet, without reading all of it.
    fn glance(&self, packet: &Packet) -> Option<Glance> {
        let mut found = None;
        self.read(packet, &mut |_, header, ext| found = Glance::of(header, ext));
        found
    }
}

/// Frames by the handles of their packets.
///
/// A packet that shares its frame with a copy gets a frame, and a handle, of its own before it is
/// changed. A handle is free when all its packets have ended or were delivered. Methods that are
/// provided are those of a driver whose packets have no frames.
pub trait Frames: Headers {
    /// Lets `change` edit the header of a packet and the content of its extensions. The packet
    /// keeps its length, its entropy value, and the kinds and the room of its extensions. False
    /// when nothing was changed: no buffer was left, or `change` broke that rule.
    fn rewrite(
        &mut self,
        _packet: &mut Packet,
        _change: &mut dyn FnMut(&mut Header, &mut Ext),
    ) -> bool {
        false
    }

    /// Takes all hops out of the telemetry of a packet. False when no buffer was left.
    fn clear_hops(&mut self, packet: &mut Packet) -> bool {
        self.rewrite(packet, &mut |_, ext| ext.int.clear())
    }

    /// Adds hops to the telemetry of a packet, and notes that some are missing where the room is
    /// used up. False when the packet has no room for any, or no buffer was left: the packet is
    /// lost.
    fn stamp(&mut self, _packet: &mut Packet, _hops: &[Hop]) -> bool {
        false
    }

    /// A packet for a segment without payload, with its extensions, and with `from` as its sender;
    /// `None` when no buffer is left or one of the hosts has no address.
    fn make(&mut self, _segment: &TxSegment, _ext: &Ext, _from: HostId) -> Option<Packet> {
        None
    }

    /// A second packet with this handle starts to travel; each of the two will end or be delivered.
    fn duplicate(&mut self, packet: &Packet);

    /// A packet has reached its end inside the network: it was lost, or a program consumed it.
    fn end(&mut self, packet: Packet);

    /// A step of a packet that is flagged [`super::Flags::INT`]: a driver that records the ways of
    /// packets flags all of them. Departures are noted after [`super::Network::keep_journal`].
    fn note(&mut self, _packet: &Packet, _step: PacketStep) {}
}

/// A step of a packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketStep {
    /// A port sends the packet.
    Left {
        /// The port's number.
        port: u32,
        /// When its transmission starts.
        start: Instant,
        /// When the packet is at the far end.
        arrival: Instant,
    },
    /// The link that the packet left on holds it back for so long.
    Held(Duration),
    /// A port cuts its payload off.
    Trimmed {
        /// The port's number.
        port: u32,
    },
    /// The packet ends at a port.
    Lost {
        /// The port's number.
        port: u32,
        /// The reason.
        reason: DropReason,
    },
}

impl dyn Frames + '_ {
    /// The header of a packet; `None` when its frame cannot be read.
    #[must_use]
    pub fn header(&self, packet: &Packet) -> Option<Header> {
        let mut found = None;
        self.read(packet, &mut |_, header, _| found = Some(*header));
        found
    }

    /// The extensions that the header of a packet names; `None` when its frame cannot be read.
    #[must_use]
    pub fn ext(&self, packet: &Packet) -> Option<Ext> {
        let mut found = None;
        self.read(packet, &mut |_, _, ext| found = Some(*ext));
        found
    }

    /// The host that has sent a packet; `None` when its frame cannot be read.
    #[must_use]
    pub fn sender(&self, packet: &Packet) -> Option<HostId> {
        let mut found = None;
        self.read(packet, &mut |from, _, _| found = Some(from));
        found
    }
}

/// The driver's parts that a network uses while it runs.
pub(crate) struct Driver<'a> {
    /// Where outputs are pushed.
    pub(crate) out: &'a mut Vec<Output>,
    /// The frames of packets.
    pub(crate) frames: &'a mut dyn Frames,
}

/// Frames of networks without programs and telemetry, and of tests of them: no packet has a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFrames;

impl Headers for NoFrames {}

impl Frames for NoFrames {
    fn duplicate(&mut self, _packet: &Packet) {}

    fn end(&mut self, _packet: Packet) {}
}
