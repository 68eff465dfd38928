//! The open demands in two lists, by age and by turn, and hints to the caches of the processor that
//! entries are used soon.
//! Source: \[zeropod\] IV-B1; turns are ours.

use zerocopy::FromZeros;

use super::{Demands, MatrixEntry, To};

/// The neighbours of an open demand in a list; [`NIL`] at its ends.
#[derive(Clone, Copy, PartialEq, Eq, FromZeros, Debug)]
#[repr(C)]
pub(super) struct Neighbours {
    before: u32,
    after: u32,
}

/// The first and the last demand of a list; [`NIL`] while it is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListEnds {
    first: u32,
    last: u32,
}

/// An order of the open demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DemandOrder {
    /// By the epoch of opening, the oldest first.
    Age,
    /// By the epoch of opening, or of the last [sending back](Demands::send_back).
    Turn,
}

pub(super) const ORDERS: [DemandOrder; 2] = [DemandOrder::Age, DemandOrder::Turn];
const NIL: u32 = u32::MAX;
pub(super) const NO_ENDS: ListEnds = ListEnds { first: NIL, last: NIL };

impl Demands {
    /// The open demands in an order.
    pub fn in_order(&self, order: DemandOrder) -> impl Iterator<Item = (usize, To)> + '_ {
        let step = |at: u32| (at != NIL).then_some(at);
        let next = move |at: &u32| step(self.slots[*at as usize].places[order as usize].after);
        let places = core::iter::successors(step(self.ends[order as usize].first), next);
        places.map(|at| self.demand(at as usize))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "entries are below 2^21")]
    pub(super) fn link(&mut self, index: usize, order: DemandOrder) {
        let order = order as usize;
        let ListEnds { first, last } = &mut self.ends[order];
        self.slots[index].places[order] = Neighbours { before: *last, after: NIL };
        match *last {
            NIL => *first = index as u32,
            last => self.slots[last as usize].places[order].after = index as u32,
        }
        *last = index as u32;
    }

    #[inline]
    pub(super) fn unlink(&mut self, index: usize, order: DemandOrder) {
        let order = order as usize;
        let Neighbours { before, after } = self.slots[index].places[order];
        match before {
            NIL => self.ends[order].first = after,
            before => self.slots[before as usize].places[order].after = after,
        }
        match after {
            NIL => self.ends[order].last = before,
            after => self.slots[after as usize].places[order].before = before,
        }
    }

    /// Puts an open demand, which is served in `epoch`, behind all others in the order of turns.
    pub fn send_back(&mut self, sender: usize, to: To, epoch: u32) {
        let index = self.index(sender, to);
        if self.slots[index].backlog > 0 {
            self.slots[index].served = epoch;
            self.unlink(index, DemandOrder::Turn);
            self.link(index, DemandOrder::Turn);
        }
    }

    /// Has the entry of a demand brought into the cache, if there is one: matrices of a large pod
    /// are larger than the first caches, and entries are used in no order.
    #[inline]
    pub(in crate::pod) fn prefetch(&self, sender: usize, to: To) {
        if self.has(sender, to) {
            prefetch_entry(&self.slots[self.index(sender, to)]);
        }
    }

    /// Has what else changes when a demand closes brought into the cache.
    #[inline]
    pub(in crate::pod) fn prefetch_neighbours(&self, sender: usize, to: To) {
        for Neighbours { before, after } in self.slots[self.index(sender, to)].places {
            for neighbour in [before, after] {
                if let Some(slot) = self.slots.get(neighbour as usize) {
                    prefetch_entry(slot);
                }
            }
        }
    }
}

/// Asks for an entry, which may be in two lines, to be brought into the cache.
#[inline]
fn prefetch_entry(entry: &MatrixEntry) {
    prefetch(&entry.asked);
    prefetch(&entry.places[1]);
}

/// Asks for the line of `place` to be brought into the cache.
#[inline]
fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    crate::pod::x86::prefetch(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
