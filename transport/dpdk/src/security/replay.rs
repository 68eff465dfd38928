//! The numbers for which a derived key has been used, as a receiver sees them, in a window. Each
//! number is accepted once, in any order, as far back as the window reaches (RFC 6479's ring of
//! words).

/// Numbers behind the highest that are still distinguished: 8 MB of full segments, which is more
/// than the paths of a flow differ by.
pub(super) const WINDOW: u64 = (WORDS as u64 - 1) * 64;
const WORDS: usize = 33;

/// The numbers received.
#[derive(Debug)]
pub(super) struct ReplayWindow {
    /// One above the highest received.
    next: u64,
    /// Bit n % 64 of word n / 64 % [`WORDS`]: number n has been received.
    words: [u64; WORDS],
}

impl ReplayWindow {
    pub(super) const fn new() -> Self {
        Self { next: 0, words: [0; WORDS] }
    }

    /// Whether `number` is new: neither received, nor too old to say.
    #[inline]
    pub(super) fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        self.next - number <= WINDOW && self.words[word_of(number)] & bit_of(number) == 0
    }

    /// Takes `number`, which is new.
    #[inline]
    pub(super) fn take(&mut self, number: u64) {
        if number >= self.next {
            // Words that the window moves to hold bits of numbers that it leaves. The one with the
            // highest number so far is in use.
            let in_use = self.next.div_ceil(64);
            let until = number / 64 + 1;
            let first = in_use.max(until.saturating_sub(WORDS as u64));
            // At most once round.
            for word in first..until {
                self.words[word_of(word * 64)] = 0;
            }
            self.next = number + 1;
        }
        self.words[word_of(number)] |= bit_of(number);
    }
}

#[inline]
fn word_of(number: u64) -> usize {
    usize::try_from(number / 64 % WORDS as u64).unwrap_or(0)
}

#[inline]
const fn bit_of(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The oracle keeps every number.
        #[test]
        fn each_number_is_new_once_and_old_ones_never(
            steps in proptest::collection::vec((0_u64..6000, any::<bool>()), 1..400)
        ) {
            let mut window = ReplayWindow::new();
            let mut seen = BTreeSet::new();
            let mut base = 0_u64;
            for (step, ahead) in steps {
                let number = if ahead { base + step } else { base.saturating_sub(step) };
                let highest = seen.last().copied();
                let old = highest.is_some_and(|highest: u64| highest + 1 > number + WINDOW);
                prop_assert_eq!(window.is_new(number), !old && !seen.contains(&number));
                if window.is_new(number) {
                    window.take(number);
                    seen.insert(number);
                    prop_assert!(!window.is_new(number));
                }
                base = base.max(number);
            }
        }
    }
}
