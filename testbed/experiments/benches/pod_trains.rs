//! The cost of a granted cell in a simulated pod: one packet a cell, and cells in trains.
//!
//! Figure 4 of Zeropod's paper at half of the load, in a pod of 256 hosts. Each round has a run of
//! either kind, which end every flow at the same instant, and the ratio of the two.
//! Prints medians. Run: `cargo bench -p experiments --bench pod_trains`, or with `-- FLOWS ROUNDS`.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use std::time::Instant as Wall;

use experiments::measure::Outcome;
use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::topology::by_name;
use experiments::virtual_time;
use experiments::workload::{self, Params};
use transport::Rng;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let (flows, rounds) = match &args[..] {
        [] => ("2000", 5),
        [flows, rounds] => (flows.as_str(), rounds.parse().expect("a number of rounds")),
        _ => panic!("FLOWS ROUNDS, not {args:?}"),
    };
    let [cells, trains] = ["off", "on"].map(|trains| plan(flows, trains));
    let (mut alone, mut joined, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let [(one, first), (other, second)] = [&cells, &trains].map(timed);
        assert_eq!(first.records, second.records, "every flow ends at the same instant");
        alone.push(one);
        joined.push(other);
        ratios.push(one / other);
    }
    let [alone, joined, ratio] = [alone, joined, ratios].map(median);
    println!("zeropod:32, {flows} flows of web search at a load of 0.5: {alone:.0} ns a cell");
    println!("  in trains {joined:.0} ns a cell, {ratio:.2} times as many cells a second");
}

fn plan(flows: &str, trains: &str) -> Plan {
    let tree = by_name("zeropod:32").expect("a pod");
    let load = [("load", "0.5"), ("cdf", "websearch"), ("flows", flows)];
    let poisson = workload::by_name("poisson", &Params::from_pairs(load)).expect("a workload");
    let matrix = poisson.generate(256, &mut Rng::new(1)).expect("flows");
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).expect("a transport");
    draft.set("sched.zeropod.trains", trains, Origin::Set).expect("a setting");
    Plan::new(&draft, matrix, &tree).expect("a plan")
}

/// Runs a plan: nanoseconds a granted cell, and what came of it.
fn timed(plan: &Plan) -> (f64, Outcome) {
    let started = Wall::now();
    let outcome = virtual_time::run(plan, &mut Unwatched).expect("a run");
    let seconds = started.elapsed().as_secs_f64();
    let cells = outcome.summary.scheduler.as_ref().expect("a pod").cells;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are plenty")]
    let cells = cells as f64;
    (seconds * 1e9 / cells, outcome)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
