//! `headrace run`: reads the inputs, runs them in a world, leaves results and prints the outcome.
//!
//! The order of steps decides the exit code: inputs are checked first (2), then the environment
//! (3), and only then is anything started or written.

mod axes;
pub(crate) mod experiment;
mod forecast;
mod idle;
pub(crate) mod order;
mod process;
pub(crate) mod repeat;
mod results;
pub(crate) mod sweep;
mod sweep_log;

use std::ffi::OsString;
use std::path::Path;

use experiments::capture::Unwritten;
use experiments::measure::Outcome;
use experiments::plan::RunError;
use experiments::progress::Watch;
use experiments::virtual_time;

use crate::args::{RunArgs, World};
use crate::console::Console;
use crate::doctor::{self, FitWorld};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::observe;
use crate::on_dpdk;
use crate::output::{OutDir, OutputError};
use crate::progress::{self, Total};
use crate::provenance;
use crate::stopwatch::{self, Stopwatch};
use experiment::{Experiment, Real};
use order::RunOrder;
use results::Ran;
pub(crate) use results::WHY;

/// Runs the order of `args`; `command_line` goes into the manifest.
///
/// # Errors
/// Before anything ran: bad input, an unfit environment, no place for the results.
pub(crate) fn run(
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if let [path] = &args.inputs[..]
        && repeat::is_manifest(path)
    {
        return repeat::run(args, command_line, console);
    }
    let mut order = RunOrder::read(args)?;
    for experiment in order.experiments_mut() {
        let Experiment { observe, inputs, .. } = experiment;
        observe::check_files(args, observe, inputs, &results::FILES)?;
    }
    seal(order.experiments_mut(), args, console)?;
    let experiment = match order {
        RunOrder::Several(sweep) => return sweep::run(&sweep, args, command_line, console),
        RunOrder::One(experiment) => experiment,
    };
    expect_several(args)?;
    if args.resume {
        let text = "error: --resume keeps runs of several, and this is one\n  help: leave it out";
        return Err(Failure::CommandLine(text.to_owned()));
    }
    if args.jobs > 1 {
        writeln!(console.err, "warning: --jobs {} changes nothing: this is one run", args.jobs)?;
    }
    match alone(&experiment, args, command_line, console)? {
        None => Ok(Exit::Interrupted),
        Some(ran) => end(ran, console),
    }
}

/// Runs `experiment`, leaves its results in `--out` beside the manifest of `command_line`, and
/// shows them; `None` where the user wanted an end before it began.
fn alone(
    experiment: &Experiment,
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
) -> Result<Option<Ran>, Failure> {
    for warning in &experiment.warnings {
        writeln!(console.err, "{warning}")?;
    }
    log(experiment);
    if experiment.world == World::Sim {
        observe::check_simulation(&experiment.observe)?;
    }
    check_environment(experiment, console)?;
    if experiment.world == World::Sim {
        forecast::print(&[&experiment.plan], 1, args.quiet, console)?;
    }
    let out = args.out.as_deref().map(|out| own_dir(out, experiment.world)).transpose()?;
    if interrupt::requested() {
        return Ok(None);
    }
    let total = Total::of(&experiment.plan, experiment.world);
    let mut shown = progress::shown(total, args.quiet, console);
    let ran = results::run_into(out.as_ref(), experiment, command_line, &mut shown)?;
    drop(shown);
    results::show(args, experiment, &ran, console)?;
    Ok(Some(ran))
}

/// The directory of one run's results. All hosts of a real network write the same results, and may
/// do so in one place.
fn own_dir(path: &Path, world: World) -> Result<OutDir, OutputError> {
    match world {
        World::Nic => OutDir::create(path),
        World::Sim | World::Vdev => OutDir::create_alone(path),
    }
}

/// The exit of a run that has been shown.
///
/// # Errors
/// When some of its files could not be written.
fn end(ran: Ran, console: &mut Console<'_>) -> Result<Exit, Failure> {
    if let Some(Unwritten { file, reason }) = &ran.outcome.unwritten {
        if let Some(error) = ran.unwritten {
            Failure::Incomplete(error).write(console.err)?;
        }
        return Err(OutputError::of(file.clone(), *reason).into());
    }
    let success = ran.is_success();
    match ran.unwritten {
        Some(error) => Err(Failure::Incomplete(error)),
        None if success => Ok(Exit::Finished),
        None => Ok(Exit::Unfinished),
    }
}

/// Refuses flags that divide several runs where there is one.
fn expect_several(args: &RunArgs) -> Result<(), Failure> {
    if args.slurm || args.part.is_some() {
        let text = "error: --part and --slurm are for several runs, and this is one run\n  \
                    help: leave them out";
        return Err(Failure::CommandLine(text.to_owned()));
    }
    Ok(())
}

/// Reads the keys of `--security` for every run on a real network; reports when none are given.
fn seal(
    mut experiments: Vec<&mut Experiment>,
    args: &RunArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let reals = experiments.iter_mut().filter_map(|experiment| experiment.real.as_mut());
    let mut warning = None;
    for real in reals {
        let keys = args
            .security
            .as_deref()
            .map(|text| on_dpdk::shared_keys(text, args.key_log.as_deref()));
        real.keys = keys.transpose()?;
        warning = real.keys.as_ref().map_or_else(|| Some(UNSEALED.to_owned()), on_dpdk::warning_of);
    }
    if let Some(warning) = warning {
        writeln!(console.err, "{warning}")?;
    }
    Ok(())
}

/// Logs what runs: every file that was read, and every setting that is not at its default.
fn log(experiment: &Experiment) {
    for input in &experiment.inputs {
        tracing::info!(role = &*input.role, path = input.path, bytes = input.bytes, "read");
    }
    let set = experiment.configuration.iter().filter(|setting| setting.source != "default");
    for setting in set {
        tracing::info!(key = setting.key, value = setting.value, by = setting.source, "set");
    }
}

/// Refuses to start DPDK where it would fail with an obscure message.
fn check_environment(experiment: &Experiment, console: &mut Console<'_>) -> Result<(), Failure> {
    let world = experiment.world;
    let needed = match (world, &experiment.real) {
        (World::Sim, _) => return Ok(()),
        (World::Nic, Some(real)) if needs_card(real) => FitWorld::Nic,
        // Virtual devices and interfaces of the kernel need what virtual links need.
        (World::Vdev | World::Nic, _) => FitWorld::Vdev,
    };
    let diagnosis = doctor::examine(&doctor::Machine::this());
    let is_fit = match needed {
        FitWorld::Vdev => diagnosis.fit.vdev,
        FitWorld::Nic => diagnosis.fit.nic,
    };
    if is_fit {
        return Ok(());
    }
    doctor::write_blockers(&diagnosis, needed, console.err)?;
    Err(Failure::Unfit(format!(
        "--world {} cannot run here: mend what is listed above, or use --world sim",
        world.name()
    )))
}

/// Whether this machine's device is a card.
fn needs_card(real: &Real) -> bool {
    let device = real.hosts.hosts.get(real.own as usize).map(|host| &host.device.value);
    device.is_some_and(|device| on_dpdk::is_card(device))
}

fn execute(experiment: &Experiment, watch: &mut dyn Watch) -> Result<Outcome, Failure> {
    let plan = &experiment.plan;
    let stopwatch = Stopwatch::start();
    let mut outcome = match experiment.world {
        World::Sim => virtual_time::run_observed(plan, &experiment.observe, watch)?,
        World::Vdev => on_dpdk::run_vdev(plan, &experiment.observe, watch)?,
        World::Nic => on_real_devices(experiment, watch)?,
    };
    let summary = &mut outcome.summary;
    summary.wall_s = stopwatch.seconds();
    summary.hops_per_s = per_second(summary.packets.hops.unwrap_or(0), summary.wall_s);
    summary.peak_rss_bytes = stopwatch::peak_rss_bytes();
    summary.provenance = Some(provenance::of_run(&experiment.matrix, &experiment.configuration));
    Ok(outcome)
}

#[expect(clippy::cast_precision_loss, reason = "a report; 53 bits are plenty")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// The message of a run on a real network that does not seal its packets.
const UNSEALED: &str = "packets are not sealed: a host on the path can read and change them; \
                        --security psk:FILE on every host seals them";

/// The `nic` world.
fn on_real_devices(experiment: &Experiment, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let Some(Real { hosts, own, topology_given, keys }) = experiment.real.clone() else {
        return Err(RunError::Environment("a run in nic without hosts".to_owned()));
    };
    let (here, observe) = ((hosts, own, topology_given), experiment.observe.clone());
    on_dpdk::run_nic(&experiment.plan, here, keys, observe, watch)
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Input(error) => Self::Input(error),
            RunError::OfFault(_, error) | RunError::Matrix(_, error) => Self::Input(*error),
            RunError::Environment(_) => Self::Unfit(error.to_string()),
            other => Self::Plan(other),
        }
    }
}
