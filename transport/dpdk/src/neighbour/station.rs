//! The host's own address on the link, and the answers that it owes.

use core::net::IpAddr;

use super::Mac;
use super::arp::Arp;
use super::icmp::{self, Message};
use super::octets::{HOPS, Icmp};

/// The identity of this host on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Hardware address.
    pub mac: Mac,
    /// IP address.
    pub ip: IpAddr,
    /// Leading bits that the addresses of the own subnet have in common.
    pub prefix: u8,
    /// The router to other subnets.
    pub gateway: Option<IpAddr>,
}

/// Hops of an answer, as of any host's packets.
const TTL: u8 = 64;

impl Station {
    /// The host whose MAC packets to `peer` need: the peer itself on this subnet, else the gateway;
    /// `None` when there is no gateway, or the IP versions differ.
    #[must_use]
    pub fn next_hop(&self, peer: IpAddr) -> Option<IpAddr> {
        match (self.ip, peer) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {}
            _ => return None,
        }
        if is_near(self.ip, peer, self.prefix) { Some(peer) } else { self.gateway }
    }

    /// Whether [`Station::answer`] may have an answer to `frame`. It has none to UDP, which one
    /// field shows.
    #[inline]
    #[must_use]
    pub fn may_answer(frame: &[u8]) -> bool {
        const UDP: u8 = 17;
        let protocol = match frame.get(12..14) {
            Some([0x08, 0x00]) => frame.get(23),
            Some([0x86, 0xdd]) => frame.get(20),
            _ => None,
        };
        protocol != Some(&UDP)
    }

    /// Writes the reply to `frame` to `out`, if it is an ARP request, a solicitation or an echo for
    /// us. Its length; `None` when it is none of them, or `out` is too short.
    #[must_use]
    pub fn answer(&self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        if let Some(arp) = Arp::parse(frame) {
            let (IpAddr::V4(ip), false) = (self.ip, arp.is_reply) else { return None };
            let asked = arp.target.1 == ip && is_unicast(arp.sender.0);
            let reply = Arp { is_reply: true, sender: (self.mac, ip), target: arp.sender };
            return asked.then(|| reply.emit(out)).flatten();
        }
        let asked = Icmp::parse(frame)?;
        if !is_unicast(asked.src_mac) {
            return None;
        }
        let reply = Icmp {
            src_mac: self.mac,
            dst_mac: asked.src_mac,
            src: self.ip,
            dst: asked.src,
            hops: TTL,
            kind: icmp::echo_reply_kind(asked.src.is_ipv6()),
            body: asked.body,
        };
        match (Message::parse(asked.src.is_ipv6(), asked.body)?, self.ip) {
            (Message::EchoRequest, _) if asked.dst == self.ip => reply.emit(out),
            (Message::Solicitation(target), IpAddr::V6(ip)) if target == ip => {
                let accepted = asked.hops == HOPS && !asked.src.is_unspecified();
                let body = icmp::advertisement(ip, self.mac);
                let reply = Icmp { hops: HOPS, kind: body[0], body: &body, ..reply };
                accepted.then(|| reply.emit(out)).flatten()
            }
            _ => None,
        }
    }
}

/// Whether two addresses of one version agree in their first `prefix` bits.
fn is_near(one: IpAddr, other: IpAddr, prefix: u8) -> bool {
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let differing = wide(one) ^ wide(other);
    differing.leading_zeros() >= u32::from(prefix)
}

/// The address of one machine.
pub(super) fn is_unicast(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}
