//! The operations of a kernel on many ports at once, and one lane at a time: the oracle of the
//! others.

use crate::pod::shape::{LANES, Words};

/// Work that is compiled once for each kernel. `run` and all that it calls with `O` is inlined, so
/// that the instructions of the kernel may be used throughout.
pub(super) trait KernelJob {
    type Out;

    fn run<O: Ops>(self) -> Self::Out;
}

/// The operations of a kernel. `wide` says that ToRs or Aggs beyond the 16th exist.
pub(super) trait Ops {
    /// The ToRs below which a receiver of `row` is free and to which one of the Aggs `up` has an
    /// idle link: lanes where `up & down` and `row & free` are both not 0.
    fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32;

    /// A bit for each of 16 or 32 bytes that equals `byte`.
    fn equal(bytes: &[u8], byte: u8) -> u32;

    /// Bit number `n` of those set in `mask`, as its position; `n` is below their count.
    fn nth_bit(mask: u32, n: u32) -> u32;

    /// Adds to each lane of `counts` how many bits `row` and `free` have in common there.
    fn count(row: &Words, free: &Words, counts: &mut Words, wide: bool);

    /// Draws, for the demands of one ToR to each other ToR, the place of the first request at one
    /// Agg, given those at Aggs drawn before. The result is [`place`] in each lane in which
    /// `down.0` has bit `down.1` set and `left` is not 0, and [`NO_PLACE`] in the others.
    fn places(
        left: &mut Words,
        mass: &mut Mass,
        down: (&Words, u32),
        lanes: &mut Words,
        out: &mut Words,
        wide: bool,
    );

    /// Moves generators on by `steps` numbers each, as many calls of [`Ops::places`] do.
    fn advance(lanes: &mut Words, steps: u32, wide: bool);

    /// The first lane with the least of those `places` that are below `held`, and that place.
    fn first(places: &Words, held: &Words, wide: bool) -> Option<(usize, u32)>;
}

/// A number for each ToR.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C, align(64))]
pub(super) struct Mass(pub(crate) [f32; LANES]);

/// The place of a lane without a request. Places are the bits of numbers in `0.0..1.0`, which order
/// as they do.
pub(super) const NO_PLACE: u32 = u32::MAX;

/// Coefficients of 2 / ln 2 * atanh(z), that is of log2((1 + z) / (1 - z)): z, z^3, z^5, z^7.
pub(super) const LOG2: [f32; 4] =
    [2.0 * core::f32::consts::LOG2_E, 0.961_796_7, 0.577_078, 0.412_198_6];
/// Coefficients of 1 - 2^-f: f, -f^2, f^3, ...
pub(super) const EXP2: [f32; 6] = [
    core::f32::consts::LN_2,
    0.240_226_5,
    0.055_504_11,
    0.009_618_129,
    0.001_333_356,
    0.000_154_035,
];
/// 2^-23.
pub(super) const ULP: f32 = 1.192_092_9e-7;

/// The place of the first of `count` requests at an Agg. Each is uniform in `0.0..1.0`, when each
/// demand draws uniformly among Aggs of which `mass` are left to it. At 1.0 or more no demand has
/// drawn this Agg. `bits` are random.
///
/// Each of `count` demands is at this Agg and before place v with probability v / mass. So the
/// first one is at mass * (1 - u^(1 / count)) for a uniform u. The operations are those of the
/// vector kernels, one by one, so that results are equal to the bit.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the whole part of a small number")]
#[expect(clippy::cast_precision_loss, reason = "23 bits, and counts to 1024")]
pub(super) fn place(count: u32, mass: f32, bits: u32) -> f32 {
    let u = ((bits >> 9) as f32 + 0.5) * ULP;
    let exponent = ((u.to_bits() >> 23) as i32 - 127) as f32;
    let m = f32::from_bits(u.to_bits() & 0x007F_FFFF | 0x3F80_0000);
    let z = (m - 1.0) / (m + 1.0);
    let z2 = z * z;
    let log2 = exponent + z * (LOG2[0] + z2 * (LOG2[1] + z2 * (LOG2[2] + z2 * LOG2[3])));
    let t = (0.0 - log2) / count as f32;
    let whole = t as i32;
    let f = t - whole as f32;
    let high = EXP2[3] - f * (EXP2[4] - f * EXP2[5]);
    let r = f * (EXP2[0] - f * (EXP2[1] - f * (EXP2[2] - f * high)));
    let s = f32::from_bits(((127 - whole) << 23).cast_unsigned());
    mass * ((1.0 - s) + s * r)
}

/// The next state of a lane's generator. Source: \[marsaglia\].
//= marsaglia#sec4
#[inline(always)]
pub(super) fn xorshift(mut lane: u32) -> u32 {
    lane ^= lane << 13;
    lane ^= lane >> 17;
    lane ^ lane << 5
}

/// ToRs of a pod that is small.
pub(super) const SMALL: usize = 4;

/// [`Ops::candidates`] among the first [`SMALL`] ToRs. The words of these are read one by one: each
/// grant writes some of them, and a processor waits where it reads as a vector what it has just
/// written as a word.
#[inline(always)]
pub(super) fn candidates_of_few(up: u32, down: &Words, row: &Words, free: &Words) -> u32 {
    let mut found = 0;
    for lane in 0..SMALL {
        let (path, receiver) = (up & down.0[lane] != 0, row.0[lane] & free.0[lane] != 0);
        found |= u32::from(path & receiver) << lane;
    }
    found
}

/// One lane at a time: the oracle of the others.
#[derive(Debug)]
pub(super) struct Scalar;

impl Ops for Scalar {
    #[inline(always)]
    fn candidates(up: u32, down: &Words, row: &Words, free: &Words, wide: bool) -> u32 {
        let mut found = 0;
        for lane in 0..lanes(wide) {
            let path = up & down.0[lane] != 0;
            let receiver = row.0[lane] & free.0[lane] != 0;
            found |= u32::from(path & receiver) << lane;
        }
        found
    }

    #[inline(always)]
    fn equal(bytes: &[u8], byte: u8) -> u32 {
        equal(bytes, byte)
    }

    #[inline(always)]
    fn nth_bit(mut mask: u32, n: u32) -> u32 {
        for _ in 0..n {
            mask &= mask.wrapping_sub(1);
        }
        mask.trailing_zeros()
    }

    #[inline(always)]
    fn count(row: &Words, free: &Words, counts: &mut Words, wide: bool) {
        for lane in 0..lanes(wide) {
            counts.0[lane] += (row.0[lane] & free.0[lane]).count_ones();
        }
    }

    #[inline(always)]
    fn places(
        left: &mut Words,
        mass: &mut Mass,
        (down, agg): (&Words, u32),
        generators: &mut Words,
        out: &mut Words,
        wide: bool,
    ) {
        for lane in 0..lanes(wide) {
            let bits = xorshift(generators.0[lane]);
            generators.0[lane] = bits;
            out.0[lane] = NO_PLACE;
            if down.0[lane] >> agg & 1 == 0 || left.0[lane] == 0 {
                continue;
            }
            let place = place(left.0[lane], mass.0[lane], bits);
            if place < 1.0 {
                out.0[lane] = place.to_bits();
                left.0[lane] -= 1;
                mass.0[lane] -= place;
            } else {
                mass.0[lane] -= 1.0;
            }
        }
    }

    #[inline(always)]
    fn advance(generators: &mut Words, steps: u32, wide: bool) {
        for lane in generators.0.iter_mut().take(lanes(wide)) {
            *lane = (0..steps).fold(*lane, |lane, _| xorshift(lane));
        }
    }

    #[inline(always)]
    fn first(places: &Words, held: &Words, wide: bool) -> Option<(usize, u32)> {
        let mut best = (0, NO_PLACE);
        for lane in 0..lanes(wide) {
            if places.0[lane] < held.0[lane] && places.0[lane] < best.1 {
                best = (lane, places.0[lane]);
            }
        }
        (best.1 != NO_PLACE).then_some(best)
    }
}

const fn lanes(wide: bool) -> usize {
    if wide { LANES } else { LANES / 2 }
}

/// [`Ops::equal`] eight bytes at a time, for where no kernel is at work.
#[inline(always)]
pub(super) fn equal(bytes: &[u8], byte: u8) -> u32 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let pattern = u64::from_le_bytes([byte; 8]);
    let mut found = 0u64;
    for (at, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let differ = u64::from_le_bytes(*eight) ^ pattern;
        // The highest bit of a byte is set where the byte is 0, that is where both are equal.
        let zero = !(((differ & LOW) + LOW) | differ | LOW);
        found |= ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 32 bytes, a bit each")]
    let found = found as u32;
    found
}
