//! GFNI on 512-bit vectors: one instruction multiplies 64 bytes by a constant, given as a matrix of
//! bits. Source: \[gfni\].

use core::arch::x86_64::{
    __m512i, __mmask64, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};
use core::ops::Range;

use super::pairs::{Columns, columns_of, pair_kernels, together, together_mut};
use super::{GROUP, column, column_mut};
use crate::field::BIT_MATRICES;
use crate::products::{Coefficients, Factors, Pair, Tail};

type Vector = __m512i;
/// A matrix of bits in each eight bytes.
type Factor = __m512i;

const WIDTH: usize = 64;
/// Columns, in vectors, when one, two or more outputs are computed at once: as many as registers
/// hold the sums of.
const ONE: usize = 2;
const TWO: usize = 2;
const FOUR: usize = 1;
/// Columns, in vectors, when two outputs are computed over pairs.
const AT_ONCE: usize = 2;
/// Columns, in vectors, where one source is added to what outputs hold.
const ADDED: usize = 4;

entries!(super::has_gfni);
pair_kernels!("avx512f,avx512bw,gfni");

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn load(bytes: &[u8; WIDTH]) -> __m512i {
    // SAFETY: reads the 64 bytes of the array; no alignment is needed.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn store(bytes: &mut [u8; WIDTH], vector: __m512i) {
    // SAFETY: writes the 64 bytes of the array; no alignment is needed.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}

/// The lanes of the first `len` bytes, at most 64.
fn lanes(len: usize) -> __mmask64 {
    if len >= WIDTH { __mmask64::MAX } else { (1 << len) - 1 }
}

/// The first 64 bytes, zeros beyond the end.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn load_end(bytes: &[u8]) -> __m512i {
    // SAFETY: reads the lanes that the slice has bytes for.
    unsafe { _mm512_maskz_loadu_epi8(lanes(bytes.len()), bytes.as_ptr().cast()) }
}

/// Stores the first bytes of a vector: all 64, or as many as a shorter slice has.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn store_end(bytes: &mut [u8], vector: __m512i) {
    // SAFETY: writes the lanes that the slice has bytes for.
    unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), lanes(bytes.len()), vector) }
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn product(matrix: __m512i, vector: __m512i) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(vector, matrix)
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn factor(coefficient: u8) -> __m512i {
    _mm512_set1_epi64(BIT_MATRICES[usize::from(coefficient)].cast_signed())
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn add_to<const N: usize>(mut outputs: [&mut [u8]; N], rows: &Coefficients<'_>, source: &[u8]) {
    let mut matrices = [_mm512_setzero_si512(); N];
    for (j, matrix) in matrices.iter_mut().enumerate() {
        *matrix = factor(rows.at(j, 0));
    }
    let step = WIDTH * ADDED;
    let mut at = 0;
    while at + step <= source.len() {
        let vectors = column::<WIDTH, ADDED>(source, at);
        for (output, matrix) in outputs.iter_mut().zip(matrices) {
            let places = column_mut::<WIDTH, ADDED>(output, at);
            for (place, vector) in places.iter_mut().zip(vectors) {
                let sum = _mm512_xor_si512(load(place), product(matrix, load(vector)));
                store(place, sum);
            }
        }
        at += step;
    }
    while at < source.len() {
        let column = at..source.len().min(at + WIDTH);
        let vector = load_end(&source[column.clone()]);
        for (output, matrix) in outputs.iter_mut().zip(matrices) {
            let place = &mut output[column.clone()];
            store_end(place, _mm512_xor_si512(load_end(place), product(matrix, vector)));
        }
        at = column.end;
    }
}

/// The sums of all sources, some at a time, as many as have their matrices in registers.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_into<const N: usize, const U: usize>(
    mut outputs: [&mut [u8]; N],
    rows: &Coefficients<'_>,
    sources: &[&[u8]],
    len: usize,
) {
    let (whole, mut rest) = (len - len % (WIDTH * U), sources);
    while !rest.is_empty() {
        let first = rest.len() == sources.len();
        let rows = &rows.sources_from(sources.len() - rest.len());
        rest = if let Some((some, rest)) = rest.split_first_chunk::<8>() {
            combine_some::<N, U, 8>(&mut outputs, rows, some, (whole, first));
            rest
        } else if let Some((some, rest)) = rest.split_first_chunk::<4>() {
            combine_some::<N, U, 4>(&mut outputs, rows, some, (whole, first));
            rest
        } else if let Some((some, rest)) = rest.split_first_chunk::<1>() {
            combine_some::<N, U, 1>(&mut outputs, rows, some, (whole, first));
            rest
        } else {
            rest
        };
    }
    combine_end(outputs, rows, sources, whole..len);
}

/// Writes the sums of `S` sources to the outputs when they are the `first`; else adds them. `len`
/// is whole columns of `U` vectors.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_some<const N: usize, const U: usize, const S: usize>(
    outputs: &mut [&mut [u8]; N],
    rows: &Coefficients<'_>,
    sources: &[&[u8]; S],
    (len, first): (usize, bool),
) {
    let mut matrices = [[_mm512_setzero_si512(); N]; S];
    for (i, matrices) in matrices.iter_mut().enumerate() {
        for (j, matrix) in matrices.iter_mut().enumerate() {
            *matrix = factor(rows.at(j, i));
        }
    }
    let inputs = together::<WIDTH, U, S>(*sources, len);
    let mut outputs = together_mut::<WIDTH, U, N>(outputs, len);
    for at in 0..inputs[0].len() {
        let mut sums = [[_mm512_setzero_si512(); U]; N];
        if !first {
            for (sums, places) in sums.iter_mut().zip(&outputs) {
                for (sum, place) in sums.iter_mut().zip(&places[at]) {
                    *sum = load(place);
                }
            }
        }
        let (twos, rest) = inputs.as_chunks::<2>();
        for (i, [a, b]) in twos.iter().enumerate() {
            for u in 0..U {
                let (a, b) = (load(&a[at][u]), load(&b[at][u]));
                for j in 0..N {
                    let (by_a, by_b) = (matrices[2 * i][j], matrices[2 * i + 1][j]);
                    sums[j][u] = plus_two(sums[j][u], product(by_a, a), product(by_b, b));
                }
            }
        }
        for last in rest {
            for (u, last) in last[at].iter().enumerate() {
                for j in 0..N {
                    let product = product(matrices[S - 1][j], load(last));
                    sums[j][u] = _mm512_xor_si512(sums[j][u], product);
                }
            }
        }
        for (places, sums) in outputs.iter_mut().zip(sums) {
            for (place, sum) in places[at].iter_mut().zip(sums) {
                store(place, sum);
            }
        }
    }
}

/// Combines the bytes after the last whole column.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_end<const N: usize>(
    mut outputs: [&mut [u8]; N],
    rows: &Coefficients<'_>,
    sources: &[&[u8]],
    mut rest: Range<usize>,
) {
    while !rest.is_empty() {
        let column = rest.start..rest.end.min(rest.start + WIDTH);
        let mut sums = [_mm512_setzero_si512(); N];
        for (i, source) in sources.iter().enumerate() {
            let vector = load_end(&source[column.clone()]);
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_xor_si512(*sum, product(factor(rows.at(j, i)), vector));
            }
        }
        for (output, sum) in outputs.iter_mut().zip(sums) {
            store_end(&mut output[column.clone()], sum);
        }
        rest.start = column.end;
    }
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn zero() -> __m512i {
    _mm512_setzero_si512()
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn plus(one: __m512i, two: __m512i) -> __m512i {
    _mm512_xor_si512(one, two)
}

/// The exclusive or of three.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn plus_two(one: __m512i, two: __m512i, three: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(one, two, three)
}

/// The parts of a vector that a product takes: all of it.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn parts(vector: __m512i) -> __m512i {
    vector
}
