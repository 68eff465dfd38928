//! The parts of ICMP that neighbours need: echoes of both versions, and IPv6 solicitations and
//! advertisements.
//!
//! Source: RFC 792, RFC 4443 sec. 4, RFC 4861 sec. 4.3, 4.4 and 4.6.1.

use core::net::Ipv6Addr;

use super::Mac;
use super::octets::{array, integer, put};

/// A message by its kind; bodies start at the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Answer this.
    EchoRequest,
    /// The answer to identifier and sequence number.
    EchoReply(u16, u16),
    /// A request for the MAC of this address.
    Solicitation(Ipv6Addr),
    /// This address is at this MAC.
    Advertisement(Ipv6Addr, Mac),
}

const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
/// The flags "solicited" and "override", which replaces a known MAC.
const FLAGS: u8 = 0x60;

/// Octets of an echo's header.
pub(super) const ECHO: usize = 8;
/// Octets of a solicitation or an advertisement with one MAC.
pub(super) const DISCOVERY: usize = 32;

impl Message {
    pub(super) fn parse(is_v6: bool, body: &[u8]) -> Option<Self> {
        let [kind, code] = array(body, 0)?;
        if code != 0 {
            return None;
        }
        match (is_v6, kind) {
            (false, ECHO_REQUEST_V4) | (true, ECHO_REQUEST_V6) if body.len() >= ECHO => {
                Some(Self::EchoRequest)
            }
            (false, ECHO_REPLY_V4) | (true, ECHO_REPLY_V6) => {
                Some(Self::EchoReply(integer(body, 4)?, integer(body, 6)?))
            }
            (true, SOLICITATION) => Some(Self::Solicitation(array::<16>(body, 8)?.into())),
            (true, ADVERTISEMENT) => {
                let target = array::<16>(body, 8)?.into();
                Some(Self::Advertisement(target, option(body, TARGET_MAC)?))
            }
            _ => None,
        }
    }
}

/// The MAC in the option of this kind; options are (kind, length in 8 octets, ...).
fn option(body: &[u8], wanted: u8) -> Option<Mac> {
    let mut at = DISCOVERY - 8;
    // Each turn goes on by 8 octets at least.
    loop {
        let [kind, length] = array(body, at)?;
        if kind == wanted {
            return array(body, at + 2);
        }
        if length == 0 {
            return None;
        }
        at += usize::from(length) * 8;
    }
}

/// An echo request, to be padded behind its 8 octets.
pub(super) fn echo_request(is_v6: bool, id: u16, sequence: u16) -> [u8; ECHO] {
    let mut body = [0; ECHO];
    body[0] = if is_v6 { ECHO_REQUEST_V6 } else { ECHO_REQUEST_V4 };
    put(&mut body, 4, &id.to_be_bytes());
    put(&mut body, 6, &sequence.to_be_bytes());
    body
}

/// The type that answers an echo request.
pub(super) const fn echo_reply_kind(is_v6: bool) -> u8 {
    if is_v6 { ECHO_REPLY_V6 } else { ECHO_REPLY_V4 }
}

/// A request for the MAC of `target`, to be answered to `mac`.
pub(super) fn solicitation(target: Ipv6Addr, mac: Mac) -> [u8; DISCOVERY] {
    discovery(SOLICITATION, 0, target, (SOURCE_MAC, mac))
}

/// "`target` is at `mac`."
pub(super) fn advertisement(target: Ipv6Addr, mac: Mac) -> [u8; DISCOVERY] {
    discovery(ADVERTISEMENT, FLAGS, target, (TARGET_MAC, mac))
}

fn discovery(kind: u8, flags: u8, target: Ipv6Addr, (option, mac): (u8, Mac)) -> [u8; DISCOVERY] {
    let mut body = [0; DISCOVERY];
    (body[0], body[4]) = (kind, flags);
    put(&mut body, 8, &target.octets());
    put(&mut body, DISCOVERY - 8, &[option, 1]);
    put(&mut body, DISCOVERY - 6, &mac);
    body
}

/// The multicast address at which the host of `target` receives solicitations (RFC 4291 sec.
/// 2.7.1), and its MAC (RFC 2464 sec. 7).
pub(super) fn solicited_node(target: Ipv6Addr) -> (Ipv6Addr, Mac) {
    let [.., a, b, c] = target.octets();
    let [high, low] = [u16::from_be_bytes([0xff, a]), u16::from_be_bytes([b, c])];
    (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, high, low), [0x33, 0x33, 0xff, a, b, c])
}
