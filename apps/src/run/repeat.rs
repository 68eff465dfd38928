//! `headrace run manifest.json`: a run again from its manifest, and whether its results are the
//! same to the byte.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Parser, Subcommand};
use experiments::input::{InputError, is_standard_input};
use experiments::measure::Outcome;

use super::experiment::Experiment;
use super::order::Order;
use super::{check_environment, execute, results};
use crate::args::{RunArgs, World};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::manifest::{Input, Recorded};
use crate::output::OutDir;
use crate::progress::{Shown, Total};
use crate::provenance::COMMIT;

/// A command line that runs something.
#[derive(Debug, Parser)]
struct RunLine {
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Only,
}

#[derive(Debug, Subcommand)]
enum Only {
    Run(Box<RunArgs>),
}

/// A run that is to be repeated.
pub(crate) struct Repeat {
    /// The run.
    pub(crate) experiment: Experiment,
    /// The command line of the first run.
    arguments: Vec<OsString>,
    /// The directory of its results.
    dir: PathBuf,
    /// What is not as it was, in words; the run may differ by it.
    pub(crate) changed: Vec<String>,
}

/// Whether a path is one of a manifest.
pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

impl Repeat {
    /// Reads the manifest at `path` and all that its run read.
    ///
    /// # Errors
    /// When it is no manifest of a run, or an input is not what it was.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let wrong = |found: String| {
            let error = InputError::new(found, "a manifest.json that headrace run --out wrote");
            error.at(&name, 0, 0).help("give the manifest.json of a directory of results")
        };
        let bytes = fs::read(path).map_err(|error| InputError::io(&name, &error))?;
        let recorded: Recorded = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("no manifest ({error})")))?;
        let line = RunLine::try_parse_from(&recorded.arguments).map_err(|error| {
            let text = error.to_string();
            wrong(format!("a command line that is none ({})", text.lines().next().unwrap_or("")))
        })?;
        let Only::Run(args) = line.command;
        if args.inputs.iter().any(|path| is_standard_input(path)) {
            return Err(wrong("a run of a matrix from standard input".to_owned()).into());
        }
        let first = RunArgs { out: None, resume: false, json: false, ..*args };
        let experiment = recorded.pick(Order::read(&first)?, &wrong)?;
        recorded.check_inputs(&experiment, &name)?;
        let changed = recorded.changed(&experiment);
        let arguments = recorded.arguments.iter().map(OsString::from).collect();
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { experiment, arguments, dir, changed })
    }

    /// Compares the flows of `outcome` with those that the run left behind: `None` where they are
    /// the same, else the first line that differs; the error where there are none to compare.
    ///
    /// # Errors
    /// When flows.jsonl of that run cannot be read.
    pub(crate) fn difference(&self, outcome: &Outcome) -> Result<Option<usize>, Failure> {
        let file = self.dir.join("flows.jsonl");
        let name = file.display().to_string();
        let before = fs::read(&file).map_err(|error| InputError::io(&name, &error))?;
        let mut now = Vec::new();
        outcome.write_flows(&self.experiment.plan, 0, &mut now)?;
        if before == now {
            return Ok(None);
        }
        let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let (before, now): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (lines(&before), lines(&now));
        let same = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
        Ok(Some(same + 1))
    }

    /// Runs it without leaving anything behind.
    ///
    /// # Errors
    /// As the run.
    pub(crate) fn run_again(
        &self,
        quiet: bool,
        console: &mut Console<'_>,
    ) -> Result<Outcome, Failure> {
        let plan = &self.experiment.plan;
        let total =
            Total { flows: plan.matrix.flows.len() as u64, bytes: plan.matrix.total_bytes().0 };
        execute(&self.experiment, &mut Shown::new(total, quiet, console))
    }
}

impl Recorded {
    /// The run of `order` that has the recorded settings.
    fn pick(
        &self,
        order: Order,
        wrong: &dyn Fn(String) -> InputError,
    ) -> Result<Experiment, Failure> {
        let chosen = match order {
            Order::One(experiment) => return Ok(*experiment),
            Order::Several(sweep) => sweep.chosen,
        };
        let differing = |experiment: &Experiment| self.differing(experiment).len();
        let closest = chosen.into_iter().min_by_key(|(_, experiment)| differing(experiment));
        closest.map(|(_, experiment)| experiment).ok_or_else(|| wrong("no run".to_owned()).into())
    }

    /// The settings that are not as recorded: key, then, now.
    fn differing<'r>(&'r self, experiment: &'r Experiment) -> Vec<(&'r str, &'r str, &'r str)> {
        let now = |key: &str| experiment.configuration.iter().find(|setting| setting.key == key);
        let pairs = self.configuration.iter().map(|then| {
            let now = now(&then.key).map_or("nothing", |setting| setting.value.as_str());
            (then.key.as_str(), then.value.as_str(), now)
        });
        pairs.filter(|(_, then, now)| then != now).collect()
    }

    fn check_inputs(&self, experiment: &Experiment, manifest: &str) -> Result<(), InputError> {
        for Input { role, path, sha256, .. } in &self.inputs {
            let now =
                experiment.inputs.iter().find(|input| input.role == *role && input.path == *path);
            if now.is_some_and(|now| now.sha256 != *sha256) {
                let found = format!("{role} {path}, which has changed since that run");
                let error = InputError::new(found, format!("the file with SHA-256 {sha256}"));
                return Err(error.at(manifest, 0, 0).help("put the file back as it was"));
            }
        }
        Ok(())
    }

    fn changed(&self, experiment: &Experiment) -> Vec<String> {
        let mut changed = Vec::new();
        let (version, commit) = (env!("CARGO_PKG_VERSION"), Some(COMMIT));
        if self.version != version {
            changed.push(format!("version {} then, {version} now", self.version));
        }
        if let Some(then) = &self.commit
            && commit != Some(then)
        {
            changed.push(format!("commit {then} then, {COMMIT} now"));
        }
        let settings = self.differing(experiment);
        changed.extend(
            settings.into_iter().map(|(key, then, now)| format!("{key} {then} then, {now} now")),
        );
        changed
    }
}

/// Runs the manifest that `args` name.
///
/// # Errors
/// As [`Repeat::read`] and the run.
pub(super) fn run(args: &RunArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let repeat = Repeat::read(args.input())?;
    for change in &repeat.changed {
        writeln!(console.err, "warning: not as in that run: {change}")?;
    }
    let experiment = &repeat.experiment;
    check_environment(experiment, console)?;
    let out = args.out.as_deref().map(OutDir::create).transpose()?;
    let plan = &experiment.plan;
    let total = Total { flows: plan.matrix.flows.len() as u64, bytes: plan.matrix.total_bytes().0 };
    let mut shown = Shown::new(total, args.quiet, console);
    let ran = results::run_into(out.as_ref(), experiment, &repeat.arguments, &mut shown)?;
    drop(shown);
    results::show(args, experiment, &ran, console)?;
    let success = ran.is_success();
    if experiment.world != World::Sim {
        let world = experiment.world.name();
        writeln!(console.err, "world {world} runs in real time: bytes are not compared")?;
        return Ok(if success { Exit::Finished } else { Exit::Unfinished });
    }
    let dir = repeat.dir.display();
    match repeat.difference(&ran.outcome)? {
        None => {
            writeln!(console.err, "repeated: flows.jsonl is that of {dir}, byte for byte")?;
            Ok(if success { Exit::Finished } else { Exit::Unfinished })
        }
        Some(line) => {
            writeln!(
                console.err,
                "NOT the same: flows.jsonl differs from that of {dir} in line {line}"
            )?;
            Ok(Exit::Unfinished)
        }
    }
}
