//! Scheduling: which flow of a host sends next. One file a scheduler, one line in the registry.
//!
//! Systems that decide *when* a segment may leave (SIM before DATA, slot grants, credits) are
//! schedulers too: they keep a flow out of [`Scheduler::next_flow`] until it may send and speak to
//! their peers by packets of their own. The endpoint tells each scheduler the same:
//!
//! ```text
//!  sending half                                      receiving half
//!  on_open, on_backlog   a flow, what it waits for   on_arrival     a segment, whole or trimmed
//!  next_flow, on_sent    its turn, what it sent      on_forgotten   a flow that is over
//!                         \                         /
//!          on_control, poll_control, poll_timeout, handle_timeout
//! ```

use crate::path::Path;
use crate::registry::{Registered, registry};
use crate::segment::{Burst, TxSegment};
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, EntropyValue, FlowId, HostId};
use crate::wire::{Data, Header, WireSizes};

/// Decides which flow may send next. What is about a flow that a scheduler does not know, it
/// ignores.
pub trait Scheduler {
    /// An outgoing flow has been opened. It has sent nothing.
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path);
    /// What an outgoing flow has to send has changed, or what it may send as far as its own window
    /// goes.
    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant);
    /// The flow whose turn it is; it sends one segment and is asked about again.
    fn next_flow(&mut self, now: Instant) -> Option<FlowId>;
    /// How often in a row, at least, [`Scheduler::next_flow`] would name the flow that it has named
    /// last, while that has something to send and nothing else happens; at least 1.
    fn turns(&self) -> usize {
        1
    }
    /// A segment of an outgoing flow is on its way out: note it, and write into its header what the
    /// peer's scheduler should know. `backlog` tells what is left, to who wants to know.
    fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: impl FnOnce() -> Backlog,
        now: Instant,
    );
    /// True when it is this scheduler that keeps an outgoing flow from sending.
    fn holds(&self, flow: FlowId) -> bool;
    /// An outgoing flow whose peer's scheduler does not answer: to be given up. Call until `None`
    /// after [`Scheduler::handle_timeout`].
    fn next_given_up(&mut self) -> Option<FlowId>;
    /// A segment of an incoming flow arrived.
    fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant);
    /// An incoming flow is over.
    fn on_forgotten(&mut self, flow: FlowId);
    /// A packet of a scheduler's own protocol arrived for `flow`, one of this host's that `from` is
    /// the peer of. False when this scheduler has no use for it: it is counted and dropped.
    fn on_control(&mut self, flow: FlowId, from: HostId, hdr: &Header, now: Instant) -> bool;
    /// Fills `out` with packets of the scheduler's own protocol.
    fn poll_control(&mut self, now: Instant, out: &mut Burst<TxSegment>);
    /// When [`Scheduler::handle_timeout`] wants to be called: after a call at `now`, later than
    /// `now`.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Does everything that is due by `now`. Spurious calls are no-ops.
    fn handle_timeout(&mut self, now: Instant);
}

/// What an outgoing flow has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Wire bytes that it could send now as far as its own window goes; 0 when it cannot send.
    pub sendable: Bytes,
    /// Wire bytes that wait to be sent, for the first time or again, window or not.
    pub waiting: Bytes,
    /// Wire bytes in flight.
    pub in_flight: Bytes,
    /// Its congestion window.
    pub cwnd: Bytes,
    /// Wire bytes that its receiver has refused since the flow was opened, and so knows of.
    pub refused: Bytes,
}

/// A segment that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Who sent it.
    pub from: HostId,
    /// The flow at the sender.
    pub src_flow: FlowId,
    /// The path it took.
    pub ev: EntropyValue,
    /// Its header.
    pub data: &'a Data,
    /// Wire bytes to be sent again because this segment was trimmed; 0 when they are here.
    pub missing: Bytes,
}

/// What a scheduler is built from.
#[derive(Clone, Debug)]
pub struct SchedSetup<'a> {
    /// Everybody's parameters.
    pub params: &'a SchedParams,
    /// Slab indices of outgoing flows are below this.
    pub tx_flows_max: u32,
    /// Slab indices of incoming flows are below this.
    pub rx_flows_max: u32,
    /// Rate of the host's link.
    pub line_rate: Rate,
    /// Base RTT of a path that nothing better is known of.
    pub base_rtt: Duration,
    /// Wire bytes of a full segment.
    pub mtu: Bytes,
    /// What packets count as on the wire.
    pub wire_sizes: WireSizes,
    /// Silence after which something is lost, without back-off.
    pub rto: Duration,
    /// The timeout doubles at most this often.
    pub backoff_max: u8,
    /// Timeouts in a row after which a flow is given up.
    pub retries_max: u8,
    /// Silence that a flow survives however many timeouts it has.
    pub give_up: Duration,
    /// Paths that control packets take in turn; at least one.
    pub control_evs: [EntropyValue; 8],
}

/// What a scheduler's file states for its registration.
pub trait Scheduling: Scheduler + Registered {
    /// The scheduler of an endpoint, without flows.
    fn build(setup: &SchedSetup<'_>) -> Self;
    /// Octets that every DATA header of its flows is longer by.
    #[must_use]
    fn data_overhead() -> u16 {
        0
    }
}

registry! {
    /// Names the registered schedulers.
    pub enum SchedKind;
    /// The scheduler of one endpoint, stored inline.
    #[expect(clippy::large_enum_variant, reason = "there is one an endpoint")]
    pub enum Sched: Scheduler;
    new: Scheduling::build(setup: &SchedSetup<'_>);
    params {
        /// The settings of every scheduler, `sched.<name>.<key>`; an endpoint reads those of its
        /// own.
        pub struct SchedParams;
    }
    kinds {
        /// Octets that every DATA header of this scheduler's flows is longer by.
        fn data_overhead() -> u16;
    }
    policies {
        "round-robin" => round_robin::RoundRobin,
        "credit" => credit::Credits,
    }
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path);
    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant);
    fn next_flow(&mut self, now: Instant) -> Option<FlowId>;
    fn turns(&self) -> usize;
    fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: impl FnOnce() -> Backlog,
        now: Instant
    );
    fn holds(&self, flow: FlowId) -> bool;
    fn next_given_up(&mut self) -> Option<FlowId>;
    fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant);
    fn on_forgotten(&mut self, flow: FlowId);
    fn on_control(&mut self, flow: FlowId, from: HostId, hdr: &Header, now: Instant) -> bool;
    fn poll_control(&mut self, now: Instant, out: &mut Burst<TxSegment>);
    fn poll_timeout(&self) -> Option<Instant>;
    fn handle_timeout(&mut self, now: Instant);
}
