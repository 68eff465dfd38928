//! All flows of one (host, core): plain data in, plain data out, never a callback.
//!
//! When to call what:
//! - [`Endpoint::handle_burst`] with what the device received; then obey the placements, then drain
//!   [`Endpoint::poll_restore`], then [`Endpoint::poll_event`]: a message said to be delivered is
//!   in place by then. Who keeps no bytes need not ask for what is to be restored.
//! - [`Endpoint::poll_transmit`] whenever the device has room, and again after every other call.
//! - [`Endpoint::handle_timeout`] at or after [`Endpoint::poll_timeout`], which is worth asking
//!   again after every other call. Calling it early does nothing.
//!
//! It owns no bytes and no clock. `now` must not go backwards.

pub mod error;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::hash::BuildHasherDefault;
use core::num::NonZeroU32;

use hashbrown::HashMap;

use crate::cc::{Path, Window};
use crate::config::{Config, Policies};
use crate::ec::EcKind;
use crate::event::Event;
use crate::flow::ahead::Ahead;
use crate::flow::open_blocks::{OpenBlock, OpenBlocks};
use crate::flow::reassembly::RxMsg;
use crate::flow::recovery::earliest;
use crate::flow::round_trips::RoundTrips;
use crate::flow::rx::{AckQueue, Answer, RxContext, RxFlow};
use crate::flow::rx_buffers::RxBuffers;
use crate::flow::tx::{TxContext, TxFlow, TxMsg, Wait};
use crate::lb::Lb;
use crate::rng::Rng;
use crate::sched::{Arrival, Backlog, Sched, Scheduler as _};
use crate::segment::{BURST, Burst, PayloadRef, Placement, Restore, RxSegment, TxSegment};
use crate::slab::Slab;
use crate::stats::{DropReason, Stats};
use crate::time::{Duration, Instant};
use crate::timer::{TimerHandle, Wheel};
use crate::trace::{Trace, TraceKind};
use crate::units::{Bytes, FlowId, HostId, MsgId};
use crate::wire::{Allowance, Body, Data};
use controllers::Controllers;
use error::PostError;
use lookup::KeyHasher;

mod blocks;
mod controllers;
mod lookup;

/// What a sending flow may touch of an endpoint, each field borrowed by itself: the flows are not.
macro_rules! tx_context {
    ($endpoint:ident) => {
        TxContext {
            config: &$endpoint.config,
            msgs: &mut $endpoint.tx_msgs,
            round_trips: &mut $endpoint.round_trips,
            stats: &mut $endpoint.stats,
            events: &mut $endpoint.events,
        }
    };
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsgSpec {
    /// The flow that carries it.
    pub flow: FlowId,
    /// Length, bytes.
    pub len: NonZeroU32,
    /// Handed to the receiving application; 0 is none.
    pub tag: u64,
}

/// Which flow a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    Tx(FlowId),
    Rx(FlowId),
}

/// A flow in its slab, with its one timer.
#[derive(Debug)]
struct Timed<T> {
    flow: T,
    timer: Option<FlowTimer>,
}

/// When a flow's timer fires, and its name in the wheel.
type FlowTimer = (Instant, TimerHandle);

/// An outgoing flow.
#[derive(Debug)]
enum Outgoing {
    /// What it is worth remembering of a flow is behind one pointer, so that a table with room for
    /// many is small.
    Open(Box<TxFlow>),
    /// Closed and finished; its id stays taken until the receiver has forgotten it.
    Over { peer: HostId, until: Instant, cwnd: Bytes },
}

impl Timed<Outgoing> {
    fn peer(&self) -> HostId {
        match &self.flow {
            Outgoing::Open(flow) => flow.peer,
            Outgoing::Over { peer, .. } => *peer,
        }
    }

    fn open(&self) -> Option<&TxFlow> {
        match &self.flow {
            Outgoing::Open(flow) => Some(flow),
            Outgoing::Over { .. } => None,
        }
    }

    #[inline]
    fn open_mut(&mut self) -> Option<&mut TxFlow> {
        match &mut self.flow {
            Outgoing::Open(flow) => Some(flow),
            Outgoing::Over { .. } => None,
        }
    }
}

// Bytes of a table's place, used or not: what a flow that is over or idle costs.
const _: () = assert!(size_of::<Timed<Outgoing>>() <= 48);
const _: () = assert!(size_of::<Timed<RxFlow>>() <= 64);

/// All flows of one host on one core.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    host: HostId,
    rng: Rng,
    flows_opened: u64,
    /// How long a flow is remembered after its last segment: past every retry of its sender, so
    /// that no retransmission can be taken for a new flow.
    linger: Duration,
    tx_flows: Slab<FlowId, Timed<Outgoing>>,
    tx_msgs: Slab<MsgId, TxMsg>,
    rx_flows: Slab<FlowId, Timed<RxFlow>>,
    rx_msgs: Slab<MsgId, RxMsg>,
    /// On loan to flows that are receiving.
    rx_buffers: RxBuffers,
    /// Incoming flows by (sender, its flow): asked only while a flow opens. Never iterated.
    rx_by_sender: HashMap<(HostId, FlowId), FlowId, BuildHasherDefault<KeyHasher>>,
    controllers: Controllers,
    round_trips: RoundTrips,
    sched: Sched,
    ahead: Ahead,
    acks: AckQueue,
    /// Erasure-coded blocks that arrive.
    blocks: OpenBlocks,
    /// Of the last burst: at most one for each of its segments.
    restores: VecDeque<Restore>,
    /// Incoming flows with a message that is open.
    receiving: u16,
    wheel: Wheel<Due>,
    events: VecDeque<Event>,
    stats: Stats,
    trace: Trace,
}

/// Resolution of the endpoint's timers.
const TIMER_TICK: Duration = Duration::from_ps(1 << 16);

impl Endpoint {
    /// The endpoint of `host`. Allocates all it needs to receive; see [`Config`] for the bounds.
    #[must_use]
    pub fn new(config: &Config, host: HostId, rng: Rng) -> Self {
        let rx_flows = config.rx_flows_max as usize;
        let tx_flows = config.tx_flows_max as usize;
        let msgs = config.msgs_max as usize;
        let restores = if config.ec == EcKind::Uncoded { 0 } else { BURST };
        Self {
            host,
            rng,
            flows_opened: 0,
            linger: config.give_up_after(&config.default_path()) * 2,
            tx_flows: Slab::aged(tx_flows, config.incarnation.into()),
            tx_msgs: Slab::new(msgs),
            rx_flows: Slab::aged(rx_flows, config.incarnation.into()),
            rx_msgs: Slab::new(msgs),
            rx_buffers: RxBuffers::new(config),
            // Twice the flows: removals leave marks that must not force a rehash.
            rx_by_sender: HashMap::with_capacity_and_hasher(
                2 * rx_flows,
                BuildHasherDefault::default(),
            ),
            controllers: Controllers::default(),
            round_trips: RoundTrips::new(),
            sched: Sched::new(config.sched, &config.sched_setup()),
            ahead: Ahead::default(),
            acks: AckQueue::new(config),
            blocks: OpenBlocks::new(config),
            restores: VecDeque::with_capacity(restores),
            receiving: 0,
            wheel: Wheel::new(TIMER_TICK, tx_flows + rx_flows),
            events: VecDeque::with_capacity(2 * msgs),
            stats: Stats::default(),
            trace: Trace::new(config.trace_capacity as usize),
            config: config.clone(),
        }
    }

    /// Opens a flow to `peer` over `path`; nothing is sent until a message is posted. Amortised
    /// O(1).
    ///
    /// # Errors
    /// [`PostError::FlowTableFull`], [`PostError::SelfSend`].
    pub fn open_flow(&mut self, peer: HostId, path: Path) -> Result<FlowId, PostError> {
        if peer == self.host {
            return Err(PostError::SelfSend);
        }
        let mut rng = self.rng.fork("flow", self.flows_opened);
        let config = &self.config;
        let chosen = config.policies(&path);
        let cc = self.controllers.on(config, chosen.cc, &path);
        let lb = Lb::new(chosen.lb, &config.lb_params, &path, &mut rng);
        let opened = self.tx_flows.insert_with(|id| Timed {
            flow: Outgoing::Open(Box::new(TxFlow::new(config, id, peer, path, cc, lb, rng))),
            timer: None,
        });
        let flow = opened.ok_or(PostError::FlowTableFull)?;
        self.flows_opened += 1;
        self.sched.on_open(flow, peer, &path);
        Ok(flow)
    }

    /// Closes a flow once its messages are finished. Its id stays taken until the receiver has
    /// forgotten it too.
    pub fn close_flow(&mut self, now: Instant, flow: FlowId) {
        if let Some(open) = self.tx_flows.get_mut(flow).and_then(Timed::open_mut) {
            open.closing = true;
            self.update_tx(flow, now);
        }
    }

    /// Takes a message for its flow. Allocates; never call it between the polls of a burst.
    ///
    /// # Errors
    /// Every variant of [`PostError`] but [`PostError::FlowTableFull`].
    pub fn post_send(&mut self, now: Instant, spec: MsgSpec) -> Result<MsgId, PostError> {
        let timed = self.tx_flows.get_mut(spec.flow).ok_or(PostError::NoSuchFlow)?;
        let Timed { flow: Outgoing::Open(open), timer } = timed else {
            return Err(PostError::NoSuchFlow);
        };
        if open.closing {
            return Err(PostError::NoSuchFlow);
        }
        if open.has_failed() {
            return Err(PostError::FlowFailed);
        }
        let no = open.next_msg_no();
        let (len, tag, flow) = (spec.len, spec.tag, spec.flow);
        let msg = TxMsg { no, len, next_offset: 0, acked: 0, tag, opened: false };
        let id = self.tx_msgs.insert(msg).ok_or(PostError::MsgTableFull)?;
        open.post(&self.config, id, len.get());
        self.trace.record(now, TraceKind::Post, flow, len.get(), 0);
        self.sched.on_backlog(flow, &open.backlog(), now);
        // Of a flow whose timer runs, more to send brings nothing forward but its pacer.
        if timer.is_none() || open.window().0.pacing.is_some() {
            let wanted = open.next_timer(now, &self.ahead, &self.config);
            rearm(&mut self.wheel, timer, wanted, Due::Tx(flow));
        }
        Ok(id)
    }

    /// Takes a burst that the device received and says where its bytes belong: `out[i]` is for
    /// `rx[i]`.
    ///
    /// # Panics
    /// When `out` is shorter than `rx`.
    pub fn handle_burst(&mut self, now: Instant, rx: &[RxSegment], out: &mut [Placement]) {
        self.restores.clear();
        // Scheduler and timer of a flow hear of a run of acknowledgements once.
        let mut heard = FlowId::UNKNOWN;
        let (mut rx, mut out) = (rx, &mut out[..rx.len()]);
        // Bounded: each turn takes one segment or more.
        while let Some(segment) = rx.first() {
            let flow = segment.hdr.dst_flow;
            let mut count = 1;
            let place = match &segment.hdr.body {
                Body::Data(data) => self.on_data(segment, data, now),
                Body::Ack(_) | Body::Nack(_) | Body::BlockNack(_) => {
                    if heard != flow {
                        self.update_tx(heard, now);
                        heard = FlowId::UNKNOWN;
                    }
                    let same =
                        |next: &&RxSegment| next.hdr.dst_flow == flow && next.hdr.is_feedback();
                    count += rx[1..].iter().take_while(same).count();
                    if self.on_acks(flow, &rx[..count], now) {
                        heard = flow;
                    }
                    Placement::Release
                }
                Body::Credit(_) | Body::Request(_) => {
                    self.on_control(segment, now);
                    Placement::Release
                }
            };
            out[..count].fill(place);
            (rx, out) = (&rx[count..], &mut out[count..]);
        }
        self.update_tx(heard, now);
        self.clean_blocks();
    }

    /// The length of the message of which `rx` may be the first segment to be placed; `None` when
    /// another was before, or it places nothing.
    ///
    /// A driver whose memory is bounded asks this of every segment before
    /// [`Endpoint::handle_burst`], and keeps those that it has no memory for to itself. It is never
    /// `None` for a segment that then is the first of its message, even when earlier ones of the
    /// same burst change what is known.
    #[must_use]
    pub fn would_open(&self, rx: &RxSegment) -> Option<NonZeroU32> {
        let Body::Data(data) = &rx.hdr.body else { return None };
        if rx.trimmed {
            return None;
        }
        match self.known_flow(rx, data) {
            Some(flow) => flow.would_open(data, &self.rx_msgs, &self.rx_buffers),
            None => data.open.map(|open| open.msg_len),
        }
    }

    /// The incoming flow of a segment, if it has been heard of.
    fn known_flow(&self, rx: &RxSegment, data: &Data) -> Option<&RxFlow> {
        let named = rx.hdr.dst_flow;
        let flow = if named == FlowId::UNKNOWN {
            let key = (rx.from, data.open?.src_flow);
            self.rx_by_sender.get(&key).copied()?
        } else {
            named
        };
        self.rx_flows.get(flow).map(|timed| &timed.flow)
    }

    fn on_data(&mut self, rx: &RxSegment, data: &Data, now: Instant) -> Placement {
        match self.take_data(rx, data, now) {
            Ok(placement) => placement,
            Err(reason) => {
                self.stats.drops.count(reason);
                self.trace.record(now, TraceKind::Drop, rx.hdr.dst_flow, data.psn.0, reason as u32);
                Placement::Release
            }
        }
    }

    fn take_data(
        &mut self,
        rx: &RxSegment,
        data: &Data,
        now: Instant,
    ) -> Result<Placement, DropReason> {
        let flow = self.rx_flow_of(rx, data.open.map(|open| open.src_flow))?;
        let timed = self.rx_flows.get_mut(flow).ok_or(DropReason::UnknownFlow)?;
        let sender = (timed.flow.from, timed.flow.src_flow);
        if sender.0 != rx.from || data.open.is_some_and(|open| open.src_flow != sender.1) {
            return Err(DropReason::UnknownFlow);
        }
        let mut cx = RxContext {
            config: &self.config,
            msgs: &mut self.rx_msgs,
            buffers: &mut self.rx_buffers,
            acks: &mut self.acks,
            receiving: &mut self.receiving,
            stats: &mut self.stats,
            events: &mut self.events,
            blocks: &mut self.blocks,
            restores: &mut self.restores,
            missing: Bytes::ZERO,
        };
        let placement = timed.flow.on_data(rx, data, &mut cx);
        if placement.is_ok() {
            let missing = cx.missing;
            let arrival =
                Arrival { from: rx.from, src_flow: sender.1, ev: rx.hdr.ev, data, missing };
            self.sched.on_arrival(flow, &arrival, now);
        }
        let due = timed.flow.ack_due(&self.config, &self.rx_buffers);
        let forget_at = timed.flow.heard_at + self.linger;
        let wanted = due.map_or(forget_at, |at| at.min(forget_at));
        // Also when the segment was refused: a flow without a timer is never forgotten.
        rearm(&mut self.wheel, &mut timed.timer, Some(wanted), Due::Rx(flow));
        placement
    }

    /// The flow that a packet from its sender belongs to: by its id, or by the sender's name for
    /// it while the flow opens.
    fn rx_flow_of(
        &mut self,
        rx: &RxSegment,
        src_flow: Option<FlowId>,
    ) -> Result<FlowId, DropReason> {
        if rx.hdr.dst_flow != FlowId::UNKNOWN {
            return Ok(rx.hdr.dst_flow);
        }
        let src_flow = src_flow.ok_or(DropReason::UnknownFlow)?;
        let key = (rx.from, src_flow);
        if let Some(&flow) = self.rx_by_sender.get(&key) {
            return Ok(flow);
        }
        let id = self
            .rx_flows
            .insert_with(|id| Timed { flow: RxFlow::new(id, rx.from, src_flow), timer: None });
        let id = id.ok_or(DropReason::TableFull)?;
        self.rx_by_sender.insert(key, id);
        Ok(id)
    }

    /// Acknowledgements and refusals for one flow. False when all of them were dropped.
    fn on_acks(&mut self, flow: FlowId, run: &[RxSegment], now: Instant) -> bool {
        let mut cx = tx_context!(self);
        let Some(timed) = self.tx_flows.get_mut(flow) else {
            run.iter().for_each(|_| cx.stats.drops.count(DropReason::UnknownFlow));
            return false;
        };
        let peer = timed.peer();
        let mut heard = false;
        for rx in run {
            if rx.from != peer {
                cx.stats.drops.count(DropReason::UnknownFlow);
                continue;
            }
            let Some(open) = timed.open_mut() else {
                // Overtaken by the acknowledgement that finished the flow: it tells nothing new.
                match rx.hdr.body {
                    Body::Ack(_) => cx.stats.acks_received += 1,
                    Body::Nack(_) => cx.stats.nacks_received += 1,
                    _ => cx.stats.block_nacks_received += 1,
                }
                continue;
            };
            let (sane, psn, kind) = match &rx.hdr.body {
                Body::Ack(ack) => (open.on_ack(rx, ack, &mut cx), ack.psn, TraceKind::Ack),
                Body::Nack(nack) => (open.on_nack(rx, nack, &mut cx), nack.psn, TraceKind::Nack),
                Body::BlockNack(nack) => {
                    (open.on_block_nack(rx, nack, &mut cx), nack.psn, TraceKind::BlockNack)
                }
                Body::Data(_) | Body::Credit(_) | Body::Request(_) => continue,
            };
            if !sane {
                cx.stats.drops.count(DropReason::BadSegment);
                continue;
            }
            heard = true;
            let cwnd = u32::try_from(open.window().0.cwnd.0).unwrap_or(u32::MAX);
            self.trace.record(now, kind, flow, psn.0, cwnd);
        }
        heard
    }

    /// A packet of the scheduler's own protocol.
    fn on_control(&mut self, rx: &RxSegment, now: Instant) {
        let flow = match &rx.hdr.body {
            Body::Request(request) => self.requesting_flow(rx, request),
            _ => {
                let flow = rx.hdr.dst_flow;
                let timed = self.tx_flows.get(flow).filter(|timed| timed.peer() == rx.from);
                timed.map(|_| flow).ok_or(DropReason::UnknownFlow)
            }
        };
        match flow {
            Ok(flow) if self.sched.on_control(flow, rx.from, &rx.hdr, now) => {
                self.stats.control_received += 1;
            }
            Ok(_) => self.stats.drops.count(DropReason::BadSegment),
            Err(reason) => self.stats.drops.count(reason),
        }
    }

    /// The incoming flow of a packet for its scheduler, which may be the first that is heard of it.
    fn requesting_flow(
        &mut self,
        rx: &RxSegment,
        request: &Allowance,
    ) -> Result<FlowId, DropReason> {
        let flow = self.rx_flow_of(rx, Some(request.src_flow))?;
        let timed = self.rx_flows.get_mut(flow).ok_or(DropReason::UnknownFlow)?;
        if (timed.flow.from, timed.flow.src_flow) != (rx.from, request.src_flow) {
            return Err(DropReason::UnknownFlow);
        }
        timed.flow.heard_at = rx.at;
        let forget_at = rx.at + self.linger;
        rearm(&mut self.wheel, &mut timed.timer, Some(forget_at), Due::Rx(flow));
        Ok(flow)
    }

    /// From now on paced segments may be given up to `horizon` ahead of their departure
    /// ([`TxSegment::departure`]), a second and a 16th of their path's base RTT at most: for a
    /// driver whose device sends at a time. Zero, as at first, for all others. They count as in
    /// flight when given and as sent when they leave. Those of one `now` are in any order, and none
    /// leaves before one that was given at an earlier.
    pub fn send_ahead(&mut self, horizon: Duration) {
        self.ahead.horizon = horizon;
    }

    /// Fills `tx` with what may leave now: control packets first, then one segment a flow in turn.
    pub fn poll_transmit(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        self.poll_control(now, tx);
        // Bounded: each turn fills a place or takes a flow out of the scheduler's ready set.
        while tx.room() > 0 {
            let Some(flow) = self.sched.next_flow(now) else { return };
            let turns = self.sched.turns().min(tx.room());
            self.transmit(flow, turns, now, tx);
        }
    }

    /// The part of [`Endpoint::poll_transmit`] that is no data: for a link that takes none now.
    pub fn poll_control(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        let before = tx.len();
        self.sched.poll_control(now, tx);
        self.stats.control_sent += (tx.len() - before) as u64;
        self.transmit_acks(now, tx);
    }

    fn transmit_acks(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        while tx.room() > 0 {
            let Some(answer) = self.acks.pop() else { return };
            let (Answer::Segment(flow, _) | Answer::Block(OpenBlock { flow, .. })) = answer;
            // The flow may have been forgotten in the meantime; its sender has too.
            let Some(timed) = self.rx_flows.get(flow) else { continue };
            let buffers = &self.rx_buffers;
            let hdr = match &answer {
                Answer::Segment(_, ack) => {
                    Some(timed.flow.header(ack, now, self.receiving, buffers))
                }
                Answer::Block(block) => timed.flow.block_header(block, buffers),
            };
            let Some(hdr) = hdr else { continue };
            match hdr.body {
                Body::Nack(_) => self.stats.nacks_sent += 1,
                Body::BlockNack(_) => self.stats.block_nacks_sent += 1,
                _ => self.stats.acks_sent += 1,
            }
            tx.push(TxSegment { hdr, payload: PayloadRef::default(), peer: timed.flow.from });
        }
    }

    /// Sends up to `turns` segments of a flow.
    fn transmit(&mut self, flow: FlowId, turns: usize, now: Instant, tx: &mut Burst<TxSegment>) {
        let mut cx = tx_context!(self);
        let timed = self.tx_flows.get_mut(flow);
        let Some(Timed { flow: Outgoing::Open(open), timer }) = timed else {
            self.sched.on_backlog(flow, &Backlog::default(), now);
            return;
        };
        let leave = self.ahead.leave(now, open.path());
        for _ in 0..turns {
            let segment = tx.place();
            if open.poll_segment(leave, &mut cx, segment).is_err() {
                let backlog = Backlog { sendable: Bytes::ZERO, ..open.backlog() };
                self.sched.on_backlog(flow, &backlog, now);
                let wanted = open.next_timer(now, &self.ahead, &self.config);
                rearm(&mut self.wheel, timer, wanted, Due::Tx(flow));
                return;
            }
            self.trace.record(now, TraceKind::Send, flow, segment.payload.offset, 0);
            self.sched.on_sent(flow, segment, || open.backlog(), now);
            if self.ahead.horizon > Duration::ZERO {
                self.ahead.given(segment.departure(now));
            }
            tx.commit();
            if timer.is_none() {
                let wanted = open.next_timer(now, &self.ahead, &self.config);
                rearm(&mut self.wheel, timer, wanted, Due::Tx(flow));
            }
        }
    }

    /// When [`Endpoint::handle_timeout`] wants to be called; `None` when only events can change
    /// things.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = earliest(self.wheel.poll_at(), self.sched.poll_timeout());
        earliest(timers, self.blocks.poll_at())
    }

    /// Does everything that is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, due)) = self.wheel.expire(now) {
            match due {
                Due::Tx(flow) => self.tx_timer_fired(flow, now),
                Due::Rx(flow) => self.rx_timer_fired(flow, now),
            }
        }
        self.ask_for_blocks(now);
        self.sched.handle_timeout(now);
        while let Some(flow) = self.sched.next_given_up() {
            self.give_up(flow, now);
        }
    }

    /// Fails the messages of a flow whose peer's scheduler is silent.
    fn give_up(&mut self, flow: FlowId, now: Instant) {
        let mut cx = tx_context!(self);
        if let Some(open) = self.tx_flows.get_mut(flow).and_then(Timed::open_mut) {
            open.fail(&mut cx);
        }
        self.update_tx(flow, now);
    }

    fn tx_timer_fired(&mut self, flow: FlowId, now: Instant) {
        let Some(timed) = self.tx_flows.get_mut(flow) else { return };
        timed.timer = None;
        let open = match &mut timed.flow {
            Outgoing::Over { until, .. } if *until <= now => {
                self.tx_flows.remove(flow);
                return;
            }
            Outgoing::Over { .. } => {
                return rearm_tx(&mut self.wheel, timed, flow, (now, &self.ahead), &self.config);
            }
            Outgoing::Open(open) => open,
        };
        let mut cx = tx_context!(self);
        open.on_timer(now, &mut cx);
        self.trace.record(now, TraceKind::Timer, flow, 0, 0);
        self.update_tx(flow, now);
    }

    fn rx_timer_fired(&mut self, flow: FlowId, now: Instant) {
        let Some(timed) = self.rx_flows.get_mut(flow) else { return };
        timed.timer = None;
        let due = timed.flow.ack_due(&self.config, &self.rx_buffers).filter(|at| *at <= now);
        if let Some(ack) = due.and_then(|_| timed.flow.take_pending(&mut self.rx_buffers)) {
            self.acks.push(flow, ack, &mut self.stats);
        }
        let due = timed.flow.ack_due(&self.config, &self.rx_buffers);
        let forget_at = timed.flow.heard_at + self.linger;
        if forget_at <= now {
            self.forget(flow);
        } else {
            let wanted = due.map_or(forget_at, |at| at.min(forget_at));
            rearm(&mut self.wheel, &mut timed.timer, Some(wanted), Due::Rx(flow));
        }
    }

    /// Gives up an incoming flow; messages that are not whole never will be.
    fn forget(&mut self, flow: FlowId) {
        self.sched.on_forgotten(flow);
        let Some(Timed { flow, .. }) = self.rx_flows.remove(flow) else { return };
        self.receiving = self.receiving.saturating_sub(u16::from(flow.is_receiving()));
        self.rx_by_sender.remove(&(flow.from, flow.src_flow));
        let from = flow.from;
        flow.end(&mut self.rx_buffers, |msg| {
            if self.rx_msgs.remove(msg).is_some() {
                self.events.push_back(Event::Aborted { msg, from });
            }
        });
    }

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            // From the start again, where the cache is warm.
            self.events.clear();
        }
        event
    }

    /// Brings scheduler and timer in line with an outgoing flow after something happened to it.
    fn update_tx(&mut self, flow: FlowId, now: Instant) {
        let Some(timed) = self.tx_flows.get_mut(flow) else { return };
        let Outgoing::Open(open) = &mut timed.flow else { return };
        let backlog = open.backlog();
        self.sched.on_backlog(flow, &backlog, now);
        if open.is_over() {
            // Twice as long as receivers remember it.
            let (peer, until) = (open.peer, now + self.linger * 2);
            timed.flow = Outgoing::Over { peer, until, cwnd: open.window().0.cwnd };
        }
        rearm_tx(&mut self.wheel, timed, flow, (now, &self.ahead), &self.config);
    }

    /// What has been counted so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The host this endpoint speaks for.
    #[must_use]
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Counts a received packet that could not be parsed.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.stats.drops.count(reason);
    }

    /// The window of an outgoing flow, the last one when it is over, and its wire bytes in flight.
    #[must_use]
    pub fn flow_window(&self, flow: FlowId) -> Option<(Window, Bytes)> {
        self.tx_flows.get(flow).map(|timed| match &timed.flow {
            Outgoing::Open(open) => open.window(),
            Outgoing::Over { cwnd, .. } => {
                (Window { cwnd: *cwnd, pacing: None, wake_at: None }, Bytes::ZERO)
            }
        })
    }

    /// The policies of an outgoing flow; `None` when it is over or not here.
    #[must_use]
    pub fn flow_policies(&self, flow: FlowId) -> Option<Policies> {
        self.tx_flows.get(flow).and_then(Timed::open).map(TxFlow::policies)
    }

    /// What an outgoing flow waits for; `None` when it could send now or is not here.
    #[must_use]
    pub fn flow_wait(&self, flow: FlowId) -> Option<Wait> {
        if self.sched.holds(flow) {
            return Some(Wait::Scheduler);
        }
        self.tx_flows.get(flow).and_then(Timed::open).and_then(TxFlow::wait)
    }

    /// The trace ring.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

/// Sees to it that an outgoing flow's timer fires when the flow wants it to.
#[inline]
fn rearm_tx(
    wheel: &mut Wheel<Due>,
    timed: &mut Timed<Outgoing>,
    id: FlowId,
    (now, ahead): (Instant, &Ahead),
    config: &Config,
) {
    let wanted = match &mut timed.flow {
        Outgoing::Open(open) => open.next_timer(now, ahead, config),
        Outgoing::Over { until, .. } => Some(*until),
    };
    rearm(wheel, &mut timed.timer, wanted, Due::Tx(id));
}

/// Moves a flow's one timer to `wanted`, unless it already fires no later: an early timer is
/// cheaper than a moved one, since firing early does nothing but look again.
fn rearm(wheel: &mut Wheel<Due>, timer: &mut Option<FlowTimer>, wanted: Option<Instant>, due: Due) {
    let Some(wanted) = wanted else { return };
    if let Some((at, handle)) = *timer {
        if at <= wanted {
            return;
        }
        wheel.cancel(handle);
    }
    *timer = Some((wanted, wheel.insert(wanted, due)));
}
