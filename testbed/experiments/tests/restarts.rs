//! Tests of hosts that begin anew in the middle of a simulation.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use experiments::measure::Outcome;
use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::topology;
use experiments::virtual_time;
use experiments::workload::matrix::Start;
use experiments::workload::{FlowSpec, Matrix};
use transport::{Bytes, DropReason, Duration, HostId, Instant};

const HOST: HostId = HostId(7);

fn flow(src: u32, dst: u32, size: u64) -> FlowSpec {
    FlowSpec::new(HostId(src), HostId(dst), Bytes(size))
}

/// Flows to [`HOST`] from hosts below and above it, as numbers go, and one that it sends. Messages
/// are short, so that several are under way whenever it begins anew.
fn around() -> Matrix {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    for (src, dst) in [(2, HOST.0), (12, HOST.0), (HOST.0, 3), (4, 11)] {
        matrix.push_flow(flow(src, dst, 120_000));
    }
    let start = Start::At(Duration::from_us(9));
    matrix.push_flow(FlowSpec { start, ..flow(15, HOST.0, 9000) });
    matrix
}

fn plan(matrix: &Matrix, settings: &[(&str, &str)], threads: usize) -> Plan {
    let topology = topology::by_name("leaf-spine:4,2,4").unwrap();
    let mut draft = Draft::default();
    for (key, value) in settings {
        match *key {
            "transport" => draft.set_transport(value, Origin::Set).unwrap(),
            _ => draft.set(key, value, Origin::Set).unwrap(),
        }
    }
    draft.threads = threads;
    Plan::new(&draft, matrix.clone(), &topology).unwrap()
}

fn run(plan: &Plan, window: Duration) -> Outcome {
    let outcome = virtual_time::run_in_windows(plan, window, &mut Unwatched).unwrap();
    assert!(outcome.summary.audit.ok, "{:?}", outcome.summary.audit.findings);
    outcome
}

#[test]
fn a_restart_gives_the_same_in_windows_of_any_length_on_any_number_of_threads() {
    let (mut again, mut reopened) = (0, 0);
    for tenths in [1, 7, 12, 25, 33, 41, 56, 77, 92, 101, 133] {
        let (at, later) = (f64::from(tenths) / 10.0, f64::from(tenths) / 7.0);
        let faults = [at, later].map(|at| format!("restart@host:{},from_us={at}", HOST.0));
        let [first, second] = &faults;
        let settings = [
            ("run.message", "1500"),
            ("sampling.interval", "1us"),
            ("fault", first),
            ("fault", second),
        ];
        let reference = run(&plan(&around(), &settings, 1), Duration::MAX);
        for threads in [1, 2, 3] {
            let plan = plan(&around(), &settings, threads);
            for window in [Duration::MAX, Duration::ZERO, Duration::from_ns(130)] {
                let outcome = run(&plan, window);
                assert!(outcome.adapted.is_empty(), "{:?}", outcome.adapted);
                let how = format!("{faults:?}, windows of {window:?}, {threads} threads");
                assert!(outcome.records == reference.records, "{how}");
                assert_eq!(outcome.summary, reference.summary, "{how}");
                assert!(outcome.series == reference.series, "{how}");
            }
        }
        let counters = &reference.summary.counters;
        again += counters.get("messages.delivered_again").copied().unwrap_or(0);
        reopened += reference.stats.flows_reopened;
        let failed = |line: usize| reference.records[line].failed;
        assert_eq!([0, 1, 3, 4].map(failed), [false; 4], "{faults:?}");
        assert_eq!(
            (failed(2), counters.get("flows.ended_by_restart")),
            (true, Some(&1)),
            "{faults:?}"
        );
        // Tables have room for the flows of both processes.
        assert_eq!(reference.summary.drops.get(DropReason::TableFull.name()), None);
    }
    assert!(again > 0 && reopened > 10, "{again} {reopened}");
}

/// Messages to host 3, of the first part, come again when the run ends. Host 12, of the last part,
/// has begun anew while they were under way.
#[test]
fn hosts_of_two_parts_begin_anew_and_the_limit_cuts_what_comes_again() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    for (src, dst) in [(2, 3), (15, 12), (6, 3), (2, 12)] {
        matrix.push_flow(flow(src, dst, 45_000));
    }
    let mut begun = 0;
    for at in ["2.5", "3", "3.5"] {
        for limit in ["11us", "11.5us", "12us", "12.5us", "13us"] {
            let fault = format!("restart@host:3,from_us={at}");
            let settings = [
                ("run.message", "9000"),
                ("run.limit", limit),
                ("fault", "restart@host:12,from_us=2.5"),
                ("fault", &fault),
            ];
            let of = |threads| run(&plan(&matrix, &settings, threads), Duration::MAX);
            let reference = of(1);
            begun += reference.records.iter().map(|record| record.begun).sum::<u64>();
            for outcome in [2, 3].map(of) {
                assert!(outcome.records == reference.records, "{at}, {limit}");
                assert_eq!(outcome.summary, reference.summary, "{at}, {limit}");
            }
        }
    }
    assert!(begun > 0);
}

#[test]
fn samples_count_a_message_once_that_comes_again() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    matrix.push_flow(flow(2, 3, 45_000));
    let mut again = 0;
    for from in [6.0, 6.5] {
        // The acknowledgements are lost that the earlier process sends.
        let down = format!("down@host:3,from_us={from},until_us=9");
        let settings = [
            ("sampling.interval", "500ns"),
            ("fault", &down),
            ("fault", "restart@host:3,from_us=9"),
        ];
        let outcome = run(&plan(&matrix, &settings, 2), Duration::MAX);
        again += outcome.summary.counters.get("messages.delivered_again").copied().unwrap_or(0);
        let most = outcome.series.iter().map(|sample| sample.delivered_bytes[0]).max();
        assert_eq!(most, Some(45_000), "{from}");
    }
    assert!(again > 0);
}

/// What the processes of a host have counted is in the figures of the run, whichever it was.
#[test]
fn a_host_that_begins_anew_after_its_flows_leaves_all_figures_as_they_were() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    for (src, dst) in [(HOST.0, 3), (2, HOST.0)] {
        matrix.push_flow(flow(src, dst, 50_000));
    }
    let start = Start::At(Duration::from_ms(40));
    matrix.push_flow(FlowSpec { start, ..flow(4, 11, 50_000) });
    for transport in ["smartt", "dcsim", "eqds", "pfabric"] {
        let of = |faults: &[(&str, &str)]| {
            let settings = [&[("transport", transport)], faults].concat();
            run(&plan(&matrix, &settings, 1), Duration::MAX)
        };
        let (without, with) = (of(&[]), of(&[("fault", "restart@host:7,from_us=39000")]));
        assert!(with.records == without.records, "{transport}");
        assert_eq!(with.summary, without.summary, "{transport}");
        let after = with.records[2].acked_at;
        assert!(
            after > (Instant::ZERO + Duration::from_us(40_000)) && after < Instant::FAR_FUTURE,
            "{transport}"
        );
    }
}
