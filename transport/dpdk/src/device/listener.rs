//! The socket of a memif that listens, as other processes see it.
//!
//! Source: DPDK 22.11, `memif_listener_handler` and `eal_intr_thread_main`. The driver puts a
//! connection on the interrupt thread's list and then sends a greeting. If the other end is closed
//! by then, the driver closes its own end and leaves it on the list, and EAL panics ("Error adding
//! fd"). Any process that connects and goes before the greeting would end this one, whether it was
//! killed, gave up or came by mistake. The time between is microseconds, or as long as this process
//! stands still or a worker holds the interrupt thread.
//!
//! So the driver listens at an abstract socket of its own, and a thread here at the socket that
//! others see. The thread connects to the driver once for each other process, one after another,
//! and passes their messages on with the descriptors in them. It closes no connection before the
//! driver's greeting. Payload does not pass here.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs as unix_fs;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, process};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
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
    /// The abstract name at which the driver listens.
    driver: String,
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

/// A place at which this process has listened. The driver keeps its own socket until the process
/// ends, and so do devices that have listened.
struct Known {
    place: MemifSocket,
    driver: String,
    devices: Vec<String>,
    listener: Weak<Listener>,
}

/// A connection of another process, and the one to the driver for it.
struct Visit {
    guest: OwnedFd,
    driver: OwnedFd,
    is_greeted: bool,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// Octets of a message of memif's control protocol; each has at most one descriptor.
const MESSAGE: usize = 128;
/// Connections that wait to be taken in.
const BACKLOG: i32 = 16;
/// Connections at once; further ones wait.
const VISITS_MAX: usize = 64;
/// Between two tries to take a connection in where the process has no descriptor left.
const RETRY: Duration = Duration::from_millis(100);

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
        let number = match all.iter().position(is_here) {
            Some(number) => number,
            None => {
                let chance = keys::random().map_err(|error| place.refused(error))?;
                let driver = format!("headrace-{}-{chance:016x}", process::id());
                let (devices, listener) = Default::default();
                all.push(Known { place: place.clone(), driver, devices, listener });
                all.len() - 1
            }
        };
        let known = &mut all[number];
        if let Some(listener) = known.listener.upgrade() {
            return Ok(listener);
        }
        let listener = Self::open(&place, &known.driver);
        let listener = Arc::new(listener.map_err(|error| place.refused(error))?);
        known.listener = Arc::downgrade(&listener);
        Ok(listener)
    }

    fn open(place: &MemifSocket, driver: &str) -> io::Result<Self> {
        let socket = seqpacket(SocketFlags::CLOEXEC)?;
        let driver_address = SocketAddrUnix::new_abstract_name(driver.as_bytes())?;
        let (end, its_end) = UnixStream::pair()?;
        bind(&socket, &place.address()?)?;
        // From here on the file is removed with this value.
        let file = place.is_file.then(|| place.name.clone());
        let driver = driver.to_owned();
        let mut listener = Self { driver, end: Some(end), thread: None, file };
        if place.is_file && place.owner != (None, None) {
            unix_fs::chown(&place.name, place.owner.0, place.owner.1)?;
        }
        listen(&socket, BACKLOG)?;
        let body = move || serve(&socket, &driver_address, &its_end);
        listener.thread = Some(thread::Builder::new().name("memif".to_owned()).spawn(body)?);
        Ok(listener)
    }

    /// The driver's own abstract socket.
    pub(crate) fn driver(&self) -> &str {
        &self.driver
    }

    /// Remembers that `device` keeps this socket from now on.
    pub(crate) fn is_kept_by(&self, device: &str) {
        let mut all = known();
        let here = all.iter_mut().find(|one| one.driver == self.driver && !one.has(device));
        here.into_iter().for_each(|one| one.devices.push(device.to_owned()));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
        self.file.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

impl MemifSocket {
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
fn serve(socket: &OwnedFd, driver: &SocketAddrUnix, end: &UnixStream) {
    let mut visits: Vec<Visit> = Vec::new();
    loop {
        // The driver has place for one connection that it has not taken in.
        let takes = visits.len() < VISITS_MAX && visits.iter().all(|visit| visit.is_greeted);
        let ready = match ready(socket, takes, end, &visits) {
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
        if takes && *connects {
            match take_in(socket, driver) {
                Ok(visit) => visits.push(visit),
                Err(error) => {
                    tracing::debug!(%error, "a process cannot be taken in");
                    thread::sleep(RETRY);
                }
            }
        }
    }
    for visit in visits.into_iter().filter(|visit| !visit.is_greeted) {
        // Open until the process ends, for the driver to send its greeting to.
        mem::forget(visit.driver);
    }
}

/// Waits, and returns what is ready: `end`, `socket`, and for each visit driver and guest. One that
/// is not waited for is as ready as another that is.
fn ready(
    socket: &OwnedFd,
    takes: bool,
    end: &UnixStream,
    visits: &[Visit],
) -> rustix::io::Result<Vec<bool>> {
    let connects = if takes { socket.as_fd() } else { end.as_fd() };
    let mut all = vec![end.as_fd(), connects];
    for visit in visits {
        let guest = if visit.is_greeted { &visit.guest } else { &visit.driver };
        all.extend([visit.driver.as_fd(), guest.as_fd()]);
    }
    let mut watched: Vec<PollFd<'_>> =
        all.into_iter().map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
    poll(&mut watched, None)?;
    Ok(watched.iter().map(|one| !one.revents().is_empty()).collect())
}

/// Takes the next process in and connects to the driver for it.
fn take_in(socket: &OwnedFd, driver: &SocketAddrUnix) -> rustix::io::Result<Visit> {
    let guest = accept_with(socket, SocketFlags::CLOEXEC)?;
    let own = seqpacket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    connect(&own, driver)?;
    Ok(Visit { guest, driver: own, is_greeted: false })
}

impl Visit {
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
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    /// A place of this test, and a socket at which the test is the driver for it.
    fn place(name: &str) -> (MemifSocket, Arc<Listener>, OwnedFd) {
        let text = format!("headrace-test-{}-{name}", process::id());
        let place = MemifSocket { name: text, is_file: false, owner: (None, None) };
        let listener = Listener::at(place.clone(), name).unwrap();
        let driver = seqpacket(SocketFlags::CLOEXEC).unwrap();
        let own = SocketAddrUnix::new_abstract_name(listener.driver().as_bytes()).unwrap();
        bind(&driver, &own).unwrap();
        listen(&driver, 1).unwrap();
        (place, listener, driver)
    }

    fn guest(place: &MemifSocket) -> OwnedFd {
        let guest = seqpacket(SocketFlags::CLOEXEC).unwrap();
        connect(&guest, &place.address().unwrap()).unwrap();
        guest
    }

    fn send(socket: &OwnedFd, octets: &[u8]) -> rustix::io::Result<usize> {
        rustix::net::send(socket, octets, SendFlags::NOSIGNAL)
    }

    fn received(socket: &OwnedFd) -> Vec<u8> {
        let mut octets = [0; MESSAGE];
        let (got, _) = rustix::net::recv(socket, &mut octets[..], RecvFlags::empty()).unwrap();
        octets[..got].to_vec()
    }

    #[test]
    fn a_process_that_is_gone_before_the_greeting_is_seen_to_be_gone_after_it() {
        let (place, _listener, driver) = place("gone");
        drop(guest(&place));
        let stays = guest(&place);
        let first = accept_with(&driver, SocketFlags::CLOEXEC).unwrap();
        assert_eq!(send(&first, b"hello"), Ok(5), "the driver would take its end for closed");
        assert!(received(&first).is_empty(), "and this is the end, after the greeting");
        // The next one is served.
        let second = accept_with(&driver, SocketFlags::CLOEXEC).unwrap();
        send(&second, b"hello").unwrap();
        assert_eq!(received(&stays), b"hello");
    }

    #[test]
    fn messages_pass_with_their_descriptors_and_either_end_closes_both() {
        let (place, listener, driver) = place("passes");
        let guest = guest(&place);
        let host = accept_with(&driver, SocketFlags::CLOEXEC).unwrap();
        send(&host, &[7; MESSAGE]).unwrap();
        assert_eq!(received(&guest), [7; MESSAGE]);
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sent = [there.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
        let slices = [IoSlice::new(b"take this")];
        sendmsg(&guest, &slices, &mut control, SendFlags::empty()).unwrap();
        let mut octets = [0; MESSAGE];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut octets)];
        recvmsg(&host, &mut slices, &mut control, RecvFlags::empty()).unwrap();
        let Some(RecvAncillaryMessage::ScmRights(mut got)) = control.drain().next() else {
            panic!("no descriptor came");
        };
        UnixStream::from(got.next().unwrap()).write_all(b"here").unwrap();
        let mut text = [0; 4];
        here.read_exact(&mut text).unwrap();
        assert_eq!((&octets[..9], &text), (&b"take this"[..], b"here"));
        drop(host);
        assert!(received(&guest).is_empty());
        drop(listener);
        assert!(
            connect(seqpacket(SocketFlags::CLOEXEC).unwrap(), &place.address().unwrap()).is_err()
        );
    }

    #[test]
    fn a_socket_that_another_process_listens_at_is_an_error_and_a_file_goes_with_its_listener() {
        let path = std::env::temp_dir().join(format!("headrace-listener-{}", process::id()));
        let name = path.to_str().unwrap().to_owned();
        let place = MemifSocket { name, is_file: true, owner: (None, None) };
        let listener = Listener::at(place.clone(), "a").unwrap();
        assert!(Arc::ptr_eq(&listener, &Listener::at(place.clone(), "b").unwrap()));
        assert!(Listener::open(&place, "x").is_err_and(|e| e.kind() == io::ErrorKind::AddrInUse));
        assert!(path.exists());
        drop(listener);
        assert!(!path.exists());
    }
}
