//! Silences of flows that follow border switches are probed: flows go on soon after any silence,
//! and give a silent peer up when they would without probes.

use transport::cc::MlccSignal as Signal;

use super::*;

/// One flow under MLCC over a long path, with border switches or without them. Without telemetry,
/// so that nothing else differs.
fn config_with(signal: Signal, change: impl FnOnce(&mut Settings)) -> Config {
    config(|s| {
        (s.cc, s.int_room) = (CcKind::Mlcc, 0);
        s.cc_params.mlcc.signal = signal;
        s.base_rtt = DELAY * 2;
        change(s);
    })
}

const RTT: Duration = Duration::from_ps(DELAY.as_ps() * 2);

/// A message has arrived, and now nothing does.
fn silenced(config: &Config) -> (Pair, FlowId) {
    let mut pair = Pair::new(config, 1, Weather::default());
    let flow = silence::opened(&mut pair, config);
    pair.post(0, flow, vec![7; 10_000], 1);
    pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == 1);
    pair.weather.loss = 1.0;
    (pair, flow)
}

/// How long it takes until a message of `len` bytes to a peer that is gone is given up, and how
/// often segments were then taken for lost, sent again, and sent as probes.
fn given_up(config: &Config, len: usize) -> (Duration, u64, u64, u64) {
    let (mut pair, flow) = silenced(config);
    let posted = pair.now;
    pair.post(0, flow, vec![7; len], 2);
    pair.run(Duration::from_s(200), |p| p.hosts[0].ended.len() == 2);
    assert!(matches!(pair.hosts[0].ended[1], Event::Failed { .. }));
    let stats = pair.hosts[0].endpoint.stats();
    (pair.now.since(posted), stats.lost_by_timeout, stats.retransmitted, stats.probes)
}

#[test]
fn a_peer_that_is_gone_is_given_up_after_as_long_as_without_probes() {
    for (len, give_up) in [(1, 0), (2 * 4096, 0), (40 * 4096, 0), (1, 100), (40 * 4096, 100)] {
        let [with, without] = [Signal::Auto, Signal::Off].map(|signal| {
            let config = config_with(signal, |s| {
                s.loss.give_up = Duration::from_ms(give_up);
                s.loss.retries_max = 8;
            });
            given_up(&config, len)
        });
        assert_eq!(with.0, without.0, "{len} bytes, {give_up} ms");
        // The last probe may still wait to leave.
        assert!(without.1 - with.1 <= 1, "{with:?} {without:?}");
        // Many segments take most of the time to leave at the least rate.
        let some = if len > 8192 { 8 } else { 100 };
        assert!(with.3 > some && without.3 == 0, "{with:?} {without:?}");
        assert_eq!(with.2, without.2 + with.3, "{len} bytes: probes are all that is more");
        let silences = (with.0 / 2).as_ps() / RTT.as_ps();
        assert!(with.3 <= silences, "{} in {silences} times two round trips", with.3);
    }
}

#[test]
fn a_flow_goes_on_within_four_round_trips_of_a_silence_however_long_it_was() {
    for (len, rtts) in [1, 4096, 40 * 4096, 4_000_000]
        .into_iter()
        .flat_map(|len| [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 300, 1500].map(|rtts| (len, rtts)))
    {
        let (mut pair, flow) = silenced(&config_with(Signal::Auto, |_| {}));
        pair.post(0, flow, pattern(2, len), 2);
        let until = pair.now + RTT * rtts + RTT / 3;
        pair.idle(until.since(pair.now));
        pair.weather.loss = 0.0;
        let before = pair.hosts[1].endpoint.stats().data_placed;
        pair.run(Duration::from_s(1), |p| p.hosts[1].endpoint.stats().data_placed > before);
        let news = pair.now.since(until);
        assert!(news <= RTT.mul_ratio(21, 8), "{len} bytes, {rtts}: {news:?}");
        // All that was lost is sent again once the probe is answered.
        let end = until + RTT * 4;
        let first = (len.min(8 * 4096)).div_ceil(4096) as u64;
        let again = |p: &Pair| p.hosts[1].endpoint.stats().data_placed - before >= first;
        pair.run(end.since(pair.now), again);
        pair.run(Duration::from_s(5), |p| p.hosts[0].count_sent() == 2);
        assert!(pair.hosts[1].delivered[1].1 == pattern(2, len), "{len} bytes, {rtts}");
        assert_eq!(pair.hosts[0].endpoint.stats().spurious, 0, "{len} bytes, {rtts}");
    }
}

#[test]
fn probes_of_a_thousand_flows_are_spread() {
    let config = config_with(Signal::Auto, |s| {
        (s.tx_flows_max, s.rx_flows_max, s.msgs_max) = (1024, 1024, 1024);
        s.base_rtt = Duration::from_ms(2);
    });
    let mut pair = Pair::new(&config, 1, Weather { loss: 1.0, ..Weather::default() });
    for tag in 0..1000 {
        let flow = silence::opened(&mut pair, &config);
        pair.post(0, flow, vec![7; 1000], tag + 1);
    }
    // Slices of a 40th of a round trip, over two probes a flow. A step sends first.
    let mut slices = [0; 200];
    while pair.now < Instant::ZERO + Duration::from_ms(10) {
        let slice = pair.now.since(Instant::ZERO).as_ps() / Duration::from_us(50).as_ps();
        let before = pair.hosts[0].endpoint.stats().probes;
        assert!(pair.step());
        let sent = pair.hosts[0].endpoint.stats().probes - before;
        slices[usize::try_from(slice).unwrap()] += sent;
    }
    assert!(slices.iter().sum::<u64>() >= 1900, "{slices:?}");
    assert!(slices.iter().all(|sent| *sent <= 300), "{slices:?}");
}

#[test]
fn only_flows_that_follow_border_switches_and_are_not_coded_probe_silences() {
    let probes = |change: fn(&mut Settings)| given_up(&config_with(Signal::Auto, change), 9000).3;
    assert!(probes(|_| {}) > 0);
    assert_eq!(probes(|s| s.cc_params.mlcc.signal = Signal::Off), 0);
    assert_eq!(probes(|s| s.loss.silence_probe = false), 0);
    assert_eq!(probes(|s| s.cc = CcKind::PowerTcp), 0);
    assert_eq!(probes(|s| (s.ec, s.ec_shape, s.ec_params) = coded(Some((4, 2)), 100)), 0);
    assert_eq!(probes(|s| (s.cc, s.loss.tail_probe) = (CcKind::PowerTcp, true)), 0);
}

#[test]
fn a_silence_is_as_long_as_the_last_round_trip_and_the_shortest_timeout() {
    // A long message is under way, and from some instant on nothing arrives.
    let first = |change: fn(&mut Settings), delay: Duration| {
        let config = config_with(Signal::Auto, |s| {
            s.loss.rto_quarters = 4000;
            change(s);
        });
        let mut pair = Pair { delay, ..Pair::new(&config, 1, Weather::default()) };
        let flow = silence::opened(&mut pair, &config);
        pair.post(0, flow, vec![7; 4_000_000], 1);
        pair.run(Duration::from_s(1), |p| p.hosts[0].endpoint.stats().acks_received > 60);
        let early = pair.hosts[0].endpoint.stats().probes;
        pair.weather.loss = 1.0;
        let (mut last, mut left_at) = (pair.now, pair.now);
        let news = |p: &Pair| {
            let stats = p.hosts[0].endpoint.stats();
            (stats.acks_received, stats.data_new)
        };
        while pair.hosts[0].endpoint.stats().probes == early {
            // A step sends first.
            left_at = pair.now;
            let before = news(&pair);
            assert!(pair.step());
            last = if news(&pair) == before { last } else { pair.now };
        }
        left_at.since(last).as_ps() as f64 / RTT.as_ps() as f64
    };
    for (change, delay, silence) in [
        ((|_| {}) as fn(&mut Settings), DELAY, 2.0),
        (|s| (s.ack_every, s.ack_delay) = (2, Some(RTT * 3)), DELAY, 5.0),
        (|s| s.loss.rto_min = RTT * 9, DELAY, 9.0),
        (|_| {}, DELAY * 6, 6.0),
    ] {
        let waited = first(change, delay);
        assert!((silence..silence * 1.064).contains(&waited), "{waited}, not {silence}");
    }
}
