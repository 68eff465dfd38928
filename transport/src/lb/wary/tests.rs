//! Tests of wary spraying.

use super::*;
use crate::time::Rate;
use crate::units::Bytes;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

const RTT: Duration = Duration::from_us(100);

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// A flow with blocks of so many packets, or without code.
fn new(block: u8) -> (Wary, Rng) {
    with_paths(256, block, 7)
}

fn with_paths(paths: u16, block: u8, seed: u64) -> (Wary, Rng) {
    let mut rng = Rng::new(seed);
    let mut params = LbParams::default();
    params.common.paths = paths;
    let path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
    (Wary::build(&params, &path, block, &mut rng), rng)
}

fn sent(lb: &mut Wary, packets: usize, now: Instant, rng: &mut Rng) -> Vec<EntropyValue> {
    (0..packets).map(|_| lb.next_ev(now, rng)).collect()
}

fn is_dead(ev: EntropyValue) -> bool {
    ev.0.is_multiple_of(8)
}

/// Sends `packets` at once, of which those on dead paths are lost, and reports on them a round
/// trip later.
fn round_trip(lb: &mut Wary, packets: usize, now: Instant, rng: &mut Rng) -> usize {
    let evs = sent(lb, packets, now, rng);
    let (lost, acked): (Vec<_>, Vec<_>) = evs.into_iter().partition(|ev| is_dead(*ev));
    acked.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, now + RTT));
    let found = now + RTT + RTT / 10;
    lost.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Timeout, found));
    lost.len()
}

/// A steady flow of 1000 packets a base RTT.
struct Steady {
    lb: Wary,
    rng: Rng,
    /// Packets sent so far.
    count: u64,
    /// Packets on their way: the path, when its fate is found, and that fate.
    flying: VecDeque<(EntropyValue, Instant, PathFeedback)>,
}

impl Steady {
    fn new(block: u8) -> Self {
        let (lb, rng) = new(block);
        Self { lb, rng, count: 0, flying: VecDeque::new() }
    }

    /// Sends for so many base RTTs and has the paths in order. `fate` gets the path and a
    /// number in 0..1.
    fn send(
        &mut self,
        rtts: u64,
        fate: impl Fn(EntropyValue, f64) -> PathFeedback,
    ) -> Vec<EntropyValue> {
        self.send_unreported(rtts, |ev, chance| Some(fate(ev, chance)))
    }

    /// As [`Steady::send`]; the balancer has no feedback on packets without a fate.
    fn send_unreported(
        &mut self,
        rtts: u64,
        fate: impl Fn(EntropyValue, f64) -> Option<PathFeedback>,
    ) -> Vec<EntropyValue> {
        let mut sent = Vec::new();
        for _ in 0..rtts * 1000 {
            let now = Instant::ZERO + RTT / 1000 * self.count;
            self.count += 1;
            while let Some((ev, at, what)) = self.flying.front().copied() {
                if now < at {
                    break;
                }
                self.flying.pop_front();
                self.lb.on_feedback(ev, what, now);
            }
            let ev = self.lb.next_ev(now, &mut self.rng);
            let what = fate(ev, self.rng.next_f64());
            let known = what.map(|what| (ev, now + RTT * 11 / 10, what));
            self.flying.extend(known);
            sent.push(ev);
        }
        sent
    }
}

/// How often the most and the least frequent of these were taken.
fn extremes(evs: &[EntropyValue]) -> (usize, usize, usize) {
    let mut counts = BTreeMap::new();
    evs.iter().for_each(|ev| *counts.entry(ev).or_insert(0) += 1);
    let least = counts.values().copied().min().unwrap_or(0);
    (counts.len(), least, counts.values().copied().max().unwrap_or(0))
}

fn all_good(_: EntropyValue, _: f64) -> PathFeedback {
    PathFeedback::Good
}

/// The fate of a packet while some paths are dead.
fn some_dead(ev: EntropyValue, _: f64) -> PathFeedback {
    if is_dead(ev) { PathFeedback::Timeout } else { PathFeedback::Good }
}

#[test]
fn a_flow_without_code_takes_every_path_in_each_round() {
    let (mut lb, mut rng) = new(0);
    for _ in 0..3 {
        let round: BTreeSet<_> = sent(&mut lb, 256, at(1), &mut rng).into_iter().collect();
        assert_eq!(round.len(), 256);
    }
}

#[test]
fn each_block_takes_the_same_paths_until_all_of_them_have_answered() {
    for block in [2, 10, 20, 64] {
        let (mut lb, mut rng) = new(block);
        let packets = usize::from(block);
        let first = sent(&mut lb, packets, at(1), &mut rng);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), packets, "{first:?}");
        for ev in &first {
            assert_eq!(sent(&mut lb, packets, at(50), &mut rng), first);
            lb.on_feedback(*ev, PathFeedback::Good, at(101));
        }
        let later: BTreeSet<_> = sent(&mut lb, 2000, at(150), &mut rng).into_iter().collect();
        assert!(later.len() > packets + 15, "{}", later.len());
    }
}

#[test]
fn a_coded_flow_leaves_its_first_paths_when_no_loss_on_dead_ones_is_reported() {
    for dead in [1, 2] {
        let mut flow = Steady::new(10);
        let (mut order, mut rng) = (flow.lb.rounds.clone(), Rng::new(3));
        let dead: Vec<_> = (0..dead).map(|_| entropy(order.next(&mut rng))).collect();
        let fate = |ev, _| (!dead.contains(&ev)).then_some(PathFeedback::Good);
        let start = flow.send_unreported(3, fate);
        assert!(dead.iter().all(|ev| start[..1000].contains(ev)));
        assert_eq!((flow.lb.mode, extremes(&start[..1000]).0), (Mode::Wary, 10));
        let (paths, ..) = extremes(&flow.send_unreported(20, fate));
        assert_eq!(paths, 256 - dead.len());
    }
}

#[test]
fn a_coded_flow_without_any_answer_keeps_its_first_paths() {
    let mut flow = Steady::new(10);
    let sent = flow.send_unreported(20, |_, _| None);
    assert_eq!((flow.lb.mode, extremes(&sent).0), (Mode::First, 10));
}

#[test]
fn as_many_packets_as_were_lost_take_good_paths_before_another_is_tried() {
    // The time at which a loss is found, in hundredths of a base RTT.
    for found in [20, 101, 130, 190, 250, 900] {
        let (mut lb, mut rng) = new(0);
        let evs = sent(&mut lb, 100, at(1), &mut rng);
        let (dead, alive) = evs.split_at(20);
        alive.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(101)));
        lb.on_feedback(dead[0], PathFeedback::Timeout, at(105));
        assert_eq!((lb.mode, lb.good.count()), (Mode::Wary, 80));
        // All of the gap has passed: the next packet would try a path.
        lb.until_try = 0;
        let lost = |ev: &EntropyValue| lb.on_feedback(*ev, PathFeedback::Lost, at(105 + found));
        dead.iter().for_each(lost);
        let again = sent(&mut lb, 20, at(105 + found), &mut rng);
        assert!(again.iter().all(|ev| alive.contains(ev)), "{found}: {again:?}");
        let tried = sent(&mut lb, 1, at(105 + found), &mut rng);
        assert!(!evs.contains(&tried[0]), "{found}: {tried:?}");
    }
}

#[test]
fn the_first_paths_differ_however_few_there_are() {
    for (paths, block) in [(20, 20), (20, 19), (7, 10), (1, 2)] {
        let different = usize::from(paths).min(usize::from(block));
        for seed in 0..200 {
            let (mut lb, mut rng) = with_paths(paths, block, seed);
            let first = sent(&mut lb, different, at(1), &mut rng);
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), different, "{first:?}");
            assert_eq!(sent(&mut lb, different, at(2), &mut rng), first);
        }
    }
}

#[test]
fn a_coded_flow_is_sprayed_once_every_path_has_delivered() {
    let mut flow = Steady::new(10);
    flow.send(60, all_good);
    assert_eq!(flow.lb.mode, Mode::Well);
    let (paths, least, most) = extremes(&flow.send(10, all_good));
    assert!(paths == 256 && least >= 38 && most <= 40, "{paths}: {least} to {most}");
}

#[test]
fn a_round_has_each_good_path_once() {
    let mut flow = Steady::new(0);
    flow.send(20, some_dead);
    assert_eq!((flow.lb.mode, flow.lb.good.count()), (Mode::Wary, 224));
    for rounds in [1, 7] {
        // From the beginning of a round.
        flow.lb.left = Paths::default();
        let sent = sent(&mut flow.lb, 224 * rounds, at(2_000), &mut flow.rng);
        assert_eq!(extremes(&sent), (224, rounds, rounds));
    }
}

#[test]
fn a_path_that_dies_is_not_even_taken_in_the_same_round() {
    let (mut lb, mut rng) = new(0);
    let evs = sent(&mut lb, 256, at(1), &mut rng);
    evs.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(101)));
    sent(&mut lb, 256, at(110), &mut rng);
    evs[..2].iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Lost, at(330)));
    let round: BTreeSet<_> = sent(&mut lb, 254, at(330), &mut rng).into_iter().collect();
    assert!(round.len() == 254 && !round.contains(&evs[0]) && !round.contains(&evs[1]));
}

#[test]
fn what_was_lost_takes_paths_that_have_answered_since_others_died() {
    // All paths answer, and one goes on to do so. Then some are dead, and the flow sends a few
    // packets. In 17 of 20 phases answers are not forgotten before the loss is found.
    let forgotten = (210..410).step_by(10).filter(|&again| {
        let (mut lb, mut rng) = new(0);
        let first = sent(&mut lb, 256, at(1), &mut rng);
        first.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(101)));
        let lasting = *first.iter().find(|ev| !is_dead(**ev)).unwrap();
        for us in (110..again).step_by(10) {
            lb.on_feedback(lasting, PathFeedback::Good, at(us));
        }
        let evs = sent(&mut lb, 150, at(again), &mut rng);
        let (lost, acked): (Vec<_>, Vec<_>) = evs.iter().partition(|ev| is_dead(**ev));
        acked.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(again + 100)));
        assert!(lost.len() > 10 && lb.mode == Mode::Well);
        // One loss is found; the other packets on dead paths wait.
        let found = at(again + 125);
        lb.on_feedback(lost[0], PathFeedback::Lost, found);
        assert_eq!(lb.mode, Mode::Wary);
        let is_forgotten = lb.left.is_empty();
        if !is_forgotten {
            let sent = sent(&mut lb, acked.len(), found, &mut rng);
            let lately = |ev| acked.contains(ev) || *ev == lasting;
            assert!(sent.iter().all(lately), "{again}: {sent:?}");
        }
        // A round over all good paths follows, in which those with late packets are the last.
        let round = sent(&mut lb, 255 - (lost.len() - 1), found, &mut rng);
        assert!(round.iter().all(|ev| !lost.contains(ev)), "{again}: {round:?}");
        is_forgotten
    });
    assert!(forgotten.count() <= 3);
}

#[test]
fn what_was_trimmed_takes_paths_that_have_answered_before_any_is_found_dead() {
    let (mut lb, mut rng) = new(0);
    let evs = sent(&mut lb, 256, at(0), &mut rng);
    let answered: Vec<_> = evs.into_iter().filter(|ev| !is_dead(*ev)).take(60).collect();
    for (place, ev) in answered.iter().enumerate() {
        let what = if place % 3 == 0 { PathFeedback::Nack } else { PathFeedback::Good };
        lb.on_feedback(*ev, what, at(101));
    }
    let again = sent(&mut lb, 20, at(101), &mut rng);
    assert!(again.iter().all(|ev| answered.contains(ev)), "{again:?}");
    // As many as were trimmed; those behind are sprayed over all paths.
    let anew = sent(&mut lb, 512, at(101), &mut rng);
    assert_eq!(extremes(&anew).0, 256);
    // Without any answer that is not old there is no path to prefer.
    lb.on_feedback(anew[0], PathFeedback::Nack, at(102));
    assert_eq!(lb.again, 1);
    sent(&mut lb, 1, at(2000), &mut rng);
    assert_eq!((lb.again, lb.mode == Mode::Well), (0, true));
}

#[test]
fn a_path_takes_one_packet_in_place_of_a_trimmed_one_until_it_answers_again() {
    let (mut lb, mut rng) = new(0);
    let evs = sent(&mut lb, 64, at(0), &mut rng);
    // Three paths have answered once, and one has twenty times.
    let fates = evs[..3].iter().chain(core::iter::repeat_n(&evs[3], 20));
    fates.for_each(|ev| lb.on_feedback(*ev, PathFeedback::Nack, at(101)));
    let again = sent(&mut lb, 23, at(101), &mut rng);
    for ev in &evs[..4] {
        let taken = again.iter().filter(|taken| *taken == ev).count();
        assert_eq!(taken, 1, "{again:?}");
    }
    assert_eq!((lb.again, lb.left.count()), (0, 0));
    // After its next answers a path takes one more.
    (0..2).for_each(|_| lb.on_feedback(evs[2], PathFeedback::Nack, at(102)));
    let next = sent(&mut lb, 2, at(102), &mut rng);
    assert_eq!((next[0], next[1] == evs[2]), (evs[2], false));
}

#[test]
fn answers_are_old_after_two_round_trips_and_after_a_pause() {
    for end in (130..=330).step_by(10) {
        let (mut lb, mut rng) = new(0);
        let evs = sent(&mut lb, 256, at(1), &mut rng);
        let mut answer = |evs: &[EntropyValue], us| {
            evs.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(us)));
            lb.left.count()
        };
        assert_eq!(answer(&evs, 101), 256);
        // One path goes on to answer.
        let last = (110..=end).step_by(5).map(|us| answer(&evs[..1], us)).last();
        assert_eq!(last, Some(if end < 190 { 256 } else { 1 }), "{end}");
        assert!(answer(&evs, end) == 256 && answer(&evs[..1], end + 300) == 1, "{end}");
    }
}

#[test]
fn no_path_counts_as_one_that_has_answered_when_a_flow_begins_to_spray_again() {
    let (mut lb, mut rng) = new(0);
    let evs = sent(&mut lb, 256, at(1), &mut rng);
    evs[1..].iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(101)));
    lb.on_feedback(evs[0], PathFeedback::Lost, at(125));
    sent(&mut lb, 50, at(125), &mut rng);
    assert_eq!((lb.mode, lb.left.count()), (Mode::Wary, 205));
    lb.on_feedback(evs[0], PathFeedback::Good, at(130));
    assert_eq!((lb.mode, lb.left.count()), (Mode::Well, 0));
}

#[test]
fn a_path_whose_packet_is_late_is_taken_last() {
    let mut flow = Steady::new(0);
    flow.send(20, some_dead);
    assert_eq!(flow.lb.mode, Mode::Wary);
    let alive: Vec<_> = (0..256).map(entropy).filter(|ev| !is_dead(*ev)).collect();
    alive.iter().for_each(|ev| flow.lb.on_feedback(*ev, PathFeedback::Good, at(2_200)));
    flow.lb.left = Paths::default();
    let late = sent(&mut flow.lb, 30, at(2_200), &mut flow.rng);
    flow.lb.left = Paths::default();
    let round = sent(&mut flow.lb, alive.len(), at(2_290), &mut flow.rng);
    assert!(round[..150].iter().all(|ev| !late.contains(ev)), "{round:?}");
    let taken = late.iter().filter(|ev| !is_dead(**ev)).all(|ev| round.contains(ev));
    assert!(taken, "{round:?}");
}

#[test]
fn a_flow_without_good_paths_takes_all_in_turn() {
    let (mut lb, mut rng) = new(0);
    let evs = sent(&mut lb, 256, at(1), &mut rng);
    evs.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Timeout, at(110)));
    assert_eq!((lb.mode, lb.good.count()), (Mode::Wary, 0));
    let round: BTreeSet<_> = sent(&mut lb, 256, at(110), &mut rng).into_iter().collect();
    assert_eq!(round.len(), 256);
}

#[test]
fn random_losses_keep_no_flow_to_its_first_paths() {
    for (share, block) in [(0.002, 10), (0.005, 10), (0.005, 0), (0.02, 10)] {
        let fate = |_: EntropyValue, chance: f64| {
            if chance < share { PathFeedback::Lost } else { PathFeedback::Good }
        };
        let mut flow = Steady::new(block);
        flow.send(60, fate);
        let paths = extremes(&flow.send(1, fate)).0;
        assert!(paths > 240, "{share} lost: {paths} of 256 paths");
    }
}

#[test]
fn a_path_that_trims_everything_is_taken_as_before() {
    let fate = |ev, _| if is_dead(ev) { PathFeedback::Nack } else { PathFeedback::Good };
    for block in [0, 10] {
        let mut flow = Steady::new(block);
        flow.send(60, fate);
        assert_eq!(flow.lb.mode, Mode::Well);
        assert!((0..256).all(|path| !flow.lb.is_silent(entropy(path), at(6_000))));
    }
}

#[test]
fn a_flow_is_sprayed_again_when_its_dead_paths_have_come_back() {
    let mut flow = Steady::new(0);
    flow.send(20, some_dead);
    assert_eq!(flow.lb.mode, Mode::Wary);
    let sent = flow.send(300, all_good);
    assert_eq!(flow.lb.mode, Mode::Well);
    let (paths, least, most) = extremes(&sent[sent.len() - 2560..]);
    assert!(paths == 256 && least >= 9 && most <= 11, "{paths}: {least} to {most}");
}

#[test]
fn a_path_that_never_answers_is_taken_once() {
    for block in [0, 10] {
        let (mut lb, mut rng) = new(block);
        let mut lost = Vec::new();
        for round in 0..20 {
            lost.push(round_trip(&mut lb, 600, at(300 * round), &mut rng));
        }
        // A block's paths are few: all others are tried later.
        assert!(lost[0] > 30 && lost[1..].iter().sum::<usize>() <= 32, "{block}: {lost:?}");
    }
}

#[test]
fn all_paths_that_answer_are_taken_again() {
    let (mut lb, mut rng) = new(10);
    for round in 0..80 {
        round_trip(&mut lb, 600, at(300 * round), &mut rng);
    }
    let evs: BTreeSet<_> = sent(&mut lb, 1000, at(20_000), &mut rng).into_iter().collect();
    assert_eq!(evs.iter().filter(|ev| !is_dead(**ev)).count(), 224);
}

#[test]
fn a_full_queue_takes_no_path_away() {
    let (mut lb, mut rng) = new(0);
    let evs = sent(&mut lb, 256, at(1), &mut rng);
    for us in [101, 102] {
        evs.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(us)));
        sent(&mut lb, 256, at(us), &mut rng);
    }
    evs.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Timeout, at(150)));
    let later: BTreeSet<_> = sent(&mut lb, 256, at(160), &mut rng).into_iter().collect();
    assert_eq!(later.len(), 256);
}

#[test]
fn a_path_is_silent_a_round_trip_after_the_first_burst() {
    let (mut lb, mut rng) = new(10);
    let evs = sent(&mut lb, 10, at(1), &mut rng);
    sent(&mut lb, 10, at(99), &mut rng);
    assert!(!lb.is_silent(evs[1], at(99)));
    lb.on_feedback(evs[0], PathFeedback::Good, at(101));
    sent(&mut lb, 1, at(105), &mut rng);
    assert!(lb.is_silent(evs[1], at(105)) && !lb.is_silent(evs[0], at(105)));
}

#[test]
fn dead_paths_are_forgotten_in_the_end() {
    let (mut lb, mut rng) = new(0);
    let lost: Vec<_> =
        (0..300).map(|round| round_trip(&mut lb, 600, at(300 * round), &mut rng)).collect();
    let tried = lost[1..].iter().filter(|lost| **lost > 0).count();
    assert!(lost[1..80].iter().all(|lost| *lost == 0) && tried > 1, "{lost:?}");
}
