//! The bytes of erasure-coded blocks between messages and frames. Source: \[uno\] sec. 4.2.
//!
//! ```text
//!   segments sent --Encoder::add--> parity of the open block --Encoder::write--> parity frame
//!   parity frame --Keeper::keep--> kept parity --Keeper::restore--> lost segments, in place
//! ```
//!
//! A sender adds each segment to its block's parity while the segment is in the cache; a receiver
//! keeps parity until the core reports that the block needs no more. Which packets leave, and which
//! have arrived, is decided by the core. Memory is taken once, in *slots* of one block's parity.
//! When it runs out everything stays correct: a sender computes parity from the message's memory
//! when it is due, and a receiver refuses parity before the core handles it. Sizes are bytes.

mod encoder;
mod keeper;
mod slots;

use transport::Config;
use transport::ec::{EcKind, PARITY_MAX};
use transport_gf::Codec;

pub(crate) use encoder::{Accumulated, Encoder, Wanted};
pub(crate) use keeper::{Keeper, Kept};
use slots::{Piece, SlotPool};

const PARITY: usize = PARITY_MAX as usize;

/// The code of an endpoint and how its messages are cut.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    codec: Codec,
    /// Bytes of a full segment.
    payload_max: usize,
    /// Bytes between the parity packets of a slot: whole cache lines.
    stride: usize,
}

/// Both directions of one endpoint.
#[derive(Debug)]
pub(crate) struct Coding {
    pub(crate) encoder: Encoder,
    pub(crate) keeper: Keeper,
}

impl Coding {
    /// The coding that `config` asks for, with memory to keep parity of `kept_max` bytes; `None`
    /// when no flow is coded.
    pub(crate) fn of(config: &Config, kept_max: u64) -> Option<Self> {
        let parity = config.ec_shape.parity();
        if config.ec == EcKind::Uncoded || parity == 0 {
            return None;
        }
        let payload_max = usize::from(config.payload_max);
        let stride = payload_max.next_multiple_of(LINE);
        let shape = Shape { codec: Codec::new(config.ec_shape), payload_max, stride };
        let slot_len = shape.slot_len();
        // A flow has one block open at a time.
        let encoders = config.tx_flows_max.min(ENCODING_MAX);
        let kept = u32::try_from(kept_max / slot_len as u64).unwrap_or(u32::MAX);
        let kept = kept.clamp(1, KEPT_MAX);
        Some(Self {
            encoder: Encoder::new(shape.clone(), encoders),
            keeper: Keeper::new(shape, kept, config.msgs_max),
        })
    }
}

impl Shape {
    fn slot_len(&self) -> usize {
        self.stride * usize::from(self.codec.shape().parity())
    }

    /// The parity packets in a slot, `len` bytes each; at most [`PARITY`], the rest empty.
    fn parity<'a>(&self, slot: &'a mut [u8], len: usize) -> [&'a mut [u8]; PARITY] {
        let mut packets = slot.chunks_exact_mut(self.stride);
        std::array::from_fn(|_| packets.next().and_then(|p| p.get_mut(..len)).unwrap_or_default())
    }

    /// How many of the array's slices are packets.
    fn count(&self) -> usize {
        usize::from(self.codec.shape().parity())
    }

    /// Bytes between two blocks of a message.
    fn block_len(&self) -> usize {
        self.payload_max * usize::from(self.codec.shape().data())
    }
}

/// Blocks that can be open at once with their parity accumulated.
const ENCODING_MAX: u32 = 64;
/// Blocks with kept parity at most.
const KEPT_MAX: u32 = 1 << 14;
/// Bytes of a cache line.
const LINE: usize = 64;
