//! The socket at which the memif driver itself listens.
//!
//! The driver of 22.11 ends a process in which it takes a connection in that is closed before the
//! greeting (`listener.rs`), and it keeps the descriptor of its socket until the process ends. So
//! no process but this one may reach that socket. Abstract names have no permissions; a directory
//! has.

use std::fs::{DirBuilder, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, io, process};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};

use crate::device::socket::{SocketError, by_descriptor, held};
use crate::keys;

/// A file in a directory that only this user can enter. Both are removed once a device is open
/// there, or with this value. A process that is killed earlier, or while it closes a link, leaves a
/// directory with a random name, which no process uses again. The file has a random name, too: a
/// directory that another user puts in its place has no such file.
#[derive(Debug)]
pub(crate) struct DriverSocket {
    path: PathBuf,
    /// A descriptor that only names the file, once it has been found.
    file: OnceLock<File>,
    /// Held while a device is opened, and while the file is looked for.
    opening: Mutex<()>,
    /// Ends of a link that have begun to close.
    closing: AtomicUsize,
}

/// The longest path of a socket, without the NUL.
const PATH_MAX: usize = 107;

impl DriverSocket {
    /// Makes the directory.
    pub(crate) fn new() -> Result<Self, SocketError> {
        let chance = keys::random().map_err(SocketError::Private)?;
        let name = format!("headrace-{}-{chance:016x}/{chance:016x}", process::id());
        // The driver reads its arguments from a list.
        let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || b"/._-".contains(octet);
        let mut failed = io::Error::from(io::ErrorKind::InvalidInput);
        let own = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let parents = [env::temp_dir(), "/tmp".into(), "/run".into()];
        for parent in parents.into_iter().chain(own) {
            let path = parent.join(&name);
            let octets = path.as_os_str().as_encoded_bytes();
            if !path.is_absolute() || octets.len() > PATH_MAX || !octets.iter().all(is_plain) {
                continue;
            }
            let (file, opening, closing) = Default::default();
            let socket = Self { path, file, opening, closing };
            match socket.make_directory().and_then(|()| socket.try_out()) {
                Ok(()) => return Ok(socket),
                Err(error) => failed = error,
            }
        }
        Err(SocketError::Private(failed))
    }

    /// Opens a device with the arguments that name this socket, one at a time.
    pub(crate) fn opens<T>(&self, open: impl FnOnce(&str) -> T) -> T {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = open(&self.arguments());
        self.find();
        opened
    }

    /// The driver's arguments. For a path the driver wants a directory, which is gone once the file
    /// has been found. For an abstract name it wants none, and finds the socket that it has by the
    /// same text.
    pub(crate) fn arguments(&self) -> String {
        let is_abstract = if self.file.get().is_some() { "yes" } else { "no" };
        format!("socket={},socket-abstract={is_abstract}", self.path.display())
    }

    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    fn make_directory(&self) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(self.directory())
    }

    /// Makes a socket and removes it again: not every file system has sockets.
    fn try_out(&self) -> io::Result<()> {
        let listener = UnixListener::bind(&self.path);
        listener.and_then(|_| fs::remove_file(&self.path))
    }

    /// One of the two ends of a link closes. With the second the driver removes the file, and
    /// complains on standard error where there is none, so one is put in its place.
    pub(crate) fn end_closes(&self) {
        if self.closing.fetch_add(1, Ordering::AcqRel) == 0 {
            return;
        }
        let _ = self.make_directory().and_then(|()| File::create_new(&self.path));
    }

    /// Takes the file where the driver has made it. Where the process has no descriptor left,
    /// [`Self::connect`] tries again.
    fn find(&self) {
        if self.file.get().is_some() {
            return;
        }
        if let Ok(file) = held(&self.path) {
            drop(self.file.set(file));
            self.remove();
        }
    }

    /// Connects to the driver; [`Errno::NOENT`] while it does not listen.
    pub(crate) fn connect(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        if let Ok(_one) = self.opening.try_lock() {
            self.find();
        }
        let file = self.file.get().ok_or(Errno::NOENT)?;
        connect(socket, &SocketAddrUnix::new(by_descriptor(file))?)
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(self.directory());
    }
}

impl Drop for DriverSocket {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::listener::{listens, packets};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn no_other_user_can_reach_the_driver_and_no_file_of_it_stays() {
        let socket = DriverSocket::new().unwrap();
        let directory = socket.directory().to_owned();
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o7777, 0o700);
        // A device that could not be opened.
        let arguments = socket.opens(str::to_owned);
        assert!(arguments.ends_with("socket-abstract=no"), "{arguments}");
        drop(socket);
        assert!(!directory.exists());

        let socket = DriverSocket::new().unwrap();
        assert_ne!(socket.directory(), directory);
        let directory = socket.directory().to_owned();
        let guest = packets();
        assert_eq!(socket.connect(&guest), Err(Errno::NOENT));
        let _driver = socket.opens(|_| listens(socket.path()));
        assert!(!socket.directory().exists());
        assert!(socket.arguments().ends_with("socket-abstract=yes"));
        socket.connect(&guest).unwrap();
        socket.end_closes();
        assert!(!socket.path().exists());
        socket.end_closes();
        assert!(socket.path().exists());
        drop(socket);
        assert!(!directory.exists());
    }

    #[test]
    fn a_file_that_was_not_found_at_first_is_looked_for_again() {
        let socket = DriverSocket::new().unwrap();
        let _driver = listens(socket.path());
        socket.connect(&packets()).unwrap();
        assert!(!socket.directory().exists());
    }
}
