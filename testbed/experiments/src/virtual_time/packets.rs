//! The packets that are in the network, as their sender made them: what a [`fabric::Packet`]
//! is a handle of.
//!
//! Beside it the extensions that headers name, kept only in runs with such headers.

use std::hint::black_box;

use fabric::{CopySlab, Counted, Ends, Flags, Frames, Headers, Packet, PacketStep};
use transport::segment::Coding;
use transport::wire::data::Glance;
use transport::wire::int::Hop;
use transport::wire::{Body, Ext, Header, WireSizes};
use transport::{HostId, Instant, TxSegment};

use crate::why::journal::Journal;

/// One packet as it was sent: what its receiver sees of it. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct InFlight {
    pub(super) hdr: Header,
    pub(super) from: HostId,
    pub(super) payload_len: u16,
    copies: u16,
}

const _: () = assert!(size_of::<InFlight>() == 64);

impl Counted for InFlight {
    #[inline]
    fn copies(&mut self) -> &mut u16 {
        &mut self.copies
    }
}

/// The packets under way.
#[derive(Debug, Default)]
pub(super) struct PacketSlab {
    packets: CopySlab<InFlight>,
    /// For each place whose header names extensions: their content. Empty before the first such
    /// header.
    exts: Vec<Ext>,
    /// For each place: when the line of the host started to send the packet; in the far future
    /// where a program made it. Empty in runs that do not measure that.
    starts: Vec<Instant>,
    /// How the ends of packets are hashed.
    ends: Ends,
    /// The ways of packets, in runs that explain themselves.
    pub(super) journal: Option<Box<Journal>>,
}

impl PacketSlab {
    /// An empty slab of packets whose `ends` are hashed so.
    pub(super) fn new(ends: Ends) -> Self {
        Self { ends, ..Self::default() }
    }

    /// Keeps a segment with the extensions that its header names, which `from` sends: the fabric's
    /// packet for it, as long as `sizes` say.
    #[inline(always)]
    pub(super) fn packet_of(
        &mut self,
        (segment, ext): (&TxSegment, &Ext),
        from: HostId,
        sizes: &WireSizes,
    ) -> Packet {
        let hdr = &segment.hdr;
        let (flags, len, trimmed) = if let Body::Data(data) = &hdr.body {
            let flags = Flags::of(segment.class()).with(Flags::ECT.with(Flags::TRIMMABLE));
            let flags = if takes_telemetry(hdr) { flags.with(Flags::INT) } else { flags };
            let len = match segment.payload.coding {
                Coding::Train(cells) => sizes.of_data(data, hdr.ext, 0) * u16::from(cells),
                _ => sizes.of_data(data, hdr.ext, segment.payload.len),
            };
            (flags, len, sizes.trimmed(hdr))
        } else {
            let len = sizes.of(hdr, segment.payload.len);
            (Flags::of(segment.class()), len, len)
        };
        // Ports show packets with this flag to `Frames::note`.
        let flags = if self.journal.is_some() { flags.with(Flags::INT) } else { flags };
        Packet {
            handle: self.insert(segment, ext, from),
            dst: segment.peer,
            hash: self.ends.hash(from, segment.peer, segment.hdr.ev),
            len,
            trim_len: u8::try_from(trimmed).unwrap_or(u8::MAX),
            flags,
        }
    }

    /// Keeps a packet and names it.
    #[inline]
    fn insert(&mut self, segment: &TxSegment, ext: &Ext, from: HostId) -> u32 {
        let payload_len = segment.payload.len;
        self.keep(InFlight { hdr: segment.hdr, from, payload_len, copies: 1 }, ext)
    }

    /// Notes when the line of its host starts to send a packet.
    pub(super) fn note_start(&mut self, handle: u32, at: Instant) {
        if self.starts.len() < self.packets.places() {
            self.starts.resize(self.packets.places(), Instant::FAR_FUTURE);
        }
        self.starts[handle as usize] = at;
    }

    /// The instant that was noted of a packet; `None` in runs that note none, and of packets that
    /// programs made.
    pub(super) fn start_of(&self, handle: u32) -> Option<Instant> {
        self.starts.get(handle as usize).copied().filter(|start| *start < Instant::FAR_FUTURE)
    }

    /// Keeps one copy of a packet that another slab has let go of, and names it.
    #[inline]
    pub(super) fn keep(&mut self, packet: InFlight, ext: &Ext) -> u32 {
        let handle = self.packets.keep(packet);
        if let Some(start) = self.starts.get_mut(handle as usize) {
            *start = Instant::FAR_FUTURE;
        }
        if packet.hdr.ext.is_some() {
            self.keep_ext(handle, ext);
        }
        handle
    }

    #[inline(never)]
    fn keep_ext(&mut self, handle: u32, ext: &Ext) {
        if self.exts.len() < self.packets.places() {
            self.exts.resize(self.packets.places(), Ext::VACANT);
        }
        self.exts[handle as usize] = *ext;
    }

    /// The extensions that the header of a packet under way names.
    #[inline]
    pub(super) fn ext(&self, handle: u32) -> &Ext {
        self.exts.get(handle as usize).unwrap_or(&Ext::VACANT)
    }

    /// Brings a packet near the processor: those under way do not fit its caches.
    #[inline]
    pub(super) fn touch(&self, handle: u32) {
        black_box(self.packets.get(handle).map(|packet| packet.copies));
    }

    /// A packet under way.
    #[inline]
    pub(super) fn of(&self, handle: u32) -> &InFlight {
        self.packets.of(handle)
    }

    /// One copy of the packet has reached its end.
    #[inline]
    pub(super) fn end(&mut self, handle: u32) {
        self.packets.end(handle);
    }

    /// Lets go of one copy of the packet, which another slab will keep.
    #[inline]
    pub(super) fn let_go(&mut self, handle: u32) -> InFlight {
        let packet = *self.of(handle);
        self.end(handle);
        packet
    }

    /// Counts one more copy of the packet.
    pub(super) fn duplicate(&mut self, handle: u32) {
        self.packets.duplicate(handle);
    }

    /// Copies under way.
    pub(super) fn live(&self) -> u64 {
        self.packets.live()
    }
}

/// Whether ports write telemetry into a packet. They do so into data alone: echoes and notes have
/// hops of their own.
const fn takes_telemetry(hdr: &Header) -> bool {
    matches!(hdr.body, Body::Data(_)) && hdr.ext.has_int()
}

/// The packets under way as programs of switches see them.
pub(super) struct SlabFrames<'a> {
    packets: &'a mut PacketSlab,
    sizes: &'a WireSizes,
}

impl<'a> SlabFrames<'a> {
    /// The frames of `packets`, which count as long as `sizes` say.
    pub(super) fn new(packets: &'a mut PacketSlab, sizes: &'a WireSizes) -> Self {
        Self { packets, sizes }
    }
}

impl SlabFrames<'_> {
    /// Replaces the content of `packet` by `frame`, or gives it a place of its own where a copy
    /// shares the content.
    fn replace(&mut self, packet: &mut Packet, frame: InFlight, ext: &Ext) {
        if self.packets.packets.is_shared(packet.handle) {
            let (before, start) = (packet.handle, self.packets.start_of(packet.handle));
            self.packets.end(packet.handle);
            packet.handle = self.packets.keep(frame, ext);
            if let Some(at) = start {
                self.packets.note_start(packet.handle, at);
            }
            if let Some(journal) = &mut self.packets.journal {
                journal.rename(before, packet.handle);
            }
            return;
        }
        self.packets.packets.of_mut(packet.handle).hdr = frame.hdr;
        if frame.hdr.ext.is_some() {
            self.packets.keep_ext(packet.handle, ext);
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "each packet here has a frame")]
impl Headers for SlabFrames<'_> {
    fn read(&self, packet: &Packet, look: &mut dyn FnMut(HostId, &Header, &Ext)) {
        let sent = self.packets.of(packet.handle);
        look(sent.from, &sent.hdr, self.packets.ext(packet.handle));
    }

    fn glance(&self, packet: &Packet) -> Option<Glance> {
        let sent = self.packets.of(packet.handle);
        Glance::of(&sent.hdr, self.packets.ext(packet.handle))
    }
}

#[deny(clippy::missing_trait_methods, reason = "each packet here has a frame")]
impl Frames for SlabFrames<'_> {
    fn rewrite(
        &mut self,
        packet: &mut Packet,
        change: &mut dyn FnMut(&mut Header, &mut Ext),
    ) -> bool {
        let mut frame = *self.packets.of(packet.handle);
        let mut ext = *self.packets.ext(packet.handle);
        let kept = |hdr: &Header| (hdr.emit_len(), hdr.ev, hdr.ext);
        let before = kept(&frame.hdr);
        change(&mut frame.hdr, &mut ext);
        if kept(&frame.hdr) != before || !frame.hdr.ext.fits(&ext) {
            return false;
        }
        self.replace(packet, frame, &ext);
        true
    }

    fn clear_hops(&mut self, packet: &mut Packet) -> bool {
        self.rewrite(packet, &mut |_, ext| ext.int.clear())
    }

    fn stamp(&mut self, packet: &mut Packet, hops: &[Hop]) -> bool {
        let frame = *self.packets.of(packet.handle);
        // Flagged for the journal alone: without one, no port would ask for it to be stamped.
        if self.packets.journal.is_some() && !takes_telemetry(&frame.hdr) {
            return true;
        }
        if self.packets.packets.is_shared(packet.handle) {
            let ext = *self.packets.ext(packet.handle);
            self.replace(packet, frame, &ext);
        }
        let ext = self.packets.exts.get_mut(packet.handle as usize);
        let int = ext.and_then(|ext| frame.hdr.ext.int_mut(ext));
        int.map(|int| hops.iter().for_each(|hop| int.stamp(*hop))).is_some()
    }

    fn make(&mut self, segment: &TxSegment, ext: &Ext, from: HostId) -> Option<Packet> {
        debug_assert_eq!(segment.payload.len, 0, "a switch has no payload");
        let packet = self.packets.packet_of((segment, ext), from, self.sizes);
        if let Some(journal) = &mut self.packets.journal {
            journal.forget(packet.handle);
        }
        Some(packet)
    }

    fn duplicate(&mut self, packet: &Packet) {
        self.packets.duplicate(packet.handle);
    }

    fn end(&mut self, packet: Packet) {
        self.packets.end(packet.handle);
    }

    fn note(&mut self, packet: &Packet, step: PacketStep) {
        if let Some(journal) = &mut self.packets.journal {
            journal.on_step(packet, step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::units::Credit;
    use transport::wire::int::Int;
    use transport::wire::{AccountedSizes, Allowance, Data, Extent, Note};
    use transport::{Bytes, EntropyValue, FlowId, PayloadRef, Rate};

    const SIZES: WireSizes =
        WireSizes { frame_overhead: 42, flow_overhead: 42, accounted: AccountedSizes::HEADERS };

    fn header_of(frames: &dyn Frames, packet: &Packet) -> Option<Header> {
        frames.header(packet)
    }

    fn ext_of(frames: &dyn Frames, packet: &Packet) -> Option<Ext> {
        frames.ext(packet)
    }

    fn request(upto: u32) -> TxSegment {
        let upto = Credit::START.plus(upto);
        let body = Body::Request(Allowance { src_flow: FlowId::UNKNOWN, upto });
        let hdr = Header::new(EntropyValue(7), FlowId::UNKNOWN, body);
        TxSegment { hdr, payload: PayloadRef::NONE, peer: HostId(9) }
    }

    #[test]
    fn a_packet_that_a_program_made_has_no_start_even_at_the_place_of_one_that_had() {
        let mut slab = PacketSlab::default();
        let sent = slab.packet_of((&request(1), &Ext::VACANT), HostId(1), &SIZES);
        slab.note_start(sent.handle, Instant::ZERO);
        assert_eq!(slab.start_of(sent.handle), Some(Instant::ZERO));
        slab.end(sent.handle);
        let made = slab.packet_of((&request(2), &Ext::VACANT), HostId(1), &SIZES);
        assert_eq!((made.handle, slab.start_of(made.handle)), (sent.handle, None));
    }

    #[test]
    fn a_copy_that_is_edited_leaves_the_other_copy_as_it_was() {
        let mut slab = PacketSlab::default();
        let packet = slab.packet_of((&request(1), &Ext::VACANT), HostId(1), &SIZES);
        slab.duplicate(packet.handle);
        let mut edited = packet;
        let mut frames = SlabFrames::new(&mut slab, &SIZES);
        assert!(frames.rewrite(&mut edited, &mut |header, _| *header = request(5).hdr));
        assert_ne!(edited.handle, packet.handle);
        assert_eq!(header_of(&frames, &packet), Some(request(1).hdr));
        assert_eq!(header_of(&frames, &edited), Some(request(5).hdr));
        // The last copy of a frame is edited where it lies.
        let mut last = packet;
        assert!(frames.rewrite(&mut last, &mut |header, _| *header = request(6).hdr));
        assert_eq!(header_of(&frames, &last), Some(request(6).hdr));
        assert_eq!(last.handle, packet.handle);
        frames.end(last);
        frames.end(edited);
        assert_eq!(slab.live(), 0);
    }

    #[test]
    fn a_copy_that_is_stamped_leaves_the_other_copy_as_it_was() {
        let mut slab = PacketSlab::default();
        let int = Int::with_room(2);
        let ext = Ext { int, ..Ext::VACANT };
        let data = TxSegment { hdr: data_with(&int), peer: HostId(9), ..TxSegment::VACANT };
        let packet = slab.packet_of((&data, &ext), HostId(1), &SIZES);
        assert!(packet.flags.has(Flags::INT));
        slab.duplicate(packet.handle);
        let hop = Hop::new(Instant::ZERO, Bytes(64), Bytes::ZERO, Rate::from_gbps(100), 7);
        let mut stamped = packet;
        let mut frames = SlabFrames::new(&mut slab, &SIZES);
        assert!(frames.stamp(&mut stamped, &[hop]) && stamped.handle != packet.handle);
        assert_eq!(ext_of(&frames, &stamped).unwrap().int.hops(), [hop]);
        assert!(ext_of(&frames, &packet).unwrap().int.hops().is_empty());
        // The room is that of the sent header; the content of the extension may be taken out.
        let wider = &mut |_: &mut Header, ext: &mut Ext| ext.int = Int::with_room(3);
        assert!(!frames.rewrite(&mut stamped, wider));
        assert!(frames.rewrite(&mut stamped, &mut |_, ext| ext.int.clear()));
        assert!(ext_of(&frames, &stamped).unwrap().int.hops().is_empty());
        let mut bare = slab.packet_of((&request(1), &Ext::VACANT), HostId(1), &SIZES);
        assert!(!bare.flags.has(Flags::INT));
        assert!(!SlabFrames::new(&mut slab, &SIZES).stamp(&mut bare, &[hop]), "no room");
    }

    fn data_with(int: &Int) -> Header {
        let data = Data::VACANT;
        let hdr = Header::new(EntropyValue(7), FlowId::UNKNOWN, Body::Data(data));
        Header { ext: Extent::NONE.with_int(int), ..hdr }
    }

    #[test]
    fn a_header_keeps_its_length_and_its_entropy_value() {
        let mut slab = PacketSlab::default();
        let mut packet = slab.packet_of((&request(1), &Ext::VACANT), HostId(1), &SIZES);
        let before = packet;
        let mut frames = SlabFrames::new(&mut slab, &SIZES);
        assert!(!frames.rewrite(&mut packet, &mut |header, _| header.ev = EntropyValue(8)));
        let note = Body::Note(Note::new(1, &[0; 8]).unwrap());
        assert!(!frames.rewrite(&mut packet, &mut |header, _| header.body = note));
        assert_eq!((packet, header_of(&frames, &packet)), (before, Some(request(1).hdr)));
    }
}
