//! `headrace perf` and `headrace ping`: throughput and round trips between two processes.
//!
//! `live::peers` has the two ends and their messages; here flags become a set-up and terms, and the
//! outcome is printed. A result goes to standard output, progress to standard error.

mod setup;
mod show;

use crate::args::perf::{ClientArgs, Perf, Ping, ServerArgs};
use crate::console::Console;
use crate::doctor::{self, FitWorld};
use crate::exit::Exit;
use crate::failure::Failure;

/// Throughput, either end.
///
/// # Errors
/// Bad input, an unfit machine, or a server that does not answer.
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
pub(crate) fn ping(what: &Ping, console: &mut Console<'_>) -> Result<Exit, Failure> {
    match what {
        Ping::Server(args) => serve(args, console),
        Ping::Client(args) => {
            let (terms, options) = setup::ping(args)?;
            client(&args.client, &terms, &options, console)
        }
    }
}

fn serve(args: &ServerArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
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

fn client(
    args: &ClientArgs,
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
fn check_environment(console: &mut Console<'_>) -> Result<(), Failure> {
    let diagnosis = doctor::examine(&doctor::Machine::this());
    if diagnosis.fit.vdev {
        return Ok(());
    }
    doctor::write_blockers(&diagnosis, FitWorld::Vdev, console.err)?;
    Err(Failure::Unfit("DPDK cannot run here: mend what is listed above".to_owned()))
}
