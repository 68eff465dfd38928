//! Neighbours: equations of two parity packets q and q + 1, q even, over an even number of data
//! packets, with fewer products than packets.
//!
//! The points of the code are numbers, and their differences exclusive ors. So of data packets x
//! and y at the points 2p and 2p + 1 one parity packet has ax + by and the other bx + ay. With e =
//! a + b and r = a / e, which is (q + 1) + 2p, the two say
//!
//! ```text
//!   P0 + P1 = sum of e (x + y)           one product a pair
//!   P0      = sum of e (r (x + y) + y)   two more
//! ```
//!
//! A lost packet whose neighbour is there is its pair's x + y plus the neighbour, so the first
//! equation gives one, each factor divided by the e of its pair. Two lost of one pair j: the first
//! gives its x + y, r of that pair times the first plus the second its y. Of two pairs j and k: the
//! second plus r of k times the first has no x + y of k in it and gives that of j, and the first
//! then that of k. The parity itself is one more pair of both equations, with e = 1 and r = 1.
//! Where a pair has lost its y, x and y change places, which adds 1 to its r.

use transport::ec::DATA_MAX;

use crate::field::{ORDER, logarithm, power};
use crate::kernel::Kernel;
use crate::products::{Factors, Pair, Tail};

/// Pairs in an equation at most: those of data packets, and one of parity for a lost one.
const PAIRS: usize = DATA_MAX as usize / 2;
/// The pairs that most codes have at most; for these less has to be prepared.
const FEW: usize = 4;

/// The equations of two parity packets.
#[derive(Clone, Debug)]
pub(crate) struct Equations {
    /// For each pair of data packets: the logarithm of e.
    logarithms: Vec<u16>,
    /// For each pair of data packets: its factors in the parity packets, the first of which is the
    /// sum, the second that plus the difference.
    parity: Vec<Factors>,
    /// For each pair of data packets: the factors that give a lost one of it, see [`Self::chain`].
    chains: Vec<Vec<u8>>,
    /// q + 1.
    point: u8,
}

/// Three numbers that say what two equations are solved for. The factors of a pair of e and r are
///
/// ```text
///   e / d (r + b) / a,   e / d / a,   e / d
/// ```
///
/// where `divisor` is the logarithm of d, b is `beyond`, and `apart` is the logarithm of a.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    divisor: u16,
    beyond: u8,
    apart: u16,
}

/// The equations of the pairs of parity packets of a code with so many data packets and these rows
/// of coefficients: none when the data packets are not all in pairs.
pub(crate) fn equations(data: u8, rows: &[u8]) -> Vec<Equations> {
    if !data.is_multiple_of(2) {
        return Vec::new();
    }
    let pairs = rows.chunks_exact(2 * usize::from(data));
    (data..).step_by(2).zip(pairs).map(|(q, rows)| Equations::new(q, data, rows)).collect()
}

impl Equations {
    /// The equations of parity packets `q` and the next, from their rows.
    fn new(q: u8, data: u8, rows: &[u8]) -> Self {
        let sums = rows[..usize::from(data)].as_chunks().0.iter().map(|[a, b]| a ^ b);
        let logarithms = sums.map(logarithm).collect();
        let mut new = Self { logarithms, parity: Vec::new(), chains: Vec::new(), point: q + 1 };
        let nothing = Unknown { divisor: 0, beyond: 0, apart: 0 };
        new.parity = (0..data / 2).map(|pair| new.of_data(nothing, pair)).collect();
        new.chains = (0..data / 2).map(|pair| new.chain(pair)).collect();
        new
    }

    /// Factors that give the x + y of `pair` from all others, the parity first: each is added to
    /// what those after it give, and that multiplied. So a factor is divided by the one before, and
    /// where the last pairs are not there the factors of the others are the same.
    fn chain(&self, pair: u8) -> Vec<u8> {
        let mut before = self.logarithm(pair);
        let others = (0..).zip(&self.logarithms).filter(|(other, _)| *other != pair);
        let of_others = others.map(|(_, of_pair)| *of_pair);
        let factor = |of_pair| power(of_pair + ORDER - core::mem::replace(&mut before, of_pair));
        core::iter::once(0).chain(of_others).map(factor).collect()
    }

    fn logarithm(&self, pair: u8) -> u16 {
        self.logarithms[usize::from(pair)]
    }

    /// Solved for the lost data packets `j` and `k` of two pairs: for their x + y, with
    /// [`Self::tail`].
    fn of_two_pairs(&self, j: u8, k: u8) -> Unknown {
        let beyond = self.point ^ k;
        Unknown { divisor: self.logarithm(j / 2), beyond, apart: logarithm(j ^ k) }
    }

    /// Solved for both packets of `pair`: the second is the sum, the first that plus the
    /// difference.
    fn of_one_pair(&self, pair: u8) -> Unknown {
        Unknown { divisor: self.logarithm(pair), beyond: self.point ^ (2 * pair), apart: 0 }
    }

    /// The factors of a data pair.
    fn of_data(&self, unknown: Unknown, pair: u8) -> Factors {
        unknown.factors(self.logarithm(pair), self.point ^ (2 * pair))
    }

    /// The end for two lost packets of two pairs, their neighbours `beside`.
    fn tail<'a>(&self, unknown: Unknown, k: u8, beside: Pair<'a>) -> Tail<'a> {
        let of_k = self.logarithm(k / 2);
        let divided = |logarithm| power(logarithm + ORDER - unknown.apart);
        let by = [
            divided(0),
            divided(of_k + ORDER - unknown.divisor),
            power(unknown.divisor + ORDER - of_k),
        ];
        Tail { beside, by }
    }

    /// Sets the two parity packets from the pairs of data packets. All are of one length.
    pub(crate) fn encode(
        &self,
        kernel: Kernel,
        data: &[Pair<'_>],
        [first, second]: &mut [&mut [u8]; 2],
    ) {
        let len = first.len();
        kernel.combine_pairs((data, &self.parity[..data.len()]), None, &mut [first, second], len);
    }

    /// Restores one or two lost packets of the first `data` in place, from the others and `parity`;
    /// bit i of `lost` says that packet i is. All are of one length.
    pub(crate) fn decode(
        &self,
        kernel: Kernel,
        lost: u64,
        data: &mut [[&mut [u8]; 2]],
        parity: Pair<'_>,
    ) {
        let number = |lost: u64| u8::try_from(lost.trailing_zeros()).unwrap_or(u8::MAX);
        let others = lost & (lost - 1);
        let (j, k) = (number(lost), number(others));
        match (others != 0, data.len() <= FEW) {
            (false, true) => self.decode_one::<FEW>(kernel, j, data, parity),
            (false, false) => self.decode_one::<PAIRS>(kernel, j, data, parity),
            (true, true) => self.decode_two::<FEW>(kernel, [j, k], data, parity),
            (true, false) => self.decode_two::<PAIRS>(kernel, [j, k], data, parity),
        }
    }

    fn decode_one<const N: usize>(
        &self,
        kernel: Kernel,
        lost: u8,
        data: &mut [[&mut [u8]; 2]],
        parity: Pair<'_>,
    ) {
        let (mut pairs, mut count) = ([[&[][..]; 2]; N], 1);
        pairs[0] = parity;
        let (mut output, mut beside): (&mut [u8], &[u8]) = (&mut [], &[]);
        for (number, [x, y]) in (0..).zip(data.iter_mut()) {
            if number == lost / 2 {
                (output, beside) = if lost.is_multiple_of(2) { (x, y) } else { (y, x) };
            } else {
                pairs[count] = [x, y];
                count += 1;
            }
        }
        let by = &self.chains[usize::from(lost / 2)][..count];
        let len = output.len();
        kernel.chain_pairs((&pairs[..count], by), beside, output, len);
    }

    fn decode_two<const N: usize>(
        &self,
        kernel: Kernel,
        [j, k]: [u8; 2],
        data: &mut [[&mut [u8]; 2]],
        parity: Pair<'_>,
    ) {
        let one_pair = j / 2 == k / 2;
        let unknown = if one_pair { self.of_one_pair(j / 2) } else { self.of_two_pairs(j, k) };
        let (mut pairs, mut by, mut count) = ([[&[][..]; 2]; N], [[0; 3]; N], 1);
        (pairs[0], by[0]) = (parity, unknown.factors(0, 1));
        let (mut first, mut second): (&mut [u8], &mut [u8]) = (&mut [], &mut []);
        let mut beside: Pair<'_> = [&[], &[]];
        for (number, [x, y]) in (0..).zip(data.iter_mut()) {
            if number == j / 2 && one_pair {
                (first, second) = (y, x);
            } else if number == j / 2 {
                (first, beside[0]) = if j.is_multiple_of(2) { (x, y) } else { (y, x) };
            } else if number == k / 2 {
                (second, beside[1]) = if k.is_multiple_of(2) { (x, y) } else { (y, x) };
            } else {
                pairs[count] = [x, y];
                by[count] = self.of_data(unknown, number);
                count += 1;
            }
        }
        let len = first.len();
        let tail = (!one_pair).then(|| self.tail(unknown, k, beside));
        let pairs = (&pairs[..count], &by[..count]);
        kernel.combine_pairs(pairs, tail.as_ref(), &mut [first, second], len);
    }
}

impl Unknown {
    /// The factors of a pair with an e of this logarithm, and this r.
    fn factors(self, logarithm_of_e: u16, r: u8) -> Factors {
        let e = logarithm_of_e + ORDER - self.divisor;
        let apart = ORDER - self.apart;
        [power(e + logarithm(r ^ self.beyond) + apart), power(e + apart), power(e)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::parity_rows;
    use crate::field::mul;
    use crate::interpolation::Points;

    #[test]
    fn two_parity_packets_over_an_even_number_of_data_packets_exchange_neighbours() {
        for data in [2, 8, 10, 16, 48] {
            let rows = parity_rows(&Points::new(data), data, 4);
            for (q, rows) in (data..).step_by(2).zip(rows.chunks(2 * usize::from(data))) {
                let (first, second) = rows.split_at(usize::from(data));
                let pairs = first.as_chunks::<2>().0.iter().zip(second.as_chunks::<2>().0);
                for (pair, ([a, b], others)) in (0..).zip(pairs) {
                    assert_eq!([*b, *a], *others, "{data} {pair}");
                    let r = (q + 1) ^ (2 * pair);
                    assert_eq!(mul(a ^ b, r), *a, "the r of pair {pair} of {data}");
                }
            }
        }
    }

    #[test]
    fn parity_packets_have_equations_where_two_are_neighbours_and_data_is_in_pairs() {
        for (data, parity, count) in [(8, 1, 0), (8, 2, 1), (8, 3, 1), (7, 2, 0), (48, 16, 8)] {
            let rows = parity_rows(&Points::new(data), data, parity);
            assert_eq!(equations(data, &rows).len(), count, "({data},{parity})");
        }
    }
}
