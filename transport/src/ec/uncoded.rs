//! No erasure code: blocks of data alone, which every lost packet leaves incomplete. The baseline
//! of \[uno\] fig. 13. A flow with it sends no parity and asks for nothing by block.

use core::num::NonZeroU8;

use super::{Block, BlockShape, Code, CodeParams, ErasureCode};
use crate::params::NoParams;
use crate::registry::Registered;

/// Blocks without parity.
#[derive(Clone, Debug)]
pub struct Uncoded {
    shape: BlockShape,
}

impl Uncoded {
    /// Blocks of as many segments as the coded ones of `shape`.
    #[must_use]
    pub const fn new(shape: BlockShape) -> Self {
        Self { shape: shape.without_parity() }
    }
}

impl Registered for Uncoded {
    const ABOUT: &'static str = "every segment that is lost is sent again";
    type Params = NoParams;
}

impl Code for Uncoded {
    fn build(shape: BlockShape, _params: &CodeParams) -> Self {
        Self::new(shape)
    }

    fn number() -> Option<NonZeroU8> {
        None
    }
}

impl ErasureCode for Uncoded {
    fn shape(&self) -> BlockShape {
        self.shape
    }

    fn is_decodable(&self, block: &Block, have: u64) -> bool {
        block.missing_data(have) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_of_a_block_is_needed() {
        let code = Uncoded::new(BlockShape::default());
        let block = code.shape().blocks(8).get(0).unwrap();
        assert_eq!((block.packets(), code.shape().parity()), (8, 0));
        assert!(code.is_decodable(&block, 0xFF));
        assert!((0..8).all(|lost| !code.is_decodable(&block, 0xFF & !(1 << lost))));
    }
}
