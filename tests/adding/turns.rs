//! A scheduler that `tests/adding.rs` adds: one segment a flow, as `round_robin.rs` has it, which
//! it is built on. It shows all that a scheduler's file has to state.

use super::{
    Arrival, Backlog, Label, Protocol, Receiving, RoundRobin, SchedSetup, Scheduling, Sending, Turn,
};
use crate::params::NoParams;
use crate::path::Path;
use crate::registry::Registered;
use crate::segment::{Burst, TxSegment};
use crate::time::Instant;
use crate::units::{FlowId, HostId};
use crate::wire::Header;

/// Flows in turn.
#[derive(Clone, Debug)]
pub struct Turns(RoundRobin);

impl Registered for Turns {
    const ABOUT: &'static str = "flows in turn, added by a test";
    type Params = NoParams;
}

impl Scheduling for Turns {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self(RoundRobin::build(setup))
    }
}

impl Sending for Turns {
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label) {
        self.0.on_open(flow, peer, path, label);
    }
    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        self.0.on_backlog(flow, backlog, now);
    }
    fn next_turn(&mut self, now: Instant, until: Instant) -> Option<Turn> {
        self.0.next_turn(now, until)
    }
    fn on_sent(&mut self, _: FlowId, _: &mut TxSegment, _: impl FnOnce() -> Backlog, _: Instant) {}
    fn holds(&self, flow: FlowId) -> bool {
        self.0.holds(flow)
    }
}

impl Receiving for Turns {
    fn on_arrival(&mut self, _: FlowId, _: &Arrival<'_>, _: Instant) {}
    fn on_forgotten(&mut self, _: FlowId) {}
}

impl Protocol for Turns {
    fn on_control(&mut self, _: FlowId, _: HostId, _: &Header, _: Instant) -> bool {
        false
    }
    fn poll_control(&mut self, _: Instant, _: Instant, _: &mut Burst<TxSegment>) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn handle_timeout(&mut self, _: Instant) {}

    fn next_given_up(&mut self) -> Option<FlowId> {
        None
    }
}
