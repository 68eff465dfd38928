//! 256-bit vectors: the words of 8 ToRs.

use core::arch::x86_64::{
    __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8, _mm256_and_si256,
    _mm256_castsi256_ps, _mm256_cmpeq_epi8, _mm256_cmpeq_epi32, _mm256_loadu_si256,
    _mm256_movemask_epi8, _mm256_movemask_ps, _mm256_or_si256, _mm256_set1_epi8, _mm256_set1_epi32,
    _mm256_setzero_si256, _pdep_u32,
};

use crate::kernel::{Job, Ops};
use crate::shape::{LANES, Words};

/// The operations. Used inside [`enter`] alone.
#[derive(Debug)]
pub(crate) struct Avx2;

/// Runs `job` with the features of this kernel.
///
/// # Panics
/// When the processor lacks one.
pub(crate) fn enter<J: Job>(job: J) -> J::Out {
    assert!(super::has_avx2(), "the processor has no AVX2");
    // SAFETY: the processor has every feature of `inside`, as the line above made sure.
    unsafe { inside(job) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn inside<J: Job>(job: J) -> J::Out {
    job.run::<Avx2>()
}

impl Ops for Avx2 {
    #[inline(always)]
    fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32 {
        // SAFETY: only `inside` runs jobs with these operations, and it has the features.
        unsafe { candidates(up, down, row, free, wide) }
    }

    #[inline(always)]
    fn equal(bytes: &[u8], byte: u8) -> u32 {
        // SAFETY: as in `candidates`.
        unsafe { equal(bytes, byte) }
    }

    #[inline(always)]
    fn nth_bit(mask: u32, n: u32) -> u32 {
        // SAFETY: as in `candidates`.
        unsafe { nth_bit(mask, n) }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: reads the 32 bytes of the array; no alignment is needed.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32 {
    let up = _mm256_set1_epi32(up.cast_signed());
    let zero = _mm256_setzero_si256();
    let (down, row, free) = (down.0.as_chunks().0, row.0.as_chunks().0, free.0.as_chunks().0);
    let mut found = 0;
    for at in 0..if wide { LANES / 8 } else { LANES / 16 } {
        let path = _mm256_and_si256(up, load(&down[at]));
        let receiver = _mm256_and_si256(load(&row[at]), load(&free[at]));
        let no_path = _mm256_cmpeq_epi32(path, zero);
        let none = _mm256_or_si256(no_path, _mm256_cmpeq_epi32(receiver, zero));
        let none = _mm256_movemask_ps(_mm256_castsi256_ps(none)).cast_unsigned();
        found |= (none ^ 0xFF) << (8 * at);
    }
    found
}

#[target_feature(enable = "avx2")]
#[inline]
fn equal(bytes: &[u8], byte: u8) -> u32 {
    if let Some(bytes) = bytes.first_chunk::<32>() {
        // SAFETY: reads the 32 bytes of the array; no alignment is needed.
        let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        let same = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte.cast_signed()));
        return _mm256_movemask_epi8(same).cast_unsigned();
    }
    let bytes = bytes.first_chunk::<16>().expect("16 or 32 bytes");
    // SAFETY: reads the 16 bytes of the array; no alignment is needed.
    let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let same = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()));
    _mm_movemask_epi8(same).cast_unsigned()
}

#[target_feature(enable = "bmi1,bmi2")]
#[inline]
pub(super) fn nth_bit(mask: u32, n: u32) -> u32 {
    _pdep_u32(1 << n, mask).trailing_zeros()
}
