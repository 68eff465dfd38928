//! The socket of a memif that listens, as other processes see it.
//!
//! Source: DPDK 22.11, `memif_listener_handler` and `eal_intr_thread_main`. The driver puts a
//! connection on the interrupt thread's list and then sends a greeting. If the other end is closed
//! by then, the driver closes its own end and leaves it on the list, and EAL panics ("Error adding
//! fd"). Any process that connects and goes before the greeting would end this one, whether it was
//! killed, gave up or came by mistake. The time between is microseconds, or as long as this process
//! stands still or a worker holds the interrupt thread.
//!
//! So the driver listens at a socket of its own, which no other user can reach, and a thread here
//! at the socket that others see. The thread connects to the driver once for each other process,
//! one after another, and passes their messages on with the descriptors in them. It closes no
//! connection to the driver before the driver's greeting. Payload does not pass here.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{self as unix_fs, DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::{env, fs, process};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};

use crate::device::socket::SocketError;
use crate::keys;

/// The public socket of one or more devices. It is closed with the last of them; its file, if it
/// has one, is removed.
#[derive(Debug)]
pub(crate) struct Listener {
    driver: Arc<DriverSocket>,
    /// Closing it ends the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    file: Option<String>,
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

/// The socket at which the driver listens until the process ends. It is a file in a directory that
/// only this user can enter: abstract names have no permissions. Both are removed as soon as the
/// driver listens, and the thread connects by a descriptor of the file. So a process that is killed
/// later leaves nothing behind. Killed before, it leaves a directory with a random name, which
/// no process uses again.
#[derive(Debug)]
struct DriverSocket {
    directory: PathBuf,
    /// Only names the file; there once the driver listens.
    file: OnceLock<OwnedFd>,
    /// Held while a device is opened.
    opening: Mutex<()>,
}

/// A place at which this process has listened. The driver keeps its own socket until the process
/// ends, and so do devices that have listened.
struct Known {
    place: MemifSocket,
    driver: Arc<DriverSocket>,
    devices: Vec<String>,
    listener: Weak<Listener>,
}

/// A connection of another process, and the one to the driver for it.
struct Visit {
    guest: OwnedFd,
    driver: OwnedFd,
    is_greeted: bool,
    /// Whether the other process has sent a message.
    has_sent: bool,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The abstract socket of a memif whose arguments name none.
const DRIVER_SOCKET: &str = "/run/memif.sock";
/// Octets of a message of memif's control protocol; each has at most one descriptor.
const MESSAGE: usize = 128;
/// Connections that wait to be taken in.
const BACKLOG: i32 = 16;
/// Connections at once. Where one more comes, the oldest is closed that was greeted and has sent
/// nothing; where all have sent something, further ones wait.
const VISITS_MAX: usize = 64;
/// Between two tries to take a connection in, where the driver does not listen yet or the process
/// has no descriptor left.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The longest path of a socket is 107 octets without the NUL, and two of them follow.
const DIRECTORY_MAX: usize = 105;

impl Listener {
    /// Listens at `place` for `device`, or joins the other devices of this process that do.
    pub(crate) fn at(place: MemifSocket, device: &str) -> Result<Arc<Self>, SocketError> {
        let mut all = known();
        let is_elsewhere = |one: &&Known| one.place.name != place.name && one.has(device);
        if let Some(kept) = all.iter().find(is_elsewhere) {
            let (kept, wanted) = (kept.place.name.clone(), place.name);
            return Err(SocketError::Kept { device: device.to_owned(), kept, wanted });
        }
        let is_here =
            |one: &Known| (&one.place.name, one.place.is_file) == (&place.name, place.is_file);
        let here = all.iter_mut().find(|one| is_here(one));
        let driver = match &here {
            Some(here) => Arc::clone(&here.driver),
            None => Arc::new(DriverSocket::new().map_err(|error| place.refused(error))?),
        };
        if let Some(here) = &here {
            // No listener may be dropped here: that would wait for `all`.
            if here.listener.strong_count() > 0 && here.place.owner != place.owner {
                return Err(SocketError::Owner(place.name));
            }
            if let Some(listener) = here.listener.upgrade() {
                return Ok(listener);
            }
        }
        let opened = Self::open(&place, &driver).map_err(|error| place.refused(error))?;
        let opened = Arc::new(opened);
        let listener = Arc::downgrade(&opened);
        match here {
            Some(here) => (here.place, here.listener) = (place, listener),
            None => all.push(Known { place, driver, devices: Vec::new(), listener }),
        }
        Ok(opened)
    }

    fn open(place: &MemifSocket, driver: &Arc<DriverSocket>) -> io::Result<Self> {
        let socket = seqpacket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let (end, its_end) = UnixStream::pair()?;
        bind(&socket, &place.address()?)?;
        let file = place.is_file.then(|| place.name.clone());
        let start = || {
            if place.is_file && place.owner != (None, None) {
                unix_fs::chown(&place.name, place.owner.0, place.owner.1)?;
            }
            listen(&socket, BACKLOG)?;
            let driver = Arc::clone(driver);
            let body = move || serve(&socket, &driver, &its_end);
            thread::Builder::new().name("memif".to_owned()).spawn(body)
        };
        let thread = start().inspect_err(|_| {
            file.iter().for_each(|path| drop(fs::remove_file(path)));
        })?;
        Ok(Self { driver: Arc::clone(driver), end: Some(end), thread: Some(thread), file })
    }

    /// Opens a device with the arguments that name the driver's own socket, one at a time.
    ///
    /// The driver looks for an abstract name among the sockets that it has, as for a path, but then
    /// wants no directory, which is gone once it listens.
    pub(crate) fn opens<T>(&self, open: impl FnOnce(&str) -> T) -> T {
        let driver = &self.driver;
        let _one = driver.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let is_abstract = if driver.file.get().is_some() { "yes" } else { "no" };
        let path = driver.path();
        let opened = open(&format!("socket={},socket-abstract={is_abstract}", path.display()));
        driver.find();
        opened
    }

    /// Remembers that `device` keeps this socket from now on.
    pub(crate) fn is_kept_by(&self, device: &str) {
        let mut all = known();
        let is_here = |one: &&mut Known| Arc::ptr_eq(&one.driver, &self.driver) && !one.has(device);
        let here = all.iter_mut().find(is_here);
        here.into_iter().for_each(|one| one.devices.push(device.to_owned()));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Held to the end: a listener that comes meanwhile at this place binds after all this.
        let mut all = known();
        self.file.iter().for_each(|path| drop(fs::remove_file(path)));
        drop(self.end.take());
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
        let driver = &self.driver;
        all.retain(|one| !Arc::ptr_eq(&one.driver, driver) || driver.file.get().is_some());
    }
}

impl DriverSocket {
    fn new() -> io::Result<Self> {
        let name = format!("headrace-{}-{:016x}", process::id(), keys::random()?);
        // The driver reads its arguments from a list.
        let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || b"/._-".contains(octet);
        let mut failed = io::Error::from(io::ErrorKind::InvalidInput);
        for parent in [env::temp_dir(), "/tmp".into(), "/run".into()] {
            let directory = parent.join(&name);
            let octets = directory.as_os_str().as_encoded_bytes();
            let fits = octets.len() <= DIRECTORY_MAX && octets.iter().all(is_plain);
            if !directory.is_absolute() || !fits {
                continue;
            }
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => {
                    let (file, opening) = Default::default();
                    return Ok(Self { directory, file, opening });
                }
                Err(error) => failed = error,
            }
        }
        let text = format!("no directory for the driver in TMPDIR, /tmp and /run: {failed}");
        Err(io::Error::new(failed.kind(), text))
    }

    fn path(&self) -> PathBuf {
        self.directory.join("s")
    }

    /// Takes the file where the driver has made it.
    fn find(&self) {
        if self.file.get().is_some() {
            return;
        }
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW);
        if let Ok(file) = options.open(self.path()) {
            drop(self.file.set(file.into()));
            remove(&self.directory, &self.path());
        }
    }

    fn connect(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        let file = self.file.get().ok_or(Errno::NOENT)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        connect(socket, &SocketAddrUnix::new(path)?)
    }
}

impl Drop for DriverSocket {
    fn drop(&mut self) {
        if self.file.get().is_none() {
            remove(&self.directory, &self.path());
        }
    }
}

fn remove(directory: &Path, file: &Path) {
    let _ = fs::remove_file(file);
    let _ = fs::remove_dir(directory);
}

impl MemifSocket {
    /// The place that a device's arguments name; without one it is the driver's.
    pub(crate) fn named(device: &str, arguments: &str) -> Result<Self, SocketError> {
        let mut place =
            Self { name: DRIVER_SOCKET.to_owned(), is_file: false, owner: (None, None) };
        for pair in arguments.split(',') {
            let (key, found) = pair.split_once('=').unwrap_or((pair, ""));
            let refused = |expected| {
                let (device, key, found) = (device.to_owned(), key.to_owned(), found.to_owned());
                SocketError::Argument { device, key, found, expected }
            };
            // The system takes the last number for "as it is".
            let number = || match found.parse::<u32>() {
                Ok(number) if number != u32::MAX => Ok(Some(number)),
                _ => Err(refused("a number below 4294967295")),
            };
            match (key, found) {
                ("socket", _) => found.clone_into(&mut place.name),
                ("socket-abstract", "yes" | "no") => place.is_file = found == "no",
                ("socket-abstract", _) => return Err(refused("yes or no")),
                ("owner-uid", _) => place.owner.0 = number()?,
                ("owner-gid", _) => place.owner.1 = number()?,
                _ => {}
            }
        }
        Ok(place)
    }

    fn address(&self) -> rustix::io::Result<SocketAddrUnix> {
        if self.is_file {
            return SocketAddrUnix::new(self.name.as_str());
        }
        SocketAddrUnix::new_abstract_name(self.name.as_bytes())
    }

    fn refused(&self, error: io::Error) -> SocketError {
        match error.kind() {
            io::ErrorKind::AddrInUse => SocketError::InUse(self.name.clone()),
            _ => SocketError::Io(self.name.clone(), error),
        }
    }
}

impl Known {
    fn has(&self, device: &str) -> bool {
        self.devices.iter().any(|one| one == device)
    }
}

fn known() -> MutexGuard<'static, Vec<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn seqpacket(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Passes messages between other processes and the driver until `end` is closed.
fn serve(socket: &OwnedFd, driver: &DriverSocket, end: &UnixStream) {
    let mut visits: Vec<Visit> = Vec::new();
    // A process that is taken in and has no connection to the driver yet.
    let mut waits = None;
    let mut is_late = false;
    loop {
        // The driver has place for one connection that it has not taken in.
        let is_free = visits.iter().all(|visit| visit.is_greeted);
        let has_room = visits.len() < VISITS_MAX || visits.iter().any(Visit::is_idle);
        let takes = is_free && has_room && !is_late;
        let ready = match ready((socket, takes), end, &visits, is_late.then_some(&RETRY)) {
            Ok(ready) => ready,
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::warn!(%error, "a memif takes in no more processes");
                break;
            }
        };
        let [ends, connects, between @ ..] = &ready[..] else { break };
        if *ends {
            break;
        }
        let mut between = between.chunks_exact(2);
        visits.retain_mut(|visit| match between.next() {
            Some([from_driver, from_guest]) => visit.goes_on(*from_driver, *from_guest),
            _ => true,
        });
        if is_late || takes && *connects {
            let taken_in = take_in(socket, driver, &mut waits);
            is_late = taken_in.is_err();
            match taken_in {
                Ok(None) => {}
                Ok(Some(visit)) => {
                    make_room(&mut visits);
                    visits.push(visit);
                }
                Err(error) => tracing::trace!(%error, "a process is not taken in yet"),
            }
        }
    }
    for visit in visits.into_iter().filter(|visit| !visit.is_greeted) {
        // Open until the process ends, for the driver to send its greeting to.
        mem::forget(visit.driver);
    }
}

/// Waits for at most `time`, and returns what is ready: `end`, `socket`, and for each visit driver
/// and guest. One that is not waited for is as ready as another that is.
fn ready(
    (socket, takes): (&OwnedFd, bool),
    end: &UnixStream,
    visits: &[Visit],
    time: Option<&Timespec>,
) -> rustix::io::Result<Vec<bool>> {
    let connects = if takes { socket.as_fd() } else { end.as_fd() };
    let mut all = vec![end.as_fd(), connects];
    for visit in visits {
        let guest = if visit.is_greeted { &visit.guest } else { &visit.driver };
        all.extend([visit.driver.as_fd(), guest.as_fd()]);
    }
    let mut watched: Vec<PollFd<'_>> =
        all.into_iter().map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
    poll(&mut watched, time)?;
    Ok(watched.iter().map(|one| !one.revents().is_empty()).collect())
}

/// Takes the next process in, unless one waits already, and connects to the driver for it. On an
/// error it waits; `None` when there is none.
fn take_in(
    socket: &OwnedFd,
    driver: &DriverSocket,
    waits: &mut Option<OwnedFd>,
) -> rustix::io::Result<Option<Visit>> {
    if waits.is_none() {
        *waits = match accept_with(socket, SocketFlags::CLOEXEC) {
            Err(Errno::AGAIN) => None,
            other => Some(other?),
        };
    }
    let Some(guest) = waits.take() else { return Ok(None) };
    let connected = seqpacket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        .and_then(|own| driver.connect(&own).map(|()| own));
    match connected {
        Ok(own) => Ok(Some(Visit { guest, driver: own, is_greeted: false, has_sent: false })),
        Err(error) => {
            *waits = Some(guest);
            Err(error)
        }
    }
}

/// Makes room for one more where there is none.
fn make_room(visits: &mut Vec<Visit>) {
    if visits.len() >= VISITS_MAX
        && let Some(oldest) = visits.iter().position(Visit::is_idle)
    {
        drop(visits.remove(oldest));
    }
}

impl Visit {
    const fn is_idle(&self) -> bool {
        self.is_greeted && !self.has_sent
    }

    /// Passes on what has come; false when one of the two has closed its end, or takes nothing.
    fn goes_on(&mut self, from_driver: bool, from_guest: bool) -> bool {
        let from_guest = self.is_greeted && from_guest;
        if from_driver {
            let passed = pass(&self.driver, &self.guest);
            self.is_greeted = true;
            if !passed.is_ok_and(|passed| passed) {
                return false;
            }
        }
        self.has_sent |= from_guest;
        !from_guest || pass(&self.guest, &self.driver).is_ok_and(|passed| passed)
    }
}

/// Passes a message on; false at the end of the connection.
fn pass(from: &OwnedFd, to: &OwnedFd) -> rustix::io::Result<bool> {
    let mut octets = [0; MESSAGE];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(from, &mut [IoSliceMut::new(&mut octets)], &mut control, flags)?;
    let Some(octets) = octets.get(..got.bytes).filter(|octets| !octets.is_empty()) else {
        return Ok(false);
    };
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(to, &[IoSlice::new(octets)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(true)
}

#[cfg(test)]
mod tests;
