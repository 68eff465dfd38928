//! The cost of one decision of the pod scheduler on one core, and the share of the pod that it
//! matches, for every matcher and kernel.
//!
//! Run: `cargo bench -p fabric --bench scheduler`. Everything compared takes turns; times are of
//! the fastest of many runs, for a busy machine only ever adds to them. Not a test: wall time on a
//! busy machine means little.
//!
//! With `--instructions` it prints callgrind's counts instead: it runs itself under valgrind, one
//! case at a time, and counts the instructions executed below the decision.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

#[path = "../tests/pod/plain.rs"]
mod plain;

use std::hint::black_box;
use std::process::Command;
use std::time::Instant as Wall;

use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup};
use fabric::pod::{Chance, Demands, Grant, IdlePorts, Kernel, Ladder, Shape};

/// Turns of everything that is compared, and decisions of a run in a turn.
const TURNS: u32 = 200;
const DECISIONS: u32 = 20;

/// The argument with which the benchmark runs one case to be counted.
const CHILD: &str = "--counted";
/// Decisions that are counted.
const COUNTED: u32 = 40;

/// What is measured.
#[derive(Clone, Copy)]
struct Subject {
    kind: MatcherKind,
    kernel: Kernel,
    hosts: usize,
    load: DemandPattern,
    ladder: Ladder,
}

impl Subject {
    /// All, in the order in which they are printed.
    fn all() -> Vec<Self> {
        let best = Kernel::best();
        let mut all = Vec::new();
        for &kind in MatcherKind::ALL {
            let mut add = |kernel, hosts, load, ladder| {
                all.push(Self { kind, kernel, hosts, load, ladder });
            };
            for hosts in [16, 64, 256, 1024] {
                add(best, hosts, DemandPattern::All, Ladder::One);
            }
            for each in [1, 4, 16] {
                add(best, 256, DemandPattern::Some(each), Ladder::One);
            }
            for (hosts, load) in [
                (256, DemandPattern::All),
                (1024, DemandPattern::All),
                (256, DemandPattern::Some(16)),
            ] {
                add(best, hosts, load, Ladder::Sizes);
            }
            for &kernel in Kernel::ALL.iter().filter(|k| **k != best && k.is_supported()) {
                add(kernel, 256, DemandPattern::All, Ladder::One);
                add(kernel, 256, DemandPattern::All, Ladder::Sizes);
            }
        }
        all
    }

    fn name(&self) -> String {
        let load = match self.load {
            DemandPattern::All => "all".to_owned(),
            DemandPattern::Some(each) => each.to_string(),
        };
        let Self { kind, kernel, hosts, ladder, .. } = self;
        let (kind, kernel, classes) = (kind.name(), kernel.name(), ladder.classes());
        format!("{kind:<10} {kernel:<7} {hosts:>5} {load:>5} {classes:>7}")
    }
}

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
    fn new(subject: &Subject) -> Self {
        let Subject { kind, kernel, hosts, load, ladder } = *subject;
        let shape = Shape::square(hosts).expect("a pod");
        let mut chance = Chance::new(1);
        let demands = load.demands(&shape, ladder, &mut chance);
        let setup = MatcherSetup { kernel, ..MatcherSetup::default() };
        let matcher = Matcher::new(kind, &shape, setup);
        let (name, grants) = (subject.name(), Vec::with_capacity(hosts));
        Self { name, matcher, demands, chance, grants, best: f64::INFINITY, granted: 0, decided: 0 }
    }

    fn turn(&mut self) {
        let idle = IdlePorts::idle(self.demands.shape());
        let start = Wall::now();
        for _ in 0..DECISIONS {
            part_decide(self, idle);
            self.granted += self.grants.len();
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(DECISIONS);
        self.decided += DECISIONS as usize * self.demands.shape().hosts();
        self.best = self.best.min(ns);
    }
}

/// A function of its own, so that callgrind shows it.
#[inline(never)]
fn part_decide(case: &mut Case, mut ports: IdlePorts) {
    let Case { matcher, demands, chance, grants, .. } = case;
    grants.clear();
    matcher.decide(&[], demands, &mut ports, chance, grants);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == CHILD) {
        let subject = Subject::all()[args[at + 1].parse::<usize>().expect("the number of a case")];
        let mut case = Case::new(&subject);
        let idle = IdlePorts::idle(case.demands.shape());
        (0..COUNTED).for_each(|_| part_decide(&mut case, idle));
    } else if args.iter().any(|arg| arg == "--instructions") {
        count_all();
    } else {
        measure_all();
    }
}

/// Prints callgrind's counts.
fn count_all() {
    println!("matcher    kernel  hosts demand classes  instructions/decision  instructions/host");
    for (number, subject) in Subject::all().iter().enumerate() {
        match count(number) {
            Ok(total) => {
                let each = total as f64 / f64::from(COUNTED);
                let a_host = each / subject.hosts as f64;
                println!("{}  {each:>21.0} {a_host:>18.1}", subject.name());
            }
            Err(why) => return println!("{why}"),
        }
    }
}

/// Instructions below [`part_decide`] in all counted decisions of a case.
fn count(number: usize) -> Result<u64, String> {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*part_decide*")
        .arg(std::env::current_exe().expect("this program has a path"))
        .args([CHILD, &number.to_string()])
        .output()
        .map_err(|error| format!("not counted: valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&run.stderr);
    let total =
        said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    total.ok_or_else(|| format!("not counted: valgrind said {said}"))
}

/// Prints times.
fn measure_all() {
    let mut cases: Vec<Case> = Subject::all().iter().map(Case::new).collect();
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
