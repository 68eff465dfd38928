//! ARP over Ethernet for IPv4: 28 octets behind the Ethernet header.
//!
//! Source: RFC 826.

use core::net::Ipv4Addr;

use super::Mac;
use super::octets::{ETHERNET, ETHERTYPE_ARP, array, integer, put, put_ethernet};

/// A request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arp {
    pub(super) is_reply: bool,
    pub(super) sender: (Mac, Ipv4Addr),
    /// The requested address; its MAC is zero in a request.
    pub(super) target: (Mac, Ipv4Addr),
}

/// Ethernet, IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const LEN: usize = ETHERNET + 28;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;
const BROADCAST: Mac = [0xff; 6];

impl Arp {
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        let is_arp = integer(frame, 12)? == ETHERTYPE_ARP && array(frame, ETHERNET)? == KIND;
        let is_reply = match integer(frame, ETHERNET + 6)? {
            REQUEST => false,
            REPLY => true,
            _ => return None,
        };
        let end = |at: usize| {
            let ip: [u8; 4] = array(frame, at + 6)?;
            Some((array(frame, at)?, Ipv4Addr::from(ip)))
        };
        let (sender, target) = (end(ETHERNET + 8)?, end(ETHERNET + 18)?);
        is_arp.then_some(Self { is_reply, sender, target })
    }

    /// Writes the frame to the front of `out`: a request to all, a reply to its target.
    pub(super) fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..LEN)?;
        let dst = if self.is_reply { self.target.0 } else { BROADCAST };
        put_ethernet(out, dst, self.sender.0, ETHERTYPE_ARP);
        put(out, ETHERNET, &KIND);
        let operation = if self.is_reply { REPLY } else { REQUEST };
        put(out, ETHERNET + 6, &operation.to_be_bytes());
        for (at, (mac, ip)) in [(ETHERNET + 8, self.sender), (ETHERNET + 18, self.target)] {
            put(out, at, &mac);
            put(out, at + 6, &ip.octets());
        }
        Some(LEN)
    }
}
