//! Keys that hosts share, as command lines and applications name them, and the file that they come
//! from while it changes.

use std::path::Path;

use transport::{Duration, Instant};

use super::{KeyFile, KeyFileError, KeyLog, Keys, Payloads, Security, WallClock};

/// The keys of `psk:FILE` or `psk-auth:FILE`, and what they are used for.
///
/// Ask [`SharedKeys::changed`] in the loop that polls a worker, and give what it returns to
/// [`crate::Worker::rotate`]: keys then rotate without a pause.
#[derive(Clone, Debug)]
pub struct SharedKeys {
    file: KeyFile,
    keys: Keys,
    payloads: Payloads,
    /// Where derived keys are written, if anywhere.
    log: Option<KeyLog>,
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
        Ok(Self { file, keys, payloads, log: None, look_at: Instant::ZERO })
    }

    /// Writes each key that a host of these keys derives to the file at `path`.
    ///
    /// # Errors
    /// [`KeyFileError`] when it cannot be written, or when other users may read it.
    pub fn logged(self, path: &Path) -> Result<Self, KeyFileError> {
        Ok(Self { log: Some(KeyLog::at(path)?), ..self })
    }

    /// What seals and opens the frames of one host with up to `flows` flows, from now on.
    #[must_use]
    pub fn security(&self, flows: u32) -> Box<Security> {
        let clock = (WallClock::System, Instant::ZERO);
        let security = Security::new(&self.keys, self.payloads, flows, clock);
        Box::new(security.logged(self.log.clone()))
    }

    /// The keys as the file last had them.
    #[must_use]
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The keys, when the file has changed since it was looked at, or why they are no longer
    /// logged; at most once a second.
    pub fn changed(&mut self, now: Instant) -> Option<Result<&Keys, KeyFileError>> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        if let Some(error) = self.log.as_ref().and_then(KeyLog::failure) {
            return Some(Err(error));
        }
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
        let path = self.file.path().display();
        let logged = self.warning().map_or_else(String::new, |warning| format!("; {warning}"));
        format!("packets sealed by keys of {path}, {payloads}{logged}")
    }

    /// The line that a run with a log of keys begins with; `None` without one.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let path = self.log.as_ref()?.path().display();
        Some(format!("KEYS ARE LOGGED in {path}: its reader can read captures and forge packets"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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

    #[test]
    fn a_log_of_keys_is_said_and_its_end_is_reported_once() {
        let path = std::env::temp_dir().join(format!("headrace-logged-{}", std::process::id()));
        std::fs::write(&path, format!("1 {}\n", "3c5a".repeat(16))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let plain = SharedKeys::read(&format!("psk:{}", path.display())).unwrap();
        assert!(plain.warning().is_none() && !plain.described().contains("LOGGED"));
        let mut logged = plain.logged(Path::new("/dev/full")).unwrap();
        assert!(logged.described().contains("KEYS ARE LOGGED in /dev/full"));
        assert!(logged.changed(Instant::ZERO).is_none());
        logged.log.as_ref().unwrap().add(&[0; 49], &[0; 16]);
        let later = |seconds| Instant::ZERO + Duration::from_s(seconds);
        let ended = logged.changed(later(1)).unwrap().unwrap_err().to_string();
        assert!(ended.contains("--key-log") && ended.contains("No space"), "{ended}");
        assert!(logged.changed(later(2)).is_none());
        std::fs::remove_file(&path).unwrap();
    }
}
