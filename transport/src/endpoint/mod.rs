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

mod blocks;
mod control;
mod controllers;
mod incoming;
mod lookup;
mod outgoing;
mod resting;
mod timers;

use alloc::collections::VecDeque;
use core::hash::BuildHasherDefault;

use hashbrown::HashMap;

use crate::cc::Window;
use crate::config::{Config, Policies};
use crate::ec::EcKind;
use crate::event::Event;
use crate::flow::ahead::Ahead;
use crate::flow::open_blocks::OpenBlocks;
use crate::flow::reassembly::RxMsg;
use crate::flow::round_trips::RoundTrips;
use crate::flow::rx::{AckQueue, RxFlow};
use crate::flow::rx_buffers::RxBuffers;
use crate::flow::tx::{TxFlow, TxMsg, Wait};
use crate::rng::Rng;
use crate::sched::{Sched, Scheduler as _};
use crate::segment::{BURST, Placement, Restore, RxSegment};
use crate::slab::Slab;
use crate::stats::{DropReason, Stats};
use crate::time::{Duration, Instant};
use crate::timer::Wheel;
use crate::trace::Trace;
use crate::units::{Bytes, FlowId, HostId, MsgId};
use crate::wire::Body;
use controllers::Controllers;
use lookup::KeyHasher;
use outgoing::Outgoing;
use timers::{Due, TIMER_TICK, Timed};

pub use outgoing::MsgSpec;

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

use tx_context;

/// All flows of one host on one core.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    host: HostId,
    rng: Rng,
    flows_opened: u64,
    /// How long a flow is known by its sender's name after its last segment: past every retry of
    /// its sender, so that no retransmission can be taken for a new flow.
    linger: Duration,
    tx_flows: Slab<FlowId, Timed<Outgoing>>,
    tx_msgs: Slab<MsgId, TxMsg>,
    /// Incoming flows; those without a timer are at rest (`resting.rs`).
    rx_flows: Slab<FlowId, Timed<RxFlow>>,
    /// Place of `rx_flows` at which the search for a flow at rest goes on.
    rest_hand: u32,
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
            rest_hand: 0,
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

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            // From the start again, where the cache is warm.
            self.events.clear();
        }
        event
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
