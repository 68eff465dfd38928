//! `headrace run manifest.json`: a run again from its manifest, and whether its results are the
//! same to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgAction, CommandFactory as _, Parser, Subcommand};
use experiments::input::{InputError, is_standard_input};
use experiments::measure::Outcome;

use super::experiment::Experiment;
use super::order::RunOrder;
use super::{alone, end, execute, seal};
use crate::args::{RunArgs, World};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::manifest::{Input, Recorded, Setting, joined};
use crate::progress::{self, Total};
use crate::provenance::{COMMIT, DIRTY};

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
    /// The command line of the first run, word by word and as it was understood.
    arguments: Vec<OsString>,
    args: RunArgs,
    /// The directory of its results.
    dir: PathBuf,
    /// What has changed since, in words; the run may differ because of it.
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
            let found = "a run of a matrix from standard input, which nothing kept";
            let error = InputError::new(found, "a run of files").at(&name, 0, 0);
            return Err(error.help("save the matrix to a file, and run that with --out").into());
        }
        let first = RunArgs { out: None, resume: false, json: false, ..*args };
        are_here(&first.inputs, &name)?;
        let experiment = recorded.pick(RunOrder::read(&first)?, &wrong)?;
        recorded.check_inputs(&experiment, &name)?;
        let changed = recorded.changed(&experiment);
        let arguments = recorded.arguments.iter().map(OsString::from).collect();
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { experiment, arguments, args: first, dir, changed })
    }

    /// The flows that the run left behind. To be read before it runs again: its results may go to
    /// the same directory.
    ///
    /// # Errors
    /// When flows.jsonl of that run cannot be read.
    pub(crate) fn flows(&self) -> Result<Vec<u8>, InputError> {
        let file = self.dir.join("flows.jsonl");
        fs::read(&file).map_err(|error| InputError::io(&file.display().to_string(), &error))
    }

    /// Compares the flows of `outcome` with those `before`: `None` where they are the same, else
    /// the first line that differs.
    ///
    /// # Errors
    /// When the flows of `outcome` cannot be written down.
    pub(crate) fn difference(
        &self,
        before: &[u8],
        outcome: &Outcome,
    ) -> Result<Option<usize>, Failure> {
        let mut now = Vec::new();
        outcome.write_flows(&self.experiment.plan, 0, &mut now)?;
        if before == now {
            return Ok(None);
        }
        let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let (before, now): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (lines(before), lines(&now));
        let same = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
        Ok(Some(same + 1))
    }

    /// Runs the experiment without leaving anything behind.
    ///
    /// # Errors
    /// As the run.
    pub(crate) fn run_again(
        &self,
        quiet: bool,
        console: &mut Console<'_>,
    ) -> Result<Outcome, Failure> {
        let total = Total::of(&self.experiment.plan, self.experiment.world);
        execute(&self.experiment, &mut progress::shown(total, quiet, console))
    }

    /// Reports whether the flows of `outcome` are those `before`, where both can be compared.
    /// Returns whether no difference is known.
    fn judge(
        &self,
        before: Option<&[u8]>,
        outcome: &Outcome,
        console: &mut Console<'_>,
    ) -> Result<bool, Failure> {
        let dir = self.dir.display();
        let Some(before) = before else {
            let world = self.experiment.world.name();
            writeln!(console.err, "world {world} runs in real time: bytes are not compared")?;
            return Ok(true);
        };
        if interrupt::requested() {
            writeln!(console.err, "stopped before its end: bytes are not compared")?;
            return Ok(true);
        }
        let line = self.difference(before, outcome)?;
        match line {
            None => {
                writeln!(console.err, "repeated: flows.jsonl is that of {dir}, byte for byte")?;
            }
            Some(line) => writeln!(
                console.err,
                "NOT the same: flows.jsonl differs from that of {dir} in line {line}"
            )?,
        }
        Ok(line.is_none())
    }
}

/// Paths of a command line mean what they meant where the run was started.
fn are_here(inputs: &[PathBuf], manifest: &str) -> Result<(), InputError> {
    let is_file = |path: &&PathBuf| path.extension().is_some();
    let Some(missing) = inputs.iter().filter(is_file).find(|path| !path.exists()) else {
        return Ok(());
    };
    let found = format!("the input `{}`, which is not here", missing.display());
    let error = InputError::new(found, "the files of that run, at the paths of its command line");
    let help = "give this command in the directory in which that run was started";
    Err(error.at(manifest, 0, 0).help(help))
}

impl Recorded {
    /// The run of `order` that was recorded: the one of its name.
    fn pick(
        &self,
        order: RunOrder,
        wrong: &dyn Fn(String) -> InputError,
    ) -> Result<Experiment, Failure> {
        let chosen = match order {
            RunOrder::One(experiment) if self.variant.is_none() => return Ok(*experiment),
            RunOrder::One(_) => Vec::new(),
            RunOrder::Several(sweep) => sweep.chosen,
        };
        if let Some(name) = &self.variant {
            let named = chosen.into_iter().find(|(other, _)| other == name);
            return named.map(|(_, experiment)| experiment).ok_or_else(|| {
                let found = format!("run `{name}`, which its command line no longer has");
                let help = "put its scenario back as it was, or use the version of that run";
                let expected = "one of the runs of its command line".to_owned();
                InputError { expected, ..wrong(found) }.help(help).into()
            });
        }
        // An earlier version recorded no name: the run with its inputs and most of its settings.
        let missing = |experiment: &Experiment| {
            self.inputs.iter().filter(|input| input.in_run(experiment).is_none()).count()
        };
        let differing =
            |experiment: &Experiment| (missing(experiment), self.differing(experiment).len());
        let closest = chosen.into_iter().min_by_key(|(_, experiment)| differing(experiment));
        closest.map(|(_, experiment)| experiment).ok_or_else(|| wrong("no run".to_owned()).into())
    }

    /// The settings that are not as recorded: key, then, now.
    fn differing(&self, experiment: &Experiment) -> Vec<(String, String, String)> {
        let pairs = |all: &[Setting]| -> BTreeMap<String, String> {
            joined(all.iter().map(|set| (set.key.clone(), set.value.clone())))
        };
        let (then, now) = (pairs(&self.configuration), pairs(&experiment.configuration));
        let value = |all: &BTreeMap<String, String>, key: &str| -> String {
            all.get(key).map_or("nothing", String::as_str).to_owned()
        };
        // A setting of a later version has no value in what was recorded; a fault may be new.
        let keys = then.keys().map(String::as_str).chain(["fault"]).collect::<BTreeSet<_>>();
        let pairs =
            keys.into_iter().map(|key| (key.to_owned(), value(&then, key), value(&now, key)));
        pairs.filter(|(_, then, now)| then != now).collect()
    }

    /// Refuses a run that reads something else than was recorded.
    fn check_inputs(&self, experiment: &Experiment, manifest: &str) -> Result<(), InputError> {
        for input in &self.inputs {
            let Input { role, path, sha256, .. } = input;
            let (what, help) = match input.in_run(experiment) {
                Some(now) if now.sha256 == *sha256 => continue,
                Some(_) => ("has changed since that run", "put the file back as it was"),
                None => (
                    "is no input of that run any more",
                    "put what names it back as it was, or use the version of that run",
                ),
            };
            let found = format!("{role} {path}, which {what}");
            let error = InputError::new(found, format!("the file with SHA-256 {sha256}"));
            return Err(error.at(manifest, 0, 0).help(help));
        }
        Ok(())
    }

    fn changed(&self, experiment: &Experiment) -> Vec<String> {
        let mut changed = Vec::new();
        let (version, commit) = (env!("CARGO_PKG_VERSION"), Some(COMMIT));
        if self.version != version {
            changed.push(format!("version {} then, {version} now", self.version));
        }
        match &self.commit {
            Some(then) if commit != Some(then) => {
                changed.push(format!("commit {then} then, {COMMIT} now"));
            }
            Some(then) if then.ends_with(DIRTY) => {
                changed.push(format!("perhaps sources, which had changes beside commit {then}"));
            }
            _ => {}
        }
        let settings = self.differing(experiment);
        changed.extend(
            settings.into_iter().map(|(key, then, now)| format!("{key} {then} then, {now} now")),
        );
        changed
    }
}

impl Input {
    /// This input as `experiment` has read it, if it has.
    fn in_run<'e>(&self, experiment: &'e Experiment) -> Option<&'e Self> {
        let is_it = |other: &&Self| other.role == self.role && other.path == self.path;
        experiment.inputs.iter().find(is_it)
    }
}

/// Flags of a repetition. All others would be those of another run.
const READ: [&str; 5] = ["out", "json", "flows", "quiet", "verbose"];

/// Refuses flags that a repetition does not read.
fn check_flags(command_line: &[OsString]) -> Result<(), Failure> {
    let mut command = RunLine::command();
    let line = command.try_get_matches_from_mut(command_line);
    let line = line.map_err(|error| Failure::CommandLine(error.to_string()))?;
    let run = line.subcommand().and_then(|(name, given)| {
        let flags = command.find_subcommand(name)?.get_arguments();
        Some(flags.filter(move |flag| {
            let source = given.value_source(flag.get_id().as_str());
            source == Some(ValueSource::CommandLine)
        }))
    });
    let given = run.into_iter().flatten().filter_map(|flag| flag.get_long());
    let unread: Vec<String> =
        given.filter(|flag| !READ.contains(flag)).map(|flag| format!("--{flag}")).collect();
    if unread.is_empty() {
        return Ok(());
    }
    let text = format!(
        "error: found {}, expected none but --{}: a manifest repeats its run as it was\n  \
         help: leave that out, or run the matrix or the scenario of the manifest with it",
        unread.join(" "),
        READ.join(", --")
    );
    Err(Failure::CommandLine(text))
}

/// Runs the manifest that `args` of `command_line` name.
///
/// # Errors
/// As [`Repeat::read`] and the run; for a flag that would change the run.
pub(super) fn run(
    args: &RunArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    check_flags(command_line)?;
    let mut repeat = Repeat::read(args.input())?;
    for change in &repeat.changed {
        writeln!(console.err, "warning: not as in that run: {change}")?;
    }
    seal(vec![&mut repeat.experiment], &repeat.args, console)?;
    let is_simulated = repeat.experiment.world == World::Sim;
    let before = is_simulated.then(|| repeat.flows()).transpose()?;
    let Some(ran) = alone(&repeat.experiment, args, &repeat.arguments, console)? else {
        return Ok(Exit::Interrupted);
    };
    let same = repeat.judge(before.as_deref(), &ran.outcome, console)?;
    let exit = end(ran, console)?;
    Ok(if same { exit } else { Exit::Unfinished })
}
