//! GFNI on 512-bit vectors: one instruction multiplies 64 bytes by a constant, given as a matrix of
//! bits. Source: \[gfni\].

use core::arch::x86_64::{
    __m512i, __mmask64, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};
use core::ops::Range;

use super::{GROUP, column, column_mut};
use crate::field::BIT_MATRICES;
use crate::kernel::Coefficients;

const WIDTH: usize = 64;
/// Columns, in vectors, when one, two or more outputs are computed at once: as many as registers
/// hold the sums of.
const ONE: usize = 2;
const TWO: usize = 2;
const FOUR: usize = 1;
/// The same where one source is added to what outputs hold.
const ADDED: usize = 4;

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
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    len: usize,
) {
    let (whole, mut rest) = (len - len % (WIDTH * U), sources);
    while !rest.is_empty() {
        let first = rest.len() == sources.len();
        let rows = rows.sources_from(sources.len() - rest.len());
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

/// Columns of `U` vectors. All slices have one length then, which takes the checks of bounds out of
/// the loops.
type Columns<const U: usize> = [[[u8; WIDTH]; U]];

/// The first `len` bytes of each source.
#[inline]
fn together<const U: usize, const S: usize>(sources: [&[u8]; S], len: usize) -> [&Columns<U>; S] {
    let mut columns = [&[][..]; S];
    for (columns, source) in columns.iter_mut().zip(sources) {
        *columns = source[..len].as_chunks().0.as_chunks().0;
    }
    columns
}

/// The first `len` bytes of each output.
#[inline]
fn together_mut<'a, const U: usize, const N: usize>(
    outputs: &'a mut [&mut [u8]; N],
    len: usize,
) -> [&'a mut Columns<U>; N] {
    outputs.each_mut().map(|output| output[..len].as_chunks_mut().0.as_chunks_mut().0)
}

/// The sums of `S` sources replace what the outputs hold when they are the `first`; else they are
/// added to it. `len` is whole columns of `U` vectors.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_some<const N: usize, const U: usize, const S: usize>(
    outputs: &mut [&mut [u8]; N],
    rows: Coefficients<'_>,
    sources: &[&[u8]; S],
    (len, first): (usize, bool),
) {
    let mut matrices = [[_mm512_setzero_si512(); N]; S];
    for (i, matrices) in matrices.iter_mut().enumerate() {
        for (j, matrix) in matrices.iter_mut().enumerate() {
            *matrix = spread(rows.at(j, i));
        }
    }
    let inputs = together::<U, S>(*sources, len);
    let mut outputs = together_mut::<U, N>(outputs, len);
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
                    sums[j][u] = plus(sums[j][u], product(by_a, a), product(by_b, b));
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

/// Two outputs that exchange neighbours: of data packets x and y they take ax + by and bx + ay,
/// which is a(x + y) + (a + b)y, and that plus (a + b)(x + y). Three products instead of four.
/// Of all sources, some at a time, as in [`combine_into`].
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_pair(
    mut outputs: [&mut [u8]; 2],
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    len: usize,
) {
    let (whole, mut rest) = (len - len % (WIDTH * TWO), sources.as_chunks::<2>().0);
    while !rest.is_empty() {
        let first = 2 * rest.len() == sources.len();
        let rows = rows.sources_from(sources.len() - 2 * rest.len());
        rest = if let Some((some, rest)) = rest.split_first_chunk::<4>() {
            combine_pairs(&mut outputs, rows, some, (whole, first));
            rest
        } else if let Some((some, rest)) = rest.split_first_chunk::<1>() {
            combine_pairs(&mut outputs, rows, some, (whole, first));
            rest
        } else {
            rest
        };
    }
    combine_end(outputs, rows, sources, whole..len);
}

/// As [`combine_some`], of `P` pairs of neighbours.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn combine_pairs<const P: usize>(
    outputs: &mut [&mut [u8]; 2],
    rows: Coefficients<'_>,
    pairs: &[[&[u8]; 2]; P],
    (len, first): (usize, bool),
) {
    let mut matrices = [[_mm512_setzero_si512(); 2]; P];
    for (i, matrices) in matrices.iter_mut().enumerate() {
        let (a, b) = (rows.at(0, 2 * i), rows.at(0, 2 * i + 1));
        *matrices = [spread(a), spread(a ^ b)];
    }
    let mut inputs = [[&[][..]; 2]; P];
    for (input, pair) in inputs.iter_mut().zip(pairs) {
        *input = together::<TWO, 2>(*pair, len);
    }
    let [firsts, seconds] = together_mut::<TWO, 2>(outputs, len);
    for at in 0..firsts.len() {
        let (firsts, seconds) = (&mut firsts[at], &mut seconds[at]);
        let mut sums = [_mm512_setzero_si512(); TWO];
        let mut differences = [_mm512_setzero_si512(); TWO];
        if !first {
            for u in 0..TWO {
                sums[u] = load(&firsts[u]);
                differences[u] = _mm512_xor_si512(sums[u], load(&seconds[u]));
            }
        }
        // Of the pair before, where it waits for one to be added together with.
        let mut before = [_mm512_setzero_si512(); TWO];
        for (i, ([x, y], [a, both])) in inputs.iter().zip(&matrices).enumerate() {
            for u in 0..TWO {
                let y = load(&y[at][u]);
                let xy = _mm512_xor_si512(load(&x[at][u]), y);
                sums[u] = plus(sums[u], product(*a, xy), product(*both, y));
                let difference = product(*both, xy);
                if i % 2 == 0 && i + 1 < P {
                    before[u] = difference;
                } else if i % 2 == 0 {
                    differences[u] = _mm512_xor_si512(differences[u], difference);
                } else {
                    differences[u] = plus(differences[u], before[u], difference);
                }
            }
        }
        for u in 0..TWO {
            store(&mut firsts[u], sums[u]);
            store(&mut seconds[u], _mm512_xor_si512(sums[u], differences[u]));
        }
    }
}
