//! An all-to-all over an oversubscribed network, with a few packets for each flow on the way: no
//! flow falls far behind the others.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::topology;
use experiments::virtual_time;
use experiments::workload::Workload;
use experiments::workload::all_to_all::AllToAll;
use transport::{Bytes, Rng};

/// The time until the last flow ends and that of the longest flow, microseconds. Eight hosts share
/// one link of their own rate, and each sends eight flows of 256 KiB at a time.
fn all_to_all(seed: u64, set: &[(&str, &str)]) -> (f64, f64) {
    let topology = topology::by_name("leaf-spine:8,1,8,800").unwrap();
    let traffic = AllToAll { size: Bytes(256 << 10), window: Some(8), every: 1, collective: 0 };
    let matrix = traffic.generate(64, &mut Rng::new(seed)).unwrap();
    let mut draft = Draft::default();
    draft.set_transport("smartt", Origin::Set).unwrap();
    draft.set_seed(seed, Origin::Set);
    for (key, value) in set {
        draft.set(key, value, Origin::Set).unwrap();
    }
    let plan = Plan::new(&draft, matrix, &topology).unwrap();
    let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
    assert!(summary.audit.ok, "{:?}", summary.audit);
    assert_eq!(summary.flows.finished, 64 * 63);
    (summary.completion_us.unwrap(), summary.fct_us.max.unwrap())
}

#[test]
fn recent_windows_and_eta_let_no_flow_of_an_all_to_all_fall_behind() {
    for seed in [1, 2] {
        let (completion, longest) = all_to_all(seed, &[]);
        let paper = [("cc.smartt.start_of", "path"), ("cc.smartt.eta", "0")];
        for set in [paper.as_slice(), &paper[..1], &paper[1..]] {
            let (without, longest_without) = all_to_all(seed, set);
            assert!(longest < longest_without * 0.9, "{set:?}: {longest} {longest_without}");
            assert!(completion < without * 1.02, "{set:?}: {completion} {without}");
        }
    }
}
