//! Zeropod over the soft switch: hosts that are polled send in slots, through ports without
//! buffers.

use super::{Origin, Plan, Verdict, assert_whole, draft, matrix, run, topology};

/// However late threads are polled, no packet meets another and all bytes arrive: what misses its
/// slot is lost before the network, by a name of its own, and sent again.
pub(super) fn all_to_all() -> Verdict {
    let mut draft = draft(&[]);
    draft.set_transport("zeropod", Origin::Set).unwrap();
    let network = topology::by_name("zeropod:4").unwrap();
    let all = matrix("all-to-all", 4, &[("size", "256KiB")]);
    let outcome = run(&Plan::new(&draft, all, &network).unwrap());
    assert_whole(&outcome);
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
