//! Telemetry and advice that cannot be true: counted by name, and the packet counts without them.

use transport::cc::CcKind;
use transport::rc::RcKind;
use transport::wire::advice::Advice;
use transport::wire::int::{Hop, Int};
use transport::wire::{Ext, Extent};
use transport::{Bytes, Duration, Rate};

use super::*;

/// The counters of telemetry and of advice.
fn refused(end: &End) -> (u64, u64) {
    let stats = end.endpoint.stats();
    (stats.int_refused, stats.advice_refused)
}

/// Hands in `rx` with extensions.
fn take_with(end: &mut End, rx: &RxSegment, (extent, ext): (Extent, Ext)) -> Placement {
    let rx = RxSegment { hdr: rx.hdr.extended(extent), at: end.now, ..*rx };
    let mut out = [Placement::Release];
    end.endpoint.handle_extended(end.now, (&[rx], &[ext]), &mut out);
    out[0]
}

/// An endpoint that has sent `segments` on a flow of `cc`.
fn sending(cc: CcKind, segments: u32) -> (End, FlowId) {
    let mut end = End::new(|s| (s.cc, s.int_room) = (cc, 8));
    let flow = end.open();
    end.post(flow, segments * u32::from(FULL));
    // Paced: one segment after the other.
    let mut sent = 0;
    for _ in 0..20 {
        sent += end.sent().len();
        end.now += Duration::from_us(1);
        end.endpoint.handle_timeout(end.now);
    }
    assert_eq!(sent, segments as usize);
    (end, flow)
}

/// A port of 100 Gb/s that has sent `sent` bytes at `us`.
fn hops(us: u64, sent: u64) -> (Extent, Ext) {
    let mut int = Int::with_room(1);
    let at = Instant::ZERO + Duration::from_us(us);
    int.stamp(Hop::new(at, Bytes(sent), Bytes(0), Rate::from_gbps(100), 1));
    (Extent::NONE.with_int(&int), Ext { int, ..Ext::VACANT })
}

#[test]
fn hops_of_an_acknowledgement_that_run_backwards_are_counted_and_the_rest_of_it_counts() {
    let (mut end, flow) = sending(CcKind::Hpcc, 4);
    let cases = [((10, 6400), 0), ((9, 12_800), 1), ((11, 640), 2), ((12, 12_800), 2)];
    for (psn, ((us, sent), count)) in (0..).zip(cases) {
        let answer = end.reply(flow, Body::Ack(ack(psn, psn + 1)));
        take_with(&mut end, &answer, hops(us, sent));
        assert_eq!(refused(&end), (count, 0), "{us} us, {sent} bytes");
        assert_eq!(end.endpoint.stats().acks_received, u64::from(psn) + 1);
    }
    assert_eq!(end.endpoint.stats().drops.total(), 0);
    assert_eq!(end.endpoint.flow_window(flow).unwrap().1, Bytes::ZERO);
}

#[test]
fn advice_of_no_rate_is_counted_and_the_rest_of_it_counts_as_does_a_rate_beyond_the_line() {
    let (mut end, flow) = sending(CcKind::Mlcc, 5);
    let line = 100_000_000;
    let cases =
        [([1, line], 0), ([1, 0], 1), ([0, line], 2), ([1, line + 1], 2), ([1, u32::MAX], 2)];
    for (psn, (values, count)) in (0..).zip(cases) {
        let advice = Advice { half: RcKind::Mlcc.half(), number: 1, values };
        let answer = end.reply(flow, Body::Ack(ack(psn, psn + 1)));
        let ext = Ext { advice, ..Ext::VACANT };
        take_with(&mut end, &answer, (Extent::NONE.with_advice(), ext));
        assert_eq!(refused(&end), (0, count), "{values:?} kb/s");
        assert_eq!(end.endpoint.stats().acks_received, u64::from(psn) + 1);
        let pacing = end.endpoint.flow_window(flow).unwrap().0.pacing;
        assert!(pacing.unwrap() <= Rate::from_gbps(100), "{pacing:?}");
    }
}

#[test]
fn hops_of_data_that_run_backwards_are_counted_and_the_data_is_placed() {
    let mut end = End::new(|s| (s.cc, s.int_room) = (CcKind::Mlcc, 8));
    let cases = [((10, 6400), 0), ((40, 12_800), 0), ((39, 19_200), 1), ((70, 12_000), 2)];
    for (psn, ((us, sent), count)) in (0..).zip(cases) {
        // The hop of the flow's queue comes first; each segment answers the credit before.
        let at = Instant::ZERO + Duration::from_us(us);
        let mut int = Int::with_room(2);
        let credit = u16::try_from(psn).unwrap();
        int.stamp(Hop::of_queue(at, Bytes(0), Bytes(0), credit));
        int.stamp(Hop::new(at, Bytes(sent), Bytes(0), Rate::from_gbps(100), 1));
        let extent = Extent::NONE.with_int(&int).with_half();
        let ext = Ext { int, half: RcKind::Mlcc.half(), ..Ext::VACANT };
        let segment = first(opening(psn, 0, psn * u32::from(FULL), 4 * u32::from(FULL)), FULL);
        let placed = take_with(&mut end, &segment, (extent, ext));
        assert!(!matches!(placed, Placement::Release));
        assert_eq!(refused(&end), (count, 0), "{us} us, {sent} bytes");
    }
    assert_eq!(end.delivered(), [4 * u32::from(FULL)]);
}
