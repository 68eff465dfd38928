//! Tests of a pod whose scheduler fails: a backup takes over, or the scheduler restarts. At
//! whatever instant that happens, all flows finish, no packet meets another, and no host that waits
//! is without grants for longer than a bound.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing test panics")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a few hosts")]

use experiments::measure::Outcome;
use experiments::plan::{Draft, Origin, Plan, RunError};
use experiments::progress::{Progress, Watch};
use experiments::scenario::FaultSpec;
use experiments::workload::{FlowSpec, Matrix};
use experiments::{topology, virtual_time};
use transport::{Bytes, Duration, HostId, Rng};

struct Patient;

impl Watch for Patient {
    fn goes_on(&mut self, _progress: &Progress) -> bool {
        true
    }
}

/// Runs with other instants for the faults: `POD_FAILOVERS=1000` for the whole sweep.
fn cases() -> u64 {
    let set = std::env::var("POD_FAILOVERS").ok().and_then(|text| text.parse().ok());
    set.unwrap_or(40)
}

fn faulty(topology: &str, matrix: &Matrix, faults: &[String]) -> Result<Plan, RunError> {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).unwrap();
    for fault in faults {
        draft.add_fault(fault.parse::<FaultSpec>().unwrap(), Origin::Set);
    }
    Plan::new(&draft, matrix.clone(), &topology::by_name(topology).unwrap())
}

/// Flows of many sizes between random hosts, which start within 100 us.
fn flows(hosts: u32, count: u32, rng: &mut Rng) -> Matrix {
    let mut matrix = Matrix { nodes: hosts, ..Matrix::default() };
    for _ in 0..count {
        let src = rng.below(hosts.into()) as u32;
        let dst = (src + 1 + rng.below(u64::from(hosts) - 1) as u32) % hosts;
        let doublings = 9 + rng.below(9);
        let size = 1 + rng.below(1 << doublings);
        let start = experiments::workload::matrix::Start::At(Duration::from_ns(rng.below(100_000)));
        let spec = FlowSpec { start, ..FlowSpec::new(HostId(src), HostId(dst), Bytes(size)) };
        matrix.push_flow(spec).unwrap();
    }
    matrix
}

/// One flow from each host to the next one, all of which can send at once.
fn ring(hosts: u32, rng: &mut Rng) -> Matrix {
    let mut matrix = Matrix { nodes: hosts, ..Matrix::default() };
    for src in 0..hosts {
        let size = 1 + rng.below(1 << 20);
        let start = experiments::workload::matrix::Start::At(Duration::from_ns(rng.below(100_000)));
        let to = HostId((src + 1) % hosts);
        let spec = FlowSpec { start, ..FlowSpec::new(HostId(src), to, Bytes(size)) };
        matrix.push_flow(spec).unwrap();
    }
    matrix
}

fn run(topology: &str, matrix: &Matrix, faults: &[String]) -> Outcome {
    let plan = faulty(topology, matrix, faults).unwrap_or_else(|error| panic!("{error}"));
    let outcome = virtual_time::run(&plan, &mut Patient).unwrap();
    let summary = &outcome.summary;
    assert!(summary.audit.ok, "{faults:?}: {:?}", summary.audit);
    assert_eq!(summary.flows.finished, matrix.flows.len() as u64, "{faults:?}");
    assert_eq!(summary.scheduler.as_ref().unwrap().collisions, 0, "{faults:?}");
    outcome
}

/// 2 (D + 3) epochs of the paper's pod, and 24 in which the backup notifies hosts and these ask
/// anew.
fn silence_max() -> f64 {
    let epoch_us = 0.712_96;
    (2.0 * 33.0 + 24.0) * epoch_us
}

#[test]
fn a_scheduler_that_is_killed_at_any_instant_is_replaced_by_its_backup() {
    let mut longest: f64 = 0.0;
    for case in 0..cases() {
        let mut rng = Rng::new(case);
        let topology = ["zeropod-ha:4", "zeropod-ha:8"][rng.below(2) as usize];
        let hosts = topology::by_name(topology).unwrap().nodes;
        let alone = case % 2 == 0;
        let matrix = if alone { ring(hosts, &mut rng) } else { flows(hosts, 40, &mut rng) };
        let at = rng.below(120_000_000) as f64 / 1e6;
        let outcome = run(topology, &matrix, &[format!("kill@scheduler:0,from_us={at}")]);
        let pods = outcome.summary.scheduler.as_ref().unwrap();
        assert!(pods.term <= 2, "case {case}: {pods:?}");
        // Where hosts do not wait for each other as well.
        if alone {
            assert!(pods.outage_us <= silence_max(), "case {case}: {} us", pods.outage_us);
            longest = longest.max(pods.outage_us);
        }
    }
    // Some were killed while hosts waited.
    println!("longest silence {longest} us");
    assert!(longest > 0.4 * silence_max(), "{longest}");
}

#[test]
fn a_scheduler_that_restarts_or_is_cut_off_leaves_no_flow_behind() {
    for case in 0..cases() / 2 {
        let mut rng = Rng::new(1000 + case);
        let backed = rng.below(2) == 0;
        let topology = if backed { "zeropod-ha:8" } else { "zeropod:8" };
        let matrix = flows(16, 40, &mut rng);
        let at = rng.below(100_000_000) as f64 / 1e6;
        let until = at + rng.below(200_000_000) as f64 / 1e6;
        let faults = match rng.below(4) {
            0 => vec![format!("restart@scheduler:0,from_us={at}")],
            1 => vec![format!("kill@scheduler:0,from_us={at},until_us={}", until + 1.0)],
            2 => vec![format!("partition@scheduler:0,from_us={at},until_us={}", until + 1.0)],
            _ => vec![
                format!("kill@scheduler:0,from_us={at}"),
                format!("restart@scheduler:0,from_us={}", until + 1.0),
            ],
        };
        run(topology, &matrix, &faults);
    }
}

#[test]
fn each_scheduler_may_fail_in_turn() {
    let matrix = flows(16, 200, &mut Rng::new(5));
    let faults = [
        "kill@scheduler:0,from_us=20,until_us=60",
        "kill@backup:0,from_us=150",
        "partition@backup:0,from_us=100,until_us=101",
    ];
    let outcome = run("zeropod-ha:8", &matrix, &faults.map(str::to_owned));
    let pods = outcome.summary.scheduler.unwrap();
    assert_eq!(pods.term, 3, "{pods:?}");
}

#[test]
fn pods_with_cores_are_taken_over_too() {
    let matrix = flows(32, 100, &mut Rng::new(6));
    let fault = "kill@scheduler:1,from_us=50".to_owned();
    let outcome = run("zeropod-ha:8,2,4", &matrix, &[fault]);
    assert_eq!(outcome.summary.scheduler.unwrap().term, 2);
}

#[test]
fn a_backup_that_is_not_needed_changes_no_completion_time() {
    let matrix = flows(16, 60, &mut Rng::new(7));
    let [alone, backed] = ["zeropod:8", "zeropod-ha:8"].map(|topology| {
        let outcome = run(topology, &matrix, &[]);
        assert_eq!(outcome.summary.scheduler.as_ref().unwrap().term, 1);
        outcome.summary.completion_us
    });
    assert_eq!(alone, backed);
}

#[test]
fn faults_that_name_no_scheduler_are_refused() {
    let matrix = flows(16, 2, &mut Rng::new(8));
    for (topology, faults, words) in [
        ("zeropod:8", &["kill@backup:0"][..], &["kill@backup:0", "backup 0", "none"][..]),
        ("zeropod:8", &["kill@scheduler:1"], &["scheduler 1", "the only one is 0"]),
        ("ft128-1os", &["kill@scheduler:0"], &["scheduler 0", "none"]),
        (
            "zeropod:8",
            &["kill@scheduler:0,from_us=5", "kill@scheduler:0,from_us=9"],
            &["from_us=9", "lives", "killed before"],
        ),
    ] {
        let faults: Vec<_> = faults.iter().map(|fault| (*fault).to_owned()).collect();
        let mut draft = Draft::default();
        if topology.starts_with("zeropod") {
            draft.set_transport("zeropod", Origin::Set).unwrap();
        }
        faults.iter().for_each(|fault| draft.add_fault(fault.parse().unwrap(), Origin::Set));
        let tree = topology::by_name(topology).unwrap();
        let plan = Plan::new(&draft, matrix.clone(), &tree);
        let said = plan.map_or_else(|error| error.to_string(), |_| String::new());
        words.iter().for_each(|word| assert!(said.contains(word), "{faults:?}: {said}"));
    }
    for (fault, words) in [
        ("kill@tor:0", &["`tor:0` of `kill`", "kill@scheduler:POD"][..]),
        ("kill", &["`all` of `kill`"]),
        ("partition@host:3", &["`host:3` of `partition`"]),
        ("restart@scheduler:0,until_us=9", &["`until_us` on `restart`"]),
        ("kill:0.5@scheduler:0", &["`rate` on `kill`"]),
    ] {
        let error = fault.parse::<FaultSpec>().unwrap_err();
        let said = format!("{error} {}", error.help);
        words.iter().for_each(|word| assert!(said.contains(word), "{fault}: {said}"));
    }
}
