//! Frames to one peer, made by copying the octets that all of them share.
//!
//! A sender writes the same addresses into every frame, and sums them for two checksums. A template
//! does so once for each peer. For each frame, only lengths, entropy value and Headrace header are
//! left to write. The octets are those of [`frame::emit`](super::frame::emit), bit for bit.

use super::addressing::{IpPair, IpVersion};
use super::checksum::Checksum;
use super::frame::{
    ETHERNET_LEN, FrameSpec, PAYLOAD_LEN_MAX, UDP_LEN, emit_outer, header_overhead,
};
use super::{Ext, Header};
use crate::units::EntropyValue;

/// The constant part of all frames of one kind to one peer.
#[derive(Clone, Debug)]
pub struct FrameTemplate {
    /// Headers up to UDP, with zeros where frames differ; the first octets are in use.
    octets: [u8; OCTETS_MAX],
    version: IpVersion,
    /// Sum of the IPv4 header as it is here.
    ip: Checksum,
    /// Sum of pseudo-header and destination port, without lengths.
    udp: Checksum,
}

const OCTETS_MAX: usize = header_overhead(IpVersion::V6) as usize;
const OCTETS_V4: usize = header_overhead(IpVersion::V4) as usize;
const IP_AT: usize = ETHERNET_LEN as usize;
const PROTOCOL_UDP: u8 = 17;

impl FrameTemplate {
    /// The template for frames of `spec`.
    #[must_use]
    pub fn new(spec: &FrameSpec) -> Self {
        let mut octets = [0; OCTETS_MAX];
        emit_outer(spec, EntropyValue(0), 0, &mut octets);
        let mut ip = Checksum::new();
        let mut udp = Checksum::new();
        match spec.addrs.ip {
            IpPair::V4 { src, dst } => {
                octets[IP_AT + 2..IP_AT + 4].fill(0);
                octets[IP_AT + 10..IP_AT + 12].fill(0);
                ip.add(&octets[IP_AT..OCTETS_V4 - usize::from(UDP_LEN)]);
                [src, dst].iter().for_each(|address| udp.add(&address.octets()));
            }
            IpPair::V6 { src, dst } => {
                [src, dst].iter().for_each(|address| udp.add(&address.octets()));
            }
        }
        udp.add(&[0, PROTOCOL_UDP]);
        udp.add(&spec.addrs.udp_port.to_be_bytes());
        Self { octets, version: spec.addrs.version(), ip, udp }
    }

    /// Writes all headers of a frame to the front of `out` and returns their length; the payload
    /// belongs right behind. With the sum of the payload the UDP checksum is written too, without
    /// it is zero: not computed.
    ///
    /// # Panics
    /// As [`frame::emit`](super::frame::emit).
    #[inline]
    pub fn emit(
        &self,
        header: &Header,
        ext: &Ext,
        payload_len: u16,
        payload: Option<Checksum>,
        out: &mut [u8],
    ) -> usize {
        assert!(payload_len <= PAYLOAD_LEN_MAX);
        let udp_len = UDP_LEN + header.emit_len() + payload_len;
        let (len, ev) = (udp_len.to_be_bytes(), header.ev.0.to_be_bytes());
        let at = match self.version {
            IpVersion::V4 => {
                let head: &mut [u8; OCTETS_V4] = front(out);
                *head = *self.octets.first_chunk().unwrap_or(&[0; _]);
                let total = IpVersion::V4.header_len() + udp_len;
                let mut ip = self.ip;
                ip.add_word(total);
                put(head, IP_AT + 2, total.to_be_bytes());
                put(head, IP_AT + 10, ip.finish().to_be_bytes());
                OCTETS_V4
            }
            IpVersion::V6 => {
                let head: &mut [u8; OCTETS_MAX] = front(out);
                *head = self.octets;
                // The flow label repeats the entropy value.
                put(head, IP_AT + 2, ev);
                put(head, IP_AT + 4, len);
                OCTETS_MAX
            }
        };
        let end = at + header.emit(ext, &mut out[at..]);
        let udp_at = at - usize::from(UDP_LEN);
        put(out, udp_at, ev);
        put(out, udp_at + 4, len);
        if let Some(payload) = payload {
            let mut sum = self.udp;
            // The length counts twice: in the pseudo-header and in the header.
            for word in [udp_len, udp_len, header.ev.0, payload.folded()] {
                sum.add_word(word);
            }
            sum.add(&out[at..end]);
            // A sum of zero is sent as 0xFFFF (RFC 768): zero says that there is none.
            let sum = if sum.finish() == 0 { 0xFFFF } else { sum.finish() };
            put(out, udp_at + 6, sum.to_be_bytes());
        }
        end
    }

    /// Writes the UDP checksum field for a device that computes the rest: the pseudo-header's sum,
    /// uncomplemented. `head` has headers made by [`Self::emit`] without a sum.
    #[inline]
    pub fn seed(&self, head: &mut [u8]) {
        let udp_at = usize::from(self.overhead() - UDP_LEN);
        let Some(udp) = head.get_mut(udp_at..udp_at + usize::from(UDP_LEN)) else { return };
        let mut sum = self.udp;
        // The port is in the datagram, which the device sums: adding the complement takes it out.
        sum.add(&[!udp[2], !udp[3]]);
        sum.add(&[udp[4], udp[5]]);
        udp[6..8].copy_from_slice(&sum.folded().to_be_bytes());
    }

    /// The version of IP.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> IpVersion {
        self.version
    }

    /// Octets in front of the Headrace header.
    #[inline]
    #[must_use]
    pub const fn overhead(&self) -> u16 {
        header_overhead(self.version)
    }
}

/// Two octets.
#[inline]
fn put(out: &mut [u8], at: usize, [high, low]: [u8; 2]) {
    (out[at], out[at + 1]) = (high, low);
}

/// The first `N` octets.
#[inline]
pub(super) fn front<const N: usize>(out: &mut [u8]) -> &mut [u8; N] {
    let Some(front) = out.first_chunk_mut() else {
        panic!("the driver's buffer is shorter than the headers")
    };
    front
}
