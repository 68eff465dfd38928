//! Errors of DPDK, its buffers, its devices or the clock: the machine is not fit.

use experiments::plan::RunError;
use thiserror::Error;
use transport_dpdk::ClockError;
use transport_dpdk::{EalError, MbufError, PortError};

/// Why no device can be used.
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
    DevicePort(#[from] PortError),
    /// No clock.
    #[error(transparent)]
    Clock(#[from] ClockError),
}

/// The machine is not fit for a run.
pub(crate) fn unfit(error: &dyn std::error::Error) -> RunError {
    RunError::Environment(error.to_string())
}

/// Why a run ends, where code that is generic over its error refuses devices.
#[derive(Debug)]
pub(crate) struct Unfit(pub(crate) RunError);

impl From<PortError> for Unfit {
    fn from(error: PortError) -> Self {
        Self(unfit(&error))
    }
}
