//! The directory a run leaves behind. Files appear whole or not at all: written beside, then
//! renamed.
//!
//! Knows nothing of what is in the files.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A directory for results.
#[derive(Debug)]
pub(crate) struct OutDir {
    path: PathBuf,
}

/// Why results could not be written.
#[derive(Debug)]
pub(crate) struct OutputError {
    /// What was being made.
    path: PathBuf,
    /// Why it failed.
    error: io::Error,
}

impl OutDir {
    /// Makes the directory, with its parents, and makes sure that files can be written there, so
    /// that a long run does not end without a place for its results.
    ///
    /// # Errors
    /// When there is something else of that name, or it cannot be made or written to.
    pub(crate) fn create(path: &Path) -> Result<Self, OutputError> {
        let wrong = |error| OutputError { path: path.to_owned(), error };
        fs::create_dir_all(path).map_err(|error| match path.is_dir() || !path.exists() {
            true => wrong(error),
            false => wrong(io::Error::from(io::ErrorKind::NotADirectory)),
        })?;
        let dir = Self { path: path.to_owned() };
        let probe = beside(&path.join("probe"));
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(wrong)?;
        Ok(dir)
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
}

/// Writes a file that appears whole or not at all.
///
/// # Errors
/// As [`OutDir::write`].
pub(crate) fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    // A device or a pipe is written to, never replaced.
    let special = fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    let target = if special { path.to_owned() } else { beside(path) };
    let written = write_all(&target, fill);
    let done = match written {
        Ok(()) if special => Ok(()),
        Ok(()) => fs::rename(&target, path),
        Err(error) => Err(error),
    };
    done.map_err(|error| {
        if !special {
            // What is left of it is of no use; the error that matters is the first.
            let _ = fs::remove_file(&target);
        }
        OutputError { path: path.to_owned(), error }
    })
}

fn write_all(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(WRITE_BYTES, File::create(path)?);
    fill(&mut file)?;
    file.flush()
}

const WRITE_BYTES: usize = 256 * 1024;

/// The name a file has while it is written.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

impl OutputError {
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
