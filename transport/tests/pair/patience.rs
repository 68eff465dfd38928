//! How long a sender waits before it takes silence for a loss: acknowledgements that are held, and
//! round trips longer than the timeout. Tests of the retransmissions themselves are elsewhere.

use super::*;

/// A window of one segment, so that each waits for the acknowledgement of the one before.
fn one_by_one(change: impl FnOnce(&mut Settings)) -> Config {
    config(|s| {
        s.cc = CcKind::Fixed;
        s.cc_params.fixed.bdps = 0.0;
        change(s);
    })
}

fn open(pair: &mut Pair, path: Path) -> FlowId {
    pair.hosts[0].endpoint.open_flow(HostId(1), path).unwrap()
}

/// Sends `len` bytes and waits for the last acknowledgement: how often segments were sent again for
/// it, and how long it took.
fn send(pair: &mut Pair, flow: FlowId, len: usize) -> (u64, Duration) {
    let again = |pair: &Pair| pair.hosts[0].endpoint.stats().retransmitted;
    let (posted, before) = (pair.now, again(pair));
    let sent = pair.hosts[0].count_sent();
    pair.post(0, flow, vec![7; len], 1);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() > sent);
    (again(pair) - before, pair.now.since(posted))
}

#[test]
fn a_held_acknowledgement_is_no_loss_however_short_the_path() {
    // Acknowledgements are held for a quarter of the longest path, 100 us; seven round trips of
    // this one are 70.
    let config = one_by_one(|s| (s.base_rtt, s.ack_every) = (Duration::from_us(400), 64));
    let mut pair = Pair::new(&config, 1, Weather::default());
    let near = Path { base_rtt: DELAY * 2, ..config.default_path() };
    let flow = open(&mut pair, near);
    assert_eq!(send(&mut pair, flow, 10 * 4096).0, 0);
}

#[test]
fn segments_that_follow_do_not_put_an_acknowledgement_off() {
    let config = config(|s| (s.base_rtt, s.ack_every) = (Duration::from_us(400), 64));
    let mut pair = Pair::new(&config, 1, Weather::default());
    let flow = open(&mut pair, config.default_path());
    pair.post(0, flow, vec![7; 12 * 4096], 1);
    let mut burst = Burst::with_limit(BURST);
    pair.hosts[0].endpoint.poll_transmit(pair.now, &mut burst);
    let every = config.ack_delay() / 4 + Duration::from_us(1);
    for (n, tx) in burst.iter().take(10).enumerate() {
        pair.now = Instant::ZERO + every * n as u64;
        let (at, payload_len) = (pair.now, tx.payload.len);
        let (hdr, from, ce, trimmed) = (tx.hdr, HostId(0), false, false);
        let segment = RxSegment { hdr, at, from, payload_len, ce, trimmed };
        pair.receive(1, &segment, &Ext::VACANT, &vec![7; usize::from(payload_len)]);
        let receiver = &mut pair.hosts[1].endpoint;
        receiver.handle_timeout(at);
        let mut acks = Burst::with_limit(BURST);
        receiver.poll_transmit(at, &mut acks);
        assert_eq!(acks.len(), usize::from(n % 5 == 4), "behind segment {n}");
    }
}

/// A queue on the way that takes `factor` timeouts to pass.
fn behind_a_queue(config: &Config, factor: u64) -> Pair {
    let delay = config.rto(&config.default_path()) * factor;
    Pair { delay, ..Pair::new(config, 1, Weather::default()) }
}

#[test]
fn a_timeout_grows_with_the_round_trips_that_are_measured() {
    for code in [None, Some((4, 2))] {
        let config = one_by_one(|s| (s.ec, s.ec_shape, s.ec_params) = coded(code, 100_000));
        let mut pair = behind_a_queue(&config, 3);
        let flow = open(&mut pair, config.default_path());
        // No round trip is known yet.
        assert!(send(&mut pair, flow, 1).0 > 0, "{code:?}");
        assert_eq!(send(&mut pair, flow, 100 * 4096).0, 0, "{code:?}");
    }
}

#[test]
fn a_flow_learns_from_others_to_its_peer_that_round_trips_are_long() {
    let config = one_by_one(|_| {});
    let mut pair = behind_a_queue(&config, 3);
    let flow = open(&mut pair, config.default_path());
    send(&mut pair, flow, 1);
    for _ in 0..10 {
        let next = open(&mut pair, config.default_path());
        assert_eq!(send(&mut pair, next, 1).0, 0);
    }
}

#[test]
fn when_the_queue_is_gone_a_loss_costs_one_timeout_again() {
    let config = one_by_one(|_| {});
    let rto = config.rto(&config.default_path());
    let mut pair = behind_a_queue(&config, 3);
    let flow = open(&mut pair, config.default_path());
    send(&mut pair, flow, 20 * 4096);
    pair.delay = DELAY;
    // A measured round trip counts for as long as it took: six timeouts.
    let end = pair.now + rto * 7;
    while pair.now < end {
        send(&mut pair, flow, 1);
    }
    let before = pair.hosts[0].endpoint.stats().lost_by_timeout;
    pair.weather.loss = 1.0;
    let posted = pair.now;
    pair.post(0, flow, vec![7], 1);
    pair.run(rto * 10, |p| p.hosts[0].endpoint.stats().lost_by_timeout > before);
    assert!(pair.now.since(posted) <= rto + Duration::from_us(1), "{}", pair.now.since(posted));
}

/// Cuts off every payload for `round_trips` round trips; how many segments were sent again.
fn refuse_all(pair: &mut Pair, config: &Config, round_trips: u64) -> u64 {
    let again = |pair: &Pair| pair.hosts[0].endpoint.stats().retransmitted;
    let (end, before) = (pair.now + config.base_rtt * round_trips, again(pair));
    pair.weather.trim = 1.0;
    while pair.now < end {
        assert!(pair.step());
    }
    pair.weather.trim = 0.0;
    again(pair) - before
}

#[test]
fn a_segment_that_is_refused_again_and_again_is_sent_less_often_until_something_arrives() {
    for sched in with_own_retransmissions() {
        let config = one_by_one(|s| s.sched = *sched);
        let mut pair = Pair::new(&config, 1, Weather::default());
        let flow = open(&mut pair, config.default_path());
        for messages in 1..=2 {
            pair.post(0, flow, vec![7; 3 * 4096], 1);
            // At once, then a round trip later, then two; the next would be four later.
            assert_eq!(refuse_all(&mut pair, &config, 10), 3, "{sched:?}");
            // Every 64 in the end.
            let more = refuse_all(&mut pair, &config, 1000);
            assert!((10..=3 + 1000 / 64).contains(&more), "{sched:?}: {more}");
            let from = pair.now;
            pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == messages);
            assert!(pair.now.since(from) <= config.base_rtt * (64 + 4));
        }
    }
}

#[test]
fn a_window_of_which_all_is_refused_becomes_one_segment_until_something_arrives() {
    for code in [None, Some((8, 2))] {
        let config = config(|s| {
            (s.cc, s.cc_params.fixed.bdps) = (CcKind::Fixed, 4.0);
            (s.ec, s.ec_shape, s.ec_params) = coded(code, 100_000);
        });
        let mut pair = Pair::new(&config, 1, Weather::default());
        let flow = open(&mut pair, config.default_path());
        for messages in 1..=2 {
            pair.post(0, flow, vec![7; 48 * 4096], 1);
            // Eight windows, then as few segments as in the test above.
            let first = refuse_all(&mut pair, &config, 200);
            assert!((40..=8 * 60 + 10).contains(&first), "{code:?}: {first}");
            let more = refuse_all(&mut pair, &config, 1000);
            assert!((10..=6 + 1000 / 64).contains(&more), "{code:?}: {more}");
            let from = pair.now;
            pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == messages);
            assert!(pair.now.since(from) <= config.base_rtt * (64 + 20), "{code:?}");
        }
    }
}

#[test]
fn a_flow_beside_others_that_are_refused_starts_small_with_its_first_segments() {
    let config = config(|s| s.cc = CcKind::Smartt);
    let mut pair = Pair::new(&config, 1, Weather::default());
    // Segments that leave at the first call, before any timer.
    let first = |pair: &mut Pair| {
        let flow = open(pair, config.default_path());
        pair.post(0, flow, vec![7; 400 * 4096], 1);
        let mut count = 0;
        loop {
            let mut burst = Burst::with_limit(BURST);
            pair.hosts[0].endpoint.poll_transmit(pair.now, &mut burst);
            if burst.is_empty() {
                return count;
            }
            count += burst.len();
        }
    };
    let mut alone = Pair::new(&config, 1, Weather::default());
    let whole = first(&mut alone);
    for _ in 0..4 {
        let flow = open(&mut pair, config.default_path());
        pair.post(0, flow, vec![7; 400 * 4096], 1);
    }
    refuse_all(&mut pair, &config, 6);
    let small = first(&mut pair);
    assert!(small * 2 < whole, "{small} of {whole}");
}

#[test]
fn one_refusal_and_one_of_many_in_flight_delay_nothing() {
    let flight = |tx: &TxSegment| matches!(tx.hdr.body, Body::Data(data) if !data.retransmission);
    for cc in [CcKind::Fixed, CcKind::Smartt] {
        let config = config(|s| (s.cc, s.cc_params.fixed.bdps) = (cc, 0.0));
        let mut pair = Pair { trims: flight, ..Pair::new(&config, 1, Weather::default()) };
        let flow = open(&mut pair, config.default_path());
        let segments = if cc == CcKind::Fixed { 20 } else { 5 };
        let (again, took) = send(&mut pair, flow, segments * 4096);
        assert_eq!(again, segments as u64);
        let flights = if cc == CcKind::Fixed { 40 } else { 2 };
        assert!(took <= DELAY * (2 * flights) + Duration::from_us(1), "{cc:?}: {took}");
    }
}

#[test]
fn a_flow_survives_the_silence_that_it_is_set_to_survive_and_no_more() {
    for (sched, sched_params) in schedulers() {
        let config = config(|s| {
            (s.loss.retries_max, s.loss.give_up) = (2, Duration::from_ms(80));
            (s.sched, s.sched_params) = (sched, sched_params);
        });
        let mut pair = Pair::new(&config, 1, Weather { loss: 1.0, ..Weather::default() });
        let flow = open(&mut pair, config.default_path());
        pair.post(0, flow, vec![7; 10_000], 1);
        // One timeout less: the last packet leaves by then.
        let spare = config.rto(&config.default_path()) * 128;
        let until = pair.now + config.loss.give_up.saturating_sub(spare);
        assert!(until > Instant::ZERO + config.rto(&config.default_path()) * 7 * 64);
        while pair.now < until {
            assert!(pair.step());
        }
        assert!(pair.hosts[0].ended.is_empty(), "{sched:?}: {:?}", pair.hosts[0].ended);
        pair.weather.loss = 0.0;
        pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
        pair.weather.loss = 1.0;
        let posted = pair.now;
        pair.post(0, flow, vec![7; 10_000], 2);
        pair.run(Duration::from_s(1), |p| p.hosts[0].ended.len() == 2);
        let waited = pair.now.since(posted);
        assert!(matches!(pair.hosts[0].ended[1], Event::Failed { .. }), "{sched:?}");
        let longest = config.give_up_after(&config.default_path());
        assert!(waited >= config.loss.give_up && waited <= longest, "{sched:?}: {waited}");
    }
}

#[test]
fn a_flow_that_was_never_answered_tries_again_within_ten_milliseconds_at_first() {
    // The first two attempts after the first transmission are of the whole window, all others of
    // one segment.
    for (bdps, windows) in [(0.0, 0), (4.0, 2 * 40)] {
        let config = config(|s| {
            (s.cc, s.cc_params.fixed.bdps) = (CcKind::Fixed, bdps);
            (s.loss.rto_min, s.loss.backoff_max) = (Duration::from_ms(4), 6);
            s.loss.give_up = Duration::from_s(90);
        });
        let mut pair = Pair::new(&config, 1, Weather { loss: 1.0, ..Weather::default() });
        let flow = open(&mut pair, config.default_path());
        pair.post(0, flow, vec![7; 40 * 4096], 1);
        let again = |pair: &Pair| pair.hosts[0].endpoint.stats().retransmitted;
        let mut tries = |time| {
            let before = again(&pair);
            pass(&mut pair, time);
            again(&pair) - before
        };
        let first = tries(Duration::from_s(1));
        let expected = 100 + windows..135 + windows;
        assert!(expected.contains(&first), "{bdps}: {first}");
        tries(Duration::from_s(2));
        let later = tries(Duration::from_s(1));
        assert_eq!(pair.hosts[0].endpoint.flow_wait(flow), Some(Wait::Opening), "{bdps}");
        assert!((3..=6).contains(&later), "{bdps}: {later}");
        pair.weather.loss = 0.0;
        pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
        // The flow is known now.
        pair.weather.loss = 1.0;
        pair.post(0, flow, vec![7; 100], 2);
        let before = again(&pair);
        pass(&mut pair, Duration::from_s(1));
        assert!(again(&pair) - before < 14, "{bdps}: {}", again(&pair) - before);
    }
}

#[test]
fn a_flow_that_survives_no_seconds_of_silence_opens_with_whole_windows() {
    let config = config(|s| {
        (s.cc, s.cc_params.fixed.bdps) = (CcKind::Fixed, 4.0);
        (s.loss.rto_min, s.loss.give_up) = (Duration::from_ms(2), Duration::ZERO);
    });
    let mut pair = Pair::new(&config, 1, Weather { loss: 1.0, ..Weather::default() });
    let flow = open(&mut pair, config.default_path());
    pair.post(0, flow, vec![7; 200 * 4096], 1);
    pass(&mut pair, Duration::from_ms(150));
    // After 2, 4, 8, 16, 32 and 64 ms.
    let again = pair.hosts[0].endpoint.stats().retransmitted;
    assert!((6 * 120..6 * 200).contains(&again), "{again}");
    assert_eq!(pair.hosts[0].endpoint.flow_wait(flow), Some(Wait::Window));
}

#[test]
fn attempts_to_open_a_flow_never_come_before_its_shortest_timeout() {
    let rto = Duration::from_ms(100);
    let config = one_by_one(|s| {
        (s.loss.rto_min, s.loss.backoff_max) = (rto, 1);
        s.loss.give_up = Duration::from_s(90);
    });
    let mut pair = Pair::new(&config, 1, Weather { loss: 1.0, ..Weather::default() });
    let flow = open(&mut pair, config.default_path());
    pair.post(0, flow, vec![7; 40 * 4096], 1);
    let mut attempts = vec![pair.now];
    while pair.now < Instant::ZERO + Duration::from_s(1) {
        let (at, again) = (pair.now, pair.hosts[0].endpoint.stats().retransmitted);
        assert!(pair.step());
        let is_sent = pair.hosts[0].endpoint.stats().retransmitted > again;
        attempts.extend(is_sent.then_some(at));
    }
    let gaps: Vec<_> = attempts.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!((8..=10).contains(&gaps.len()), "{gaps:?}");
    assert!(gaps.iter().all(|gap| (rto..=rto + rto / 4).contains(gap)), "{gaps:?}");
}

/// Lets time pass for `time`, while something is under way.
fn pass(pair: &mut Pair, time: Duration) {
    let until = pair.now + time;
    while pair.now < until {
        assert!(pair.step());
    }
}

#[test]
fn a_flow_uses_each_quarter_of_a_second_for_which_a_link_that_flaps_is_up() {
    for (sched, sched_params) in schedulers() {
        let flapping = |s: &mut Settings| {
            (s.loss.rto_min, s.loss.give_up) = (Duration::from_ms(100), Duration::from_s(20));
            (s.sched, s.sched_params) = (sched, sched_params.clone());
        };
        let doublings = config(flapping).doublings_in_outages();
        let config = config(|s| {
            flapping(s);
            s.loss.backoff_max = doublings;
        });
        let mut pair = Pair::new(&config, 1, Weather::default());
        let flow = open(&mut pair, config.default_path());
        let (mut rng, mut posted, mut used) = (Rng::new(14).fork("flaps", 0), 0, 0);
        for _ in 0..100 {
            if pair.hosts[0].count_sent() == posted {
                posted += 1;
                pair.post(0, flow, vec![7; 10_000], posted as u64);
            }
            pair.weather.loss = 1.0;
            pass(&mut pair, Duration::from_ms(100 + rng.below(900)));
            let up = Duration::from_ms(100 + rng.below(300));
            pair.weather.loss = 0.0;
            let until = pair.now + up;
            while pair.now < until && pair.hosts[0].count_sent() < posted {
                assert!(pair.step());
            }
            let sent = pair.hosts[0].count_sent() == posted;
            used += u32::from(sent);
            assert!(sent || up < Duration::from_ms(250), "{sched:?}: up for {up}");
        }
        assert!(used > 50, "{sched:?}: {used}");
    }
}
