//! Credit from receivers: a flow sends its first window without credit. It sends everything else,
//! lost segments too, against credit that the receiving host gives out at the rate of its link.
//!
//! Source: \[ndp\], \[eqds\] and, for facts, their authors' simulator htsim; \[smartt\] sections IV
//! and VI compare with it and put a sender's window beside it. Units: wire bytes, picoseconds.
//! The window of the congestion controller still caps the bytes in flight: credit says when a
//! segment may leave, never that it must. It decides no path and infers no loss.
//!
//! All values are cumulative, so lost and repeated packets do no harm ([`crate::wire::Allowance`]):
//!
//! ```text
//!   sender                                         receiver
//!   used    sent against credit                    granted  credit given
//!   granted credit received                        target   demand received, and trimmed since
//!   announced = used + what waits   --DATA,        granted <= target, always; granted rises
//!     (as far as window and         REQUEST-->     by one quantum at a time, flow by flow, at
//!     `ahead` go)                   <--CREDIT--    the rate of the link
//! ```
//!
//! - A flow may send while `used` is before `granted`; its last segment may end behind it.
//! - A trimmed segment raises `target` where it arrives, and is served before other demand: the
//!   sender need not ask for segments that its receiver counts as missing.
//! - A flow that waits, and whose demand no packet has reported, asks by REQUEST. A flow that has
//!   waited for a timeout asks again, less and less often, until it is given up as silent. Each
//!   REQUEST is answered by a CREDIT, so waiting long is no sign of silence.
//! - A flow of which everything is sent and acknowledged drops the credit that it did not need, and
//!   may send its first window unasked once more.

mod asker;
mod giver;
#[cfg(test)]
mod tests;

use asker::Asker;
use giver::Giver;

use super::{
    Arrival, Backlog, Label, Protocol, Receiving, SchedParams, SchedSetup, Scheduling, Sending,
    Turn,
};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::segment::{Burst, TxSegment};
use crate::time::{Instant, earliest};
use crate::units::{FlowId, HostId};
use crate::wire::{Body, Header, data};

params! {
    /// Settings of [`Credits`].
    pub struct CreditParams {
        /// Bytes that a flow sends unasked when it starts, in BDPs of its path.
        first_window: f32 = 1.0, in 0.0..=16.0;
        /// How far ahead of its sent bytes a flow asks for credit, in BDPs of its path: the most
        /// credit that may lie unused at a sender.
        ahead: f32 = 1.5, in 0.01..=64.0;
        /// Share of the line rate at which a receiver gives credit, percent; the rest is for
        /// control packets.
        rate: u16 = 99, in 1..=100;
        /// Full segments that one CREDIT lets a flow send.
        quantum: u16 = 1, in 1..=64;
    }
}

/// Both sides of the scheduler of one host.
#[derive(Clone, Debug)]
pub struct Credits {
    asker: Asker,
    giver: Giver,
}

impl Credits {
    /// A scheduler without flows.
    #[must_use]
    pub fn new(setup: &SchedSetup<'_>) -> Self {
        Self { asker: Asker::new(setup), giver: Giver::new(setup) }
    }
}

impl Registered for Credits {
    const ABOUT: &'static str =
        "a first window unasked, then what the receiver gives credit for, as EQDS and NDP";
    type Params = CreditParams;
}

impl Scheduling for Credits {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self::new(setup)
    }

    fn serves_prio() -> bool {
        true
    }

    fn data_overhead() -> u16 {
        data::DEMAND_LEN
    }

    /// A packet of credit for each segment, about.
    fn control_packets(_params: &SchedParams, segments: u64, acks: u64) -> u64 {
        acks.saturating_add(segments)
    }
}

impl Sending for Credits {
    fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label) {
        self.asker.on_open(flow, peer, path, label);
    }

    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        self.asker.on_backlog(flow, backlog, now);
    }

    fn on_reopened(&mut self, flow: FlowId) {
        self.asker.on_reopened(flow);
    }

    #[inline]
    fn next_turn(&mut self, now: Instant, until: Instant) -> Option<Turn> {
        self.asker.next_turn(now, until)
    }

    fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: impl FnOnce() -> Backlog,
        now: Instant,
    ) {
        self.asker.on_sent(flow, segment, &backlog(), now);
    }

    fn holds(&self, flow: FlowId) -> bool {
        self.asker.holds(flow)
    }
}

impl Receiving for Credits {
    fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant) {
        self.giver.on_arrival(flow, arrival, now);
    }

    fn on_forgotten(&mut self, flow: FlowId) {
        self.giver.on_forgotten(flow);
    }
}

impl Protocol for Credits {
    fn on_control(&mut self, flow: FlowId, from: HostId, hdr: &Header, now: Instant) -> bool {
        match hdr.body {
            Body::Credit(credit) => self.asker.on_credit(flow, credit.upto, now),
            Body::Request(request) => {
                self.giver.on_request(flow, from, &request, hdr.ev, now);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn poll_control(&mut self, _now: Instant, _until: Instant, out: &mut Burst<TxSegment>) {
        // Most polls find no packet, so only these two looks are in line.
        if self.giver.has_packets() {
            self.giver.poll_control(out);
        }
        if self.asker.has_packets() {
            self.asker.poll_control(out);
        }
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        earliest(self.giver.poll_timeout(), self.asker.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.giver.give(now);
        self.asker.handle_timeout(now);
    }

    fn next_given_up(&mut self) -> Option<FlowId> {
        self.asker.next_given_up()
    }
}
