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

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, accept_with, recvmsg, sendmsg,
    socket_with,
};

use crate::device::driver_socket::DriverSocket;
use crate::device::socket::{MemifSocket, SocketError, SocketFile};

/// A device's share of the public socket, which is closed with the last device; its file, if it has
/// one, is removed.
#[derive(Debug)]
pub(crate) struct Listener {
    driver: Arc<DriverSocket>,
}

/// A place at which this process has listened. The driver keeps its own socket until the process
/// ends, and so do devices that have listened.
struct Known {
    place: MemifSocket,
    driver: Arc<DriverSocket>,
    /// Devices that have listened.
    devices: Vec<String>,
    /// Shares of the public socket, and the socket while there are any.
    shares: usize,
    serving: Option<Serving>,
}

/// The public socket.
struct Serving {
    file: Option<SocketFile>,
    /// The stream that, once closed, ends the thread.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
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

/// Octets of a message of memif's control protocol; each has at most one descriptor.
const MESSAGE: usize = 128;
/// Connections at once. Where one more comes, the oldest is closed that was greeted and has sent
/// nothing; where all have sent something, further ones wait.
const VISITS_MAX: usize = 64;
/// Between two tries to take a connection in, where the driver does not listen yet or the process
/// has no descriptor left.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// Tries in a row after which the log says that they fail.
const TRIES: u32 = 100;

impl Listener {
    /// Listens at `place` for `device`, or joins the other devices of this process that do.
    pub(crate) fn at(place: &MemifSocket, device: &str) -> Result<Self, SocketError> {
        let mut all = known();
        let is_here = |one: &Known| one.place.is_at(place);
        if let Some(kept) = all.iter().find(|one| !is_here(one) && one.has(device)) {
            let (kept, wanted) = (kept.place.arguments(), place.arguments());
            return Err(SocketError::Kept { device: device.to_owned(), kept, wanted });
        }
        let at = match all.iter().position(is_here) {
            Some(at) => at,
            None => {
                let (devices, shares, serving) = Default::default();
                let driver = Arc::new(DriverSocket::new()?);
                all.push(Known { place: place.clone(), driver, devices, shares, serving });
                all.len() - 1
            }
        };
        let known = &mut all[at];
        let driver = Arc::clone(&known.driver);
        let joined = known.join(place);
        known.shares += usize::from(joined.is_ok());
        all.retain(Known::is_needed);
        joined.map(|()| Self { driver })
    }

    /// The driver's own socket.
    pub(crate) fn driver(&self) -> &DriverSocket {
        &self.driver
    }

    /// Records that `device` keeps this socket from now on.
    pub(crate) fn is_kept_by(&self, device: &str) {
        let mut all = known();
        let is_its = |one: &&mut Known| self.is_of(one) && !one.has(device);
        all.iter_mut().find(is_its).into_iter().for_each(|one| one.devices.push(device.to_owned()));
    }

    fn is_of(&self, known: &Known) -> bool {
        Arc::ptr_eq(&known.driver, &self.driver)
    }
}

impl Drop for Listener {
    /// Closes the socket before another device can listen at its place.
    fn drop(&mut self) {
        let mut all = known();
        if let Some(one) = all.iter_mut().find(|one| self.is_of(one)) {
            one.shares -= 1;
            if one.shares == 0 {
                one.serving = None;
            }
        }
        all.retain(Known::is_needed);
    }
}

impl Known {
    /// Listens, unless another device does with the same owner.
    fn join(&mut self, place: &MemifSocket) -> Result<(), SocketError> {
        if self.serving.is_none() {
            self.serving = Some(Serving::start(place, &self.driver)?);
            self.place = place.clone();
        }
        if self.place == *place { Ok(()) } else { Err(SocketError::Owner(place.name.clone())) }
    }

    fn has(&self, device: &str) -> bool {
        self.devices.iter().any(|one| one == device)
    }

    fn is_needed(&self) -> bool {
        self.serving.is_some() || !self.devices.is_empty()
    }
}

fn known() -> MutexGuard<'static, Vec<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Serving {
    fn start(place: &MemifSocket, driver: &Arc<DriverSocket>) -> Result<Self, SocketError> {
        let refused = |error: io::Error| place.refused(error);
        let socket = seqpacket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let socket = socket.map_err(|error| refused(error.into()))?;
        let (end, its_end) = UnixStream::pair().map_err(refused)?;
        let file = place.listen(&socket)?;
        let driver = Arc::clone(driver);
        let body = move || serve(&socket, &driver, &its_end);
        let thread = thread::Builder::new().name("memif".to_owned()).spawn(body);
        Ok(Self { file, end: Some(end), thread: Some(thread.map_err(refused)?) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.file.take());
        drop(self.end.take());
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn seqpacket(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Passes messages between other processes and the driver until `end` is closed.
fn serve(socket: &OwnedFd, driver: &DriverSocket, end: &UnixStream) {
    let mut visits: Vec<Visit> = Vec::new();
    // A process that is taken in and has no connection to the driver yet.
    let mut waits = None;
    // Whether the last try failed, and how many in a row have although the driver listens.
    let mut late: Option<u32> = None;
    loop {
        // The driver has place for one connection that it has not taken in.
        let is_free = visits.iter().all(|visit| visit.is_greeted);
        let takes = is_free && has_room(&visits) && late.is_none();
        let ready = match ready((socket, takes), end, &visits, late.map(|_| &RETRY)) {
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
        if (late.is_some() || takes && *connects) && has_room(&visits) {
            match take_in(socket, driver, &mut waits) {
                Ok(visit) => {
                    late = None;
                    visit.into_iter().for_each(|visit| add(&mut visits, visit));
                }
                Err(error) => {
                    let failures = late.unwrap_or(0) + u32::from(error != Errno::NOENT);
                    if failures == TRIES && error != Errno::NOENT {
                        tracing::warn!(%error, "a memif has failed to take a process in");
                    }
                    late = Some(failures.min(TRIES));
                }
            }
        }
    }
    for visit in visits.into_iter().filter(|visit| !visit.is_greeted) {
        // It stays open until the process ends, since the driver has yet to send its greeting.
        mem::forget(visit.driver);
    }
}

/// Waits for at most `time`, and returns what is ready: first `end` and `socket`, then the driver
/// and the guest of each visit. What stands in for a socket that may not be read, `end` or a
/// visit's driver, counts for it.
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

/// Takes the next process in, unless one waits already, and connects to the driver for it. After an
/// error that process waits; `None` when no process has come.
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

/// Whether one more can come, in the place of an idle one if need be.
fn has_room(visits: &[Visit]) -> bool {
    visits.len() < VISITS_MAX || visits.iter().any(Visit::is_idle)
}

fn add(visits: &mut Vec<Visit>, visit: Visit) {
    if visits.len() >= VISITS_MAX
        && let Some(oldest) = visits.iter().position(Visit::is_idle)
    {
        drop(visits.remove(oldest));
    }
    visits.push(visit);
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
#[cfg(test)]
pub(crate) use tests::{listens, packets};
