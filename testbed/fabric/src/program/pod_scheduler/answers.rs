//! Answers to members: the content of each, and the instant at which it leaves.
//!
//! Source: \[zeropod\] IV-C. Answers of a window are placed together when it opens, and leave one
//! after the other, each in the slot of its member.

use std::collections::VecDeque;
use std::mem;

use transport::sched::zeropod::timing::Timing;
use transport::wire::Note;
use transport::wire::pod::{DemandEnd, Grant, Schd};
use transport::{Duration, Instant};

use super::{Members, NEVER, OWED, Pod, demand_end};
use crate::pod::scheduler::{Answer, Client};

/// An answer that waits for its instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    at: Instant,
    pub(super) member: u16,
    pub(super) note: Note,
    /// Whether it yields to other packets.
    pub(super) yields: bool,
}

/// The grants of a member with the windows of their answers, ascending. As a rule the window of one
/// opens before the next one is made, so the first one has a place of its own.
#[derive(Clone, Debug)]
pub(super) struct DueGrants {
    /// The window of the first one; [`NEVER`] without one.
    due: u64,
    first: Option<Grant>,
    /// Empty without a first one.
    more: VecDeque<(u64, Grant)>,
}

impl DueGrants {
    pub(super) const NONE: Self = Self { due: NEVER, first: None, more: VecDeque::new() };

    #[inline]
    fn push(&mut self, due: u64, grant: Grant) {
        match self.first {
            None => (self.due, self.first) = (due, Some(grant)),
            Some(_) => self.more.push_back((due, grant)),
        }
    }

    /// The window of the first one; [`NEVER`] without one.
    #[inline]
    const fn due(&self) -> u64 {
        self.due
    }

    /// Takes the first one if it is due in `window`.
    #[inline]
    fn take(&mut self, window: u64) -> Option<Grant> {
        if self.due > window {
            return None;
        }
        let grant = self.first;
        let next = self.more.pop_front();
        (self.due, self.first) = next.map_or((NEVER, None), |(due, grant)| (due, Some(grant)));
        grant
    }

    pub(super) fn clear(&mut self) {
        (self.due, self.first) = (NEVER, None);
        self.more.clear();
    }
}

/// A member with its control slot.
#[derive(Clone, Copy, Debug)]
struct Seat {
    slot: u16,
    member: u16,
    client: Client,
    /// When its answer leaves, from the beginning of the window's epoch on: without a request
    /// before it, and behind one.
    leaves: [Duration; 2],
}

impl Seat {
    fn new(members: &Members, timing: &Timing, member: u16) -> Self {
        let client = members.client(member);
        let slot = members.slot(client);
        let from = match client {
            Client::Host(_) => timing.answers_at,
            Client::Core(_) => timing.core_answers_at,
        };
        let leaves = [false, true].map(|request| from + timing.answer_behind(slot, request));
        Self { slot, member, client, leaves }
    }
}

/// Answers that wait for their instant, and the members in the order of their slots.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    /// Ascending; the first ones have left.
    placed: Vec<Placed>,
    /// How many have left.
    left: usize,
    /// Members of one slot whose answers leave behind the others of it; memory of
    /// [`Pod::place_answers`].
    behind: Vec<Seat>,
    /// The control slot of each member.
    slots: Vec<u16>,
    /// Members in the order of their control slots, those of one slot together.
    by_slot: Vec<Box<[Seat]>>,
}

impl Answers {
    /// None yet.
    pub(super) fn new(members: &Members, timing: &Timing) -> Self {
        let count = members.count();
        let slot = |member| members.slot(members.client(member));
        let seats = members.by_slot().into_iter().map(|member| Seat::new(members, timing, member));
        let seats: Vec<_> = seats.collect();
        Self {
            placed: Vec::with_capacity(count),
            left: 0,
            behind: Vec::with_capacity(count),
            slots: (0..count).filter_map(|at| u16::try_from(at).ok()).map(slot).collect(),
            by_slot: seats.chunk_by(|one, next| one.slot == next.slot).map(Box::from).collect(),
        }
    }

    /// When the first one leaves.
    #[inline]
    pub(super) fn next_at(&self) -> Instant {
        self.placed.get(self.left).map_or(Instant::FAR_FUTURE, |answer| answer.at)
    }

    /// Takes the first one.
    #[inline]
    fn next(&mut self) -> Option<&Placed> {
        self.left += 1;
        self.placed.get(self.left - 1)
    }

    /// Forgets those that have left.
    fn forget_left(&mut self) {
        self.placed.drain(..self.left.min(self.placed.len()));
        self.left = 0;
    }

    pub(super) fn clear(&mut self) {
        self.placed.clear();
        self.left = 0;
    }

    #[inline]
    fn slot(&self, member: u16) -> u16 {
        self.slots[usize::from(member)]
    }

    /// Puts all in order. No two have the same instant and member.
    fn sort(&mut self) {
        self.placed.sort_unstable_by_key(|answer| (answer.at, answer.member));
    }

    fn is_sorted(&self) -> bool {
        self.placed.iter().is_sorted_by_key(|answer| (answer.at, answer.member))
    }
}

impl Pod {
    /// Does what is due by `now`, up to the next answer.
    #[inline]
    pub(super) fn next_answer(&mut self, now: Instant) -> Option<&Placed> {
        // Bounded: each turn makes a decision, ends a window or returns an answer.
        loop {
            let answer = self.answers.next_at();
            debug_assert!(self.busy_at <= self.decision_at().min(self.window_at()));
            // As a rule answers of a window follow one another.
            if answer <= now && answer < self.busy_at {
                return self.answers.next();
            }
            let (decision, window) = (self.decision_at(), self.window_at());
            self.busy_at = decision.min(window);
            if self.busy_at.min(answer) > now {
                return None;
            }
            if decision <= window && decision <= answer {
                self.decide();
            } else if window <= answer {
                self.place_answers();
            } else {
                return self.answers.next();
            }
        }
    }

    /// Places the answers of the window that is due.
    //= zeropod#IV-C
    fn place_answers(&mut self) {
        let Some(window) = self.windows.pop_front() else { return };
        self.answers.forget_left();
        while let Some(answer) = self.scheduler.poll_answer(window) {
            // Answers to Cores leave by as much sooner in their window as they may have to wait for
            // the next one.
            let due = window + self.to_answers(answer.client) - self.timing.to_answers;
            if let Some(grant) = grant(&answer, &self.members) {
                let at = usize::from(self.members.member(answer.client));
                self.grants[at].push(due, grant);
                self.due[at] = self.due[at].min(due);
            }
            if due > window {
                self.open_window(due);
            }
        }
        self.notify(window);
        self.answer_in_turn(window);
        self.place_all(window);
        while self.standings.front().is_some_and(|(due, ..)| *due <= window) {
            self.standings.pop_front();
        }
        self.answer_always(window + 1);
        // Where an answer is shorter than a cell, those of one window are in order, and before
        // those of the next one. Windows of Cores open sooner.
        let has_cores = self.members.count() > self.members.hosts();
        if has_cores || self.timing.control >= self.timing.cell {
            self.answers.sort();
        }
        debug_assert!(self.answers.is_sorted());
    }

    /// Places the answers of `window` to all members for which there is something to report, in the
    /// order in which they leave. They leave slot by slot, and in each slot answers without a
    /// request before them come first.
    fn place_all(&mut self, window: u64) {
        let start = self.timing.start(window);
        let by_slot = mem::take(&mut self.answers.by_slot);
        let mut behind = mem::take(&mut self.answers.behind);
        for of_slot in &by_slot {
            behind.clear();
            for seat in of_slot {
                if self.has_answer(window, seat.member) {
                    match self.is_behind(window, seat) {
                        true => behind.push(*seat),
                        false => self.place_answer((window, start), seat, false),
                    }
                }
            }
            for seat in &behind {
                self.place_answer((window, start), seat, true);
            }
        }
        (self.answers.by_slot, self.answers.behind) = (by_slot, behind);
    }

    /// Whether the sender of the cells of `window` to a member sends its request before the answer
    /// slips in.
    #[inline]
    fn is_behind(&self, window: u64, seat: &Seat) -> bool {
        let peer = self.scheduler.sender_to(seat.client, window);
        peer.is_some_and(|peer| self.answers.slot(self.members.member(peer)) <= seat.slot)
    }

    /// Whether the answer of `window` to a member has something to report; most have nothing.
    #[inline]
    fn has_answer(&self, window: u64, member: u16) -> bool {
        let at = usize::from(member);
        debug_assert!(self.due[at] == OWED || self.due[at] == self.next_due(at));
        self.due[at] <= window || self.standing(window, member).is_some()
    }

    /// The next window has an answer for the member at `at`, even if it only shows that the
    /// scheduler is there.
    #[inline]
    pub(super) fn owe(&mut self, at: usize) {
        self.due[at] = OWED;
    }

    /// What waits for the member at `at` has changed.
    #[inline]
    pub(super) fn refresh_due(&mut self, at: usize) {
        if self.due[at] != OWED {
            self.due[at] = self.next_due(at);
        }
    }

    /// The first window in which something leaves that waits for the member at `at`.
    #[inline]
    fn next_due(&self, at: usize) -> u64 {
        match self.delivered.get(at) {
            Some(runs) if !runs.is_empty() => OWED,
            _ => self.receipts[at].due().min(self.grants[at].due()),
        }
    }

    /// Places the answer of `window`, which begins at `start`, to a member.
    #[inline]
    fn place_answer(&mut self, (window, start): (u64, Instant), seat: &Seat, behind_gap: bool) {
        let Seat { member, client, leaves, .. } = *seat;
        let at = usize::from(member);
        let grant = self.grants[at].take(window);
        let (receipt, standing) = (self.receipts[at].take(), self.standing(window, member));
        let also = receipt.map_or(0, |receipt| receipt.also);
        let is_long = also > 0 || grant.is_some_and(|grant| grant.epochs > 1);
        let delivered = match standing {
            // An answer has room for one of these.
            _ if is_long => None,
            Some(_) => None,
            None => self.delivered.get_mut(at).and_then(|runs| runs.take(receipt.is_some())),
        };
        self.due[at] = self.next_due(at);
        if self.due[at] <= window + 1 {
            self.open_window(window + 1);
        }
        let at = start + leaves[usize::from(behind_gap)];
        let term = u16::try_from(self.scheduler.term()).unwrap_or(u16::MAX);
        let stamp = self.stamp(member, window, (behind_gap, grant.is_some()));
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^16")]
        let receipt = receipt.map(|receipt| (receipt.sent_in as u16, receipt.arrived));
        let schd = Schd { term, grant, receipt, also, standing, delivered, stamp };
        // Cells may be under way that another scheduler granted, by gaps that this one has not
        // granted.
        let yields = !self.scheduler.has_to_itself(client, window);
        self.answers.placed.push(Placed { at, member, note: schd.note(), yields });
    }

    /// The standing that `member` is given in `window`.
    #[inline]
    fn standing(&self, window: u64, member: u16) -> Option<(DemandEnd, u32)> {
        if self.standings.is_empty() {
            return None;
        }
        let due = self.standings.iter().take_while(|(due, ..)| *due <= window);
        due.filter(|(_, to, _)| *to == member).map(|(.., standing)| *standing).next()
    }
}

/// The grant of an answer; `None` for one that a packet cannot carry.
#[inline]
fn grant(answer: &Answer, members: &Members) -> Option<Grant> {
    // A Core's own answer names no route but its own.
    let layer = match (answer.client, answer.core) {
        (Client::Host(_), Some(core)) => Some(u8::try_from(members.slot(Client::Core(core))).ok()?),
        _ => None,
    };
    let to = demand_end(answer.to);
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    let epoch = answer.epoch as u32;
    let (cells, epochs) = (u8::try_from(answer.cells).ok()?, u8::try_from(answer.epochs).ok()?);
    let (agg, total, mice_only) = (answer.agg, answer.total, answer.mice_only);
    Some(Grant { epoch, to, agg, layer, cells, epochs, total, mice_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_of_a_member_leave_one_by_one_and_not_before_their_windows() {
        let grant = |epoch| Grant {
            epoch,
            to: DemandEnd::Host(1),
            agg: 0,
            layer: None,
            cells: 16,
            epochs: 1,
            total: 0,
            mice_only: false,
        };
        let mut grants = DueGrants::NONE;
        assert_eq!((grants.due(), grants.take(NEVER)), (NEVER, None));
        [(7, 1), (7, 2), (9, 3)]
            .into_iter()
            .for_each(|(due, epoch)| grants.push(due, grant(epoch)));
        assert_eq!((grants.due(), grants.take(6)), (7, None));
        assert_eq!(
            [8, 8, 8].map(|window| grants.take(window)),
            [Some(grant(1)), Some(grant(2)), None]
        );
        assert_eq!(grants.due(), 9);
        grants.push(9, grant(4));
        assert_eq!([9, 9].map(|window| grants.take(window)), [Some(grant(3)), Some(grant(4))]);
        grants.push(11, grant(5));
        grants.clear();
        assert_eq!(grants.due(), NEVER);
    }
}
