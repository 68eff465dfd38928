//! Random numbers for one decision: the SplitMix64 stream that the caller's seed names. Draws are
//! in hot loops, so a draw is one addition and one finaliser. Source: \[splitmix\], \[lemire\].

use transport::rng::mix;

/// A stream of chance.
#[derive(Clone, Debug)]
pub struct Chance(u64);

//= splitmix#sec3
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Chance {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 uniform bits.
    #[inline(always)]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `0..n`; the bias is below n / 2^32.
    #[inline(always)]
    pub const fn below(&mut self, n: u32) -> u32 {
        scale((self.next() >> 32) as u32, n)
    }
}

/// `bits` brought to `0..n` by multiplication.
//= lemire#sec4
#[inline(always)]
pub(super) const fn scale(bits: u32, n: u32) -> u32 {
    ((bits as u64 * n as u64) >> 32) as u32
}

/// Puts `items` in a random order.
#[inline(always)]
pub(super) fn shuffle<T>(items: &mut [T], chance: &mut Chance) {
    for at in (1..items.len()).rev() {
        #[expect(clippy::cast_possible_truncation, reason = "hosts and demands are below 2^32")]
        let other = chance.below(at as u32 + 1);
        items.swap(at, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_up_equally_often() {
        let mut chance = Chance::new(7);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            let mut order = [0usize, 1, 2];
            shuffle(&mut order, &mut chance);
            let at = order[0] * 2 + usize::from(order[1] > order[2]);
            seen[at] += 1;
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
    }
}
