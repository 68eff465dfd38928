//! GF(2^8) with the polynomial of \[rse\], and multiplication by a constant in the forms that the
//! kernels take. All tables are computed by the compiler.

/// x^8 + x^4 + x^3 + x^2 + 1, as \[rse\] has it.
const POLYNOMIAL: u16 = 0x11D;

/// `a * b`, where speed does not matter: the tables are made with it.
const fn multiply(a: u8, b: u8) -> u8 {
    let (mut product, mut a, mut b) = (0_u8, a, b);
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// `a * x`.
const fn double(a: u8) -> u8 {
    // The polynomial without its highest term, which the shift drops.
    let [low, _] = POLYNOMIAL.to_le_bytes();
    (a << 1) ^ if a & 0x80 == 0 { 0 } else { low }
}

/// Elements of the multiplicative group, all powers of x.
pub(crate) const ORDER: u16 = 255;

/// x to the power i, four times over, so that sums of a few logarithms need no reduction.
static POWERS: [u8; 4 * ORDER as usize] = {
    let mut table = [1; 4 * ORDER as usize];
    let mut i = 1;
    while i < table.len() {
        table[i] = double(table[i - 1]);
        i += 1;
    }
    table
};

/// The i for which x to the power i is the element, 0..255; meaningless for 0.
static LOGARITHMS: [u8; 256] = {
    let mut table = [0; 256];
    let (mut i, mut power) = (0, 1);
    while i < 255 {
        table[power as usize] = i;
        power = double(power);
        i += 1;
    }
    table
};

/// The logarithm of `a`, which is not 0.
pub(crate) fn logarithm(a: u8) -> u16 {
    u16::from(LOGARITHMS[usize::from(a)])
}

/// x to a power below four times [`ORDER`].
pub(crate) fn power(exponent: u16) -> u8 {
    POWERS[usize::from(exponent)]
}

/// `a * b`.
pub(crate) fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power(logarithm(a) + logarithm(b)) }
}

/// For each constant the products with the low and the high half of a byte, as a shuffle looks them
/// up. Source: \[plank\].
pub(crate) static NIBBLES: [[[u8; 16]; 2]; 256] = {
    let mut table = [[[0; 16]; 2]; 256];
    let mut c = 0_u8;
    loop {
        let mut half = 0_u8;
        while half < 16 {
            table[c as usize][0][half as usize] = multiply(c, half);
            table[c as usize][1][half as usize] = multiply(c, half << 4);
            half += 1;
        }
        if c == 255 {
            break table;
        }
        c += 1;
    }
};

/// For each constant the multiplication as a matrix of bits, as GF2P8AFFINEQB takes it: the row for
/// bit i of the product is byte 7 - i. Source: \[gfni\].
pub(crate) static BIT_MATRICES: [u64; 256] = {
    let mut table = [0; 256];
    let mut c = 0_u8;
    loop {
        let mut column = 0;
        while column < 8 {
            let product = multiply(c, 1 << column);
            let mut row = 0;
            while row < 8 {
                if product >> row & 1 != 0 {
                    table[c as usize] |= 1 << ((7 - row) * 8 + column);
                }
                row += 1;
            }
            column += 1;
        }
        if c == 255 {
            break table;
        }
        c += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use reed_solomon_erasure::galois_8;

    #[test]
    fn products_powers_and_logarithms_are_the_oracles() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), galois_8::mul(a, b), "{a} * {b}");
            }
            assert!(a == 0 || power(logarithm(a)) == a, "the logarithm of {a}");
        }
        for exponent in 0..4 * ORDER {
            let expected = galois_8::exp(2, usize::from(exponent));
            assert_eq!(power(exponent), expected, "x ^ {exponent}");
        }
    }

    #[test]
    fn the_tables_multiply() {
        for c in 0..=255_u8 {
            for a in 0..=255_u8 {
                let [low, high] = NIBBLES[usize::from(c)];
                assert_eq!(low[usize::from(a & 15)] ^ high[usize::from(a >> 4)], mul(c, a));
                let rows = BIT_MATRICES[usize::from(c)].to_be_bytes();
                let bit = |row: u8| u8::from((row & a).count_ones() % 2 == 1);
                let product = rows.iter().enumerate().fold(0, |sum, (i, row)| sum | bit(*row) << i);
                assert_eq!(product, mul(c, a), "{c} * {a}");
            }
        }
    }
}
