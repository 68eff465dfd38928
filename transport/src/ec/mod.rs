//! Erasure codes: which packets a block of segments is sent as, and which of them are enough. One
//! file a code, one line in the registry.
//!
//! A code here works on packet numbers, never on bytes, because the core has no payload. The byte
//! codec is the crate `transport-gf`.

pub mod block;

pub use block::{Block, BlockShape, Blocks, DATA_MAX, PARITY_MAX, ShapeError};

use core::num::NonZeroU8;

use crate::params::{params, words};
use crate::registry::{Registered, registry};
use crate::time::Duration;

/// The interface between a flow and its code.
pub trait ErasureCode {
    /// Data and parity packets of a full block.
    fn shape(&self) -> BlockShape;
    /// Whether the packets in the bitmap `have` are enough to reconstruct `block`.
    fn is_decodable(&self, block: &Block, have: u64) -> bool;
}

words! {
    /// The packets that are sent again of a block that cannot be decoded.
    pub enum Resend: "lost or needed" {
        /// All lost packets of the block: the code protects the second transmission as it did the
        /// first.
        Lost = "lost",
        /// Only as many packets as the block needs; all of these have to arrive.
        Needed = "needed",
    }
}

params! {
    /// Settings of erasure coding beside the code and its shape.
    pub struct EcParams {
        /// Flows over paths of at least this base RTT are coded; flows inside a datacentre are not.
        //= uno#4.2
        base_rtt_min: Duration = Duration::from_us(100), in Duration::ZERO..=Duration::from_s(2);
        /// A receiver asks for the missing packets of a block when none of its packets has arrived
        /// for this long. It checks once in this time, so it asks within twice this time. The
        /// default is the delay of a full queue of 1 MB at 100 Gb/s; packets of a block on
        /// different paths may be so far apart. The simulator behind the paper's figures waits for
        /// eight times as long from the first packet on, 640 us; the shorter wait causes no more
        /// retransmissions.
        block_timeout: Duration = Duration::from_us(80),
            in Duration::from_us(1)..=Duration::from_s(2);
        /// The packets that are sent again of a block that lacks some: lost or needed.
        resend: Resend = Resend::Lost;
    }
}

/// The registration of a code, in its file.
pub trait Code: ErasureCode + Registered {
    /// The code of a flow with blocks of `shape`.
    ///
    /// A receiver builds it for each coded packet: it computes and allocates nothing.
    fn build(shape: BlockShape) -> Self;
    /// The code's number in the CODE extension, unlike that of every other code; `None` for a code
    /// without parity, whose packets have no such extension.
    fn number() -> Option<NonZeroU8>;
}

registry! {
    /// Names the registered codes.
    pub enum EcKind;
    /// One flow's code, stored inline in the flow.
    pub enum Ec: ErasureCode;
    new: Code::build(shape: BlockShape);
    params {}
    kinds {
        /// The number of the code in the CODE extension; `None` for a code without parity.
        fn number() -> Option<NonZeroU8>;
    }
    policies {
        "off" => uncoded::Uncoded,
        "mds" => mds::Mds,
    }
    fn shape(&self) -> BlockShape;
    fn is_decodable(&self, block: &Block, have: u64) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Coded;
    use proptest::prelude::*;

    #[test]
    fn every_code_with_parity_has_a_number_of_its_own_that_headers_can_carry() {
        let numbers = |kind: &EcKind| kind.number();
        let coded: alloc::vec::Vec<_> = EcKind::ALL.iter().filter_map(numbers).collect();
        let unlike = |at: usize| !coded[..at].contains(&coded[at]);
        assert!((0..coded.len()).all(unlike), "{coded:?}");
        assert!(coded.iter().all(|number| number.get() <= Coded::NUMBER_MAX), "{coded:?}");
        assert_eq!(coded.len() + 1, EcKind::ALL.len(), "one code is none");
        assert_eq!((EcKind::Uncoded.number(), EcKind::Mds.number()), (None, NonZeroU8::new(1)));
    }

    proptest! {
        #[test]
        fn more_packets_never_make_a_block_undecodable_and_all_data_always_suffice(
            data in 1..=DATA_MAX, parity in 0..=PARITY_MAX, segments in 1..200_u32, have: u64,
            more: u64,
        ) {
            let shape = BlockShape::new(data, parity).unwrap();
            for kind in EcKind::ALL {
                let code = Ec::new(*kind, shape);
                prop_assert_eq!((code.kind(), EcKind::by_name(kind.name())), (*kind, Some(*kind)));
                let blocks = code.shape().blocks(segments);
                for index in 0..blocks.count() {
                    let block = blocks.get(index).unwrap();
                    let now = code.is_decodable(&block, have);
                    prop_assert!(!now || code.is_decodable(&block, have | more));
                    prop_assert!(code.is_decodable(&block, block.all_data()));
                    prop_assert!(!code.is_decodable(&block, 0));
                }
            }
        }
    }
}
