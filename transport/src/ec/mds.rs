//! Maximum distance separable code: any x of the x + y packets of a block give the block. Source:
//! \[uno\] sec. 3.3, 4.2. The code is systematic: the data packets are the unchanged segments, so a
//! block without loss is never decoded.

use core::num::NonZeroU8;

use super::{Block, BlockShape, Code, CodeParams, ErasureCode};
use crate::params::NoParams;
use crate::registry::Registered;

/// An `(x, y)` code.
#[derive(Clone, Debug)]
pub struct Mds {
    shape: BlockShape,
}

impl Mds {
    /// The code of blocks of `shape`.
    #[must_use]
    pub const fn new(shape: BlockShape) -> Self {
        Self { shape }
    }
}

impl Registered for Mds {
    const ABOUT: &'static str =
        "--ec X,Y: with Y parity segments any X of X + Y are enough, as UnoRC has it for far flows";
    type Params = NoParams;
}

impl Code for Mds {
    fn build(shape: BlockShape, _params: &CodeParams) -> Self {
        Self::new(shape)
    }

    fn number() -> Option<NonZeroU8> {
        NonZeroU8::new(1)
    }
}

impl ErasureCode for Mds {
    fn shape(&self) -> BlockShape {
        self.shape
    }

    fn is_decodable(&self, block: &Block, have: u64) -> bool {
        //= uno#4.2: at most y of n packets may be lost.
        block.wanting(have) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_eight_of_ten_packets_are_enough_and_seven_are_not() {
        let code = Mds::new(BlockShape::default());
        let block = code.shape().blocks(8).get(0).unwrap();
        for have in 0..1_u64 << 10 {
            assert_eq!(code.is_decodable(&block, have), have.count_ones() >= 8, "{have:b}");
        }
    }

    #[test]
    fn a_block_of_one_segment_lives_on_any_of_its_packets() {
        let code = Mds::new(BlockShape::default());
        let block = code.shape().blocks(9).get(1).unwrap();
        assert!((0..3).all(|bit| code.is_decodable(&block, 1 << bit)));
        // Bits beyond the block are no packets of it.
        assert!(!code.is_decodable(&block, !block.all()));
    }
}
