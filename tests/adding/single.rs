//! An erasure code that `tests/adding.rs` adds: a block survives the loss of one packet, whatever
//! parity it has. Its file has everything that a code has to state.

use core::num::NonZeroU8;

use super::{Block, BlockShape, Code, ErasureCode};
use crate::params::NoParams;
use crate::registry::Registered;

/// Blocks that survive one loss.
#[derive(Clone, Debug)]
pub struct Single {
    shape: BlockShape,
}

impl Registered for Single {
    const ABOUT: &'static str =
        "--ec single:X,Y: any packet of a block may be lost, added by a test";
    type Params = NoParams;
}

impl Code for Single {
    fn build(shape: BlockShape) -> Self {
        Self { shape }
    }

    fn number() -> Option<NonZeroU8> {
        NonZeroU8::new(9)
    }
}

impl ErasureCode for Single {
    fn shape(&self) -> BlockShape {
        self.shape
    }

    fn is_decodable(&self, block: &Block, have: u64) -> bool {
        let lost = (block.all() & !have).count_ones();
        block.missing_data(have) == 0 || lost <= u32::from(block.parity.min(1))
    }
}
