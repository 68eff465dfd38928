//! What a journal has of one packet, of one hop, and of a line while it sends.

use transport::stats::DropReason;
use transport::{Duration, Instant, Wait};

/// No record, no hop.
pub(in crate::why) const NONE: u32 = u32::MAX;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::why) struct Record {
    /// When the host gave the packet to its NIC.
    pub(in crate::why) sent: Instant,
    /// When the packet arrived; [`Instant::FAR_FUTURE`] where it did not.
    pub(in crate::why) arrived: Instant,
    /// Data: since when its flow could have sent it.
    pub(in crate::why) ready: Instant,
    /// Data: when this transmission was known to be lost.
    pub(in crate::why) known_lost: Instant,
    /// What ended the wait before `ready`.
    pub(in crate::why) opened: SendCause,
    /// What the flow waited for until `ready`.
    pub(in crate::why) waited: Wait,
    /// The connection, [`NONE`] for packets of none.
    pub(in crate::why) conn: u32,
    /// Data: the line of the matrix that it carries, [`NONE`] where that is not known.
    pub(in crate::why) flow: u32,
    /// Data: the transmission of this PSN before this one.
    pub(in crate::why) again: u32,
    /// Data: the flow's packet before this one.
    pub(in crate::why) before: u32,
    /// A packet without payload: the one that it answers.
    pub(in crate::why) answers: u32,
    /// The last hop of the packet.
    pub(in crate::why) hops: u32,
    pub(in crate::why) fate: Fate,
    /// The port that marked the packet, or [`NONE`].
    pub(in crate::why) marked: u32,
    /// The last port that cut off the payload of the packet or of a copy, or [`NONE`].
    pub(in crate::why) trimmed: u32,
    pub(in crate::why) is_data: bool,
    /// A scheduler or a pacer chose the departure before it was due.
    pub(in crate::why) chosen: bool,
    /// Whether a timer declared the packet lost.
    pub(in crate::why) silent: bool,
    /// The first packet that a flow sends after a loss was found while the flow waited only for an
    /// answer, if it is sent again: when that was. [`Instant::FAR_FUTURE`] for all other packets.
    pub(in crate::why) resumed: Instant,
}

impl Record {
    /// Whether the packet, or a copy of it, has arrived.
    pub(in crate::why) fn has_arrived(&self) -> bool {
        self.arrived < Instant::FAR_FUTURE
    }
}

/// What lets a flow send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::why) enum SendCause {
    /// A message was posted.
    Posted,
    /// The packet of this record arrived.
    Arrival(u32),
    /// Time went by.
    Time,
}

/// How a transmission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::why) enum Fate {
    /// The packet arrived, or is under way.
    Whole,
    /// This port cut the payload off.
    Trimmed(u32),
    /// The packet ended at this port.
    Lost(u32, DropReason),
    /// The packet arrived with other bytes than it left with.
    Corrupt,
}

/// A hop of a packet.
#[derive(Clone, Copy, Debug)]
pub(in crate::why) struct PacketHop {
    /// The hop before, or [`NONE`].
    pub(in crate::why) before: u32,
    pub(in crate::why) port: u32,
    /// When its transmission started, and when it was at the far end.
    pub(in crate::why) start: Instant,
    pub(in crate::why) arrival: Instant,
    /// For how long a fault held it back on the link, which sent other packets meanwhile.
    pub(in crate::why) held: Duration,
}

/// The time during which a NIC sent a packet.
#[derive(Clone, Copy, Debug)]
pub(in crate::why) struct OnLine {
    pub(in crate::why) start: Instant,
    pub(in crate::why) end: Instant,
    /// The line of the matrix, [`NONE`] for what is no data.
    pub(in crate::why) flow: u32,
}
