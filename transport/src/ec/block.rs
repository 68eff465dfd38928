//! The geometry of erasure-coded blocks: how a message's segments fall into blocks, and which
//! packets of a block are enough. Source: \[uno\] sec. 4.2. Numbers only: the bytes of parity are
//! computed where bytes are, in `transport-gf`.
//!
//! ```text
//!   segments  0 1 2 3 4 5 6 7 | 8 9 10 11 12 13 14 15 | 16 17
//!   packets   0 . . . . . . 7 8 9 | 0 . . . . . . . 7 8 9 | 0 1 2 3        shape (8,2)
//!             data            parity                        a short block
//! ```
//!
//! Packets of a block are numbered data first, so a packet's number is its bit in a bitmap.

use core::fmt;
use core::str::FromStr;

/// Data packets of a block at most.
pub const DATA_MAX: u8 = 48;
/// Parity packets of a block at most. With [`DATA_MAX`] a block fits a bitmap of 64 bits.
pub const PARITY_MAX: u8 = 16;

const _: () = assert!(DATA_MAX + PARITY_MAX <= 64);

/// `(x, y)`: a full block has x data and y parity packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockShape {
    data: u8,
    parity: u8,
}

/// A shape with no data packet, or with more packets than a bitmap has bits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShapeError;

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a block is two numbers X,Y: 1..={DATA_MAX} data and 0..={PARITY_MAX} parity packets"
        )
    }
}

impl core::error::Error for ShapeError {}

impl Default for BlockShape {
    fn default() -> Self {
        //= uno#5.2.3
        Self { data: 8, parity: 2 }
    }
}

impl FromStr for BlockShape {
    type Err = ShapeError;
    /// Reads `X,Y`.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let (data, parity) = text.split_once(',').ok_or(ShapeError)?;
        let number = |text: &str| text.trim().parse().map_err(|_| ShapeError);
        Self::new(number(data)?, number(parity)?)
    }
}

impl fmt::Display for BlockShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.data, self.parity)
    }
}

impl BlockShape {
    /// The shape `(data, parity)`.
    ///
    /// # Errors
    /// Panics when `data` is not in `1..=DATA_MAX` or `parity` is above `PARITY_MAX`.
    pub const fn new(data: u8, parity: u8) -> Result<Self, ShapeError> {
        if data == 0 || data > DATA_MAX || parity > PARITY_MAX {
            return Err(ShapeError);
        }
        Ok(Self { data, parity })
    }

    /// This shape without parity packets.
    #[must_use]
    pub const fn without_parity(self) -> Self {
        Self { data: self.data, parity: 0 }
    }

    /// Data packets of a full block, `1..=DATA_MAX`.
    #[must_use]
    pub const fn data(self) -> u8 {
        self.data
    }

    /// Parity packets of every block, `0..=PARITY_MAX`.
    #[must_use]
    pub const fn parity(self) -> u8 {
        self.parity
    }

    /// How a message of `segments` segments is cut into blocks.
    #[must_use]
    pub const fn blocks(self, segments: u32) -> Blocks {
        Blocks { shape: self, segments }
    }
}

/// The blocks of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    shape: BlockShape,
    /// Segments of the message.
    segments: u32,
}

impl Blocks {
    /// How many blocks there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.segments.div_ceil(self.shape.data as u32)
    }

    /// Data and parity packets of all blocks.
    #[must_use]
    pub const fn packets(self) -> u64 {
        self.segments as u64 + self.count() as u64 * self.shape.parity as u64
    }

    /// Block number `index`, or `None` beyond the last.
    #[must_use]
    pub fn get(self, index: u32) -> Option<Block> {
        let full = u32::from(self.shape.data);
        let first = index.checked_mul(full).filter(|first| *first < self.segments)?;
        // The remainder is below `full` when it is the smaller, so it fits.
        let data = u8::try_from(self.segments - first).unwrap_or(u8::MAX).min(self.shape.data);
        Some(Block { first, data, parity: self.shape.parity })
    }

    /// The block of segment `segment` and the packet that it is there; `None` beyond the message.
    #[must_use]
    pub fn find(self, segment: u32) -> Option<(u32, u8)> {
        let full = u32::from(self.shape.data);
        let packet = u8::try_from(segment % full).ok()?;
        (segment < self.segments).then_some((segment / full, packet))
    }
}

/// One block. The last one of a message may have fewer data packets than the shape says, never
/// fewer parity packets: the end of a message is where a loss costs most.
// DEVIATION(uno#4.2): for the figures the last block was filled up with padding, which makes ten
// packets of a message of one byte. A shortened code protects as well and sends no padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The first segment of the message that is in it.
    pub first: u32,
    /// Data packets, `1..=DATA_MAX`.
    pub data: u8,
    /// Parity packets, `0..=PARITY_MAX`.
    pub parity: u8,
}

impl Block {
    /// Data and parity packets, `1..=64`.
    #[must_use]
    pub const fn packets(self) -> u8 {
        self.data + self.parity
    }

    /// The bitmap with every packet of the block.
    #[must_use]
    pub const fn all(self) -> u64 {
        ones(self.packets())
    }

    /// The bitmap with every data packet of the block.
    #[must_use]
    pub const fn all_data(self) -> u64 {
        ones(self.data)
    }

    /// Data packets of the block that are not in the bitmap `have`, as a bitmap.
    #[must_use]
    pub const fn missing_data(self, have: u64) -> u64 {
        self.all_data() & !have
    }

    /// How many more packets, of any kind, a maximum distance separable code needs. Bits beyond
    /// the block count for nothing.
    #[must_use]
    pub fn wanting(self, have: u64) -> u8 {
        // At most 64 bits are set.
        let known = u8::try_from((have & self.all()).count_ones()).unwrap_or(u8::MAX);
        self.data.saturating_sub(known)
    }
}

const fn ones(count: u8) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn a_shape_that_fits_no_bitmap_is_refused() {
        assert!(BlockShape::new(DATA_MAX, PARITY_MAX).is_ok());
        for (data, parity) in [(0, 2), (DATA_MAX + 1, 0), (1, PARITY_MAX + 1)] {
            assert_eq!(BlockShape::new(data, parity), Err(ShapeError));
        }
        assert!(ShapeError.to_string().contains("X,Y"));
    }

    #[test]
    fn a_shape_is_written_as_it_is_read() {
        let shape = BlockShape::default();
        assert_eq!((shape.data(), shape.parity(), shape.to_string().as_str()), (8, 2, "8,2"));
        assert_eq!("16, 4".parse(), BlockShape::new(16, 4));
        let plain = BlockShape::new(16, 4).map(BlockShape::without_parity);
        assert_eq!(plain, "16,0".parse());
        for text in ["", "8", "8,", "8,2,1", "a,b", "0,2", "8,17", "-8,2", "300,2"] {
            assert_eq!(text.parse::<BlockShape>(), Err(ShapeError), "{text}");
        }
    }

    #[test]
    fn the_last_block_is_short_and_keeps_its_parity() {
        let blocks = BlockShape::new(8, 2).unwrap().blocks(18);
        assert_eq!((blocks.count(), blocks.packets()), (3, 24));
        assert_eq!(blocks.get(2), Some(Block { first: 16, data: 2, parity: 2 }));
        assert_eq!(blocks.get(3), None);
        assert_eq!(blocks.find(17), Some((2, 1)));
        assert_eq!(blocks.find(18), None);
    }

    #[test]
    fn a_block_of_64_packets_uses_every_bit() {
        let shape = BlockShape::new(DATA_MAX, PARITY_MAX).unwrap();
        let block = shape.blocks(u32::from(DATA_MAX)).get(0).unwrap();
        assert_eq!((block.all(), block.wanting(u64::MAX)), (u64::MAX, 0));
    }

    proptest! {
        #[test]
        fn blocks_partition_the_segments_of_a_message(
            data in 1..=DATA_MAX, parity in 0..=PARITY_MAX, segments in 0..2000_u32,
        ) {
            let blocks = BlockShape::new(data, parity).unwrap().blocks(segments);
            let (mut next, mut packets) = (0, 0);
            for index in 0..blocks.count() {
                let block = blocks.get(index).unwrap();
                prop_assert_eq!(block.first, next);
                for packet in 0..block.data {
                    prop_assert_eq!(blocks.find(next), Some((index, packet)));
                    next += 1;
                }
                packets += u64::from(block.packets());
            }
            prop_assert_eq!((next, packets), (segments, blocks.packets()));
            prop_assert_eq!(blocks.get(blocks.count()), None);
        }

        #[test]
        fn a_block_wants_its_data_less_the_packets_it_has(
            data in 1..=DATA_MAX, parity in 0..=PARITY_MAX, have: u64,
        ) {
            let block = Block { first: 0, data, parity };
            let is_there = |bit: &u8| have & 1 << bit != 0;
            let known = (0..block.packets()).filter(is_there).count();
            let wanting = usize::from(data).saturating_sub(known);
            prop_assert_eq!(usize::from(block.wanting(have)), wanting);
            let missing = (0..data).filter(|bit| !is_there(bit));
            let missing = missing.fold(0, |map, bit| map | 1 << bit);
            prop_assert_eq!(block.missing_data(have), missing);
        }
    }
}
