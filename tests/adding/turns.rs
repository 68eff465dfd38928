//! A scheduler that `tests/adding.rs` adds: one segment a flow in turn. It is built on
//! `round_robin.rs`. It shows all that a scheduler's file has to state.

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

/// Flows in turn, and the number of turns.
#[derive(Clone, Debug)]
pub struct Turns(RoundRobin, u64);

impl Registered for Turns {
    const ABOUT: &'static str = "flows in turn, added by a test";
    type Params = NoParams;

    fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("turns", self.1);
    }
}

impl Scheduling for Turns {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self(RoundRobin::build(setup), 0)
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
        let turn = self.0.next_turn(now, until);
        self.1 += u64::from(turn.is_some());
        turn
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
