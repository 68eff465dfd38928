//! What DPDK, its buffers, its devices or the clock refuse: a machine that is not fit.

use thiserror::Error;
use transport_dpdk::clock::ClockError;
use transport_dpdk::{EalError, MbufError, PortError};

/// Why there is no device to send through.
#[derive(Debug, Error)]
pub enum DpdkError {
    /// DPDK does not start.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// No buffers.
    #[error(transparent)]
    Mbuf(#[from] MbufError),
    /// No device.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
}
