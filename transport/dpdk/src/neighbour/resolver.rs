//! Asks for the MACs of peers, or of the gateway where they are on another subnet.
//!
//! ```text
//!   asking --- answer ---> known
//!     |  ask again after 20 ms, 40 ms, ... 1 s
//!     +--- patience over ---> silent --- a late answer ---> known
//! ```
//!
//! Source: RFC 826, RFC 4861 sec. 7.2. A gratuitous answer from a peer counts as an answer.

use core::net::IpAddr;

use transport::{Duration, Instant};

use super::arp::Arp;
use super::icmp::{self, Message};
use super::octets::{HOPS, Icmp};
use super::station::is_unicast;
use super::{Mac, Station};

/// The state of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Send to this MAC.
    Known(Mac),
    /// The peer has not answered yet.
    Asking,
    /// The peer has not answered in the time that the resolver waits.
    Silent,
    /// The peer is on another subnet, and there is no gateway.
    Unreachable,
}

/// Resolves a fixed list of peers. O(peers) a call.
#[derive(Clone, Debug)]
pub struct Resolver {
    station: Station,
    /// For each peer: its place in `hops`, if it has any.
    peers: Vec<Option<usize>>,
    hops: Vec<NextHop>,
    give_up_at: Instant,
}

/// A host or gateway whose MAC is wanted.
#[derive(Clone, Copy, Debug)]
struct NextHop {
    ip: IpAddr,
    state: Resolution,
    ask_at: Instant,
    pause: Duration,
}

const PAUSE_FIRST: Duration = Duration::from_ms(20);
const PAUSE_MAX: Duration = Duration::from_s(1);

impl Resolver {
    /// Will ask for all `peers` whose MAC is not given, from `now` on, for as long as `patience`.
    #[must_use]
    pub fn new(
        station: Station,
        peers: &[(IpAddr, Option<Mac>)],
        now: Instant,
        patience: Duration,
    ) -> Self {
        let mut hops: Vec<NextHop> = Vec::new();
        let mut peer = |&(ip, given): &(IpAddr, Option<Mac>)| {
            let ip = if given.is_some() { ip } else { station.next_hop(ip)? };
            let state = given.map_or(Resolution::Asking, Resolution::Known);
            let known = hops.iter().position(|hop| hop.ip == ip && hop.state == state);
            Some(known.unwrap_or_else(|| {
                hops.push(NextHop { ip, state, ask_at: now, pause: PAUSE_FIRST });
                hops.len() - 1
            }))
        };
        let peers = peers.iter().map(&mut peer).collect();
        Self { station, peers, hops, give_up_at: now + patience }
    }

    /// The state of the peer at this place of the list.
    #[must_use]
    pub fn peer(&self, index: usize) -> Resolution {
        let hop = self.peers.get(index).copied().flatten().and_then(|hop| self.hops.get(hop));
        hop.map_or(Resolution::Unreachable, |hop| hop.state)
    }

    /// Whether no request is outstanding any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.hops.iter().all(|hop| hop.state != Resolution::Asking)
    }

    /// When to call [`Resolver::poll_transmit`] again; `None` when it is over.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let asking = self.hops.iter().filter(|hop| hop.state == Resolution::Asking);
        asking.map(|hop| hop.ask_at.min(self.give_up_at)).min()
    }

    /// Writes the next request that is due to the front of `out`; ask again until `None`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let asking = |hop: &&mut NextHop| hop.state == Resolution::Asking;
        if now >= self.give_up_at {
            self.hops.iter_mut().filter(asking).for_each(|hop| hop.state = Resolution::Silent);
            return None;
        }
        let hop = self.hops.iter_mut().filter(asking).find(|hop| hop.ask_at <= now)?;
        hop.ask_at = now + hop.pause;
        hop.pause = (hop.pause + hop.pause).min(PAUSE_MAX);
        let ip = hop.ip;
        self.request(ip, out)
    }

    fn request(&self, ip: IpAddr, out: &mut [u8]) -> Option<usize> {
        let Station { mac, ip: own, .. } = self.station;
        match (own, ip) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => {
                let arp = Arp { is_reply: false, sender: (mac, own), target: ([0; 6], ip) };
                arp.emit(out)
            }
            (IpAddr::V6(_), IpAddr::V6(ip)) => {
                let (group, group_mac) = icmp::solicited_node(ip);
                let body = icmp::solicitation(ip, mac);
                let (dst, kind) = (IpAddr::V6(group), body[0]);
                let ask = Icmp {
                    src_mac: mac,
                    dst_mac: group_mac,
                    src: own,
                    dst,
                    hops: HOPS,
                    kind,
                    body: &body,
                };
                ask.emit(out)
            }
            _ => None,
        }
    }

    /// Reads a received frame; true when it was an answer that was waited for.
    pub fn handle_frame(&mut self, frame: &[u8]) -> bool {
        let Some((ip, mac)) = binding_in(frame).filter(|(_, mac)| is_unicast(*mac)) else {
            return false;
        };
        let waits = |hop: &&mut NextHop| {
            hop.ip == ip && matches!(hop.state, Resolution::Asking | Resolution::Silent)
        };
        let Some(hop) = self.hops.iter_mut().find(waits) else { return false };
        hop.state = Resolution::Known(mac);
        true
    }
}

/// The address and the MAC that belong together by a frame.
fn binding_in(frame: &[u8]) -> Option<(IpAddr, Mac)> {
    if let Some(arp) = Arp::parse(frame) {
        // A request carries its sender's addresses as well (RFC 826).
        return Some((arp.sender.1.into(), arp.sender.0));
    }
    let packet = Icmp::parse(frame)?;
    match Message::parse(packet.src.is_ipv6(), packet.body)? {
        Message::Advertisement(ip, mac) if packet.hops == HOPS => Some((ip.into(), mac)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = |ms| Instant::ZERO + Duration::from_ms(ms);
    const PATIENCE: Duration = Duration::from_s(5);

    fn station(last: u8, is_v6: bool) -> Station {
        let ip: IpAddr = if is_v6 {
            format!("fd00::{last:x}").parse().unwrap()
        } else {
            IpAddr::from([192, 0, 2, last])
        };
        let prefix = if is_v6 { 64 } else { 24 };
        Station { mac: [2, 0, 0, 0, 0, last], ip, prefix, gateway: None }
    }

    fn resolver(of: Station, peers: &[(IpAddr, Option<Mac>)]) -> Resolver {
        Resolver::new(of, peers, Instant::ZERO, PATIENCE)
    }

    #[test]
    fn a_request_is_answered_by_its_host_alone_and_resolves_it() {
        for is_v6 in [false, true] {
            let [asker, asked, other] = [1, 2, 3].map(|last| station(last, is_v6));
            let mut resolver = resolver(asker, &[(asked.ip, None)]);
            let (mut request, mut reply) = ([0; 128], [0; 128]);
            let len = resolver.poll_transmit(Instant::ZERO, &mut request).unwrap();
            assert_eq!(other.answer(&request[..len], &mut reply), None);
            let answered = asked.answer(&request[..len], &mut reply).unwrap();
            assert_eq!(reply[..6], asker.mac);
            assert!(resolver.handle_frame(&reply[..answered]));
            assert_eq!(resolver.peer(0), Resolution::Known(asked.mac));
            assert!(resolver.is_over() && resolver.poll_timeout().is_none());
            assert!(!resolver.handle_frame(&reply[..answered]), "no question waits any more");
        }
    }

    #[test]
    fn a_silent_peer_is_asked_less_and_less_often_and_then_given_up() {
        let mut resolver = resolver(station(1, false), &[(station(2, false).ip, None)]);
        let mut out = [0; 64];
        let mut asked = Vec::new();
        while let Some(at) = resolver.poll_timeout() {
            if resolver.poll_transmit(at, &mut out).is_some() {
                asked.push(at.since(Instant::ZERO).as_ps() / 1_000_000_000);
            }
        }
        assert_eq!(asked, [0, 20, 60, 140, 300, 620, 1260, 2260, 3260, 4260]);
        assert_eq!(resolver.peer(0), Resolution::Silent);
        assert!(resolver.is_over());
        let mut late = [0; 64];
        let arp = Arp::parse(&out).unwrap();
        assert_eq!(arp.target.1, std::net::Ipv4Addr::new(192, 0, 2, 2));
        let len = station(2, false).answer(&out, &mut late).unwrap();
        assert!(resolver.handle_frame(&late[..len]));
        assert_eq!(resolver.peer(0), Resolution::Known(station(2, false).mac));
    }

    #[test]
    fn peers_on_another_subnet_share_one_question_for_the_gateway() {
        let gateway = Some(IpAddr::from([192, 0, 2, 254]));
        let own = Station { gateway, ..station(1, false) };
        let far = [IpAddr::from([198, 51, 100, 1]), IpAddr::from([198, 51, 100, 2])];
        let mut asking = resolver(own, &far.map(|ip| (ip, None)));
        let mut out = [0; 64];
        assert!(asking.poll_transmit(MS(0), &mut out).is_some());
        assert_eq!(asking.poll_transmit(MS(0), &mut out), None);
        assert_eq!(Arp::parse(&out).unwrap().target.1, std::net::Ipv4Addr::new(192, 0, 2, 254));
        let alone = resolver(Station { gateway: None, ..own }, &far.map(|ip| (ip, None)));
        assert_eq!(alone.peer(1), Resolution::Unreachable);
        assert!(alone.is_over());
    }

    #[test]
    fn a_given_mac_is_never_asked_for() {
        let mac = [2, 9, 9, 9, 9, 9];
        let mut resolver = resolver(station(1, true), &[("fd01::1".parse().unwrap(), Some(mac))]);
        assert_eq!(resolver.poll_transmit(MS(0), &mut [0; 128]), None);
        assert_eq!(resolver.peer(0), Resolution::Known(mac));
    }

    #[test]
    fn an_advertisement_that_was_forwarded_is_not_accepted() {
        let [asker, asked] = [1, 2].map(|last| station(last, true));
        let mut resolver = resolver(asker, &[(asked.ip, None)]);
        let body = match asked.ip {
            IpAddr::V6(ip) => icmp::advertisement(ip, asked.mac),
            IpAddr::V4(_) => unreachable!("it is IPv6"),
        };
        let mut frame = [0; 128];
        for (hops, takes) in [(254, false), (255, true)] {
            let packet = Icmp {
                src_mac: asked.mac,
                dst_mac: asker.mac,
                src: asked.ip,
                dst: asker.ip,
                hops,
                kind: body[0],
                body: &body,
            };
            let len = packet.emit(&mut frame).unwrap();
            assert_eq!(resolver.handle_frame(&frame[..len]), takes);
        }
    }

    #[test]
    fn a_mac_that_is_no_machines_is_not_learnt() {
        let [asker, asked] = [1, 2].map(|last| station(last, false));
        let mut resolver = resolver(asker, &[(asked.ip, None)]);
        let (mut request, mut reply) = ([0; 64], [0; 64]);
        let len = resolver.poll_transmit(MS(0), &mut request).unwrap();
        let liar = Station { mac: [0xff; 6], ..asked };
        let len = liar.answer(&request[..len], &mut reply).unwrap();
        assert!(!resolver.handle_frame(&reply[..len]));
        assert_eq!(resolver.peer(0), Resolution::Asking);
    }
}
