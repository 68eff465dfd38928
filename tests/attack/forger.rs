//! The attacker: packets that it makes up, with the victims' addresses as their source. The
//! attacker has addresses, the port and this source code, and nothing that victims send to each
//! other.

use std::io::{IoSlice, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use transport::units::{Credit, Key};
use transport::wire::addressing::{AddrPair, IpPair, UDP_PORT};
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, ETHERNET_LEN, Ecn, FrameSpec, TrafficClass};
use transport::wire::seal::{self, FrameParts, Seal};
use transport::wire::sim::Sim;
use transport::wire::{Ack, Allowance, Body, Data, Ext, Header, Open, Presence, Receipt};
use transport::{EntropyValue, FlowId, MsgNo, Psn, Rng};

/// The server and its client.
pub(crate) const VICTIMS: [Ipv4Addr; 2] =
    [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];

/// Packets sent in a row, and the pause after them: 16,000 packets a second.
pub(crate) const PACE: (u64, Duration) = (32, Duration::from_millis(2));

/// The first burst of an attack that is slow otherwise, and the pause between its packets then.
const SLOW: (u64, Duration) = (140, Duration::from_millis(50));

/// Packets a second that a flood has at least.
pub(crate) const FLOOD_MIN: u64 = 16_000;

/// The kind of an attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attack {
    /// ACKs and NACKs for every flow that the sender may have.
    Feedback,
    /// Segments for every flow that the receiver may have.
    Segments,
    /// Credit for every flow that the sender may have.
    Credits,
    /// Segments that open flows and announce long messages.
    Opens,
    /// The first 140 of [`Attack::Opens`] at once, then 20 a second.
    SlowOpens,
    /// Every PRESENCE there is, for every flow that either end may have.
    Presence,
    /// Octets at random.
    Junk,
    /// Headers that are cut or longer than they state, and fragments.
    Misshapen,
    /// SIMs and their answers for a host, and notes for every flow that it may have.
    Notes,
    /// Requests for credit, of flows that the receiver may have and of new ones.
    Requests,
    /// Segments of almost 9000 octets.
    Large,
    /// Sealed segments whose tag no key has made, each under a start of its own.
    Seals,
    /// Sealed segments that a switch seems to have trimmed, for every flow that the receiver may
    /// have.
    Trims,
    /// All packets of an earlier session, in both directions.
    Replay,
    /// Segments for flows that the receiver may have, as many as one core can send.
    Flood,
    /// [`Attack::Opens`], as many as one core can send.
    OpenFlood,
}

impl Attack {
    pub(crate) const ALL: &[Self] = &[
        Self::Feedback,
        Self::Segments,
        Self::Credits,
        Self::Opens,
        Self::SlowOpens,
        Self::Presence,
        Self::Junk,
        Self::Misshapen,
        Self::Notes,
        Self::Requests,
        Self::Large,
        Self::Seals,
        Self::Trims,
        Self::Replay,
        Self::Flood,
        Self::OpenFlood,
    ];

    /// Whether packets are sent as fast as one core can.
    pub(crate) const fn is_flood(self) -> bool {
        matches!(self, Self::Flood | Self::OpenFlood)
    }

    /// Whether there is nothing to attack where packets are not sealed.
    pub(crate) const fn is_of_seals(self) -> bool {
        matches!(self, Self::Seals | Self::Trims)
    }

    /// Whether short runs have this attack. With keys, a host drops most forged packets at the
    /// first octet, and one such case without keys is enough; [`Attack::Large`] does what
    /// [`Attack::Segments`] does with longer ones.
    pub(crate) const fn is_in_sample(self, keyed: bool) -> bool {
        match self {
            Self::Seals | Self::Trims | Self::Replay => true,
            Self::Large => false,
            _ => !keyed,
        }
    }

    /// The victim that the attack aims at, 0 the server and 1 its client, and the counter there
    /// that the attack raises if it has reached that victim.
    pub(crate) const fn raises(self, keyed: bool) -> (usize, &'static str) {
        let server = 0;
        let client = 1;
        match (self, keyed) {
            (Self::Feedback | Self::Credits, false) => (client, "unknown_flow"),
            (Self::Segments | Self::Large | Self::Flood, false) => (server, "unknown_flow"),
            (Self::Opens | Self::SlowOpens | Self::OpenFlood, false) => (server, "unproven"),
            (Self::Presence, false) => (server, "wrong_key"),
            (Self::Junk, false) => (server, "corrupt"),
            (Self::Misshapen, _) => (server, "truncated"),
            (Self::Notes, false) => (client, "bad_segment"),
            (Self::Requests, false) => (server, "unproven"),
            (Self::Replay, false) => (server, "wrong_key"),
            (Self::Feedback | Self::Credits | Self::Notes, true) => (client, "unsealed"),
            (Self::Junk, true) => (server, "sealed"),
            (
                Self::Segments
                | Self::Large
                | Self::Flood
                | Self::Opens
                | Self::SlowOpens
                | Self::OpenFlood
                | Self::Presence
                | Self::Requests,
                true,
            ) => (server, "unsealed"),
            (Self::Replay, true) => (server, "replayed"),
            (Self::Seals, _) => (server, "bad_tag"),
            (Self::Trims, _) => (server, "trimmed_stranger"),
        }
    }

    /// Packets in a burst, and the pause after each burst, from the second on.
    const fn pace(self) -> (u64, Duration) {
        match self {
            Self::SlowOpens => (1, SLOW.1),
            _ => PACE,
        }
    }

    /// Packets of an attack of so long, at least.
    pub(crate) const fn least(self, seconds: u64) -> u64 {
        match self {
            Self::SlowOpens => SLOW.0 + 10 * seconds,
            Self::Flood | Self::OpenFlood => FLOOD_MIN * seconds,
            _ => 1000 * seconds,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Feedback => "forged_acknowledgements_for_every_flow_end_none",
            Self::Segments => "forged_segments_for_every_flow_are_in_no_message",
            Self::Credits => "forged_credit_for_every_flow_is_taken_by_none",
            Self::Opens => "forged_openings_take_no_memory_and_keep_no_client_out",
            Self::SlowOpens => "few_forged_openings_for_long_keep_no_client_out",
            Self::Presence => "forged_presence_ends_no_flow",
            Self::Junk => "octets_at_random_are_no_packet",
            Self::Misshapen => "cut_long_and_fragmented_packets_are_none",
            Self::Notes => "forged_probes_and_notes_are_answered_by_no_state",
            Self::Requests => "forged_requests_take_no_credit_and_no_memory",
            Self::Large => "forged_segments_of_full_length_are_in_no_message",
            Self::Seals => "segments_under_forged_seals_are_in_no_message",
            Self::Trims => "forged_trims_are_hints_of_no_flow",
            Self::Flood => "a_flood_as_fast_as_one_core_can_send_ends_no_flow",
            Self::OpenFlood => "a_flood_of_openings_ends_no_flow_and_keeps_no_client_out",
            Self::Replay => "packets_of_an_earlier_session_are_of_no_later_one",
        }
    }

    fn packet(self, turn: u64, rng: &mut Rng, port: u16, captured: &[Vec<u8>]) -> (usize, Vec<u8>) {
        // Generations of the first indices in turn.
        let small = |n: u64| u32::try_from(n).unwrap_or(0);
        let flow = FlowId::new(small(turn % 3), 1 + small(turn / 3 % 4095));
        match self {
            Self::Feedback => {
                let body = if turn & 1 == 0 { Body::Ack(ack(rng)) } else { Body::Nack(ack(rng)) };
                (1, datagram(0, flow, body, &[], rng, port))
            }
            Self::Segments | Self::Flood => {
                let body = Body::Data(segment(rng));
                (0, datagram(1, flow, body, &[0x55; 400], rng, port))
            }
            Self::Credits => {
                let upto = Credit::START.plus(rng.next_u32() / 2);
                let body = Body::Credit(Allowance { src_flow: FlowId::new(0, 1), upto });
                (1, datagram(0, flow, body, &[], rng, port))
            }
            Self::Opens | Self::SlowOpens | Self::OpenFlood => {
                let opening = Data { psn: Psn(0), msg: MsgNo(0), offset: 0, ..segment(rng) };
                let src_flow = FlowId::new(small(turn % 4096), 1 + small(turn / 4096 % 4095));
                let open = Some(Open { src_flow, msg_len: MESSAGE });
                let body = Body::Data(Data { open, ..opening });
                (0, datagram(1, FlowId::UNKNOWN, body, &[0x55; 400], rng, port))
            }
            Self::Presence => {
                let to = usize::from(turn & 1 == 1);
                let cookie = rng.next_u64();
                let (dst_flow, presence) = match turn % 6 {
                    0 => (FlowId::UNKNOWN, Presence::Unknown { named: flow }),
                    1 => (FlowId::UNKNOWN, Presence::Forgotten { named: flow }),
                    2 => (flow, Presence::Keep),
                    3 => (flow, Presence::Prove { cookie }),
                    4 => (flow, Presence::Proof { cookie }),
                    _ => (flow, Presence::Refused),
                };
                (to, datagram(1 - to, dst_flow, Body::Presence(presence), &[], rng, port))
            }
            Self::Junk => {
                let mut octets = datagram(1, flow, Body::Ack(ack(rng)), &[], rng, port);
                octets[28..].fill_with(|| rng.next_u32().to_le_bytes()[0]);
                (0, octets)
            }
            Self::Misshapen => (0, misshapen(turn, rng, port)),
            Self::Notes => {
                let sim = Sim { number: small(turn), nonce: rng.next_u32(), src_flow: flow };
                let note = if turn & 1 == 0 { sim.probe() } else { sim.answer() };
                let name = if turn & 2 == 0 { FlowId::UNKNOWN } else { flow };
                (1, datagram(0, name, Body::Note(note), &[], rng, port))
            }
            Self::Requests => {
                let upto = Credit::START.plus(rng.next_u32() / 2);
                let body = Body::Request(Allowance { src_flow: flow, upto });
                let name = if turn & 1 == 0 { FlowId::UNKNOWN } else { flow };
                (0, datagram(1, name, body, &[], rng, port))
            }
            Self::Large => {
                let body = Body::Data(segment(rng));
                (0, datagram(1, flow, body, &[0x55; 8800], rng, port))
            }
            Self::Seals => (0, sealed(segment(rng), flow, false, rng, port)),
            Self::Trims => (0, sealed(segment(rng), flow, true, rng, port)),
            Self::Replay => {
                let at = usize::try_from(turn).unwrap() % captured.len();
                let mut octets = captured[at].clone();
                octets[22..24].copy_from_slice(&port.to_be_bytes());
                (usize::from(octets[19] == VICTIMS[1].octets()[3]), octets)
            }
        }
    }
}

/// An acknowledgement of anything.
fn ack(rng: &mut Rng) -> Ack {
    Ack {
        src_flow: FlowId::new(7, 7),
        psn: Psn(0),
        cumulative: Psn(rng.next_u32()),
        sack: u64::MAX,
        echo_sent_at: rng.next_u32(),
        held: 0,
        sharers: 1,
        ce: true,
        receipt: Receipt::First,
    }
}

/// The length that forged messages announce: one that a receiver has memory for, so that memory is
/// not what refuses them.
const MESSAGE: NonZeroU32 = NonZeroU32::new(1 << 20).unwrap();

/// A segment that would be in the middle of a message.
fn segment(rng: &mut Rng) -> Data {
    Data {
        psn: Psn(rng.next_u32() >> 16),
        msg: MsgNo(rng.next_u32() >> 28),
        offset: rng.next_u32() >> 16,
        open: Some(Open { src_flow: FlowId::new(0, 1), msg_len: MESSAGE }),
        ..Data::VACANT
    }
}

/// An IPv4 packet from victim `from` to the other, with a right UDP checksum.
fn datagram(
    from: usize,
    dst_flow: FlowId,
    body: Body,
    payload: &[u8],
    rng: &mut Rng,
    port: u16,
) -> Vec<u8> {
    framed(from, dst_flow, body, payload, rng, port).split_off(usize::from(ETHERNET_LEN))
}

/// The number of the key that victims share, if they do.
pub(crate) const KEY_NUMBER: u8 = 1;

/// An IPv4 packet of a segment from the client, with a seal that no key has made, or as if a switch
/// had trimmed such a packet.
fn sealed(segment: Data, flow: FlowId, trimmed: bool, rng: &mut Rng, port: u16) -> Vec<u8> {
    let mut frame = framed(1, flow, Body::Data(segment), &[0x55; 400], rng, port);
    let parts = FrameParts::of(&frame).unwrap();
    frame.resize(parts.end + usize::from(seal::LEN), 0);
    frame[parts.end..].fill_with(|| rng.next_u32().to_le_bytes()[0]);
    parts.mark(&mut frame);
    // Not before the server's own start, and not far ahead of its clock.
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let start = u64::try_from(now).unwrap() + rng.below(1_000_000_000);
    let number = rng.below(1000);
    let seal = Seal { encrypted: true, key: KEY_NUMBER, number, start };
    seal.emit(frame[parts.end..].first_chunk_mut().unwrap());
    if trimmed {
        let len = frame::trim(&mut frame);
        frame.truncate(len);
    }
    frame.split_off(usize::from(ETHERNET_LEN))
}

/// A frame from victim `from` to the other, with a right UDP checksum.
fn framed(
    from: usize,
    dst_flow: FlowId,
    body: Body,
    payload: &[u8],
    rng: &mut Rng,
    port: u16,
) -> Vec<u8> {
    let key = Key(rng.next_u64());
    let header = Header::new(EntropyValue(7), dst_flow, body).keyed(key);
    let ip = IpPair::V4 { src: VICTIMS[from], dst: VICTIMS[1 - from] };
    framed_between(ip, &header, payload, port)
}

/// A frame from one address to another, with a right UDP checksum.
pub(crate) fn framed_between(ip: IpPair, header: &Header, payload: &[u8], port: u16) -> Vec<u8> {
    let addrs = AddrPair { dst_mac: [0; 6], src_mac: [0; 6], ip, udp_port: port };
    let class = if payload.is_empty() { TrafficClass::Control } else { TrafficClass::Data };
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class };
    let mut frame = vec![0; 256];
    let payload_len = u16::try_from(payload.len()).unwrap();
    let len = frame::emit(&spec, header, &Ext::VACANT, payload_len, &mut frame);
    frame.truncate(len);
    let mut sum = Checksum::new();
    sum.add(payload);
    frame::finish_udp_checksum(&mut frame, sum);
    frame.extend_from_slice(payload);
    frame
}

/// A segment that is cut, that claims to be longer than it is, or a fragment.
fn misshapen(turn: u64, rng: &mut Rng, port: u16) -> Vec<u8> {
    let body = Body::Data(segment(rng));
    let mut octets = datagram(1, FlowId::UNKNOWN, body, &[0x55; 200], rng, port);
    let cut = 28 + usize::try_from(rng.below(60)).unwrap();
    match turn % 3 {
        0 => octets.truncate(cut),
        // The UDP length.
        1 => octets[24..26].copy_from_slice(&[0xFF, 0xF0]),
        // More fragments follow, and none of them comes.
        _ => octets[6..8].copy_from_slice(&[0x20, 0]),
    }
    octets
}

/// Packets of an earlier session that are sent again.
const CAPTURED_MAX: usize = 4000;

/// Ethernet's number for all protocols.
const ALL_PROTOCOLS: u16 = 3;

/// A socket for whole frames of every device.
pub(crate) fn frame_socket() -> Socket {
    let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
    Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).unwrap()
}

/// `FILE`: notes what the victims send to each other, as seen from the network namespace in which
/// it runs, until its input ends.
pub(crate) fn eavesdrop(arguments: &[String]) -> ExitCode {
    let [file] = arguments else { return ExitCode::FAILURE };
    let mut socket = frame_socket();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let over = until_input_ends();
    let (mut frame, mut packets) = (vec![0; 1 << 16], Vec::new());
    println!("ready");
    while !over.load(Ordering::Relaxed) && packets.len() < CAPTURED_MAX {
        let Ok(len) = socket.read(&mut frame) else { continue };
        let packet = &frame[usize::from(ETHERNET_LEN).min(len)..len];
        let is_ours = packet.len() > 28 && packet[0] == 0x45 && packet[9] == 17;
        if is_ours && packet[22..24] == UDP_PORT.to_be_bytes() {
            packets.push(packet.to_vec());
        }
    }
    std::fs::write(file, serde_json::to_vec(&packets).unwrap()).unwrap();
    ExitCode::SUCCESS
}

/// The number of the slice of time that an instant is in.
pub(crate) const fn slice_at(since_epoch: Duration, slice: Duration) -> u128 {
    since_epoch.as_millis() / slice.as_millis()
}

/// The port of packets of the slice of this number: in every second one another port.
pub(crate) const fn port_of(slice: u128) -> u16 {
    if slice % 2 == 1 { OTHER_PORT } else { PORT }
}

/// Set when the input of this process ends.
pub(crate) fn until_input_ends() -> Arc<AtomicBool> {
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&over);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        ends.store(true, Ordering::Relaxed);
    });
    over
}

/// `NAME FILE MILLISECONDS`: attacks until its input ends, and prints how many packets it sent to
/// the victims' port. FILE has what [`eavesdrop`] noted, for attacks that use it. With slices of so
/// many MILLISECONDS, above zero, packets of every second slice go to another port.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let [name, file, slices] = arguments else { return ExitCode::FAILURE };
    let captured = std::fs::read(file).unwrap_or_else(|_| b"[]".to_vec());
    let captured: Vec<Vec<u8>> = serde_json::from_slice(&captured).unwrap();
    let attack = Attack::ALL.iter().find(|attack| attack.name() == name).copied().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
    socket.set_header_included_v4(true).unwrap();
    let mut rng = Rng::new(7);
    if attack.is_flood() {
        return flood(&socket, slices, |turn, port| {
            attack.packet(turn, &mut rng, port, &captured).1
        });
    }
    send_until_input_ends(attack.pace(), slices, |turn, port| {
        let (to, octets) = attack.packet(turn, &mut rng, port, &captured);
        let to = SockAddr::from(SocketAddrV4::new(VICTIMS[to], 0));
        socket.send_to(&octets, &to).is_ok()
    })
}

/// Packets of a flood that one call sends, and different packets in all.
const FLOOD: (usize, u64) = (64, 4096);

/// Sends packets to the server without a pause until the input of this process ends, many in one
/// call, made before. Slices and output are those of [`send_until_input_ends`].
fn flood(socket: &Socket, slices: &str, mut packet: impl FnMut(u64, u16) -> Vec<u8>) -> ExitCode {
    let slices = Some(Duration::from_millis(slices.parse().unwrap())).filter(|s| !s.is_zero());
    let mut made = |port| (0..FLOOD.1).map(|turn| packet(turn, port)).collect::<Vec<_>>();
    let [to_them, past_them] = [PORT, OTHER_PORT].map(&mut made);
    let to = SocketAddrAny::from(SocketAddrV4::new(VICTIMS[0], 0));
    let over = until_input_ends();
    let mut sent = 0;
    while !over.load(Ordering::Relaxed) {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let port = slices.map_or(PORT, |slice| port_of(slice_at(now, slice)));
        let packets = if port == PORT { &to_them } else { &past_them };
        for chunk in packets.chunks(FLOOD.0) {
            let parts: Vec<_> = chunk.iter().map(|packet| [IoSlice::new(packet)]).collect();
            let mut none: Vec<_> = parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
            let messages = parts.iter().zip(&mut none);
            let mut messages: Vec<_> =
                messages.map(|(part, none)| MMsgHdr::new_with_addr(&to, part, none)).collect();
            let went = sendmmsg(socket, &mut messages, SendFlags::empty()).unwrap_or(0);
            sent += if port == PORT { went } else { 0 };
        }
    }
    println!("{sent}");
    ExitCode::SUCCESS
}

/// Sends packets at this pace until the input of this process ends, and prints how many went to the
/// victims. `send` is given the number of a packet and the port that it is for. It returns whether
/// the packet went, since the kernel's queue may be full. With slices of so many milliseconds,
/// above zero, packets of every second slice are for another port than the victims'.
pub(crate) fn send_until_input_ends(
    (burst, pause): (u64, Duration),
    slices: &str,
    mut send: impl FnMut(u64, u16) -> bool,
) -> ExitCode {
    let slices = Some(Duration::from_millis(slices.parse().unwrap())).filter(|s| !s.is_zero());
    let over = until_input_ends();
    let (mut sent, mut turn) = (0_u64, 0);
    let mut end = burst.max(if burst == 1 { SLOW.0 } else { 0 });
    while !over.load(Ordering::Relaxed) {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let port = slices.map_or(PORT, |slice| port_of(slice_at(now, slice)));
        for turn in turn..end {
            let went = send(turn, port);
            sent += u64::from(went && port == PORT);
        }
        (turn, end) = (end, end + burst);
        sleep(pause);
    }
    println!("{sent}");
    ExitCode::SUCCESS
}

/// The port of packets that go past the victims.
pub(crate) const OTHER_PORT: u16 = 9;

/// The port to which all packets of the victims go.
pub(crate) const PORT: u16 = UDP_PORT;
