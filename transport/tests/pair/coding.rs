//! Which flows and blocks are coded: by the length of the path, and by measured loss.

use transport::ec::AutoParams;

use super::*;

/// Blocks of `shape` for flows whose segments get lost: from the first loss on that is found, for
/// so long.
fn by_loss(settings: &mut Settings, shape: (u8, u8), hold: Duration) {
    (settings.ec, settings.ec_shape, settings.ec_params) = coded(Some(shape), 100);
    settings.ec = EcKind::Auto;
    let (losses, rate, tail) = (1, 0.0, 1e6);
    // The network between the two has no queues: whatever happens is no sign of them.
    let (queue, marked, share) = (Some(Duration::from_s(2)), 1.0, 1.0);
    settings.code_params.auto = AutoParams { losses, tail, rate, hold, queue, marked, share };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn every_message_arrives_once_while_coding_begins_and_ends(
        seed in any::<u64>(), hold in 1u64..20,
        sizes in proptest::collection::vec(1usize..60_000, 1..12),
        loss in 0.0..0.2f64, duplicate in 0.0..0.2f64, reorder in 0.0..0.5f64,
        trim in 0.0..0.3f64, mark in 0.0..0.5f64,
        ack_every in 1u16..20, probe in any::<bool>(), window in prop::option::of(2u16..20),
        shape in (1u8..=20, 1u8..=4),
        payload_max in prop::sample::select(&[200, 1024, 4096][..]),
        psn_window in prop::sample::select(&[256, 4096][..]),
    ) {
        let config = config(|s| {
            by_loss(s, shape, Duration::from_ms(hold));
            s.ack_every = ack_every;
            (s.payload_max, s.psn_window) = (payload_max, psn_window);
            s.loss = LossSettings {
                tail_probe: probe, reorder_window_quarters: window, retries_max: 64, ..s.loss
            };
        });
        exchange(&config, seed, Weather { loss, duplicate, reorder, trim, mark }, &sizes);
    }
}

/// Drops three segments, and the first parity of every block.
fn some_lost(tx: &TxSegment) -> bool {
    let Body::Data(data) = tx.hdr.body else { return false };
    let parity = data.code.is_some_and(|code| code.packet() == 8);
    !data.retransmission && ([20, 300, 700].contains(&data.psn.0) || parity)
}

#[test]
fn coding_ends_so_long_after_the_latest_loss_of_a_segment() {
    let parity = |hold| {
        let settings = config(|s| by_loss(s, (8, 2), hold));
        // Every other one is of the flow from host 0, which sends for 3 ms.
        let sizes = [1800 * 4096, 4096].repeat(5);
        let pair = Pair { drops: some_lost, ..Pair::new(&settings, 1, Weather::default()) };
        let pair = exchange_over(pair, &settings, 1, &sizes);
        pair.hosts[0].endpoint.stats().parity_new
    };
    let [short, long] = [Duration::from_ms(1), Duration::from_s(1)].map(parity);
    assert!(short > 0 && short < long * 2 / 3, "{short} {long}");
}

#[test]
fn flows_shorter_than_the_setting_says_are_not_coded() {
    let config = blocks(|s| s.ec_params.base_rtt_min = s.base_rtt + Duration::from_ns(1));
    let pair = over(&config, 18, |tx| first_of(tx).is_some());
    assert_eq!(pair.hosts[0].endpoint.stats().parity_new, 0);
}

#[test]
fn without_loss_a_flow_that_may_code_sends_what_one_without_a_code_sends() {
    let plain = over(&config(|_| {}), 1800, |_| false);
    let may = over(&config(|s| by_loss(s, (8, 2), Duration::from_s(1))), 1800, |_| false);
    assert_eq!(may.now, plain.now);
    assert_eq!(may.hosts[0].endpoint.stats(), plain.hosts[0].endpoint.stats());
}

#[test]
fn after_a_loss_blocks_that_begin_are_coded_and_new_flows_from_their_first_block_on() {
    let settings = config(|s| by_loss(s, (8, 2), Duration::from_s(1)));
    // Segment 20 is in the middle of a block that had begun.
    let drops = |tx: &TxSegment| {
        let Body::Data(data) = tx.hdr.body else { return false };
        data.psn == Psn(20) && !data.retransmission
    };
    let pair = Pair { drops, ..Pair::new(&settings, 1, Weather::default()) };
    let mut pair = exchange_over(pair, &settings, 1, &[1800 * 4096]);
    let first = *pair.hosts[0].endpoint.stats();
    assert_eq!((first.data_new, first.retransmitted), (1800, 1));
    // The loss is found three round trips later, when a third of the message has not left.
    assert!((100..440).contains(&first.parity_new), "{}", first.parity_new);
    // Every block that begins later is coded; parity of one that is whole by then does not leave.
    assert!(first.ec_auto_coded * 2 >= first.parity_new && first.ec_auto_uncoded == 0);
    pair.drops = |_| false;
    let flow = pair.hosts[0].endpoint.open_flow(HostId(1), settings.default_path()).unwrap();
    pair.post(0, flow, vec![7; 80 * 4096], 9);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 2);
    let both = *pair.hosts[0].endpoint.stats();
    assert_eq!(both.parity_new - first.parity_new, 20);
    assert_eq!(both.ec_auto_coded - first.ec_auto_coded, 10);
}

#[test]
fn blocks_that_are_left_uncoded_although_links_lose_segments_are_counted() {
    let counts = |tail| {
        let settings = config(|s| {
            by_loss(s, (8, 2), Duration::from_s(1));
            s.code_params.auto.tail = tail;
        });
        let pair = Pair { drops: some_lost, ..Pair::new(&settings, 1, Weather::default()) };
        let pair = exchange_over(pair, &settings, 1, &[1800 * 4096]);
        let stats = pair.hosts[0].endpoint.stats();
        (stats.ec_auto_coded, stats.ec_auto_uncoded, stats.parity_new)
    };
    let (coded, uncoded, _) = counts(1e6);
    assert!(coded > 0 && uncoded == 0);
    assert_eq!(counts(0.0), (0, coded, 0));
}

#[test]
fn a_receiver_with_the_plain_code_takes_blocks_that_are_coded_by_loss() {
    let sender = config(|s| by_loss(s, (8, 2), Duration::from_s(1)));
    let mut pair = Pair::new(&blocks(|_| {}), 1, Weather { loss: 0.02, ..Weather::default() });
    pair.hosts[0].endpoint = Endpoint::new(&sender, HostId(0), Rng::new(5));
    let pair = exchange_over(pair, &sender, 1, &[4_000_000, 4_000_000]);
    let [sent, received] = [0, 1].map(|i: usize| *pair.hosts[i].endpoint.stats());
    assert!(sent.parity_new > 0 && received.restored > 0);
}
