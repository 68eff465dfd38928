//! Telemetry that switches write: a scenario turns it on, and any number of threads gives the
//! same.

use experiments::plan::RunError;
use system_tests::watcher::{Log, Seen};
use transport::Duration;

use super::*;

/// A permutation over eight pods with `settings`: the flows of a run and what its controllers saw,
/// sorted.
fn run_watched(settings: &[(&str, &str)]) -> (Vec<u8>, Vec<Seen>) {
    let log = Log::default();
    let mut draft = draft(&[&[("lb", "ecmp")], settings].concat());
    log.watch(&mut draft);
    let matrix = matrix("permutation", 128, 1, &[("size", "256KiB")]);
    let plan = Plan::new(&draft, matrix, &topology::by_name("ft128-8os").unwrap()).unwrap();
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    assert!(outcome.summary.is_success(), "{:?}", outcome.summary.audit);
    let mut flows = Vec::new();
    outcome.write_flows(&plan, 0, &mut flows).unwrap();
    let mut seen = log.take();
    seen.sort_by_key(|seen| format!("{seen:?}"));
    (flows, seen)
}

#[test]
fn every_port_of_a_path_writes_its_hop_on_any_number_of_threads() {
    let doubled = [("fault", "duplicate:0.02@all"), ("fault", "reorder:0.02@all,delay_us=3")];
    for faults in [&[] as &[_], &doubled] {
        let one = run_watched(faults);
        assert!(one.1.len() > 8000, "{}", one.1.len());
        for Seen { hops, is_cut } in &one.1 {
            // Up to a core and down again, or less: never more than five switches.
            assert!(!is_cut && [1, 3, 5].contains(&hops.len()), "{hops:?}");
            let later = |pair: &[_]| match pair {
                [a, b] => Hop::since(b, a).is_some_and(|span| span < Duration::from_ms(1)),
                _ => false,
            };
            assert!(hops.windows(2).all(later), "each later than the one before: {hops:?}");
        }
        for threads in ["2", "3"] {
            let threads = [faults, &[("sim.threads", threads)]].concat();
            assert!(run_watched(&threads) == one, "{threads:?}");
        }
    }
}

#[test]
fn the_counters_of_a_port_grow_by_what_it_has_sent() {
    let (_, seen) = run_watched(&[]);
    let mut hops: Vec<Hop> = seen.into_iter().flat_map(|seen| seen.hops).collect();
    let first = hops[0];
    hops.retain(|hop| hop.port() == first.port());
    hops.sort_by_key(|hop| hop.since(&Hop::default()));
    assert!(hops.len() > 50);
    for pair in hops.windows(2) {
        let (span, sent) = (pair[1].since(&pair[0]), pair[1].sent_since(&pair[0]));
        let most = pair[1].rate().bytes_in(span.unwrap()) + Bytes(2 * 4300);
        assert!(sent.is_some_and(|sent| sent <= most), "{pair:?}");
    }
}

#[test]
fn only_the_named_switches_write() {
    let (_, seen) = run_watched(&[("switch.int", "tor")]);
    assert!(seen.iter().all(|seen| [1, 2].contains(&seen.hops.len())));
    assert!(seen.iter().filter(|seen| seen.hops.len() == 2).count() > 4000);
    let (_, seen) = run_watched(&[("switch.int_room", "2"), ("switch.int_cut", "on")]);
    assert!(seen.iter().all(|seen| seen.hops.len() <= 2));
    assert!(seen.iter().any(|seen| seen.is_cut));
}

/// The message with which a plan with `settings` is refused.
fn refusal(settings: &[(&str, &str)]) -> String {
    let matrix = matrix("permutation", 128, 1, &[("size", "1KiB")]);
    let plan: Result<Plan, RunError> =
        Plan::new(&draft(settings), matrix, &topology::by_name("ft128-8os").unwrap());
    plan.map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn telemetry_that_could_not_be_read_is_refused() {
    let hpcc = [("cc", "hpcc"), ("lb", "ecmp")];
    assert_eq!(refusal(&hpcc), "");
    for (set, words) in [
        (&[("switch.int", "off")][..], &["switch.int", "`off`", "hpcc reads"][..]),
        (&[("switch.int_room", "0")], &["switch.int_room", "hpcc reads"]),
        (&[("switch.int_room", "4")], &["switch.int_room", "room for 4", "room for 5", "int_cut"]),
        (&[("lb", "spray")], &["lb", "`spray`", "hpcc compares hops", "--lb ecmp"]),
        (
            &[("far.cc", "powertcp"), ("far.lb", "spray")],
            &["far.lb", "powertcp compares hops", "far.lb=ecmp"],
        ),
        (&[("switch.int", "border")], &["switch.int", "border"]),
        // Flows across are those with far base RTTs, whatever the topology.
        (
            &[("cc", "smartt"), ("far.cc", "hpcc"), ("far.rtt", "1us"), ("switch.int_room", "4")],
            &["switch.int_room", "room for 5"],
        ),
    ] {
        let said = refusal(&[&hpcc, set].concat());
        for word in words {
            assert!(said.contains(word), "{set:?}: no `{word}` in `{said}`");
        }
    }
    assert_eq!(refusal(&[("switch.int", "all")]), "", "for controllers that do not read it, too");
    assert_eq!(
        refusal(&[&hpcc[..], &[("switch.int_room", "4"), ("switch.int_cut", "on")]].concat()),
        ""
    );
}
