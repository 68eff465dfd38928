//! The Wireshark dissector agrees with our own parser on every packet.
//!
//! A capture of every kind with every combination of its flags and extensions, over IPv4 and IPv6,
//! whole and trimmed, goes through tshark; each field is compared. Without tshark the tests say so
//! and check nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

#[path = "dissector/pods.rs"]
mod pods;
#[cfg(feature = "dpdk")]
#[path = "dissector/sealed.rs"]
mod sealed;

use std::collections::BTreeMap;
use std::num::{NonZeroU8, NonZeroU32};
use std::path::PathBuf;
use std::process::Command;

use experiments::capture::pcapng::{Direction, Interface, Packet, StampUnit, Writer};
use transport::units::{Bytes, Credit, Key};
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::advice::Advice;
use transport::wire::checksum::Checksum;
use transport::wire::dcpim::{MatchStep, Offer};
use transport::wire::frame::{self, Ecn, FrameSpec, TrafficClass, UdpCheck};
use transport::wire::int::{Hop, Int};
use transport::wire::note::KEYED;
use transport::wire::pod::RTS;
use transport::wire::sim::Sim;
use transport::wire::{
    Ack, Allowance, BlockNack, Body, Coded, Data, Ext, Header, Note, Open, Presence, Receipt,
    Report,
};
use transport::{EntropyValue, FlowId, HostId, Instant, MsgNo, Psn, Rate, Rng};

use pods::{of_pods, pod_numbers};

/// Fields that are numbers, in the order asked for.
const NUMBERS: [&str; 89] = [
    "kind",
    "ev",
    "dst_flow",
    "key",
    "src_flow",
    "psn",
    "msg",
    "offset",
    "sent_at",
    "msg_len",
    "tag",
    "demand",
    "half",
    "advice_number",
    "int_room",
    "int_used",
    "int_flags",
    "hop_time",
    "hop_sent",
    "hop_rate",
    "hop_port",
    "code",
    "block_data",
    "block_parity",
    "block_packet",
    "missing",
    "cumulative",
    "sack",
    "echo_sent_at",
    "held",
    "sharers",
    "upto",
    "step",
    "named",
    "cookie",
    "first",
    "class",
    "protocol",
    "length",
    "pod_proof",
    "pod_run",
    "pod_hosts",
    "pod_epoch_cells",
    "pod_payload",
    "pod_cell",
    "pod_control",
    "pod_kbps",
    "pod_hop",
    "pod_guard",
    "pod_delay",
    "pod_early",
    "pod_term",
    "pod_epoch",
    "pod_flags",
    "pod_to",
    "pod_total",
    "pod_arrived",
    "pod_mice",
    "pod_mouse",
    "pod_agg",
    "pod_layer",
    "pod_cells",
    "pod_granted_cells_to",
    "pod_sent_in",
    "pod_granted_to",
    "pod_granted",
    "pod_paused",
    "pod_host",
    "pod_flow",
    "pod_first",
    "pod_delivered",
    "pod_delivered_few",
    "pod_delivered_more",
    "pod_late",
    "pod_arrived_in",
    "pod_also",
    "pod_further",
    "sim_number",
    "sim_nonce",
    "match_step",
    "match_channels",
    "match_early",
    "match_round",
    "match_stage",
    "match_left",
    "match_flow",
    "match_place",
    "match_asked",
    "match_granted",
];

/// Ports that Wireshark takes for those of other protocols, and others.
const PORTS: [u16; 6] = [53, 4791, 4797, 5353, 0, 65_535];

/// A frame, and the values that have to be read from it.
struct Sample {
    frame: Vec<u8>,
    numbers: BTreeMap<&'static str, u64>,
    flags: u64,
    payload_len: Option<u64>,
    trimmed: bool,
}

fn flow(rng: &mut Rng) -> FlowId {
    let [index, generation] = [1 << 20, u64::from(FlowId::GENERATION_MAX)];
    FlowId::new(small(rng.below(index)), 1 + small(rng.below(generation)))
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap()
}

fn word(rng: &mut Rng) -> u32 {
    small(rng.next_u64() >> 32)
}

/// Every kind with every combination of its flags and extensions.
fn bodies(rng: &mut Rng) -> Vec<Body> {
    let mut bodies = Vec::new();
    for bits in 0..48u8 {
        let has = |bit: u8| bits & bit != 0;
        bodies.push(Body::Data(Data {
            psn: Psn(word(rng)),
            msg: MsgNo(word(rng)),
            offset: word(rng),
            sent_at: word(rng),
            retransmission: has(4),
            open: has(1).then(|| Open {
                src_flow: flow(rng),
                msg_len: NonZeroU32::new(1 + word(rng) / 2).unwrap(),
            }),
            tag: if has(2) { rng.next_u64() | 1 } else { 0 },
            demand: if has(8) { Credit::new(1 + word(rng) / 2) } else { None },
            // A segment in one half of the cases, parity in the other.
            code: (bits >= 16).then(|| {
                let packet = bits % 8 + if bits >= 32 { 8 - bits % 8 } else { 0 };
                Coded::new(NonZeroU8::MIN, 8, 2, packet).unwrap()
            }),
        }));
    }
    for bits in 0..12u8 {
        let receipts = [Receipt::First, Receipt::Again, Receipt::Decoded];
        let ack = Ack {
            src_flow: flow(rng),
            psn: Psn(word(rng)),
            cumulative: Psn(word(rng)),
            sack: rng.next_u64(),
            echo_sent_at: word(rng),
            held: word(rng),
            sharers: u16::try_from(rng.below(1 << 16)).unwrap(),
            ce: bits & 1 != 0,
            receipt: receipts[usize::from(bits / 4)],
        };
        bodies.push(if bits & 2 != 0 { Body::Nack(ack) } else { Body::Ack(ack) });
    }
    for asks in [false, true] {
        let upto = Credit::new(1 + word(rng) / 2).unwrap();
        let allowance = Allowance { src_flow: flow(rng), upto };
        bodies.push(if asks { Body::Request(allowance) } else { Body::Credit(allowance) });
    }
    let (src_flow, psn, missing) = (flow(rng), Psn(word(rng)), rng.next_u64() | 1);
    bodies.push(Body::BlockNack(BlockNack { src_flow, psn, missing }));
    let (first, arrived) = (Psn(word(rng) & !63), [0; 8].map(|_: u32| word(rng)));
    bodies.push(Body::Report(Report { first, arrived }));
    for (class, said) in [
        (TrafficClass::Control, &[][..]),
        (TrafficClass::ProbeAck, &[1, 2, 3, 4][..]),
        (TrafficClass::Probe, &[0xFF; 32][..]),
    ] {
        bodies.push(Body::Note(Note { class, ..Note::new(9, said).unwrap() }));
    }
    bodies.extend(of_pods(rng).into_iter().map(Body::Note));
    bodies.extend(of_probes(rng).map(Body::Note));
    bodies.extend(of_matching(rng).map(Body::Note));
    let named = flow(rng);
    let cookie = rng.next_u64();
    let steps = [
        Presence::Unknown { named },
        Presence::Forgotten { named },
        Presence::Keep,
        Presence::Prove { cookie },
        Presence::Proof { cookie },
        Presence::Refused,
    ];
    bodies.extend(steps.map(Body::Presence));
    bodies
}

/// A SIM and its answer.
fn of_probes(rng: &mut Rng) -> [Note; 2] {
    let sim = Sim { number: word(rng), nonce: word(rng), src_flow: flow(rng) };
    [sim.probe(), sim.answer()]
}

/// The four steps of a round of dcPIM.
fn of_matching(rng: &mut Rng) -> [Note; 4] {
    [MatchStep::Request, MatchStep::Grant, MatchStep::Accept, MatchStep::Return].map(|step| {
        let [round, stage, left, place, asked, granted] = [0; 6].map(|_: u32| word(rng));
        let (channels, early, flow) = (4 + step as u8, step as u8, flow(rng));
        Offer { step, channels, early, round, stage, left, flow, place, asked, granted }.note()
    })
}

/// Extensions, with a hop or none and room for up to eight.
fn ext(rng: &mut Rng, at: usize) -> Ext {
    let room = 1 + u8::try_from(at % 8).unwrap();
    let mut int = Int::with_room(room);
    // One hop at most: tshark prints the values of several in one field.
    // Where there is room for one, a second that is missing.
    for _ in 0..if room == 1 { 2 } else { at % 2 } {
        let (time, sent) = (Instant::from_ps(rng.next_u64() >> 10), Bytes(rng.next_u64()));
        let port = u16::try_from(rng.below(1 << 16)).unwrap();
        int.stamp(Hop::new(time, sent, Bytes(0), Rate::from_gbps(1 + rng.below(800)), port));
    }
    let half = NonZeroU8::MIN.saturating_add(u8::try_from(at % 200).unwrap());
    let number = u16::try_from(rng.below(1 << 16)).unwrap();
    Ext { int, half, advice: Advice { half, number, values: [word(rng), word(rng)] } }
}

/// The header with every combination of the extensions that it may have.
fn with_extensions(header: Header, ext: &Ext) -> Vec<Header> {
    let mut all = vec![header];
    let other = match header.body {
        Body::Data(_) => header.ext.with_half(),
        Body::Ack(_) | Body::Nack(_) => header.ext.with_advice(),
        Body::Note(_) => {
            all.push(Header { ext: header.ext.with_int(&ext.int), ..header });
            return all;
        }
        _ => return all,
    };
    let extents = [other, header.ext.with_int(&ext.int), other.with_int(&ext.int)];
    all.extend(extents.map(|ext| Header { ext, ..header }));
    all
}

/// Numbers of the extensions, and their flags.
fn ext_numbers(header: &Header, ext: &Ext, numbers: &mut BTreeMap<&'static str, u64>) -> u64 {
    let is_data = matches!(header.body, Body::Data(_));
    let mut flags = 0;
    let advice = header.ext.advice(ext);
    if let Some(half) = header.ext.half(ext).or(advice.map(|advice| advice.half)) {
        numbers.insert("half", half.get().into());
        flags |= if is_data { 64 } else { 16 };
    }
    numbers.extend(advice.map(|advice| ("advice_number", advice.number.into())));
    if let Some(int) = header.ext.int(ext) {
        flags |= match header.body {
            Body::Data(_) => 32,
            Body::Note(_) => 1,
            _ => 8,
        };
        numbers.insert("int_room", u64::from((int.wire_len() - 4) / 16));
        numbers.insert("int_used", int.hops().len() as u64);
        numbers.insert("int_flags", u64::from(int.is_cut()));
        // The octets of the one hop there may be, as the parser that wrote them has them.
        let mut out = [0; 256];
        let len = header.emit(ext, &mut out);
        let at = len - usize::from(int.wire_len()) + 4;
        let be = |from: usize, octets: usize| {
            out[at + from..at + from + octets].iter().fold(0, |sum, o| sum << 8 | u64::from(*o))
        };
        if !int.hops().is_empty() {
            numbers.extend([("hop_time", be(0, 4)), ("hop_sent", be(4, 4))]);
            numbers.extend([("hop_rate", be(12, 2)), ("hop_port", be(14, 2))]);
        }
    }
    flags
}

/// Kind, flags and numbers of a header, as docs/WIRE.md has them. A new kind of packet is to be
/// given to the dissector, too.
fn expected_fields(header: &Header) -> (BTreeMap<&'static str, u64>, u64) {
    let mut numbers = BTreeMap::new();
    numbers.insert("ev", u64::from(header.ev.0));
    numbers.insert("dst_flow", u64::from(header.dst_flow.0));
    if header.key != Key::NONE {
        numbers.insert("key", header.key.0);
    }
    let (kind, flags, more) = match header.body {
        Body::Data(data) => {
            let kind = if data.parity_index().is_some() { 5 } else { 0 };
            (kind, data_flags(&data), data_numbers(&data))
        }
        Body::Ack(ack) => (1, ack_flags(&ack), ack_numbers(&ack)),
        Body::Nack(ack) => (2, ack_flags(&ack), ack_numbers(&ack)),
        Body::BlockNack(nack) => (6, 0, block_numbers(&nack)),
        Body::Report(report) => (8, 0, vec![("first", report.first.0.into())]),
        Body::Note(note) => (7, 0, note_numbers(&note)),
        Body::Presence(presence) => {
            let numbers = presence_numbers(presence);
            (9, numbers[0].1, numbers)
        }
        Body::Credit(allowance) => (3, 0, allowance_numbers(&allowance)),
        Body::Request(allowance) => (4, 0, allowance_numbers(&allowance)),
    };
    numbers.insert("kind", kind);
    numbers.extend(more);
    (numbers, flags)
}

fn data_flags(data: &Data) -> u64 {
    let Data { open, retransmission, demand, code, .. } = data;
    let tagged = data.tag != 0;
    let flags = [open.is_some(), tagged, *retransmission, demand.is_some(), code.is_some()];
    flags.iter().enumerate().map(|(bit, set)| u64::from(*set) << bit).sum()
}

fn data_numbers(data: &Data) -> Vec<(&'static str, u64)> {
    let mut numbers = vec![
        ("psn", data.psn.0.into()),
        ("msg", data.msg.0.into()),
        ("offset", data.offset.into()),
        ("sent_at", data.sent_at.into()),
    ];
    if let Some(open) = data.open {
        let msg_len = u64::from(open.msg_len.get());
        numbers.extend([("src_flow", u64::from(open.src_flow.0)), ("msg_len", msg_len)]);
    }
    if data.tag != 0 {
        numbers.push(("tag", data.tag));
    }
    numbers.extend(data.demand.map(|demand| ("demand", u64::from(demand.number()))));
    if let Some(code) = data.code {
        numbers.extend([("code", code.number().into()), ("block_data", code.data().into())]);
        numbers.push(("block_parity", code.parity().into()));
        numbers.push(("block_packet", code.packet().into()));
    }
    numbers
}

fn ack_flags(ack: &Ack) -> u64 {
    let receipt = match ack.receipt {
        Receipt::First => 0,
        Receipt::Again => 2,
        Receipt::Decoded => 4,
    };
    u64::from(ack.ce) | receipt
}

fn ack_numbers(ack: &Ack) -> Vec<(&'static str, u64)> {
    vec![
        ("src_flow", ack.src_flow.0.into()),
        ("psn", ack.psn.0.into()),
        ("cumulative", ack.cumulative.0.into()),
        ("sack", ack.sack),
        ("echo_sent_at", ack.echo_sent_at.into()),
        ("held", ack.held.into()),
        ("sharers", ack.sharers.into()),
    ]
}

fn block_numbers(nack: &BlockNack) -> Vec<(&'static str, u64)> {
    vec![
        ("src_flow", nack.src_flow.0.into()),
        ("psn", nack.psn.0.into()),
        ("missing", nack.missing),
    ]
}

fn presence_numbers(presence: Presence) -> Vec<(&'static str, u64)> {
    let (step, more) = match presence {
        Presence::Unknown { named } => (0, ("named", named.0.into())),
        Presence::Forgotten { named } => (1, ("named", named.0.into())),
        Presence::Keep => (2, ("named", 0)),
        Presence::Prove { cookie } => (3, ("cookie", cookie)),
        Presence::Proof { cookie } => (4, ("cookie", cookie)),
        Presence::Refused => (5, ("named", 0)),
    };
    vec![("step", step), more]
}

fn note_numbers(note: &Note) -> Vec<(&'static str, u64)> {
    let class = match note.class {
        TrafficClass::Probe => 2,
        TrafficClass::ProbeAck => 1,
        _ => 0,
    };
    let mut numbers =
        vec![("class", class), ("protocol", note.protocol.into()), ("length", note.len.into())];
    numbers.extend(pod_numbers(note));
    numbers.extend(Sim::of(note).into_iter().flat_map(|sim| {
        let src_flow = ("src_flow", u64::from(sim.src_flow.0));
        [("sim_number", sim.number.into()), ("sim_nonce", sim.nonce.into()), src_flow]
    }));
    numbers.extend(Offer::of(note).into_iter().flat_map(|offer| {
        [
            ("match_step", offer.step as u64),
            ("match_channels", offer.channels.into()),
            ("match_early", offer.early.into()),
            ("match_round", offer.round.into()),
            ("match_stage", offer.stage.into()),
            ("match_left", offer.left.into()),
            ("match_flow", offer.flow.0.into()),
            ("match_place", offer.place.into()),
            ("match_asked", offer.asked.into()),
            ("match_granted", offer.granted.into()),
        ]
    }));
    numbers
}

fn allowance_numbers(allowance: &Allowance) -> Vec<(&'static str, u64)> {
    vec![("src_flow", allowance.src_flow.0.into()), ("upto", allowance.upto.number().into())]
}

fn samples() -> Vec<Sample> {
    let mut rng = Rng::new(11).fork("dissector", 0);
    let mut samples = Vec::new();
    for version in [IpVersion::V4, IpVersion::V6] {
        for (at, body) in bodies(&mut rng).into_iter().enumerate() {
            let dst_flow = if at % 4 == 0 { FlowId::UNKNOWN } else { flow(&mut rng) };
            let dst_flow = match body {
                Body::Presence(Presence::Unknown { .. } | Presence::Forgotten { .. }) => {
                    FlowId::UNKNOWN
                }
                Body::Presence(_) => flow(&mut rng),
                _ => dst_flow,
            };
            let ev = EntropyValue(PORTS[at % PORTS.len()]);
            let drawn = Key(rng.next_u64());
            // Notes of pods for a host, with a key.
            let is_keyed = at % 4 == 1 && matches!(body, Body::Note(note) if note.protocol >= RTS);
            let dst_flow = if is_keyed { KEYED } else { dst_flow };
            let of_none = matches!(body, Body::Note(_)) && dst_flow == FlowId::UNKNOWN;
            let key = if of_none { Key::NONE } else { drawn };
            let is_data = matches!(body, Body::Data(_));
            let ext = ext(&mut rng, at);
            for header in with_extensions(Header::new(ev, dst_flow, body).keyed(key), &ext) {
                for trimmed in if is_data { &[false, true][..] } else { &[false] } {
                    samples.push(sample(version, &header, &ext, *trimmed));
                }
            }
        }
    }
    samples
}

fn sample(version: IpVersion, header: &Header, ext: &Ext, trimmed: bool) -> Sample {
    let addressing = Addressing::emulated(version);
    let addrs = addressing.pair(HostId(700), HostId(3)).unwrap();
    let is_data = matches!(header.body, Body::Data(_));
    let class = if is_data { TrafficClass::Data } else { TrafficClass::Control };
    let payload = if is_data { vec![0x5A; 333] } else { Vec::new() };
    let mut head = [0; 256];
    let payload_len = u16::try_from(payload.len()).unwrap();
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class };
    let len = frame::emit(&spec, header, ext, payload_len, &mut head);
    let mut sum = Checksum::new();
    sum.add(&payload);
    frame::finish_udp_checksum(&mut head[..len], sum);
    let mut bytes = [&head[..len], &payload].concat();
    if trimmed {
        let left = frame::trim(&mut bytes);
        bytes.truncate(left);
    }
    // The values of our own parser are the expected ones.
    let parsed = frame::parse(&bytes, &addressing, UdpCheck::Required).unwrap();
    assert_eq!((parsed.header, parsed.trimmed), (*header, trimmed));
    let (mut numbers, mut flags) = expected_fields(&parsed.header);
    flags |= ext_numbers(&parsed.header, &parsed.ext, &mut numbers);
    let payload_len = is_data.then_some(u64::from(payload_len));
    Sample { frame: bytes, numbers, flags, payload_len, trimmed }
}

/// Frames that are no packets of ours, but look like them by their port: each is one
/// octet away from one that is.
fn broken() -> Vec<Vec<u8>> {
    let all = samples();
    let at = 42;
    let damage = |sample: &Sample, offset: usize, value: u8| {
        let mut frame = sample.frame.clone();
        frame[at + offset] = value;
        frame
    };
    let v4: Vec<&Sample> = all.iter().filter(|sample| sample.frame[12] == 8).collect();
    let of_kind = |kind: u64| **v4.iter().find(|s| s.numbers["kind"] == kind).as_ref().unwrap();
    let mut broken = Vec::new();
    for kind in 0..10 {
        let sample = of_kind(kind);
        // A flag that there is not, a kind that there is not, and its header cut short.
        broken.extend([damage(sample, 1, 0x80), damage(sample, 0, 0x2F)]);
        let mut short = sample.frame[..at + 9].to_vec();
        short[16..18].copy_from_slice(&37u16.to_be_bytes());
        short[38..40].copy_from_slice(&17u16.to_be_bytes());
        broken.push(short);
    }
    // A PARITY packet whose kind is DATA, and an ACK with contradictory flags.
    let acks = v4.iter().find(|s| s.numbers["kind"] == 1).unwrap();
    broken.extend([damage(of_kind(5), 0, 0x20), damage(acks, 1, 6)]);
    broken
}

/// Runs tshark with `preferences` over `frames`: a line of values for each, of `fields`. `None`
/// without tshark.
fn dissected(
    name: &str,
    frames: &[Vec<u8>],
    fields: &[String],
    preferences: &[&str],
) -> Option<Vec<Vec<String>>> {
    if let Err(error) = Command::new("tshark").arg("--version").output() {
        println!("SKIP: tshark does not start ({error}); make setup installs it");
        return None;
    }
    let file = format!("headrace-{name}-{}.pcapng", std::process::id());
    let path = std::env::temp_dir().join(file);
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = Writer::new(file, name, StampUnit::Nanosecond).unwrap();
    let interface = Interface { name: "test", snap: 65_535, ..Interface::default() };
    writer.interface(&interface).unwrap();
    for (at, bytes) in (1..).zip(frames) {
        let len = u32::try_from(bytes.len()).unwrap();
        let direction = Direction::Sent;
        writer.packet(&Packet { interface: 0, at, direction, len, bytes }).unwrap();
    }
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/wireshark/headrace.lua");
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    command.args(["-o", "udp.try_heuristic_first:TRUE", "-o", "udp.check_checksum:TRUE"]);
    for preference in preferences {
        command.args(["-o", preference]);
    }
    command.args(["-T", "fields", "-E", "separator=|", "-E", "aggregator=;", "-r"]).arg(&path);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}\n{text}");
    let rows: Vec<Vec<String>> =
        text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), frames.len(), "{errors}\n{text}");
    Some(rows)
}

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("`{text}` is no number"))
}

#[test]
fn every_packet_is_dissected_as_our_parser_reads_it() {
    let samples = samples();
    let frames: Vec<Vec<u8>> = samples.iter().map(|sample| sample.frame.clone()).collect();
    let mut fields: Vec<String> = NUMBERS.iter().map(|name| format!("headrace.{name}")).collect();
    let more = ["version", "flags", "payload_len", "trimmed", "malformed", "truncated"];
    fields.extend(more.iter().map(|name| format!("headrace.{name}")));
    fields.extend(["_ws.expert.message", "frame.protocols", "_ws.malformed"].map(str::to_owned));
    let Some(rows) = dissected("all", &frames, &fields, &[]) else { return };
    for (sample, row) in samples.iter().zip(&rows) {
        let said: BTreeMap<&str, u64> = NUMBERS
            .into_iter()
            .zip(row)
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name, number(value)))
            .collect();
        assert_eq!(said, sample.numbers, "{row:?}");
        let [version, flags, payload, trimmed, malformed, truncated, expert, protocols, ws] =
            &row[NUMBERS.len()..]
        else {
            panic!("{row:?}");
        };
        assert_eq!(
            (number(version), number(flags)),
            (transport::wire::VERSION.into(), sample.flags),
            "{row:?}"
        );
        assert_eq!((!payload.is_empty()).then(|| number(payload)), sample.payload_len);
        assert_eq!(trimmed == "1" || trimmed == "True", sample.trimmed, "{row:?}");
        assert!(malformed.is_empty() && truncated.is_empty(), "{row:?}");
        assert!(protocols.ends_with("udp:headrace"), "{protocols}");
        // UDP's own dissector sees that the length field is that of the packet before it was cut,
        // and calls that malformed.
        let complaint = if sample.trimmed { "Bad length value" } else { "" };
        assert!(expert.starts_with(complaint), "{row:?}");
        assert!(sample.trimmed || expert.is_empty() && ws.is_empty(), "{row:?}");
        assert!(!expert.contains(';'), "one complaint at most: {row:?}");
    }
}

#[test]
fn another_port_is_a_preference_and_only_that_port_is_looked_at() {
    let addressing = Addressing::emulated(IpVersion::V4).with_udp_port(5000);
    let addrs = addressing.pair(HostId(700), HostId(3)).unwrap();
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Control };
    let mut rng = Rng::new(12);
    let ack = bodies(&mut rng).into_iter().find(|body| matches!(body, Body::Ack(_))).unwrap();
    let frames: Vec<Vec<u8>> = PORTS
        .iter()
        .flat_map(|ev| {
            let header = Header::new(EntropyValue(*ev), flow(&mut rng), ack);
            let mut frame = vec![0; 128];
            let len = frame::emit(&spec, &header, &Ext::VACANT, 0, &mut frame);
            frame.truncate(len);
            frame::finish_udp_checksum(&mut frame, Checksum::new());
            let mut elsewhere = frame.clone();
            elsewhere[36..38].copy_from_slice(&5002u16.to_be_bytes());
            [frame, elsewhere]
        })
        .collect();
    let fields = ["headrace.psn".to_owned()];
    let Some(rows) = dissected("port", &frames, &fields, &["headrace.port:5000"]) else { return };
    let Body::Ack(ack) = ack else { panic!("{ack:?}") };
    for row in rows.chunks(2) {
        assert_eq!((row[0][0].as_str(), row[1][0].as_str()), (&*ack.psn.0.to_string(), ""));
    }
}

#[test]
fn a_packet_that_the_format_does_not_allow_is_marked() {
    let frames = broken();
    let fields = ["headrace.malformed", "headrace.truncated", "frame.protocols"];
    let fields = fields.map(str::to_owned);
    let Some(rows) = dissected("broken", &frames, &fields, &[]) else { return };
    for (frame, row) in frames.iter().zip(&rows) {
        let addressing = Addressing::emulated(IpVersion::V4);
        assert!(frame::parse(frame, &addressing, UdpCheck::Skip).is_err(), "{row:?}");
        let marked = !row[0].is_empty() || !row[1].is_empty();
        assert!(marked && row[2].contains("headrace"), "{row:?}");
    }
}
