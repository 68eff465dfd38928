//! The socket at which two processes meet over memif: where it is, whether a listener is there, and
//! the socket file that a killed process left.
//!
//! No file is removed but the socket of a process that is gone, and the own one. Two processes that
//! begin to listen at one file in the same instant may both have it for their own.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{
    self as unix_fs, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{SocketAddrUnix, bind, listen};
use thiserror::Error;

use crate::device::drivers::SOCKET;
use crate::device::name::DeviceName;

/// Why a memif cannot listen, or which of its arguments it cannot have.
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
    /// No directory can be made in which the driver listens out of reach of other users.
    #[error(
        "cannot make a directory in TMPDIR, /tmp, /run or XDG_RUNTIME_DIR ({0}); set TMPDIR to one \
         that this user can write, with at most 55 letters, digits and /._-"
    )]
    Private(io::Error),
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
        /// Values that the argument can have.
        expected: &'static str,
    },
    /// The device has listened elsewhere in this process.
    #[error(
        "`{device}` listens at {kept} until this process ends, and not at {wanted}; attach it with \
         {kept}, or a device of another name with {wanted}"
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
        self.place().is_none_or(|place| match place.is_file {
            true => fs::metadata(&place.name).is_ok(),
            false => !place.sockets().is_empty(),
        })
    }

    /// Where the device meets another process. `None` where it meets none, or its arguments name no
    /// place, which is an error when it is opened.
    pub(crate) fn place(&self) -> Option<MemifSocket> {
        let (name, arguments) = self.driver_arguments();
        MemifSocket::of(name, arguments).ok().filter(|_| self.meets())
    }

    /// Whether a listener there has yet to take in a connection. A listener has few places for
    /// these, and a process that connects while all are taken stands still until one is free.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.place().is_some_and(|place| place.sockets().contains(&0))
    }

    /// Whether a process listens there now; a file that a killed process left is no listener.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let place = self.place().filter(|place| place.is_file);
        self.is_awaited() && !place.is_some_and(|place| refused(&place.name))
    }
}

/// Where a memif is to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemifSocket {
    /// The path of a file, or an abstract name.
    pub(crate) name: String,
    pub(crate) is_file: bool,
    /// User and group of the file, where they are given.
    pub(crate) owner: (Option<u32>, Option<u32>),
}

/// The file of a socket at which this process listens. It is removed with this value.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: String,
    identity: FileIdentity,
}

/// A file's file system, number and time of change, by which no other file is taken for it: a file
/// that is made when another is gone may have its number. The time is in seconds and nanoseconds.
type FileIdentity = (u64, u64, i64, i64);

/// Connections that wait to be taken in.
const BACKLOG: i32 = 16;
/// The mode of a file that belongs to another user or group.
const OWNED_MODE: u32 = 0o660;

impl MemifSocket {
    /// The place that a device's arguments name.
    pub(crate) fn of(device: &str, arguments: &str) -> Result<Self, SocketError> {
        let mut place = Self { name: SOCKET.to_owned(), is_file: false, owner: (None, None) };
        let mut is_abstract = None;
        let mut seen: Vec<&str> = Vec::new();
        for pair in arguments.split(',').filter(|pair| !pair.is_empty()) {
            let (key, found) = pair.split_once('=').unwrap_or((pair, ""));
            let refused = |expected| {
                let (device, key, found) = (device.to_owned(), key.to_owned(), found.to_owned());
                SocketError::Argument { device, key, found, expected }
            };
            // The driver takes the last of several.
            if seen.contains(&key) {
                return Err(refused("the only one"));
            }
            seen.push(key);
            // The system takes the last number for "as it is".
            let number = || match found.parse::<u32>() {
                Ok(number) if number != u32::MAX => Ok(Some(number)),
                _ => Err(refused("a number below 4294967295")),
            };
            match (key, found) {
                // The driver finds a role in longer words, too.
                ("role", "server" | "client" | "master" | "slave") => {}
                ("role", _) => return Err(refused("server or client")),
                ("socket", "") => return Err(refused("a name or a path")),
                ("socket", _) => found.clone_into(&mut place.name),
                ("socket-abstract", "yes" | "no") => is_abstract = Some(found == "yes"),
                ("socket-abstract", _) => return Err(refused("yes or no")),
                ("owner-uid", _) => place.owner.0 = number()?,
                ("owner-gid", _) => place.owner.1 = number()?,
                _ => {}
            }
        }
        let is_path = place.name.starts_with('/');
        place.is_file = is_abstract.map_or(is_path, |is_abstract| !is_abstract);
        if place.is_file && !is_path {
            let (device, found) = (device.to_owned(), place.name);
            let expected = "a path from / on where socket-abstract=no";
            return Err(SocketError::Argument { device, key: "socket".into(), found, expected });
        }
        if !place.is_file {
            place.owner = (None, None);
        }
        Ok(place)
    }

    /// Whether both are the same, whatever the owner.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        (&self.name, self.is_file) == (&other.name, other.is_file)
    }

    /// The socket as arguments of a device.
    pub(crate) fn arguments(&self) -> String {
        let is_abstract = if self.is_file { "no" } else { "yes" };
        format!("socket={},socket-abstract={is_abstract}", self.name)
    }

    /// The sockets of that name in this network namespace: the inode of each, which is 0 for a
    /// connection that its listener has not taken in.
    fn sockets(&self) -> Vec<u64> {
        let name = if self.is_file { self.name.clone() } else { format!("@{}", self.name) };
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

    /// Listens with `socket`; a file that a killed process left is removed before.
    pub(crate) fn listen(&self, socket: &OwnedFd) -> Result<Option<SocketFile>, SocketError> {
        if self.is_file {
            self.clear()?;
        }
        let listen = || -> io::Result<Option<SocketFile>> {
            bind(socket, &self.address()?)?;
            let file = self.is_file.then(|| SocketFile::at(&self.name)).transpose()?;
            listen(socket, BACKLOG)?;
            let Some(file) = file else { return Ok(None) };
            // Before it listened, another process could take it for one that was left.
            if !file.is_there() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            if self.owner != (None, None) {
                file.give_to(self.owner)?;
            }
            Ok(Some(file))
        };
        listen().map_err(|error| self.refused(error))
    }

    /// Removes the socket of a process that was killed.
    fn clear(&self) -> Result<(), SocketError> {
        let path = &self.name;
        let Ok(held) = held(path) else { return Ok(()) };
        let found = held.metadata().map_err(|error| self.refused(error))?;
        if !found.file_type().is_socket() {
            return Err(SocketError::NoSocket(path.clone()));
        }
        if !refused(&by_descriptor(&held)) {
            return Err(SocketError::InUse(path.clone()));
        }
        // Another process may have removed the file and listen at one of its own by now.
        match fs::symlink_metadata(path) {
            Ok(now) if identity(&now) == identity(&found) => {
                fs::remove_file(path).map_err(|error| self.refused(error))
            }
            Ok(_) => Err(SocketError::InUse(path.clone())),
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn address(&self) -> rustix::io::Result<SocketAddrUnix> {
        if self.is_file {
            return SocketAddrUnix::new(self.name.as_str());
        }
        SocketAddrUnix::new_abstract_name(self.name.as_bytes())
    }

    pub(crate) fn refused(&self, error: io::Error) -> SocketError {
        match error.kind() {
            io::ErrorKind::AddrInUse => SocketError::InUse(self.name.clone()),
            _ => SocketError::Io(self.name.clone(), error),
        }
    }
}

impl SocketFile {
    fn at(path: &str) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&fs::symlink_metadata(path)?) })
    }

    /// Gives the file to a user and a group, and lets both connect.
    fn give_to(&self, (user, group): (Option<u32>, Option<u32>)) -> io::Result<()> {
        let held = held(&self.path)?;
        // By the descriptor, since the path may name another file by now.
        if identity(&held.metadata()?) != self.identity {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let own = by_descriptor(&held);
        fs::set_permissions(&own, Permissions::from_mode(OWNED_MODE))?;
        unix_fs::chown(&own, user, group)
    }

    fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(found: &fs::Metadata) -> FileIdentity {
    // Its content never changes; owner and mode are not part of this.
    (found.dev(), found.ino(), found.mtime(), found.mtime_nsec())
}

/// A descriptor that only names the file at a path, and no file that a link there names.
pub(crate) fn held(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
    options.open(path)
}

/// A path of the file that a descriptor names, whatever its own path names by now.
pub(crate) fn by_descriptor(held: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", held.as_raw_fd())
}

/// Whether no process listens at the socket of a file. A listener of packets answers a stream with
/// another error.
fn refused(path: &str) -> bool {
    let connected = UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::listener::packets;

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
        let place = MemifSocket::of("net_memif0", &format!("socket={text}")).unwrap();
        assert!(place.clear().is_ok() && !device.is_awaited());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(place.clear(), Err(SocketError::InUse(_))) && device.is_served());
        drop(listener);
        assert!(device.is_awaited(), "a killed process leaves the file");
        assert!(!device.is_served(), "and does not listen");
        assert!(place.clear().is_ok() && !path.exists());
        fs::write(&path, "no socket").unwrap();
        assert!(matches!(place.clear(), Err(SocketError::NoSocket(_))));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_socket_goes_with_its_value_and_a_file_that_took_its_place_stays() {
        let path = std::env::temp_dir().join(format!("headrace-{}.own", std::process::id()));
        let named = format!("socket={},owner-gid={}", path.display(), unix_gid());
        let place = MemifSocket::of("net_memif0", &named).unwrap();
        let file = place.listen(&packets()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, OWNED_MODE);
        drop(file);
        assert!(!path.exists());
        let file = place.listen(&packets()).unwrap();
        fs::remove_file(&path).unwrap();
        // The kernel's file times have a resolution of milliseconds.
        std::thread::sleep(core::time::Duration::from_millis(30));
        fs::write(&path, "of another process").unwrap();
        drop(file);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }

    /// The group of this process.
    fn unix_gid() -> u32 {
        fs::metadata("/proc/self").unwrap().gid()
    }

    #[test]
    fn arguments_that_name_no_place_are_refused_with_what_they_must_be() {
        let of = |text: &str| MemifSocket::of("net_memif0", text);
        let (name, owner) = ("/run/x".to_owned(), (Some(7), None));
        let place = MemifSocket { name, is_file: true, owner };
        assert_eq!(of("id=1,socket=/run/x,owner-uid=7,bsize=2048").unwrap(), place);
        let is_abstract = of("socket=/run/x,socket-abstract=yes,owner-uid=7").unwrap();
        assert!(!is_abstract.is_at(&place) && is_abstract.owner == (None, None));
        assert_eq!(of("role=server").unwrap().name, SOCKET);
        for (wrong, expected) in [
            ("owner-uid=abc", "a number below"),
            ("owner-gid=4294967295", "a number below"),
            ("owner-uid", "a number below"),
            ("socket-abstract=nope", "yes or no"),
            ("role=client0", "server or client"),
            ("role=server,role=client", "the only one"),
            ("socket=", "a name or a path"),
            ("socket-abstract=no,socket=x", "a path from / on"),
        ] {
            let text = of(&format!("id=1,{wrong}")).unwrap_err().to_string();
            let last = wrong.rsplit(',').next().unwrap();
            assert!(
                ["`net_memif0`", last, expected].iter().all(|part| text.contains(part)),
                "{text}"
            );
        }
    }
}
