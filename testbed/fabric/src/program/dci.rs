//! The border switch of MLCC: it ends the loop of the sender's site, and keeps a queue for each
//! flow that enters the receiver's. Source: \[mlcc\] sec. 3.2.
//!
//! ```text
//!   data to the WAN:    hops of the site -> NOTE to the sender, and out of the packet
//!   data from the WAN:  hops out -> queue of the flow -> hop of that queue -> port to the site
//!   answer to the WAN:  its advice -> credit and rate of the flow's queue
//!   answer from it:     names the sender's flow, for notes
//! ```
//!
//! The queues are directly before the port: the port gets one packet at a time, when its link is
//! free. So no other queue follows the pacers, and a pause stops them. Flows are named by their
//! keys. Packets of other transports, and all packets but data, go straight to their ports. A flow
//! that finds no queue free shares the port's own queue; its receiver gets no hop of a queue and
//! does not change its credit. Ports up lead to other sites.
//!
//! The program depends on its [`Context`] alone. Advice is taken without proof from every packet
//! that leaves the site.

mod queues;
mod ready;
mod recent;
mod senders;

use transport::cc::mlcc_note;
use transport::params::params;
use transport::path::NetworkFacts;
use transport::rc::MlccHalf;
use transport::registry::Registered;
use transport::units::Key;
use transport::wire::data::Glance;
use transport::wire::int::Hop;
use transport::wire::{Body, Ext, Extent, Header};
use transport::{
    Bytes, DropReason, Duration, FlowId, HostId, Instant, KeyHash, PayloadRef, Rate, TxSegment,
};

use super::turns::PortTurns;
use super::{Context, Program, ProgramSettings, ProgramSetup, SendFate, SwitchProgram};
use crate::elements::PortId;
use crate::packet::Packet;
use crate::qdisc::Queued;
use queues::{Limits, PushError, QueueTurn, Queues};
use senders::Senders;

params! {
    /// Settings of [`Dci`].
    pub struct DciParams {
        /// Queues of flows at most; further flows share the port's own.
        queues: u32 = 4096, in 1..=1048576;
        /// Bytes in the queues of flows at most, or auto: no bound.
        buffer: Option<Bytes> = Some(Bytes(128_000_000));
        /// The least time between two notes to a sender about one flow: RTT_D / 4.
        feedback_gap: Duration = Duration::from_us(6), in Duration::ZERO..=Duration::from_s(1);
        /// RTT_D: from here to a receiver and back; taken over from the network.
        rtt_d: Duration = Duration::from_us(24), in Duration::from_ns(100)..=Duration::from_ms(10);
        /// What leaves a queue under one credit, as a multiple of what its rate sends in RTT_D; 0:
        /// only the rate bounds it, as in the paper.
        clock: f32 = 2.0, in 0.0..=1000.0;
        /// Rate of hosts' links, Gb/s, which a new queue has; taken over from the network.
        host_gbps: f32 = 25.0, in 0.01..=10000.0;
        /// Whether a new queue has an equal share of that among the flows that send to its host.
        equal: bool = true;
        /// How long an empty queue stays its flow's: two RTT_C; taken over from the network.
        idle: Duration = Duration::from_ms(12), in Duration::from_us(1)..=Duration::from_s(60);
    }
}

/// Flows to a host are counted over so many RTT_D.
const COUNTED: u64 = 8;

/// Packets that leave a queue under any credit, however low the rate is.
const ALLOWANCE_LEAST: u64 = 3;

/// The border switch of a site.
#[derive(Clone, Debug)]
pub struct Dci {
    first_port: u32,
    /// For each port: whether it leads to another site.
    is_wan: Vec<bool>,
    /// For each port: what of its queues is at the port itself.
    links: Vec<OutPort>,
    /// When ports with queues take their next packets.
    turns: PortTurns,
    queues: Queues,
    queued: Queued,
    senders: Senders,
    host_rate: Rate,
    equal: bool,
    stats: DciStats,
}

/// A port that is given one packet at a time.
#[derive(Clone, Copy, Debug)]
struct OutPort {
    /// The packet that the port was given last and has not sent yet.
    given: Option<u32>,
    /// When the link is free after `given`.
    free_at: Instant,
}

impl OutPort {
    /// Free, with nothing to send.
    const IDLE: Self = Self { given: None, free_at: Instant::ZERO };
}

/// What a border switch counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DciStats {
    /// Notes sent to senders of the site.
    pub switch_int: u64,
    /// Advice that a queue took.
    pub advised: u64,
    /// Most queues open at once.
    pub queues_peak: u64,
    /// Most bytes in all queues.
    pub queue_bytes_peak: u64,
    /// Packets that found no queue free.
    pub pool_exhausted: u64,
    /// Advice that was dropped: a rate of zero, or beyond the hosts' links.
    pub advice_refused: u64,
}

impl Registered for Dci {
    const ABOUT: &'static str =
        "MLCC's border switch: notes to senders, a paced queue for each flow";
    type Params = DciParams;

    fn resolve(params: &mut DciParams, facts: &NetworkFacts) {
        params.rtt_d = facts.site_rtt.unwrap_or(params.rtt_d);
        params.idle = facts.inter_rtt.map_or(params.idle, |rtt| rtt * 2);
        if let Some(rate) = facts.line_rate {
            #[expect(clippy::cast_possible_truncation, reason = "half the digits are enough")]
            let gbps = rate.as_gbps_f64() as f32;
            params.host_gbps = gbps;
        }
    }
}

impl SwitchProgram for Dci {
    fn ends_loops() -> bool {
        true
    }

    fn build(settings: &ProgramSettings, setup: &ProgramSetup<'_>) -> Self {
        let params = &settings.dci;
        let longest = setup.links.iter().map(|link| link.port.params.packet_max.0).max();
        let packet_max = longest.unwrap_or(1).max(1);
        let limits = Limits {
            queues: params.queues as usize,
            bytes: params.buffer.map_or(u64::MAX, |buffer| buffer.0),
            idle: params.idle,
            span: params.rtt_d * COUNTED,
            rtt: params.rtt_d,
            clock: params.clock,
            allowance_least: ALLOWANCE_LEAST * packet_max,
            packet_max,
        };
        let ports = setup.links.len();
        let hash = |use_: u64| {
            let mut rng = setup.rng.fork("keys", use_);
            KeyHash::new([rng.next_u64(), rng.next_u64()])
        };
        let bps = Bytes(1_000_000_000).scaled(f64::from(params.host_gbps)).0;
        Self {
            first_port: setup.first_port.0,
            is_wan: setup.lead_up().collect(),
            links: vec![OutPort::IDLE; ports],
            turns: PortTurns::new(setup.ports()),
            queues: Queues::new(limits, ports, hash(0)),
            queued: Queued::default(),
            senders: Senders::new(
                (params.feedback_gap, params.idle, params.rtt_d * COUNTED),
                hash(1),
            ),
            host_rate: Rate::from_bps(bps.max(1)),
            equal: params.equal,
            stats: DciStats::default(),
        }
    }

    fn begins_anew() -> bool {
        true
    }
}

impl Dci {
    /// The counters of the switch.
    #[must_use]
    pub const fn stats(&self) -> DciStats {
        self.stats
    }

    /// The flows that have a queue: their keys, the bytes in it, and the rate that empties it.
    pub fn queues_of_flows(&self) -> impl Iterator<Item = (Key, Bytes, Rate)> + '_ {
        self.queues.of_flows()
    }

    fn index(&self, port: PortId) -> usize {
        (port.0 - self.first_port) as usize
    }

    fn port(&self, place: usize) -> PortId {
        PortId(self.first_port + u32::try_from(place).unwrap_or(u32::MAX))
    }

    /// Data of a flow of MLCC that leaves the site by `port`.
    fn leaves_site(
        &mut self,
        packet: &mut Packet,
        seen: &Glance,
        (port, now): (PortId, Instant),
        cx: &mut Context<'_>,
    ) {
        if seen.src_flow != FlowId::UNKNOWN
            && let Some(from) = cx.sender(packet)
        {
            self.senders.learn(seen.key, (from, seen.src_flow), now);
        }
        if let Some(due) = self.senders.due(seen.key, packet.dst, now)
            && let Some((_, Header { ev, body: Body::Data(data), .. }, ext)) = cx.frame(packet)
        {
            // The hop of its own port: without it nothing bounds the queue there.
            let mut int = ext.int;
            int.widen();
            int.stamp(cx.hop(port));
            let note = Body::Note(mlcc_note(data.sent_at, due.sharers));
            let extent = Extent::NONE.with_int(&int);
            let hdr = Header::new(ev, due.flow, note).keyed(seen.key).extended(extent);
            let segment = TxSegment { hdr, payload: PayloadRef::NONE, peer: due.host };
            self.note(&segment, &Ext { int, ..Ext::VACANT }, packet.dst, cx);
        }
        if seen.has_hops {
            cx.clear_hops(packet);
        }
    }

    /// Sends a note in the name of `from`, the receiver that the sender's flow has as its peer.
    fn note(&mut self, segment: &TxSegment, ext: &Ext, from: HostId, cx: &mut Context<'_>) {
        let Some(note) = cx.make(segment, ext, from) else { return };
        match cx.route(&note) {
            Some(port) => {
                self.stats.switch_int += 1;
                cx.send(port, note);
            }
            None => cx.consume(note),
        }
    }

    /// Data of a flow of MLCC that enters the site by `port`.
    fn enters_site(
        &mut self,
        (mut packet, seen): (Packet, &Glance),
        (port, from): (PortId, PortId),
        now: Instant,
        cx: &mut Context<'_>,
    ) {
        if seen.has_hops {
            cx.clear_hops(&mut packet);
        }
        let place = self.index(port);
        let (equal, host_rate) = (self.equal, self.host_rate);
        // The first rate of a new queue, which shares the link with the flows that are there.
        let initial = |others: u16| {
            let flows = if equal { u64::from(others) + 1 } else { 1 };
            Rate::from_bps((host_rate.as_bps() / flows).max(1))
        };
        match self.queues.push(seen.key, (packet, place), initial, now) {
            Ok(is_first) => {
                if is_first {
                    self.file(place, now);
                }
                self.queued.add(&packet);
                let stats = &mut self.stats;
                stats.queues_peak = stats.queues_peak.max(self.queues.open() as u64);
                stats.queue_bytes_peak = stats.queue_bytes_peak.max(self.queued.data_bytes);
            }
            Err(PushError::Exhausted) => {
                self.stats.pool_exhausted += 1;
                cx.send(port, packet);
            }
            Err(PushError::Full) => {
                cx.drop_at(from, packet, DropReason::queue_full(packet.class()))
            }
        }
    }

    /// An acknowledgement, or a refusal, that passes the border.
    fn answer(&mut self, packet: &Packet, to_wan: bool, now: Instant, cx: &Context<'_>) {
        let mut advised = None;
        cx.read(packet, &mut |_, header, ext| {
            let advice = header.ext.advice(ext);
            let advice = advice.filter(|advice| advice.half.get() == MlccHalf::NUMBER);
            advised = advice.map(|advice| (advice, header.key, header.dst_flow));
        });
        let Some((advice, key, flow)) = advised else { return };
        if !to_wan {
            self.senders.learn(key, (packet.dst, flow), now);
        } else {
            // Rates are reported in whole kb/s.
            let most = self.host_rate.as_bps() + 1000;
            let rates = MlccHalf::rates(advice.values);
            let Some([rate, _]) = rates.filter(|[rate, _]| rate.as_bps() <= most) else {
                self.stats.advice_refused += 1;
                return;
            };
            let place = self.queues.advise(key, advice.number, rate, now);
            self.stats.advised += u64::from(place.is_some());
            if let Some(place) = place {
                self.file(place, now);
            }
        }
    }

    /// Files when the port of `place` takes the next packet of its queues, now at the earliest.
    fn file(&mut self, place: usize, now: Instant) {
        let link = &self.links[place];
        let ready = self.queues.ready_at(place);
        let turn = match link.given {
            None if ready < Instant::FAR_FUTURE => ready.max(link.free_at).max(now),
            _ => Instant::FAR_FUTURE,
        };
        self.turns.set(self.port(place).0, turn);
    }

    /// Gives the port of `place` its next packet.
    fn give(&mut self, place: usize, now: Instant, cx: &mut Context<'_>) {
        // The way that its queue had may be dead by now.
        let first_port = self.first_port;
        let route =
            |packet: &Packet| cx.route(packet).map_or(place, |port| (port.0 - first_port) as usize);
        let popped = match self.queues.take_turn(place, now, route) {
            Some(QueueTurn::Leaves(popped)) => popped,
            Some(QueueTurn::Moves(other)) => return self.file(other, now),
            None => return,
        };
        let mut packet = popped.packet;
        self.queued.remove(&packet);
        let hop = Hop::of_queue(now, Bytes(popped.sent), Bytes(popped.left), popped.credit);
        let port = self.port(place);
        let fate = cx.send_stamped(port, &mut packet, &hop);
        let link = &mut self.links[place];
        match fate {
            SendFate::Leaves => link.free_at = cx.free_at(port),
            SendFate::Waits | SendFate::Trimmed => link.given = Some(packet.handle),
            SendFate::Dropped => {}
        }
    }
}

impl Program for Dci {
    // `on_departure` is for a packet that its port had to keep.
    const HANDLES_ALL_DEPARTURES: bool = false;

    fn on_arrival(&mut self, mut packet: Packet, from: PortId, now: Instant, cx: &mut Context<'_>) {
        let Some(port) = cx.route(&packet) else {
            cx.drop_at(from, packet, DropReason::NoRoute);
            return;
        };
        let (from_wan, to_wan) = (self.is_wan[self.index(from)], self.is_wan[self.index(port)]);
        if from_wan != to_wan && !packet.is_data() {
            self.answer(&packet, to_wan, now, cx);
        } else if from_wan != to_wan
            && let Some(seen) = cx.glance(&packet)
            && u8::from(seen.half) == MlccHalf::NUMBER
        {
            if from_wan {
                self.enters_site((packet, &seen), (port, from), now, cx);
                return;
            }
            self.leaves_site(&mut packet, &seen, (port, now), cx);
        }
        cx.send(port, packet);
    }

    fn on_departure(
        &mut self,
        packet: &mut Packet,
        port: PortId,
        now: Instant,
        cx: &mut Context<'_>,
    ) {
        let place = self.index(port);
        let link = &mut self.links[place];
        if link.given == Some(packet.handle) {
            (link.given, link.free_at) = (None, cx.free_at(port));
            self.file(place, now);
        }
    }

    fn poll_at(&self) -> Instant {
        self.turns.first_at()
    }

    fn on_time(&mut self, now: Instant, cx: &mut Context<'_>) {
        while self.turns.first_at() <= now
            && let Some((_, port)) = self.turns.first()
        {
            let place = self.index(PortId(port));
            self.give(place, now, cx);
            self.file(place, now);
        }
    }

    fn crash(&mut self, now: Instant, cx: &mut Context<'_>) {
        for (place, packet) in self.queues.clear() {
            cx.drop_at(self.port(place), packet, DropReason::LinkDown);
        }
        self.queued = Queued::default();
        self.senders.clear(now);
        for place in 0..self.links.len() {
            let port = self.port(place);
            self.links[place] = OutPort { free_at: cx.free_at(port), ..OutPort::IDLE };
            self.turns.set(port.0, Instant::FAR_FUTURE);
        }
    }

    fn held(&self) -> Option<Queued> {
        Some(self.queued)
    }
}
