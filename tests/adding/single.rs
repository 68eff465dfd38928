//! An erasure code that `tests/adding.rs` adds: a block survives the loss of a number of packets,
//! whatever parity it has. Its file has everything that a code has to state.

use core::num::NonZeroU8;

use super::{Block, BlockShape, Code, CodeParams, ErasureCode};
use crate::params::params;
use crate::registry::Registered;

params! {
    /// Settings of [`Single`].
    pub struct SingleParams {
        /// Lost packets that a block survives, if it has as much parity.
        losses: u16 = 1, in 0..=8;
    }
}

/// Blocks that survive few losses.
#[derive(Clone, Debug)]
pub struct Single {
    shape: BlockShape,
    losses: u16,
}

impl Registered for Single {
    const ABOUT: &'static str =
        "--ec single:X,Y: few packets of a block may be lost, added by a test";
    type Params = SingleParams;
}

impl Code for Single {
    fn build(shape: BlockShape, params: &CodeParams) -> Self {
        Self { shape, losses: params.single.losses }
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
        let most = u32::from(block.parity).min(self.losses.into());
        block.missing_data(have) == 0 || lost <= most
    }
}
