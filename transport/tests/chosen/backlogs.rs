//! What a scheduler is given about its flows.

use super::*;

#[test]
fn labels_and_backlogs_reach_the_scheduler() {
    let config = config(|settings| settings.ack_every = 16);
    let mut pair = Pair::new(&config, [0; 2].map(|_| Slotted::new(0, AckMode::Free)));
    let label = Label { collective: 7, prio: 3 };
    let flow = pair.hosts[0].open_labelled(HostId(1), path(&config), label).unwrap();
    pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
    assert_eq!(pair.hosts[0].scheduler().labels, [label, Label::NONE]);
    pair.post(flow, 2_001);
    let backlog = |pair: &Pair| pair.hosts[0].scheduler().backlog;
    assert_eq!((backlog(&pair).segments, backlog(&pair).rtt), (3, Duration::ZERO));
    // A link has 5 us. The first acknowledgement comes when 16 segments have left, one a slot.
    pair.post(flow, 60_000);
    pair.run(Instant::ZERO + Duration::from_us(30));
    let is_whole = |rtt: Duration| (9_998_000..=10_002_000).contains(&rtt.as_ps());
    assert!(backlog(&pair).in_flight > Bytes::ZERO && is_whole(backlog(&pair).rtt));
    pair.run(long());
    assert!(is_whole(backlog(&pair).rtt), "the last acknowledgement was held back");
    pair.post(flow, 2_001);
    assert_eq!((backlog(&pair).segments, backlog(&pair).rtt), (3, Duration::ZERO));
}

#[test]
fn the_round_trip_of_a_copy_does_not_count() {
    let config = config(|_| ());
    let first = |copies, lose| {
        let mut pair = Pair::new(&config, [copies, 0].map(|n| Slotted::new(n, AckMode::Free)));
        let flow = pair.hosts[0].open_flow(HostId(1), path(&config)).unwrap();
        pair.post(flow, 2000);
        pair.lose = lose;
        pair.run(Instant::ZERO + Duration::from_ns(17_500));
        let (stats, backlog) = (pair.hosts[0].stats(), pair.hosts[0].scheduler().backlog);
        assert!(stats.acks_received > 0, "{stats:?}");
        (stats.copies, backlog.rtt > Duration::ZERO)
    };
    // No segment has its turn; then two of which one leaves as a copy first, and is acknowledged
    // when it has left in its turn, too.
    assert!(matches!(first(1, &[]), (1.., false)));
    assert_eq!((first(2, &[1, 3]), first(2, &[2, 3])), ((1, false), (1, true)));
    // The acknowledgement of the copy names all, before that of the turn comes.
    assert_eq!(first(2, &[4]), (1, false));
}
