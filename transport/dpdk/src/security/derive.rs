//! The key of one flow in one direction, out of a shared key and what a frame says of itself.
//!
//! HKDF-SHA256 of the shared key; the information is mode, both addresses, the flow's key and the
//! start of the derived key, so the two directions of a flow never have one key, and a frame whose
//! addresses, mode or start was changed does not open. About 2 us, once a second and flow.

use aws_lc_rs::aead::{AES_128_GCM, LessSafeKey, Nonce, UnboundKey};

use super::key_file::SharedKey;

/// The name of a derived key beside the shared one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// Source address, an IPv4 address in front of zeros.
    pub(super) src: [u8; 16],
    pub(super) dst: [u8; 16],
    /// The key of the flow; 0 for notes for hosts.
    pub(super) flow: u64,
    /// When it was first used, ns since 1970.
    pub(super) start: u64,
    /// The number of the shared key.
    pub(super) key: u8,
    pub(super) encrypted: bool,
}

impl Name {
    /// A number that differs from one flow to the next, not 0. All keys of a flow in one direction
    /// have the same.
    #[inline]
    pub(super) fn print(&self) -> u64 {
        let ends = halves(&self.src).wrapping_mul(SPREAD) ^ halves(&self.dst);
        transport::rng::mix(self.flow ^ ends).max(1)
    }

    /// A number that differs from one sender to the next.
    pub(super) fn sender_print(&self) -> u64 {
        transport::rng::mix(halves(&self.src))
    }

    /// Whether both are keys of one flow in one direction.
    #[inline]
    pub(super) fn is_of_flow(&self, other: &Self) -> bool {
        (self.flow, self.src, self.dst) == (other.flow, other.src, other.dst)
    }
}

/// Odd, with bits everywhere.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn halves(address: &[u8; 16]) -> u64 {
    let word = |octets: &[u8]| octets.first_chunk().map_or(0, |half| u64::from_ne_bytes(*half));
    word(address).wrapping_mul(SPREAD) ^ word(&address[8..])
}

/// Sixteen octets of an address.
#[inline]
pub(super) fn wide(address: &[u8]) -> [u8; 16] {
    let mut wide = [0; 16];
    let len = address.len().min(wide.len());
    wide[..len].copy_from_slice(&address[..len]);
    wide
}

/// The derived key of a name; `None` never happens with these lengths.
pub(super) fn key_of(shared: &SharedKey, name: &Name) -> Option<LessSafeKey> {
    let (flow, start) = (name.flow.to_be_bytes(), name.start.to_be_bytes());
    let mode = [u8::from(name.encrypted)];
    let information = [&mode[..], &name.src, &name.dst, &flow, &start];
    let key = shared.derive.expand(&information, &AES_128_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

/// The nonce of frame `number` of a derived key, which never has two frames of one number.
#[inline]
pub(super) fn nonce(number: u64) -> Nonce {
    let mut octets = [0; 12];
    octets[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(octets)
}
