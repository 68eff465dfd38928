//! The `headrace` command as a library: tests call [`main_with`] in their own process.
//!
//! | Module | Is |
//! |---|---|
//! | `cli`, `args` | the command line; `generate` makes its flags from the registered workloads |
//! | [`doctor`] | reports what the machine can do |
//! | `run` | reads the inputs, runs them in a world, reports |
//! | `output`, `manifest`, `table`, `ranking` | what a run leaves behind and shows |
//! | `progress`, `estimate`, `stopwatch` | how far runs are, how long they will take, and took |
//! | `console`, `logging` | the streams of a command, and logs |
//! | `interrupt`, `failure`, `exit` | Ctrl-C, errors, and codes of exit |
//! | `fit` | tables and lines that fit a terminal |
//! | `observe` | the observations that the flags of a run ask for |
//! | `provenance` | the inputs, the program and the machine of a result |
//! | `gather` | results of a sweep that ran in parts |
//! | `tournament` | transports on mixes that a seed draws |
//! | `why` | where the time of flows went |
//! | `report`, `sweep_dir` | pictures and tables of what runs left behind |
//! | `bench` | what a decision of the pod scheduler costs |
//! | `on_dpdk` | the worlds `vdev` and `nic`, `perf`, `ping`, `dci`, `scheduler`, measurements |
//! | `without_dpdk` | the refusals of these in a build without DPDK |
//! | `replay` | recorded runs through the core again |
//! | `list`, `scenarios` | everything that has a name, and the scenarios in the program |
//! | `generate` | matrices made to order |
//! | `shell` | completions and manual pages |
//!
//! Exit codes are a contract (see [`Exit`]). Results go to standard output, everything else to
//! standard error.

mod args;
mod bench;
mod cli;
mod console;
pub mod doctor;
mod estimate;
mod exit;
mod failure;
mod fit;
mod gather;
mod generate;
mod interrupt;
mod list;
mod logging;
mod manifest;
mod observe;
#[cfg(feature = "dpdk")]
mod on_dpdk;
mod output;
mod progress;
mod provenance;
mod ranking;
mod replay;
mod report;
mod run;
mod scenarios;
mod shell;
mod stopwatch;
mod sweep_dir;
mod table;
mod tournament;
mod why;
#[cfg(not(feature = "dpdk"))]
mod without_dpdk;
#[cfg(not(feature = "dpdk"))]
use without_dpdk as on_dpdk;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use comfy_table::Table;
use experiments::input::nearest;

pub use exit::Exit;

use args::Bench;
use cli::{Cli, Command};
use console::Console;
use failure::Failure;
use fit::WIDTH_MIN;

/// Runs the program with the process's arguments, streams and signals.
#[must_use]
pub fn main_of_process() -> ExitCode {
    main_of(std::env::args_os())
}

/// Runs the program with `args`, the first of which is the program's name.
#[must_use]
pub fn main_of(args: impl Iterator<Item = OsString>) -> ExitCode {
    interrupt::catch();
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let mut console = Console {
        out_is_terminal: out.is_terminal(),
        // Asks for the width of the terminal at standard output.
        out_width: Table::new().width().map(usize::from).filter(|width| *width >= WIDTH_MIN),
        err_is_terminal: err.is_terminal(),
        out: &mut std::io::BufWriter::new(out),
        err: &mut { err },
    };
    ExitCode::from(dispatch(args, &mut console).code())
}

/// Runs the program with `args` (the first is the program's name) and returns its exit code. Writes
/// to the streams given; takes neither for a terminal, and leaves signals alone.
pub fn main_with(
    args: impl Iterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    dispatch(args, &mut Console::plain(out, err)).code()
}

fn dispatch(args: impl Iterator<Item = OsString>, console: &mut Console<'_>) -> Exit {
    let args: Vec<OsString> = args.collect();
    let result = match Cli::try_parse_from(&args) {
        Ok(cli) => {
            logging::start(cli.verbose);
            execute(cli.command, &args, console)
        }
        Err(error) => command_line(&error, console),
    };
    let result = result.and_then(|exit| Ok(console.out.flush().map(|()| exit)?));
    result.unwrap_or_else(|failure| {
        // When even standard error fails there is nowhere left to report to.
        let _ = failure.write(console.err);
        failure.exit()
    })
}

/// Reports clap's error: help and version are answers, all else is a mistake.
fn command_line(error: &clap::Error, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayVersion => {
            writeln!(console.out, "{}", provenance::version())?;
            Ok(Exit::Finished)
        }
        ErrorKind::DisplayHelp => {
            if console.out_is_terminal {
                write!(console.out, "{}", text.ansi())?;
            } else {
                write!(console.out, "{text}")?;
            }
            Ok(Exit::Finished)
        }
        kind => {
            let mut text = text.to_string().trim_end().to_owned();
            let wrong = error.get(ContextKind::InvalidSubcommand);
            if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(wrong))) = (kind, wrong)
                && !text.contains("tip:")
            {
                let command = Cli::command();
                let names = command.get_subcommands().map(clap::Command::get_name);
                let near = nearest(wrong, names);
                text += &near.map_or_else(String::new, |near| format!("\n\n  tip: `{near}`?"));
            }
            Err(Failure::CommandLine(text))
        }
    }
}

/// `headrace doctor`.
fn diagnose(
    json: bool,
    (device, queues): (Option<String>, u16),
    security: Option<&str>,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let mut diagnosis = doctor::examine(&doctor::Machine::this());
    let looked = match device {
        // Where DPDK does not start, the findings give the reason.
        Some(device) if diagnosis.fit.vdev => on_dpdk::look_at_device(&device, queues),
        _ => Ok(Vec::new()),
    };
    let (found, refused) = match looked {
        Ok(found) => (found, None),
        Err(failure @ Failure::CommandLine(_)) => return Err(failure),
        Err(failure) => (Vec::new(), Some(failure)),
    };
    diagnosis.add(found);
    let keys = security.map(on_dpdk::look_at_keys).unwrap_or_default();
    let sealing = keys.iter().all(|finding| finding.status != doctor::Status::Fail);
    diagnosis.add(keys);
    if json {
        doctor::write_json(&diagnosis, console.out)?;
    } else {
        show(&diagnosis, console)?;
    }
    match refused {
        Some(failure) => Err(failure),
        None if diagnosis.fit.vdev && sealing => Ok(Exit::Finished),
        None => Ok(Exit::Unfit),
    }
}

/// Writes a diagnosis for a person: long lines are broken, but for commands, which are copied.
fn show(diagnosis: &doctor::Diagnosis, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut text = Vec::new();
    doctor::write_text(diagnosis, &mut text)?;
    for line in String::from_utf8_lossy(&text).lines() {
        if line.contains(" mend: ") {
            writeln!(console.out, "{line}")?;
        } else {
            fit::write_line(line, DOCTOR_INDENT, console)?;
        }
    }
    Ok(())
}

/// Where the words of the doctor start.
const DOCTOR_INDENT: usize = 29;

fn execute(
    command: Command,
    args: &[OsString],
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    // Other commands look now and then whether they are to end.
    let looks = matches!(
        command,
        Command::Run(_)
            | Command::Tournament(_)
            | Command::Why(_)
            | Command::Perf { .. }
            | Command::Ping { .. }
            | Command::Dci(_)
            | Command::Scheduler(_)
    );
    if !looks {
        interrupt::end_at_once();
    }
    match command {
        Command::Run(run_args) => run::run(&run_args, args, console),
        Command::Doctor { json, device, queues, security } => {
            diagnose(json, (device, queues), security.as_deref(), console)
        }
        Command::Gen(order) => generate::run(&order, console),
        Command::List { what, of, json } => list::run(what, of.as_deref(), json, console),
        Command::Compare { dirs } => report::compare(&dirs, console),
        Command::Report(report_args) => report::run(&report_args, console),
        Command::Bench { what: Bench::Scheduler(args) } if args.device.is_empty() => {
            bench::scheduler::run(&args, console)
        }
        Command::Bench { what } => on_dpdk::bench(&what, console),
        Command::Perf { what } => on_dpdk::perf(&what, console),
        Command::Ping { what } => on_dpdk::ping(&what, console),
        Command::Dci(dci_args) => on_dpdk::dci(&dci_args, console),
        Command::Scheduler(scheduler_args) => on_dpdk::scheduler(&scheduler_args, console),
        Command::Gather(gather_args) => gather::run(&gather_args, console),
        Command::Why(why_args) => why::run(&why_args, console),
        Command::Tournament(tournament_args) => tournament::run(&tournament_args, console),
        Command::Replay { paths } => replay::run(&paths, console),
        Command::Completions { shell } => shell::completions(shell, console),
        Command::Man { dir } => shell::man(&dir, console),
    }
}
