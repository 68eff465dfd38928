//! Errors of EAL and of what it provides.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;

use dpdk_sys as sys;
use thiserror::Error;

use crate::eal::memory::MemoryError;

/// A DPDK error number with DPDK's own text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Why EAL, or something that it provides, is missing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EalError {
    /// No memory mode fits this machine.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// `rte_eal_init` failed.
    #[error("DPDK does not start ({errno}) with `{arguments}`; what it printed above says why")]
    Init {
        /// DPDK's reason.
        errno: Errno,
        /// The arguments it was given.
        arguments: String,
    },
    /// EAL has ended in this process.
    #[error("DPDK has ended in this process and cannot start again; use a new process")]
    Over,
    /// A string with a NUL byte.
    #[error("`{0:?}` holds a NUL byte, which no DPDK name or argument can; remove it")]
    Nul(String),
    /// A thread could not be registered.
    #[error(
        "the thread cannot become an lcore ({0}); at most 128 threads can at once, and not where \
         DPDK's multi-process mode is in use"
    )]
    Register(Errno),
    /// The thread is registered already; a second lcore would be lost.
    #[error("the thread is lcore {0} already; share its registration instead")]
    AlreadyRegistered(u32),
    /// A core that this process may not run on.
    #[error("cannot run on core {0}; `nproc` and `taskset -p $$` show the cores that are allowed")]
    Pin(usize),
    /// A thread could not be started.
    #[error("cannot start thread `{name}` ({kind}); raise `ulimit -u`")]
    Spawn {
        /// The thread's name.
        name: String,
        /// The system's error.
        kind: io::ErrorKind,
    },
    /// DPDK's telemetry refuses our commands.
    #[error("DPDK's telemetry takes no commands ({0}); leave it off")]
    Telemetry(Errno),
    /// A virtual device could not be added.
    #[error(
        "cannot add `{device}` with arguments `{arguments}` ({errno}): is there a driver of that \
         name (`headrace doctor` has those that are installed), and does it take these \
         arguments?{}",
        of_shared_namespace(device)
    )]
    Hotplug {
        /// Device name.
        device: String,
        /// The arguments that EAL was given.
        arguments: String,
        /// DPDK's reason.
        errno: Errno,
    },
}

/// Another cause of a refusal: the driver of netdevs makes the number of its fan-out group of 16
/// bits of the process and of the interface, and those of two processes may be the same.
fn of_shared_namespace(device: &str) -> &'static str {
    if !device.starts_with("net_af_packet") {
        return "";
    }
    " Where other processes use netdevs of the same network namespace, the driver fails now and \
     then: start this one again, or give each process a namespace of its own (`ip netns`)"
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: rte_strerror takes any number and returns a NUL-terminated string.
        let text = unsafe { sys::rte_strerror(self.0) };
        // SAFETY: the string is in thread-local storage and is copied before the next call.
        let text = unsafe { CStr::from_ptr(text) };
        write!(f, "{}, errno {}", text.to_string_lossy(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(crate) fn last_errno() -> Errno {
    // SAFETY: reads a thread-local integer.
    Errno(unsafe { sys::rdpdk_errno() })
}

pub(crate) fn c_string(text: &str) -> Result<CString, EalError> {
    CString::new(text).map_err(|_| EalError::Nul(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_a_nul_byte_is_an_error_and_not_a_panic() {
        assert_eq!(c_string("a\0b"), Err(EalError::Nul("a\0b".into())));
    }

    #[test]
    fn only_netdevs_are_said_to_fail_beside_others_of_their_namespace() {
        let said = |device: &str| {
            let (device, arguments) = (device.to_owned(), String::new());
            EalError::Hotplug { device, arguments, errno: Errno(libc::EPERM) }.to_string()
        };
        assert!(said("net_af_packet_eth0").contains("arguments? Where other processes use"));
        assert!(said("net_memif0").ends_with("arguments?"));
    }

    #[test]
    fn error_numbers_print_their_meaning() {
        assert_eq!(Errno(libc::ENOMEM).to_string(), "Cannot allocate memory, errno 12");
    }
}
