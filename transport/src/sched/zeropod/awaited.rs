//! Demands whose answers are awaited: a total to which no answer has come is asked for again.
//!
//! Source: \[zeropod\] IV-C has no losses. Requests and answers carry totals, so repeating the last
//! total makes up for a lost request, and the answer to it for a lost answer. A scheduler that is
//! there answers every total that is repeated. So a host to which none answers for as long as a
//! flow survives silence has no scheduler, and gives up all flows that wait for it.

use alloc::collections::VecDeque;

use super::queues::Queues;
use crate::units::FlowId;

/// The patience with one demand doubles at most this often.
const DOUBLINGS: u8 = 5;

/// Demands that wait for answers. Bounded by the destinations of a host.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    /// Epochs until an answer comes, where nothing delays it.
    patience: u64,
    /// When each demand is looked at, and the place of its queue; ascending.
    checks: VecDeque<(u64, usize)>,
    /// Places of queues whose totals are to be asked for again.
    overdue: VecDeque<usize>,
    /// The epoch of the first request since the last answer of any kind.
    silent_since: Option<u64>,
    /// Epochs without an answer after which flows are given up.
    pub(super) gives_up_after: u64,
    /// Whether all flows that wait are given up.
    gives_up: bool,
}

impl Awaited {
    pub(super) fn new(patience: u64, hosts: usize) -> Self {
        let checks = VecDeque::with_capacity(hosts);
        Self {
            patience,
            checks,
            overdue: VecDeque::with_capacity(hosts),
            silent_since: None,
            gives_up_after: u64::MAX,
            gives_up: false,
        }
    }

    /// A demand has been asked for in `epoch`.
    pub(super) fn asked(&mut self, queues: &mut Queues, place: usize, epoch: u64) {
        let queue = queues.queue(place);
        queue.since = epoch;
        self.silent_since.get_or_insert(epoch);
        if !queue.awaited {
            queue.awaited = true;
            self.checks.push_back((epoch + self.patience, place));
        }
    }

    /// Looks at the demands whose turn has come by `epoch`. Bounded by the destinations.
    pub(super) fn advance(&mut self, queues: &mut Queues, epoch: u64) {
        let silence = self.silent_since.map_or(0, |since| epoch.saturating_sub(since));
        self.gives_up |= silence >= self.gives_up_after;
        while let Some((_, place)) = self.checks.front().copied().filter(|(at, _)| *at <= epoch) {
            self.checks.pop_front();
            let queue = queues.queue(place);
            if queue.outstanding() == 0 {
                (queue.awaited, queue.tries) = (false, 0);
                continue;
            }
            if queue.since + (self.patience << queue.tries) <= epoch && !queue.overdue {
                queue.overdue = true;
                self.overdue.push_back(place);
            }
            self.checks.push_back((epoch + self.patience, place));
        }
    }

    /// The scheduler has answered.
    pub(super) const fn answered(&mut self) {
        (self.silent_since, self.gives_up) = (None, false);
    }

    /// The next flow that is given up.
    pub(super) fn next_given_up(&mut self, queues: &mut Queues) -> Option<FlowId> {
        if !self.gives_up {
            return None;
        }
        let flow = queues.first_waiting();
        match flow {
            Some(flow) => _ = queues.update(flow, 0),
            // One that comes later waits as long.
            None => self.answered(),
        }
        flow
    }

    /// Forgets all demands.
    pub(super) fn clear(&mut self, queues: &mut Queues) {
        for place in 0..queues.len() {
            let queue = queues.queue(place);
            (queue.awaited, queue.overdue, queue.since) = (false, false, 0);
        }
        self.checks.clear();
        self.overdue.clear();
    }

    /// The next demand to be asked for again.
    pub(super) fn next(&mut self, queues: &mut Queues, epoch: u64) -> Option<usize> {
        let place = self.first_overdue(queues)?;
        self.overdue.pop_front();
        let queue = queues.queue(place);
        (queue.overdue, queue.since) = (false, epoch);
        self.silent_since.get_or_insert(epoch);
        queue.tries = (queue.tries + 1).min(DOUBLINGS);
        Some(place)
    }

    /// The first demand that is to be asked for again. Forgets those before it that have been
    /// granted since.
    pub(super) fn first_overdue(&mut self, queues: &mut Queues) -> Option<usize> {
        // Bounded: each turn takes a queue off the list.
        while let Some(place) = self.overdue.front().copied() {
            let queue = queues.queue(place);
            if queue.outstanding() > 0 {
                return Some(place);
            }
            queue.overdue = false;
            self.overdue.pop_front();
        }
        None
    }

    /// Whether something may have to be asked for again.
    pub(super) fn has_overdue(&self) -> bool {
        !self.overdue.is_empty()
    }

    /// The next epoch in which a demand is looked at.
    pub(super) fn due(&self) -> Option<u64> {
        self.checks.front().map(|(at, _)| *at)
    }
}
