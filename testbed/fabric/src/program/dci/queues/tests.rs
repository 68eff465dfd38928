//! Tests of the paced queues: their pace, credits, ways and bounds.

use proptest::prelude::*;

use super::*;
use crate::packet::Flags;

const RTT: Duration = Duration::from_us(24);
const HASH: KeyHash = KeyHash::new([1, 2]);

fn limits() -> Limits {
    Limits {
        queues: 4,
        bytes: 1 << 20,
        idle: Duration::from_ms(12),
        span: RTT * 8,
        rtt: RTT,
        clock: 0.0,
        allowance_least: 3000,
        packet_max: 1000,
    }
}

fn packet(handle: u32, host: u32) -> Packet {
    let flags = Flags::NONE;
    Packet { handle, dst: HostId(host), hash: 0, len: 1000, trim_len: 64, flags }
}

fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// The packet that leaves `port` at `now`, if one may.
fn pop(queues: &mut Queues, port: usize, now: Instant) -> Option<Popped> {
    match queues.take_turn(port, now, |_| port)? {
        QueueTurn::Leaves(popped) => Some(popped),
        QueueTurn::Moves(to) => panic!("moves to port {to}"),
    }
}

/// Every departure of port 0 by `until` when the link is always free.
fn drain(queues: &mut Queues, until: Instant) -> Vec<(Instant, u32)> {
    std::iter::from_fn(|| {
        let at = queues.ready_at(0);
        let popped = (at <= until).then(|| pop(queues, 0, at)).flatten()?;
        Some((at, popped.packet.handle))
    })
    .collect()
}

const GBPS: Rate = Rate::from_gbps(1);

#[test]
fn a_flow_leaves_at_its_rate_in_order_and_stops_no_other() {
    let mut queues = Queues::new(limits(), 1, HASH);
    let slow = Rate::from_bps(100_000_000);
    for handle in 0..3 {
        queues.push(Key(1), (packet(handle, 0), 0), |_| slow, us(0)).unwrap();
        queues.push(Key(2), (packet(10 + handle, 0), 0), |_| GBPS, us(0)).unwrap();
    }
    let left = drain(&mut queues, us(200));
    let expected =
        [(0, 0), (0, 10), (8, 11), (16, 12), (80, 1), (160, 2)].map(|(at, h)| (us(at), h));
    assert_eq!(left, expected);
}

/// Each slow rate has the queue wait for 8 s, and the fast one that follows for 1 us. Another queue
/// waits for 1 s.
#[test]
fn rates_that_come_and_go_take_no_memory() {
    let mut queues = Queues::new(limits(), 1, HASH);
    let (slow, fast) = (Rate::from_bps(1000), Rate::from_gbps(8));
    for handle in 0..2 {
        queues.push(Key(2), (packet(handle, 1), 0), |_| Rate::from_bps(8000), us(0)).unwrap();
    }
    assert!(pop(&mut queues, 0, us(0)).is_some());
    for round in 0..2000_u16 {
        let now = us(2 * u64::from(round));
        for handle in 0..2 {
            queues.push(Key(1), (packet(handle, 0), 0), |_| slow, now).unwrap();
        }
        queues.advise(Key(1), 2 * round, slow, now);
        assert!(pop(&mut queues, 0, now).is_some());
        queues.advise(Key(1), 2 * round + 1, fast, now);
        assert!(pop(&mut queues, 0, now + Duration::from_us(1)).is_some());
        assert!(queues.waiting[0].order.len() <= 2 * OLD_MIN + 2, "{round}");
    }
    assert!(queues.waiting[0].old <= OLD_MIN);
}

#[test]
fn a_queue_that_the_link_kept_waiting_catches_up_by_one_packet() {
    let mut queues = Queues::new(limits(), 1, HASH);
    for handle in 0..4 {
        queues.push(Key(1), (packet(handle, 0), 0), |_| GBPS, us(0)).unwrap();
    }
    assert!(pop(&mut queues, 0, us(5)).is_some());
    assert_eq!(queues.ready_at(0), us(8));
    assert!(pop(&mut queues, 0, us(100)).is_some());
    assert_eq!(queues.ready_at(0), us(100), "one at once, no burst");
    assert!(pop(&mut queues, 0, us(100)).is_some());
    assert_eq!(queues.ready_at(0), us(108));
}

#[test]
fn a_higher_rate_ends_the_pace_of_a_lower_one() {
    let mut queues = Queues::new(limits(), 1, HASH);
    let trickle = Rate::from_bps(8000);
    for handle in 0..3 {
        queues.push(Key(1), (packet(handle, 0), 0), |_| trickle, us(0)).unwrap();
    }
    assert!(pop(&mut queues, 0, us(0)).is_some());
    assert_eq!(queues.ready_at(0), us(1_000_000), "a packet a second");
    assert_eq!(queues.advise(Key(1), 1, GBPS, us(100)), Some(0));
    assert_eq!(drain(&mut queues, us(200)), [(us(108), 1), (us(116), 2)]);
}

#[test]
fn credits_never_go_back_and_the_first_one_is_any() {
    let mut queues = Queues::new(limits(), 1, HASH);
    assert!(queues.advise(Key(1), 1, GBPS, us(0)).is_none(), "no queue");
    queues.push(Key(1), (packet(0, 0), 0), |_| GBPS, us(0)).unwrap();
    assert!(queues.advise(Key(1), 40_000, GBPS, us(1)).is_some());
    assert!(queues.advise(Key(1), 39_999, GBPS, us(1)).is_none());
    assert!(queues.advise(Key(1), 65_535, GBPS, us(1)).is_some());
    assert!(queues.advise(Key(1), 1, GBPS, us(1)).is_some(), "wraps");
    assert_eq!(pop(&mut queues, 0, us(1)).unwrap().credit, 1);
}

#[test]
fn a_clock_holds_what_no_credit_covers_and_lets_go_after_long_silence() {
    let clocked = Limits { clock: 2.0, ..limits() };
    let mut queues = Queues::new(clocked, 1, HASH);
    for handle in 0..20 {
        queues.push(Key(1), (packet(handle, 0), 0), |_| GBPS, us(0)).unwrap();
    }
    // Twice 1 Gb/s in 24 us: 6000 bytes.
    assert_eq!(drain(&mut queues, us(100)).len(), 6);
    assert!(queues.advise(Key(1), 1, GBPS, us(100)).is_some());
    let left = drain(&mut queues, us(200));
    assert_eq!((left.len(), left[0].0), (6, us(100)));
    assert!(
        queues.advise(Key(1), 1, GBPS, us(200)).is_some(),
        "the same credit again: the rate alone"
    );
    assert_eq!(drain(&mut queues, us(339)), []);
    assert_eq!(
        drain(&mut queues, us(500)),
        [12, 13, 14].map(|h| (us(340 + (u64::from(h) - 12) * 8), h))
    );
}

#[test]
fn a_queue_whose_loop_is_gone_empties_at_its_rate_until_a_credit_comes() {
    let clocked = Limits { clock: 2.0, ..limits() };
    let mut queues = Queues::new(clocked, 1, HASH);
    for handle in 0..50 {
        queues.push(Key(1), (packet(handle, 0), 0), |_| GBPS, us(0)).unwrap();
    }
    // Six packets at once and three after a silence of 240 us; the next one is the last.
    assert_eq!(drain(&mut queues, us(470)).len(), 9);
    let left = drain(&mut queues, us(600));
    let expected = (9..25).map(|h| (us(480 + (u64::from(h) - 9) * 8), h));
    assert_eq!(left, expected.collect::<Vec<_>>());
    // The rate was all: with a credit the clock is back.
    assert!(queues.advise(Key(1), 1, GBPS, us(601)).is_some());
    assert_eq!(drain(&mut queues, us(800)).len(), 6);
}

#[test]
fn a_pool_is_bounded_and_an_idle_queue_is_free_again() {
    let mut queues = Queues::new(limits(), 1, HASH);
    for key in 0..4 {
        queues.push(Key(key), (packet(0, 7), 0), |_| GBPS, us(0)).unwrap();
    }
    let refused = queues.push(Key(9), (packet(0, 7), 0), |_| GBPS, us(1));
    assert_eq!((refused, queues.flows_to(HostId(7), us(1))), (Err(PushError::Exhausted), 4));
    // Their queues are open for longer than they count.
    assert_eq!((queues.open(), queues.flows_to(HostId(7), us(400))), (4, 0));
    drain(&mut queues, us(50));
    assert!(queues.push(Key(9), (packet(0, 7), 0), |_| GBPS, us(12_000 - 1)).is_err());
    assert!(queues.push(Key(9), (packet(0, 7), 0), |_| GBPS, us(12_050)).is_ok());
    assert_eq!((queues.open(), queues.flows_to(HostId(7), us(12_050))), (1, 1));
    assert!(queues.of.contains_key(&9) && !queues.of.contains_key(&1));
    let full = Limits { bytes: 1500, ..limits() };
    let mut queues = Queues::new(full, 1, HASH);
    queues.push(Key(1), (packet(0, 7), 0), |_| GBPS, us(0)).unwrap();
    assert_eq!(queues.push(Key(1), (packet(1, 7), 0), |_| GBPS, us(0)), Err(PushError::Full));
}

#[test]
fn a_queue_whose_turn_it_is_moves_to_the_port_of_its_next_packet() {
    let mut queues = Queues::new(limits(), 3, HASH);
    for handle in 0..3 {
        queues.push(Key(1), (packet(handle, 0), 0), |_| GBPS, us(0)).unwrap();
    }
    queues.push(Key(2), (packet(9, 0), 2), |_| GBPS, us(0)).unwrap();
    assert!(pop(&mut queues, 0, us(0)).is_some(), "its way is as before");
    assert_eq!(queues.take_turn(0, us(7), |_| 1), None, "not its turn");
    let way = |packet: &Packet| packet.handle as usize;
    assert_eq!(queues.take_turn(0, us(8), way), Some(QueueTurn::Moves(1)));
    assert_eq!((queues.ready_at(0), queues.ready_at(1)), (Instant::FAR_FUTURE, us(8)));
    assert_eq!(pop(&mut queues, 0, us(8)), None);
    assert_eq!(pop(&mut queues, 1, us(8)).unwrap().packet.handle, 1);
    // The rate goes on there, and advice finds the queue there.
    assert_eq!(queues.advise(Key(1), 1, Rate::from_gbps(2), us(9)), Some(1));
    assert_eq!(queues.ready_at(1), us(13));
    assert_eq!(pop(&mut queues, 2, us(13)).unwrap().packet.handle, 9, "others stay");
    let left: Vec<_> = queues.clear().iter().map(|(port, one)| (*port, one.handle)).collect();
    assert_eq!(left, [(1, 2)]);
}

#[test]
fn a_packet_is_the_first_of_its_port_where_none_may_leave_before_it() {
    let mut queues = Queues::new(limits(), 2, HASH);
    let mut push = |key, port, at| {
        let pushed = queues.push(Key(key), (packet(0, 0), port), |_| GBPS, us(at));
        pushed.unwrap()
    };
    assert!(push(1, 0, 5), "an idle port");
    assert!(!push(1, 0, 5), "behind another of its flow");
    assert!(!push(2, 0, 5), "behind another flow's of this instant");
    assert!(push(3, 1, 5), "another port");
    assert!(pop(&mut queues, 0, us(5)).is_some() && pop(&mut queues, 0, us(5)).is_some());
    // The first flow's next packet has to wait until 13.
    let first = queues.push(Key(4), (packet(0, 0), 0), |_| GBPS, us(6));
    assert_eq!((first, queues.ready_at(0)), (Ok(true), us(6)));
}

proptest! {
    /// Whatever packets come, and whenever the queues are asked, the same packets leave at the
    /// same instants. Each flow's packets leave in order, and no flow sends more than its rate.
    #[test]
    fn late_polls_and_exact_events_agree(
        steps in prop::collection::vec((0u64..30, 0u64..3, 0u8..4, 1u64..20), 1..200),
        clock in prop_oneof![Just(0.0f32), Just(2.0f32)],
    ) {
        let run = |exact: bool| {
            let mut queues = Queues::new(Limits { clock, ..limits() }, 1, HASH);
            let (mut now, mut left) = (us(0), Vec::new());
            for (handle, (gap, key, step, rate)) in (0..).zip(&steps) {
                let before = now;
                now += Duration::from_us(*gap);
                if exact {
                    for at in 0..*gap {
                        left.extend(drain(&mut queues, before + Duration::from_us(at)));
                    }
                }
                left.extend(drain(&mut queues, now));
                let rate = Rate::from_gbps(*rate);
                if *step == 0 {
                    queues.advise(Key(*key), handle, rate, now);
                } else {
                    let named = u32::from(handle) * 4 + u32::try_from(*key).unwrap();
                    let packet = packet(named, 0);
                    queues.push(Key(*key), (packet, 0), |_| rate, now).unwrap();
                }
            }
            left.extend(drain(&mut queues, Instant::FAR_FUTURE));
            assert_eq!(queues.bytes, 0, "everything has left");
            left
        };
        let exact = run(true);
        prop_assert_eq!(&exact, &run(false));
        prop_assert!(exact.is_sorted_by_key(|(at, _)| *at));
        for key in 0..3 {
            let own = exact.iter().filter(|(_, handle)| handle % 4 == key);
            prop_assert!(own.is_sorted_by_key(|(_, handle)| *handle));
        }
    }
}
