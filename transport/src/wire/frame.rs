//! The frame around a Headrace header: Ethernet / IPv4 or IPv6 / UDP, as pure functions over
//! slices.
//!
//! Hosts [`emit`] and [`parse`]; switches [`route_of`], [`set_ce`] and [`trim`]. Lengths are octets
//! and start at the destination MAC: preamble, FCS and inter-frame gap are not counted anywhere. No
//! VLAN tags, no IPv4 options or fragments, no IPv6 extension headers: such frames are not
//! Headrace. Layouts, rules and what each check covers: docs/WIRE.md. Sources: RFC 768, 791, 8200,
//! 6437 (flow label), 1624.

use core::ops::Range;

use zerocopy::{FromBytes as _, IntoBytes as _};

use super::addressing::{AddrPair, Addressing, IpPair, IpVersion};
use super::checksum::{Checksum, updated};
pub use super::class::{Ecn, TrafficClass};
use super::data::Glance;
use super::int::{self, Hop};
use super::outer::{
    self, DONT_FRAGMENT, ETHERTYPE_V4, ETHERTYPE_V6, Ethernet, HOPS, Head4, Head6, Ipv4, Ipv6,
    Outer as _, PROTOCOL_UDP, Received as _, Udp, VERSION_IHL, first_word,
};
use super::{Ext, Header, ParseError, ack, advice, credit, data, ext, half};
use crate::units::{EntropyValue, HostId};

/// Octets of an Ethernet header without VLAN tag.
pub const ETHERNET_LEN: u16 = 14;
/// Octets of a UDP header.
pub const UDP_LEN: u16 = 8;
/// Octets that hold the headers of any frame: the size of a buffer for headers, and the part of a
/// frame that a switch needs to edit it.
pub const HEADERS_MAX: u16 = 256;

/// Octets that hold the headers of any frame without the extensions of [`super::ext`]; the rest of
/// a device's frame is payload.
pub const PLAIN_HEADERS_MAX: u16 = 128;

const _: () = assert!(header_overhead(IpVersion::V6) + data::PLAIN_LEN_MAX <= PLAIN_HEADERS_MAX);
const _: () = assert!(header_overhead(IpVersion::V6) + data::LEN_MAX <= HEADERS_MAX);
const _: () = assert!(header_overhead(IpVersion::V6) + ack::LEN + ext::LEN_MAX <= HEADERS_MAX);

/// The longest payload [`emit`] takes: with every header, an IPv4 packet of at most 65535 octets.
pub const PAYLOAD_LEN_MAX: u16 = u16::MAX - 20 - UDP_LEN - data::LEN_MAX;

const _: () =
    assert!(IpVersion::V4.header_len() + UDP_LEN + data::LEN_MAX + PAYLOAD_LEN_MAX == u16::MAX);

/// Octets in front of the Headrace header: 42 with IPv4, 62 with IPv6. No preamble, no FCS.
#[must_use]
pub const fn header_overhead(version: IpVersion) -> u16 {
    ETHERNET_LEN + version.header_len() + UDP_LEN
}

/// How [`parse`] treats the UDP checksum. The checksum of a trimmed packet is never checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpCheck {
    /// The checksum must be there and match.
    Required,
    /// The checksum must match unless the field is zero: the sender did not compute one.
    IfPresent,
    /// The checksum is not checked: the NIC has done so, or no check is needed.
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

/// The fields of a frame that a switch needs to forward it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Sender.
    pub src: HostId,
    /// Receiver.
    pub dst: HostId,
    /// UDP source port, which ECMP hashes together with the addresses.
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
    /// Receiver; the caller checks whether this is its own host.
    pub dst: HostId,
    /// ECN field.
    pub ecn: Ecn,
    /// Traffic class.
    pub class: TrafficClass,
    /// The Headrace header.
    pub header: Header,
    /// The extensions of the frame's header.
    pub ext: Ext,
    /// The range of the payload in the frame; empty when trimmed.
    pub payload: Range<usize>,
    /// A switch has cut the payload off.
    pub trimmed: bool,
    /// Octets of payload that the sender sent: the length of `payload`, or of the payload that was
    /// cut off.
    pub payload_len: u16,
}

/// Everything of a received frame that is not in the [`Header`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Both ends, path and class.
    pub route: Route,
    /// The offset of the payload, octets from the destination MAC.
    pub start: usize,
    /// Octets of payload that the sender sent, also when they were cut off.
    pub payload_len: u16,
    /// A switch has cut the payload off.
    pub trimmed: bool,
}

// A payload starts at an even offset of the UDP datagram, so its sum may be computed apart.
const _: () = assert!((data::LEN | data::OPEN_LEN | data::TAG_LEN | data::DEMAND_LEN) & 1 == 0);
const _: () = assert!((ack::LEN | credit::LEN) & 1 == 0);
const _: () = assert!((int::LEN | int::HOP_LEN | half::LEN | advice::LEN) & 1 == 0);

/// Writes all headers of a frame to the front of `out` and returns their length, at most
/// [`HEADERS_MAX`]; the payload belongs right behind. The UDP checksum is zero: see
/// [`finish_udp_checksum`].
///
/// # Panics
/// When `out` is shorter than the headers or `payload_len` exceeds [`PAYLOAD_LEN_MAX`]: bugs of the
/// driver.
pub fn emit(
    spec: &FrameSpec,
    header: &Header,
    ext: &Ext,
    payload_len: u16,
    out: &mut [u8],
) -> usize {
    assert!(payload_len <= PAYLOAD_LEN_MAX);
    let at = emit_outer(spec, header.ev, UDP_LEN + header.emit_len() + payload_len, out);
    at + header.emit(ext, &mut out[at..])
}

/// Writes the headers up to UDP, whose checksum stays zero, and returns their length.
pub(super) fn emit_outer(
    spec: &FrameSpec,
    ev: EntropyValue,
    udp_len: u16,
    out: &mut [u8],
) -> usize {
    let tos = spec.class.tos(spec.ecn.bits());
    let ethernet = |ethertype: u16| Ethernet {
        dst: spec.addrs.dst_mac,
        src: spec.addrs.src_mac,
        ethertype: ethertype.into(),
    };
    let udp = Udp {
        src_port: ev.0.into(),
        dst_port: spec.addrs.udp_port.into(),
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
            ip.checksum = outer::sum_of(ip.as_bytes()).finish().into();
            let head = Head4 { ethernet: ethernet(ETHERTYPE_V4), ip, udp };
            out[..Head4::LEN].copy_from_slice(head.as_bytes());
            Head4::LEN
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
            out[..Head6::LEN].copy_from_slice(head.as_bytes());
            Head6::LEN
        }
    }
}

/// Reads a frame. `frame` starts at the destination MAC; octets behind the IP packet are ignored.
///
/// # Errors
/// [`ParseError`], counted by name, for anything that [`emit`] and then the network (hops, ECN,
/// DSCP, MACs, [`trim`]) could not have made.
pub fn parse(frame: &[u8], addressing: &Addressing, check: UdpCheck) -> Result<Parsed, ParseError> {
    let (mut header, mut ext) = (Header::VACANT, Ext::VACANT);
    let envelope = parse_into(frame, &[], addressing, check, &mut header, &mut ext)?;
    let Envelope { route, start, payload_len, trimmed } = envelope;
    let Route { src, dst, ecn, class, .. } = route;
    let end = if trimmed { start } else { start + usize::from(payload_len) };
    Ok(Parsed { src, dst, ecn, class, header, ext, payload: start..end, trimmed, payload_len })
}

/// [`parse`] of a frame that lies in two pieces, with all its headers in the first. The Headrace
/// header is written to `header` and its extensions to `ext`, where they stay: values of that size
/// cost as much to pass on as to read. After an error they mean nothing.
///
/// # Errors
/// As [`parse`]; headers that reach into `tail` are [`ParseError::Truncated`].
#[inline]
pub fn parse_into(
    frame: &[u8],
    tail: &[u8],
    addressing: &Addressing,
    check: UdpCheck,
    header: &mut Header,
    ext: &mut Ext,
) -> Result<Envelope, ParseError> {
    match outer::version(frame)? {
        IpVersion::V4 => {
            outer::open::<Head4>(frame)?.read(frame, tail, addressing, check, header, ext)
        }
        IpVersion::V6 => {
            outer::open::<Head6>(frame)?.read(frame, tail, addressing, check, header, ext)
        }
    }
}

/// Checks the UDP checksum of a frame that [`parse_into`] has read, or refused, with
/// [`UdpCheck::Skip`]: for drivers that find out first whether they want its payload. The checksum
/// of a trimmed frame is never checked. Headers are read only where there is a checksum to check.
///
/// # Errors
/// As [`parse_into`] with this `check`.
#[inline]
pub fn verify(
    frame: &[u8],
    tail: &[u8],
    addressing: &Addressing,
    check: UdpCheck,
) -> Result<(), ParseError> {
    match outer::version(frame)? {
        IpVersion::V4 => outer::open::<Head4>(frame)?.verify_whole(frame, tail, addressing, check),
        IpVersion::V6 => outer::open::<Head6>(frame)?.verify_whole(frame, tail, addressing, check),
    }
}

/// The fields that a switch needs to forward `frame`, read without the Headrace header and the UDP
/// checksum.
///
/// # Errors
/// [`ParseError`] when it is not UDP to the port of `addressing`, is cut short inside the headers,
/// has a wrong IPv4 checksum, or has an address of no host.
#[inline]
pub fn route_of(frame: &[u8], addressing: &Addressing) -> Result<Route, ParseError> {
    match outer::version(frame)? {
        IpVersion::V4 => outer::open::<Head4>(frame)?.route(addressing),
        IpVersion::V6 => outer::open::<Head6>(frame)?.route(addressing),
    }
}

/// The offset of the Headrace header of `frame`; `None` when it is not UDP. Port and IPv4 checksum
/// are not checked: callers have called [`route_of`] before, or have made the frame.
#[inline]
fn header_start(frame: &[u8]) -> Option<usize> {
    let (is_udp, at) = match outer::version(frame).ok()? {
        IpVersion::V4 => (Head4::ref_from_prefix(frame).ok()?.0.is_udp(), Head4::LEN),
        IpVersion::V6 => (Head6::ref_from_prefix(frame).ok()?.0.is_udp(), Head6::LEN),
    };
    is_udp.then_some(at)
}

/// Where a DATA or PARITY frame has its telemetry, and the checksum that covers it. A switch looks
/// this up once and then writes any number of times: no switch on the way moves them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntPlace {
    /// The offset of the UDP header.
    udp: u8,
    /// The offset of the INT extension.
    int: u8,
}

const _: () = assert!(HEADERS_MAX - int::LEN <= u8::MAX as u16, "offsets of headers in an octet");

impl IntPlace {
    /// The place in `frame`, to any UDP port, which may be its first [`HEADERS_MAX`] octets alone;
    /// `None` for a frame that has no room for telemetry.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        layout_at(frame, header_start(frame)?)?.1
    }

    fn new(header: usize, int: u16) -> Option<Self> {
        let udp = u8::try_from(header - usize::from(UDP_LEN)).ok()?;
        Some(Self { udp, int: u8::try_from(header + usize::from(int)).ok()? })
    }
}

/// The offset of the payload of a DATA frame, which is the length that [`trim`] leaves; `None` when
/// it is no DATA or is cut inside its headers. `frame`, to any UDP port, may be its first
/// [`HEADERS_MAX`] octets alone.
#[inline]
#[must_use]
pub fn payload_start(frame: &[u8]) -> Option<usize> {
    layout_at(frame, header_start(frame)?).map(|(start, _)| start)
}

/// [`payload_start`] of a frame whose route [`route_of`] has read with this addressing, and where
/// it has room for telemetry, if it has any.
#[inline]
#[must_use]
pub fn layout(frame: &[u8], addressing: &Addressing) -> Option<(usize, Option<IntPlace>)> {
    // Hosts have addresses of one version, so the frame is of that version.
    let at = usize::from(header_overhead(addressing.version()));
    debug_assert_eq!(header_start(frame), Some(at), "a frame whose route was read");
    layout_at(frame, at)
}

/// The offset of the payload of a frame whose Headrace header is at `at`, and the place of its
/// telemetry.
#[inline]
fn layout_at(frame: &[u8], at: usize) -> Option<(usize, Option<IntPlace>)> {
    let (header_len, int_at) = data::layout_of(frame.get(at..)?)?;
    Some((at + usize::from(header_len), int_at.and_then(|int| IntPlace::new(at, int))))
}

/// What a border switch looks at in a DATA or PARITY frame with telemetry at `place`; see
/// [`Glance`].
#[inline]
#[must_use]
pub fn glance(frame: &[u8], place: IntPlace) -> Option<Glance> {
    let at = usize::from(place.udp) + usize::from(UDP_LEN);
    data::glance(frame.get(at..)?, usize::from(place.int) - at)
}

/// Cuts a DATA frame behind its Headrace header and returns its new length; the caller drops the
/// rest.
///
/// DSCP becomes Trimmed, and IP length and IPv4 checksum are those of the rest. UDP length and
/// checksum stay: the receiver reads from the length how much was lost; the checksum can no longer
/// be verified. A frame that is no DATA, or has no payload left, is not touched, and its length is
/// returned. The UDP port is not checked.
pub fn trim(frame: &mut [u8]) -> usize {
    let len = frame.len();
    let Some(at) = header_start(frame) else { return len };
    let Some(header_len) = frame.get(at..).and_then(data::layout_of).map(|(len, _)| len) else {
        return len;
    };
    if at + usize::from(header_len) >= len {
        return len;
    }
    let ip_payload_len = UDP_LEN + header_len;
    rewrite_tos(frame, |tos| TrafficClass::Trimmed.tos(tos));
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

/// Writes hops into the telemetry at `place`, as [`int::Int::stamp`] does in memory; true when it
/// is whole in `frame`. The frame keeps its length, and its UDP checksum, if it has one, stays
/// right by RFC 1624. It may be the first [`HEADERS_MAX`] octets alone.
#[inline]
pub fn stamp(frame: &mut [u8], place: IntPlace, hops: &[Hop]) -> bool {
    edit_int(frame, place, |octets| int::stamp_octets(octets, hops))
}

/// Takes all hops out of the telemetry at `place`, as [`int::Int::clear`] does in memory; true when
/// it is whole in `frame`. Length and checksum are treated as by [`stamp`].
pub fn clear_hops(frame: &mut [u8], place: IntPlace) -> bool {
    edit_int(frame, place, int::clear_octets)
}

/// Lets `edit` change the INT extension at `place`; it returns the sum of what is there now without
/// what was there before.
#[inline(always)]
fn edit_int(
    frame: &mut [u8],
    place: IntPlace,
    edit: impl FnOnce(&mut [u8]) -> Option<Checksum>,
) -> bool {
    let IntPlace { udp, int } = place;
    let Some(change) = frame.get_mut(usize::from(int)..).and_then(edit) else { return false };
    update_udp_checksum(&mut frame[usize::from(udp)..], change);
    true
}

/// Corrects the UDP checksum of the datagram `udp` after a change of its octets (RFC 1624). A
/// checksum of zero, which is none, stays zero.
#[inline]
fn update_udp_checksum(udp: &mut [u8], change: Checksum) {
    let Some(field) = udp.get_mut(6..8) else { return };
    let before = u16::from_be_bytes([field[0], field[1]]);
    if before != 0 {
        let sum = change.changes(before);
        // Zero would say that there is none (RFC 768).
        let sum = if sum == 0 { 0xFFFF } else { sum };
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// The UDP source port of a frame whose other headers may be anything; `None` where it is cut short
/// or not IP.
#[inline]
#[must_use]
pub fn source_port(frame: &[u8]) -> Option<EntropyValue> {
    let at = match outer::version(frame).ok()? {
        IpVersion::V4 => Head4::LEN,
        IpVersion::V6 => Head6::LEN,
    };
    (frame.len() >= at).then(|| entropy_at(frame, at))
}

/// Changes the traffic class; true when the frame is IP and now carries it.
pub fn set_class(frame: &mut [u8], class: TrafficClass) -> bool {
    rewrite_tos(frame, |tos| class.tos(tos)).is_some()
}

/// The Headrace header of `frame` with its extensions, all of which have to be there; the payload
/// is not looked at.
///
/// # Errors
/// [`ParseError`] when the frame is not UDP, or no header follows.
pub fn header_of(frame: &[u8]) -> Result<(Header, Ext), ParseError> {
    let (mut header, mut ext) = (Header::VACANT, Ext::VACANT);
    read_header(frame, &mut header, &mut ext).map(|()| (header, ext))
}

/// [`header_of`] into the places where header and extensions stay.
///
/// # Errors
/// As [`header_of`]; header and extensions mean nothing then.
#[inline]
pub fn read_header(frame: &[u8], header: &mut Header, ext: &mut Ext) -> Result<(), ParseError> {
    let at = header_start(frame).ok_or(ParseError::NotHeadrace)?;
    header.read(entropy_at(frame, at), &frame[at..], ext).map(|_| ())
}

/// Lets `change` edit the Headrace header of `frame` and the content of its extensions. The UDP
/// checksum is corrected without reading the payload, which may lie elsewhere (RFC 1624); a
/// checksum of zero stays zero. Returns false, and leaves the frame unchanged, when there is no
/// header, or the new one has another length, another entropy value or other extensions.
pub fn rewrite_header(frame: &mut [u8], change: &mut dyn FnMut(&mut Header, &mut Ext)) -> bool {
    let Some(at) = header_start(frame) else { return false };
    let Ok((old, mut ext, len)) = Header::parse(entropy_at(frame, at), &frame[at..]) else {
        return false;
    };
    let mut header = old;
    change(&mut header, &mut ext);
    let kept = (header.ev, header.ext) == (old.ev, old.ext) && header.ext.fits(&ext);
    if usize::from(header.emit_len()) != len || !kept {
        return false;
    }
    let (head, body) = frame.split_at_mut(at);
    let Some(octets) = body.get_mut(..len) else { return false };
    let mut emitted = [0; HEADERS_MAX as usize];
    header.emit(&ext, &mut emitted);
    let mut difference = Checksum::new();
    difference.remove(octets);
    difference.add(&emitted[..len]);
    update_udp_checksum(&mut head[at - usize::from(UDP_LEN)..], difference);
    octets.copy_from_slice(&emitted[..len]);
    true
}

/// The UDP source port in front of the Headrace header at `at`.
fn entropy_at(frame: &[u8], at: usize) -> EntropyValue {
    let source_port = at - usize::from(UDP_LEN);
    EntropyValue(u16::from_be_bytes([frame[source_port], frame[source_port + 1]]))
}

/// Writes the UDP checksum. `head` is what [`emit`] wrote, `payload` the sum over the payload,
/// whose pieces the driver added in order, while copying them or before.
///
/// Does nothing when `head` is not UDP. A sum of zero is sent as 0xFFFF (RFC 768).
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

/// Writes the pseudo-header sum into the UDP checksum field, as expected by a NIC that computes the
/// rest (`RTE_MBUF_F_TX_UDP_CKSUM`). Does nothing when `head` is not UDP.
pub fn seed_udp_checksum(head: &mut [u8]) {
    write_udp_checksum(head, |pseudo, _| pseudo.folded());
}

/// Stores the result of `value` for the pseudo-header and the datagram with a zero checksum field.
fn write_udp_checksum(head: &mut [u8], value: impl FnOnce(Checksum, &[u8]) -> u16) {
    let pseudo = match outer::version(head) {
        Ok(IpVersion::V4) => outer::open::<Head4>(head).map(|outer| (outer.pseudo(), Head4::LEN)),
        Ok(IpVersion::V6) => outer::open::<Head6>(head).map(|outer| (outer.pseudo(), Head6::LEN)),
        Err(error) => Err(error),
    };
    let Ok((pseudo, end)) = pseudo else { return };
    let at = end - usize::from(UDP_LEN);
    head[at + 6..at + 8].fill(0);
    let checksum = value(pseudo, &head[at..]);
    head[at + 6..at + 8].copy_from_slice(&checksum.to_be_bytes());
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
            ip.first = (first ^ u32::from(old ^ new) << 20).into();
            Some(new)
        }
        _ => None,
    }
}
