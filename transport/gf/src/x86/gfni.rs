//! GFNI on 512-bit vectors: one instruction multiplies 64 bytes by a constant, given as a matrix of
//! bits. Source: \[gfni\].

use core::arch::x86_64::{
    __m512i, __mmask64, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};
use core::array::from_fn;
use core::ops::Range;

use super::{GROUP, SOURCES, column, column_mut};
use crate::field::BIT_MATRICES;
use crate::kernel::Coefficients;

const WIDTH: usize = 64;
/// Columns, in vectors, when one, two or more outputs are computed at once: as many as registers
/// hold the sums of.
const ONE: usize = 4;
const TWO: usize = 4;
const FOUR: usize = 2;

entries!(super::has_gfni);

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

/// As many of the first 64 bytes as the slice has.
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
fn spread(coefficient: u8) -> __m512i {
    _mm512_set1_epi64(BIT_MATRICES[usize::from(coefficient)].cast_signed())
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn add_to<const N: usize>(mut outputs: [&mut [u8]; N], rows: Coefficients<'_>, source: &[u8]) {
    let mut matrices = [_mm512_setzero_si512(); N];
    for (j, matrix) in matrices.iter_mut().enumerate() {
        *matrix = spread(rows.at(j, 0));
    }
    let step = WIDTH * TWO;
    let mut at = 0;
    while at + step <= source.len() {
        let vectors = column::<WIDTH, TWO>(source, at);
        for (output, matrix) in outputs.iter_mut().zip(matrices) {
            let places = column_mut::<WIDTH, TWO>(output, at);
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

/// Columns of `U` vectors: every source is read once, the sums stay in registers.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_into<const N: usize, const U: usize>(
    mut outputs: [&mut [u8]; N],
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    len: usize,
) {
    let mut matrices = [[0_u64; N]; SOURCES];
    for (i, matrices) in matrices.iter_mut().enumerate().take(sources.len()) {
        *matrices = from_fn(|j| BIT_MATRICES[usize::from(rows.at(j, i))]);
    }
    let step = WIDTH * U;
    let mut at = 0;
    while at + step <= len {
        let mut sums = [[_mm512_setzero_si512(); U]; N];
        for (source, matrices) in sources.iter().zip(&matrices) {
            let vectors = column::<WIDTH, U>(source, at);
            for (sums, matrix) in sums.iter_mut().zip(matrices) {
                let matrix = _mm512_set1_epi64(matrix.cast_signed());
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = _mm512_xor_si512(*sum, product(matrix, load(vector)));
                }
            }
        }
        for (output, sums) in outputs.iter_mut().zip(sums) {
            for (place, sum) in column_mut::<WIDTH, U>(output, at).iter_mut().zip(sums) {
                store(place, sum);
            }
        }
        at += step;
    }
    combine_end(outputs, rows, sources, at..len);
}

/// What is left after the last whole column.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_end<const N: usize>(
    mut outputs: [&mut [u8]; N],
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    mut rest: Range<usize>,
) {
    while !rest.is_empty() {
        let column = rest.start..rest.end.min(rest.start + WIDTH);
        let mut sums = [_mm512_setzero_si512(); N];
        for (i, source) in sources.iter().enumerate() {
            let vector = load_end(&source[column.clone()]);
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_xor_si512(*sum, product(spread(rows.at(j, i)), vector));
            }
        }
        for (output, sum) in outputs.iter_mut().zip(sums) {
            store_end(&mut output[column.clone()], sum);
        }
        rest.start = column.end;
    }
}

/// The exclusive or of three.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn plus(one: __m512i, two: __m512i, three: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(one, two, three)
}

/// Two neighbouring sources and what [`combine_pair`] multiplies them by.
struct Pair<'a> {
    x: &'a [[u8; WIDTH]; TWO],
    y: &'a [[u8; WIDTH]; TWO],
    a: __m512i,
    both: __m512i,
}

impl<'a> Pair<'a> {
    /// Of the columns at byte `at`.
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn new([x, y]: [&'a [u8]; 2], [a, both]: [u64; 2], at: usize) -> Self {
        let spread = |matrix: u64| _mm512_set1_epi64(matrix.cast_signed());
        Self { x: column(x, at), y: column(y, at), a: spread(a), both: spread(both) }
    }

    /// Of vector `u`: the two terms of the sum and that of the difference.
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn terms(&self, u: usize) -> [__m512i; 3] {
        let y = load(&self.y[u]);
        let xy = _mm512_xor_si512(load(&self.x[u]), y);
        [product(self.a, xy), product(self.both, y), product(self.both, xy)]
    }
}

/// Two outputs that exchange neighbours: of data packets x and y they take ax + by and bx + ay,
/// which is a(x + y) + (a + b)y, and that plus (a + b)(x + y). Three products instead of four.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_pair(
    [first, second]: [&mut [u8]; 2],
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    len: usize,
) {
    let mut matrices = [[0_u64; 2]; SOURCES / 2];
    let matrices = &mut matrices[..sources.len() / 2];
    for (i, matrices) in matrices.iter_mut().enumerate() {
        let (a, b) = (rows.at(0, 2 * i), rows.at(0, 2 * i + 1));
        *matrices = [a, a ^ b].map(|factor| BIT_MATRICES[usize::from(factor)]);
    }
    let step = WIDTH * TWO;
    let mut at = 0;
    while at + step <= len {
        let mut sums = [_mm512_setzero_si512(); TWO];
        let mut differences = [_mm512_setzero_si512(); TWO];
        let (fours, rest) = sources.as_chunks::<4>();
        let (matrices_of_fours, matrices) = matrices.as_chunks::<2>();
        for ([a, b, c, d], [one, two]) in fours.iter().zip(matrices_of_fours) {
            let (one, two) = (Pair::new([a, b], *one, at), Pair::new([c, d], *two, at));
            for u in 0..TWO {
                let (one, two) = (one.terms(u), two.terms(u));
                sums[u] = plus(plus(sums[u], one[0], one[1]), two[0], two[1]);
                differences[u] = plus(differences[u], one[2], two[2]);
            }
        }
        if let ([a, b], [last, ..]) = (rest, matrices) {
            let last = Pair::new([a, b], *last, at);
            for u in 0..TWO {
                let last = last.terms(u);
                sums[u] = plus(sums[u], last[0], last[1]);
                differences[u] = _mm512_xor_si512(differences[u], last[2]);
            }
        }
        let firsts = column_mut::<WIDTH, TWO>(first, at);
        let seconds = column_mut::<WIDTH, TWO>(second, at);
        for u in 0..TWO {
            store(&mut firsts[u], sums[u]);
            store(&mut seconds[u], _mm512_xor_si512(sums[u], differences[u]));
        }
        at += step;
    }
    combine_end([first, second], rows, sources, at..len);
}
