//! Errors of opening a port, a ring or a virtual link.
//!
//! Each error names the device, the step that failed, DPDK's reason, and a remedy. Frame lengths
//! are bytes without FCS. Nothing here happens after the setup: a running device has counters
//! instead.

use std::fmt;

use thiserror::Error;

use crate::buffers::ring::RingError;
use crate::device::socket::SocketError;
use crate::eal::netns::NetnsError;
use crate::eal::{EalError, Errno};

/// Why a port or a ring cannot be opened.
#[derive(Debug, Error)]
pub enum PortError {
    /// EAL refused.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// One step of the setup failed.
    #[error("port `{port}`: cannot {step} ({errno}); {}", step.mend())]
    Setup {
        /// The device.
        port: String,
        /// The step that failed.
        step: SetupStep,
        /// DPDK's reason.
        errno: Errno,
    },
    /// More devices than DPDK was built for.
    #[error(
        "DPDK has room for {0} ports in a process and all are taken; keep the switch's side of \
         links on rings (net_ring), or use fewer hosts"
    )]
    TooMany(u32),
    /// A frame length that the kind of link cannot carry.
    #[error("frames of {wanted} bytes do not fit this link, which carries {most}; lower the MTU")]
    Frame {
        /// Asked for, bytes without FCS.
        wanted: u32,
        /// Carried, bytes without FCS.
        most: u32,
    },
    /// More workers than queues.
    #[error(
        "{workers} workers want a queue of `{port}` each, which has {queues}: use as many workers \
         as queues"
    )]
    Queues {
        /// The device.
        port: String,
        /// Asked for.
        workers: usize,
        /// Given.
        queues: u16,
    },
    /// The ring could not be made.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The socket at which two processes meet cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The private network namespace could not be made.
    #[error(transparent)]
    Netns(#[from] NetnsError),
}

/// A step in the setup of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupStep {
    /// Looking the device up by name.
    Find,
    /// Reading the offers of the device.
    Query,
    /// Setting queues, offloads and MTU.
    Configure,
    /// A receive queue.
    RxQueue,
    /// A transmit queue.
    TxQueue,
    /// The start of the device.
    Start,
}

impl PortError {
    /// The error of `step` on `port`, from a DPDK return value.
    pub(crate) fn setup(port: &str, step: SetupStep, ret: i32) -> Self {
        Self::Setup { port: port.to_owned(), step, errno: Errno(ret.abs()) }
    }
}

impl SetupStep {
    fn mend(self) -> &'static str {
        match self {
            Self::Find => {
                "bind it to a DPDK driver (dpdk-devbind.py --status shows all); where --eal lists \
                 devices with -a, list it too"
            }
            Self::Query | Self::Configure => "see the driver's limits in DPDK's NIC guide",
            Self::RxQueue => "use fewer descriptors, or buffers as large as the driver's minimum",
            Self::TxQueue => "use fewer descriptors",
            Self::Start => "see what the driver printed above; more memory often helps",
        }
    }
}

impl fmt::Display for SetupStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Find => "find the device",
            Self::Query => "ask the device what it offers",
            Self::Configure => "configure the device",
            Self::RxQueue => "set up a receive queue",
            Self::TxQueue => "set up a transmit queue",
            Self::Start => "start the device",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_the_port_the_reason_and_the_cure() {
        let text = PortError::setup("0000:3b:00.0", SetupStep::Find, -libc::ENODEV).to_string();
        assert!(text.starts_with("port `0000:3b:00.0`: cannot find the device (No such device"));
        assert!(text.contains("dpdk-devbind.py"), "{text}");
    }
}
