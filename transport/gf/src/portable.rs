//! Products one byte at a time, from a table of the factor, for every processor.

use crate::field::NIBBLES;

/// Adds `factor` times `source` to `output`, which has the same length.
pub(crate) fn add(factor: u8, source: &[u8], output: &mut [u8]) {
    let [low, high] = &NIBBLES[usize::from(factor)];
    let products: [u8; 256] = std::array::from_fn(|byte| low[byte & 15] ^ high[byte >> 4]);
    for (source, output) in source.iter().zip(output) {
        *output ^= products[usize::from(*source)];
    }
}
