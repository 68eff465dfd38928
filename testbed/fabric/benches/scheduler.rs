//! The cost of one decision of the pod scheduler on one core, and the share of the pod that it
//! matches, for every matcher and kernel.
//!
//! Run: `cargo bench -p fabric --bench scheduler`. Everything compared takes turns; times are of
//! the fastest of many runs, for a busy machine only ever adds to them. Not a test: wall time on a
//! busy machine means little.
//!
//! With `--instructions` it prints callgrind's counts instead: it runs itself under valgrind, one
//! case at a time, and counts the instructions executed below the decision. Kernels that valgrind
//! lacks are left out.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

#[path = "../../../transport/benches/endpoint/callgrind.rs"]
mod callgrind;
#[path = "../tests/pod/plain.rs"]
mod plain;

use std::hint::black_box;
use std::path::Path;
use std::time::Instant as Wall;

use fabric::pod::load::DemandPattern;
use fabric::pod::matcher::{Match, Matcher, MatcherKind, MatcherSetup};
use fabric::pod::{Chance, Demands, Grant, IdlePorts, Kernel, Ladder, Shape};
use transport::params::ParamValue as _;

/// Turns of everything that is compared, and decisions of a run in a turn.
const TURNS: u32 = 200;
const DECISIONS: u32 = 20;

/// The argument with which a counted run prints the kernels that it can run.
const KERNELS: &str = "kernels";
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
    /// All that these kernels, the fastest one first, can run, in the order in which they are
    /// printed.
    fn all(kernels: &[Kernel]) -> Vec<Self> {
        let [best, others @ ..] = kernels else { return Vec::new() };
        let best = *best;
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
            for &kernel in others {
                add(kernel, 256, DemandPattern::All, Ladder::One);
                add(kernel, 256, DemandPattern::All, Ladder::Sizes);
            }
        }
        all
    }

    /// Names of matcher, kernel, hosts, receivers a host and ladder.
    fn args(&self) -> [String; 5] {
        let Self { kind, kernel, hosts, load, ladder } = self;
        let load = match load {
            DemandPattern::All => "all".to_owned(),
            DemandPattern::Some(each) => each.to_string(),
        };
        let (kind, kernel) = (kind.name().to_owned(), kernel.name().to_owned());
        [kind, kernel, hosts.to_string(), load, ladder.show()]
    }

    /// The subject that has these names.
    fn by_args(args: &[String]) -> Option<Self> {
        let [kind, kernel, hosts, load, ladder, ..] = args else { return None };
        let load = match load.as_str() {
            "all" => DemandPattern::All,
            each => DemandPattern::Some(each.parse().ok()?),
        };
        let (kind, kernel) = (MatcherKind::by_name(kind)?, Kernel::by_name(kernel)?);
        Some(Self {
            kind,
            kernel,
            hosts: hosts.parse().ok()?,
            load,
            ladder: Ladder::parse(ladder)?,
        })
    }

    fn name(&self) -> String {
        let [kind, kernel, hosts, load, _] = self.args();
        let classes = self.ladder.classes();
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

/// The name of [`part_decide`].
const PART: &str = "part_decide";

/// A function of its own, so that callgrind shows it.
#[inline(never)]
fn part_decide(case: &mut Case, mut ports: IdlePorts) {
    let Case { matcher, demands, chance, grants, .. } = case;
    grants.clear();
    matcher.decide(&[], demands, &mut ports, chance, grants);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == callgrind::CHILD) {
        child(&args[at + 1..]);
    } else if args.iter().any(|arg| arg == "--instructions") {
        if let Err(why) = count_all() {
            println!("{why}");
        }
    } else {
        measure_all();
    }
}

/// Kernels that this process can run, the fastest one first.
fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.iter().copied().filter(|kernel| kernel.is_supported())
}

/// `--counted kernels` or `--counted MATCHER KERNEL HOSTS RECEIVERS LADDER`.
fn child(args: &[String]) {
    if args.first().is_some_and(|arg| arg == KERNELS) {
        return kernels().for_each(|kernel| println!("{}", kernel.name()));
    }
    let subject = Subject::by_args(args).expect("matcher, kernel, hosts, receivers and ladder");
    let mut case = Case::new(&subject);
    let idle = IdlePorts::idle(case.demands.shape());
    (0..COUNTED).for_each(|_| part_decide(&mut case, idle));
}

/// Prints callgrind's counts.
fn count_all() -> Result<(), String> {
    let program = std::env::current_exe().expect("this program has a path");
    let counted = counted_kernels(&program)?;
    for kernel in kernels().filter(|kernel| !counted.contains(kernel)) {
        println!("{} is left out: this processor has it, and valgrind lacks it", kernel.name());
    }
    println!("matcher    kernel  hosts demand classes  instructions/decision  instructions/host");
    for subject in Subject::all(&counted) {
        let args = subject.args();
        let total = callgrind::count(&program, PART, &args.each_ref().map(String::as_str))?;
        let each = total as f64 / f64::from(COUNTED);
        let a_host = each / subject.hosts as f64;
        println!("{}  {each:>21.0} {a_host:>18.1}", subject.name());
    }
    Ok(())
}

/// Kernels that a process under valgrind can run: valgrind shows it a processor of its own.
fn counted_kernels(program: &Path) -> Result<Vec<Kernel>, String> {
    let run = callgrind::run(program, PART, &[KERNELS])?;
    let names = String::from_utf8_lossy(&run.stdout);
    Ok(names.lines().filter_map(Kernel::by_name).collect())
}

/// Prints times.
fn measure_all() {
    let kernels: Vec<Kernel> = kernels().collect();
    let mut cases: Vec<Case> = Subject::all(&kernels).iter().map(Case::new).collect();
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
