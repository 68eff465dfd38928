//! The device that `--device` names.

use live::peers::{DeviceName, DeviceNameError};

use crate::failure::Failure;

/// The device of that name, as the command line has it.
///
/// # Errors
/// [`Failure::CommandLine`] when it names no device.
pub(crate) fn named(text: &str) -> Result<DeviceName, Failure> {
    text.parse::<DeviceName>().map_err(wrong)
}

/// The device of that name, under the name that DPDK has for it.
///
/// # Errors
/// [`Failure::CommandLine`] when it names no device, or one that is not there.
pub(crate) fn resolved(text: &str) -> Result<DeviceName, Failure> {
    named(text)?.resolved().map_err(wrong)
}

fn wrong(error: DeviceNameError) -> Failure {
    Failure::CommandLine(format!("error: --device: {error}"))
}
