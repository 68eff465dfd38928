//! Rounds over all paths of a flow, each in a random order, so that every path comes up equally
//! often.

use crate::rng::Rng;

/// An endless sequence of path numbers.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    paths: u16,
    /// A bit mask that covers every path number.
    mask: u32,
    /// Position in the order, 0..=`mask` + 1.
    next: u32,
    /// The order is `next * factor + first`, masked: odd factors give each number once.
    factor: u32,
    first: u32,
}

impl Rounds {
    /// Rounds over `paths`, at least one.
    pub(super) fn new(paths: u16, rng: &mut Rng) -> Self {
        let paths = paths.max(1);
        let mask = u32::from(paths).next_power_of_two() - 1;
        let mut rounds = Self { paths, mask, next: 0, factor: 1, first: 0 };
        rounds.shuffle(rng);
        rounds
    }

    /// Draws another order: one of `mask^2 / 2` orders that take no memory, not of all
    /// permutations.
    fn shuffle(&mut self, rng: &mut Rng) {
        self.factor = rng.next_u32() | 1;
        self.first = rng.next_u32();
        self.next = 0;
    }

    /// The next path number. Numbers beyond the last path are passed over: fewer than half.
    pub(super) fn next(&mut self, rng: &mut Rng) -> u16 {
        loop {
            if self.next > self.mask {
                self.shuffle(rng);
            }
            let at = self.next.wrapping_mul(self.factor).wrapping_add(self.first) & self.mask;
            self.next += 1;
            match u16::try_from(at) {
                Ok(path) if path < self.paths => return path,
                _ => {}
            }
        }
    }

    /// The paths that follow each other.
    pub(super) const fn paths(&self) -> u16 {
        self.paths
    }
}
