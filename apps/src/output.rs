//! The directory that a run leaves behind. Files appear whole or not at all: they are written
//! beside their place, then renamed. The files that a long run writes while it goes on have their
//! names with `.part` behind them, and every user may read them; a run that is killed leaves them.
//!
//! Nothing here depends on what is in the files.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufWriter, Seek as _, Write};
use std::path::{Path, PathBuf};

/// A directory for results.
#[derive(Debug)]
pub(crate) struct OutDir {
    path: PathBuf,
    /// The directory itself, locked against other runs.
    lock: Option<File>,
}

/// Why results could not be written.
#[derive(Debug)]
pub(crate) struct OutputError {
    /// The file or directory that was being made.
    path: PathBuf,
    /// The error of the system.
    error: io::Error,
}

impl OutDir {
    /// Makes the directory, with its parents, and makes sure that files can be written there, so
    /// that a long run does not end without a place for its results.
    ///
    /// # Errors
    /// When there is something else of that name, or it cannot be made or written to.
    pub(crate) fn create(path: &Path) -> Result<Self, OutputError> {
        let wrong = |error| OutputError::new(path, error);
        fs::create_dir_all(path).map_err(|error| match path.is_dir() || !path.exists() {
            true => wrong(error),
            false => wrong(io::Error::from(io::ErrorKind::NotADirectory)),
        })?;
        let dir = Self { path: path.to_owned(), lock: None };
        let probe = beside(&path.join("probe"));
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(wrong)?;
        Ok(dir)
    }

    /// [`OutDir::create`] for the results of one run, which no other run may write meanwhile.
    ///
    /// # Errors
    /// As [`OutDir::create`], and when another run writes there.
    pub(crate) fn create_alone(path: &Path) -> Result<Self, OutputError> {
        Self::locked(path, File::try_lock)
    }

    /// [`OutDir::create`] for a sweep, which has a directory in it for each run: processes that run
    /// parts of the sweep share it, and no single run may write there meanwhile.
    ///
    /// # Errors
    /// As [`OutDir::create_alone`].
    pub(crate) fn create_among(path: &Path) -> Result<Self, OutputError> {
        Self::locked(path, File::try_lock_shared)
    }

    fn locked(
        path: &Path,
        try_lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, OutputError> {
        let dir = Self::create(path)?;
        let lock = File::open(path).map_err(|error| OutputError::new(path, error))?;
        match try_lock(&lock) {
            Err(TryLockError::WouldBlock) => {
                Err(OutputError::of(path.to_owned(), io::ErrorKind::ResourceBusy))
            }
            // A file system without locks has no more than the names of parts.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { lock: Some(lock), ..dir }),
        }
    }

    /// Writes one file of the directory.
    ///
    /// # Errors
    /// When the disk or `fill` fails; a file of that name is then as it was before.
    pub(crate) fn write(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        write_file(&self.path.join(name), fill)
    }

    /// Removes a file of the directory, if there is one; a device or a pipe of that name stays.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), OutputError> {
        let path = self.path.join(name);
        if !path.is_file() {
            return Ok(());
        }
        fs::remove_file(&path).map_err(|error| OutputError { path, error })
    }

    /// Begins a file of the directory that is written while a run goes on.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn begin(&self, name: &str) -> Result<PartFile, OutputError> {
        let path = self.path.join(name);
        let part = match self.lock {
            Some(_) => self.path.join(format!("{name}.part")),
            // Other processes may begin the same file.
            None => beside(&path),
        };
        PartFile::create(&path, &part)
    }
}

/// A file that has its place when it is finished; dropped before, nothing is left of it.
#[derive(Debug)]
pub(crate) struct PartFile {
    /// The file's final path.
    path: PathBuf,
    /// The file's path until it is finished; equal to `path` for a device or a pipe, which is
    /// written to and never replaced.
    part: PathBuf,
    /// The open file; `None` once the file is finished.
    file: Option<BufWriter<File>>,
}

impl PartFile {
    fn create(path: &Path, part: &Path) -> Result<Self, OutputError> {
        if path.is_dir() {
            return Err(OutputError::of(path.to_owned(), io::ErrorKind::IsADirectory));
        }
        let special = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        let path = path.to_owned();
        let part = if special { path.clone() } else { part.to_owned() };
        match File::create(&part) {
            Ok(file) => {
                let file = Some(BufWriter::with_capacity(WRITE_BYTES, file));
                Ok(Self { path, part, file })
            }
            Err(error) => Err(OutputError { path, error }),
        }
    }

    /// Appends the text that `fill` writes.
    ///
    /// # Errors
    /// When the disk or `fill` fails.
    pub(crate) fn append(
        &mut self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        fill(file).map_err(|error| OutputError { path: self.path.clone(), error })
    }

    /// Begins the file anew: what has been written is gone, and its room is free.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn restart(&mut self) -> Result<(), OutputError> {
        let Some(buffered) = self.file.take() else { return Ok(()) };
        let (mut file, _unwritten) = buffered.into_parts();
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        self.file = Some(BufWriter::with_capacity(WRITE_BYTES, file));
        emptied.map_err(|error| OutputError::new(&self.path, error))
    }

    /// Leaves the written part beside the file's place, because there is no room for the rest.
    pub(crate) fn leave(mut self) {
        if let Some(mut file) = self.file.take() {
            // As much of it as there is room for.
            let _ = file.flush();
            drop(file.into_parts());
        }
    }

    /// Moves the file to its place.
    ///
    /// # Errors
    /// When the disk fails. Nothing is left of the new file then, and the old content of its place
    /// stays.
    pub(crate) fn finish(mut self) -> Result<(), OutputError> {
        self.append(|file| file.flush())?;
        if self.part != self.path {
            fs::rename(&self.part, &self.path)
                .map_err(|error| OutputError { path: self.path.clone(), error })?;
        }
        self.file = None;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // The rest of the file is of no use; the error that matters has been reported.
            drop(file.into_parts());
            if self.part != self.path {
                let _ = fs::remove_file(&self.part);
            }
        }
    }
}

/// Writes a file that appears whole or not at all.
///
/// # Errors
/// As [`OutDir::write`].
pub(crate) fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    let mut file = PartFile::create(path, &beside(path))?;
    file.append(fill)?;
    file.finish()
}

const WRITE_BYTES: usize = 256 * 1024;

/// The name of a file while it is written in one go. It is random, since processes of several
/// machines that write to one disk may have one number.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let drawn = RandomState::new().hash_one(std::process::id());
    path.with_file_name(format!(".{name}.{drawn:016x}.part"))
}

impl OutputError {
    fn new(path: &Path, error: io::Error) -> Self {
        Self { path: path.to_owned(), error }
    }

    /// The file `path` could not be written for `reason`.
    pub(crate) fn of(path: PathBuf, reason: io::ErrorKind) -> Self {
        Self { path, error: reason.into() }
    }

    /// Whether another path would have worked: the user's mistake, not the machine's state.
    pub(crate) fn is_mistake(&self) -> bool {
        !matches!(
            self.error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::Other
        )
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, error } = self;
        write!(f, "{}: cannot be written: {error}", path.display())?;
        let parent = path.parent().unwrap_or(path).display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                write!(f, "\n  help: free some space (`df -h {parent}`) or choose another disk")
            }
            io::ErrorKind::ResourceBusy => {
                write!(f, "\n  help: another run writes there; give each a directory of its own")
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                write!(f, "\n  help: a file has that name; choose another directory")
            }
            io::ErrorKind::IsADirectory => {
                write!(f, "\n  help: a directory has that name; choose another file")
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                write!(f, "\n  help: choose a place that this user may write to")
            }
            io::ErrorKind::NotFound => {
                write!(f, "\n  help: make its directory first: `mkdir -p {parent}`")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutDir::create(&dir.path().join("a/b")).unwrap();
        out.write("x.json", |file| file.write_all(b"1")).unwrap();
        out.write("x.json", |file| file.write_all(b"22")).unwrap();
        let names: Vec<_> = fs::read_dir(dir.path().join("a/b")).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(fs::read(dir.path().join("a/b/x.json")).unwrap(), b"22");
    }

    #[test]
    fn one_run_alone_writes_to_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutDir::create_alone(dir.path()).unwrap();
        let error = OutDir::create_alone(dir.path()).unwrap_err();
        assert!(error.is_mistake() && error.to_string().contains("another run"), "{error}");
        drop(out);
        assert!(OutDir::create_alone(dir.path()).is_ok());
    }

    #[test]
    fn sweeps_share_a_directory_that_no_single_run_writes_to() {
        let dir = tempfile::tempdir().unwrap();
        let parts = [(); 2].map(|()| OutDir::create_among(dir.path()).unwrap());
        assert!(OutDir::create_alone(dir.path()).unwrap_err().is_mistake());
        drop(parts);
        let run = OutDir::create_alone(dir.path()).unwrap();
        assert!(OutDir::create_among(dir.path()).unwrap_err().is_mistake());
        drop(run);
    }

    #[test]
    fn hosts_that_share_a_directory_write_the_same_file_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = [(); 2].map(|()| OutDir::create(dir.path()).unwrap());
        let mut files = hosts.map(|out| out.begin("flows.jsonl").unwrap());
        for file in &mut files {
            file.append(|file| file.write_all(b"{}")).unwrap();
        }
        files.into_iter().for_each(|file| file.finish().unwrap());
        assert_eq!(fs::read(dir.path().join("flows.jsonl")).unwrap(), b"{}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutDir::create(dir.path()).unwrap();
        out.write("x", |file| file.write_all(b"old")).unwrap();
        let error = out
            .write("x", |file| {
                file.write_all(b"new")?;
                Err(io::Error::from(io::ErrorKind::StorageFull))
            })
            .unwrap_err();
        assert!(error.to_string().contains("df -h"), "{error}");
        assert!(!error.is_mistake());
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_begun_can_be_read_and_goes_with_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutDir::create_alone(dir.path()).unwrap();
        let part = dir.path().join("x.part");
        let mut file = out.begin("x").unwrap();
        file.append(|file| file.write_all(b"1").and_then(|()| file.flush())).unwrap();
        assert_eq!(fs::read(&part).unwrap(), b"1");
        file.append(|file| file.write_all(b"2")).unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"12");
        drop(out.begin("x").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let mut file = out.begin("x").unwrap();
        file.append(|file| file.write_all(b"3")).unwrap();
        file.leave();
        assert_eq!(fs::read(&part).unwrap(), b"3");
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"12");
        out.remove("x").unwrap();
        out.remove("x").unwrap();
        assert!(!dir.path().join("x").exists() && part.exists());
    }

    #[test]
    fn two_writers_of_one_file_do_not_meet() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        // Of one process, and so of one number, as two machines may be.
        write_file(&path, |file| {
            file.write_all(b"the first to begin")?;
            write_file(&path, |file| file.write_all(b"another")).unwrap();
            assert_eq!(fs::read(&path)?, b"another");
            Ok(())
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the first to begin");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "x").unwrap();
        for path in [path.clone(), path.join("below")] {
            let error = OutDir::create(&path).unwrap_err();
            assert!(error.is_mistake());
            assert!(error.to_string().contains("a file has that name"), "{error}");
        }
    }

    #[test]
    fn a_missing_directory_of_a_file_names_mkdir() {
        let dir = tempfile::tempdir().unwrap();
        let error = write_file(&dir.path().join("no/x.cm"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("mkdir -p"), "{error}");
    }
}
