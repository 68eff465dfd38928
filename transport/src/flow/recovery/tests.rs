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
    let ack = |psn: u32, sack| Ack {
        src_flow: crate::units::FlowId::UNKNOWN,
        psn: Psn(psn),
        cumulative: Psn(0),
        sack,
        echo_sent_at: packet(u64::from(psn) * 100).sent_at.to_wire(),
        held: 0,
        sharers: 1,
        ce: false,
        receipt: crate::wire::Receipt::First,
    };
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
