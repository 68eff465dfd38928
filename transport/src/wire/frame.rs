//! The frame around a Headrace header: Ethernet / IPv4 or IPv6 / UDP, as pure functions over
//! slices.
//!
//! Hosts [`emit`] and [`parse`]; switches [`route_of`], [`set_ce`] and [`trim`]. Lengths are octets
//! and start at the destination MAC: preamble, FCS and inter-frame gap are not counted anywhere. No
//! VLAN tags, no IPv4 options or fragments, no IPv6 extension headers: such frames are not
//! Headrace. Layouts, rules and what each check covers: docs/WIRE.md. Sources: RFC 768, 791, 8200,
//! 6437 (flow label), 1624.

use core::ops::Range;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::addressing::{AddrPair, Addressing, IpPair, IpVersion};
use super::checksum::{Checksum, updated};
pub use super::class::{Ecn, TrafficClass};
use super::{Body, Header, ParseError, ack, credit, data};
use crate::units::{EntropyValue, HostId};

/// UDP destination port of every Headrace packet. Next to RoCEv2 (4791) and UET (4793), and
/// neither.
pub const UDP_PORT: u16 = 4797;

/// Octets of an Ethernet header without VLAN tag.
pub const ETHERNET_LEN: u16 = 14;
/// Octets of a UDP header.
pub const UDP_LEN: u16 = 8;
/// The longest payload [`emit`] takes: with every header, an IPv4 packet of at most 65535 octets.
pub const PAYLOAD_LEN_MAX: u16 = u16::MAX - 20 - UDP_LEN - data::LEN_MAX;

/// Octets in front of the Headrace header: 42 with IPv4, 62 with IPv6. No preamble, no FCS.
#[must_use]
pub const fn header_overhead(version: IpVersion) -> u16 {
    ETHERNET_LEN + version.header_len() + UDP_LEN
}

/// What [`parse`] does about the UDP checksum. That of a trimmed packet is never looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpCheck {
    /// It must be there and match.
    Required,
    /// It must match unless the field is zero: the sender did not compute one.
    IfPresent,
    /// The NIC has checked it, or nobody needs to.
    Skip,
}

/// Everything of a frame that is not in the [`Header`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameSpec {
    /// Both ends.
    pub addrs: AddrPair,
    /// ECN field.
    pub ecn: Ecn,
    /// DSCP.
    pub class: TrafficClass,
}

/// What a switch needs to forward a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Sender.
    pub src: HostId,
    /// Receiver.
    pub dst: HostId,
    /// UDP source port: with the addresses, what ECMP hashes.
    pub ev: EntropyValue,
    /// ECN field.
    pub ecn: Ecn,
    /// Traffic class.
    pub class: TrafficClass,
}

/// A received frame, understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// Sender.
    pub src: HostId,
    /// Receiver; whether that is us is the caller's question.
    pub dst: HostId,
    /// ECN field.
    pub ecn: Ecn,
    /// Traffic class.
    pub class: TrafficClass,
    /// The Headrace header.
    pub header: Header,
    /// Where the payload lies in the frame; empty when trimmed.
    pub payload: Range<usize>,
    /// A switch has cut the payload off.
    pub trimmed: bool,
    /// Octets of payload that the sender sent: those of `payload`, or of what was cut off.
    pub payload_len: u16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Ethernet {
    dst: [u8; 6],
    src: [u8; 6],
    ethertype: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Ipv4 {
    version_ihl: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    src: [u8; 4],
    dst: [u8; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Ipv6 {
    /// Version (4 bits), traffic class (8), flow label (20).
    first: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Udp {
    src_port: U16,
    dst_port: U16,
    len: U16,
    checksum: U16,
}

/// Ethernet, IPv4 and UDP headers as they follow each other.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head4 {
    ethernet: Ethernet,
    ip: Ipv4,
    udp: Udp,
}

/// Ethernet, IPv6 and UDP headers as they follow each other.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head6 {
    ethernet: Ethernet,
    ip: Ipv6,
    udp: Udp,
}

const HEAD4_LEN: usize = size_of::<Head4>();
const HEAD6_LEN: usize = size_of::<Head6>();
const _: () = assert!(HEAD4_LEN == header_overhead(IpVersion::V4) as usize);
const _: () = assert!(HEAD6_LEN == header_overhead(IpVersion::V6) as usize);
// A payload starts at an even offset of the UDP datagram, so its sum may be computed apart.
const _: () = assert!((data::LEN | data::OPEN_LEN | data::TAG_LEN | data::DEMAND_LEN) & 1 == 0);
const _: () = assert!((ack::LEN | credit::LEN) & 1 == 0);

const ETHERTYPE_V4: u16 = 0x0800;
const ETHERTYPE_V6: u16 = 0x86DD;
const PROTOCOL_UDP: u8 = 17;
/// Version 4, five words of header.
const VERSION_IHL: u8 = 0x45;
/// Do not fragment; with it the identification field may stay zero (RFC 6864).
const DONT_FRAGMENT: u16 = 0x4000;
/// More-fragments flag and fragment offset.
const FRAGMENTED: u16 = 0x3FFF;
const HOPS: u8 = 64;

/// Writes all headers of a frame to the front of `out` and returns their length, 64..=100; the
/// payload belongs right behind. The UDP checksum is zero: see [`finish_udp_checksum`].
///
/// # Panics
/// When `out` is shorter than the headers or `payload_len` exceeds [`PAYLOAD_LEN_MAX`]: bugs of the
/// driver.
pub fn emit(spec: &FrameSpec, header: &Header, payload_len: u16, out: &mut [u8]) -> usize {
    assert!(payload_len <= PAYLOAD_LEN_MAX);
    let at = emit_outer(spec, header.ev, UDP_LEN + header.emit_len() + payload_len, out);
    at + header.emit(&mut out[at..])
}

/// Writes the headers up to UDP, whose checksum stays zero, and returns their length.
pub(super) fn emit_outer(
    spec: &FrameSpec,
    ev: EntropyValue,
    udp_len: u16,
    out: &mut [u8],
) -> usize {
    let tos = spec.class.dscp() << 2 | spec.ecn.bits();
    let ethernet = |ethertype: u16| Ethernet {
        dst: spec.addrs.dst_mac,
        src: spec.addrs.src_mac,
        ethertype: ethertype.into(),
    };
    let udp = Udp {
        src_port: ev.0.into(),
        dst_port: UDP_PORT.into(),
        len: udp_len.into(),
        checksum: 0.into(),
    };
    match spec.addrs.ip {
        IpPair::V4 { src, dst } => {
            let mut ip = Ipv4 {
                version_ihl: VERSION_IHL,
                tos,
                total_len: (IpVersion::V4.header_len() + udp_len).into(),
                id: 0.into(),
                fragment: DONT_FRAGMENT.into(),
                ttl: HOPS,
                protocol: PROTOCOL_UDP,
                checksum: 0.into(),
                src: src.octets(),
                dst: dst.octets(),
            };
            ip.checksum = sum_of(ip.as_bytes()).finish().into();
            let head = Head4 { ethernet: ethernet(ETHERTYPE_V4), ip, udp };
            out[..HEAD4_LEN].copy_from_slice(head.as_bytes());
            HEAD4_LEN
        }
        IpPair::V6 { src, dst } => {
            let ip = Ipv6 {
                first: first_word(tos, ev).into(),
                payload_len: udp_len.into(),
                next_header: PROTOCOL_UDP,
                hop_limit: HOPS,
                src: src.octets(),
                dst: dst.octets(),
            };
            let head = Head6 { ethernet: ethernet(ETHERTYPE_V6), ip, udp };
            out[..HEAD6_LEN].copy_from_slice(head.as_bytes());
            HEAD6_LEN
        }
    }
}

/// Reads a frame. `frame` starts at the destination MAC; octets behind the IP packet are ignored.
///
/// # Errors
/// [`ParseError`], counted by name, for anything that [`emit`] and then the network (hops, ECN,
/// DSCP, MACs, [`trim`]) could not have made.
#[inline]
pub fn parse(frame: &[u8], addressing: &Addressing, check: UdpCheck) -> Result<Parsed, ParseError> {
    parse_parts(frame, &[], addressing, check)
}

/// [`parse`] of a frame that lies in two pieces, with all its headers in the first. `payload` of
/// the result counts through both.
///
/// # Errors
/// As [`parse`]; headers that reach into `tail` are [`ParseError::Truncated`].
#[inline]
pub fn parse_parts(
    frame: &[u8],
    tail: &[u8],
    addressing: &Addressing,
    check: UdpCheck,
) -> Result<Parsed, ParseError> {
    let (outer, udp) = open(frame)?;
    let route = outer.route(udp, addressing)?;
    let trimmed = route.class == TrafficClass::Trimmed;
    let udp_len = udp.len.get();
    let end = outer.udp_at + usize::from(udp_len);
    let datagram = frame.get(outer.udp_at..frame.len().min(end)).ok_or(ParseError::Truncated)?;
    if !trimmed {
        let missing = end.saturating_sub(frame.len());
        let tail = tail.get(..missing).ok_or(ParseError::Truncated)?;
        if outer.ip_payload_len != udp_len {
            return Err(ParseError::Field);
        }
        verify_udp(check, udp, &outer, [datagram, tail])?;
    }
    let bytes = datagram.get(usize::from(UDP_LEN)..).ok_or(ParseError::Truncated)?;
    let (header, header_len) = Header::parse(route.ev, bytes)?;
    let payload_len =
        udp_len.checked_sub(UDP_LEN + header.emit_len()).ok_or(ParseError::Truncated)?;
    // Data without payload says nothing, and only data has payload, so only data can have lost it.
    let is_data = matches!(header.body, Body::Data(_));
    if is_data != (payload_len > 0) || payload_len > PAYLOAD_LEN_MAX {
        return Err(ParseError::Field);
    }
    // An acknowledgement in the class Trimmed was damaged: switches trim data only.
    if trimmed && payload_len == 0 {
        return Err(ParseError::Field);
    }
    let start = outer.udp_at + usize::from(UDP_LEN) + header_len;
    let end = if trimmed { start } else { start + usize::from(payload_len) };
    let Route { src, dst, ecn, class, .. } = route;
    Ok(Parsed { src, dst, ecn, class, header, payload: start..end, trimmed, payload_len })
}

/// What a switch needs to forward `frame`, without looking at the Headrace header or the UDP
/// checksum.
///
/// # Errors
/// [`ParseError`] when it is not UDP to the Headrace port, cut short inside the headers, has a
/// wrong IPv4 checksum, or an address is nobody's.
pub fn route_of(frame: &[u8], addressing: &Addressing) -> Result<Route, ParseError> {
    let (outer, udp) = open(frame)?;
    outer.route(udp, addressing)
}

/// Where the payload of a DATA frame starts, which is what [`trim`] leaves of it; `None` when it is
/// not Headrace DATA or is cut inside its headers. `frame` may be its first 128 octets alone.
#[must_use]
pub fn payload_start(frame: &[u8]) -> Option<usize> {
    let (outer, _) = open(frame).ok()?;
    let at = outer.udp_at + usize::from(UDP_LEN);
    let header_len = data::len_of(frame.get(at..)?)?;
    Some(at + usize::from(header_len))
}

/// Cuts a DATA frame behind its Headrace header and returns its new length; the caller drops the
/// rest.
///
/// DSCP becomes Trimmed and the IP length (and IPv4 checksum) that of what is left; UDP length and
/// checksum stay: the length tells the receiver what was lost, the checksum can no longer be
/// verified. A frame that is not Headrace DATA, or has no payload left, is not touched: its length
/// is returned.
pub fn trim(frame: &mut [u8]) -> usize {
    let len = frame.len();
    let Ok((outer, _)) = open(frame) else { return len };
    let at = outer.udp_at + usize::from(UDP_LEN);
    let Some(header_len) = frame.get(at..).and_then(data::len_of) else { return len };
    if at + usize::from(header_len) >= len {
        return len;
    }
    let ip_payload_len = UDP_LEN + header_len;
    rewrite_tos(frame, |tos| TrafficClass::Trimmed.dscp() << 2 | tos & 3);
    if let Ok((head, _)) = Head4::mut_from_prefix(frame)
        && head.ethernet.ethertype == ETHERTYPE_V4
    {
        let new = IpVersion::V4.header_len() + ip_payload_len;
        head.ip.checksum = updated(head.ip.checksum.get(), head.ip.total_len.get(), new).into();
        head.ip.total_len = new.into();
    } else if let Ok((head, _)) = Head6::mut_from_prefix(frame) {
        head.ip.payload_len = ip_payload_len.into();
    }
    at + usize::from(header_len)
}

/// Marks congestion; true when the frame now carries CE. A frame that is not IP, or not capable of
/// ECN, is not touched.
pub fn set_ce(frame: &mut [u8]) -> bool {
    rewrite_tos(frame, |tos| if Ecn::of_tos(tos) == Ecn::NotEct { tos } else { tos | 3 })
        .is_some_and(|tos| Ecn::of_tos(tos) == Ecn::Ce)
}

/// Changes the traffic class; true when the frame is IP and now carries it.
pub fn set_class(frame: &mut [u8], class: TrafficClass) -> bool {
    rewrite_tos(frame, |tos| class.dscp() << 2 | tos & 3).is_some()
}

/// Writes the UDP checksum. `head` is what [`emit`] wrote, `payload` the sum over the payload,
/// whose pieces the driver added in order, while copying them or before.
///
/// Does nothing when `head` is not a Headrace frame. A sum of zero is sent as 0xFFFF (RFC 768).
pub fn finish_udp_checksum(head: &mut [u8], payload: Checksum) {
    write_udp_checksum(head, |pseudo, datagram| {
        let mut sum = pseudo;
        sum.add(datagram);
        sum.add(&payload.folded().to_be_bytes());
        match sum.finish() {
            0 => 0xFFFF,
            checksum => checksum,
        }
    });
}

/// Writes the pseudo-header sum into the UDP checksum field, as a NIC expects it that computes the
/// rest (`RTE_MBUF_F_TX_UDP_CKSUM`). Does nothing when `head` is not a Headrace frame.
pub fn seed_udp_checksum(head: &mut [u8]) {
    write_udp_checksum(head, |pseudo, _| pseudo.folded());
}

/// Stores what `value` makes of the pseudo-header and of the datagram with a zero checksum field.
fn write_udp_checksum(head: &mut [u8], value: impl FnOnce(Checksum, &[u8]) -> u16) {
    let Ok((outer, udp)) = open(head) else { return };
    let (pseudo, at) = (outer.pseudo(udp.len.get()), outer.udp_at);
    head[at + 6..at + 8].fill(0);
    let checksum = value(pseudo, &head[at..]);
    head[at + 6..at + 8].copy_from_slice(&checksum.to_be_bytes());
}

/// The headers in front of UDP. Scalars and a borrow: what is copied octet by octet and read again
/// in words costs more than all checks.
struct Outer<'a> {
    /// Offset of the UDP header.
    udp_at: usize,
    tos: u8,
    /// Octets behind the IP header, as that header says.
    ip_payload_len: u16,
    /// First word of an IPv6 header; 0 with IPv4.
    first: u32,
    /// Source and destination: 4 octets each, or 16.
    addresses: &'a [u8],
}

impl Outer<'_> {
    /// Sum of the pseudo-header. RFC 768 and RFC 8200 differ in field widths but not in the sum.
    #[inline]
    fn pseudo(&self, udp_len: u16) -> Checksum {
        let mut sum = sum_of(self.addresses);
        let [high, low] = udp_len.to_be_bytes();
        sum.add(&[0, PROTOCOL_UDP, high, low]);
        sum
    }

    #[inline]
    fn route(&self, udp: &Udp, addressing: &Addressing) -> Result<Route, ParseError> {
        let ev = EntropyValue(udp.src_port.get());
        let hosts = if let Some((src, dst)) = halves(self.addresses) {
            (addressing.host_of_v4(src), addressing.host_of_v4(dst))
        } else if let Some((src, dst)) = halves(self.addresses) {
            // The label repeats the entropy value; anything else was damaged on the way.
            if self.first != first_word(self.tos, ev) {
                return Err(ParseError::Field);
            }
            (addressing.host_of_v6(src), addressing.host_of_v6(dst))
        } else {
            return Err(ParseError::Address);
        };
        let (Some(src), Some(dst)) = hosts else { return Err(ParseError::Address) };
        let (ecn, class) = (Ecn::of_tos(self.tos), TrafficClass::of_dscp(self.tos >> 2));
        Ok(Route { src, dst, ev, ecn, class })
    }
}

/// Both halves of `octets`, when they have `N` each.
#[inline]
fn halves<const N: usize>(octets: &[u8]) -> Option<([u8; N], [u8; N])> {
    let (first, rest) = octets.split_first_chunk()?;
    Some((*first, rest.try_into().ok()?))
}

/// Finds the UDP header of a Headrace frame and checks all in front of it.
#[inline]
fn open(frame: &[u8]) -> Result<(Outer<'_>, &Udp), ParseError> {
    let (ethernet, _) = Ethernet::ref_from_prefix(frame).map_err(|_| ParseError::Truncated)?;
    match ethernet.ethertype.get() {
        ETHERTYPE_V4 => open_v4(frame),
        ETHERTYPE_V6 => open_v6(frame),
        _ => Err(ParseError::NotHeadrace),
    }
}

/// Where the addresses start in an IP header; it ends with them.
const ADDRESSES_V4: usize = 12;
const ADDRESSES_V6: usize = 8;

#[inline]
fn open_v4(frame: &[u8]) -> Result<(Outer<'_>, &Udp), ParseError> {
    let (head, _) = Head4::ref_from_prefix(frame).map_err(|_| ParseError::Truncated)?;
    let ip = &head.ip;
    if ip.version_ihl != VERSION_IHL
        || ip.fragment.get() & FRAGMENTED != 0
        || ip.protocol != PROTOCOL_UDP
        || head.udp.dst_port != UDP_PORT
    {
        return Err(ParseError::NotHeadrace);
    }
    if sum_of(ip.as_bytes()).finish() != 0 {
        return Err(ParseError::Checksum);
    }
    let ip_payload_len = ip.total_len.get().checked_sub(IpVersion::V4.header_len());
    let outer = Outer {
        udp_at: HEAD4_LEN - usize::from(UDP_LEN),
        tos: ip.tos,
        ip_payload_len: ip_payload_len.ok_or(ParseError::Field)?,
        first: 0,
        addresses: &ip.as_bytes()[ADDRESSES_V4..],
    };
    Ok((outer, &head.udp))
}

#[inline]
fn open_v6(frame: &[u8]) -> Result<(Outer<'_>, &Udp), ParseError> {
    let (head, _) = Head6::ref_from_prefix(frame).map_err(|_| ParseError::Truncated)?;
    let (ip, first) = (&head.ip, head.ip.first.get());
    if first >> 28 != 6 || ip.next_header != PROTOCOL_UDP || head.udp.dst_port != UDP_PORT {
        return Err(ParseError::NotHeadrace);
    }
    let [_, _, _, tos] = (first >> 20).to_be_bytes();
    let outer = Outer {
        udp_at: HEAD6_LEN - usize::from(UDP_LEN),
        tos,
        ip_payload_len: ip.payload_len.get(),
        first,
        addresses: &ip.as_bytes()[ADDRESSES_V6..],
    };
    Ok((outer, &head.udp))
}

#[inline]
fn verify_udp(
    check: UdpCheck,
    udp: &Udp,
    outer: &Outer<'_>,
    datagram: [&[u8]; 2],
) -> Result<(), ParseError> {
    let field = udp.checksum.get();
    let wanted = match check {
        UdpCheck::Required => true,
        UdpCheck::IfPresent => field != 0,
        UdpCheck::Skip => false,
    };
    if !wanted {
        return Ok(());
    }
    let mut sum = outer.pseudo(udp.len.get());
    datagram.iter().for_each(|part| sum.add(part));
    if field == 0 || sum.finish() != 0 { Err(ParseError::Checksum) } else { Ok(()) }
}

#[inline]
fn sum_of(bytes: &[u8]) -> Checksum {
    let mut sum = Checksum::new();
    sum.add(bytes);
    sum
}

/// Version, traffic class and flow label of IPv6; the label repeats the entropy value, so that
/// switches that hash labels instead of ports see the same paths (RFC 6437).
fn first_word(tos: u8, ev: EntropyValue) -> u32 {
    6 << 28 | u32::from(tos) << 20 | u32::from(ev.0)
}

/// Replaces the octet of DSCP and ECN, keeps the IPv4 checksum right, and returns the new octet;
/// `None` when the frame is not IPv4 without options or IPv6.
fn rewrite_tos(frame: &mut [u8], change: impl FnOnce(u8) -> u8) -> Option<u8> {
    let (ethernet, rest) = Ethernet::mut_from_prefix(frame).ok()?;
    match ethernet.ethertype.get() {
        ETHERTYPE_V4 => {
            let (ip, _) = Ipv4::mut_from_prefix(rest).ok()?;
            if ip.version_ihl != VERSION_IHL {
                return None;
            }
            let old = ip.tos;
            ip.tos = change(old);
            let word = |tos: u8| u16::from_be_bytes([VERSION_IHL, tos]);
            ip.checksum = updated(ip.checksum.get(), word(old), word(ip.tos)).into();
            Some(ip.tos)
        }
        ETHERTYPE_V6 => {
            let (ip, _) = Ipv6::mut_from_prefix(rest).ok()?;
            let first = ip.first.get();
            if first >> 28 != 6 {
                return None;
            }
            let [_, _, _, old] = (first >> 20).to_be_bytes();
            let new = change(old);
            ip.first = (first & !(0xFF << 20) | u32::from(new) << 20).into();
            Some(new)
        }
        _ => None,
    }
}
