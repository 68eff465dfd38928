//! The headers in front of Headrace's: Ethernet, IP of either version, UDP.
//!
//! One trait for both versions, so that reading a frame is compiled for each by itself and branches
//! once. Layouts and rules: docs/WIRE.md. Lengths are octets. Nothing here reads beyond UDP, except
//! that a [`Header`] follows.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::addressing::{Addressing, IpVersion};
use super::checksum::Checksum;
use super::class::{Ecn, TrafficClass};
use super::frame::{Envelope, PAYLOAD_LEN_MAX, Route, UDP_LEN, UdpCheck, header_overhead};
use super::seal::SEALED;
use super::{Body, Ext, Header, ParseError};
use crate::units::{EntropyValue, HostId};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ethernet {
    pub(super) dst: [u8; 6],
    pub(super) src: [u8; 6],
    pub(super) ethertype: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv4 {
    pub(super) version_ihl: u8,
    pub(super) tos: u8,
    pub(super) total_len: U16,
    pub(super) id: U16,
    pub(super) fragment: U16,
    pub(super) ttl: u8,
    pub(super) protocol: u8,
    pub(super) checksum: U16,
    pub(super) src: [u8; 4],
    pub(super) dst: [u8; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv6 {
    /// Version (4 bits), traffic class (8), flow label (20).
    pub(super) first: U32,
    pub(super) payload_len: U16,
    pub(super) next_header: u8,
    pub(super) hop_limit: u8,
    pub(super) src: [u8; 16],
    pub(super) dst: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Udp {
    pub(super) src_port: U16,
    pub(super) dst_port: U16,
    pub(super) len: U16,
    pub(super) checksum: U16,
}

/// Ethernet, IPv4 and UDP headers as they follow each other.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Head4 {
    pub(super) ethernet: Ethernet,
    pub(super) ip: Ipv4,
    pub(super) udp: Udp,
}

/// Ethernet, IPv6 and UDP headers as they follow each other.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Head6 {
    pub(super) ethernet: Ethernet,
    pub(super) ip: Ipv6,
    pub(super) udp: Udp,
}

const _: () = assert!(Head4::LEN == header_overhead(IpVersion::V4) as usize);
const _: () = assert!(Head6::LEN == header_overhead(IpVersion::V6) as usize);
pub(super) const ETHERTYPE_V4: u16 = 0x0800;
pub(super) const ETHERTYPE_V6: u16 = 0x86DD;
pub(super) const PROTOCOL_UDP: u8 = 17;
/// Version 4, five words of header.
pub(super) const VERSION_IHL: u8 = 0x45;
/// Do not fragment; with it the identification field may stay zero (RFC 6864).
pub(super) const DONT_FRAGMENT: u16 = 0x4000;
/// More-fragments flag and fragment offset.
pub(super) const FRAGMENTED: u16 = 0x3FFF;
pub(super) const HOPS: u8 = 64;

/// Ethernet, IP and UDP headers of one version of IP.
pub(super) trait Outer: FromBytes + KnownLayout + Immutable + Unaligned + Sized {
    /// Octets of all three.
    const LEN: usize = size_of::<Self>();

    /// The UDP header.
    fn udp(&self) -> &Udp;
    /// The octet of DSCP and ECN.
    fn tos(&self) -> u8;
    /// Octets behind the IP header, by its length field.
    fn ip_payload_len(&self) -> Result<u16, ParseError>;
    /// Source and destination, one behind the other.
    fn addresses(&self) -> &[u8];
    /// Whether what repeats the entropy value in front of UDP agrees with it: the label of IPv6.
    fn repeats_path(&self) -> bool;
    /// Whether UDP follows, and the IP header is what its sender wrote.
    fn check(&self) -> Result<(), ParseError>;
    /// Sender and receiver.
    fn hosts(&self, addressing: &Addressing) -> Result<(HostId, HostId), ParseError>;
}

/// What is read alike behind the outer headers of both versions of IP.
pub(super) trait Received: Outer {
    /// Sum of the pseudo-header. RFC 768 and RFC 8200 differ in field widths but not in the sum.
    #[inline]
    fn pseudo(&self) -> Checksum {
        let mut sum = sum_of(self.addresses());
        let [high, low] = self.udp().len.get().to_be_bytes();
        sum.add(&[0, PROTOCOL_UDP, high, low]);
        sum
    }

    /// Between which hosts, by which path and in which class the packet came.
    #[inline(always)]
    fn route(&self, addressing: &Addressing) -> Result<Route, ParseError> {
        if self.udp().dst_port != addressing.udp_port() {
            return Err(ParseError::Port);
        }
        let (src, dst) = self.hosts(addressing)?;
        let tos = self.tos();
        let (ecn, class) = (Ecn::of_tos(tos), TrafficClass::of_dscp(tos >> 2));
        Ok(Route { src, dst, ev: EntropyValue(self.udp().src_port.get()), ecn, class })
    }

    /// Reads the rest of `frame`, which begins with these headers: [`super::frame::parse_into`].
    #[inline]
    fn read(
        &self,
        frame: &[u8],
        tail: &[u8],
        addressing: &Addressing,
        check: UdpCheck,
        header: &mut Header,
        ext: &mut Ext,
    ) -> Result<Envelope, ParseError> {
        let route = self.route(addressing)?;
        let trimmed = route.class == TrafficClass::Trimmed;
        let udp = self.udp();
        let udp_len = udp.len.get();
        let udp_at = Self::LEN - usize::from(UDP_LEN);
        let end = udp_at + usize::from(udp_len);
        let datagram = frame.get(udp_at..frame.len().min(end)).ok_or(ParseError::Truncated)?;
        if !trimmed {
            if tail.len() < end.saturating_sub(frame.len()) {
                return Err(ParseError::Truncated);
            }
            if self.ip_payload_len()? != udp_len {
                return Err(ParseError::Field);
            }
            self.verify(frame, tail, check)?;
        }
        let bytes = datagram.get(usize::from(UDP_LEN)..).ok_or(ParseError::Truncated)?;
        let header_len = header.read(route.ev, bytes, ext)?;
        let payload_len = udp_len.checked_sub(UDP_LEN + header_len).ok_or(ParseError::Truncated)?;
        // Only data has payload, and data without payload is of no use, so only data can have lost
        // its payload.
        let is_data = matches!(header.body, Body::Data(_));
        if is_data != (payload_len > 0) || payload_len > PAYLOAD_LEN_MAX {
            return Err(ParseError::Field);
        }
        // An acknowledgement in the class Trimmed was damaged: switches trim data only.
        if trimmed && payload_len == 0 {
            return Err(ParseError::Field);
        }
        let start = Self::LEN + usize::from(header_len);
        Ok(Envelope { route, start, payload_len, trimmed })
    }

    /// [`super::frame::verify`].
    #[inline]
    fn verify_whole(
        &self,
        frame: &[u8],
        tail: &[u8],
        addressing: &Addressing,
        check: UdpCheck,
    ) -> Result<(), ParseError> {
        // Most devices have checked, and many senders write no checksum.
        if !self.is_wanted(check) || self.route(addressing)?.class == TrafficClass::Trimmed {
            return Ok(());
        }
        self.verify(frame, tail, check)
    }

    /// Whether a frame has a checksum that is to be looked at.
    #[inline]
    fn is_wanted(&self, check: UdpCheck) -> bool {
        match check {
            UdpCheck::Required => true,
            UdpCheck::IfPresent => self.udp().checksum != 0,
            UdpCheck::Skip => false,
        }
    }

    /// Whether the UDP checksum of `frame`, which was not trimmed, is as `check` asks.
    #[inline]
    fn verify(&self, frame: &[u8], tail: &[u8], check: UdpCheck) -> Result<(), ParseError> {
        if !self.is_wanted(check) {
            return Ok(());
        }
        let udp_at = Self::LEN - usize::from(UDP_LEN);
        let end = udp_at + usize::from(self.udp().len.get());
        let datagram = frame.get(udp_at..frame.len().min(end)).ok_or(ParseError::Truncated)?;
        let missing = end.saturating_sub(frame.len());
        let tail = tail.get(..missing).ok_or(ParseError::Truncated)?;
        let mut sum = self.pseudo();
        sum.add(datagram);
        sum.add(tail);
        let holds = self.udp().checksum != 0 && sum.finish() == 0;
        if holds {
            return Ok(());
        }
        // A sealed packet has no checksum, and its receiver is to see why it cannot be read.
        let first = datagram.get(usize::from(UDP_LEN));
        let is_sealed = first.is_some_and(|first| first & SEALED != 0);
        let is_sealed = is_sealed && self.udp().checksum == 0;
        Err(if is_sealed { ParseError::Sealed } else { ParseError::Checksum })
    }
}

impl<O: Outer> Received for O {}

impl Head4 {
    /// Whether UDP follows, in one piece and without options between.
    #[inline]
    pub(super) fn is_udp(&self) -> bool {
        let ip = &self.ip;
        ip.version_ihl == VERSION_IHL
            && ip.fragment.get() & FRAGMENTED == 0
            && ip.protocol == PROTOCOL_UDP
    }
}

impl Head6 {
    /// Whether UDP follows, without extension headers between.
    #[inline]
    pub(super) fn is_udp(&self) -> bool {
        self.ip.first.get() >> 28 == 6 && self.ip.next_header == PROTOCOL_UDP
    }
}

impl Outer for Head4 {
    #[inline]
    fn udp(&self) -> &Udp {
        &self.udp
    }

    #[inline]
    fn tos(&self) -> u8 {
        self.ip.tos
    }

    #[inline]
    fn ip_payload_len(&self) -> Result<u16, ParseError> {
        let total = self.ip.total_len.get();
        total.checked_sub(IpVersion::V4.header_len()).ok_or(ParseError::Field)
    }

    #[inline]
    fn addresses(&self) -> &[u8] {
        /// Octets of an IPv4 header before its addresses.
        const AT: usize = 12;
        &self.ip.as_bytes()[AT..]
    }

    #[inline]
    fn check(&self) -> Result<(), ParseError> {
        let ip = &self.ip;
        if !self.is_udp() {
            return Err(ParseError::NotHeadrace);
        }
        if sum_of(ip.as_bytes()).finish() != 0 {
            return Err(ParseError::Checksum);
        }
        self.ip_payload_len().map(|_| ())
    }

    #[inline]
    fn repeats_path(&self) -> bool {
        true
    }

    #[inline]
    fn hosts(&self, addressing: &Addressing) -> Result<(HostId, HostId), ParseError> {
        let of = |ip| addressing.host_of_v4(ip).ok_or(ParseError::Address);
        Ok((of(self.ip.src)?, of(self.ip.dst)?))
    }
}

impl Outer for Head6 {
    #[inline]
    fn udp(&self) -> &Udp {
        &self.udp
    }

    #[inline]
    fn tos(&self) -> u8 {
        let [_, _, _, tos] = (self.ip.first.get() >> 20).to_be_bytes();
        tos
    }

    #[inline]
    fn ip_payload_len(&self) -> Result<u16, ParseError> {
        Ok(self.ip.payload_len.get())
    }

    #[inline]
    fn addresses(&self) -> &[u8] {
        /// Octets of an IPv6 header before its addresses.
        const AT: usize = 8;
        &self.ip.as_bytes()[AT..]
    }

    #[inline]
    fn check(&self) -> Result<(), ParseError> {
        if self.is_udp() { Ok(()) } else { Err(ParseError::NotHeadrace) }
    }

    #[inline]
    fn repeats_path(&self) -> bool {
        self.ip.first.get() == first_word(self.tos(), EntropyValue(self.udp.src_port.get()))
    }

    #[inline]
    fn hosts(&self, addressing: &Addressing) -> Result<(HostId, HostId), ParseError> {
        // The label repeats the entropy value; anything else was damaged on the way.
        if !self.repeats_path() {
            return Err(ParseError::Field);
        }
        let of = |ip| addressing.host_of_v6(ip).ok_or(ParseError::Address);
        Ok((of(self.ip.src)?, of(self.ip.dst)?))
    }
}

/// The version of IP of an Ethernet frame.
#[inline]
pub(super) fn version(frame: &[u8]) -> Result<IpVersion, ParseError> {
    let (ethernet, _) = Ethernet::ref_from_prefix(frame).map_err(|_| ParseError::Truncated)?;
    match ethernet.ethertype.get() {
        ETHERTYPE_V4 => Ok(IpVersion::V4),
        ETHERTYPE_V6 => Ok(IpVersion::V6),
        _ => Err(ParseError::NotHeadrace),
    }
}

/// The headers in front of `frame`, which is of `H`'s version, checked.
#[inline]
pub(super) fn open<H: Outer>(frame: &[u8]) -> Result<&H, ParseError> {
    let (outer, _) = H::ref_from_prefix(frame).map_err(|_| ParseError::Truncated)?;
    outer.check()?;
    Ok(outer)
}

#[inline]
pub(super) fn sum_of(bytes: &[u8]) -> Checksum {
    let mut sum = Checksum::new();
    sum.add(bytes);
    sum
}

/// Version, traffic class and flow label of IPv6; the label repeats the entropy value, so that
/// switches that hash labels instead of ports see the same paths (RFC 6437).
pub(super) fn first_word(tos: u8, ev: EntropyValue) -> u32 {
    6 << 28 | u32::from(tos) << 20 | u32::from(ev.0)
}
