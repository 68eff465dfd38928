//! Limits how far a host may run ahead of its emulated link.
//!
//! The soft switch serialises what a host sends at the link's rate. So a packet that the host hands
//! over early only waits there, and its wait would look like congestion. The pacer keeps the device
//! a few packets ahead and no more. Times are network time, lengths bytes; it never sleeps.

use transport::{Bytes, Duration, Instant, Rate};

/// The state of one emulated link's transmitter.
///
/// The depth is 4 full packets or two poll intervals, whichever is longer, but at most 64 packets.
/// With a poll every half depth, the line is never idle while there is something to send. A late
/// poll never costs rate beyond its bounded credit. When the host had used all its room and the
/// line ran dry before the next poll, up to one more depth may follow at once.
#[derive(Clone, Copy, Debug)]
pub struct LinkPacer {
    rate: Rate,
    /// The time of a full packet on the line.
    packet: Duration,
    depth: Duration,
    /// When the line will have sent everything handed over so far.
    free_at: Instant,
    /// The instant of the last poll.
    polled_at: Instant,
    /// The poll interval, averaged over about 8.
    interval: Duration,
    /// Whether the last poll left the host no room, so that it has something to send.
    was_full: bool,
}

const DEPTH_MIN_PKTS: u64 = 4;
const DEPTH_MAX_PKTS: u64 = 64;
const INTERVAL_WEIGHT: u64 = 8;

impl LinkPacer {
    /// An idle link of `rate`, above zero, for packets of at most `packet` bytes.
    #[must_use]
    pub fn new(rate: Rate, packet: Bytes) -> Self {
        let time = rate.time_for(packet).max(Duration::from_ps(1));
        Self {
            rate,
            packet: time,
            depth: time * DEPTH_MIN_PKTS,
            free_at: Instant::ZERO,
            polled_at: Instant::ZERO,
            interval: Duration::ZERO,
            was_full: false,
        }
    }

    /// Full packets that may be handed over at `now`; call it at every poll.
    pub fn room(&mut self, now: Instant) -> usize {
        if now > self.polled_at {
            self.observe(now);
        }
        let until = now + self.depth;
        let span = if self.free_at < until { until.since(self.free_at) } else { Duration::ZERO };
        let room = usize::try_from(span.as_ps() / self.packet.as_ps()).unwrap_or(usize::MAX);
        self.was_full |= room == 0;
        room
    }

    /// `length` bytes were handed over.
    pub fn sent(&mut self, length: u64) {
        self.free_at += self.rate.time_for(Bytes(length));
    }

    /// How long the link is busy after `now`.
    #[must_use]
    pub fn backlog(&self, now: Instant) -> Duration {
        if self.free_at > now { self.free_at.since(now) } else { Duration::ZERO }
    }

    /// Notes a new poll: adapts the depth, and drops time in which the line was idle.
    fn observe(&mut self, now: Instant) {
        let gap = now.since(self.polled_at);
        // The first poll shows no interval.
        if self.polled_at > Instant::ZERO {
            let kept = self.interval.as_ps() / INTERVAL_WEIGHT * (INTERVAL_WEIGHT - 1);
            self.interval = Duration::from_ps(kept + gap.as_ps() / INTERVAL_WEIGHT);
        }
        let (least, most) = (self.packet * DEPTH_MIN_PKTS, self.packet * DEPTH_MAX_PKTS);
        self.depth = (self.interval * 2).clamp(least, most);
        let credit = if self.was_full { self.depth } else { Duration::ZERO };
        let oldest = Instant::from_ps(now.as_ps().saturating_sub(credit.as_ps()));
        self.free_at = self.free_at.max(oldest);
        self.polled_at = now;
        self.was_full = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1250;

    /// 10 Gbit/s and 1250 bytes: a packet a microsecond.
    fn pacer() -> LinkPacer {
        LinkPacer::new(Rate::from_gbps(10), Bytes(PACKET))
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// Sends all that the pacer lets leave; returns how many packets.
    fn greedy(pacer: &mut LinkPacer, now: Instant) -> u64 {
        let mut sent = 0;
        while pacer.room(now) > 0 {
            pacer.sent(PACKET);
            sent += 1;
        }
        sent
    }

    #[test]
    fn a_fresh_link_takes_four_packets_and_then_one_for_each_sent() {
        let mut pacer = pacer();
        assert_eq!(greedy(&mut pacer, at(100)), 4);
        assert_eq!(greedy(&mut pacer, at(100)), 0);
        assert_eq!(greedy(&mut pacer, at(101)), 1);
        assert_eq!(pacer.backlog(at(101)), Duration::from_us(4));
    }

    #[test]
    fn small_packets_use_little_room() {
        let mut pacer = pacer();
        for _ in 0..12 {
            assert!(pacer.room(at(100)) >= 1);
            pacer.sent(PACKET / 10);
        }
        assert_eq!(pacer.room(at(100)), 2);
    }

    #[test]
    fn slow_polls_reach_the_line_rate_and_never_exceed_it() {
        for interval in [1, 3, 10, 25] {
            let mut pacer = pacer();
            let mut sent = 0;
            let polls = 2000 / interval;
            for poll in 1..=polls {
                sent += greedy(&mut pacer, at(poll * interval));
            }
            let most = 2000 + 2 * DEPTH_MAX_PKTS;
            assert!((1900..=most).contains(&sent), "every {interval} us: {sent} packets");
        }
    }

    #[test]
    fn idle_time_earns_nothing_and_a_late_poll_at_most_one_depth() {
        let mut idle = pacer();
        for us in 1..100 {
            assert_eq!(idle.room(at(us)), 4);
        }
        let mut late = pacer();
        for us in 1..100 {
            greedy(&mut late, at(us));
        }
        let after = greedy(&mut late, at(10_000));
        assert!(after > 4 && after <= 2 * DEPTH_MAX_PKTS, "{after}");
    }
}
