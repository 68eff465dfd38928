//! The hosts of a simulated run: one endpoint each, with its timer, flows to start and messages.

mod explain;
mod intake;
mod restart;

use std::collections::VecDeque;

use fabric::{Flags, Flight, Network, Packet, TimeWindow};
use transport::histogram::Spans;
use transport::sched::Label;
use transport::wire::class::{Ecn, TrafficClass};
use transport::wire::{Ext, WireSizes};
use transport::{
    Config, DropReason, Endpoint, Event, FlowId, HostId, Instant, Key, MsgId, MsgSpec, Path,
    Placement, PostError, Rng, RxSegment,
};

use super::capture::{Taken, Tap};
use super::clock::HostClock;
use super::environment::Environment;
use super::nics::{Kept, Nics, Sender};
use super::packets::{InFlight, PacketSlab, SlabFrames};
use crate::capture::Capture;
use crate::conductor::begun::{Begun, begun};
use crate::conductor::{Conductor, PostOrder};
use crate::measure::audit::DriverCount;
use crate::measure::own::OfHosts;
use crate::measure::sampler::FlowSeen;
use crate::plan::Plan;
use crate::why::journal::HostEvent;
use crate::workload::FlowIndex;

/// One host.
// What each turn reads lies side by side, before the endpoint and at its beginning.
#[repr(C)]
struct Host {
    /// For each message index: the flow of the matrix that it carries, and its length.
    messages: Vec<(FlowIndex, u32)>,
    /// When its endpoint has to be called; [`Instant::FAR_FUTURE`] when it does not. Calling
    /// earlier is allowed, calling later is not.
    timer: Instant,
    /// Flows of the matrix to order, by time.
    starts: VecDeque<(Instant, FlowIndex)>,
    /// Packets that the endpoint has given ahead of their departure, in its order.
    kept: VecDeque<Kept>,
    /// Orders to post, each with how many of its messages have been: all at once unless the
    /// endpoint's tables are full.
    waiting: VecDeque<(PostOrder, usize)>,
    /// The clock that the endpoint sees; all else of a host is by network time.
    clock: HostClock,
    endpoint: Endpoint,
    /// Flows whose connection had failed before they could be posted.
    refused: Vec<FlowIndex>,
    /// Flows that were given up, and when.
    given_up: Vec<(FlowIndex, Instant)>,
    /// The key of the flow of the latest packet that arrived, where hosts begin anew.
    key: Key,
}

/// All hosts, or those of one part of a run.
pub(super) struct Hosts<'a> {
    plan: &'a Plan,
    /// The number of the first of `hosts`.
    first: u32,
    hosts: Vec<Host>,
    /// For each connection of the conductor: the transport flow, once open.
    flows: Vec<Option<FlowId>>,
    /// Orders for another host than the one whose events caused them.
    elsewhere: Vec<PostOrder>,
    /// Hosts to be drained at this instant.
    active: Vec<HostId>,
    nics: Nics<'a>,
    /// Packets given to endpoints.
    given: u64,
    /// Connections on which messages were posted since the last look at them, where the run keeps a
    /// journal.
    posted: Option<Vec<u32>>,
    /// Whether the hosts' schedulers send only at instants of their own, whatever arrives.
    at_own_times: bool,
    /// What processes that are over have counted.
    former: OfHosts,
}

impl<'a> Hosts<'a> {
    /// The hosts of `plan` from `first` on, idle, each as `configs` say.
    pub(super) fn new(
        plan: &'a Plan,
        first: u32,
        configs: Vec<Config>,
        (rng, capture): (&Rng, Option<&Capture>),
        trains: bool,
    ) -> Self {
        let endpoint = |id: u32, config| {
            let rng = rng.fork("host", u64::from(id));
            restart::endpoint(&config, HostId(id), rng, trains)
        };
        let host = |(id, config): (u32, Config)| Host {
            endpoint: endpoint(id, config),
            clock: HostClock::new(&plan.draft.clocks, HostId(id), rng),
            timer: Instant::FAR_FUTURE,
            starts: VecDeque::new(),
            messages: Vec::new(),
            waiting: VecDeque::new(),
            refused: Vec::new(),
            given_up: Vec::new(),
            kept: VecDeque::new(),
            key: Key::default(),
        };
        let hosts: Vec<Host> = (first..).zip(configs).map(host).collect();
        Self {
            nics: Nics::new(
                plan,
                hosts.len(),
                capture.map(|capture| Tap::new(capture, first, hosts.len())),
            ),
            plan,
            first,
            // Nothing has arrived yet that hosts could owe an answer for.
            at_own_times: hosts.iter().all(|host| host.endpoint.owes_nothing()),
            hosts,
            flows: vec![None; plan.matrix.flows.len()],
            elsewhere: Vec::new(),
            active: Vec::new(),
            given: 0,
            posted: None,
            former: OfHosts::default(),
        }
    }

    /// The place of `host` in `hosts`.
    #[inline]
    fn index_of(&self, host: HostId) -> usize {
        (host.0 - self.first) as usize
    }

    /// A flow of the matrix is to start at `at`; calls are in the order of time.
    pub(super) fn start_at(&mut self, flow: FlowIndex, at: Instant, network: &mut Network) {
        let src = self.plan.matrix.flows[flow.index()].src;
        let place = self.index_of(src);
        self.hosts[place].starts.push_back((at, flow));
        network.wake_host(src, Instant::ZERO, at);
    }

    /// Runs every host that has a turn in `window`, which ends at `end`. Each goes through its own
    /// instants by itself: what another does in the same window reaches it later.
    pub(super) fn run_apart(
        &mut self,
        window: &TimeWindow,
        end: Instant,
        env: &mut Environment<'_>,
    ) {
        let groups = window.hosts();
        for (index, group) in groups.iter().enumerate() {
            if let Some(soon) = groups.get(index + 1) {
                touch(&env.packets, window.flights(*soon));
            }
            let host = HostId(group.target);
            let mut flights = skip_wakes(window.flights(*group));
            let mut now = Instant::ZERO;
            loop {
                let arrival = flights.first().map_or(Instant::FAR_FUTURE, |flight| flight.at);
                now = self.next_own(host, &env.network).min(arrival).max(now);
                if now >= end {
                    break;
                }
                if now < arrival && self.releases_alone(host, now, &env.network) {
                    self.release(host, now, env);
                    if self.posted.is_some() {
                        self.note_sent(host, now, env);
                    }
                    continue;
                }
                let takes_in =
                    self.at_own_times && self.takes_in_alone(host, flights, now, &env.network);
                flights = self.handle_due(host, flights, now, env);
                if takes_in && self.take_in(host, now, env) {
                    continue;
                }
                while self.drain(host, now, env) {}
            }
            env.network.wake_host(host, end, self.next_own(host, &env.network));
        }
    }

    /// Runs a window of one instant, `now`, at which events of one host may start flows of others.
    /// All hosts handle their due events. Then they drain in rounds, until none has anything to do.
    pub(super) fn run_together(
        &mut self,
        window: &TimeWindow,
        now: Instant,
        end: Instant,
        env: &mut Environment<'_>,
    ) {
        let mut active = std::mem::take(&mut self.active);
        for group in window.hosts() {
            let host = HostId(group.target);
            let flights = skip_wakes(window.flights(*group));
            if !flights.is_empty() || self.next_own(host, &env.network) <= now {
                self.handle_due(host, flights, now, env);
                active.push(host);
            } else {
                env.network.wake_host(host, end, self.next_own(host, &env.network));
            }
        }
        while !active.is_empty() {
            for host in active.drain(..) {
                while self.drain(host, now, env) {}
                env.network.wake_host(host, end, self.next_own(host, &env.network));
            }
            for order in std::mem::take(&mut self.elsewhere) {
                self.post(&order, now, &mut env.conductor);
                active.push(order.src);
            }
            active.sort_unstable();
            active.dedup();
        }
        self.active = active;
    }

    /// When `host` has something to do without an arrival.
    #[inline]
    fn next_own(&self, host: HostId, network: &Network) -> Instant {
        let state = &self.hosts[self.index_of(host)];
        let start = state.starts.front().map_or(Instant::FAR_FUTURE, |&(at, _)| at);
        let turn = network.nic_turn(host);
        let kept = state.kept.front().map_or(Instant::FAR_FUTURE, |kept| kept.at);
        state.timer.min(start).min(turn).min(kept)
    }

    /// Whether `host`, to which nothing arrives at `now`, only has to let packets go whose
    /// departure has come. Its endpoint is not needed for that: it is called at its timer.
    #[inline]
    fn releases_alone(&self, host: HostId, now: Instant, network: &Network) -> bool {
        let state = &self.hosts[self.index_of(host)];
        let due = state.kept.front().is_some_and(|kept| kept.at <= now);
        due && state.timer > now
            && state.starts.front().is_none_or(|&(at, _)| at > now)
            && network.nic_turn(host) > now
    }

    /// Lets the packets of `host` go whose departure has come.
    #[inline]
    fn release(&mut self, host: HostId, now: Instant, env: &mut Environment<'_>) {
        let place = self.index_of(host);
        let Host { endpoint, clock, kept, .. } = &mut self.hosts[place];
        self.nics.release(&mut Sender { host, endpoint, clock, kept }, now, env);
    }

    /// Runs the events of `host` at `now`: starts, departures, the `flights` that are due, its
    /// timer. Returns the rest of the flights.
    // A turn of a host is this call and `drain`: inlined, they save 4 % of its instructions.
    #[inline(always)]
    fn handle_due<'f>(
        &mut self,
        host: HostId,
        flights: &'f [Flight],
        now: Instant,
        env: &mut Environment<'_>,
    ) -> &'f [Flight] {
        let index = self.index_of(host);
        while let Some(&(_, flow)) =
            self.hosts[index].starts.front().filter(|(start, _)| *start <= now)
        {
            self.hosts[index].starts.pop_front();
            let order = env.conductor.order(flow, now);
            self.post(&order, now, &mut env.conductor);
        }
        if env.network.nic_turn(host) <= now {
            let mut frames = SlabFrames::new(&mut env.packets, &self.nics.sizes);
            env.network.run_nic(host, now, &mut frames, &mut env.out);
        }
        let mut rest = flights;
        while let [flight, later @ ..] = rest
            && flight.at <= now
        {
            rest = skip_wakes(later);
            if let Some(paused) = flight.pause() {
                let mut frames = SlabFrames::new(&mut env.packets, &self.nics.sizes);
                env.network.pause_nic(host, paused, now, &mut frames, &mut env.out);
                continue;
            }
            self.given += 1;
            env.network.count_delivered(1);
            if let Some(tap) = &mut self.nics.tap {
                let handle = flight.packet.handle;
                let as_sent = (env.packets.of(handle), env.packets.ext(handle));
                tap.note(received(&flight.packet, as_sent, host, now));
            }
            if let Some(delays) = &mut self.nics.wire_delay
                && flight.packet.is_data()
                && let Some(start) = env.packets.start_of(flight.packet.handle)
            {
                let cells = env.network.nic_cells(host, &flight.packet);
                delays.note_times(now.since(start), cells);
            }
            if let Some(following) = &mut self.nics.following {
                match flight.packet.class() {
                    TrafficClass::Probe => following.note(index, false, now),
                    TrafficClass::Data => following.note(index, true, now),
                    _ => {}
                }
            }
            self.hosts[index].deliver(&flight.packet, &env.packets, now);
            if env.conductor.expects_restarts() {
                self.hosts[index].key = env.packets.of(flight.packet.handle).hdr.key;
                self.hosts[index].report(now, &mut env.conductor);
            }
            if env.packets.journal.is_some() {
                self.note_arrival(host, &flight.packet, now, env);
            }
            env.packets.end(flight.packet.handle);
        }
        let state = &mut self.hosts[index];
        if state.timer <= now {
            state.timer = Instant::FAR_FUTURE;
            state.endpoint.handle_timeout(state.clock.read(now));
            if self.posted.is_some() {
                self.note_all(host, HostEvent::Timer, now, env);
            }
        }
        rest
    }

    /// Lets `host` report, post what that starts, and send. True when it has to be drained again,
    /// at this instant.
    #[inline(always)]
    fn drain(&mut self, host: HostId, now: Instant, env: &mut Environment<'_>) -> bool {
        let place = self.index_of(host);
        let mut state = &mut self.hosts[place];
        state.report(now, &mut env.conductor);
        let mut again = false;
        if env.conductor.has_triggered() || !state.waiting.is_empty() {
            again = self.start_triggered(host, now, &mut env.conductor);
            self.post_waiting(host, now);
            state = &mut self.hosts[place];
        }
        if self.posted.is_some() {
            self.note_posted(host, now, env);
            state = &mut self.hosts[place];
        }
        let Host { endpoint, clock, timer, kept, .. } = state;
        let mut sender = Sender { host, endpoint, clock, kept };
        *timer = self.nics.transmit(&mut sender, now, env);
        if self.posted.is_some() {
            self.note_sent(host, now, env);
        }
        again
    }

    /// Posts the flows that events of `host` have started, or leaves them for their own hosts. True
    /// when some are of `host` itself.
    #[cold]
    fn start_triggered(
        &mut self,
        host: HostId,
        now: Instant,
        conductor: &mut Conductor<'_>,
    ) -> bool {
        let mut again = false;
        while let Some(flow) = conductor.take_triggered() {
            let order = conductor.order(flow, now);
            if order.src == host {
                again = true;
                self.post(&order, now, conductor);
            } else {
                self.elsewhere.push(order);
            }
        }
        again
    }

    /// Gives a flow to its sender. The sender's reports are handled first, because a finished
    /// message frees a place in the tables, which this flow may need.
    fn post(&mut self, order: &PostOrder, now: Instant, conductor: &mut Conductor<'_>) {
        let place = self.index_of(order.src);
        self.hosts[place].report(now, conductor);
        self.hosts[place].waiting.push_back((*order, 0));
        self.post_waiting(order.src, now);
    }

    fn post_waiting(&mut self, host: HostId, now: Instant) {
        let place = self.index_of(host);
        let state = &mut self.hosts[place];
        while let Some(&(order, posted)) = state.waiting.front() {
            let path = self.plan.path(order.src, order.dst);
            let label = self.plan.matrix.flows[order.flow.index()].label();
            let flow = &mut self.flows[order.connection as usize];
            match state.post(&order, posted, (path, label), flow, now) {
                Ok(()) => {
                    if let Some(posted) = &mut self.posted {
                        posted.push(order.connection);
                    }
                }
                Err(PostError::FlowTableFull | PostError::MsgTableFull) => return,
                Err(PostError::FlowFailed | PostError::NoSuchFlow | PostError::SelfSend) => {
                    state.refused.push(order.flow);
                }
            }
            state.waiting.pop_front();
        }
    }

    /// Packets that wait for their departure.
    pub(super) fn waiting(&self) -> u64 {
        self.hosts.iter().map(|host| host.kept.len() as u64).sum()
    }

    /// How long packets count as.
    pub(super) fn sizes(&self) -> &WireSizes {
        &self.nics.sizes
    }

    /// The tap that notes frames, if there is one.
    pub(super) fn tap(&mut self) -> Option<&mut Tap> {
        self.nics.tap.as_mut()
    }

    /// Adds what these hosts have counted and measured, and processes that are over, to `all`.
    pub(super) fn add_to(&self, all: &mut OfHosts) {
        self.hosts.iter().for_each(|host| all.add(&host.endpoint));
        all.join(&self.former);
        all.following.extend(self.nics.following.as_deref().cloned());
    }

    /// Times of data from its host's line to its arrival; `None` where the run does not measure
    /// them.
    pub(super) fn wire_delay(&self) -> Option<&Spans> {
        self.nics.wire_delay.as_deref()
    }

    /// Messages that are not whole.
    pub(super) fn begun(&self) -> impl Iterator<Item = Begun> + '_ {
        self.hosts.iter().flat_map(|host| begun(&host.endpoint))
    }

    /// Flows that were given up, and when; where several messages of one were, all of these.
    pub(super) fn given_up(&self) -> impl Iterator<Item = (FlowIndex, Instant)> + '_ {
        self.hosts.iter().flat_map(|host| host.given_up.iter().copied())
    }

    /// Payload bytes in place at their receivers, including those of messages that are not whole
    /// yet.
    pub(super) fn placed_bytes(&self) -> u64 {
        let placed = self.hosts.iter().map(|host| host.endpoint.stats().data_placed_bytes);
        self.former.stats.data_placed_bytes + placed.sum::<u64>()
    }

    /// Packets taken from endpoints and given to them.
    pub(super) fn count(&self) -> DriverCount {
        let (handed_over, given) = (self.nics.handed_over, self.given);
        DriverCount { handed_over, given, ..DriverCount::default() }
    }

    /// The state of a connection of `host`; `None` when it is not open. It has a window while the
    /// line of the matrix that is shown `is_under_way`: a connection outlasts its lines.
    pub(super) fn seen(
        &self,
        host: HostId,
        connection: usize,
        is_under_way: bool,
    ) -> Option<FlowSeen> {
        let flow = self.flows.get(connection).copied().flatten()?;
        let endpoint = &self.hosts[self.index_of(host)].endpoint;
        let (window, _) = endpoint.flow_window(flow)?;
        let (shown, key) = (is_under_way.then_some(window), endpoint.flow_key(flow));
        let cwnd_bytes = shown.map(|window| window.cwnd.0);
        Some(FlowSeen { cwnd_bytes, rate: shown.and_then(|window| window.pacing), key })
    }
}

impl Host {
    fn post(
        &mut self,
        order: &PostOrder,
        posted: usize,
        (path, label): (Path, Label),
        flow: &mut Option<FlowId>,
        now: Instant,
    ) -> Result<(), PostError> {
        let id = match *flow {
            Some(id) => id,
            None => *flow.insert(self.endpoint.open_labelled(order.dst, path, label)?),
        };
        let local = self.clock.read(now);
        for (number, len) in order.messages().enumerate().skip(posted) {
            let spec = MsgSpec { flow: id, len, tag: order.tag_of(number) };
            let msg = self.endpoint.post_send(local, spec)?;
            self.note(msg, order.flow, len.get());
            if let Some((_, posted)) = self.waiting.front_mut() {
                *posted += 1;
            }
        }
        if order.last {
            self.endpoint.close_flow(local, id);
        }
        Ok(())
    }

    fn note(&mut self, msg: MsgId, flow: FlowIndex, len: u32) {
        let index = msg.index();
        if self.messages.len() <= index {
            self.messages.resize(index + 1, (FlowIndex(0), 0));
        }
        self.messages[index] = (flow, len);
    }

    fn report(&mut self, now: Instant, conductor: &mut Conductor<'_>) {
        // Nearly always empty, and emptying costs.
        if !self.refused.is_empty() {
            let refused = self.refused.drain(..);
            self.given_up
                .extend(refused.inspect(|flow| conductor.on_failed(*flow)).map(|it| (it, now)));
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Sent { msg } => {
                    let (flow, len) = self.messages[msg.index()];
                    conductor.on_acked(flow, u64::from(len), now);
                }
                Event::Failed { msg, .. } => {
                    let (flow, _) = self.messages[msg.index()];
                    conductor.on_failed(flow);
                    self.given_up.push((flow, now));
                }
                Event::Delivered { len, tag, .. } => {
                    conductor.on_message((tag, self.key), len, now);
                }
                // The sender's end of the flow has failed, or will.
                Event::Aborted { .. } => {}
            }
        }
    }

    /// A packet has arrived.
    #[inline]
    fn deliver(&mut self, packet: &Packet, packets: &PacketSlab, at: Instant) {
        let sent = packets.of(packet.handle);
        if packet.flags.has(Flags::CORRUPT) {
            self.endpoint.count_drop(DropReason::Corrupt);
            return;
        }
        let trimmed = packet.class() == TrafficClass::Trimmed;
        let at = self.clock.read(at);
        let segment = RxSegment {
            hdr: sent.hdr,
            at,
            from: sent.from,
            payload_len: if trimmed { 0 } else { sent.payload_len },
            ce: packet.flags.has(Flags::CE),
            trimmed,
        };
        let mut place = [Placement::Release];
        let ext = std::slice::from_ref(packets.ext(packet.handle));
        self.endpoint.handle_extended(at, (&[segment], ext), &mut place);
    }
}

/// A packet that `host` receives, for a capture.
fn received(
    packet: &Packet,
    (as_sent, ext): (&InFlight, &Ext),
    host: HostId,
    at: Instant,
) -> Taken {
    let InFlight { hdr, from, payload_len, .. } = *as_sent;
    let class = packet.class();
    let ecn = match (packet.flags.has(Flags::CE), packet.flags.has(Flags::ECT)) {
        (true, _) => Ecn::Ce,
        (false, true) => Ecn::Ect0,
        (false, false) => Ecn::NotEct,
    };
    Taken { at, host, peer: from, sent: false, hdr, ext: *ext, payload_len, class, ecn }
}

/// Brings the packets of `flights` near the processor.
#[inline]
fn touch(packets: &PacketSlab, flights: &[Flight]) {
    flights.iter().for_each(|flight| packets.touch(flight.packet.handle));
}

/// `flights` from the first on that is no wake-up.
#[inline]
fn skip_wakes(mut flights: &[Flight]) -> &[Flight] {
    while let [first, rest @ ..] = flights
        && first.is_wake()
    {
        flights = rest;
    }
    flights
}
