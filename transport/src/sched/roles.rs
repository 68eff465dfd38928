//! The interface between a scheduler and an endpoint: three roles, each a trait, and plain data.
//!
//! An endpoint takes any type that has all three ([`Scheduler`]): those of the registry, or one of
//! another crate ([`crate::Endpoint::with_scheduler`]). A scheduler ignores calls about a flow that
//! it has no state for.

use core::num::{NonZeroU16, NonZeroU32};

use crate::path::Path;
use crate::segment::{Burst, TxSegment};
use crate::stats::DropReason;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, HostId, Psn};
use crate::wire::{Data, Header, Note};

/// All roles in one.
pub trait Scheduler: Sending + Receiving + Protocol {}

impl<S: Sending + Receiving + Protocol> Scheduler for S {}

/// The sending side: outgoing flows and their turns.
pub trait Sending {
    /// An outgoing flow has been opened. It has sent nothing.
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label);
    /// The receiver of an outgoing flow does not have it, and the flow begins again. Earlier
    /// messages about this flow, to the peer or from it, do not count any more.
    fn on_reopened(&mut self, _flow: FlowId) {}
    /// The backlog of an outgoing flow has changed, or the part of it that its own window allows.
    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant);
    /// The next turn: a flow that sends one segment. `until` is the latest departure that the
    /// driver takes: `now` where it cannot keep packets until their time.
    fn next_turn(&mut self, now: Instant, until: Instant) -> Option<Turn>;
    /// A segment of an outgoing flow leaves: the scheduler may note it, and write fields of its
    /// header for the peer's scheduler. `backlog` computes the flow's remaining backlog. A flow
    /// should keep its turn after this call: the endpoint brings a late timer of the flow forward
    /// in the turn that finds nothing to send, and reports the backlog in it.
    fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: impl FnOnce() -> Backlog,
        now: Instant,
    );
    /// True when this scheduler keeps an outgoing flow from sending.
    fn holds(&self, flow: FlowId) -> bool;
    /// From now on the device itself sends packets at their departure if it gets them at most
    /// `horizon` ahead; zero: it does not. Where the driver keeps packets, this is not called.
    fn send_ahead(&mut self, _horizon: Duration) {}
}

/// The receiving side: incoming flows, and when their segments are acknowledged.
pub trait Receiving {
    /// A segment of an incoming flow arrived.
    fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant);
    /// An incoming flow is over.
    fn on_forgotten(&mut self, flow: FlowId);
    /// How segments are acknowledged. Asked once, when the endpoint is made.
    fn ack_mode(&self) -> AckMode {
        AckMode::Free
    }
    /// The least timeout of a segment, for a protocol that holds segments or acknowledgements back.
    /// Asked once, when the endpoint is made.
    fn rto_min(&self) -> Duration {
        Duration::ZERO
    }
    /// The next acknowledgement that may leave, where they are [`AckMode::Granted`]; `until` as in
    /// [`Sending::next_turn`]. A grant for a flow that has nothing to acknowledge is void.
    fn next_granted(&mut self, _now: Instant, _until: Instant) -> Option<Granted> {
        None
    }
    /// Lets an acknowledgement of `len` wire bytes leave at `now`, where they are
    /// [`AckMode::Paced`]. False keeps it: it is asked for again at [`Protocol::poll_timeout`].
    fn may_acknowledge(&mut self, _len: u16, _now: Instant) -> bool {
        true
    }
    /// Whether this scheduler sends nothing in answer to arrivals of data before the instants that
    /// [`Protocol::poll_timeout`] names, so that a poll for packets after an arrival finds none.
    fn sends_at_its_times(&self) -> bool {
        false
    }
}

/// The scheduler's own protocol: packets of its own and timers.
pub trait Protocol {
    /// A packet of the scheduler's own protocol arrived for `flow`, a flow of this host whose peer
    /// is `from`. False when this scheduler has no use for it: it is counted and dropped.
    fn on_control(&mut self, flow: FlowId, from: HostId, hdr: &Header, now: Instant) -> bool;
    /// A packet arrived that is for this host and for none of its flows. It has opened no flow, and
    /// `from` need not be the peer of one, so an answer to it ([`Protocol::poll_control`]) should
    /// keep no state for `from`. `at` is the time of arrival, not later than now.
    ///
    /// # Errors
    /// The reason under which the packet counts as dropped, answered or not.
    fn on_host_control(
        &mut self,
        _from: HostId,
        _hdr: &Header,
        _note: &Note,
        _at: Instant,
    ) -> Result<(), DropReason> {
        Err(DropReason::BadSegment)
    }
    /// The next segments that the protocol has found to have arrived or that are to be sent again,
    /// where segments are [`AckMode::Reported`]. Called until `None` after
    /// [`Protocol::on_host_control`] and [`Protocol::handle_timeout`].
    fn next_reported(&mut self) -> Option<Reported> {
        None
    }
    /// Fills `out` with packets of the scheduler's own protocol; [`Burst::push_at`] for one that
    /// leaves later than `now`, and no later than `until`. A packet that is to leave after `until`
    /// waits in the scheduler, which names the instant in [`Protocol::poll_timeout`]: the driver
    /// cannot keep it.
    fn poll_control(&mut self, now: Instant, until: Instant, out: &mut Burst<TxSegment>);
    /// When to call [`Protocol::handle_timeout`]; after a call at `now` it is later than `now`.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Does everything that is due by `now`. Spurious calls are no-ops.
    fn handle_timeout(&mut self, now: Instant);
    /// The next outgoing flow to give up, because its peer's scheduler does not answer. Called
    /// until `None` after [`Protocol::handle_timeout`].
    fn next_given_up(&mut self) -> Option<FlowId>;
}

/// Segments of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The flow whose segments are sent.
    pub flow: FlowId,
    /// How often in a row, at least, [`Sending::next_turn`] would return this turn while the flow
    /// has something to send and nothing else happens. A turn with a choice is one segment.
    pub repeats: NonZeroU32,
    /// The scheduler's choice for the segment; `None` leaves path and instant to the flow.
    pub choice: Option<Choice>,
}

/// The choice of a scheduler for a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The path of the segment; `None` leaves it to the flow's balancer. From the first turn with a
    /// path on, the balancer of that flow gets no feedback, because it did not choose these paths.
    pub ev: Option<EntropyValue>,
    /// The departure of the segment, `now..=until` of [`Sending::next_turn`], and not before one
    /// that was given at an earlier call; `None` is now, or the instant of the flow's pacer.
    pub at: Option<Instant>,
    /// Whether to send a copy: the next segment that was never sent leaves early, outside of the
    /// window, and is sent in a later turn, too, unless it is acknowledged before. A segment has
    /// one copy at most, unless `again` is set. A flow with an erasure code sends none. Where there
    /// is nothing to copy the turn is void, and the flow's backlog is reported. After 32 void turns
    /// of one poll the next ones wait until the endpoint is polled again, as after
    /// [`Sending::next_turn`] gave none.
    pub copy: bool,
    /// Whether, once every segment was sent, a segment that has left only as copies gets one more
    /// copy: the segment whose last copy left first.
    pub again: bool,
    /// Which segment: the one behind this many others that wait. Lost segments and those that were
    /// passed over come first, oldest first; then those that were never sent; and last those that
    /// have left only as a copy. A segment that is passed over and was never sent gets its PSN now,
    /// so that PSNs stay in the order of messages. A flow with an erasure code, whose packets leave
    /// in order, sends the first segment, and so does a flow in which fewer segments wait. `None`
    /// is the oldest segment that is lost or was copied, or else the first that was never sent.
    pub nth: Option<u16>,
    /// Most segments of one message that leave back to back as one, a train. One leaves where the
    /// driver carries no trains, in a turn for a copy or for a segment that is named, and of a flow
    /// with an erasure code. No train has more segments than 255, or more wire bytes than 65,535. A
    /// train that was lost is sent again as a whole: a turn with too little room for it is void,
    /// and the flow's backlog is reported with what may still be sent. A turn without a choice has
    /// room for any train, and one that names a segment, or is for a copy, for none.
    pub train: NonZeroU16,
}

impl Default for Choice {
    fn default() -> Self {
        let train = NonZeroU16::MIN;
        Self { ev: None, at: None, copy: false, again: false, nth: None, train }
    }
}

impl Turn {
    /// One segment of `flow`, with path and instant left to it.
    #[inline]
    #[must_use]
    pub const fn of(flow: FlowId) -> Self {
        Self { flow, repeats: NonZeroU32::MIN, choice: None }
    }

    /// One segment of `flow`, as chosen.
    #[inline]
    #[must_use]
    pub const fn chosen(flow: FlowId, choice: Choice) -> Self {
        Self { flow, repeats: NonZeroU32::MIN, choice: Some(choice) }
    }
}

/// The application's label of a flow for the scheduler, given when it opens the flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Label {
    /// Flows of one number belong together, as those of a collective do; 0 is none.
    pub collective: u32,
    /// Lower is more urgent.
    pub prio: u32,
}

impl Label {
    /// The priority of a flow that names none: the least urgent that the field's tools use.
    pub const PRIO_NONE: u32 = 2_000_000;
    /// A label without collective and priority.
    pub const NONE: Self = Self { collective: 0, prio: Self::PRIO_NONE };
}

impl Default for Label {
    fn default() -> Self {
        Self::NONE
    }
}

/// The backlog of an outgoing flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Wire bytes that the flow's own window lets it send now; 0 when it cannot send.
    pub sendable: Bytes,
    /// Wire bytes that wait to be sent, for the first time or again, window or not.
    pub waiting: Bytes,
    /// The number of segments that wait to be sent, for the first time or again.
    pub segments: u64,
    /// How many segments are of messages that cannot begin before one under way is over, since a
    /// flow has a bounded number of unfinished messages. The number follows from the mean length of
    /// messages that wait.
    pub blocked: u64,
    /// Wire bytes in flight.
    pub in_flight: Bytes,
    /// The flow's congestion window.
    pub cwnd: Bytes,
    /// Wire bytes that the receiver has refused since the flow was opened.
    pub refused: Bytes,
    /// Round trip of the segment that the last acknowledgement named, less the time for which the
    /// receiver held that acknowledgement back; zero before the first since the flow was opened or
    /// idle. Copies do not count. Once a flow has sent one, neither do segments that were known to
    /// have arrived with all before them.
    pub rtt: Duration,
}

/// A segment that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The host that sent the segment.
    pub from: HostId,
    /// When the segment arrived: before the time of the call where the driver is late.
    pub at: Instant,
    /// The flow at the sender.
    pub src_flow: FlowId,
    /// The path that the segment took.
    pub ev: EntropyValue,
    /// The segment's header.
    pub data: &'a Data,
    /// Payload bytes of the segment; more than those of a full one for a train.
    pub len: u16,
    /// Wire bytes to be sent again because this segment was trimmed; 0 when they are here.
    pub missing: Bytes,
}

/// How segments are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AckMode {
    /// One for each `ack_every` segments, or after `ack_delay`, as the settings say.
    #[default]
    Free,
    /// One for so many segments, or after so long, however they are reordered; segments that are
    /// marked, trimmed, repeated, restored or the last of a message are answered at once.
    Every {
        /// Segments of a flow, 1..=64.
        segments: u16,
        /// How long a segment may wait for others.
        delay: Duration,
    },
    /// [`AckMode::Every`], each held until [`Receiving::may_acknowledge`] lets it leave.
    Paced {
        /// Segments of a flow, 1..=64.
        segments: u16,
        /// How long a segment may wait for others.
        delay: Duration,
    },
    /// Acknowledgements of a flow leave when [`Receiving::next_granted`] names it. One grant names
    /// one refusal and reports the arrivals of 256 PSNs, the oldest ones that wait. If more happens
    /// between two grants, a later grant reports the rest to the sender, or the sender's timer
    /// finds it.
    Granted,
    /// No packet acknowledges a segment: the schedulers of both ends bring that about by packets of
    /// their own ([`Protocol::next_reported`]).
    Reported,
}

/// Segments of one outgoing flow that have arrived, or that are to be sent again because no report
/// of them can come any more, or none has come for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reported {
    /// Segments by number.
    Segments {
        /// The flow.
        flow: FlowId,
        /// A multiple of 64.
        first: Psn,
        /// Bit i: PSN `first + i` has arrived.
        arrived: u64,
        /// Whether these are to be sent again instead: they may have arrived or not.
        again: bool,
    },
    /// All segments in flight that left before an instant are to be sent again: they may have
    /// arrived or not.
    Before {
        /// The flow.
        flow: FlowId,
        /// The instant.
        sent_before: Instant,
    },
}

/// A grant for the acknowledgement of one flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// The incoming flow.
    pub flow: FlowId,
    /// The path of the acknowledgement; `None` is that of the segment that it answers. To a
    /// balancer an acknowledgement is feedback about the path that it came by. So set a path only
    /// for flows whose sender's scheduler also chooses the paths of segments ([`Choice::ev`]).
    pub ev: Option<EntropyValue>,
    /// The departure of the acknowledgement; `None` is now.
    pub at: Option<Instant>,
}
