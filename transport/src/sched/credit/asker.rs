//! The sending side: the bytes that each flow has sent unasked and against credit, and when it asks
//! for more.

use alloc::vec;
use alloc::vec::Vec;

use crate::path::Path;
use crate::sched::asking::Asking;
use crate::sched::{Backlog, Label, RoundRobin, SchedSetup, Sending as _, Turn};
use crate::segment::{Burst, PayloadRef, TxSegment};
use crate::time::Instant;
use crate::units::{Bytes, Credit, EntropyValue, FlowId, HostId};
use crate::wire::{Allowance, Body, Header, WireSizes};

/// One outgoing flow.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// The flow; [`FlowId::UNKNOWN`] when none.
    id: FlowId,
    peer: HostId,
    /// Wire bytes that the flow may still send unasked, 0..=`first_window`.
    unasked: u32,
    first_window: u32,
    /// How far beyond `used` the flow asks at most.
    ahead: u32,
    /// The place where bytes sent against credit end; at most a segment beyond `granted`.
    used: Credit,
    /// The place up to which the flow may send.
    granted: Credit,
    /// The demand that the receiver has, if no packet was lost.
    announced: Credit,
    /// [`Backlog::refused`] at the last look.
    refused: Bytes,
    /// Wire bytes that wait to be sent, at the last look.
    waiting: u32,
    cwnd: u32,
    in_flight: bool,
    sendable: bool,
}

const VACANT: Account = Account {
    id: FlowId::UNKNOWN,
    peer: HostId(0),
    unasked: 0,
    first_window: 0,
    ahead: 0,
    used: Credit::START,
    granted: Credit::START,
    announced: Credit::START,
    refused: Bytes::ZERO,
    waiting: 0,
    cwnd: 0,
    in_flight: false,
    sendable: false,
};

/// The most bytes asked for at once: serial arithmetic compares places less than 2^31 apart.
const DISTANCE_MAX: u32 = 1 << 30;

fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.0).unwrap_or(DISTANCE_MAX).min(DISTANCE_MAX)
}

impl Account {
    /// True when the flow may send a segment, as far as credit goes.
    fn may_send(&self) -> bool {
        self.unasked > 0 || self.granted.distance_from(self.used) > 0
    }

    fn is_held(&self) -> bool {
        self.waiting > 0 && !self.may_send()
    }

    /// The place up to which the flow would send, given credit. Bytes that it will send unasked
    /// need no credit. Its window caps the demand, so that credit goes to flows that can use it.
    fn target(&self, mtu: u32) -> Credit {
        // The last segment that goes unasked may end behind the first window.
        let wanted = self.waiting.saturating_sub(self.unasked.next_multiple_of(mtu));
        self.used.plus(wanted.min(self.ahead).min(self.cwnd.saturating_add(mtu)))
    }

    /// Drops unused credit once everything is sent and acknowledged.
    fn void_unused(&mut self) {
        if self.granted.distance_from(self.used) > 0 {
            self.used = self.granted;
        }
    }
}

/// Asks for credit and lets flows send against it, in turn.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    /// Accounts by slab index.
    accounts: Vec<Account>,
    turns: RoundRobin,
    asking: Asking,
    first_window: f64,
    ahead: f64,
    mtu: u32,
    wire_sizes: WireSizes,
    /// Paths that REQUESTs take in turn.
    evs: [EntropyValue; 8],
    requests: usize,
}

impl Asker {
    pub(super) fn new(setup: &SchedSetup<'_>) -> Self {
        let params = &setup.params.credit;
        let flows = setup.tx_flows_max as usize;
        Self {
            accounts: vec![VACANT; flows],
            turns: RoundRobin::new(setup.tx_flows_max),
            asking: Asking::new(setup),
            first_window: f64::from(params.first_window),
            ahead: f64::from(params.ahead),
            mtu: narrow(setup.mtu),
            wire_sizes: setup.wire_sizes,
            evs: setup.control_evs,
            requests: 0,
        }
    }

    /// The account of a flow that is here.
    fn account(&mut self, flow: FlowId) -> Option<&mut Account> {
        self.accounts.get_mut(flow.index()).filter(|account| account.id == flow)
    }

    pub(super) fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label) {
        self.turns.on_open(flow, peer, path, label);
        let first_window = narrow(path.bdp().scaled(self.first_window));
        let ahead = narrow(path.bdp().scaled(self.ahead)).max(self.mtu);
        self.asking.open(flow);
        self.accounts[flow.index()] =
            Account { id: flow, peer, unasked: first_window, first_window, ahead, ..VACANT };
    }

    /// The receiver has a new flow, which has been given nothing.
    pub(super) fn on_reopened(&mut self, flow: FlowId) {
        let Some(account) = self.account(flow) else { return };
        account.unasked = account.first_window;
        (account.used, account.granted, account.announced) =
            (Credit::START, Credit::START, Credit::START);
        self.asking.open(flow);
    }

    pub(super) fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        let Some(account) = self.account(flow) else {
            // The flow is closed: only its turn may still be queued.
            return self.turns.set_ready(flow, false);
        };
        account.sendable = backlog.sendable > Bytes::ZERO;
        account.look_at(backlog);
        if account.waiting == 0 && !account.in_flight {
            account.void_unused();
            account.unasked = account.first_window;
        }
        self.review(flow, now);
    }

    pub(super) fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: &Backlog,
        now: Instant,
    ) {
        let (sizes, mtu) = (self.wire_sizes, self.mtu);
        let Some(account) = self.account(flow) else { return };
        let Body::Data(data) = &mut segment.hdr.body else { return };
        data.demand = Some(Credit::START);
        let len = sizes.of_data(data, segment.hdr.ext, segment.payload.len);
        if account.unasked > 0 {
            account.unasked = account.unasked.saturating_sub(u32::from(len));
        } else {
            account.used = account.used.plus(u32::from(len));
        }
        account.look_at(backlog);
        let target = account.target(mtu);
        account.announce(target);
        data.demand = Some(target);
        if !account.may_send() || self.asking.waits(flow) {
            self.review(flow, now);
        }
    }

    #[inline]
    pub(super) fn next_turn(&mut self, now: Instant, until: Instant) -> Option<Turn> {
        // One segment at a time, even of a flow that is alone, because each segment spends credit.
        self.turns.next_turn(now, until).map(|turn| Turn::of(turn.flow))
    }

    pub(super) fn holds(&self, flow: FlowId) -> bool {
        let account = self.accounts.get(flow.index());
        account.is_some_and(|account| account.id == flow && account.is_held())
    }

    /// Takes in a CREDIT. False when it is out of range.
    pub(super) fn on_credit(&mut self, flow: FlowId, upto: Credit, now: Instant) -> bool {
        let Some(account) = self.account(flow) else { return false };
        let more = upto.ahead_of(account.granted);
        if more > DISTANCE_MAX {
            return false;
        }
        if more > 0 {
            account.granted = upto;
            if account.waiting == 0 && !account.in_flight {
                account.void_unused();
            } else {
                // From the first credit on, a flow sends against credit alone.
                account.unasked = 0;
            }
        }
        self.asking.answered(flow, more > 0);
        self.review(flow, now);
        true
    }

    /// Updates the flow's turn and when it asks, by its account.
    fn review(&mut self, flow: FlowId, now: Instant) {
        let account = &self.accounts[flow.index()];
        self.turns.set_ready(flow, account.sendable && account.may_send());
        if !account.is_held() {
            return self.asking.stop(flow);
        }
        if account.announced.distance_from(account.granted) <= 0 {
            self.asking.ask(flow);
        }
        self.asking.wait(flow, now);
    }

    /// Whether a REQUEST waits to leave.
    #[inline]
    pub(super) fn has_packets(&self) -> bool {
        self.asking.has_requests()
    }

    #[inline(never)]
    pub(super) fn poll_control(&mut self, out: &mut Burst<TxSegment>) {
        while out.room() > 0 {
            let Some(flow) = self.asking.next_request() else { return };
            let mtu = self.mtu;
            let account = &mut self.accounts[flow.index()];
            if !account.is_held() {
                continue;
            }
            let upto = account.target(mtu);
            account.announce(upto);
            let body = Body::Request(Allowance { src_flow: account.id, upto });
            let ev = self.evs[self.requests % self.evs.len()];
            self.requests = self.requests.wrapping_add(1);
            let hdr = Header::new(ev, FlowId::UNKNOWN, body);
            out.push(TxSegment { hdr, payload: PayloadRef::default(), peer: account.peer });
        }
    }

    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.asking.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.asking.handle_timeout(now);
    }

    pub(super) fn next_given_up(&mut self) -> Option<FlowId> {
        self.asking.next_given_up()
    }
}

impl Account {
    /// Takes in the bytes to send and the bytes refused. Refused bytes count as announced, because
    /// the receiver counts them as missing.
    fn look_at(&mut self, backlog: &Backlog) {
        self.waiting = narrow(backlog.waiting);
        self.cwnd = narrow(backlog.cwnd);
        self.in_flight = backlog.in_flight > Bytes::ZERO;
        let refused = backlog.refused.saturating_sub(self.refused);
        if refused > Bytes::ZERO {
            self.refused = backlog.refused;
            self.announced = self.announced.plus(narrow(refused));
            self.unasked = 0;
        }
    }

    /// Notes that a packet announces the demand `target` to the receiver.
    fn announce(&mut self, target: Credit) {
        if target.distance_from(self.announced) > 0 {
            self.announced = target;
        }
    }
}
