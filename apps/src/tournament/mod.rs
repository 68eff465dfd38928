//! `headrace tournament`: transports and settings on mixes that a seed draws, with ranks.
//!
//! The mixes are variants of one scenario, tournament.toml in the directory of `--out`, which
//! `headrace run` runs: any of them can be run again by itself. Runs of the same code, mix and
//! settings that finished are kept, so one more transport or one more mix costs only its own runs.

mod standings;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Parser as _};
use experiments::input::{InputError, did_you_mean};
use experiments::plan::draft::{Draft, Origin};
use experiments::plan::keys;
use experiments::scenario::{AxisPoint, VARIANT};
use experiments::tournament::{Draws, Family, Mix, Purpose, scenario};

use crate::args::RunArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, OutDir};
use crate::run::order::{RunOrder, Sweep};
use crate::run::sweep::{Ended, SweepRan, run_all};
use standings::{MixScore, Standings};

/// The mixes, the transports and the place of the results.
#[derive(Clone, Debug, Args)]
pub(crate) struct TournamentArgs {
    /// Mixes to choose settings on, or to judge them: those of checking are of other chance, and of
    /// families that tuning never draws, too [default: tuning].
    #[arg(long, value_parser = purposes())]
    purpose: Option<Purpose>,
    /// Root of the mixes' chance.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Mixes of each family; 256 of all families at most.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    mixes: u32,
    /// Bytes and times of a mix, 0.001 to 1000: at 1 a port carries at most 200 MB.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// Families to draw from, with commas between; all of the purpose unless given.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    family: Vec<String>,
    /// Transports to compare, with commas between.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',',
          default_values_t = FIELD.map(str::to_owned))]
    transport: Vec<String>,
    /// Changes one setting of all transports, or compares several values of it; may be given
    /// several times.
    #[arg(long, value_name = "KEY=VALUE[,VALUE..]")]
    set: Vec<String>,
    /// What all are measured against, by its name in the ranks, like uno or uno,qa_early=0; the
    /// best on each mix unless given.
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
    /// Runs at the same time.
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Keeps tournament.toml, every result and standings.json there; needed unless --list is
    /// given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Prints standings.json, or the list of --list, and nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// Lists the families, of --purpose alone where it is given, and runs nothing.
    #[arg(long)]
    list: bool,
    /// Shows no progress.
    #[arg(short, long)]
    quiet: bool,
}

/// The transports that the papers of Uno and SMaRTT compare, and ours. Not `roce`: a lossless link
/// between datacentres needs buffers of more than its RTT, which mixes do not have.
const FIELD: [&str; 15] = [
    "uno",
    "uno-paper",
    "uno-mended",
    "uno-artifact",
    "auto",
    "gemini",
    "mprdma-bbr",
    "smartt",
    "smartt-paper",
    "swift",
    "mprdma",
    "dctcp",
    "eqds",
    "eqds-smartt",
    "eqds-mprdma",
];

/// The flags of `headrace run`, by which the scenario is run.
#[derive(Debug, clap::Parser)]
struct RunLine {
    #[command(flatten)]
    run: RunArgs,
}

fn purposes() -> impl clap::builder::TypedValueParser<Value = Purpose> {
    let words = PossibleValuesParser::new(Purpose::ALL.map(Purpose::name));
    words.try_map(|name| Purpose::by_name(&name).ok_or("no purpose"))
}

fn scale(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| (0.001..=1000.0).contains(value));
    value.ok_or_else(|| format!("`{text}` is no number of 0.001 to 1000"))
}

/// Draws the mixes, runs what has not run yet and prints the standings.
///
/// # Errors
/// As `headrace run`, and names that there are none of.
pub(crate) fn run(args: &TournamentArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    if args.list {
        return list(args, console);
    }
    let draws = args.draws();
    let mixes = draws.mixes()?;
    args.check_transports()?;
    let Some(out) = &args.out else {
        let error = InputError::new("no --out", "a directory for the results, --out DIR");
        return Err(error.at("--out", 0, 0).help("--list alone needs none").into());
    };
    let text = scenario(&draws, &mixes);
    let file = out.join("tournament.toml");
    let words = args.run_line(&file, out);
    let RunLine { run } = RunLine::try_parse_from(&words)
        .map_err(|error| Failure::CommandLine(error.render().to_string().trim_end().to_owned()))?;
    // All is judged before the file of earlier mixes is replaced.
    let sweep = RunOrder::of_text(&run, &text)?;
    let names = contestants(&sweep);
    args.check(&names)?;
    check_presets(&sweep, &mixes)?;
    // Standings of other mixes would stand beside the file of these.
    OutDir::create(out)?.remove("standings.json")?;
    output::write_file(&file, |to| io::Write::write_all(to, text.as_bytes()))?;
    // Manifests of the runs name a command that runs them again.
    let command_line = [&[OsString::from("headrace")][..], &words].concat();
    let SweepRan { ended, failure } = run_all(&sweep, &run, &command_line, console)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let places = if interrupt::requested() { None } else { places(&sweep, &mixes, &ended) };
    let Some(places) = places else {
        let count = ended.iter().flatten().filter(|(_, success)| *success).count();
        let all = ended.len();
        writeln!(
            console.err,
            "interrupted: {count} of {all} runs are kept and there are no standings; the same \
             command goes on"
        )?;
        return Ok(Exit::Interrupted);
    };
    let standings = Standings::of(&draws, names, args.reference.as_deref(), places);
    output::write_file(&out.join("standings.json"), |to| standings.write_json(to))?;
    if args.json {
        standings.write_json(console.out)?;
    } else {
        standings.write(console.out)?;
    }
    // A transport that does not finish a mix is a result, and a wrong audit is none.
    let wrong = standings.wrong();
    for run in &wrong {
        writeln!(console.err, "{run}: its audit found errors: the run does not count")?;
    }
    Ok(if wrong.is_empty() { Exit::Finished } else { Exit::Unfinished })
}

impl TournamentArgs {
    fn draws(&self) -> Draws {
        Draws {
            purpose: self.purpose.unwrap_or(Purpose::Tuning),
            seed: self.seed,
            each: self.mixes,
            scale: self.scale,
            families: self.family.iter().map(|name| name.trim().to_owned()).collect(),
        }
    }

    /// The words of `headrace run` that run the scenario in `file`.
    fn run_line(&self, file: &Path, out: &Path) -> Vec<OsString> {
        let (jobs, transports) = (self.jobs.to_string(), self.transport.join(","));
        let mut words: Vec<OsString> = vec!["run".into(), file.into(), "--resume".into()];
        words.extend([OsString::from("--jobs"), jobs.into(), "--out".into(), out.into()]);
        words.extend([OsString::from("--transport"), transports.into()]);
        words.extend(self.set.iter().map(|text| OsString::from(format!("--set={text}"))));
        words.extend(self.quiet.then(|| OsString::from("--quiet")));
        words
    }

    /// Checks that there are transports of these names.
    fn check_transports(&self) -> Result<(), InputError> {
        self.transport.iter().try_for_each(|name| {
            let chosen = Draft::default().set_transport(name.trim(), Origin::Flag("transport"));
            chosen.map_err(|error| error.at("--transport", 0, 0))
        })
    }

    /// Checks that there is something to compare, and the reference among it.
    fn check(&self, names: &[String]) -> Result<(), Failure> {
        let key = |text: &&String| {
            keys::canonical(text.split('=').next().unwrap_or("").trim()).to_owned()
        };
        if let Some(text) = self.set.iter().find(|text| key(text) == "run.limit") {
            let error = InputError::new(format!("`{text}`"), "a limit that --scale gives");
            let help = "unfinished runs count with the limit of all mixes";
            return Err(error.at("--set", 0, 0).help(help).into());
        }
        if names.len() < 2 {
            let text = "error: one transport has no rank\n  help: --transport A,B,.. names \
                        several, and --set KEY=A,B compares two values of a setting";
            return Err(Failure::CommandLine(text.to_owned()));
        }
        let Some(wanted) = self.reference.as_ref().filter(|name| !names.contains(name)) else {
            return Ok(());
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = InputError::new(format!("`{wanted}`"), "one of those that are compared");
        Err(error.at("--reference", 0, 0).help(did_you_mean(wanted, &names)).into())
    }
}

/// Refuses transports that have a value of their own for what a mix draws: they would run over
/// another network than the others.
fn check_presets(sweep: &Sweep, mixes: &[Mix]) -> Result<(), Failure> {
    for ((_, parts), (_, experiment)) in sweep.variants.iter().zip(&sweep.chosen) {
        let draft = &experiment.plan.draft;
        let is_preset = |key: &str| matches!(draft.origin(key), Origin::Transport(_));
        let mix = mixes.iter().find(|mix| parts.iter().any(|part| part.label == mix.name));
        if let Some(key) = mix.and_then(|mix| mix.drawn.iter().find(|key| is_preset(key))) {
            let name = draft.transport.name;
            let found = format!("`{name}`, which sets {key}");
            let expected = "transports that leave to each mix what it draws";
            let help = "leave it out; `headrace run` compares any transports on one matrix";
            return Err(InputError::new(found, expected).at("--transport", 0, 0).help(help).into());
        }
    }
    Ok(())
}

/// The name of a run's contestant: its transport, where several are compared, and its values of
/// settings.
fn contestant(parts: &[AxisPoint]) -> String {
    let own = parts.iter().filter(|part| part.axis != VARIANT);
    let texts = own.map(|part| match part.axis.as_str() {
        "transport" => part.label.clone(),
        _ => part.to_string(),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The names of all contestants, in the order of the command line.
fn contestants(sweep: &Sweep) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (_, parts) in &sweep.variants {
        let name = contestant(parts);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The results; `None` unless every run has one.
fn places(sweep: &Sweep, mixes: &[Mix], ended: &[Option<Ended>]) -> Option<Vec<MixScore>> {
    let runs = sweep.variants.iter().zip(ended);
    let all = runs.map(|((_, parts), ended)| {
        let (summary, _) = ended.as_ref()?;
        let variant = parts.iter().find(|part| part.axis == VARIANT)?;
        let mix = mixes.iter().find(|mix| mix.name == variant.label)?;
        Some(MixScore::of(mix, contestant(parts), summary))
    });
    all.collect()
}

/// Lists the families; the purpose of each is that of tuning where both draw from it.
fn list(args: &TournamentArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let purpose = |family: &Family| match family.aside {
        true => Purpose::Checking,
        false => Purpose::Tuning,
    };
    let families: Vec<&Family> = args.purpose.unwrap_or(Purpose::Checking).families().collect();
    if args.json {
        let value = |family: &&Family| {
            let purpose = purpose(family).name();
            serde_json::json!({ "name": family.name, "purpose": purpose, "about": family.about })
        };
        let values: Vec<_> = families.iter().map(value).collect();
        serde_json::to_writer_pretty(&mut *console.out, &values).map_err(io::Error::from)?;
        writeln!(console.out)?;
        return Ok(Exit::Finished);
    }
    let width = families.iter().map(|family| family.name.len()).max().unwrap_or(0);
    for family in families {
        let purpose = purpose(family);
        writeln!(console.out, "{:width$}  {purpose:8}  {}", family.name, family.about)?;
    }
    Ok(Exit::Finished)
}

#[cfg(test)]
mod tests;
