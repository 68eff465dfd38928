//! Shuffles on 256-bit vectors: a product is looked up for each half of a byte. Source: \[plank\].

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

use core::array::from_fn;
use core::ops::Range;

use super::{GROUP, SOURCES, column, column_mut};
use crate::field::{NIBBLES, mul};
use crate::kernel::Coefficients;

const WIDTH: usize = 32;
/// Columns, in vectors, when one, two or more outputs are computed at once: as many as registers
/// hold the sums of.
const ONE: usize = 4;
const TWO: usize = 2;
const FOUR: usize = 1;

entries!(super::has_avx2);

#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; WIDTH]) -> __m256i {
    // SAFETY: reads the 32 bytes of the array; no alignment is needed.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; WIDTH], vector: __m256i) {
    // SAFETY: writes the 32 bytes of the array; no alignment is needed.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

/// Sixteen products, in both lanes.
#[target_feature(enable = "avx2")]
fn table(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: reads the 16 bytes of the array; no alignment is needed.
    let products: __m128i = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    _mm256_broadcastsi128_si256(products)
}

#[target_feature(enable = "avx2")]
fn tables([low, high]: &[[u8; 16]; 2]) -> [__m256i; 2] {
    [table(low), table(high)]
}

/// The low and the high halves of the bytes.
#[target_feature(enable = "avx2")]
fn halves(vector: __m256i) -> [__m256i; 2] {
    let mask = _mm256_set1_epi8(15);
    let high = _mm256_and_si256(_mm256_srli_epi64::<4>(vector), mask);
    [_mm256_and_si256(vector, mask), high]
}

/// The sum and the products of the halves.
#[target_feature(enable = "avx2")]
fn plus(sum: __m256i, tables: [__m256i; 2], halves: [__m256i; 2]) -> __m256i {
    let low = _mm256_shuffle_epi8(tables[0], halves[0]);
    let high = _mm256_shuffle_epi8(tables[1], halves[1]);
    _mm256_xor_si256(sum, _mm256_xor_si256(low, high))
}

#[target_feature(enable = "avx2")]
fn add_to<const N: usize>(mut outputs: [&mut [u8]; N], rows: Coefficients<'_>, source: &[u8]) {
    let mut products = [[_mm256_setzero_si256(); 2]; N];
    for (j, products) in products.iter_mut().enumerate() {
        *products = tables(&NIBBLES[usize::from(rows.at(j, 0))]);
    }
    let (vectors, end) = source.as_chunks::<WIDTH>();
    let whole = vectors.len() * WIDTH;
    let mut places = outputs.each_mut().map(|it| it[..whole].as_chunks_mut::<WIDTH>().0);
    for (at, vector) in vectors.iter().enumerate() {
        let halves = halves(load(vector));
        for (places, products) in places.iter_mut().zip(products) {
            let place = &mut places[at];
            store(place, plus(load(place), products, halves));
        }
    }
    for (j, output) in outputs.iter_mut().enumerate() {
        let coefficient = rows.at(j, 0);
        for (place, byte) in output[whole..].iter_mut().zip(end) {
            *place ^= mul(coefficient, *byte);
        }
    }
}

/// Columns of `U` vectors: every source is read once, the sums stay in registers.
#[target_feature(enable = "avx2")]
fn combine_into<const N: usize, const U: usize>(
    mut outputs: [&mut [u8]; N],
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    len: usize,
) {
    let mut nibbles = [[&NIBBLES[0]; N]; SOURCES];
    for (i, nibbles) in nibbles.iter_mut().enumerate().take(sources.len()) {
        *nibbles = from_fn(|j| &NIBBLES[usize::from(rows.at(j, i))]);
    }
    let step = WIDTH * U;
    let mut at = 0;
    while at + step <= len {
        let mut sums = [[_mm256_setzero_si256(); U]; N];
        for (source, nibbles) in sources.iter().zip(&nibbles) {
            let vectors = column::<WIDTH, U>(source, at);
            let mut parts = [[_mm256_setzero_si256(); 2]; U];
            for (parts, vector) in parts.iter_mut().zip(vectors) {
                *parts = halves(load(vector));
            }
            for (sums, nibbles) in sums.iter_mut().zip(nibbles) {
                let products = tables(nibbles);
                for (sum, parts) in sums.iter_mut().zip(parts) {
                    *sum = plus(*sum, products, parts);
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

/// As in [`super::gfni`].
#[target_feature(enable = "avx2")]
fn combine_pair(
    [first, second]: [&mut [u8]; 2],
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    len: usize,
) {
    let mut nibbles = [[&NIBBLES[0]; 2]; SOURCES / 2];
    for (i, nibbles) in nibbles.iter_mut().enumerate().take(sources.len() / 2) {
        let (a, b) = (rows.at(0, 2 * i), rows.at(0, 2 * i + 1));
        *nibbles = [a, a ^ b].map(|factor| &NIBBLES[usize::from(factor)]);
    }
    let step = WIDTH * TWO;
    let mut at = 0;
    while at + step <= len {
        let mut sums = [_mm256_setzero_si256(); TWO];
        let mut differences = [_mm256_setzero_si256(); TWO];
        for (pair, nibbles) in sources.as_chunks::<2>().0.iter().zip(&nibbles) {
            let [x, y] = [column::<WIDTH, TWO>(pair[0], at), column::<WIDTH, TWO>(pair[1], at)];
            let (a, both) = (tables(nibbles[0]), tables(nibbles[1]));
            for u in 0..TWO {
                let y = load(&y[u]);
                let xy = halves(_mm256_xor_si256(load(&x[u]), y));
                sums[u] = plus(plus(sums[u], a, xy), both, halves(y));
                differences[u] = plus(differences[u], both, xy);
            }
        }
        let firsts = column_mut::<WIDTH, TWO>(first, at);
        let seconds = column_mut::<WIDTH, TWO>(second, at);
        for u in 0..TWO {
            store(&mut firsts[u], sums[u]);
            store(&mut seconds[u], _mm256_xor_si256(sums[u], differences[u]));
        }
        at += step;
    }
    combine_end([first, second], rows, sources, at..len);
}

/// What is left after the last whole column.
#[target_feature(enable = "avx2")]
fn combine_end<const N: usize>(
    outputs: [&mut [u8]; N],
    rows: Coefficients<'_>,
    sources: &[&[u8]],
    rest: Range<usize>,
) {
    let mut ends = outputs.map(|output| &mut output[rest.clone()]);
    ends.iter_mut().for_each(|end| end.fill(0));
    for (i, source) in sources.iter().enumerate() {
        let ends = ends.each_mut().map(|end| &mut **end);
        add_to(ends, rows.sources_from(i), &source[rest.clone()]);
    }
}
