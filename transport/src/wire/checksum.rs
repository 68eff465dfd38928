//! The Internet checksum: computed in pieces while bytes are copied, and updated in place.
//!
//! Source: RFC 1071 (sum, any byte order), RFC 1624 equation 3 (incremental update). Sums are kept
//! in the machine's byte order and swapped once at the end. This code depends on no header;
//! [`super::frame`] does.

/// A running one's-complement sum over octets that arrive in pieces of any length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checksum {
    /// Sum of machine-order 16-bit words; at most 2^33 octets fit before it could overflow.
    sum: u64,
    /// An odd number of octets has been added, so the next piece starts in the middle of a word.
    odd: bool,
}

impl Checksum {
    /// The sum of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { sum: 0, odd: false }
    }

    /// Adds the next octets. O(n), about one cache line a few cycles.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let part = if bytes.len() < LONG { sum_words(bytes) } else { sum_long(bytes) };
        self.add_part(part, bytes.len());
    }

    /// [`Checksum::add`] of payload, for functions that are compiled for a processor with wide
    /// vectors: it is inlined there, and uses them.
    #[inline(always)]
    pub fn add_wide(&mut self, bytes: &[u8]) {
        self.add_part(sum_lanes(bytes), bytes.len());
    }

    /// Adds the sum of `len` octets.
    #[inline]
    fn add_part(&mut self, part: u64, len: usize) {
        // A piece that starts at an odd offset has its octets in the other half of each word.
        self.sum += if self.odd { u64::from(fold(part).swap_bytes()) } else { part };
        self.odd ^= len % 2 == 1;
    }

    /// Adds the two octets of `word`, high one first, as [`Checksum::add`] would behind an even
    /// number of octets.
    #[inline]
    pub(super) const fn add_word(&mut self, word: u16) {
        debug_assert!(!self.odd, "a word starts at an even offset");
        self.sum += word.to_be() as u64;
    }

    /// Takes out fewer than 2^16 octets, which the sum is over and which begin at an even offset.
    /// An even number of octets has been added before.
    #[inline]
    pub(super) fn remove(&mut self, bytes: &[u8]) {
        /// A multiple of 2^16 - 1, which changes no sum, above the sum of all that is taken out.
        const NOTHING: u64 = (1 << 48) - 1;
        debug_assert!(!self.odd && bytes.len() < 1 << 16, "removed at an even offset");
        self.sum += NOTHING - sum_words(bytes);
    }

    /// Four octets at an even offset, which were `old`, are `new` now. An even number of octets has
    /// been added before.
    #[inline]
    pub(super) const fn replace(&mut self, old: [u8; 4], new: [u8; 4]) {
        debug_assert!(!self.odd, "replaced at an even offset");
        // The complement of four octets is what is missing to a multiple of 2^16 - 1.
        self.sum += u32::from_ne_bytes(new) as u64 + !u32::from_ne_bytes(old) as u64;
    }

    /// `checksum` after octets that it covers have changed: those that this sum lacks were removed,
    /// and those in it have come; RFC 1624 equation 3.
    #[inline]
    pub(super) fn changes(self, checksum: u16) -> u16 {
        let before = Self { sum: self.sum + u64::from((!checksum).to_be()), odd: self.odd };
        before.finish()
    }

    /// Copies `from` to the front of `to` and adds it, in one pass through the cache.
    ///
    /// # Panics
    /// When `to` is shorter than `from`: the driver's buffer is too small, a bug.
    pub fn add_copying(&mut self, from: &[u8], to: &mut [u8]) {
        /// Even, so that no piece but the last has odd length; small enough to stay in the L1
        /// cache.
        const BLOCK: usize = 1024;
        for (from, to) in from.chunks(BLOCK).zip(to[..from.len()].chunks_mut(BLOCK)) {
            to.copy_from_slice(from);
            self.add(from);
        }
    }

    /// The folded sum in network order, not complemented: the value that a NIC starts from in the
    /// checksum field.
    #[inline]
    #[must_use]
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.sum))
    }

    /// The checksum of all that was added: the complement of [`Checksum::folded`]. Over octets that
    /// contain their own correct checksum it is 0.
    #[inline]
    #[must_use]
    pub fn finish(self) -> u16 {
        !self.folded()
    }
}

/// `checksum` after one 16-bit word that it covers has changed from `old` to `new`; RFC 1624
/// equation 3.
#[must_use]
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Sum of the machine-order words of `bytes`, an odd last octet padded with zero.
#[inline]
fn sum_words(bytes: &[u8]) -> u64 {
    // Four octets at a time: 2^32 is 1 modulo 2^16 - 1, so the halves may be folded at the end.
    let (quads, rest) = bytes.as_chunks::<4>();
    let mut sum = quads.iter().fold(0, |sum, quad| sum + u64::from(u32::from_ne_bytes(*quad)));
    let (pairs, last) = rest.as_chunks::<2>();
    sum += pairs.iter().fold(0, |sum, pair| sum + u64::from(u16::from_ne_bytes(*pair)));
    if let [octet] = last {
        sum += u64::from(u16::from_ne_bytes([*octet, 0]));
    }
    sum
}

/// Octets from which on [`sum_lanes`] is faster than [`sum_words`].
const LONG: usize = 128;

#[inline(never)]
fn sum_long(bytes: &[u8]) -> u64 {
    sum_lanes(bytes)
}

/// [`sum_words`] in lanes, which compilers turn into vectors.
#[inline(always)]
fn sum_lanes(bytes: &[u8]) -> u64 {
    const LANES: usize = 8;
    let (blocks, rest) = bytes.as_chunks::<{ 8 * LANES }>();
    let (mut low, mut high) = ([0_u64; LANES], [0_u64; LANES]);
    for block in blocks {
        let (lanes, _) = block.as_chunks::<8>();
        for (lane, octets) in lanes.iter().enumerate() {
            let quads = u64::from_ne_bytes(*octets);
            low[lane] += quads & 0xFFFF_FFFF;
            high[lane] += quads >> 32;
        }
    }
    low.iter().chain(&high).sum::<u64>() + sum_words(rest)
}

/// Adds the carries back in until 16 bits are left.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "four folds leave at most 16 bits")]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xFFFF_FFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    let sum = (sum >> 16) + (sum & 0xFFFF);
    sum as u16
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn of(bytes: &[u8]) -> u16 {
        let mut sum = Checksum::new();
        sum.add(bytes);
        sum.finish()
    }

    /// The definition, word by word.
    fn oracle(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn the_example_of_rfc_1071_sums_to_ddf2() {
        let mut sum = Checksum::new();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
    }

    #[test]
    fn a_known_ipv4_header_has_checksum_b861() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(of(&header), 0xb861);
    }

    #[test]
    fn the_example_of_rfc_1624_updates_to_zero_and_not_to_ffff() {
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn the_empty_sum_is_ffff() {
        assert_eq!(of(&[]), 0xFFFF);
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_give_the_sum_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(0usize..50, 0..20),
        ) {
            let mut sum = Checksum::new();
            let mut rest = &bytes[..];
            for cut in cuts {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                sum.add(piece);
                rest = tail;
            }
            sum.add(rest);
            prop_assert_eq!(sum.finish(), oracle(&bytes));
        }

        #[test]
        fn copying_copies_and_sums(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            let mut to = Vec::from([0xAA; 3001]);
            let mut sum = Checksum::new();
            sum.add_copying(&bytes, &mut to);
            prop_assert_eq!(&to[..bytes.len()], &bytes[..]);
            prop_assert_eq!(to[bytes.len()], 0xAA);
            prop_assert_eq!(sum.finish(), oracle(&bytes));
        }

        #[test]
        fn an_update_equals_a_new_sum(
            mut bytes in prop::collection::vec(any::<u8>(), 20..=20), at in 0usize..10, new: u16,
        ) {
            // RFC 1624 holds for data that is not all zero, as an IPv4 header never is.
            bytes[0] = 0x45;
            let at = at.max(1) * 2;
            let before = oracle(&bytes);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(updated(before, old, new), oracle(&bytes));
        }
    }
}
