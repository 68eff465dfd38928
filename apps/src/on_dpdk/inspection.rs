//! A named device, opened alone: how it is used. For `headrace doctor`.

use super::device;
use crate::doctor::Finding;
use crate::failure::Failure;

/// Findings about the device `text` with `queues` queues.
///
/// # Errors
/// [`Failure::CommandLine`] when it names no device, [`Failure::Unfit`] when it does not open.
pub(crate) fn look_at(text: &str, queues: u16) -> Result<Vec<Finding>, Failure> {
    let named = device::resolved("--device", text)?;
    let inspected = live::inspect::inspect(&named, queues)
        .map_err(|error| Failure::Unfit(format!("--device {text}: {error}")))?;
    let why = "what the device does for headrace, and what software does";
    let line = format!("{named}: {}", inspected.configuration);
    let lost = inspected.lost.into_iter();
    let lost = lost.map(|lost| Finding::info("device.without", lost, why));
    Ok([Finding::ok("device", line, why)].into_iter().chain(lost).collect())
}
