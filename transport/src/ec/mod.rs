//! Erasure codes: how a block of segments becomes packets, and which packets suffice to restore it.
//! One file a code, one line in the registry.
//!
//! A code here works on packet numbers, never on bytes, because the core has no payload. The byte
//! codec is the crate `transport-gf`.

pub mod block;

pub use auto::AutoParams;
pub use block::{Block, BlockShape, Blocks, DATA_MAX, PARITY_MAX, ShapeError};

pub(crate) use auto::{BlockChoice, LossWatch, PathLosses, QueueSign};

use core::num::NonZeroU8;

use crate::params::{params, words};
use crate::path::NetworkFacts;
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

words! {
    /// When the time of a block begins, after which its missing packets are asked for.
    pub enum BlockTimer: "pause or whole" {
        /// When its latest packet arrives: its sender may be slow, or send again. The receiver
        /// checks once in this time, so it asks within twice this time.
        Pause = "pause",
        /// When its first packet arrives, as the paper has it.
        Whole = "whole",
    }
}

params! {
    /// Settings of erasure coding beside the code and its shape.
    pub struct EcParams {
        /// Flows over paths of at least this base RTT are coded; flows inside a datacentre are not.
        //= uno#4.2
        base_rtt_min: Duration = Duration::from_us(100), in Duration::ZERO..=Duration::from_s(2);
        /// How long a receiver waits before it asks for the missing packets of a block; auto: 80us
        /// with `block_timer=pause`, the delay of a full queue of 1 MB at 100 Gb/s. With `whole` it
        /// is the delay of all queues on the longest path, when all are full, and the time that a
        /// block takes on the line; 80us and that time where the network is not known. With `pause`
        /// the receiver checks once in this time, so it asks within twice this time.
        block_timeout: Option<Duration> = None,
            in None..=Some(Self::BLOCK_TIMEOUT_MAX), of_network "auto";
        /// The packet of a block from which its timeout counts: pause or whole.
        block_timer: BlockTimer = BlockTimer::Pause;
        /// The packets that are sent again of a block that lacks some: lost or needed.
        resend: Resend = Resend::Lost;
    }
}

/// The wait for another packet of a block, and for all of it where queues are not known. A wait for
/// the longest queue of the network is better where paths differ, and worse elsewhere: with queues
/// of 4 MB, 320 us, flows of a workload take 11 % longer (docs/results/uno.md).
const BLOCK_TIMEOUT: Duration = Duration::from_us(80);

impl EcParams {
    /// The shortest wait for a block. Without one every block would be asked for at once.
    pub(crate) const BLOCK_TIMEOUT_MIN: Duration = Duration::from_us(1);
    /// The longest wait for a block.
    const BLOCK_TIMEOUT_MAX: Duration = Duration::from_s(2);

    /// How long a receiver waits for another packet of a block before it asks for those that are
    /// missing.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.block_timeout.unwrap_or(BLOCK_TIMEOUT)
    }

    /// How long a receiver waits before it asks for the missing packets of a block of `shape`,
    /// each of which takes `packet` on the line.
    pub(crate) fn wait(&self, shape: BlockShape, packet: Duration) -> Duration {
        match (self.block_timeout, self.block_timer) {
            // Without the time on the line, a slow line would have every block asked for while it
            // arrives.
            (None, BlockTimer::Whole) => Self::for_whole(shape, BLOCK_TIMEOUT, packet),
            _ => self.patience(),
        }
    }

    /// `delay` and the time of a whole block of `shape` on the line, which takes `packet` for each
    /// of its packets, within the range of the setting.
    fn for_whole(shape: BlockShape, delay: Duration, packet: Duration) -> Duration {
        let packets = u64::from(shape.data() + shape.parity());
        let wait = delay + packet * packets;
        wait.clamp(Self::BLOCK_TIMEOUT_MIN, Self::BLOCK_TIMEOUT_MAX)
    }

    /// Adapts the settings of blocks of `shape` to facts about the network.
    pub(crate) fn resolve(&mut self, shape: BlockShape, facts: &NetworkFacts) {
        //= uno#4.2
        // The estimated maximum queuing and transmission delay.
        if let (BlockTimer::Whole, Some(queues)) = (self.block_timer, facts.queues) {
            self.block_timeout = Some(Self::for_whole(shape, queues.full, queues.packet));
        }
    }
}

/// The registration of a code, in its file.
pub trait Code: ErasureCode + Registered {
    /// The code of a flow with blocks of `shape`.
    ///
    /// A receiver builds it for each coded packet: it computes and allocates nothing.
    fn build(shape: BlockShape, params: &CodeParams) -> Self;
    /// The number in the CODE extension of how parity is computed; `None` for a code without
    /// parity, whose packets have no such extension.
    fn number() -> Option<NonZeroU8>;
    /// Whether flows code a block only where links were found to lose segments.
    #[must_use]
    fn is_by_loss() -> bool {
        false
    }
}

registry! {
    /// Names the registered codes.
    pub enum EcKind;
    /// One flow's code, stored inline in the flow.
    pub enum Ec: ErasureCode;
    new: Code::build(shape: BlockShape, params: &CodeParams);
    params {
        /// The settings of every code, `ec.<name>.<key>`; both ends of a flow read their own.
        pub struct CodeParams;
    }
    kinds {
        /// The number of the code in the CODE extension; `None` for a code without parity.
        fn number() -> Option<NonZeroU8>;
        /// Whether flows code a block only where links were found to lose segments.
        fn is_by_loss() -> bool;
    }
    policies {
        "off" => uncoded::Uncoded,
        "mds" => mds::Mds,
        "auto" => auto::Auto,
    }
    fn shape(&self) -> BlockShape;
    fn is_decodable(&self, block: &Block, have: u64) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::QueueFacts;
    use crate::wire::Coded;
    use proptest::prelude::*;

    #[test]
    fn every_code_with_parity_has_a_number_that_headers_can_carry() {
        let numbers = |kind: &EcKind| kind.number();
        let coded: alloc::vec::Vec<_> = EcKind::ALL.iter().filter_map(numbers).collect();
        // Coding by loss uses another code.
        let plain = EcKind::ALL.iter().filter(|kind| !kind.is_by_loss());
        let plain: alloc::vec::Vec<_> = plain.filter_map(numbers).collect();
        let unlike = |at: usize| !plain[..at].contains(&plain[at]);
        assert!((0..plain.len()).all(unlike), "{plain:?}");
        assert!(coded.iter().all(|number| plain.contains(number)), "{coded:?}");
        assert!(coded.iter().all(|number| number.get() <= Coded::NUMBER_MAX), "{coded:?}");
        assert_eq!(coded.len() + 1, EcKind::ALL.len(), "one code is none");
        assert_eq!((EcKind::Uncoded.number(), EcKind::Mds.number()), (None, NonZeroU8::new(1)));
    }

    #[test]
    fn the_time_of_a_block_by_its_queues_is_one_that_may_be_set() {
        for (full, wait) in [(0, EcParams::BLOCK_TIMEOUT_MIN), (3, EcParams::BLOCK_TIMEOUT_MAX)] {
            let queues = QueueFacts { full: Duration::from_s(full), ..QueueFacts::default() };
            let facts = NetworkFacts { queues: Some(queues), ..NetworkFacts::default() };
            let mut params = EcParams { block_timer: BlockTimer::Whole, ..EcParams::default() };
            params.resolve(BlockShape::new(8, 2).unwrap(), &facts);
            assert_eq!((params.patience(), params.validate()), (wait, Ok(())));
        }
    }

    #[test]
    fn a_whole_block_on_the_slowest_line_is_waited_for_2_s_at_most() {
        let whole = EcParams { block_timer: BlockTimer::Whole, ..EcParams::default() };
        let shape = BlockShape::new(48, 16).unwrap();
        for (packet, wait) in [
            (Duration::from_ms(1), BLOCK_TIMEOUT + Duration::from_ms(64)),
            (Duration::from_ms(33), EcParams::BLOCK_TIMEOUT_MAX),
        ] {
            assert_eq!(whole.wait(shape, packet), wait);
            // A pause is as long on every line.
            assert_eq!(EcParams::default().wait(shape, packet), BLOCK_TIMEOUT);
        }
    }

    proptest! {
        #[test]
        fn more_packets_never_make_a_block_undecodable_and_all_data_always_suffice(
            data in 1..=DATA_MAX, parity in 0..=PARITY_MAX, segments in 1..200_u32, have: u64,
            more: u64,
        ) {
            let shape = BlockShape::new(data, parity).unwrap();
            for kind in EcKind::ALL {
                let code = Ec::new(*kind, shape, &CodeParams::default());
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
