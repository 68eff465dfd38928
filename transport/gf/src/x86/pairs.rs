//! Sums over pairs of neighbours ([`crate::pairs`]), written once for every width of vector.

use crate::products::Pair;

/// Columns of `U` vectors of `W` bytes. All slices have one length then, which takes the checks of
/// bounds out of the loops.
pub(super) type Columns<const W: usize, const U: usize> = [[[u8; W]; U]];

/// The first `len` bytes of each source.
#[inline]
pub(super) fn together<const W: usize, const U: usize, const S: usize>(
    sources: [&[u8]; S],
    len: usize,
) -> [&Columns<W, U>; S] {
    let mut columns = [&[][..]; S];
    for (columns, source) in columns.iter_mut().zip(sources) {
        *columns = source[..len].as_chunks().0.as_chunks().0;
    }
    columns
}

/// The first `len` bytes of each output.
#[inline]
pub(super) fn together_mut<'a, const W: usize, const U: usize, const N: usize>(
    outputs: &'a mut [&mut [u8]; N],
    len: usize,
) -> [&'a mut Columns<W, U>; N] {
    outputs.each_mut().map(|output| output[..len].as_chunks_mut().0.as_chunks_mut().0)
}

/// The first `len` bytes of the sources of each pair.
#[inline]
pub(super) fn columns_of<'a, const W: usize, const U: usize, const P: usize>(
    pairs: &[Pair<'a>; P],
    len: usize,
) -> [[&'a Columns<W, U>; 2]; P] {
    let mut columns = [[&[][..]; 2]; P];
    for (columns, pair) in columns.iter_mut().zip(pairs) {
        *columns = together(*pair, len);
    }
    columns
}

/// The first `P` pairs, and the first `P` elements of the list beside them.
#[inline]
pub(super) fn first<'a, 'b, const P: usize, T>(
    (pairs, by): (&'a [Pair<'b>], &'a [T]),
) -> Option<(&'a [Pair<'b>; P], &'a [T; P])> {
    Some((pairs.first_chunk()?, by.first_chunk()?))
}

/// The functions of a kernel over pairs, made from what the kernel has. These are `Vector` of
/// `WIDTH` bytes, `zero`, `load` and `store`, the last two also for fewer bytes; `plus`, the sum of
/// two, and `plus_two`, the sum of three; a `Factor`, `factor`, and its `product` with `parts` of a
/// vector.
macro_rules! pair_kernels {
    ($features:literal) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn three_factors([a, b, c]: [u8; 3]) -> [Factor; 3] {
            [factor(a), factor(b), factor(c)]
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn factors_of<const P: usize>(all: &[Factors; P]) -> [[Factor; 3]; P] {
            let mut factors = [three_factors([0; 3]); P];
            for (factors, by) in factors.iter_mut().zip(all) {
                *factors = three_factors(*by);
            }
            factors
        }

        /// Adds the sums and the differences over `P` pairs to the given values.
        #[inline]
        #[target_feature(enable = $features)]
        fn over_pairs<const P: usize, const U: usize>(
            factors: &[[Factor; 3]; P],
            (mut sums, mut differences): ([Vector; U], [Vector; U]),
            source: impl Fn(usize, usize) -> [Vector; 2],
        ) -> ([Vector; U], [Vector; U]) {
            // The product of the pair before, where it waits for one to be added together with.
            let mut before = [zero(); U];
            for (p, [by_both, by_second, by_difference]) in factors.iter().enumerate() {
                for u in 0..U {
                    let [x, y] = source(p, u);
                    let both = parts(plus(x, y));
                    let products = [product(*by_both, both), product(*by_second, parts(y))];
                    sums[u] = plus_two(sums[u], products[0], products[1]);
                    let difference = product(*by_difference, both);
                    if p % 2 == 0 && p + 1 < P {
                        before[u] = difference;
                    } else if p % 2 == 0 {
                        differences[u] = plus(differences[u], difference);
                    } else {
                        differences[u] = plus_two(differences[u], before[u], difference);
                    }
                }
            }
            (sums, differences)
        }

        /// The outputs at the end, see [`Tail`].
        #[inline]
        #[target_feature(enable = $features)]
        fn ended(factors: &[Factor; 3], values: [Vector; 2], beside: [Vector; 2]) -> [Vector; 2] {
            let [sum, difference] = values;
            let [x, y] = beside;
            let sum = plus_two(sum, product(factors[0], parts(x)), product(factors[1], parts(y)));
            let other = product(factors[2], parts(plus(sum, difference)));
            [plus(sum, x), plus(other, y)]
        }

        /// Adds two outputs over `P` pairs to their contents unless these pairs are the `first`,
        /// with the tail when `LAST`.
        #[target_feature(enable = $features)]
        fn pairs_into<const P: usize, const LAST: bool>(
            outputs: &mut [&mut [u8]; 2],
            (pairs, by): (&[Pair<'_>; P], &[Factors; P]),
            tail: &Tail<'_>,
            (len, first): (usize, bool),
        ) {
            let (factors, tail_factors) = (factors_of(by), three_factors(tail.by));
            let whole = len - len % (WIDTH * AT_ONCE);
            let inputs = columns_of::<WIDTH, AT_ONCE, P>(pairs, whole);
            let beside = together::<WIDTH, AT_ONCE, 2>(tail.beside, if LAST { whole } else { 0 });
            let [sums_to, others_to] = together_mut::<WIDTH, AT_ONCE, 2>(outputs, whole);
            for at in 0..sums_to.len() {
                let mut from = ([zero(); AT_ONCE], [zero(); AT_ONCE]);
                for u in 0..if first { 0 } else { AT_ONCE } {
                    from.0[u] = load(&sums_to[at][u]);
                    from.1[u] = plus(from.0[u], load(&others_to[at][u]));
                }
                let source = |p: usize, u: usize| {
                    let [x, y] = inputs[p];
                    [load(&x[at][u]), load(&y[at][u])]
                };
                let (sums, differences) = over_pairs(&factors, from, source);
                for u in 0..AT_ONCE {
                    let [sum, other] = if LAST {
                        let beside = [load(&beside[0][at][u]), load(&beside[1][at][u])];
                        ended(&tail_factors, [sums[u], differences[u]], beside)
                    } else {
                        [sums[u], plus(sums[u], differences[u])]
                    };
                    store(&mut sums_to[at][u], sum);
                    store(&mut others_to[at][u], other);
                }
            }
            let mut at = whole;
            while at < len {
                let end = at..len.min(at + WIDTH);
                let [sums_to, others_to] =
                    outputs.each_mut().map(|output| &mut output[end.clone()]);
                let mut from = ([zero()], [zero()]);
                if !first {
                    from.0[0] = load_end(sums_to);
                    from.1[0] = plus(from.0[0], load_end(others_to));
                }
                let source = |p: usize, _| {
                    let [x, y] = pairs[p];
                    [load_end(&x[end.clone()]), load_end(&y[end.clone()])]
                };
                let ([sum], [difference]) = over_pairs(&factors, from, source);
                let [sum, other] = if LAST {
                    let [x, y] = tail.beside;
                    let beside = [load_end(&x[end.clone()]), load_end(&y[end.clone()])];
                    ended(&tail_factors, [sum, difference], beside)
                } else {
                    [sum, plus(sum, difference)]
                };
                store_end(sums_to, sum);
                store_end(others_to, other);
                at = end.end;
            }
        }

        /// From what the output holds or, with the `first` pairs, nothing: each pair added, the
        /// last one first, and the sum multiplied, and what is `beside` added in the end. When
        /// these are `ALL` pairs they are the first.
        #[target_feature(enable = $features)]
        fn chain_into<const P: usize, const ALL: bool>(
            output: &mut [u8],
            (pairs, by): (&[Pair<'_>; P], &[u8; P]),
            beside: Option<&[u8]>,
            (len, first): (usize, bool),
        ) {
            let mut factors = [factor(0); P];
            for (factor_of, by) in factors.iter_mut().zip(by) {
                *factor_of = factor(*by);
            }
            let whole = len - len % WIDTH;
            let inputs = columns_of::<WIDTH, 1, P>(pairs, whole);
            let beside_columns = match beside {
                Some(beside) => &beside[..whole],
                None => &[],
            };
            let [beside_columns] = together::<WIDTH, 1, 1>([beside_columns], beside_columns.len());
            let places: &mut Columns<WIDTH, 1> =
                output[..whole].as_chunks_mut().0.as_chunks_mut().0;
            for at in 0..places.len() {
                let mut sum = if ALL || first { zero() } else { load(&places[at][0]) };
                for p in (0..P).rev() {
                    let [x, y] = inputs[p];
                    let pair = plus_two(sum, load(&x[at][0]), load(&y[at][0]));
                    sum = product(factors[p], parts(pair));
                }
                if ALL || beside.is_some() {
                    sum = plus(sum, load(&beside_columns[at][0]));
                }
                store(&mut places[at][0], sum);
            }
            let mut at = whole;
            while at < len {
                let end = at..len.min(at + WIDTH);
                let place = &mut output[end.clone()];
                let mut sum = if first { zero() } else { load_end(place) };
                for (pair, by) in pairs.iter().zip(&factors).rev() {
                    let [x, y] = *pair;
                    let pair = plus_two(sum, load_end(&x[end.clone()]), load_end(&y[end.clone()]));
                    sum = product(*by, parts(pair));
                }
                if let Some(beside) = beside {
                    sum = plus(sum, load_end(&beside[end.clone()]));
                }
                store_end(place, sum);
                at = end.end;
            }
        }
    };
}

pub(super) use pair_kernels;
