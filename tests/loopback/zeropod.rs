//! Zeropod over the soft switch: hosts that are polled send in slots, through ports without
//! buffers.

use experiments::measure::Outcome;
use live::datapath::{Bench, DeviceKind, PodCase};
use transport::Duration;
use transport::sched::zeropod::ZeropodParams;

use super::{Origin, Plan, Verdict, assert_whole, draft, matrix, run, topology};

/// However late threads are polled, no packet meets another and all bytes arrive. A packet that
/// misses its slot is lost before the network, under a reason of its own, and sent again.
pub(super) fn all_to_all() -> Verdict {
    all_to_all_with(&[])
}

/// Hosts that ask on change, and grants of several epochs, lose nothing either.
pub(super) fn on_change() -> Verdict {
    all_to_all_with(&[("sched.zeropod.ask_every", "4"), ("sched.zeropod.superepoch", "8")])
}

fn all_to_all_with(set: &[(&str, &str)]) -> Verdict {
    let outcome = run_in("zeropod:4", set, &[]);
    let summary = &outcome.summary;
    let scheduler = summary.scheduler.as_ref().unwrap();
    assert_eq!((scheduler.collisions, scheduler.term), (0, 1));
    assert!(scheduler.cells >= 12 * 512 && scheduler.grants >= 12 * 32, "{scheduler:?}");
    let lost: Vec<_> = summary.drops.keys().filter(|name| **name != "slot_missed").collect();
    assert!(lost.is_empty(), "{:?}", summary.drops);
    // Sizes are those that the slots are made for, so a run in `sim` is comparable.
    assert_eq!(summary.wire.as_ref().map(|wire| wire.data_min), Some(512));
    Verdict::Passed
}

/// Beside other pods a timeout is as long as a minute of the machine. Cells whose receipts do not
/// come are sent again much sooner, however late threads are polled.
pub(super) fn in_one_of_several() -> Verdict {
    let outcome = run_in("zeropod:4,2,3", &[], &[]);
    assert_eq!(outcome.stats.lost_by_timeout, 0, "{:?}", outcome.stats);
    Verdict::Passed
}

/// A backup takes over from a scheduler that is killed while hosts wait, and all bytes arrive.
pub(super) fn taken_over() -> Verdict {
    let outcome = run_in("zeropod-ha:4", &[], &["kill@scheduler:0,from_us=60"]);
    let scheduler = outcome.summary.scheduler.as_ref().unwrap();
    assert!(scheduler.term >= 2 && scheduler.outage_us > 0.0, "{scheduler:?}");
    assert_eq!(scheduler.collisions, 0, "{scheduler:?}");
    Verdict::Passed
}

/// `headrace bench scheduler --device`, with a small number of epochs.
pub(super) fn measured() -> Verdict {
    let bench = Bench::start().unwrap_or_else(|error| panic!("{error}"));
    for (device, hosts) in [(DeviceKind::Ring, 16), (DeviceKind::Ring, 300), (DeviceKind::Memif, 2)]
    {
        let (params, epochs) = (ZeropodParams::default(), 400);
        let case =
            PodCase { device, hosts, receivers: hosts - 1, load: None, params, epochs, seed: 1 };
        let cost = bench.pod(&case).unwrap_or_else(|error| panic!("{error}"));
        println!("{case:?}: {cost:?}");
        assert!(cost.receive_ns > 0.0 && cost.answer_ns > 0.0, "{cost:?}");
        assert!((cost.receive_ns + cost.answer_ns - cost.epoch_ns).abs() < 1e-6, "{cost:?}");
        assert!((0.5..=1.0).contains(&cost.matched), "{cost:?}");
        // Every request was taken in and every host answered in every epoch.
        let all = u64::from(hosts) * epochs;
        let [received, sent] = ["received", "sent"].map(|name| cost.counters[name]);
        assert!(received >= all * 9 / 10 && sent >= all * 9 / 10, "{cost:?}");
    }
    for (ask_every, superepoch) in [(1, 1), (8, 1), (8, 8)] {
        let params = ZeropodParams { ask_every, superepoch, ..ZeropodParams::default() };
        let (device, hosts, load) = (DeviceKind::Ring, 16, Some(80));
        let case = PodCase { device, hosts, receivers: 15, load, params, epochs: 2000, seed: 1 };
        let cost = bench.pod(&case).unwrap_or_else(|error| panic!("{error}"));
        println!("{case:?}: {cost:?}");
        assert!(cost.matched > 0.2, "{cost:?}");
        assert_eq!(cost.unreported, 0, "{ask_every} {superepoch}");
    }
    let (device, hosts) = (DeviceKind::Ring, 4);
    let params = ZeropodParams::default();
    let case = PodCase { device, hosts, receivers: 3, load: None, params, epochs: 200, seed: 1 };
    // Long epochs: both threads have the core within one.
    let waited = bench.pod_waiting(&case, Duration::from_ms(2));
    let waited = waited.unwrap_or_else(|error| panic!("{error}")).unwrap();
    // The request of an epoch is answered between the cells of the one behind its decision.
    assert!(waited.p50_epochs >= 2.0 && waited.answered > 0, "{waited:?}");
    Verdict::Passed
}

/// An all-to-all in `network` with some settings and `faults`, which is delivered whole.
fn run_in(network: &str, set: &[(&str, &str)], faults: &[&str]) -> Outcome {
    let mut draft = draft(&[]);
    draft.set_transport("zeropod", Origin::Set).unwrap();
    set.iter().for_each(|(key, value)| draft.set(key, value, Origin::Set).unwrap());
    faults.iter().for_each(|fault| draft.add_fault(fault.parse().unwrap(), Origin::Set));
    let network = topology::by_name(network).unwrap();
    let all = matrix("all-to-all", 4, &[("size", "256KiB")]);
    let outcome = run(&Plan::new(&draft, all, &network).unwrap());
    assert_whole(&outcome);
    outcome
}
