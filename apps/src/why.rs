//! `headrace why`: where the time of the flows of a run went.
//!
//! A run without a journal (`--why`) is repeated from its manifest with one: in virtual time it is
//! the same run again, and that is checked.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::CellAlignment;
use experiments::input::InputError;
use experiments::why::{DemandTime, FlowWhy, TimePart, write};

use crate::args::World;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fit;
use crate::interrupt;
use crate::output::write_file;
use crate::run::WHY;
use crate::run::repeat::Repeat;
use crate::sweep_dir;
use crate::table;

/// The run to explain.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The directory of a run in virtual time (headrace run --out).
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Explains this flow alone, in full: a line of the matrix, from 1.
    #[arg(long, value_name = "N")]
    flow: Option<usize>,
    /// How many of the slowest flows to explain.
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,
    /// Prints JSON and nothing else on standard output: an array with an element for each flow.
    #[arg(long)]
    json: bool,
    /// Shows no progress.
    #[arg(short, long)]
    quiet: bool,
}

/// Explains the run that `args` name.
///
/// # Errors
/// When there is no run in that directory, or it cannot be repeated.
pub(crate) fn run(args: &WhyArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let flows = explained(args, console)?;
    let chosen = match args.flow {
        None => None,
        Some(line) => Some(flow_of(args, &flows, line)?),
    };
    if args.json {
        let all: Vec<&FlowWhy> = chosen.map_or_else(|| flows.iter().collect(), |flow| vec![flow]);
        serde_json::to_writer_pretty(&mut *console.out, &all).map_err(std::io::Error::from)?;
        writeln!(console.out)?;
        return Ok(Exit::Finished);
    }
    if let Some(flow) = chosen {
        whole(flow, console)?;
        return Ok(Exit::Finished);
    }
    by_quantile(&flows, console)?;
    let mut slowest: Vec<&FlowWhy> = flows.iter().collect();
    // Those that did not finish are the slowest.
    slowest.sort_by_key(|flow| std::cmp::Reverse(flow.fct_ps.unwrap_or(u64::MAX)));
    for flow in slowest.into_iter().take(args.slowest) {
        fit::write_line(&format!("{}: {}", name_of(flow), flow.sentence), 2, console)?;
    }
    Ok(Exit::Finished)
}

fn flow_of<'f>(
    args: &WhyArgs,
    flows: &'f [FlowWhy],
    line: usize,
) -> Result<&'f FlowWhy, InputError> {
    line.checked_sub(1).and_then(|at| flows.get(at)).ok_or_else(|| {
        let found = format!("flow {line} of {}", args.dir.display());
        InputError::new(found, format!("a flow from 1 to {}", flows.len())).at("--flow", 0, 0)
    })
}

/// The explanations of a run: those that it left behind, or those of its repetition.
fn explained(args: &WhyArgs, console: &mut Console<'_>) -> Result<Vec<FlowWhy>, Failure> {
    let file = args.dir.join(WHY);
    if file.exists() {
        return Ok(read(&file)?);
    }
    let manifest = args.dir.join("manifest.json");
    if !manifest.exists() {
        return Err(no_run(&args.dir).into());
    }
    let mut repeat = Repeat::read(&manifest)?;
    if repeat.experiment.world != World::Sim {
        let found = format!("a run in world {}", repeat.experiment.world.name());
        let error = InputError::new(found, "a run in virtual time, where every wait is known");
        let help = "run the same inputs with --world sim --out DIR, and ask about that";
        return Err(error.at(&args.dir.display().to_string(), 0, 0).help(help).into());
    }
    repeat.experiment.observe = experiments::observe::Observe { why: true, ..Default::default() };
    let before = repeat.flows()?;
    let outcome = repeat.run_again(args.quiet, console)?;
    if interrupt::requested() {
        return Err(Failure::Interrupted("stopped before the run was over again".to_owned()));
    }
    if let Some(line) = repeat.difference(&before, &outcome)? {
        let mut found = format!("another run: its flows.jsonl differs in line {line}");
        if !repeat.changed.is_empty() {
            found += &format!(" ({})", repeat.changed.join("; "));
        }
        let error = InputError::new(found, "the same run again from its manifest");
        let help = "repeat it with this program: headrace run --why --out DIR ...";
        return Err(error.at(&manifest.display().to_string(), 0, 0).help(help).into());
    }
    // Kept for the next question, where there is room for it.
    if let Err(error) = write_file(&file, |mut out| write(&outcome.why, &mut out)) {
        writeln!(console.err, "warning: {error}")?;
    }
    Ok(outcome.why)
}

fn no_run(dir: &Path) -> InputError {
    let name = dir.display().to_string();
    let expected = "a directory that headrace run --out wrote";
    if dir.join(sweep_dir::FILE).exists() {
        let error = InputError::new("a scenario with variants", "the directory of one of them");
        return error.at(&name, 0, 0).help(format!("headrace why {name}/VARIANT"));
    }
    let found = if dir.exists() { "no manifest.json" } else { "no such directory" };
    InputError::new(found, expected).at(&name, 0, 0).help("headrace run MATRIX.cm --out DIR")
}

fn read(file: &Path) -> Result<Vec<FlowWhy>, InputError> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| InputError::io(&name, &error))?;
    let line = |(number, line): (u32, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let error = InputError::new(format!("no explanation ({error})"), "a line of why.jsonl");
            error.at(&name, number, 0).help("remove the file: it is made anew")
        })
    };
    (1..).zip(text.lines()).map(line).collect()
}

fn name_of(flow: &FlowWhy) -> String {
    format!("flow {} ({} -> {}, {} bytes)", flow.flow + 1, flow.src, flow.dst, flow.size)
}

/// One flow in full.
fn whole(flow: &FlowWhy, console: &mut Console<'_>) -> Result<(), Failure> {
    fit::write_line(&format!("{}: {}", name_of(flow), flow.sentence), 2, console)?;
    let Some(took) = flow.time_ps() else { return Ok(()) };
    let mut table = table::plain();
    table.set_header(["part", "us", "%", "where"]);
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let row =
        |name: &str, ps: u64, place: String| [name.to_owned(), us(ps), percent(ps, took), place];
    for part in TimePart::ALL.into_iter().filter(|part| flow.part(*part) > 0) {
        table.add_row(row(part.name(), flow.part(part), String::new()));
        let waits = match part {
            TimePart::Queue => &flow.queues[..],
            TimePart::Paused => &flow.paused[..],
            _ => &[],
        };
        for wait in waits {
            let flows = if wait.flows == 1 { "flow" } else { "flows" };
            let place = format!("{} to {}, {} {flows}", wait.link, wait.to, wait.flows);
            table.add_row(row("", wait.ps, place));
            for time in flow.in_cores.iter().filter(|time| time.link == wait.link) {
                table.add_row(row("", time.ps, demand(time)));
            }
        }
        if part == TimePart::Scheduler {
            for time in &flow.demands {
                table.add_row(row("", time.ps, demand(time)));
            }
        }
        if part == TimePart::Retransmission {
            for repair in &flow.retransmissions {
                let link =
                    repair.link.as_ref().map_or_else(String::new, |link| format!(" at {link}"));
                let (cause, times) = (&repair.cause, repair.times);
                let by = match repair.by.as_str() {
                    "none" => "not detected".to_owned(),
                    by => format!("by {by}"),
                };
                table.add_row(row("", repair.ps, format!("{cause}{link}, {times} times, {by}")));
            }
        }
    }
    let (sum, state) = match flow.fct_ps {
        Some(_) => ("fct", ""),
        None if flow.given_up => ("open", "until it was given up"),
        None => ("open", "until the run ended"),
    };
    table.add_row(row(sum, took, state.to_owned()));
    fit::write_texts(table, console)?;
    let packets = &flow.packets;
    writeln!(console.out, "packets sent: {}", packets.sent)?;
    let kinds = [
        ("marked", &packets.marked),
        ("trimmed", &packets.trimmed),
        ("lost", &packets.lost),
        ("answers lost", &packets.answers_lost),
    ];
    for (kind, counts) in kinds {
        for (link, count) in counts {
            writeln!(console.out, "{kind} at {link}: {count}")?;
        }
    }
    Ok(())
}

/// A cause for which cells waited for epochs.
fn demand(time: &DemandTime) -> String {
    let first = if time.smaller { ", smaller demands first" } else { "" };
    format!("{} at {}{first}", time.cause, time.link)
}

/// The parts of the time of flows that finished, in bands of flows by how slow these are: what a
/// part took of the completion times of all flows of a band together. Flows that are open are a
/// band of their own, by the times for which they were.
fn by_quantile(flows: &[FlowWhy], console: &mut Console<'_>) -> Result<(), Failure> {
    let mut finished: Vec<&FlowWhy> = flows.iter().filter(|flow| flow.fct_ps.is_some()).collect();
    finished.sort_by_key(|flow| flow.fct_ps);
    let open: Vec<&FlowWhy> = flows.iter().filter(|flow| flow.open_ps.is_some()).collect();
    let present = |part: &TimePart| flows.iter().any(|flow| flow.part(*part) > 0);
    let parts: Vec<TimePart> = TimePart::ALL.into_iter().filter(present).collect();
    let mut table = table::plain();
    let head = ["flows by fct", "count", "fct us"].map(str::to_owned);
    table.set_header(head.into_iter().chain(parts.iter().map(|part| format!("{} %", part.name()))));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let count = finished.len();
    let place = |per_mille: usize| (count * per_mille).div_ceil(1000);
    let bands = BANDS.map(|(name, from, to)| (name, &finished[place(from)..place(to)]));
    for (name, band) in bands.into_iter().chain([("open", &open[..])]) {
        let fct: u64 = band.iter().filter_map(|flow| flow.time_ps()).sum();
        if band.is_empty() {
            continue;
        }
        let shares = parts.iter().map(|part| {
            let sum: u64 = band.iter().map(|flow| flow.part(*part)).sum();
            percent(sum, fct)
        });
        let mean = us(fct / band.len() as u64);
        table.add_row([name.to_owned(), band.len().to_string(), mean].into_iter().chain(shares));
    }
    fit::write_columns(table, console)?;
    let left = flows.len() - count;
    if left > 0 {
        writeln!(console.out, "unfinished: {left} of {} flows", flows.len())?;
    }
    Ok(())
}

/// Bands of flows by completion time, in thousandths of the flows.
const BANDS: [(&str, usize, usize); 5] = [
    ("fastest half", 0, 500),
    ("p50 to p90", 500, 900),
    ("p90 to p99", 900, 990),
    ("slowest 1 %", 990, 1000),
    ("all", 0, 1000),
];

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn us(ps: u64) -> String {
    format!("{:.2}", ps as f64 / 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn percent(ps: u64, of: u64) -> String {
    format!("{:.1}", 100.0 * ps as f64 / (of as f64).max(1.0))
}
