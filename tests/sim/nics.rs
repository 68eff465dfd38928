//! NICs of simulated hosts: their disciplines and depths.

use experiments::measure::Outcome;
use experiments::workload::{Matrix, cm};
use fabric::QdiscKind;
use transport::{Bytes, Duration, Rate};

/// Host 0 sends a long flow, host 1 a single packet to it: the answer has to get out beside data.
fn beside_bulk() -> Matrix {
    let text = "Nodes 4\nConnections 2\n0->2 id 1 start 0 size 400000\n\
                1->0 id 2 start 900 size 4000\n";
    cm::read(text.as_bytes(), "beside-bulk.cm", cm::StartUnit::Us).unwrap().matrix
}

/// At a gigabit a second a packet takes 33 us.
const SLOW: &str = "leaf-spine:2,2,2,1";

/// [`super::run`] with windows that fill the NIC: a path of this network holds a packet or two.
fn run(settings: &[(&str, &str)]) -> Outcome {
    let wide = [("transport", "fixed-window"), ("cc.fixed.bdps", "64")];
    super::run(&[&wide, settings].concat(), beside_bulk(), SLOW)
}

/// From the delivery of the second flow of [`beside_bulk`] to its acknowledgement.
fn answer_takes(settings: &[(&str, &str)]) -> Duration {
    let outcome = run(settings);
    let record = outcome.records[1];
    record.acked_at.since(record.delivered_at)
}

#[test]
fn control_with_a_depth_of_its_own_does_not_wait_for_a_nic_full_of_data() {
    let together = answer_takes(&[]);
    let apart = answer_takes(&[("nic.control_depth", "1")]);
    let packet = Rate::from_gbps(1).time_for(Bytes(4000));
    println!("answers take {together:?} behind data, {apart:?} beside it");
    assert!(apart + packet <= together, "{apart:?} and a packet are more than {together:?}");
}

#[test]
fn a_nic_is_drop_tail_and_two_packets_deep_unless_set() {
    let records = |settings: &[(&str, &str)]| {
        let outcome = run(settings);
        outcome.records.iter().map(|record| format!("{record:?}")).collect::<Vec<_>>()
    };
    let unset = records(&[]);
    assert_eq!(unset, records(&[("nic.qdisc", "drop-tail"), ("nic.depth", "2")]));
    assert_ne!(unset, records(&[("nic.depth", "64")]));
}

#[test]
fn flows_end_behind_nics_of_any_discipline_and_depth() {
    for name in QdiscKind::NAMES {
        for depth in ["1", "64"] {
            for control in ["auto", "4"] {
                let settings =
                    [("nic.qdisc", *name), ("nic.depth", depth), ("nic.control_depth", control)];
                run(&settings);
            }
        }
    }
}
