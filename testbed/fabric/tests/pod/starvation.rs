//! A large demand beside mice that load its sender and its receiver: what turns by age give it.

use fabric::pod::matcher::MatcherKind;
use fabric::pod::scheduler::{Client, PodDecider, Rts, Settings, Update};
use fabric::pod::{Chance, Shape, To};

/// Payload bytes of an epoch by the default settings.
const EPOCH: u64 = 16 * 512;
/// Epochs of the paper's pod, 712.96 ns, in 10 ms.
const WINDOW: usize = 14_026;
const ELEPHANT: (u16, u16) = (0, 1);

/// A pod of honest hosts around a scheduler.
struct Pod {
    scheduler: PodDecider,
    hosts: u16,
    /// For each pair of hosts: bytes asked for.
    totals: Vec<u32>,
    epoch: u64,
}

impl Pod {
    fn new(hosts: usize, settings: Settings) -> Self {
        let shape = Shape::square(hosts).unwrap();
        let hosts = u16::try_from(shape.hosts()).unwrap();
        let scheduler = PodDecider::new(shape, settings, 18).unwrap();
        let totals = vec![0; shape.hosts() * shape.hosts()];
        Self { scheduler, hosts, totals, epoch: 0 }
    }

    fn ask(&mut self, (from, to): (u16, u16), bytes: u64) {
        let total = &mut self.totals[usize::from(from) * usize::from(self.hosts) + usize::from(to)];
        *total = total.wrapping_add(u32::try_from(bytes).unwrap());
        let updates = [Update { to: To::Host(to), total: *total }];
        let rts = Rts {
            from: Client::Host(from),
            pod: 0,
            term: 1,
            epoch: self.epoch,
            updates: &updates,
            mice: &[],
            paused: 0,
            arrived: None,
            lost: None,
        };
        self.scheduler.handle_rts(&rts, self.epoch);
        self.epoch += 1;
    }

    /// Decides an epoch; true when the elephant is granted in it.
    fn decide(&mut self, epoch: u64) -> bool {
        self.scheduler.decide(epoch);
        let mut granted = false;
        while let Some(answer) = self.scheduler.poll_answer(u64::MAX) {
            granted |=
                (answer.client, answer.to) == (Client::Host(ELEPHANT.0), To::Host(ELEPHANT.1));
        }
        granted
    }
}

/// The least part of the link, in percent, that a flow of 1 GB is granted in any 10 ms of `epochs`.
/// Mice of two epochs beside it load its sender and its receiver to `percent`.
fn least_share(settings: Settings, hosts: usize, percent: u32, epochs: usize) -> f64 {
    let mut pod = Pod::new(hosts, settings);
    let mut chance = Chance::new(95);
    pod.ask(ELEPHANT, 1_000_000_000);
    let mut granted = vec![0_usize; epochs + 1];
    for epoch in 0..epochs {
        // A host's requests are an epoch apart, so those of one epoch are of different hosts.
        pod.epoch = epoch as u64;
        let mut other = || 2 + u16::try_from(chance.below(u32::from(pod.hosts) - 2)).unwrap();
        let (to, from) = (other(), other());
        let mut mouse = || chance.below(200) < percent;
        let (sends, receives) = (mouse(), mouse());
        if sends {
            pod.ask((ELEPHANT.0, to), 2 * EPOCH);
        }
        pod.epoch = epoch as u64;
        if receives {
            pod.ask((from, ELEPHANT.1), 2 * EPOCH);
        }
        granted[epoch + 1] = granted[epoch] + usize::from(pod.decide(epoch as u64));
    }
    let least = (0..=epochs - WINDOW).map(|at| granted[at + WINDOW] - granted[at]).min().unwrap();
    let bits = least as f64 * EPOCH as f64 * 8.0;
    bits / (WINDOW as f64 * 712.96) // bits a nanosecond are Gb/s: percent of 100 Gb/s.
}

#[test]
fn a_large_flow_beside_mice_gets_three_percent_of_the_link_within_any_10_ms() {
    for (hosts, percent, matcher) in [
        (16, 95, MatcherKind::Exact),
        (64, 95, MatcherKind::Exact),
        (16, 95, MatcherKind::Greedy),
        (16, 95, MatcherKind::Iterative),
    ] {
        let of = |fair_every| {
            let settings = Settings { matcher, fair_every, silent_after: 0, ..Settings::default() };
            least_share(settings, hosts, percent, 3 * WINDOW)
        };
        let with = of(16);
        assert!(with >= 3.0, "{hosts} hosts, {percent} %, {}: {with} %", matcher.name());
        // The paper's order: a slot is left where sender and receiver both have nothing smaller.
        assert!(of(0) < 1.0, "{hosts} hosts, {}: the smallest first starve it", matcher.name());
    }
}
