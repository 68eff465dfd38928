//! The view of a run while it goes on, beside its result.
//!
//! The command that starts a run asks for it; it changes nothing of what the run does.

use std::path::PathBuf;

use crate::capture::Capture;

/// The observations that are wanted; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// Serves OpenMetrics at this unix socket; in real time only.
    pub metrics: Option<PathBuf>,
    /// Opens DPDK's telemetry socket; in real time only.
    pub telemetry: bool,
    /// Explains where the time of each flow went; in virtual time only, on one thread.
    pub why: bool,
    /// Writes frames to a file.
    pub capture: Option<Capture>,
}
