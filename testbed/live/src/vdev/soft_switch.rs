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
//! instant that its sender stamped on it. It leaves with the instant of its emulated arrival
//! stamped on it, as from a NIC with receive timestamps. Neither stamp contains the lateness of
//! polls. Links that copy (memif, TAP) lose the stamps: there a packet enters at the poll that
//! finds it.
//!
//! Frames that are no packets of Headrace (a kernel's own frames on a TAP) are counted and freed.
//! Nothing here allocates after the first packets.

use std::sync::Arc;

use fabric::{Network, Output, Packet};
use transport::sched::Ranks;
use transport::wire::WireSizes;
use transport::wire::addressing::Addressing;
use transport::{HostId, Instant, Rng};
use transport_dpdk::{LinkEnd, Mbuf, MbufBurst, Pool, TimestampField};

use crate::switching::{MbufFrames, MbufQueue, MbufSlab, describe, edit, ranked, sized};

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
    /// Freed because the slot of the packet's stamp was over.
    pub(super) slot_missed: u64,
}

/// The switch with its ends of all links.
#[derive(Debug)]
pub(super) struct SoftSwitch {
    network: Network,
    ends: Vec<LinkEnd>,
    /// Packets on their way to each host.
    waiting: Vec<MbufQueue>,
    packets: MbufSlab,
    pool: Arc<Pool>,
    stamp: TimestampField,
    addressing: Addressing,
    /// What ports rank data by.
    ranks: Option<Ranks>,
    /// Lengths that count instead of those of the frames.
    sizes: Option<WireSizes>,
    /// Whether hosts send in slots.
    slotted: bool,
    /// The instant up to which the network has run.
    ran_to: Instant,
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
            waiting: ends.iter().map(|_| MbufQueue::default()).collect(),
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
            ranks: None,
            sizes: None,
            slotted: false,
            ran_to: Instant::ZERO,
            rng,
        }
    }

    /// The switch whose ports rank data by `ranks`.
    pub(super) fn ranking(self, ranks: Option<Ranks>) -> Self {
        Self { ranks, ..self }
    }

    /// The switch that counts packets as long as `sizes` say.
    pub(super) fn counting(self, sizes: WireSizes) -> Self {
        Self { sizes: sizes.accounted.differ().then_some(sizes), ..self }
    }

    /// The switch of hosts that send in slots. A packet that the switch gets after its slot is
    /// lost, since it would meet the packets of others.
    pub(super) fn slotted(self, slotted: bool) -> Self {
        Self { slotted, ..self }
    }

    /// Moves all packets that are due by `now`; whether there was anything to do.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let received = self.receive(now);
        let mut frames = MbufFrames {
            packets: &mut self.packets,
            pool: &self.pool,
            addressing: &self.addressing,
            ends: self.network.blueprint().ends(),
            sizes: self.sizes.as_ref(),
        };
        self.network.run_until(now, &mut frames, &mut self.out);
        self.ran_to = now;
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
        let ends = self.network.blueprint().ends();
        match describe(&mbuf, host, &self.addressing, ends) {
            // The network has run up to this instant already.
            Some(_) if self.slotted && at < self.ran_to => self.counts.slot_missed += 1,
            Some((packet, int)) => {
                let packet = sized(packet, &mbuf, self.sizes.as_ref());
                let packet = match self.ranks {
                    Some(ranks) => ranked(packet, &mbuf, ranks),
                    None => packet,
                };
                let packet = Packet { handle: self.packets.insert(mbuf, int), ..packet };
                let mut frames = MbufFrames {
                    packets: &mut self.packets,
                    pool: &self.pool,
                    addressing: &self.addressing,
                    ends,
                    sizes: self.sizes.as_ref(),
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
        let Some(waiting) = self.waiting.get_mut(host.0 as usize) else { return };
        self.stamp.set(&mut mbuf, at.as_ps());
        if !waiting.push(mbuf, self.waiting_max) {
            self.counts.host_queue_full += 1;
        }
    }

    /// Gives the hosts what their links take.
    fn send(&mut self) -> bool {
        let mut any = false;
        for (end, waiting) in self.ends.iter_mut().zip(&mut self.waiting) {
            let sent = waiting.send(|burst| end.tx_burst(burst));
            self.counts.sent += sent;
            any |= sent > 0;
        }
        any
    }

    /// The emulated network.
    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// The emulated network, for reading.
    pub(super) fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The counters of the switch.
    pub(super) fn counts(&self) -> SwitchCounts {
        self.counts
    }

    /// Packets that the switch holds for the network.
    pub(super) fn kept(&self) -> u64 {
        self.packets.live()
    }

    /// Packets that have left the network and wait for room on a host's link.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.iter().map(MbufQueue::len).sum()
    }
}
