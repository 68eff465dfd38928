//! A queue of flows, by their places in the slab, in which each place stands at most once.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Places that wait, first in, first out. A place keeps its turn when another flow takes it over.
#[derive(Clone, Debug)]
pub(super) struct PlaceQueue {
    waiting: VecDeque<u32>,
    /// Which places wait: a bit a place.
    waits: Vec<u64>,
}

/// The bits of a word.
const WORD: usize = u64::BITS as usize;

impl PlaceQueue {
    /// An empty queue of places below `places`.
    pub(super) fn new(places: usize) -> Self {
        let waits = vec![0; places.div_ceil(WORD)];
        Self { waiting: VecDeque::with_capacity(places), waits }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts `place` at the end, unless it waits already.
    #[inline]
    pub(super) fn push(&mut self, place: usize) {
        let (word, bit) = (place / WORD, 1 << (place % WORD));
        if self.waits[word] & bit == 0 {
            self.waits[word] |= bit;
            #[expect(clippy::cast_possible_truncation, reason = "slab indices have 32 bits")]
            self.waiting.push_back(place as u32);
        }
    }

    /// Takes the first place out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        let place = self.waiting.pop_front()? as usize;
        self.waits[place / WORD] &= !(1 << (place % WORD));
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_waits_once_and_again_after_its_turn() {
        let mut queue = PlaceQueue::new(130);
        for place in [129, 0, 129, 64, 0] {
            queue.push(place);
        }
        assert_eq!((queue.pop(), queue.pop()), (Some(129), Some(0)));
        queue.push(129);
        queue.push(64);
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(64), Some(129), None));
        assert!(queue.is_empty());
    }
}
