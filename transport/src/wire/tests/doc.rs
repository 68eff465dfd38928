//! docs/WIRE.md against the code: every table of fields is laid out again from its offsets and
//! sizes, filled with known values, and must give the very octets that the code emits.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::num::{NonZeroU8, NonZeroU32};

use super::addressing::{Addressing, IpVersion};
use super::advice::Advice;
use super::int::{Hop, Int};
use super::*;
use crate::time::{Instant, Rate};
use crate::units::{Bytes, HostId};

const WIRE_MD: &str = include_str!("../../../../docs/WIRE.md");

/// The cells of the first table under `heading`, without its two header rows.
fn table(heading: &str) -> Vec<Vec<String>> {
    let after = WIRE_MD.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading);
    let section = after.skip(1).take_while(|line| !line.starts_with('#'));
    let is_row = |line: &&str| line.starts_with("| ") || line.starts_with("|--");
    let rows = section.skip_while(|line| !is_row(line)).take_while(is_row).skip(2);
    let cells =
        |row: &str| row.trim_matches('|').split('|').map(|c| c.trim().to_string()).collect();
    rows.map(cells).collect()
}

/// Lays the fields of the table under `heading` out at their documented places.
fn laid_out(heading: &str, values: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let rows = table(heading);
    let names: Vec<&str> = rows.iter().map(|row| row[2].as_str()).collect();
    let expected: Vec<&str> = values.iter().map(|value| value.0).collect();
    assert_eq!(names, expected, "fields under {heading}");
    let mut out = Vec::new();
    for (row, (name, value)) in rows.iter().zip(values) {
        let (offset, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(offset, out.len(), "offset of {name} under {heading}");
        assert_eq!(size, value.len(), "size of {name} under {heading}");
        out.extend_from_slice(value);
    }
    out
}

fn be(value: u32) -> Vec<u8> {
    value.to_be_bytes().into()
}

const SRC_FLOW: FlowId = FlowId::new(0x1_2345, 0x678);
const TAG: u64 = 0x0102_0304_0506_0708;
const KEY: u64 = 0x1011_1213_1415_1617;

/// A header of a flow with a key.
const NAMED: Header = Header { dst_flow: FlowId(0x0BAD_CAFE), key: Key(KEY), ..Header::VACANT };

fn data(open: bool, tag: u64) -> Header {
    let msg_len = NonZeroU32::MIN.saturating_add(0x7162_5343);
    let open = open.then_some(Open { src_flow: SRC_FLOW, msg_len });
    let data = Data {
        psn: Psn(0x1122_3344),
        msg: MsgNo(0x5566_7788),
        offset: 0x99AA_BBCC,
        sent_at: 0xDDEE_FF01,
        retransmission: true,
        open,
        tag,
        demand: None,
        code: None,
    };
    Header { ev: EntropyValue(0xCAFE), body: Body::Data(data), ..NAMED }
}

fn ack() -> Ack {
    Ack {
        src_flow: SRC_FLOW,
        psn: Psn(0x1122_3344),
        cumulative: Psn(0x5566_7788),
        sack: TAG,
        echo_sent_at: 0x99AA_BBCC,
        held: 0xDDEE_FF01,
        ce: true,
        sharers: 0xBEEF,
        receipt: Receipt::Decoded,
    }
}

fn emitted(header: &Header) -> Vec<u8> {
    emitted_with(header, &Ext::VACANT)
}

fn emitted_with(header: &Header, ext: &Ext) -> Vec<u8> {
    let mut out = vec![0; 256];
    let len = header.emit(ext, &mut out);
    out.truncate(len);
    out
}

#[test]
fn data_and_its_extensions_lie_where_the_document_says() {
    let mut expected = laid_out(
        "DATA",
        &[
            ("version and kind", vec![0x20]),
            ("flags", vec![7]),
            ("dst_flow", be(0x0BAD_CAFE)),
            ("key", KEY.to_be_bytes().into()),
            ("psn", be(0x1122_3344)),
            ("msg", be(0x5566_7788)),
            ("offset", be(0x99AA_BBCC)),
            ("sent_at", be(0xDDEE_FF01)),
        ],
    );
    let open = [("src_flow", be(0x6781_2345)), ("msg_len", be(0x7162_5344))];
    expected.extend(laid_out("OPEN extension", &open));
    expected.extend(laid_out("TAG extension", &[("tag", TAG.to_be_bytes().into())]));
    assert_eq!(emitted(&data(true, TAG)), expected);
}

#[test]
fn a_demand_lies_where_the_document_says_behind_all_else() {
    let demand = laid_out("DEMAND extension", &[("demand", be(0xFEDC_BA98))]);
    let mut header = data(true, TAG);
    let mut expected = emitted(&header);
    expected[1] |= 8;
    expected.extend(demand);
    if let Body::Data(data) = &mut header.body {
        data.demand = Credit::new(0xFEDC_BA98);
    }
    assert_eq!(emitted(&header), expected);
}

fn coded(packet: u8) -> Header {
    let mut header = data(true, TAG);
    if let Body::Data(data) = &mut header.body {
        data.demand = Credit::new(0xFEDC_BA98);
        data.code = Coded::new(NonZeroU8::MIN, 8, 2, packet);
    }
    header
}

#[test]
fn a_place_in_a_block_lies_where_the_document_says_behind_all_else() {
    for (packet, kind) in [(7, 0x20), (9, 0x25)] {
        let places =
            [("code", vec![1]), ("data", vec![8]), ("parity", vec![2]), ("packet", vec![packet])];
        let mut header = coded(packet);
        let with = emitted(&header);
        if let Body::Data(data) = &mut header.body {
            data.code = None;
        }
        let mut expected = emitted(&header);
        (expected[0], expected[1]) = (kind, expected[1] | 16);
        expected.extend(laid_out("CODE extension", &places));
        assert_eq!(with, expected);
    }
}

/// Room for two hops, one of them written.
fn telemetry() -> Int {
    let mut int = Int::with_room(2);
    let at = Instant::from_ps(0x99AA_BBCC * 1000);
    let (sent, waiting) = (Bytes(0x1122_3344 * 64), Bytes(0x5566_7788 * 64));
    int.stamp(Hop::new(at, sent, waiting, Rate::from_gbps(400), 0xBEEF));
    int
}

fn telemetry_octets() -> Vec<u8> {
    let head = [("room", vec![2]), ("used", vec![1]), ("flags", vec![0]), ("reserved", vec![0])];
    let mut octets = laid_out("INT extension", &head);
    octets.extend(laid_out(
        "Hops of INT",
        &[
            ("time", be(0x99AA_BBCC)),
            ("sent", be(0x1122_3344)),
            ("waiting", be(0x5566_7788)),
            ("rate", 4000u16.to_be_bytes().into()),
            ("port", vec![0xBE, 0xEF]),
        ],
    ));
    octets.extend([0; 16]);
    octets
}

#[test]
fn telemetry_and_a_half_lie_where_the_document_says_behind_all_else() {
    let ext = Ext { int: telemetry(), half: NonZeroU8::MAX, ..Ext::VACANT };
    let mut header = coded(7);
    let mut expected = emitted(&header);
    header.ext = Extent::NONE.with_int(&ext.int).with_half();
    expected[1] |= 32 | 64;
    let half = [("half", vec![255]), ("reserved", vec![0])];
    expected.extend(laid_out("HALF extension", &half));
    expected.extend(telemetry_octets());
    assert_eq!(emitted_with(&header, &ext), expected);
}

#[test]
fn advice_and_an_echo_lie_where_the_document_says_behind_an_acknowledgement() {
    let values = [0x0102_0304, 0x0506_0708];
    let advice = Advice { half: NonZeroU8::MAX, number: 0xCAFE, values };
    let ext = Ext { int: telemetry(), advice, ..Ext::VACANT };
    let mut header = Header { body: Body::Ack(ack()), ..data(false, 0) };
    let mut expected = emitted(&header);
    header.ext = Extent::NONE.with_int(&ext.int).with_advice();
    expected[1] |= 8 | 16;
    expected.extend(laid_out(
        "ADVICE extension",
        &[
            ("half", vec![255]),
            ("reserved", vec![0]),
            ("number", vec![0xCA, 0xFE]),
            ("values", TAG.to_be_bytes().into()),
        ],
    ));
    expected.extend(telemetry_octets());
    assert_eq!(emitted_with(&header, &ext), expected);
}

#[test]
fn requests_for_a_block_lie_where_the_document_says() {
    let nack = BlockNack { src_flow: SRC_FLOW, psn: Psn(0x1122_3344), missing: TAG };
    let expected = laid_out(
        "BLOCK_NACK",
        &[
            ("version and kind", vec![0x26]),
            ("flags", vec![0]),
            ("dst_flow", be(0x0BAD_CAFE)),
            ("key", KEY.to_be_bytes().into()),
            ("src_flow", be(0x6781_2345)),
            ("psn", be(0x1122_3344)),
            ("missing", TAG.to_be_bytes().into()),
        ],
    );
    let body = Body::BlockNack(nack);
    let header = Header { body, ..NAMED };
    assert_eq!(emitted(&header), expected);
}

#[test]
fn allowances_lie_where_the_document_says() {
    let upto = Credit::new(0x99AA_BBCC).unwrap();
    let allowance = Allowance { src_flow: SRC_FLOW, upto };
    for (kind, body) in [(0x23, Body::Credit(allowance)), (0x24, Body::Request(allowance))] {
        let expected = laid_out(
            "CREDIT and REQUEST",
            &[
                ("version and kind", vec![kind]),
                ("flags", vec![0]),
                ("dst_flow", be(0x0BAD_CAFE)),
                ("key", KEY.to_be_bytes().into()),
                ("src_flow", be(0x6781_2345)),
                ("upto", be(0x99AA_BBCC)),
            ],
        );
        let header = Header { body, ..NAMED };
        assert_eq!(emitted(&header), expected);
    }
}

#[test]
fn reports_lie_where_the_document_says() {
    let report = Report { first: Psn(0x1122_3340), arrived: [0x5566_7788; 8] };
    let expected = laid_out(
        "REPORT",
        &[
            ("version and kind", vec![0x28]),
            ("flags", vec![0]),
            ("dst_flow", be(0x0BAD_CAFE)),
            ("key", KEY.to_be_bytes().into()),
            ("first", be(0x1122_3340)),
            ("arrived", be(0x5566_7788).repeat(8)),
        ],
    );
    let body = Body::Report(report);
    let header = Header { body, ..NAMED };
    assert_eq!(emitted(&header), expected);
}

#[test]
fn presences_lie_where_the_document_says() {
    let named = FlowId(0x1122_3344);
    for (step, dst_flow, presence, said) in [
        (0, FlowId::UNKNOWN, Presence::Unknown { named }, named.0),
        (1, FlowId::UNKNOWN, Presence::Forgotten { named }, named.0),
        (2, NAMED.dst_flow, Presence::Keep, 0),
        (3, NAMED.dst_flow, Presence::Prove { cookie: 0x1122_3344 << 32 }, 0x1122_3344),
        (4, NAMED.dst_flow, Presence::Proof { cookie: 0x1122_3344 << 32 }, 0x1122_3344),
        (5, NAMED.dst_flow, Presence::Refused, 0),
    ] {
        let expected = laid_out(
            "PRESENCE",
            &[
                ("version and kind", vec![0x29]),
                ("step", vec![step]),
                ("dst_flow", be(dst_flow.0)),
                ("key", KEY.to_be_bytes().into()),
                ("named", be(said)),
                ("reserved", be(0)),
            ],
        );
        let header = Header { dst_flow, body: Body::Presence(presence), ..NAMED };
        assert_eq!(emitted(&header), expected);
        let (read, _, _) = Header::parse(header.ev, &expected).unwrap();
        assert_eq!(read, header);
        // Another step; then something reserved, and a flow or a name where the step has none, or
        // none where it has one.
        let wrong = match step {
            0 | 1 => vec![(18, be(1)), (2, be(0x0BAD_CAFE)), (14, be(0))],
            3 | 4 => vec![(2, be(0)), (2, be(0xFFFFF))],
            _ => vec![(18, be(1)), (2, be(0)), (14, be(0x0BAD_CAFE))],
        };
        for (at, octets) in wrong.into_iter().chain([(1, vec![6])]) {
            let mut packet = expected.clone();
            packet[at..at + octets.len()].copy_from_slice(&octets);
            assert!(Header::parse(header.ev, &packet).is_err(), "step {step}, octet {at}");
        }
    }
}

#[test]
fn notes_lie_where_the_document_says() {
    let note = Note::new(0x99, &[0xAB; 6]).unwrap();
    let note = Note { class: TrafficClass::Probe, ..note };
    let mut expected = laid_out(
        "NOTE",
        &[
            ("version and kind", vec![0x27]),
            ("flags", vec![0]),
            ("dst_flow", be(0x0BAD_CAFE)),
            ("class", vec![2]),
            ("protocol", vec![0x99]),
            ("length", vec![6]),
            ("reserved", vec![0]),
        ],
    );
    expected.extend(KEY.to_be_bytes());
    expected.extend([0xAB; 6]);
    let body = Body::Note(note);
    assert_eq!(emitted(&Header { body, ..NAMED }), expected);
    // A note for a host is of no flow: it has neither name nor key.
    expected[2..6].fill(0);
    expected.drain(10..18);
    assert_eq!(emitted(&Header { dst_flow: FlowId::UNKNOWN, body, ..NAMED }), expected);
}

#[test]
fn acknowledgements_lie_where_the_document_says() {
    for (kind, body) in [(0x21, Body::Ack(ack())), (0x22, Body::Nack(ack()))] {
        let expected = laid_out(
            "ACK and NACK",
            &[
                ("version and kind", vec![kind]),
                ("flags", vec![5]),
                ("dst_flow", be(0x0BAD_CAFE)),
                ("key", KEY.to_be_bytes().into()),
                ("src_flow", be(0x6781_2345)),
                ("psn", be(0x1122_3344)),
                ("cumulative", be(0x5566_7788)),
                ("sack", TAG.to_be_bytes().into()),
                ("echo_sent_at", be(0x99AA_BBCC)),
                ("held", be(0xDDEE_FF01)),
                ("sharers", vec![0xBE, 0xEF]),
            ],
        );
        let header = Header { body, ..NAMED };
        assert_eq!(emitted(&header), expected);
    }
}

/// All headers of a DATA frame of class Control with ECT(0) and 256 octets of payload from host 257
/// to 2.
fn frame(version: IpVersion) -> Vec<u8> {
    let addrs = Addressing::emulated(version).pair(HostId(257), HostId(2)).unwrap();
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Control };
    let mut out = vec![0; 128];
    let len = emit(&spec, &data(false, 0), &Ext::VACANT, 256, &mut out);
    out.truncate(len);
    out
}

/// The front of [`frame`] as the document describes it, up to the UDP header.
fn documented(version: IpVersion, ip: Vec<u8>) -> Vec<u8> {
    let ethertype = if version == IpVersion::V4 { [0x08, 0x00] } else { [0x86, 0xDD] };
    let mut expected = laid_out(
        "Ethernet",
        &[
            ("destination MAC", vec![0x02, 0x48, 0, 0, 0, 2]),
            ("source MAC", vec![0x02, 0x48, 0, 0, 1, 1]),
            ("ethertype", ethertype.into()),
        ],
    );
    expected.extend(ip);
    expected.extend(laid_out(
        "UDP",
        &[
            ("source port", vec![0xCA, 0xFE]),
            ("destination port", 4797u16.to_be_bytes().into()),
            ("length", (8u16 + 30 + 256).to_be_bytes().into()),
            ("checksum", vec![0, 0]),
        ],
    ));
    expected.extend(emitted(&data(false, 0)));
    expected
}

#[test]
fn an_ipv4_frame_is_laid_out_as_documented() {
    let frame = frame(IpVersion::V4);
    let ip = laid_out(
        "IPv4",
        &[
            ("version and IHL", vec![0x45]),
            ("DSCP and ECN", vec![27 << 2 | 2]),
            ("total length", (20u16 + 8 + 30 + 256).to_be_bytes().into()),
            ("identification", vec![0, 0]),
            ("flags and fragment offset", vec![0x40, 0]),
            ("TTL", vec![64]),
            ("protocol", vec![17]),
            ("header checksum", frame[24..26].into()),
            ("source address", vec![10, 0, 1, 4]),
            ("destination address", vec![10, 0, 0, 3]),
        ],
    );
    assert_eq!(frame, documented(IpVersion::V4, ip));
}

#[test]
fn an_ipv6_frame_is_laid_out_as_documented() {
    let address = |last: u16| {
        let mut octets = vec![0xfd, 0x48, 0x65, 0x61, 0x64, 0x72, 0, 0, 0, 0, 0, 0, 0, 0];
        octets.extend_from_slice(&last.to_be_bytes());
        octets
    };
    let ip = laid_out(
        "IPv6",
        &[
            ("version, traffic class, flow label", be(6 << 28 | (27 << 2 | 2) << 20 | 0xCAFE)),
            ("payload length", (8u16 + 30 + 256).to_be_bytes().into()),
            ("next header", vec![17]),
            ("hop limit", vec![64]),
            ("source address", address(258)),
            ("destination address", address(3)),
        ],
    );
    assert_eq!(frame(IpVersion::V6), documented(IpVersion::V6, ip));
}

#[test]
fn a_seal_lies_where_the_document_says() {
    let value = seal::Seal { encrypted: true, key: 9, number: 0x0102_0304_0506, start: TAG };
    let mut octets = [0; seal::LEN as usize];
    octets[..seal::TAG_LEN].fill(0xEE);
    value.emit(&mut octets);
    let expected = laid_out(
        "Seal",
        &[
            ("tag", vec![0xEE; 16]),
            ("mode", vec![1]),
            ("key", vec![9]),
            ("number", vec![1, 2, 3, 4, 5, 6]),
            ("start", TAG.to_be_bytes().into()),
        ],
    );
    assert_eq!(octets[..], expected);
}

#[test]
fn the_table_of_sizes_is_right() {
    let [v4, v6] = [IpVersion::V4, IpVersion::V6].map(header_overhead);
    let ack = Header { body: Body::Ack(ack()), ..data(false, 0) };
    let row =
        |what: &str, len: u16| vec![what.into(), format!("{}", v4 + len), format!("{}", v6 + len)];
    let plain = data(false, 0).emit_len();
    let longest = data(true, 1).emit_len();
    let expected: Vec<Vec<String>> = vec![
        row("in front of the Headrace header", 0),
        row("DATA headers", plain),
        row("DATA headers, OPEN", data(true, 0).emit_len()),
        row("DATA headers, TAG", data(false, 1).emit_len()),
        row("DATA headers, OPEN and TAG", longest),
        row("DATA frame with 4096 octets of payload", plain + 4096),
        row("trimmed DATA frame", plain),
        row("trimmed DATA frame, OPEN and TAG", longest),
        row("DATA headers, DEMAND", plain + data::DEMAND_LEN),
        row("DATA or PARITY headers, CODE", plain + data::CODE_LEN),
        row("DATA or PARITY headers, HALF", plain + half::LEN),
        row("DATA or PARITY headers, INT with room for 3 hops", plain + int::len_with(3)),
        row("DATA or PARITY headers, INT with room for 8 hops", plain + int::len_with(8)),
        row("DATA or PARITY headers, all extensions", data::LEN_MAX),
        row("ACK or NACK frame", ack.emit_len()),
        row("ACK or NACK frame, ADVICE", ack.emit_len() + advice::LEN),
        row("ACK or NACK frame, INT with 3 hops", ack.emit_len() + int::len_with(3)),
        row("ACK or NACK frame, all extensions", ack.emit_len() + ext::LEN_MAX),
        row("BLOCK_NACK frame", block::LEN),
        row("CREDIT or REQUEST frame", credit::LEN),
        row("REPORT frame", report::LEN),
        row("PRESENCE frame", presence::LEN),
        row("NOTE frame for a host with 32 octets", note::LEN + 32),
        row("NOTE frame for a flow with 32 octets", note::LEN + KEY_LEN + 32),
    ];
    assert_eq!(table("Sizes"), expected);
    assert!(
        WIRE_MD
            .contains(&format!("10..{}           1..{PAYLOAD_LEN_MAX}", ack::LEN + ext::LEN_MAX))
    );
    assert!(WIRE_MD.contains(&format!("Port {} is", addressing::UDP_PORT)));
    assert!(WIRE_MD.contains(&format!("h < {}", Addressing::EMULATED_V4_HOSTS)));
}

#[test]
fn the_table_of_classes_is_right() {
    let documented: Vec<(String, String)> =
        table("Traffic classes").iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let coded: Vec<(String, String)> =
        TrafficClass::ALL.iter().map(|c| (format!("{c:?}"), c.dscp().to_string())).collect();
    assert_eq!(documented, coded);
}

#[test]
fn every_parse_error_is_documented_and_no_other() {
    let all = [
        ParseError::Truncated,
        ParseError::NotHeadrace,
        ParseError::Port,
        ParseError::Address,
        ParseError::Checksum,
        ParseError::Version,
        ParseError::Kind,
        ParseError::Sealed,
        ParseError::Field,
    ];
    let named: Vec<String> = table("What a receiver refuses")
        .iter()
        .flat_map(|row| row[0].split(", ").map(String::from).collect::<Vec<_>>())
        .collect();
    assert_eq!(named, all.map(|error| format!("{error:?}")));
}
