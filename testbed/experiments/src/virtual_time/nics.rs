//! The way of packets from the endpoints of a simulated run into the NICs.
//!
//! A host hands its NIC at most `nic.depth` packets ahead, as a device with a short ring would. So
//! the next packet is chosen as late as possible. Packets whose departure the endpoint has chosen
//! wait here for that instant.

use std::collections::VecDeque;

use fabric::{Gaps, Network};
use transport::histogram::Spans;
use transport::sched::{Ranks, Slots};
use transport::wire::{Ext, WireSizes};
use transport::{BURST, Burst, Coding, Duration, Endpoint, HostId, Instant, TxSegment};

use super::capture::{Taken, Tap};
use super::clock::HostClock;
use super::environment::Environment;
use super::packets::SlabFrames;
use crate::measure::following::Following;
use crate::plan::{NicSettings, Plan};
use crate::why::journal::Sent;

/// How far ahead of their departure a host takes packets whose departure a scheduler chooses.
pub(super) const HORIZON: Duration = Duration::from_us(100);

/// A host that sends.
pub(super) struct Sender<'h> {
    pub(super) host: HostId,
    pub(super) endpoint: &'h mut Endpoint,
    /// The clock that the endpoint sees.
    pub(super) clock: &'h mut HostClock,
    /// Packets that the endpoint has given ahead of their departure, by departure.
    pub(super) kept: &'h mut VecDeque<Kept>,
}

/// A packet that waits for its departure, with the extensions that its header names.
pub(super) struct Kept {
    pub(super) at: Instant,
    segment: TxSegment,
    ext: Option<Box<Ext>>,
}

/// One poll of an endpoint for packets.
struct TransmitPass {
    /// Whether data may not be taken.
    control_only: bool,
    /// Most packets to take.
    room: usize,
}

/// The way into the NICs, one for all hosts.
pub(super) struct Nics<'a> {
    settings: &'a NicSettings,
    pub(super) sizes: WireSizes,
    pub(super) tap: Option<Tap>,
    /// What ports rank data by.
    ranks: Option<Ranks>,
    slots: Option<Slots>,
    /// Packets taken from endpoints.
    pub(super) handed_over: u64,
    /// Times from the start of data on its host's line to its arrival, where the run measures them.
    pub(super) wire_delay: Option<Box<Spans>>,
    /// Arrivals of SIMs and data, where the run counts them.
    pub(super) following: Option<Box<Following>>,
    burst: Burst<TxSegment>,
}

impl<'a> Nics<'a> {
    pub(super) fn new(plan: &'a Plan, hosts: usize, tap: Option<Tap>) -> Self {
        Self {
            settings: &plan.draft.nic,
            sizes: plan.settings.wire_sizes(),
            tap,
            ranks: plan.ranks_data(),
            slots: plan.settings.sched.slots(&plan.settings.sched_params),
            handed_over: 0,
            wire_delay: plan.measures_delay().then(Box::default),
            following: (plan.counts_arrivals())
                .map(|rtt_max| Box::new(Following::new(rtt_max, hosts))),
            burst: Burst::with_limit(BURST),
        }
    }

    /// Moves what a host may send into its NIC. Returns when its endpoint has to be called;
    /// [`Instant::FAR_FUTURE`] when it does not.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        sender: &mut Sender<'_>,
        now: Instant,
        env: &mut Environment<'_>,
    ) -> Instant {
        if !sender.kept.is_empty() {
            self.release(sender, now, env);
        }
        let local = sender.clock.read(now);
        let mut pass = self.first_pass(sender.host, &env.network);
        while let Some(TransmitPass { control_only, room }) = pass {
            self.burst.reset(room);
            if control_only {
                sender.endpoint.poll_control(local, &mut self.burst);
            } else {
                sender.endpoint.poll_transmit(local, &mut self.burst);
            }
            self.hand_over(sender, now, env);
            pass = self.pass_after(control_only, sender.host, &env.network);
        }
        // The timer is read last, because a segment that was just sent may have set the first one.
        sender.endpoint.poll_timeout().map_or(Instant::FAR_FUTURE, |at| sender.clock.when(at))
    }

    /// The first poll of `host` for what it may send now.
    #[inline]
    fn first_pass(&self, host: HostId, network: &Network) -> Option<TransmitPass> {
        if let Some(depth) = self.settings.control_depth {
            let room = depth.saturating_sub(network.nic_queued(host).control_packets);
            return Some(TransmitPass { control_only: true, room });
        }
        if network.nic_is_paused(host) {
            // Behind data that is held back control packets still have a way out.
            return Some(TransmitPass { control_only: true, room: BURST });
        }
        self.data_pass(host, network)
    }

    /// A poll of `host` for data and control, as far as its NIC has room.
    #[inline]
    fn data_pass(&self, host: HostId, network: &Network) -> Option<TransmitPass> {
        let waiting = match self.settings.control_depth {
            Some(_) => network.nic_queued(host).data_packets,
            None => network.nic_waiting(host),
        };
        let room = self.settings.depth.saturating_sub(waiting);
        (room > 0).then_some(TransmitPass { control_only: false, room })
    }

    /// The poll of `host` after one whose burst has been handed over.
    #[inline]
    fn pass_after(
        &self,
        control_only: bool,
        host: HostId,
        network: &Network,
    ) -> Option<TransmitPass> {
        let is_full = self.burst.room() == 0;
        if !control_only {
            if !is_full || !self.burst.is_timed() {
                return None;
            }
            // Packets that leave later take no room in the NIC: the endpoint gives all at once.
            // Packets behind them that leave now may exceed the depth, by one burst at most.
            if self.burst.timed() == self.burst.len() {
                return Some(TransmitPass { control_only, room: BURST });
            }
            return self.data_pass(host, network);
        }
        // Control that has filled its depth goes before more data.
        if self.settings.control_depth.is_none() || is_full || network.nic_is_paused(host) {
            return None;
        }
        self.data_pass(host, network)
    }

    /// Gives the burst to the NIC, and keeps what leaves later.
    #[inline]
    fn hand_over(&mut self, sender: &mut Sender<'_>, now: Instant, env: &mut Environment<'_>) {
        self.handed_over += self.burst.len() as u64;
        let is_timed = self.burst.is_timed();
        for (index, segment) in self.burst.iter().enumerate() {
            let ext = self.burst.ext(index);
            // A packet without a departure of its own leaves now: a clock with jitter does not
            // delay it.
            if is_timed && let Some(departure) = self.burst.own_departure(index) {
                let at = sender.clock.when(departure);
                if at > now {
                    let ext = segment.hdr.ext.is_some().then(|| Box::new(*ext));
                    let kept = Kept { at, segment: *segment, ext };
                    if sender.kept.back().is_none_or(|last| last.at <= at) {
                        sender.kept.push_back(kept);
                    } else {
                        let behind = sender.kept.partition_point(|other| other.at <= at);
                        sender.kept.insert(behind, kept);
                    }
                    continue;
                }
            }
            if let Some(tap) = &mut self.tap {
                tap.note(sent((segment, ext), sender.host, now));
            }
            send((segment, ext), sender.host, (&self.sizes, self.keeps(false)), now, env);
        }
    }

    /// Sends packets that were kept until `now`.
    #[inline(never)]
    pub(super) fn release(
        &mut self,
        sender: &mut Sender<'_>,
        now: Instant,
        env: &mut Environment<'_>,
    ) {
        while sender.kept.front().is_some_and(|kept| kept.at <= now)
            && let Some(Kept { segment, ext, .. }) = sender.kept.pop_front()
        {
            let carried = (&segment, ext.as_deref().unwrap_or(&Ext::VACANT));
            if let Some(tap) = &mut self.tap {
                tap.note(sent(carried, sender.host, now));
            }
            send(carried, sender.host, (&self.sizes, self.keeps(true)), now, env);
        }
    }

    #[inline]
    fn keeps(&self, chosen: bool) -> Keeps {
        let start = self.wire_delay.is_some();
        Keeps { start, rank: self.ranks, chosen, slots: self.slots }
    }
}

/// What is kept of a data packet beside its header.
#[derive(Clone, Copy)]
struct Keeps {
    /// When the line begins to send it.
    start: bool,
    /// A rank, by what the header says.
    rank: Option<Ranks>,
    /// The departure was chosen before it was due; only a journal reads that.
    chosen: bool,
    /// The slots in which data departs: trains have gaps for some of them.
    slots: Option<Slots>,
}

/// Gives a segment of `host` to its NIC.
#[inline(always)]
fn send(
    carried: (&TxSegment, &Ext),
    host: HostId,
    (sizes, keeps): (&WireSizes, Keeps),
    now: Instant,
    env: &mut Environment<'_>,
) {
    let mut packet = env.packets.packet_of(carried, host, sizes);
    if let Some(ranks) = keeps.rank {
        packet = packet.ranked(&carried.0.hdr, ranks);
    }
    if let Coding::Train(cells) = carried.0.payload.coding {
        let (ev, ends) = (carried.0.hdr.ev, (host, carried.0.peer));
        let after = keeps.slots.map_or([0; 2], |slots| slots.gaps(ev, cells, ends));
        let control = sizes.accounted.control.unwrap_or(0);
        packet = packet.with_gaps(Gaps { after, control });
    }
    if keeps.start && packet.is_data() {
        let start = env.network.nic_start(host, &packet, now);
        env.packets.note_start(packet.handle, start);
    }
    if let Some(journal) = &mut env.packets.journal {
        let (handle, chosen) = (packet.handle, keeps.chosen);
        let (hdr, to) = (&carried.0.hdr, carried.0.peer);
        journal.on_sent(&Sent { handle, hdr, from: host, to, chosen }, now);
    }
    let mut frames = SlabFrames::new(&mut env.packets, sizes);
    env.network.send(host, packet, now, &mut frames, &mut env.out);
}

/// A segment that `host` sends, for a capture.
fn sent((segment, ext): (&TxSegment, &Ext), host: HostId, at: Instant) -> Taken {
    let (class, peer) = (segment.class(), segment.peer);
    let (hdr, payload_len) = (segment.hdr, segment.payload.len);
    Taken { at, host, peer, sent: true, hdr, ext: *ext, payload_len, class, ecn: class.ecn() }
}
