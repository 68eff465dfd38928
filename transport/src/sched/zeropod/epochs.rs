//! One epoch after the other: which one a host fills, and when its requests leave.
//!
//! Source: \[zeropod\] IV-C. A host in virtual time acts at the instant itself. A host that is
//! polled makes its packets `early` before they leave, so only a poll that is late by more than
//! `early` misses a slot. After such a poll the host fills the epochs since the last poll one after
//! the other.

use super::{Filling, Zeropod};
use crate::rng::mix;
use crate::time::{Duration, Instant};
use crate::wire::pod::{Grant, REPORTED_MAX};

/// Epochs whose grants are kept where hosts are early: more than the epochs by which any host is
/// early.
const FILLED_MAX: usize = 64;

impl Zeropod {
    /// Ends all epochs before that of `now`, and begins that one; where the host is early, the next
    /// one that can still be filled. Bounded by the grants kept.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        let ahead = now + self.timing.early;
        self.asked_at = self.asked_at.max(ahead);
        if ahead >= self.epoch_ends {
            self.advance_to(ahead, now);
        }
    }

    /// Ends the epochs before that of `ahead` and begins that one, at `now`.
    #[inline(never)]
    fn advance_to(&mut self, ahead: Instant, now: Instant) {
        let early = self.timing.early > Duration::ZERO;
        let epoch = self.epoch_at(ahead);
        if epoch <= self.epoch && self.epoch > 0 {
            return;
        }
        if early && self.is_filling(now) {
            return;
        }
        self.pass_stall(epoch);
        self.end_filling();
        while let Some((at, grant)) = self.grants.take_until(epoch) {
            let Some(queue) = self.queues.place(grant.to) else { continue };
            let cells = u16::from(grant.cells).min(self.timing.cells);
            let slot = self.first_slot(at, cells);
            self.filling = Some(Filling { grant, epoch: at, queue, slot, end: slot + cells });
            if early {
                self.note_filled(at, grant);
                if self.is_filling(now) {
                    self.begin(at);
                    return;
                }
            }
            if at < epoch {
                self.end_filling();
            }
        }
        self.begin(epoch);
    }

    /// The slot of the first of so many cells in `epoch`. A clock that is off by more than half of
    /// a guard brings the cell of some slot into the gap of an answer, in every epoch. So where
    /// hosts follow a clock, the cells of a grant that leaves slots free begin in a slot that is
    /// drawn from the epoch: resends come at regular times, and would meet a slot of regular turns
    /// again. It stays for as many epochs as one report covers, whose cells have the same slots. On
    /// a real network nothing meets, as its switches queue.
    fn first_slot(&self, epoch: u64, cells: u16) -> u16 {
        if self.clock.is_none() || self.joining.is_some() {
            return 0;
        }
        let slots = u64::from(self.timing.cells - cells) + 1;
        let drawn = mix(epoch / REPORTED_MAX) >> 32;
        // The product of two 32-bit numbers; its high half is below `slots`.
        u16::try_from((drawn * slots) >> 32).unwrap_or(0)
    }

    fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.epoch_ends = self.start(epoch + 1);
        self.awaited.advance(&mut self.queues, epoch);
        if self.joining.is_none() {
            self.silence.look(self.timing.start(epoch));
        }
    }

    /// Whether some cell can still leave in the epoch that is being filled.
    fn is_filling(&mut self, now: Instant) -> bool {
        let Some(Filling { grant, epoch, queue, slot, end }) = self.filling else { return false };
        let Some(last) = end.checked_sub(1).filter(|last| slot <= *last) else { return false };
        let last = self.timing.cell_at(last, self.pod_end.own, self.receiver(&grant));
        self.start(epoch) + last >= now && self.queues.front(queue, grant.mice_only).is_some()
    }

    /// Cells that were granted and not sent are asked for again, when something waits.
    pub(super) fn end_filling(&mut self) {
        let Some(Filling { queue, slot, end, .. }) = self.filling.take() else { return };
        let unused = u32::from(end.saturating_sub(slot));
        self.counts.unused += u64::from(unused);
        let of = self.queues.queue(queue);
        of.pending = of.pending.saturating_sub(unused);
        self.review(queue);
    }

    /// The granted slots before `to` stay empty.
    pub(super) fn pass_over_slots(&mut self, to: u16) {
        let Some(filling) = &mut self.filling else { return };
        let to = to.min(filling.end);
        let unused = u32::from(to.saturating_sub(filling.slot));
        filling.slot = filling.slot.max(to);
        self.counts.unused += u64::from(unused);
        let queue = self.queues.queue(filling.queue);
        queue.pending = queue.pending.saturating_sub(unused);
    }

    fn note_filled(&mut self, epoch: u64, grant: Grant) {
        if self.filled.len() >= FILLED_MAX {
            self.filled.pop_front();
        }
        self.filled.push_back((epoch, grant));
    }

    /// When the request of `epoch` leaves.
    pub(super) fn request_at(&self, epoch: u64) -> Instant {
        self.start(epoch) + self.timing.request_at(self.pod_end.own, self.peer_in(epoch))
    }

    /// The number of the receiver of an epoch's cells under its switch, where they were granted.
    pub(super) fn peer_in(&self, epoch: u64) -> Option<u16> {
        let grant = match &self.filling {
            Some(filling) if filling.epoch == epoch => Some(&filling.grant),
            _ => self.grants.at(epoch),
        };
        // Without early packets the list is empty, and an iterator costs a simulation 1 % all the
        // same.
        let filled = || self.filled.iter().find(|(at, _)| *at == epoch).map(|(_, grant)| grant);
        let grant = if self.filled.is_empty() { grant } else { grant.or_else(filled) };
        grant.map(|grant| self.receiver(grant))
    }

    /// The epoch of the request that can be made at `now` and has not been, and when it leaves.
    pub(super) fn due_request(&self, now: Instant) -> Option<(u64, Instant)> {
        if self.lags() {
            return self.late_request(now + self.timing.early);
        }
        let present = self.epoch_at(now);
        if self.timing.early == Duration::ZERO && !self.is_slot(present, now) {
            return None;
        }
        let epoch = present.max(self.request_from);
        let epoch = if self.request_at(epoch) < now { epoch + 1 } else { epoch };
        let at = self.request_at(epoch);
        (at <= now + self.timing.early).then_some((epoch, at))
    }

    /// Like [`Zeropod::due_request`], at the pod's time `now`: a host that has been polled late
    /// makes the requests of the last epochs one after the other, as each reports other arrivals.
    fn late_request(&self, now: Instant) -> Option<(u64, Instant)> {
        let present = self.epoch_at(now);
        let first = if self.gathers() && self.is_settled() {
            // One request reports the arrivals of all of them.
            if self.request_at(present) <= now { present } else { present.saturating_sub(1) }
        } else {
            present.saturating_sub(self.timing.lead)
        };
        let epoch = first.max(self.request_from);
        let at = self.request_at(epoch);
        (at <= now).then_some((epoch, at))
    }

    /// Whether a request of `epoch` may leave at `now`, with a gap before it or without: most polls
    /// are at other instants.
    fn is_slot(&self, epoch: u64, now: Instant) -> bool {
        let (start, own) = (self.start(epoch), self.pod_end.own);
        let slot = |gap| start + self.timing.request_behind(own, gap);
        now == slot(false) || now == slot(true)
    }

    /// The first request after `after` in an epoch that is not before `from`.
    pub(super) fn next_request(&self, from: u64, after: Instant) -> Instant {
        let epoch = from.max(self.epoch_at(after)).max(self.request_from);
        let at = self.request_at(epoch);
        if at > after { at } else { self.request_at(epoch + 1) }
    }

    /// The instant at which a packet that leaves at `at` is made.
    pub(super) fn made_at(&self, at: Instant) -> Instant {
        at.before(self.timing.early)
    }
}
