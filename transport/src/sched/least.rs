//! Flows ordered by rank, the least first: a binary heap that also has the place of every flow.

use alloc::vec;
use alloc::vec::Vec;

/// A priority, lower first, and what decides between flows of one priority.
pub(super) type Rank = (u32, u64);

/// Slab indices of flows, each at most once, ordered by their ranks and then by the indices.
#[derive(Clone, Debug)]
pub(super) struct Least {
    /// Ranks by slab index; meaningless for an index that is not in the heap.
    ranks: Vec<Rank>,
    /// Positions in `heap` by slab index; [`OUT`] for an index that is not there.
    positions: Vec<u32>,
    /// A binary heap of slab indices: none ranks before its parent.
    heap: Vec<u32>,
}

/// The position of an index that is not in the heap.
const OUT: u32 = u32::MAX;

impl Least {
    /// An empty order of slab indices below `flows`.
    pub(super) fn new(flows: usize) -> Self {
        Self {
            ranks: vec![(0, 0); flows],
            positions: vec![OUT; flows],
            heap: Vec::with_capacity(flows),
        }
    }

    /// The index of the least rank.
    pub(super) fn first(&self) -> Option<usize> {
        self.heap.first().map(|index| *index as usize)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Puts `index` in with `rank`, or gives it another rank.
    pub(super) fn set(&mut self, index: usize, rank: Rank) {
        self.ranks[index] = rank;
        let mut at = self.positions[index] as usize;
        if at == OUT as usize {
            at = self.heap.len();
            self.heap.push(u32::try_from(index).unwrap_or(OUT));
            self.positions[index] = u32::try_from(at).unwrap_or(OUT);
        }
        self.settle(at);
    }

    /// Takes `index` out, if it is in.
    pub(super) fn remove(&mut self, index: usize) {
        let at = core::mem::replace(&mut self.positions[index], OUT);
        if at == OUT {
            return;
        }
        self.heap.swap_remove(at as usize);
        if let Some(moved) = self.heap.get(at as usize) {
            self.positions[*moved as usize] = at;
            self.settle(at as usize);
        }
    }

    /// Moves what is at `at` up or down until the order holds. Bounded by the depth of the heap.
    fn settle(&mut self, mut at: usize) {
        while at > 0 && self.is_before(at, (at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|at| *at < self.heap.len());
            let least = children.min_by_key(|child| self.rank(*child));
            let Some(child) = least.filter(|child| self.is_before(*child, at)) else { return };
            self.swap(at, child);
            at = child;
        }
    }

    fn rank(&self, at: usize) -> (Rank, u32) {
        (self.ranks[self.heap[at] as usize], self.heap[at])
    }

    fn is_before(&self, at: usize, other: usize) -> bool {
        self.rank(at) < self.rank(other)
    }

    fn swap(&mut self, at: usize, other: usize) {
        self.heap.swap(at, other);
        for place in [at, other] {
            self.positions[self.heap[place] as usize] = u32::try_from(place).unwrap_or(OUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeSet;

    #[test]
    fn the_first_is_the_least_of_those_that_are_in() {
        let mut rng = Rng::new(3);
        let mut least = Least::new(40);
        let mut oracle: BTreeSet<(Rank, usize)> = BTreeSet::new();
        for _ in 0..20_000 {
            let index = usize::try_from(rng.below(40)).unwrap();
            oracle.retain(|(_, other)| *other != index);
            if rng.chance(0.4) {
                least.remove(index);
            } else {
                let rank = (rng.next_u32() % 3, rng.below(10));
                least.set(index, rank);
                oracle.insert((rank, index));
            }
            assert_eq!(least.first(), oracle.first().map(|(_, index)| *index));
            assert_eq!(least.is_empty(), oracle.is_empty());
        }
    }
}
