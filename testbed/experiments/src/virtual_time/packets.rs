//! The packets that are in the network, as their sender made them: what a [`fabric::Packet`]
//! is a handle of.
//!
//! A slab with reference counts, since a faulty link may deliver a packet twice. Grows to the most
//! packets ever under way at once, then allocates no more.

use std::hint::black_box;

use fabric::{Flags, Frames, Packet, flow_hash};
use transport::wire::class::TrafficClass;
use transport::wire::{Header, WireSizes};
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
    /// Keeps a segment that `from` sends: the fabric's packet for it, as long as `sizes` say.
    #[inline]
    pub(super) fn packet_of(
        &mut self,
        segment: &TxSegment,
        from: HostId,
        sizes: WireSizes,
    ) -> Packet {
        let flags = match segment.class() {
            TrafficClass::Data => Flags::ECT.with(Flags::TRIMMABLE),
            class => Flags::of(class),
        };
        Packet {
            handle: self.insert(segment, from),
            dst: segment.peer,
            hash: flow_hash(from, segment.peer, segment.hdr.ev),
            len: sizes.of(&segment.hdr, segment.payload.len),
            trim_len: u8::try_from(sizes.trimmed(&segment.hdr)).unwrap_or(u8::MAX),
            flags,
        }
    }

    /// Keeps a packet and names it.
    #[inline]
    fn insert(&mut self, segment: &TxSegment, from: HostId) -> u32 {
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

/// The packets under way as programs of switches see them.
pub(super) struct SlabFrames<'a> {
    packets: &'a mut PacketSlab,
    sizes: WireSizes,
}

impl<'a> SlabFrames<'a> {
    /// The frames of `packets`, which count as long as `sizes` say.
    pub(super) fn new(packets: &'a mut PacketSlab, sizes: WireSizes) -> Self {
        Self { packets, sizes }
    }
}

impl Frames for SlabFrames<'_> {
    fn header(&self, packet: &Packet) -> Option<Header> {
        Some(self.packets.of(packet.handle).hdr)
    }

    fn rewrite(&mut self, packet: &mut Packet, change: &mut dyn FnMut(&mut Header)) -> bool {
        let mut frame = *self.packets.of(packet.handle);
        let kept = |hdr: &Header| (hdr.emit_len(), hdr.ev, hdr.ext);
        let before = kept(&frame.hdr);
        change(&mut frame.hdr);
        if kept(&frame.hdr) != before {
            return false;
        }
        if frame.copies > 1 {
            self.packets.end(packet.handle);
            packet.handle = self.packets.keep(frame);
        } else {
            self.packets.places[packet.handle as usize].hdr = frame.hdr;
        }
        true
    }

    fn make(&mut self, segment: &TxSegment, from: HostId) -> Option<Packet> {
        debug_assert_eq!(segment.payload.len, 0, "a switch has no payload");
        Some(self.packets.packet_of(segment, from, self.sizes))
    }

    fn end(&mut self, packet: Packet) {
        self.packets.end(packet.handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::wire::{AccountedSizes, Allowance, Body, Note};
    use transport::{EntropyValue, FlowId, PayloadRef, units::Credit};

    const SIZES: WireSizes = WireSizes {
        frame_overhead: 42,
        accounted: AccountedSizes { data_overhead: None, control: None },
    };

    fn request(upto: u32) -> TxSegment {
        let upto = Credit::START.plus(upto);
        let body = Body::Request(Allowance { src_flow: FlowId::UNKNOWN, upto });
        let hdr = Header::new(EntropyValue(7), FlowId::UNKNOWN, body);
        TxSegment { hdr, payload: PayloadRef::NONE, peer: HostId(9) }
    }

    #[test]
    fn a_copy_that_is_edited_leaves_the_other_copy_as_it_was() {
        let mut slab = PacketSlab::default();
        let packet = slab.packet_of(&request(1), HostId(1), SIZES);
        slab.duplicate(packet.handle);
        let mut edited = packet;
        let mut frames = SlabFrames::new(&mut slab, SIZES);
        assert!(frames.rewrite(&mut edited, &mut |header| *header = request(5).hdr));
        assert_ne!(edited.handle, packet.handle);
        assert_eq!(frames.header(&packet), Some(request(1).hdr));
        assert_eq!(frames.header(&edited), Some(request(5).hdr));
        // The last copy of a frame is edited where it lies.
        let mut last = packet;
        assert!(frames.rewrite(&mut last, &mut |header| *header = request(6).hdr));
        assert_eq!(frames.header(&last), Some(request(6).hdr));
        assert_eq!(last.handle, packet.handle);
        frames.end(last);
        frames.end(edited);
        assert_eq!(slab.live(), 0);
    }

    #[test]
    fn a_header_keeps_its_length_and_its_entropy_value() {
        let mut slab = PacketSlab::default();
        let mut packet = slab.packet_of(&request(1), HostId(1), SIZES);
        let before = packet;
        let mut frames = SlabFrames::new(&mut slab, SIZES);
        assert!(!frames.rewrite(&mut packet, &mut |header| header.ev = EntropyValue(8)));
        let note = Body::Note(Note::new(1, &[0; 8]).unwrap());
        assert!(!frames.rewrite(&mut packet, &mut |header| header.body = note));
        assert_eq!((packet, frames.header(&packet)), (before, Some(request(1).hdr)));
    }
}
