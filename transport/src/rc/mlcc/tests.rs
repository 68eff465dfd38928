//! Rules of the credit loop.

use alloc::vec::Vec;

use super::*;
use crate::rc::RcParams;
use crate::units::{Bytes, Psn};
use crate::wire::int::Int;
use crate::wire::{Ext, Extensions, Extent};

const LINE: Rate = Rate::from_gbps(25);
/// The rate of the border switch's port, which is never busy here.
const BORDER_LINE: Rate = Rate::from_gbps(400);

fn half(params: MlccParams) -> Mlcc {
    let params = RcParams { mlcc: params, ..RcParams::default() };
    let base_rtt = Duration::from_ms(6);
    Mlcc::build(&HalfSetup { params: &params, line_rate: LINE, base_rtt, mtu: Bytes(1090) })
}

fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// A segment at `at` that has left its queue under `credit`, the border switch's port, and a port
/// inside the site, both of which have sent `sent` bytes.
fn arrives(half: &mut Mlcc, at: u64, credit: Option<u16>, sent: u64) -> HalfReport {
    let mut int = Int::with_room(4);
    if let Some(credit) = credit {
        int.stamp(Hop::of_queue(us(at), Bytes(0), Bytes(0), credit));
    }
    int.stamp(Hop::new(us(at), Bytes(sent), Bytes(0), BORDER_LINE, 2));
    int.stamp(Hop::new(us(at), Bytes(sent), Bytes(0), LINE, 3));
    receives(half, at, &int, 4)
}

/// A segment arrives at `at` with telemetry, when the receiver has `sharers` flows.
fn receives(half: &mut Mlcc, at: u64, int: &Int, sharers: u16) -> HalfReport {
    let ext = Ext { int: *int, ..Ext::VACANT };
    let extensions = Extensions::new(Extent::NONE.with_int(int), &ext);
    half.on_segment(&SegmentArrival {
        at: us(at),
        psn: Psn(0),
        bytes: Bytes(1000),
        ce: false,
        trimmed: false,
        sharers,
        extensions,
    });
    half.report(us(at)).unwrap()
}

#[test]
fn a_new_flow_says_credit_one_and_a_round_ends_with_each_match() {
    let mut half = half(MlccParams::default());
    assert_eq!(half.report(us(0)), None);
    assert_eq!(arrives(&mut half, 10, Some(0), 0).number, 1);
    assert_eq!(arrives(&mut half, 12, Some(0), 0).number, 1, "still of the round before");
    assert_eq!(arrives(&mut half, 34, Some(1), 0).number, 2);
    assert_eq!(arrives(&mut half, 35, Some(1), 0).number, 2, "once a round");
    assert_eq!(arrives(&mut half, 36, Some(0), 0).number, 2, "stale");
    assert_eq!(arrives(&mut half, 58, Some(2), 0).number, 3);
}

#[test]
fn credits_wrap_past_zero_which_is_that_of_a_new_queue() {
    let mut half = half(MlccParams::default());
    assert_eq!(arrives(&mut half, 10, Some(65_534), 0).number, 65_535);
    assert_eq!(arrives(&mut half, 34, Some(65_535), 0).number, 1);
}

#[test]
fn a_segment_without_a_queue_of_its_own_moves_no_round() {
    let mut half = half(MlccParams::default());
    arrives(&mut half, 10, Some(0), 0);
    for at in 0..100 {
        assert_eq!(arrives(&mut half, 100 + at * 50, None, 0).number, 1);
    }
}

#[test]
fn without_its_credit_a_round_opens_by_itself_and_an_older_memory_is_taken_over() {
    let mut half = half(MlccParams::default());
    arrives(&mut half, 10, Some(0), 0);
    // 25 Gb/s are 3125 bytes a microsecond: the link is full, so the rate falls.
    let lone = arrives(&mut half, 20, Some(0), 31_250);
    assert_eq!(lone.values[0], 6_250_000, "an equal share of four");
    arrives(&mut half, 250, Some(0), 0);
    let round = arrives(&mut half, 500, Some(0), 781_250);
    assert_eq!(round.number, 1, "no credit is made up");
    assert!(round.values[0] < 6_250_000, "{round:?}");
    // The switch has counted more credit than this half.
    assert_eq!(arrives(&mut half, 510, Some(9), 0).number, 1);
    assert_eq!(arrives(&mut half, 800, Some(9), 0).number, 10);
}

#[test]
fn a_new_flow_starts_with_the_line_or_an_equal_share_of_it() {
    let line = MlccParams { initial: Initial::Line, ..MlccParams::default() };
    for (params, expected) in [(line, 25_000_000), (MlccParams::default(), 6_250_000)] {
        assert_eq!(arrives(&mut half(params), 10, Some(0), 0).values[0], expected);
    }
}

#[test]
fn rates_stay_in_their_bounds_whatever_hops_say() {
    let mut rng = crate::rng::Rng::new(5);
    let mut half = half(MlccParams::default());
    let mut at = 0;
    for _ in 0..20_000 {
        at += rng.below(400);
        let credit = half.credit.filter(|_| rng.below(4) > 0).or(Some(3));
        let report = arrives(&mut half, at, credit, rng.next_u64() >> 30);
        assert!(report.values.iter().all(|kbps| (100_000..=25_000_000).contains(kbps)));
    }
}

#[test]
fn times_in_round_trips_across_follow_the_network() {
    let mut params = MlccParams { theta_rtts: 3.0, ..MlccParams::default() };
    let facts =
        NetworkFacts { inter_rtt: Some(Duration::from_us(2000)), ..NetworkFacts::default() };
    Mlcc::resolve(&mut params, &facts);
    assert_eq!((params.theta, params.dt), (Duration::from_ms(6), Duration::from_ms(1)));
    let mut params = MlccParams { dt_rtts: 0.25, ..MlccParams::default() };
    Mlcc::resolve(&mut params, &facts);
    assert_eq!((params.theta, params.dt), (Duration::from_ms(18), Duration::from_us(500)));
}

/// R_credit in Mb/s after rounds from `rounds`, each a segment that took `took` us from the border
/// switch, whose clock is `ahead` us ahead of the receiver's. Its port writes a hop with `own`.
fn by_delay(signal: Signal, own: bool, ahead: u64, rounds: &[(u32, u64)]) -> Vec<u32> {
    let mut half = half(MlccParams { signal, initial: Initial::Line, ..MlccParams::default() });
    let (mut at, mut credit) = (1_000, 0);
    let mut round = |took: u64| {
        at += 24;
        let mut int = Int::with_room(4);
        let left = us(at - took + ahead);
        int.stamp(Hop::of_queue(left, Bytes(0), Bytes(0), credit));
        if own {
            int.stamp(Hop::new(left, Bytes(at * 100), Bytes(0), BORDER_LINE, 2));
        }
        let report = receives(&mut half, at, &int, 1);
        credit = report.number;
        report.values[0] / 1000
    };
    let of = |&(count, took): &(u32, u64)| (0..count).map(|_| round(took)).last().unwrap();
    rounds.iter().map(of).collect()
}

#[test]
fn delay_inside_the_site_stands_for_hops_where_none_come_whatever_the_clocks_say() {
    for (signal, own) in [(Signal::Auto, false), (Signal::Auto, true), (Signal::Delay, false)] {
        for ahead in [0, 7, 4_000_000, 20_000_000] {
            let rates = by_delay(signal, own, ahead, &[(5, 10), (1, 22), (9, 22), (9, 10)]);
            assert!(rates[0] > 24_000, "no queue: {rates:?}");
            // A full link with 9 us beyond the slack: 1 + 9 / 24 for 0.95.
            assert!((17_000..17_600).contains(&rates[1]), "{rates:?}");
            assert!(rates[2] < rates[1] / 4, "as long as it lasts: {rates:?}");
            assert!(rates[3] > rates[2] + 300, "and up again: {rates:?}");
        }
    }
    let rates = by_delay(Signal::Int, false, 0, &[(5, 10), (9, 22)]);
    assert_eq!(rates[0], rates[1], "hops alone, and none came");
    let rates = by_delay(Signal::Int, true, 0, &[(5, 10), (9, 22)]);
    assert!(rates[1] >= rates[0], "hops alone, of a port that is not busy: {rates:?}");
}

#[test]
fn hosts_that_poll_devices_follow_hops_alone_unless_the_delay_was_chosen() {
    for (signal, expected) in [(Signal::Auto, Signal::Int), (Signal::Delay, Signal::Delay)] {
        let mut params = MlccParams { signal, ..MlccParams::default() };
        Mlcc::resolve(&mut params, &NetworkFacts::of_devices());
        assert_eq!(params.signal, expected);
    }
}

#[test]
fn a_border_port_that_is_full_counts_though_nothing_waits_inside_the_site() {
    let after = |signal: Signal| {
        let params = MlccParams { signal, initial: Initial::Line, ..MlccParams::default() };
        let (mut half, mut credit) = (half(params), 0);
        let round = |at: u64| {
            let mut int = Int::with_room(4);
            int.stamp(Hop::of_queue(us(at), Bytes(0), Bytes(0), credit));
            // A full link of 25 Gb/s with two round trips of bytes before it.
            int.stamp(Hop::new(us(at), Bytes(at * 3125), Bytes(150_000), LINE, 2));
            let report = receives(&mut half, at, &int, 1);
            credit = report.number;
            report.values[0]
        };
        (0..6).map(|n| 1000 + 24 * n).map(round).last().unwrap()
    };
    assert!(after(Signal::Auto) < after(Signal::Delay) / 2);
    assert_eq!(after(Signal::Auto), after(Signal::Int));
}
