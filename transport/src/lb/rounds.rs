//! Rounds over all paths of a flow, each in a random order, so that every path comes up equally
//! often. Source: \[ndp\] sec. 3.

use crate::rng::Rng;

/// An endless sequence of path numbers.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    paths: u16,
    /// A bit mask that covers every path number.
    mask: u16,
    /// The order is `next * factor + first`, masked: odd factors give each number once.
    factor: u16,
    first: u16,
    /// Position in the order, 0..=`mask` + 1.
    next: u32,
}

impl Rounds {
    /// Rounds over `paths`, at least one.
    pub(super) fn new(paths: u16, rng: &mut Rng) -> Self {
        let paths = paths.max(1);
        let mask = u32::from(paths).next_power_of_two() - 1;
        let mask = u16::try_from(mask).unwrap_or(u16::MAX);
        let mut rounds = Self { paths, mask, next: 0, factor: 1, first: 0 };
        rounds.shuffle(rng);
        rounds
    }

    /// Draws another order: one of `mask^2 / 2` orders that take no memory, not of all
    /// permutations.
    fn shuffle(&mut self, rng: &mut Rng) {
        let mut draw = || u16::try_from(rng.next_u32() & u32::from(u16::MAX)).unwrap_or(0);
        self.factor = draw() | 1;
        self.first = draw();
        self.next = 0;
    }

    /// Begins the order of this round again.
    pub(super) fn again(&mut self) {
        self.next = 0;
    }

    /// The next path number. Numbers beyond the last path are passed over: at most `mask` of them
    /// in one call, and less than one a call in the mean of a round.
    pub(super) fn next(&mut self, rng: &mut Rng) -> u16 {
        loop {
            if self.next > u32::from(self.mask) {
                //= ndp#sec3
                self.shuffle(rng);
            }
            let step = self.next.wrapping_mul(u32::from(self.factor));
            let at = step.wrapping_add(u32::from(self.first)) & u32::from(self.mask);
            self.next += 1;
            match u16::try_from(at) {
                Ok(path) if path < self.paths => return path,
                _ => {}
            }
        }
    }

    /// Paths of a round, above zero.
    pub(super) const fn paths(&self) -> u16 {
        self.paths
    }
}
