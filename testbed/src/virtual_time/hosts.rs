//! The hosts of a simulated run: one endpoint each, and a NIC queue kept short.
//!
//! A host hands its NIC at most [`NIC_DEPTH`] packets ahead, as a device with a short ring would,
//! so what is sent next is decided as late as possible.

use std::collections::VecDeque;

use transport::timer::{TimerHandle, Wheel};
use transport::{
    BURST, Burst, Config, DropReason, Endpoint, Event, FlowId, HostId, Instant, MsgId, MsgSpec,
    Path, Placement, PostError, Rng, RxSegment, Stats, TxSegment,
};

use super::packets::{InFlight, PacketSlab};
use crate::conductor::{Conductor, Order};
use crate::fabric::{Flags, Network, Output, Packet, flow_hash};
use crate::measure::audit::DriverCount;
use crate::plan::{Plan, RunError};
use crate::workload::FlowIndex;

/// Packets a NIC holds beyond the one it is sending.
const NIC_DEPTH: usize = 2;

/// One host.
struct Host {
    endpoint: Endpoint,
    /// Its entry in the run's wheel; earlier than wanted is fine, later is not.
    timer: Option<(Instant, TimerHandle)>,
    /// Waits to be settled.
    touched: bool,
    /// By message index: which flow of the matrix it carries, and its length.
    messages: Vec<(FlowIndex, u32)>,
    /// Orders to post, each with how many of its messages have been: all at once unless the
    /// endpoint's tables are full.
    waiting: VecDeque<(Order, usize)>,
    /// Flows whose connection had failed before they could be posted.
    refused: Vec<FlowIndex>,
}

/// All hosts.
pub(super) struct Hosts<'a> {
    plan: &'a Plan,
    hosts: Vec<Host>,
    /// By connection of the conductor: the transport flow, once open.
    flows: Vec<Option<FlowId>>,
    touched: Vec<HostId>,
    settling: Vec<HostId>,
    burst: Burst<TxSegment>,
    overhead: u16,
    count: DriverCount,
}

impl<'a> Hosts<'a> {
    /// The hosts of `plan`, idle.
    pub(super) fn new(plan: &'a Plan, rng: &Rng) -> Result<Self, RunError> {
        let host = |(id, config): (u32, Config)| Host {
            endpoint: Endpoint::new(&config, HostId(id), rng.fork("host", u64::from(id))),
            timer: None,
            touched: false,
            messages: Vec::new(),
            waiting: VecDeque::new(),
            refused: Vec::new(),
        };
        let configs = plan.host_configs()?;
        Ok(Self {
            plan,
            hosts: (0..).zip(configs).map(host).collect(),
            flows: vec![None; plan.matrix.flows.len()],
            touched: Vec::new(),
            settling: Vec::new(),
            burst: Burst::with_limit(BURST),
            overhead: plan.settings.frame_overhead,
            count: DriverCount::default(),
        })
    }

    /// Marks a host as in need of [`Hosts::settle`].
    pub(super) fn touch(&mut self, host: HostId) {
        let state = &mut self.hosts[host.0 as usize];
        if !state.touched {
            state.touched = true;
            self.touched.push(host);
        }
    }

    /// Gives a flow to its sender. What the sender has to report goes first: a message that is done
    /// has given its place in the tables away, perhaps to this one.
    pub(super) fn post(&mut self, order: &Order, conductor: &mut Conductor<'_>, now: Instant) {
        self.hosts[order.src.0 as usize].report(now, conductor);
        self.hosts[order.src.0 as usize].waiting.push_back((*order, 0));
        self.post_waiting(order.src, now);
        self.touch(order.src);
    }

    fn post_waiting(&mut self, host: HostId, now: Instant) {
        let state = &mut self.hosts[host.0 as usize];
        while let Some(&(order, posted)) = state.waiting.front() {
            let path = self.plan.path(order.src, order.dst);
            let flow = &mut self.flows[order.connection as usize];
            match state.post(&order, posted, path, flow, now) {
                Ok(()) => {}
                Err(PostError::FlowTableFull | PostError::MsgTableFull) => return,
                Err(PostError::FlowFailed | PostError::NoSuchFlow | PostError::SelfSend) => {
                    state.refused.push(order.flow);
                }
            }
            state.waiting.pop_front();
        }
    }

    /// A packet has arrived.
    pub(super) fn deliver(&mut self, host: HostId, packet: &Packet, sent: &InFlight, at: Instant) {
        self.touch(host);
        self.count.given_up += 1;
        let endpoint = &mut self.hosts[host.0 as usize].endpoint;
        if packet.flags.has(Flags::CORRUPT) {
            endpoint.count_drop(DropReason::Corrupt);
            return;
        }
        let trimmed = packet.flags.has(Flags::TRIMMED);
        let segment = RxSegment {
            hdr: sent.segment.hdr,
            at,
            from: sent.from,
            payload_len: if trimmed { 0 } else { sent.segment.payload.len },
            ce: packet.flags.has(Flags::CE),
            trimmed,
        };
        let mut place = [Placement::Release];
        endpoint.handle_burst(at, &[segment], &mut place);
    }

    /// The host's entry in the wheel has fired.
    pub(super) fn timer_fired(&mut self, host: HostId, now: Instant) {
        let state = &mut self.hosts[host.0 as usize];
        state.timer = None;
        state.endpoint.handle_timeout(now);
        self.touch(host);
    }

    /// Reports the events of every touched host. False when no host was touched.
    pub(super) fn settle(&mut self, now: Instant, conductor: &mut Conductor<'_>) -> bool {
        self.settling.clear();
        std::mem::swap(&mut self.touched, &mut self.settling);
        for i in 0..self.settling.len() {
            let host = self.settling[i];
            let state = &mut self.hosts[host.0 as usize];
            state.touched = false;
            state.report(now, conductor);
            while let Some(order) = conductor.next_order(now) {
                self.post(&order, conductor, now);
            }
            if !self.hosts[host.0 as usize].waiting.is_empty() {
                self.post_waiting(host, now);
            }
        }
        !self.settling.is_empty()
    }

    /// Moves what the settled hosts may send into their NICs, and sets their timers.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        network: &mut Network,
        packets: &mut PacketSlab,
        timers: &mut Wheel<HostId>,
        out: &mut Vec<Output>,
    ) {
        for i in 0..self.settling.len() {
            let host = self.settling[i];
            let room = NIC_DEPTH.saturating_sub(network.nic_backlog(host).packets);
            self.burst.reset(room);
            let endpoint = &mut self.hosts[host.0 as usize].endpoint;
            endpoint.poll_transmit(now, &mut self.burst);
            // Only now: what has just been sent may have set the first timer.
            self.hosts[host.0 as usize].set_timer(host, timers);
            self.count.handed_over += self.burst.len() as u64;
            for segment in self.burst.iter() {
                let packet = packet_of(segment, host, self.overhead, packets);
                network.inject(host, packet, now, out);
            }
        }
    }

    /// What all endpoints have counted.
    pub(super) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.hosts.iter().for_each(|host| sum.add(host.endpoint.stats()));
        sum
    }

    /// Payload bytes in place at their receivers, of messages that are not whole yet too.
    pub(super) fn placed_bytes(&self) -> u64 {
        self.hosts.iter().map(|host| host.endpoint.stats().data_placed_bytes).sum()
    }

    /// Packets taken from endpoints and given to them.
    pub(super) fn count(&self) -> DriverCount {
        self.count
    }

    /// The window of a connection of `host`, bytes; `None` when it is not open.
    pub(super) fn cwnd(&self, host: HostId, connection: usize) -> Option<u64> {
        let flow = self.flows.get(connection).copied().flatten()?;
        let (window, _) = self.hosts[host.0 as usize].endpoint.flow_window(flow)?;
        Some(window.cwnd.0)
    }
}

impl Host {
    fn post(
        &mut self,
        order: &Order,
        posted: usize,
        path: Path,
        flow: &mut Option<FlowId>,
        now: Instant,
    ) -> Result<(), PostError> {
        let id = match *flow {
            Some(id) => id,
            None => *flow.insert(self.endpoint.open_flow(order.dst, path)?),
        };
        for len in order.messages().skip(posted) {
            let spec = MsgSpec { flow: id, len, tag: order.tag() };
            let msg = self.endpoint.post_send(now, spec)?;
            self.note(msg, order.flow, len.get());
            if let Some((_, posted)) = self.waiting.front_mut() {
                *posted += 1;
            }
        }
        if order.last {
            self.endpoint.close_flow(now, id);
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
        for flow in self.refused.drain(..) {
            conductor.on_failed(flow);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Sent { msg } => {
                    let (flow, len) = self.messages[msg.index()];
                    conductor.on_acked(flow, u64::from(len), now);
                }
                Event::Failed { msg, .. } => conductor.on_failed(self.messages[msg.index()].0),
                Event::Delivered { len, tag, .. } => {
                    if let Ok(flow) = u32::try_from(tag.wrapping_sub(1)) {
                        conductor.on_delivered(FlowIndex(flow), u64::from(len), now);
                    }
                }
                // Its sender's end of the flow has failed, or will.
                Event::Aborted { .. } => {}
            }
        }
    }

    fn set_timer(&mut self, host: HostId, timers: &mut Wheel<HostId>) {
        let Some(at) = self.endpoint.poll_timeout() else { return };
        if let Some((set_at, handle)) = self.timer {
            if set_at <= at {
                return;
            }
            timers.cancel(handle);
        }
        self.timer = Some((at, timers.insert(at, host)));
    }
}

/// The fabric's packet for a segment.
fn packet_of(segment: &TxSegment, from: HostId, overhead: u16, packets: &mut PacketSlab) -> Packet {
    let header = overhead + segment.hdr.emit_len();
    let flags =
        if segment.is_control() { Flags::CONTROL } else { Flags::ECT.with(Flags::TRIMMABLE) };
    Packet {
        handle: packets.insert(*segment, from),
        dst: segment.peer,
        hash: flow_hash(from, segment.peer, segment.hdr.ev),
        len: header + segment.payload.len,
        trim_len: u8::try_from(header).unwrap_or(u8::MAX),
        flags,
    }
}
