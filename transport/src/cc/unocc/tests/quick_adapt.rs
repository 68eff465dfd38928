//! Tests of QuickAdapt, at the end of its round trip and early.

use super::*;

#[test]
fn quick_adapt_takes_what_arrived_in_an_rtt_and_then_skips_one() {
    let mut flow =
        Driver::new(NEAR, &[("alpha", "0"), ("qa_measure", "bytes"), ("qa_sent", "off")]);
    // A tenth of the window comes back in an RTT; no marks.
    flow.acks(NEAR.base_rtt + PACKET * 10, PACKET * 10, NO_QUEUE, false);
    assert!((flow.cc.cwnd - 5.0).abs() < 0.5, "{}", flow.cc.cwnd);
    let (adapted, at) = (flow.cc.cwnd, flow.now);
    // Packets sent before: neither marks nor too few of them move the window.
    let mut older = NEAR.base_rtt * 3;
    while flow.now < at + NEAR.base_rtt {
        flow.now += PACKET * 20;
        flow.ack(older, true, Bytes(MTU.0 * 5));
        older += PACKET * 20;
    }
    assert_eq!(flow.cc.cwnd, adapted);
    // Packets sent after are counted again.
    flow.acks(NEAR.base_rtt * 3, PACKET * 80, NO_QUEUE, false);
    assert!(flow.cc.cwnd < adapted / 2.0, "{}", flow.cc.cwnd);
}

#[test]
fn quick_adapt_leaves_a_flow_alone_that_has_little_to_send() {
    for (setting, shrinks) in [("on", false), ("off", true)] {
        let mut flow = Driver::new(NEAR, &[("qa_in_flight", setting), ("qa_sent", "off")]);
        for _ in 0..100 {
            flow.now += PACKET * 10;
            flow.ack(NEAR.base_rtt, false, Bytes(MTU.0 * 4));
        }
        assert_eq!(flow.cc.cwnd < 50.0, shrinks, "{setting}: {}", flow.cc.cwnd);
    }
}

#[test]
fn quick_adapt_expects_no_answers_to_packets_that_a_full_window_kept_back() {
    // 5000 packets are in flight, a fifth arrives, and the window becomes 1250, say by the count of
    // the receiver. The losses are known after an RTT in which nothing could leave, and in the next
    // one hardly anything arrives. Without losses before, so few answers are a collapse.
    for (sent, lost, adapts) in [("on", 4000, false), ("off", 4000, true), ("on", 0, true)] {
        let settings =
            [("alpha", "0"), ("on_loss", "ignore"), ("qa_early", "0"), ("qa_sent", sent)];
        let mut flow = Driver::new(FAR, &settings);
        let mut in_flight: u64 = 1250 + lost;
        flow.cc.set(1250.0);
        for i in 0..=1000_u64 {
            flow.now += if i == 0 { NO_QUEUE } else { FAR.base_rtt / 1000 };
            // Packets leave as others arrive, unless the window is full.
            in_flight -= u64::from(lost > 0);
            flow.ack(FAR.base_rtt, false, Bytes(MTU.0 * in_flight));
            if i == 998 {
                for _ in 0..lost.saturating_sub(1000) {
                    let loss = flow.loss(Instant::ZERO);
                    flow.cc.on_timeout(&loss, &flow.path);
                    in_flight -= 1;
                }
            }
        }
        for _ in 0..10 {
            flow.now += FAR.base_rtt / 10;
            flow.ack(FAR.base_rtt, false, Bytes(MTU.0 * in_flight));
        }
        assert_eq!(flow.cc.cwnd < 1250.0, adapts, "{sent}, {lost} lost: {}", flow.cc.cwnd);
    }
}

#[test]
fn quick_adapt_by_rate_takes_a_burst_that_is_shorter_than_its_path_for_what_it_is() {
    // A tenth of a BDP leaves at once, half of it is lost, and the rest arrives at half the line
    // rate: 250 packets in a tenth of an RTT, as many as 2500 in a whole one.
    for (measure, window) in [("bytes", 250.0), ("rate", 2500.0)] {
        let mut flow = Driver::new(FAR, &[("qa_measure", measure), ("alpha", "0")]);
        let mut in_flight = 500;
        let burst = |flow: &mut Driver, count: u64, in_flight: &mut u64| {
            for _ in 0..count {
                flow.now += PACKET * 2;
                *in_flight = in_flight.saturating_sub(1);
                flow.ack(FAR.base_rtt, false, Bytes(MTU.0 * *in_flight));
            }
        };
        burst(&mut flow, 251, &mut in_flight);
        // The retransmissions' acknowledgement, an RTT later, ends the period.
        flow.now += FAR.base_rtt;
        burst(&mut flow, 1, &mut in_flight);
        let cwnd = flow.cc.cwnd;
        assert!((cwnd / window - 1.0).abs() < 0.1, "{measure}: {cwnd}");
    }
}

/// A tenth of a BDP leaves at once; `arrived` packets of it do, at a quarter of the line rate.
fn burst(flow: &mut Driver, arrived: u64) {
    for i in 1..=arrived {
        flow.now += PACKET * 4;
        flow.ack(FAR.base_rtt, false, Bytes(MTU.0 * (500 - i)));
    }
}

/// A packet of the burst is lost now: when its timeout is over.
fn lose_of_the_burst(flow: &mut Driver) {
    flow.now += FAR.base_rtt / 4;
    let loss = flow.loss(Instant::ZERO + PACKET * 400);
    flow.cc.on_timeout(&loss, &flow.path);
}

#[test]
fn the_first_loss_of_a_burst_that_starves_makes_the_window_what_arrived() {
    // 101 packets at a quarter of the line rate, of which the first starts the clock.
    for (early, window) in [("1", 1250.0), ("0.8", 1000.0), ("0", 4999.0)] {
        let mut flow = Driver::new(FAR, &[("qa_early", early), ("alpha", "0")]);
        burst(&mut flow, 101);
        lose_of_the_burst(&mut flow);
        assert!((flow.cc.cwnd / window - 1.0).abs() < 1e-6, "{early}: {}", flow.cc.cwnd);
        // Further losses of the burst are part of the same congestion.
        lose_of_the_burst(&mut flow);
        let again = if early == "0" { 4998.0 } else { window };
        assert!((flow.cc.cwnd / again - 1.0).abs() < 1e-6, "{early}: {}", flow.cc.cwnd);
    }
    let mut by_bytes = Driver::new(FAR, &[("qa_measure", "bytes"), ("alpha", "0")]);
    burst(&mut by_bytes, 101);
    lose_of_the_burst(&mut by_bytes);
    assert_eq!(by_bytes.cc.cwnd, 4999.0);
}

#[test]
fn a_burst_most_of_which_arrived_or_that_is_not_over_is_no_reason_to_adapt_early() {
    // More than half arrived.
    let mut most = Driver::new(FAR, &[("alpha", "0")]);
    burst(&mut most, 260);
    lose_of_the_burst(&mut most);
    assert_eq!(most.cc.cwnd, 4999.0);
    // The rest may be on its way: 500 packets take 160 us.
    let mut soon = Driver::new(FAR, &[("alpha", "0")]);
    burst(&mut soon, 101);
    let loss = soon.loss(Instant::ZERO + PACKET * 400);
    soon.cc.on_timeout(&loss, &FAR);
    assert_eq!(soon.cc.cwnd, 4999.0);
    // A full window takes the whole RTT.
    let mut full = Driver::new(FAR, &[("alpha", "0")]);
    for _ in 0..101 {
        full.now += PACKET * 4;
        full.ack(FAR.base_rtt, false, FAR.bdp());
    }
    lose_of_the_burst(&mut full);
    assert_eq!(full.cc.cwnd, 4999.0);
    // Six packets of ten are lost: that is chance.
    let mut short = Driver::new(FAR, &[("alpha", "0")]);
    for i in 1..=4 {
        short.now += PACKET;
        short.ack(FAR.base_rtt, false, Bytes(MTU.0 * (10 - i)));
    }
    lose_of_the_burst(&mut short);
    assert_eq!(short.cc.cwnd, 4999.0);
}

#[test]
fn a_flow_with_a_full_window_waits_for_its_round_trip() {
    for (most, cut) in [("0.95", false), ("1", true)] {
        let mut flow = Driver::new(FAR, &[("alpha", "0"), ("qa_early_burst", most)]);
        for _ in 0..101 {
            flow.now += PACKET * 4;
            flow.ack(FAR.base_rtt, false, FAR.bdp());
        }
        // All of an RTT has passed, and the acknowledgement that ends QuickAdapt's is late.
        flow.now += FAR.base_rtt;
        lose_of_the_burst(&mut flow);
        assert_eq!(flow.cc.cwnd < 4999.0, cut, "{most}: {}", flow.cc.cwnd);
    }
}

#[test]
fn what_was_cut_early_grows_back_over_empty_queues_marked_or_not_for_eight_rtts() {
    let cut = || {
        let mut flow = Driver::new(FAR, &[("qa_early", "1"), ("alpha", "0"), ("k", "0")]);
        burst(&mut flow, 101);
        lose_of_the_burst(&mut flow);
        flow.now += FAR.base_rtt;
        flow
    };
    let rtt = FAR.base_rtt;
    // An RTT of the window's packets doubles it, up to what it was.
    let mut flow = cut();
    for (window, acks) in [(2500.0, 1250), (5000.0, 2500), (5000.0, 5000)] {
        flow.acks(rtt, rtt / acks, NO_QUEUE, true);
        assert!((flow.cc.cwnd / window - 1.0).abs() < 0.01, "{} {window}", flow.cc.cwnd);
    }
    // Behind a queue it does not, and after eight RTTs not any more.
    let mut queued = cut();
    queued.acks(rtt * 7, rtt / 1250, QUEUE, true);
    assert_eq!(queued.cc.cwnd, 1250.0);
    let mut late = Driver { cc: queued.cc.clone(), ..queued };
    queued.acks(rtt / 2, rtt / 1250, NO_QUEUE, true);
    assert!(queued.cc.cwnd > 1800.0, "{}", queued.cc.cwnd);
    late.acks(rtt * 2, rtt / 1250, QUEUE, true);
    late.acks(rtt, rtt / 1250, NO_QUEUE, true);
    assert_eq!(late.cc.cwnd, 1250.0);
}
