//! Functions that need no running EAL: versions, counters of time, network namespaces of a thread,
//! modes of the kernel's interfaces, rings of packet sockets.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int};
use std::fs::{self, File};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use dpdk_sys as sys;

/// `libdpdk`'s own version text, e.g. `DPDK 22.11.11`. Needs no EAL.
#[must_use]
pub fn dpdk_version() -> String {
    // SAFETY: returns a pointer to a static NUL-terminated string.
    let text = unsafe { sys::rte_version() };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The time-stamp counter of this core, in ticks. Needs no EAL.
#[inline]
#[must_use]
pub fn tsc() -> u64 {
    // SAFETY: reads a counter, touches no memory.
    unsafe { sys::rdpdk_tsc() }
}

/// CLOCK_MONOTONIC_RAW, nanoseconds: real time that nothing slews.
#[must_use]
pub(crate) fn monotonic_raw_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec. The clock exists on every Linux since 2.6.28.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Moves the calling thread, and no other, to a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: takes flags only; CLONE_NEWNET affects the calling thread alone.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves the calling thread, and no other, to the network namespace that `handle` refers to.
pub(crate) fn enter_network(handle: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open while `handle` is borrowed.
    match unsafe { libc::setns(handle.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the kernel's interface `number`, in the namespace of the calling thread, receive frames to
/// all addresses for as long as the descriptor is open. The kernel counts such descriptors and ends
/// the mode with the last one, also that of a process that was killed; packet(7).
pub(crate) fn receive_all(number: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only. Protocol 0: the socket itself receives nothing.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened, and that nothing else closes.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: a plain struct of numbers, for which zeros are valid.
    let mut wanted: libc::packet_mreq = unsafe { zeroed() };
    wanted.mr_ifindex = i32::try_from(number).map_err(io::Error::other)?;
    wanted.mr_type = PROMISCUOUS;
    // SAFETY: an open socket, and a struct of the length that is given.
    let ret = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const wanted).cast(),
            LENGTH,
        )
    };
    if ret == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel's interface `number` has the flag set by which it receives frames to all
/// addresses; false where it cannot be read. [`receive_all`] does not set this flag; netdevice(7).
pub(crate) fn is_set_to_receive_all(number: u32) -> bool {
    let Ok(number) = i32::try_from(number) else { return false };
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return false };
    // SAFETY: a plain struct of numbers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = number;
    let socket = socket.as_raw_fd();
    // SAFETY: an open socket and a request, in which the kernel writes the name of the interface.
    let named = unsafe { libc::ioctl(socket, libc::SIOCGIFNAME, &raw mut request) };
    // SAFETY: as above; the kernel reads the name and writes the flags.
    if named != 0 || unsafe { libc::ioctl(socket, libc::SIOCGIFFLAGS, &raw mut request) } != 0 {
        return false;
    }
    // SAFETY: the kernel has just written this member.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    i32::from(flags) & libc::IFF_PROMISC != 0
}

/// The sockets with rings that this process has at the kernel's interface `number`, in the
/// namespace of the calling thread, each duplicated, by descriptor; packet(7). A driver opens those
/// of its queues in the order of the queues, so they are in that order unless another file is
/// closed meanwhile.
pub(crate) fn packet_rings(number: u32) -> Vec<OwnedFd> {
    let text = fs::read_to_string("/proc/thread-self/net/packet").unwrap_or_default();
    let inodes = inodes_at(number, &text);
    let Ok(files) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let raw = files.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok());
    let mut found: Vec<RawFd> = raw.filter(|raw| is_one_of(*raw, &inodes)).collect();
    found.sort_unstable();
    let duplicates = found.into_iter().filter_map(duplicate);
    // Another thread may have opened another file under the number meanwhile.
    duplicates.filter(|file| is_one_of(file.as_raw_fd(), &inodes) && has_frames(file)).collect()
}

/// The inodes of the packet sockets at interface `number`, in the kernel's list of such sockets.
fn inodes_at(number: u32, list: &str) -> BTreeSet<String> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_there = fields.get(4)?.parse() == Ok(number);
        is_there.then_some((*fields.get(8)?).to_owned())
    };
    list.lines().filter_map(inode).collect()
}

/// Whether the descriptor is that of a socket with one of these inodes.
fn is_one_of(raw: RawFd, inodes: &BTreeSet<String>) -> bool {
    let target = fs::read_link(format!("/proc/self/fd/{raw}")).unwrap_or_default();
    let target = target.to_str().and_then(|target| target.strip_prefix("socket:["));
    target.and_then(|inode| inode.strip_suffix(']')).is_some_and(|inode| inodes.contains(inode))
}

fn duplicate(descriptor: RawFd) -> Option<OwnedFd> {
    // SAFETY: takes numbers only; a descriptor that is not open is refused.
    let raw = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    // SAFETY: a descriptor that was just opened, and that nothing else closes.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Whether a packet socket has frames in memory of the second version, as the driver's rings do.
fn has_frames(socket: &OwnedFd) -> bool {
    let version = libc::tpacket_versions::TPACKET_V2 as c_int;
    option(socket, libc::SOL_PACKET, libc::PACKET_VERSION) == Some(version)
}

/// Has the kernel send the frames that wait in the ring of a packet socket; true when none waited.
/// The kernel may send some of them and leave the rest, and it sends none while the interface is
/// down. First the error is cleared that such a time has left at the socket: otherwise the kernel
/// would answer with it and send nothing.
pub(crate) fn send_waiting(socket: &OwnedFd) -> bool {
    let _ = option(socket, libc::SOL_SOCKET, libc::SO_ERROR);
    // SAFETY: an open socket; no byte is read.
    unsafe { libc::send(socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT) == 0 }
}

/// The value of a socket's option that is a number.
fn option(socket: &OwnedFd, level: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut length): (c_int, u32) = (0, OPTION);
    let (place, raw) = ((&raw mut value).cast(), socket.as_raw_fd());
    // SAFETY: an open socket, and a place of the length that is given.
    let ret = unsafe { libc::getsockopt(raw, level, name, place, &raw mut length) };
    (ret == 0).then_some(value)
}

/// Bytes of an option that is a number.
const OPTION: u32 = 4;
const _: () = assert!(OPTION as usize == size_of::<c_int>());
/// PACKET_MR_PROMISC has 16 bits in a request.
const PROMISCUOUS: u16 = 1;
const _: () = assert!(PROMISCUOUS as i32 == libc::PACKET_MR_PROMISC);
/// Bytes of a request.
const LENGTH: u32 = 16;
const _: () = assert!(LENGTH as usize == size_of::<libc::packet_mreq>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_sockets_are_those_of_one_interface() {
        let list = "sk RefCnt Type Proto Iface R Rmem User Inode\n\
            0 3 3 0003 2 1 0 0 10\n0 3 3 0003 3 1 0 0 11\n0 3 3 0003 2 1 0 0 12\ncut 2";
        let found = |number| inodes_at(number, list).into_iter().collect::<Vec<_>>();
        assert_eq!([found(2), found(3), found(4)], [vec!["10", "12"], vec!["11"], vec![]]);
    }

    #[test]
    fn the_library_is_one_of_the_supported_releases() {
        assert!(dpdk_version().starts_with("DPDK 2"), "{}", dpdk_version());
    }
}
