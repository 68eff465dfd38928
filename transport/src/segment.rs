//! What crosses between the core and a driver: segments in, segments out, and where bytes belong.
//!
//! Plain data, no callbacks. A segment names payload bytes and never holds them, so that one core
//! serves a NIC with zero-copy buffers and a simulator without any bytes at all.

use crate::time::Instant;
use crate::units::{HostId, MsgId};
use crate::wire::class::TrafficClass;
use crate::wire::{Body, Ext, Header};

/// Segments per burst: what one `rx_burst` or `tx_burst` handles.
pub const BURST: usize = 32;

/// One segment to send. Committed: the driver sends it or keeps it, it never gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxSegment {
    /// The header to emit.
    pub hdr: Header,
    /// The bytes that follow it; `len` 0 for control packets.
    pub payload: PayloadRef,
    /// Where to.
    pub peer: HostId,
}

/// One segment received, already parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RxSegment {
    /// The parsed header.
    pub hdr: Header,
    /// When it arrived: the NIC's timestamp where there is one, else the burst's.
    pub at: Instant,
    /// Whom it came from.
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
    /// What they are.
    pub coding: Coding,
}

impl PayloadRef {
    /// No bytes of no message.
    pub const NONE: Self = Self { msg: MsgId(0), offset: 0, len: 0, coding: Coding::Data };
}

/// Whether payload is a message's own bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coding {
    /// It is.
    #[default]
    Data,
    /// It is, and this packet of an erasure-coded block, sent for the first time: to be added to
    /// the block's parity while the bytes are at hand. The packets of a message leave in order.
    Block(u8),
    /// Parity packet of this number, from 0, of the block that begins at the offset; the shape is
    /// in the header.
    Parity(u8),
}

/// A block that parity was kept for needs no more: restore the segments it lacks, if any, and let
/// the parity go.
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

/// What the driver does with the bytes of one received segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Nothing: control, duplicate or refused.
    #[default]
    Release,
    /// Copy them to `offset` of incoming message `msg`.
    Place {
        /// The message as this (receiving) endpoint names it.
        msg: MsgId,
        /// First byte, from the start of the message.
        offset: u32,
        /// Length of the whole message: reserve this much when `msg` is new.
        msg_len: u32,
    },
    /// Keep them as parity packet `index` of the block of incoming message `msg` that begins at
    /// `offset`, until a [`Restore`] names the block or the message ends.
    Parity {
        /// As for `Place`.
        msg: MsgId,
        /// First byte of the block, from the start of the message.
        offset: u32,
        /// As for `Place`.
        msg_len: u32,
        /// Which parity packet of its block, from 0.
        index: u8,
    },
}

impl TxSegment {
    /// When it is to leave, as it was given at `now`: when its header says that it was sent. That
    /// is `now`, unless the endpoint may give segments ahead of their time.
    #[inline]
    #[must_use]
    pub const fn departure(&self, now: Instant) -> Instant {
        match &self.hdr.body {
            Body::Data(data) => now.next_wire(data.sent_at),
            _ => now,
        }
    }

    /// The class that it travels in: acknowledgements, refusals and what schedulers say to each
    /// other are control, notes what they say.
    #[inline]
    #[must_use]
    pub const fn class(&self) -> TrafficClass {
        match &self.hdr.body {
            Body::Data(_) => TrafficClass::Data,
            Body::Note(note) => note.class,
            _ => TrafficClass::Control,
        }
    }
}

/// A bounded list that the driver hands in and the core fills.
#[derive(Debug)]
pub struct Burst<T> {
    /// Those from `len` on mean nothing.
    items: [T; BURST],
    /// By item whose bit in `timed` is set: its departure.
    departures: [Instant; BURST],
    timed: u32,
    /// By item whose header names extensions: their content.
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

    /// When segment `index` is to leave, as it was given at `now`: at the instant that it was
    /// pushed with, else as [`TxSegment::departure`] has it.
    #[inline]
    #[must_use]
    pub fn departure(&self, index: usize, now: Instant) -> Instant {
        if self.timed & 1 << index != 0 {
            return self.departures[index];
        }
        self.items[index].departure(now)
    }
}

impl<T: Copy> Burst<T> {
    /// Empties it and sets how many items it takes.
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

    /// Appends `item`, which leaves at `at`.
    ///
    /// # Panics
    /// As [`Burst::push`].
    pub fn push_at(&mut self, item: T, at: Instant) {
        *self.place() = item;
        self.commit_at(at);
    }

    /// Appends what was written to [`Burst::place`], which leaves at `at`.
    pub fn commit_at(&mut self, at: Instant) {
        self.departures[self.len] = at;
        self.timed |= 1 << self.len;
        self.commit();
    }

    /// How many more items it takes.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit - self.len
    }

    /// How many items it holds.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it holds nothing.
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

    /// The place of the next item, to be filled where the item stays; it holds whatever was there
    /// before, and counts for nothing before [`Burst::commit`].
    ///
    /// # Panics
    /// When there is no room: the caller asks [`Burst::room`] first.
    #[inline]
    pub fn place(&mut self) -> &mut T {
        assert!(self.len < self.limit, "burst is full");
        &mut self.items[self.len]
    }

    /// The place of the extensions of the next item, of which only those mean something that its
    /// header names.
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

    /// Appends what was written to [`Burst::place`].
    #[inline]
    pub fn commit(&mut self) {
        debug_assert!(self.len < self.limit, "nothing was placed");
        self.len += 1;
    }

    /// What it holds, in order, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items[..self.len].iter_mut()
    }

    /// What it holds, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items[..self.len].iter()
    }
}
