//! Echoes to peers: the round-trip time, and whether full frames pass.
//!
//! Each peer in turn gets short echoes, then as many of full length, one under way at a time. A
//! base RTT is that of a full data packet one way and a short acknowledgement back, so it is the
//! mean of both round trips. The least of many round trips counts: any time above it is due to a
//! queue on the way, or to a late poll.
//!
//! A peer that stands still is tried again until a given time. Where full frames are lost, the peer
//! gets short ones once more, which may find that it stood still, and then full ones.
//!
//! An answer that comes late is from a distant peer, or from one that stood still. So it is no
//! measurement: it only makes the prober wait longer for the answer to the next echo, whose round
//! trip is one.

use core::net::IpAddr;
use std::collections::VecDeque;

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
    /// The longest round trip of those that are at most 200 ms above the least of their length: in
    /// any other the peer stood still.
    pub longest: Duration,
    /// Nine of ten round trips exceed the least of their length by no more.
    pub jitter: Duration,
    /// Echoes that were not answered in time. Echoes that a distant peer was sent before it was
    /// found to be distant count, too.
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
    /// Echoes that this peer was sent; full ones count from [`ECHOES`] on.
    sent: u32,
    sequence: u16,
    /// Round trips of this peer and length.
    trips: Vec<Duration>,
    /// When the echo under way left.
    under_way: Option<Instant>,
    /// Sequence numbers of echoes of this peer and length that were not answered in time, and when
    /// they left; the newest last.
    late: VecDeque<(u16, Instant)>,
    /// Time after which an echo counts as lost.
    patience: Duration,
    /// Until when a peer that answers nothing is tried again.
    until: Instant,
    /// When this peer was sent the first echo.
    began: Instant,
    /// Echoes of this peer that were lost one after another.
    lost_in_row: u32,
    /// Until when this peer is sent short echoes once more, because full ones were lost.
    again_until: Option<Instant>,
    /// Whether an echo of this length was answered since the peer was last sent the first of them.
    answered: bool,
}

/// Echoes of each length, at most.
const ECHOES: u32 = 32;
/// Where the round trips of a length have taken so long, [`ANSWERS_MIN`] of them are enough: with
/// 100 ms each way, 64 echoes would take 13 s for each peer.
const LONG_ENOUGH: Duration = Duration::from_s(1);
/// The fewest answers of each length that are a measurement.
const ANSWERS_MIN: usize = 4;
/// If so many of the first echoes of a length are lost in a row, the other echoes of that length
/// are left out.
const LOST_MAX: u32 = 3;
/// Time after which an echo counts as lost: longer than most networks' round trips. Late answers
/// lengthen it.
const PATIENCE: Duration = Duration::from_ms(200);
/// More than the longest round trip, which is that of `headrace dci --wan-delay 900ms`.
const RTT_MAX: Duration = Duration::from_s(2);
/// So many late echoes can still be answered. In [`RTT_MAX`] no more leave without an answer.
const LATE_MAX: usize = 16;
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
            late: VecDeque::with_capacity(LATE_MAX),
            patience: PATIENCE,
            until,
            began: Instant::ZERO,
            lost_in_row: 0,
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
            if now.since(left) < self.patience {
                return None;
            }
            self.under_way = None;
            if self.late.len() == LATE_MAX {
                self.late.pop_front();
            }
            self.late.push_back((self.sequence, left));
            self.note(None, now);
        }
        let &(ip, mac, reach) = self.peers.get(self.at)?;
        if (self.sent, reach.lost) == (0, 0) {
            self.began = now;
        }
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

    /// Takes a received frame; whether it was an answer of the peer that is probed.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> bool {
        let Some(packet) = Icmp::parse(frame) else { return false };
        let from = self.peers.get(self.at).map(|(ip, ..)| *ip);
        if Some(packet.src) != from || packet.dst != self.station.ip {
            return false;
        }
        let Some(Message::EchoReply(id, sequence)) =
            Message::parse(packet.src.is_ipv6(), packet.body)
        else {
            return false;
        };
        if id != self.id {
            return false;
        }
        if let Some(left) = self.under_way.filter(|_| sequence == self.sequence) {
            self.under_way = None;
            self.late.clear();
            self.note(Some(now.since(left)), now);
        } else if let Some((_, left)) = self.late.iter().find(|late| late.0 == sequence) {
            self.patience = self.patience.max(now.since(*left) * 2).min(RTT_MAX);
            // The next echo leaves at once. Answers to other late echoes would say no more.
            self.late.clear();
            self.under_way = None;
        }
        true
    }

    /// Counts an echo, and goes on to the next length or peer.
    fn note(&mut self, rtt: Option<Duration>, now: Instant) {
        let Some((_, _, reach)) = self.peers.get_mut(self.at) else { return };
        let is_full = self.sent >= ECHOES;
        let least = if is_full { &mut reach.full } else { &mut reach.short };
        match rtt {
            Some(rtt) => {
                *least = Some(least.map_or(rtt, |least| least.min(rtt)));
                self.trips.push(rtt);
                self.patience = PATIENCE.max(rtt * 2).min(RTT_MAX);
                (self.answered, self.lost_in_row) = (true, 0);
            }
            None => (reach.lost, self.lost_in_row) = (reach.lost + 1, self.lost_in_row + 1),
        }
        if let Some(least) = *least {
            // In longer ones the peer stood still.
            self.trips.retain(|trip| *trip <= least + PATIENCE);
        }
        self.sent += 1;
        let of_length = self.sent - u32::from(is_full) * ECHOES;
        if !self.answered && of_length >= LOST_MAX {
            let until = self.again_until.unwrap_or(self.until.max(self.began + RTT_MAX));
            let again = if is_full { self.again_until.is_none() } else { now < until };
            if is_full {
                self.again_until = Some(now + AGAIN);
            }
            self.sent = if again { 0 } else { 2 * ECHOES };
        }
        let taken = self.trips.iter().fold(Duration::ZERO, |sum, trip| sum + *trip);
        let is_measured = taken >= LONG_ENOUGH && self.trips.len() >= ANSWERS_MIN;
        let is_gone = self.patience > PATIENCE && self.lost_in_row >= LOST_MAX;
        if is_measured || (self.answered && is_gone) {
            self.sent = self.sent.next_multiple_of(ECHOES);
        }
        if self.sent.is_multiple_of(ECHOES) {
            let longest = self.trips.iter().max().copied().unwrap_or_default();
            reach.longest = reach.longest.max(longest);
            reach.jitter = reach.jitter.max(jitter_of(&mut self.trips));
            self.trips.clear();
            (self.answered, self.lost_in_row) = (false, 0);
        }
        if (self.sent >= ECHOES) != is_full {
            self.late.clear();
        }
        if self.sent == 2 * ECHOES {
            self.at += 1;
            self.sent = 0;
            self.late.clear();
            self.patience = PATIENCE;
            self.again_until = None;
        }
    }
}

/// How much longer than the least the longest of nine of ten is, or of all where they are fewer
/// than ten; zero of none.
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
        probe_all(1, until, (is_v6, full), delay).0[0]
    }

    /// As [`probe_until`], with so many peers; also gives the time at which all echoes were over.
    fn probe_all(
        count: u8,
        until: Instant,
        (is_v6, full): (bool, u16),
        delay: impl Fn(Instant, usize) -> Option<Duration>,
    ) -> (Vec<Reach>, Instant) {
        let station = |last: u8| {
            let v6 = format!("fd00::{last}").parse().unwrap();
            let ip = if is_v6 { v6 } else { IpAddr::from([10, 0, 0, last]) };
            Station { mac: [2, 0, 0, 0, 0, last], ip, prefix: 8, gateway: None }
        };
        let own = station(1);
        let peers: Vec<Station> = (0..count).map(|place| station(2 + place)).collect();
        let addresses: Vec<_> = peers.iter().map(|peer| (peer.ip, peer.mac)).collect();
        let mut prober = Prober::new(own, 7, full, (&addresses, until));
        let (mut out, mut back) = (vec![0; 10_000], vec![0; 10_000]);
        let mut now = Instant::ZERO;
        let mut answers: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        while !prober.is_over() {
            if let Some(len) = prober.poll_transmit(now, &mut out) {
                let echo = &out[..len];
                assert!(!prober.handle_frame(now, echo), "our own echo is no answer");
                assert_eq!(own.answer(echo, &mut back), None, "nor a question to us");
                assert_eq!(peers[prober.at].answer(echo, &mut back), Some(len));
                if let Some(delay) = delay(now, len) {
                    answers.push_back((now + delay + delay, back[..len].to_vec()));
                }
            }
            let look = now + PATIENCE;
            now = answers.front().map_or(look, |answer| answer.0.min(look));
            if let Some((_, answer)) = answers.pop_front_if(|answer| answer.0 <= now) {
                prober.handle_frame(now, &answer);
                let before = (prober.sent, prober.trips.len());
                prober.handle_frame(now, &answer);
                assert_eq!((prober.sent, prober.trips.len()), before, "an answer counts once");
            }
        }
        (prober.reached().collect(), now)
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
        assert_eq!((reach.verdict(), reach.lost), (ProbeResult::Silent, 4 * LOST_MAX));
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
    fn echoes_that_waited_for_a_peer_are_no_measurement() {
        let goes_on = Instant::ZERO + Duration::from_s(3);
        let reach = probe_until(goes_on, false, 4176, |now, _| {
            Some(if now < goes_on { goes_on.since(now).mul_ratio(1, 2) } else { US(7) })
        });
        assert_eq!(reach.verdict(), ProbeResult::Reached(US(14)));
        assert_eq!((reach.longest, reach.jitter), (US(14), Duration::ZERO));
        // The peer stands still twice; the second time, an answer is awaited for longer.
        let count = std::cell::Cell::new(0_u64);
        let reach = probe(false, 4176, |_| {
            count.set(count.get() + 1);
            Some(match count.get() {
                1 => Duration::from_ms(250),
                4 => Duration::from_ms(240),
                _ => US(7),
            })
        });
        assert_eq!(reach.verdict(), ProbeResult::Reached(US(14)));
        assert_eq!(reach.longest, US(14));
    }

    #[test]
    fn a_peer_of_which_every_answer_is_later_is_given_up_in_time() {
        let delay = std::cell::Cell::new(Duration::from_ms(110));
        let all = probe_all(1, Instant::ZERO, (false, 4176), |_, _| {
            delay.set((delay.get() + delay.get() / 2).min(Duration::from_s(1000)));
            Some(delay.get())
        });
        assert!(all.1 < Instant::ZERO + Duration::from_s(30), "{:?}", all.1);
        assert!(all.0[0].longest <= RTT_MAX);
    }

    #[test]
    fn jitter_about_the_first_patience_is_measured() {
        let count = std::cell::Cell::new(0_u64);
        let reach = probe(false, 4176, |_| {
            count.set(count.get() + 1);
            Some(Duration::from_ms(if count.get().is_multiple_of(3) { 115 } else { 97 }))
        });
        assert_eq!((reach.longest, reach.jitter), (Duration::from_ms(230), Duration::from_ms(36)));
    }

    /// A border switch emulates up to 900 ms each way.
    #[test]
    fn distant_peers_are_reached_by_few_echoes() {
        for (count, ms) in [(1, 10), (1, 99), (2, 100), (5, 101), (4, 350), (3, 600), (3, 900)] {
            let (there, until) = (Duration::from_ms(ms), Instant::ZERO + Duration::from_s(10));
            let all = probe_all(count, until, (false, 4176), |_, _| Some(there));
            for reach in all.0 {
                assert_eq!(reach.verdict(), ProbeResult::Reached(there * 2), "{ms} ms");
                assert_eq!((reach.longest, reach.jitter), (there * 2, Duration::ZERO), "{ms} ms");
            }
            let each = Duration::from_s(3) + there * 2 * 9;
            assert!(all.1 < Instant::ZERO + each * count.into(), "{ms} ms: {:?}", all.1);
        }
    }

    #[test]
    fn a_distant_peer_that_goes_is_given_up_after_some_echoes() {
        let (there, goes) = (Duration::from_ms(900), Instant::ZERO + Duration::from_s(6));
        let all = probe_all(1, goes, (false, 4176), |now, _| (now < goes).then_some(there));
        assert_eq!(all.0[0].full, None);
        assert!(all.1 < Instant::ZERO + Duration::from_s(40), "{:?}", all.1);
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
