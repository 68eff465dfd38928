//! What a run leaves behind: files in the directory of `--out`, and what the user sees.

use std::ffi::OsString;
use std::io;

use testbed::measure::Outcome;

use super::experiment::Experiment;
use crate::cli::RunArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::output::OutDir;
use crate::replay;
use crate::table;

/// Writes manifest.json, flows.jsonl, series.jsonl when the run was sampled, a recording a host
/// when it was recorded, and last summary.json: where that is, all is.
///
/// # Errors
/// When the disk does not take them.
pub(super) fn write(
    out: &OutDir,
    experiment: &Experiment,
    outcome: &Outcome,
    command_line: &[OsString],
) -> Result<(), Failure> {
    let manifest = Manifest {
        schema: 1,
        version: env!("CARGO_PKG_VERSION"),
        arguments: command_line.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        seed: experiment.plan.seed,
        configuration: experiment.configuration.clone(),
        adapted: outcome.adapted.clone(),
        inputs: experiment.inputs.clone(),
    };
    out.write("manifest.json", |file| json(file, &manifest))?;
    out.write("flows.jsonl", |mut file| outcome.write_flows(&experiment.plan.matrix, &mut file))?;
    if experiment.plan.draft.sampling.is_some() {
        out.write("series.jsonl", |mut file| outcome.write_series(&mut file))?;
    }
    for (host, recording) in outcome.recordings.iter().enumerate() {
        out.write(&replay::file_name(host), |file| file.write_all(recording))?;
    }
    out.write("summary.json", |file| json(file, &outcome.summary))?;
    Ok(())
}

/// Shows the user what `args` ask for: JSON alone, or tables.
///
/// # Errors
/// When standard output fails.
pub(super) fn show(
    args: &RunArgs,
    experiment: &Experiment,
    outcome: &Outcome,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    if args.json {
        if !args.quiet {
            table::write_adapted(outcome, console.err)?;
        }
        return Ok(json(console.out, &outcome.summary)?);
    }
    if args.flows {
        table::write_flows(outcome, &experiment.plan.matrix, console.out)?;
    }
    table::write_summary(outcome, console.out)?;
    if let Some(dir) = args.out.as_ref().filter(|_| !args.quiet) {
        writeln!(console.err, "results are in {}", dir.display())?;
    }
    Ok(())
}

/// Writes `value` as indented JSON and a line's end.
pub(super) fn json(mut out: &mut dyn io::Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}
