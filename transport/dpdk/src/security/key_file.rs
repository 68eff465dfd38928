//! The file of the keys that hosts share: a line a key, `NUMBER HEXDIGITS`, the first one seals.
//!
//! ```text
//! # number, then 64 hexadecimal digits (openssl rand -hex 32)
//! 2 8d0c...
//! 1 53aa...
//! ```
//!
//! All hosts open by every key of the file. So a new key goes first to the end of the file on every
//! host, then to its front on every host. The old key is removed at last. Empty lines and what
//! follows a `#` are skipped. No other user may read the file.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::hkdf;
use thiserror::Error;

/// Most keys in a file.
pub const KEYS_MAX: usize = 8;
/// Octets of a shared key.
const LEN: usize = 32;
/// Bits of a file's mode that let others read or change it.
pub(super) const OTHERS: u32 = 0o077;
/// A file with all keys and long comments is shorter; bytes.
const FILE_MAX: u64 = 1 << 16;
/// Separates these keys from those that another protocol derives of the same octets.
const SALT: &[u8] = b"headrace seal 1";

/// Keys that hosts share, the first one seals; 1..=[`KEYS_MAX`].
#[derive(Clone)]
pub struct Keys(Vec<SharedKey>);

/// One shared key, ready to derive from.
#[derive(Clone)]
pub(super) struct SharedKey {
    pub(super) number: u8,
    octets: [u8; LEN],
    pub(super) derive: hkdf::Prk,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Numbers alone: keys do not belong into logs.
        f.debug_list().entries(self.0.iter().map(|key| key.number)).finish()
    }
}

/// Why a file of keys cannot be used: where, what was expected, and how to mend it.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// The text names no file and what its keys are for.
    #[error(
        "--security {0}: unknown; expected psk:FILE, or psk-auth:FILE to leave payloads readable"
    )]
    Unknown(String),
    /// Packets take numbers from the time, which come once.
    #[error(
        "--security: the system's clock shows a time before 2020; expected the present, from \
         which packets take numbers that come once; set it (timedatectl)"
    )]
    Clock,
    /// The file system refused.
    #[error(
        "--security: cannot read {0} ({1}); expected a file of keys: \
         (umask 077; echo 1 $(openssl rand -hex 32) > {0}), the same on every host"
    )]
    Io(PathBuf, io::Error),
    /// Other users may read the file.
    #[error("--security: other users may read {0} (mode {1:03o}, expected 600); chmod 600 {0}")]
    Readable(PathBuf, u32),
    /// The log of derived keys cannot be opened.
    #[error("--key-log: cannot open {0} ({1}); expected a file that can be appended to")]
    Log(PathBuf, io::Error),
    /// The log of derived keys can no longer be written, and has ended.
    #[error(
        "--key-log: cannot write {0} ({1}); no key is logged from here on: later packets of a \
         capture will stay sealed"
    )]
    LogEnded(PathBuf, io::Error),
    /// The log of derived keys is of another user, so other users may get to read it.
    #[error("--key-log: {0} is of another user (number {1}); name a file of your own")]
    OthersLog(PathBuf, u32),
    /// The path of the log of derived keys is a pipe with a reader, or a device that keeps blocks.
    #[error("--key-log: {0} is no file; expected a file that can be appended to")]
    NoLog(PathBuf),
    /// Other users may read the log of derived keys.
    #[error("--key-log: other users may read {0} (mode {1:03o}, expected 600); chmod 600 {0}")]
    ReadableLog(PathBuf, u32),
    /// The path is no file, or the file is far too long.
    #[error("--security: {0} is no file of keys: expected a file of at most {FILE_MAX} bytes")]
    NoFile(PathBuf),
    /// A line is no key.
    #[error("--security: {0} line {1}: {2}; expected: {3}")]
    Line(PathBuf, usize, &'static str, &'static str),
    /// The file has no key.
    #[error(
        "--security: {0} has no key; expected a line such as: 1 HEX, with 64 hexadecimal digits \
         (openssl rand -hex 32)"
    )]
    Empty(PathBuf),
}

/// A file of keys, which may change while a process runs.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// Length, modification time and inode when it was read last.
    seen: Option<(u64, i64, i64, u64)>,
}

impl KeyFile {
    /// The file at `path`, not read yet.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: None }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn read(&mut self) -> Result<Keys, KeyFileError> {
        let unreadable = |error| KeyFileError::Io(self.path.clone(), error);
        let facts = fs::metadata(&self.path).map_err(unreadable)?;
        if !facts.is_file() || facts.len() > FILE_MAX {
            return Err(KeyFileError::NoFile(self.path.clone()));
        }
        if facts.mode() & OTHERS != 0 {
            return Err(KeyFileError::Readable(self.path.clone(), facts.mode() & 0o777));
        }
        let text = fs::read_to_string(&self.path).map_err(unreadable)?;
        let keys = parse(&text, &self.path)?;
        self.seen = Some(stamp(&facts));
        Ok(keys)
    }

    /// Reads the file if it has changed since it was read last; `None` while it has not.
    pub fn changed(&mut self) -> Option<Result<Keys, KeyFileError>> {
        let now = fs::metadata(&self.path).ok().map(|facts| stamp(&facts));
        if now == self.seen {
            return None;
        }
        // One report for each change, also of one to something that cannot be read.
        self.seen = now;
        Some(self.read())
    }
}

fn stamp(facts: &fs::Metadata) -> (u64, i64, i64, u64) {
    // The time of a change of the file's mode, too: a file that was refused for it is read again.
    (facts.len(), facts.ctime(), facts.ctime_nsec(), facts.ino())
}

/// The keys that `text`, the content of `path`, lists.
fn parse(text: &str, path: &Path) -> Result<Keys, KeyFileError> {
    let mut keys: Vec<SharedKey> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let fail = |found, expected| KeyFileError::Line(path.to_owned(), number, found, expected);
        let mut words = line.split_whitespace();
        let id: Option<u8> = words.next().and_then(|word| word.parse().ok());
        let id = id.ok_or_else(|| fail("no number of a key", "a number, 0 to 255, and the key"))?;
        let digits = words.next();
        let octets = digits.and_then(octets_of).ok_or_else(|| {
            fail("no key of 32 octets", "64 hexadecimal digits (openssl rand -hex 32)")
        })?;
        if words.next().is_some() {
            return Err(fail("more than a number and a key", "one key a line"));
        }
        if keys.iter().any(|known| known.number == id) {
            return Err(fail("a number that another key has", "a number of its own for each key"));
        }
        if octets.iter().all(|octet| *octet == octets[0]) {
            return Err(fail("a key of one octet 32 times", "a random key (openssl rand -hex 32)"));
        }
        if keys.len() == KEYS_MAX {
            return Err(fail("a ninth key", "at most 8: remove those that no host seals by"));
        }
        keys.push(SharedKey::new(id, octets));
    }
    if keys.is_empty() { Err(KeyFileError::Empty(path.to_owned())) } else { Ok(Keys(keys)) }
}

/// The octets of exactly [`LEN`] pairs of hexadecimal digits.
fn octets_of(digits: &str) -> Option<[u8; LEN]> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let mut octets = [0; LEN];
    if pairs.len() != LEN || !rest.is_empty() {
        return None;
    }
    for (octet, pair) in octets.iter_mut().zip(pairs) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *octet = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some(octets)
}

impl Keys {
    /// The key that seals.
    pub(super) fn first(&self) -> &SharedKey {
        &self.0[0]
    }

    /// The key of a number.
    pub(super) fn numbered(&self, number: u8) -> Option<&SharedKey> {
        self.0.iter().find(|key| key.number == number)
    }

    /// Whether `self` has the key that `other` has under this number, and not another one.
    pub(super) fn shares(&self, number: u8, other: &Self) -> bool {
        let [ours, theirs] = [self, other].map(|keys| keys.numbered(number).map(|key| key.octets));
        ours.is_some() && ours == theirs
    }

    /// Keys by number and octets, for tests and for applications that have them from elsewhere.
    ///
    /// # Panics
    /// Without a key, with more than [`KEYS_MAX`], or with two of one number.
    #[must_use]
    pub fn of(keys: &[(u8, [u8; LEN])]) -> Self {
        assert!((1..=KEYS_MAX).contains(&keys.len()), "1 to {KEYS_MAX} keys");
        let once = |(at, key): (usize, &(u8, _))| keys[..at].iter().all(|other| other.0 != key.0);
        assert!(keys.iter().enumerate().all(once), "two keys of one number");
        Self(keys.iter().map(|(number, octets)| SharedKey::new(*number, *octets)).collect())
    }
}

impl SharedKey {
    fn new(number: u8, octets: [u8; LEN]) -> Self {
        let derive = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(&octets);
        Self { number, octets, derive }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ONE: &str = "8d0c1f9a5b3e7766554433221100ffeeddccbbaa998877665544332211009a1b";
    const TWO: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn parsed(text: &str) -> Result<Keys, String> {
        parse(text, Path::new("keys")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let keys = parsed(&format!("# ours\n 7 {ONE} # new\n\n1 {TWO}\n")).unwrap();
        assert_eq!(keys.first().number, 7);
        assert!(keys.numbered(1).is_some() && keys.numbered(2).is_none());
        assert_eq!(keys.first().octets[..3], [0x8d, 0x0c, 0x1f]);
        assert_eq!(format!("{keys:?}"), "[7, 1]", "keys are not printed");
    }

    #[test]
    fn a_line_that_is_no_key_is_named_with_what_was_expected() {
        let short = &ONE[1..];
        let nine: String = (0..9).map(|number| format!("{number} {ONE}\n")).collect();
        let cases = [
            (format!("1 {short}"), "line 1: no key of 32 octets"),
            (format!("\n1 {ONE}00"), "line 2: no key of 32 octets"),
            (format!("1 {short}g"), "line 1: no key of 32 octets"),
            (format!("256 {ONE}"), "line 1: no number"),
            (ONE.to_owned(), "line 1: no number"),
            ("1".to_owned(), "line 1: no key"),
            (format!("1 {ONE} {TWO}"), "line 1: more than"),
            (format!("1 {ONE}\n1 {TWO}"), "line 2: a number that another key has"),
            (format!("1 {}", "00".repeat(32)), "line 1: a key of one octet"),
            (nine, "line 9: a ninth key"),
            ("# none\n".to_owned(), "keys has no key"),
        ];
        for (text, expected) in cases {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(expected) && error.contains("expected"), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_or_that_is_none_is_refused() {
        let path = std::env::temp_dir().join(format!("headrace-keys-{}", std::process::id()));
        let mut file = KeyFile::at(&path);
        let error = |file: &mut KeyFile| file.read().unwrap_err();
        assert!(error(&mut file).to_string().contains("openssl rand"), "a missing file");
        fs::write(&path, format!("1 {ONE}\n")).unwrap();
        for mode in [0o640, 0o604, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = error(&mut file).to_string();
            assert!(error.contains(&format!("mode {mode:03o}")) && error.contains("chmod 600"));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(file.read().unwrap().first().number, 1);
        fs::remove_file(&path).unwrap();
        assert!(matches!(KeyFile::at(Path::new("/")).read(), Err(KeyFileError::NoFile(_))));
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_once() {
        let path = std::env::temp_dir().join(format!("headrace-rotate-{}", std::process::id()));
        fs::write(&path, format!("1 {ONE}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut file = KeyFile::at(&path);
        let before = file.read().unwrap();
        assert!(file.changed().is_none());
        let mut open = fs::OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(open, "2 {TWO}").unwrap();
        let after = file.changed().unwrap().unwrap();
        assert!(after.shares(1, &before) && !after.shares(2, &before));
        assert!(file.changed().is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(file.changed(), Some(Err(KeyFileError::Readable(..)))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(file.changed().unwrap().is_ok(), "the mode is mended");
        fs::remove_file(&path).unwrap();
        assert!(file.changed().is_some_and(|result| result.is_err()));
        assert!(file.changed().is_none(), "one report is enough");
    }
}
