//! 256-bit vectors: the words of 8 ToRs.

use core::arch::x86_64::*;

use crate::pod::ops::{Mass, NO_PLACE};
use crate::pod::shape::{LANES, Words};

super::kernel! {
    Avx2 if has_avx2, "the processor has no AVX2", "avx2,bmi1,bmi2,popcnt,lzcnt"
}

/// The instructions of [`super::lanes!`].
mod lanes {
    pub(super) use core::arch::x86_64::{
        _mm256_add_ps as add_ps, _mm256_and_si256 as and, _mm256_castps_si256 as to_bits,
        _mm256_castsi256_ps as from_bits, _mm256_cvtepi32_ps as to_floats,
        _mm256_cvttps_epi32 as to_ints, _mm256_div_ps as div_ps, _mm256_loadu_ps as load_ps,
        _mm256_loadu_si256 as load_bits, _mm256_mul_ps as mul_ps, _mm256_or_si256 as or,
        _mm256_set1_epi32 as all, _mm256_set1_ps as all_ps, _mm256_slli_epi32 as shift_left,
        _mm256_srli_epi32 as shift_right, _mm256_storeu_ps as store_ps,
        _mm256_storeu_si256 as store_bits, _mm256_sub_epi32 as sub, _mm256_sub_ps as sub_ps,
        _mm256_xor_si256 as xor,
    };
}

super::lanes! { 8 x __m256i, __m256, "avx2" }

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

/// Vectors of a word for each ToR.
#[inline(always)]
fn vectors(wide: bool) -> usize {
    if wide { LANES / 8 } else { LANES / 16 }
}

/// How many bits are set in each lane.
#[target_feature(enable = "avx2")]
#[inline]
fn popcnt(words: __m256i) -> __m256i {
    let table = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3,
        3, 4,
    );
    let nibbles = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(words, nibbles));
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(words), nibbles);
    let bytes = _mm256_add_epi8(low, _mm256_shuffle_epi8(table, high));
    let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1));
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

#[target_feature(enable = "avx2")]
#[inline]
fn count(row: &Words, free: &Words, counts: &mut Words, wide: bool) {
    let (row, free) = (row.0.as_chunks().0, free.0.as_chunks().0);
    for (at, counts) in counts.0.as_chunks_mut().0.iter_mut().enumerate().take(vectors(wide)) {
        let both = _mm256_and_si256(load(&row[at]), load(&free[at]));
        store(counts, _mm256_add_epi32(load(counts), popcnt(both)));
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn places(
    left: &mut Words,
    mass: &mut Mass,
    (down, agg): (&Words, u32),
    lanes: &mut Words,
    out: &mut Words,
    wide: bool,
) {
    let bit = _mm256_set1_epi32((1u32 << agg).cast_signed());
    let zero = _mm256_setzero_si256();
    let down = down.0.as_chunks().0;
    for (at, down) in down.iter().enumerate().take(vectors(wide)) {
        let left = &mut left.0.as_chunks_mut().0[at];
        let mass = &mut mass.0.as_chunks_mut().0[at];
        let lanes = &mut lanes.0.as_chunks_mut().0[at];
        let bits = xorshift(load(lanes));
        store(lanes, bits);
        let (count, weight) = (load(left), load_mass(mass));
        let closed = _mm256_cmpeq_epi32(_mm256_and_si256(load(down), bit), zero);
        let closed = _mm256_or_si256(closed, _mm256_cmpeq_epi32(count, zero));
        let place = place(count, weight, bits);
        let hit = _mm256_cmp_ps::<_CMP_LT_OQ>(place, _mm256_set1_ps(1.0));
        let hit = _mm256_andnot_si256(closed, _mm256_castps_si256(hit));
        let none = _mm256_set1_epi32(NO_PLACE.cast_signed());
        let places = _mm256_blendv_epi8(none, _mm256_castps_si256(place), hit);
        store(&mut out.0.as_chunks_mut().0[at], places);
        // A lane of all ones is -1.
        store(left, _mm256_add_epi32(count, hit));
        let taken = _mm256_blendv_ps(_mm256_set1_ps(1.0), place, _mm256_castsi256_ps(hit));
        let after = _mm256_sub_ps(weight, taken);
        store_mass(mass, _mm256_blendv_ps(after, weight, _mm256_castsi256_ps(closed)));
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn first(places: &Words, held: &Words, wide: bool) -> Option<(usize, u32)> {
    let (places, held) = (places.0.as_chunks().0, held.0.as_chunks().0);
    let mut below = [_mm256_set1_epi32(NO_PLACE.cast_signed()); LANES / 8];
    let mut least = below[0];
    for at in 0..vectors(wide) {
        let (place, held) = (load(&places[at]), load(&held[at]));
        // A lane is not below where it equals the greater of the two.
        let not = _mm256_cmpeq_epi32(_mm256_max_epu32(place, held), place);
        below[at] = _mm256_or_si256(place, not);
        least = _mm256_min_epu32(least, below[at]);
    }
    let four = _mm_min_epu32(_mm256_castsi256_si128(least), _mm256_extracti128_si256::<1>(least));
    let two = _mm_min_epu32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_min_epu32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    let least = _mm_cvtsi128_si32(one);
    if least.cast_unsigned() == NO_PLACE {
        return None;
    }
    let mut found = 0;
    for (at, below) in below.iter().enumerate().take(vectors(wide)) {
        let same = _mm256_cmpeq_epi32(*below, _mm256_set1_epi32(least));
        let same = _mm256_movemask_ps(_mm256_castsi256_ps(same)).cast_unsigned();
        found |= same << (8 * at);
    }
    Some((found.trailing_zeros() as usize, least.cast_unsigned()))
}
