//! Tests of UnoCC: each clause of algorithm 1 by itself, far against near flows, and QuickAdapt at
//! the end of its round trip and early.

use super::*;
use crate::cc::Inference;
use crate::time::Rate;
use alloc::vec::Vec;

const MTU: Bytes = Bytes(4000);
/// 50 packets of BDP.
const NEAR: Path =
    Path { base_rtt: Duration::from_us(16), line_rate: Rate::from_gbps(100), mtu: MTU };
/// 5000 packets of BDP.
const FAR: Path = Path { base_rtt: Duration::from_us(1600), ..NEAR };
/// The RTT of `NEAR` inside the datacentre, and settings of the paper.
const BASE: &[(&str, &str)] =
    &[("intra_rtt", "16us"), ("ewma_gain", "0.5"), ("gentle", "compound")];

struct Driver {
    cc: UnoCc,
    path: Path,
    now: Instant,
}

impl Driver {
    fn new(path: Path, settings: &[(&str, &str)]) -> Self {
        let mut params = UnoCcParams::default();
        for (key, value) in BASE.iter().chain(settings) {
            params.set(key, value).unwrap();
        }
        let now = Instant::ZERO + path.base_rtt;
        Self { cc: UnoCc::new(&params, &path), path, now }
    }

    fn ack(&mut self, rtt: Duration, ecn: bool, in_flight: Bytes) {
        let ack = AckSample {
            now: self.now,
            rtt,
            held: Duration::ZERO,
            acked: MTU,
            in_flight,
            ecn,
            sharers: 0,
        };
        self.cc.on_ack(&ack, &self.path);
    }

    /// Acknowledgements of a packet each for `span`, one every `gap`, of a flow that is full.
    fn acks(&mut self, span: Duration, gap: Duration, queueing: Duration, ecn: bool) {
        let end = self.now + span;
        while self.now < end {
            self.now += gap;
            let in_flight = self.cc.window().cwnd;
            self.ack(self.path.base_rtt + queueing, ecn, in_flight);
        }
    }

    fn loss(&mut self, sent_at: Instant) -> LossSample {
        LossSample { now: self.now, sent_at, bytes: MTU, in_flight: MTU, sharers: 0, by: None }
    }
}

/// One packet of 4000 bytes at 100 Gb/s.
const PACKET: Duration = Duration::from_ns(320);
const NO_QUEUE: Duration = Duration::ZERO;
const QUEUE: Duration = Duration::from_us(2);

#[test]
fn an_rtt_of_unmarked_acknowledgements_adds_alpha() {
    for (path, start) in [(NEAR, 25.0), (FAR, 2500.0)] {
        let settings = [("initial", "0.5"), ("fast_increase", "0")];
        let mut flow = Driver::new(path, &settings);
        assert_eq!(flow.cc.cwnd, start);
        flow.acks(path.base_rtt, path.base_rtt / (path.bdp().0 / MTU.0 / 2), NO_QUEUE, false);
        let added = flow.cc.cwnd - start;
        let alpha = start * 2.0 * 0.001;
        assert!((added / alpha - 1.0).abs() < 0.01, "{added} of {alpha}");
    }
}

#[test]
fn alpha_is_larger_where_the_network_is_one_datacentre() {
    let mut params = UnoCcParams::default();
    let mut alpha = |sites| {
        UnoCc::resolve(&mut params, &NetworkFacts { sites, ..NetworkFacts::default() });
        (params.alpha, Scale::new(&params, &NEAR).alpha * MTU.as_f64() / NEAR.bdp().as_f64())
    };
    let steps = [(None, 0.001), (Some(1), 0.032), (None, 0.032), (Some(2), 0.001), (None, 0.001)];
    for (sites, expected) in steps {
        let (setting, acts) = alpha(sites);
        assert_eq!(setting, expected, "{sites:?}: without a fact it stays");
        assert!((acts / f64::from(expected) - 1.0).abs() < 1e-3, "{sites:?}: {acts}");
    }
}

#[test]
fn epochs_are_as_long_for_far_flows_as_for_near_ones() {
    // In 1.6 ms a flow ends 100 epochs of 16 us, whatever its own RTT.
    for path in [NEAR, FAR] {
        for epoch in ["intra", "rtt"] {
            let mut flow = Driver::new(path, &[("quick_adapt", "off"), ("epoch", epoch)]);
            flow.acks(path.base_rtt, PACKET, NO_QUEUE, false);
            let (mut ended, mut before) = (0, flow.cc.epoch);
            for _ in 0..5000 {
                flow.acks(PACKET, PACKET, NO_QUEUE, false);
                ended += u32::from(flow.cc.epoch != before);
                before = flow.cc.epoch;
            }
            assert!((98..=101).contains(&ended), "{ended} in {epoch} of {path:?}");
        }
    }
}

#[test]
fn the_first_epoch_lasts_an_rtt_from_the_first_acknowledgement() {
    let mut flow = Driver::new(NEAR, &[]);
    flow.acks(NEAR.base_rtt - PACKET, PACKET, QUEUE, true);
    assert_eq!(flow.cc.cwnd, 50.0);
    flow.acks(QUEUE + PACKET * 3, PACKET, QUEUE, true);
    // E is 1/2, 4K / (K + BDP) is 1/2.
    assert!((flow.cc.cwnd - 50.0 * 0.75).abs() < 1e-5, "{}", flow.cc.cwnd);
}

#[test]
fn the_decrease_is_eq_md_ecn_with_k_of_the_datacentre_for_far_flows_too() {
    let mut flow = Driver::new(FAR, &[("quick_adapt", "off")]);
    flow.acks(FAR.base_rtt + QUEUE + PACKET * 2, PACKET, QUEUE, true);
    let k = 50.0 / 7.0;
    let expected = 5000.0 * (1.0 - 0.5 * 4.0 * k / (k + 5000.0));
    assert!((flow.cc.cwnd - expected).abs() < 1e-3, "{} {expected}", flow.cc.cwnd);
}

#[test]
fn the_average_follows_the_fraction_of_marks_and_no_mark_no_decrease() {
    let settings = [("quick_adapt", "off"), ("alpha", "0"), ("k", "0.0001")];
    let mut flow = Driver::new(FAR, &settings);
    flow.acks(FAR.base_rtt * 2, PACKET, NO_QUEUE, false);
    assert_eq!((flow.cc.cwnd, flow.cc.ecn), (5000.0, 0.0));
    for i in 0..5000 {
        flow.acks(PACKET, PACKET, QUEUE, i % 10 == 0);
    }
    assert!((flow.cc.ecn - 0.1).abs() < 0.02, "{}", flow.cc.ecn);
    assert!(flow.cc.cwnd < 5000.0);
}

#[test]
fn phantom_congestion_decreases_gently_and_ever_more_so_until_a_real_queue_stands() {
    let mut flow = Driver::new(NEAR, &[("quick_adapt", "off")]);
    let mut cuts = Vec::new();
    let mut watch = |flow: &mut Driver, queueing| {
        let before = flow.cc.cwnd;
        flow.acks(NEAR.base_rtt, PACKET, queueing, true);
        cuts.push((1.0 - flow.cc.cwnd / before) / (flow.cc.ecn * flow.cc.at.md));
    };
    // The first span is the one before the first epoch ends.
    for queueing in [NO_QUEUE, NO_QUEUE, NO_QUEUE, NO_QUEUE, QUEUE] {
        watch(&mut flow, queueing);
    }
    for (cut, expected) in cuts[1..].iter().zip([0.3, 0.09, 0.027, 1.0]) {
        assert!((cut / expected - 1.0).abs() < 1e-6, "{cuts:?}");
    }
}

#[test]
fn a_flat_gentle_reduction_does_not_compound() {
    let settings = [("quick_adapt", "off"), ("gentle", "flat"), ("md_scale", "0.35")];
    let mut flow = Driver::new(NEAR, &settings);
    flow.acks(NEAR.base_rtt, PACKET, NO_QUEUE, true);
    for _ in 0..4 {
        let before = flow.cc.cwnd;
        flow.acks(NEAR.base_rtt, PACKET, NO_QUEUE, true);
        let cut = (1.0 - flow.cc.cwnd / before) / (flow.cc.ecn * flow.cc.at.md);
        assert!((cut - 0.35).abs() < 1e-6, "{cut}");
    }
}

#[test]
fn falling_marks_may_increase_instead() {
    let settings = [("quick_adapt", "off"), ("on_ecn_falling", "increase")];
    let mut flow = Driver::new(NEAR, &settings);
    flow.acks(NEAR.base_rtt * 2, PACKET, QUEUE, true);
    flow.acks(NEAR.base_rtt * 3, PACKET, QUEUE, true);
    let (ecn, before) = (flow.cc.ecn, flow.cc.cwnd);
    assert!(ecn > 0.9);
    flow.acks(PACKET, PACKET, QUEUE, true);
    // Mostly unmarked from here on: E falls, first from above 0.9, which still decreases.
    flow.acks(NEAR.base_rtt, PACKET, QUEUE, false);
    flow.acks(PACKET, PACKET, QUEUE, true);
    flow.acks(NEAR.base_rtt, PACKET, QUEUE, false);
    assert!(flow.cc.ecn < 0.9 && flow.cc.cwnd > before, "{} {before}", flow.cc.cwnd);
}

#[test]
fn after_a_pause_epochs_do_not_follow_each_other_without_time_between_them() {
    let mut flow = Driver::new(NEAR, &[("quick_adapt", "off"), ("alpha", "0")]);
    flow.acks(NEAR.base_rtt * 3, PACKET, NO_QUEUE, false);
    flow.now += Duration::from_ms(50);
    flow.acks(NEAR.base_rtt / 2, PACKET, QUEUE, true);
    // One epoch has ended at once; the next one takes its time.
    assert!(flow.cc.cwnd >= 50.0 * 0.749, "{}", flow.cc.cwnd);
}

#[test]
fn a_trim_marks_its_epoch_and_a_loss_comes_off_the_window() {
    let mut flow = Driver::new(NEAR, &[("quick_adapt", "off"), ("alpha", "0")]);
    flow.acks(PACKET, PACKET, NO_QUEUE, false);
    let loss = flow.loss(flow.now);
    flow.cc.on_nack(&loss, &NEAR);
    assert_eq!((flow.cc.cwnd, flow.cc.seen.marked), (49.0, 1.0));
    flow.cc.on_timeout(&loss, &NEAR);
    assert_eq!((flow.cc.cwnd, flow.cc.seen.marked), (48.0, 1.0));
    let mut deaf = Driver::new(NEAR, &[("on_loss", "ignore")]);
    deaf.cc.on_timeout(&loss, &NEAR);
    assert_eq!(deaf.cc.cwnd, 50.0);
}

#[test]
fn what_a_window_loses_takes_no_more_than_a_part_of_it() {
    for (most, windows) in [("0.25", [3750.0, 2812.5]), ("1", [1000.0, 1.0]), ("0", [5000.0; 2])] {
        let mut flow = Driver::new(FAR, &[("loss_max", most), ("quick_adapt", "off")]);
        for window in windows {
            // Four packets of five that have been sent until now; the last loss is an RTT late.
            let sent_at = flow.now;
            for n in 1..=4000 {
                flow.now += if n == 4000 { FAR.base_rtt } else { PACKET };
                let loss = flow.loss(sent_at);
                flow.cc.on_timeout(&loss, &FAR);
            }
            assert!((flow.cc.cwnd - window).abs() < 1e-6, "{most}: {}", flow.cc.cwnd);
            flow.now += FAR.base_rtt;
        }
    }
}

#[test]
fn losses_never_make_a_window_larger() {
    let mut flow = Driver::new(FAR, &[("alpha", "0")]);
    let sent_at = flow.now;
    flow.now += PACKET;
    let loss = flow.loss(sent_at);
    flow.cc.on_timeout(&loss, &FAR);
    // Marks have brought it below what losses may leave.
    flow.cc.cwnd = 1000.0;
    flow.now += PACKET;
    let loss = flow.loss(sent_at);
    flow.cc.on_timeout(&loss, &FAR);
    assert_eq!(flow.cc.cwnd, 1000.0);
}

#[test]
fn a_window_is_paced_over_a_base_rtt() {
    let flow = Driver::new(FAR, &[("initial", "0.25")]);
    assert_eq!(flow.cc.window().pacing, Some(Rate::from_gbps(25)));
    assert_eq!(Driver::new(FAR, &[("pacing", "off")]).cc.window().pacing, None);
    // A window of one packet on a path of less than one is not faster than the line.
    let short = Path { base_rtt: Duration::from_ns(100), ..NEAR };
    assert_eq!(Driver::new(short, &[]).cc.window().pacing, Some(NEAR.line_rate));
}

#[test]
fn without_slack_any_delay_is_a_queue() {
    // One packet of another flow in front: a queue to the letter, and none with two of slack.
    for (packets, scale) in [("0", 1.0), ("2", 0.3)] {
        let slack = [("empty_packets", packets), ("empty_delay", "0ns"), ("quick_adapt", "off")];
        let mut flow = Driver::new(NEAR, &slack);
        flow.acks(NEAR.base_rtt + PACKET * 2, PACKET, PACKET, true);
        assert!((flow.cc.md_scale - scale).abs() < 1e-6, "{packets}: {}", flow.cc.md_scale);
    }
}

#[test]
fn a_flow_below_one_switch_gives_way_in_each_of_its_own_round_trips() {
    let rack = Path { base_rtt: Duration::from_us(4), ..NEAR };
    for (epoch, path, count) in
        [("least", rack, 400), ("intra", rack, 100), ("least", NEAR, 100), ("least", FAR, 100)]
    {
        let mut flow = Driver::new(path, &[("quick_adapt", "off"), ("epoch", epoch)]);
        flow.acks(path.base_rtt * 2, PACKET, NO_QUEUE, false);
        let (mut ended, mut before) = (0, flow.cc.epoch);
        for _ in 0..5000 {
            flow.acks(PACKET, PACKET, NO_QUEUE, false);
            ended += u32::from(flow.cc.epoch != before);
            before = flow.cc.epoch;
        }
        assert!(
            (count - count / 50..=count + 1).contains(&ended),
            "{ended} in {epoch} of {path:?}"
        );
    }
}

#[test]
fn a_window_below_a_packet_is_a_pacing_rate() {
    let settings = [("window_min", "0.1"), ("k", "1"), ("gentle", "flat")];
    let mut flow = Driver::new(NEAR, &settings);
    flow.acks(NEAR.base_rtt * 60, NEAR.base_rtt, QUEUE, true);
    assert!((flow.cc.cwnd - 0.1).abs() < 0.01, "{}", flow.cc.cwnd);
    let window = flow.cc.window();
    // A tenth of a packet of 50 that a base RTT holds at 100 Gb/s.
    let rate = window.pacing.unwrap().as_bps();
    assert_eq!((window.cwnd, rate / 1_000_000), (MTU, 200));
    // An RTT without an acknowledgement is no starvation, and unmarked packets let it grow.
    flow.acks(NEAR.base_rtt * 300, NEAR.base_rtt * 10, NO_QUEUE, false);
    assert!(flow.cc.cwnd > 0.5, "{}", flow.cc.cwnd);
    let mut whole = Driver::new(NEAR, &[("window_min", "1"), ("k", "1"), ("gentle", "flat")]);
    whole.acks(NEAR.base_rtt * 60, NEAR.base_rtt, QUEUE, true);
    assert_eq!(whole.cc.cwnd, 1.0);
}

#[test]
fn after_a_round_trip_without_congestion_a_window_grows_fast_until_there_is_some() {
    let mut flow = Driver::new(FAR, &[("quick_adapt", "off"), ("on_loss", "ignore")]);
    let rtt = FAR.base_rtt;
    let grows = |flow: &mut Driver| {
        let before = flow.cc.cwnd;
        flow.acks(rtt, rtt / 500, Duration::ZERO, false);
        flow.cc.cwnd - before
    };
    flow.ack(rtt, true, MTU);
    flow.cc.cwnd = 500.0;
    // Additive: a thousandth of 5000 packets. Then a quarter and a half of 500 as well.
    for (least, most) in [(4.0, 6.0), (120.0, 135.0), (240.0, 260.0)] {
        let grown = grows(&mut flow);
        assert!(grown > least && grown < most, "{grown} of {least} to {most}");
    }
    let ends: [fn(&mut Driver); 3] = [
        |flow| flow.ack(FAR.base_rtt, true, MTU),
        |flow| flow.ack(FAR.base_rtt + Duration::from_us(10), false, MTU),
        |flow| {
            let loss = flow.loss(flow.now);
            flow.cc.on_timeout(&loss, &flow.path);
        },
    ];
    for end in ends {
        assert!(grows(&mut flow) > 100.0);
        end(&mut flow);
        let grown = grows(&mut flow);
        assert!(grown < 6.0, "{grown}");
        grows(&mut flow);
    }
}

#[test]
fn a_flow_doubles_from_its_start_until_it_meets_congestion() {
    for (marked, window) in [(false, 5000.0), (true, 2500.0)] {
        let settings = [("initial", "0.5"), ("k", "0"), ("alpha", "0.01")];
        let mut flow = Driver::new(FAR, &settings);
        flow.ack(FAR.base_rtt, marked, MTU);
        flow.acks(FAR.base_rtt, FAR.base_rtt / 2500, Duration::ZERO, false);
        // Three packets are gained before, and alpha adds 50.
        assert!((flow.cc.cwnd / window - 1.0).abs() < 0.03, "{marked}: {}", flow.cc.cwnd);
    }
}

#[test]
fn the_pause_between_two_marks_of_a_small_window_is_no_idle_path() {
    let mut flow = Driver::new(NEAR, &[("quick_adapt", "off")]);
    flow.ack(NEAR.base_rtt, true, MTU);
    flow.cc.cwnd = 5.0;
    flow.acks(NEAR.base_rtt * 40, NEAR.base_rtt / 5, Duration::ZERO, false);
    assert!(flow.cc.cwnd < 7.5, "{}", flow.cc.cwnd);
    flow.acks(NEAR.base_rtt * 60, NEAR.base_rtt / 5, Duration::ZERO, false);
    assert!(flow.cc.cwnd > 40.0, "{}", flow.cc.cwnd);
}

/// Two flows over one link whose phantom queue drains at nine tenths of its rate: a fluid model in
/// steps of a microsecond, marks fed back one RTT later.
fn share(params: &UnoCcParams, paths: [Path; 2], starts: [f64; 2], span: Duration) -> [f64; 2] {
    let mut flows = paths.map(|path| (UnoCc::new(params, &path), path, Vec::new()));
    for ((cc, ..), start) in flows.iter_mut().zip(starts) {
        cc.cwnd = cc.bounds.bdps(1.0) * start;
    }
    let line_packets = 1.0e-6 * 100e9 / 8.0 / 4000.0;
    let (mut phantom, mut marks, mut noise) = (0.0_f64, Vec::new(), 1_u32);
    let steps = usize::try_from(span.as_ps() / 1_000_000).unwrap();
    for step in 0..steps {
        let rates = flows
            .each_ref()
            .map(|(cc, path, _)| cc.cwnd / Bytes(path.base_rtt.as_ps()).as_f64() * 1e6);
        phantom = (phantom + rates[0] + rates[1] - line_packets * 0.9).clamp(0.0, 5600.0);
        // RED from a quarter to three quarters of a phantom queue of one far BDP.
        marks.push(((phantom / 5600.0 - 0.25) / 0.5).clamp(0.0, 1.0));
        for ((cc, path, owed), rate) in flows.iter_mut().zip(rates) {
            owed.push(rate);
            let rtt = usize::try_from(path.base_rtt.as_ps() / 1_000_000).unwrap();
            let Some(sent) = step.checked_sub(rtt) else { continue };
            let now = Instant::from_ps(u64::try_from(step).unwrap() * 1_000_000 + 1);
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let ecn = f64::from(noise) / f64::from(u32::MAX) < marks[sent];
            let (rtt, in_flight) = (path.base_rtt, cc.window().cwnd);
            let ack = AckSample {
                now,
                rtt,
                held: Duration::ZERO,
                acked: MTU.scaled(owed[sent]),
                in_flight,
                ecn,
                sharers: 0,
            };
            cc.on_ack(&ack, path);
        }
    }
    flows.map(|(cc, path, _)| cc.cwnd / Bytes(path.base_rtt.as_ps()).as_f64() * 1e6 / line_packets)
}

#[test]
fn a_near_and_a_far_flow_that_start_apart_come_together() {
    //= uno#5.2.1
    let params = UnoCcParams { intra_rtt: NEAR.base_rtt, ..UnoCcParams::default() };
    let [near, far] = share(&params, [NEAR, FAR], [0.1, 0.8], Duration::from_ms(200));
    assert!(near > 0.2 && far > 0.2 && near + far < 1.1, "{near} {far}");
    assert!((near - far).abs() < 0.3, "{near} {far}");
}

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
    // rate. These are 250 packets in a tenth of an RTT, as many as 2500 in a whole one.
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
    lose(flow, Inference::Silence);
}

/// A packet of the burst is lost now.
fn lose(flow: &mut Driver, by: Inference) {
    let loss = LossSample { by: Some(by), ..flow.loss(Instant::ZERO + PACKET * 400) };
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
    lose(&mut soon, Inference::Silence);
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

/// Packets of a burst of 500 come, one every `tenths` tenths of the time that one takes.
fn arrive(flow: &mut Driver, count: u64, tenths: u64) {
    for i in 1..=count {
        flow.now += PACKET * tenths / 10;
        flow.ack(FAR.base_rtt, false, Bytes(MTU.0 * (500 - i)));
    }
}

#[test]
fn packets_asked_for_while_their_burst_arrives_cut_the_window_if_it_comes_too_slowly() {
    let by_block = Inference::Block;
    // Packets that came, the time of one in tenths, and whether that is too slow. The first packet
    // starts the clock, the longest pause does not count, and 16 packets are the fewest.
    let cases =
        [(101, 40, true), (101, 26, true), (101, 24, false), (17, 40, true), (16, 40, false)];
    for (count, tenths, cut) in cases {
        let mut flow = Driver::new(FAR, &[("qa_early", "1"), ("alpha", "0")]);
        arrive(&mut flow, count, tenths);
        lose(&mut flow, by_block);
        let counted = f64::from(u32::try_from(count - 1).unwrap());
        let tenths = f64::from(u32::try_from(tenths).unwrap());
        let window = if cut { 50_000.0 / tenths * counted / (counted - 1.0) } else { 4999.0 };
        assert!((flow.cc.cwnd / window - 1.0).abs() < 1e-3, "{count} {tenths}: {}", flow.cc.cwnd);
    }
    // Other losses wait until the burst is over: a queue that is full now may be empty then.
    for by in [Inference::LaterAck, Inference::Silence] {
        let mut flow = Driver::new(FAR, &[("alpha", "0")]);
        arrive(&mut flow, 101, 40);
        lose(&mut flow, by);
        assert_eq!(flow.cc.cwnd, 4999.0, "{by:?}");
    }
}

/// Switches trim `count` packets of the burst, and report all of them now.
fn trim(flow: &mut Driver, count: usize) {
    for _ in 0..count {
        let loss = flow.loss(Instant::ZERO + PACKET * 400);
        flow.cc.on_nack(&loss, &FAR);
    }
}

#[test]
fn trimmed_packets_cut_the_window_while_their_burst_arrives_if_most_are_and_it_comes_too_slowly() {
    // Packets that came, the time of one in tenths, packets trimmed, and whether that cuts. The
    // first packet starts the clock, and 16 reports are the fewest.
    let cases = [
        (101, 40, 101, true),
        (101, 40, 100, false),
        (101, 26, 101, true),
        (101, 24, 101, false),
        (7, 40, 10, true),
        (7, 40, 9, false),
        (5, 40, 12, true),
        (4, 40, 40, false),
        (1, 40, 40, false),
    ];
    for (came, tenths, trimmed, cut) in cases {
        for on in [true, false] {
            let switch = ("qa_early_trimmed", if on { "true" } else { "false" });
            let mut flow = Driver::new(FAR, &[("qa_early", "1"), ("alpha", "0"), switch]);
            arrive(&mut flow, came, tenths);
            trim(&mut flow, trimmed);
            let tenths = f64::from(u32::try_from(tenths).unwrap());
            let kept = 5000.0 - f64::from(u32::try_from(trimmed).unwrap());
            let window = if cut && on { 50_000.0 / tenths } else { kept };
            let near = (flow.cc.cwnd / window - 1.0).abs() < 1e-3;
            assert!(near, "{came} {tenths} {trimmed} {on}: {}", flow.cc.cwnd);
        }
    }
    // The time without a packet since the last one counts.
    for (pause, window) in [(14, 1500.0), (0, 4990.0)] {
        let mut flow = Driver::new(FAR, &[("qa_early", "1"), ("alpha", "0")]);
        arrive(&mut flow, 7, 10);
        flow.now += PACKET * pause;
        trim(&mut flow, 10);
        assert!((flow.cc.cwnd / window - 1.0).abs() < 1e-3, "{pause}: {}", flow.cc.cwnd);
    }
}

#[test]
fn trimmed_packets_leave_a_quarter_of_a_share_of_a_receiver_that_counts_several_flows() {
    // The rate of the few packets that came is a twentieth of the line's, below the 16th that every
    // flow keeps.
    let counted = [(0, 312.5), (1, 312.5), (2, 625.0), (3, 416.7), (4, 312.5)];
    let counted = counted.map(|case| ("across", case));
    for (share, (sharers, window)) in counted.into_iter().chain([("measured", (2, 312.5))]) {
        let settings = [("qa_early", "1"), ("alpha", "0"), ("share", share)];
        let mut flow = Driver::new(FAR, &settings);
        arrive(&mut flow, 7, 200);
        flow.cc.outset -= 10.0;
        // A count of the moment is none that the window follows.
        flow.cc.counted = sharers;
        let loss = LossSample { sharers: 50, ..flow.loss(Instant::ZERO + PACKET * 400) };
        assert!(flow.cc.adapt_early(&loss));
        assert!((flow.cc.cwnd / window - 1.0).abs() < 1e-3, "{share} {sharers}: {}", flow.cc.cwnd);
    }
}

#[test]
fn a_window_that_is_small_beside_a_share_is_not_cut_before_the_burst_is_over() {
    for (sharers, is_cut) in [(2, false), (0, true)] {
        let mut flow = Driver::new(FAR, &[("qa_early", "1"), ("alpha", "0"), ("share", "across")]);
        arrive(&mut flow, 7, 200);
        flow.cc.outset -= 10.0;
        // A fifth of the BDP: a quarter of a share of two flows is above two fifths of that.
        (flow.cc.cwnd, flow.cc.counted) = (1000.0, sharers);
        let loss = flow.loss(Instant::ZERO + PACKET * 400);
        assert_eq!(flow.cc.adapt_early(&loss), is_cut);
        assert_eq!(flow.cc.cwnd < 400.0, is_cut, "{sharers}: {}", flow.cc.cwnd);
    }
}

#[test]
fn a_path_that_dies_during_a_burst_is_not_taken_for_a_slow_one() {
    for stragglers in [0, 1] {
        let mut flow = Driver::new(FAR, &[("alpha", "0")]);
        arrive(&mut flow, 101, 10);
        flow.now += PACKET * 350;
        arrive(&mut flow, stragglers, 10);
        lose(&mut flow, Inference::Block);
        assert_eq!(flow.cc.cwnd, 4999.0, "{stragglers}");
    }
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
