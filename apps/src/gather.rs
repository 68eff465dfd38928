//! `headrace gather`: the results of a sweep whose runs went apart, as jobs of a scheduler, put
//! together as one command would have shown them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use experiments::input::InputError;
use experiments::scenario::AxisPoint;
use serde_json::{Map, Value};

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ranking;
use crate::sweep_dir::{self, CHANCE, SweepDir, Variant};
use crate::table;

/// The directories of the parts.
#[derive(Debug, Args)]
pub(crate) struct GatherArgs {
    /// The directory that all parts wrote to (run --part I/N --out DIR), or those of the parts: a
    /// run that several have is taken from the first where it was a success.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Prints the array that `run --json` would have printed, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Shows the results of all parts; names the runs that have none yet.
///
/// # Errors
/// When a directory is none of a sweep, or the directories are of different ones.
pub(crate) fn run(args: &GatherArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let head = head(&args.dirs)?;
    let (mut elements, mut missing) = (Vec::new(), Vec::new());
    for variant in &head.variants {
        let mut found: Vec<Value> =
            args.dirs.iter().filter_map(|dir| summary(dir, &variant.name)).collect();
        let best = found.iter().position(sweep_dir::is_success).unwrap_or(0);
        match (!found.is_empty()).then(|| found.swap_remove(best)) {
            Some(summary) => elements.push((element(&variant.name, summary), points(variant))),
            None => missing.push(variant.name.as_str()),
        }
    }
    let runs: Vec<&Value> = elements.iter().map(|(element, _)| element).collect();
    if args.json {
        serde_json::to_writer_pretty(&mut *console.out, &runs).map_err(std::io::Error::from)?;
        writeln!(console.out)?;
    } else {
        let placed: Vec<(&Value, &[AxisPoint])> =
            elements.iter().map(|(element, points)| (element, &points[..])).collect();
        match &head.compared {
            Some(axes) => ranking::write(&placed, axes, CHANCE, console.out)?,
            None => table::write_variants(&runs, console.out)?,
        }
        table::write_findings(&runs, console.out)?;
    }
    for name in &missing {
        writeln!(console.err, "missing: {name}")?;
    }
    let all = missing.is_empty() && runs.iter().all(|run| sweep_dir::is_success(run));
    Ok(if all { Exit::Finished } else { Exit::Unfinished })
}

/// The description of the sweep, which all `dirs` have.
fn head(dirs: &[PathBuf]) -> Result<SweepDir, InputError> {
    let mut first: Option<SweepDir> = None;
    for dir in dirs {
        let name = dir.display().to_string();
        let read = fs::read(dir.join(sweep_dir::FILE)).ok();
        let head = read.and_then(|bytes| serde_json::from_slice::<SweepDir>(&bytes).ok());
        let Some(head) = head else {
            let error = InputError::new("no scenario.json", "the directory of several runs");
            return Err(error.at(&name, 0, 0).help("headrace run ... --part I/N --out DIR"));
        };
        match &first {
            None => first = Some(head),
            Some(known) if *known == head => {}
            Some(known) => {
                let found = format!("runs of `{}` with other variants", head.name);
                let error = InputError::new(found, format!("parts of `{}` alone", known.name));
                return Err(error.at(&name, 0, 0).help("gather each sweep by itself"));
            }
        }
    }
    first.ok_or_else(|| InputError::new("no directory", "one at least"))
}

fn summary(dir: &Path, variant: &str) -> Option<Value> {
    let bytes = fs::read(dir.join(variant).join("summary.json")).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The element of the array that `run --json` prints.
fn element(variant: &str, summary: Value) -> Value {
    let mut element = Map::from_iter([("variant".to_owned(), variant.into())]);
    if let Value::Object(summary) = summary {
        element.extend(summary);
    }
    Value::Object(element)
}

fn points(variant: &Variant) -> Vec<AxisPoint> {
    let point =
        |(axis, label): (&String, &String)| AxisPoint { axis: axis.clone(), label: label.clone() };
    let mut points: Vec<AxisPoint> = variant.parts.iter().map(point).collect();
    // In the order of the name.
    points.sort_by_key(|point| variant.name.find(&point.to_string()));
    points
}
