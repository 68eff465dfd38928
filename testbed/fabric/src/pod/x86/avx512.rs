//! 512-bit vectors: the words of 16 ToRs.

use core::arch::x86_64::*;

use super::avx2::nth_bit;
use crate::pod::ops::{Mass, NO_PLACE};
use crate::pod::shape::{LANES, Words};

super::kernel! {
    Avx512 if has_avx512, "the processor has no AVX-512",
    "avx2,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq"
}

/// The instructions of [`super::lanes!`].
mod lanes {
    pub(super) use core::arch::x86_64::{
        _mm512_add_ps as add_ps, _mm512_and_si512 as and, _mm512_castps_si512 as to_bits,
        _mm512_castsi512_ps as from_bits, _mm512_cvtepi32_ps as to_floats,
        _mm512_cvttps_epi32 as to_ints, _mm512_div_ps as div_ps, _mm512_loadu_ps as load_ps,
        _mm512_loadu_si512 as load_bits, _mm512_mul_ps as mul_ps, _mm512_or_si512 as or,
        _mm512_set1_epi32 as all, _mm512_set1_ps as all_ps, _mm512_slli_epi32 as shift_left,
        _mm512_srli_epi32 as shift_right, _mm512_storeu_ps as store_ps,
        _mm512_storeu_si512 as store_bits, _mm512_sub_epi32 as sub, _mm512_sub_ps as sub_ps,
        _mm512_xor_si512 as xor,
    };
}

super::lanes! { 16 x __m512i, __m512, "avx512f" }

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

#[target_feature(enable = "avx512f,avx512vpopcntdq")]
#[inline]
fn count(row: &Words, free: &Words, counts: &mut Words, wide: bool) {
    let (row, free) = (halves(row), halves(free));
    for (at, counts) in
        counts.0.as_chunks_mut().0.iter_mut().enumerate().take(1 + usize::from(wide))
    {
        let both = _mm512_and_si512(load(row[at]), load(free[at]));
        store(counts, _mm512_add_epi32(load(counts), _mm512_popcnt_epi32(both)));
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn places(
    left: &mut Words,
    mass: &mut Mass,
    (down, agg): (&Words, u32),
    lanes: &mut Words,
    out: &mut Words,
    wide: bool,
) {
    let bit = _mm512_set1_epi32((1u32 << agg).cast_signed());
    let down = halves(down);
    for (at, down) in down.into_iter().enumerate().take(1 + usize::from(wide)) {
        let left = &mut left.0.as_chunks_mut().0[at];
        let mass = &mut mass.0.as_chunks_mut().0[at];
        let lanes = &mut lanes.0.as_chunks_mut().0[at];
        let bits = xorshift(load(lanes));
        store(lanes, bits);
        let (count, weight) = (load(left), load_mass(mass));
        let open = _mm512_test_epi32_mask(load(down), bit);
        let open = _mm512_mask_test_epi32_mask(open, count, count);
        let place = place(count, weight, bits);
        let hit = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(open, place, _mm512_set1_ps(1.0));
        let none = _mm512_set1_epi32(NO_PLACE.cast_signed());
        let places = _mm512_mask_mov_epi32(none, hit, _mm512_castps_si512(place));
        store(&mut out.0.as_chunks_mut().0[at], places);
        store(left, _mm512_mask_sub_epi32(count, hit, count, _mm512_set1_epi32(1)));
        let taken = _mm512_mask_mov_ps(_mm512_set1_ps(1.0), hit, place);
        store_mass(mass, _mm512_mask_sub_ps(weight, open, weight, taken));
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn first(places: &Words, held: &Words, wide: bool) -> Option<(usize, u32)> {
    let (places, held) = (halves(places), halves(held));
    let none = _mm512_set1_epi32(NO_PLACE.cast_signed());
    let below = |at: usize| {
        let place = load(places[at]);
        let below = _mm512_cmplt_epu32_mask(place, load(held[at]));
        _mm512_mask_mov_epi32(none, below, place)
    };
    let low = below(0);
    let high = if wide { below(1) } else { none };
    let least = _mm512_reduce_min_epu32(_mm512_min_epu32(low, high));
    if least == NO_PLACE {
        return None;
    }
    let same = _mm512_set1_epi32(least.cast_signed());
    let low = u32::from(_mm512_cmpeq_epi32_mask(low, same));
    let high = u32::from(_mm512_cmpeq_epi32_mask(high, same));
    Some(((low | high << 16).trailing_zeros() as usize, least))
}
