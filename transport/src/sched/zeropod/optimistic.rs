//! Cells of short flows that also leave without a grant, once they have been asked for. They leave
//! in slots for which their host has no grant, by paths drawn at random.
//!
//! Source: \[zeropod\] IV-B3. A cell without a grant yields to every other packet that it meets,
//! and is sent again with a grant in any case. So requests, grants and receipts do not depend on
//! whether it arrives, and a flow without cells of this kind is served to the picosecond as if
//! there were none. These cells stay in their pod.
//!
//! ```text
//!   flow posted --> request leaves --> free slots: a copy of each cell, path drawn --+--> there
//!                        |                                                           +--> lost
//!                        +--> SCHD --> granted epoch: the cells themselves
//! ```

use alloc::collections::VecDeque;

use super::Zeropod;
use super::queues::Queues;
use crate::rng::Rng;
use crate::sched::{Backlog, Choice, SchedSetup, Turn};
use crate::time::{Duration, Instant};
use crate::units::FlowId;
use crate::wire::pod::{CellName, DemandEnd};

/// The flows of a host whose cells also leave without a grant.
#[derive(Clone, Debug)]
pub(super) struct Optimistic {
    /// A flow with fewer payload bytes than this is short.
    below: u64,
    /// Wire bytes of a cell beside its payload.
    overhead: u64,
    /// Copies of a cell.
    copies: u8,
    /// Flows with cells of which copies are to leave, first in first out. Between them are flows
    /// that have no such cells any more. The list has at most twice as many entries as the host has
    /// flows.
    flows: VecDeque<FlowId>,
    /// Flows in the list at most.
    most: usize,
    /// When the last copy left: a slot has one.
    last: Option<Instant>,
    /// Draws paths.
    rng: Rng,
}

impl Optimistic {
    /// `None` where no flow is sent so. Hosts that make their packets early, because they are
    /// polled, send none: a slot is known to be free only when it begins.
    pub(super) fn new(setup: &SchedSetup<'_>) -> Option<Self> {
        let params = &setup.params.zeropod;
        let cell = u64::from(params.cell.max(1));
        let sends = params.optimistic > 0 && params.aggs > 0 && params.early == Duration::ZERO;
        sends.then(|| Self {
            below: u64::from(params.optimistic) * cell,
            overhead: setup.mtu.0.saturating_sub(cell),
            copies: u8::try_from(params.optimistic_copies).unwrap_or(u8::MAX),
            flows: VecDeque::with_capacity(2 * setup.tx_flows_max as usize),
            most: 2 * setup.tx_flows_max as usize,
            last: None,
            rng: setup.rng.clone(),
        })
    }

    /// Makes room for one more flow. Flows that were sent as granted, and closed, stay in the list
    /// while the host has no free slot: where it is full, they leave it, at least half of it. O(1)
    /// amortised.
    fn make_room(&mut self, queues: &mut Queues) {
        if self.flows.len() < self.most {
            return;
        }
        let copies = self.copies;
        self.flows.retain(|flow| {
            let stays = queues.to_copy(*flow, copies).is_some();
            if !stays {
                queues.end_copies(*flow);
            }
            stays
        });
    }

    /// Payload bytes that wait in `backlog`.
    const fn payload(&self, backlog: &Backlog) -> u64 {
        backlog.waiting.0.saturating_sub(backlog.segments.saturating_mul(self.overhead))
    }
}

impl Zeropod {
    /// The backlog of a flow has changed: it may be a short one that has sent nothing yet.
    pub(super) fn review_optimistic(&mut self, flow: FlowId, backlog: &Backlog) {
        let Some(optimistic) = &mut self.optimistic else { return };
        if self.offered.take_if(|(of, name)| *of == flow && name.unscheduled).is_some() {
            // There was nothing to copy.
            optimistic.flows.pop_front();
            self.queues.end_copies(flow);
        } else if optimistic.payload(backlog) >= optimistic.below {
            self.queues.end_copies(flow);
        } else if self.queues.begin_copies(flow) {
            optimistic.make_room(&mut self.queues);
            optimistic.flows.push_back(flow);
        }
    }

    /// The copy that leaves now, if this is the beginning of a slot that nothing granted takes.
    pub(super) fn optimistic_turn(&mut self, now: Instant) -> Option<Turn> {
        let flow = self.next_copied()?;
        let slot = self.free_slot(now)?;
        let optimistic = self.optimistic.as_mut().filter(|own| own.last != Some(now))?;
        let agg = optimistic.rng.below(self.params.aggs.into());
        #[expect(clippy::cast_possible_truncation, reason = "below 32, and modulo 4")]
        let (agg, slot, epoch) = (agg as u8, slot as u8, (self.epoch % 4) as u8);
        let name = CellName { agg, layer: 0, slot, epoch, unscheduled: true };
        self.offered = Some((flow, name));
        let choice = Choice { ev: Some(name.ev()), at: Some(now), copy: true, ..Choice::default() };
        Some(Turn::chosen(flow, Choice { again: true, ..choice }))
    }

    /// A copy of a flow's cell leaves.
    pub(super) fn on_copied(&mut self, flow: FlowId, now: Instant) {
        if let Some(optimistic) = &mut self.optimistic {
            optimistic.last = Some(now);
        }
        self.counts.optimistic_sent += 1;
        self.counts.widen_optimistic((now, now));
        self.queues.copied(flow);
    }

    /// The first flow with a cell to be copied, once its cells have been asked for. Bounded: each
    /// turn takes a flow off the list.
    fn next_copied(&mut self) -> Option<FlowId> {
        let optimistic = self.optimistic.as_mut()?;
        while let Some(flow) = optimistic.flows.front() {
            match self.queues.to_copy(*flow, optimistic.copies) {
                Some(was_asked_for) => return was_asked_for.then_some(*flow),
                None => {
                    self.queues.end_copies(*flow);
                    optimistic.flows.pop_front();
                }
            }
        }
        None
    }

    /// The slot of this epoch that begins at `now` and that nothing granted takes. Without a grant
    /// only the gap of the host's own request stays empty.
    fn free_slot(&self, now: Instant) -> Option<u16> {
        let (start, end) = (self.start(self.epoch), self.timing.cells);
        let within = now.as_ps().checked_sub(start.as_ps())?;
        let near = u16::try_from(within / self.timing.cell.as_ps().max(1)).ok()?;
        let from = self.first_free();
        let begins = |slot: &u16| self.slot_at(*slot) == now;
        (near.saturating_sub(1)..=near).filter(|slot| (from..end).contains(slot)).find(begins)
    }

    /// The first slot of this epoch that has not been given away.
    fn first_free(&self) -> u16 {
        self.filling.as_ref().map_or(0, |filling| filling.slot)
    }

    /// When a slot of this epoch begins.
    fn slot_at(&self, slot: u16) -> Instant {
        let peer = self.filling.as_ref().map(|filling| self.receiver(&filling.grant));
        let at = self.timing.cell_at(slot, self.pod_end.own, peer.unwrap_or(u16::MAX));
        self.start(self.epoch) + at
    }

    /// When a copy may leave next, after the last instant at which one could; `None` while there is
    /// none to leave.
    pub(super) fn next_copy_at(&self) -> Option<Instant> {
        let optimistic = self.optimistic.as_ref()?;
        let flow = *optimistic.flows.front()?;
        if self.queues.to_copy(flow, optimistic.copies) == Some(false) {
            // Its request comes first.
            return None;
        }
        let within = self.asked_at.since(self.start(self.epoch)).as_ps();
        let near = within / self.timing.cell.as_ps().max(1);
        let near = u16::try_from(near.saturating_sub(1)).unwrap_or(u16::MAX);
        let from = near.max(self.first_free());
        let later = |slot: u16| Some(self.slot_at(slot)).filter(|at| *at > self.asked_at);
        let of_this = (from..self.timing.cells).take(4).find_map(later);
        Some(of_this.unwrap_or_else(|| self.start(self.epoch + 1)))
    }
}

impl Queues {
    /// A flow is short. True when it was not known as such and has sent nothing yet.
    fn begin_copies(&mut self, flow: FlowId) -> bool {
        let Some(account) = self.account(flow) else { return false };
        let begins = account.copied.is_none() && account.sent == 0 && account.waiting > 0;
        if begins {
            account.copied = Some(0);
        }
        begins
    }

    /// Whether a flow has cells to be copied, up to `copies` times each, and those have been asked
    /// for; `None` when it has none.
    fn to_copy(&self, flow: FlowId, copies: u8) -> Option<bool> {
        let account = self.known(flow)?;
        let most = account.waiting.saturating_mul(copies.into());
        let (left, queue) = (account.copied? < most, self.of(account));
        let stays = matches!(queue.to, DemandEnd::Host(_));
        (left && stays && account.sent == 0).then_some(!queue.dirty)
    }

    /// A copy of a cell left.
    fn copied(&mut self, flow: FlowId) {
        if let Some(copied) = self.account(flow).and_then(|account| account.copied.as_mut()) {
            *copied = copied.saturating_add(1);
        }
    }

    /// No more cells of a flow are copied.
    fn end_copies(&mut self, flow: FlowId) {
        if let Some(account) = self.account(flow) {
            account.copied = Some(u32::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOST, PEER, config_with};
    use super::*;
    use crate::sched::{Label, Scheduling, Sending};
    use crate::time::Instant;
    use crate::units::Bytes;

    /// A host that never has a free slot opens and closes short flows.
    #[test]
    fn flows_that_were_closed_take_no_memory_in_the_list() {
        let config = config_with(5, 1);
        let mut sched = Zeropod::build(&config.sched_setup(HOST, Rng::new(3)));
        let list = |sched: &Zeropod| {
            let flows = &sched.optimistic.as_ref().unwrap().flows;
            (flows.len(), flows.capacity())
        };
        let (_, room) = list(&sched);
        let one = Backlog {
            sendable: Bytes(512),
            segments: 1,
            waiting: Bytes(552),
            ..Backlog::default()
        };
        let open = |sched: &mut Zeropod, flow| {
            sched.on_open(flow, PEER, &config.default_path(), Label::NONE);
            sched.on_backlog(flow, &one, Instant::ZERO);
        };
        // One flow stays, behind which the others come and go.
        let first = FlowId::new(0, 1);
        open(&mut sched, first);
        for turn in 0..1000 {
            open(&mut sched, FlowId::new(1 + turn % 7, 1 + turn / 7));
            let (len, capacity) = list(&sched);
            assert!(len <= 16 && capacity == room, "{turn}: {len} of {capacity}");
        }
        let flows = &sched.optimistic.as_ref().unwrap().flows;
        assert_eq!(flows.front(), Some(&first));
        assert_eq!(flows.back(), Some(&FlowId::new(1 + 999 % 7, 1 + 999 / 7)));
    }
}
