//! Properties of the scheduler over epochs: conservation, fairness, ages, terms, links, and clients
//! that make mistakes or send false requests.

use std::collections::{BTreeMap, BTreeSet};

use fabric::pod::matcher::{MatcherKind, MatcherSetup};
use fabric::pod::scheduler::{
    Answer, Client, DemandFate, Mouse, PodDecider, PodLink, Refused, Rts, Settings, Update,
};
use fabric::pod::{Chance, Grant, IdlePorts, Ladder, Shape, To};
use proptest::prelude::*;

/// An epoch's bytes by the default settings.
const EPOCH: u32 = 16 * 512;

/// A pod of honest clients around a scheduler.
struct Pod {
    shape: Shape,
    settings: Settings,
    scheduler: PodDecider,
    /// Bytes asked for so far.
    totals: BTreeMap<(Client, To), u32>,
    mice: BTreeMap<(Client, To), u32>,
    epoch: u64,
}

impl Pod {
    fn new(shape: Shape, settings: Settings) -> Self {
        let scheduler = PodDecider::new(shape, settings, 18).unwrap();
        Self {
            shape,
            settings,
            scheduler,
            totals: BTreeMap::new(),
            mice: BTreeMap::new(),
            epoch: 0,
        }
    }

    fn ask(&mut self, from: Client, to: To, bytes: u32) {
        let total = self.totals.entry((from, to)).or_default();
        *total = total.wrapping_add(bytes);
    }

    /// A pod whose scheduler keeps what its decisions do about demands.
    fn explained(shape: Shape, settings: Settings) -> Self {
        let mut pod = Self::new(shape, settings);
        pod.scheduler.keep_waits();
        pod
    }

    /// What decisions did about a demand: their first and last epoch, and the fate.
    fn fates(&self, from: Client, to: To) -> Vec<(u64, u64, DemandFate)> {
        let log = self.scheduler.clone().take_waits();
        let spans = log.of(from, to).iter();
        spans.map(|span| (span.decisions.0, span.decisions.1, span.fate)).collect()
    }

    fn clients(&self) -> Vec<Client> {
        let number = |at: usize| u16::try_from(at).unwrap();
        let hosts = (0..number(self.shape.hosts())).map(Client::Host);
        hosts.chain((0..number(self.shape.cores())).map(Client::Core)).collect()
    }

    fn request(&self, from: Client) -> (Vec<Update>, Vec<Mouse>) {
        let of = |map: &BTreeMap<(Client, To), u32>| -> Vec<(To, u32)> {
            map.iter().filter(|((by, _), _)| *by == from).map(|((_, to), it)| (*to, *it)).collect()
        };
        let updates = of(&self.totals).into_iter().map(|(to, total)| Update { to, total });
        let mice = of(&self.mice).into_iter().map(|(to, bytes)| Mouse { to, bytes });
        (updates.collect(), mice.take(32).collect())
    }

    /// Runs an epoch: requests of the clients that `speaks` picks, a decision, and the answers that
    /// leave.
    fn epoch(&mut self, speaks: impl Fn(Client) -> bool) -> Vec<Answer> {
        for from in self.clients().into_iter().filter(|from| speaks(*from)) {
            let (updates, mice) = self.request(from);
            let rts = Rts { updates: &updates, mice: &mice, ..self.rts(from) };
            self.scheduler.handle_rts(&rts, self.epoch);
        }
        self.scheduler.decide(self.epoch);
        let answers = std::iter::from_fn(|| self.scheduler.poll_answer(self.epoch)).collect();
        self.epoch += 1;
        answers
    }

    fn rts(&self, from: Client) -> Rts<'static> {
        let pod = u16::try_from(self.shape.pod()).unwrap();
        Rts {
            from,
            pod,
            term: self.scheduler.term(),
            epoch: self.epoch,
            updates: &[],
            mice: &[],
            paused: 0,
            arrived: None,
            lost: None,
        }
    }

    fn quiet(&mut self) -> Vec<Answer> {
        self.epoch(|_| true)
    }

    /// No port is used twice among the answers of one epoch.
    fn check(&self, answers: &[Answer]) {
        let mut by_epoch: BTreeMap<u64, IdlePorts> = BTreeMap::new();
        for answer in answers {
            let sender = match answer.client {
                Client::Host(host) => host,
                Client::Core(core) => u16::try_from(self.shape.hosts()).unwrap() + core,
            };
            let grant = Grant { sender, to: answer.to, agg: answer.agg, core: answer.core };
            let ports = by_epoch.entry(answer.epoch).or_insert(IdlePorts::idle(&self.shape));
            assert!(ports.occupy(&self.shape, &grant), "{answer:?}");
            assert!((1..=self.settings.cells).contains(&answer.cells));
        }
    }
}

fn host(at: u16) -> Client {
    Client::Host(at)
}

fn multi() -> Shape {
    Shape::square(16).unwrap().with_cores(7, 1, 8, 2).unwrap()
}

#[test]
fn answers_leave_after_the_delay_and_are_about_the_epoch_that_the_lead_says() {
    let mut pod = Pod::explained(Shape::square(16).unwrap(), Settings::default());
    pod.ask(host(3), To::Host(9), 1000);
    for epoch in 0..30 {
        let answers = pod.quiet();
        assert_eq!(answers.len(), usize::from(epoch == 21));
        for answer in answers {
            assert_eq!((answer.epoch, answer.cells, answer.total), (30, 2, 1000));
            assert_eq!((answer.client, answer.to, answer.term), (host(3), To::Host(9), 1));
        }
    }
    assert_eq!(pod.fates(host(3), To::Host(9)), [(0, 0, DemandFate::Granted)]);
    assert_eq!(pod.fates(host(3), To::Host(3)), []);
    assert_eq!(pod.fates(host(16), To::Host(3)), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Requests are lost at random: no port is granted twice, never more than asked for, and in the
    /// end all of it, with empty matrices.
    #[test]
    fn all_that_is_asked_for_is_granted_once_also_when_requests_are_lost(
        seed: u64,
        kind in prop::sample::select(MatcherKind::ALL.to_vec()),
        ladder in prop::sample::select(Ladder::ALL.to_vec()),
        loss in 0u32..60,
    ) {
        let settings = Settings { matcher: kind, ladder, silent_after: 0, ..Settings::default() };
        let mut pod = Pod::new(multi(), settings);
        let mut chance = Chance::new(seed);
        let mut granted: BTreeMap<(Client, To), u32> = BTreeMap::new();
        let mut draws = chance.clone();
        for epoch in 0..600 {
            if epoch < 60 {
                for _ in 0..4 {
                    let mut below = |n: u32| u16::try_from(draws.below(n)).unwrap();
                    let to = match below(2) { 0 => To::Host(below(16)), _ => To::Pod(below(8)) };
                    let from = if matches!(to, To::Host(_)) && below(4) == 0 {
                        Client::Core(below(7))
                    } else {
                        Client::Host(below(16))
                    };
                    let receiver = match to { To::Host(at) => at, To::Pod(_) => 99 };
                    let self_or_own = from == Client::Host(receiver)
                        || to == To::Pod(2);
                    if !self_or_own {
                        pod.ask(from, to, draws.below(40_000));
                        pod.mice.insert((from, to), draws.below(3) * 600);
                    }
                }
            }
            let dice = chance.next();
            let speaks = |client: Client| {
                let at = match client { Client::Host(at) => at, Client::Core(at) => 16 + at };
                Chance::new(dice ^ u64::from(at)).below(100) >= loss
            };
            let answers = pod.epoch(speaks);
            pod.check(&answers);
            for answer in answers {
                let total = granted.entry((answer.client, answer.to)).or_default();
                let bytes = answer.total.wrapping_sub(*total);
                prop_assert!(bytes > 0 && bytes <= EPOCH);
                prop_assert_eq!(u32::from(answer.cells), bytes.div_ceil(512));
                *total = answer.total;
                prop_assert!(*total <= pod.totals[&(answer.client, answer.to)]);
                if answer.mice_only {
                    prop_assert_eq!(answer.core, Some(6));
                }
            }
        }
        granted.retain(|_, total| *total > 0);
        pod.totals.retain(|_, total| *total > 0);
        prop_assert_eq!(&granted, &pod.totals);
        prop_assert_eq!(pod.scheduler.demands().open(), 0);
        let counters = pod.scheduler.counters();
        prop_assert_eq!(counters.asked_bytes, counters.granted_bytes);
    }

    /// Host 0 sends arbitrary requests: other hosts are granted the bytes that they would be
    /// without it, and the scheduler does not panic.
    #[test]
    fn nonsense_is_counted_and_touches_no_other_host(seed: u64) {
        let mut pod = Pod::new(multi(), Settings { fair_every: 0, ..Settings::default() });
        let mut chance = Chance::new(seed);
        for from in 1..16 {
            pod.ask(host(from), To::Host(1 + from % 15), 50_000);
        }
        let mut granted = [0u32; 16];
        for _ in 0..120 {
            for _ in 0..5 {
                let wild = chance.next();
                let small = |at: u32| (wild >> at & 31) as u16;
                let total = u32::try_from(wild >> 32).unwrap();
                let to = |at: u16| if at.is_multiple_of(2) { To::Host(at) } else { To::Pod(at) };
                let update = Update { to: to(small(0)), total };
                let updates = vec![update; usize::from(small(5))];
                let mice = vec![Mouse { to: to(small(10)), bytes: total }; usize::from(small(5))];
                let unknown = small(15) < 8;
                let from = if unknown { Client::Core(7 + small(20)) } else { host(0) };
                let odd = small(25) < 16;
                let rts = Rts {
                    from,
                    pod: if odd { 2 } else { small(15) },
                    term: if odd { 1 } else { u32::from(small(20)) },
                    epoch: pod.epoch.wrapping_add(if odd { 0 } else { wild }),
                    updates: &updates,
                    mice: &mice,
                    paused: total,
                    arrived: Some(wild >> (wild % 64)),
                    lost: Some(wild >> (wild % 61)),
                };
                pod.scheduler.handle_rts(&rts, pod.epoch);
            }
            let answers = pod.epoch(|client| client != host(0));
            pod.check(&answers);
            for answer in answers {
                if let (Client::Host(from @ 1..), To::Host(_)) = (answer.client, answer.to) {
                    granted[usize::from(from)] = answer.total;
                }
            }
        }
        prop_assert_eq!(&granted[1..], &[50_000; 15]);
    }
}

#[test]
fn every_refusal_has_its_counter() {
    let settings = Settings { silent_after: 0, backlog: 100_000, ..Settings::default() };
    let mut pod = Pod::new(multi(), settings);
    pod.epoch = 1000;
    assert!(pod.scheduler.begin_term(5, 0));
    let to = |to, total| [Update { to, total }];
    let mut tries: Vec<(Refused, Rts<'_>)> = Vec::new();
    let base = |at: u16| pod.rts(host(at));
    tries.push((Refused::UnknownSender, base(16)));
    tries.push((Refused::UnknownSender, Rts { from: Client::Core(7), ..base(0) }));
    tries.push((Refused::ForeignPod, Rts { pod: 1, ..base(0) }));
    tries.push((Refused::OldTerm, Rts { term: 4, ..base(0) }));
    tries.push((Refused::FutureTerm, Rts { term: 6, ..base(0) }));
    tries.push((Refused::PastEpoch, Rts { epoch: 1000 - 31, ..base(0) }));
    tries.push((Refused::FutureEpoch, Rts { epoch: 1001, ..base(0) }));
    let (own, far, pod_2) = (to(To::Host(1), 9), to(To::Host(16), 9), to(To::Pod(2), 9));
    tries.push((Refused::UnknownReceiver, Rts { updates: &own, ..base(1) }));
    tries.push((Refused::UnknownReceiver, Rts { updates: &far, ..base(2) }));
    tries.push((Refused::UnknownReceiver, Rts { updates: &pod_2, ..base(3) }));
    let core_to_pod = to(To::Pod(3), 9);
    let core = Rts { from: Client::Core(0), updates: &core_to_pod, ..base(0) };
    tries.push((Refused::UnknownReceiver, core));
    let (back, half) = (to(To::Host(0), u32::MAX), to(To::Host(0), 1 << 31));
    tries.push((Refused::TotalJump, Rts { updates: &back, ..base(4) }));
    tries.push((Refused::TotalJump, Rts { updates: &half, ..base(5) }));
    let much = to(To::Host(0), 100_001);
    tries.push((Refused::BeyondBacklog, Rts { updates: &much, ..base(6) }));
    let mice = [Mouse { to: To::Host(0), bytes: 5 }; 33];
    tries.push((Refused::TooMany, Rts { mice: &mice, ..base(7) }));
    tries.push((Refused::UnknownReceipt, Rts { arrived: Some(990), ..base(8) }));
    tries.push((Refused::UnknownReceipt, Rts { lost: Some(990), ..base(9) }));
    tries.push((Refused::UnknownReceipt, Rts { lost: Some(u64::MAX), ..base(10) }));
    tries.push((Refused::Repeated, Rts { ..base(10) }));
    let mut wanted = [0u64; Refused::ALL.len()];
    for (why, rts) in tries {
        wanted[why as usize] += 1;
        pod.scheduler.handle_rts(&rts, 1000);
        let found: Vec<u64> =
            Refused::ALL.iter().map(|why| pod.scheduler.counters().refused(*why)).collect();
        assert_eq!(found, wanted, "{}", why.name());
    }
    // What a driver refuses before it becomes a request.
    let by_drivers =
        [Refused::Malformed, Refused::ForgedSender, Refused::TooManyWaiting, Refused::StandingBy];
    for why in by_drivers {
        pod.scheduler.refuse(why);
        wanted[why as usize] += 1;
        assert_eq!(pod.scheduler.counters().refused(why), 1);
    }
    assert_eq!(pod.scheduler.counters().refused_in_all(), wanted.iter().sum::<u64>());
    assert!(wanted.iter().all(|count| *count > 0), "every reason is tried");
    assert_eq!(pod.scheduler.demands().open(), 1);
    assert_eq!(pod.scheduler.demands().backlog(6, To::Host(0)), 100_000, "the part that fits");
}

/// Grants by sender over some epochs in which all demands stay open.
fn grants_by_sender(pod: &mut Pod, epochs: u32) -> Vec<u32> {
    let mut grants = vec![0; pod.shape.hosts()];
    for _ in 0..epochs {
        for answer in pod.quiet() {
            if let Client::Host(from) = answer.client {
                grants[usize::from(from)] += 1;
            }
        }
    }
    grants
}

#[test]
fn equal_demands_for_one_receiver_have_equal_shares_on_every_matcher() {
    for kind in MatcherKind::ALL {
        let mut pod = Pod::new(
            Shape::square(16).unwrap(),
            Settings { matcher: *kind, ladder: Ladder::One, ..Settings::default() },
        );
        let senders = [1u16, 2, 3, 7, 15];
        senders.iter().for_each(|from| pod.ask(host(*from), To::Host(0), 1 << 30));
        let grants = grants_by_sender(&mut pod, 10_000);
        let shares: Vec<f64> =
            senders.iter().map(|from| f64::from(grants[usize::from(*from)])).collect();
        let sum: f64 = shares.iter().sum();
        let jain = sum * sum / (5.0 * shares.iter().map(|share| share * share).sum::<f64>());
        assert!(jain >= 0.99 && sum >= 9_900.0, "{}: {shares:?}", kind.name());
    }
}

#[test]
fn a_host_that_asks_for_everything_gets_its_fair_share_and_no_more() {
    for kind in MatcherKind::ALL {
        let settings = Settings { matcher: *kind, ladder: Ladder::One, ..Settings::default() };
        // Each other host has one receiver, to which only it and host 0 send.
        let [with, without] = [15, 0].map(|greedy| {
            let mut pod = Pod::new(Shape::square(16).unwrap(), settings);
            (1..=greedy).for_each(|to| pod.ask(host(0), To::Host(to), 1 << 30));
            (1..16u16).for_each(|from| pod.ask(host(from), To::Host(from % 15 + 1), 1 << 30));
            grants_by_sender(&mut pod, 3000)
        });
        assert!(with[0] <= 3000, "{}: one grant an epoch", kind.name());
        for from in 1..16 {
            // Host 0 sends to one of 15 receivers an epoch, and takes a path of its ToR.
            assert!(with[from] >= without[from] * 2 / 3, "{} {with:?} {without:?}", kind.name());
        }
    }
}

#[test]
fn with_turns_by_age_no_demand_waits_longer_than_the_bound() {
    let settings = Settings { fair_every: 4, ..Settings::default() };
    let mut pod = Pod::new(Shape::square(16).unwrap(), settings);
    // Host 0 to all, all to host 1, sizes so different that the large ones never win by size.
    for at in 2..16u16 {
        pod.ask(host(0), To::Host(at), if at % 2 == 0 { 1 << 30 } else { 1 << 28 });
        pod.ask(host(at), To::Host(1), if at % 2 == 0 { 1 << 30 } else { 1 << 26 });
    }
    pod.ask(host(0), To::Host(1), 1 << 30);
    let mut last: BTreeMap<(Client, To), u64> = BTreeMap::new();
    for _ in 0..2000 {
        for answer in pod.quiet() {
            let at = last.entry((answer.client, answer.to)).or_insert(30);
            // 15 demands at either end.
            assert!(answer.epoch - *at <= 4 * (15 + 15), "{answer:?} after {at}");
            *at = answer.epoch;
        }
    }
    assert_eq!(last.len(), 29);
}

#[test]
fn a_silent_host_has_no_slots_and_its_demands_say_so() {
    let mut pod = Pod::explained(Shape::square(16).unwrap(), Settings::default());
    pod.ask(host(1), To::Host(2), 1 << 30);
    pod.ask(host(3), To::Host(1), 1 << 30);
    for epoch in 0..80u64 {
        let answers = pod.epoch(|client| client != host(1) || epoch < 20);
        // Its last request is of epoch 19; decisions leave 21 epochs after they are made.
        assert_eq!(answers.is_empty(), !(21..=22 + 21).contains(&epoch), "{epoch}: {answers:?}");
    }
    let fates = [(0, 22, DemandFate::Granted), (23, 79, DemandFate::Silent)];
    assert_eq!(pod.fates(host(1), To::Host(2)), fates);
    assert_eq!(pod.fates(host(3), To::Host(1)), fates);
}

#[test]
fn a_link_that_loses_cells_is_found_by_receipts_and_avoided() {
    let settings = Settings { lead: 3, delay: 1, judge_after: 8, ..Settings::default() };
    let mut pod = Pod::new(Shape::square(16).unwrap(), settings);
    for from in 0..16u16 {
        pod.ask(host(from), To::Host((from + 5) % 16), 1 << 30);
    }
    let bad = PodLink::Up { tor: 1, agg: 2 };
    let is_bad = |answer: &Answer| matches!(answer.client, Client::Host(4..=7)) && answer.agg == 2;
    let mut pending: BTreeMap<u64, Vec<Answer>> = BTreeMap::new();
    let mut used_after = 0;
    for _ in 0..200u64 {
        let now = pod.epoch;
        let mut spoken = BTreeMap::<Client, (Option<u64>, Option<u64>)>::new();
        for answer in pending.remove(&now.wrapping_sub(1)).unwrap_or_default() {
            let To::Host(to) = answer.to else { continue };
            let (says, arrived, lost) = match is_bad(&answer) {
                true => (answer.client, None, Some(now - 1)),
                false => (host(to), Some(now - 1), None),
            };
            let said = spoken.entry(says).or_default();
            *said = (arrived.or(said.0), lost.or(said.1));
        }
        for (from, (arrived, lost)) in spoken {
            let (updates, _) = pod.request(from);
            let rts = Rts { arrived, lost, updates: &updates, ..pod.rts(from) };
            pod.scheduler.handle_rts(&rts, now);
        }
        let answers = pod.quiet();
        pod.check(&answers);
        if now > 60 {
            used_after += answers.iter().filter(|answer| is_bad(answer)).count();
        }
        for answer in answers {
            pending.entry(answer.epoch).or_default().push(answer);
        }
    }
    assert!(pod.scheduler.avoids(bad));
    assert_eq!(used_after, 0);
    for tor in 0..4 {
        for agg in 0..4 {
            assert!(!pod.scheduler.avoids(PodLink::Down { tor, agg }), "{tor} {agg}");
            assert!((tor, agg) == (1, 2) || !pod.scheduler.avoids(PodLink::Up { tor, agg }));
        }
    }
    assert_eq!(pod.scheduler.counters().accused, 1);
    assert!(pod.scheduler.set_link(bad, true) && !pod.scheduler.avoids(bad));
    assert!(!pod.scheduler.set_link(PodLink::Up { tor: 4, agg: 0 }, true));
}

#[test]
fn a_demand_without_a_route_waits_for_links() {
    let mut pod = Pod::explained(Shape::square(16).unwrap(), Settings::default());
    pod.ask(host(0), To::Host(15), 1000);
    for agg in 0..4 {
        assert!(pod.scheduler.set_link(PodLink::Up { tor: 0, agg }, false));
    }
    pod.quiet();
    pod.quiet();
    assert!(pod.scheduler.set_link(PodLink::Up { tor: 0, agg: 1 }, true));
    pod.quiet();
    let fates = [(0, 1, DemandFate::Broken), (2, 2, DemandFate::Granted)];
    assert_eq!(pod.fates(host(0), To::Host(15)), fates);
}

#[test]
fn a_core_that_is_full_for_a_pod_gets_nothing_for_it() {
    let mut pod = Pod::explained(multi(), Settings { silent_after: 0, ..Settings::default() });
    for from in 0..16 {
        pod.ask(host(from), To::Pod(5), 1 << 20);
    }
    for epoch in 0..60u64 {
        for core in 0..7 {
            let paused = if core == 3 { 0 } else { 1 << 5 };
            let rts = Rts { paused, ..pod.rts(Client::Core(core)) };
            pod.scheduler.handle_rts(&rts, epoch);
        }
        let answers = pod.epoch(|client| matches!(client, Client::Host(_)));
        assert!(answers.iter().all(|answer| answer.core == Some(3)), "{answers:?}");
        assert_eq!(answers.len(), usize::from(epoch >= 21));
    }
    // Its one port is granted to one host after another.
    let fates = (0..16).flat_map(|from| pod.fates(host(from), To::Pod(5)));
    let known: BTreeSet<DemandFate> = fates.map(|(.., fate)| fate).collect();
    assert_eq!(known, BTreeSet::from([DemandFate::Granted, DemandFate::Receiver]));
}

#[test]
fn what_holds_a_demand_is_named_in_each_epoch() {
    use DemandFate::{Ends, Granted, Receiver, Routes, Sender};
    // Two hosts of a ToR with one Agg: a cell at a time goes up.
    let settings = Settings { silent_after: 0, ..Settings::default() };
    let mut pod = Pod::explained(Shape::new(4, 2, 1).unwrap(), settings);
    for (from, to, epochs) in [(0, 2, 1), (0, 3, 2), (1, 2, 3), (1, 3, 4)] {
        pod.ask(host(from), To::Host(to), epochs * EPOCH);
    }
    for _ in 0..20 {
        pod.quiet();
    }
    let fates = |from, to| pod.fates(host(from), To::Host(to));
    assert_eq!(fates(0, 2), [(0, 0, Granted)]);
    assert_eq!(fates(0, 3), [(0, 0, Sender), (1, 2, Granted)]);
    assert_eq!(fates(1, 2), [(0, 0, Receiver), (1, 2, Routes), (3, 5, Granted)]);
    assert_eq!(fates(1, 3)[..2], [(0, 0, Routes), (1, 2, Receiver)]);
    assert_eq!(fates(1, 3)[2..], [(3, 5, Sender), (6, 9, Granted)]);
    let smaller = |from, to| {
        let log = pod.scheduler.clone().take_waits();
        log.of(host(from), To::Host(to)).iter().map(|span| span.smaller).collect::<Vec<_>>()
    };
    assert_eq!(smaller(1, 3), [false, true, true, false]);
    // Both ends are busy with others.
    let mut pod = Pod::explained(Shape::square(16).unwrap(), settings);
    for (from, to, epochs) in [(0, 5, 1), (4, 9, 1), (0, 9, 9)] {
        pod.ask(host(from), To::Host(to), epochs * EPOCH);
    }
    for _ in 0..12 {
        pod.quiet();
    }
    assert_eq!(pod.fates(host(0), To::Host(9)), [(0, 0, Ends), (1, 9, Granted)]);
}

#[test]
fn a_pause_that_its_core_does_not_repeat_ends_after_32_epochs() {
    let mut pod = Pod::explained(multi(), Settings { silent_after: 0, ..Settings::default() });
    for from in 0..16 {
        pod.ask(host(from), To::Pod(5), 1 << 20);
    }
    for core in 0..7 {
        let rts = Rts { paused: 1 << 5, ..pod.rts(Client::Core(core)) };
        assert!(pod.scheduler.handle_rts(&rts, 0));
    }
    let delay = Settings::default().delay;
    for epoch in 0..60u64 {
        let answers = pod.epoch(|client| matches!(client, Client::Host(_)));
        assert_eq!(answers.is_empty(), epoch < 33 + delay, "{epoch}: {answers:?}");
    }
    for from in 0..16 {
        let fates = pod.fates(host(from), To::Pod(5));
        assert_eq!(fates[0], (0, 32, DemandFate::Paused), "{fates:?}");
        assert!(fates[1..].iter().all(|(.., fate)| *fate != DemandFate::Paused), "{fates:?}");
    }
}

#[test]
fn cores_that_are_silent_or_that_join_are_no_broken_links() {
    let settings = Settings { joins_after: 40, ..Settings::default() };
    let mut pod = Pod::explained(multi(), settings);
    pod.ask(host(0), To::Pod(5), 1 << 24);
    let fate = |pod: &Pod| pod.fates(host(0), To::Pod(5)).last().map(|(.., fate)| *fate);
    for _ in 0..200 {
        pod.epoch(|client| matches!(client, Client::Host(_)));
    }
    assert_eq!(fate(&pod), Some(DemandFate::Silent));
    for agg in 0..pod.shape.aggs() {
        let agg = agg.try_into().unwrap();
        assert!(pod.scheduler.set_link(PodLink::Up { tor: 0, agg }, false));
    }
    pod.epoch(|client| matches!(client, Client::Host(_)));
    assert_eq!(fate(&pod), Some(DemandFate::Broken));
    // Hosts have come from another term by now, and Cores only come.
    let mut pod = Pod::explained(multi(), settings);
    assert!(pod.scheduler.begin_term(2, 0));
    pod.ask(host(0), To::Pod(5), 1 << 24);
    for _ in 0..60 {
        pod.epoch(|client| matches!(client, Client::Host(_)));
    }
    assert_eq!(fate(&pod), Some(DemandFate::Silent));
    pod.quiet();
    assert_eq!(fate(&pod), Some(DemandFate::Fence));
    for _ in 0..20 {
        pod.quiet();
    }
    assert_eq!(fate(&pod), Some(DemandFate::Granted));
}

#[test]
fn a_route_that_the_matcher_has_not_found_is_named() {
    let unmatched = |iterations: u32| {
        let setup = MatcherSetup { iterations, ..Settings::default().setup };
        let matcher = MatcherKind::Iterative;
        let settings = Settings { matcher, setup, silent_after: 0, ..Settings::default() };
        let mut pod = Pod::explained(Shape::square(64).unwrap(), settings);
        let pairs = (0..64).flat_map(|from| [1, 5, 23].map(|by| (host(from), (from + by) % 64)));
        let pairs: Vec<_> = pairs.map(|(from, to)| (from, To::Host(to))).collect();
        for (from, to) in &pairs {
            pod.ask(*from, *to, 1 << 20);
        }
        pod.quiet();
        let fates = pairs.iter().flat_map(|(from, to)| pod.fates(*from, *to));
        fates.filter(|(.., fate)| *fate == DemandFate::Unmatched).count()
    };
    assert!(unmatched(1) > 0);
    assert_eq!(unmatched(200), 0);
}

#[test]
fn a_new_term_forgets_and_grants_nothing_before_its_fence() {
    let mut pod = Pod::explained(Shape::square(16).unwrap(), Settings::default());
    pod.ask(host(0), To::Host(1), 1 << 20);
    for _ in 0..40 {
        pod.quiet();
    }
    assert!(!pod.scheduler.begin_term(1, 0) && pod.scheduler.begin_term(2, 100));
    assert_eq!((pod.scheduler.term(), pod.scheduler.demands().open()), (2, 0));
    // Hosts begin their totals anew.
    pod.totals.insert((host(0), To::Host(1)), 5000);
    assert!(pod.scheduler.poll_answer(u64::MAX).is_none(), "nothing of the old term leaves");
    pod.quiet();
    let mut epochs = Vec::new();
    for _ in 0..80 {
        epochs.extend(pod.quiet().iter().map(|answer| (answer.term, answer.epoch, answer.total)));
    }
    assert_eq!(epochs, [(2, 100, 5000)]);
    // The decision of epoch 70 is about epoch 100.
    let fates = [(40, 69, DemandFate::Fence), (70, 70, DemandFate::Granted)];
    assert!(pod.fates(host(0), To::Host(1)).ends_with(&fates));
}

#[test]
fn a_client_that_joins_a_later_term_waits_until_grants_of_another_scheduler_are_over() {
    let settings = Settings { joins_after: 40, ..Settings::default() };
    let mut pod = Pod::explained(Shape::square(16).unwrap(), settings);
    pod.ask(host(0), To::Host(1), 5000);
    let first: Vec<u64> = (0..40).flat_map(|_| pod.quiet()).map(|answer| answer.epoch).collect();
    assert_eq!(first, [30], "no other scheduler comes before the first term");
    assert!(pod.scheduler.begin_term(2, 0));
    pod.totals.clear();
    for sender in [0, 2, 4] {
        pod.ask(host(sender), To::Host(sender + 1), 5000);
    }
    // A receiver and a sender join 20 epochs later than all others.
    let late = [host(1), host(4)];
    let mut granted = Vec::new();
    while pod.epoch < 130 {
        let epoch = pod.epoch;
        let answers = pod.epoch(|client| epoch >= 60 || !late.contains(&client));
        granted.extend(answers.iter().map(|answer| (answer.epoch, answer.client)));
        for client in late {
            assert_eq!(pod.scheduler.has_to_itself(client, epoch), epoch >= 100, "{epoch}");
        }
    }
    granted.sort_unstable_by_key(|(epoch, client)| (*epoch, format!("{client:?}")));
    assert_eq!(granted, [(80, host(2)), (100, host(0)), (100, host(4))]);
    for sender in [0, 4] {
        let fates = [(60, 69, DemandFate::Fence), (70, 70, DemandFate::Granted)];
        let found = pod.fates(host(sender), To::Host(sender + 1));
        assert!(found.ends_with(&fates), "{sender}: {found:?}");
    }
}

#[test]
fn a_total_that_is_repeated_is_answered_by_what_was_granted() {
    let settings = Settings { silent_after: 0, ..Settings::default() };
    let mut pod = Pod::new(Shape::square(16).unwrap(), settings);
    let to = To::Host(7);
    pod.ask(host(1), to, 3 * EPOCH);
    pod.epoch(|from| from == host(1));
    assert_eq!(pod.scheduler.take_standing(host(1)), None, "a total that is new");
    for _ in 0..3 {
        pod.epoch(|_| false);
    }
    pod.epoch(|from| from == host(1));
    assert_eq!(pod.scheduler.take_standing(host(1)), Some((to, 3 * EPOCH)));
    assert_eq!(pod.scheduler.take_standing(host(1)), None, "once");
    assert_eq!(pod.scheduler.take_standing(host(99)), None);
    // A request that is refused has no standing.
    let updates = [Update { to, total: 3 * EPOCH }];
    let old = Rts { updates: &updates, term: 9, ..pod.rts(host(1)) };
    assert!(!pod.scheduler.handle_rts(&old, pod.epoch));
    assert_eq!(pod.scheduler.take_standing(host(1)), None);
}

#[test]
fn decisions_of_long_ago_are_not_looked_for_one_by_one() {
    let mut pod = Pod::new(Shape::square(16).unwrap(), Settings::default());
    pod.ask(host(1), To::Host(7), EPOCH);
    pod.epoch(|_| true);
    // A driver that stood still for long, and polled no answer.
    let later = 1 << 50;
    pod.scheduler.decide(later);
    assert_eq!(pod.scheduler.poll_answer(later), None);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let base = Settings::default();
    let settings = [
        ("cell", Settings { cell: 0, ..base }),
        ("cells", Settings { cells: 0, ..base }),
        ("lead", Settings { lead: 0, ..base }),
        ("lead", Settings { lead: u64::MAX, ..base }),
        ("delay", Settings { delay: 31, ..base }),
        ("backlog", Settings { backlog: 511, ..base }),
        ("judge_after", Settings { judge_after: 0, ..base }),
        ("retry_after", Settings { retry_after: 0, ..base }),
    ];
    for (name, settings) in settings {
        let error = PodDecider::new(Shape::square(16).unwrap(), settings, 1).unwrap_err();
        assert_eq!(error.name, name);
    }
}

#[test]
fn nothing_is_allocated_after_new() {
    for kind in MatcherKind::ALL {
        for ladder in [Ladder::One, Ladder::Sizes] {
            let settings = Settings { matcher: *kind, ladder, ..Settings::default() };
            let mut pod = Pod::new(multi(), settings);
            let mut chance = Chance::new(3);
            let updates: Vec<Vec<Update>> = (0..16u16)
                .map(|_| {
                    let to = (0..16).map(To::Host).chain((0..8).map(To::Pod));
                    to.map(|to| Update { to, total: chance.below(1 << 24) }).collect()
                })
                .collect();
            let counted = allocation_counter::measure(|| {
                for epoch in 0..100 {
                    pod.epoch = epoch;
                    for (from, updates) in (0..16).zip(&updates) {
                        let rts = Rts { updates, ..pod.rts(host(from)) };
                        pod.scheduler.handle_rts(&rts, epoch);
                    }
                    pod.scheduler.decide(epoch);
                    while pod.scheduler.poll_answer(epoch).is_some() {}
                }
            });
            assert_eq!(counted.count_total, 0, "{} {ladder:?}", kind.name());
            assert!(pod.scheduler.counters().grants > 500);
        }
    }
}
