//! Runs the variants of a scenario, and shows them side by side.
//!
//! Runs in virtual time share no state and may go in parallel; their results do not depend on it.
//! DPDK starts once in a process, so where several runs need it each has a process of its own.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use experiments::measure::Summary;
use experiments::progress::Watch;
use experiments::scenario::AxisPoint;
use experiments::virtual_time;
use serde::Serialize;
use serde_json::Value;

use super::experiment::Experiment;
use super::order::Sweep;
use super::process::{self, Said};
use super::results::Ran;
use super::sweep_log::{Event, Log, reported};
use super::{check_environment, forecast, own_dir, results};
use crate::args::{RunArgs, World};
use crate::console::Console;
use crate::estimate::Done;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::observe;
use crate::output::OutDir;
use crate::progress::{Total, Watched};
use crate::ranking;
use crate::sweep_dir::{self, CHANCE, SweepDir, Variant};
use crate::table;

/// One element of the array that `--json` prints.
#[derive(Serialize)]
struct Named<'a> {
    variant: &'a str,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// The outcome of one run: its element of the array, and whether it is a success.
pub(crate) type Ended = (Value, bool);

/// Runs the chosen variants and shows them by `args`.
///
/// # Errors
/// As a single run; what had ended before is in the directory of `--out`.
pub(super) fn run(
    sweep: &Sweep,
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if args.flows {
        let text = "error: --flows shows the flows of one run, and this scenario has variants\n  \
                    help: --out DIR writes the flows of each";
        return Err(Failure::CommandLine(text.to_owned()));
    }
    observe::check_variants(args)?;
    if args.slurm {
        return batch_script(sweep, args, command_line, console);
    }
    let SweepRan { ended, failure } = run_all(sweep, args, command_line, console)?;
    // What has ended is shown, whatever became of the rest.
    if failure.is_none() || ended.iter().any(Option::is_some) {
        show((args, failure.is_none()), sweep, &ended, console)?;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let all = ended.iter().all(|ended| ended.as_ref().is_some_and(|(_, success)| *success));
    Ok(if all { Exit::Finished } else { Exit::Unfinished })
}

/// A sweep that has run, or a part of it.
pub(crate) struct SweepRan {
    /// The outcomes in the order of the runs; `None` for those that did not run.
    pub(crate) ended: Vec<Option<Ended>>,
    /// Why the rest did not run, if that was an error; an interruption is none.
    pub(crate) failure: Option<Failure>,
}

/// Runs the chosen variants, but those that `--resume` keeps.
///
/// # Errors
/// What prevents that any runs.
pub(crate) fn run_all(
    sweep: &Sweep,
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
) -> Result<SweepRan, Failure> {
    warn(sweep, console)?;
    let is_nic = |(_, run): &&(String, Experiment)| run.world == World::Nic;
    if sweep.chosen.len() > 1 && sweep.chosen.iter().any(|run| is_nic(&run)) {
        let text = "error: --world nic runs one variant, together with the other hosts\n  \
                    help: name it with --variant, and run one after the other";
        return Err(Failure::CommandLine(text.to_owned()));
    }
    for world in [World::Vdev, World::Nic] {
        if let Some((_, run)) = sweep.chosen.iter().find(|(_, run)| run.world == world) {
            check_environment(run, console)?;
        }
    }
    let simulated = sweep.chosen.iter().filter(|(_, run)| run.world == World::Sim);
    let plans: Vec<_> = simulated.map(|(_, run)| &run.plan).collect();
    forecast::print(&plans, args.jobs.into(), args.quiet, console)?;
    // Held until all runs have ended.
    let out = args.out.as_deref().map(OutDir::create_among).transpose()?;
    if let Some(out) = &out {
        out.write(sweep_dir::FILE, |file| results::json(file, &directory(sweep)))?;
        // A single run that was there is none of these.
        results::FILES.iter().try_for_each(|name| out.remove(name))?;
    }
    let mut log = Log::new(sweep, args, console);
    let mut ended = kept(sweep, args, &mut log, console)?;
    let ran = in_parallel(sweep, args, command_line, console, &mut log, &mut ended)
        .and_then(|()| one_by_one(sweep, args, command_line, console, &mut log, &mut ended));
    Ok(SweepRan { ended, failure: ran.err() })
}

/// Prints the warnings about the inputs of runs. A warning of several runs is printed once, with
/// their count.
fn warn(sweep: &Sweep, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut warnings: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, experiment) in &sweep.chosen {
        for warning in experiment.warnings.iter().map(ToString::to_string) {
            match warnings.iter_mut().find(|(text, _)| *text == warning) {
                Some((_, names)) => names.push(name),
                None => warnings.push((warning, vec![name])),
            }
        }
    }
    for (text, names) in warnings {
        match &names[..] {
            all if all.len() == sweep.chosen.len() => writeln!(console.err, "{text}")?,
            [one] => writeln!(console.err, "{one}: {text}")?,
            [first, rest @ ..] => {
                let others = if rest.len() == 1 { "other" } else { "others" };
                writeln!(console.err, "{first} and {} {others}: {text}", rest.len())?;
            }
            [] => {}
        }
    }
    Ok(())
}

/// Prints the script of a job array with a task for each run.
fn batch_script(
    sweep: &Sweep,
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let words = command_line.iter().filter(|word| *word != "--slurm");
    let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    // Behind `--` every word is an input.
    let end = words.iter().position(|word| word == "'--'").unwrap_or(words.len());
    let (tasks, command) = (sweep.chosen.len(), words[..end].join(" "));
    let inputs: String = words[end..].iter().map(|word| format!(" {word}")).collect();
    let dir = args.out.as_ref().map_or_else(String::new, |out| quoted(&out.to_string_lossy()));
    let quiet = if args.quiet { "" } else { "--quiet " };
    let name: String =
        sweep.name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    writeln!(
        console.out,
        "#!/bin/sh\n\
         #SBATCH --job-name=headrace-{name}\n\
         #SBATCH --array=0-{}\n\
         #SBATCH --cpus-per-task={}\n\
         # When all tasks are over: headrace gather {dir}\n\
         exec {command} {quiet}--part \"${{SLURM_ARRAY_TASK_ID:?}}/{tasks}\"{inputs}",
        tasks - 1,
        sweep.chosen.iter().map(|(_, run)| processors(run)).max().unwrap_or(1)
    )?;
    Ok(Exit::Finished)
}

/// The processors that a run keeps busy.
fn processors(run: &Experiment) -> usize {
    let plan = &run.plan;
    match run.world {
        World::Sim => virtual_time::threads_used(plan, &run.observe),
        // One thread polls the switch, and each worker polls some of the hosts.
        World::Vdev | World::Nic => {
            1 + plan.draft.vdev.workers.unwrap_or(1).min(plan.hosts() as usize)
        }
    }
}

/// The results that `--resume` keeps, at the places of their runs.
fn kept(
    sweep: &Sweep,
    args: &RunArgs,
    log: &mut Log,
    console: &mut Console<'_>,
) -> Result<Vec<Option<Ended>>, Failure> {
    let mut ended = vec![None; sweep.chosen.len()];
    let Some(out) = args.out.as_ref().filter(|_| args.resume) else { return Ok(ended) };
    for (at, (name, experiment)) in sweep.chosen.iter().enumerate() {
        if let Some(Value::Object(summary)) = results::kept(&out.join(name), experiment) {
            let mut element =
                serde_json::Map::from_iter([("variant".to_owned(), name.as_str().into())]);
            element.extend(summary);
            ended[at] = Some((Value::Object(element), true));
            log.skip(at);
        }
    }
    let count = ended.iter().flatten().count();
    if !args.quiet {
        writeln!(console.err, "{count} of {} runs are in {} already", ended.len(), out.display())?;
    }
    Ok(ended)
}

/// Runs in virtual time, as many at a time as `--jobs` allows.
fn in_parallel(
    sweep: &Sweep,
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
    log: &mut Log,
    ended: &mut [Option<Ended>],
) -> Result<(), Failure> {
    let due = (0..).zip(&sweep.chosen);
    let due = due.filter(|(at, (_, run))| run.world == World::Sim && ended[*at].is_none());
    let due: Mutex<VecDeque<usize>> = Mutex::new(due.map(|(at, _)| at).collect());
    let take = || {
        let next = due.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.filter(|_| !interrupt::requested())
    };
    let (give, taken) = mpsc::channel::<Event>();
    let mut failed = None;
    thread::scope(|scope| {
        for _ in 0..args.jobs {
            let (give, take, due) = (give.clone(), &take, &due);
            scope.spawn(move || {
                while let Some(at) = take() {
                    let (name, experiment) = &sweep.chosen[at];
                    let _named = named(name);
                    let mut reported = reported(at, experiment, give.clone());
                    let out = (args, name.as_str());
                    let outcome = run_quietly(out, experiment, command_line, &mut reported);
                    if outcome.as_ref().map_or(true, |ran| ran.unwritten.is_some()) {
                        // Other runs need not start, here neither.
                        due.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    }
                    if give.send(Event::Ended(at, Box::new(outcome))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(give);
        for event in taken {
            let (at, outcome) = match event {
                Event::Done(at, done) => {
                    log.note(at, done, console);
                    continue;
                }
                Event::Ended(at, outcome) => (at, *outcome),
            };
            let taken = outcome.and_then(|ran| {
                let slowdown = ran.outcome.summary.slowdown;
                let taken = take_in(&sweep.chosen[at].0, ran, &mut ended[at]);
                log.line(at, &slowdown, console)?;
                taken
            });
            if let Err(error) = taken {
                // Other runs need not start.
                due.lock().unwrap_or_else(PoisonError::into_inner).clear();
                failed.get_or_insert(error);
            }
        }
    });
    failed.map_or(Ok(()), Err)
}

/// The runs in real time: alone on the machine, in a process each when there are several.
fn one_by_one(
    sweep: &Sweep,
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
    log: &mut Log,
    ended: &mut [Option<Ended>],
) -> Result<(), Failure> {
    let real = |experiment: &Experiment| experiment.world != World::Sim;
    let alone = sweep.chosen.iter().filter(|(_, experiment)| real(experiment)).count() == 1;
    for (at, (name, experiment)) in sweep.chosen.iter().enumerate() {
        if !real(experiment) || ended[at].is_some() || interrupt::requested() {
            continue;
        }
        let _named = named(name);
        if alone {
            let total = Total::of(&experiment.plan, experiment.world);
            let mut watched = Watched::new(total, |_, done, waits_for| match waits_for {
                Some(what) => log.wait(at, what, console),
                None => log.note(at, done, console),
            });
            let ran = run_quietly((args, name), experiment, command_line, &mut watched)?;
            let slowdown = ran.outcome.summary.slowdown;
            let taken = take_in(name, ran, &mut ended[at]);
            log.line(at, &slowdown, console)?;
            taken?;
            continue;
        }
        log.note(at, Done::default(), console);
        let (result, unfit) = process::run(args, name, &mut |said| match said {
            Said::Done(done) => log.note(at, done, console),
            Said::Text(text) => log.pass(text, console),
        })?;
        let slowdown = result.0["slowdown"].as_f64();
        ended[at] = Some(result);
        log.line(at, &slowdown, console)?;
        unfit.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Puts the name of a run before every line that this thread logs, warnings too, until it is
/// dropped: lines of runs that go at the same time are mixed.
fn named(name: &str) -> tracing::span::EnteredSpan {
    tracing::error_span!("run", name).entered()
}

fn run_quietly(
    (args, name): (&RunArgs, &str),
    experiment: &Experiment,
    command_line: &[OsString],
    watch: &mut dyn Watch,
) -> Result<Ran, Failure> {
    let out = args.out.as_ref().map(|out| own_dir(&out.join(name), experiment.world));
    let out = out.transpose()?;
    super::log(experiment);
    results::run_into(out.as_ref(), experiment, command_line, watch)
}

fn element(name: &str, summary: &Summary) -> Result<Value, Failure> {
    let named = Named { variant: name, summary };
    Ok(serde_json::to_value(named).map_err(std::io::Error::from)?)
}

/// Keeps the result of the run called `name`.
///
/// # Errors
/// When the disk did not take its files; the result is kept for the table.
fn take_in(name: &str, ran: Ran, ended: &mut Option<Ended>) -> Result<(), Failure> {
    *ended = Some((element(name, &ran.outcome.summary)?, ran.is_success()));
    ran.unwritten.map_or(Ok(()), |error| Err(Failure::Incomplete(error)))
}

/// Shows what has `ended`; with `is_whole` all of it has been written, too.
fn show(
    (args, is_whole): (&RunArgs, bool),
    sweep: &Sweep,
    ended: &[Option<Ended>],
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let elements: Vec<&Value> = ended.iter().flatten().map(|(element, _)| element).collect();
    if args.json {
        return Ok(results::json(console.out, &elements)?);
    }
    match &sweep.compared {
        None => table::write_variants(&elements, console)?,
        Some(axes) => ranking::write(&placed(sweep, &elements), axes, CHANCE, console)?,
    }
    table::write_origins(&elements, console)?;
    table::write_findings(&elements, console.out)?;
    let missing = sweep.chosen.len() - elements.len();
    if missing > 0 {
        writeln!(console.out, "stopped early, {missing} variants did not run")?;
    }
    if let Some(dir) = args.out.as_ref().filter(|_| is_whole && !args.quiet) {
        writeln!(console.err, "results are in {}", dir.display())?;
    }
    Ok(())
}

/// The results with their places on the axes.
fn placed<'a>(sweep: &'a Sweep, elements: &[&'a Value]) -> Vec<(&'a Value, &'a [AxisPoint])> {
    let parts = |element: &&'a Value| {
        let own = |(name, _): &&(String, Vec<AxisPoint>)| element["variant"] == name.as_str();
        Some((*element, &sweep.variants.iter().find(own)?.1[..]))
    };
    elements.iter().filter_map(parts).collect()
}

/// The content of scenario.json for a scenario with variants.
fn directory(sweep: &Sweep) -> SweepDir {
    let variant = |(name, parts): &(String, Vec<AxisPoint>)| Variant {
        name: name.clone(),
        parts: parts.iter().map(|part| (part.axis.clone(), part.label.clone())).collect(),
    };
    SweepDir {
        schema: 1,
        name: sweep.name.clone(),
        about: sweep.about.clone(),
        figure: sweep.figure.clone(),
        variants: sweep.variants.iter().map(variant).collect(),
        compared: sweep.compared.clone(),
    }
}
