//! The sending side: the tokens of each flow, and which flow uses the next one.

use alloc::vec;
use alloc::vec::Vec;

use super::{AHEAD_MAX, TokenReport};
use crate::rng::Rng;
use crate::sched::asking::Asking;
use crate::sched::least::Least;
use crate::sched::{Backlog, Label, SchedSetup, Turn};
use crate::segment::{Burst, PayloadRef, TxSegment};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, Credit, EntropyValue, FlowId, HostId};
use crate::wire::{Allowance, Body, Header};

/// Tokens that came at one instant, and earlier ones that die with them.
#[derive(Clone, Copy, Debug)]
struct Batch {
    last: Credit,
    dies_at: Instant,
}

/// Batches of a flow that are kept apart. One token comes in a packet time, and tokens live for a
/// few packet times, so more batches than this are a burst. A batch too many joins the one before
/// it and dies with that one.
const BATCHES: usize = 12;

/// One outgoing flow.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// The flow; [`FlowId::UNKNOWN`] when none.
    id: FlowId,
    peer: HostId,
    /// Segments that the flow may still send without a token.
    free: u32,
    free_until: Instant,
    /// Whether the flow has had nothing to send and nothing in flight since `free` was given.
    idle: bool,
    /// The last token received.
    granted: Credit,
    /// The last token that is used or dead; at most `granted`.
    spent: Credit,
    /// Tokens behind `spent`, oldest first.
    batches: [Batch; BATCHES],
    held: u8,
    /// Segments that wait to be sent.
    waiting: u32,
    /// Segments that the flow's own window has room for, and one more, of messages that may begin:
    /// tokens for others would die.
    most: u32,
    sendable: bool,
    /// The needs that have been reported to the receiver, if no packet was lost.
    announced: u32,
    /// The priority of its label; lower is more urgent.
    prio: u32,
    /// Decides between flows of one priority with as many segments left.
    tie: u32,
}

const VACANT: Account = Account {
    id: FlowId::UNKNOWN,
    peer: HostId(0),
    free: 0,
    free_until: Instant::ZERO,
    idle: true,
    granted: Credit::START,
    spent: Credit::START,
    batches: [Batch { last: Credit::START, dies_at: Instant::ZERO }; BATCHES],
    held: 0,
    waiting: 0,
    most: 0,
    sendable: false,
    announced: 0,
    prio: 0,
    tie: 0,
};

impl Account {
    /// Drops what has died by `now`.
    fn expire(&mut self, now: Instant) {
        if self.free > 0 && self.free_until <= now {
            self.free = 0;
        }
        let held = usize::from(self.held);
        let dead = self.batches[..held].iter().take_while(|batch| batch.dies_at <= now).count();
        if dead > 0 {
            let last = self.batches[dead - 1].last;
            if last.distance_from(self.spent) > 0 {
                self.spent = last;
            }
            self.drop_batches(dead);
        }
    }

    fn drop_batches(&mut self, count: usize) {
        let held = usize::from(self.held);
        self.batches.copy_within(count..held, 0);
        self.held = u8::try_from(held - count).unwrap_or(0);
    }

    fn tokens(&self) -> u32 {
        self.granted.ahead_of(self.spent)
    }

    fn may_send(&self) -> bool {
        self.free > 0 || self.tokens() > 0
    }

    /// Segments that need a token.
    fn needs(&self) -> u32 {
        self.waiting.saturating_sub(self.free).min(self.most)
    }

    fn look_at(&mut self, backlog: &Backlog) {
        self.waiting = u32::try_from(backlog.segments).unwrap_or(u32::MAX);
        self.sendable = backlog.sendable > Bytes::ZERO;
        let of_a_segment = backlog.waiting.0 / backlog.segments.max(1);
        let windows = backlog.cwnd.0 / of_a_segment.max(1) + 1;
        let most = windows.min(backlog.segments - backlog.blocked);
        self.most = u32::try_from(most).unwrap_or(u32::MAX);
    }

    fn receive(&mut self, upto: Credit, dies_at: Instant) {
        self.granted = upto;
        let held = usize::from(self.held);
        if held == BATCHES {
            self.batches[held - 1].last = upto;
        } else {
            self.batches[held] = Batch { last: upto, dies_at };
            self.held += 1;
        }
    }

    /// Uses up a free segment or a token.
    fn spend(&mut self) {
        if self.free > 0 {
            self.free -= 1;
        } else if self.tokens() > 0 {
            self.spent = self.spent.plus(1);
            if self.batches[0].last.distance_from(self.spent) <= 0 {
                self.drop_batches(1);
            }
        }
    }

    fn report(&mut self) -> Credit {
        self.announced = self.needs();
        TokenReport::new(self.spent, self.needs()).to_field()
    }
}

/// The segments that a flow may send without a token when it begins, or begins again after it was
/// idle: tokens that it gives itself, which die as tokens do.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched) enum Unrequested {
    /// At most this number of segments of every flow.
    //= phost#3
    AtMost(u32),
    /// All segments of a flow that has at most this number, none of a longer flow.
    //= dcpim#3
    Short(u32),
}

impl Unrequested {
    fn of(self, waiting: u32) -> u32 {
        match self {
            Self::AtMost(most) => waiting.min(most),
            Self::Short(most) if waiting <= most => waiting,
            Self::Short(_) => 0,
        }
    }
}

/// Lets flows use their tokens: the most urgent flow first, and among flows of one priority the one
/// with the least left.
#[derive(Clone, Debug)]
pub(in crate::sched) struct Spender {
    /// Accounts by slab index.
    accounts: Vec<Account>,
    /// Flows that may send, by priority and what they have left.
    ready: Least,
    asking: Asking,
    first: Unrequested,
    /// How long a token lives.
    life: Duration,
    packet_time: Duration,
    /// Paths that REQUESTs take in turn.
    evs: [EntropyValue; 8],
    requests: usize,
    rng: Rng,
}

impl Spender {
    /// A spender without flows. A flow begins with segments as `first` says; a token lives for
    /// `life`.
    pub(in crate::sched) fn new(
        setup: &SchedSetup<'_>,
        first: Unrequested,
        life: Duration,
    ) -> Self {
        let flows = setup.tx_flows_max as usize;
        Self {
            accounts: vec![VACANT; flows],
            ready: Least::new(flows),
            asking: Asking::new(setup),
            first,
            life,
            packet_time: setup.line_rate.time_for(setup.mtu),
            evs: setup.control_evs,
            requests: 0,
            rng: setup.rng.fork("tokens.spender", setup.host.0.into()),
        }
    }

    /// The account of a flow that is here.
    fn account(&mut self, flow: FlowId) -> Option<&mut Account> {
        self.accounts.get_mut(flow.index()).filter(|account| account.id == flow)
    }

    pub(in crate::sched) fn on_open(&mut self, flow: FlowId, peer: HostId, label: Label) {
        let (prio, tie) = (label.prio, self.rng.next_u32());
        self.accounts[flow.index()] = Account { id: flow, peer, prio, tie, ..VACANT };
        self.ready.remove(flow.index());
        self.asking.open(flow);
    }

    /// The receiver has a new flow, which has been given nothing.
    pub(in crate::sched) fn on_reopened(&mut self, flow: FlowId) {
        let Some(account) = self.account(flow) else { return };
        let Account { peer, waiting, most, sendable, prio, tie, .. } = *account;
        *account = Account { id: flow, peer, waiting, most, sendable, prio, tie, ..VACANT };
        self.asking.open(flow);
    }

    pub(in crate::sched) fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, now: Instant) {
        let (first, life, packet_time) = (self.first, self.life, self.packet_time);
        let Some(account) = self.account(flow) else {
            return self.ready.remove(flow.index());
        };
        account.look_at(backlog);
        if account.waiting == 0 && backlog.in_flight == Bytes::ZERO {
            account.idle = true;
        } else if account.waiting > 0 && account.idle {
            account.idle = false;
            account.free = first.of(account.waiting);
            account.free_until = now + packet_time * u64::from(account.free) + life;
        }
        self.review(flow, now);
    }

    /// A segment of the flow leaves: it takes a token, and its header the report.
    pub(in crate::sched) fn on_sent(
        &mut self,
        flow: FlowId,
        segment: &mut TxSegment,
        backlog: &Backlog,
        now: Instant,
    ) {
        let Some(account) = self.account(flow) else { return };
        let Body::Data(data) = &mut segment.hdr.body else { return };
        account.spend();
        account.look_at(backlog);
        data.demand = Some(account.report());
        self.review(flow, now);
    }

    /// The flow with the least left that may send.
    pub(in crate::sched) fn next_turn(&mut self, now: Instant) -> Option<Turn> {
        // Bounded: each round takes a flow out.
        loop {
            let index = self.ready.first()?;
            let account = &mut self.accounts[index];
            account.expire(now);
            let flow = account.id;
            if account.may_send() {
                return Some(Turn::of(flow));
            }
            self.review(flow, now);
        }
    }

    /// Whether a flow is here that goes to `peer`.
    pub(in crate::sched) fn has(&self, flow: FlowId, peer: HostId) -> bool {
        let account = self.accounts.get(flow.index());
        account.is_some_and(|account| account.id == flow && account.peer == peer)
    }

    /// Whether a flow has nothing to send and nothing in flight, or is not here.
    pub(in crate::sched) fn is_idle(&self, flow: FlowId) -> bool {
        let account = self.accounts.get(flow.index()).filter(|account| account.id == flow);
        account.is_none_or(|account| account.idle)
    }

    pub(in crate::sched) fn holds(&self, flow: FlowId) -> bool {
        let account = self.accounts.get(flow.index()).filter(|account| account.id == flow);
        account.is_some_and(|account| account.waiting > 0 && !account.may_send())
    }

    /// Takes in a CREDIT. False when it is out of range.
    pub(in crate::sched) fn on_credit(&mut self, flow: FlowId, upto: Credit, now: Instant) -> bool {
        let dies_at = now + self.life;
        let Some(account) = self.account(flow) else { return false };
        let more = upto.ahead_of(account.granted);
        if more > AHEAD_MAX {
            return false;
        }
        account.expire(now);
        if more > 0 {
            account.receive(upto, dies_at);
        }
        let unwanted = more > 0 && account.waiting == 0 && account.announced > 0 && !account.idle;
        self.asking.answered(flow, more > 0);
        if unwanted {
            // The receiver gives tokens for segments that arrived another way.
            self.asking.ask(flow);
        }
        self.review(flow, now);
        true
    }

    /// Updates the flow's turn and its questions.
    fn review(&mut self, flow: FlowId, now: Instant) {
        let index = flow.index();
        let account = &mut self.accounts[index];
        account.expire(now);
        if account.sendable && account.may_send() {
            let rank = u64::from(account.waiting) << 32 | u64::from(account.tie);
            self.ready.set(index, (account.prio, rank));
        } else {
            self.ready.remove(index);
        }
        let unannounced = account.needs() > 0 && account.announced == 0;
        if unannounced {
            self.asking.ask(flow);
        }
        let account = &self.accounts[index];
        if account.needs() > 0 && !account.may_send() {
            self.asking.wait(flow, now);
        } else {
            self.asking.stop(flow);
        }
    }

    pub(in crate::sched) fn poll_control(&mut self, out: &mut Burst<TxSegment>) {
        while out.room() > 0 {
            let Some(flow) = self.asking.next_request() else { return };
            let account = &mut self.accounts[flow.index()];
            // A flow with nothing to send and nothing in flight may be over, and has no name then.
            if account.idle || (account.needs() == 0 && account.announced == 0) {
                continue;
            }
            let (peer, report) = (account.peer, account.report());
            let ev = self.evs[self.requests % self.evs.len()];
            self.requests = self.requests.wrapping_add(1);
            let body = Body::Request(Allowance { src_flow: flow, upto: report });
            let hdr = Header::new(ev, FlowId::UNKNOWN, body);
            out.push(TxSegment { hdr, payload: PayloadRef::default(), peer });
        }
    }

    pub(in crate::sched) fn poll_timeout(&self) -> Option<Instant> {
        self.asking.poll_timeout()
    }

    pub(in crate::sched) fn handle_timeout(&mut self, now: Instant) {
        self.asking.handle_timeout(now);
    }

    pub(in crate::sched) fn next_given_up(&mut self) -> Option<FlowId> {
        self.asking.next_given_up()
    }
}
