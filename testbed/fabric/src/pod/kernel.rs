//! Kernels: code that examines many ports at once, chosen by the instructions that the processor
//! has.

use crate::pod::ops::{KernelJob, Scalar};

/// A way to examine many ports at once. All kernels give the same results, to the bit.
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

    /// Whether this processor can run the kernel.
    #[must_use]
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => crate::pod::x86::has_avx512(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::pod::x86::has_avx2(),
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
    pub(super) fn run<J: KernelJob>(self, job: J) -> J::Out {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => crate::pod::x86::avx512::enter(job),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::pod::x86::avx2::enter(job),
            _ => job.run::<Scalar>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pod::ops::*;
    use crate::pod::shape::{LANES, Words};

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
        drawn: Vec<(Words, Mass, Words, Words, Words)>,
        first: [Option<(usize, u32)>; 2],
    }

    impl KernelJob for All<'_> {
        type Out = Found;

        #[inline(always)]
        fn run<O: Ops>(self) -> Found {
            let State { up, words: [down, row, free], bytes, byte, mask } = self.0;
            Found {
                candidates: [false, true].map(|wide| O::candidates(*up, down, row, free, wide)),
                equal: [O::equal(bytes, *byte), O::equal(&bytes[..16], *byte)],
                bits: (0..mask.count_ones()).map(|n| O::nth_bit(*mask, n)).collect(),
                drawn: [false, true].map(|wide| drawn::<O>(self.0, wide)).concat(),
                first: [false, true].map(|wide| O::first(row, free, wide)),
            }
        }
    }

    /// Places at several Aggs, one after the other, and all that they are drawn from.
    #[inline(always)]
    fn drawn<O: Ops>(state: &State, wide: bool) -> Vec<(Words, Mass, Words, Words, Words)> {
        let State { up, words: [down, row, free], mask, .. } = state;
        let mut counts = Words([0; LANES]);
        O::count(row, free, &mut counts, wide);
        O::count(down, free, &mut counts, wide);
        let mut mass = Mass(counts.0.map(|count| 1.0 + (count % 32) as f32));
        let (mut left, mut lanes, mut out) =
            (counts, Words(row.0.map(|word| word | 1)), Words::ZERO);
        O::advance(&mut lanes, mask % 64, wide);
        let mut moved_on = lanes;
        O::advance(&mut moved_on, up.count_ones(), wide);
        let mut all = Vec::new();
        for agg in (0..32).filter(|agg| up >> agg & 1 == 1) {
            O::places(&mut left, &mut mass, (down, agg), &mut lanes, &mut out, wide);
            all.push((left, mass, lanes, out, counts));
        }
        assert_eq!(lanes, moved_on, "as many numbers as calls");
        all
    }

    #[test]
    fn the_first_request_is_where_many_draws_put_it() {
        let mut chance = crate::pod::Chance::new(5);
        for (count, paths) in [(1u32, 1u32), (1, 4), (3, 2), (7, 3), (40, 16), (1000, 32)] {
            let mut means = [0.0f64; 2];
            let mut hits = [0u32; 2];
            const RUNS: u32 = 20_000;
            for _ in 0..RUNS {
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let drawn = place(count, paths as f32, chance.below(u32::MAX));
                if drawn < 1.0 {
                    hits[0] += 1;
                    means[0] += f64::from(drawn);
                }
                let at_this = (0..count).filter(|_| chance.below(paths) == 0).count();
                let ties =
                    (0..at_this).map(|_| f64::from(chance.below(1 << 30)) / f64::from(1 << 30));
                if let Some(first) = ties.min_by(f64::total_cmp) {
                    hits[1] += 1;
                    means[1] += first;
                }
            }
            let share = hits.map(|hits| f64::from(hits) / f64::from(RUNS));
            assert!((share[0] - share[1]).abs() < 0.02, "{count} {paths}: {share:?}");
            let mean = [means[0] / f64::from(hits[0]), means[1] / f64::from(hits[1])];
            assert!((mean[0] / mean[1] - 1.0).abs() < 0.04, "{count} {paths}: {mean:?}");
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
