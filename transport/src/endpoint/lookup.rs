//! The hash of the opening look-up. It is fixed, so that results never depend on a library's
//! choice. It is keyed, since a sender chooses most of what is hashed: a sender without the key
//! cannot make flows that all fall into one bucket.

use core::hash::{BuildHasher, Hasher};

use hashbrown::HashMap;

use super::SenderFlow;
use super::shares::Held;
use crate::units::FlowId;

/// Incoming flows by their sender's name. Never iterated.
pub(super) type FlowsBySender = HashMap<SenderFlow, FlowId, KeyHash>;

/// What each host, or each group, holds; hosts and groups that hold nothing have no entry. Never
/// iterated.
pub(super) type HeldBy = HashMap<u32, Held, KeyHash>;

/// What switches keep for flows, by the flows' keys, which their senders have chosen. Iterated only
/// where the order has no effect.
pub type ByKey<T> = HashMap<u64, T, KeyHash>;

/// Makes hashers of one key.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash([u64; 2]);

impl KeyHash {
    /// A hash of the key, which is secret to senders of what is hashed.
    #[must_use]
    pub const fn new(key: [u64; 2]) -> Self {
        Self(key)
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { key: self.0, state: 0 }
    }
}

/// Scatters a (host, flow, key) by multiplications of words that have parts of the key.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    key: [u64; 2],
    state: u64,
}

/// The product of two words, its halves combined.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a product")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

impl Hasher for KeyHasher {
    #[inline]
    fn finish(&self) -> u64 {
        fold(self.state ^ self.key[1], self.key[0] | 1)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.state = fold(self.state ^ self.key[0], n ^ self.key[1]);
    }

    fn write_u32(&mut self, n: u32) {
        self.state = self.state.rotate_left(32) ^ u64::from(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::units::{HostId, Key};

    /// Senders whose names and keys differ in bits that cancel out where nothing is keyed between.
    fn alike(n: u32) -> (HostId, FlowId, Key) {
        (HostId(1), FlowId(n), Key(u64::from(n)))
    }

    #[test]
    fn which_senders_share_a_bucket_depends_on_the_key() {
        let mut rng = Rng::new(3);
        let hashes = [(); 3].map(|()| KeyHash::new([rng.next_u64(), rng.next_u64()]));
        for hash in hashes {
            let mut buckets = [0_u32; 64];
            for n in 0..64_000 {
                buckets[usize::try_from(hash.hash_one(alike(n)) % 64).unwrap()] += 1;
            }
            assert!(buckets.iter().all(|count| (700..1300).contains(count)), "{buckets:?}");
        }
        // Flows that collide under one key do not collide under another.
        let together = |n: &u32| hashes[0].hash_one(alike(*n)) % 64 == 0;
        let mut apart = [0_u32; 64];
        for n in (0..64_000).filter(together) {
            apart[usize::try_from(hashes[1].hash_one(alike(n)) % 64).unwrap()] += 1;
        }
        assert!(apart.iter().all(|count| *count < 60), "{apart:?}");
    }
}
