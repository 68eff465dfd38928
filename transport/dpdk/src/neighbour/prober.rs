//! Echoes to peers: the round-trip time, and whether full frames pass.
//!
//! Each peer in turn gets short echoes, then as many of full length, one under way at a time. A
//! base RTT is that of a full data packet one way and a short acknowledgement back, so it is the
//! mean of both round trips. The least of many round trips counts: any time above it is due to a
//! queue on the way, or to a late poll.
//!
//! A peer that stands still is tried again until a given time. Where full frames are lost, the peer
//! gets short ones once more, which may find that it stood still, and then full ones.

use core::net::IpAddr;

use transport::{Duration, Instant};

use super::icmp::{self, Message};
use super::octets::Icmp;
use super::{Mac, Station};

/// The measurements of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Reach {
    /// Least round trip of short frames.
    pub short: Option<Duration>,
    /// Least round trip of full frames.
    pub full: Option<Duration>,
    /// The longest round trip of all.
    pub longest: Duration,
    /// Nine of ten round trips exceed the least of their length by no more.
    pub jitter: Duration,
    /// Echoes that were not answered in time.
    pub lost: u32,
}

/// The result of a peer's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// A full packet there and a short one back take this long.
    Reached(Duration),
    /// Short frames pass, full ones do not.
    FullFramesLost,
    /// No echo comes back.
    Silent,
}

/// Probes a fixed list of peers.
#[derive(Clone, Debug)]
pub struct Prober {
    station: Station,
    /// Distinguishes our echoes from others'.
    id: u16,
    /// Frame lengths: short and full.
    lengths: [usize; 2],
    /// The body of echoes: zeros behind their headers.
    body: Box<[u8]>,
    peers: Vec<(IpAddr, Mac, Reach)>,
    /// The peer that is probed, as a place in `peers`.
    at: usize,
    /// Echoes that this peer was sent.
    sent: u32,
    sequence: u16,
    /// Round trips of this peer and length.
    trips: Vec<Duration>,
    /// When the echo under way left.
    under_way: Option<Instant>,
    /// Until when a peer that answers nothing is tried again.
    until: Instant,
    /// Until when this peer is sent short echoes once more, because full ones were lost.
    again_until: Option<Instant>,
    /// Whether an echo of this length was answered since the peer was last sent the first of them.
    answered: bool,
}

/// Echoes of each length.
const ECHOES: u32 = 32;
/// If so many of the first echoes of a length are lost in a row, the other echoes of that length
/// are left out.
const LOST_MAX: u32 = 3;
/// Time after which an echo counts as lost: far longer than any network's round trip, or any break
/// of a poller.
const PATIENCE: Duration = Duration::from_ms(200);
/// How long short echoes are sent again after full ones were lost. Behind a full frame that a link
/// drops, AF_PACKET may send no other.
const AGAIN: Duration = Duration::from_s(2);
/// The shortest frame of Ethernet.
const SHORT: usize = 60;

impl Reach {
    /// The verdict that follows from the measurements.
    #[must_use]
    pub fn verdict(&self) -> ProbeResult {
        match (self.short, self.full) {
            (None, _) => ProbeResult::Silent,
            (Some(_), None) => ProbeResult::FullFramesLost,
            (Some(short), Some(full)) => ProbeResult::Reached((short + full).mul_ratio(1, 2)),
        }
    }
}

impl Prober {
    /// Will probe `peers` by echoes up to frames of `full` bytes. One that answers nothing is tried
    /// again until `until`.
    #[must_use]
    pub fn new(
        station: Station,
        id: u16,
        full: u16,
        (peers, until): (&[(IpAddr, Mac)], Instant),
    ) -> Self {
        // IPv6 headers and an echo's are longer than Ethernet's shortest frame.
        let short = SHORT.max(14 + 40 + icmp::ECHO);
        let full = usize::from(full).max(short);
        let peers = peers.iter().map(|&(ip, mac)| (ip, mac, Reach::default())).collect();
        Self {
            station,
            id,
            lengths: [short, full],
            body: vec![0; full].into_boxed_slice(),
            peers,
            at: 0,
            sent: 0,
            sequence: 0,
            trips: Vec::with_capacity(ECHOES as usize),
            under_way: None,
            until,
            again_until: None,
            answered: false,
        }
    }

    /// The measurements so far, in the order of the list.
    pub fn reached(&self) -> impl Iterator<Item = Reach> + '_ {
        self.peers.iter().map(|(_, _, reach)| *reach)
    }

    /// Whether all peers have been probed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.at >= self.peers.len()
    }

    /// Writes the next echo to `out`, which has room for a full frame, if it is time for one.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        if let Some(left) = self.under_way {
            if now.since(left) < PATIENCE {
                return None;
            }
            self.under_way = None;
            self.note(None, now);
        }
        let &(ip, mac, _) = self.peers.get(self.at)?;
        let is_v6 = ip.is_ipv6();
        self.sequence = self.sequence.wrapping_add(1);
        let head = icmp::echo_request(is_v6, self.id, self.sequence);
        let headers = 14 + if is_v6 { 40 } else { 20 };
        let length = self.lengths[usize::from(self.sent >= ECHOES)];
        let body = self.body.get_mut(..length - headers)?;
        body[..head.len()].copy_from_slice(&head);
        let echo = Icmp {
            src_mac: self.station.mac,
            dst_mac: mac,
            src: self.station.ip,
            dst: ip,
            hops: 64,
            kind: head[0],
            body,
        };
        let len = echo.emit(out)?;
        self.under_way = Some(now);
        Some(len)
    }

    /// Takes a received frame; whether it was the answer waited for.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> bool {
        let Some(left) = self.under_way else { return false };
        let Some(packet) = Icmp::parse(frame) else { return false };
        let wanted = Some(Message::EchoReply(self.id, self.sequence));
        let from = self.peers.get(self.at).map(|(ip, ..)| *ip);
        let is_it = Message::parse(packet.src.is_ipv6(), packet.body) == wanted
            && Some(packet.src) == from
            && packet.dst == self.station.ip;
        if is_it {
            self.under_way = None;
            self.note(Some(now.since(left)), now);
        }
        is_it
    }

    /// Counts an echo, and goes on to the next length or peer.
    fn note(&mut self, rtt: Option<Duration>, now: Instant) {
        let Some((_, _, reach)) = self.peers.get_mut(self.at) else { return };
        let is_full = self.sent >= ECHOES;
        let least = if is_full { &mut reach.full } else { &mut reach.short };
        match rtt {
            Some(rtt) => {
                *least = Some(least.map_or(rtt, |least| least.min(rtt)));
                reach.longest = reach.longest.max(rtt);
                self.trips.push(rtt);
            }
            None => reach.lost += 1,
        }
        self.sent += 1;
        let of_length = self.sent - u32::from(is_full) * ECHOES;
        self.answered |= rtt.is_some();
        if !self.answered && of_length >= LOST_MAX {
            let until = self.again_until.unwrap_or(self.until);
            let again = if is_full { self.again_until.is_none() } else { now < until };
            if is_full {
                self.again_until = Some(now + AGAIN);
            }
            self.sent = if again { 0 } else { 2 * ECHOES };
        }
        if self.sent.is_multiple_of(ECHOES) {
            reach.jitter = reach.jitter.max(jitter_of(&mut self.trips));
            self.trips.clear();
            self.answered = false;
        }
        if self.sent == 2 * ECHOES {
            self.at += 1;
            self.sent = 0;
            self.again_until = None;
        }
    }
}

/// How much longer than the least the longest of nine of ten is; zero of none.
fn jitter_of(trips: &mut [Duration]) -> Duration {
    trips.sort_unstable();
    let place = (trips.len() * 9 / 10).min(trips.len().saturating_sub(1));
    trips.get(place).map_or(Duration::ZERO, |trip| trip.saturating_sub(trips[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_us;

    /// Probes one peer over a network that takes `delay(length)` each way, or loses the frame.
    fn probe(is_v6: bool, full: u16, delay: impl Fn(usize) -> Option<Duration>) -> Reach {
        probe_until(Instant::ZERO, is_v6, full, |_, len| delay(len))
    }

    /// As [`probe`], with the time at which a frame leaves; a silent peer is tried until `until`.
    fn probe_until(
        until: Instant,
        is_v6: bool,
        full: u16,
        delay: impl Fn(Instant, usize) -> Option<Duration>,
    ) -> Reach {
        let station = |last: u8| {
            let v6 = format!("fd00::{last}").parse().unwrap();
            let ip = if is_v6 { v6 } else { IpAddr::from([10, 0, 0, last]) };
            Station { mac: [2, 0, 0, 0, 0, last], ip, prefix: 8, gateway: None }
        };
        let (own, peer) = (station(1), station(2));
        let mut prober = Prober::new(own, 7, full, (&[(peer.ip, peer.mac)], until));
        let (mut out, mut back) = (vec![0; 10_000], vec![0; 10_000]);
        let mut now = Instant::ZERO;
        while !prober.is_over() {
            let Some(len) = prober.poll_transmit(now, &mut out) else {
                now += PATIENCE;
                continue;
            };
            let echo = &out[..len];
            assert!(!prober.handle_frame(now, echo), "our own echo is no answer");
            assert_eq!(own.answer(echo, &mut back), None, "nor a question to us");
            assert_eq!(peer.answer(echo, &mut back), Some(len));
            if let Some(delay) = delay(now, len) {
                now += delay + delay;
                assert!(prober.handle_frame(now, &back[..len]));
                assert!(!prober.handle_frame(now, &back[..len]), "an answer counts once");
            }
        }
        prober.reached().next().unwrap()
    }

    #[test]
    fn a_base_rtt_is_a_full_frame_there_and_a_short_one_back() {
        for is_v6 in [false, true] {
            let reach = probe(is_v6, 4176, |len| Some(if len > 1000 { US(9) } else { US(5) }));
            assert_eq!(reach.verdict(), ProbeResult::Reached(US(14)));
            assert_eq!((reach.longest, reach.lost), (US(18), 0));
        }
    }

    #[test]
    fn frames_that_are_too_long_for_the_network_differ_from_a_dead_peer() {
        let reach = probe(false, 4176, |len| (len <= 1514).then_some(US(5)));
        assert_eq!((reach.verdict(), reach.lost), (ProbeResult::FullFramesLost, 2 * LOST_MAX));
        let reach = probe(true, 4176, |_| None);
        assert_eq!((reach.verdict(), reach.lost), (ProbeResult::Silent, LOST_MAX));
    }

    #[test]
    fn a_peer_that_stands_still_is_reached_once_it_goes_on() {
        let at = |ms| Instant::ZERO + Duration::from_ms(ms);
        let stands_still = |ms: core::ops::Range<u64>| {
            probe_until(at(10_000), false, 4176, move |now, _| {
                let is_still = now >= at(ms.start) && now < at(ms.end);
                (!is_still).then_some(US(7))
            })
        };
        assert_eq!(stands_still(0..9000).verdict(), ProbeResult::Reached(US(14)));
        assert_eq!(stands_still(0..11_000).verdict(), ProbeResult::Silent);
        // From the first full echo on: 32 short ones take 448 us.
        let full = |until_ms: u64| {
            let from = Instant::ZERO + US(448);
            probe_until(at(10_000), false, 4176, move |now, _| {
                (now < from || now >= at(until_ms)).then_some(US(7))
            })
        };
        assert_eq!(full(2000).verdict(), ProbeResult::Reached(US(14)));
        assert_eq!(full(11_000).verdict(), ProbeResult::FullFramesLost);
    }

    #[test]
    fn jitter_leaves_out_the_least_tenth_of_chance() {
        let count = std::cell::Cell::new(0_u64);
        // Of each length, two of 32 are far off, and the others up to 29 us.
        let reach = probe(false, 1514, |_| {
            count.set(count.get() + 1);
            let place = (count.get() - 1) % 32;
            Some(if place < 2 { US(5000) } else { US(100 + place / 2) })
        });
        assert_eq!(reach.longest, US(10_000));
        assert!((US(24)..=US(30)).contains(&reach.jitter), "{:?}", reach.jitter);
    }

    #[test]
    fn a_few_lost_echoes_do_not_matter() {
        let count = std::cell::Cell::new(0);
        let reach = probe(false, 1514, |_| {
            count.set(count.get() + 1);
            (count.get() % 3 == 0).then_some(US(7))
        });
        assert_eq!(reach.verdict(), ProbeResult::Reached(US(14)));
        assert!(reach.lost > 30);
    }
}
