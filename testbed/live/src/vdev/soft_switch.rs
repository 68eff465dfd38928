//! The soft switch: moves mbufs between the hosts' links through the emulated network.
//!
//! ```text
//! link of a host -> parse -> MbufSlab + Network::inject (at the sender's stamp)
//!                                   |  run_until(now)
//! link of a host <- stamp <- edit <-+- Output::Delivered
//! ```
//!
//! All switches of the topology are in the one [`Network`], so a packet crosses the soft switch
//! once, however many emulated switches it meets. Instants are network time. A packet enters at the
//! instant that its sender stamped on it and leaves with the instant of its emulated arrival
//! stamped on it, as a NIC with receive timestamps would; how late the polls were is in neither.
//! Links that copy (memif, TAP) lose the stamps: there a packet enters at the poll that finds it.
//!
//! Frames that are not ours (a kernel's noise on a TAP) are counted and freed. Nothing here
//! allocates after the first packets.

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::{Flags, Frames, Network, Output, Packet, flow_hash};
use transport::wire::addressing::Addressing;
use transport::wire::checksum::Checksum;
use transport::wire::class::{Ecn, TrafficClass};
use transport::wire::frame::{self, FrameSpec};
use transport::wire::int::Hop;
use transport::wire::{Ext, Header};
use transport::{HostId, Instant, Rng, TxSegment};
use transport_dpdk::{LinkEnd, Mbuf, MbufBurst, Pool, TimestampField};

use super::mbuf_slab::MbufSlab;

/// No Headrace frame has longer headers.
const HEADERS_MAX: usize = frame::HEADERS_MAX as usize;

/// Bytes of the Ethernet header, which no checksum covers.
const ETHERNET: usize = frame::ETHERNET_LEN as usize;

/// Bytes of the IPv4 header, which has a checksum of its own.
const IPV4: usize = 20;

/// Counters of the soft switch itself; the network counts the rest. Packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SwitchCounts {
    /// Taken from hosts.
    pub(super) received: u64,
    /// Given to the links of hosts.
    pub(super) sent: u64,
    /// Frames that are not Headrace: freed.
    pub(super) not_headrace: u64,
    /// Freed because the host did not empty its link.
    pub(super) host_queue_full: u64,
    /// Freed because the pool had no buffer for a copy.
    pub(super) no_buffer: u64,
}

/// Packets on their way to one host.
#[derive(Debug, Default)]
struct Outbox {
    next: MbufBurst,
    more: VecDeque<Mbuf>,
}

/// The switch with its ends of all links.
#[derive(Debug)]
pub(super) struct SoftSwitch {
    network: Network,
    ends: Vec<LinkEnd>,
    outboxes: Vec<Outbox>,
    packets: MbufSlab,
    pool: Arc<Pool>,
    stamp: TimestampField,
    addressing: Addressing,
    /// Which bits a corruption flips.
    rng: Rng,
    burst: MbufBurst,
    out: Vec<Output>,
    counts: SwitchCounts,
    /// Packets that wait for room on a host's link, beyond what the link holds, before they are
    /// dropped.
    waiting_max: usize,
}

impl SoftSwitch {
    /// A switch for `network` whose host `h` is at the other side of `ends[h]`; at most
    /// `waiting_max` packets wait for each. Copies come from `pool`, whose buffers hold the longest
    /// frame.
    pub(super) fn new(
        network: Network,
        (ends, waiting_max): (Vec<LinkEnd>, usize),
        pool: Arc<Pool>,
        stamp: TimestampField,
        addressing: Addressing,
        rng: Rng,
    ) -> Self {
        Self {
            outboxes: ends.iter().map(|_| Outbox::default()).collect(),
            packets: MbufSlab::default(),
            burst: MbufBurst::new(),
            out: Vec::new(),
            counts: SwitchCounts::default(),
            network,
            ends,
            waiting_max,
            pool,
            stamp,
            addressing,
            rng,
        }
    }

    /// Moves all packets that are due by `now`; whether there was anything to do.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let received = self.receive(now);
        let mut frames = MbufFrames {
            packets: &mut self.packets,
            pool: &self.pool,
            addressing: &self.addressing,
        };
        self.network.run_until(now, &mut frames, &mut self.out);
        let came_out = !self.out.is_empty();
        self.take_outputs();
        let sent = self.send();
        received || came_out || sent
    }

    /// Takes one burst from every host.
    pub(super) fn receive(&mut self, now: Instant) -> bool {
        let mut any = false;
        for index in 0..self.ends.len() {
            let mut burst = std::mem::take(&mut self.burst);
            any |= self.ends[index].rx_burst(&mut burst) > 0;
            let host = HostId(u32::try_from(index).unwrap_or(u32::MAX));
            for mbuf in burst.drain() {
                self.accept(host, mbuf, now);
            }
            self.burst = burst;
        }
        any
    }

    fn accept(&mut self, host: HostId, mbuf: Mbuf, now: Instant) {
        self.counts.received += 1;
        let at = self.stamp.get(&mbuf).map_or(now, Instant::from_ps);
        match describe(&mbuf, host, &self.addressing) {
            Some(packet) => {
                let packet = Packet { handle: self.packets.insert(mbuf), ..packet };
                let mut frames = MbufFrames {
                    packets: &mut self.packets,
                    pool: &self.pool,
                    addressing: &self.addressing,
                };
                self.network.inject(host, packet, at, &mut frames, &mut self.out);
            }
            None => self.counts.not_headrace += 1,
        }
    }

    fn take_outputs(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for output in out.drain(..) {
            match output {
                Output::Delivered { host, packet, at } => self.deliver(host, &packet, at),
                // Its frame has ended.
                Output::Dropped { .. } => {}
            }
        }
        self.out = out;
    }

    fn deliver(&mut self, host: HostId, packet: &Packet, at: Instant) {
        let mbuf = self.packets.take(packet.handle, &self.pool);
        let edited = mbuf.and_then(|mbuf| edit(mbuf, packet, &self.pool, &mut self.rng));
        let Some(mut mbuf) = edited else {
            self.counts.no_buffer += 1;
            return;
        };
        let Some(outbox) = self.outboxes.get_mut(host.0 as usize) else { return };
        if outbox.more.len() >= self.waiting_max {
            self.counts.host_queue_full += 1;
            return;
        }
        self.stamp.set(&mut mbuf, at.as_ps());
        outbox.more.push_back(mbuf);
    }

    /// Gives the hosts what their links take.
    fn send(&mut self) -> bool {
        let mut any = false;
        for (end, outbox) in self.ends.iter_mut().zip(&mut self.outboxes) {
            loop {
                while outbox.next.room() > 0
                    && let Some(mbuf) = outbox.more.pop_front()
                {
                    // There is room, so the push cannot fail.
                    drop(outbox.next.push(mbuf));
                }
                if outbox.next.is_empty() {
                    break;
                }
                let sent = end.tx_burst(&mut outbox.next);
                self.counts.sent += sent as u64;
                any |= sent > 0;
                if !outbox.next.is_empty() {
                    break;
                }
            }
        }
        any
    }

    /// The emulated network.
    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// The counters of the switch.
    pub(super) fn counts(&self) -> SwitchCounts {
        self.counts
    }

    /// Packets that it holds for the network.
    pub(super) fn kept(&self) -> u64 {
        self.packets.live()
    }

    /// Packets that have left the network and wait for room on a host's link.
    pub(super) fn waiting(&self) -> u64 {
        self.outboxes.iter().map(|outbox| (outbox.next.len() + outbox.more.len()) as u64).sum()
    }
}

/// The frames in the network as programs of switches see them.
struct MbufFrames<'a> {
    packets: &'a mut MbufSlab,
    pool: &'a Pool,
    addressing: &'a Addressing,
}

impl MbufFrames<'_> {
    /// The sender of a packet, and its header with the extensions.
    fn parsed(&self, packet: &Packet) -> Option<(HostId, Header, Ext)> {
        let mut copy = [0; HEADERS_MAX];
        let head = head_of(self.packets.of(packet.handle)?, &mut copy)?;
        let (header, ext) = frame::header_of(head).ok()?;
        Some((frame::route_of(head, self.addressing).ok()?.src, header, ext))
    }

    /// The first octets of a packet's frame with all its headers, to be written; no other copy of
    /// the packet and no sender shares them. Cuts and flips that are still due are applied when the
    /// packet comes out.
    fn head_mut(&mut self, packet: &mut Packet) -> Option<&mut [u8]> {
        packet.handle = self.packets.own(packet.handle, self.pool)?;
        let mbuf = self.packets.of_mut(packet.handle)?;
        if mbuf.data().len() < HEADERS_MAX && mbuf.nb_segs() > 1 || mbuf.data_mut().is_none() {
            *mbuf = mbuf.deep_copy(self.pool)?;
        }
        mbuf.data_mut()
    }
}

#[deny(clippy::missing_trait_methods, reason = "each packet here has a frame")]
impl Frames for MbufFrames<'_> {
    fn read(&self, packet: &Packet, look: &mut dyn FnMut(HostId, &Header, &Ext)) {
        if let Some((from, header, ext)) = self.parsed(packet) {
            look(from, &header, &ext);
        }
    }

    fn rewrite(
        &mut self,
        packet: &mut Packet,
        change: &mut dyn FnMut(&mut Header, &mut Ext),
    ) -> bool {
        self.head_mut(packet).is_some_and(|head| frame::rewrite_header(head, change))
    }

    fn stamp(&mut self, packet: &mut Packet, hop: &Hop) -> bool {
        let Some(handle) = self.packets.own(packet.handle, self.pool) else { return false };
        packet.handle = handle;
        // Headers that lie in a piece of their own, before a payload elsewhere, are whole there.
        let first = self.packets.of_mut(handle).and_then(Mbuf::data_mut);
        first.is_some_and(|head| frame::stamp(head, hop))
            || self.head_mut(packet).is_some_and(|head| frame::stamp(head, hop))
    }

    fn make(&mut self, segment: &TxSegment, ext: &Ext, from: HostId) -> Option<Packet> {
        let addrs = self.addressing.pair(from, segment.peer)?;
        let class = segment.class();
        let spec = FrameSpec { addrs, ecn: class.ecn(), class };
        let version = self.addressing.version();
        let mut mbuf = self.pool.alloc()?;
        let head = mbuf.append(frame::header_overhead(version) + segment.hdr.emit_len())?;
        frame::emit(&spec, &segment.hdr, ext, 0, head);
        frame::finish_udp_checksum(head, Checksum::new());
        let packet = describe(&mbuf, from, self.addressing)?;
        Some(Packet { handle: self.packets.insert(mbuf), ..packet })
    }

    fn duplicate(&mut self, packet: &Packet) {
        self.packets.duplicate(packet.handle);
    }

    fn end(&mut self, packet: Packet) {
        self.packets.lose(packet.handle);
    }
}

/// The first octets of a frame with all its headers, in `copy` where a driver has cut them apart.
fn head_of<'a>(mbuf: &'a Mbuf, copy: &'a mut [u8; HEADERS_MAX]) -> Option<&'a [u8]> {
    match mbuf.data() {
        short if short.len() < HEADERS_MAX && mbuf.nb_segs() > 1 => {
            let all = usize::try_from(mbuf.pkt_len()).unwrap_or(usize::MAX).min(HEADERS_MAX);
            let copy = &mut copy[..all];
            mbuf.copy_out(0, copy).then_some(&*copy)
        }
        whole => Some(whole),
    }
}

/// The fabric's packet for a frame from `host`, without handle; `None` when it is not Headrace.
fn describe(mbuf: &Mbuf, host: HostId, addressing: &Addressing) -> Option<Packet> {
    let mut copy = [0; HEADERS_MAX];
    let head = head_of(mbuf, &mut copy)?;
    let route = frame::route_of(head, addressing).ok()?;
    let len = u16::try_from(mbuf.pkt_len()).ok()?;
    let narrow = |len: u16| u8::try_from(len).unwrap_or(u8::MAX);
    let (trim_len, flags) = match route.class {
        TrafficClass::Data => {
            let headers = frame::payload_start(head)?;
            let ect = if route.ecn == Ecn::NotEct { Flags::NONE } else { Flags::ECT };
            let int = if frame::has_int(head) { Flags::INT } else { Flags::NONE };
            (u8::try_from(headers).ok()?, ect.with(Flags::TRIMMABLE).with(int))
        }
        // No host sends a packet that is trimmed already.
        TrafficClass::Trimmed => (narrow(len), Flags::of(TrafficClass::Control)),
        class => (narrow(len), Flags::of(class)),
    };
    // A host that names another as the sender is not believed.
    (route.src == host).then(|| Packet {
        handle: 0,
        dst: route.dst,
        hash: flow_hash(route.src, route.dst, route.ev),
        len,
        trim_len,
        flags,
    })
}

/// Applies the network's changes of the packet to its bytes; `None` when `pool` is exhausted.
fn edit(mbuf: Mbuf, packet: &Packet, pool: &Pool, rng: &mut Rng) -> Option<Mbuf> {
    let trimmed = packet.class() == TrafficClass::Trimmed;
    let corrupt = packet.flags.has(Flags::CORRUPT);
    let mut mbuf = if trimmed { trim(&mbuf, pool)? } else { mbuf };
    if packet.flags.has(Flags::CE) {
        mbuf = writable(mbuf, pool)?;
        frame::set_ce(mbuf.data_mut()?);
    }
    if corrupt {
        mbuf = if mbuf.nb_segs() > 1 { mbuf.deep_copy(pool)? } else { writable(mbuf, pool)? };
        flip_a_bit(mbuf.data_mut()?, trimmed, rng);
    }
    Some(mbuf)
}

/// A fresh mbuf with the trimmed headers alone.
fn trim(mbuf: &Mbuf, pool: &Pool) -> Option<Mbuf> {
    // Longer than headers, so that there is something to cut off.
    let length = usize::try_from(mbuf.pkt_len()).ok()?.min(HEADERS_MAX);
    let mut headers = pool.alloc()?;
    let bytes = headers.append(u16::try_from(length).ok()?)?;
    if !mbuf.copy_out(0, bytes) {
        return None;
    }
    let rest = bytes.len() - frame::trim(bytes);
    let whole = headers.trim(u16::try_from(rest).ok()?);
    whole.then_some(headers)
}

/// The mbuf itself, or a copy when its first segment is not its own.
fn writable(mut mbuf: Mbuf, pool: &Pool) -> Option<Mbuf> {
    if mbuf.data_mut().is_some() { Some(mbuf) } else { mbuf.deep_copy(pool) }
}

/// Flips one bit that a checksum covers: any behind the Ethernet header; of a trimmed packet, whose
/// UDP checksum can no longer be verified, one of the IP header.
fn flip_a_bit(frame: &mut [u8], trimmed: bool, rng: &mut Rng) {
    let end = if trimmed { frame.len().min(ETHERNET + IPV4) } else { frame.len() };
    let Some(covered) = frame.get_mut(ETHERNET..end) else { return };
    let bits = covered.len() as u64 * 8;
    if bits > 0 {
        let bit = usize::try_from(rng.below(bits)).unwrap_or(0);
        covered[bit / 8] ^= 1 << (bit % 8);
    }
}
