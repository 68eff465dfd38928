//! docs/WIRE.md against the code: every table of fields is laid out again from its offsets and
//! sizes, filled with known values, and must give the very octets that the code emits.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::num::{NonZeroU8, NonZeroU32};

use super::addressing::{Addressing, IpVersion};
use super::frame::*;
use super::*;
use crate::units::HostId;

const WIRE_MD: &str = include_str!("../../../docs/WIRE.md");

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
    Header { ev: EntropyValue(0xCAFE), dst_flow: FlowId(0x0BAD_CAFE), body: Body::Data(data) }
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
    let mut out = vec![0; 64];
    let len = header.emit(&mut out);
    out.truncate(len);
    out
}

#[test]
fn data_and_its_extensions_lie_where_the_document_says() {
    let mut expected = laid_out(
        "DATA",
        &[
            ("version and kind", vec![0x10]),
            ("flags", vec![7]),
            ("dst_flow", be(0x0BAD_CAFE)),
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
        data.code = NonZeroU8::new(8).map(|data| Coded { data, parity: 2, packet });
    }
    header
}

#[test]
fn a_place_in_a_block_lies_where_the_document_says_behind_all_else() {
    for (packet, kind) in [(7, 0x10), (9, 0x15)] {
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

#[test]
fn requests_for_a_block_lie_where_the_document_says() {
    let nack = BlockNack { src_flow: SRC_FLOW, psn: Psn(0x1122_3344), missing: TAG };
    let expected = laid_out(
        "BLOCK_NACK",
        &[
            ("version and kind", vec![0x16]),
            ("flags", vec![0]),
            ("dst_flow", be(0x0BAD_CAFE)),
            ("src_flow", be(0x6781_2345)),
            ("psn", be(0x1122_3344)),
            ("missing", TAG.to_be_bytes().into()),
        ],
    );
    let body = Body::BlockNack(nack);
    let header = Header { ev: EntropyValue(1), dst_flow: FlowId(0x0BAD_CAFE), body };
    assert_eq!(emitted(&header), expected);
}

#[test]
fn allowances_lie_where_the_document_says() {
    let upto = Credit::new(0x99AA_BBCC).unwrap();
    let allowance = Allowance { src_flow: SRC_FLOW, upto };
    for (kind, body) in [(0x13, Body::Credit(allowance)), (0x14, Body::Request(allowance))] {
        let expected = laid_out(
            "CREDIT and REQUEST",
            &[
                ("version and kind", vec![kind]),
                ("flags", vec![0]),
                ("dst_flow", be(0x0BAD_CAFE)),
                ("src_flow", be(0x6781_2345)),
                ("upto", be(0x99AA_BBCC)),
            ],
        );
        let header = Header { ev: EntropyValue(1), dst_flow: FlowId(0x0BAD_CAFE), body };
        assert_eq!(emitted(&header), expected);
    }
}

#[test]
fn acknowledgements_lie_where_the_document_says() {
    for (kind, body) in [(0x11, Body::Ack(ack())), (0x12, Body::Nack(ack()))] {
        let expected = laid_out(
            "ACK and NACK",
            &[
                ("version and kind", vec![kind]),
                ("flags", vec![5]),
                ("dst_flow", be(0x0BAD_CAFE)),
                ("src_flow", be(0x6781_2345)),
                ("psn", be(0x1122_3344)),
                ("cumulative", be(0x5566_7788)),
                ("sack", TAG.to_be_bytes().into()),
                ("echo_sent_at", be(0x99AA_BBCC)),
                ("held", be(0xDDEE_FF01)),
                ("sharers", vec![0xBE, 0xEF]),
            ],
        );
        let header = Header { ev: EntropyValue(1), dst_flow: FlowId(0x0BAD_CAFE), body };
        assert_eq!(emitted(&header), expected);
    }
}

/// All headers of a DATA frame of class Control with ECT(0) and 256 octets of payload from host 257
/// to 2.
fn frame(version: IpVersion) -> Vec<u8> {
    let addrs = Addressing::emulated(version).pair(HostId(257), HostId(2)).unwrap();
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Control };
    let mut out = vec![0; 128];
    let len = emit(&spec, &data(false, 0), 256, &mut out);
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
            ("length", (8u16 + 22 + 256).to_be_bytes().into()),
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
            ("total length", (20u16 + 8 + 22 + 256).to_be_bytes().into()),
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
            ("payload length", (8u16 + 22 + 256).to_be_bytes().into()),
            ("next header", vec![17]),
            ("hop limit", vec![64]),
            ("source address", address(258)),
            ("destination address", address(3)),
        ],
    );
    assert_eq!(frame(IpVersion::V6), documented(IpVersion::V6, ip));
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
        row("DATA or PARITY headers, all extensions", coded(0).emit_len()),
        row("ACK or NACK frame", ack.emit_len()),
        row("BLOCK_NACK frame", block::LEN),
        row("CREDIT or REQUEST frame", credit::LEN),
    ];
    assert_eq!(table("Sizes"), expected);
    assert!(WIRE_MD.contains(&format!("14..46            1..{PAYLOAD_LEN_MAX}")));
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
        ParseError::Field,
    ];
    let named: Vec<String> = table("What a receiver refuses")
        .iter()
        .flat_map(|row| row[0].split(", ").map(String::from).collect::<Vec<_>>())
        .collect();
    assert_eq!(named, all.map(|error| format!("{error:?}")));
}
