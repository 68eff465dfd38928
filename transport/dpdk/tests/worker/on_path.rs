//! A host on the path that reads names and keys of flows, and uses them: it marks packets as
//! congested, sends old ones again, makes NACKs and acknowledgements of what is in flight, says in
//! the receiver's place that it has forgotten a flow, and changes payload.
//!
//! Without keys that hosts share, it may slow a flow down. By marks, old packets and NACKs it ends
//! no flow, and no byte is wrong but those that it changes. By acknowledging what did not arrive it
//! makes the sender report a message as sent that the receiver never gets. When a flow seems
//! forgotten, messages on their way are sent again, and may be delivered several times; where that
//! goes on they fail with a reason. With keys nothing that it makes or changes is accepted but
//! marks.

use std::cell::Cell;
use std::collections::VecDeque;

use transport::wire::addressing::{AddrPair, IpPair};
use transport::wire::checksum::Checksum;
use transport::wire::frame::{Ecn, FrameSpec, TrafficClass};
use transport::wire::seal::FrameParts;
use transport::wire::{Body, Data, Ext, Header, Presence, frame};
use transport::{Config, DropReason, Duration, FlowId, Rng};
use transport_dpdk::{Failure, Keys, Payloads};

use crate::rig::{Meddler, Rig, Sizes, Weather, config};

/// What the host on the path does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    /// Each packet comes first with the mark of congestion.
    Marks,
    /// Packets are sent again, some at once and some late.
    Replays,
    /// Beside each acknowledgement comes a NACK of the newest segment.
    Nacks,
    /// Beside each acknowledgement comes one of all segments that have left.
    Acknowledgements,
    /// Beside each acknowledgement comes a PRESENCE, which says that the flow is forgotten.
    Forgotten,
    /// Each segment comes first with other payload.
    Segments,
}

/// `frame` without its seal, if it has one.
fn unsealed(frame: &[u8]) -> Option<Vec<u8>> {
    let mut made = frame.to_vec();
    if frame::header_of(frame).is_err() {
        let parts = FrameParts::of(frame).ok()?;
        parts.unmark(&mut made);
        made.truncate(parts.end);
    }
    Some(made)
}

/// A PRESENCE beside the acknowledgement `frame`: its flow is forgotten.
fn forgotten(frame: &[u8]) -> Option<Vec<u8>> {
    let plain = unsealed(frame)?;
    let header = frame::header_of(&plain).ok()?.0;
    let Body::Ack(ack) = header.body else { return None };
    let body = Body::Presence(Presence::Forgotten { named: ack.src_flow });
    let header = Header::new(header.ev, FlowId::UNKNOWN, body).keyed(header.key);
    let octets = |at: usize| plain[at..at + 4].first_chunk::<4>().copied();
    let ip = IpPair::V4 { src: octets(26)?.into(), dst: octets(30)?.into() };
    let [dst_mac, src_mac] = [0, 6].map(|at| plain[at..].first_chunk().copied());
    let (dst_mac, src_mac) = (dst_mac?, src_mac?);
    let udp_port = u16::from_be_bytes([plain[36], plain[37]]);
    let addrs = AddrPair { dst_mac, src_mac, ip, udp_port };
    let spec = FrameSpec { addrs, ecn: Ecn::NotEct, class: TrafficClass::Control };
    let mut made = vec![0; 256];
    let len = frame::emit(&spec, &header, &Ext::VACANT, 0, &mut made);
    made.truncate(len);
    frame::finish_udp_checksum(&mut made, Checksum::new());
    Some(made)
}

/// The answer `frame`, changed by `deed`, where the newest segment that was seen is `newest`;
/// without a seal, if it had one.
fn answer(deed: Deed, frame: &[u8], newest: &Data) -> Option<Vec<u8>> {
    let mut made = unsealed(frame)?;
    let changed = frame::rewrite_header(&mut made, &mut |header, _| {
        let Body::Ack(mut ack) = header.body else { return };
        (ack.psn, ack.echo_sent_at) = (newest.psn, newest.sent_at);
        if deed == Deed::Nacks {
            // It reports no arrival that the receiver has not reported.
            ack.sack = 0;
            header.body = Body::Nack(ack);
        } else {
            (ack.cumulative, ack.sack) = (newest.psn.plus(1), u64::MAX);
            header.body = Body::Ack(ack);
        }
    });
    changed.then_some(made)
}

/// The segment of which `frame` is, sealed or not.
fn segment_of(frame: &[u8]) -> Option<Data> {
    let mut plain = frame.to_vec();
    if frame::header_of(frame).is_err() {
        FrameParts::of(frame).ok()?.unmark(&mut plain);
    }
    let Body::Data(data) = frame::header_of(&plain).ok()?.0.body else { return None };
    Some(data)
}

/// The newest packets, which are sent again.
const KEPT: usize = 1000;

fn meddler(deed: Deed, seed: u64) -> Meddler {
    let mut rng = Rng::new(seed).fork("on the path", 0);
    let (newest, mut seen) = (Cell::new(None::<Data>), VecDeque::<Vec<u8>>::new());
    Box::new(move |frame| {
        if let Some(data) = segment_of(frame) {
            let older = |last: Data| data.psn.distance_from(last.psn) < 0;
            newest.set(newest.get().filter(|last| older(*last)).or(Some(data)));
        }
        match deed {
            Deed::Marks => {
                let mut marked = frame.to_vec();
                frame::set_ce(&mut marked);
                vec![marked]
            }
            Deed::Replays => {
                if seen.len() == KEPT {
                    seen.pop_front();
                }
                seen.push_back(frame.to_vec());
                vec![seen[usize::try_from(rng.below(seen.len() as u64)).unwrap()].clone()]
            }
            Deed::Forgotten => forgotten(frame).into_iter().collect(),
            Deed::Segments => {
                // Payload, which may be sealed. A seal has fewer than 60 octets, and a frame
                // without payload fewer than 200.
                let at = frame.len().checked_sub(60).filter(|at| *at > 200);
                let at = at.filter(|_| segment_of(frame).is_some());
                let changed = at.map(|at| {
                    let mut changed = frame.to_vec();
                    // The checksum is the same.
                    changed.swap(at, at + 2);
                    changed
                });
                changed.into_iter().collect()
            }
            Deed::Nacks | Deed::Acknowledgements => {
                let is_answer = segment_of(frame).is_none();
                let newest = newest.get().filter(|_| is_answer);
                newest.and_then(|newest| answer(deed, frame, &newest)).into_iter().collect()
            }
        }
    })
}

const SIZES: [u32; 6] = [60_000, 1, 150_000, 30_000, 5000, 90_000];
const ALL: [u64; 6] = [1, 2, 3, 4, 5, 6];

/// Host 0 sends messages of [`SIZES`] beside the host on the path. All are reported as sent, and
/// none twice.
fn beside(deed: Deed, keyed: bool, seed: u64) -> Rig {
    let mut shape = Sizes::ample();
    if keyed {
        shape.keys = [(); 2].map(|()| Some((Keys::of(&[(1, [7; 32])]), Payloads::Encrypted)));
    }
    let mut rig = Rig::new(&shape, seed, Weather { loss: 0.03, ..Weather::default() });
    rig.meddler = Some(meddler(deed, seed));
    rig.open(0, 0, &shape);
    for (tag, size) in (1..).zip(SIZES) {
        rig.send(0, 0, size, tag);
    }
    rig.run(Duration::from_s(20), 64, |rig| rig.sent(0).len() == SIZES.len());
    (0..400).for_each(|_| rig.step(64));
    assert_eq!(rig.hosts[0].worker.stats().messages_failed, 0, "{deed:?}");
    rig
}

/// The tags of messages that host 1 has got, each with the right bytes.
fn delivered(rig: &Rig) -> Vec<u64> {
    let mut tags = rig.check_delivered(1);
    tags.sort_unstable();
    tags
}

#[test]
fn marks_replays_and_nacks_by_a_host_on_the_path_end_no_flow_and_change_no_byte() {
    for seed in 0..8 {
        for deed in [Deed::Marks, Deed::Replays, Deed::Nacks] {
            let rig = beside(deed, false, seed);
            assert_eq!(delivered(&rig), ALL, "{deed:?} {seed}");
            let [sender, receiver] = rig.hosts.each_ref().map(|host| host.worker.stats());
            let done = match deed {
                Deed::Marks => sender.ecn_echoes,
                Deed::Replays => receiver.duplicates,
                _ => sender.nacks_received,
            };
            assert!(done > 20, "{deed:?} {seed}: {done}");
        }
    }
}

#[test]
fn acknowledgements_by_a_host_on_the_path_lose_messages_and_change_no_byte() {
    let mut lost = 0;
    for seed in 0..8 {
        let rig = beside(Deed::Acknowledgements, false, seed);
        let mut once = delivered(&rig);
        once.dedup();
        assert_eq!(once, delivered(&rig), "twice");
        lost += ALL.len() - once.len();
    }
    assert!(lost > 0, "what was lost on the way was acknowledged");
}

/// Host 0 sends messages of `sizes` beside a host on the path that says in the receiver's place,
/// time and again, that it has forgotten the flow. Each message is sent, or fails with a reason:
/// those of the failures.
fn forgotten_for_ever(config: &Config, sizes: &[u32], seed: u64) -> Vec<Failure> {
    let shape = Sizes { config: config.clone(), ..Sizes::ample() };
    let mut rig = Rig::new(&shape, seed, Weather { loss: 0.03, ..Weather::default() });
    rig.meddler = Some(meddler(Deed::Forgotten, seed));
    rig.open(0, 0, &shape);
    for (tag, size) in (1..).zip(sizes) {
        rig.send(0, 0, *size, tag);
    }
    let ended = |rig: &Rig| rig.sent(0).len() + rig.failed(0).len() == sizes.len();
    rig.run(Duration::from_s(20), 64, ended);
    // What is delivered, however often, has the right bytes.
    delivered(&rig);
    assert!(rig.hosts[0].worker.stats().flows_reopened > 0, "{seed}");
    rig.failed(0)
}

#[test]
fn messages_whose_flow_a_host_on_the_path_has_opened_anew_end_with_a_reason() {
    for seed in 0..8 {
        let failed = forgotten_for_ever(&Sizes::ample().config, &SIZES, seed);
        // Each time the flow takes another place of the receiver's table.
        let known = |why: &Failure| matches!(why, Failure::PeerFull | Failure::PeerForgot);
        assert!(failed.iter().all(known), "{seed}: {failed:?}");
        let wide = config(|s| (s.rx_flows_max, s.msgs_max) = (256, 512));
        let failed = forgotten_for_ever(&wide, &[3_000_000], seed);
        assert_eq!(failed, [Failure::PeerForgot], "{seed}");
    }
}

#[test]
fn payload_that_a_host_on_the_path_changes_is_delivered_and_ends_no_flow() {
    for seed in 0..8 {
        let rig = beside(Deed::Segments, false, seed);
        // The receiver takes the changed segment. The right one is the second of its number.
        let receiver = rig.hosts[1].worker.stats();
        assert!(receiver.duplicates > 20, "{seed}: {receiver:?}");
        assert_eq!(receiver.messages_delivered, SIZES.len() as u64, "{seed}");
        assert!(rig.damaged(1) > 0, "{seed}");
    }
}

#[test]
fn with_keys_no_answer_of_a_host_on_the_path_is_accepted() {
    for seed in 0..8 {
        for deed in [Deed::Nacks, Deed::Acknowledgements, Deed::Forgotten] {
            let rig = beside(deed, true, seed);
            assert_eq!(delivered(&rig), ALL, "{deed:?} {seed}");
            let sender = rig.hosts[0].worker.stats();
            assert!(sender.drops.of(DropReason::Unsealed) > 20, "{deed:?} {seed}");
            assert_eq!(sender.nacks_received, 0, "{deed:?} {seed}");
            assert_eq!(sender.flows_reopened, 0, "{deed:?} {seed}");
        }
        let rig = beside(Deed::Segments, true, seed);
        assert_eq!(delivered(&rig), ALL, "{seed}");
        let dropped = rig.hosts[1].worker.stats().drops.of(DropReason::BadTag);
        assert!(dropped > 20, "{seed}: {dropped}");
        // Marks of congestion lie outside of what is sealed.
        for deed in [Deed::Marks, Deed::Replays] {
            let rig = beside(deed, true, seed);
            assert_eq!(delivered(&rig), ALL, "{deed:?} {seed}");
            let [sender, receiver] = rig.hosts.each_ref().map(|host| host.worker.stats());
            let done = match deed {
                Deed::Marks => sender.ecn_echoes,
                _ => receiver.drops.of(DropReason::Replayed),
            };
            assert!(done > 20, "{deed:?} {seed}: {done}");
        }
    }
}
