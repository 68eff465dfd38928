//! Cells that a simulation carries as trains are where and when they would be one by one: every
//! flow ends at the same instant, and the summary is the same.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a few hosts")]

mod plans;

use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::workload::cm::{self, StartUnit};
use experiments::workload::{FlowSpec, matrix::Start};
use experiments::{topology, virtual_time};
use serde_json::Value;
use transport::{Bytes, Duration, HostId, Rng};

use plans::plan_of;

/// Flows of one byte to a megabyte between `hosts` hosts, which start within 100 us.
fn plan(topology: &str, transport: &str, set: &[(&str, &str)], hosts: u64) -> Plan {
    let mut rng = Rng::new(hosts);
    let mut starts: Vec<u64> = (0..300).map(|_| rng.below(100_000_000)).collect();
    starts.sort_unstable();
    let flows = starts.into_iter().map(|start| {
        let src = rng.below(hosts);
        let dst = (src + 1 + rng.below(hosts - 1)) % hosts;
        let most = 1 << rng.below(21);
        let size = Bytes(1 + rng.below(most));
        let start = Start::At(Duration::from_ps(start));
        FlowSpec { start, ..FlowSpec::new(HostId(src as u32), HostId(dst as u32), size) }
    });
    plan_of(topology, transport, set, flows)
}

fn run(plan: &Plan) -> Outcome {
    let outcome = virtual_time::run(plan, &mut Unwatched).unwrap();
    assert!(outcome.summary.audit.ok, "{:?}", outcome.summary.audit);
    assert_eq!(outcome.summary.flows.finished, 300);
    outcome
}

/// The cells that were no packets of their own.
fn joined(outcome: &Outcome) -> u64 {
    outcome.summary.counters.get("sched.zeropod.joined").copied().unwrap_or(0)
}

/// The summary without what is about time or trains.
fn compared(outcome: &Outcome, optimistic: bool) -> Value {
    let mut summary = serde_json::to_value(&outcome.summary).unwrap();
    for key in ["wall_s", "hops_per_s", "peak_rss_bytes", "provenance"] {
        summary.as_object_mut().unwrap().remove(key);
    }
    // The serialised summary has no counters where there are none.
    let mut counters = outcome.summary.counters.clone();
    counters.remove("sched.zeropod.joined");
    summary["counters"] = serde_json::to_value(counters).unwrap();
    if optimistic {
        // A cell without a grant that begins to leave in a gap between cells, and is cut off, is a
        // hop, and a look at the queue behind it.
        summary["packets"]["hops"] = Value::Null;
        summary["queue_bytes"]["mean"] = Value::Null;
    }
    summary
}

/// Settings of the case in which Cores have no room for all cells.
const CORES_THAT_LOSE: &[(&str, &str)] = &[("sched.zeropod.pause_cells", "1000")];

#[test]
fn flows_end_and_counters_are_as_with_one_packet_a_cell() {
    type Case<'a> = (&'a str, &'a str, u64, &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 10] = [
        ("zeropod:32", "zeropod", 256, &[]),
        ("zeropod:32", "zeropod-paper", 256, &[]),
        ("zeropod:8", "zeropod", 16, &[("sched.zeropod.optimistic", "64")]),
        ("zeropod-2x:8", "zeropod", 16, &[]),
        ("zeropod:8", "zeropod-paper", 16, &[("sched.zeropod.cells", "32")]),
        (
            "zeropod:8",
            "zeropod",
            16,
            &[("sched.zeropod.ask_every", "8"), ("sched.zeropod.superepoch", "8")],
        ),
        ("zeropod:8", "zeropod", 16, &[("run.message", "3000"), ("msg_window", "2")]),
        ("zeropod:8,2,2", "zeropod", 32, &[]),
        ("zeropod:8,4,2", "zeropod-paper", 64, &[("sim.threads", "3")]),
        ("zeropod:8,2,2", "zeropod", 32, CORES_THAT_LOSE),
    ];
    for (topology, transport, hosts, set) in cases {
        let off = [set, &[("sched.zeropod.trains", "off")]].concat();
        let loses = set == CORES_THAT_LOSE;
        let [trains, cells] = [set, &off].map(|set| {
            let mut plan = plan(topology, transport, set, hosts);
            if loses {
                // No plan has so small a buffer, as no pause would act in time.
                plan.fabric.sched.zeropod.core_buffer = 80_000;
            }
            run(&plan)
        });
        let context = format!("{topology} {transport} {set:?}");
        assert_eq!(trains.records, cells.records, "{context}");
        let optimistic = cells.summary.scheduler.as_ref().unwrap().optimistic_sent > 0;
        let [one, other] = [&trains, &cells].map(|outcome| compared(outcome, optimistic));
        assert_eq!(one, other, "{context}");
        assert_eq!(trains.stats, cells.stats, "{context}");
        // Only what a Core has lost is sent again, and that is no train.
        assert_eq!(trains.stats.retransmitted > 0, loses, "{context}");
        // Most cells are of flows of many cells.
        let inside = if topology.contains(',') { 8 } else { 2 };
        assert!(joined(&trains) > cells.stats.data_new / inside, "{context}: {}", joined(&trains));
        assert_eq!(joined(&cells), 0, "{context}");
    }
}

#[test]
fn there_is_no_train_where_something_may_happen_to_one_cell() {
    for set in [
        &[("fault", "down@tor:0:up:0,from_us=100000")][..],
        &[("sched.zeropod.clock_offset", "1us")],
        &[("sched.zeropod.clock_drift", "10")],
        &[("sched.zeropod.follow", "on"), ("sched.zeropod.guard", "20ns")],
        &[("nic.qdisc", "drop-tail")],
        &[("nic.depth", "1")],
        &[("psn_window", "1024")],
        &[("cc.fixed.bdps", "63")],
    ] {
        assert_eq!(joined(&run(&plan("zeropod:8", "zeropod", set, 16))), 0, "{set:?}");
    }
    assert_eq!(joined(&run(&plan("zeropod-ha:8", "zeropod", &[], 16))), 0, "a backup");
}

#[test]
fn a_bound_from_anywhere_but_a_preset_and_a_failure_of_a_matrix_leave_a_pod_without_trains() {
    let scenario = Origin::scenario("mine");
    let set = [scenario, Origin::World("nic"), Origin::HostsFile, Origin::Flag("x"), Origin::Set];
    let unset = [Origin::Default, Origin::Topology, Origin::Transport("zeropod")];
    let may_have_trains = |origin: Origin, set: &[(&str, &str)], lines: &str| {
        let mut draft = Draft::default();
        draft.set_transport("zeropod", origin.clone()).unwrap();
        for (key, value) in set {
            draft.set(key, value, origin.clone()).unwrap();
        }
        let tree = topology::by_name("zeropod:8").unwrap();
        let text = format!("Nodes {}\nConnections 1\n{lines}", tree.nodes);
        let matrix = cm::read(text.as_bytes(), "a.cm", StartUnit::default()).unwrap().matrix;
        Plan::new(&draft, matrix, &tree).unwrap().may_have_trains()
    };
    let flow = "0->9 start 0 size 100000\n";
    for origin in set.iter().chain(&unset) {
        assert!(may_have_trains(origin.clone(), &[], flow), "no bound, {origin}");
    }
    for bound in [("psn_window", "1024"), ("cc.fixed.bdps", "63"), ("nic.depth", "1")] {
        for (origins, expected) in [(&set[..], false), (&unset, true)] {
            for origin in origins {
                let may = may_have_trains(origin.clone(), &[bound], flow);
                assert_eq!(may, expected, "{bound:?}, {origin}");
            }
        }
    }
    let failure = format!("Failures 1\n{flow}failure switch_type TOR switch_id 0 link_id 0\n");
    assert!(!may_have_trains(Origin::Default, &[], &failure));
}

#[test]
fn a_run_that_explains_itself_has_every_cell() {
    let plan = plan("zeropod:8", "zeropod", &[], 16);
    let observe = Observe { why: true, ..Observe::default() };
    let explained = virtual_time::run_observed(&plan, &observe, &mut Unwatched).unwrap();
    let outcome = run(&plan);
    assert_eq!((joined(&explained), joined(&outcome) > 0), (0, true));
    assert_eq!(explained.records, outcome.records);
}
