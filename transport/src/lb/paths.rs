//! A set of a flow's paths: one bit a path, so that a search among all of them takes a few words.

/// Words of the bitmap.
const WORDS: usize = Paths::MAX as usize / 64;

/// [`Paths::MAX`], as a literal that texts can have.
macro_rules! paths_max {
    () => {
        256
    };
}
pub(super) use paths_max;

/// A set of path numbers, each below [`Paths::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Paths([u64; WORDS]);

const _: () = assert!(WORDS * 64 == Paths::MAX as usize);

impl Paths {
    /// Numbers that a set can hold.
    pub(super) const MAX: u16 = paths_max!();

    /// The numbers below `count`, which is at most [`Paths::MAX`].
    pub(super) fn below(count: u16) -> Self {
        let mut words = [0; WORDS];
        let mut left = count;
        for word in &mut words {
            *word = if left < 64 { (1 << left) - 1 } else { u64::MAX };
            left = left.saturating_sub(64);
        }
        Self(words)
    }

    pub(super) fn has(&self, path: u16) -> bool {
        self.0[usize::from(path / 64)] & 1 << (path % 64) != 0
    }

    pub(super) fn insert(&mut self, path: u16) {
        self.0[usize::from(path / 64)] |= 1 << (path % 64);
    }

    pub(super) fn remove(&mut self, path: u16) {
        self.0[usize::from(path / 64)] &= !(1 << (path % 64));
    }

    /// Adds the paths of `more`.
    pub(super) fn insert_all(&mut self, more: &Self) {
        self.0.iter_mut().zip(more.0).for_each(|(word, more)| *word |= more);
    }

    /// Takes the paths of `others` out.
    pub(super) fn remove_all(&mut self, others: &Self) {
        self.0.iter_mut().zip(others.0).for_each(|(word, others)| *word &= !others);
    }

    /// Takes all paths out that `others` lacks.
    pub(super) fn keep_all(&mut self, others: &Self) {
        self.0.iter_mut().zip(others.0).for_each(|(word, others)| *word &= others);
    }

    /// Takes out the paths of `others` that it has, and adds those that it lacks.
    pub(super) fn toggle_all(&mut self, others: &Self) {
        self.0.iter_mut().zip(others.0).for_each(|(word, others)| *word ^= others);
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first path of the set at `start`, below [`Paths::MAX`], or behind it; path 0 follows the
    /// last. `None` of an empty set. O(1): each word is read once, that of `start` twice.
    pub(super) fn next_from(&self, start: u16) -> Option<u16> {
        let ahead = u64::MAX << (start % 64);
        let first = usize::from(start / 64);
        for step in 0..=WORDS {
            let place = (first + step) % WORDS;
            let bits = self.0[place]
                & match step {
                    0 => ahead,
                    WORDS => !ahead,
                    _ => u64::MAX,
                };
            if bits != 0 {
                return u16::try_from(place * 64 + bits.trailing_zeros() as usize).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeSet;

    /// Up to `count` paths drawn into a set and into its model.
    fn drawn(count: usize, rng: &mut Rng) -> (Paths, BTreeSet<u16>) {
        let draw = |_| u16::try_from(rng.below(256)).unwrap();
        let model: BTreeSet<u16> = (0..count).map(draw).collect();
        let mut paths = Paths::default();
        model.iter().for_each(|path| paths.insert(*path));
        (paths, model)
    }

    #[test]
    fn a_set_has_what_was_put_in_and_not_taken_out() {
        let mut rng = Rng::new(1);
        for count in [0, 1, 5, 100, 1000] {
            let ((mut one, a), (two, b)) = (drawn(count, &mut rng), drawn(count / 2, &mut rng));
            let is = |paths: &Paths, model: &BTreeSet<u16>| {
                (0..Paths::MAX).all(|path| paths.has(path) == model.contains(&path))
                    && usize::try_from(paths.count()).unwrap() == model.len()
                    && paths.is_empty() == model.is_empty()
            };
            assert!(is(&one, &a) && is(&two, &b));
            let mut both = one;
            both.insert_all(&two);
            assert!(is(&both, &a.union(&b).copied().collect()));
            let (mut shared, mut either) = (one, one);
            shared.keep_all(&two);
            assert!(is(&shared, &a.intersection(&b).copied().collect()));
            either.toggle_all(&two);
            assert!(is(&either, &a.symmetric_difference(&b).copied().collect()));
            both.remove_all(&two);
            assert!(is(&both, &a.difference(&b).copied().collect()));
            for path in &b {
                one.remove(*path);
            }
            assert_eq!(one, both);
        }
    }

    #[test]
    fn the_next_path_is_at_the_start_or_the_first_behind_it() {
        let mut rng = Rng::new(2);
        for count in [0, 1, 2, 10, 200, 2000] {
            let (paths, model) = drawn(count, &mut rng);
            for start in 0..Paths::MAX {
                let next = model.range(start..).chain(&model).next().copied();
                assert_eq!(paths.next_from(start), next, "{start} of {model:?}");
            }
        }
    }

    #[test]
    fn the_paths_below_a_number_are_that_many() {
        for count in 0..=Paths::MAX {
            let paths = Paths::below(count);
            assert_eq!(paths.count(), u32::from(count));
            assert!((0..Paths::MAX).all(|path| paths.has(path) == (path < count)));
        }
    }
}
