//! The results of a run: files in the directory of `--out`, and the output for the user.
//!
//! Lines of flows.jsonl and series.jsonl are written while the run goes on: a flow's when it and
//! all before it in the matrix have finished.

use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

use experiments::conductor::FlowRecord;
use experiments::measure::{self, Outcome, Sample};
use experiments::plan::Plan;
use experiments::progress::{Progress, Watch};
use experiments::topology::topo_file;
use experiments::why;
use serde_json::Value;

use super::execute;
use super::experiment::Experiment;
use crate::args::RunArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::manifest::{self, Manifest};
use crate::output::{OutDir, OutputError, PartFile};
use crate::provenance::{self, COMMIT, SOURCES};
use crate::replay;
use crate::stopwatch::Stopwatch;
use crate::sweep_dir;
use crate::table;

/// Runs `experiment` and leaves its results in `out`, if that is given: manifest.json, flows.jsonl,
/// series.jsonl when the run was sampled, and a recording for each host when it was recorded.
/// summary.json comes last: where it is, all files are. A disk that is too small for all of it
/// costs no result: as much as there is room for stays, under the names of files that are not
/// whole.
///
/// # Errors
/// As [`execute`], and when nothing can be written there from the first.
pub(super) fn run_into(
    out: Option<&OutDir>,
    experiment: &Experiment,
    command_line: &[OsString],
    watch: &mut dyn Watch,
) -> Result<Ran, Failure> {
    let Some(out) = out else {
        return Ok(Ran { outcome: execute(experiment, watch)?, unwritten: None });
    };
    let mut streams = Streams::begin(out, &experiment.plan, watch)?;
    let outcome = execute(experiment, &mut streams)?;
    let streamed = streams.finish(&outcome);
    let unwritten = write(out, experiment, &outcome, command_line, streamed).err();
    Ok(Ran { outcome, unwritten })
}

/// A run that has ended.
pub(super) struct Ran {
    /// The outcome.
    pub(super) outcome: Outcome,
    /// Why its results are not all in their directory; `None` when they are, or were not asked for.
    pub(super) unwritten: Option<OutputError>,
}

impl Ran {
    /// Whether the run and the writing of its results succeeded.
    pub(super) fn is_success(&self) -> bool {
        let Self { outcome, unwritten } = self;
        outcome.summary.is_success() && !outcome.stopped && unwritten.is_none()
    }
}

/// The files that grow while a run goes on.
struct Streams<'a> {
    watch: &'a mut dyn Watch,
    plan: &'a Plan,
    flows: PartFile,
    /// Lines of flows.jsonl so far.
    lines: usize,
    /// The series of a run that is sampled.
    series: Option<PartFile>,
    /// The first error; nothing is written after it.
    failed: Option<OutputError>,
    stopwatch: Stopwatch,
    /// Real seconds at which buffered lines are written for readers.
    flush_s: f64,
}

/// Real seconds between two flushes.
const FLUSH_EVERY_S: f64 = 1.0;

impl<'a> Streams<'a> {
    fn begin(out: &OutDir, plan: &'a Plan, watch: &'a mut dyn Watch) -> Result<Self, OutputError> {
        let series = plan.draft.sampling.map(|_| out.begin("series.jsonl")).transpose()?;
        Ok(Self {
            watch,
            plan,
            flows: out.begin("flows.jsonl")?,
            lines: 0,
            series,
            failed: None,
            stopwatch: Stopwatch::start(),
            flush_s: FLUSH_EVERY_S,
        })
    }

    fn note(&mut self, written: Result<(), OutputError>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn append_samples(&mut self, samples: &[Sample]) {
        let Some(series) = self.series.as_mut().filter(|_| self.failed.is_none()) else { return };
        let written = series.append(|mut file| measure::write_series(samples, &mut file));
        self.note(written);
    }

    fn flush(&mut self) {
        if self.failed.is_some() {
            return;
        }
        for file in [Some(&mut self.flows), self.series.as_mut()].into_iter().flatten() {
            if let Err(error) = file.append(|file| file.flush()) {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Writes the remaining lines; returns the files, which have no places yet, and why they are
    /// not whole. The lines of flows, and what else is written at the end, are worth more than
    /// samples, which leave their room to them.
    fn finish(mut self, outcome: &Outcome) -> (Vec<PartFile>, Result<(), OutputError>) {
        let (plan, lines) = (self.plan, self.lines);
        if self.failed.is_none() {
            let written = self.flows.append(|mut file| outcome.write_flows(plan, lines, &mut file));
            self.note(written);
        }
        self.append_samples(&outcome.series);
        self.flush();
        let failed = self.failed.map_or(Ok(()), Err);
        if failed.is_err() {
            drop(self.series.take());
            let flows = &mut self.flows;
            // The first error is the one that is reported.
            let _ = flows.restart().and_then(|()| {
                flows.append(|mut file| {
                    outcome.write_flows(plan, 0, &mut file).and_then(|()| file.flush())
                })
            });
        }
        ([Some(self.flows), self.series].into_iter().flatten().collect(), failed)
    }
}

impl Watch for Streams<'_> {
    fn goes_on(&mut self, progress: &Progress) -> bool {
        let seconds = self.stopwatch.seconds();
        if seconds >= self.flush_s {
            self.flush_s = seconds + FLUSH_EVERY_S;
            self.flush();
        }
        self.watch.goes_on(progress)
    }

    fn on_wait(&mut self, what: &str) {
        self.watch.on_wait(what);
    }

    fn on_record(&mut self, line: usize, record: &FlowRecord) {
        self.lines = line + 1;
        if self.failed.is_some() {
            return;
        }
        let plan = self.plan;
        let written =
            self.flows.append(|mut file| measure::write_flow(plan, line, record, &mut file));
        self.note(written);
    }

    fn on_samples(&mut self, samples: &mut Vec<Sample>) {
        self.append_samples(samples);
        samples.clear();
    }
}

/// The manifest of a run that has not run.
fn manifest_of(experiment: &Experiment, command_line: &[OsString]) -> Manifest {
    Manifest {
        schema: 1,
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
        sources: SOURCES,
        provenance: provenance::of_run(&experiment.matrix, &experiment.configuration),
        variant: experiment.variant.clone(),
        arguments: command_line.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        seed: experiment.plan.seed,
        configuration: experiment.configuration.clone(),
        traffic: manifest::traffic(&experiment.plan.matrix),
        adapted: Vec::new(),
        inputs: experiment.inputs.clone(),
        network: topo_file::to_text(experiment.plan.tree.spec()),
    }
}

/// The summary of an earlier run in the directory `dir`, if that run was a success of the same
/// code, inputs, traffic and settings, explained where that is asked for. The rest of its scenario
/// does not matter.
pub(super) fn kept(dir: &Path, experiment: &Experiment) -> Option<Value> {
    let read = |name: &str| -> Option<Value> {
        serde_json::from_slice(&fs::read(dir.join(name)).ok()?).ok()
    };
    let (earlier, now) = (read("manifest.json")?, manifest_of(experiment, &[]));
    let now = serde_json::to_value(now).ok()?;
    let same = |key: &str| deciding(&earlier, key) == deciding(&now, key);
    let inputs = |manifest: &Value| -> Vec<Value> {
        let all = manifest["inputs"].as_array().into_iter().flatten();
        all.filter(|input| input["role"] != "scenario").cloned().collect()
    };
    let same = DECIDING.iter().all(|key| same(key)) && inputs(&earlier) == inputs(&now);
    let explained = !experiment.observe.why || dir.join(WHY).exists();
    let sampled = experiment.plan.draft.sampling.is_none() || dir.join("series.jsonl").exists();
    let summary = read("summary.json").filter(|_| same && explained && sampled)?;
    let flows = fs::read(dir.join("flows.jsonl")).ok()?;
    let lines = flows.iter().filter(|octet| **octet == b'\n').count();
    let whole = summary["flows"]["total"] == lines;
    (whole && sweep_dir::is_success(&summary)).then_some(summary)
}

/// The file of explanations in the directory of a run.
pub(crate) const WHY: &str = "why.jsonl";

/// The files of a run in its directory, apart from recordings.
pub(super) const FILES: [&str; 5] =
    ["summary.json", "manifest.json", "flows.jsonl", "series.jsonl", WHY];

/// What decides the results of a run in its manifest, beside the inputs.
const DECIDING: [&str; 6] = ["schema", "version", "sources", "seed", "configuration", "traffic"];

/// The entry `key` of a manifest, without the settings that change no result.
fn deciding(manifest: &Value, key: &str) -> Option<Value> {
    let mut entry = manifest.get(key).cloned();
    if let Some(Value::Array(settings)) = &mut entry {
        let is_free = |key: &Value| key.as_str().is_some_and(|key| manifest::FREE.contains(&key));
        settings.retain(|setting| setting.get("key").is_none_or(|key| !is_free(key)));
    }
    entry
}

/// Writes the files that are written at the end, as many as there is room for. Each file has its
/// place only when all are whole, those that were `streamed` too. The summary of an earlier run
/// goes before the first of them, and the new one comes last: no file stands beside the summary of
/// another run, wherever the process is killed.
///
/// # Errors
/// The first file that is not whole, or cannot have its place.
fn write(
    out: &OutDir,
    experiment: &Experiment,
    outcome: &Outcome,
    command_line: &[OsString],
    (mut parts, streamed): (Vec<PartFile>, Result<(), OutputError>),
) -> Result<(), OutputError> {
    let manifest =
        Manifest { adapted: outcome.adapted.clone(), ..manifest_of(experiment, command_line) };
    let mut all = streamed;
    all = all.and(part(out, "manifest.json", &mut parts, |file| json(file, &manifest)));
    for (host, recording) in outcome.recordings.iter().enumerate() {
        let name = replay::file_name(host);
        all = all.and(part(out, &name, &mut parts, |file| file.write_all(recording)));
    }
    if experiment.observe.why {
        let lines = |mut file: &mut dyn io::Write| why::write(&outcome.why, &mut file);
        all = all.and(part(out, WHY, &mut parts, lines));
    }
    let summary = |file: &mut dyn io::Write| json(file, &outcome.summary);
    all = all.and(part(out, "summary.json", &mut parts, summary));
    all = all.and_then(|()| out.remove("summary.json"));
    // A run that is not sampled, or that does not explain itself, writes none.
    all = all.and_then(|()| out.remove("series.jsonl"));
    all = all.and_then(|()| out.remove(WHY));
    // Results of several runs that were there are not those of this one.
    all = all.and_then(|()| out.remove(sweep_dir::FILE));
    let mut parts = parts.into_iter();
    if all.is_ok() {
        all = parts.by_ref().try_for_each(PartFile::finish);
    }
    parts.for_each(PartFile::leave);
    all
}

/// Writes the file `name` without giving it its place, and adds it to `parts`.
///
/// # Errors
/// When there was no room for all of it.
fn part(
    out: &OutDir,
    name: &str,
    parts: &mut Vec<PartFile>,
    content: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    let mut file = out.begin(name)?;
    let written = file.append(|file| content(file).and_then(|()| file.flush()));
    parts.push(file);
    written
}

/// Shows the user what `args` ask for: JSON alone, or tables.
///
/// # Errors
/// When standard output fails.
pub(super) fn show(
    args: &RunArgs,
    experiment: &Experiment,
    ran: &Ran,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let outcome = &ran.outcome;
    if args.json {
        if !args.quiet {
            table::write_adapted(outcome, console.err)?;
        }
        // An exit code other than 0 has its reason beside it.
        table::write_faults(outcome, console.err)?;
        return Ok(json(console.out, &outcome.summary)?);
    }
    if args.flows {
        table::write_flows(outcome, &experiment.plan.matrix, console)?;
    }
    table::write_summary(outcome, console)?;
    // What is said beside the table comes behind it.
    console.out.flush()?;
    if let Some(dir) = args.out.as_ref().filter(|_| !args.quiet && ran.unwritten.is_none()) {
        writeln!(console.err, "results are in {}", dir.display())?;
    }
    Ok(())
}

/// Writes `value` as indented JSON and a line's end.
pub(super) fn json(mut out: &mut dyn io::Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}
