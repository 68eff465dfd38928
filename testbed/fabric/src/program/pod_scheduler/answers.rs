//! Answers to members: the content of each, and the instant at which it leaves.
//!
//! Source: \[zeropod\] IV-C. Answers of a window are placed together when it opens, and leave one
//! after the other, each in the slot of its member.

use transport::Instant;
use transport::wire::Note;
use transport::wire::pod::{DemandEnd, Grant, Schd};

use super::{Members, Pod, demand_end};
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

/// Answers that wait for their instant, and the members in the order of their slots.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    /// Ascending; the first ones have left.
    placed: Vec<Placed>,
    /// How many have left.
    left: usize,
    /// Members of one slot whose answers leave behind the others of it; memory of
    /// [`Pod::place_answers`].
    behind: Vec<u16>,
    /// The control slot of each member.
    slots: Vec<u16>,
    /// Members in the order of their control slots.
    by_slot: Vec<u16>,
}

impl Answers {
    /// None yet.
    pub(super) fn new(members: &Members) -> Self {
        let count = members.count();
        let slot = |member| members.slot(members.client(member));
        Self {
            placed: Vec::with_capacity(count),
            left: 0,
            behind: Vec::with_capacity(count),
            slots: (0..count).filter_map(|at| u16::try_from(at).ok()).map(slot).collect(),
            by_slot: members.by_slot(),
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
            let (decision, window, answer) =
                (self.decision_at(), self.window_at(), self.answers.next_at());
            if decision.min(window).min(answer) > now {
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
                let member = self.members.member(answer.client);
                self.grants[usize::from(member)].push_back((due, grant));
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
        let (mut at, count) = (0, self.answers.by_slot.len());
        while at < count {
            let slot = self.answers.slot(self.answers.by_slot[at]);
            self.answers.behind.clear();
            while at < count && self.answers.slot(self.answers.by_slot[at]) == slot {
                let member = self.answers.by_slot[at];
                at += 1;
                if self.has_answer(window, member) {
                    match self.is_behind(window, member) {
                        true => self.answers.behind.push(member),
                        false => self.place_answer((window, start), member, false),
                    }
                }
            }
            for place in 0..self.answers.behind.len() {
                self.place_answer((window, start), self.answers.behind[place], true);
            }
        }
    }

    /// Whether the sender of the cells of `window` to a member sends its request before the answer
    /// slips in.
    #[inline]
    fn is_behind(&self, window: u64, member: u16) -> bool {
        let peer = self.scheduler.sender_to(self.members.client(member), window);
        let own = self.answers.slot(member);
        peer.is_some_and(|peer| self.answers.slot(self.members.member(peer)) <= own)
    }

    /// Whether the answer of `window` to a member has something to report; most have nothing.
    #[inline]
    fn has_answer(&self, window: u64, member: u16) -> bool {
        let at = usize::from(member);
        self.receipts[at].is_due(window)
            || self.owed[at]
            || self.grants[at].front().is_some_and(|(due, _)| *due <= window)
            || self.delivered.get(at).is_some_and(|runs| !runs.is_empty())
            || self.standing(window, member).is_some()
    }

    /// Places the answer of `window`, which begins at `start`, to a member, if there is one.
    #[inline]
    fn place_answer(&mut self, (window, start): (u64, Instant), member: u16, behind_gap: bool) {
        let at = usize::from(member);
        let grants = &mut self.grants[at];
        let is_due = grants.front().is_some_and(|(due, _)| *due <= window);
        let grant = if is_due { grants.pop_front() } else { None }.map(|(_, grant)| grant);
        let (receipt, standing) = (self.receipts[at].take(), self.standing(window, member));
        let also = receipt.map_or(0, |receipt| receipt.also);
        let is_long = also > 0 || grant.is_some_and(|grant| grant.epochs > 1);
        let delivered = match standing {
            // An answer has room for one of these.
            _ if is_long => None,
            Some(_) => None,
            None => self.delivered.get_mut(at).and_then(|runs| runs.take(receipt.is_some())),
        };
        if self.receipts[at].is_due(window + 1) {
            self.open_window(window + 1);
        }
        if self.delivered.get(at).is_some_and(|runs| !runs.is_empty()) {
            self.open_window(window + 1);
        }
        let owed = std::mem::take(&mut self.owed[at]);
        let has_none = grant.is_none() && receipt.is_none() && standing.is_none();
        if has_none && delivered.is_none() && !owed {
            return;
        }
        let client = self.members.client(member);
        let own = self.answers.slot(member);
        let from = match client {
            Client::Host(_) => self.timing.answers_at,
            Client::Core(_) => self.timing.core_answers_at,
        };
        let at = start + from + self.timing.answer_behind(own, behind_gap);
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
