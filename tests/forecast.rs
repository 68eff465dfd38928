//! The forecast of a simulation against its run: hops by the network's count, memory by the peak of
//! a process. Time is left out, because it depends on the machine.
//!
//! `cargo test --workspace --test forecast -- --nocapture` prints both sides.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

use experiments::forecast::{Forecast, PROCESS};
use experiments::plan::{Draft, Plan};
use experiments::progress::Unwatched;
use experiments::workload::{self, Params};
use experiments::{topology, virtual_time};
use transport::Rng;

/// A matrix that is not made yet, its topology, and what to call it.
struct Case {
    name: &'static str,
    topology: &'static str,
    generator: (&'static str, u32, &'static [(&'static str, &'static str)]),
}

impl Case {
    fn plan(&self) -> Plan {
        let (kind, hosts, params) = self.generator;
        let workload = workload::by_name(kind, &Params::from_pairs(params.iter().copied()));
        let matrix = workload.unwrap().generate(hosts, &mut Rng::new(1)).unwrap();
        let topology = topology::by_name(self.topology).unwrap();
        Plan::new(&Draft::default(), matrix, &topology).unwrap()
    }
}

const CASES: &[Case] = &[
    Case {
        name: "permutation of 1 MiB",
        topology: "ft128-8os",
        generator: ("permutation", 128, &[("size", "1MiB")]),
    },
    Case {
        name: "permutation of 64 KiB",
        topology: "ft128-1os",
        generator: ("permutation", 128, &[("size", "64KiB")]),
    },
    Case {
        name: "permutation of 256 KiB",
        topology: "ft1024-1os",
        generator: ("permutation", 1024, &[("size", "256KiB")]),
    },
    Case {
        name: "permutation of 256 KiB",
        topology: "ft1024-8os",
        generator: ("permutation", 1024, &[("size", "256KiB")]),
    },
    Case {
        name: "incast 8:1 of 4 MiB",
        topology: "ft128-1os",
        generator: ("incast", 128, &[("degree", "8"), ("size", "4MiB")]),
    },
    Case {
        name: "incast 500:1 of 256 KiB",
        topology: "ft1024-1os",
        generator: ("incast", 1024, &[("degree", "500"), ("size", "256KiB")]),
    },
    Case {
        name: "all-to-all",
        topology: "ft128-1os",
        generator: ("all-to-all", 64, &[("size", "64KiB"), ("window", "0")]),
    },
    Case {
        name: "all-to-all, 8 at a time",
        topology: "ft128-1os",
        generator: ("all-to-all", 64, &[("size", "64KiB"), ("window", "8")]),
    },
    Case {
        name: "100,000 short flows",
        topology: "ft1024-1os",
        generator: (
            "poisson",
            1024,
            &[("size", "4KiB"), ("link_rate", "800Gbps"), ("load", "0.4"), ("duration", "10us")],
        ),
    },
];

/// Which case a process of its own runs: the peak of its memory is then that of the case.
const CASE: &str = "FORECAST_CASE";

/// The most memory that this process has ever had, kB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "a part of the other test, in a process of its own"]
fn one_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    // The program itself is larger here than the command is.
    let before = peak_kb();
    let plan = CASES[case.parse::<usize>().unwrap()].plan();
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    println!("cost: {} {}", outcome.summary.packets.hops.unwrap(), peak_kb() - before);
}

/// Hops and bytes that a case takes.
fn measured(case: usize) -> (u64, u64) {
    let this = std::env::current_exe().unwrap();
    let args = ["--exact", "one_case", "--ignored", "--nocapture"];
    let ran = Command::new(this).args(args).env(CASE, case.to_string()).output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    let cost = out.lines().find_map(|line| line.split_once("cost: "));
    let (_, cost) = cost.unwrap_or_else(|| panic!("case {case} says {out}"));
    let (hops, kb) = cost.split_once(' ').unwrap();
    (hops.parse().unwrap(), kb.parse::<u64>().unwrap() * 1024 + PROCESS)
}

#[test]
fn runs_cost_what_was_forecast_within_a_factor_of_two() {
    let mut wrong = Vec::new();
    for (case, of) in CASES.iter().enumerate() {
        let expected = Forecast::of(&of.plan());
        let (hops, bytes) = measured(case);
        let line = format!(
            "{}, {}: {hops} hops, {} expected; {} kB, {} expected",
            of.name,
            of.topology,
            expected.hops,
            bytes / 1000,
            expected.memory.0 / 1000
        );
        println!("{line}");
        let near = |is: u64, expected: u64| is <= 2 * expected && expected <= 2 * is;
        if !near(hops, expected.hops) || !near(bytes, expected.memory.0) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
