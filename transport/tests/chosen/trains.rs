//! Turns for several segments of a message, which leave as one.

use super::*;
use transport::Coding;

/// Two hosts, of which the first has turns for trains, and a message of ten segments to send.
fn with_message(change: fn(&mut Slotted)) -> Pair {
    let config = config(|s| s.cc = CcKind::Fixed);
    let mut sched = Slotted { trains: 3, ..Slotted::new(0, AckMode::Free) };
    change(&mut sched);
    let mut pair = Pair::new(&config, [sched, Slotted::new(0, AckMode::Free)]);
    let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    pair.post(flow, 9_500);
    pair
}

#[test]
fn a_train_is_one_segment_and_leaves_again_as_a_whole() {
    let mut pair = with_message(|_| ());
    pair.lose = &[1];
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
    let mut pair = with_message(|sched| sched.carries_trains = false);
    pair.run(long());
    pair.audit();
    assert_eq!((pair.data.len(), pair.events[1].len()), (10, 1));
}

#[test]
fn a_train_is_no_longer_than_its_fields_can_say_and_is_marked_with_its_segments() {
    // 16 bits have room for some 60 packets of a kilobyte each, and 8 bits for 255 segments.
    for (payload_max, most) in [(1000, 55..=63), (64, 255..=255)] {
        let config = config(|s| (s.cc, s.payload_max) = (CcKind::Fixed, payload_max));
        let sched = Slotted { trains: 999, ..Slotted::new(0, AckMode::Free) };
        let mut pair = Pair::new(&config, [sched, Slotted::new(0, AckMode::Free)]);
        let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
        pair.post(flow, 400_000);
        pair.run(long());
        pair.audit();
        assert_eq!(pair.events[1].len(), 1, "the message is whole");
        let segments = pair.payloads.iter().map(|payload| {
            let segments = u8::try_from(payload.len.div_ceil(payload_max)).unwrap();
            let coding = if segments > 1 { Coding::Train(segments) } else { Coding::Data };
            let (offset, end) = (payload.offset, payload.offset + u32::from(payload.len));
            assert_eq!((payload.coding, offset % u32::from(payload_max)), (coding, 0));
            assert!(end == 400_000 || end.is_multiple_of(payload_max.into()), "{payload:?}");
            segments
        });
        assert!(most.contains(&segments.max().unwrap()), "{most:?}");
    }
}

#[test]
fn a_train_that_leaves_again_in_a_turn_without_a_choice_is_marked_as_one() {
    let mut pair = with_message(|_| ());
    pair.lose = &[1];
    pair.run(slot(EPOCH));
    pair.hosts[0].scheduler_mut().open = true;
    pair.run(long());
    pair.audit();
    let again = pair.payloads.last().unwrap();
    assert_eq!((again.offset, again.len, again.coding), (0, 4_000, Coding::Train(4)));
    assert_eq!((pair.payloads.len(), pair.events[1].len()), (5, 1), "the message is whole");
}
