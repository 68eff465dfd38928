//! The packets that are in the network, as their sender made them: what a [`fabric::Packet`]
//! is a handle of.
//!
//! A slab with reference counts, since a faulty link may deliver a packet twice. Grows to the most
//! packets ever under way at once, then allocates no more.

use std::hint::black_box;

use transport::wire::Header;
use transport::{HostId, TxSegment};

/// One packet as it was sent: what its receiver sees of it. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct InFlight {
    pub(super) hdr: Header,
    pub(super) from: HostId,
    pub(super) payload_len: u16,
    /// How many copies are under way; 0 is a free place. Each duplicating link adds one.
    copies: u16,
}

const _: () = assert!(size_of::<InFlight>() == 64);

/// The packets under way.
#[derive(Debug, Default)]
pub(super) struct PacketSlab {
    places: Vec<InFlight>,
    free: Vec<u32>,
    live: u64,
}

impl PacketSlab {
    /// Keeps a packet and names it.
    #[inline]
    pub(super) fn insert(&mut self, segment: &TxSegment, from: HostId) -> u32 {
        let payload_len = segment.payload.len;
        self.keep(InFlight { hdr: segment.hdr, from, payload_len, copies: 1 })
    }

    /// Keeps one copy of a packet that another slab has let go of, and names it.
    #[inline]
    pub(super) fn keep(&mut self, packet: InFlight) -> u32 {
        let packet = InFlight { copies: 1, ..packet };
        self.live += 1;
        if let Some(handle) = self.free.pop() {
            self.places[handle as usize] = packet;
            return handle;
        }
        self.places.push(packet);
        u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
    }

    /// Brings a packet near the processor: those under way do not fit its caches.
    #[inline]
    pub(super) fn touch(&self, handle: u32) {
        black_box(self.places.get(handle as usize).map(|packet| packet.copies));
    }

    /// A packet under way.
    #[inline]
    pub(super) fn of(&self, handle: u32) -> &InFlight {
        &self.places[handle as usize]
    }

    /// One copy of the packet has reached its end.
    #[inline]
    pub(super) fn end(&mut self, handle: u32) {
        let place = &mut self.places[handle as usize];
        debug_assert!(place.copies > 0, "a packet ends once");
        place.copies -= 1;
        self.live -= 1;
        if place.copies == 0 {
            self.free.push(handle);
        }
    }

    /// Lets go of one copy of the packet, which another slab will keep.
    #[inline]
    pub(super) fn let_go(&mut self, handle: u32) -> InFlight {
        let packet = self.places[handle as usize];
        self.end(handle);
        packet
    }

    /// There is one more copy of the packet.
    pub(super) fn duplicate(&mut self, handle: u32) {
        self.places[handle as usize].copies += 1;
        self.live += 1;
    }

    /// Copies under way.
    pub(super) fn live(&self) -> u64 {
        self.live
    }
}
