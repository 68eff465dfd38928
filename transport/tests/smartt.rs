//! The paper's claims about SMaRTT, each claim a test: in a closed loop where it is about flows,
//! call by call where it is about one equation. Source: \[smartt\] sec. III.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "a test, sharing a model with another")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod model;

use model::{BASE_RTT, FlowSpec, MTU, Net, Trace, run};
use proptest::prelude::*;
use transport::cc::{
    AckSample, Cc, CcKind, CcParams, CongestionControl, Inference, LossSample, Path,
};
use transport::path::NetworkFacts;
use transport::{Bytes, Duration, Instant, Rate};

const MIB: u64 = 1 << 20;
/// The BDP of the model's 800 Gb/s and 12 us, bytes.
const BDP: u64 = 1_200_000;

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

fn flow(bytes: u64) -> FlowSpec {
    FlowSpec { start: Duration::ZERO, bytes, base_rtt: BASE_RTT }
}

/// The paper's algorithm, but for `settings`.
fn params(settings: &[(&str, &str)]) -> CcParams {
    let mut params = CcParams::default();
    for (key, value) in [
        ("window_start", "1.5"),
        ("start_of", "path"),
        ("eta", "0"),
        ("qa_share", "measured"),
        ("share_split", "off"),
    ] {
        params.set(CcKind::Smartt, key, value).unwrap();
    }
    for (key, value) in settings {
        params.set(CcKind::Smartt, key, value).unwrap();
    }
    params
}

fn smartt(settings: &[(&str, &str)], net: &Net, flows: &[FlowSpec]) -> Vec<Trace> {
    run(CcKind::Smartt, &params(settings), net, flows)
}

fn mean_cwnd(traces: &[Trace], at: Duration) -> u64 {
    traces.iter().map(|trace| trace.cwnd_at(at)).sum::<u64>() / traces.len() as u64
}

fn last_finish(traces: &[Trace]) -> f64 {
    let ends = traces.iter().map(|trace| trace.finished.expect("finished").as_us_f64());
    ends.fold(0.0, f64::max)
}

fn nacks(traces: &[Trace]) -> u64 {
    traces.iter().map(|trace| trace.nacks).sum()
}

/// A sixteenth of the bytes that a bottleneck carries in one target RTT.
const SIXTEENTH: u64 = BDP * 3 / 2 / 16;

#[test]
fn quick_adapt_lands_a_16_to_1_incast_on_its_share_one_target_rtt_after_the_first_feedback() {
    let net = Net::paper(us(60));
    let traces = smartt(&[], &net, &vec![flow(64 * MIB); 16]);
    // First feedback after one base RTT, one target RTT of measuring, one sampling interval.
    let landed = us(12 + 18 + 4);
    for trace in &traces {
        let cwnd = trace.cwnd_at(landed);
        assert!((SIXTEENTH / 2..SIXTEENTH * 2).contains(&cwnd), "{cwnd} of {SIXTEENTH}");
    }
    let mean = mean_cwnd(&traces, landed);
    assert!((SIXTEENTH * 9 / 10..SIXTEENTH * 11 / 10).contains(&mean), "{mean} of {SIXTEENTH}");
    let without = smartt(&[("quick_adapt", "off")], &net, &vec![flow(64 * MIB); 16]);
    // Trims alone also shrink the window, but far past the share: every trimmed byte comes off.
    let astray = mean_cwnd(&without, us(56)).abs_diff(SIXTEENTH);
    let settled = mean_cwnd(&traces, us(56)).abs_diff(SIXTEENTH);
    assert!(settled * 3 < astray, "{settled} against {astray}");
}

#[test]
fn without_the_ignore_phase_quick_adapt_is_followed_by_an_overreaction() {
    let flows = vec![flow(64 * MIB); 16];
    let lowest = |trimming: &str, ignore: &str| {
        let net = Net { trimming: trimming == "on", ..Net::paper(us(140)) };
        let traces = smartt(&[("trimming", trimming), ("ignore", ignore)], &net, &flows);
        (36..140).step_by(4).map(|at| mean_cwnd(&traces, us(at))).min().unwrap()
    };
    // With trimming most trims are back before QuickAdapt acts, so little is left to overreact to.
    assert!(lowest("on", "off") < lowest("on", "on"));
    // Without, the timeouts of the first window arrive four base RTTs after it.
    assert!(lowest("off", "off") * 2 < lowest("off", "on"));
}

#[test]
fn without_trimming_delay_triggers_quick_adapt_and_the_timeouts_that_follow_are_ignored() {
    let net = Net { trimming: false, ..Net::paper(us(140)) };
    let flows = vec![flow(64 * MIB); 16];
    let traces = smartt(&[("trimming", "off")], &net, &flows);
    let mean = mean_cwnd(&traces, us(48));
    assert!((SIXTEENTH / 2..SIXTEENTH * 2).contains(&mean), "{mean} of {SIXTEENTH}");
    assert!(traces.iter().map(|trace| trace.timeouts).sum::<u64>() > 1000);
    // The timeouts of the first window are over by now and have not taken the window to the floor.
    assert!(mean_cwnd(&traces, us(136)) > SIXTEENTH / 2);
}

#[test]
fn fast_increase_reclaims_what_finished_flows_leave() {
    let net = Net::paper(us(2000));
    let mut flows = vec![flow(MIB); 16];
    flows.push(flow(4 * MIB));
    let with = last_finish(&smartt(&[], &net, &flows));
    let without = last_finish(&smartt(&[("fast_increase", "off")], &net, &flows));
    assert!(with * 1.1 < without, "{with} us against {without} us");
}

/// Throughput of a flow over that of another with three times its base RTT, late in 6 ms.
fn advantage_of_the_near_flow(settings: &[(&str, &str)]) -> f64 {
    let net = Net { sample_every: us(100), ..Net::paper(us(6000)) };
    let pair = [
        FlowSpec { base_rtt: us(6), ..flow(1024 * MIB) },
        FlowSpec { base_rtt: us(18), ..flow(1024 * MIB) },
    ];
    let traces = smartt(settings, &net, &pair);
    let late = |trace: &Trace| (trace.acked[59] - trace.acked[20]) as f64;
    late(&traces[0]) / late(&traces[1])
}

#[test]
fn fair_increase_takes_from_near_flows_the_advantage_that_additive_increase_gives_them() {
    for decrease_by in ["rtt", "queueing"] {
        let under = |increase| {
            advantage_of_the_near_flow(&[
                ("increase", increase),
                ("decrease_by", decrease_by),
                ("target_queue", "4us"),
            ])
        };
        let (fair, additive) = (under("fair"), under("additive"));
        assert!(additive > fair * 1.5, "{decrease_by}: {additive} against {fair}");
    }
}

#[test]
fn with_one_queue_target_and_cuts_relative_to_it_flows_of_different_base_rtts_share_alike() {
    let fair = advantage_of_the_near_flow(&[("decrease_by", "queueing"), ("target_queue", "4us")]);
    assert!((0.5..1.5).contains(&fair), "{fair}");
}

#[test]
fn a_target_relative_to_each_base_rtt_starves_the_near_flow_in_a_shared_queue() {
    // Why `target_queue` exists: the far flow's target is a queue at which the near one only
    // decreases.
    let relative = advantage_of_the_near_flow(&[]);
    assert!(relative < 0.05, "{relative}");
}

#[test]
fn cuts_alike_in_depth_and_time_give_near_and_far_flows_the_same() {
    let common = [("decrease_rtt", "18us"), ("target_queue", "9us")];
    let under =
        |more: &[(&str, &str)]| advantage_of_the_near_flow(&[common.as_slice(), more].concat());
    let (fair, additive) = (under(&[]), under(&[("increase", "additive")]));
    assert!((0.8..1.25).contains(&fair), "{fair}");
    assert!(additive > fair, "{additive} against {fair}");
    let own = advantage_of_the_near_flow(&[("target_queue", "9us")]);
    assert!(own < fair / 1.1, "{own} against {fair}");
}

#[test]
fn gathering_or_sampling_adjustments_costs_little() {
    let net = Net::paper(us(2000));
    let flows = vec![flow(4 * MIB); 16];
    let finish = |adjustment| last_finish(&smartt(&[("adjustment", adjustment)], &net, &flows));
    let every = finish("packet");
    for adjustment in ["accumulate:33280", "accumulate:1200000", "sample:8"] {
        let ours = finish(adjustment);
        assert!(ours < every * 1.05, "{adjustment}: {ours} us against {every} us");
    }
}

#[test]
fn an_incast_under_either_signal_alone_still_finishes_but_trims_no_less() {
    let net = Net::paper(us(4000));
    let flows = vec![flow(4 * MIB); 32];
    let both = smartt(&[], &net, &flows);
    for signals in ["ecn", "delay"] {
        let alone = smartt(&[("signals", signals)], &net, &flows);
        assert!(last_finish(&alone) < last_finish(&both) * 1.2, "{signals}");
        assert!(nacks(&alone) * 100 >= nacks(&both) * 98, "{signals}");
    }
}

// Call by call.

const PATH: Path = Path { base_rtt: BASE_RTT, line_rate: Rate::from_gbps(800), mtu: Bytes(MTU) };

/// A controller whose average RTT is the last sample.
fn one(settings: &[(&str, &str)]) -> Cc {
    let mut params = params(&[("ewma_gain", "1"), ("fast_increase", "off")]);
    for (key, value) in settings {
        params.set(CcKind::Smartt, key, value).unwrap();
    }
    Cc::new(CcKind::Smartt, &params, &PATH)
}

fn ack(now: Duration, rtt: Duration, ecn: bool) -> AckSample {
    let now = Instant::ZERO + now;
    let (held, acked, in_flight) = (Duration::ZERO, Bytes(MTU), Bytes(BDP));
    AckSample { now, rtt, held, acked, in_flight, ecn, sharers: 0 }
}

fn cwnd(cc: &Cc) -> u64 {
    cc.window().cwnd.0
}

/// Brings the window down to about `target` by trims.
fn shrink(cc: &mut Cc, target: u64) {
    while cwnd(cc) > target {
        cc.on_nack(&trimmed(Instant::ZERO), &PATH);
    }
}

/// The refusal of one packet that was sent just now.
fn trimmed(now: Instant) -> LossSample {
    let (bytes, in_flight) = (Bytes(MTU), Bytes(BDP));
    LossSample { now, sent_at: now, bytes, in_flight, sharers: 0, by: None }
}

#[test]
fn a_multiplicative_decrease_follows_eq_1_and_never_takes_more_than_half() {
    for (rtt, kept) in [(24, 0.8), (36, 0.6), (1_000_000, 0.5)] {
        let mut cc = one(&[]);
        let before = cwnd(&cc) as f64;
        cc.on_ack(&ack(us(100), us(rtt), true), &PATH);
        assert!((cwnd(&cc) as f64 / before - kept).abs() < 1e-5, "rtt {rtt}: {}", cwnd(&cc));
    }
}

#[test]
fn a_decrease_of_a_longer_base_rtt_is_what_a_flow_over_such_a_path_would_make() {
    let mut near = one(&[("decrease_rtt", "24us")]);
    let before = cwnd(&near) as f64;
    // 6 us above the target; a path of 24 us would have a round trip of 36.
    near.on_ack(&ack(us(100), us(24), true), &PATH);
    let kept = 1.0 - 0.8 * 6.0 / 36.0;
    assert!((cwnd(&near) as f64 / before - kept).abs() < 1e-5, "{}", cwnd(&near));
    let after = cwnd(&near);
    near.on_ack(&ack(us(123), us(24), true), &PATH);
    assert_eq!(cwnd(&near), after);
    near.on_ack(&ack(us(124), us(24), true), &PATH);
    assert!(cwnd(&near) < after);
}

#[test]
fn a_decrease_of_the_network_takes_the_base_rtt_of_its_longest_path() {
    let facts = NetworkFacts { base_rtt: Some(us(24)), ..NetworkFacts::default() };
    let resolved = |settings: &[(&str, &str)]| {
        let mut params = params(settings);
        params.resolve(&facts);
        params.smartt.decrease_rtt
    };
    assert_eq!(resolved(&[]), Duration::ZERO);
    assert_eq!(resolved(&[("decrease_of", "network")]), us(24));
    assert_eq!(resolved(&[("decrease_of", "network"), ("decrease_rtt", "30us")]), us(30));
}

#[test]
fn the_window_is_decreased_at_most_once_per_base_rtt() {
    let mut cc = one(&[]);
    let mut decreases = Vec::new();
    for at in (100..160).map(us) {
        let before = cwnd(&cc);
        cc.on_ack(&ack(at, us(24), true), &PATH);
        if cwnd(&cc) < before {
            decreases.push(at);
        }
    }
    assert_eq!(decreases, [us(100), us(112), us(124), us(136), us(148)]);
}

#[test]
fn a_mark_below_target_changes_nothing_unless_reduce_is_asked_for() {
    for (settings, expected) in
        [(&[][..], 1_800_000), (&[("on_ecn_low_delay", "reduce")], 1_800_000 - MTU / 2)]
    {
        let mut cc = one(settings);
        cc.on_ack(&ack(us(100), us(15), true), &PATH);
        assert_eq!(cwnd(&cc), expected);
    }
}

/// The increase of one window of unmarked acknowledgements at `rtt`, in packets.
fn packets_per_rtt(settings: &[(&str, &str)], rtt: Duration) -> f64 {
    let mut cc = one(&[settings, &[("quick_adapt", "off")]].concat());
    shrink(&mut cc, BDP / 2);
    let start = cwnd(&cc);
    for _ in 0..start / MTU {
        cc.on_ack(&ack(us(100), rtt, false), &PATH);
    }
    (cwnd(&cc) - start) as f64 / MTU as f64
}

#[test]
fn increases_are_so_many_packets_per_rtt_scaled_with_the_bdp() {
    // 800 Gb/s x 12 us are 8 times the reference BDP.
    let near = |packets: f64, expected: f64| {
        assert!((packets / expected - 1.0).abs() < 0.06, "{packets} for {expected}");
        assert!(packets <= expected, "{packets} is more than {expected}");
    };
    near(packets_per_rtt(&[("fi", "0")], us(12)), 8.0);
    // An RTT below the base RTT gives no more than an empty queue.
    near(packets_per_rtt(&[("fi", "0")], us(3)), 8.0);
    // Half way to the target: (18 - 15) / 15 x 2.
    near(packets_per_rtt(&[("fi", "0")], us(15)), 8.0 * 0.4);
    // Above the target only the fair increase is left.
    near(packets_per_rtt(&[("fi", "1")], us(20)), 8.0);
    near(packets_per_rtt(&[("fi", "1")], us(12)), 16.0);
    assert_eq!(packets_per_rtt(&[("fi", "0")], us(18)), 0.0);
}

#[test]
fn a_trim_sent_before_quick_adapt_acted_is_ignored_and_one_sent_after_is_not() {
    let mut cc = one(&[]);
    cc.on_ack(&ack(us(12), us(12), false), &PATH);
    let loss = |now, sent_at| LossSample {
        now: Instant::ZERO + us(now),
        sent_at: Instant::ZERO + us(sent_at),
        bytes: Bytes(MTU),
        in_flight: Bytes(10 * MTU),
        sharers: 0,
        by: None,
    };
    for _ in 0..20 {
        cc.on_ack(&ack(us(20), us(20), false), &PATH);
    }
    cc.on_nack(&loss(30, 18), &PATH);
    assert_eq!(cwnd(&cc), 20 * MTU, "20 packets arrived in the target RTT");
    cc.on_nack(&loss(31, 19), &PATH);
    cc.on_timeout(&loss(90, 20), &PATH);
    assert_eq!(cwnd(&cc), 20 * MTU);
    cc.on_nack(&loss(91, 31), &PATH);
    assert_eq!(cwnd(&cc), 19 * MTU);
}

#[test]
fn an_idle_flow_does_not_take_its_silence_for_congestion() {
    let mut cc = one(&[]);
    cc.on_ack(&ack(us(12), us(12), false), &PATH);
    cc.on_nack(&trimmed(Instant::ZERO + us(5000)), &PATH);
    assert_eq!(cwnd(&cc), 1_800_000 - MTU);
}

/// The refusal of one packet by a receiver that `sharers` flows share.
fn refusal(at: u64, sharers: u16) -> LossSample {
    let (now, in_flight) = (Instant::ZERO + us(at), Bytes(BDP));
    LossSample { now, sent_at: now, bytes: Bytes(MTU), in_flight, sharers, by: None }
}

/// An acknowledgement of nothing new, marked and of a round trip at the target, so that its count
/// of sharers alone has an effect.
fn ack_of_sharers(at: u64, sharers: u16) -> AckSample {
    AckSample { acked: Bytes(0), sharers, ..ack(us(at), us(18), true) }
}

#[test]
fn a_receivers_refusal_sets_an_equal_share_at_once_and_only_once_a_target_rtt() {
    let mut cc = one(&[("qa_share", "receiver")]);
    cc.on_nack(&refusal(14, 16), &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH);
    // Losses of packets that left before are ignored, and a higher count within the target RTT
    // costs the packet alone.
    cc.on_nack(&LossSample { sent_at: Instant::ZERO + us(13), ..refusal(15, 32) }, &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH);
    cc.on_nack(&refusal(16, 32), &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH - MTU);
    cc.on_nack(&refusal(33, 32), &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH / 2);
}

#[test]
fn a_share_never_raises_a_window_and_a_flow_alone_at_its_receiver_has_none() {
    for sharers in [0, 1] {
        let mut cc = one(&[("qa_share", "receiver")]);
        cc.on_nack(&refusal(14, sharers), &PATH);
        assert_eq!(cwnd(&cc), 1_800_000 - MTU, "{sharers}");
    }
    let mut cc = one(&[("qa_share", "receiver")]);
    shrink(&mut cc, SIXTEENTH / 2);
    let before = cwnd(&cc);
    cc.on_nack(&refusal(14, 16), &PATH);
    assert_eq!(cwnd(&cc), before - MTU);
}

#[test]
fn flows_that_stay_split_what_flows_that_leave_had() {
    let mut cc = one(&[("qa_share", "receiver"), ("share_split", "on")]);
    cc.on_ack(&ack_of_sharers(12, 16), &PATH);
    cc.on_nack(&refusal(14, 16), &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH);
    cc.on_ack(&ack_of_sharers(20, 12), &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH * 16 / 12);
    // A report without a count changes nothing, and one of more flows neither: marks and trims make
    // room for flows that join.
    cc.on_ack(&ack_of_sharers(21, 0), &PATH);
    cc.on_ack(&ack_of_sharers(22, 24), &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH * 16 / 12);
    // At most an equal share of the bytes that the path carries in a target RTT.
    cc.on_ack(&ack_of_sharers(23, 8), &PATH);
    assert_eq!(cwnd(&cc), SIXTEENTH * 2);
    let mut off = one(&[("qa_share", "receiver")]);
    off.on_ack(&ack_of_sharers(12, 16), &PATH);
    off.on_nack(&refusal(14, 16), &PATH);
    off.on_ack(&ack_of_sharers(20, 8), &PATH);
    assert_eq!(cwnd(&off), SIXTEENTH);
}

#[test]
fn the_initial_window_is_a_setting_within_the_bounds() {
    for (start, bytes) in [("1.5", BDP * 3 / 2), ("1", BDP), ("0.5", BDP / 2), ("64", BDP * 3 / 2)]
    {
        assert_eq!(cwnd(&one(&[("window_start", start)])), bytes, "{start}");
    }
    assert_eq!(cwnd(&one(&[("window_start", "1"), ("window_max", "0.5")])), BDP / 2);
}

#[test]
fn a_small_window_gains_eta_once_a_base_rtt_under_marks_too() {
    // A BDP of 1.2 MB is eight times the reference BDP.
    let eta = MTU * 8 * 15 / 100;
    // A mark below the target changes nothing else.
    let mark = |at: u64| ack(us(at), us(12), true);
    let mut cc = one(&[("eta", "0.15"), ("eta_below", "0.01"), ("quick_adapt", "off")]);
    shrink(&mut cc, MTU);
    for (at, times) in [(11, 0), (12, 1), (13, 1), (23, 1), (24, 2), (60, 3), (72, 3)] {
        cc.on_ack(&mark(at), &PATH);
        // A window of 1 % of a BDP, three packets, is not small: two gains pass it.
        let gains = times.min(2);
        assert_eq!(cwnd(&cc), MTU + gains * eta, "{at} us");
    }
    for settings in [[("eta", "0"), ("eta_below", "64")], [("eta", "0.15"), ("eta_below", "0")]] {
        let mut cc = one(&settings);
        shrink(&mut cc, MTU);
        cc.on_ack(&mark(12), &PATH);
        assert_eq!(cwnd(&cc), MTU);
    }
    // A packet is the share of one of 500 flows, and less than half of that of one of 100.
    for (sharers, gains) in [(500, 0), (100, 1)] {
        let mut cc = one(&[("eta", "0.15"), ("eta_below", "0.01")]);
        shrink(&mut cc, MTU);
        cc.on_ack(&AckSample { sharers, ..mark(12) }, &PATH);
        assert_eq!(cwnd(&cc), MTU + gains * eta, "{sharers}");
    }
}

/// A flow that opens now beside those that are clones of `host`.
fn started(host: &Cc, at: u64) -> u64 {
    let mut cc = host.clone();
    if cc.window().wake_at.is_some() {
        cc.on_wake(Instant::ZERO + us(at), &PATH);
    }
    cwnd(&cc)
}

#[test]
fn a_flow_starts_with_the_mean_window_of_its_hosts_flows() {
    let host = one(&[("start_of", "recent"), ("quick_adapt", "off")]);
    let start = cwnd(&host);
    assert_eq!(started(&host, 1), start);
    let mut small = host.clone();
    shrink(&mut small, MTU);
    // Once a base RTT an eighth of the way.
    let mut mean = start;
    for round in 1..=40 {
        mean -= (mean - cwnd(&small)) / 8;
        small.on_ack(&ack(us(12 * round), us(12), true), &PATH);
        small.on_ack(&ack(us(12 * round + 1), us(12), true), &PATH);
        let now = started(&host, 12 * round + 1);
        // Half the start window or more counts as all of it.
        let expected = if mean < start * 2 / 5 { mean } else { start };
        let unsure = (start * 2 / 5..start * 3 / 5).contains(&mean);
        assert!(unsure || now.abs_diff(expected) < start / 8, "round {round}: {now} of {mean}");
    }
    assert!((MTU..MTU * 4).contains(&started(&host, 481)));
    // Eight base RTTs after the last window that counts, a flow starts as if there were none.
    assert!(started(&host, 480 + 96) < MTU * 4);
    assert_eq!(started(&host, 480 + 97), start);
    // The first window after such a pause counts from there, not from the former mean.
    small.on_ack(&ack(us(580), us(12), true), &PATH);
    assert_eq!(started(&host, 581), start);
    // A flow of which all is trimmed takes part, too.
    let host = one(&[("start_of", "recent"), ("quick_adapt", "off")]);
    let mut small = host.clone();
    shrink(&mut small, MTU);
    for round in 1..=40 {
        small.on_nack(&trimmed(Instant::ZERO + us(12 * round)), &PATH);
    }
    assert!(started(&host, 481) < MTU * 4);
    let alone = one(&[("start_of", "path"), ("quick_adapt", "off")]);
    let mut small = alone.clone();
    shrink(&mut small, MTU);
    small.on_ack(&ack(us(12), us(12), true), &PATH);
    assert_eq!(started(&alone, 13), start);
}

#[test]
fn an_idle_path_gives_flows_their_start_back_and_a_full_receiver_takes_nothing() {
    let host = one(&[("start_of", "recent"), ("quick_adapt", "off")]);
    let start = cwnd(&host);
    let mut flow = host.clone();
    shrink(&mut flow, MTU);
    for round in 1..=40 {
        flow.on_ack(&ack(us(12 * round), us(12), true), &PATH);
    }
    assert!(started(&host, 481) < MTU * 4);
    // The flow's own window stays what it is; a path without queue says that there is room.
    let mut short = host.clone();
    shrink(&mut short, MTU * 2);
    for round in 41..=80 {
        short.on_ack(&AckSample { acked: Bytes(0), ..ack(us(12 * round), us(12), false) }, &PATH);
    }
    assert!(cwnd(&short) < MTU * 4 && started(&host, 961) > start * 9 / 10);
    // Sixteen flows that share a receiver have a sixteenth each: other receivers are not full.
    let full = one(&[("start_of", "recent"), ("qa_share", "receiver")]);
    let mut flow = full.clone();
    flow.on_nack(&refusal(14, 16), &PATH);
    assert_eq!(cwnd(&flow), SIXTEENTH);
    let before = started(&full, 15);
    for round in 2..=40 {
        flow.on_ack(&ack_of_sharers(12 * round, 16), &PATH);
        flow.on_nack(&LossSample { bytes: Bytes(0), ..refusal(12 * round + 6, 16) }, &PATH);
    }
    assert!(cwnd(&flow) >= SIXTEENTH / 2);
    assert_eq!(started(&full, 490), before);
}

#[derive(Clone, Debug)]
enum Step {
    Ack { after_ns: u32, rtt_ns: u64, acked: u64, ecn: bool, sharers: u16 },
    Nack { after_ns: u32, bytes: u64, sharers: u16 },
    Timeout { after_ns: u32, bytes: u64 },
    BaseRtt(u64),
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(MTU), 2 => 0..100_000_u64, 1 => any::<u64>()]
}

fn sharers() -> impl Strategy<Value = u16> {
    prop_oneof![2 => Just(0), 4 => 1..100_u16, 1 => any::<u16>()]
}

fn steps() -> impl Strategy<Value = Step> {
    let after = 0..40_000_u32;
    let rtt = prop_oneof![4 => 10_000..60_000_u64, 1 => any::<u64>(), 1 => Just(0)];
    prop_oneof![
        6 => (after.clone(), rtt, bytes(), any::<bool>(), sharers()).prop_map(
            |(after_ns, rtt_ns, acked, ecn, sharers)| {
                Step::Ack { after_ns, rtt_ns, acked, ecn, sharers }
            },
        ),
        2 => (after.clone(), bytes(), sharers())
            .prop_map(|(after_ns, bytes, sharers)| Step::Nack { after_ns, bytes, sharers }),
        1 => (after, bytes()).prop_map(|(after_ns, bytes)| Step::Timeout { after_ns, bytes }),
        1 => prop_oneof![Just(0), 1_000..100_000_u64].prop_map(Step::BaseRtt),
    ]
}

/// One value for each ablation switch.
fn ablation() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let choice = |key, values: &'static [&'static str]| {
        proptest::sample::select(values).prop_map(move |value| (key, value))
    };
    (
        choice("quick_adapt", &["on", "off"]),
        choice("ignore", &["on", "off"]),
        choice("trimming", &["on", "off"]),
        choice("increase", &["fair", "additive"]),
        choice("on_ecn_low_delay", &["no-op", "reduce"]),
        choice("signals", &["both", "ecn", "delay"]),
        choice("adjustment", &["packet", "accumulate:16640", "sample:8"]),
        choice("fi", &["0", "1", "64"]),
        choice("qa_share", &["measured", "receiver"]),
        choice("share_split", &["on", "off"]),
        choice("eta", &["0", "0.15", "64"]),
        choice("eta_below", &["0.015", "64"]),
    )
        .prop_map(|all| {
            let switches = [all.0, all.1, all.2, all.3, all.4, all.5];
            let values = [all.6, all.7, all.8, all.9, all.10, all.11];
            [switches, values].concat()
        })
}

proptest! {
    #[test]
    fn every_controller_keeps_its_window_between_a_packet_and_its_largest_whatever_it_receives(
        settings in ablation(), all in proptest::collection::vec(steps(), 0..300),
    ) {
        for kind in CcKind::ALL {
            let mut path = PATH;
            let params = params(&settings);
            let most = |bdp: Bytes| bdp.scaled(f64::from(kind.window_max(&params))).0.max(MTU);
            let mut cc = Cc::new(*kind, &params, &path);
            let mut now = Instant::ZERO;
            let mut highest = path.bdp();
            for step in &all {
                let after = match step {
                    Step::Ack { after_ns, .. }
                    | Step::Nack { after_ns, .. }
                    | Step::Timeout { after_ns, .. } => *after_ns,
                    Step::BaseRtt(_) => 0,
                };
                let sent_at = now;
                now += Duration::from_ns(u64::from(after));
                let in_flight = cc.window().cwnd;
                if cc.window().wake_at.is_some_and(|at| at <= now) {
                    cc.on_wake(now, &path);
                }
                match *step {
                    Step::Ack { rtt_ns, acked, ecn, sharers, .. } => {
                        let rtt = Duration::from_ns(rtt_ns);
                        let held = rtt / 16;
                        let acked = Bytes(acked);
                        let sample = AckSample { now, rtt, held, acked, in_flight, ecn, sharers };
                        cc.on_ack(&sample, &path);
                    }
                    Step::Nack { bytes, sharers, .. } => {
                        let (bytes, by) = (Bytes(bytes), None);
                        let loss = LossSample { now, sent_at, bytes, in_flight, sharers, by };
                        cc.on_nack(&loss, &path);
                    }
                    Step::Timeout { bytes, .. } => {
                        let by = (after % 2 == 0).then_some(Inference::Silence);
                        let (bytes, sharers) = (Bytes(bytes), 0);
                        let loss = LossSample { now, sent_at, bytes, in_flight, sharers, by };
                        cc.on_timeout(&loss, &path);
                    }
                    Step::BaseRtt(ns) => {
                        // Taken over at the next event; until then the old bound holds.
                        path.base_rtt = Duration::from_ns(ns);
                        highest = highest.max(path.bdp());
                        continue;
                    }
                }
                let window = cc.window();
                let cwnd = window.cwnd.0;
                prop_assert!(cwnd >= MTU, "{}: {cwnd}", kind.name());
                prop_assert!(cwnd <= most(highest), "{}: {cwnd}", kind.name());
                if *kind != CcKind::Fixed {
                    prop_assert!(cwnd <= most(path.bdp()), "{}: {cwnd}", kind.name());
                }
                if let Some(rate) = window.pacing {
                    prop_assert!((1..=800_000_000_000).contains(&rate.as_bps()), "{rate}");
                }
                prop_assert!(window.wake_at.is_none_or(|at| at >= now), "{window:?} at {now:?}");
            }
        }
    }
}
