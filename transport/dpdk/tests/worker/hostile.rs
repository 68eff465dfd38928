//! A peer that lies: the packets between two workers are changed in the middle, field by field,
//! with right checksums, so that packets contradict each other about flows that are really open.
//! Whatever they claim, nothing panics, every frame is counted, and memory stays within its bounds.

use std::num::{NonZeroU8, NonZeroU32};

use proptest::prelude::*;
use transport::ec::{BlockShape, EcKind, EcParams};
use transport::sched::SchedKind;
use transport::units::Key;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, FrameSpec, UdpCheck};
use transport::wire::{Ack, Body, Coded, Data, Ext, Header, Presence, Receipt};
use transport::{BURST, DropReason, Duration, FlowId, HostId, Instant, MsgNo, Psn, Rng, ShareMax};

use crate::rig::{Rig, Sizes, TestWorker, Weather, config};

const ADDRESSING: Addressing = Addressing::emulated(IpVersion::V4);

/// `sent` with a field or three changed to something that might have been meant.
pub(crate) fn lie(sent: &[u8], rng: &mut Rng) -> Vec<u8> {
    remade(sent, |header, payload| {
        for _ in 0..=rng.below(3) {
            lie_once(header, payload, rng);
        }
    })
}

/// `sent` with a lie or three and without the key of its flow, or with an octet changed where it is
/// sealed.
pub(crate) fn forge(sent: &[u8], rng: &mut Rng) -> Vec<u8> {
    if frame::parse(sent, &ADDRESSING, UdpCheck::Skip).is_err() {
        let mut frame = sent.to_vec();
        let at = usize::from(frame::ETHERNET_LEN);
        let at = at + usize::try_from(rng.below((sent.len() - at) as u64)).unwrap();
        frame[at] ^= 1 << rng.below(8);
        return frame;
    }
    let key = Key(rng.next_u64());
    let lied = lie(sent, rng);
    remade(&lied, |header, _| header.key = key)
}

/// `sent` with what `change` makes of it, and right checksums.
fn remade(sent: &[u8], change: impl FnOnce(&mut Header, &mut Vec<u8>)) -> Vec<u8> {
    let Ok(parsed) = frame::parse(sent, &ADDRESSING, UdpCheck::Skip) else { return sent.to_vec() };
    let mut header = parsed.header;
    let mut payload = sent[parsed.payload].to_vec();
    change(&mut header, &mut payload);
    let mut out = vec![0; 128 + payload.len()];
    let addrs = ADDRESSING.pair(parsed.src, parsed.dst).unwrap();
    let spec = FrameSpec { addrs, ecn: parsed.ecn, class: parsed.class };
    let len = u16::try_from(payload.len()).unwrap();
    let start = frame::emit(&spec, &header, &Ext::VACANT, len, &mut out);
    out.truncate(start + payload.len());
    out[start..].copy_from_slice(&payload);
    let mut sum = Checksum::new();
    sum.add(&payload);
    frame::finish_udp_checksum(&mut out[..start], sum);
    out
}

#[test]
fn a_message_of_two_lengths_in_one_burst_gets_no_memory_beyond_the_bound() {
    let shape = Sizes { memory: 100_000, ..Sizes::ample() };
    let mut rig = Rig::new(&shape, 1, Weather::default());
    rig.open(0, 0, &shape);
    rig.send(0, 0, 5000, 1);
    (0..4).for_each(|_| rig.step(0));
    let sent = rig.on_the_way().next().unwrap().to_vec();
    let says = |psn, len| {
        remade(&sent, |header, _| {
            let Body::Data(data) = &mut header.body else { panic!("{header:?}") };
            data.psn = psn;
            data.open.as_mut().unwrap().msg_len = NonZeroU32::new(len).unwrap();
        })
    };
    // The first has memory, and is beyond any window; the second has none.
    let frames = [says(Psn(1 << 20), 5000), says(Psn(0), 200_000)];
    let worker = &mut rig.hosts[1].worker;
    worker.io().inbox.extend(frames.map(|frame| (rig.clock.get(), frame)));
    worker.poll_once();
    assert_eq!((worker.counts().refused, worker.store().held_bytes()), (1, 0));
}

#[test]
fn the_payload_of_a_flow_that_is_not_here_is_not_summed_up() {
    let shape = Sizes::ample();
    let mut rig = Rig::new(&shape, 1, Weather::default());
    rig.open(0, 0, &shape);
    rig.send(0, 0, 5000, 1);
    (0..4).for_each(|_| rig.step(0));
    let sent = rig.on_the_way().next().unwrap().to_vec();
    let damaged = |named: FlowId| {
        let mut frame = remade(&sent, |header, _| header.dst_flow = named);
        *frame.last_mut().unwrap() ^= 1;
        frame
    };
    let frames = [damaged(FlowId::new(7, 3)), damaged(FlowId::UNKNOWN)];
    let worker = &mut rig.hosts[1].worker;
    worker.io().inbox.extend(frames.map(|frame| (rig.clock.get(), frame)));
    worker.poll_once();
    let drops = &worker.stats().drops;
    let counted = [DropReason::UnknownFlow, DropReason::Corrupt].map(|reason| drops.of(reason));
    // The second opens a flow, for which its payload counts.
    assert_eq!((counted, drops.total()), ([1, 1], 2));
}

/// More openings like `sent` than all shares have questions for at once.
fn use_up_questions(worker: &mut TestWorker, now: Instant, sent: &[u8]) {
    for key in 1..20_000 {
        worker.io().inbox.push_back((now, forged(sent, FlowId::UNKNOWN, key, 5000)));
        worker.poll_once();
    }
}

#[test]
fn openings_without_answer_are_neither_summed_up_nor_work() {
    let config = config(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let shape = Sizes { config, ..Sizes::ample() };
    let (mut rig, sent) = under_way(&shape, false);
    let now = rig.clock.get();
    let worker = &mut rig.hosts[1].worker;
    worker.io().inbox.push_back((now, sent.clone()));
    assert!(worker.poll_once().busy, "the question for proof leaves in the next turn");
    use_up_questions(worker, now, &sent);
    let mut damaged = forged(&sent, FlowId::UNKNOWN, 20_000, 5000);
    *damaged.last_mut().unwrap() ^= 1;
    let reasons = [DropReason::Unproven, DropReason::Corrupt];
    let before = reasons.map(|reason| worker.stats().drops.of(reason));
    worker.io().inbox.extend([damaged, sent.clone()].map(|frame| (now, frame)));
    let work = [worker.poll_once().busy, worker.poll_once().busy];
    let after = reasons.map(|reason| worker.stats().drops.of(reason));
    assert_eq!((after, work), ([before[0] + 2, before[1]], [false; 2]));
    let counts = worker.counts();
    let explained = counts.parsed + counts.malformed + counts.foreign + counts.refused;
    assert_eq!(counts.received, explained);
    // A full burst may have more frames behind it.
    for (frames, busy) in [(BURST - 1, false), (BURST, true)] {
        worker.io().inbox.extend(vec![(now, sent.clone()); frames]);
        assert_eq!(worker.poll_once().busy, busy, "{frames} frames");
    }
}

/// A rig whose first host has sent a message of 5000 bytes, which arrived if `arrived`, and the
/// first frame of the message under way: the first, or else one of 50,000 bytes.
fn under_way(shape: &Sizes, arrived: bool) -> (Rig, Vec<u8>) {
    let mut rig = Rig::new(shape, 1, Weather::default());
    rig.open(0, 0, shape);
    rig.send(0, 0, 5000, 1);
    if arrived {
        (0..2000).for_each(|_| rig.step(64));
        rig.send(0, 0, 50_000, 2);
    }
    (0..4).for_each(|_| rig.step(0));
    let sent = rig.on_the_way().next().unwrap().to_vec();
    (rig, sent)
}

/// `sent` as data of a message of `len` bytes, under `key` and for the flow `named`.
fn forged(sent: &[u8], named: FlowId, key: u64, len: u32) -> Vec<u8> {
    remade(sent, |header, _| {
        let Body::Data(data) = &mut header.body else { panic!("{header:?}") };
        data.open.as_mut().unwrap().msg_len = NonZeroU32::new(len).unwrap();
        (header.dst_flow, header.key) = (named, Key(key));
    })
}

#[test]
fn flows_of_one_name_under_two_keys_have_memory_for_each_message() {
    let shape = Sizes { memory: 100_000, ..Sizes::ample() };
    let (mut rig, sent) = under_way(&shape, false);
    let frames = [3, 4].map(|key| forged(&sent, FlowId::UNKNOWN, key, 60_000));
    let worker = &mut rig.hosts[1].worker;
    worker.io().inbox.extend(frames.map(|frame| (rig.clock.get(), frame)));
    worker.poll_once();
    assert_eq!((worker.counts().refused, worker.store().held_bytes()), (1, 60_000));
}

/// `sent` as a switch trims it.
fn trimmed(sent: &[u8]) -> Vec<u8> {
    let mut frame = sent.to_vec();
    let len = frame::trim(&mut frame);
    assert!(len < sent.len());
    frame.truncate(len);
    frame
}

/// The segment after `sent`, without an opening part.
fn unopened(sent: &[u8]) -> Vec<u8> {
    remade(sent, |header, _| {
        let Body::Data(data) = &mut header.body else { panic!("{header:?}") };
        (data.open, data.psn) = (None, Psn(data.psn.0 + 1));
    })
}

#[test]
fn a_segment_whose_message_a_trimmed_one_begins_in_the_same_burst_needs_memory() {
    for memory in [40_000, 100_000] {
        let shape = Sizes { memory, ..Sizes::ample() };
        let (mut rig, sent) = under_way(&shape, true);
        let frames = [trimmed(&sent), unopened(&sent)];
        let now = rig.clock.get();
        let worker = &mut rig.hosts[1].worker;
        worker.io().inbox.extend(frames.map(|frame| (now, frame)));
        let before = worker.store().held_bytes();
        worker.poll_once();
        assert_eq!((worker.store().held_bytes() - before, worker.stats().trimmed), (0, 2));
    }
}

/// The first frame of a message of 5000 bytes from the first host, and its proof of its address,
/// for which the second host has asked.
fn opening_and_proof(rig: &mut Rig) -> [Vec<u8>; 2] {
    rig.open(0, 0, &Sizes::ample());
    rig.send(0, 0, 5000, 1);
    let is_proof = |frame: &[u8]| {
        let parsed = frame::parse(frame, &ADDRESSING, UdpCheck::Skip);
        parsed.is_ok_and(|it| matches!(it.header.body, Body::Presence(Presence::Proof { .. })))
    };
    (0..4).for_each(|_| rig.step(0));
    let opening = rig.on_the_way().next().unwrap().to_vec();
    for _ in 0..1000 {
        if rig.on_the_way().any(is_proof) {
            break;
        }
        rig.step(0);
    }
    let proof = rig.on_the_way().find(|frame| is_proof(frame)).unwrap().to_vec();
    [opening, proof]
}

#[test]
fn an_opening_behind_its_proof_is_taken_while_a_flood_has_used_up_all_questions() {
    let config = config(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let mut rig = Rig::new(&Sizes { config, ..Sizes::ample() }, 1, Weather::default());
    let [opening, proof] = opening_and_proof(&mut rig);
    let now = rig.clock.get();
    let worker = &mut rig.hosts[1].worker;
    use_up_questions(worker, now, &opening);
    let unproven = worker.stats().drops.of(DropReason::Unproven);
    worker.io().inbox.extend([proof, opening].map(|frame| (now, frame)));
    worker.poll_once();
    assert_eq!(worker.stats().drops.of(DropReason::Unproven), unproven);
    assert_eq!(worker.store().held_bytes(), 5000);
}

#[test]
fn a_flow_that_proves_itself_in_a_burst_begins_no_message_without_memory() {
    let config = config(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let mut rig =
        Rig::new(&Sizes { memory: 4000, config, ..Sizes::ample() }, 1, Weather::default());
    let [opening, proof] = opening_and_proof(&mut rig);
    // The first flow of a table has this name, as a peer may guess.
    let guessed = remade(&unopened(&opening), |header, _| header.dst_flow = FlowId::new(0, 1));
    let now = rig.clock.get();
    let worker = &mut rig.hosts[1].worker;
    worker.io().inbox.extend([proof, opening, guessed].map(|frame| (now, frame)));
    worker.poll_once();
    assert_eq!((worker.store().held_bytes(), worker.stats().trimmed), (0, 2));
}

#[test]
fn names_of_both_ends_are_apart_when_memory_is_counted() {
    let shape = Sizes { memory: 60_000, ..Sizes::ample() };
    let (mut rig, sent) = under_way(&shape, true);
    let now = rig.clock.get();
    let other = remade(&sent, |header, _| {
        let Body::Data(data) = &mut header.body else { panic!("{header:?}") };
        assert_ne!(header.dst_flow, FlowId::UNKNOWN);
        data.open.as_mut().unwrap().src_flow = header.dst_flow;
        header.dst_flow = FlowId::UNKNOWN;
    });
    let worker = &mut rig.hosts[1].worker;
    worker.io().inbox.push_back((now, trimmed(&sent)));
    worker.poll_once();
    let (before, refused) = (worker.store().held_bytes(), worker.counts().refused);
    worker.io().inbox.extend([unopened(&sent), other].map(|frame| (now, frame)));
    worker.poll_once();
    let after = (worker.store().held_bytes() - before, worker.counts().refused - refused);
    assert_eq!(after, (50_000, 1));
}

#[test]
fn messages_of_flows_that_are_not_here_take_no_memory_from_those_that_are() {
    for named in [FlowId::new(9, 5), FlowId::UNKNOWN] {
        let config = config(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
        let shape = Sizes { memory: 100_000, config, ..Sizes::ample() };
        let (mut rig, sent) = under_way(&shape, true);
        let mut frames: Vec<_> = (0..8).map(|key| forged(&sent, named, 40 + key, 60_000)).collect();
        frames.insert(2, sent);
        let now = rig.clock.get();
        let worker = &mut rig.hosts[1].worker;
        worker.io().inbox.extend(frames.into_iter().map(|frame| (now, frame)));
        let before = worker.store().held_bytes();
        worker.poll_once();
        let drops = &worker.stats().drops;
        assert_eq!(worker.store().held_bytes() - before, 50_000, "{named}: {drops:?}");
        (0..4000).for_each(|_| rig.step(64));
        assert_eq!(rig.check_delivered(1), [1, 2]);
    }
}

/// `sent` as if another host had sent it.
fn from_another(sent: &[u8], host: HostId) -> Vec<u8> {
    let parsed = frame::parse(sent, &ADDRESSING, UdpCheck::Skip).unwrap();
    let addrs = ADDRESSING.pair(host, parsed.dst).unwrap();
    let spec = FrameSpec { addrs, ecn: parsed.ecn, class: parsed.class };
    let payload = &sent[parsed.payload];
    let mut out = vec![0; 128];
    let len = u16::try_from(payload.len()).unwrap();
    let start = frame::emit(&spec, &parsed.header, &Ext::VACANT, len, &mut out);
    out.truncate(start);
    let mut sum = Checksum::new();
    sum.add(payload);
    frame::finish_udp_checksum(&mut out, sum);
    out.extend_from_slice(payload);
    out
}

#[test]
fn messages_beyond_a_hosts_share_take_no_memory_from_those_of_another() {
    let one = ShareMax { messages: 1, ..ShareMax::UNBOUNDED };
    let config = config(|s| (s.unproven_max, s.peer_max, s.secret) = (4, one, [1, 2]));
    let shape = Sizes { memory: 110_000, config, ..Sizes::ample() };
    let (mut rig, _) = under_way(&shape, true);
    // The sender is asked for proof beside the second message, and has given it.
    (0..2000).for_each(|_| rig.step(64));
    rig.send(0, 0, 50_000, 3);
    (0..4).for_each(|_| rig.step(0));
    let sent = rig.on_the_way().next().unwrap().to_vec();
    rig.hosts[1].completions.clear();
    let now = rig.clock.get();
    let worker = &mut rig.hosts[1].worker;
    // A message of 50,000 bytes is under way, and another host may have as many.
    let before = worker.store().held_bytes();
    worker.io().inbox.push_back((now, sent.clone()));
    worker.poll_once();
    assert_eq!(worker.store().held_bytes() - before, 50_000);
    let beyond = remade(&sent, |header, _| {
        let Body::Data(data) = &mut header.body else { panic!("{header:?}") };
        (data.msg, data.psn) = (MsgNo(data.msg.0 + 1), Psn(data.psn.0 + 100));
    });
    let other = forged(&from_another(&sent, HostId(5)), FlowId::UNKNOWN, 9, 50_000);
    worker.io().inbox.extend([beyond, other].map(|frame| (now, frame)));
    worker.poll_once();
    let drops = &worker.stats().drops;
    assert_eq!(drops.of(DropReason::PeerShare), 1, "{drops:?}");
    assert_eq!(worker.store().held_bytes() - before, 100_000, "{drops:?}");
}

fn lie_once(header: &mut Header, payload: &mut Vec<u8>, rng: &mut Rng) {
    match rng.below(8) {
        0 => header.dst_flow = flow(header.dst_flow, rng),
        1 => payload.truncate(usize::try_from(rng.below(payload.len() as u64 + 1)).unwrap()),
        _ => match &mut header.body {
            Body::Data(data) => lie_of_data(data, rng),
            Body::Ack(ack) | Body::Nack(ack) => lie_of_ack(ack, rng),
            Body::BlockNack(nack) => match rng.below(3) {
                0 => nack.src_flow = flow(nack.src_flow, rng),
                1 => nack.psn = Psn(near(nack.psn.0, rng)),
                _ => nack.missing = rng.next_u64() | 1,
            },
            Body::Report(report) => match rng.below(2) {
                0 => report.first = Psn(near(report.first.0, rng) & !63),
                _ => report.arrived[0] ^= some(u64::from(u32::MAX), rng),
            },
            Body::Note(note) => note.octets[0] ^= 0xFF,
            Body::Presence(Presence::Keep) => header.dst_flow = flow(header.dst_flow, rng),
            Body::Presence(said) => {
                *said = match *said {
                    Presence::Unknown { named } => Presence::Forgotten { named },
                    _ => Presence::Unknown { named: flow(FlowId::new(0, 1), rng) },
                };
            }
            Body::Credit(said) | Body::Request(said) => {
                said.upto = said.upto.plus(some(1000, rng));
            }
        },
    }
}

fn lie_of_data(data: &mut Data, rng: &mut Rng) {
    match rng.below(9) {
        0 => data.psn = Psn(near(data.psn.0, rng)),
        1 => data.msg = MsgNo(near(data.msg.0, rng)),
        // Whole segments, mostly.
        2 => data.offset = (data.offset / 1024).wrapping_add(some(3, rng)).wrapping_mul(1024),
        3 => data.offset = near(data.offset, rng),
        4 => data.retransmission = !data.retransmission,
        5 => data.open = None,
        6 => {
            if let Some(open) = &mut data.open {
                open.msg_len =
                    NonZeroU32::new(near(open.msg_len.get(), rng)).unwrap_or(open.msg_len);
            }
        }
        7 => data.code = None,
        _ => {
            let one = NonZeroU8::MIN;
            let code = data.code.or(Coded::new(one, 1, 1, 0)).unwrap();
            let packets = u64::from(code.data()) + u64::from(code.parity());
            let packet = u8::try_from(rng.below(packets)).unwrap();
            data.code = Coded::new(one, code.data(), code.parity(), packet);
        }
    }
    if data.offset != 0 || data.parity_index().is_some() {
        data.tag = 0;
    }
}

fn lie_of_ack(ack: &mut Ack, rng: &mut Rng) {
    match rng.below(8) {
        0 => ack.src_flow = flow(ack.src_flow, rng),
        1 => ack.psn = Psn(near(ack.psn.0, rng)),
        2 => ack.cumulative = Psn(near(ack.cumulative.0, rng)),
        3 => ack.sack = rng.next_u64(),
        4 => ack.echo_sent_at = near(ack.echo_sent_at, rng),
        5 => ack.held = near(ack.held, rng),
        6 => ack.sharers = rng.next_u32().to_le_bytes()[0].into(),
        _ => {
            let receipts = [Receipt::First, Receipt::Again, Receipt::Decoded];
            ack.receipt = receipts[usize::try_from(rng.below(3)).unwrap()];
        }
    }
}

fn some(below: u64, rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(below)).unwrap()
}

/// A number near `n`, or seldom far.
fn near(n: u32, rng: &mut Rng) -> u32 {
    match rng.below(8) {
        0 => rng.next_u32(),
        1..5 => n.wrapping_add(some(12, rng)),
        _ => n.wrapping_sub(some(12, rng)),
    }
}

fn flow(of: FlowId, rng: &mut Rng) -> FlowId {
    if rng.chance(0.3) { FlowId::UNKNOWN } else { FlowId(near(of.0, rng)) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_lying_peer_costs_its_own_messages_and_nothing_else(
        seed in any::<u64>(),
        coded in any::<bool>(),
        credits in any::<bool>(),
        ack_every in prop_oneof![Just(1u16), Just(4)],
        sizes in prop::collection::vec(1u32..60_000, 4..16),
        lies in 0.01..0.9f64,
        loss in 0.0..0.1f64,
    ) {
        let config = config(|settings| {
            settings.payload_max = 1024;
            settings.ack_every = ack_every;
            if credits {
                settings.sched = SchedKind::Credits;
            }
            if coded {
                settings.ec = EcKind::Mds;
                settings.ec_shape = BlockShape::new(8, 2).unwrap();
                let block_timeout = Some(Duration::from_us(20));
                settings.ec_params =
                    EcParams { base_rtt_min: Duration::ZERO, block_timeout, ..EcParams::default() };
            }
        });
        let shape = Sizes { config, memory: 1 << 20, parity: 30_000, ..Sizes::ample() };
        let weather = Weather { lies, loss, ..Weather::default() };
        let mut rig = Rig::new(&shape, seed, weather);
        for host in 0..2 {
            (0..2).for_each(|connection| rig.open(host, connection, &shape));
        }
        for (tag, &size) in (1..).zip(&sizes) {
            rig.send(usize::from(tag % 2 == 0), u32::from(tag % 3 == 0), size, tag);
        }
        (0..6000).for_each(|_| rig.step(64));
        for host in &rig.hosts {
            let counts = host.worker.counts();
            let seen = counts.parsed + counts.malformed + counts.foreign + counts.refused;
            prop_assert_eq!(counts.received, seen);
            prop_assert_eq!(counts.filled, counts.handed_over);
            prop_assert!(host.worker.store().held_bytes() <= 1 << 20);
        }
    }
}
