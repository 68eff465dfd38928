//! Which PSNs of a flow have arrived: a sliding bitmap.
//!
//! Bound: a window of PSNs from the first missing one; a power of two, at least 128, so that the
//! 64-PSN word an ACK reports lies in one word of the ring. The ring is lent to every call: while
//! nothing has arrived out of order it holds nothing, and a flow can do without it.

use crate::units::Psn;

/// The position of the bitmap. Words are a ring addressed by `psn / 64`; bits of PSNs before `next`
/// may be set or not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceivedPsns {
    /// The first PSN that has not arrived.
    next: Psn,
    /// How many PSNs after `next` have arrived.
    ahead: u32,
}

/// The result of [`ReceivedPsns::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Insertion {
    New,
    Duplicate,
    OutOfWindow,
}

impl ReceivedPsns {
    /// Every PSN before this has arrived.
    #[inline]
    pub(crate) fn cumulative(&self) -> Psn {
        self.next
    }

    /// True when a later PSN than `psn`, which has not arrived, has arrived. O(words from the first
    /// missing PSN to `psn`) when PSNs are missing, else O(1).
    #[inline]
    pub(crate) fn is_overtaken(&self, words: &[u64], psn: Psn) -> bool {
        self.ahead != 0 && self.is_behind_a_later(words, psn)
    }

    /// [`ReceivedPsns::is_overtaken`] while PSNs are missing.
    fn is_behind_a_later(&self, words: &[u64], psn: Psn) -> bool {
        let ahead = psn.distance_from(self.next);
        if ahead < 0 || ahead.unsigned_abs() >= open_window(words) {
            return false;
        }
        let mut before = 0;
        let mut at = self.next;
        // Bounded by the window.
        while psn.distance_from(at) > 0 {
            let (word, first) = place(words, at);
            let base = Psn(at.0 & !63);
            let end = psn.distance_from(base).unsigned_abs();
            let below = if end < 64 { (1 << end) - 1 } else { u64::MAX };
            before += (words[word] & below & !(first - 1)).count_ones();
            at = base.plus(64);
        }
        before < self.ahead
    }

    /// True when nothing has arrived out of order, so that the ring is not needed.
    #[inline]
    pub(crate) fn is_gapless(&self) -> bool {
        self.ahead == 0
    }

    /// Notes that `psn` arrived. Amortised O(1): each word is passed once.
    ///
    /// `words` has a power of two of at least two words, so that the word of the first missing PSN
    /// is never also the word of the last admitted one.
    #[inline]
    pub(crate) fn insert(&mut self, words: &mut [u64], psn: Psn) -> Insertion {
        let ahead = psn.distance_from(self.next);
        if ahead < 0 {
            return Insertion::Duplicate;
        }
        // The word that `next` stands in is still in use, so one word less than the ring is open.
        if ahead.unsigned_abs() >= open_window(words) {
            return Insertion::OutOfWindow;
        }
        let (word, bit) = place(words, psn);
        if words[word] & bit != 0 {
            return Insertion::Duplicate;
        }
        words[word] |= bit;
        self.ahead += 1;
        if ahead == 0 {
            self.advance(words);
        }
        Insertion::New
    }

    /// True when `psn` has arrived already.
    #[inline]
    pub(crate) fn contains(&self, words: &[u64], psn: Psn) -> bool {
        let ahead = psn.distance_from(self.next);
        if ahead < 0 || self.ahead == 0 {
            return ahead < 0;
        }
        let (word, bit) = place(words, psn);
        ahead.unsigned_abs() < open_window(words) && words[word] & bit != 0
    }

    /// The 64 PSNs of the aligned word that `psn` lies in; bits before `cumulative` are set.
    #[inline]
    pub(crate) fn word_of(&self, words: &[u64], psn: Psn) -> u64 {
        let base = Psn(psn.0 & !63);
        let below = self.next.distance_from(base);
        if below >= 64 {
            return u64::MAX;
        }
        let known = if below > 0 { (1u64 << below) - 1 } else { 0 };
        let beyond = below <= 0 && below.unsigned_abs() >= open_window(words);
        if self.ahead == 0 || beyond { known } else { words[place(words, psn).0] | known }
    }

    /// The PSNs among the `packets` from `first` on that have arrived, as a bitmap; at most 64.
    pub(crate) fn bits_of(&self, words: &[u64], first: Psn, packets: u8) -> u64 {
        (0..packets).fold(0, |bits, packet| {
            let psn = first.plus(u32::from(packet));
            bits | u64::from(self.contains(words, psn)) << packet
        })
    }

    /// Moves `next` over PSNs that have arrived, and clears the words left behind.
    fn advance(&mut self, words: &mut [u64]) {
        loop {
            let (word, _) = place(words, self.next);
            let offset = self.next.0 & 63;
            let run = (words[word] >> offset).trailing_ones();
            self.next = self.next.plus(run);
            self.ahead -= run;
            if offset + run < 64 {
                return;
            }
            words[word] = 0;
        }
    }

    /// Clears the rest of the ring, which holds nothing of use when gapless.
    pub(crate) fn wipe(&self, words: &mut [u64]) {
        if self.is_gapless() {
            let (word, _) = place(words, self.next);
            words[word] = 0;
        } else {
            words.fill(0);
        }
    }
}

/// How far behind the first missing PSN another PSN may be, so that both have words of their own.
fn open_window(words: &[u64]) -> u32 {
    u32::try_from(words.len() * 64).unwrap_or(u32::MAX).saturating_sub(64)
}

fn place(words: &[u64], psn: Psn) -> (usize, u64) {
    let word = (psn.0 / 64) as usize & (words.len() - 1);
    (word, 1 << (psn.0 & 63))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec(0u32..400, 1..600)) {
            let mut subject = ReceivedPsns::default();
            let mut words = [0; 4];
            let mut oracle = BTreeSet::new();
            let mut floor = 0u32;
            for step in steps {
                let psn = floor.saturating_sub(100) + step;
                if psn < floor + 192 && !oracle.contains(&psn) {
                    let overtaken = oracle.last().is_some_and(|last| *last > psn);
                    prop_assert_eq!(subject.is_overtaken(&words, Psn(psn)), overtaken);
                }
                let want = if oracle.contains(&psn) {
                    Insertion::Duplicate
                } else if psn >= floor + 192 {
                    Insertion::OutOfWindow
                } else {
                    oracle.insert(psn);
                    Insertion::New
                };
                prop_assert_eq!(subject.insert(&mut words, Psn(psn)), want);
                while oracle.contains(&floor) {
                    floor += 1;
                }
                prop_assert_eq!(subject.cumulative(), Psn(floor));
                prop_assert_eq!(subject.contains(&words, Psn(psn)), oracle.contains(&psn));
                prop_assert_eq!(subject.is_gapless(), oracle.last().is_none_or(|l| *l < floor));
                if subject.is_gapless() {
                    subject.wipe(&mut words);
                    prop_assert_eq!(words, [0; 4]);
                }
                let base = psn & !63;
                let set = (0..64).filter(|i| oracle.contains(&(base + i)));
                let word = set.fold(0, |word, i| word | 1u64 << i);
                prop_assert_eq!(subject.word_of(&words, Psn(psn)), word);
                let set = (0..17).filter(|i| oracle.contains(&(psn + i)));
                let bits = set.fold(0, |bits, i| bits | 1u64 << i);
                prop_assert_eq!(subject.bits_of(&words, Psn(psn), 17), bits);
            }
        }
    }

    #[test]
    fn the_window_slides_over_the_wrap_of_the_psn() {
        let mut subject = ReceivedPsns { next: Psn(u32::MAX - 2), ahead: 0 };
        let mut words = [0; 2];
        for step in 0..6 {
            assert_eq!(subject.insert(&mut words, Psn(u32::MAX - 2).plus(step)), Insertion::New);
        }
        assert_eq!(subject.cumulative(), Psn(3));
        assert_eq!(subject.insert(&mut words, Psn(u32::MAX)), Insertion::Duplicate);
    }
}
