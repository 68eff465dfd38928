//! The sending half: how many SIMs each flow may have on their way, and which segments their
//! answers release.
//!
//! Source: \[dcsim\] sec. 2.4 (1), (4) and "DATA management". A segment of a flow is in one of four
//! states. Bound segments are counted and not named, so the first segment that waits leaves first,
//! for whichever SIM:
//!
//! ```text
//!                SIM-ACK              RTT_max behind the SIM       line free
//!   waiting ---------------> bound ------------------------> due -----------> sent, a copy is kept
//!      ^  n_DATA = waiting - bound                                                  |
//!      +------------------------- its timer, at the head ---------------------------+
//! ```

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::figures::Figures;
use super::line::Line;
use super::params::{Order, Terms};
use super::ports::Ports;
use super::records::{Record, Records, Refused, State};
use super::turns::Turns;
use crate::rng::Rng;
use crate::sched::{Backlog, Label};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, HostId};
use crate::wire::sim::Sim;

/// For how many RTT_max a flow goes on at its full rate while all its SIMs are lost. Where three of
/// four are lost, a flow with one segment left has this much bad luck once in 100 times.
const SILENCE_RTTS: u64 = 16;

/// A flow that has been silent may have so many more SIMs on their way for each one answered in
/// time, and one less for each one lost: more and more, as long as one of four is answered.
const GROWTH: u32 = 3;

/// A flow with at most so many segments that have no SIM-ACK is near its end.
const TAIL: u32 = 8;

/// The limit of a flow that only equation 3 limits.
const UNLIMITED: u32 = u32::MAX;

/// One outgoing flow.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// The flow that has this account; [`FlowId::UNKNOWN`] when none has.
    id: FlowId,
    peer: HostId,
    /// SIMs queued or sent that are neither answered nor given up: n_SIM.
    sims: u32,
    /// Segments that a SIM-ACK has released and that have not left.
    bound: u32,
    /// Segments that have not left, or must leave again, the bound ones included.
    waiting: u32,
    /// The flow's window lets it send.
    sendable: bool,
    /// When the first SIM since the last SIM-ACK was given up.
    silent_since: Option<Instant>,
    /// SIMs that may be on their way beside equation 3: 0 while the flow rests, and few after no
    /// SIM was answered in time for long. Then either the peer is gone or the SIMs of all flows
    /// together are more than the path takes.
    limit: u32,
    /// The place of this account in the slab is in `resting`.
    listed: bool,
    /// The place of this account in the slab is in `tails`.
    tailed: bool,
    /// SIM-ACKs have come since `silent_since`, all too late.
    late: bool,
}

const VACANT: Account = Account {
    id: FlowId::UNKNOWN,
    peer: HostId(0),
    sims: 0,
    bound: 0,
    waiting: 0,
    sendable: false,
    silent_since: None,
    limit: UNLIMITED,
    listed: false,
    tailed: false,
    late: false,
};

impl Account {
    /// Segments that no SIM-ACK has released: n_DATA.
    #[inline]
    fn data(&self) -> u32 {
        self.waiting.saturating_sub(self.bound)
    }

    /// Segments that have no SIM, where each SIM stands for `per_sim`.
    //= dcsim#eq3: n_SIM <= n_DATA.
    #[inline]
    fn lacking(&self, per_sim: u32) -> u32 {
        let most = if self.sendable { self.data().div_ceil(per_sim) } else { 0 };
        most.min(self.limit).saturating_sub(self.sims)
    }

    /// SIMs that a flow near its end lacks to two for each of its last segments.
    fn lacking_at_tail(&self, per_sim: u32) -> u32 {
        let near = self.sendable && self.limit == UNLIMITED && self.data() <= TAIL;
        let most = if near { 2 * self.data().div_ceil(per_sim) } else { 0 };
        most.saturating_sub(self.sims)
    }

    /// Whether a flow has more SIMs than its segments may have.
    fn has_needless(&self, per_sim: u32, tail: bool) -> bool {
        let twice = tail && self.data() <= TAIL;
        self.sims > self.data().div_ceil(per_sim) * if twice { 2 } else { 1 }
    }

    /// Takes in that the peer answers, or that nothing waits for its answers.
    fn end_silence(&mut self) {
        self.silent_since = None;
        self.late = false;
    }

    /// Takes in that a SIM was answered in time; with `most` SIMs on their way a flow has the line
    /// to itself.
    fn answered(&mut self, most: usize) {
        self.end_silence();
        if self.limit != UNLIMITED {
            self.limit += GROWTH;
            if self.limit as usize >= most {
                self.limit = UNLIMITED;
            }
        }
    }
}

/// A DATA that may leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) flow: FlowId,
    pub(super) ev: EntropyValue,
    /// The instant from which on it may leave.
    pub(super) at: Instant,
    /// Whether this is the last DATA of its SIM: once it has left, the port is free.
    last: bool,
}

/// A SIM that waits for its turn on the line.
#[derive(Clone, Copy, Debug)]
struct Queued {
    flow: FlowId,
    ev: EntropyValue,
    since: Instant,
}

/// Sends SIMs for flows, and releases their segments.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// Accounts by slab index of the flow.
    accounts: Vec<Account>,
    turns: Turns,
    ports: Ports,
    rng: Rng,
    /// SIMs that wait for the line, at most B.
    sims: VecDeque<Queued>,
    records: Records,
    /// DATAs that wait for the line.
    due: VecDeque<Due>,
    /// The DATA that was handed out last, until its segment leaves.
    offered: Option<Due>,
    given_up: VecDeque<FlowId>,
    /// Slab indices of flows that rest, by the instant at which they wake; each at most once.
    resting: BinaryHeap<Reverse<(Instant, u32)>>,
    queue: usize,
    /// SIMs queued and on their way, and ports in use, at most: room for as many was made.
    most: usize,
    per_sim: u32,
    /// Whether flows near their end may have two SIMs for each segment.
    tail: bool,
    /// Slab indices of flows near their end that lack second SIMs; each at most once.
    tails: VecDeque<u32>,
    /// A flow is given up when its SIMs have had no SIM-ACK for this long.
    patience: Duration,
    /// A flow sends one SIM at a time, ever more rarely, when none was answered for this long.
    silence: Duration,
}

impl Sender {
    pub(super) fn new(
        terms: &Terms,
        (order, tail): (Order, bool),
        flows: usize,
        rng: Rng,
        patience: Duration,
    ) -> Self {
        // SIMs leave a slot apart, except a bucket of them that leave at once. A host that is
        // polled late has up to half as many more.
        let slots = terms.rtt_max.as_ps() / terms.slot.as_ps().max(1);
        let most = slots + slots / 2 + u64::from(terms.bucket) + terms.queue as u64 + 1;
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(usize::from(Ports::COUNT));
        Self {
            accounts: vec![VACANT; flows],
            turns: Turns::new(order, flows),
            ports: Ports::new(),
            rng,
            sims: VecDeque::with_capacity(terms.queue),
            records: Records::new(terms.delay, terms.rtt_max, most),
            due: VecDeque::with_capacity(most * terms.per_sim as usize),
            offered: None,
            given_up: VecDeque::with_capacity(flows),
            resting: BinaryHeap::with_capacity(flows),
            queue: terms.queue,
            most,
            per_sim: terms.per_sim,
            tail,
            tails: VecDeque::with_capacity(if tail { flows } else { 0 }),
            patience,
            silence: terms.rtt_max * SILENCE_RTTS,
        }
    }

    pub(super) fn on_open(&mut self, flow: FlowId, peer: HostId, label: Label) {
        let account = &mut self.accounts[flow.index()];
        let Account { listed, tailed, .. } = *account;
        *account = Account { id: flow, peer, listed, tailed, ..VACANT };
        self.turns.open(flow.index(), label);
    }

    pub(super) fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, figures: &mut Figures) {
        let void = self.offered.is_some_and(|due| due.flow == flow);
        if void {
            self.void(figures);
        }
        let account = &mut self.accounts[flow.index()];
        if account.id != flow {
            return;
        }
        if account.data() == 0 {
            // What was lost of probes that nothing waited for says nothing of the peer now.
            account.end_silence();
        }
        account.waiting = u32::try_from(backlog.segments).unwrap_or(u32::MAX);
        account.sendable = backlog.sendable > Bytes::ZERO;
        if void && account.waiting > 0 {
            // Messages or segments wait for earlier ones to be acknowledged: so do their SIMs.
            account.sendable = false;
            account.limit = 1;
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
        let account = &mut self.accounts[index];
        let lacking = account.lacking(self.per_sim);
        if lacking > 0 {
            self.turns.push(index, lacking);
        } else if self.tail && !account.tailed && account.lacking_at_tail(self.per_sim) > 0 {
            account.tailed = true;
            self.tails.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// The flow that gets the next SIM: the one whose turn it is, else one near its end.
    #[inline]
    fn next_flow(&mut self) -> Option<usize> {
        // Bounded: each turn that is passed over takes a flow out.
        while let Some(index) = self.turns.pop() {
            if self.accounts[index].lacking(self.per_sim) > 0 {
                return Some(index);
            }
        }
        while let Some(index) = self.tails.pop_front() {
            let account = &mut self.accounts[index as usize];
            account.tailed = false;
            if account.lacking_at_tail(self.per_sim) > 0 {
                return Some(index as usize);
            }
        }
        None
    }

    /// Queues SIMs, as waiting since `since`, as long as there is room and a flow lacks some.
    //= dcsim#2.4: whenever the SIM queue is below B and equation 3 lets it.
    pub(super) fn fill(&mut self, since: Instant) {
        while self.sims.len() < self.queue && self.has_room() {
            let Some(index) = self.next_flow() else { return };
            let Some(ev) = self.ports.draw(&mut self.rng) else { return self.enqueue(index) };
            let account = &mut self.accounts[index];
            account.sims += 1;
            self.sims.push_back(Queued { flow: account.id, ev, since });
            self.enqueue(index);
        }
    }

    /// Whether there is room for one more SIM, and for its DATA where these wait because the line
    /// takes none.
    fn has_room(&self) -> bool {
        let ports = usize::from(self.ports.in_use());
        ports.max(self.records.len() + self.sims.len()) < self.most
    }

    /// Removes SIMs from the front of the queue whose flows do not need them any more, because the
    /// segments have been acknowledged meanwhile.
    fn drop_needless(&mut self) {
        while let Some(&Queued { flow, ev, .. }) = self.sims.front() {
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
            self.ports.free(ev);
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
        let Queued { flow, ev, .. } = self.sims.pop_front()?;
        let peer = self.account(flow)?.peer;
        let nonce = self.rng.next_u32();
        let number = self.records.next_number();
        let (sent_at, bound, state) = (now, 0, State::Open);
        self.records.push(Record { sent_at, flow, nonce, ev, bound, state });
        Some((peer, ev, Sim { number, nonce, src_flow: flow }))
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
        let bound = account.map_or(0, |account| {
            let bound = account.data().min(self.per_sim);
            account.sims -= 1;
            account.bound += bound;
            account.answered(most);
            bound
        });
        record.bound = u8::try_from(bound).unwrap_or(u8::MAX);
        let record = *record;
        if bound == 0 {
            figures.sims.wasted += 1;
            self.ports.free(ev);
        } else if ripe {
            self.release(&record, now);
        }
        // The SIM-ACK may have found fewer segments than its SIM stands for: the flow may need
        // others.
        self.review(flow);
        true
    }

    /// Queues the DATAs of a record, which may leave from `at` on.
    fn release(&mut self, record: &Record, at: Instant) {
        let Record { flow, ev, bound, .. } = *record;
        for left in (0..bound).rev() {
            self.due.push_back(Due { flow, ev, at, last: left == 0 });
        }
    }

    /// Releases the DATAs and gives up the SIMs that are due by `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant, figures: &mut Figures) {
        self.wake(now);
        loop {
            while let Some((record, due)) = self.records.next_ripe(now) {
                self.release(&record, due);
            }
            let Some(record) = self.records.next_over(now) else { return };
            if record.state == State::Open {
                figures.sims.timed_out += 1;
                self.ports.free(record.ev);
                self.on_lost(record.flow, now);
                self.review(record.flow);
            }
        }
    }

    /// Takes in that a SIM of a flow was given up at `now`.
    fn on_lost(&mut self, flow: FlowId, now: Instant) {
        let (patience, silence) = (self.patience, self.silence);
        let Some(account) = self.account(flow) else { return };
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

    /// Lets flows send one SIM that have rested until `now`.
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

    /// Whether a DATA waits for the line.
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The instant since which a DATA waits for the line.
    #[inline]
    pub(super) fn due_since(&self) -> Option<Instant> {
        self.due.front().map(|due| due.at)
    }

    /// The DATA whose turn it is.
    pub(super) fn next_due(&mut self, figures: &mut Figures) -> Option<Due> {
        self.void(figures);
        self.offered = self.due.pop_front();
        self.offered
    }

    /// Takes in that a segment of the DATA that was offered leaves.
    pub(super) fn on_sent(&mut self) -> Option<Due> {
        let due = self.offered.take()?;
        if let Some(account) = self.account(due.flow) {
            account.bound = account.bound.saturating_sub(1);
            account.waiting = account.waiting.saturating_sub(1);
        }
        if due.last {
            self.ports.free(due.ev);
        }
        Some(due)
    }

    /// Takes in that there was no segment for the DATA that was offered.
    fn void(&mut self, figures: &mut Figures) {
        let Some(due) = self.offered.take() else { return };
        figures.sims.wasted += 1;
        if let Some(account) = self.account(due.flow) {
            account.bound = account.bound.saturating_sub(1);
        }
        if due.last {
            self.ports.free(due.ev);
        }
    }

    /// Whether a flow does not send because it lacks a SIM-ACK.
    pub(super) fn holds(&self, flow: FlowId) -> bool {
        let account = self.accounts.get(flow.index());
        account.is_some_and(|account| account.id == flow && account.waiting > 0 && account.sendable)
    }

    /// The next instant at which a DATA may leave, a SIM is given up or a flow has rested.
    #[inline]
    pub(super) fn poll_at(&self) -> Option<Instant> {
        let wakes = self.resting.peek().map(|Reverse((at, _))| *at);
        [self.records.poll_at(), wakes].into_iter().flatten().min()
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

    /// Ports in use.
    #[cfg(test)]
    pub(super) fn ports_in_use(&self) -> u16 {
        self.ports.in_use()
    }
}

impl Line {
    /// When the sender's next packet may leave, if one waits.
    pub(super) fn next_of(&self, sender: &Sender) -> Option<Instant> {
        if sender.has_due() {
            Some(self.free_at())
        } else {
            sender.sim_since().map(|since| self.sim_at(since))
        }
    }
}
