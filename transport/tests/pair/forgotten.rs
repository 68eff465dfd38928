//! A host restarts while others have many flows to it, and packets of flows that no one has arrive.

use super::silence::{opened, packet_of_another_life};
use super::*;

/// Flows of the sender.
const FLOWS: u64 = 1000;

/// Hosts among others that are not trusted, with the patience of two processes.
fn among_strangers() -> Config {
    config(|s| {
        (s.unproven_max, s.secret) = (0, [5, 6]);
        (s.loss.rto_min, s.loss.give_up) = (Duration::from_ms(25), Duration::from_s(10));
        s.loss.backoff_max = 3;
    })
}

/// Packets of a flood a second, each of another flow.
const FLOOD: u64 = 80_000;

/// Packets that arrive every so often at the second host, from these hosts in turn.
struct Flood {
    from: Vec<HostId>,
    sent: u64,
    next: Instant,
}

impl Flood {
    /// Adds the packets of the next millisecond to the network.
    fn go_on(&mut self, pair: &mut Pair) {
        let every = Duration::from_s(1) / FLOOD;
        self.next = self.next.max(pair.now);
        while !self.from.is_empty() && self.next <= pair.now + Duration::from_ms(1) {
            let stale = packet_of_another_life();
            let key = transport::units::Key(pair.rng.next_u64());
            let number = usize::try_from(self.sent).unwrap();
            let from = self.from[number % self.from.len()];
            let hdr = Header { key, ..stale.hdr };
            let segment = RxSegment { hdr, from, at: self.next, ..stale };
            pair.count += 1;
            pair.wire.insert((self.next, pair.count), (1, segment, Ext::VACANT, vec![0; 100]));
            (self.sent, self.next) = (self.sent + 1, self.next + every);
        }
    }
}

/// How many messages of a host with [`FLOWS`] flows, one of each, have arrived at these times after
/// a restart of their receiver, and how many have failed at the last of them. These hosts send a
/// flood, which began a second before.
fn restarted<const N: usize>(flooders: &[HostId], times: [Duration; N]) -> ([usize; N], usize) {
    let config = among_strangers();
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flows: Vec<FlowId> = (0..FLOWS).map(|_| opened(&mut pair, &config)).collect();
    let post = |pair: &mut Pair, first: u64| {
        for (tag, flow) in (first..).zip(&flows) {
            pair.post(0, *flow, pattern(tag, 10_000), tag);
        }
    };
    let before = usize::try_from(FLOWS).unwrap();
    post(&mut pair, 0);
    pair.run(Duration::from_s(10), |p| p.hosts[0].count_sent() == before);
    pair.restart(1, &config, 2);
    let mut flood = Flood { from: flooders.to_vec(), sent: 0, next: pair.now };
    let begun = pair.now + Duration::from_s(1);
    let mut until = |pair: &mut Pair, end: Instant| {
        while pair.now < end {
            flood.go_on(pair);
            if !pair.step() {
                return;
            }
        }
    };
    until(&mut pair, begun);
    let begun = pair.now;
    post(&mut pair, FLOWS);
    let arrived = times.map(|time| {
        until(&mut pair, begun + time);
        pair.hosts[0].count_sent() - before
    });
    (arrived, pair.failures().len())
}

/// The answer, the question for proof, and the proof: three round trips.
const ANSWERED: Duration = Duration::from_us(31);

#[test]
fn many_flows_of_a_host_are_opened_anew_at_once_when_their_receiver_restarts() {
    assert_eq!(restarted(&[], [ANSWERED]), ([1000], 0));
}

#[test]
fn a_flood_of_another_host_delays_no_flow_of_a_receiver_that_restarts() {
    assert_eq!(restarted(&[HostId(77)], [ANSWERED]), ([1000], 0));
}

#[test]
fn a_flood_in_the_name_of_a_host_delays_its_flows_and_ends_few() {
    let times = [2, 5, 15].map(Duration::from_s);
    let ([soon, later, all], failed) = restarted(&[HostId(0)], times);
    assert_eq!(all + failed, 1000);
    assert!(soon > 500 && later > 800 && all > 950, "{soon} {later} {all}");
}
