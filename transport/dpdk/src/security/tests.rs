//! Sealing and opening together: what comes through, what does not, and under which name it is
//! counted.

use transport::stats::DropReason;
use transport::units::{EntropyValue, FlowId, HostId, Key, Psn};
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::{self, Ecn, FrameSpec, TrafficClass};
use transport::wire::int::{Hop, Int};
use transport::wire::seal::{self, FrameParts};
use transport::wire::{Body, Data, Ext, Extent, Header, Presence};
use transport::{Bytes, Duration, Instant, Rate};

use super::*;

const NOW: Instant = Instant::from_ps(5_000_000_000_000);
const FLOWS: u32 = 4;

fn keys() -> Keys {
    Keys::of(&[(1, [0x11; 32])])
}

/// A host whose clock is `late` ns ahead of the first one's.
fn host(keys: &Keys, payloads: Payloads, late: u64) -> Security {
    let wall = WallClock::Network(1_800_000_000_000_000_000 + late);
    Security::new(keys, payloads, FLOWS, (wall, NOW))
}

/// A sender, and a receiver that started before it.
fn pair(payloads: Payloads) -> (Security, Security) {
    (host(&keys(), payloads, 1), host(&keys(), payloads, 0))
}

fn data(psn: u32) -> Body {
    Body::Data(Data { psn: Psn(psn), sent_at: 9, ..Data::VACANT })
}

/// A plain frame of a flow with room for a seal.
fn plain(version: IpVersion, (body, key): (Body, u64), payload: &[u8], hops: u8) -> Vec<u8> {
    let addrs = Addressing::emulated(version).pair(HostId(1), HostId(2)).unwrap();
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Data };
    let ext = if hops > 0 { Ext { int: Int::with_room(hops), ..Ext::VACANT } } else { Ext::VACANT };
    let extent = if hops > 0 { Extent::NONE.with_int(&ext.int) } else { Extent::NONE };
    let header = Header::new(EntropyValue(5), FlowId::new(1, 1), body).keyed(Key(key));
    let mut octets = vec![0; 256 + payload.len() + usize::from(seal::LEN)];
    let len = u16::try_from(payload.len()).unwrap();
    let at = frame::emit(&spec, &header.extended(extent), &ext, len, &mut octets);
    octets[at..at + payload.len()].copy_from_slice(payload);
    octets.truncate(at + payload.len() + usize::from(seal::LEN));
    octets
}

fn segment(psn: u32) -> Vec<u8> {
    plain(IpVersion::V4, (data(psn), 77), &[0xAB; 100], 0)
}

fn sealed(sender: &mut Security, mut frame: Vec<u8>, now: Instant) -> Vec<u8> {
    assert!(sender.sealer.seal(&mut frame, now));
    frame
}

fn open(receiver: &mut Security, frame: &[u8]) -> Result<Opened, DropReason> {
    open_at(receiver, &mut frame.to_vec(), NOW)
}

/// Opens `frame` at host 2, where all frames of these tests go.
fn open_at(receiver: &mut Security, frame: &mut [u8], now: Instant) -> Result<Opened, DropReason> {
    let is_v6 = frame[12] == 0x86;
    let addressing = Addressing::emulated(if is_v6 { IpVersion::V6 } else { IpVersion::V4 });
    receiver.opener.open(frame, (&addressing, HostId(2)), now)
}

/// What a seal says beside its tag.
fn seal_of(frame: &[u8]) -> seal::Seal {
    let end = FrameParts::of(frame).unwrap().end;
    seal::Seal::read(frame[end..].first_chunk().unwrap()).unwrap()
}

/// `frame` under a seal of another start, with a tag that no host has made.
fn forged(frame: &[u8], start: u64) -> Vec<u8> {
    let (mut forged, end) = (frame.to_vec(), FrameParts::of(frame).unwrap().end);
    let seal = seal::Seal { start, ..seal_of(frame) };
    forged[end] ^= 1;
    seal.emit(forged[end..].first_chunk_mut().unwrap());
    forged
}

#[test]
fn what_was_sealed_opens_to_the_same_octets_and_its_payload_is_not_there_on_the_way() {
    for payloads in [Payloads::Encrypted, Payloads::Authenticated] {
        let (mut sender, mut receiver) = pair(payloads);
        for version in [IpVersion::V4, IpVersion::V6] {
            for (body, payload) in
                [(data(1), &[0xAB; 1000][..]), (Body::Presence(Presence::Keep), &[])]
            {
                for hops in [0, 3].into_iter().filter(|hops| *hops == 0 || !payload.is_empty()) {
                    let before = plain(version, (body, 77), payload, hops);
                    let on_wire = sealed(&mut sender, before.clone(), NOW);
                    let shown = on_wire.windows(8).any(|octets| octets == [0xAB; 8]);
                    assert_eq!(shown, !payload.is_empty() && payloads == Payloads::Authenticated);
                    let mut after = on_wire;
                    assert_eq!(open_at(&mut receiver, &mut after, NOW), Ok(Opened::Whole));
                    let len = before.len() - usize::from(seal::LEN);
                    assert_eq!(after[..len], before[..len]);
                }
            }
        }
    }
}

#[test]
fn any_octet_that_changes_is_noticed_but_those_that_networks_change() {
    for payloads in [Payloads::Encrypted, Payloads::Authenticated] {
        let (mut sender, mut receiver) = pair(payloads);
        let on_wire = sealed(&mut sender, segment(1), NOW);
        let parts = FrameParts::of(&on_wire).unwrap();
        for at in parts.authenticated().start..on_wire.len() {
            let mut changed = on_wire.clone();
            changed[at] ^= 1;
            // The UDP checksum is none.
            if (40..42).contains(&at) {
                continue;
            }
            // An attacker sets the sum of the IPv4 header right.
            if at < 34 {
                let sum = u16::from_be_bytes([changed[24], changed[25]]);
                let word = |of: &[u8]| u16::from_be_bytes([of[at & !1], of[at | 1]]);
                let sum = transport::wire::checksum::updated(sum, word(&on_wire), word(&changed));
                changed[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            assert_ne!(open(&mut receiver, &changed), Ok(Opened::Whole), "octet {at}");
        }
        // Switches mark, and routers count hops.
        let mut changed = on_wire.clone();
        assert!(
            frame::set_ce(&mut changed) && frame::set_class(&mut changed, TrafficClass::Control)
        );
        assert_eq!(open(&mut receiver, &changed), Ok(Opened::Whole));
    }
}

#[test]
fn switches_may_write_telemetry_and_change_nothing_else_of_it() {
    for payloads in [Payloads::Encrypted, Payloads::Authenticated] {
        let (mut sender, mut receiver) = pair(payloads);
        let frame = plain(IpVersion::V6, (data(1), 77), &[0xAB; 100], 3);
        let mut on_wire = sealed(&mut sender, frame, NOW);
        let hop = Hop::new(NOW, Bytes(640), Bytes(64), Rate::from_gbps(100), 1);
        let place = frame::IntPlace::of(&on_wire).unwrap();
        assert!(frame::stamp(&mut on_wire, place, &[hop]));
        let parts = FrameParts::of(&on_wire).unwrap();
        let room = parts.authenticated().start + parts.telemetry(&on_wire).unwrap().start - 1;
        let mut widened = on_wire.clone();
        widened[room] = 2;
        assert!(open(&mut receiver, &widened).is_err());
        assert_eq!(open(&mut receiver, &on_wire), Ok(Opened::Whole));
    }
}

#[test]
fn a_frame_opens_once_and_in_any_order() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let frames: Vec<_> = (0..50).map(|psn| sealed(&mut sender, segment(psn), NOW)).collect();
    for frame in frames.iter().rev() {
        assert_eq!(open(&mut receiver, frame), Ok(Opened::Whole));
    }
    for frame in &frames {
        assert_eq!(open(&mut receiver, frame), Err(DropReason::Replayed));
    }
}

#[test]
fn a_segment_sent_again_is_sealed_anew() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let [first, again] = [(); 2].map(|()| sealed(&mut sender, segment(1), NOW));
    assert_ne!(first[72..172], again[72..172], "one number for two frames shows their difference");
    assert_eq!(open(&mut receiver, &first), Ok(Opened::Whole));
    assert_eq!(open(&mut receiver, &again), Ok(Opened::Whole));
}

#[test]
fn no_two_frames_have_one_derived_key_and_number() {
    let (mut sender, _) = pair(Payloads::Encrypted);
    let mut used = std::collections::BTreeSet::new();
    // More flows than there is room for, so keys are dropped and derived again, in one instant.
    for round in 0..4_u64 {
        for flow in 0..500 {
            let now = NOW + Duration::from_ms(400 * (round / 2));
            let frame = plain(IpVersion::V4, (data(1), flow), &[0; 8], 0);
            let frame = sealed(&mut sender, frame, now);
            let seal = seal_of(&frame);
            assert!(used.insert((flow, seal.start, seal.number)));
        }
    }
}

#[test]
fn a_key_of_another_file_or_number_opens_nothing() {
    let (_, mut receiver) = pair(Payloads::Encrypted);
    let mut other = host(&Keys::of(&[(1, [0x12; 32])]), Payloads::Encrypted, 1);
    assert_eq!(open(&mut receiver, &sealed(&mut other, segment(1), NOW)), Err(DropReason::BadTag));
    let mut other = host(&Keys::of(&[(2, [0x11; 32])]), Payloads::Encrypted, 1);
    let frame = sealed(&mut other, segment(1), NOW);
    assert_eq!(open(&mut receiver, &frame), Err(DropReason::UnknownKey));
    assert_eq!(open(&mut receiver, &segment(1)), Ok(Opened::Unsealed));
}

#[test]
fn a_frame_does_not_open_as_the_other_direction_of_its_flow() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let mut frame = sealed(&mut sender, segment(1), NOW);
    // Source and destination change places, and the sum of the header stays.
    let (src, dst) = (frame[26..30].to_vec(), frame[30..34].to_vec());
    frame[26..30].copy_from_slice(&dst);
    frame[30..34].copy_from_slice(&src);
    let addressing = Addressing::emulated(IpVersion::V4);
    let found = receiver.opener.open(&mut frame, (&addressing, HostId(1)), NOW);
    assert_eq!(found, Err(DropReason::BadTag));
}

#[test]
fn frames_from_before_a_restart_are_stale_and_those_of_a_second_later_are_not() {
    let mut sender = host(&keys(), Payloads::Encrypted, 0);
    let old = sealed(&mut sender, segment(1), NOW);
    let mut receiver = host(&keys(), Payloads::Encrypted, 500_000_000);
    assert_eq!(open(&mut receiver, &old), Err(DropReason::StaleSeal));
    let soon = NOW + Duration::from_ms(900);
    let still = sealed(&mut sender, segment(2), soon);
    assert_eq!(open(&mut receiver, &still), Err(DropReason::StaleSeal));
    let renewed = sealed(&mut sender, segment(3), NOW + Duration::from_ms(1001));
    assert_eq!(open(&mut receiver, &renewed), Ok(Opened::Whole));
    assert_eq!(open(&mut receiver, &renewed), Err(DropReason::Replayed));
}

#[test]
fn a_clock_far_ahead_is_stale_too() {
    let mut receiver = host(&keys(), Payloads::Encrypted, 0);
    for (ahead, found) in
        [(61_000_000_000, Err(DropReason::StaleSeal)), (59_000_000_000, Ok(Opened::Whole))]
    {
        let mut sender = host(&keys(), Payloads::Encrypted, ahead);
        assert_eq!(open(&mut receiver, &sealed(&mut sender, segment(1), NOW)), found);
    }
}

#[test]
fn a_first_frame_that_was_withheld_for_long_is_stale() {
    for (later, found) in [(59, Ok(Opened::Whole)), (61, Err(DropReason::StaleSeal))] {
        let (mut sender, mut receiver) = pair(Payloads::Encrypted);
        let mut withheld = sealed(&mut sender, segment(1), NOW);
        let opened = open_at(&mut receiver, &mut withheld, NOW + Duration::from_s(later));
        assert_eq!(opened, found, "{later} s");
    }
}

#[test]
fn a_derived_key_opens_for_a_minute() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let frames = [(); 3].map(|()| sealed(&mut sender, segment(1), NOW));
    for (frame, (later, found)) in frames.into_iter().zip([
        (0, Ok(Opened::Whole)),
        (59, Ok(Opened::Whole)),
        (60, Err(DropReason::StaleSeal)),
    ]) {
        let at = NOW + Duration::from_s(later);
        assert_eq!(open_at(&mut receiver, &mut frame.clone(), at), found, "{later} s");
    }
}

#[test]
fn a_flood_of_forged_starts_is_bounded_and_established_flows_renew_their_keys() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let ours = sealed(&mut sender, segment(1), NOW);
    assert_eq!(open(&mut receiver, &ours), Ok(Opened::Whole));
    let start = seal_of(&ours).start;
    let of_flow = |sender: &mut Security, flow, now| {
        sealed(sender, plain(IpVersion::V4, (data(1), flow), &[1; 8], 0), now)
    };
    let template = of_flow(&mut sender, 5, NOW);
    let mut tried = 0_u32;
    let mut strangers = 0;
    // Three seconds of 100 forged frames each millisecond, for flows that are not here.
    for ms in 0..3000_u64 {
        let now = NOW + Duration::from_ms(ms);
        for count in 0..100 {
            let found = open_at(&mut receiver, &mut forged(&template, start + 1 + ms + count), now);
            tried += u32::from(found == Err(DropReason::BadTag));
            assert!(matches!(found, Err(DropReason::BadTag | DropReason::SealFlood)), "{found:?}");
        }
        // One frame a second is all that this flow sends, each under another key.
        if ms % 1001 == 1000 {
            let mut renewed = sealed(&mut sender, segment(2), now);
            assert_eq!(open_at(&mut receiver, &mut renewed, now), Ok(Opened::Whole), "{ms} ms");
        }
        // A new flow asks as often as its first segments are sent again.
        if ms % 100 == 0 {
            let mut opens = of_flow(&mut sender, 6 + ms, now);
            let opened = open_at(&mut receiver, &mut opens, now);
            strangers += u32::from(opened == Ok(Opened::Whole));
        }
    }
    assert!((60_000..=60_300).contains(&tried), "{tried} keys were derived in vain");
    // It comes after the flood of its millisecond, so only a second of its own would bring it in.
    assert!(strangers < 30);
    let later = NOW + Duration::from_ms(3001);
    let mut opens = of_flow(&mut sender, 5000, later);
    assert_eq!(open_at(&mut receiver, &mut opens, later), Ok(Opened::Whole), "the flood is over");
}

#[test]
fn frames_forged_for_a_flow_cost_this_flow_alone() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let flows = [1, 2].map(|flow| plain(IpVersion::V4, (data(1), flow), &[1; 8], 0));
    let [one, two] = flows.clone().map(|frame| sealed(&mut sender, frame, NOW));
    assert!(open(&mut receiver, &one).is_ok() && open(&mut receiver, &two).is_ok());
    let start = seal_of(&two).start;
    let found: Vec<_> = (1..100).map(|at| open(&mut receiver, &forged(&one, start + at))).collect();
    assert_eq!(found.iter().filter(|found| **found == Err(DropReason::BadTag)).count(), 16);
    let soon = NOW + Duration::from_ms(1001);
    let [mut one, mut two] = flows.map(|frame| sealed(&mut sender, frame, soon));
    assert_eq!(open_at(&mut receiver, &mut two, NOW), Ok(Opened::Whole));
    // The attempts of the other flow come back with time.
    assert_eq!(open_at(&mut receiver, &mut one.clone(), NOW), Err(DropReason::SealFlood));
    assert_eq!(open_at(&mut receiver, &mut one, soon), Ok(Opened::Whole));
}

#[test]
fn no_key_is_derived_for_frames_to_other_hosts_and_ports() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let frame = sealed(&mut sender, segment(1), NOW);
    let here = Addressing::emulated(IpVersion::V4);
    for _ in 0..1000 {
        let mut copy = frame.clone();
        let found = receiver.opener.open(&mut copy, (&here, HostId(3)), NOW);
        assert_eq!(found, Err(DropReason::WrongHost));
        let there = here.clone().with_udp_port(5000);
        let found = receiver.opener.open(&mut copy, (&there, HostId(2)), NOW);
        assert_eq!(found, Ok(Opened::Unsealed));
        assert_eq!(copy, frame, "frames of others are left as they are");
    }
    assert_eq!(open(&mut receiver, &frame), Ok(Opened::Whole), "no budget was used");
}

#[test]
fn a_copy_that_the_parser_would_refuse_takes_no_number() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let (mut sender, mut receiver) = pair(Payloads::Encrypted);
        let on_wire = sealed(&mut sender, plain(version, (data(1), 77), &[1; 8], 0), NOW);
        let mut copy = on_wire.clone();
        if version == IpVersion::V4 {
            // The total length, and the sum of the header with it.
            let [len, sum] = [16, 24].map(|at| u16::from_be_bytes([copy[at], copy[at + 1]]));
            copy[16..18].copy_from_slice(&(len - 2).to_be_bytes());
            let sum = transport::wire::checksum::updated(sum, len, len - 2);
            copy[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            copy[17] ^= 1;
        }
        assert_eq!(open(&mut receiver, &copy), Ok(Opened::Unsealed));
        assert_eq!(open(&mut receiver, &on_wire), Ok(Opened::Whole));
    }
}

#[test]
fn a_window_that_was_dropped_lets_nothing_in_twice() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let frames: Vec<_> = (0..2000)
        .map(|flow| sealed(&mut sender, plain(IpVersion::V4, (data(1), flow), &[1; 8], 0), NOW))
        .collect();
    let opened = frames.iter().filter(|frame| open(&mut receiver, frame).is_ok()).count();
    assert_eq!(opened, frames.len(), "keys that start later than those that went are believed");
    for frame in &frames {
        let found = open(&mut receiver, frame);
        assert!(matches!(found, Err(DropReason::Replayed | DropReason::StaleSeal)), "{found:?}");
    }
}

#[test]
fn keys_rotate_while_frames_are_under_way() {
    let (old, new) = ((1, [0x11; 32]), (2, [0x22; 32]));
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let under_way = [1, 2].map(|psn| sealed(&mut sender, segment(psn), NOW));
    receiver.rotate(&Keys::of(&[old, new]));
    assert_eq!(open(&mut receiver, &under_way[0]), Ok(Opened::Whole));
    sender.rotate(&Keys::of(&[new, old]));
    let fresh = sealed(&mut sender, segment(3), NOW);
    assert_eq!(open(&mut receiver, &fresh), Ok(Opened::Whole));
    assert_eq!(open(&mut receiver, &under_way[1]), Ok(Opened::Whole));
    receiver.rotate(&Keys::of(&[new]));
    assert_eq!(open(&mut receiver, &under_way[1]), Err(DropReason::UnknownKey));
    // The old key comes back: what it sealed is not new again.
    receiver.rotate(&Keys::of(&[new, old]));
    assert_eq!(open(&mut receiver, &under_way[1]), Err(DropReason::StaleSeal));
    assert_eq!(open(&mut receiver, &fresh), Err(DropReason::Replayed));
}

#[test]
fn a_class_that_says_trimmed_makes_a_hint_of_data_and_nothing_of_others() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let addressing = Addressing::emulated(IpVersion::V4);
    let keep = plain(IpVersion::V4, (Body::Presence(Presence::Keep), 77), &[], 0);
    for (frame, is_data) in [(segment(1), true), (keep, false)] {
        let mut frame = sealed(&mut sender, frame, NOW);
        let whole = frame.clone();
        assert!(frame::set_class(&mut frame, TrafficClass::Trimmed));
        assert_eq!(open_at(&mut receiver, &mut frame, NOW), Ok(Opened::Hint));
        let parsed = frame::parse(&frame, &addressing, frame::UdpCheck::Skip);
        assert_eq!(parsed.is_ok_and(|parsed| parsed.trimmed), is_data);
        assert_eq!(open(&mut receiver, &whole), Ok(Opened::Whole), "its number is not taken");
    }
}

#[test]
fn a_trimmed_frame_is_a_hint() {
    let (mut sender, mut receiver) = pair(Payloads::Encrypted);
    let mut frame = sealed(&mut sender, segment(1), NOW);
    let len = frame::trim(&mut frame);
    frame.truncate(len);
    assert_eq!(open_at(&mut receiver, &mut frame, NOW), Ok(Opened::Hint));
    let addressing = Addressing::emulated(IpVersion::V4);
    let parsed = frame::parse(&frame, &addressing, frame::UdpCheck::Required).unwrap();
    assert!(parsed.trimmed && parsed.payload_len == 100);
}
