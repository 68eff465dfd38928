//! Incoming flows that survive silence: what a receiver keeps of a flow that has been silent for
//! longer than its sender retries.
//!
//! ```text
//!              silent for `linger`,
//!              all that began is whole              its place is wanted,
//!   receiving ------------------------> at rest --------------------------> forgotten
//!       |    <------------------------     |    or its sender opens it anew     ^
//!       |     DATA by this flow's name     +------------------------------------+
//!       +-----------------------------------------------------------------------+
//!              silent for `linger`, something is not whole: it is aborted
//! ```
//!
//! A flow at rest has no timer and no buffers; its place in the table says which PSNs and messages
//! have arrived. Its sender goes on whenever it likes, by the name that its acknowledgements gave
//! it, and every message is delivered once:
//! - What arrived before the rest is recognised by PSN for as long as the place is kept, so a copy
//!   that comes late is acknowledged as one and delivered to no application.
//! - A packet that names the flow that was in the place before finds nothing: names have a
//!   generation.
//! - A packet that opens a flow under the sender's name (`dst_flow` unknown) is of another flow: a
//!   sender that retries has been heard within `linger`, and one that was answered knows the name
//!   given here. So it starts from nothing, as it would had the flow been forgotten.
//!
//! A flow of which something is missing cannot rest: its message has been aborted, and what its
//! sender sends further can complete nothing.

use super::Endpoint;
use super::timers::Timed;
use crate::flow::rx::RxFlow;
use crate::sched::Scheduler;
use crate::segment::RxSegment;
use crate::units::FlowId;
use crate::wire::Data;

/// Places of the table that one search for a flow at rest looks at.
const LOOKS_MAX: u32 = 64;

impl Timed<RxFlow> {
    /// True when the flow has been silent for as long as senders retry, and lacks nothing.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.timer.is_none()
    }
}

impl<S: Scheduler> Endpoint<S> {
    /// A flow was silent for `linger`, and its timer is gone: it rests, or is forgotten where
    /// something of it is missing.
    pub(super) fn rest(&mut self, flow: FlowId) {
        let whole = self.rx_flows.get(flow).is_some_and(|timed| timed.flow.is_whole_so_far());
        if !whole {
            self.forget(flow);
        }
    }

    /// Forgets the flow at rest whose sender's name `data` opens anew.
    pub(super) fn end_rest(&mut self, rx: &RxSegment, data: &Data) {
        let Some(open) = data.open else { return };
        let Some(&flow) = self.rx_by_sender.get(&(rx.from, open.src_flow)) else { return };
        if self.rx_flows.get(flow).is_some_and(Timed::is_at_rest) {
            self.forget(flow);
        }
    }

    /// Makes room in a full table by forgetting a flow at rest, if one is found soon. The search
    /// goes on where the last one ended, so that places take turns. O([`LOOKS_MAX`]).
    pub(super) fn evict(&mut self) {
        for _ in 0..LOOKS_MAX.min(self.config.rx_flows_max) {
            let index = self.rest_hand;
            self.rest_hand = (index + 1) % self.config.rx_flows_max;
            let Some((flow, timed)) = self.rx_flows.at(index) else { continue };
            if timed.is_at_rest() {
                self.stats.flows_evicted += 1;
                return self.forget(flow);
            }
        }
    }
}
