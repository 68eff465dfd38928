//! Copies of segments that leave unasked, where a host's line has nothing else to send.
//!
//! Copies are ours, and off in the paper's preset. \[dcsim\] sec. 4.2 says that short flows could
//! leave without SIMs at a lower priority; here every flow may begin with copies. A copy takes no
//! SIM's place: its segment waits for a SIM-ACK like any other, behind those that have not left,
//! until it is acknowledged. So copies that switches drop cost no timeout.
//= dcsim#4.2

use super::account::Account;
use crate::sched::Backlog;
use crate::sched::place_queue::PlaceQueue;
use crate::time::Instant;
use crate::units::{Bytes, FlowId};

/// Which flow may send the next copy.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    /// Copies that a flow may send after it opened, or was idle.
    most: u32,
    /// Slab indices of flows that may send copies, in turn; each at most once.
    turns: PlaceQueue,
    /// Since when `turns` has not been empty.
    since: Instant,
    /// The flow that was to send a copy last, until the copy leaves.
    offered: Option<FlowId>,
}

impl Copies {
    pub(super) fn new(most: u32, flows: usize) -> Self {
        let turns = PlaceQueue::new(if most > 0 { flows } else { 0 });
        Self { most, turns, since: Instant::ZERO, offered: None }
    }

    /// Copies that a flow may send after it opened, or was idle.
    #[inline]
    pub(super) const fn most(&self) -> u32 {
        self.most
    }

    /// Since when a copy may leave; `None` when no flow has one.
    #[inline]
    pub(super) fn since(&self) -> Option<Instant> {
        (!self.turns.is_empty()).then_some(self.since)
    }

    /// Takes in the backlog of a flow, which had `before` segments waiting.
    pub(super) fn on_backlog(
        &mut self,
        account: &mut Account,
        before: u32,
        backlog: &Backlog,
        now: Instant,
    ) {
        if self.offered == Some(account.id) {
            // There was nothing to copy.
            self.offered = None;
            return;
        }
        if backlog.segments == 0 && backlog.in_flight == Bytes::ZERO {
            account.unasked = self.most;
        }
        if account.waiting > before && account.unasked > 0 {
            if self.turns.is_empty() {
                self.since = now;
            }
            self.turns.push(account.id.index());
        }
    }

    /// The flow whose turn it is.
    #[inline]
    pub(super) fn next(&mut self, accounts: &[Account]) -> Option<FlowId> {
        // Bounded: each turn takes a flow out.
        while let Some(index) = self.turns.pop() {
            let account = &accounts[index];
            if account.unasked > 0 && account.waiting > 0 {
                self.offered = Some(account.id);
                return self.offered;
            }
        }
        None
    }

    /// Takes in that the copy that was offered leaves; returns since when it could have left.
    pub(super) fn on_sent(&mut self, accounts: &mut [Account]) -> Option<Instant> {
        let flow = self.offered.take()?;
        let account = accounts.get_mut(flow.index()).filter(|account| account.id == flow)?;
        account.unasked -= 1;
        if account.unasked > 0 {
            self.turns.push(flow.index());
        }
        Some(self.since)
    }
}
