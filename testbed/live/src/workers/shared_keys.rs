//! Keys that hosts share, as the command line names them, and the file that they come from while it
//! changes.

use std::path::Path;

use transport::{Duration, Instant};
use transport_dpdk::{KeyFile, KeyFileError, Keys, Payloads, Security, WallClock};

/// The keys of `--security`.
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
    /// What is wrong, where, what was expected and how to mend it.
    pub fn read(text: &str) -> Result<Self, String> {
        let (payloads, path) = match text.split_once(':') {
            Some(("psk", path)) => (Payloads::Encrypted, path),
            Some(("psk-auth", path)) => (Payloads::Authenticated, path),
            _ => {
                return Err(format!(
                    "--security {text}: unknown; expected psk:FILE, or psk-auth:FILE to leave \
                     payloads readable"
                ));
            }
        };
        if WallClock::System.at(Instant::ZERO) < YEAR_2020_NS {
            return Err(format!(
                "--security {text}: the system's clock shows a time before 2020; expected the \
                 present, from which packets take numbers that come once; set it (timedatectl)"
            ));
        }
        let mut file = KeyFile::at(Path::new(path));
        let keys = file.read().map_err(|error| error.to_string())?;
        Ok(Self { file, keys, payloads, look_at: Instant::ZERO })
    }

    /// What seals and opens the frames of one host with up to `flows` flows, from now on.
    #[must_use]
    pub fn security(&self, flows: u32) -> Box<Security> {
        let clock = (WallClock::System, Instant::ZERO);
        Box::new(Security::new(&self.keys, self.payloads, flows, clock))
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

    /// What is done, in a few words.
    #[must_use]
    pub fn described(&self) -> String {
        let payloads = match self.payloads {
            Payloads::Encrypted => "payloads encrypted",
            Payloads::Authenticated => "payloads readable",
        };
        format!("packets sealed by keys of {}, {payloads}", self.file.path().display())
    }
}

/// What a run without keys says of itself.
pub(crate) const UNSEALED: &str = "packets are not sealed (--security psk:FILE seals them)";

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
            let error = SharedKeys::read(text).unwrap_err();
            assert!(error.contains("--security") && error.contains(expected), "{error}");
        }
    }
}
