//! Why there was no session, or why it ended early.

use experiments::input::InputError;
use experiments::plan::RunError;
use thiserror::Error;
use transport::HostId;
use transport_dpdk::Failure;

use crate::dpdk_error::DpdkError;

/// Why a process had no session.
#[derive(Debug, Error)]
pub enum PeerError {
    /// The machine is not fit.
    #[error(transparent)]
    Dpdk(DpdkError),
    /// An error in the user's input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An address that no host can have.
    #[error("{0}")]
    Address(String),
    /// Settings that do not fit together.
    #[error(transparent)]
    Plan(#[from] RunError),
    /// The link did not come up.
    #[error(
        "the link of {device} did not come up within {seconds} s; start the other side, name the \
         same socket or connected interfaces on both, or wait longer with --wait"
    )]
    LinkDown {
        /// The device.
        device: String,
        /// How long the command waited for the link.
        seconds: u64,
    },
    /// No host answers for an address.
    #[error(
        "host {host} ({ip}) does not say its MAC; start `headrace perf server` there, check \
         cabling and both addresses, or give its MAC with --at"
    )]
    NoMac {
        /// The number of the host.
        host: HostId,
        /// The address of the host.
        ip: String,
    },
    /// No server answered.
    #[error(
        "no server answered at {address}, UDP port {udp_port}, within {seconds} s; start `headrace \
         perf server` there, and check --server, --host, --udp-port and --security on both sides"
    )]
    NoServer {
        /// The address that was asked for.
        address: String,
        /// The UDP port of the requests to the server.
        udp_port: u16,
        /// How long the client sent requests.
        seconds: u64,
    },
    /// The server would not.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// The server had another session for as long as the client waited.
    #[error("the server refuses: {0}")]
    Busy(String),
    /// The other side stopped in the middle.
    #[error("the server ended the session: {0}")]
    Stopped(String),
    /// The other side fell silent.
    #[error(
        "nothing was received from the server for {seconds} s; it was killed, or the link is down \
         (counted: {counters})"
    )]
    Silent {
        /// Seconds without a packet.
        seconds: u64,
        /// The counters of this side.
        counters: String,
    },
    /// The session cannot go on without a message that was not delivered.
    #[error("a message to the server was not delivered: {0}")]
    Undelivered(Failure),
    /// Interrupted before there was a result.
    #[error("interrupted before there was a result")]
    Interrupted,
}

impl<E: Into<DpdkError>> From<E> for PeerError {
    fn from(error: E) -> Self {
        Self::Dpdk(error.into())
    }
}
