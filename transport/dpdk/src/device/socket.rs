//! The socket at which two processes meet over memif: whether a listener is there, and the socket
//! file that a killed process left.
//!
//! No file is removed but the socket of a process that is gone.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;

use thiserror::Error;

use crate::device::drivers::SOCKET;
use crate::device::name::DeviceName;

/// Why a listening socket's file cannot be made ready.
#[derive(Debug, Error)]
pub enum SocketError {
    /// A process listens there.
    #[error("another process listens on {0}; end it, or name another socket=PATH")]
    InUse(String),
    /// A file of that name exists and is no socket.
    #[error("{0} is there and no socket; remove it, or name another socket=PATH")]
    NoSocket(String),
    /// The system refused.
    #[error(
        "cannot listen at {0} ({1}); name another socket=PATH, or mend the rights of its directory \
         or owner-uid and owner-gid"
    )]
    Io(String, io::Error),
    /// Another device of this process listens there with another owner of the file.
    #[error(
        "another device listens at {0} with another owner-uid or owner-gid; give both the same, or \
         name another socket=PATH"
    )]
    Owner(String),
    /// An argument has a value that it cannot have.
    #[error("`{device}` has {key}={found}, which must be {expected}; mend it, or leave {key} out")]
    Argument {
        /// The device.
        device: String,
        /// The argument.
        key: String,
        /// The value that was found.
        found: String,
        /// Values that it can have.
        expected: &'static str,
    },
    /// The device has listened elsewhere in this process.
    #[error(
        "`{device}` listens at {kept} until this process ends, and not at {wanted}; attach it with \
         socket={kept}, or a device of another name with socket={wanted}"
    )]
    Kept {
        /// The device.
        device: String,
        /// The socket at which the device listens.
        kept: String,
        /// Asked for.
        wanted: String,
    },
}

impl DeviceName {
    /// Whether the other process is there, as far as can be seen without connecting to it.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        if !self.meets() {
            return true;
        }
        match self.socket_path() {
            Some(path) => fs::metadata(path).is_ok(),
            None => !self.sockets().is_empty(),
        }
    }

    /// The sockets of that name in this network namespace: the inode of each, which is 0 for a
    /// connection that its listener has not taken in.
    fn sockets(&self) -> Vec<u64> {
        let name = match self.socket_path() {
            Some(path) => path.to_owned(),
            None => format!("@{}", self.argument("socket").unwrap_or(SOCKET)),
        };
        let all = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let inode = |line: &str| {
            // Seven fields, the last of which is the inode, and a name that may have blanks.
            let mut rest = line;
            let mut field = "";
            for _ in 0..7 {
                (field, rest) = rest.trim_start().split_once(' ')?;
            }
            // Abstract names are shown with their padding, as more `@`.
            let is_it = rest.trim_end_matches('@') == name.trim_end_matches('@');
            field.parse().ok().filter(|_| is_it)
        };
        all.lines().filter_map(inode).collect()
    }

    /// Whether a listener there has yet to take in a connection. A listener has few places for
    /// these, and a process that connects while all are taken stands still until one is free.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.meets() && self.sockets().contains(&0)
    }

    /// Whether a process listens there now; a file that a killed process left is no listener.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let refused = |path: &str| {
            let connected = UnixStream::connect(path);
            connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        self.is_awaited() && !self.socket_path().is_some_and(refused)
    }

    /// Removes the socket of a process that was killed, for another to listen there.
    ///
    /// # Errors
    /// [`SocketError`], for example when a process listens there.
    pub fn clear_socket(&self) -> Result<(), SocketError> {
        let Some(path) = self.socket_path().filter(|_| self.meets()) else { return Ok(()) };
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        if !found.file_type().is_socket() {
            return Err(SocketError::NoSocket(path.to_owned()));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|error| SocketError::Io(path.to_owned(), error))
            }
            // A listener of packets answers a stream with a protocol error: it is there.
            Ok(_) | Err(_) => Err(SocketError::InUse(path.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> DeviceName {
        text.parse().unwrap()
    }

    #[test]
    fn a_listener_is_behind_while_a_connection_waits_to_be_taken_in() {
        let path = std::env::temp_dir().join(format!("headrace {} queue", std::process::id()));
        let device = named(&format!("net_memif0,socket={}", path.display()));
        assert!(!device.is_behind());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(!device.is_behind());
        let connection = UnixStream::connect(&path).unwrap();
        assert!(device.is_behind());
        let taken_in = listener.accept().unwrap();
        assert!(!device.is_behind());
        drop((connection, taken_in));
        drop(UnixStream::connect(&path).unwrap());
        assert!(device.is_behind(), "it waits although its other end is closed");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_killed_processs_socket_is_removed_and_a_living_ones_is_not() {
        let path = std::env::temp_dir().join(format!("headrace-{}.sock", std::process::id()));
        let text = path.to_str().unwrap().to_owned();
        let device = named(&format!("net_memif0,socket={text}"));
        assert!(device.clear_socket().is_ok() && !device.is_awaited());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(device.clear_socket(), Err(SocketError::InUse(_))) && device.is_served());
        drop(listener);
        assert!(device.is_awaited(), "a killed process leaves the file");
        assert!(!device.is_served(), "and does not listen");
        assert!(device.clear_socket().is_ok() && !path.exists());
        fs::write(&path, "no socket").unwrap();
        assert!(matches!(device.clear_socket(), Err(SocketError::NoSocket(_))));
        fs::remove_file(&path).unwrap();
    }
}
