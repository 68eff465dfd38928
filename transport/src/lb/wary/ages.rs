//! How long each path of a flow has had no answer, in epochs: three bits a path.

use crate::lb::paths::Paths;

/// A count for each path: 0 where nothing was sent since the last answer; else 1, and one more for
/// each epoch that has begun since the first packet after that answer. It stops at [`Ages::MAX`].
#[derive(Clone, Debug, Default)]
pub(super) struct Ages {
    /// The paths whose count has bit `i`, for each `i`: so a step for all paths takes a few words.
    bits: [Paths; 3],
}

impl Ages {
    /// The count of a silent path: no answer for [`Ages::MAX`] - 2 whole epochs at least.
    pub(super) const MAX: u8 = 7;

    /// Counts a packet on `path`.
    #[inline]
    pub(super) fn send_on(&mut self, path: u16) {
        if !self.is_waiting(path) {
            self.bits[0].insert(path);
        }
    }

    /// `path` has answered.
    #[inline]
    pub(super) fn answer(&mut self, path: u16) {
        self.bits.iter_mut().for_each(|bit| bit.remove(path));
    }

    /// Begins an epoch.
    pub(super) fn begin_epoch(&mut self) {
        let mut carry = self.waiting();
        carry.remove_all(&self.silent());
        for bit in &mut self.bits {
            let mut next = *bit;
            next.keep_all(&carry);
            bit.toggle_all(&carry);
            carry = next;
        }
    }

    #[inline]
    fn is_waiting(&self, path: u16) -> bool {
        self.bits.iter().any(|bit| bit.has(path))
    }

    /// Whether the count of `path` is [`Ages::MAX`].
    #[inline]
    pub(super) fn is_silent(&self, path: u16) -> bool {
        self.bits.iter().all(|bit| bit.has(path))
    }

    /// The paths that have had no answer since a packet was sent.
    pub(super) fn waiting(&self) -> Paths {
        let [mut waiting, more @ ..] = self.bits;
        more.iter().for_each(|bit| waiting.insert_all(bit));
        waiting
    }

    /// The paths whose count is [`Ages::MAX`].
    pub(super) fn silent(&self) -> Paths {
        let [mut silent, more @ ..] = self.bits;
        more.iter().for_each(|bit| silent.keep_all(bit));
        silent
    }

    /// The paths whose count is above 4: no answer for three whole epochs at least.
    pub(super) fn late(&self) -> Paths {
        let [mut late, second, third] = self.bits;
        late.insert_all(&second);
        late.keep_all(&third);
        late
    }

    /// Takes silent paths for paths on which nothing was sent.
    pub(super) fn forget_silent(&mut self) {
        let silent = self.silent();
        self.bits.iter_mut().for_each(|bit| bit.remove_all(&silent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_count_grows_by_one_an_epoch_up_to_the_most() {
        let mut rng = Rng::new(3);
        let (mut ages, mut model) = (Ages::default(), [0; Paths::MAX as usize]);
        for round in 0..2000 {
            let path = u16::try_from(rng.below(u64::from(Paths::MAX))).unwrap();
            let count = &mut model[usize::from(path)];
            if rng.below(3) == 0 {
                ages.answer(path);
                *count = 0;
            } else {
                ages.send_on(path);
                *count = Ord::max(*count, 1);
            }
            if round % 40 == 0 {
                ages.begin_epoch();
                for count in model.iter_mut().filter(|count| **count > 0) {
                    *count = Ord::min(*count + 1, Ages::MAX);
                }
            }
            if round % 500 == 0 {
                ages.forget_silent();
                model.iter_mut().filter(|count| **count == Ages::MAX).for_each(|count| *count = 0);
            }
            let (waiting, late, silent) = (ages.waiting(), ages.late(), ages.silent());
            for (path, count) in (0..).zip(model) {
                assert_eq!((waiting.has(path), ages.is_waiting(path)), (count > 0, count > 0));
                assert_eq!(late.has(path), count > 4);
                let is_silent = count == Ages::MAX;
                assert_eq!((silent.has(path), ages.is_silent(path)), (is_silent, is_silent));
            }
        }
        assert!(model.contains(&Ages::MAX) && model.contains(&1) && model.contains(&0));
    }
}
