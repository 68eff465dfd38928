//! The receiving side: what each flow needs, the tokens sent to it, and which of them are gone.

use alloc::vec;
use alloc::vec::Vec;

use super::{AHEAD_MAX, TokenReport};
use crate::rng::Rng;
use crate::sched::place_queue::PlaceQueue;
use crate::sched::{Arrival, SchedSetup};
use crate::segment::{Burst, PayloadRef, TxSegment};
use crate::time::{Duration, Instant};
use crate::units::{Credit, EntropyValue, FlowId, HostId};
use crate::wire::{Allowance, Body, Header};

/// The needs of one incoming flow, and its tokens.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// The flow; [`FlowId::UNKNOWN`] when none.
    id: FlowId,
    from: HostId,
    /// The flow at the sender.
    src_flow: FlowId,
    /// The path that the last packet of the flow took: CREDIT travels back on it.
    ev: EntropyValue,
    /// The last token sent.
    granted: Credit,
    /// How many of the last tokens no report has named as gone.
    unreported: u32,
    /// How many of the last tokens are outstanding: neither reported as gone nor taken for dead. At
    /// most `unreported`.
    outstanding: u32,
    /// Segments that need tokens, those for which tokens are outstanding among them.
    needs: u32,
    /// Tokens still to send before the flow waits for a timeout. A token that died is replaced when
    /// a report names it as gone, or after the timeout: other flows have had their turn by then.
    left: u32,
    /// When the last token was sent.
    sent_at: Instant,
    /// How often in a row tokens were taken for dead.
    silent: u8,
    /// Decides between flows with as many segments left.
    tie: u32,
}

const VACANT: Need = Need {
    id: FlowId::UNKNOWN,
    from: HostId(0),
    src_flow: FlowId::UNKNOWN,
    ev: EntropyValue(0),
    granted: Credit::START,
    unreported: 0,
    outstanding: 0,
    needs: 0,
    left: 0,
    sent_at: Instant::ZERO,
    silent: 0,
    tie: 0,
};

/// The number of timeouts of one length; each further timeout is twice as long as the one before.
const PATIENT: u8 = 8;
/// Doublings of the timeout at most.
const DOUBLINGS_MAX: u8 = 12;

/// Needs that are limited by a flow's window are so many times its tokens; needs of shorter flows
/// do not change where a segment is lost.
const LONG: u32 = 8;

impl Need {
    fn may_issue(&self, window: u32) -> bool {
        self.left > 0 && self.outstanding < window
    }

    /// Takes in a report, unless a packet that left later has been here before.
    fn take(&mut self, report: TokenReport) {
        let mut unreported = report.outstanding(self.granted);
        if let Some(ahead) = report.ahead(self.granted) {
            // The sender names a token that was never given here: an earlier process of this host
            // gave it, in the flow's first round trip. Tokens go on from that number, since the
            // sender would take those up to it for late ones, for ever. A report so late that
            // numbers have come again since is no such report: more tokens have been given then.
            *self = Self { granted: self.granted.plus(ahead), needs: 0, ..*self };
            (unreported, self.unreported, self.outstanding) = (0, 0, 0);
        }
        if unreported > self.unreported {
            return;
        }
        let gone = self.unreported - unreported;
        let newer = gone > 0;
        self.unreported = unreported;
        self.outstanding = self.outstanding.min(unreported);
        let needs = report.needs.into();
        // Without a token in between, segments that are lost raise the needs.
        let had_none = self.needs == 0;
        if newer && needs == self.needs && needs > LONG * unreported {
            // Needs that stay as they are while tokens are used are bounded by the flow's own
            // window, and as many segments wait behind it.
            self.left += gone;
        }
        self.needs = if newer { needs } else { self.needs.max(needs) };
        self.left = if had_none { self.needs } else { self.left.min(self.needs) };
        self.silent = 0;
    }
}

/// The needs and tokens of all incoming flows of a host.
#[derive(Clone, Debug)]
pub(in crate::sched) struct Issuer {
    /// The needs of incoming flows, by slab index.
    needs: Vec<Need>,
    /// Flows to which a CREDIT is to leave.
    outbox: PlaceQueue,
    /// Silence of the sender after which tokens are taken for dead.
    timeout: Duration,
    /// How many tokens of a full window count as dead in each timeout, at most the whole window.
    retry: u32,
    rng: Rng,
}

impl Issuer {
    /// An issuer without flows. Tokens of which nothing was reported for `timeout` are taken for
    /// dead, at most `retry` of them in each timeout.
    pub(in crate::sched) fn new(setup: &SchedSetup<'_>, timeout: Duration, retry: u32) -> Self {
        let flows = setup.rx_flows_max as usize;
        Self {
            needs: vec![VACANT; flows],
            outbox: PlaceQueue::new(flows),
            timeout,
            retry,
            rng: setup.rng.fork("tokens.issuer", setup.host.0.into()),
        }
    }

    /// The place of a flow, which begins if it is new.
    fn place(&mut self, flow: FlowId, from: HostId, src_flow: FlowId) -> &mut Need {
        let need = &mut self.needs[flow.index()];
        if need.id != flow {
            let tie = self.rng.next_u32();
            *need = Need { id: flow, from, src_flow, tie, ..VACANT };
        }
        need
    }

    /// Takes in the report of a segment.
    pub(in crate::sched) fn on_arrival(&mut self, flow: FlowId, arrival: &Arrival<'_>) {
        let need = self.place(flow, arrival.from, arrival.src_flow);
        need.ev = arrival.ev;
        if let Some(report) = arrival.data.demand.and_then(TokenReport::of_field) {
            need.take(report);
        }
    }

    /// Takes in a REQUEST, which is always answered: the flow may have missed a CREDIT. False when
    /// it makes no sense.
    pub(in crate::sched) fn on_request(
        &mut self,
        flow: FlowId,
        from: HostId,
        request: &Allowance,
        ev: EntropyValue,
    ) -> bool {
        let Some(report) = TokenReport::of_field(request.upto) else { return false };
        let need = self.place(flow, from, request.src_flow);
        need.ev = ev;
        if report.needs == 0 && report.outstanding(need.granted) <= need.unreported {
            // All that was wanted has been sent.
            need.needs = 0;
        }
        need.take(report);
        self.outbox.push(flow.index());
        true
    }

    /// The sender has nothing to send in the flow at `index`, which needs no tokens, unless it
    /// reports again that it does.
    pub(in crate::sched) fn end(&mut self, index: usize) {
        (self.needs[index].needs, self.needs[index].left) = (0, 0);
    }

    pub(in crate::sched) fn on_forgotten(&mut self, flow: FlowId) {
        let need = &mut self.needs[flow.index()];
        if need.id == flow {
            *need = VACANT;
        }
    }

    /// The rank of the flow at `index` where the least need goes first.
    pub(in crate::sched) fn rank(&self, index: usize) -> u64 {
        let need = &self.needs[index];
        u64::from(need.needs) << 32 | u64::from(need.tie)
    }

    /// Segments of the flow at `index` that want tokens, those that have some among them.
    pub(in crate::sched) fn needs(&self, index: usize) -> u32 {
        self.needs[index].needs
    }

    /// Tokens that the flow at `index` wants beyond those that it has, or when it will want some
    /// because it was silent.
    pub(in crate::sched) fn wants(&self, index: usize, now: Instant) -> Result<u32, Instant> {
        let need = &self.needs[index];
        // A flow that was silent for so long may have no use for tokens. It is tried again after
        // each timeout, and keeps no channel from others in between.
        if need.left > 0 && need.silent < PATIENT {
            return Ok(need.left);
        }
        match self.ready_at(index, 0) {
            Some(at) if at > now => Err(at),
            _ => Ok(need.needs),
        }
    }

    /// The name that the flow at `index` has at its sender.
    pub(in crate::sched) fn src_flow(&self, index: usize) -> FlowId {
        self.needs[index].src_flow
    }

    /// When the flow at `index` may get a token, with at most `window` of them outstanding; `None`
    /// when it needs none.
    pub(in crate::sched) fn ready_at(&self, index: usize, window: u32) -> Option<Instant> {
        let need = &self.needs[index];
        if need.needs == 0 {
            return None;
        }
        if need.may_issue(window) {
            return Some(Instant::ZERO);
        }
        let doublings = need.silent.saturating_sub(PATIENT).min(DOUBLINGS_MAX);
        Some(need.sent_at + self.timeout * (1 << doublings))
    }

    /// Sends a token to the flow at `index`, which is ready for one, and names the flow.
    pub(in crate::sched) fn issue(&mut self, index: usize, window: u32, now: Instant) -> FlowId {
        let room = window.saturating_sub(self.retry);
        let need = &mut self.needs[index];
        if !need.may_issue(window) {
            (need.outstanding, need.left) = (need.outstanding.min(room), need.needs);
            need.silent = need.silent.saturating_add(1);
        }
        if need.unreported < AHEAD_MAX {
            need.granted = need.granted.plus(1);
            need.left -= 1;
            need.outstanding += 1;
            need.unreported += 1;
        } else {
            // The sender would refuse another token: the CREDIT is repeated once a timeout.
            need.left = 0;
        }
        need.sent_at = now;
        let flow = need.id;
        self.outbox.push(index);
        flow
    }

    /// Sends up to `most` tokens in one CREDIT, as [`Issuer::issue`] sends one. Returns the flow
    /// and the number of tokens.
    pub(in crate::sched) fn issue_up_to(
        &mut self,
        most: u32,
        index: usize,
        window: u32,
        now: Instant,
    ) -> (FlowId, u32) {
        let flow = self.issue(index, window, now);
        let mut tokens = 1;
        while tokens < most && self.needs[index].may_issue(window) {
            self.issue(index, window, now);
            tokens += 1;
        }
        (flow, tokens)
    }

    pub(in crate::sched) fn poll_control(&mut self, out: &mut Burst<TxSegment>) {
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
}
