//! Keys that hosts share, as command lines and applications name them, and the file that they come
//! from while it changes.

use std::path::Path;

use transport::{Duration, Instant};

use super::{KeyFile, KeyFileError, Keys, Payloads, Security, WallClock};

/// The keys of `psk:FILE` or `psk-auth:FILE`, and what they are used for.
///
/// Ask [`SharedKeys::changed`] in the loop that polls a worker, and give what it returns to
/// [`crate::Worker::rotate`]: keys then rotate without a pause.
#[derive(Clone, Debug)]
pub struct SharedKeys {
    file: KeyFile,
    keys: Keys,
    payloads: Payloads,
    /// When the file is looked at next.
    look_at: Instant,
}

/// A clock that was never set shows less, ns since 1970.
const YEAR_2020_NS: u64 = 1_577_836_800_000_000_000;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_s(1);

impl SharedKeys {
    /// Reads the keys of `psk:FILE`, or of `psk-auth:FILE` to authenticate payloads without
    /// encrypting them.
    ///
    /// # Errors
    /// [`KeyFileError`]: what is wrong, where, what was expected and how to mend it.
    pub fn read(text: &str) -> Result<Self, KeyFileError> {
        let (payloads, path) = match text.split_once(':') {
            Some(("psk", path)) => (Payloads::Encrypted, path),
            Some(("psk-auth", path)) => (Payloads::Authenticated, path),
            _ => return Err(KeyFileError::Unknown(text.to_owned())),
        };
        if WallClock::System.at(Instant::ZERO) < YEAR_2020_NS {
            return Err(KeyFileError::Clock);
        }
        let mut file = KeyFile::at(Path::new(path));
        let keys = file.read()?;
        Ok(Self { file, keys, payloads, look_at: Instant::ZERO })
    }

    /// What seals and opens the frames of one host with up to `flows` flows, from now on.
    #[must_use]
    pub fn security(&self, flows: u32) -> Box<Security> {
        let clock = (WallClock::System, Instant::ZERO);
        Box::new(Security::new(&self.keys, self.payloads, flows, clock))
    }

    /// The keys as the file last had them.
    #[must_use]
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The keys, when the file has changed since it was looked at; at most once a second.
    pub fn changed(&mut self, now: Instant) -> Option<Result<&Keys, KeyFileError>> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        Some(self.file.changed()?.map(|keys| {
            self.keys = keys;
            &self.keys
        }))
    }

    /// What hosts must have in common: `psk` or `psk-auth`.
    #[must_use]
    pub const fn mode(&self) -> &'static str {
        match self.payloads {
            Payloads::Encrypted => "psk",
            Payloads::Authenticated => "psk-auth",
        }
    }

    /// The protection, in a few words.
    #[must_use]
    pub fn described(&self) -> String {
        let payloads = match self.payloads {
            Payloads::Encrypted => "payloads encrypted",
            Payloads::Authenticated => "payloads readable",
        };
        format!("packets sealed by keys of {}, {payloads}", self.file.path().display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_security_is_said_with_what_was_expected() {
        for (text, expected) in [
            ("psk", "expected psk:FILE"),
            ("tls:x", "expected psk:FILE"),
            ("psk:/nowhere/keys", "openssl rand -hex 32"),
            ("psk-auth:/", "expected a file"),
        ] {
            let error = SharedKeys::read(text).unwrap_err().to_string();
            assert!(error.contains("--security") && error.contains(expected), "{error}");
        }
    }
}
