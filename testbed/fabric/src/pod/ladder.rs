//! Ladders: the class of priority of a size. Class 0 goes first. Source: \[zeropod\] IV-B1.

use transport::params::words;

/// Classes at most: the bits of one word.
pub(super) const CLASSES: usize = 64;

/// Marks a demand that is not open, where its class would stand.
pub(super) const CLOSED: u8 = u8::MAX;

words! {
    /// How sizes are divided into classes.
    pub enum Ladder: "one, pias, mice or sizes" {
        /// One class: every open demand has the same priority.
        One = "one",
        /// The levels of hosts' queues: below 2.5 KB, 20 KB, 100 KB, 1 MB, and the rest.
        Pias = "pias",
        /// Four classes to a doubling from 512 bytes to 96 KiB, below 1 MB, and the rest.
        Mice = "mice",
        /// 64 classes, four to a doubling, from 512 bytes to 32 MiB: shortest remaining first.
        Sizes = "sizes",
    }
}

/// Bytes below which a size is in the first, second, ... level.
//= zeropod#IV-B
const LEVELS: [u32; 4] = [2_500, 20_000, 100_000, 1_000_000];

/// The first class of [`Ladder::Mice`] that is beyond mice, as of 96 KiB.
const MICE: u8 = 30;

/// The binary logarithm of the size at which the first quarter of a doubling begins.
const FIRST: u32 = 9;

impl Ladder {
    /// All ladders.
    pub const ALL: [Self; 4] = [Self::One, Self::Pias, Self::Mice, Self::Sizes];

    /// How many classes there are, 1 to 64.
    #[must_use]
    pub const fn classes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Pias => LEVELS.len() + 1,
            Self::Mice => MICE as usize + 2,
            Self::Sizes => CLASSES,
        }
    }

    /// The class of `bytes`.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
    pub fn class(self, bytes: u32) -> u8 {
        match self {
            Self::One => 0,
            Self::Pias => LEVELS.iter().take_while(|level| bytes >= **level).count() as u8,
            // DEVIATION(zeropod#IV-B1): the paper orders all sizes. Large demands of a size end
            // together if no size goes first among them; else the last ones leave hosts idle.
            Self::Mice => match Self::Sizes.class(bytes) {
                class if class < MICE => class,
                _ => MICE + u8::from(bytes >= LEVELS[3]),
            },
            Self::Sizes => {
                let Some(exponent) = bytes.max(1).ilog2().checked_sub(FIRST) else { return 0 };
                let quarter = (bytes >> (exponent + FIRST - 2)) & 3;
                (exponent * 4 + quarter).min(CLASSES as u32 - 1) as u8
            }
        }
    }

    /// The least number of bytes of `class`, at least 1.
    #[must_use]
    pub fn least(self, class: u8) -> u32 {
        match (self, u32::from(class)) {
            (_, 0) | (Self::One, _) => 1,
            (Self::Pias, class) => LEVELS[class as usize - 1],
            (Self::Mice, class) if class > MICE.into() => LEVELS[3],
            (Self::Mice | Self::Sizes, class) => (4 + class % 4) << (class / 4 + FIRST - 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bytes_are_never_worth_more_and_every_class_comes_up() {
        for ladder in Ladder::ALL {
            let mut last = 0;
            let mut seen = 0u64;
            for step in 0..32 * 64 {
                let bytes = 2f64.powf(f64::from(step) / 64.0);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let class = ladder.class(bytes as u32);
                assert!(class >= last && usize::from(class) < ladder.classes());
                assert_eq!(ladder.class(ladder.least(class)), class);
                assert!(class == 0 || ladder.class(ladder.least(class) - 1) < class);
                last = class;
                seen |= 1 << class;
            }
            assert_eq!(seen.count_ones() as usize, ladder.classes(), "{ladder:?}");
        }
        assert_eq!(Ladder::Sizes.class(0), 0);
        assert_eq!(Ladder::Pias.class(100_000), 3);
        assert_eq!(
            [98_303, 98_304, 999_999, 1_000_000].map(|b| Ladder::Mice.class(b)),
            [29, 30, 30, 31]
        );
    }
}
