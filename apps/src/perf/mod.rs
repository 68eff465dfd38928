//! `headrace perf` and `headrace ping`: throughput and round trips between two processes.
//!
//! `live::peers` has the two ends and their messages; here flags become a set-up and terms, and the
//! outcome is printed. A result goes to standard output, progress to standard error.

pub(crate) mod args;
#[cfg(feature = "dpdk")]
mod setup;
#[cfg(feature = "dpdk")]
mod show;

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use args::{Perf, Ping};

/// Throughput, either end.
///
/// # Errors
/// Bad input, an unfit machine, or a server that does not answer.
#[cfg(feature = "dpdk")]
pub(crate) fn perf(what: &Perf, console: &mut Console<'_>) -> Result<Exit, Failure> {
    match what {
        Perf::Server(args) => serve(args, console),
        Perf::Client(args) => {
            let (terms, options) = setup::stream(args)?;
            client(&args.client, &terms, &options, console)
        }
    }
}

/// Round trips, either end.
///
/// # Errors
/// As [`perf`].
#[cfg(feature = "dpdk")]
pub(crate) fn ping(what: &Ping, console: &mut Console<'_>) -> Result<Exit, Failure> {
    match what {
        Ping::Server(args) => serve(args, console),
        Ping::Client(args) => {
            let (terms, options) = setup::ping(args)?;
            client(&args.client, &terms, &options, console)
        }
    }
}

#[cfg(feature = "dpdk")]
fn serve(args: &args::ServerArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let host = setup::host(&args.device, live::peers::Side::Listens)?;
    warn_of_log(&host, args.device.quiet, console)?;
    check_environment(console)?;
    let options = live::peers::ServerOptions {
        patience: transport::Duration::from_s(args.device.patience),
        memory_bytes: args.memory.0,
        sessions_max: args.sessions,
    };
    let mut shown = show::Shown::new(args.device.quiet, console.err);
    let served = live::peers::serve(host, &options, &mut shown)?;
    if args.device.json {
        show::served_json(&served, console.out)?;
    } else {
        show::served_text(&served, console.out)?;
    }
    Ok(Exit::Finished)
}

#[cfg(feature = "dpdk")]
fn client(
    args: &args::ClientArgs,
    terms: &live::peers::SessionTerms,
    options: &live::peers::ClientOptions,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let host = setup::host(&args.device, live::peers::Side::Connects)?;
    warn_of_log(&host, args.device.quiet, console)?;
    check_environment(console)?;
    let mut shown = show::Shown::new(args.device.quiet, console.err);
    let outcome = live::peers::run(host, terms, options, &mut shown)?;
    let result = show::Result::of(&outcome, &args.device.device);
    if args.device.json {
        result.write_json(console.out)?;
    } else {
        result.write_text(console)?;
    }
    Ok(if outcome.findings.is_empty() { Exit::Finished } else { Exit::Unfinished })
}

/// Says that keys are logged where the line of the device, which says so too, is left out.
#[cfg(feature = "dpdk")]
fn warn_of_log(
    host: &live::peers::ProcessSetup,
    quiet: bool,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let warning = host.keys.as_ref().and_then(live::peers::SharedKeys::warning);
    if let Some(warning) = warning.filter(|_| quiet) {
        writeln!(console.err, "{warning}")?;
    }
    Ok(())
}

/// Refuses to start DPDK where it would fail with an obscure message.
#[cfg(feature = "dpdk")]
fn check_environment(console: &mut Console<'_>) -> Result<(), Failure> {
    use crate::doctor::{self, FitWorld};
    let diagnosis = doctor::examine(&doctor::Machine::this());
    if diagnosis.fit.vdev {
        return Ok(());
    }
    doctor::write_blockers(&diagnosis, FitWorld::Vdev, console.err)?;
    Err(Failure::Unfit("DPDK cannot run here: mend what is listed above".to_owned()))
}

/// This build has no DPDK.
///
/// # Errors
/// Always.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn perf(_what: &Perf, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(Failure::Unfit(
        "this build of headrace has no DPDK; build it with the feature `dpdk`".to_owned(),
    ))
}

/// This build has no DPDK.
///
/// # Errors
/// Always.
#[cfg(not(feature = "dpdk"))]
pub(crate) fn ping(_what: &Ping, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(Failure::Unfit(
        "this build of headrace has no DPDK; build it with the feature `dpdk`".to_owned(),
    ))
}
