//! The data between the core and a driver: segments in, segments out, and where bytes belong.
//!
//! Plain data, no callbacks. A segment names payload bytes and never holds them, so that one core
//! serves a NIC with zero-copy buffers and a simulator without any bytes at all.

use crate::time::Instant;
use crate::units::{HostId, MsgId};
use crate::wire::class::TrafficClass;
use crate::wire::{Body, Ext, Header};

/// Segments per burst: what one `rx_burst` or `tx_burst` handles.
pub const BURST: usize = 32;

/// One segment to send. The driver sends it or keeps it; it cannot give it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxSegment {
    /// The header to emit.
    pub hdr: Header,
    /// The bytes that follow the header; `len` 0 for control packets.
    pub payload: PayloadRef,
    /// The destination.
    pub peer: HostId,
}

/// One segment received, already parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RxSegment {
    /// The parsed header.
    pub hdr: Header,
    /// When the segment arrived: the NIC's timestamp where there is one, else the burst's.
    pub at: Instant,
    /// The host that sent the segment.
    pub from: HostId,
    /// Payload bytes that arrived; 0 for control packets and trimmed ones.
    pub payload_len: u16,
    /// Congestion experienced (ECN).
    pub ce: bool,
    /// A switch cut the payload off.
    pub trimmed: bool,
}

impl TxSegment {
    /// A place to be filled.
    pub const VACANT: Self =
        Self { hdr: Header::VACANT, payload: PayloadRef::NONE, peer: HostId(0) };
}

impl RxSegment {
    /// A place to be filled.
    pub const VACANT: Self = Self {
        hdr: Header::VACANT,
        at: Instant::ZERO,
        from: HostId(0),
        payload_len: 0,
        ce: false,
        trimmed: false,
    };
}

// 64 octets, all of them in use, and the 8 of the flow's key, in the header. Extensions add none:
// see the size of `Header`.
const _: () = assert!(size_of::<TxSegment>() <= 72);
const _: () = assert!(size_of::<RxSegment>() <= 72);

/// Names `len` bytes of a message that this endpoint sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PayloadRef {
    /// The message, as [`crate::Endpoint::post_send`] named it.
    pub msg: MsgId,
    /// First byte, from the start of the message.
    pub offset: u32,
    /// How many, 0..=`Config::payload_max`.
    pub len: u16,
    /// Whether the bytes are data or parity.
    pub coding: Coding,
}

impl PayloadRef {
    /// Zero bytes of payload.
    pub const NONE: Self = Self { msg: MsgId(0), offset: 0, len: 0, coding: Coding::Data };
}

/// The kind of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coding {
    /// Bytes of the message.
    #[default]
    Data,
    /// Bytes of the message that are this packet of an erasure-coded block, sent for the first
    /// time: the driver adds them to the block's parity while they are at hand. The packets of a
    /// message leave in order.
    Block(u8),
    /// Parity packet of this number, from 0, of the block that begins at the offset; the shape is
    /// in the header.
    Parity(u8),
    /// Bytes of the message that leave as a copy, ahead of their turn.
    Copy,
    /// Bytes of the message in so many full segments, of which only the last may be shorter. They
    /// leave back to back and the receiver gets them as one. Only where the driver carries trains
    /// ([`crate::Endpoint::carry_trains`]).
    Train(u8),
}

impl Coding {
    /// Whether the segment is a copy.
    #[inline]
    #[must_use]
    pub const fn is_copy(self) -> bool {
        matches!(self, Self::Copy)
    }
}

/// A block, for which parity was kept, that needs no more packets: restore the segments that it
/// lacks, if any, and drop the parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restore {
    /// The incoming message.
    pub msg: MsgId,
    /// First byte of the block, from the start of the message.
    pub offset: u32,
    /// Length of the whole message.
    pub msg_len: u32,
    /// Data packets of a full block.
    pub full: u8,
    /// Data packets of this block, 1..=`full`.
    pub data: u8,
    /// Parity packets.
    pub parity: u8,
    /// Bit i: packet i of the block has arrived, data first.
    pub have: u64,
}

/// Where the driver puts the bytes of one received segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Nowhere: a control packet, a duplicate, or refused.
    #[default]
    Release,
    /// Copy the bytes to `offset` of incoming message `msg`.
    Place {
        /// The message as this (receiving) endpoint names it.
        msg: MsgId,
        /// First byte, from the start of the message.
        offset: u32,
        /// Length of the whole message: reserve this much when `msg` is new.
        msg_len: u32,
    },
    /// Keep the bytes as parity packet `index` of the block of incoming message `msg` that begins
    /// at `offset`, until a [`Restore`] names the block or the message ends.
    Parity {
        /// The incoming message, as this (receiving) endpoint names it.
        msg: MsgId,
        /// First byte of the block, from the start of the message.
        offset: u32,
        /// Length of the whole message.
        msg_len: u32,
        /// The number of the parity packet in its block, from 0.
        index: u8,
    },
}

impl TxSegment {
    /// The departure of a segment given at `now`: the send time in its header. That is `now`,
    /// unless the endpoint may give segments ahead of their time.
    #[inline]
    #[must_use]
    pub const fn departure(&self, now: Instant) -> Instant {
        match &self.hdr.body {
            Body::Data(data) => now.next_wire(data.sent_at),
            _ => now,
        }
    }

    /// The traffic class of the packet: copies are unscheduled data; acknowledgements, refusals and
    /// packets of schedulers are control; a note names its class.
    #[inline]
    #[must_use]
    pub const fn class(&self) -> TrafficClass {
        match &self.hdr.body {
            Body::Data(_) if self.payload.coding.is_copy() => TrafficClass::Unscheduled,
            Body::Data(_) => TrafficClass::Data,
            Body::Note(note) => note.class,
            _ => TrafficClass::Control,
        }
    }
}

/// A bounded list that the driver hands in and the core fills.
#[derive(Debug)]
pub struct Burst<T> {
    /// Items; items from `len` on have no meaning.
    items: [T; BURST],
    /// The departure of each item whose bit in `timed` is set.
    departures: [Instant; BURST],
    timed: u32,
    /// The extensions of each item whose header names some.
    exts: [Ext; BURST],
    len: usize,
    limit: usize,
}

const _: () = assert!(BURST <= 32, "a bit of `timed` each");

impl Burst<TxSegment> {
    /// An empty burst that takes at most `limit` segments; at most [`BURST`] in any case.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            items: [TxSegment::VACANT; BURST],
            departures: [Instant::ZERO; BURST],
            timed: 0,
            exts: [Ext::VACANT; BURST],
            len: 0,
            limit: limit.min(BURST),
        }
    }

    /// The departure of segment `index`, given at `now`: the instant that it was pushed with, else
    /// [`TxSegment::departure`].
    #[inline]
    #[must_use]
    pub fn departure(&self, index: usize, now: Instant) -> Instant {
        self.own_departure(index).unwrap_or_else(|| self.items[index].departure(now))
    }
}

impl<T: Copy> Burst<T> {
    /// The departure that item `index` was pushed with; `None` where it has none of its own.
    #[inline]
    #[must_use]
    pub fn own_departure(&self, index: usize) -> Option<Instant> {
        (self.timed & 1 << index != 0).then(|| self.departures[index])
    }

    /// Empties the burst and sets how many items it takes.
    pub fn reset(&mut self, limit: usize) {
        self.len = 0;
        self.timed = 0;
        self.limit = limit.min(BURST);
    }

    /// True when some item was pushed with a departure of its own.
    #[inline]
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.timed != 0
    }

    /// How many items were pushed with a departure of their own.
    #[must_use]
    pub fn timed(&self) -> usize {
        self.timed.count_ones() as usize
    }

    /// Appends `item`, which leaves at `at`.
    ///
    /// # Panics
    /// As [`Burst::push`].
    pub fn push_at(&mut self, item: T, at: Instant) {
        *self.place() = item;
        self.commit_at(at);
    }

    /// Appends the item that was written to [`Burst::place`], which leaves at `at`.
    pub fn commit_at(&mut self, at: Instant) {
        self.departures[self.len] = at;
        self.timed |= 1 << self.len;
        self.commit();
    }

    /// How many more items the burst takes.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit - self.len
    }

    /// How many items the burst holds.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when the burst holds nothing.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `item`.
    ///
    /// # Panics
    /// When there is no room: the caller asks [`Burst::room`] first.
    #[inline]
    pub fn push(&mut self, item: T) {
        *self.place() = item;
        self.commit();
    }

    /// The place of the next item, to be filled where the item stays; it holds an older item until
    /// then, and is no part of the burst before [`Burst::commit`].
    ///
    /// # Panics
    /// When there is no room: the caller asks [`Burst::room`] first.
    #[inline]
    pub fn place(&mut self) -> &mut T {
        assert!(self.len < self.limit, "burst is full");
        &mut self.items[self.len]
    }

    /// The place of the extensions of the next item. Only extensions that its header names are
    /// read.
    ///
    /// # Panics
    /// As [`Burst::place`].
    pub fn place_ext(&mut self) -> &mut Ext {
        assert!(self.len < self.limit, "burst is full");
        &mut self.exts[self.len]
    }

    /// The extensions that the header of item `index` names.
    #[inline]
    #[must_use]
    pub fn ext(&self, index: usize) -> &Ext {
        &self.exts[index]
    }

    /// Appends the item that was written to [`Burst::place`].
    #[inline]
    pub fn commit(&mut self) {
        debug_assert!(self.len < self.limit, "nothing was placed");
        self.len += 1;
    }

    /// The items in order, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items[..self.len].iter_mut()
    }

    /// The items in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items[..self.len].iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_a_departure_of_its_own_only_where_it_was_pushed_with_one() {
        let mut burst = Burst::with_limit(3);
        let (now, later) = (Instant::from_ps(5), Instant::from_ps(9));
        burst.push(TxSegment::VACANT);
        burst.push_at(TxSegment::VACANT, later);
        let own = |burst: &Burst<_>| [0, 1].map(|index| burst.own_departure(index));
        assert_eq!(own(&burst), [None, Some(later)]);
        assert_eq!((burst.timed(), burst.len()), (1, 2));
        assert_eq!([0, 1].map(|index| burst.departure(index, now)), [now, later]);
        burst.reset(3);
        burst.push(TxSegment::VACANT);
        burst.push(TxSegment::VACANT);
        assert_eq!(own(&burst), [None, None]);
    }
}
