//! Ethernet, IPv4 and IPv6 headers of the few packets that neighbours exchange.
//!
//! Source: RFC 791, 8200, 1071. Everything is read with bounds checked and written into a slice
//! that the caller has made long enough; all integers are in network order.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use transport::wire::checksum::Checksum;

use super::Mac;

pub(super) const ETHERNET: usize = 14;
pub(super) const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_V4: u16 = 0x0800;
const ETHERTYPE_V6: u16 = 0x86dd;
const V4: usize = 20;
const V6: usize = 40;
const ICMP_V4: u8 = 1;
const ICMP_V6: u8 = 58;
/// Discovery is accepted only from the own link: with this hop limit no router has forwarded it.
pub(super) const HOPS: u8 = 255;

/// `N` octets at `at`.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The 16-bit integer at `at`.
pub(super) fn integer(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// Writes `bytes` at `at`.
pub(super) fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes an Ethernet header.
pub(super) fn put_ethernet(out: &mut [u8], dst: Mac, src: Mac, ethertype: u16) {
    put(out, 0, &dst);
    put(out, 6, &src);
    put(out, 12, &ethertype.to_be_bytes());
}

/// An ICMP packet of either version, with the frame around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Icmp<'a> {
    pub(super) src_mac: Mac,
    pub(super) dst_mac: Mac,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) hops: u8,
    /// ICMP's type, which is written over the first octet of `body`.
    pub(super) kind: u8,
    /// From the type on; the checksum is filled in when it is written.
    pub(super) body: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// The packet in `frame`, whole and with right checksums; `None` for all else.
    pub(super) fn parse(frame: &'a [u8]) -> Option<Self> {
        let (dst_mac, src_mac) = (array(frame, 0)?, array(frame, 6)?);
        let packet = frame.get(ETHERNET..)?;
        let (src, dst, hops, body) = match integer(frame, 12)? {
            ETHERTYPE_V4 => {
                let header: [u8; V4] = array(packet, 0)?;
                let whole = header[0] == 0x45 && integer(&header, 6)? & 0x3fff == 0;
                let sound = whole && header[9] == ICMP_V4 && sum_of(&[&header]).finish() == 0;
                let end = usize::from(integer(&header, 2)?);
                let body = sound.then(|| packet.get(V4..end)).flatten()?;
                let sound = sum_of(&[body]).finish() == 0;
                let [src, dst] = [12, 16].map(|at| array::<4>(&header, at).map(Ipv4Addr::from));
                (IpAddr::V4(src?), IpAddr::V4(dst?), header[8], sound.then_some(body)?)
            }
            ETHERTYPE_V6 => {
                let header: [u8; V6] = array(packet, 0)?;
                let ours = header[0] >> 4 == 6 && header[6] == ICMP_V6;
                let end = V6 + usize::from(integer(&header, 4)?);
                let body = ours.then(|| packet.get(V6..end)).flatten()?;
                let [src, dst] = [8, 24].map(|at| array::<16>(&header, at).map(Ipv6Addr::from));
                let (src, dst) = (src?, dst?);
                let sound = pseudo(src, dst, body).finish() == 0;
                (IpAddr::V6(src), IpAddr::V6(dst), header[7], sound.then_some(body)?)
            }
            _ => return None,
        };
        Some(Self { src_mac, dst_mac, src, dst, hops, kind: *body.first()?, body })
    }

    /// How long the frame is.
    pub(super) fn frame_len(&self) -> usize {
        ETHERNET + if self.src.is_ipv4() { V4 } else { V6 } + self.body.len()
    }

    /// Writes the frame to the front of `out`, with all checksums; its length, or `None` when it
    /// does not fit or mixes versions.
    pub(super) fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..self.frame_len())?;
        let (ethertype, at) = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = &mut out[ETHERNET..ETHERNET + V4];
                header.copy_from_slice(&[0; V4]);
                header[0] = 0x45;
                put(header, 2, &u16::try_from(V4 + self.body.len()).ok()?.to_be_bytes());
                put(header, 6, &0x4000_u16.to_be_bytes());
                (header[8], header[9]) = (self.hops, ICMP_V4);
                put(header, 12, &src.octets());
                put(header, 16, &dst.octets());
                let sum = sum_of(&[header]).finish();
                put(header, 10, &sum.to_be_bytes());
                (ETHERTYPE_V4, ETHERNET + V4)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = &mut out[ETHERNET..ETHERNET + V6];
                header.copy_from_slice(&[0; V6]);
                header[0] = 0x60;
                put(header, 4, &u16::try_from(self.body.len()).ok()?.to_be_bytes());
                (header[6], header[7]) = (ICMP_V6, self.hops);
                put(header, 8, &src.octets());
                put(header, 24, &dst.octets());
                (ETHERTYPE_V6, ETHERNET + V6)
            }
            _ => return None,
        };
        put_ethernet(out, self.dst_mac, self.src_mac, ethertype);
        let body = &mut out[at..];
        body.copy_from_slice(self.body);
        put(body, 0, &[self.kind]);
        put(body, 2, &[0; 2]);
        let sum = match (self.src, self.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => pseudo(src, dst, body),
            _ => sum_of(&[body]),
        };
        put(body, 2, &sum.finish().to_be_bytes());
        Some(self.frame_len())
    }
}

fn sum_of(parts: &[&[u8]]) -> Checksum {
    let mut sum = Checksum::new();
    parts.iter().for_each(|part| sum.add(part));
    sum
}

/// RFC 8200 sec. 8.1.
fn pseudo(src: Ipv6Addr, dst: Ipv6Addr, body: &[u8]) -> Checksum {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
    sum_of(&[&src.octets(), &dst.octets(), &length, &[0, 0, 0, ICMP_V6], body])
}
