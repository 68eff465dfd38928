//! Frames in mbufs, as the network's programs read and change them, and the code that applies the
//! network's changes of a packet to its bytes.
//!
//! Telemetry and headers are written in place, with checksums that stay right (RFC 1624).

use fabric::{Ends, Flags, Frames, Headers, Packet, PacketStep};
use transport::sched::Ranks;
use transport::wire::addressing::Addressing;
use transport::wire::checksum::Checksum;
use transport::wire::class::{Ecn, TrafficClass};
use transport::wire::data::Glance;
use transport::wire::frame::{self, FrameSpec, IntPlace, Route};
use transport::wire::int::Hop;
use transport::wire::{Body, Ext, Header, WireSizes};
use transport::{HostId, Rng, TxSegment};
use transport_dpdk::{Mbuf, Pool};

use super::mbuf_slab::MbufSlab;

/// No Headrace frame has longer headers.
const HEADERS_MAX: usize = frame::HEADERS_MAX as usize;

/// Bytes of the Ethernet header, which no checksum covers.
const ETHERNET: usize = frame::ETHERNET_LEN as usize;

/// Bytes of the IPv4 header, which has a checksum of its own.
const IPV4: usize = 20;

/// The frames in the network as programs of switches see them.
pub(crate) struct MbufFrames<'a> {
    pub(crate) packets: &'a mut MbufSlab,
    pub(crate) pool: &'a Pool,
    pub(crate) addressing: &'a Addressing,
    /// How the ends of packets are hashed.
    pub(crate) ends: Ends,
    /// Lengths that count instead of the frames' own lengths.
    pub(crate) sizes: Option<&'a WireSizes>,
}

impl MbufFrames<'_> {
    /// The first octets of a packet's frame with all its headers, to be written; no other copy of
    /// the packet and no sender shares them. Cuts and flips that are still due are applied when the
    /// packet comes out.
    fn head_mut(&mut self, packet: &mut Packet) -> Option<&mut [u8]> {
        packet.handle = self.packets.own(packet.handle, self.pool)?;
        let mbuf = self.packets.of_mut(packet.handle)?;
        if mbuf.data().len() < HEADERS_MAX && mbuf.nb_segs() > 1 || mbuf.data_mut().is_none() {
            *mbuf = mbuf.deep_copy(self.pool)?;
        }
        mbuf.data_mut()
    }

    /// Adds hops to the telemetry of a packet, and copies its frame or its headers where they are
    /// not its own, or are in pieces.
    #[cold]
    fn stamp_own(&mut self, packet: &mut Packet, hops: &[Hop]) -> bool {
        let Some(int) = self.packets.int_of(packet.handle) else { return false };
        self.head_mut(packet).is_some_and(|head| frame::stamp(head, int, hops))
    }
}

#[deny(clippy::missing_trait_methods, reason = "each packet here has a frame")]
impl Headers for MbufFrames<'_> {
    fn read(&self, packet: &Packet, look: &mut dyn FnMut(HostId, &Header, &Ext)) {
        let Some(mbuf) = self.packets.of(packet.handle) else { return };
        with_head(mbuf, |head| {
            let (mut header, mut ext) = (Header::VACANT, Ext::VACANT);
            if frame::read_header(head, &mut header, &mut ext).is_ok()
                && let Ok(route) = frame::route_of(head, self.addressing)
            {
                look(route.src, &header, &ext);
            }
        });
    }

    fn glance(&self, packet: &Packet) -> Option<Glance> {
        let int = self.packets.int_of(packet.handle)?;
        with_head(self.packets.of(packet.handle)?, |head| frame::glance(head, int)).flatten()
    }
}

#[deny(clippy::missing_trait_methods, reason = "each packet here has a frame")]
impl Frames for MbufFrames<'_> {
    fn rewrite(
        &mut self,
        packet: &mut Packet,
        change: &mut dyn FnMut(&mut Header, &mut Ext),
    ) -> bool {
        self.head_mut(packet).is_some_and(|head| frame::rewrite_header(head, change))
    }

    fn clear_hops(&mut self, packet: &mut Packet) -> bool {
        let Some(int) = self.packets.int_of(packet.handle) else { return false };
        self.head_mut(packet).is_some_and(|head| frame::clear_hops(head, int))
    }

    fn stamp(&mut self, packet: &mut Packet, hops: &[Hop]) -> bool {
        // Headers that lie in a piece of their own, before a payload elsewhere, are whole there.
        if let Some((mbuf, int)) = self.packets.of_one_copy(packet.handle)
            && let Some(head) = mbuf.data_mut()
            && frame::stamp(head, int, hops)
        {
            return true;
        }
        self.stamp_own(packet, hops)
    }

    fn make(&mut self, segment: &TxSegment, ext: &Ext, from: HostId) -> Option<Packet> {
        let addrs = self.addressing.pair(from, segment.peer)?;
        let class = segment.class();
        let spec = FrameSpec { addrs, ecn: class.ecn(), class };
        let version = self.addressing.version();
        let mut mbuf = self.pool.alloc()?;
        let head = mbuf.append(frame::header_overhead(version) + segment.hdr.emit_len())?;
        frame::emit(&spec, &segment.hdr, ext, 0, head);
        frame::finish_udp_checksum(head, Checksum::new());
        let (packet, int) = describe(&mbuf, from, self.addressing, self.ends)?;
        let packet = sized(packet, &mbuf, self.sizes);
        Some(Packet { handle: self.packets.insert(mbuf, int), ..packet })
    }

    fn duplicate(&mut self, packet: &Packet) {
        self.packets.duplicate(packet.handle);
    }

    fn end(&mut self, packet: Packet) {
        self.packets.lose(packet.handle);
    }

    fn note(&mut self, _packet: &Packet, _step: PacketStep) {}
}

/// Calls `look` with the first octets of a frame, all its headers among them, in one piece; `None`
/// when a driver has cut them apart and there is less than it says.
#[inline]
pub(crate) fn with_head<T>(mbuf: &Mbuf, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let whole = mbuf.data();
    let mut copy;
    // One call of `look`, so that it becomes a part of its caller.
    let head = if whole.len() >= HEADERS_MAX || mbuf.nb_segs() == 1 {
        whole
    } else {
        copy = [0; HEADERS_MAX];
        gathered(mbuf, &mut copy)?
    };
    Some(look(head))
}

/// The first octets of a frame that lies in pieces, in `copy`.
#[cold]
fn gathered<'a>(mbuf: &Mbuf, copy: &'a mut [u8; HEADERS_MAX]) -> Option<&'a [u8]> {
    let all = usize::try_from(mbuf.pkt_len()).unwrap_or(usize::MAX).min(HEADERS_MAX);
    let copy = &mut copy[..all];
    mbuf.copy_out(0, copy).then_some(&*copy)
}

/// The fabric's packet for a frame from `host`, without handle, and the place of its telemetry.
/// `ends` says how its ends are hashed; `None` when it is no packet of Headrace.
pub(crate) fn describe(
    mbuf: &Mbuf,
    host: HostId,
    addressing: &Addressing,
    ends: Ends,
) -> Option<(Packet, Option<IntPlace>)> {
    let of_head = |head: &[u8]| {
        let route = frame::route_of(head, addressing).ok()?;
        // A packet that names another host as its sender is dropped.
        let described = || described(mbuf, head, (&route, addressing), ends);
        (route.src == host).then(described).flatten()
    };
    with_head(mbuf, of_head).flatten()
}

/// The fabric's packet for a frame with these first octets and this route, which was read with
/// `addressing`, without handle, and the place of its telemetry.
#[inline(always)]
pub(crate) fn described(
    mbuf: &Mbuf,
    head: &[u8],
    (route, addressing): (&Route, &Addressing),
    ends: Ends,
) -> Option<(Packet, Option<IntPlace>)> {
    let len = u16::try_from(mbuf.pkt_len()).ok()?;
    let narrow = |len: u16| u8::try_from(len).unwrap_or(u8::MAX);
    let (trim_len, flags, int) = match route.class {
        class @ (TrafficClass::Data | TrafficClass::Unscheduled) => {
            let (headers, int) = frame::layout(head, addressing)?;
            let ect = if route.ecn == Ecn::NotEct { Flags::NONE } else { Flags::ECT };
            let has_int = if int.is_some() { Flags::INT } else { Flags::NONE };
            let flags = Flags::of(class).with(ect).with(Flags::TRIMMABLE).with(has_int);
            (u8::try_from(headers).ok()?, flags, int)
        }
        // No host sends a packet that is trimmed already.
        TrafficClass::Trimmed => (narrow(len), Flags::of(TrafficClass::Control), None),
        class => (narrow(len), Flags::of(class), None),
    };
    let hash = ends.hash(route.src, route.dst, route.ev);
    Some((Packet { handle: 0, dst: route.dst, hash, len, trim_len, flags }, int))
}

/// The packet with the rank that its frame calls for ([`Packet::ranked`]).
pub(crate) fn ranked(packet: Packet, mbuf: &Mbuf, ranks: Ranks) -> Packet {
    let header = with_head(mbuf, |head| frame::header_of(head).ok()).flatten();
    header.map_or(packet, |(header, _)| packet.ranked(&header, ranks))
}

/// The packet with the length that `sizes` give its frame; without sizes, with its own length.
pub(crate) fn sized(packet: Packet, mbuf: &Mbuf, sizes: Option<&WireSizes>) -> Packet {
    let Some(sizes) = sizes else { return packet };
    let of_head = |head: &[u8]| {
        let (header, _) = frame::header_of(head).ok()?;
        Some((header, frame::payload_start(head).unwrap_or_default()))
    };
    let Some((header, headers)) = with_head(mbuf, of_head).flatten() else { return packet };
    let payload = usize::from(packet.len).saturating_sub(headers);
    let payload = if matches!(header.body, Body::Data(_)) {
        u16::try_from(payload).unwrap_or(u16::MAX)
    } else {
        0
    };
    let trimmed = u8::try_from(sizes.trimmed(&header)).unwrap_or(u8::MAX);
    Packet { len: sizes.of(&header, payload), trim_len: trimmed, ..packet }
}

/// Applies the network's changes of the packet to its bytes; `None` when `pool` is exhausted.
#[inline(always)]
pub(crate) fn edit(mbuf: Mbuf, packet: &Packet, pool: &Pool, rng: &mut Rng) -> Option<Mbuf> {
    let trimmed = packet.class() == TrafficClass::Trimmed;
    let is_changed = trimmed || packet.flags.has(Flags::CE) || packet.flags.has(Flags::CORRUPT);
    if is_changed { changed(mbuf, packet, pool, rng) } else { Some(mbuf) }
}

/// [`edit`] of a packet that the network has changed.
fn changed(mbuf: Mbuf, packet: &Packet, pool: &Pool, rng: &mut Rng) -> Option<Mbuf> {
    let trimmed = packet.class() == TrafficClass::Trimmed;
    let corrupt = packet.flags.has(Flags::CORRUPT);
    let mut mbuf = if trimmed { trim(&mbuf, pool)? } else { mbuf };
    if packet.flags.has(Flags::CE) {
        mbuf = writable(mbuf, pool)?;
        frame::set_ce(mbuf.data_mut()?);
    }
    if corrupt {
        mbuf = if mbuf.nb_segs() > 1 { mbuf.deep_copy(pool)? } else { writable(mbuf, pool)? };
        flip_a_bit(mbuf.data_mut()?, trimmed, rng);
    }
    Some(mbuf)
}

/// A fresh mbuf with the trimmed headers alone.
fn trim(mbuf: &Mbuf, pool: &Pool) -> Option<Mbuf> {
    // Longer than headers, so that there is something to cut off.
    let length = usize::try_from(mbuf.pkt_len()).ok()?.min(HEADERS_MAX);
    let mut headers = pool.alloc()?;
    let bytes = headers.append(u16::try_from(length).ok()?)?;
    if !mbuf.copy_out(0, bytes) {
        return None;
    }
    let rest = bytes.len() - frame::trim(bytes);
    let whole = headers.trim(u16::try_from(rest).ok()?);
    whole.then_some(headers)
}

/// The mbuf itself, or a copy when its first segment is not its own.
fn writable(mut mbuf: Mbuf, pool: &Pool) -> Option<Mbuf> {
    if mbuf.data_mut().is_some() { Some(mbuf) } else { mbuf.deep_copy(pool) }
}

/// Flips one bit that a checksum covers: any behind the Ethernet header; of a trimmed packet, whose
/// UDP checksum can no longer be verified, one of the IP header.
fn flip_a_bit(frame: &mut [u8], trimmed: bool, rng: &mut Rng) {
    let end = if trimmed { frame.len().min(ETHERNET + IPV4) } else { frame.len() };
    let Some(covered) = frame.get_mut(ETHERNET..end) else { return };
    let bits = covered.len() as u64 * 8;
    if bits > 0 {
        let bit = usize::try_from(rng.below(bits)).unwrap_or(0);
        covered[bit / 8] ^= 1 << (bit % 8);
    }
}
