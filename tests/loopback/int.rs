//! Telemetry that the soft switch writes into frames: read at the senders, with payloads intact.

use experiments::measure::Outcome;
use system_tests::watcher::{Log, Seen};
use transport::Stats;

use super::{Origin, Plan, Verdict, assert_whole, draft, matrix, run, run_recorded, topology};

/// A permutation of 16 hosts whose flows get telemetry, under `faults`.
fn watched(faults: &[(&str, &str)]) -> (Outcome, Vec<Seen>) {
    let log = Log::default();
    let mut draft = draft(faults);
    draft.set_lb("ecmp", Origin::Set).unwrap();
    log.watch(&mut draft);
    let matrix = matrix("permutation", 16, &[("size", "512KiB")]);
    let plan = Plan::new(&draft, matrix, &topology::by_name("paper-testbed").unwrap()).unwrap();
    let outcome = run(&plan);
    assert_whole(&outcome);
    (outcome, log.take())
}

/// The hops of each acknowledgement are those of one path, in its order.
fn are_of_paths(seen: &[Seen]) {
    assert!(seen.len() > 1000, "{}", seen.len());
    for Seen { hops, is_cut } in seen {
        assert!(!is_cut && [1, 3, 5].contains(&hops.len()), "{hops:?}");
        // Times of emulated switches are exact, however late polls are.
        for pair in hops.windows(2) {
            let span = pair[1].since(&pair[0]).unwrap_or_else(|| panic!("{pair:?}"));
            assert!(span.as_us_f64() < 100_000.0 && pair[0].port() != pair[1].port(), "{pair:?}");
        }
    }
}

pub(super) fn written() -> Verdict {
    let (_, seen) = watched(&[]);
    are_of_paths(&seen);
    Verdict::Passed
}

pub(super) fn written_under_faults() -> Verdict {
    let (outcome, seen) = watched(&[
        ("fault", "duplicate:0.02@all"),
        ("fault", "reorder:0.02@all,delay_us=3"),
        ("fault", "corrupt:0.005@all"),
    ]);
    are_of_paths(&seen);
    assert!(outcome.summary.drops["corrupt"] > 0 && outcome.stats.duplicates > 0);
    Verdict::Passed
}

pub(super) fn recorded() -> Verdict {
    // HPCC decides by telemetry alone: a replay without it would decide otherwise.
    let settings = [("far.cc", "hpcc"), ("far.lb", "ecmp"), ("far.rtt", "1ns")];
    run_recorded(&settings, |stats: &Stats| [stats.data_new, stats.data_placed]);
    Verdict::Passed
}
