//! A network namespace of our own, so that a TAP device and its kernel netdev leave nothing behind.
//!
//! Source: namespaces(7), network_namespaces(7). The namespace lives while a [`Netns`] or a socket
//! opened in it lives; the kernel then removes its devices. It is entered only by short-lived
//! threads, so the caller's thread never changes its own namespace. It does no routing and gives no
//! address to anything; IPv6 is switched off so that the kernel sends nothing by itself.

use std::fs::{self, File};
use std::io;
use std::thread;

use thiserror::Error;

use crate::eal;

/// A private network namespace.
#[derive(Debug)]
pub struct Netns {
    handle: File,
}

/// Why a namespace could not be made or entered.
#[derive(Debug, Error)]
pub enum NetnsError {
    /// unshare(CLONE_NEWNET) was refused.
    #[error("cannot make a network namespace ({0}); run as root, or `unshare -rn` the program")]
    Refused(io::Error),
    /// The namespace file could not be opened.
    #[error("cannot open /proc/thread-self/ns/net ({0}); mount /proc")]
    NoProc(io::Error),
    /// setns was refused.
    #[error("cannot enter the network namespace ({0}); run as root")]
    Enter(io::Error),
    /// No thread could be started that enters the network namespace.
    #[error("cannot start a thread for the network namespace ({0}); raise `ulimit -u`")]
    Thread(io::Error),
}

impl Netns {
    /// Makes an empty namespace (only a `lo` that is down).
    ///
    /// # Errors
    /// [`NetnsError::Refused`] without CAP_SYS_ADMIN.
    pub fn private() -> Result<Self, NetnsError> {
        let made = on_short_thread(|| {
            eal::unshare_network().map_err(NetnsError::Refused)?;
            // A kernel without IPv6 has no such file, and nothing to switch off.
            let _ = fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            File::open("/proc/thread-self/ns/net").map_err(NetnsError::NoProc)
        })?;
        Ok(Self { handle: made? })
    }

    /// Runs `work` on a thread inside the namespace and returns its result. Sockets that `work`
    /// opens stay in the namespace wherever they are used later. A panic in `work` is passed on.
    ///
    /// # Errors
    /// [`NetnsError::Enter`] without CAP_SYS_ADMIN, [`NetnsError::Thread`] without threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        on_short_thread(|| {
            eal::enter_network(&self.handle).map_err(NetnsError::Enter)?;
            Ok(work())
        })?
    }
}

fn on_short_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)
            .map_err(NetnsError::Thread)?;
        thread.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_namespace_has_no_device_but_lo_and_leaves_the_caller_where_it_was() {
        let before = fs::read_link("/proc/thread-self/ns/net").unwrap();
        match Netns::private() {
            Ok(netns) => {
                let devices =
                    netns.run(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap());
                assert_eq!(devices.unwrap().lines().filter(|l| l.contains(':')).count(), 1);
            }
            Err(refused) => assert!(refused.to_string().contains("run as root"), "{refused}"),
        }
        assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), before);
    }
}
