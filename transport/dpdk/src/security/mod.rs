//! Frames sealed and opened: authenticated, and encrypted where that is wanted, by keys that hosts
//! share.
//!
//! Every host has the same file of shared keys ([`Keys`]). The key that seals a flow's frames in
//! one direction is derived from a shared key and from fields of the frame. So a receiver needs no
//! table of keys and no handshake; it keeps derived keys at hand. [`Sealer`] turns a plain frame
//! into a sealed one just before its device gets it. [`Opener`] turns it back as soon as it has
//! come in. So protocol and store work as with plain frames. What a seal covers and what it leaves
//! out: docs/WIRE.md.
//!
//! Deriving a key allocates, once a second and flow, since aws-lc-rs makes no key in memory that
//! was allocated before. So derivations are bounded for flows from which no frame has been opened
//! yet. Nothing else allocates after the start.
//!
//! AES-128-GCM and HKDF-SHA256 come from aws-lc-rs; this crate has no cryptography of its own. A
//! host that has the file can pose as every other host that has it; seals protect from all other
//! hosts.

mod authenticated;
mod budget;
mod contexts;
mod derive;
mod floors;
mod key_file;
mod key_log;
mod opener;
mod replay;
mod sealer;
mod shared_keys;
#[cfg(test)]
mod tests;

use transport::Instant;

pub use key_file::{KEYS_MAX, KeyFile, KeyFileError, Keys};
pub use key_log::KeyLog;
pub use opener::{Opened, Opener};
pub use sealer::Sealer;
pub use shared_keys::SharedKeys;

/// What is done to payloads. Headers are always authenticated and never encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Payloads {
    /// Encrypted and authenticated.
    #[default]
    Encrypted,
    /// Authenticated alone: readable on the way.
    Authenticated,
}

/// The time since 1970, which is all that hosts' clocks have in common; ns.
#[derive(Clone, Copy, Debug, Default)]
pub enum WallClock {
    /// The system's.
    #[default]
    System,
    /// Network time, whose start is at so many nanoseconds: for tests in virtual time.
    Network(u64),
}

impl WallClock {
    /// Now. Read when a key is derived, once a second and flow, and for frames under a start that
    /// is not at hand.
    #[must_use]
    #[expect(clippy::disallowed_types, reason = "hosts have no other clock in common")]
    pub fn at(&self, now: Instant) -> u64 {
        match self {
            Self::Network(base) => base.saturating_add(now.as_ps() / 1000),
            Self::System => {
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
            }
        }
    }
}

/// Both directions of one host.
#[derive(Debug)]
pub struct Security {
    /// Seals what leaves.
    pub sealer: Sealer,
    /// Opens what arrives.
    pub opener: Opener,
}

impl Security {
    /// Seals and opens by `keys` from `now` on, for a host with up to `flows` flows.
    #[must_use]
    pub fn new(
        keys: &Keys,
        payloads: Payloads,
        flows: u32,
        (wall, now): (WallClock, Instant),
    ) -> Self {
        Self {
            sealer: Sealer::new(keys.clone(), payloads, flows, wall),
            opener: Opener::new(keys.clone(), flows, wall, now),
        }
    }

    /// Writes each key that is derived to `log`, if there is one.
    #[must_use]
    pub fn logged(mut self, log: Option<KeyLog>) -> Self {
        self.sealer.log.clone_from(&log);
        self.opener.log = log;
        self
    }

    /// Uses `keys` from now on: seals by their first, opens by any. Frames under way that were
    /// sealed by a key that is gone are dropped and sent again.
    pub fn rotate(&mut self, keys: &Keys) {
        self.sealer.rotate(keys.clone());
        self.opener.rotate(keys.clone());
    }
}
