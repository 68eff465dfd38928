//! The cost of one decision of the pod scheduler on one core, and the share of the pod that it
//! matches, for every matcher and kernel.
//!
//! Run: `cargo bench -p fabric --bench scheduler`. Everything compared takes turns; times are of
//! the fastest of many runs, for a busy machine only ever adds to them. Not a test: wall time on a
//! busy machine means little.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

#[path = "../tests/pod/plain.rs"]
mod plain;

use std::hint::black_box;
use std::time::Instant as Wall;

use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup};
use fabric::pod::{Chance, Demands, Grant, IdlePorts, Kernel, Ladder, Shape};

/// Turns of everything that is compared, and decisions of a run in a turn.
const TURNS: u32 = 200;
const DECISIONS: u32 = 20;

/// One thing that is measured.
struct Case {
    name: String,
    matcher: Matcher,
    demands: Demands,
    chance: Chance,
    grants: Vec<Grant>,
    /// The fastest run, ns a decision.
    best: f64,
    granted: usize,
    decided: usize,
}

impl Case {
    fn new(
        kind: MatcherKind,
        kernel: Kernel,
        hosts: usize,
        load: DemandPattern,
        ladder: Ladder,
    ) -> Self {
        let shape = Shape::square(hosts).expect("a pod");
        let mut chance = Chance::new(1);
        let demands = load.demands(&shape, ladder, &mut chance);
        let load = match load {
            DemandPattern::All => "all".to_owned(),
            DemandPattern::Some(each) => each.to_string(),
        };
        let name = format!(
            "{:<10} {:<7} {hosts:>5} {load:>5} {:>7}",
            kind.name(),
            kernel.name(),
            ladder.classes()
        );
        let matcher =
            Matcher::new(kind, &shape, MatcherSetup { kernel, ..MatcherSetup::default() });
        let grants = Vec::with_capacity(hosts);
        Self { name, matcher, demands, chance, grants, best: f64::INFINITY, granted: 0, decided: 0 }
    }

    fn turn(&mut self) {
        let idle = IdlePorts::idle(self.demands.shape());
        let start = Wall::now();
        for _ in 0..DECISIONS {
            self.grants.clear();
            self.matcher.decide(
                &[],
                &self.demands,
                &mut idle.clone(),
                &mut self.chance,
                &mut self.grants,
            );
            self.granted += self.grants.len();
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(DECISIONS);
        self.decided += DECISIONS as usize * self.demands.shape().hosts();
        self.best = self.best.min(ns);
    }
}

fn main() {
    let mut cases = Vec::new();
    let best = Kernel::best();
    for kind in MatcherKind::ALL {
        for (hosts, load) in [
            (16, DemandPattern::All),
            (64, DemandPattern::All),
            (256, DemandPattern::All),
            (1024, DemandPattern::All),
        ] {
            cases.push(Case::new(*kind, best, hosts, load, Ladder::One));
        }
        for each in [1, 4, 16] {
            cases.push(Case::new(*kind, best, 256, DemandPattern::Some(each), Ladder::One));
        }
        for (hosts, load) in
            [(256, DemandPattern::All), (1024, DemandPattern::All), (256, DemandPattern::Some(16))]
        {
            cases.push(Case::new(*kind, best, hosts, load, Ladder::Sizes));
        }
        for kernel in Kernel::ALL.iter().filter(|kernel| **kernel != best && kernel.is_supported())
        {
            cases.push(Case::new(*kind, *kernel, 256, DemandPattern::All, Ladder::One));
            cases.push(Case::new(*kind, *kernel, 256, DemandPattern::All, Ladder::Sizes));
        }
    }
    for _ in 0..TURNS {
        cases.iter_mut().for_each(Case::turn);
    }
    let ladder = Ladder::One;
    let shape = Shape::square(256).expect("a pod");
    let demands = DemandPattern::All.demands(&shape, ladder, &mut Chance::new(1));
    let mut chance = Chance::new(2);
    let mut straight = f64::INFINITY;
    for _ in 0..TURNS / 10 {
        let start = Wall::now();
        black_box(plain::decide(&demands, 6, &mut chance));
        straight = straight.min(start.elapsed().as_secs_f64() * 1e9);
    }
    println!(
        "Algorithm 1 one demand at a time, 256 hosts, all pairs, 6 iterations: {straight:.0} ns"
    );
    println!("matcher    kernel  hosts demand classes  ns/decision  ns/host  matched");
    for case in cases {
        let hosts = case.demands.shape().hosts() as f64;
        let matched = case.granted as f64 / case.decided as f64;
        println!("{}  {:>11.0} {:>8.2}  {matched:.4}", case.name, case.best, case.best / hosts);
    }
}
