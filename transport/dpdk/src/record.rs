//! A worker's recording on file.
//!
//! The format and its replay are the core's (`transport::record`), so that a recording is replayed
//! without DPDK; here it is only written. Writing goes to the page cache in pieces of 256 KiB
//! between polls: a recording run is a little late now and then, and says so by its clock. A full
//! disk ends the recording with an error, never the run.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use transport::record::Recorder;

/// The file that one worker's recording goes to.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
}

/// Octets that are worth a write.
const PIECE: usize = 256 << 10;

impl RecordFile {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, failed: None })
    }

    /// Writes what `recorder` has gathered, when it is worth it; call it between polls.
    #[inline]
    pub fn write(&mut self, recorder: &mut Recorder) {
        if recorder.pending() >= PIECE {
            recorder.take(|bytes| self.put(bytes));
        }
    }

    /// Writes the rest and the end.
    ///
    /// # Errors
    /// The first error of all writes: the file is not a whole recording then.
    pub fn finish(mut self, recorder: &mut Recorder) -> io::Result<()> {
        let rest = recorder.finish();
        self.put(&rest);
        self.failed.map_or(Ok(()), Err)
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
        }
    }
}
