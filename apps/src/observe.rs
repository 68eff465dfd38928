//! The observations of a run that flags ask for.

use experiments::capture::Capture;
use experiments::input::InputError;
use experiments::observe::Observe;

use crate::args::RunArgs;
use crate::failure::Failure;

/// The observations that `args` ask for.
///
/// # Errors
/// A capture that makes no sense.
pub(crate) fn of_run(args: &RunArgs) -> Result<Observe, InputError> {
    let capture = args.capture.as_deref().map(Capture::parse).transpose();
    let capture = capture.map_err(|error| error.at("--capture", 0, 0))?;
    Ok(Observe { capture, why: args.why, ..args.observe.wanted() })
}

/// Refuses observations that a simulation does not have.
///
/// # Errors
/// Names the flag.
pub(crate) fn check_simulation(observe: &Observe) -> Result<(), Failure> {
    match flags(observe).find(|flag| *flag != "--capture") {
        None => Ok(()),
        Some(flag) => Err(Failure::CommandLine(format!(
            "error: {flag} shows DPDK workers, and a simulation has none\n  \
             help: add --world vdev, or leave {flag} out"
        ))),
    }
}

/// Refuses to show anything of a scenario with variants.
///
/// # Errors
/// Names the flag.
pub(crate) fn check_variants(args: &RunArgs) -> Result<(), Failure> {
    match flags(&of_run(args)?).next() {
        None => Ok(()),
        Some(flag) => Err(Failure::CommandLine(format!(
            "error: {flag} shows one run, and this scenario has variants\n  \
             help: leave it out, or write one variant as a scenario of its own"
        ))),
    }
}

/// The flags that were given.
fn flags(observe: &Observe) -> impl Iterator<Item = &'static str> {
    let given = [
        ("--metrics", observe.metrics.is_some()),
        ("--telemetry", observe.telemetry),
        ("--capture", observe.capture.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag)
}
