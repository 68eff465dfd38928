//! The secret that the keys of an endpoint's flows are made from.

use core::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use super::lookup::KeyHash;
use crate::config::Config;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::{FlowId, HostId, Key};

/// Bits of a key that name the place of its flow: as many as an index has.
const INDEX: u64 = FlowId::CAPACITY as u64 - 1;

/// Cookies of this period and of the one before are good.
const PERIOD: Duration = Duration::from_s(10);

const _: () = assert!(FlowId::CAPACITY.is_power_of_two());

/// A secret of this endpoint alone. Keys reveal nothing of it, so a peer cannot compute the keys of
/// other flows from the key of its own.
#[derive(Clone)]
pub(super) struct Secret(SipHasher24);

impl Secret {
    /// The secret in `config`, or, where that is zero, a draw from a separate stream of `rng`.
    pub(super) fn new(config: &Config, rng: &Rng) -> Self {
        let mut drawn = rng.fork("secret", 0);
        let [a, b] = match config.secret {
            [0, 0] => [drawn.next_u64(), drawn.next_u64()],
            given => given,
        };
        Self(SipHasher24::new_with_keys(a, b))
    }

    /// The key of outgoing flow number `opened` of `host`, in the flows' table at `index`.
    ///
    /// The high bits follow from the secret and the count of flows. The low bits are the index
    /// under a mask that follows from the secret and the high bits, so that the endpoint finds the
    /// flow of a key without a table. To other hosts both look random: a guess of a key is right
    /// once in 2^64.
    pub(super) fn key(&self, host: HostId, opened: u64, index: usize) -> Key {
        let mut hasher = self.0;
        hasher.write_u32(host.0);
        hasher.write_u64(opened);
        let high = hasher.finish() & !INDEX;
        Key(high | (self.mask(high) ^ index as u64) & INDEX)
    }

    /// Where in the table the outgoing flow with `key` is, if the key is of this endpoint.
    pub(super) fn index_of(&self, key: Key) -> u32 {
        let index = (key.0 ^ self.mask(key.0 & !INDEX)) & INDEX;
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// What the sender of a flow, `src_flow` of `from` with `key`, has to send back to prove
    /// that it is there, in the `age`-th period before `now`.
    pub(super) fn cookie(
        &self,
        (from, src_flow, key): (HostId, FlowId, Key),
        now: Instant,
        age: u64,
    ) -> u64 {
        let mut hasher = self.0;
        hasher.write_u64((now.as_ps() / PERIOD.as_ps()).wrapping_sub(age));
        hasher.write_u32(from.0);
        hasher.write_u32(src_flow.0);
        hasher.write_u64(key.0);
        hasher.finish()
    }

    /// The key of the look-up of flows by their senders' names.
    pub(super) fn look_up(&self) -> KeyHash {
        let word = |name: &[u8]| {
            let mut hasher = self.0;
            hasher.write(name);
            hasher.finish()
        };
        KeyHash::new([word(b"look-up, first word"), word(b"look-up, second word")])
    }

    /// The word that chooses the instant of lump `number` of answers to strangers.
    pub(super) fn lump(&self, number: u64) -> u64 {
        let mut hasher = self.0;
        hasher.write(b"lump of answers");
        hasher.write_u64(number);
        hasher.finish()
    }

    fn mask(&self, high: u64) -> u64 {
        let mut hasher = self.0;
        hasher.write_u64(high);
        hasher.finish()
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn a_key_leads_its_maker_to_the_flow_and_differs_with_every_flow() {
        let config = Config::new(Settings::default()).unwrap();
        let secret = Secret::new(&config, &Rng::new(1));
        let other = Secret::new(&config, &Rng::new(2));
        let mut keys = alloc::collections::BTreeSet::new();
        let mut strangers = 0;
        for (opened, place) in (0..1000).zip(0..) {
            let index = place * 1048 % FlowId::CAPACITY;
            let key = secret.key(HostId(7), opened, index);
            assert_eq!(secret.index_of(key) as usize, index);
            strangers += usize::from(other.index_of(key) as usize == index);
            keys.insert(key.0);
        }
        assert!(keys.len() == 1000 && strangers == 0);
    }
}
