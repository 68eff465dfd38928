//! Which PSNs of a flow have arrived: a sliding bitmap.
//!
//! Bound: `window` PSNs from the first missing one; a power of two, at least 64, so that the 64-PSN
//! word an ACK reports lies in one word of the ring.

use alloc::boxed::Box;
use alloc::vec;

use crate::units::Psn;

/// Bitmap of arrived PSNs. Words are a ring addressed by `psn / 64`.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedPsns {
    words: Box<[u64]>,
    /// The first PSN that has not arrived.
    next: Psn,
}

/// What [`ReceivedPsns::insert`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    New,
    Duplicate,
    OutOfWindow,
}

impl ReceivedPsns {
    /// Nothing has arrived; PSNs count from 0.
    ///
    /// # Panics
    /// When `window` is not a power of two of at least 128 (two words, so that the word of the
    /// first missing PSN is never also the word of the last admitted one).
    pub(crate) fn new(window: u32) -> Self {
        assert!(window.is_power_of_two() && window >= 128);
        let words = usize::try_from(window / 64).unwrap_or(usize::MAX);
        Self { words: vec![0; words].into_boxed_slice(), next: Psn(0) }
    }

    /// Forgets everything; no allocation.
    pub(crate) fn reset(&mut self) {
        self.words.fill(0);
        self.next = Psn(0);
    }

    /// Every PSN before this has arrived.
    pub(crate) fn cumulative(&self) -> Psn {
        self.next
    }

    /// Notes that `psn` arrived. Amortised O(1): each word is passed once.
    pub(crate) fn insert(&mut self, psn: Psn) -> Arrival {
        let ahead = psn.distance_from(self.next);
        if ahead < 0 {
            return Arrival::Duplicate;
        }
        // The word that `next` stands in is still in use, so one word less than the ring is open.
        if ahead.unsigned_abs() >= self.window() - 64 {
            return Arrival::OutOfWindow;
        }
        let (word, bit) = self.place(psn);
        if self.words[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.words[word] |= bit;
        self.advance();
        Arrival::New
    }

    /// True when `psn` has arrived already.
    pub(crate) fn contains(&self, psn: Psn) -> bool {
        let ahead = psn.distance_from(self.next);
        let (word, bit) = self.place(psn);
        ahead < 0 || (ahead.unsigned_abs() < self.window() - 64 && self.words[word] & bit != 0)
    }

    /// The 64 PSNs of the aligned word that `psn` lies in; bits before `cumulative` are set.
    pub(crate) fn word_of(&self, psn: Psn) -> u64 {
        let base = Psn(psn.0 & !63);
        let below = self.next.distance_from(base);
        if below >= 64 {
            return u64::MAX;
        }
        let known = if below > 0 { (1u64 << below) - 1 } else { 0 };
        if base.distance_from(self.next) >= 0
            && base.distance_from(self.next).unsigned_abs() >= self.window() - 64
        {
            return 0;
        }
        self.words[self.place(psn).0] | known
    }

    /// Moves `next` over what has arrived, clearing the words left behind.
    fn advance(&mut self) {
        loop {
            let (word, _) = self.place(self.next);
            let offset = self.next.0 & 63;
            let run = (self.words[word] >> offset).trailing_ones();
            self.next = self.next.plus(run);
            if offset + run < 64 {
                return;
            }
            self.words[word] = 0;
        }
    }

    fn window(&self) -> u32 {
        u32::try_from(self.words.len() * 64).unwrap_or(u32::MAX)
    }

    fn place(&self, psn: Psn) -> (usize, u64) {
        let word = (psn.0 / 64) as usize & (self.words.len() - 1);
        (word, 1 << (psn.0 & 63))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec(0u32..400, 1..600)) {
            let mut subject = ReceivedPsns::new(256);
            let mut oracle = BTreeSet::new();
            let mut floor = 0u32;
            for step in steps {
                let psn = floor.saturating_sub(100) + step;
                let want = if oracle.contains(&psn) {
                    Arrival::Duplicate
                } else if psn >= floor + 192 {
                    Arrival::OutOfWindow
                } else {
                    oracle.insert(psn);
                    Arrival::New
                };
                prop_assert_eq!(subject.insert(Psn(psn)), want);
                while oracle.contains(&floor) {
                    floor += 1;
                }
                prop_assert_eq!(subject.cumulative(), Psn(floor));
                prop_assert_eq!(subject.contains(Psn(psn)), oracle.contains(&psn));
                let base = psn & !63;
                let set = (0..64).filter(|i| oracle.contains(&(base + i)));
                let word = set.fold(0, |word, i| word | 1u64 << i);
                prop_assert_eq!(subject.word_of(Psn(psn)), word);
            }
        }
    }

    #[test]
    fn the_window_slides_over_the_wrap_of_the_psn() {
        let mut subject = ReceivedPsns::new(128);
        subject.next = Psn(u32::MAX - 2);
        for step in 0..6 {
            assert_eq!(subject.insert(Psn(u32::MAX - 2).plus(step)), Arrival::New);
        }
        assert_eq!(subject.cumulative(), Psn(3));
        assert_eq!(subject.insert(Psn(u32::MAX)), Arrival::Duplicate);
    }
}
