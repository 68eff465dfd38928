//! What a packet costs MLCC's border switch on one core: data from another site through the queues
//! of its flows, between two devices of one kind.
//!
//! ```text
//!   far hosts -> WAN device -> Bridge: queue of the flow -> LAN device -> near hosts
//!             <-            <-         credit and rate   <-            <- acknowledgements
//! ```
//!
//! The hosts make frames and read them; their time is not counted. One acknowledgement in
//! [`ACK_EVERY`] packets of a flow brings advice, and what it costs is part of a packet's cost.
//! Links are fast enough that no packet waits for its turn. Nanoseconds.

use std::sync::Arc;

use experiments::hosts_file::HostsFile;
use experiments::input::InputError;
use transport::rc::MlccHalf;
use transport::units::Key;
use transport::wire::addressing::{AddressTable, Addressing, HostAddr, IpVersion};
use transport::wire::advice::Advice;
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, FrameSpec, TrafficClass};
use transport::wire::half::Half;
use transport::wire::int::Int;
use transport::wire::{Ack, Body, Data, Ext, Extent, Header, Receipt};
use transport::{Duration, EntropyValue, FlowId, HostId, Instant, Psn, Rate};
use transport_dpdk::{
    DevicePort, Link, LinkConfig, LinkEnd, MbufBurst, MemoryMode, Pool, TimeScale, eal,
};

use super::DeviceKind;
use super::run::{Bench, BenchError, UP_MS, link_of};
use super::windows::{TurnGroup, fastest_quarter};
use crate::border::{self, BorderSetup, Bridge};

/// The case of a border switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorderCase {
    /// The kind of the two devices; not [`DeviceKind::Null`], which has no far end.
    pub device: DeviceKind,
    /// Payload bytes of a segment.
    pub segment_bytes: u16,
    /// Flows that have a queue, at least one.
    pub queues: u32,
    /// Packets to pass.
    pub packets: u64,
}

/// The cost of a packet for the switch, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BorderCost {
    /// The whole cost.
    pub ns_per_packet: f64,
    /// Taking frames from the devices, reading their headers, and the way into the switch.
    pub receive_ns: f64,
    /// The switch: its program, the flow's queue, telemetry, the port; and choosing the device.
    pub switch_ns: f64,
    /// Giving frames to the devices.
    pub send_ns: f64,
    /// Packets that came out.
    pub packets: u64,
    /// Most queues that were open at once.
    pub queues_peak: u64,
}

/// Packets of a flow for each acknowledgement.
pub const ACK_EVERY: u32 = 16;

/// Hosts on each side.
const HOSTS: u32 = 16;
/// Room for hops, as between the sites of two tiers.
const ROOM: u8 = 4;
const WINDOW: u64 = 4096;
const WARM_UP: u64 = 10;
/// Octets of all headers at most.
const HEADERS: u16 = frame::HEADERS_MAX;
/// Turns without a packet before a run is given up: about a second.
const TURNS_SILENT: u32 = 1_000_000;
/// Faster than any device, and a rate that advice can name.
const FAST: Rate = Rate::from_gbps(4000);

/// Parts of a turn.
const RECEIVE: usize = 0;
const SWITCH: usize = 1;
const SEND: usize = 2;
const PARTS: usize = 3;

/// The hosts of both sides, and the frames that they make.
struct Hosts {
    addressing: Addressing,
    queues: u32,
    segment: u16,
    /// Headers of each flow's data, by its number.
    heads: Vec<Vec<u8>>,
    /// Packets that have come of each flow.
    come: Vec<u32>,
    next: u32,
    pool: Arc<Pool>,
}

impl Bench {
    /// Bytes of a frame of `payload` bytes.
    #[must_use]
    pub fn border_frame_bytes(payload: u16) -> u64 {
        let addressing = Addressing::emulated(IpVersion::V4);
        let head = data_head(&addressing, 0, payload).map_or(0, |head| head.len());
        head as u64 + u64::from(payload)
    }

    /// Measures `case`.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn border(&self, case: &BorderCase) -> Result<BorderCost, BenchError> {
        let frame = case.segment_bytes + HEADERS;
        let (own, far) = (self.pool(frame)?, self.pool(frame)?);
        let link = LinkConfig {
            max_frame: u32::from(frame),
            depth: 512,
            host_pool: Arc::clone(&own),
            switch_pool: Arc::clone(&far),
        };
        let lan = link_of(case.device, self.eal(), &link)?;
        let wan = link_of(case.device, self.eal(), &link)?;
        if !(lan.wait_up(UP_MS) && wan.wait_up(UP_MS)) {
            return Err(BenchError::LinkDown(case.device.name()));
        }
        let (Link { switch_side: lan_end, host: lan }, Link { switch_side: wan_end, host: wan }) =
            (lan, wan);
        let bridge = bridge(vec![lan, wan], own, frame).map_err(BenchError::Border)?;
        let no_frame = || InputError::new("an address of its own hosts", "one that has frames");
        let hosts = Hosts::new(case, far).ok_or_else(|| BenchError::Border(no_frame().into()))?;
        self.pass(case, bridge, (hosts, lan_end, wan_end))
    }

    fn pass(
        &self,
        case: &BorderCase,
        mut bridge: Bridge,
        (mut hosts, mut lan, mut wan): (Hosts, LinkEnd, LinkEnd),
    ) -> Result<BorderCost, BenchError> {
        let clock = self.clock(TimeScale::REAL);
        let (mut windows, mut window) = (Vec::new(), TurnGroup::new(PARTS));
        let mut bursts = [(); 3].map(|()| MbufBurst::new());
        let (mut passed, mut silent) = (0, 0);
        while passed < case.packets {
            let [data, answers, received] = &mut bursts;
            hosts.send(data);
            wan.tx_burst(data);
            lan.tx_burst(answers);
            let now = clock.now();
            let start = eal::tsc();
            bridge.receive(|| now);
            let taken = eal::tsc();
            bridge.pass(now);
            let switched = eal::tsc();
            bridge.send();
            let sent = eal::tsc();
            window.parts[RECEIVE] += taken.wrapping_sub(start);
            window.parts[SWITCH] += switched.wrapping_sub(taken);
            window.parts[SEND] += sent.wrapping_sub(switched);
            lan.rx_burst(received);
            let come = hosts.answer(received, answers, now);
            wan.rx_burst(received);
            received.clear();
            window.segments += come;
            passed += come;
            silent = if come > 0 { 0 } else { silent + 1 };
            if silent > TURNS_SILENT {
                let device = case.device.name();
                return Err(BenchError::Stalled { device, sent: passed });
            }
            if window.segments >= WINDOW {
                let whole = std::mem::replace(&mut window, TurnGroup::new(PARTS));
                if passed > case.packets / WARM_UP {
                    windows.push(whole);
                }
            }
        }
        let ticks = fastest_quarter(windows, PARTS);
        let ns = |part: usize| ticks.get(part).copied().unwrap_or(0.0) * 1e9 / self.hz();
        Ok(BorderCost {
            ns_per_packet: (0..PARTS).map(ns).sum(),
            receive_ns: ns(RECEIVE),
            switch_ns: ns(SWITCH),
            send_ns: ns(SEND),
            packets: passed,
            queues_peak: bridge.mlcc().map_or(0, |counts| counts.queues_peak),
        })
    }
}

/// The switch between `ports`, LAN and WAN.
fn bridge(
    ports: Vec<DevicePort>,
    pool: Arc<Pool>,
    frame: u16,
) -> Result<Bridge, border::BorderError> {
    let device = |name: &str| {
        let wrong = |_| InputError::new(format!("`{name}`"), "a device");
        name.parse().map_err(wrong)
    };
    let setup = BorderSetup {
        lan: vec![device("net_ring0")?],
        wan: device("net_ring1")?,
        hosts: HostsFile::read(hosts_text().as_bytes(), "hosts.toml")?,
        site: "near".to_owned(),
        lan_rate: FAST,
        wan_rate: FAST,
        wan_delay: Duration::ZERO,
        marks: None,
        mtu: None,
        settings: Vec::new(),
        buffers: 1 << 16,
        memory: MemoryMode::Auto,
        eal_arguments: Vec::new(),
        core: None,
        wait: Duration::ZERO,
    };
    border::between(&setup, (ports, pool), frame)
}

/// Address and MAC of a host; those of the near site are the first.
fn address(host: u32) -> ([u8; 4], [u8; 6]) {
    let low = u8::try_from(host + 1).unwrap_or(u8::MAX);
    ([10, 0, 0, low], [2, 0, 0, 0, 1, low])
}

fn hosts_text() -> String {
    let entry = |host: u32| {
        let ([a, b, c, low], _) = address(host);
        let site = if host < HOSTS { "near" } else { "far" };
        format!(
            "[[host]]\nname = \"h{host}\"\naddress = \"{a}.{b}.{c}.{low}/24\"\n\
             mac = \"02:00:00:00:01:{low:02x}\"\ndevice = \"net_ring0\"\n\
             control = \"10.1.0.1:4798\"\nsite = \"{site}\"\n"
        )
    };
    (0..2 * HOSTS).map(entry).collect()
}

impl Hosts {
    /// Hosts with a flow for each queue of `case`; `None` when an address has no frame.
    fn new(case: &BorderCase, pool: Arc<Pool>) -> Option<Self> {
        let addr = |host: u32| {
            let (ip, mac) = address(host);
            HostAddr { mac, ip: ip.into() }
        };
        let table = AddressTable::new((0..2 * HOSTS).map(addr).collect()).ok()?;
        let addressing = Addressing::table(table);
        let (queues, segment) = (case.queues.max(1), case.segment_bytes);
        let head = |flow| data_head(&addressing, flow, segment);
        let heads = (0..queues).map(head).collect::<Option<_>>()?;
        let come = vec![0; queues as usize];
        Some(Self { addressing, queues, segment, heads, come, next: 0, pool })
    }

    /// Fills `burst` with packets of all flows in turn.
    fn send(&mut self, burst: &mut MbufBurst) {
        while burst.room() > 0 {
            let Some(mut mbuf) = self.pool.alloc() else { return };
            let head = &self.heads[self.next as usize];
            let whole = u16::try_from(head.len()).unwrap_or(u16::MAX) + self.segment;
            let Some(bytes) = mbuf.append(whole) else { return };
            bytes[..head.len()].copy_from_slice(head);
            self.next = (self.next + 1) % self.queues;
            // There is room.
            drop(burst.push(mbuf));
        }
    }

    /// Takes the packets that have come out, and adds what answers them; returns how many.
    fn answer(&mut self, received: &mut MbufBurst, out: &mut MbufBurst, now: Instant) -> u64 {
        let mut come = 0;
        for mbuf in received.drain() {
            let Ok((header, _)) = frame::header_of(mbuf.data()) else { continue };
            let Body::Data(data) = header.body else { continue };
            come += 1;
            let flow = data.psn.0;
            let Some(count) = self.come.get_mut(flow as usize) else { continue };
            *count += 1;
            if *count % ACK_EVERY == 1
                && let Some(mut answer) = self.pool.alloc()
                && ack_frame(&self.addressing, (flow, *count / ACK_EVERY), now, &mut answer)
            {
                // One in some packets is answered, and a burst has room for all.
                drop(out.push(answer));
            }
        }
        come
    }
}

/// The ends of a flow: its receiver, and its sender in the other site.
fn ends(flow: u32) -> (HostId, HostId) {
    (HostId(flow / HOSTS % HOSTS), HostId(HOSTS + flow % HOSTS))
}

fn key(flow: u32) -> Key {
    Key(u64::from(flow).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
}

/// The headers of the data of `flow`, up to where its payload of `payload` bytes begins.
fn data_head(addressing: &Addressing, flow: u32, payload: u16) -> Option<Vec<u8>> {
    let (to, from) = ends(flow);
    let class = TrafficClass::Data;
    let spec = FrameSpec { addrs: addressing.pair(from, to)?, ecn: class.ecn(), class };
    let data = Data { psn: Psn(flow), ..Data::VACANT };
    let int = Int::with_room(ROOM);
    let extent = Extent::NONE.with_int(&int).with_half();
    let header = Header::new(EntropyValue(0), FlowId::new(flow, 1), Body::Data(data));
    let header = header.keyed(key(flow)).extended(extent);
    let ext = Ext { int, half: Half::new(MlccHalf::NUMBER)?, ..Ext::VACANT };
    let mut head = vec![0; usize::from(HEADERS)];
    let length = frame::emit(&spec, &header, &ext, payload, &mut head);
    head.truncate(length);
    frame::finish_udp_checksum(&mut head, Checksum::new());
    Some(head)
}

/// Writes an acknowledgement of `flow` with the advice of this number; whether it could.
fn ack_frame(
    addressing: &Addressing,
    (flow, number): (u32, u32),
    now: Instant,
    mbuf: &mut transport_dpdk::Mbuf,
) -> bool {
    let (from, to) = ends(flow);
    let class = TrafficClass::Control;
    let Some(addrs) = addressing.pair(from, to) else { return false };
    let spec = FrameSpec { addrs, ecn: class.ecn(), class };
    let ack = Ack {
        src_flow: FlowId::new(flow, 1),
        psn: Psn(flow),
        cumulative: Psn(0),
        sack: 0,
        echo_sent_at: now.to_wire(),
        held: 0,
        sharers: 1,
        ce: false,
        receipt: Receipt::First,
    };
    let kbps = u32::try_from(FAST.as_bps() / 1000).unwrap_or(u32::MAX);
    let Some(half) = Half::new(MlccHalf::NUMBER) else { return false };
    let number = u16::try_from(number % (1 << 16)).unwrap_or(0);
    let ext = Ext { advice: Advice { half, number, values: [kbps; 2] }, ..Ext::VACANT };
    let header = Header::new(EntropyValue(0), FlowId::new(flow, 1), Body::Ack(ack));
    let header = header.keyed(key(flow)).extended(Extent::NONE.with_advice());
    let length = frame::header_overhead(addressing.version()) + header.emit_len();
    let Some(head) = mbuf.append(length) else { return false };
    frame::emit(&spec, &header, &ext, 0, head);
    frame::finish_udp_checksum(head, Checksum::new());
    true
}
