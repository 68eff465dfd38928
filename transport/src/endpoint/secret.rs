//! What the keys of an endpoint's flows are made of.

use core::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use crate::config::Config;
use crate::rng::Rng;
use crate::units::{HostId, Key};

/// Known to this endpoint alone. Whoever knows keys learns nothing of the secret from them, so a
/// peer cannot tell the keys of other flows from its own.
#[derive(Clone)]
pub(super) struct Secret(SipHasher24);

impl Secret {
    /// What `config` has, or, where that is nothing, a draw from a stream of `rng` of its own.
    pub(super) fn new(config: &Config, rng: &Rng) -> Self {
        let mut drawn = rng.fork("secret", 0);
        let [a, b] = match config.secret {
            [0, 0] => [drawn.next_u64(), drawn.next_u64()],
            given => given,
        };
        Self(SipHasher24::new_with_keys(a, b))
    }

    /// The key of outgoing flow number `opened` of `host`.
    pub(super) fn key(&self, host: HostId, opened: u64) -> Key {
        let mut hasher = self.0;
        hasher.write_u32(host.0);
        hasher.write_u64(opened);
        Key(hasher.finish())
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("secret")
    }
}
