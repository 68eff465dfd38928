//! pFabric's hosts: the flow with the least left sends first. Each segment says how much of its
//! flow is left; switches queue and drop packets by that.
//!
//! Source: \[pfabric\] sec. 4. The discipline of this name is the part of pFabric in switches.
//! Hosts start at line rate with a window of a BDP, and only a timer finds losses: the window is
//! the controller of this name, the timer a setting of the transport's preset. This scheduler
//! decides no path. The paper's probes after several timeouts in a row are left out: a flow goes on
//! with segments.
//! DEVIATION(pfabric#4): flows with a priority go before others at their host. Between flows of one
//! priority, the amount left decides; in the network it alone decides.

use alloc::vec;
use alloc::vec::Vec;

use super::least::Least;
use super::{Backlog, Label, Protocol, Ranks, Receiving, SchedSetup, Scheduling, Sending, Turn};
use crate::params::NoParams;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::segment::TxSegment;
use crate::time::Instant;
use crate::units::{Bytes, Credit, FlowId, HostId};
use crate::wire::{Body, data};

/// One outgoing flow.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// The flow; [`FlowId::UNKNOWN`] when none.
    id: FlowId,
    /// The priority of its label; lower is more urgent.
    prio: u32,
    /// Decides between flows of one priority with as much left.
    tie: u32,
}

/// The scheduler of one host.
#[derive(Clone, Debug)]
pub struct Pfabric {
    /// Flows by slab index.
    flows: Vec<Account>,
    /// Flows that their window lets send, by priority and what they have left.
    ready: Least,
    mtu: Bytes,
    rng: Rng,
}

impl Pfabric {
    /// A scheduler without flows.
    #[must_use]
    pub fn new(setup: &SchedSetup<'_>) -> Self {
        let slots = setup.tx_flows_max as usize;
        Self {
            flows: vec![Account { id: FlowId::UNKNOWN, prio: 0, tie: 0 }; slots],
            ready: Least::new(slots),
            mtu: setup.mtu.max(Bytes(1)),
            rng: setup.rng.fork("pfabric", setup.host.0.into()),
        }
    }

    /// What a flow has left: full segments that have not been acknowledged.
    //= pfabric#4
    fn left(&self, backlog: &Backlog) -> u32 {
        let bytes = backlog.waiting.0 + backlog.in_flight.0;
        u32::try_from(bytes.div_ceil(self.mtu.0)).unwrap_or(u32::MAX)
    }

    /// Puts a flow in its place among those that have turns.
    fn rank(&mut self, flow: FlowId, backlog: &Backlog) {
        let index = flow.index();
        let Account { id, prio, tie } = self.flows[index];
        if id == flow {
            let rank = u64::from(self.left(backlog)) << 32 | u64::from(tie);
            self.ready.set(index, (prio, rank));
        }
    }
}

impl Registered for Pfabric {
    const ABOUT: &'static str =
        "the flow with the least left first, named in each segment, as pFabric's hosts";
    type Params = NoParams;
}

impl Scheduling for Pfabric {
    fn build(setup: &SchedSetup<'_>) -> Self {
        Self::new(setup)
    }

    fn serves_prio() -> bool {
        true
    }

    fn data_overhead() -> u16 {
        data::DEMAND_LEN
    }

    fn ranks() -> Option<Ranks> {
        Some(Ranks::Left)
    }
}

impl Sending for Pfabric {
    fn on_open(&mut self, flow: FlowId, _peer: HostId, _path: &Path, label: Label) {
        let tie = self.rng.next_u32();
        self.flows[flow.index()] = Account { id: flow, prio: label.prio, tie };
        self.ready.remove(flow.index());
    }

    fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, _now: Instant) {
        if backlog.sendable > Bytes::ZERO {
            self.rank(flow, backlog);
        } else {
            self.ready.remove(flow.index());
        }
    }

    fn next_turn(&mut self, _now: Instant, _until: Instant) -> Option<Turn> {
        self.ready.first().map(|index| Turn::of(self.flows[index].id))
    }

    fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: impl FnOnce() -> Backlog,
        _now: Instant,
    ) {
        let backlog = backlog();
        if let Body::Data(data) = &mut segment.hdr.body {
            // The field has no zero, and a segment that leaves is left.
            data.demand = Credit::new(self.left(&backlog).max(1));
        }
        // A flow keeps its turn until it has nothing to send: its timer is set in the void one.
        self.rank(flow, &backlog);
    }

    fn holds(&self, _flow: FlowId) -> bool {
        false
    }
}

only_sends!(Pfabric);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Settings};

    fn scheduler() -> Pfabric {
        let config = Config::new(Settings { tx_flows_max: 4, ..Settings::default() }).unwrap();
        Pfabric::new(&config.sched_setup(HostId(0), Rng::new(1)))
    }

    fn backlog(pfabric: &Pfabric, waiting: u64, in_flight: u64) -> Backlog {
        let mtu = pfabric.mtu.0;
        Backlog {
            sendable: Bytes(mtu),
            waiting: Bytes(waiting * mtu),
            in_flight: Bytes(in_flight * mtu),
            ..Backlog::default()
        }
    }

    fn open(pfabric: &mut Pfabric, index: u32, prio: u32) -> FlowId {
        let config = Config::new(Settings::default()).unwrap();
        let flow = FlowId::new(index, 1);
        let label = Label { prio, ..Label::NONE };
        pfabric.on_open(flow, HostId(1), &config.default_path(), label);
        flow
    }

    fn next(pfabric: &mut Pfabric) -> Option<FlowId> {
        pfabric.next_turn(Instant::ZERO, Instant::ZERO).map(|turn| turn.flow)
    }

    #[test]
    fn the_flow_with_the_least_unacknowledged_sends_and_an_urgent_one_before_it() {
        let mut pfabric = scheduler();
        let [long, short, urgent] =
            [(0, 9), (1, 9), (2, 1)].map(|(index, prio)| open(&mut pfabric, index, prio));
        let now = Instant::ZERO;
        pfabric.on_backlog(long, &backlog(&pfabric, 10, 0), now);
        // Fewer segments wait, but more are under way.
        pfabric.on_backlog(short, &backlog(&pfabric, 2, 9), now);
        assert_eq!(next(&mut pfabric), Some(long));
        pfabric.on_backlog(short, &backlog(&pfabric, 2, 7), now);
        assert_eq!(next(&mut pfabric), Some(short));
        pfabric.on_backlog(urgent, &backlog(&pfabric, 99, 0), now);
        assert_eq!(next(&mut pfabric), Some(urgent));
        let closed = Backlog { sendable: Bytes::ZERO, ..backlog(&pfabric, 99, 0) };
        pfabric.on_backlog(urgent, &closed, now);
        assert_eq!(next(&mut pfabric), Some(short), "one whose window is full has no turn");
    }

    #[test]
    fn a_flow_of_another_generation_never_has_a_turn() {
        let mut pfabric = scheduler();
        let flow = open(&mut pfabric, 0, 9);
        pfabric.on_backlog(FlowId::new(0, 2), &backlog(&pfabric, 1, 0), Instant::ZERO);
        assert_eq!(next(&mut pfabric), None);
        pfabric.on_backlog(flow, &backlog(&pfabric, 1, 0), Instant::ZERO);
        assert_eq!(next(&mut pfabric), Some(flow));
        open(&mut pfabric, 0, 9);
        assert_eq!(next(&mut pfabric), None, "a new flow there has said nothing yet");
    }
}
