//! Frames of a run, in a file that Wireshark reads.
//!
//! [`Capture`] says which frames and how much of each; [`pcapng`] writes them; `live` takes them
//! from the workers of a run in real time, with the feature `dpdk`. Frames of a simulation come
//! from `virtual_time/capture.rs`.

pub mod pcapng;

use std::fs::File;
use std::io;
use std::path::PathBuf;

use transport::HostId;

use crate::input::{InputError, did_you_mean};
use crate::plan::RunError;

/// The frames to capture, and the file for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The file; replaced when it exists.
    pub file: PathBuf,
    /// Bytes kept of a frame.
    pub snap: u32,
    /// One frame of so many of each host, at least 1.
    pub every: u32,
    /// Only frames of this host; `None` captures those of all hosts.
    pub host: Option<HostId>,
}

/// A file of frames that is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// The file, which has what was written before.
    pub file: PathBuf,
    /// Why the rest could not be written.
    pub reason: io::ErrorKind,
}

/// More than any frame has.
pub const SNAP_ALL: u32 = 65_535;

impl Capture {
    /// The report that this capture is not whole, since a write failed with `error`.
    #[must_use]
    pub fn not_whole(&self, error: &io::Error) -> Unwritten {
        Unwritten { file: self.file.clone(), reason: error.kind() }
    }

    /// Reads `FILE[,snap=N][,every=N][,host=I]`.
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, InputError> {
        let mut parts = text.split(',');
        let file = PathBuf::from(parts.next().unwrap_or_default());
        if file.as_os_str().is_empty() {
            return Err(InputError::new(format!("`{text}`"), "FILE[,snap=N][,every=N][,host=I]"));
        }
        let mut capture = Self { file, snap: SNAP_ALL, every: 1, host: None };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let number = |least: u32, most: u32| {
                let number = value.parse::<u32>().ok();
                number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
                    let expected = format!("{key}=N, a whole number from {least} to {most}");
                    InputError::new(format!("`{part}`"), expected)
                })
            };
            match key {
                "snap" => capture.snap = number(64, SNAP_ALL)?,
                "every" => capture.every = number(1, u32::MAX)?,
                "host" => capture.host = Some(HostId(number(0, u32::MAX)?)),
                _ => {
                    let error = InputError::new(format!("`{part}`"), "snap=N, every=N or host=I");
                    return Err(error.help(did_you_mean(key, &["snap", "every", "host"])));
                }
            }
        }
        Ok(capture)
    }

    /// The file, empty, for a run of so many `hosts`.
    ///
    /// # Errors
    /// A host that is not in the run, a file that cannot be written.
    pub fn create(&self, hosts: u32) -> Result<File, RunError> {
        if let Some(HostId(host)) = self.host.filter(|host| host.0 >= hosts) {
            let expected = format!("host=I, below {hosts}");
            let error = InputError::new(format!("`host={host}`"), expected);
            return Err(RunError::Input(error.at("--capture", 0, 0)));
        }
        File::create(&self.file).map_err(|error| self.unwritable(&error))
    }

    /// The file cannot be written.
    pub fn unwritable(&self, error: &io::Error) -> RunError {
        let found = format!("`{}` ({error})", self.file.display());
        RunError::Input(InputError::new(found, "a file that can be written").at("--capture", 0, 0))
    }

    /// Whether frames of `host` are wanted.
    #[must_use]
    pub fn wants(&self, host: HostId) -> bool {
        self.host.is_none_or(|only| only == host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_a_file_and_what_limits_it() {
        let whole = Capture::parse("a/b.pcapng").unwrap();
        assert_eq!((whole.snap, whole.every, whole.host), (SNAP_ALL, 1, None));
        let part = Capture::parse("x.pcapng,snap=128,every=10,host=3").unwrap();
        assert_eq!((part.snap, part.every, part.host), (128, 10, Some(HostId(3))));
        assert!(part.wants(HostId(3)) && !part.wants(HostId(0)) && whole.wants(HostId(9)));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (text, found) in [
            ("", "``"),
            ("f,snap=1", "`snap=1`"),
            ("f,snap", "`snap`"),
            ("f,every=0", "`every=0`"),
            ("f,hots=3", "`hots=3`"),
            ("f,host=-1", "`host=-1`"),
            ("f,", "``"),
        ] {
            assert_eq!(Capture::parse(text).unwrap_err().found, found);
        }
        assert!(Capture::parse("f,evry=3").unwrap_err().help.contains("every"));
    }
}
