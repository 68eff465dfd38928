//! The sending half: the bytes that each flow has sent unasked and against credit, and when it asks
//! for more.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::path::Path;
use crate::sched::{Backlog, Label, RoundRobin, SchedSetup, Sending as _, Turn};
use crate::segment::{Burst, PayloadRef, TxSegment};
use crate::time::{Duration, Instant};
use crate::timer::{TimerHandle, Wheel};
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
    /// When the flow asks again, while it waits for credit.
    ask_at: Option<Instant>,
    /// The timer set for it, no later than `ask_at`.
    timer: Option<(Instant, TimerHandle)>,
    /// Whether a REQUEST waits to leave.
    in_outbox: bool,
    /// Requests in a row; the back-off follows from them.
    asked: u8,
    /// How many of the last requests had no answer of any kind.
    unanswered: u8,
    /// When the first unanswered request was counted; means nothing while `unanswered` is 0.
    silent_since: Instant,
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
    ask_at: None,
    timer: None,
    in_outbox: false,
    asked: 0,
    unanswered: 0,
    silent_since: Instant::ZERO,
};

/// Most bytes asked for at once, because serial arithmetic compares places less than 2^31 apart.
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
    timers: Wheel<FlowId>,
    outbox: VecDeque<FlowId>,
    given_up: VecDeque<FlowId>,
    first_window: f64,
    ahead: f64,
    mtu: u32,
    wire_sizes: WireSizes,
    rto: Duration,
    backoff_max: u8,
    retries_max: u8,
    give_up: Duration,
    /// Paths that REQUESTs take in turn.
    evs: [EntropyValue; 8],
    requests: usize,
}

/// Resolution of the timers: far below any timeout.
const TIMER_TICK: Duration = Duration::from_ps(1 << 18);

impl Asker {
    pub(super) fn new(setup: &SchedSetup<'_>) -> Self {
        let params = &setup.params.credit;
        let flows = setup.tx_flows_max as usize;
        Self {
            accounts: vec![VACANT; flows],
            turns: RoundRobin::new(setup.tx_flows_max),
            timers: Wheel::new(TIMER_TICK, flows),
            outbox: VecDeque::with_capacity(flows + 1),
            given_up: VecDeque::with_capacity(flows + 1),
            first_window: f64::from(params.first_window),
            ahead: f64::from(params.ahead),
            mtu: narrow(setup.mtu),
            wire_sizes: setup.wire_sizes,
            rto: setup.rto,
            backoff_max: setup.backoff_max,
            retries_max: setup.retries_max,
            give_up: setup.give_up,
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
        let account = &mut self.accounts[flow.index()];
        // Timer and place in the outbox go by slab index: they serve the next flow there too.
        let Account { timer, in_outbox, .. } = *account;
        *account = Account {
            id: flow,
            peer,
            unasked: first_window,
            first_window,
            ahead,
            timer,
            in_outbox,
            ..VACANT
        };
    }

    /// The receiver has a new flow, which has been given nothing.
    pub(super) fn on_reopened(&mut self, flow: FlowId) {
        let Some(account) = self.account(flow) else { return };
        account.unasked = account.first_window;
        (account.used, account.granted, account.announced) =
            (Credit::START, Credit::START, Credit::START);
        (account.asked, account.unanswered, account.ask_at) = (0, 0, None);
    }

    pub(super) fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        let Some(account) = self.account(flow) else {
            // Closed: only its turn may be left of it.
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
        if account.ask_at.is_some() || !account.may_send() {
            self.review(flow, now);
        }
    }

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
        account.unanswered = 0;
        if more > 0 {
            account.granted = upto;
            account.asked = 0;
            account.ask_at = None;
            if account.waiting == 0 && !account.in_flight {
                account.void_unused();
            } else {
                // From the first credit on, a flow sends against credit alone.
                account.unasked = 0;
            }
        }
        self.review(flow, now);
        true
    }

    /// Updates the flow's turn and its timer for requests by its account.
    fn review(&mut self, flow: FlowId, now: Instant) {
        let (rto, backoff_max) = (self.rto, self.backoff_max);
        let account = &mut self.accounts[flow.index()];
        self.turns.set_ready(flow, account.sendable && account.may_send());
        if !account.is_held() {
            account.ask_at = None;
            return;
        }
        let unannounced = account.announced.distance_from(account.granted) <= 0;
        if account.ask_at.is_none() {
            account.ask_at = Some(now + rto * (1 << account.asked.min(backoff_max)));
        }
        if unannounced && !account.in_outbox {
            account.in_outbox = true;
            self.outbox.push_back(flow);
        }
        self.set_timer(flow);
    }

    fn set_timer(&mut self, flow: FlowId) {
        let account = &mut self.accounts[flow.index()];
        let Some(at) = account.ask_at else { return };
        // An early timer is cheaper than a moved one: when it fires, the flow looks again.
        if let Some((set_for, handle)) = account.timer {
            if set_for <= at {
                return;
            }
            self.timers.cancel(handle);
        }
        account.timer = Some((at, self.timers.insert(at, flow)));
    }

    pub(super) fn poll_control(&mut self, out: &mut Burst<TxSegment>) {
        while out.room() > 0 {
            let Some(flow) = self.outbox.pop_front() else { return };
            let mtu = self.mtu;
            let account = &mut self.accounts[flow.index()];
            account.in_outbox = false;
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

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.poll_at()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, flow)) = self.timers.expire(now) {
            let account = &mut self.accounts[flow.index()];
            account.timer = None;
            let flow = account.id;
            if account.is_held() && account.ask_at.is_some_and(|at| at <= now) {
                self.ask_again(flow, now);
            }
            self.set_timer(flow);
        }
    }

    /// Asks again for a flow that has waited for a timeout.
    fn ask_again(&mut self, flow: FlowId, now: Instant) {
        let (rto, backoff_max, retries_max) = (self.rto, self.backoff_max, self.retries_max);
        let account = &mut self.accounts[flow.index()];
        if account.unanswered == 0 {
            account.silent_since = now;
        }
        let silence = now.since(account.silent_since);
        if account.unanswered >= retries_max && silence >= self.give_up {
            account.ask_at = None;
            self.given_up.push_back(flow);
            return;
        }
        account.unanswered = account.unanswered.saturating_add(1);
        account.asked = account.asked.saturating_add(1);
        account.ask_at = Some(now + rto * (1 << account.asked.min(backoff_max)));
        if !account.in_outbox {
            account.in_outbox = true;
            self.outbox.push_back(flow);
        }
    }

    pub(super) fn next_given_up(&mut self) -> Option<FlowId> {
        self.given_up.pop_front()
    }
}

impl Account {
    /// Takes in the bytes to send and the bytes refused. Refused bytes count as announced, because
    /// the receiver knows that they are missing.
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
