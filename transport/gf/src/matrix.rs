//! Square matrices over the field: inversion, and the matrix of the code.

use crate::field::{inverse, mul, pow};

/// A square matrix of at most `N` rows; the rest of the storage is not looked at.
pub(crate) type Square<const N: usize> = [[u8; N]; N];

/// The inverse of the first `size` rows and columns; `None` when there is none.
pub(crate) fn invert<const N: usize>(matrix: &Square<N>, size: usize) -> Option<Square<N>> {
    let mut left = *matrix;
    let mut right = [[0; N]; N];
    for (i, row) in right.iter_mut().enumerate().take(size) {
        row[i] = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|row| left[*row][column] != 0)?;
        left.swap(column, pivot);
        right.swap(column, pivot);
        let scale = inverse(left[column][column]);
        for value in left[column].iter_mut().chain(&mut right[column]) {
            *value = mul(*value, scale);
        }
        for row in (0..size).filter(|row| *row != column) {
            let factor = left[row][column];
            for i in 0..size {
                left[row][i] ^= mul(factor, left[column][i]);
                right[row][i] ^= mul(factor, right[column][i]);
            }
        }
    }
    Some(right)
}

/// The parity rows of the systematic code: `data` coefficients a row, `parity` rows. A Vandermonde
/// matrix times the inverse of its upper square, which becomes the identity: the
/// matrix of \[rse\].
pub(crate) fn parity_rows<const N: usize>(data: u8, parity: u8) -> Option<Vec<u8>> {
    let size = usize::from(data);
    let mut top = [[0; N]; N];
    for (base, row) in (0..data).zip(&mut top) {
        for (exponent, value) in (0..data).zip(row) {
            *value = pow(base, exponent);
        }
    }
    let inverse = invert(&top, size)?;
    let mut rows = Vec::with_capacity(size * usize::from(parity));
    for base in data..data + parity {
        for column in 0..size {
            let products = (0..data).zip(&inverse).map(|(i, row)| mul(pow(base, i), row[column]));
            rows.push(products.fold(0, |sum, product| sum ^ product));
        }
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_matrix_times_its_inverse_is_the_identity(matrix: [[u8; 6]; 6], size in 1..=6_usize) {
            let Some(inverse) = invert(&matrix, size) else { return Ok(()) };
            for (i, row) in matrix.iter().enumerate().take(size) {
                for j in 0..size {
                    let terms = row.iter().zip(&inverse).take(size);
                    let product = terms.fold(0, |sum, (a, b)| sum ^ mul(*a, b[j]));
                    prop_assert_eq!(product, u8::from(i == j));
                }
            }
        }
    }

    #[test]
    fn a_matrix_with_equal_rows_has_no_inverse() {
        assert_eq!(invert(&[[1, 2], [1, 2]], 2), None);
        assert_eq!(invert(&[[0, 1], [1, 0]], 2), Some([[0, 1], [1, 0]]));
    }
}
