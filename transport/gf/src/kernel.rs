//! Kernels: code that multiplies bytes, chosen by the instructions that the processor has.

use crate::portable;
use crate::products::{Coefficients, Factors, Pair, Tail};

/// A way to multiply many bytes by constants. All give the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// 64 bytes an instruction: GFNI on AVX-512.
    Gfni,
    /// 32 bytes a shuffle: AVX2.
    Avx2,
    /// A byte at a time, on anything.
    Portable,
}

impl Kernel {
    /// Every kernel, the fastest first.
    pub const ALL: &'static [Self] = &[Self::Gfni, Self::Avx2, Self::Portable];

    /// The fastest one that this processor can run.
    #[must_use]
    pub fn best() -> Self {
        Self::ALL.iter().copied().find(|kernel| kernel.is_supported()).unwrap_or(Self::Portable)
    }

    /// Whether this processor can run the kernel.
    #[must_use]
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => crate::x86::has_gfni(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::x86::has_avx2(),
            Self::Portable => true,
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// A short name for logs and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gfni => "gfni",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    /// Adds `source`, times output j's coefficient of source 0, to the front of each output. The
    /// outputs are at least as long as the source.
    pub(crate) fn add(
        self,
        coefficients: &Coefficients<'_>,
        source: &[u8],
        outputs: &mut [&mut [u8]],
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => crate::x86::gfni::add(coefficients, source, outputs),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::x86::avx2::add(coefficients, source, outputs),
            _ => {
                for (j, output) in outputs.iter_mut().enumerate() {
                    let output = &mut output[..source.len()];
                    portable::add(coefficients.at(j, 0), source, output);
                }
            }
        }
    }

    /// Sets the first `len` bytes of each output to its sum of products. Sources and outputs have
    /// that many bytes.
    pub(crate) fn combine(
        self,
        coefficients: &Coefficients<'_>,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
        len: usize,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => crate::x86::gfni::combine(coefficients, sources, outputs, len),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::x86::avx2::combine(coefficients, sources, outputs, len),
            _ => {
                for output in &mut *outputs {
                    output[..len].fill(0);
                }
                for (i, source) in sources.iter().enumerate() {
                    self.add(&coefficients.sources_from(i), &source[..len], outputs);
                }
            }
        }
    }

    /// Whether the kernel sums over pairs of neighbours.
    pub(crate) fn has_pairs(self) -> bool {
        self != Self::Portable
    }

    /// Sets the first `len` bytes of the outputs to the sum over the pairs and to that plus the
    /// difference, or to the result of the tail. All slices have that many; there is a pair at
    /// least, and the kernel [has pairs](Self::has_pairs).
    pub(crate) fn combine_pairs(
        self,
        pairs: (&[Pair<'_>], &[Factors]),
        tail: Option<&Tail<'_>>,
        outputs: &mut [&mut [u8]; 2],
        len: usize,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => crate::x86::gfni::combine_pairs(pairs, tail, outputs, len),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::x86::avx2::combine_pairs(pairs, tail, outputs, len),
            _ => unreachable!("no pairs in {self:?}"),
        }
    }

    /// Sets the first `len` bytes of the output to `beside` plus what the pairs give. The x + y of
    /// each pair is added to what the pairs after it give, and the sum is multiplied by the pair's
    /// factor. The rest is as in [`Self::combine_pairs`].
    pub(crate) fn chain_pairs(
        self,
        pairs: (&[Pair<'_>], &[u8]),
        beside: &[u8],
        output: &mut [u8],
        len: usize,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => crate::x86::gfni::chain_pairs(pairs, beside, output, len),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::x86::avx2::chain_pairs(pairs, beside, output, len),
            _ => unreachable!("no pairs in {self:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_best_kernel_is_supported_and_names_differ() {
        assert!(Kernel::best().is_supported() && Kernel::Portable.is_supported());
        let names: BTreeSet<_> = Kernel::ALL.iter().map(|kernel| kernel.name()).collect();
        assert_eq!(names.len(), Kernel::ALL.len());
    }
}
