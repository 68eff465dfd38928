//! The log of derived keys, without which a capture of sealed frames cannot be read. It has a line
//! for each key, in a file that no other user may read. Written only where a command line asks for
//! it.
//!
//! A line is `HEADRACE_SEAL_1 NAME KEY`: the octets that name the key, which are those that it is
//! derived from beside the shared key (docs/WIRE.md), and its 16 octets, both in hexadecimal
//! digits. Lines are appended, so the hosts of one machine may share a file. A logged key opens the
//! frames of one flow in one direction for about a second; shared keys are never written.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::key_file::{KeyFileError, OTHERS};

/// Octets that name a derived key.
pub(super) const NAME_LEN: usize = 49;
/// Octets of a derived key.
pub(super) const KEY_LEN: usize = 16;

/// The first word of each line, which names the derivation of the keys.
const LABEL: &str = "HEADRACE_SEAL_1";
/// [`Log::failed`] while every line was written.
const NONE: i32 = 0;
/// Linux's number of an error of a device (EIO), for errors that have none.
const IO_ERROR: i32 = 5;
/// [`Log::failed`] once the failure has been reported.
const REPORTED: i32 = -1;

/// A file of derived keys; all clones write to one file.
#[derive(Clone, Debug)]
pub struct KeyLog(Arc<Log>);

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    /// The system's number of the error at which the log has ended, [`NONE`] or [`REPORTED`].
    failed: AtomicI32,
}

impl KeyLog {
    /// Appends to the file at `path`, which is created with mode 600 where there is none.
    ///
    /// # Errors
    /// [`KeyFileError`] when it cannot be opened, when it is of another user or other users may
    /// read it, and when it is no file.
    pub fn at(path: &Path) -> Result<Self, KeyFileError> {
        let unopened = |error| KeyFileError::Log(path.to_owned(), error);
        let mut options = OpenOptions::new();
        // Without O_NONBLOCK, a pipe that has no reader would be waited for.
        options.append(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(unopened)?;
        let facts = file.metadata().map_err(unopened)?;
        let kind = facts.file_type();
        // A character device such as /dev/null keeps nothing that could be read.
        if !facts.is_file() && !kind.is_char_device() {
            return Err(KeyFileError::NoLog(path.to_owned()));
        }
        let user = std::fs::metadata("/proc/self").map_or(facts.uid(), |facts| facts.uid());
        if facts.is_file() && facts.uid() != user {
            return Err(KeyFileError::OthersLog(path.to_owned(), facts.uid()));
        }
        if facts.is_file() && facts.mode() & OTHERS != 0 {
            return Err(KeyFileError::ReadableLog(path.to_owned(), facts.mode() & 0o777));
        }
        Ok(Self(Arc::new(Log { path: path.to_owned(), file, failed: AtomicI32::new(NONE) })))
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Writes the line of a derived key. The first failure ends the log.
    #[cold]
    pub(super) fn add(&self, name: &[u8; NAME_LEN], key: &[u8; KEY_LEN]) {
        if self.0.failed.load(Ordering::Relaxed) != NONE {
            return;
        }
        // One write a line: lines of several workers and processes are not mixed.
        let line = format!("{LABEL} {} {}\n", hex(name), hex(key));
        if let Err(error) = (&self.0.file).write_all(line.as_bytes()) {
            self.0.failed.store(error.raw_os_error().unwrap_or(IO_ERROR), Ordering::Relaxed);
        }
    }

    /// Why the log has ended, once.
    pub(super) fn failure(&self) -> Option<KeyFileError> {
        let number = self.0.failed.load(Ordering::Relaxed);
        if matches!(number, NONE | REPORTED) {
            return None;
        }
        self.0.failed.store(REPORTED, Ordering::Relaxed);
        let error = io::Error::from_raw_os_error(number);
        Some(KeyFileError::LogEnded(self.0.path.clone(), error))
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::with_capacity(2 * octets.len()), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_log_is_of_its_user_alone_and_is_appended_to() {
        let path = std::env::temp_dir().join(format!("headrace-key-log-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        for octet in [0xA1, 0xB2] {
            KeyLog::at(&path).unwrap().add(&[octet; NAME_LEN], &[octet; KEY_LEN]);
        }
        let text = fs::read_to_string(&path).unwrap();
        let line = |octet: &str| {
            format!("HEADRACE_SEAL_1 {} {}\n", octet.repeat(NAME_LEN), octet.repeat(KEY_LEN))
        };
        assert_eq!(text, line("a1") + &line("b2"));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = KeyLog::at(&path).unwrap_err().to_string();
        assert!(error.contains("mode 640") && error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        // Root alone may give a file away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
            let error = KeyLog::at(&path).unwrap_err();
            assert!(matches!(error, KeyFileError::OthersLog(_, 12_345)), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = KeyLog::at(Path::new("/nowhere/keys")).unwrap_err().to_string();
        assert!(error.contains("--key-log") && error.contains("/nowhere/keys"), "{error}");
    }

    #[test]
    fn a_pipe_is_refused_without_a_wait_for_its_reader() {
        let path = std::env::temp_dir().join(format!("headrace-key-pipe-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let without_reader = KeyLog::at(&path).unwrap_err().to_string();
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let with_reader = KeyLog::at(&path).unwrap_err();
        drop(reader.unwrap());
        fs::remove_file(&path).unwrap();
        assert!(without_reader.contains("cannot open"), "{without_reader}");
        assert!(matches!(with_reader, KeyFileError::NoLog(_)), "{with_reader}");
    }

    #[test]
    fn a_full_disk_ends_a_log_and_is_said_once() {
        let log = KeyLog::at(Path::new("/dev/full")).unwrap();
        assert!(log.failure().is_none());
        log.add(&[0; NAME_LEN], &[0; KEY_LEN]);
        let error = log.failure().unwrap().to_string();
        assert!(error.contains("/dev/full") && error.contains("No space"), "{error}");
        assert!(error.contains("from here on"), "{error}");
        log.add(&[0; NAME_LEN], &[0; KEY_LEN]);
        assert!(log.failure().is_none());
    }
}
