//! Incoming flows at rest: the state that a receiver keeps of a flow that has been silent for
//! longer than its sender retries.
//!
//! ```text
//!              silent for `linger`,
//!              all that began is whole              its place is wanted
//!   receiving ------------------------> at rest --------------------------> forgotten
//!       |    <------------------------                                          ^
//!       |      any packet of the flow                                           |
//!       +-----------------------------------------------------------------------+
//!              silent for `linger`, something is not whole: it is aborted
//! ```
//!
//! A flow at rest has no timer, no buffers and no half of a controller; its place in the table says
//! which PSNs and messages have arrived. Its sender may go on at any time, and every message is
//! delivered once:
//! - Segments that arrived before are recognised by PSN for as long as the place is kept, so a copy
//!   that comes late is acknowledged as a duplicate and delivered to no application.
//! - A packet for an earlier flow of the same place is not accepted, since names have a generation.
//! - A flow is known by its sender's name and its key. Another process at the sender's address that
//!   comes to the same name has another key, so its packets are of another flow.
//!
//! A flow with missing segments cannot rest: its message has been aborted, and further segments of
//! its sender can complete no message.

use super::Endpoint;
use super::timers::Timed;
use crate::flow::rx::RxFlow;
use crate::sched::Scheduler;
use crate::units::{FlowId, HostId};

/// Places of the table that one search for a flow at rest looks at.
const LOOKS_MAX: u32 = 64;

/// Whether a flow may give its place to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fit {
    Best,
    Good,
    None,
}

impl Timed<RxFlow> {
    /// True when the flow has been silent for as long as senders retry, and lacks nothing.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.timer.is_none()
    }
}

impl<S: Scheduler> Endpoint<S> {
    /// Lets a flow that was silent for `linger`, and has no timer any more, rest; a flow with
    /// missing segments is forgotten, and one whose sender never proved its address.
    pub(super) fn rest(&mut self, flow: FlowId) {
        let whole = self.rx_flows.get(flow).is_some_and(|timed| timed.flow.is_whole_so_far());
        if !whole || self.proofs.lacks(flow) {
            self.forget(flow);
        } else if let Some(halves) = &mut self.halves {
            halves.end(flow);
        }
    }

    /// Makes room in a full table by forgetting one of the next [`LOOKS_MAX`] flows. Where not all
    /// hosts are trusted, a flow fits best whose sender never proved its address and of which no
    /// message is done. Its sender begins the flow anew; a message that was done would be delivered
    /// again. Otherwise a flow at rest is forgotten. The search goes on where the last one ended,
    /// so that places take turns.
    pub(super) fn evict(&mut self) {
        // Where all hosts are trusted, no flow fits better than the first at rest.
        let at_rest = if self.proofs.matter() { Fit::Good } else { Fit::Best };
        let flow = self.search(|timed, lacks| match (lacks, timed.is_at_rest()) {
            (true, _) if !timed.flow.has_done() => Fit::Best,
            (_, true) => at_rest,
            _ => Fit::None,
        });
        let Some(flow) = flow else { return };
        self.give_way(flow);
    }

    /// Forgets a flow to make room for another one. Segments of the forgotten flow in the rest of
    /// the burst were examined while it was known, so no memory was reserved for messages that it
    /// has delivered.
    fn give_way(&mut self, flow: FlowId) {
        if let Some(Timed { flow, .. }) = self.rx_flows.get(flow) {
            self.evicted.push((flow.from, flow.src_flow, flow.key));
        }
        self.stats.flows_evicted += 1;
        self.forget(flow);
    }

    /// Forgets a proven flow at rest whose host fits, if one is found soon.
    pub(super) fn evict_of(&mut self, host_fits: impl Fn(HostId) -> bool) -> bool {
        let own = |timed: &Timed<RxFlow>, lacks: bool| {
            let fits = !lacks && host_fits(timed.flow.from) && timed.is_at_rest();
            if fits { Fit::Best } else { Fit::None }
        };
        let Some(flow) = self.search(own) else { return false };
        self.give_way(flow);
        true
    }

    /// The first of the next [`LOOKS_MAX`] flows that fits best, or else the first that fits well.
    /// `fit` gets each flow, and whether its sender's proof is lacking.
    fn search(&mut self, fit: impl Fn(&Timed<RxFlow>, bool) -> Fit) -> Option<FlowId> {
        let mut good = None;
        for _ in 0..LOOKS_MAX.min(self.config.rx_flows_max) {
            let index = self.rest_hand;
            self.rest_hand = (index + 1) % self.config.rx_flows_max;
            let Some((flow, timed)) = self.rx_flows.at(index) else { continue };
            match fit(timed, self.proofs.lacks(flow)) {
                Fit::Best => return Some(flow),
                Fit::Good => good = good.or(Some(flow)),
                Fit::None => {}
            }
        }
        good
    }
}
