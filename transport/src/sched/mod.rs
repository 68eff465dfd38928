//! Scheduling: which flow of a host sends next. One file a scheduler, one line in the registry.
//!
//! Systems that decide *when* a segment may leave (SIM before DATA, slot grants, credits) are
//! schedulers too: they keep a flow out of [`Scheduler::next_flow`] until it may send and speak to
//! their peers through `on_control` and `handle_timeout`.

pub mod round_robin;

pub use round_robin::RoundRobin;

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
    /// Names the registered schedulers.
    pub enum SchedKind;
    /// The scheduler of one endpoint, stored inline.
    pub enum Sched: Scheduler;
    new(flows_max: u32);
    {
        /// [`RoundRobin`].
        "round-robin" => RoundRobin: RoundRobin::new(flows_max),
    }
    fn on_backlog(&mut self, flow: FlowId, bytes: Bytes, now: Instant);
    fn on_control(&mut self, from: HostId, hdr: &Header, now: Instant, out: &mut Burst<TxSegment>);
    fn next_flow(&mut self, now: Instant) -> Option<FlowId>;
    fn poll_timeout(&self) -> Option<Instant>;
    fn handle_timeout(&mut self, now: Instant, out: &mut Burst<TxSegment>);
}
