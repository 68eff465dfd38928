//! Which code looks at many ports at once, chosen by what the processor can do.

use crate::shape::{LANES, Words};

/// A way to look at many ports at once. All give the same results, to the bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// 16 ToRs an instruction: AVX-512.
    Avx512,
    /// 8 ToRs an instruction: AVX2.
    Avx2,
    /// One ToR at a time, on anything.
    Scalar,
}

impl Kernel {
    /// Every kernel, the fastest first.
    pub const ALL: &'static [Self] = &[Self::Avx512, Self::Avx2, Self::Scalar];

    /// The fastest one that this processor can run.
    #[must_use]
    pub fn best() -> Self {
        Self::ALL.iter().copied().find(|kernel| kernel.is_supported()).unwrap_or(Self::Scalar)
    }

    /// The kernel called `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kernel| kernel.name() == name)
    }

    /// Whether this processor can run it.
    #[must_use]
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => crate::x86::has_avx512(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::x86::has_avx2(),
            Self::Scalar => true,
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// A short name for logs and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Scalar => "scalar",
        }
    }

    /// Runs `job` with this kernel's operations.
    ///
    /// # Panics
    /// When the processor cannot run the kernel.
    pub(crate) fn run<J: Job>(self, job: J) -> J::Out {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => crate::x86::avx512::enter(job),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::x86::avx2::enter(job),
            _ => job.run::<Scalar>(),
        }
    }
}

/// Work that is compiled once for each kernel. `run` and all that it calls with `O` is inlined, so
/// that the instructions of the kernel may be used throughout.
pub(crate) trait Job {
    type Out;

    fn run<O: Ops>(self) -> Self::Out;
}

/// The operations of a kernel. `wide` says that ToRs or Aggs beyond the 16th exist.
pub(crate) trait Ops {
    /// The ToRs below which a receiver of `row` is free and to which one of the Aggs `up` has an
    /// idle link: lanes where `up & down` and `row & free` are both not 0.
    fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32;

    /// Which of 16 or 32 bytes are `byte`.
    fn equal(bytes: &[u8], byte: u8) -> u32;

    /// Bit number `n` of those set in `mask`, as its position; `n` is below their count.
    fn nth_bit(mask: u32, n: u32) -> u32;
}

/// One lane at a time: the oracle of the others.
#[derive(Debug)]
pub(crate) struct Scalar;

impl Ops for Scalar {
    #[inline(always)]
    fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32 {
        let lanes = if wide { LANES } else { LANES / 2 };
        let mut found = 0;
        for lane in 0..lanes {
            let path = up & down.0[lane] != 0;
            let receiver = row.0[lane] & free.0[lane] != 0;
            found |= u32::from(path & receiver) << lane;
        }
        found
    }

    #[inline(always)]
    fn equal(bytes: &[u8], byte: u8) -> u32 {
        equal(bytes, byte)
    }

    #[inline(always)]
    fn nth_bit(mut mask: u32, n: u32) -> u32 {
        for _ in 0..n {
            mask &= mask.wrapping_sub(1);
        }
        mask.trailing_zeros()
    }
}

/// [`Ops::equal`] eight bytes at a time, for where no kernel is at work.
#[inline(always)]
pub(crate) fn equal(bytes: &[u8], byte: u8) -> u32 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let pattern = u64::from_le_bytes([byte; 8]);
    let mut found = 0u64;
    for (at, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let differ = u64::from_le_bytes(*eight) ^ pattern;
        // The highest bit of a byte is set where the byte is 0, that is where both are equal.
        let zero = !(((differ & LOW) + LOW) | differ | LOW);
        found |= ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 32 bytes, a bit each")]
    let found = found as u32;
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_best_kernel_is_supported_and_names_are_found_again() {
        assert!(Kernel::best().is_supported() && Kernel::Scalar.is_supported());
        for kernel in Kernel::ALL {
            assert_eq!(Kernel::by_name(kernel.name()), Some(*kernel));
        }
    }

    /// All operations on one state, as one job.
    struct All<'a>(&'a State);

    #[derive(Clone, Debug)]
    struct State {
        up: u32,
        words: [Words; 3],
        bytes: [u8; 32],
        byte: u8,
        mask: u32,
    }

    #[derive(PartialEq, Debug)]
    struct Found {
        candidates: [u32; 2],
        equal: [u32; 2],
        bits: Vec<u32>,
    }

    impl Job for All<'_> {
        type Out = Found;

        #[inline(always)]
        fn run<O: Ops>(self) -> Found {
            let State { up, words: [down, row, free], bytes, byte, mask } = self.0;
            Found {
                candidates: [false, true].map(|wide| O::candidates(*up, down, row, free, wide)),
                equal: [O::equal(bytes, *byte), O::equal(&bytes[..16], *byte)],
                bits: (0..mask.count_ones()).map(|n| O::nth_bit(*mask, n)).collect(),
            }
        }
    }

    fn sparse() -> impl Strategy<Value = u32> {
        (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(a, b, c)| a & b & c)
    }

    prop_compose! {
        fn states()(
            up in sparse(),
            words in prop::array::uniform3(prop::array::uniform32(sparse())),
            bytes in prop::array::uniform32(0u8..4),
            byte in 0u8..4,
            mask in any::<u32>(),
        ) -> State {
            State { up, words: words.map(Words), bytes, byte, mask }
        }
    }

    proptest! {
        #[test]
        fn all_kernels_agree_to_the_bit(state in states()) {
            let oracle = Kernel::Scalar.run(All(&state));
            let of_bytes = (0..32).filter(|at| state.bytes[*at] == state.byte);
            prop_assert_eq!(oracle.equal[0], of_bytes.fold(0, |mask, at| mask | 1 << at));
            let bits = (0..32).filter(|at| state.mask >> at & 1 == 1);
            prop_assert_eq!(&oracle.bits, &bits.collect::<Vec<u32>>());
            for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_supported()) {
                prop_assert_eq!(&Kernel::run(*kernel, All(&state)), &oracle, "{:?}", kernel);
            }
        }
    }
}
