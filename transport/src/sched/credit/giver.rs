//! The receiving side: one queue of flows that need credit, and the pace at which it is given.

use alloc::vec;
use alloc::vec::Vec;

use crate::sched::place_queue::PlaceQueue;
use crate::sched::{Arrival, SchedSetup};
use crate::segment::{Burst, PayloadRef, TxSegment};
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, Credit, EntropyValue, FlowId, HostId};
use crate::wire::{Allowance, Body, Header};

/// The demand and the credit of one incoming flow.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// The flow; [`FlowId::UNKNOWN`] when none.
    id: FlowId,
    from: HostId,
    /// The flow at the sender.
    src_flow: FlowId,
    /// The path that the last packet of the flow took: CREDIT travels back on it.
    ev: EntropyValue,
    /// The place up to which the flow would send, by its reports. Never before `granted`.
    target: Credit,
    /// The place up to which the flow may send.
    granted: Credit,
    /// Trimmed wire bytes, served before other flows' demand, 0..=`target - granted`.
    urgent: u32,
}

const VACANT: Need = Need {
    id: FlowId::UNKNOWN,
    from: HostId(0),
    src_flow: FlowId::UNKNOWN,
    ev: EntropyValue(0),
    target: Credit::START,
    granted: Credit::START,
    urgent: 0,
};

impl Need {
    /// Wire bytes that the flow still needs.
    fn wanted(&self) -> u32 {
        self.target.ahead_of(self.granted)
    }
}

/// Gives credit to the incoming flows of one host in turn. No queue holds a flow twice.
#[derive(Clone, Debug)]
pub(super) struct Giver {
    /// Demands and credit of flows by slab index.
    needs: Vec<Need>,
    /// Flows with trimmed segments: served first.
    urgent: PlaceQueue,
    queue: PlaceQueue,
    /// Flows to which a CREDIT is to leave.
    outbox: PlaceQueue,
    /// When segments for all credit given so far will have arrived, at the rate of the link; no
    /// more credit is given before.
    next_at: Instant,
    rate: Rate,
    /// Most bytes of one CREDIT.
    quantum: u32,
    /// A late call makes up for at most this long.
    lag_max: Duration,
}

impl Giver {
    pub(super) fn new(setup: &SchedSetup<'_>) -> Self {
        let params = &setup.params.credit;
        let flows = setup.rx_flows_max as usize;
        let bps = setup.line_rate.as_bps() / 100 * u64::from(params.rate);
        let segment = u32::try_from(setup.mtu.0).unwrap_or(u32::MAX);
        let quantum = segment.saturating_mul(u32::from(params.quantum));
        Self {
            needs: vec![VACANT; flows],
            urgent: PlaceQueue::new(flows),
            queue: PlaceQueue::new(flows),
            outbox: PlaceQueue::new(flows),
            next_at: Instant::ZERO,
            rate: Rate::from_bps(bps.max(1)),
            quantum,
            lag_max: setup.base_rtt,
        }
    }

    /// Takes in a segment: adds its demand and, if it was trimmed, its missing bytes.
    pub(super) fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>, now: Instant) {
        let need = &mut self.needs[flow.index()];
        if need.id != flow {
            *need = Need { id: flow, from: arrival.from, src_flow: arrival.src_flow, ..VACANT };
        }
        need.ev = arrival.ev;
        if let Some(demand) = arrival.data.demand {
            need.raise(demand);
        }
        // A sender whose segments announce no demand waits for no credit.
        if arrival.missing > Bytes::ZERO && arrival.data.demand.is_some() {
            let missing = u32::try_from(arrival.missing.0).unwrap_or(0);
            need.target = need.target.plus(missing);
            need.urgent = need.urgent.saturating_add(missing);
        }
        self.want(flow, now);
    }

    /// Takes in a REQUEST. It is always answered, because the flow may have missed a CREDIT.
    pub(super) fn on_request(
        &mut self,
        flow: FlowId,
        from: HostId,
        request: &Allowance,
        ev: EntropyValue,
        now: Instant,
    ) {
        let need = &mut self.needs[flow.index()];
        if need.id != flow {
            *need = Need { id: flow, from, src_flow: request.src_flow, ..VACANT };
        }
        need.ev = ev;
        need.raise(request.upto);
        self.outbox.push(flow.index());
        self.want(flow, now);
    }

    pub(super) fn on_forgotten(&mut self, flow: FlowId) {
        let need = &mut self.needs[flow.index()];
        if need.id == flow {
            // The flow stays in its queue, where it is passed over because it needs nothing.
            need.id = FlowId::UNKNOWN;
            need.target = need.granted;
            need.urgent = 0;
        }
    }

    fn want(&mut self, flow: FlowId, now: Instant) {
        if self.urgent.is_empty() && self.queue.is_empty() {
            // Credit that was not given while no flow needed any cannot be given later.
            self.next_at = self.next_at.max(now);
        }
        self.enqueue(flow.index());
        self.give(now);
    }

    fn enqueue(&mut self, index: usize) {
        let need = &self.needs[index];
        if need.wanted() == 0 {
            return;
        }
        if need.urgent > 0 {
            self.urgent.push(index);
        }
        self.queue.push(index);
    }

    /// Gives the credit that is due by `now`: at most the bytes that the link carries in `lag_max`,
    /// and one quantum.
    pub(super) fn give(&mut self, now: Instant) {
        let floor = Instant::from_ps(now.as_ps().saturating_sub(self.lag_max.as_ps()));
        self.next_at = self.next_at.max(floor);
        while self.next_at <= now {
            let Some(index) = self.next_turn() else { return };
            let need = &mut self.needs[index];
            let amount = need.wanted().min(self.quantum);
            need.granted = need.granted.plus(amount);
            need.urgent = need.urgent.saturating_sub(amount).min(need.wanted());
            self.outbox.push(index);
            self.next_at += self.rate.time_for(Bytes(u64::from(amount)));
            self.enqueue(index);
        }
    }

    /// Takes the flow whose turn it is out of its queue; `None` when no flow needs credit. Bounded
    /// by the queues' lengths: each round takes one entry out.
    fn next_turn(&mut self) -> Option<usize> {
        while let Some(index) = self.urgent.pop() {
            if self.needs[index].urgent > 0 {
                return Some(index);
            }
        }
        while let Some(index) = self.queue.pop() {
            if self.needs[index].wanted() > 0 {
                return Some(index);
            }
        }
        None
    }

    /// Whether a CREDIT waits to leave.
    #[inline]
    pub(super) fn has_packets(&self) -> bool {
        !self.outbox.is_empty()
    }

    #[inline(never)]
    pub(super) fn poll_control(&mut self, out: &mut Burst<TxSegment>) {
        while out.room() > 0 {
            let Some(index) = self.outbox.pop() else { return };
            let need = &self.needs[index];
            if need.id == FlowId::UNKNOWN {
                continue;
            }
            let body = Body::Credit(Allowance { src_flow: need.id, upto: need.granted });
            let hdr = Header::new(need.ev, need.src_flow, body);
            out.push(TxSegment { hdr, payload: PayloadRef::default(), peer: need.from });
        }
    }

    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let waiting = !(self.urgent.is_empty() && self.queue.is_empty());
        waiting.then_some(self.next_at)
    }
}

impl Need {
    /// Raises the flow's demand to `demand`. A lower demand changes nothing, because packets
    /// overtake each other.
    fn raise(&mut self, demand: Credit) {
        if demand.distance_from(self.target) > 0 {
            self.target = demand;
        }
    }
}
