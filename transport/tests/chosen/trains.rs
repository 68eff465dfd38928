//! Turns for several segments of a message, which leave as one.

use super::*;

#[test]
fn a_train_is_one_segment_and_leaves_again_as_a_whole() {
    let config = config(|s| s.cc = CcKind::Fixed);
    let sched = Slotted { trains: 3, ..Slotted::new(0, AckMode::Free) };
    let mut pair = Pair::new(&config, [sched, Slotted::new(0, AckMode::Free)]);
    pair.lose_one = Some(1);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 9_500);
    pair.run(long());
    pair.audit();
    let data = pair.data.iter().map(|(_, hdr)| {
        let Body::Data(data) = hdr.body else { unreachable!() };
        (data.psn.0, data.offset, data.retransmission)
    });
    // Turns are for 4, 3, 2 and 1 segments, and again. The first train was lost: the turns for 3, 2
    // and 1 have no room for it.
    let first = [(0, 0, false), (1, 4_000, false), (2, 7_000, false), (3, 9_000, false)];
    assert_eq!(data.collect::<Vec<_>>(), [&first[..], &[(0, 0, true)]].concat());
    let turns = &pair.hosts[0].scheduler().sent;
    assert_eq!(turns.iter().map(|turn| turn.train.get()).collect::<Vec<_>>(), [4, 3, 2, 1, 4]);
    assert_eq!(pair.events[1].len(), 1, "the message is whole");
}

#[test]
fn one_segment_leaves_at_a_time_where_the_driver_carries_no_trains() {
    let config = config(|s| s.cc = CcKind::Fixed);
    let sched = Slotted { trains: 3, carries_trains: false, ..Slotted::new(0, AckMode::Free) };
    let mut pair = Pair::new(&config, [sched, Slotted::new(0, AckMode::Free)]);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 9_500);
    pair.run(long());
    pair.audit();
    assert_eq!((pair.data.len(), pair.events[1].len()), (10, 1));
}
