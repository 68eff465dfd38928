//! Erasure-coded messages between two workers: real parity in any weather, bounded memory for it,
//! recordings that replay, and no allocation.

use std::num::{NonZeroU8, NonZeroU32};

use proptest::prelude::*;
use transport::ec::{BlockShape, EcKind, EcParams};
use transport::units::Key;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, Ecn, FrameSpec, TrafficClass, UdpCheck};
use transport::wire::{Body, Coded, Data, Ext, Header, Open};
use transport::{DropReason, Duration, EntropyValue, FlowId, HostId, MsgNo, Psn, Settings};

use crate::exchange;
use crate::recording::{check_replay, record};
use crate::rig::{Rig, Sizes, Weather, config};

/// Everything is coded, and asked for after `patience` microseconds.
pub(crate) fn coded(shape: (u8, u8), payload_max: u16, patience: u64) -> Sizes {
    coded_and((shape, payload_max, patience), |_| ())
}

fn coded_and(
    (shape, payload_max, patience): ((u8, u8), u16, u64),
    change: impl FnOnce(&mut Settings),
) -> Sizes {
    let config = config(|settings| {
        settings.ec = EcKind::Mds;
        settings.ec_shape = BlockShape::new(shape.0, shape.1).unwrap();
        let block_timeout = Some(Duration::from_us(patience));
        settings.ec_params =
            EcParams { base_rtt_min: Duration::ZERO, block_timeout, ..EcParams::default() };
        settings.payload_max = payload_max;
        change(settings);
    });
    Sizes { config, ..Sizes::ample() }
}

/// Counts at both hosts together: restored, retransmitted, parity recomputed, parity refused.
fn totals(rig: &Rig) -> [u64; 4] {
    let of = |host: &crate::rig::Host| {
        let (stats, counts) = (host.worker.stats(), host.worker.counts());
        let (recomputed, refused) = (counts.parity_recomputed, counts.parity_refused);
        [stats.restored, stats.retransmitted, recomputed, refused]
    };
    let [a, b] = [of(&rig.hosts[0]), of(&rig.hosts[1])];
    std::array::from_fn(|i| a[i] + b[i])
}

/// Checks that no parity is kept once all messages are over.
fn check_books(rig: &mut Rig, room: usize) {
    for host in &rig.hosts {
        let counts = host.worker.counts();
        let seen = counts.parsed + counts.malformed + counts.foreign + counts.refused;
        assert_eq!(counts.received, seen);
        assert_eq!((counts.filled, counts.unsendable), (counts.handed_over, 0));
        let store = host.worker.store();
        assert_eq!(transport_dpdk::IncomingBytes::parity_room(store), room);
    }
}

fn room(sizes: &Sizes) -> usize {
    let rig = Rig::new(sizes, 1, Weather::default());
    transport_dpdk::IncomingBytes::parity_room(rig.hosts[0].worker.store())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn every_coded_message_arrives_once_and_intact_in_any_weather(
        seed in any::<u64>(),
        shape in prop_oneof![
            Just((8u8, 2u8)), Just((1, 1)), Just((3, 2)), Just((20, 4)), Just((48, 16)),
        ],
        payload_max in prop_oneof![Just(4096u16), Just(1024), Just(333)],
        sizes in prop::collection::vec(1u32..60_000, 1..14),
        loss in 0.0..0.15f64, duplicate in 0.0..0.1f64, reorder in 0.0..0.3f64,
        corrupt in 0.0..0.1f64, patience in prop_oneof![Just(5u64), Just(50), Just(640)],
        parity in prop_oneof![Just(0u64), Just(20_000), Just(1 << 24)],
    ) {
        let sizes_of = Sizes { parity, ..coded(shape, payload_max, patience) };
        let weather = Weather { loss, duplicate, reorder, corrupt, ..Weather::default() };
        let mut rig = exchange(&sizes_of, seed, weather, &sizes, 64);
        check_books(&mut rig, room(&sizes_of));
    }
}

#[test]
fn as_many_losses_a_block_as_it_has_parity_cost_no_retransmission() {
    let sizes = coded((8, 2), 4096, 640);
    let weather = Weather { loss: 0.01, ..Weather::default() };
    let mut rig = exchange(&sizes, 4, weather, &[4_000_000, 4_000_000], 64);
    let [restored, retransmitted, recomputed, refused] = totals(&rig);
    // One in a hundred of 1954 segments; three of a block's ten hardly ever.
    assert!((8..40).contains(&restored), "{restored}");
    assert!(retransmitted < 4 && refused == 0, "{retransmitted} {refused}");
    assert_eq!(recomputed, 0, "all parity was accumulated");
    check_books(&mut rig, room(&sizes));
}

#[test]
fn parity_that_is_not_there_costs_retransmissions_and_nothing_else() {
    let weather = Weather { loss: 0.1, reorder: 0.3, ..Weather::default() };
    let ample = coded((8, 4), 1024, 50);
    let tiny = Sizes { parity: 0, ..ample.clone() };
    let sent_again = [ample, tiny].map(|sizes| {
        let mut rig = exchange(&sizes, 6, weather, &[2_000_000, 2_000_000], 64);
        check_books(&mut rig, room(&sizes));
        let [_, retransmitted, _, refused] = totals(&rig);
        let drops = |host: &crate::rig::Host| host.worker.stats().drops.of(DropReason::NoBuffer);
        assert_eq!(rig.hosts.iter().map(drops).sum::<u64>(), refused);
        assert_eq!(refused > 0, sizes.parity == 0, "{refused}");
        retransmitted
    });
    assert!(sent_again[1] > sent_again[0], "{sent_again:?}");
}

#[test]
fn parity_may_bring_a_message_into_memory_that_holds_no_more() {
    // Three segments and two of parity, one of which often comes first and restores nothing yet.
    let sizes = Sizes { memory: 9000, ..coded((8, 2), 4096, 640) };
    let weather = Weather { loss: 0.2, reorder: 0.5, ..Weather::default() };
    let mut restored = 0;
    for seed in 0..40 {
        let mut rig = Rig::new(&sizes, seed, weather);
        rig.open(0, 0, &sizes);
        rig.send(0, 0, 9000, 2);
        rig.run(Duration::from_s(1), 64, |rig| !rig.sent(0).is_empty());
        assert_eq!(rig.check_delivered(1), [2]);
        assert_eq!(rig.hosts[1].worker.counts().refused, 0, "memory is asked for once");
        restored += totals(&rig)[0];
    }
    assert!(restored > 5, "{restored}");
}

#[test]
fn more_messages_than_places_to_accumulate_parity_are_sent_right() {
    let shape = coded((8, 2), 1024, 640);
    let one = config(|settings| {
        *settings = (*shape.config).clone();
        settings.tx_flows_max = 4;
    });
    let sizes = Sizes { config: one, ..shape };
    let mut rig = Rig::new(&sizes, 5, Weather { loss: 0.02, ..Weather::default() });
    (0..4).for_each(|connection| rig.open(0, connection, &sizes));
    for tag in 1..=12 {
        rig.send(0, u32::try_from(tag % 4).unwrap(), 100_000, tag);
    }
    rig.run(Duration::from_s(1), 64, |rig| rig.sent(0).len() == 12);
    let mut delivered = rig.check_delivered(1);
    delivered.sort_unstable();
    assert_eq!(delivered, (1..=12).collect::<Vec<u64>>());
}

#[test]
fn a_recording_of_coded_messages_replays_with_every_decision_the_same() {
    let sizes = Sizes { parity: 50_000, ..coded((4, 2), 1024, 50) };
    let weather =
        Weather { loss: 0.08, duplicate: 0.05, reorder: 0.2, corrupt: 0.02, ..Weather::default() };
    for seed in 1..6 {
        let mut rig = record(&sizes, seed, weather);
        assert!(totals(&rig)[0] > 0);
        check_replay(&mut rig, |stats| [stats.restored, stats.parity_kept]);
    }
}

#[test]
fn a_turn_with_coded_messages_allocates_nothing() {
    let sizes = coded((8, 2), 4096, 50);
    let weather = Weather { loss: 0.02, reorder: 0.05, ..Weather::default() };
    let mut rig = Rig::new(&sizes, 1, weather);
    (0..2).for_each(|host| rig.open(host, 0, &sizes));
    (0..2).for_each(|host| rig.send(host, 0, 30_000_000, 1));
    (0..400).for_each(|_| rig.step(64));
    let before = totals(&rig)[0];
    let allocated = rig.allocated_in_turns(1500);
    assert!(totals(&rig)[0] > before + 10);
    assert_eq!(allocated, 0);
}

/// A packet of a block of a message of ten segments, sent by host 0 under this PSN.
fn forged(psn: u32, offset: u32, packet: u8) -> Vec<u8> {
    named((FlowId::UNKNOWN, Key::NONE), psn, offset, packet)
}

/// As [`forged`], under a name of its flow at the receiver and a key.
fn named(name: (FlowId, Key), psn: u32, offset: u32, packet: u8) -> Vec<u8> {
    framed(name, data(psn, offset, packet))
}

fn data(psn: u32, offset: u32, packet: u8) -> Data {
    Data {
        psn: Psn(psn),
        msg: MsgNo(0),
        offset,
        sent_at: 0,
        retransmission: false,
        open: Some(Open { src_flow: FlowId::new(1, 1), msg_len: NonZeroU32::new(640).unwrap() }),
        tag: 0,
        demand: None,
        code: Coded::new(NonZeroU8::MIN, 8, 2, packet),
    }
}

fn framed((dst_flow, key): (FlowId, Key), data: Data) -> Vec<u8> {
    let header = Header::new(EntropyValue(7), dst_flow, Body::Data(data)).keyed(key);
    let addrs = Addressing::emulated(IpVersion::V4).pair(HostId(0), HostId(1)).unwrap();
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Data };
    let mut head = [0; 128];
    let payload = [0x5A; 64];
    let len = frame::emit(&spec, &header, &Ext::VACANT, 64, &mut head);
    let mut sum = Checksum::new();
    sum.add(&payload);
    frame::finish_udp_checksum(&mut head[..len], sum);
    [&head[..len], &payload].concat()
}

/// The last block, of two segments from octet 512 on, is sent under PSNs from 100 and from 200 on.
#[test]
fn a_sender_that_contradicts_itself_neither_stops_a_worker_nor_keeps_its_memory() {
    let sizes = coded((8, 2), 64, 640);
    let mut rig = Rig::new(&sizes, 1, Weather::default());
    let room = room(&sizes);
    let mut take = |frames: &[Vec<u8>]| {
        let now = rig.clock.get();
        let worker = &mut rig.hosts[1].worker;
        worker.io().inbox.extend(frames.iter().map(|frame| (now, frame.clone())));
        rig.step(64);
        let worker = &rig.hosts[1].worker;
        let kept = room - transport_dpdk::IncomingBytes::parity_room(worker.store());
        (kept, worker.counts().unrestored, worker.stats().messages_delivered)
    };
    // The block's parity comes under both names, and then each block is enough with one segment.
    assert_eq!(take(&[forged(102, 512, 8), forged(202, 512, 8)]), (1, 0, 0));
    assert_eq!(take(&[forged(200, 512, 0)]), (0, 0, 0));
    assert_eq!(take(&[forged(100, 512, 0)]), (0, 1, 0));
    // Parity of a third name is still kept when the message is whole by the others.
    assert_eq!(take(&[forged(302, 512, 8)]), (1, 1, 0));
    let first: Vec<_> = (0..8).map(|i| forged(400 + u32::from(i), u32::from(i) * 64, i)).collect();
    assert_eq!(take(&first), (0, 1, 1));
}

#[test]
fn parity_of_flows_that_are_not_here_takes_no_room_from_that_of_a_flow_that_is() {
    let sizes = Sizes { parity: 200, ..coded((8, 2), 64, 640) };
    let room = room(&sizes);
    assert!((1..8).contains(&room), "{room}");
    let mut rig = Rig::new(&sizes, 1, Weather::default());
    let mut take = |frames: Vec<Vec<u8>>| {
        let now = rig.clock.get();
        rig.hosts[1].worker.io().inbox.extend(frames.into_iter().map(|frame| (now, frame)));
        rig.step(64);
        let worker = &rig.hosts[1].worker;
        let kept = room - transport_dpdk::IncomingBytes::parity_room(worker.store());
        (kept, worker.counts().parity_refused, worker.stats().drops.of(DropReason::UnknownFlow))
    };
    assert_eq!(take(vec![forged(100, 0, 0)]), (0, 0, 0), "the flow is here");
    let strangers = (0..12).map(|psn| named((FlowId::new(psn, 77), Key::NONE), psn, 0, 8));
    // Segments that name no flow and open none.
    let nameless = |psn| Data { open: None, ..data(psn, 0, 8) };
    let nameless = (0..12).map(|psn| framed((FlowId::UNKNOWN, Key::NONE), nameless(psn)));
    assert_eq!(take(strangers.chain(nameless).chain([forged(108, 0, 8)]).collect()), (1, 0, 24));
}

#[test]
fn parity_of_flows_without_proof_takes_no_room_from_that_of_a_flow_with_it() {
    let strict = coded_and(((8, 2), 64, 640), |s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let sizes = Sizes { parity: 200, ..strict };
    let mut rig = Rig::new(&sizes, 1, Weather::default());
    rig.open(0, 0, &sizes);
    rig.send(0, 0, 640, 1);
    (0..2000).for_each(|_| rig.step(64));
    rig.send(0, 0, 640, 2);
    let is_parity = |frame: &&[u8]| {
        let parsed = frame::parse(frame, &Addressing::emulated(IpVersion::V4), UdpCheck::Skip);
        let data = parsed.ok().and_then(|parsed| match parsed.header.body {
            Body::Data(data) => data.parity_index(),
            _ => None,
        });
        data.is_some()
    };
    let sent = loop {
        rig.step(64);
        if let Some(parity) = rig.on_the_way().find(is_parity) {
            break parity.to_vec();
        }
    };
    let keyed = |psn: u32| named((FlowId::UNKNOWN, Key(1 + u64::from(psn))), psn, 0, 8);
    let frames: Vec<_> = (0..20).map(keyed).chain([sent]).collect();
    let now = rig.clock.get();
    let worker = &mut rig.hosts[1].worker;
    let unproven = worker.stats().drops.of(DropReason::Unproven);
    let (refused, room) = (worker.counts().parity_refused, room(&sizes));
    worker.io().inbox.extend(frames.into_iter().map(|frame| (now, frame)));
    worker.poll_once();
    let drops = &worker.stats().drops;
    assert_eq!(drops.of(DropReason::Unproven), unproven + 20, "{drops:?}");
    assert_eq!(worker.counts().parity_refused, refused, "room for {room}");
}
