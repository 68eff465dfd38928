//! Functions that need no running EAL: versions, counters of time, network namespaces of a thread.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_one_of_the_supported_releases() {
        assert!(dpdk_version().starts_with("DPDK 2"), "{}", dpdk_version());
    }
}
