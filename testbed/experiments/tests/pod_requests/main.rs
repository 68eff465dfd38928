//! Requests that hosts of a pod should not send: in the name of another host, from epochs that are
//! not, with totals that jump, twice, too many at once. Each is counted by its name, and what other
//! hosts get stays what they get without it.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod pod;

use std::collections::BTreeMap;

use transport::wire::Note;
use transport::wire::pod::{CoreRts, Delivered, DemandEnd, Rts, Schd};
use transport::{FlowId, Psn};

use pod::{ASKED, Pod, Sent, rts};

type Refusals = BTreeMap<&'static str, u64>;

/// What the scheduler of the first pod of `topology` refuses of `sent`, by name, and the cells that
/// it grants each host.
fn run_in(topology: &str, sent: Vec<Sent>) -> (Refusals, BTreeMap<u32, u32>) {
    let ran = Pod::new(topology).run(sent);
    (ran.refusals, ran.cells)
}

/// Two honest hosts, beside `others`.
fn beside(others: Vec<Sent>) -> (Refusals, BTreeMap<u32, u32>) {
    run_in("zeropod:8", pod::honest().into_iter().chain(others).collect())
}

fn honest() -> BTreeMap<u32, u32> {
    BTreeMap::from([(0, 40), (6, 40)])
}

#[test]
fn requests_that_make_no_sense_are_counted_by_name_and_change_nothing() {
    assert_eq!(beside(Vec::new()), (BTreeMap::new(), honest()));
    let (host, much) = (DemandEnd::Host, 1 << 20);
    let note = |epoch, to, total| rts(epoch, to, total).note();
    let next_term = Rts { term: 2, ..rts(50, host(9), much) }.note();
    let cases: [(&str, Sent); 11] = [
        ("forged_sender", (1, 0, 50, note(50, host(9), much))),
        ("forged_sender", (1, 6, 50, note(50, host(3), much))),
        ("forged_sender", (5, 999, 50, note(50, host(3), much))),
        (
            "malformed",
            (
                1,
                1,
                50,
                Schd {
                    term: 1,
                    grant: None,
                    receipt: None,
                    also: 0,
                    standing: None,
                    delivered: None,
                    stamp: None,
                }
                .note(),
            ),
        ),
        ("malformed", (1, 1, 50, Note::new(9, &[1; 18]).unwrap())),
        ("future_term", (1, 1, 50, next_term)),
        ("future_epoch", (1, 1, 50, note(70, host(9), much))),
        ("past_epoch", (1, 1, 50, note(1, host(9), much))),
        ("total_jump", (1, 1, 50, note(50, host(9), 1 << 31))),
        ("unknown_receiver", (1, 1, 50, note(50, host(16), much))),
        ("unknown_receiver", (1, 1, 50, note(50, DemandEnd::Pod(1), much))),
    ];
    for (reason, packet) in cases {
        assert_eq!(beside(vec![packet]), (BTreeMap::from([(reason, 1)]), honest()), "{packet:?}");
    }
}

#[test]
fn a_host_that_poses_as_a_core_pauses_no_pod_and_asks_for_nothing() {
    let delivered = Delivered { flow: FlowId(1), first: Psn(0), arrived: !0, again: false };
    let core = CoreRts {
        lost: false,
        term: 1,
        epoch: 50,
        update: Some((DemandEnd::Host(9), 1 << 20)),
        paused: !0,
        delivered: Some((0, delivered)),
    };
    // The host's own number, the number of a Core, a number of no member; and a host's request in
    // the name of a Core.
    let as_host = rts(50, DemandEnd::Host(9), 1 << 20).note();
    for topology in ["zeropod:8", "zeropod:8,2,2"] {
        for (named, note) in [(1, core.note()), (16, core.note()), (99, core.note()), (16, as_host)]
        {
            let honest = (6, 6, 61, rts(61, DemandEnd::Host(3), ASKED).note());
            let (refusals, cells) = run_in(topology, vec![honest, (1, named, 50, note)]);
            assert_eq!(refusals, BTreeMap::from([("forged_sender", 1)]), "{topology} {named}");
            assert_eq!(cells, BTreeMap::from([(6, 40)]));
        }
    }
}

#[test]
fn a_request_that_comes_twice_or_late_counts_once() {
    let again = |at, epoch| (2, 2, at, rts(epoch, DemandEnd::Host(9), 512).note());
    let (refusals, cells) =
        beside(vec![again(20, 20), again(21, 20), again(23, 22), again(24, 21)]);
    assert_eq!(refusals, BTreeMap::from([("repeated", 2)]));
    assert_eq!(cells.get(&2), Some(&1));
}

#[test]
fn a_host_that_floods_the_scheduler_takes_no_place_of_others() {
    // Epochs that never come would fill any queue that all hosts share.
    let far = |n: u32| (3, 3, u64::from(n % 50), rts(1 << 30 | n, DemandEnd::Host(9), 512).note());
    let mut sent: Vec<Sent> = (0..50).map(far).collect();
    // As would requests of the past.
    sent.extend((0..50).map(|n| (7, 7, 100 + n, rts(0x9000_0000, DemandEnd::Host(3), 512).note())));
    let (refusals, cells) = beside(sent);
    assert_eq!(refusals, BTreeMap::from([("future_epoch", 50), ("past_epoch", 50)]));
    assert_eq!(cells, honest());
}
