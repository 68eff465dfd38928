//! A scheduler that `tests/adding.rs` adds: one segment a flow in turn, and one acknowledgement for
//! several segments. It is built on `round_robin.rs`. It shows all that a scheduler's file has to
//! state.

use super::{
    AckMode, Arrival, Backlog, Label, Protocol, Receiving, RoundRobin, SchedSetup, Scheduling,
    Sending, Turn,
};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::segment::{Burst, TxSegment};
use crate::time::{Duration, Instant};
use crate::units::{FlowId, HostId};
use crate::wire::Header;

params! {
    /// Settings of [`Turns`].
    pub struct TurnsParams {
        /// Segments of a flow for each acknowledgement.
        answer_every: u16 = 1, in 1..=64;
    }
}

/// Flows in turn, and the number of turns.
#[derive(Clone, Debug)]
pub struct Turns {
    flows: RoundRobin,
    turns: u64,
    ack_mode: AckMode,
}

impl Registered for Turns {
    const ABOUT: &'static str = "flows in turn, added by a test";
    type Params = TurnsParams;

    fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("turns", self.turns);
    }
}

impl Scheduling for Turns {
    fn build(setup: &SchedSetup<'_>) -> Self {
        let segments = setup.params.turns.answer_every;
        let ack_mode = AckMode::Every { segments, delay: Duration::from_us(5) };
        Self { flows: RoundRobin::build(setup), turns: 0, ack_mode }
    }
    fn serves_prio() -> bool {
        true
    }
}

impl Sending for Turns {
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label) {
        self.flows.on_open(flow, peer, path, label);
    }
    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        self.flows.on_backlog(flow, backlog, now);
    }
    fn next_turn(&mut self, now: Instant, until: Instant) -> Option<Turn> {
        let turn = self.flows.next_turn(now, until);
        self.turns += u64::from(turn.is_some());
        turn
    }
    fn on_sent(&mut self, _: FlowId, _: &mut TxSegment, _: impl FnOnce() -> Backlog, _: Instant) {}
    fn holds(&self, flow: FlowId) -> bool {
        self.flows.holds(flow)
    }
}

impl Receiving for Turns {
    fn on_arrival(&mut self, _: FlowId, _: &Arrival<'_>, _: Instant) {}
    fn on_forgotten(&mut self, _: FlowId) {}
    fn ack_mode(&self) -> AckMode {
        self.ack_mode
    }
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
