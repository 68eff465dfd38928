//! All flows of one (host, core): plain data in, plain data out, never a callback.
//!
//! An endpoint owns no bytes and no clock. `now` must not go backwards. The table lists which calls
//! to make again after a call; each method's documentation has its own line:
//!
//! | after | obey or drain, then ask |
//! |---|---|
//! | [`handle_extended`] | as after [`handle_burst`] |
//! | [`handle_burst`] | placements, [`poll_restore`], then as after [`handle_timeout`] |
//! | [`handle_timeout`] | [`poll_event`], [`poll_transmit`], [`poll_timeout`] |
//! | [`poll_transmit`], [`poll_control`] | itself if it filled the burst, [`poll_timeout`] |
//! | [`post_send`] | [`poll_transmit`], [`poll_timeout`] |
//! | [`close_flow`] | [`poll_timeout`] |
//! | [`send_ahead`], [`keep_until_departure`] | [`poll_transmit`], [`poll_timeout`] |
//! | [`scheduler_mut`] | [`poll_transmit`], [`poll_timeout`] |
//! | [`open_flow`], [`open_labelled`] | nothing |
//! | [`poll_event`], [`poll_restore`] | itself until it returns `None` |
//! | [`count_drop`], [`withhold_question`], [`poll_timeout`] | nothing |
//! | every other method that takes `&self` | nothing |
//!
//! Placements come before events: a message reported as delivered is in place by then. A driver
//! that keeps no bytes ignores placements and restores.
//!
//! [`handle_burst`]: Endpoint::handle_burst
//! [`handle_extended`]: Endpoint::handle_extended
//! [`handle_timeout`]: Endpoint::handle_timeout
//! [`poll_transmit`]: Endpoint::poll_transmit
//! [`poll_control`]: Endpoint::poll_control
//! [`poll_timeout`]: Endpoint::poll_timeout
//! [`poll_event`]: Endpoint::poll_event
//! [`poll_restore`]: Endpoint::poll_restore
//! [`open_flow`]: Endpoint::open_flow
//! [`open_labelled`]: Endpoint::open_labelled
//! [`post_send`]: Endpoint::post_send
//! [`close_flow`]: Endpoint::close_flow
//! [`send_ahead`]: Endpoint::send_ahead
//! [`keep_until_departure`]: Endpoint::keep_until_departure
//! [`scheduler_mut`]: Endpoint::scheduler_mut
//! [`count_drop`]: Endpoint::count_drop
//! [`withhold_question`]: Endpoint::withhold_question

pub mod error;

mod blocks;
mod control;
mod controllers;
mod incoming;
mod lookup;
mod outgoing;
mod presence;
mod proof;
mod resting;
mod secret;
mod shares;
mod timers;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ptr;

use crate::cc::Window;
use crate::config::{Config, Policies};
use crate::ec::{EcKind, PathLosses};
use crate::event::Event;
use crate::flow::ahead::Ahead;
use crate::flow::halves::Halves;
use crate::flow::open_blocks::OpenBlocks;
use crate::flow::reassembly::RxMsg;
use crate::flow::round_trips::LongRoundTrips;
use crate::flow::rx::{AckQueue, RxFlow};
use crate::flow::rx_buffers::RxBuffers;
use crate::flow::tx::{Standing, TxFlow, TxMsg, Wait};
use crate::rng::Rng;
use crate::sched::{AckMode, Sched, Scheduler};
use crate::segment::{BURST, Placement, Restore, RxSegment, TxSegment};
use crate::slab::Slab;
use crate::stats::{DropReason, Stats};
use crate::time::{Duration, Instant};
use crate::timer::Wheel;
use crate::trace::Trace;
use crate::units::{Bytes, FlowId, HostId, Key, MsgId};
use crate::wire::{Body, Ext, Extensions};
use controllers::Controllers;
use lookup::FlowsBySender;
pub use lookup::{ByKey, KeyHash};
use outgoing::Outgoing;
use presence::Allowed;
use proof::Proofs;
use secret::Secret;
use timers::{DueTimer, TIMER_TICK, Timed};

pub use outgoing::MsgSpec;

/// The fields of an endpoint that a sending flow may use, each borrowed separately, without the
/// flows.
macro_rules! tx_context {
    ($endpoint:ident) => {
        TxContext {
            config: &$endpoint.config,
            msgs: &mut $endpoint.tx_msgs,
            round_trips: &mut $endpoint.round_trips,
            losses: &mut $endpoint.losses,
            stats: &mut $endpoint.stats,
            events: &mut $endpoint.events,
        }
    };
}

use tx_context;

/// A received burst with the extensions of its segments.
struct RxBurst<'a> {
    rx: &'a [RxSegment],
    exts: &'a [Ext],
}

impl RxBurst<'_> {
    /// [`RxBurst::extensions`] of `rx`, a segment of the burst. Counting an index through a run of
    /// acknowledgements would cost time for each of them, with extensions or without.
    fn extensions_of(&self, rx: &RxSegment) -> Extensions<'_> {
        let offset = ptr::from_ref(rx).addr().wrapping_sub(self.rx.as_ptr().addr());
        self.extensions(offset / size_of::<RxSegment>())
    }

    /// What follows the header of segment `at`.
    fn extensions(&self, at: usize) -> Extensions<'_> {
        match self.exts.get(at) {
            Some(ext) => Extensions::new(self.rx[at].hdr.ext, ext),
            None => Extensions::NONE,
        }
    }
}

/// A flow as its sender names it, with its key: a packet of another host, or of another process at
/// the sender's address, has another key and so belongs to another flow.
type SenderFlow = (HostId, FlowId, Key);

/// All flows of one host on one core.
// In the order of use: a simulation calls thousands of endpoints in turn, each from a cold cache,
// and what each segment reads lies side by side at the beginning (`make bench`, fabric_hops).
#[repr(C)]
#[derive(Debug)]
pub struct Endpoint<S = Sched> {
    config: Config,
    host: HostId,
    /// Incoming flows with a message that is open.
    receiving: u16,
    /// Whether acknowledgements wait for grants of the scheduler.
    granted: bool,
    /// Each acknowledgement asks the scheduler.
    paced: bool,
    /// How long after its last segment a flow is found by its sender's name. This is longer than
    /// its sender retries, so that no retransmission opens a new flow.
    linger: Duration,
    /// State of incoming flows whose packets carry extensions; `None` where no packet does.
    halves: Option<Box<Halves>>,
    events: VecDeque<Event>,
    /// Incoming flows; those without a timer are at rest (`resting.rs`).
    rx_flows: Slab<FlowId, Timed<RxFlow>>,
    rx_msgs: Slab<MsgId, RxMsg>,
    acks: AckQueue,
    /// Flows that gave way to others in the burst that is handled.
    evicted: Vec<SenderFlow>,
    /// Blocks of the last burst to be restored: at most one for each of its segments.
    restores: VecDeque<Restore>,
    wheel: Wheel<DueTimer>,
    tx_flows: Slab<FlowId, Timed<Outgoing>>,
    tx_msgs: Slab<MsgId, TxMsg>,
    ahead: Ahead,
    trace: Trace,
    sched: S,
    stats: Stats,
    /// Buffers that are lent to flows while they receive.
    rx_buffers: RxBuffers,
    /// A granted acknowledgement whose report took the last place of a burst, and when it leaves.
    granted_next: Option<(TxSegment, Instant)>,
    /// Which senders of incoming flows have proved their address.
    proofs: Proofs,
    /// Erasure-coded blocks that arrive.
    blocks: OpenBlocks,
    /// Incoming flows by their sender's name: read only while a flow opens. Never iterated.
    rx_by_sender: FlowsBySender,
    controllers: Controllers,
    rng: Rng,
    secret: Secret,
    /// Outgoing flows opened, and opened anew.
    flows_opened: u64,
    /// Answers about flows that are not here.
    allowed: Allowed,
    /// Place of `rx_flows` at which the next search for a flow at rest begins.
    rest_hand: u32,
    round_trips: LongRoundTrips,
    losses: PathLosses,
}

impl Endpoint {
    /// The endpoint of `host`. Allocates all it needs to receive; see [`Config`] for the bounds.
    #[must_use]
    pub fn new(config: &Config, host: HostId, rng: Rng) -> Self {
        let sched = Sched::new(config.sched, &config.sched_setup(host, rng.fork("sched", 0)));
        Self::with_scheduler(config, host, rng, sched)
    }
}

impl<S: Scheduler> Endpoint<S> {
    /// [`Endpoint::new`] with a scheduler that need not be registered; made from
    /// [`Config::sched_setup`].
    #[must_use]
    pub fn with_scheduler(config: &Config, host: HostId, rng: Rng, sched: S) -> Self {
        let ack_mode = sched.ack_mode();
        let config = &config.acknowledging(ack_mode, sched.rto_min());
        let rx_flows = config.rx_flows_max as usize;
        let tx_flows = config.tx_flows_max as usize;
        let msgs = config.msgs_max as usize;
        let restores = if config.ec == EcKind::Uncoded { 0 } else { BURST };
        let secret = Secret::new(config, &rng);
        let look_up = secret.look_up();
        Self {
            host,
            allowed: Allowed::new(config.answers_max(), look_up, secret.clone()),
            secret,
            rng,
            flows_opened: 0,
            linger: config.give_up_after(&config.default_path()) * 2,
            tx_flows: Slab::aged(tx_flows, config.incarnation.into()),
            tx_msgs: Slab::new(msgs),
            rx_flows: Slab::aged(rx_flows, config.incarnation.into()),
            proofs: Proofs::new(config, look_up),
            rest_hand: 0,
            rx_msgs: Slab::new(msgs),
            rx_buffers: RxBuffers::new(config),
            halves: config.has_extensions().then(|| Box::new(Halves::new(config))),
            // Twice the flows: removals leave marks that must not force a rehash.
            rx_by_sender: FlowsBySender::with_capacity_and_hasher(2 * rx_flows, look_up),
            controllers: Controllers::default(),
            round_trips: LongRoundTrips::new(),
            losses: PathLosses::new(config.ec.is_by_loss()),
            granted: ack_mode == AckMode::Granted,
            granted_next: None,
            paced: matches!(ack_mode, AckMode::Paced { .. }),
            sched,
            ahead: Ahead::default(),
            acks: AckQueue::new(config),
            blocks: OpenBlocks::new(config),
            restores: VecDeque::with_capacity(restores),
            // A segment of a burst takes the place of two flows at most.
            evicted: Vec::with_capacity(2 * BURST),
            receiving: 0,
            wheel: Wheel::new(TIMER_TICK, tx_flows + rx_flows),
            events: VecDeque::with_capacity(2 * msgs),
            stats: Stats::default(),
            trace: Trace::new(config.trace_capacity as usize),
            config: config.clone(),
        }
    }

    /// Takes a burst that the device received and writes where its bytes belong to `out`: `out[i]`
    /// is for `rx[i]`.
    ///
    /// Afterwards obey the placements, drain [`Endpoint::poll_restore`] and
    /// [`Endpoint::poll_event`], then call [`Endpoint::poll_transmit`] and, last,
    /// [`Endpoint::poll_timeout`] again.
    ///
    /// # Panics
    /// When `out` is shorter than `rx`; in builds with debug assertions also when `rx` has more
    /// than [`BURST`] segments, for which the data path has no memory set aside.
    pub fn handle_burst(&mut self, now: Instant, rx: &[RxSegment], out: &mut [Placement]) {
        self.handle_extended(now, (rx, &[]), out);
    }

    /// [`Endpoint::handle_burst`] of segments with extensions: `exts[i]` has what the header of
    /// `rx[i]` names. A segment beyond the end of `exts` counts as one without extensions.
    ///
    /// Afterwards obey the placements, drain [`Endpoint::poll_restore`] and
    /// [`Endpoint::poll_event`], then call [`Endpoint::poll_transmit`] and, last,
    /// [`Endpoint::poll_timeout`] again.
    ///
    /// # Panics
    /// As [`Endpoint::handle_burst`].
    pub fn handle_extended(
        &mut self,
        now: Instant,
        (rx, exts): (&[RxSegment], &[Ext]),
        out: &mut [Placement],
    ) {
        debug_assert!(rx.len() <= BURST, "{} segments in a burst", rx.len());
        self.restores.clear();
        self.evicted.clear();
        // Scheduler and timer of a flow are updated once for a run of its acknowledgements.
        let mut acked = FlowId::UNKNOWN;
        let (burst, out) = (&RxBurst { rx, exts }, &mut out[..rx.len()]);
        let mut at = 0;
        // Bounded: each turn takes one segment or more.
        while let Some(segment) = rx.get(at) {
            let flow = segment.hdr.dst_flow;
            let mut end = at + 1;
            match &segment.hdr.body {
                Body::Data(data) => out[at] = self.on_data(segment, data, (burst, at), now),
                Body::Ack(_) | Body::Nack(_) | Body::Report(_) | Body::BlockNack(_) => {
                    if acked != flow {
                        self.update_tx(acked, now);
                        acked = FlowId::UNKNOWN;
                    }
                    let same =
                        |next: &&RxSegment| next.hdr.dst_flow == flow && next.hdr.is_feedback();
                    end += rx[end..].iter().take_while(same).count();
                    if self.on_acks(flow, burst, at..end, now) {
                        acked = flow;
                    }
                    out[at..end].fill(Placement::Release);
                }
                Body::Presence(presence) => {
                    self.on_presence(segment, *presence, now);
                    out[at] = Placement::Release;
                }
                Body::Credit(_) | Body::Request(_) | Body::Note(_) => {
                    self.on_control(segment, burst.extensions(at), now);
                    out[at] = Placement::Release;
                }
            }
            at = end;
        }
        self.update_tx(acked, now);
        self.clean_blocks();
    }

    /// Whether the data that has arrived since the last [`Endpoint::poll_transmit`] calls for no
    /// packet at once: its scheduler reports arrivals at instants of its own, and no answer waits.
    /// After such arrivals alone, only [`Endpoint::poll_timeout`] has to be asked again.
    #[inline]
    #[must_use]
    pub fn owes_nothing(&self) -> bool {
        !self.has_answers() && self.sched.sends_at_its_times()
    }

    /// Whether acknowledgements or other answers wait for [`Endpoint::poll_transmit`].
    #[inline]
    #[must_use]
    pub fn has_answers(&self) -> bool {
        !self.acks.is_empty()
    }

    /// The next event for the application; `None` when there is none. Nothing else has to be polled
    /// afterwards. A finished message has given up its place in the tables, so
    /// [`Endpoint::post_send`] may succeed where it was refused for want of a place.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if self.events.is_empty() {
            // The ring starts again at its first place, where the cache is warm.
            self.events.clear();
        }
        Some(event)
    }

    /// The endpoint's scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &S {
        &self.sched
    }

    /// The endpoint's scheduler, to change: call [`Endpoint::poll_transmit`] and
    /// [`Endpoint::poll_timeout`] again afterwards.
    pub fn scheduler_mut(&mut self) -> &mut S {
        &mut self.sched
    }

    /// The endpoint's counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The host of this endpoint.
    #[must_use]
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Counts a received packet that could not be parsed. Nothing has to be polled afterwards.
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

    /// The window and the bytes in flight of each outgoing flow that is open. O(flows).
    pub fn windows(&self) -> impl Iterator<Item = (Window, Bytes)> + '_ {
        self.tx_flows.iter().filter_map(|(_, timed)| timed.open().map(TxFlow::window))
    }

    /// When a packet of one of `peer`'s flows to this host arrived last; `None` when there is no
    /// such flow. O(flows).
    #[must_use]
    pub fn received_from(&self, peer: HostId) -> Option<Instant> {
        let flows = self.rx_flows.iter().map(|(_, timed)| &timed.flow);
        flows.filter(|flow| flow.from == peer).map(|flow| flow.received_at).max()
    }

    /// A number that changes when `peer` acknowledges the oldest packets under way to it. O(flows).
    #[must_use]
    pub fn acknowledged_by(&self, peer: HostId) -> u64 {
        let open = self.tx_flows.iter().filter_map(|(_, timed)| timed.open());
        let bases = open.filter(|open| open.peer == peer).map(|open| u64::from(open.base().0));
        bases.fold(0, u64::wrapping_add)
    }

    /// The key of an outgoing flow; `None` when it is not here.
    #[must_use]
    pub fn flow_key(&self, flow: FlowId) -> Option<Key> {
        self.tx_flows.get(flow).map(Timed::key)
    }

    /// The policies of an outgoing flow; `None` when it is over or not here.
    #[must_use]
    pub fn flow_policies(&self, flow: FlowId) -> Option<Policies> {
        self.tx_flows.get(flow).and_then(Timed::open).map(TxFlow::policies)
    }

    /// Why an outgoing flow does not send; `None` when it could send now or is not here.
    #[must_use]
    pub fn flow_wait(&self, flow: FlowId) -> Option<Wait> {
        if self.sched.holds(flow) {
            return Some(Wait::Scheduler);
        }
        self.tx_flows.get(flow).and_then(Timed::open).and_then(TxFlow::wait)
    }

    /// What an outgoing flow waits for at `now`, by the endpoint's clock; `None` when it is over or
    /// not here.
    #[must_use]
    pub fn flow_standing(&self, flow: FlowId, now: Instant) -> Option<Standing> {
        let open = self.tx_flows.get(flow).and_then(Timed::open)?;
        let standing = open.standing(now, &self.config, &self.tx_msgs);
        if standing.wait.is_none() && self.sched.holds(flow) {
            return Some(Standing { wait: Some(Wait::Scheduler), ..standing });
        }
        Some(standing)
    }

    /// The messages that have begun to arrive and are not whole: the tag of each, once it is known,
    /// and its bytes that are here. O(messages).
    pub fn arriving(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.rx_msgs.iter().map(|(_, msg)| (msg.tag, msg.received))
    }

    /// The messages that are not wholly acknowledged: the tag of each, and its bytes that are.
    /// O(messages).
    pub fn departing(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.tx_msgs.iter().map(|(_, msg)| (msg.tag, msg.acked))
    }

    /// The trace ring.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}
