//! A Core between zero-buffer pods: it keeps the cells that pods send up, in a queue for each host,
//! and sends them down in the epochs that the scheduler of their pod grants.
//!
//! Source: \[zeropod\] III-C, IV-A2, IV-D. To each pod a Core is one more end. Its port there sends
//! requests and cells as a host does, by the clock of that pod, in epochs that begin a hop later
//! than those of hosts.
//!
//! ```text
//!   pod a --cells--> queue of their host in pod b --granted epochs of pod b--> pod b
//!             |                   |                          |
//!             |                   +-- RTS / SCHD of pod b    +-- receipts of pod b
//!             +-- more than `pause_cells` for pod b:              |
//!                 a flag in the RTS to every pod                  +--> RTS to pod a: delivered
//! ```
//!
//! A Core keeps no copy of what it has sent: a cell that is lost behind it is sent again by its
//! host, to which no delivery has been reported.

mod delivered;
mod reports;

use std::collections::VecDeque;

use transport::params::NoParams;
use transport::registry::Registered;
use transport::sched::zeropod::timing::Timing;
use transport::sched::zeropod::{PodCounts, PodEnd, Zeropod, ZeropodParams};
use transport::sched::{Backlog, Protocol, Reported, Sending};
use transport::segment::TxSegment;
use transport::wire::pod::CoreRts;
use transport::wire::{Body, Data, Ext, Header, Note};
use transport::{Bytes, DropReason, Duration, EntropyValue, FlowId, HostId, Instant, PayloadRef};

use super::pod_scheduler::{all_hosts, first_core, timing};
use super::{Context, Program, ProgramSettings, ProgramSetup, SwitchProgram};
use crate::elements::PortId;
use crate::packet::Packet;
use crate::qdisc::Queued;
use delivered::{Sent, SourceSegment};
use reports::{DeliveredReport, Reports};

/// A Core.
#[derive(Clone, Debug)]
pub struct PodCore {
    address: HostId,
    first_port: u32,
    /// `None` where the switch joins no pods: it drops what it gets.
    relay: Option<Box<Relay>>,
}

/// The state of a Core.
#[derive(Clone, Debug)]
struct Relay {
    /// Hosts of a pod.
    hosts: u32,
    /// Cells for one pod beyond which it takes no more, and at which it does again.
    pause: (u32, u32),
    /// The most bytes that the Core holds.
    buffer: u64,
    /// The pods for which the Core takes no more cells, a bit each.
    paused: u32,
    held: Queued,
    counters: CoreCounters,
    /// One a pod.
    ports: Vec<CorePort>,
}

/// The port of a Core to one pod.
#[derive(Clone, Debug)]
struct CorePort {
    /// The address of the Core.
    address: HostId,
    /// Asks that pod's scheduler; flow `i` is host `i` of the pod.
    client: Zeropod,
    /// For each host of the pod: its cells, and where they came from.
    queues: Vec<VecDeque<(Packet, SourceSegment)>>,
    /// Cells in all queues of the pod.
    cells: u32,
    sent: Sent,
    /// Cells of hosts of this pod that have been delivered in other pods, or are to be sent again.
    delivered: Reports,
    /// The pauses that its last request named.
    named: u32,
    /// When the port has something to do next.
    due: Instant,
}

/// What Cores have counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreCounters {
    /// The most cells that waited for one pod at the same time.
    pub cells_max: u32,
    /// The most bytes that waited in one Core at the same time.
    pub bytes_max: u64,
    /// Times that a port began to ask for no more cells.
    pub pauses: u64,
}

impl CoreCounters {
    /// These figures and those of another Core: the larger of each maximum, and the sum of each
    /// count.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            cells_max: self.cells_max.max(other.cells_max),
            bytes_max: self.bytes_max.max(other.bytes_max),
            pauses: self.pauses + other.pauses,
        }
    }
}

impl Registered for PodCore {
    const ABOUT: &'static str =
        "keeps cells between pods and asks their schedulers for epochs, Zeropod";
    type Params = NoParams;

    fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let ports = self.relay.iter().flat_map(|relay| &relay.ports);
        each("unreported", ports.map(|port| port.delivered.dropped).sum());
    }
}

impl SwitchProgram for PodCore {
    fn build(_settings: &ProgramSettings, setup: &ProgramSetup<'_>) -> Self {
        let relay = Relay::new(setup).map(Box::new);
        Self { address: setup.address, first_port: setup.first_port.0, relay }
    }
}

impl Relay {
    fn new(setup: &ProgramSetup<'_>) -> Option<Self> {
        let params = &setup.sched.zeropod;
        let all = all_hosts(setup.switches);
        let own = setup.switches.get(setup.address.0.checked_sub(all)? as usize)?;
        let hosts = own.child_hosts;
        let number = setup.address.0 - all - first_core(setup.switches, hosts)?;
        let timing = timing(params, setup.links.first()?);
        let layer = u16::try_from(number).ok()?.checked_div(params.aggs)?;
        let flows = hosts as usize;
        let port = |pod: u32| {
            let end = PodEnd {
                scheduler: HostId(params.scheduler + pod),
                backup: (params.backup > 0).then_some(HostId(params.backup + pod)),
                first: pod * hosts,
                number: u16::try_from(hosts + number).unwrap_or(u16::MAX),
                own: layer,
                behind: timing.hop,
            };
            // A Core acts at the instant itself.
            let timing = Timing { early: Duration::ZERO, ..timing };
            // A Core's request has no room for mice, and a cell does not say whether it is of one.
            let params = ZeropodParams { top_k: 0, ..*params };
            let mut client = Zeropod::at(end, &params, timing, flows);
            for host in 0..hosts {
                client.open(flow(host), HostId(end.first + host));
            }
            CorePort {
                address: setup.address,
                client,
                queues: vec![VecDeque::new(); flows],
                cells: 0,
                sent: Sent::new(),
                delivered: Reports::default(),
                named: 0,
                due: Instant::FAR_FUTURE,
            }
        };
        let on = params.pause_cells;
        Some(Self {
            hosts,
            pause: (on, on.saturating_sub(params.cells.into())),
            buffer: params.core_buffer.into(),
            paused: 0,
            held: Queued::default(),
            counters: CoreCounters::default(),
            ports: (0..all / hosts).map(port).collect(),
        })
    }

    /// Keeps a cell for a host, if there is room.
    fn keep(&mut self, packet: Packet, origin: SourceSegment, now: Instant) -> bool {
        let (pod, host) = (packet.dst.0 / self.hosts, packet.dst.0 % self.hosts);
        let room = self.held.data_bytes + packet.wire_bytes() <= self.buffer;
        let Some(port) = self.ports.get_mut(pod as usize).filter(|_| room) else { return false };
        let queue = &mut port.queues[host as usize];
        queue.push_back((packet, origin));
        let waiting = queue.len();
        port.cells += 1;
        port.wait(host, waiting, now);
        self.held.add(&packet);
        let counters = &mut self.counters;
        counters.cells_max = counters.cells_max.max(port.cells);
        counters.bytes_max = counters.bytes_max.max(self.held.data_bytes);
        if port.cells > self.pause.0 && self.paused >> pod & 1 == 0 {
            self.counters.pauses += 1;
            self.set_paused(self.paused | 1 << pod, now);
        }
        true
    }

    /// Makes the requests to all pods name those for which the Core takes no more cells.
    //= zeropod#IV-A2
    fn set_paused(&mut self, paused: u32, now: Instant) {
        self.paused = paused;
        self.ports.iter_mut().for_each(|port| port.due = port.due.min(now));
    }

    /// What is due at the port to `pod`: a cell, a request.
    fn run(&mut self, pod: usize, out: PortId, now: Instant, cx: &mut Context<'_>) {
        self.ports[pod].client.handle_timeout(now);
        self.take_reported(pod, now);
        let port = &mut self.ports[pod];
        let mut slot_at = Instant::FAR_FUTURE;
        // Bounded: a cell leaves now, or the turn is for later.
        while let Some(turn) = port.client.next_turn(now, now) {
            let at = turn.choice.and_then(|choice| choice.at).unwrap_or(now);
            if at > now {
                slot_at = at;
                break;
            }
            let Some(packet) = port.send(turn.flow, now) else { break };
            self.held.remove(&packet);
            cx.send(out, packet);
        }
        let resumed = self.ports[pod].cells <= self.pause.1;
        if resumed && self.paused >> pod & 1 == 1 {
            self.set_paused(self.paused & !(1 << pod), now);
        }
        let (paused, port) = (self.paused, &mut self.ports[pod]);
        port.follow_term(now);
        let rts = port.client.poll_request(now, port.reports(paused));
        if let Some((to, rts)) = rts {
            debug_assert_eq!(rts.mice_len, 0, "found for a request without room for them");
            port.follow_term(now);
            let delivered = port.delivered_for(to, now);
            // A request to a scheduler that is being left does not inform the present one.
            if to == port.client.pod_end().scheduler {
                port.named = paused;
            }
            if delivered.is_some() {
                port.client.expect_passing_on();
            }
            let (term, epoch, update, lost) = (rts.term, rts.epoch, rts.update, rts.lost);
            let rts = CoreRts { term, epoch, update, paused, delivered, lost };
            port.ask(to, &rts, out, cx);
        }
        let timer = port.client.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        port.due = timer.min(slot_at);
        if port.reports(paused) {
            port.due = port.due.min(port.client.next_request_at());
        }
    }

    /// Takes in the reports of the schedulers of pods on cells that have been delivered there.
    fn take_reported(&mut self, pod: usize, now: Instant) {
        while let Some(reported) = self.ports[pod].client.next_reported() {
            // Cells of a port stay in its pod, and each is reported by its number.
            let Reported::Segments { first, arrived, again, .. } = reported else { continue };
            for bit in (0..64).filter(|bit| arrived >> bit & 1 == 1) {
                let Some(origin) = self.ports[pod].sent.origin(first.plus(bit)) else {
                    continue;
                };
                let home = (origin.from.0 / self.hosts) as usize;
                let host = u16::try_from(origin.from.0 % self.hosts).unwrap_or(u16::MAX);
                if let Some(port) = self.ports.get_mut(home) {
                    port.delivered.note(host, &origin, again);
                    port.due = port.due.min(now);
                }
            }
        }
    }

    fn poll_at(&self) -> Instant {
        self.ports.iter().map(|port| port.due).min().unwrap_or(Instant::FAR_FUTURE)
    }
}

impl CorePort {
    /// The number of cells that wait for a host.
    fn wait(&mut self, host: u32, cells: usize, now: Instant) {
        let backlog = Backlog { sendable: Bytes(1), segments: cells as u64, ..Backlog::default() };
        self.client.on_backlog(flow(host), &backlog, now);
        self.due = self.due.min(now);
    }

    /// Takes the first cell of a host's queue, which leaves now.
    fn send(&mut self, flow: FlowId, now: Instant) -> Option<Packet> {
        let queue = self.queues.get_mut(flow.index())?;
        let (packet, origin) = queue.pop_front()?;
        self.cells -= 1;
        let psn = self.sent.note(origin);
        let hdr =
            Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Data(Data { psn, ..Data::VACANT }));
        let mut segment = TxSegment { hdr, payload: PayloadRef::NONE, peer: packet.dst };
        self.client.on_sent(flow, &mut segment, Backlog::default, now);
        Some(packet)
    }

    /// Whether a request has to carry more than demands.
    fn reports(&self, paused: u32) -> bool {
        paused != 0 || self.named != paused || !self.delivered.is_empty()
    }

    /// Takes in the term of the pod's scheduler.
    fn follow_term(&mut self, now: Instant) {
        self.delivered.follow_term(self.client.term(), self.young(), now);
    }

    /// The age up to which requests to send cells again are repeated. A host that turns to a backup
    /// has had no answer for its patience, and the scheduler that it leaves had the report at most
    /// as long before. Without a backup the next term may begin at any time later.
    fn young(&self) -> Option<Duration> {
        let timing = self.client.timing();
        self.client.pod_end().backup.map(|_| timing.epoch * (2 * timing.patience()))
    }

    /// Takes in an answer of the pod's scheduler. Where one was overdue until now, the scheduler
    /// was cut off or has begun anew, and reports may have been lost since the last probe that was
    /// answered. A pod with a backup has another term then ([`CorePort::follow_term`]).
    fn take_answer(&mut self, from: HostId, header: &Header, note: &Note, now: Instant) {
        // What is overdue depends on the epoch, so it is this instant's.
        self.client.handle_timeout(now);
        let (was_away, confirmed) = (self.client.is_overdue(), self.client.confirmed());
        // The client counts what it refuses.
        let _ = self.client.on_host_control(from, header, note, now);
        let alone = self.client.pod_end().backup.is_none();
        if alone && was_away && !self.client.is_overdue() {
            self.delivered.repeat_from(confirmed);
        }
        self.due = self.due.min(now);
    }

    /// The report for a request to a scheduler: none for a scheduler that serves no more, and none
    /// for one whose answer is overdue, as it may be down.
    fn delivered_for(&mut self, scheduler: HostId, now: Instant) -> Option<DeliveredReport> {
        let serves = self.client.pod_end().scheduler == scheduler && !self.client.is_overdue();
        if serves { self.delivered.next(now) } else { None }
    }

    /// Sends a request to a scheduler of the pod.
    fn ask(&self, peer: HostId, rts: &CoreRts, out: PortId, cx: &mut Context<'_>) {
        let number = EntropyValue(self.client.pod_end().number);
        let hdr = Header::new(number, FlowId::UNKNOWN, Body::Note(rts.note()));
        let segment = TxSegment { hdr, payload: PayloadRef::NONE, peer };
        if let Some(packet) = cx.make(&segment, &Ext::VACANT, self.address) {
            cx.send(out, packet);
        }
    }
}

/// The flow of a port's client that stands for a host of the pod.
const fn flow(host: u32) -> FlowId {
    FlowId::new(host, 1)
}

impl PodCore {
    /// What this Core has counted.
    #[must_use]
    pub fn counters(&self) -> CoreCounters {
        self.relay.as_ref().map_or_else(CoreCounters::default, |relay| relay.counters)
    }

    /// What the Core's ports have counted, as ends of their pods.
    #[must_use]
    pub fn pod_counts(&self) -> PodCounts {
        let mut sum = PodCounts::default();
        for port in self.relay.iter().flat_map(|relay| &relay.ports) {
            sum.add(&port.client.counts());
        }
        sum
    }

    /// An answer of a scheduler has arrived.
    fn on_answer(&mut self, packet: &Packet, from: PortId, now: Instant, cx: &Context<'_>) {
        let Some(relay) = &mut self.relay else { return };
        let pod = (from.0 - self.first_port) as usize;
        let (Some(sender), Some(header)) = (cx.sender(packet), cx.header(packet)) else { return };
        let Some(port) = relay.ports.get_mut(pod) else { return };
        if let Body::Note(note) = &header.body {
            port.take_answer(sender, &header, note, now);
            relay.take_reported(pod, now);
        }
    }
}

impl Program for PodCore {
    fn on_arrival(&mut self, packet: Packet, from: PortId, now: Instant, cx: &mut Context<'_>) {
        if packet.dst == self.address {
            self.on_answer(&packet, from, now, cx);
            cx.consume(packet);
            return;
        }
        let Some(relay) = &mut self.relay else {
            cx.drop_at(from, packet, DropReason::NoRoute);
            return;
        };
        let pod = packet.dst.0 / relay.hosts;
        let back = pod == from.0 - self.first_port;
        let origin = SourceSegment::of(&packet, cx).filter(|_| !back);
        match origin {
            Some(origin) if (pod as usize) < relay.ports.len() => {
                if !relay.keep(packet, origin, now) {
                    cx.drop_at(from, packet, DropReason::DataQueueFull);
                }
            }
            _ => cx.drop_at(from, packet, DropReason::NoRoute),
        }
    }

    fn poll_at(&self) -> Instant {
        self.relay.as_ref().map_or(Instant::FAR_FUTURE, |relay| relay.poll_at())
    }

    fn on_time(&mut self, now: Instant, cx: &mut Context<'_>) {
        let Some(relay) = &mut self.relay else { return };
        // A port that runs may make others due, at most once each: by a pause that ends.
        while let Some(pod) = relay.ports.iter().position(|port| port.due <= now) {
            let out = u32::try_from(pod).unwrap_or(u32::MAX);
            relay.run(pod, PortId(self.first_port + out), now, cx);
        }
    }

    fn held(&self) -> Option<Queued> {
        self.relay.as_ref().map(|relay| relay.held)
    }

    fn is_end(&self) -> bool {
        true
    }
}
