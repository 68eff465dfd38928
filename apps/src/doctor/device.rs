//! A named device, opened alone: how it is used.

use super::finding::Finding;
use crate::failure::Failure;

/// Findings about `device` with `queues` queues.
///
/// # Errors
/// [`Failure::CommandLine`] when it names no device, [`Failure::Unfit`] when it does not open.
#[cfg(feature = "dpdk")]
pub(crate) fn look_at(device: &str, queues: u16) -> Result<Vec<Finding>, Failure> {
    let named = crate::device::resolved(device)?;
    let inspected = live::inspect::inspect(&named, queues)
        .map_err(|error| Failure::Unfit(format!("--device {device}: {error}")))?;
    let why = "what the device does for headrace, and what software does";
    let line = format!("{named}: {}", inspected.configuration);
    let lost = inspected.lost.into_iter();
    let lost = lost.map(|lost| Finding::info("device.without", lost, why));
    Ok([Finding::ok("device", line, why)].into_iter().chain(lost).collect())
}

/// This build has no DPDK.
///
/// # Errors
/// Always.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn look_at(_device: &str, _queues: u16) -> Result<Vec<Finding>, Failure> {
    Err(Failure::Unfit(
        "this build of headrace has no DPDK; build it with the feature `dpdk`".to_owned(),
    ))
}
