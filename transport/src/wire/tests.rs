//! Properties of the codec and of the frame around it; examples of docs/WIRE.md.

mod doc;

use alloc::vec::Vec;
use core::num::{NonZeroU8, NonZeroU32};

use proptest::prelude::*;

use super::addressing::{Addressing, IpVersion};
use super::advice::Advice;
use super::checksum::Checksum;
use super::frame::*;
use super::int::{Hop, Int};
use super::template::FrameTemplate;
use super::*;
use crate::time::{Instant, Rate};
use crate::units::{Bytes, HostId};

const VERSIONS: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

fn flow_id() -> impl Strategy<Value = FlowId> {
    (0u32..1 << 20, 1u32..=FlowId::GENERATION_MAX).prop_map(|(i, g)| FlowId::new(i, g))
}

fn data_body() -> impl Strategy<Value = Body> {
    let open = proptest::option::of((flow_id(), 1u32..));
    let demand = any::<u32>().prop_map(Credit::new);
    let tag = prop_oneof![Just(0), any::<u64>()];
    (any::<(u32, u32, u32, u32, bool)>(), open, tag, demand, proptest::option::of(coded()))
        .prop_map(|((psn, msg, offset, sent_at, retransmission), open, tag, demand, code)| {
            let open = open.and_then(|(src_flow, len)| {
                NonZeroU32::new(len).map(|msg_len| Open { src_flow, msg_len })
            });
            let (psn, msg) = (Psn(psn), MsgNo(msg));
            Body::Data(Data { psn, msg, offset, sent_at, retransmission, open, tag, demand, code })
        })
}

fn coded() -> impl Strategy<Value = Coded> {
    let shape = (1..=Coded::NUMBER_MAX, 1u8..=64)
        .prop_flat_map(|(number, data)| (Just(number), Just(data), 0..=64 - data));
    shape.prop_flat_map(|(number, data, parity)| {
        (0..data + parity).prop_map(move |packet| {
            Coded::new(NonZeroU8::new(number).unwrap(), data, parity, packet).unwrap()
        })
    })
}

fn ack_body() -> impl Strategy<Value = Body> {
    let numbers = any::<(u32, u32, u64, u32, u32, u16)>();
    let receipt = prop::sample::select(&[Receipt::First, Receipt::Again, Receipt::Decoded][..]);
    (flow_id(), numbers, any::<(bool, bool)>(), receipt).prop_map(
        |(src_flow, (psn, cumulative, sack, echo_sent_at, held, sharers), (ce, nack), receipt)| {
            let ack = Ack {
                src_flow,
                psn: Psn(psn),
                cumulative: Psn(cumulative),
                sack,
                echo_sent_at,
                held,
                sharers,
                ce,
                receipt,
            };
            if nack { Body::Nack(ack) } else { Body::Ack(ack) }
        },
    )
}

fn allowance_body() -> impl Strategy<Value = Body> {
    (flow_id(), 1u32.., any::<bool>()).prop_map(|(src_flow, upto, asks)| {
        let upto = Credit::START.plus(upto - 1);
        let allowance = Allowance { src_flow, upto };
        if asks { Body::Request(allowance) } else { Body::Credit(allowance) }
    })
}

fn block_body() -> impl Strategy<Value = Body> {
    (flow_id(), any::<u32>(), 1u64..).prop_map(|(src_flow, psn, missing)| {
        Body::BlockNack(BlockNack { src_flow, psn: Psn(psn), missing })
    })
}

fn report_body() -> impl Strategy<Value = Body> {
    (0u32..1 << 26, any::<[u32; 8]>())
        .prop_map(|(word, arrived)| Body::Report(Report { first: Psn(word * 64), arrived }))
}

fn note_body() -> impl Strategy<Value = Body> {
    let classes = Vec::from([TrafficClass::Control, TrafficClass::ProbeAck, TrafficClass::Probe]);
    let said = prop::collection::vec(any::<u8>(), 0..=note::OCTETS_MAX);
    (prop::sample::select(classes), any::<u8>(), said).prop_map(|(class, protocol, said)| {
        Body::Note(Note { class, ..Note::new(protocol, &said).unwrap() })
    })
}

pub(super) fn hop() -> impl Strategy<Value = Hop> {
    any::<(u64, u64, u32, u16)>().prop_map(|(at, sent, waiting, port)| {
        let rate = Rate::from_gbps(1 + u64::from(port % 800));
        Hop::new(Instant::from_ps(at), Bytes(sent), Bytes(waiting.into()), rate, port)
    })
}

/// Telemetry, sometimes of more hops than there is room for.
pub(super) fn telemetry() -> impl Strategy<Value = Int> {
    let hops = prop::collection::vec(hop(), 0..=int::HOPS_MAX + 1);
    (1u8..=8, hops).prop_map(|(room, hops)| {
        let mut int = Int::with_room(room);
        hops.into_iter().for_each(|hop| int.stamp(hop));
        int
    })
}

/// The extensions that a header may have, and their content.
fn ext() -> impl Strategy<Value = (Ext, [bool; 3])> {
    let advice = any::<(u16, [u32; 2])>();
    let named = any::<[bool; 3]>();
    (telemetry(), 1u8.., 1u8.., advice, named).prop_map(|(int, half, by, advice, named)| {
        let [half, by] = [half, by].map(|number| NonZeroU8::new(number).unwrap());
        let advice = Advice { half: by, number: advice.0, values: advice.1 };
        (Ext { int, half, advice }, named)
    })
}

fn presence_body() -> impl Strategy<Value = Body> {
    (0..6, flow_id(), any::<u64>()).prop_map(|(step, named, cookie)| match step {
        0 => Body::Presence(Presence::Unknown { named }),
        1 => Body::Presence(Presence::Forgotten { named }),
        2 => Body::Presence(Presence::Prove { cookie }),
        3 => Body::Presence(Presence::Proof { cookie }),
        4 => Body::Presence(Presence::Refused),
        _ => Body::Presence(Presence::Keep),
    })
}

fn header(body: impl Strategy<Value = Body>) -> impl Strategy<Value = (Header, Ext)> {
    let dst_flow = prop_oneof![Just(FlowId::UNKNOWN), flow_id()];
    (any::<(u16, u64)>(), dst_flow, body, ext()).prop_map(
        |(drawn, dst_flow, body, (ext, named))| {
            let [int, half, advice] = named;
            let (ev, key) = (EntropyValue(drawn.0), Key(drawn.1));
            let dst_flow = match body {
                Body::Presence(Presence::Unknown { .. } | Presence::Forgotten { .. }) => {
                    FlowId::UNKNOWN
                }
                Body::Presence(_) => FlowId(dst_flow.0 | 1 << 20),
                _ => dst_flow,
            };
            let of_none = matches!(body, Body::Note(_)) && dst_flow == FlowId::UNKNOWN;
            let key = if of_none { Key::NONE } else { key };
            let mut header = Header::new(ev, dst_flow, body).keyed(key);
            let (is_data, is_ack) = match body {
                Body::Data(_) => (true, false),
                Body::Ack(_) | Body::Nack(_) => (false, true),
                _ => (false, false),
            };
            if half && is_data {
                header.ext = header.ext.with_half();
            }
            if advice && is_ack {
                header.ext = header.ext.with_advice();
            }
            if int && (is_data || is_ack || matches!(body, Body::Note(_))) {
                header.ext = header.ext.with_int(&ext.int);
            }
            (header, ext)
        },
    )
}

fn any_header() -> impl Strategy<Value = (Header, Ext)> {
    header(prop_oneof![
        data_body(),
        ack_body(),
        block_body(),
        allowance_body(),
        report_body(),
        note_body(),
        presence_body()
    ])
}

fn spec(version: IpVersion, ecn: Ecn, class: TrafficClass) -> FrameSpec {
    let addrs = Addressing::emulated(version).pair(HostId(700), HostId(3)).unwrap();
    FrameSpec { addrs, ecn, class }
}

/// A whole frame with a valid UDP checksum; acknowledgements carry no payload.
fn frame_of(spec: &FrameSpec, header: &Header, ext: &Ext, payload: &[u8]) -> Vec<u8> {
    let payload = if matches!(header.body, Body::Data(_)) { payload } else { &[] };
    let mut frame = Vec::from([0; 256]);
    let len = emit(spec, header, ext, u16::try_from(payload.len()).unwrap(), &mut frame);
    frame.truncate(len);
    let mut sum = Checksum::new();
    sum.add(payload);
    finish_udp_checksum(&mut frame, sum);
    frame.extend_from_slice(payload);
    frame
}

fn read(version: IpVersion, frame: &[u8]) -> Result<Parsed, ParseError> {
    parse(frame, &Addressing::emulated(version), UdpCheck::Required)
}

fn version() -> impl Strategy<Value = IpVersion> {
    prop_oneof![Just(IpVersion::V4), Just(IpVersion::V6)]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..200)
}

/// The octets that hops may change on the way and no end-to-end checksum covers: MACs, and in IPv6
/// the traffic class and the hop limit. Bits of octet 14 and 15 that hold the class are 0x0F and
/// 0xF0.
fn changes_on_the_way(version: IpVersion, octet: usize, bit: u8) -> bool {
    let v6 = version == IpVersion::V6;
    octet < 12
        || v6 && (octet == 21 || octet == 14 && bit & 0x0F != 0 || octet == 15 && bit & 0xF0 != 0)
}

proptest! {
    #[test]
    fn a_template_writes_the_same_octets_as_emit(
        (h, x) in any_header(), version in version(), payload in payload(), summed in any::<bool>(),
        udp_port in 1u16..,
    ) {
        let mut spec = spec(version, Ecn::Ect0, TrafficClass::Data);
        spec.addrs.udp_port = udp_port;
        let payload = if matches!(h.body, Body::Data(_)) { &payload[..] } else { &[] };
        let len = u16::try_from(payload.len()).unwrap();
        let mut sum = Checksum::new();
        sum.add(payload);
        let mut expected = [0xAA; 256];
        let end = emit(&spec, &h, &x, len, &mut expected);
        if summed {
            finish_udp_checksum(&mut expected[..end], sum);
        }
        let mut written = [0xAA; 256];
        let template = FrameTemplate::new(&spec);
        prop_assert_eq!(template.emit(&h, &x, len, summed.then_some(sum), &mut written), end);
        prop_assert_eq!(&written[..], &expected[..]);
        prop_assert_eq!(usize::from(template.overhead()), end - usize::from(h.emit_len()));
        template.seed(&mut written[..end]);
        seed_udp_checksum(&mut expected[..end]);
        prop_assert_eq!(&written[..], &expected[..]);
    }

    #[test]
    fn a_frame_in_two_pieces_reads_like_one(
        (h, x) in any_header(), version in version(), payload in payload(),
        at in any::<prop::sample::Index>(), flip in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let spec = spec(version, Ecn::Ect0, TrafficClass::Data);
        let mut frame = frame_of(&spec, &h, &x, &payload);
        if let Some(flip) = flip {
            let flip = flip.index(frame.len());
            frame[flip] ^= 1;
        }
        let headers = usize::from(header_overhead(version) + h.emit_len());
        let (head, tail) = frame.split_at(headers + at.index(frame.len() - headers + 1));
        let whole = read(version, &frame);
        let (addressing, check) = (Addressing::emulated(version), UdpCheck::Required);
        let (mut header, mut ext) = (Header::VACANT, Ext::VACANT);
        let parts = parse_into(head, tail, &addressing, check, &mut header, &mut ext);
        let in_parts = parts.map(|Envelope { route, start, payload_len, .. }| {
            (route.src, route.dst, route.ecn, route.class, header, start, payload_len)
        });
        let whole = whole.map(|p| {
            (p.src, p.dst, p.ecn, p.class, p.header, p.payload.start, p.payload_len)
        });
        // A flipped bit may have made the header longer than the first piece.
        prop_assert!(in_parts == whole || in_parts == Err(ParseError::Truncated) && flip.is_some());
        let unchecked =
            parse_into(head, tail, &addressing, UdpCheck::Skip, &mut header, &mut ext);
        let verified = verify(head, tail, &addressing, check);
        prop_assert_eq!(parts.is_ok(), unchecked.is_ok() && verified.is_ok());
    }

    #[test]
    fn a_header_survives_its_bytes((h, x) in any_header()) {
        let mut out = [0; 256];
        let len = h.emit(&x, &mut out);
        prop_assert_eq!(len, usize::from(h.emit_len()));
        let (read, ext, used) = Header::parse(h.ev, &out[..len]).unwrap();
        prop_assert_eq!((read, used), (h, len));
        prop_assert_eq!(said(&read, &ext), said(&h, &x));
        for short in 0..len {
            let cut = Header::parse(h.ev, &out[..short]).map(|(_, _, len)| len);
            prop_assert_eq!(cut, Err(ParseError::Truncated));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_are_a_header_only_if_it_emits_them(
        mut bytes in prop::collection::vec(any::<u8>(), 0..256), kind in 0u8..10, flags in 0u8..128,
    ) {
        if let [first, second, ..] = &mut bytes[..] {
            (*first, *second) = (VERSION << 4 | kind, flags);
        }
        if let Ok((h, x, len)) = Header::parse(EntropyValue(1), &bytes) {
            let mut out = [0; 256];
            prop_assert_eq!(h.emit(&x, &mut out), len);
            prop_assert_eq!(&out[..len], &bytes[..len]);
        }
    }

    #[test]
    fn a_frame_survives_its_bytes(v in version(), (h, x) in any_header(), payload in payload()) {
        for (ecn, class) in [(Ecn::Ect0, TrafficClass::Data), (Ecn::Ce, TrafficClass::Control)] {
            let spec = spec(v, ecn, class);
            let frame = frame_of(&spec, &h, &x, &payload);
            let parsed = read(v, &frame).unwrap();
            prop_assert_eq!((parsed.src, parsed.dst), (HostId(700), HostId(3)));
            prop_assert_eq!((parsed.ecn, parsed.class, parsed.header), (ecn, class, h));
            prop_assert_eq!(said(&h, &parsed.ext), said(&h, &x));
            prop_assert!(!parsed.trimmed);
            let expected = if matches!(h.body, Body::Data(_)) { &payload[..] } else { &[] };
            prop_assert_eq!(&frame[parsed.payload.clone()], expected);
            prop_assert_eq!(usize::from(parsed.payload_len), expected.len());
            let head = usize::from(header_overhead(v) + h.emit_len());
            prop_assert_eq!(parsed.payload.start, head);
            let route = route_of(&frame, &Addressing::emulated(v)).unwrap();
            prop_assert_eq!((route.src, route.dst, route.ev), (parsed.src, parsed.dst, h.ev));
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_an_error_and_never_another_packet(
        v in version(), (h, x) in any_header(), payload in payload(),
    ) {
        let frame = frame_of(&spec(v, Ecn::Ect0, TrafficClass::Data), &h, &x, &payload);
        for len in 0..frame.len() {
            prop_assert_eq!(read(v, &frame[..len]), Err(ParseError::Truncated));
        }
    }

    #[test]
    fn octets_behind_the_ip_packet_are_ignored(
        v in version(), (h, x) in any_header(), payload in payload(),
    ) {
        let mut frame = frame_of(&spec(v, Ecn::Ect0, TrafficClass::Data), &h, &x, &payload);
        let alone = read(v, &frame);
        frame.extend_from_slice(&[0xEE; 4]);
        prop_assert_eq!(read(v, &frame), alone);
    }

    #[test]
    fn a_flipped_bit_is_noticed_unless_hops_may_change_it(
        v in version(), (h, x) in any_header(), payload in payload(),
    ) {
        let frame = frame_of(&spec(v, Ecn::Ect0, TrafficClass::Data), &h, &x, &payload);
        let intact = read(v, &frame).unwrap();
        for octet in 0..frame.len() {
            for bit in (0..8).map(|shift| 1u8 << shift) {
                let mut damaged = frame.clone();
                damaged[octet] ^= bit;
                match read(v, &damaged) {
                    Err(_) => prop_assert!(!changes_on_the_way(v, octet, bit), "{octet} {bit:#x}"),
                    Ok(parsed) => {
                        prop_assert!(changes_on_the_way(v, octet, bit), "{octet} {bit:#x}");
                        let Parsed { ecn, class, .. } = parsed;
                        prop_assert_eq!(parsed, Parsed { ecn, class, ..intact.clone() });
                        prop_assert!(class != TrafficClass::Trimmed);
                    }
                }
            }
        }
    }

    #[test]
    fn arbitrary_frames_never_panic_anywhere(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300), v in version(), dress: bool,
    ) {
        if dress && bytes.len() > 80 {
            let plain = spec(v, Ecn::Ect0, TrafficClass::Trimmed);
            let h = Header::new(EntropyValue(9), FlowId(0), Body::Data(Data::VACANT));
            let head = frame_of(&plain, &h, &Ext::VACANT, &[0; 40]);
            let keep = usize::from(header_overhead(v)) + 2;
            bytes[..keep].copy_from_slice(&head[..keep]);
        }
        for check in [UdpCheck::Required, UdpCheck::IfPresent, UdpCheck::Skip] {
            let parsed = parse(&bytes, &Addressing::emulated(v), check);
            if let Ok(p) = parsed {
                prop_assert!(p.payload.end <= bytes.len());
                let mut out = [0; 256];
                let again = FrameSpec { ecn: p.ecn, class: p.class, ..spec(v, p.ecn, p.class) };
                let len = emit(&again, &p.header, &p.ext, p.payload_len, &mut out);
                let at = usize::from(header_overhead(v));
                prop_assert_eq!(&out[at..len], &bytes[at..len]);
            }
        }
        let len = bytes.len();
        prop_assert!(trim(&mut bytes.clone()) <= len);
        set_ce(&mut bytes.clone());
        set_class(&mut bytes.clone(), TrafficClass::Control);
        rewrite_header(&mut bytes.clone(), &mut |header, _| header.dst_flow = FlowId::UNKNOWN);
        finish_udp_checksum(&mut bytes.clone(), Checksum::new());
        seed_udp_checksum(&mut bytes);
    }

    #[test]
    fn a_rewritten_header_is_that_of_a_fresh_frame(
        v in version(), (old, x) in any_header(), (new, y) in any_header(), payload in payload(),
        bare: bool,
    ) {
        let spec = spec(v, Ecn::Ect0, TrafficClass::Data);
        let mut frame = frame_of(&spec, &old, &x, &payload);
        let extensible = |header: &Header| match header.body {
            Body::Data(_) => 1,
            Body::Ack(_) | Body::Nack(_) => 2,
            Body::Note(_) => 3,
            _ => 0,
        };
        let alike = extensible(&old) == extensible(&new) || old.ext == new.ext;
        let (ext, content) = if alike { (old.ext, &x) } else { (new.ext, &y) };
        let new = Header { ev: old.ev, ext, ..new };
        let mut fresh = frame_of(&spec, &new, content, &payload);
        let udp = usize::from(header_overhead(v)) - 2;
        if bare {
            frame[udp..udp + 2].fill(0);
        }
        let before = frame.clone();
        // A chain's head: the payload is elsewhere.
        let head = usize::from(header_overhead(v) + old.emit_len());
        let written = rewrite_header(&mut frame[..head], &mut |header, _| *header = new);
        prop_assert_eq!(written, new.emit_len() == old.emit_len() && new.ext == old.ext);
        if !written {
            prop_assert_eq!(frame, before);
            return Ok(());
        }
        prop_assert_eq!(header_of(&frame[..head]).map(|(header, _)| header), Ok(new));
        // Zero and 0xFFFF are the same sum, of which UDP sends the latter.
        if bare {
            fresh[udp..udp + 2].fill(0);
        }
        if matches!(old.body, Body::Data(_)) == matches!(new.body, Body::Data(_)) {
            prop_assert_eq!(frame, fresh);
        }
        let mut other = before.clone();
        prop_assert!(!rewrite_header(&mut other, &mut |header, _| header.ev.0 ^= 1));
        prop_assert_eq!(other, before);
    }

    #[test]
    fn the_content_of_extensions_is_rewritten_and_their_room_is_not(
        v in version(), (h, x) in header(data_body()), payload in payload(), room in 1u8..=8,
    ) {
        let spec = spec(v, Ecn::Ect0, TrafficClass::Data);
        let before = frame_of(&spec, &h, &x, &payload);
        let head = usize::from(header_overhead(v) + h.emit_len());
        let mut frame = before.clone();
        prop_assert!(rewrite_header(&mut frame[..head], &mut |_, ext| ext.int.clear()));
        let mut cleared = x;
        cleared.int.clear();
        prop_assert_eq!(&frame, &frame_of(&spec, &h, &cleared, &payload));
        let place = IntPlace::of(&frame);
        prop_assert_eq!(place.is_some(), h.ext.has_int());
        let glanced = |frame: &[u8]| place.and_then(|place| glance(frame, place));
        prop_assert_eq!(glanced(&before), data::Glance::of(&h, &x));
        prop_assert_eq!(glanced(&frame), data::Glance::of(&h, &cleared));
        let mut in_place = before.clone();
        let is_cleared = place.is_some_and(|place| clear_hops(&mut in_place[..head], place));
        prop_assert_eq!(is_cleared, h.ext.has_int());
        prop_assert_eq!(&in_place, &frame);
        let mut other = before.clone();
        let fits = !h.ext.has_int() || int::len_with(room) == x.int.wire_len();
        let other_room = &mut |_: &mut Header, ext: &mut Ext| ext.int = Int::with_room(room);
        prop_assert_eq!(rewrite_header(&mut other[..head], other_room), fits);
        prop_assert!(fits || other == before);
    }

    #[test]
    fn a_trimmed_frame_says_what_was_lost(
        v in version(), (h, x) in header(data_body()), payload in payload(), marked: bool,
        class in prop::sample::select(&[TrafficClass::Data, TrafficClass::Unscheduled][..]),
    ) {
        let mut frame = frame_of(&spec(v, Ecn::Ect0, class), &h, &x, &payload);
        prop_assert!(!marked || set_ce(&mut frame));
        let len = trim(&mut frame);
        let ip_len = match v {
            IpVersion::V4 => u16::from_be_bytes([frame[16], frame[17]]),
            IpVersion::V6 => u16::from_be_bytes([frame[18], frame[19]]) + v.header_len(),
        };
        prop_assert_eq!(usize::from(ETHERNET_LEN + ip_len), len);
        prop_assert_eq!(len, usize::from(header_overhead(v) + h.emit_len()));
        frame.truncate(len);
        let parsed = read(v, &frame).unwrap();
        prop_assert!(parsed.trimmed && parsed.payload.is_empty());
        prop_assert_eq!(usize::from(parsed.payload_len), payload.len());
        let ecn = if marked { Ecn::Ce } else { Ecn::Ect0 };
        prop_assert_eq!((parsed.header, parsed.ecn), (h, ecn));
        let before = frame.clone();
        prop_assert_eq!(trim(&mut frame), len);
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn a_switch_that_leaves_the_ip_length_or_some_payload_is_understood_too(
        v in version(), (h, x) in header(data_body()), payload in payload(), kept in 0usize..200,
    ) {
        let mut frame = frame_of(&spec(v, Ecn::Ect0, TrafficClass::Data), &h, &x, &payload);
        prop_assert!(set_class(&mut frame, TrafficClass::Trimmed));
        let head = frame.len() - payload.len();
        frame.truncate(head + kept.min(payload.len()));
        let parsed = read(v, &frame).unwrap();
        prop_assert!(parsed.trimmed && parsed.payload.is_empty());
        prop_assert_eq!((parsed.header, usize::from(parsed.payload_len)), (h, payload.len()));
        prop_assert_eq!(parsed.ecn, Ecn::Ect0);
    }

    #[test]
    fn only_data_is_ever_trimmed(
        v in version(),
        (h, x) in header(prop_oneof![
            ack_body(), allowance_body(), report_body(), note_body(), presence_body()
        ]),
    ) {
        let mut frame = frame_of(&spec(v, Ecn::NotEct, TrafficClass::Control), &h, &x, &[]);
        let before = frame.clone();
        prop_assert_eq!(trim(&mut frame), before.len());
        prop_assert_eq!(frame, before);
    }

    #[test]
    fn hops_in_a_frame_are_the_same_as_those_in_memory(
        v in version(), (h, mut x) in header(data_body()), payload in payload(),
        hops in prop::collection::vec(hop(), 1..4),
        summed in any::<bool>(), head_only in any::<bool>(),
    ) {
        let mut frame = frame_of(&spec(v, Ecn::Ect0, TrafficClass::Data), &h, &x, &payload);
        let sum_at = usize::from(header_overhead(v)) - 2;
        if !summed {
            frame[sum_at..sum_at + 2].fill(0);
        }
        let seen = if head_only { frame.len() - payload.len() } else { frame.len() };
        let int = h.ext.int_mut(&mut x);
        let room = int.map(|int| hops.iter().for_each(|hop| int.stamp(*hop))).is_some();
        let seen = &mut frame[..seen];
        prop_assert_eq!(IntPlace::of(seen).is_some_and(|place| stamp(seen, place, &hops)), room);
        let check = if summed { UdpCheck::Required } else { UdpCheck::IfPresent };
        let parsed = parse(&frame, &Addressing::emulated(v), check).unwrap();
        prop_assert_eq!(said(&h, &parsed.ext), said(&h, &x));
        let mut expected = frame_of(&spec(v, Ecn::Ect0, TrafficClass::Data), &h, &x, &payload);
        if !summed {
            expected[sum_at..sum_at + 2].fill(0);
        }
        prop_assert_eq!(frame, expected);
    }

    #[test]
    fn answers_are_never_stamped_by_a_switch(
        v in version(), (h, x) in header(prop_oneof![ack_body(), allowance_body()]),
    ) {
        let frame = frame_of(&spec(v, Ecn::NotEct, TrafficClass::Control), &h, &x, &[]);
        prop_assert_eq!(IntPlace::of(&frame), None);
    }

    #[test]
    fn a_mark_keeps_the_frame_valid_and_needs_ecn(
        v in version(), (h, x) in any_header(), payload in payload(),
    ) {
        for (ecn, marked) in
            [(Ecn::NotEct, false), (Ecn::Ect0, true), (Ecn::Ect1, true), (Ecn::Ce, true)]
        {
            let mut frame = frame_of(&spec(v, ecn, TrafficClass::Data), &h, &x, &payload);
            prop_assert_eq!(set_ce(&mut frame), marked);
            let seen = read(v, &frame).unwrap().ecn;
            prop_assert_eq!(seen, if marked { Ecn::Ce } else { ecn });
        }
    }
}

/// The contents of the extensions of a packet.
pub(super) fn said(header: &Header, ext: &Ext) -> (Option<Int>, Option<NonZeroU8>, Option<Advice>) {
    let extent = header.ext;
    (extent.int(ext).copied(), extent.half(ext), extent.advice(ext))
}

const ACK: Ack = Ack {
    src_flow: FlowId(1 << 20),
    psn: Psn(0),
    cumulative: Psn(0),
    sack: 0,
    echo_sent_at: 0,
    held: 0,
    ce: false,
    sharers: 1,
    receipt: Receipt::First,
};

fn plain(body: Body) -> Header {
    Header::new(EntropyValue(0xC000), FlowId::UNKNOWN, body)
}

#[test]
fn a_checksum_of_zero_is_refused_only_where_one_is_required() {
    for v in VERSIONS {
        let addressing = Addressing::emulated(v);
        let mut frame = [0; 200];
        let spec = spec(v, Ecn::Ect0, TrafficClass::Data);
        let len = emit(&spec, &plain(Body::Data(Data::VACANT)), &Ext::VACANT, 10, &mut frame) + 10;
        let read = |check| parse(&frame[..len], &addressing, check).map(|p| p.payload_len);
        assert_eq!(read(UdpCheck::Required), Err(ParseError::Checksum));
        assert_eq!(read(UdpCheck::IfPresent), Ok(10));
        assert_eq!(read(UdpCheck::Skip), Ok(10));
    }
}

#[test]
fn a_length_that_no_sender_can_write_is_refused() {
    let v = IpVersion::V6;
    let spec = spec(v, Ecn::Ect0, TrafficClass::Data);
    let mut frame = frame_of(&spec, &plain(Body::Data(Data::VACANT)), &Ext::VACANT, &[1; 9]);
    let udp_len = usize::from(header_overhead(v)) - 4;
    for (payload_len, ok) in [(PAYLOAD_LEN_MAX, true), (PAYLOAD_LEN_MAX + 1, false)] {
        frame[udp_len..udp_len + 2]
            .copy_from_slice(&(payload_len + UDP_LEN + data::LEN).to_be_bytes());
        set_class(&mut frame, TrafficClass::Trimmed);
        assert_eq!(read(v, &frame).is_ok(), ok);
    }
}

#[test]
fn a_seeded_checksum_completes_to_the_software_one() {
    for v in VERSIONS {
        let spec = spec(v, Ecn::Ect0, TrafficClass::Data);
        let software = frame_of(&spec, &plain(Body::Data(Data::VACANT)), &Ext::VACANT, &[7; 33]);
        let mut hardware = software.clone();
        seed_udp_checksum(&mut hardware);
        let udp_at = usize::from(header_overhead(v) - UDP_LEN);
        let mut sum = Checksum::new();
        sum.add(&hardware[udp_at..]);
        hardware[udp_at + 6..udp_at + 8].copy_from_slice(&sum.finish().to_be_bytes());
        assert_eq!(hardware, software);
    }
}

#[test]
fn what_is_not_headrace_is_named() {
    let ack = frame_of(
        &spec(IpVersion::V4, Ecn::NotEct, TrafficClass::Control),
        &plain(Body::Ack(ACK)),
        &Ext::VACANT,
        &[],
    );
    let with = |at: usize, value: u8| {
        let mut frame = ack.clone();
        frame[at] = value;
        frame[24..26].fill(0);
        let mut sum = Checksum::new();
        sum.add(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.finish().to_be_bytes());
        parse(&frame, &Addressing::emulated(IpVersion::V4), UdpCheck::Skip).map(|_| ())
    };
    assert_eq!(with(14, 0x45), Ok(()));
    assert_eq!(with(12, 0x81), Err(ParseError::NotHeadrace), "ethertype");
    assert_eq!(with(14, 0x46), Err(ParseError::NotHeadrace), "options");
    assert_eq!(with(20, 0x20), Err(ParseError::NotHeadrace), "fragment");
    assert_eq!(with(23, 6), Err(ParseError::NotHeadrace), "TCP");
    assert_eq!(with(37, 0xB7), Err(ParseError::Port), "RoCEv2");
    assert_eq!(with(26, 11), Err(ParseError::Address), "source 11.x");
    assert_eq!(with(42, 0x11), Err(ParseError::Version));
    assert_eq!(with(42, 0x2F), Err(ParseError::Kind));
    assert_eq!(with(43, 0x80), Err(ParseError::Field), "flag");
    assert_eq!(with(43, 8), Err(ParseError::Truncated), "telemetry that is not there");
    assert_eq!(with(15, TrafficClass::Trimmed.dscp() << 2), Err(ParseError::Field), "trimmed ack");
}

#[test]
fn a_frame_is_read_at_the_port_that_it_goes_to_and_nowhere_else() {
    for version in VERSIONS {
        let here = Addressing::emulated(version).with_udp_port(5000);
        let addrs = here.pair(HostId(700), HostId(3)).unwrap();
        let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Data };
        let mut frame = frame_of(&spec, &plain(Body::Data(Data::VACANT)), &Ext::VACANT, &[7; 100]);
        let at = usize::from(header_overhead(version) - UDP_LEN) + 2;
        assert_eq!(frame[at..at + 2], 5000u16.to_be_bytes());
        let there = Addressing::emulated(version);
        assert_eq!(route_of(&frame, &here).unwrap().src, HostId(700));
        assert_eq!(route_of(&frame, &there), Err(ParseError::Port));
        assert_eq!(parse(&frame, &there, UdpCheck::Required), Err(ParseError::Port));
        let whole = parse(&frame, &here, UdpCheck::Required).unwrap();
        let len = trim(&mut frame);
        let cut = parse(&frame[..len], &here, UdpCheck::Required).unwrap();
        assert_eq!((cut.header, cut.trimmed, cut.payload_len), (whole.header, true, 100));
    }
}

#[test]
fn the_path_of_a_frame_is_in_all_that_holds_its_outer_headers() {
    for version in VERSIONS {
        let spec = spec(version, Ecn::NotEct, TrafficClass::Control);
        let mut frame = frame_of(&spec, &plain(Body::Ack(ACK)), &Ext::VACANT, &[]);
        let ev = plain(Body::Ack(ACK)).ev;
        for len in 0..frame.len() {
            let there = len >= usize::from(header_overhead(version));
            assert_eq!(source_port(&frame[..len]), there.then_some(ev), "{version:?} {len}");
        }
        frame[12] ^= 0x40;
        assert_eq!(source_port(&frame), None, "not IP");
    }
}

#[test]
fn every_class_has_its_own_code_point_two_flips_from_any_other() {
    for a in TrafficClass::ALL {
        assert_eq!(TrafficClass::of_dscp(a.dscp()), a);
        assert_eq!(a.dscp() & 3, 3, "local-use pool");
        for b in TrafficClass::ALL {
            assert!(a == b || (a.dscp() ^ b.dscp()).count_ones() >= 2, "{a:?} {b:?}");
            assert!(a >= b || a.dscp() < b.dscp(), "{a:?} {b:?}");
        }
    }
    assert_eq!(TrafficClass::of_dscp(0), TrafficClass::Data);
}

#[test]
fn a_note_has_at_most_32_octets_and_an_even_number_of_them() {
    assert_eq!(Note::new(1, &[7; 33]), None);
    let note = Note::new(1, &[7; 3]).unwrap();
    assert_eq!(note.said(), [7, 7, 7, 0]);
    let mut out = [0; 64];
    let len = plain(Body::Note(note)).emit(&Ext::default(), &mut out);
    let read =
        |out: &[u8]| Header::parse(EntropyValue(0xC000), out).map(|(header, _, len)| (header, len));
    assert_eq!(read(&out[..len]), Ok((plain(Body::Note(note)), 14)));
    for (octet, value) in [(6, 3), (8, 3), (8, 34), (9, 1), (1, 1)] {
        let mut damaged = out;
        damaged[octet] = value;
        assert_eq!(read(&damaged), Err(ParseError::Field), "octet {octet}");
    }
}
