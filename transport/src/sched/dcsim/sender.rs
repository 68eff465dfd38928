//! The sending side: how many SIMs each flow may have on their way, and which segments their
//! answers release.
//!
//! Source: \[dcsim\] sec. 2.4 (1), (4) and "DATA management". A segment of a flow is in one of four
//! states. Bound segments are counted, not named, so the first segment that waits leaves first,
//! whichever SIM it is bound to:
//!
//! ```text
//!                SIM-ACK              RTT_max behind the SIM       line free
//!   waiting ---------------> bound ------------------------> due -----------> sent, a copy is kept
//!      ^  n_DATA = waiting - bound                                                  |
//!      +------------------------- its timer, at the head ---------------------------+
//! ```
//!
//! Segments that wait may leave as copies, too, where the line has nothing else to send. They go on
//! waiting, behind segments that have not left, until they are acknowledged or have their turn.

mod due;

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::account::{Account, UNLIMITED, VACANT};
use super::copies::Copies;
use super::drain::Drain;
use super::figures::Figures;
use super::line::Line;
use super::params::{Bind, DcSimParams, HostConstants};
use super::ports::{SourcePort, SourcePorts};
use super::records::{Record, Records, Refused, State};
use super::turns::Turns;
use crate::path::Path;
use crate::rng::Rng;
use crate::sched::place_queue::PlaceQueue;
use crate::sched::{Backlog, Label};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, HostId};
use crate::wire::sim::Sim;

pub(super) use due::DueData;

/// For how many RTT_max a flow goes on at its full rate while all its SIMs are lost. Where three of
/// four SIMs are lost, a flow with one segment left loses so many SIMs in a row in one case of 100.
const SILENCE_RTTS: u64 = 16;

/// A SIM that waits for its turn on the line.
#[derive(Clone, Copy, Debug)]
struct WaitingSim {
    flow: FlowId,
    port: SourcePort,
    since: Instant,
}

/// Sends SIMs for flows, and releases their segments.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// Accounts by slab index of the flow.
    accounts: Vec<Account>,
    turns: Turns,
    ports: SourcePorts,
    rng: Rng,
    /// SIMs that wait for the line, at most B.
    sims: VecDeque<WaitingSim>,
    records: Records,
    /// DATAs that wait for the line.
    due: VecDeque<DueData>,
    /// The DATA that was handed out last, until its segment leaves.
    offered: Option<DueData>,
    /// Whether a DATA has left already of the SIM whose DATAs are at the head of `due`.
    used: bool,
    given_up: VecDeque<FlowId>,
    /// Slab indices of flows that rest, by the instant at which they wake; each at most once.
    resting: BinaryHeap<Reverse<(Instant, u32)>>,
    queue: usize,
    /// SIMs queued and on their way, and SIMs that have a port, at most: room for as many was made.
    most: usize,
    per_sim: u32,
    /// Whether flows near their end may have two SIMs for each segment.
    tail: bool,
    /// Slab indices of flows near their end that lack second SIMs; each at most once.
    tails: PlaceQueue,
    bind: Bind,
    drain: Drain,
    /// Tokens of lost SIMs are given back while fewer DATAs than this wait for the line.
    refund: usize,
    /// SIM-ACKs that have bound segments; wraps.
    acks: u32,
    copies: Copies,
    /// A flow is given up when its SIMs have had no SIM-ACK for this long.
    patience: Duration,
    /// A flow sends one SIM at a time, ever more rarely, when none was answered for this long.
    silence: Duration,
}

impl Sender {
    pub(super) fn new(
        constants: &HostConstants,
        params: &DcSimParams,
        flows: usize,
        rng: Rng,
        patience: Duration,
    ) -> Self {
        // SIMs leave a slot apart, except a bucket of them that leave at once. A host that is
        // polled late has up to half as many more.
        let slots = constants.rtt_max.as_ps() / constants.slot.as_ps().max(1);
        let most = slots + slots / 2 + u64::from(constants.bucket) + constants.queue as u64 + 1;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(usize::from(SourcePorts::COUNT));
        Self {
            accounts: vec![VACANT; flows],
            turns: Turns::new(params.order, flows),
            ports: SourcePorts::new(params, flows),
            rng,
            sims: VecDeque::with_capacity(constants.queue),
            records: Records::new(constants.delay, constants.rtt_max, most),
            due: VecDeque::with_capacity(most * constants.per_sim as usize),
            offered: None,
            used: false,
            given_up: VecDeque::with_capacity(flows),
            resting: BinaryHeap::with_capacity(flows),
            queue: constants.queue,
            most,
            per_sim: constants.per_sim,
            tail: params.tail,
            tails: PlaceQueue::new(if params.tail { flows } else { 0 }),
            bind: params.bind,
            drain: Drain::new(constants.drain),
            refund: params.refund.into(),
            acks: 0,
            copies: Copies::new(constants.unscheduled, flows),
            patience,
            silence: constants.rtt_max * SILENCE_RTTS,
        }
    }

    pub(super) fn on_open(&mut self, flow: FlowId, peer: HostId, path: &Path, label: Label) {
        let account = &mut self.accounts[flow.index()];
        let listed = account.listed;
        let (unasked, rtt_most) = (self.copies.most(), self.drain.rtt_most(path));
        *account = Account { id: flow, peer, listed, unasked, rtt_most, ..VACANT };
        self.turns.open(flow.index(), label);
        self.ports.open(flow.index());
    }

    pub(super) fn on_backlog(
        &mut self,
        flow: FlowId,
        backlog: &Backlog,
        now: Instant,
        figures: &mut Figures,
    ) {
        let void = self.offered.is_some_and(|due| due.flow == flow);
        if void {
            self.void(figures);
        }
        let account = &mut self.accounts[flow.index()];
        if account.id != flow {
            return;
        }
        if account.data() == 0 {
            // No segment waited for these probes, so their loss says nothing about the peer.
            account.end_silence();
        }
        let before = account.waiting;
        account.waiting = u32::try_from(backlog.segments).unwrap_or(u32::MAX);
        account.sendable = backlog.sendable > Bytes::ZERO;
        account.delayed = backlog.rtt > account.rtt_most;
        if void && account.waiting > 0 {
            // Messages or segments wait until earlier ones are acknowledged, and their SIMs wait
            // with them.
            account.sendable = false;
            account.limit = 1;
        }
        if self.copies.most() > 0 {
            self.copies.on_backlog(account, before, backlog, now);
        }
        self.enqueue(flow.index());
    }

    /// The account of `flow`; `None` when another flow has its place.
    fn account(&mut self, flow: FlowId) -> Option<&mut Account> {
        self.accounts.get_mut(flow.index()).filter(|account| account.id == flow)
    }

    /// Puts a flow in its queue if it needs SIMs.
    fn review(&mut self, flow: FlowId) {
        if self.account(flow).is_some() {
            self.enqueue(flow.index());
        }
    }

    /// Puts the flow at `index` in the queue for its turns, or in that of flows near their end.
    #[inline]
    fn enqueue(&mut self, index: usize) {
        let account = &self.accounts[index];
        let lacking = account.lacking(self.per_sim);
        if lacking > 0 {
            self.turns.push(index, lacking);
        } else if self.tail && account.lacking_at_tail(self.per_sim) > 0 {
            self.tails.push(index);
        }
    }

    /// The flow that gets the next SIM: the one whose turn it is, else one near its end, and
    /// whether it is the latter. A second SIM takes a path of its own, so that both are not lost
    /// together.
    #[inline]
    fn next_flow(&mut self) -> Option<(usize, bool)> {
        // Bounded: each turn that is passed over takes a flow out.
        while let Some(index) = self.turns.pop() {
            if self.accounts[index].lacking(self.per_sim) > 0 {
                return Some((index, false));
            }
        }
        while let Some(index) = self.tails.pop() {
            if self.accounts[index].lacking_at_tail(self.per_sim) > 0 {
                return Some((index, true));
            }
        }
        None
    }

    /// Queues SIMs, as waiting since `since`, as long as there is room and a flow lacks some.
    //= dcsim#2.4: whenever the SIM queue is below B and equation 3 lets it.
    pub(super) fn fill(&mut self, since: Instant) {
        while self.sims.len() < self.queue && self.has_room() {
            let Some((index, at_tail)) = self.next_flow() else { return };
            let in_group = (!at_tail).then(|| self.turns.group_flows(index));
            let Some(port) = self.ports.next(index, in_group, &mut self.rng) else {
                return self.enqueue(index);
            };
            let account = &mut self.accounts[index];
            account.sims += 1;
            self.sims.push_back(WaitingSim { flow: account.id, port, since });
            self.enqueue(index);
        }
    }

    /// Frees a port on which a SIM of `flow` was answered in time.
    #[inline]
    fn free_good(&mut self, flow: FlowId, port: SourcePort) {
        self.ports.free(port);
        if self.account(flow).is_some() {
            self.ports.keep(flow.index(), port);
        }
    }

    /// Whether there is room for one more SIM, and for its DATA in case DATAs wait because the line
    /// takes none.
    fn has_room(&self) -> bool {
        let held = usize::from(self.ports.held());
        held.max(self.records.len() + self.sims.len()) < self.most
    }

    /// Removes SIMs from the front of the queue whose flows do not need them any more, because the
    /// segments have been acknowledged meanwhile.
    fn drop_needless(&mut self) {
        while let Some(&WaitingSim { flow, port, .. }) = self.sims.front() {
            let (per_sim, tail) = (self.per_sim, self.tail);
            let account = self.account(flow);
            let needless = account.is_none_or(|account| {
                let needless = account.has_needless(per_sim, tail);
                account.sims -= u32::from(needless);
                needless
            });
            if !needless {
                return;
            }
            self.ports.free(port);
            self.sims.pop_front();
        }
    }

    /// The instant since which the next SIM has waited for the line; `None` when none waits.
    #[inline]
    pub(super) fn sim_since(&self) -> Option<Instant> {
        self.sims.front().map(|queued| queued.since)
    }

    /// The SIM that leaves at `now`, after its destination and its port.
    pub(super) fn next_sim(&mut self, now: Instant) -> Option<(HostId, EntropyValue, Sim)> {
        self.drop_needless();
        let WaitingSim { flow, port, .. } = self.sims.pop_front()?;
        let peer = self.account(flow)?.peer;
        let nonce = self.rng.next_u32();
        let number = self.records.next_number();
        let (sent_at, order, bound, state) = (now, 0, 0, State::Open);
        self.records.push(Record { sent_at, flow, nonce, order, port, bound, state });
        Some((peer, port.ev, Sim { number, nonce, src_flow: flow }))
    }

    /// Takes in a SIM-ACK of `from`. False when it answers no SIM of this host.
    pub(super) fn on_sim_ack(
        &mut self,
        from: HostId,
        ev: EntropyValue,
        ack: &Sim,
        now: Instant,
        figures: &mut Figures,
    ) -> bool {
        let peer = self.accounts.get(ack.src_flow.index()).map(|account| account.peer);
        let answered = if peer == Some(from) {
            self.records.answer(ack, ev, now)
        } else {
            Err(Refused::Forged)
        };
        let (record, ripe) = match answered {
            Ok(found) => found,
            Err(Refused::Late) => {
                // No progress, and not compared with what was sent: it does not end a silence.
                figures.sims.late += 1;
                if let Some(account) = self.account(ack.src_flow) {
                    account.late = true;
                }
                self.unrest(ack.src_flow);
                return true;
            }
            Err(Refused::Forged) => {
                figures.sims.forged += 1;
                return false;
            }
        };
        figures.sims.acked += 1;
        figures.sim_rtt.note(now.since(record.sent_at));
        let flow = record.flow;
        let most = self.most;
        let account = self.accounts.get_mut(flow.index()).filter(|account| account.id == flow);
        let (bound, unused) = account.map_or((0, false), |account| {
            account.sims -= 1;
            account.answered(most);
            let unused = self.drain.leaves_unused(account, &mut self.rng);
            let bound = if unused { 0 } else { account.data().min(self.per_sim) };
            account.bound += bound;
            (bound, unused)
        });
        figures.sims.unused += u64::from(unused);
        figures.sims.wasted += u64::from(bound == 0 && !unused);
        record.bound = u8::try_from(bound).unwrap_or(u8::MAX);
        record.order = self.acks;
        self.acks = self.acks.wrapping_add(u32::from(bound > 0));
        let record = *record;
        if bound == 0 {
            self.free_good(flow, record.port);
        } else if ripe {
            self.release(&record, now.max(self.records.due(&record)));
        }
        // The SIM-ACK may have bound fewer segments than its SIM stands for: the flow may need
        // others.
        self.review(flow);
        true
    }

    /// Queues the DATAs of a record, which may leave from `at` on.
    fn release(&mut self, record: &Record, at: Instant) {
        let Record { flow, port, bound, order, .. } = *record;
        for left in (0..bound).rev() {
            let last = left == 0;
            self.due.push_back(DueData { flow, port, at, last, bound: order, nth: None });
        }
    }

    /// Releases the DATAs that are due by `now`, or soon after it where they are handed over ahead.
    pub(super) fn release_ripe(&mut self, now: Instant) {
        while let Some((record, due)) = self.records.next_ripe(now) {
            self.release(&record, due);
        }
    }

    /// Releases the DATAs and gives up the SIMs that are due by `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant, line: &mut Line, figures: &mut Figures) {
        self.wake(now);
        loop {
            self.release_ripe(now);
            let Some(record) = self.records.next_over(now) else { return };
            if record.state == State::Open {
                figures.sims.timed_out += 1;
                self.ports.free(record.port);
                if self.due.len() < self.refund {
                    line.give_back(now);
                }
                self.on_lost(record.flow, record.port, now);
                self.review(record.flow);
            }
        }
    }

    /// Takes in that a SIM of a flow was given up at `now`.
    fn on_lost(&mut self, flow: FlowId, port: SourcePort, now: Instant) {
        let (patience, silence) = (self.patience, self.silence);
        let account = self.accounts.get_mut(flow.index()).filter(|account| account.id == flow);
        let Some(account) = account else { return };
        self.ports.leave(flow.index(), port);
        account.sims -= 1;
        if account.limit != UNLIMITED {
            account.limit = account.limit.saturating_sub(1).max(1);
        }
        let silent = now.since(*account.silent_since.get_or_insert(now));
        if silent >= patience && account.sendable {
            // Reported once: the endpoint updates the flow's backlog next.
            account.sendable = false;
            self.given_up.push_back(flow);
        } else if silent >= silence {
            // A peer that answers late is there: one SIM at a time may find paths that are less
            // full.
            let goes_on = account.sims > 0 || account.late;
            account.limit = u32::from(goes_on);
            if !goes_on && !account.listed {
                account.listed = true;
                // SIMs to a silent peer come at instants that are a quarter further apart each.
                let index = u32::try_from(flow.index()).unwrap_or(u32::MAX);
                let rest = (silent / 4).min(patience - silent);
                self.resting.push(Reverse((now + rest, index)));
            }
        }
    }

    /// Lets flows that have rested until `now` send one SIM.
    fn wake(&mut self, now: Instant) {
        // Bounded: each round takes out a flow.
        while let Some(&Reverse((at, index))) = self.resting.peek() {
            if at > now {
                return;
            }
            self.resting.pop();
            let account = &mut self.accounts[index as usize];
            account.listed = false;
            let flow = account.id;
            self.unrest(flow);
        }
    }

    /// Lets a flow send one SIM if it rests: it has rested long enough, or an answer came.
    fn unrest(&mut self, flow: FlowId) {
        if let Some(account) = self.account(flow)
            && account.limit == 0
        {
            account.limit = 1;
            self.review(flow);
        }
    }

    /// The next flow that is given up since its peer does not answer.
    pub(super) fn next_given_up(&mut self) -> Option<FlowId> {
        self.given_up.pop_front()
    }

    /// Whether a flow does not send because it lacks a SIM-ACK.
    pub(super) fn holds(&self, flow: FlowId) -> bool {
        let account = self.accounts.get(flow.index());
        account.is_some_and(|account| account.id == flow && account.waiting > 0 && account.sendable)
    }

    /// The time by which DATAs are released before they may leave.
    pub(super) fn send_ahead(&mut self, ahead: Duration) {
        self.records.ahead = ahead;
    }

    /// The next instant at which a DATA may leave, a SIM is given up or a flow has rested.
    #[inline]
    pub(super) fn poll_at(&self) -> Instant {
        let at = self.records.poll_at();
        self.resting.peek().map_or(at, |Reverse((wakes, _))| at.min(*wakes))
    }

    /// SIMs on their way. Walks all records.
    pub(super) fn sims_open(&self) -> u64 {
        self.records.open().count() as u64
    }

    /// Checks the invariants that hold between any two calls.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut open = vec![0; self.accounts.len()];
        for record in self.records.open() {
            open[record.flow.index()] +=
                u32::from(self.accounts[record.flow.index()].id == record.flow);
        }
        for queued in &self.sims {
            open[queued.flow.index()] +=
                u32::from(self.accounts[queued.flow.index()].id == queued.flow);
        }
        for (account, open) in self.accounts.iter().zip(open) {
            assert_eq!(account.sims, open, "{account:?}");
        }
        assert!(self.sims.len() <= self.queue);
    }

    /// n_SIM and n_DATA of a flow.
    #[cfg(test)]
    pub(super) fn counts(&self, flow: FlowId) -> (u32, u32) {
        let account = &self.accounts[flow.index()];
        (account.sims, account.data())
    }

    /// Room that was made for SIMs on their way and for DATAs that wait for the line.
    #[cfg(test)]
    pub(super) fn rooms(&self) -> [usize; 3] {
        [self.records.capacity(), self.due.capacity(), self.resting.capacity()]
    }

    /// SIMs that have a port, and ports in use.
    #[cfg(test)]
    pub(super) fn ports_in_use(&self) -> (u16, u16) {
        (self.ports.held(), self.ports.in_use())
    }
}
