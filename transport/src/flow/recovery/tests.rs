//! Tests of when silence counts as loss, and for which segments, where a path is long compared with
//! a burst.

use super::*;
use crate::flow::sent_packets::{ChainLinks, Marks};
use crate::time::Rate;
use crate::units::{EntropyValue, MsgId};
use alloc::vec::Vec;

/// The way between two datacentres, and a timeout of one and a quarter of it.
const RTT: Duration = Duration::from_us(1800);
const RTO: Duration = Duration::from_us(2250);

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

fn packet(us: u64) -> SentPacket {
    SentPacket {
        sent_at: at(us),
        msg: MsgId::default(),
        offset: 0,
        wire_len: 4160,
        payload_len: 4096,
        ev: EntropyValue(0),
        fate: Fate::InFlight,
        marks: Marks::default(),
        links: ChainLinks::default(),
    }
}

/// A burst of 500 us on a path of `RTT`, and the settings that it has.
fn burst() -> (Recovery, LossSettings) {
    let path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
    let loss = crate::config::Settings::default().loss;
    let mut recovery = Recovery::new(&loss, &path, RTO, 0);
    recovery.reserve(64, 64);
    for us in (0..=500).step_by(100) {
        recovery.on_sent(packet(us));
    }
    (recovery, loss)
}

/// Runs the timer once at `us`: when the segments that it takes for lost were sent.
fn lost(recovery: &mut Recovery, loss: &LossSettings, us: u64) -> Vec<Instant> {
    let Timeout::Before(limit) = recovery.on_timer(at(us), loss, None) else { return Vec::new() };
    let next = || recovery.next_sent_before(limit, Inference::Silence);
    core::iter::from_fn(next).map(|loss| loss.packet.sent_at).collect()
}

#[test]
fn silence_takes_nothing_for_lost_that_may_still_be_answered() {
    let (mut recovery, loss) = burst();
    assert_eq!(recovery.next_timer(at(2249), false, &loss), Some(at(2250)));
    assert_eq!(lost(&mut recovery, &loss, 2249), []);
    // Segments sent by 225 are silent for more than a round trip and half of the rest of the
    // timeout.
    assert_eq!(lost(&mut recovery, &loss, 2250), [at(0), at(100), at(200)]);
}

#[test]
fn the_rest_of_a_burst_waits_no_longer_and_what_is_sent_again_twice_as_long() {
    let (mut recovery, loss) = burst();
    lost(&mut recovery, &loss, 2250);
    while let Some((psn, _)) = recovery.next_lost() {
        recovery.on_resent(psn, SentPacket { marks: Marks::default().again(), ..packet(2250) });
    }
    assert_eq!(recovery.next_timer(at(2250), false, &loss), Some(at(2550)));
    assert_eq!(lost(&mut recovery, &loss, 2550), [at(300), at(400), at(500)]);
    while let Some((psn, _)) = recovery.next_lost() {
        recovery.on_resent(psn, SentPacket { marks: Marks::default().again(), ..packet(2550) });
    }
    assert_eq!((recovery.timeouts, recovery.silent), (1, 1));
    assert_eq!(recovery.next_timer(at(2550), false, &loss), Some(at(2250 + 2 * 2250)));
}

#[test]
fn a_timeout_as_short_as_the_path_takes_out_of_flight_what_it_is_due_for() {
    let (mut recovery, loss) = burst();
    recovery.rto = RTT;
    assert_eq!(lost(&mut recovery, &loss, 1800), [at(0)]);
    assert_eq!(recovery.next_timer(at(1800), false, &loss), Some(at(1900)));
}

#[test]
fn the_window_of_a_path_that_keeps_order_is_a_64th_and_grows_once_something_was_overtaken() {
    let (recovery, mut loss) = burst();
    loss.in_order = true;
    let path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
    let reorder_window = Recovery::new(&loss, &path, RTO, 0).reorder_window;
    let mut recovery = Recovery { reorder_window, ..recovery };
    let ack = |psn: u32, sack| Ack { sack, ..ack_of(Psn(psn), u64::from(psn) * 100) };
    recovery.on_news(&ack(2, 0b100), Some((at(200), RTT)), |_| {});
    let lost = |recovery: &mut Recovery| {
        core::iter::from_fn(|| recovery.next_overtaken().map(|loss| loss.packet.sent_at)).count()
    };
    assert_eq!(lost(&mut recovery), 2, "at once");
    assert!(recovery.on_news(&ack(1, 0b110), Some((at(100), RTT)), |_| {}), "it was overtaken");
    assert_eq!(recovery.reorder_window, Some(RTT / 64 + RTT / 128));
    loss.reorder_window_quarters = None;
    assert_eq!(Recovery::new(&loss, &path, RTO, 0).reorder_window, None);
}

/// A burst of a flow that probes silences, and what it has for that.
fn probing() -> (Recovery, LossSettings) {
    let (mut recovery, loss) = burst();
    let path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
    let config = crate::config::Config::new(crate::config::Settings::default()).unwrap();
    recovery.rto = RTT * 7;
    (recovery.with_probes(&config, &path, crate::units::Key(7)), loss)
}

#[test]
fn a_probe_takes_the_place_of_its_segment_and_puts_off_no_timeout() {
    let (mut recovery, loss) = probing();
    let due = recovery.next_probe(at(500), Duration::ZERO).unwrap();
    assert!(due >= at(500) + RTT * 2 && due <= at(500) + RTT * 2 + RTT / 8, "{due:?}");
    assert_eq!(recovery.next_probe(at(700), Duration::ZERO), Some(due), "until something arrives");
    // The first one that leaves again is the probe, whatever else is lost.
    let first = Psn(recovery.sent.next().0 - 6);
    recovery.mark_lost(first);
    assert_eq!(recovery.on_timer(due, &loss, Some(RTT)), Timeout::NotDue, "a queue is that long");
    recovery.next_probe(due, RTT * 2);
    let later = recovery.probe_at.unwrap();
    assert_eq!(recovery.on_timer(later, &loss, None), Timeout::NotDue);
    let (psn, _) = recovery.next_lost().unwrap();
    assert_eq!(psn.plus(1), recovery.sent.next());
    let in_flight = recovery.in_flight();
    let again = |us| SentPacket { marks: Marks::default().again(), ..packet(us) };
    recovery.on_resent(psn, again(8000));
    assert_eq!(recovery.in_flight(), in_flight + Bytes(4160));
    assert_eq!(recovery.next_lost().unwrap().0, first);
    // All that left by 500 us is silent since then.
    assert_eq!(lost(&mut recovery, &loss, 100 + 7 * 1800).len(), 5);
    assert_eq!(recovery.in_flight(), Bytes::ZERO);
}

#[test]
fn a_probe_that_left_lately_is_not_overtaken_by_news() {
    let (mut recovery, loss) = probing();
    let due = recovery.next_probe(at(500), Duration::ZERO).unwrap();
    assert_eq!(recovery.on_timer(due, &loss, None), Timeout::NotDue);
    let (probed, _) = recovery.next_lost().unwrap();
    let again = |us| SentPacket { marks: Marks::default().again(), ..packet(us) };
    recovery.on_resent(probed, again(8000));
    recovery.mark_lost(Psn(0));
    recovery.on_resent(Psn(0), again(9000));
    recovery.on_news(&ack_of(Psn(0), 9000), Some((at(9000), RTT)), |_| {});
    let overtaken = core::iter::from_fn(|| recovery.next_overtaken());
    assert!(overtaken.map(|loss| loss.packet.sent_at).eq([100, 200, 300, 400].map(at)));
    assert_eq!(recovery.oldest(), Some((probed, at(8000))));
}

/// The acknowledgement of `psn` alone, which left at `us`.
fn ack_of(psn: Psn, us: u64) -> Ack {
    Ack {
        src_flow: crate::units::FlowId::UNKNOWN,
        psn,
        cumulative: Psn(0),
        sack: 1 << (psn.0 & 63),
        echo_sent_at: packet(us).sent_at.to_wire(),
        held: 0,
        sharers: 1,
        ce: false,
        receipt: crate::wire::Receipt::First,
    }
}

#[test]
fn a_probe_whose_segment_arrives_before_it_leaves_is_no_reason_to_probe_no_more() {
    let (mut recovery, loss) = probing();
    let due = recovery.next_probe(at(500), Duration::ZERO).unwrap();
    assert_eq!(recovery.on_timer(due, &loss, None), Timeout::NotDue);
    let (psn, _) = recovery.next_lost().unwrap();
    assert_eq!(recovery.next_probe(due, Duration::ZERO), None, "it waits to leave");
    let news = Some((at(500), RTT));
    assert!(!recovery.on_news(&ack_of(psn, 500), news, |_| {}), "no loss was declared");
    assert!(recovery.next_lost().is_none());
    let next = recovery.next_probe(at(5000), Duration::ZERO).unwrap();
    assert!(next >= at(5000) + RTT * 2, "{next:?}");
}

#[test]
fn a_segment_that_arrives_after_its_probe_left_was_not_declared_lost() {
    let (mut recovery, loss) = probing();
    let due = recovery.next_probe(at(500), Duration::ZERO).unwrap();
    recovery.on_timer(due, &loss, None);
    let (psn, _) = recovery.next_lost().unwrap();
    let again = SentPacket { marks: Marks::default().again(), ..packet(8000) };
    assert!(recovery.on_resent(psn, again), "a probe leaves");
    assert!(!recovery.on_news(&ack_of(psn, 500), Some((at(500), RTT)), |_| {}));
    // A segment that was declared lost, and arrives, was not lost.
    recovery.mark_lost(Psn(0));
    assert!(!recovery.on_resent(Psn(0), SentPacket { sent_at: at(9000), ..again }));
    assert!(recovery.on_news(&ack_of(Psn(0), 0), Some((at(500), RTT)), |_| {}));
}

#[test]
fn silences_last_as_long_as_the_last_round_trip_and_differ_among_flows() {
    let (mut recovery, _) = probing();
    let mut gap = |took: Duration| {
        recovery.probe_at = None;
        let due = recovery.next_probe(Instant::ZERO, took).unwrap();
        due.since(Instant::ZERO).as_ps() as f64 / RTT.as_ps() as f64
    };
    let gaps = [RTT, RTT * 3, Duration::ZERO].map(&mut gap);
    for (gap, least) in gaps.into_iter().zip([2.0, 3.0, 3.0]) {
        assert!((least..least * 1.063).contains(&gap), "{gaps:?}");
    }
    let gaps = (0..64).map(|flow| {
        let (mut recovery, _) = burst();
        recovery.salt = flow;
        let path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
        let config = crate::config::Config::new(crate::config::Settings::default()).unwrap();
        let mut recovery = recovery.with_probes(&config, &path, crate::units::Key(0));
        recovery.next_probe(Instant::ZERO, Duration::ZERO).unwrap()
    });
    assert!(gaps.collect::<alloc::collections::BTreeSet<_>>().len() > 32);
}

#[test]
fn a_report_may_name_the_parity_of_the_last_block_and_nothing_behind_it() {
    let (recovery, _) = burst();
    let next = recovery.sent.next();
    let report = |psn: Psn| Report { first: psn, arrived: [1, 0, 0, 0, 0, 0, 0, 0] };
    assert!(
        recovery.is_plausible_report(&report(next.plus(u32::MAX)), 0),
        "the last that was sent"
    );
    assert!(!recovery.is_plausible_report(&report(next), 0));
    assert!(recovery.is_plausible_report(&report(next.plus(1)), 2));
    assert!(!recovery.is_plausible_report(&report(next.plus(2)), 2));
}

#[test]
fn attempts_to_reach_a_silent_peer_are_spread_where_a_flow_survives_seconds() {
    let (mut recovery, mut loss) = burst();
    let waits = |recovery: &Recovery, loss: &LossSettings| {
        let wait = |us| recovery.patience(at(us), loss);
        (3000..3064).map(wait).collect::<alloc::collections::BTreeSet<_>>()
    };
    (recovery.timeouts, recovery.counted_at) = (1, at(2250));
    assert_eq!(waits(&recovery, &loss), [RTO * 2].into());
    loss.give_up = Duration::from_s(90);
    let spread = waits(&recovery, &loss);
    let (shortest, longest) = (*spread.first().unwrap(), *spread.last().unwrap());
    assert!(spread.len() > 32 && longest <= RTO * 2 && shortest > RTO * 2 * 3 / 4, "{spread:?}");
    // Flows of a host that sent at one instant.
    let flows = (0..64).map(|salt| {
        recovery.salt = salt;
        recovery.patience(at(3000), &loss)
    });
    assert!(flows.collect::<alloc::collections::BTreeSet<_>>().len() > 32);
    // A timer that is short after many timeouts stays as it is.
    loss.backoff_max = 0;
    assert_eq!(waits(&recovery, &loss), [RTO].into());
    // No attempt comes sooner than the first timeout, or than round trips are long.
    recovery.rto = RTO * 80;
    for slow in [Duration::ZERO, RTO * 320] {
        recovery.slow = slow;
        let spread = waits(&recovery, &loss);
        let (shortest, longest) = (*spread.first().unwrap(), *spread.last().unwrap());
        let least = recovery.rto.max(slow);
        assert!(spread.len() > 32 && shortest >= least && longest < least * 5 / 4, "{spread:?}");
    }
    (recovery.timeouts, recovery.slow) = (0, Duration::ZERO);
    assert_eq!(waits(&recovery, &loss), [RTO * 80].into(), "the first attempt is not moved");
}

#[test]
fn openings_are_10_ms_apart_for_250_attempts_and_alone_once_timeouts_would_be_longer() {
    let (mut recovery, mut loss) = burst();
    loss.give_up = Duration::from_s(90);
    (recovery.timeouts, recovery.counted_at) = (5, at(2250));
    for (silent, soon) in [(OPENINGS - 1, true), (OPENINGS, false)] {
        recovery.silent = silent;
        assert_eq!(recovery.patience(at(3000), &loss) <= OPEN_WITHIN, soon, "{silent}");
    }
    recovery.timeouts = OPENING_WINDOWS;
    for (rto, alone) in [(OPEN_WITHIN / 8, false), (OPEN_WITHIN / 8 + Duration::from_ps(1), true)] {
        recovery.rto = rto;
        assert_eq!(recovery.opens_alone(&loss), alone, "{rto}");
    }
}
