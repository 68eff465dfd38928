//! Tests of Zeropod's hosts whose clocks are off: how soon they keep the pod's time, how well, and
//! that a run with clocks beyond the guard ends with every byte.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use experiments::measure::Outcome;
use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::topology::{FatTreeSpec, topo_file};
use experiments::workload::matrix::Start;
use experiments::workload::{FlowSpec, Matrix};
use experiments::{topology, virtual_time};
use transport::{Bytes, Duration, HostId, Rng};

const OFF: [(&str, &str); 2] =
    [("sched.zeropod.clock_offset", "100us"), ("sched.zeropod.clock_drift", "50")];

/// Runs 300 flows of random hosts and sizes up to 60 KB, which arrive over 200 us.
fn run(topology: &str, set: &[(&str, &str)], seed: u64) -> Outcome {
    run_on(&topology::by_name(topology).unwrap(), set, seed)
}

fn run_on(tree: &FatTreeSpec, set: &[(&str, &str)], seed: u64) -> Outcome {
    let outcome = outcome(tree, set, seed);
    let flows = &outcome.summary.flows;
    assert_eq!(flows.finished, 300, "{set:?}: {flows:?}");
    outcome
}

/// Settings with clocks that are off.
fn draft(set: &[(&str, &str)]) -> Draft {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).unwrap();
    for (key, value) in OFF.iter().chain(set) {
        draft.set(key, value, Origin::Set).unwrap();
    }
    draft
}

/// What comes of these flows, finished or not.
fn outcome(tree: &FatTreeSpec, set: &[(&str, &str)], seed: u64) -> Outcome {
    let draft = draft(set);
    let mut matrix = Matrix { nodes: tree.nodes, ..Matrix::default() };
    let (mut rng, hosts) = (Rng::new(seed), u64::from(tree.nodes));
    let host = |number: u64| HostId(u32::try_from(number).unwrap());
    for _ in 0..300 {
        let src = rng.below(hosts);
        let dst = (src + 1 + rng.below(hosts - 1)) % hosts;
        let start = Start::At(Duration::from_ps(rng.below(200_000_000)));
        let size = Bytes(1 + rng.below(60_000));
        let spec = FlowSpec::new(host(src), host(dst), size);
        matrix.push_flow(FlowSpec { start, ..spec }).unwrap();
    }
    let plan = Plan::new(&draft, matrix, tree).unwrap();
    virtual_time::run(&plan, &mut Unwatched).unwrap()
}

#[test]
fn clocks_that_start_100_us_off_and_drift_50_ppm_keep_the_pods_time_after_20_epochs() {
    for topology in ["zeropod:8", "zeropod:16", "zeropod:8,2,2", "zeropod:4,2,4"] {
        for seed in 0..3 {
            let outcome = run(topology, &[], seed);
            let pods = outcome.summary.scheduler.as_ref().unwrap();
            assert!((1..=20).contains(&pods.clock_epochs), "{}", pods.clock_epochs);
            // Half of the guard of 10 ns, and much less.
            assert!(pods.clock_error_ns < 1.0 && pods.clock_error_ns > 0.0, "{pods:?}");
            assert!(outcome.summary.audit.ok && outcome.summary.drops.is_empty());
            assert_eq!((pods.collisions, outcome.stats.retransmitted), (0, 0));
        }
    }
}

#[test]
fn jitter_up_to_the_guard_costs_nothing_and_two_guards_of_it_end_with_every_byte() {
    for (jitter, guard, is_clean) in [("10ns", "10ns", true), ("30ns", "15ns", false)] {
        let mut met = 0;
        for seed in 0..3 {
            let set = [("sched.zeropod.clock_jitter", jitter), ("sched.zeropod.guard", guard)];
            let outcome = run("zeropod:16", &set, seed);
            let summary = &outcome.summary;
            let pods = summary.scheduler.as_ref().unwrap();
            assert!(summary.audit.ok && pods.clock_epochs <= 20, "{:?}", summary.audit);
            // Half of the jitter at most.
            assert!(!is_clean || pods.clock_error_ns <= 5.0, "{}", pods.clock_error_ns);
            // What is lost is counted as what it is.
            let lost: u64 = summary.drops.values().sum();
            assert_eq!((pods.collisions, pods.clock_collisions), (0, lost));
            assert_eq!(lost > 0, outcome.stats.retransmitted > 0);
            met += lost;
        }
        assert_eq!(met == 0, is_clean, "{jitter} with a guard of {guard}: {met} are lost");
    }
}

/// The gap of the receiver's answer is before the first cell where the receiver is the first host
/// of its switch. A clock that is off by more than half of the guard brings that cell into the gap.
#[test]
fn a_cell_that_meets_an_answer_is_not_sent_in_the_same_slot_again() {
    let tree = topology::by_name("zeropod:8").unwrap();
    let mut again = 0;
    for seed in 0..3 {
        for number in 0..4 {
            let mut draft = draft(&[("sched.zeropod.guard", "0ns"), ("run.limit", "20ms")]);
            draft.set_seed(seed, Origin::Set);
            let mut matrix = Matrix { nodes: tree.nodes, ..Matrix::default() };
            for tor in 0..4 {
                let (src, dst) = (tor * 4 + (number + 1) % 4, (tor * 4 + 4) % 16 + number);
                matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), Bytes(30_000))).unwrap();
            }
            let plan = Plan::new(&draft, matrix, &tree).unwrap();
            let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
            let flows = &outcome.summary.flows;
            assert_eq!(flows.finished, 4, "{seed}, host {number} of a switch: {flows:?}");
            again += outcome.stats.retransmitted;
        }
    }
    assert!(again > 0, "no cell met an answer");
}

#[test]
fn clocks_settle_with_epochs_of_one_or_two_cells_and_short_links() {
    let tier = |radix: &str| format!("{radix}\nDownlink_speed_Gbps 100\nDownlink_Latency_ns 100\n");
    let (tor, agg) = (tier("Tier 0\nRadix_Up 2\nRadix_Down 2"), tier("Tier 1\nRadix_Down 4"));
    let text = format!("Nodes 8\nTiers 2\nPodsize 8\nSchedulers 1\n{tor}{agg}");
    let tree = topo_file::read(text.as_bytes(), "short.topo").unwrap();
    for cells in ["1", "2", "3"] {
        let outcome = run_on(&tree, &[("sched.zeropod.cells", cells)], 1);
        let pods = outcome.summary.scheduler.as_ref().unwrap();
        assert!((1..=40).contains(&pods.clock_epochs), "{cells}: {}", pods.clock_epochs);
        assert!(outcome.summary.audit.ok && pods.clock_error_ns < 1.0, "{cells}: {pods:?}");
        assert_eq!((pods.collisions, outcome.stats.retransmitted), (0, 0), "{cells}");
    }
}

#[test]
fn hosts_keep_the_time_where_some_of_what_their_scheduler_sends_and_gets_is_lost() {
    let outcome = run("zeropod:8", &[("fault", "loss:0.01@scheduler:0")], 1);
    let pods = outcome.summary.scheduler.as_ref().unwrap();
    assert!(!outcome.summary.drops.is_empty());
    assert!(outcome.summary.audit.ok && pods.clock_error_ns < 1.0, "{pods:?}");
    assert_eq!(pods.collisions, 0);
}

/// A collision that is none of the clocks' would fail the audit.
#[test]
fn whatever_answers_are_lost_by_chance_packets_that_meet_are_the_clocks() {
    let mut met = 0;
    for (fault, drift) in [
        ("loss:0.3@hosts", "50"),
        ("loss:0.5@scheduler:0", "200"),
        ("burst-loss:0.1@hosts,burst=20", "50"),
        ("burst-loss:0.3@hosts,burst=400", "500"),
        ("block-loss:0/0/0/0.3@hosts,block=4", "200"),
    ] {
        for jitter in ["0ns", "5ns", "9ns"] {
            let set = [
                ("fault", fault),
                ("run.limit", "2ms"),
                ("sched.zeropod.clock_drift", drift),
                ("sched.zeropod.clock_jitter", jitter),
            ];
            // Flows need not end by then.
            let outcome = outcome(&topology::by_name("zeropod:8").unwrap(), &set, 3);
            let pods = outcome.summary.scheduler.as_ref().unwrap();
            assert!(outcome.summary.audit.ok, "{set:?}: {:?}", outcome.summary.audit);
            assert_eq!(pods.collisions, 0, "{set:?}");
            met += pods.clock_collisions;
        }
    }
    assert!(met > 0, "no clock was off by more than its guard");
}
