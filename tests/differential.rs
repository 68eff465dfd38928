//! One scenario in virtual and in real time: results that do not depend on time are equal, others
//! are near.
//!
//! One run in real time a process, so one test. Bounds are wide because real time is: hosts poll,
//! and what they send together leaves in another order.

use experiments::measure::Outcome;
use experiments::plan::{Draft, Plan};
use experiments::progress::Unwatched;
use experiments::workload::{self, Params};
use experiments::{topology, virtual_time};
use live::vdev;
use transport::Rng;

#[test]
fn an_incast_takes_as_many_packets_and_about_the_same_time_in_both_worlds() {
    let params = Params::from_pairs([("degree", "7"), ("size", "256KiB")]);
    let matrix = workload::by_name("incast", &params).unwrap();
    let matrix = matrix.generate(8, &mut Rng::new(1)).unwrap();
    let topology = topology::by_name("leaf-spine:4,4,2").unwrap();
    let plan = Plan::new(&Draft::default(), matrix, &topology).unwrap();
    let sim = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let vdev = vdev::run(&plan, &mut Unwatched).unwrap_or_else(|error| panic!("{error}"));
    for outcome in [&sim, &vdev] {
        let summary = &outcome.summary;
        println!(
            "{}: {:?} us {:?} {:?}",
            summary.world, summary.completion_us, summary.packets, summary.lateness
        );
        assert_eq!(summary.audit.findings, [""; 0]);
        assert_eq!(summary.flows.finished, 7);
    }
    let first_sent =
        |outcome: &Outcome| (outcome.summary.packets.data_new, outcome.summary.bytes.delivered);
    assert_eq!(first_sent(&sim), first_sent(&vdev));
    let time = |outcome: &Outcome| outcome.summary.completion_us.unwrap();
    let factor = time(&vdev) / time(&sim);
    // A run that is marked as polled too late is not compared.
    let most = if vdev.summary.is_success() { 1.5 } else { f64::INFINITY };
    assert!((0.9..most).contains(&factor), "{factor}");
}
