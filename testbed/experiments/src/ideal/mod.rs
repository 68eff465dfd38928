//! The transport `ideal`: one scheduler that sees every flow of the network at once and serves the
//! flow with the least left first, pre-emptively. No network reaches it; it is the baseline for all
//! other transports.
//!
//! Source: the ideal of \[zeropod\] V-A, which is that of \[pfabric\], computed flow by flow and
//! without packets there and here. So it is a computation, not a simulation of packets:
//!
//! ```text
//!   start --waits, sends, is pre-empted--> last bit has left --the way of a packet--> delivered
//!                                                        --the way of an acknowledgement--> end
//! ```
//!
//! Bits are those of the wire, including headers. They leave as `srpt` decides. The last bits of a
//! flow are at the receiver later by the time that a packet of the flow takes through empty
//! switches, each of which stores it first. So no packet queues, is lost, marked or retransmitted.
//! A flow that is alone in the network takes the time `alone_us`. It takes up to the time of a
//! packet more where links above hosts are slow or the last packet could overtake. Bits leave a
//! switch before their packet is whole there. Where faster links above hosts are the bottleneck, a
//! run may therefore end before `ideal_us`, by as much as a packet takes longer on a host's line
//! than on one of these links. Flows of one connection are flows of their own here. There are no
//! packets to count, to capture or to explain, no queues to sample, and no links for faults. The
//! plan refuses everything that needs them. A flow counts as delivered when it is whole, so a run
//! that ends before its flows do has no utilisation.
//!
//! A run has one thread, since each decision depends on all flows. A start or an end of a flow
//! costs O(flows under way).

mod srpt;

use std::collections::BTreeSet;

use fabric::serialisation;
use transport::{Bytes, Instant, Stats};

use crate::conductor::{Conductor, PostOrder};
use crate::input::InputError;
use crate::measure::audit::DriverCount;
use crate::measure::{Adapted, Audit, Outcome};
use crate::observe::Observe;
use crate::plan::{Plan, RunError};
use crate::progress::{Progress, RecordFeed, Watch};
use crate::topology::base_one_way;
use crate::workload::FlowIndex;
use srpt::Srpt;

/// Flows that are looked at between two looks at the watch: a few milliseconds.
const LOOK_EVERY: usize = 1 << 18;

/// Computes `plan` to its end: all flows done, the time limit, or the watch says stop.
///
/// # Errors
/// When packets are to be observed, since there are none.
pub fn run(plan: &Plan, observe: &Observe, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let flags = [("--why", observe.why), ("--capture", observe.capture.is_some())];
    if let Some((flag, _)) = flags.into_iter().find(|(_, given)| *given) {
        let found = "the transport ideal, which is computed without packets";
        let error = InputError::new(found, "a transport whose hosts send packets");
        return Err(error.at(flag, 0, 0).help(format!("leave {flag} out")).into());
    }
    let mut run = IdealRun::new(plan);
    let stopped = run.complete(watch);
    Ok(run.outcome(stopped))
}

/// What lands at an end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Landing {
    /// The last bit is at the receiver.
    Data,
    /// The last acknowledgement is at the sender.
    Ack,
}

struct IdealRun<'a> {
    plan: &'a Plan,
    conductor: Conductor<'a>,
    srpt: Srpt,
    /// What is under way, in the order in which it lands.
    under_way: BTreeSet<(Instant, Landing, FlowIndex)>,
    feed: RecordFeed,
    now: Instant,
    /// Message bytes that have left their hosts.
    sent_bytes: u64,
}

impl<'a> IdealRun<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            conductor: Conductor::new(&plan.matrix),
            srpt: Srpt::new(&plan.tree),
            under_way: BTreeSet::new(),
            feed: RecordFeed::default(),
            now: Instant::ZERO,
            sent_bytes: 0,
        }
    }

    /// The loop, an instant a turn. True when it was stopped before its end.
    fn complete(&mut self, watch: &mut dyn Watch) -> bool {
        let limit = self.plan.limit.map_or(Instant::FAR_FUTURE, |limit| Instant::ZERO + limit);
        let mut unseen = 0;
        while let Some(next) = self.next_at() {
            if next > limit {
                self.now = limit;
                return true;
            }
            self.at(next);
            // An instant costs O(flows that have bits left).
            unseen += 1 + self.srpt.len();
            if unseen >= LOOK_EVERY {
                unseen = 0;
                self.feed.pass_settled(watch, |line| self.conductor.settled(line));
                if !watch.goes_on(&self.progress()) {
                    return true;
                }
            }
        }
        false
    }

    /// When something happens next; `None` when nothing will.
    fn next_at(&self) -> Option<Instant> {
        let start = self.conductor.next_start().map(|start| start.max(self.now));
        let landing = self.under_way.first().map(|(at, ..)| *at);
        let next = [start, landing, Some(self.srpt.next_at())].into_iter().flatten().min()?;
        (next < Instant::FAR_FUTURE).then_some(next)
    }

    /// Runs the instant `now`: bits that have left, arrivals, starts, a decision.
    fn at(&mut self, now: Instant) {
        let mut decides = now == self.srpt.next_at();
        self.now = now;
        let mut ended = Vec::new();
        self.srpt.advance(now, &mut ended);
        ended.into_iter().for_each(|flow| self.on_sent(flow));
        while let Some(&(at, landing, flow)) = self.under_way.first()
            && at <= now
        {
            self.under_way.pop_first();
            self.on_landing(landing, flow);
        }
        while let Some(order) = self.conductor.next_order(now) {
            self.start(&order);
            decides = true;
        }
        if decides {
            self.srpt.decide();
        }
    }

    fn start(&mut self, order: &PostOrder) {
        let top = self.plan.tree.spec().meeting_tier(order.src, order.dst);
        let bits = u128::from(self.plan.wire_bytes(Bytes(order.size))) * 8;
        self.srpt.add(order.flow, (order.src, order.dst), top, bits);
    }

    /// The last bit of a flow has left its host.
    fn on_sent(&mut self, flow: FlowIndex) {
        let Plan { tree, settings, matrix, .. } = self.plan;
        let spec = &matrix.flows[flow.index()];
        let packet = self.plan.wire_bytes(self.plan.first_segment(spec.size));
        let way = base_one_way(tree, spec.src, spec.dst, packet);
        let at = self.now + (way - serialisation(packet, settings.line_rate));
        self.under_way.insert((at, Landing::Data, flow));
        self.sent_bytes = self.sent_bytes.saturating_add(spec.size.0);
    }

    fn on_landing(&mut self, landing: Landing, flow: FlowIndex) {
        let spec = &self.plan.matrix.flows[flow.index()];
        match landing {
            Landing::Data => {
                self.conductor.on_delivered(flow, spec.size.0, self.now);
                let back = self.plan.way_back(spec.src, spec.dst);
                self.under_way.insert((self.now + back, Landing::Ack, flow));
            }
            Landing::Ack => self.conductor.on_acked(flow, spec.size.0, self.now),
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            now: self.now.since(Instant::ZERO),
            flows_finished: self.conductor.finished() as u64,
            bytes_delivered: self.conductor.delivered().0,
            hops: 0,
        }
    }

    fn outcome(mut self, stopped: bool) -> Outcome {
        let stats = Stats { data_placed_bytes: self.sent_bytes, ..Stats::default() };
        let audit = Audit::of_hosts(&self.conductor, &stats, (DriverCount::default(), 0), 0);
        let mut outcome =
            Outcome::new(self.plan, &mut self.conductor, stats, None, audit, self.now);
        for policy in [&mut outcome.summary.cc, &mut outcome.summary.lb] {
            "none".clone_into(policy);
        }
        let why = "each decision of the ideal scheduler depends on all flows";
        let threads = Adapted::new("sim.threads", "1".to_owned(), why);
        if stopped {
            outcome.summary.utilisation = None;
        }
        let adapted = (self.plan.draft.threads > 1).then_some(threads).into_iter().collect();
        Outcome { stopped, adapted, ..outcome }
    }
}

#[cfg(test)]
mod tests;
