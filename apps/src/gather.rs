//! `headrace gather`: the results of a sweep that ran in parts, such as jobs of a batch scheduler,
//! put together as one command would have shown them.

mod pieces;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use experiments::input::InputError;
use experiments::scenario::AxisPoint;
use pieces::Piece;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::manifest::Recorded;
use crate::ranking;
use crate::sweep_dir::{self, CHANCE, SweepDir, Variant};
use crate::table;

/// The directories of the parts.
#[derive(Debug, Args)]
pub(crate) struct GatherArgs {
    /// The directory that all parts wrote to (run --part I/N --out DIR), or the directories of the
    /// parts. A run that several of them have is taken from the first one where it succeeded.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Prints the array that `run --json` would have printed, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Shows the results of all parts; names the runs that have none yet.
///
/// # Errors
/// When a directory is none of a sweep, or the directories, or runs in them, are of different ones.
pub(crate) fn run(args: &GatherArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let head = head(&args.dirs)?;
    let (mut elements, mut missing, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    for variant in &head.variants {
        let mut found = Vec::new();
        let mut damaged = None;
        for dir in &args.dirs {
            match piece(dir, variant) {
                Ok(Some((summary, piece))) => {
                    found.push(summary);
                    pieces.push(piece);
                }
                Ok(None) => {}
                Err(error) => damaged = Some(error),
            }
        }
        let best = found.iter().position(sweep_dir::is_success).unwrap_or(0);
        match (!found.is_empty()).then(|| found.swap_remove(best)) {
            Some(summary) => elements.push((element(&variant.name, summary), points(variant))),
            None => missing.push((variant.name.as_str(), damaged)),
        }
    }
    pieces::check(&pieces)?;
    let runs: Vec<&Value> = elements.iter().map(|(element, _)| element).collect();
    if args.json {
        serde_json::to_writer_pretty(&mut *console.out, &runs).map_err(std::io::Error::from)?;
        writeln!(console.out)?;
    } else {
        let placed: Vec<(&Value, &[AxisPoint])> =
            elements.iter().map(|(element, points)| (element, &points[..])).collect();
        match &head.compared {
            Some(axes) => ranking::write(&placed, axes, CHANCE, console)?,
            None => table::write_variants(&runs, console)?,
        }
        table::write_origins(&runs, console)?;
        table::write_findings(&runs, console.out)?;
    }
    for (name, damaged) in &missing {
        match damaged {
            None => writeln!(console.err, "missing: {name}")?,
            Some(error) => writeln!(console.err, "missing: {name}: {error}")?,
        }
    }
    let all = missing.is_empty() && runs.iter().all(|run| sweep_dir::is_success(run));
    Ok(if all { Exit::Finished } else { Exit::Unfinished })
}

/// The description of the sweep, which all `dirs` have.
fn head(dirs: &[PathBuf]) -> Result<SweepDir, InputError> {
    let mut first: Option<SweepDir> = None;
    for dir in dirs {
        let name = dir.display().to_string();
        let head = sweep_of(dir)?;
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

/// The description in the directory of a sweep.
fn sweep_of(dir: &Path) -> Result<SweepDir, InputError> {
    let path = dir.join(sweep_dir::FILE);
    let name = path.display().to_string();
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            let error = InputError::new("no scenario.json", "the directory of several runs");
            let help = "headrace run ... --part I/N --out DIR";
            error.at(&dir.display().to_string(), 0, 0).help(help)
        }
        _ => InputError::io(&name, &error),
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let found = format!("a damaged scenario.json ({error})");
        let error = InputError::new(found, "the description that every part of a sweep writes");
        error.at(&name, 0, 0).help("copy it again, or run a part again: that writes it anew")
    })
}

/// The summary and the manifest of a run in the directory of its sweep; `None` where it has not
/// ended there.
///
/// # Errors
/// When one of the files is damaged, has no other beside it, or is of another run.
fn piece(dir: &Path, variant: &Variant) -> Result<Option<(Value, Piece)>, InputError> {
    let dir = dir.join(&variant.name);
    if !dir.join("summary.json").exists() {
        return Ok(None);
    }
    let of = dir.join("manifest.json");
    let manifest: Recorded = json(&of)?;
    if let Some(name) = manifest.variant.as_ref().filter(|name| **name != variant.name) {
        let found = format!("results of the run `{name}`");
        let error = InputError::new(found, format!("those of `{}`", variant.name));
        let help = "copy the results of each run into the directory of its name";
        return Err(error.at(&of.display().to_string(), 0, 0).help(help));
    }
    let piece = Piece { of, parts: points(variant), manifest };
    Ok(Some((json(&dir.join("summary.json"))?, piece)))
}

/// A file that a run left behind.
fn json<T: DeserializeOwned>(path: &Path) -> Result<T, InputError> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| InputError::io(&name, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let found = format!("something else ({error})");
        let error = InputError::new(found, "what headrace run --out writes");
        error.at(&name, 0, 0).help("copy it again, or run its part again")
    })
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
