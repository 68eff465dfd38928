//! 512-bit vectors: the words of 16 ToRs.

use core::arch::x86_64::{
    __m512i, _mm_cmpeq_epi8_mask, _mm_loadu_si128, _mm_set1_epi8, _mm256_cmpeq_epi8_mask,
    _mm256_loadu_si256, _mm256_set1_epi8, _mm512_loadu_si512, _mm512_mask_test_epi32_mask,
    _mm512_set1_epi32, _mm512_test_epi32_mask,
};

use crate::kernel::{Job, Ops};
use crate::shape::{LANES, Words};

/// The operations. Used inside [`enter`] alone.
#[derive(Debug)]
pub(crate) struct Avx512;

/// Runs `job` with the features of this kernel.
///
/// # Panics
/// When the processor lacks one.
pub(crate) fn enter<J: Job>(job: J) -> J::Out {
    assert!(super::has_avx512(), "the processor has no AVX-512");
    // SAFETY: the processor has every feature of `inside`, as the line above made sure.
    unsafe { inside(job) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn inside<J: Job>(job: J) -> J::Out {
    job.run::<Avx512>()
}

impl Ops for Avx512 {
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
        unsafe { super::avx2::nth_bit(mask, n) }
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load(words: &[u32; 16]) -> __m512i {
    // SAFETY: reads the 64 bytes of the array; no alignment is needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Lanes 0..16 and 16..32.
#[inline(always)]
fn halves(words: &Words) -> [&[u32; 16]; 2] {
    let (halves, _) = words.0.as_chunks::<{ LANES / 2 }>();
    [&halves[0], &halves[1]]
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32 {
    let up = _mm512_set1_epi32(up.cast_signed());
    let (down, row, free) = (halves(down), halves(row), halves(free));
    let half = |at: usize| {
        let path = _mm512_test_epi32_mask(up, load(down[at]));
        u32::from(_mm512_mask_test_epi32_mask(path, load(row[at]), load(free[at])))
    };
    if wide { half(0) | half(1) << 16 } else { half(0) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn equal(bytes: &[u8], byte: u8) -> u32 {
    if let Some(bytes) = bytes.first_chunk::<32>() {
        // SAFETY: reads the 32 bytes of the array; no alignment is needed.
        let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        return _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8(byte.cast_signed()));
    }
    let bytes = bytes.first_chunk::<16>().expect("16 or 32 bytes");
    // SAFETY: reads the 16 bytes of the array; no alignment is needed.
    let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    u32::from(_mm_cmpeq_epi8_mask(bytes, _mm_set1_epi8(byte.cast_signed())))
}
