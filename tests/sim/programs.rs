//! Programs of switches among plain ones: results on any number of threads, and the books.

use experiments::measure::Summary;
use system_tests::examples::with_examples;

use super::{Plan, Unwatched, draft, matrix, plan, topology, virtual_time, write_series};

/// Flows, series and summary of a permutation over eight pods.
fn run(programs: &str, settings: &[(&str, &str)], threads: &str) -> (Vec<u8>, Vec<u8>, Summary) {
    let sampled = [("sampling.interval", "5us"), ("sim.threads", threads)];
    let settings: Vec<_> = settings.iter().copied().chain(sampled).collect();
    let mut draft = draft(&settings);
    if !programs.is_empty() {
        draft = with_examples(draft, programs);
    }
    let matrix = matrix("permutation", 128, 1, &[("size", "256KiB")]);
    let plan = Plan::new(&draft, matrix, &topology::by_name("ft128-8os").unwrap()).unwrap();
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let (mut flows, mut series) = (Vec::new(), Vec::new());
    outcome.write_flows(&plan, 0, &mut flows).unwrap();
    write_series(&outcome.series, &mut series).unwrap();
    (flows, series, outcome.summary)
}

#[test]
fn programmed_lossless_and_plain_switches_give_one_result_on_any_number_of_threads() {
    let mixed = "example@agg:0,example@agg:5,pfc@tor:3,pfc@core:0";
    let doubled = ("fault", "duplicate:0.02@all");
    for settings in [&[] as &[_], &[doubled]] {
        let one = run(mixed, settings, "1");
        let summary = &one.2;
        assert!(summary.is_success(), "{:?} {:?}", summary.flows, summary.audit);
        let (made, ended) = (summary.packets.originated, summary.packets.consumed);
        println!("{made:?} packets made and {ended:?} ended in switches");
        assert!(made > Some(20) && summary.pfc.is_some());
        assert!(ended > Some(20));
        for threads in ["2", "3"] {
            assert!(run(mixed, settings, threads) == one, "{threads} threads differ, {settings:?}");
        }
    }
}

#[test]
fn every_packet_that_a_program_makes_ends_at_a_program() {
    let (.., summary) = run("example@tor", &[], "1");
    assert!(summary.is_success(), "{:?}", summary.audit);
    assert!(summary.packets.originated > Some(100), "{:?}", summary.packets);
    let under_way = summary.packets.originated.unwrap() - summary.packets.consumed.unwrap();
    assert!(under_way < 50, "{under_way} of them did not arrive by the end of the run");
}

#[test]
fn a_lossless_switch_among_dropping_ones_loses_nothing() {
    let incast = matrix("incast", 16, 1, &[("degree", "15"), ("size", "256KiB")]);
    let tor =
        incast.flows[0].dst.0 / topology::by_name("paper-testbed").unwrap().tier[0].radix_down;
    let program = format!("pfc@tor:{tor}");
    let settings = [
        ("trim", "off"),
        ("switch.program", program.as_str()),
        ("switch.queue", "400KB"),
        ("switch.pfc.xoff", "32KiB"),
    ];
    let plan = plan(&settings, incast, "paper-testbed");
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    assert!(outcome.summary.is_success(), "{:?}", outcome.summary.audit);
    let pauses = outcome.summary.pfc.unwrap();
    assert!(pauses.pauses > 0 && pauses.paused_us > 0.0, "{pauses:?}");
}

#[test]
fn without_programs_nothing_is_said_of_them() {
    let (.., summary) = run("", &[], "1");
    assert_eq!(
        (summary.packets.originated, summary.packets.consumed, summary.pfc),
        (None, None, None)
    );
}
