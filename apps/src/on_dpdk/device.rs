//! The device that a flag names.

use live::peers::{DeviceName, DeviceNameError};

use crate::failure::Failure;

/// The device of that name, as `flag` of the command line has it.
///
/// # Errors
/// [`Failure::CommandLine`] when it names no device.
pub(crate) fn named(flag: &str, text: &str) -> Result<DeviceName, Failure> {
    text.parse::<DeviceName>().map_err(|error| wrong(flag, &error))
}

/// The device that `flag` names, under the name that DPDK has for it.
///
/// # Errors
/// [`Failure::CommandLine`] when it names no device, or one that is not there.
pub(crate) fn resolved(flag: &str, text: &str) -> Result<DeviceName, Failure> {
    named(flag, text)?.resolved().map_err(|error| wrong(flag, &error))
}

fn wrong(flag: &str, error: &DeviceNameError) -> Failure {
    Failure::CommandLine(format!("error: {flag}: {error}"))
}
