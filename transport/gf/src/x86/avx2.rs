//! Shuffles on 256-bit vectors: a product is looked up for each half of a byte. Source: \[plank\].

use core::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

use core::array::from_fn;
use core::ops::Range;

use super::pairs::{Columns, columns_of, pair_kernels, together, together_mut};
use super::{GROUP, SOURCES, column, column_mut};
use crate::field::{NIBBLES, mul};
use crate::products::{Coefficients, Factors, Pair, Tail};

type Vector = __m256i;
/// Products with the halves of a byte.
type Factor = &'static [[u8; 16]; 2];

const WIDTH: usize = 32;
/// Columns, in vectors, when one, two or more outputs are computed at once: as many as registers
/// hold the sums of.
const ONE: usize = 4;
const TWO: usize = 2;
const FOUR: usize = 1;
/// Columns, in vectors, when two outputs are computed over pairs.
const AT_ONCE: usize = 1;

entries!(super::has_avx2);
pair_kernels!("avx2");

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

/// The first 32 bytes, zeros beyond the end.
#[target_feature(enable = "avx2")]
fn load_end(bytes: &[u8]) -> __m256i {
    let mut whole = [0; WIDTH];
    whole[..bytes.len().min(WIDTH)].copy_from_slice(&bytes[..bytes.len().min(WIDTH)]);
    load(&whole)
}

/// Stores the first bytes of a vector: all 32, or as many as a shorter slice has.
#[target_feature(enable = "avx2")]
fn store_end(bytes: &mut [u8], vector: __m256i) {
    let mut whole = [0; WIDTH];
    store(&mut whole, vector);
    let len = bytes.len().min(WIDTH);
    bytes[..len].copy_from_slice(&whole[..len]);
}

#[target_feature(enable = "avx2")]
fn zero() -> __m256i {
    _mm256_setzero_si256()
}

#[target_feature(enable = "avx2")]
fn plus(one: __m256i, two: __m256i) -> __m256i {
    _mm256_xor_si256(one, two)
}

#[target_feature(enable = "avx2")]
fn plus_two(one: __m256i, two: __m256i, three: __m256i) -> __m256i {
    plus(one, plus(two, three))
}

#[target_feature(enable = "avx2")]
fn factor(factor: u8) -> Factor {
    &NIBBLES[usize::from(factor)]
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
fn parts(vector: __m256i) -> [__m256i; 2] {
    let mask = _mm256_set1_epi8(15);
    let high = _mm256_and_si256(_mm256_srli_epi64::<4>(vector), mask);
    [_mm256_and_si256(vector, mask), high]
}

#[target_feature(enable = "avx2")]
fn product(factor: Factor, parts: [__m256i; 2]) -> __m256i {
    product_of(tables(factor), parts)
}

#[target_feature(enable = "avx2")]
fn product_of(tables: [__m256i; 2], parts: [__m256i; 2]) -> __m256i {
    let low = _mm256_shuffle_epi8(tables[0], parts[0]);
    let high = _mm256_shuffle_epi8(tables[1], parts[1]);
    _mm256_xor_si256(low, high)
}

#[target_feature(enable = "avx2")]
fn add_to<const N: usize>(mut outputs: [&mut [u8]; N], rows: &Coefficients<'_>, source: &[u8]) {
    let mut products = [[_mm256_setzero_si256(); 2]; N];
    for (j, products) in products.iter_mut().enumerate() {
        *products = tables(&NIBBLES[usize::from(rows.at(j, 0))]);
    }
    let (vectors, end) = source.as_chunks::<WIDTH>();
    let whole = vectors.len() * WIDTH;
    let mut places = outputs.each_mut().map(|it| it[..whole].as_chunks_mut::<WIDTH>().0);
    for (at, vector) in vectors.iter().enumerate() {
        let parts = parts(load(vector));
        for (places, products) in places.iter_mut().zip(products) {
            let place = &mut places[at];
            store(place, plus(load(place), product_of(products, parts)));
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
    rows: &Coefficients<'_>,
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
            let mut halves = [[_mm256_setzero_si256(); 2]; U];
            for (halves, vector) in halves.iter_mut().zip(vectors) {
                *halves = parts(load(vector));
            }
            for (sums, nibbles) in sums.iter_mut().zip(nibbles) {
                let products = tables(nibbles);
                for (sum, halves) in sums.iter_mut().zip(halves) {
                    *sum = plus(*sum, product_of(products, halves));
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

/// Combines the bytes after the last whole column.
#[target_feature(enable = "avx2")]
fn combine_end<const N: usize>(
    outputs: [&mut [u8]; N],
    rows: &Coefficients<'_>,
    sources: &[&[u8]],
    rest: Range<usize>,
) {
    let mut ends = outputs.map(|output| &mut output[rest.clone()]);
    ends.iter_mut().for_each(|end| end.fill(0));
    for (i, source) in sources.iter().enumerate() {
        let ends = ends.each_mut().map(|end| &mut **end);
        add_to(ends, &rows.sources_from(i), &source[rest.clone()]);
    }
}
