//! `iterative` has the law of Algorithm 1: as many hosts are matched after each iteration as by one
//! demand at a time, and as many as the reference's table has.

use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup};
use fabric::pod::{Chance, Demands, IdlePorts, Ladder, Shape};

const ITERATIONS: [u32; 7] = [1, 2, 3, 4, 5, 6, 10];

/// The share of hosts matched after each number of iterations, over `rounds` demands and decisions.
fn shares(load: DemandPattern, hosts: usize, ladder: Ladder, rounds: u32) -> [f64; 7] {
    let shape = Shape::square(hosts).unwrap();
    let mut chance = Chance::new(18);
    let mut matched = [0; 7];
    let mut matchers = ITERATIONS.map(|iterations| {
        Matcher::new(
            MatcherKind::Iterative,
            &shape,
            MatcherSetup { iterations, ..MatcherSetup::default() },
        )
    });
    let mut grants = Vec::with_capacity(hosts);
    for _ in 0..rounds {
        let demands = load.demands(&shape, ladder, &mut chance);
        for (matcher, matched) in matchers.iter_mut().zip(&mut matched) {
            grants.clear();
            matcher.decide(&[], &demands, &mut IdlePorts::idle(&shape), &mut chance, &mut grants);
            *matched += grants.len();
        }
    }
    matched.map(|count| count as f64 / f64::from(rounds) / hosts as f64)
}

fn plain_shares(load: DemandPattern, hosts: usize, ladder: Ladder, rounds: u32) -> [f64; 7] {
    let shape = Shape::square(hosts).unwrap();
    let mut chance = Chance::new(81);
    let mut matched = [0; 7];
    for _ in 0..rounds {
        let demands: Demands = load.demands(&shape, ladder, &mut chance);
        let (_, counts) = super::plain::decide(&demands, 10, &mut chance);
        for (matched, at) in matched.iter_mut().zip(ITERATIONS) {
            *matched += counts[at as usize - 1];
        }
    }
    matched.map(|count| count as f64 / f64::from(rounds) / hosts as f64)
}

fn assert_near(found: [f64; 7], wanted: [f64; 7], within: f64, what: &str) {
    for (found_at, wanted_at) in found.iter().zip(wanted) {
        assert!((found_at - wanted_at).abs() <= within, "{what}: {found:.3?} for {wanted:.3?}");
    }
}

#[test]
fn shares_by_iteration_are_those_of_the_reference() {
    let of = |load, hosts, rounds| shares(load, hosts, Ladder::One, rounds);
    let all = [0.478, 0.743, 0.880, 0.956, 0.991, 1.000, 1.000];
    assert_near(of(DemandPattern::All, 256, 100), all, 0.01, "all");
    let sixteen = [0.477, 0.723, 0.854, 0.901, 0.907, 0.907, 0.907];
    assert_near(of(DemandPattern::Some(16), 256, 100), sixteen, 0.01, "16");
    let four = [0.462, 0.691, 0.795, 0.821, 0.822, 0.822, 0.822];
    assert_near(of(DemandPattern::Some(4), 256, 100), four, 0.01, "4");
    let one = [0.404, 0.572, 0.624, 0.628, 0.628, 0.628, 0.628];
    assert_near(of(DemandPattern::Some(1), 256, 100), one, 0.01, "1");
    let small = [0.536, 0.832, 0.971, 0.992, 0.993, 0.993, 0.993];
    assert_near(of(DemandPattern::All, 16, 1000), small, 0.01, "16 hosts");
}

#[test]
fn shares_by_iteration_are_those_of_one_demand_at_a_time() {
    for (load, hosts, ladder, rounds) in [
        (DemandPattern::All, 256, Ladder::One, 20),
        (DemandPattern::All, 64, Ladder::One, 200),
        (DemandPattern::All, 64, Ladder::Pias, 200),
        (DemandPattern::All, 256, Ladder::Pias, 20),
        (DemandPattern::All, 256, Ladder::Sizes, 20),
        (DemandPattern::Some(16), 64, Ladder::One, 300),
        (DemandPattern::Some(16), 256, Ladder::Sizes, 100),
        (DemandPattern::Some(3), 100, Ladder::Pias, 300),
    ] {
        let found = shares(load, hosts, ladder, rounds);
        let wanted = plain_shares(load, hosts, ladder, rounds);
        assert_near(found, wanted, 0.015, &format!("{load:?} {hosts} {ladder:?}"));
    }
}
