//! Grants of several epochs: what they cover, and that no port is granted twice while they last.

use std::collections::{BTreeMap, BTreeSet};

use fabric::pod::matcher::MatcherKind;
use fabric::pod::scheduler::{Answer, Client, PodDecider, Rts, Settings, Update};
use fabric::pod::{Chance, Grant, IdlePorts, Shape, To};
use proptest::prelude::*;

/// An epoch's bytes by the default settings.
const EPOCH: u32 = 16 * 512;

fn settings(superepoch: u16) -> Settings {
    Settings { superepoch, silent_after: 0, fair_every: 0, ..Settings::default() }
}

fn ask(scheduler: &mut PodDecider, from: u16, (to, total): (u16, u32), epoch: u64) {
    let updates = [Update { to: To::Host(to), total }];
    let rts = Rts {
        from: Client::Host(from),
        pod: 0,
        term: scheduler.term(),
        epoch,
        updates: &updates,
        mice: &[],
        paused: 0,
        arrived: None,
        lost: None,
    };
    assert!(scheduler.handle_rts(&rts, epoch));
}

/// The answers of the decisions of `epochs`, all at once.
fn decided(scheduler: &mut PodDecider, epochs: std::ops::Range<u64>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for epoch in epochs {
        scheduler.decide(epoch);
        answers.extend(std::iter::from_fn(|| scheduler.poll_answer(epoch + 21)));
    }
    answers
}

#[test]
fn a_demand_that_fills_what_is_left_of_its_superepoch_is_granted_that_by_one_answer() {
    let mut scheduler = PodDecider::new(Shape::square(16).unwrap(), settings(8), 1).unwrap();
    ask(&mut scheduler, 3, (9, 12 * EPOCH + 700), 0);
    let said: Vec<_> = decided(&mut scheduler, 0..40)
        .iter()
        .map(|answer| (answer.epoch, answer.epochs, answer.cells, answer.total / EPOCH))
        .collect();
    // Decisions are for 30 epochs later, and superepochs begin with 32, 40 and so on.
    let first = [(30, 2, 16, 2), (32, 8, 16, 10), (40, 1, 16, 11), (41, 1, 16, 12)];
    assert_eq!(said, [&first[..], &[(42, 1, 2, 12)]].concat());
}

#[test]
fn a_run_goes_on_when_nothing_is_asked_for_and_its_sender_stays_on_record() {
    let mut scheduler = PodDecider::new(Shape::square(16).unwrap(), settings(8), 1).unwrap();
    ask(&mut scheduler, 3, (9, 8 * EPOCH), 2);
    scheduler.decide(2);
    assert_eq!(scheduler.demands().open(), 0);
    for epoch in 3..10 {
        assert!(scheduler.has_runs(epoch));
        scheduler.decide(epoch);
        assert_eq!(scheduler.sender_to(Client::Host(9), epoch + 30), Some(Client::Host(3)));
    }
    assert!(!scheduler.has_runs(10));
    assert_eq!(scheduler.handle_report(Client::Host(9), 39, 40), Some(Client::Host(3)));
    assert_eq!(scheduler.handle_report(Client::Host(8), 39, 40), None);
    assert_eq!(scheduler.handle_report(Client::Host(9), 41, 40), None, "not yet");
    assert_eq!(scheduler.counters().refused_in_all(), 2);
}

#[test]
fn turns_come_when_a_superepoch_begins_and_give_one_epoch() {
    let turning = Settings { fair_every: 16, ..settings(8) };
    let mut scheduler = PodDecider::new(Shape::square(16).unwrap(), turning, 1).unwrap();
    ask(&mut scheduler, 3, (9, 1000 * EPOCH), 0);
    let answers = decided(&mut scheduler, 0..400);
    let singles = answers.iter().filter(|answer| answer.epochs == 1);
    let begins: BTreeSet<_> = singles.map(|answer| answer.epoch % 8).collect();
    // All else goes to the one demand by runs, of seven epochs behind a turn.
    assert_eq!(begins, BTreeSet::from([0]));
    assert!(answers.iter().any(|answer| (answer.epoch % 8, answer.epochs) == (1, 7)));
    let total: u32 = answers.iter().map(|answer| u32::from(answer.epochs)).sum();
    assert_eq!(total, 402, "up to the end of the last superepoch");
}

#[test]
fn no_run_begins_while_a_link_is_accused() {
    let mut scheduler = PodDecider::new(Shape::square(16).unwrap(), settings(8), 1).unwrap();
    (0..16).for_each(|from| ask(&mut scheduler, from, ((from + 5) % 16, 1 << 30), 0));
    // Cells of the second switch's hosts by the third Agg are lost.
    let is_lost = |answer: &Answer| matches!(answer.client, Client::Host(4..=7)) && answer.agg == 2;
    let mut granted = BTreeMap::<u64, Vec<Answer>>::new();
    let (mut runs_before, mut singles_after) = (0, 0);
    for now in 1..300_u64 {
        let mut reports = BTreeMap::<Client, (Option<u64>, Option<u64>)>::new();
        for answer in granted.remove(&(now - 1)).unwrap_or_default() {
            let To::Host(to) = answer.to else { unreachable!() };
            if is_lost(&answer) {
                reports.entry(answer.client).or_default().1 = Some(now - 1);
            } else {
                reports.entry(Client::Host(to)).or_default().0 = Some(now - 1);
            }
        }
        for (from, (arrived, lost)) in reports {
            let (pod, term, paused) = (0, scheduler.term(), 0);
            let (updates, mice) = (&[], &[]);
            let rts = Rts { from, pod, term, epoch: now, updates, mice, paused, arrived, lost };
            scheduler.handle_rts(&rts, now);
        }
        let was_accused = scheduler.counters().accused > 0;
        for answer in decided(&mut scheduler, now..now + 1) {
            match (was_accused, answer.epochs) {
                (false, 2..) => runs_before += 1,
                (true, 1) => singles_after += 1,
                (true, _) => panic!("{answer:?}"),
                _ => {}
            }
            for epoch in answer.epoch..answer.epoch + u64::from(answer.epochs) {
                granted.entry(epoch).or_default().push(answer);
            }
        }
    }
    assert!(runs_before > 0 && singles_after > 0, "{runs_before} {singles_after}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_port_is_granted_twice_and_all_that_is_asked_for_is_granted(
        seed: u64,
        kind in prop::sample::select(MatcherKind::ALL.to_vec()),
        superepoch in 1_u16..=8,
        fair_every in prop::sample::select(&[0, 3, 16][..]),
    ) {
        let shape = Shape::square(16).unwrap();
        let settings = Settings { matcher: kind, fair_every, ..settings(superepoch) };
        let mut scheduler = PodDecider::new(shape, settings, seed).unwrap();
        let (mut draws, mut totals) = (Chance::new(seed), BTreeMap::<(u16, u16), u32>::new());
        let mut ports = BTreeMap::<u64, IdlePorts>::new();
        let mut granted = BTreeMap::<(u16, u16), u32>::new();
        for epoch in 0..900 {
            if epoch < 60 {
                let mut below = |n: u32| u16::try_from(draws.below(n)).unwrap();
                let (from, to) = (below(16), below(16));
                let doublings = below(18);
                let total = totals.entry((from, to)).or_default();
                *total += draws.below(1 << doublings);
                let total = *total;
                if from != to && scheduler.term() == 1 {
                    ask(&mut scheduler, from, (to, total), epoch);
                } else {
                    totals.remove(&(from, to));
                }
            }
            for answer in decided(&mut scheduler, epoch..epoch + 1) {
                let Client::Host(sender) = answer.client else { unreachable!() };
                let To::Host(receiver) = answer.to else { unreachable!() };
                granted.insert((sender, receiver), answer.total);
                let grant = Grant { sender, to: answer.to, agg: answer.agg, core: None };
                for epoch in answer.epoch..answer.epoch + u64::from(answer.epochs) {
                    let idle = ports.entry(epoch).or_insert(IdlePorts::idle(&shape));
                    prop_assert!(idle.occupy(&shape, &grant), "{answer:?}");
                }
            }
        }
        totals.retain(|_, total| *total > 0);
        prop_assert_eq!(scheduler.demands().open(), 0);
        prop_assert_eq!(granted, totals);
    }
}
