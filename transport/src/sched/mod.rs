//! Scheduling: which flow of a host sends next. One file a scheduler, one line in the registry.
//!
//! Systems that decide *when* a segment may leave (SIM before DATA, slot grants, credits) are schedulers too: they keep a
//! flow out of [`Scheduler::next_flow`] until it may send and speak to their peers through
//! `on_control` and `handle_timeout`.

pub mod round_robin;

use crate::registry::registry;
use crate::segment::{Burst, TxSegment};
use crate::time::Instant;
use crate::units::{Bytes, FlowId, HostId};
use crate::wire::Header;

/// Decides which flow may send next.
pub trait Scheduler {
    /// `flow` could send `bytes` now as far as its own window goes; 0 when it cannot send at all.
    fn on_backlog(&mut self, flow: FlowId, bytes: Bytes, now: Instant);
    /// A packet of the scheduler's own protocol arrived.
    fn on_control(&mut self, from: HostId, hdr: &Header, now: Instant, out: &mut Burst<TxSegment>);
    /// The flow whose turn it is; it sends one segment and is asked about again.
    fn next_flow(&mut self, now: Instant) -> Option<FlowId>;
    /// When [`Scheduler::handle_timeout`] wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;
    /// The instant asked for has come.
    fn handle_timeout(&mut self, now: Instant, out: &mut Burst<TxSegment>);
}

registry! {
    /// The registered schedulers.
    pub enum SchedKind {
        /// [`round_robin::RoundRobin`].
        "round-robin" => RoundRobin,
    }
}

/// The scheduler of one endpoint, stored inline.
#[derive(Clone, Debug)]
pub(crate) enum Sched {
    RoundRobin(round_robin::RoundRobin),
}

impl Sched {
    /// The scheduler `kind` for at most `flows_max` flows.
    pub(crate) fn new(kind: SchedKind, flows_max: u32) -> Self {
        match kind {
            SchedKind::RoundRobin => Self::RoundRobin(round_robin::RoundRobin::new(flows_max)),
        }
    }

    /// Runs one call on whichever it is.
    pub(crate) fn as_dyn(&mut self) -> &mut impl Scheduler {
        match self {
            Self::RoundRobin(sched) => sched,
        }
    }
}
