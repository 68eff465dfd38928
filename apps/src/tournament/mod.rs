//! `headrace tournament`: transports on mixes that a seed draws, with ranks.
//!
//! The mixes are variants of one scenario, tournament.toml in the directory of `--out`, which
//! `headrace run` runs: any of them can be run again by itself. What ran before on the same mixes
//! is kept, so one more transport costs what it adds.

mod standings;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Parser as _, ValueEnum};
use experiments::tournament::{Draws, FAMILIES, Mix, Purpose, scenario};
use serde_json::Value;

use crate::args::RunArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, OutDir};
use crate::run;
use standings::{MixScore, Standings};

/// The mixes, the transports and the place of the results.
#[derive(Clone, Debug, Args)]
pub(crate) struct TournamentArgs {
    /// Mixes to choose settings on, or to judge them: those of checking are of other chance, and of
    /// families that tuning never draws, too.
    #[arg(long, value_enum, default_value = "tuning")]
    part: PartName,
    /// Root of the mixes' chance.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Mixes of each family.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    mixes: u32,
    /// Bytes of a mix in multiples of 200 MB, 0.001 to 1000.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// Families to draw from, with commas between [default: all of the part].
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    family: Vec<String>,
    /// Transports to compare, with commas between [default: those of the papers of Uno and SMaRTT].
    #[arg(long, value_name = "NAME,..", value_delimiter = ',',
          default_values_t = FIELD.map(str::to_owned))]
    transport: Vec<String>,
    /// Runs at the same time.
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Keeps tournament.toml, every result and standings.json there.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Prints standings.json and nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// Lists the families and runs nothing.
    #[arg(long)]
    list: bool,
    /// Shows no progress.
    #[arg(short, long)]
    quiet: bool,
}

/// The transports that the papers of Uno and SMaRTT compare, and ours.
const FIELD: [&str; 14] = [
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
];

/// The words of `--part`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartName {
    Tuning,
    Checking,
}

/// The flags of `headrace run`, by which the scenario is run.
#[derive(Debug, clap::Parser)]
struct RunLine {
    #[command(flatten)]
    run: RunArgs,
}

fn scale(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| (0.001..=1000.0).contains(value));
    value.ok_or_else(|| format!("`{text}` is no number of 0.001 to 1000"))
}

/// Draws the mixes, runs what has not run yet and prints the standings.
///
/// # Errors
/// As `headrace run`, and names that there are none of.
pub(crate) fn run(
    args: &TournamentArgs,
    command_line: &[OsString],
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let Some(out) = args.out.as_ref().filter(|_| !args.list) else { return list(console) };
    if args.transport.len() < 2 {
        let text = "error: one transport has no rank\n  help: --transport A,B,.. names several";
        return Err(Failure::CommandLine(text.to_owned()));
    }
    let draws = args.draws();
    let mixes = draws.mixes()?;
    let file = out.join("tournament.toml");
    OutDir::create(out)?;
    let text = scenario(&draws, &mixes);
    output::write_file(&file, |to| io::Write::write_all(to, text.as_bytes()))?;
    let (jobs, transports) = (args.jobs.to_string(), args.transport.join(","));
    let quiet = args.quiet.then_some(OsString::from("--quiet"));
    let line =
        [OsString::from("run"), file.into(), "--resume".into(), "--jobs".into(), jobs.into()];
    let line = line.into_iter().chain(["--out".into(), out.clone().into()]);
    let line = line.chain(["--transport".into(), transports.into()]).chain(quiet);
    let RunLine { run } = RunLine::try_parse_from(line)
        .map_err(|error| Failure::CommandLine(error.render().to_string().trim_end().to_owned()))?;
    // The runs' own table is a line for each; the standings are what is asked for.
    let mut unseen = io::sink();
    let mut quietly = Console { out: &mut unseen, err: console.err, ..*console };
    let exit = run::run(&run, command_line, &mut quietly)?;
    if !matches!(exit, Exit::Finished | Exit::Unfinished) {
        return Ok(exit);
    }
    let (places, sound) = places(args, &mixes);
    let standings = Standings::of(&draws, &args.transport, places);
    output::write_file(&out.join("standings.json"), |to| standings.write_json(to))?;
    if args.json {
        standings.write_json(console.out)?;
    } else {
        standings.write(console.out)?;
    }
    // A transport that does not finish a mix is a result, and a wrong audit is none.
    Ok(if sound { Exit::Finished } else { Exit::Unfinished })
}

impl TournamentArgs {
    fn draws(&self) -> Draws {
        Draws {
            part: match self.part {
                PartName::Tuning => Purpose::Tuning,
                PartName::Checking => Purpose::Checking,
            },
            seed: self.seed,
            mixes: self.mixes,
            scale: self.scale,
            families: self.family.clone(),
        }
    }
}

/// The results in the directory, and whether all are there with a sound audit.
fn places(args: &TournamentArgs, mixes: &[Mix]) -> (Vec<MixScore>, bool) {
    let (mut places, mut sound) = (Vec::new(), true);
    let out = args.out.clone().unwrap_or_default();
    for mix in mixes {
        for transport in &args.transport {
            let dir = out.join(format!("{},transport={transport}", mix.name));
            let summary = fs::read(dir.join("summary.json")).ok();
            let summary: Value =
                summary.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
            sound &= summary.pointer("/audit/ok") == Some(&Value::Bool(true));
            places.push(MixScore::of(mix, transport, &summary));
        }
    }
    (places, sound)
}

fn list(console: &mut Console<'_>) -> Result<Exit, Failure> {
    let width = FAMILIES.iter().map(|family| family.name.len()).max().unwrap_or(0);
    for family in FAMILIES {
        let part = if family.aside { Purpose::Checking } else { Purpose::Tuning };
        writeln!(console.out, "{:width$}  {part:8}  {}", family.name, family.about)?;
    }
    Ok(Exit::Finished)
}

#[cfg(test)]
mod tests {
    use experiments::plan::transports;

    use super::*;

    #[test]
    fn the_field_is_of_known_transports() {
        FIELD.iter().for_each(|name| assert!(transports::by_name(name).is_some(), "{name}"));
    }

    fn headrace(line: &str, dir: &str) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let words = ["headrace"].into_iter().chain(line.split(' ')).chain(["--out", dir]);
        let code = crate::main_with(words.map(OsString::from), &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_small_mix_of_every_family_is_run_ranked_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().to_str().unwrap();
        let line = "tournament --part checking --mixes 1 --scale 0.001 --transport uno,smartt";
        let (code, json, err) = headrace(&format!("{line} --json"), dir);
        assert_eq!(code, 0, "{err}");
        let standings: Value = serde_json::from_str(&json).unwrap();
        let places = standings["places"].as_array().unwrap();
        assert_eq!(places.len(), 2 * FAMILIES.len());
        for place in places {
            let ratios = place["ratios"].as_array().unwrap_or_else(|| panic!("{place}"));
            assert!(ratios.iter().all(|ratio| ratio.as_f64().unwrap() >= 1.0), "{place}");
        }
        // One transport more: what ran is kept.
        let (code, text, err) = headrace(&format!("{line},swift --family pairs"), dir);
        assert_eq!(code, 0, "{err}");
        assert!(text.contains("| swift "), "{text}");
        let (code, again, err) = headrace(&format!("{line},swift --family pairs"), dir);
        assert_eq!((code, &again), (0, &text), "{err}");
        assert!(err.contains("3 of 3 runs are in"), "{err}");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().to_str().unwrap();
        for (flags, part) in [
            ("--transport uno", "one transport has no rank"),
            ("--family dead-link", "a family of tuning"),
            ("--family paris", "did you mean `pairs`"),
            ("--transport uno,smrtt", "did you mean `smartt`"),
            ("--scale 0", "no number of 0.001 to 1000"),
        ] {
            let (code, _, err) = headrace(&format!("tournament {flags}"), dir);
            assert!(code == 2 && err.contains(part), "{flags}: {code} {err}");
        }
    }
}
