//! Workers on an in-memory link. Whole messages come through loss, delay and reordering;
//! back-pressure loses nothing; memory is bounded; recordings replay; messages are erasure-coded;
//! peers lie, forget and receive old packets again; nothing is allocated while a message runs.
#![allow(clippy::unwrap_used, reason = "a test")]

mod coded;
mod forgetful;
mod hostile;
mod observing;
mod on_path;
mod recording;
mod rig;
mod sealed;

use std::num::NonZeroU32;

use proptest::prelude::*;
use rig::{Rig, Sizes, Weather, config, message};
use transport::sched::Label;
use transport::{DropReason, Duration, HostId};
use transport_dpdk::{Completion, Failure, MessageBytes, Request};

const SECOND: Duration = Duration::from_s(1);

/// Opens two connections each way and sends `sizes` over them in turn; all must arrive.
fn exchange(shape: &Sizes, seed: u64, weather: Weather, sizes: &[u32], listen: usize) -> Rig {
    let mut rig = Rig::new(shape, seed, weather);
    for host in 0..2 {
        (0..2).for_each(|connection| rig.open(host, connection, shape));
    }
    let mut posted = [Vec::new(), Vec::new()];
    for (tag, &size) in (1..).zip(sizes) {
        let from = usize::from(tag % 2 == 0) ^ usize::from(tag % 3 == 0);
        rig.send(from, u32::from(tag % 5 == 0), size, tag);
        posted[from].push(tag);
    }
    rig.run(SECOND * 20, listen, |rig| {
        (0..2).all(|host| {
            let delivered = |c: &&Completion| matches!(c, Completion::Delivered { .. });
            let delivered = rig.hosts[1 - host].completions.iter().filter(delivered).count();
            rig.sent(host).len() == posted[host].len() && delivered == posted[host].len()
        })
    });
    for (host, posted) in posted.iter().enumerate() {
        let (mut sent, mut delivered) = (rig.sent(host), rig.check_delivered(1 - host));
        sent.sort_unstable();
        delivered.sort_unstable();
        assert_eq!((&sent, &delivered), (posted, posted));
    }
    rig
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_message_arrives_once_and_intact_in_any_weather(
        seed in any::<u64>(),
        sizes in prop::collection::vec(1u32..60_000, 1..14),
        loss in 0.0..0.1f64, duplicate in 0.0..0.1f64, reorder in 0.0..0.3f64,
        corrupt in 0.0..0.1f64,
    ) {
        let weather = Weather { loss, duplicate, reorder, corrupt, ..Weather::default() };
        let rig = exchange(&Sizes::ample(), seed, weather, &sizes, 64);
        for host in &rig.hosts {
            let counts = host.worker.counts();
            let seen = counts.parsed + counts.malformed + counts.foreign + counts.refused;
            prop_assert_eq!(counts.received, seen);
            prop_assert_eq!(counts.filled, counts.handed_over);
            prop_assert_eq!((counts.foreign, counts.refused, counts.unsendable), (0, 0, 0));
        }
    }
}

#[test]
fn every_damaged_frame_is_dropped_and_most_by_the_name_of_corrupt() {
    let weather = Weather { corrupt: 0.2, ..Weather::default() };
    let mut rig = exchange(&Sizes::ample(), 3, weather, &[400_000, 300_000], 64);
    // Receives the packets that are still under way.
    (0..200).for_each(|_| rig.step(64));
    for host in &rig.hosts {
        assert!(host.damaged > 10);
        assert_eq!(host.worker.counts().malformed, host.damaged);
        // Lengths, ports and protocol are looked at before the checksums: some ten of the 64 octets
        // of an acknowledgement, and a few in a thousand of a segment, go by other names.
        assert!(host.worker.stats().drops.of(DropReason::Corrupt) * 2 > host.damaged);
    }
}

#[test]
fn tiny_rings_and_a_slow_application_lose_nothing() {
    let shape = Sizes { requests: 1, completions: 1, ..Sizes::ample() };
    let sizes: Vec<u32> = (1..60).map(|i| 1 + i * 137 % 9000).collect();
    exchange(&shape, 5, Weather { loss: 0.02, ..Weather::default() }, &sizes, 1);
}

#[test]
fn without_memory_a_message_is_refused_before_it_is_acknowledged_and_arrives_later() {
    let shape = Sizes { memory: 100_000, ..Sizes::ample() };
    let mut rig = Rig::new(&shape, 7, Weather::default());
    rig.open(0, 0, &shape);
    (1..=6).for_each(|tag| rig.send(0, 0, 60_000, tag));
    for _ in 0..2000 {
        rig.step(64);
        assert!(rig.hosts[1].worker.store().held_bytes() <= 100_000);
    }
    assert_eq!(rig.check_delivered(1).len(), 1, "the second waits for the first one's memory");
    let refused = rig.hosts[1].worker.counts().refused;
    assert!(refused > 0);
    assert_eq!(rig.hosts[1].worker.stats().drops.of(DropReason::NoBuffer), refused);
    let mut delivered = Vec::new();
    while delivered.len() < 6 {
        rig.run(SECOND, 64, |rig| !rig.hosts[1].completions.is_empty());
        delivered.extend(rig.check_delivered(1));
        // The application is done with them.
        rig.hosts[1].completions.clear();
    }
    rig.run(SECOND, 64, |rig| rig.sent(0).len() == 6);
    delivered.sort_unstable();
    assert_eq!(delivered, [1, 2, 3, 4, 5, 6]);
    assert_eq!(rig.hosts[1].worker.store().held_messages(), 0);
}

#[test]
fn a_full_table_keeps_messages_waiting_in_order() {
    let shape = Sizes { config: config(|s| s.msgs_max = 2), ..Sizes::ample() };
    let mut rig = Rig::new(&shape, 9, Weather::default());
    for round in 0..3u32 {
        rig.open(0, round, &shape);
        (1..=5).for_each(|i| rig.send(0, round, 9000, u64::from(round) * 5 + i));
        rig.hosts[0].wanted.push_back(Request::Close { connection: round });
    }
    rig.run(SECOND * 20, 64, |rig| rig.sent(0).len() == 15);
    assert_eq!(rig.sent(0), (1..=15).collect::<Vec<_>>());
    assert_eq!(rig.check_delivered(1), (1..=15).collect::<Vec<_>>());
    let closed = |completion: &&Completion| matches!(completion, Completion::Closed { .. });
    assert_eq!(rig.hosts[0].completions.iter().filter(closed).count(), 3);
    assert_eq!(rig.hosts[0].completions.len(), 18);
}

#[test]
fn a_connection_without_a_place_for_its_flow_is_refused_and_requests_behind_it_go_on() {
    let shape = Sizes {
        config: config(|s| (s.tx_flows_max, s.loss.retries_max) = (2, 3)),
        ..Sizes::ample()
    };
    let mut rig = Rig::new(&shape, 9, Weather::default());
    (0..2).for_each(|connection| rig.open(0, connection, &shape));
    rig.send(0, 1, 9000, 1);
    rig.hosts[0].wanted.push_back(Request::Close { connection: 1 });
    rig.run(SECOND, 64, |rig| rig.sent(0) == [1]);
    // The receiver keeps the flow of the closed connection, so its place is taken.
    rig.open(0, 2, &shape);
    rig.send(0, 2, 9000, 2);
    rig.send(0, 0, 9000, 3);
    rig.run(SECOND, 64, |rig| rig.sent(0) == [1, 3]);
    let failures = rig.hosts[0].completions.iter().filter_map(|completion| match completion {
        Completion::Refused { connection: 2, reason, .. } => Some((0, *reason)),
        Completion::Failed { connection: 2, cookie, reason, .. } => Some((*cookie, *reason)),
        _ => None,
    });
    let expected = [(0, Failure::FlowTableFull), (2, Failure::NoSuchConnection)];
    assert_eq!(failures.collect::<Vec<_>>(), expected);
    // Once the receiver has forgotten that flow there is a place.
    let is_over = |rig: &Rig, tag| {
        let mut all = rig.hosts[0].completions.iter();
        let failed = |cookie: &u64| *cookie == tag;
        rig.sent(0).contains(&tag)
            || all.any(|c| matches!(c, Completion::Failed { cookie, .. } if failed(cookie)))
    };
    for tag in 4..1000 {
        rig.open(0, 2, &shape);
        rig.send(0, 2, 9000, tag);
        rig.run(SECOND, 64, |rig| is_over(rig, tag));
        if rig.sent(0).contains(&tag) {
            break;
        }
        (0..2000).for_each(|_| rig.step(64));
    }
    assert_eq!(rig.sent(0).len(), 3, "no place in a second");
}

#[test]
fn what_cannot_be_done_is_said_with_the_reason() {
    let shape = Sizes::ample();
    let path = shape.config.default_path();
    let mut rig = Rig::new(&shape, 1, Weather::default());
    let open = |connection, peer| Request::Open {
        connection,
        peer: HostId(peer),
        path,
        label: Label::NONE,
    };
    let short = Request::Send {
        connection: 0,
        source: MessageBytes::Owned((*b"ab").into()),
        len: NonZeroU32::new(3).unwrap(),
        tag: 0,
        cookie: 4,
    };
    let requests = [
        open(0, 1),
        open(0, 1),
        open(99, 1),
        open(1, 0),
        open(1, u32::MAX),
        Request::Close { connection: 5 },
        short,
        message(7, 10, 4),
    ];
    rig.hosts[0].wanted.extend(requests);
    (0..20).for_each(|_| rig.step(64));
    let reasons: Vec<Failure> = rig.hosts[0]
        .completions
        .iter()
        .map(|completion| match completion {
            Completion::Refused { reason, .. } => *reason,
            Completion::Failed { reason, cookie: 4, .. } => *reason,
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        Failure::ConnectionTaken,
        Failure::ConnectionTaken,
        Failure::SelfSend,
        Failure::NoSuchHost,
        Failure::NoSuchConnection,
        Failure::ShortSource,
        Failure::NoSuchConnection,
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn a_silent_peer_fails_the_message_and_an_idle_worker_of_a_gone_application_says_so() {
    let shape = Sizes { config: config(|s| s.loss.retries_max = 2), ..Sizes::ample() };
    let mut rig = Rig::new(&shape, 1, Weather { loss: 1.0, ..Weather::default() });
    rig.open(0, 0, &shape);
    rig.send(0, 0, 10_000, 6);
    rig.run(SECOND, 64, |rig| !rig.hosts[0].completions.is_empty());
    let completion = &rig.hosts[0].completions[0];
    let reason = Failure::PeerSilent;
    assert!(matches!(completion, Completion::Failed { cookie: 6, reason: r, .. } if *r == reason));
    assert!(!rig.hosts[0].worker.is_abandoned());
    let Rig { hosts: [host, _], .. } = rig;
    drop(host.app);
    assert!(host.worker.is_abandoned());
}

#[test]
fn frames_that_the_device_refuses_are_kept_and_given_up_after_a_time() {
    let shape = Sizes::ample();
    let mut rig = Rig::new(&shape, 1, Weather::default());
    rig.open(0, 0, &shape);
    rig.send(0, 0, 500_000, 1);
    rig.hosts[0].worker.io().jammed = true;
    (0..100).for_each(|_| rig.step(64));
    assert_eq!(rig.hosts[0].worker.counts().stuck, 0);
    (0..120).for_each(|_| rig.step(64));
    let counts = *rig.hosts[0].worker.counts();
    assert!(counts.stuck > 0 && counts.handed_over == 0);
    assert_eq!(rig.hosts[0].worker.stats().drops.of(DropReason::DeviceStuck), counts.stuck);
    rig.hosts[0].worker.io().jammed = false;
    rig.run(SECOND, 64, |rig| rig.sent(0) == [1]);
    assert_eq!(rig.check_delivered(1), [1]);
}

#[test]
fn a_worker_that_ends_right_after_it_has_delivered_still_acknowledges() {
    let shape = Sizes::ample();
    let mut rig = Rig::new(&shape, 1, Weather::default());
    rig.open(0, 0, &shape);
    rig.send(0, 0, 1000, 1);
    rig.run(SECOND, 64, |rig| !rig.hosts[1].completions.is_empty());
    assert_eq!(rig.check_delivered(1), [1]);
    let Rig { hosts: [mut sender, receiver], clock, .. } = rig;
    let frames = receiver.worker.into_io().outbox;
    assert_eq!(frames.len(), 1, "the acknowledgement");
    let arrived = frames.into_iter().map(|frame| (clock.get(), frame));
    sender.worker.io().inbox.extend(arrived);
    sender.worker.poll_once();
    assert!(matches!(sender.app.poll(), Some(Completion::Sent { cookie: 1, .. })));
}

#[test]
fn a_frame_for_another_host_is_counted_and_ignored() {
    let shape = Sizes::ample();
    let mut rig = Rig::new(&shape, 1, Weather::default());
    let path = shape.config.default_path();
    rig.hosts[0].wanted.push_back(Request::Open {
        connection: 0,
        peer: HostId(2),
        path,
        label: Label::NONE,
    });
    rig.send(0, 0, 1000, 1);
    (0..40).for_each(|_| rig.step(64));
    assert_eq!(rig.hosts[1].worker.counts().foreign, 1);
    assert_eq!(rig.hosts[1].worker.stats().drops.of(DropReason::WrongHost), 1);
    assert!(rig.hosts[1].completions.is_empty());
}

#[test]
fn a_turn_allocates_nothing_while_messages_run() {
    let shape = Sizes::ample();
    let mut rig = Rig::new(&shape, 1, Weather { loss: 0.01, ..Weather::default() });
    (0..2).for_each(|host| rig.open(host, 0, &shape));
    (0..2).for_each(|host| rig.send(host, 0, 30_000_000, 1));
    (0..400).for_each(|_| rig.step(64));
    let before = rig.hosts[0].worker.stats().data_placed;
    let allocated = rig.allocated_in_turns(1500);
    assert!(rig.hosts[0].worker.stats().data_placed > before + 1000);
    assert!(rig.hosts[0].worker.stats().retransmitted > 0);
    assert_eq!(allocated, 0);
}
