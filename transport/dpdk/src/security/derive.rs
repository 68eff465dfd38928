//! The key of one flow in one direction, derived from a shared key and fields of the frame.
//!
//! HKDF-SHA256 of the shared key. The information is mode, both addresses, the flow's key and the
//! start of the derived key. So the two directions of a flow never have one key, and a frame whose
//! addresses, mode or start was changed does not open. About 2 us, once a second and flow.

use aws_lc_rs::aead::{AES_128_GCM, LessSafeKey, Nonce, UnboundKey};

use super::key_file::SharedKey;
use super::key_log::{KEY_LEN, KeyLog, NAME_LEN};

/// The name of a derived key beside the shared one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeyName {
    /// Source address, an IPv4 address in front of zeros.
    pub(super) src: [u8; 16],
    pub(super) dst: [u8; 16],
    /// The key of the flow; 0 for notes for hosts.
    pub(super) flow: u64,
    /// When the key was first used, ns since 1970.
    pub(super) start: u64,
    /// The number of the shared key.
    pub(super) key: u8,
    pub(super) encrypted: bool,
}

impl KeyName {
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

    /// The octets of the name that its key is derived from.
    fn information(&self) -> [u8; NAME_LEN] {
        let mut octets = [0; NAME_LEN];
        octets[0] = u8::from(self.encrypted);
        octets[1..17].copy_from_slice(&self.src);
        octets[17..33].copy_from_slice(&self.dst);
        octets[33..41].copy_from_slice(&self.flow.to_be_bytes());
        octets[41..].copy_from_slice(&self.start.to_be_bytes());
        octets
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
pub(super) fn key_of(shared: &SharedKey, name: &KeyName) -> Option<LessSafeKey> {
    let information = name.information();
    let information: [&[u8]; 1] = [&information];
    let key = shared.derive.expand(&information, &AES_128_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

/// Writes the derived key of a name to a log of keys.
#[cold]
pub(super) fn log_key(shared: &SharedKey, name: &KeyName, log: &KeyLog) {
    let (named, mut octets) = (name.information(), [0; KEY_LEN]);
    let information: [&[u8]; 1] = [&named];
    let key = shared.derive.expand(&information, &AES_128_GCM);
    if key.and_then(|key| key.fill(&mut octets)).is_ok() {
        log.add(&named, &octets);
    }
}

/// The nonce of frame `number` of a derived key, which never has two frames of one number.
#[inline]
pub(super) fn nonce(number: u64) -> Nonce {
    let mut octets = [0; 12];
    octets[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(octets)
}
