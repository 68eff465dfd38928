//! The source of an outgoing message's bytes: memory, or a pattern that needs none.
//!
//! A pattern is made for tests of any size: byte `i` is a pure function of (seed, tag, i), and 4
//! KiB of it are one copy out of a shared pseudo-random block. Each piece starts at a place of the
//! block that depends on seed, tag and piece, so bytes that end up in the wrong message, or at the
//! wrong offset, do not match. Offsets are bytes from the start of the message. The pattern is no
//! cryptography.

use std::fmt;
use std::sync::{Arc, OnceLock};

use transport::Rng;
use transport::rng::mix;
use xxhash_rust::xxh3::Xxh3;

use crate::buffers::region::Region;

/// The bytes of one outgoing message.
#[derive(Clone, PartialEq, Eq)]
pub enum MessageBytes {
    /// Memory, shared with the application until the message is over. The message is its first
    /// bytes.
    Owned(Arc<[u8]>),
    /// Memory that devices may read where it lies; the message is its bytes from `offset` on.
    Region {
        /// Shared likewise, and with the device.
        region: Arc<Region>,
        /// First byte.
        offset: u64,
    },
    /// Computed.
    Pattern(Pattern),
}

/// An endless pseudo-random text; different for every seed and tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The seed of the run.
    pub seed: u64,
    /// The tag of the message.
    pub tag: u64,
}

/// Bytes of a pattern that lie together in the block.
const PIECE: usize = 4096;
/// Places of the block where a piece may start; fits a level-2 cache.
const PLACES: u32 = 1 << 16;
const BLOCK: usize = PLACES as usize + PIECE;

impl MessageBytes {
    /// Copies the bytes from `offset` on to all of `out`; false when the source ends earlier.
    #[must_use]
    pub fn read(&self, offset: u32, out: &mut [u8]) -> bool {
        match self {
            Self::Owned(memory) => copy(memory, u64::from(offset), out),
            Self::Region { region, offset: first } => {
                let start = usize::try_from(first.saturating_add(u64::from(offset)));
                let range = start.ok().and_then(|start| Some(start..start.checked_add(out.len())?));
                let bytes = range.and_then(|range| region.range(range));
                bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
            }
            Self::Pattern(pattern) => {
                pattern.read(u64::from(offset), out);
                true
            }
        }
    }
}

/// Copies the bytes from `offset` on to all of `out`; false when there are fewer.
fn copy(memory: &[u8], offset: u64, out: &mut [u8]) -> bool {
    let Ok(start) = usize::try_from(offset) else { return false };
    let bytes = memory.get(start..).and_then(|rest| rest.get(..out.len()));
    bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
}

impl fmt::Debug for MessageBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owned(memory) => write!(f, "Owned({} bytes)", memory.len()),
            Self::Region { region, offset } => write!(f, "{region:?} from {offset}"),
            Self::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

impl Pattern {
    /// Copies the bytes from `offset` on to all of `out`.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        let block = block();
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let piece = at / PIECE as u64;
            let within = usize::try_from(at % PIECE as u64).unwrap_or(0);
            let length = rest.len().min(PIECE - within);
            let from = self.place_of(piece) + within;
            let (now, later) = rest.split_at_mut(length);
            now.copy_from_slice(&block[from..from + length]);
            rest = later;
            at += length as u64;
        }
    }

    /// The checksum that a message of the first `len` bytes is delivered with. O(len), about 10 GB
    /// a second.
    #[must_use]
    pub fn checksum(&self, len: u32) -> u64 {
        let mut hash = Xxh3::new();
        let mut buffer = [0; PIECE];
        let mut at = 0;
        while at < u64::from(len) {
            let left = usize::try_from(u64::from(len) - at).unwrap_or(PIECE).min(PIECE);
            self.read(at, &mut buffer[..left]);
            hash.update(&buffer[..left]);
            at += left as u64;
        }
        hash.digest()
    }

    fn place_of(&self, piece: u64) -> usize {
        let chosen = mix(self.seed ^ mix(self.tag ^ mix(piece))) % u64::from(PLACES);
        usize::try_from(chosen).unwrap_or(0)
    }
}

fn block() -> &'static [u8] {
    static SHARED: OnceLock<Box<[u8]>> = OnceLock::new();
    SHARED.get_or_init(|| {
        let mut rng = Rng::new(0x5eed).fork("pattern", 0);
        (0..BLOCK / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
    })
}

const _: () = assert!(BLOCK.is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pattern: Pattern, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        pattern.read(offset, &mut out);
        out
    }

    #[test]
    fn a_byte_of_a_pattern_depends_on_nothing_but_its_offset() {
        let pattern = Pattern { seed: 1, tag: 2 };
        let whole = bytes(pattern, 0, 20_000);
        for (offset, len) in [(0, 1), (4095, 2), (1, 9000), (8192, 4096), (19_999, 1)] {
            let start = usize::try_from(offset).unwrap();
            assert_eq!(bytes(pattern, offset, len), whole[start..start + len]);
        }
    }

    #[test]
    fn messages_and_pieces_differ() {
        let of = |seed, tag, offset| bytes(Pattern { seed, tag }, offset, 64);
        let all = [of(1, 1, 0), of(1, 2, 0), of(2, 1, 0), of(1, 1, 4096), of(1, 1, 1)];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one), "{i}");
        }
    }

    #[test]
    fn the_expected_checksum_is_that_of_the_bytes() {
        let pattern = Pattern { seed: 7, tag: 8 };
        for len in [1, 4096, 4097, 100_000] {
            let whole = bytes(pattern, 0, usize::try_from(len).unwrap());
            assert_eq!(pattern.checksum(len), xxhash_rust::xxh3::xxh3_64(&whole));
        }
    }

    #[test]
    fn memory_that_is_too_short_is_said_to_be() {
        let source = MessageBytes::Owned(Arc::from(&b"abcdef"[..]));
        let mut out = [0; 3];
        assert!(source.read(3, &mut out) && out == *b"def");
        assert!(!source.read(4, &mut out) && !source.read(u32::MAX, &mut out));
    }
}
