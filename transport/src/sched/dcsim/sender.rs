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

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::figures::Figures;
use super::line::Line;
use super::params::{Order, Terms};
use super::ports::Ports;
use super::records::{Record, Records, Refused, State};
use super::turns::Turns;
use crate::rng::Rng;
use crate::sched::Backlog;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, HostId};
use crate::wire::sim::Sim;

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
}

const VACANT: Account = Account {
    id: FlowId::UNKNOWN,
    peer: HostId(0),
    sims: 0,
    bound: 0,
    waiting: 0,
    sendable: false,
    silent_since: None,
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
        if self.sendable { self.data().div_ceil(per_sim).saturating_sub(self.sims) } else { 0 }
    }
}

/// A DATA that may leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) flow: FlowId,
    pub(super) ev: EntropyValue,
    /// The instant from which on it may leave.
    pub(super) at: Instant,
    /// It is the last DATA of its SIM: once it has left, the port is free.
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
    queue: usize,
    per_sim: u32,
    /// A flow is given up when its SIMs have had no SIM-ACK for this long.
    patience: Duration,
}

impl Sender {
    pub(super) fn new(
        terms: &Terms,
        order: Order,
        flows: usize,
        rng: Rng,
        patience: Duration,
    ) -> Self {
        // SIMs leave a slot apart, except a bucket of them that leave at once.
        let most = terms.rtt_max.as_ps() / terms.slot.as_ps().max(1) + u64::from(terms.bucket);
        let most = usize::try_from(most + 1).unwrap_or(usize::MAX).min(1 << 14);
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
            queue: terms.queue,
            per_sim: terms.per_sim,
            patience,
        }
    }

    pub(super) fn on_open(&mut self, flow: FlowId, peer: HostId, collective: u32) {
        self.accounts[flow.index()] = Account { id: flow, peer, ..VACANT };
        self.turns.open(flow.index(), collective);
    }

    pub(super) fn on_backlog(&mut self, flow: FlowId, backlog: &Backlog, figures: &mut Figures) {
        if self.offered.is_some_and(|due| due.flow == flow) {
            self.void(figures);
        }
        let account = &mut self.accounts[flow.index()];
        if account.id != flow {
            return;
        }
        if account.data() == 0 {
            // What was lost of probes that nothing waited for says nothing of the peer now.
            account.silent_since = None;
        }
        account.waiting = u32::try_from(backlog.segments).unwrap_or(u32::MAX);
        account.sendable = backlog.sendable > Bytes::ZERO;
        let lacking = account.lacking(self.per_sim);
        if lacking > 0 {
            self.turns.push(flow.index(), lacking);
        }
    }

    /// The account of `flow`; `None` when another flow has its place.
    fn account(&mut self, flow: FlowId) -> Option<&mut Account> {
        self.accounts.get_mut(flow.index()).filter(|account| account.id == flow)
    }

    /// Puts a flow in its queue if it wants SIMs.
    fn review(&mut self, flow: FlowId) {
        let per_sim = self.per_sim;
        let lacking = self.account(flow).map_or(0, |account| account.lacking(per_sim));
        if lacking > 0 {
            self.turns.push(flow.index(), lacking);
        }
    }

    /// Queues SIMs as long as there is room and a flow lacks some.
    //= dcsim#2.4: whenever the SIM queue is below B and equation 3 lets it.
    pub(super) fn fill(&mut self, now: Instant) {
        while self.sims.len() < self.queue {
            // Bounded: each turn that is passed over takes a flow out.
            let Some(index) = self.turns.pop() else { return };
            let account = &mut self.accounts[index];
            if account.lacking(self.per_sim) == 0 {
                continue;
            }
            let Some(ev) = self.ports.draw(&mut self.rng) else {
                return self.turns.push(index, 1);
            };
            account.sims += 1;
            self.sims.push_back(Queued { flow: account.id, ev, since: now });
            let lacking = account.lacking(self.per_sim);
            if lacking > 0 {
                self.turns.push(index, lacking);
            }
        }
    }

    /// Removes SIMs from the front of the queue whose flows do not need them any more, because the
    /// segments have been acknowledged meanwhile.
    fn drop_needless(&mut self, now: Instant) {
        while let Some(&Queued { flow, ev, .. }) = self.sims.front() {
            let per_sim = self.per_sim;
            let account = self.account(flow);
            let needless = account.is_none_or(|account| {
                let needless = account.sims > account.data().div_ceil(per_sim);
                account.sims -= u32::from(needless);
                needless
            });
            if !needless {
                return;
            }
            self.ports.free(ev);
            self.sims.pop_front();
            self.fill(now);
        }
    }

    /// The instant since which the next SIM has waited for the line; `None` when none waits.
    #[inline]
    pub(super) fn sim_since(&self) -> Option<Instant> {
        self.sims.front().map(|queued| queued.since)
    }

    /// The SIM that leaves at `now`, after its destination and its port.
    pub(super) fn next_sim(&mut self, now: Instant) -> Option<(HostId, EntropyValue, Sim)> {
        self.drop_needless(now);
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
        let account = self.accounts.get_mut(flow.index()).filter(|account| account.id == flow);
        let bound = account.map_or(0, |account| {
            let bound = account.data().min(self.per_sim);
            account.sims -= 1;
            account.bound += bound;
            account.silent_since = None;
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
        // The SIM-ACK may have found fewer segments than its SIM stands for: the flow may want
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
        let patience = self.patience;
        let Some(account) = self.account(flow) else { return };
        account.sims -= 1;
        let since = *account.silent_since.get_or_insert(now);
        if now.since(since) >= patience && account.sendable {
            // Reported once: the endpoint updates the flow's backlog next.
            account.sendable = false;
            self.given_up.push_back(flow);
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
        account.is_some_and(|account| account.id == flow && account.waiting > 0)
    }

    /// The next instant at which a DATA may leave or a SIM is given up.
    #[inline]
    pub(super) fn poll_at(&self) -> Option<Instant> {
        self.records.poll_at()
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
