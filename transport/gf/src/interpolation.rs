//! The code as interpolation: packet `i` of a block holds, at each byte, the value at the point `i`
//! of the polynomial of least degree through the data packets. That is the matrix of \[rse\], a
//! Vandermonde matrix times the inverse of its upper square, with every coefficient in closed form.
//!
//! Lagrange's formula gives the value at another point t from the values at a set of points S. It
//! is the sum over j in S of f(j) times the product over m in S without j of (t + m) / (j + m).
//! Products are sums of logarithms here.

use transport::ec::{DATA_MAX, PARITY_MAX};

use crate::field::{ORDER, logarithm, power};

const POINTS: usize = DATA_MAX as usize + PARITY_MAX as usize;

/// Numbers of packets, ascending, as a bitmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picked(pub(crate) u64);

/// The points of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    /// For each point: the logarithm of the product of its sums with all data points but itself.
    products: [u16; POINTS],
}

/// Known and unknown points: all data points but the `lost`, and the parity points `used` instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) points: &'a Points,
    pub(crate) lost: Picked,
    pub(crate) used: Picked,
}

impl Picked {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn contains(self, number: u8) -> bool {
        self.0 >> number & 1 != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let number = u8::try_from(left.trailing_zeros()).ok().filter(|number| *number < 64)?;
            left &= left - 1;
            Some(number)
        })
    }
}

impl Points {
    /// The points of a code with `data` data packets.
    pub(crate) fn new(data: u8) -> Self {
        let product = |point: u8| {
            let others = (0..data).filter(|other| *other != point);
            others.map(|other| logarithm(point ^ other)).sum::<u16>() % ORDER
        };
        let mut products = [0; POINTS];
        for (point, place) in (0..).zip(&mut products) {
            *place = product(point);
        }
        Self { products }
    }
}

impl Exchange<'_> {
    /// The logarithm of the product of `point` with all known points but itself.
    pub(crate) fn product(&self, point: u8) -> u16 {
        let others = |set: Picked| {
            let others = set.iter().filter(|other| *other != point);
            others.map(|other| logarithm(point ^ other)).sum::<u16>()
        };
        // At most 48 and 16 terms below 255, so no sum is near the end of its type.
        let whole = self.points.products[usize::from(point)] + others(self.used);
        (whole + ORDER * u16::from(DATA_MAX) - others(self.lost)) % ORDER
    }

    /// The factor of the value at the known point `from` in the value at the unknown point `to`;
    /// each comes with its [`Exchange::product`].
    pub(crate) fn coefficient(&self, (to, above): (u8, u16), (from, below): (u8, u16)) -> u8 {
        power(above + 2 * ORDER - below - logarithm(to ^ from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::mul;
    use proptest::prelude::*;
    use reed_solomon_erasure::galois_8;

    proptest! {
        /// Any polynomial of a degree below the number of known points is found at a lost one.
        #[test]
        fn a_polynomial_is_found_where_it_is_not_known(
            coefficients in prop::collection::vec(any::<u8>(), 1..=48),
            shift in 0..16_u8, count in 0..16_u8,
        ) {
            let data = u8::try_from(coefficients.len()).unwrap();
            let value = |point: u8| {
                let terms = coefficients.iter().enumerate();
                terms.fold(0, |sum, (i, c)| sum ^ mul(*c, galois_8::exp(point, i)))
            };
            let count = count.min(data).min(16 - shift).max(1);
            let lost = Picked((0..count).fold(0, |map, i| map | 1 << (i * (data / count))));
            let used = Picked((0..count).fold(0, |map, i| map | 1 << (data + shift + i)));
            prop_assert_eq!(lost.len(), used.len());
            let points = Points::new(data);
            let exchange = Exchange { points: &points, lost, used };
            let known = || (0..data).filter(|point| !lost.contains(*point)).chain(used.iter());
            for to in lost.iter() {
                let to_product = (to, exchange.product(to));
                let sum = known().fold(0, |sum, from| {
                    let from_product = (from, exchange.product(from));
                    sum ^ mul(exchange.coefficient(to_product, from_product), value(from))
                });
                prop_assert_eq!(sum, value(to));
            }
        }
    }

    #[test]
    fn numbers_come_in_order_and_the_last_is_one_of_them() {
        let picked = Picked(1 << 63 | 0b1010);
        assert_eq!(picked.iter().collect::<Vec<_>>(), [1, 3, 63]);
        assert!(picked.contains(63) && !picked.contains(0) && picked.len() == 3);
        assert_eq!(Picked::NONE.iter().count(), 0);
    }
}
