//! The only source of random numbers: one named generator, forked per component.
//!
//! The generator is PCG XSL RR 128/64 (`rand_pcg::Pcg64`, O'Neill 2014); its stream is fixed by its
//! definition, so results do not change with a library version. Forking by label gives each
//! component a stream of its own: adding a component never shifts another's draws.

use rand_core::RngCore as _;
use rand_pcg::Pcg64;

/// A deterministic stream of chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    inner: Pcg64,
    /// Names this stream for [`Rng::fork`]; not touched by draws.
    key: u64,
}

impl Rng {
    /// The root stream of a run.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from_key(mix(seed ^ 0x9E37_79B9_7F4A_7C15))
    }

    /// The stream of component `label` number `index`: a function of this stream's name only, not
    /// of how much has been drawn from it.
    #[must_use]
    pub fn fork(&self, label: &str, index: u64) -> Self {
        let named = label.bytes().fold(self.key, |key, byte| mix(key ^ u64::from(byte)));
        Self::from_key(mix(named ^ mix(index.wrapping_add(0xD1B5_4A32_D192_ED03))))
    }

    /// The name of this stream: [`Rng::from_name`] gives the stream from its start.
    #[must_use]
    pub const fn name(&self) -> u64 {
        self.key
    }

    /// The stream with this [`Rng::name`].
    #[must_use]
    pub fn from_name(name: u64) -> Self {
        Self::from_key(name)
    }

    fn from_key(key: u64) -> Self {
        let state = u128::from(mix(key)) << 64 | u128::from(mix(key ^ 1));
        let stream = u128::from(mix(key ^ 2)) << 64 | u128::from(mix(key ^ 3));
        Self { inner: Pcg64::new(state, stream), key }
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }

    /// 32 uniform bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.inner.next_u64() >> 32) as u32
    }

    /// Uniform in `0..n`; 0 when `n` is 0. By multiplication (Lemire 2019) without the rejection:
    /// the bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`, 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p` (clamped to 0..=1). Draws only when the answer is open.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.next_f64() < p)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that scatters every bit.
#[must_use]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_pinned_so_that_a_library_update_cannot_change_results() {
        let mut rng = Rng::new(1);
        let drawn = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(drawn, PINNED, "{drawn:#x?}");
    }

    const PINNED: [u64; 3] = [0xC748_003F_2D5C_F71C, 0x44B4_C3EE_EED2_422B, 0xB7E4_0C47_3CE7_BFEA];

    #[test]
    fn forks_depend_on_names_and_not_on_draws() {
        let mut root = Rng::new(7);
        let before = root.fork("host", 3);
        root.next_u64();
        assert_eq!(before, root.fork("host", 3));
        assert_ne!(before, root.fork("host", 4));
        assert_ne!(before, root.fork("port", 3));
    }

    #[test]
    fn a_stream_is_found_again_by_its_name() {
        let fork = Rng::new(7).fork("host", 3);
        assert_eq!(Rng::from_name(fork.name()), fork);
    }

    #[test]
    fn below_stays_below_and_covers_the_range() {
        let mut rng = Rng::new(2);
        let mut seen = [false; 7];
        for _ in 0..500 {
            seen[usize::try_from(rng.below(7)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(rng.below(0), 0);
    }
}
