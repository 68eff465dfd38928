//! Reads directories of results, as `headrace run --out` writes them.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};

use experiments::input::InputError;
use experiments::scenario::Figure;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::manifest::{Input, Recorded, joined};
use crate::sweep_dir::{FILE, SweepDir, Variant};

/// The results of a scenario with variants, or of single runs side by side.
#[derive(Debug)]
pub(super) struct Results {
    /// The directory; of single runs that of the first.
    pub(super) place: PathBuf,
    /// The description of the scenario or of the runs.
    pub(super) head: SweepDir,
    /// The variants with valid results, in the scenario's order.
    pub(super) runs: Vec<RunResults>,
    /// The variants that are invalid because their polls were too late.
    pub(super) invalid: Vec<RunResults>,
    /// How many variants have no results: they have not run.
    pub(super) missing: usize,
}

impl Results {
    /// All runs, the invalid ones last.
    pub(super) fn all(&self) -> impl Iterator<Item = &RunResults> {
        self.runs.iter().chain(&self.invalid)
    }

    /// The names of the invalid runs as a list.
    pub(super) fn invalid_names(&self) -> String {
        let names: Vec<String> = self.invalid.iter().map(|run| format!("`{}`", run.name)).collect();
        names.join("; ")
    }
}

/// The results of one run.
#[derive(Debug)]
pub(super) struct RunResults {
    /// The name of the run: the variant's, or the directory's.
    pub(super) name: String,
    /// Label by axis.
    pub(super) parts: BTreeMap<String, String>,
    /// summary.json.
    pub(super) summary: Value,
    path: PathBuf,
    /// The lines of flows.jsonl, once they have been read.
    flows: OnceCell<Vec<Flow>>,
}

/// Digits of a hash that distinguish files.
const HASH_SHOWN: usize = 12;

/// One line of flows.jsonl, as far as it is drawn.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub(super) struct Flow {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) size: u64,
    pub(super) start_us: Option<f64>,
    /// When its last byte was at the receiver.
    pub(super) delivered_us: Option<f64>,
    pub(super) fct_us: Option<f64>,
    /// The completion time that the flow would have alone; `None` in files of older programs.
    pub(super) alone_us: Option<f64>,
    /// Whether the flow is between datacentres, where there are two.
    pub(super) inter: Option<bool>,
}

/// One line of series.jsonl.
#[derive(Clone, Debug, serde::Deserialize)]
pub(super) struct Sample {
    pub(super) t_us: f64,
    pub(super) goodput_gbps: f64,
    pub(super) queue_max_bytes: f64,
    pub(super) queue_sum_bytes: f64,
    pub(super) trimmed: f64,
    /// The lines of the matrix of the lists below, from 0; empty where they are the first ones.
    #[serde(default)]
    pub(super) flows: Vec<usize>,
    pub(super) cwnd_bytes: Vec<Option<f64>>,
    pub(super) delivered_bytes: Vec<f64>,
    #[serde(default)]
    pub(super) dci_queue_bytes: Vec<Option<f64>>,
    #[serde(default)]
    pub(super) dci_rate_gbps: Vec<Option<f64>>,
    #[serde(default)]
    pub(super) rate_gbps: Vec<Option<f64>>,
}

/// The results in all of `dirs`: one for each scenario, and one called `runs` for all single runs.
pub(super) fn all(dirs: &[PathBuf]) -> Result<Vec<Results>, InputError> {
    let (mut all, mut single) = (Vec::new(), Vec::new());
    for (at, dir) in dirs.iter().enumerate() {
        if dirs[..at].contains(dir) {
            let name = dir.display().to_string();
            let error = InputError::new("the same results a second time", "each directory once");
            return Err(error.at(&name, 0, 0));
        }
        match dir.join(FILE).exists() {
            true => all.push(of_sweep(dir)?),
            false => single.push(of_run(dir)?),
        }
    }
    distinguish(&mut single);
    if !single.is_empty() {
        let variant =
            |run: &RunResults| Variant { name: run.name.clone(), parts: run.parts.clone() };
        let head = SweepDir {
            schema: 1,
            name: "runs".to_owned(),
            about: about(&single),
            figure: Figure::default(),
            variants: single.iter().map(variant).collect(),
            compared: None,
        };
        all.push(valid(single[0].path.clone(), head, single));
    }
    Ok(all)
}

/// Calls runs whose directories have one name by their paths.
fn distinguish(runs: &mut [RunResults]) {
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for run in runs {
        if names.iter().filter(|name| **name == run.name).count() > 1 {
            run.name = run.path.display().to_string();
            run.parts = BTreeMap::from([("variant".to_owned(), run.name.clone())]);
        }
    }
}

/// The title of single runs: each kind of them once, or how many there are.
fn about(runs: &[RunResults]) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for kind in runs.iter().map(RunResults::about) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.len() > 3 { format!("{} single runs", runs.len()) } else { kinds.join("; ") }
}

/// The results in one directory.
pub(super) fn one(dir: &Path) -> Result<Results, InputError> {
    let mut all = all(&[dir.to_owned()])?;
    all.pop().ok_or_else(|| nothing(dir))
}

fn of_sweep(dir: &Path) -> Result<Results, InputError> {
    let head: SweepDir = json(&dir.join(FILE))?;
    let mut runs = Vec::new();
    for variant in &head.variants {
        let path = dir.join(&variant.name);
        // Written last: where it is, all is.
        let summary = path.join("summary.json");
        if summary.exists() {
            let (name, parts) = (variant.name.clone(), variant.parts.clone());
            runs.push(RunResults {
                name,
                parts,
                summary: json(&summary)?,
                path,
                flows: OnceCell::new(),
            });
        }
    }
    let missing = head.variants.len() - runs.len();
    if runs.is_empty() {
        Err(nothing(dir))
    } else {
        Ok(Results { missing, ..valid(dir.to_owned(), head, runs) })
    }
}

/// Sets aside the runs whose results are marked invalid.
fn valid(place: PathBuf, head: SweepDir, runs: Vec<RunResults>) -> Results {
    let (runs, invalid): (Vec<RunResults>, Vec<RunResults>) =
        runs.into_iter().partition(RunResults::is_valid);
    Results { place, head, runs, invalid, missing: 0 }
}

fn of_run(dir: &Path) -> Result<RunResults, InputError> {
    let summary = dir.join("summary.json");
    if !summary.exists() {
        return Err(nothing(dir));
    }
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
    let parts = BTreeMap::from([("variant".to_owned(), name.clone())]);
    let flows = OnceCell::new();
    Ok(RunResults { name, parts, summary: json(&summary)?, path: dir.to_owned(), flows })
}

fn nothing(dir: &Path) -> InputError {
    InputError::new("no results", "a directory that `headrace run --out DIR` has written").at(
        &dir.display().to_string(),
        0,
        0,
    )
}

impl RunResults {
    /// Whether its results are valid: the polls of a run in real time were not too late.
    pub(super) fn is_valid(&self) -> bool {
        self.summary.pointer("/lateness/valid") != Some(&Value::Bool(false))
    }

    /// The subject of the run, in words.
    fn about(&self) -> String {
        let word = |path: &str| self.summary.pointer(path).and_then(Value::as_str);
        let of = [("", "/provenance/matrix"), (" on ", "/provenance/topology")];
        // Of a path its last part: where a file lies is no part of a title.
        let last = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
        let of = of.map(|(before, path)| word(path).map(|text| format!("{before}{}", last(text))));
        let of: String = of.into_iter().flatten().collect();
        let transport = word("/transport").map(|name| format!("{name}: ")).unwrap_or_default();
        format!("{transport}{}", if of.is_empty() { &self.name } else { &of })
    }

    /// Every setting and input of the run by its name, from manifest.json; empty without one.
    pub(super) fn inputs(&self) -> Result<BTreeMap<String, String>, InputError> {
        let Some(manifest) = self.manifest()? else { return Ok(BTreeMap::new()) };
        let settings = manifest.configuration.into_iter().map(|set| (set.key, set.value));
        let file = |input: Input| {
            let hash: String = input.sha256.chars().take(HASH_SHOWN).collect();
            (input.role.into_owned(), format!("{} bytes, SHA-256 {hash}", input.bytes))
        };
        let version = [("version".to_owned(), manifest.version)];
        let files = manifest.inputs.into_iter().map(file);
        let mut all = joined(settings);
        all.extend(joined(files));
        all.extend(version);
        Ok(all)
    }

    /// A number of the summary: `fct_us.max`.
    pub(super) fn measure(&self, path: &str) -> Option<f64> {
        measure(&self.summary, path)
    }

    /// All flows, or those inside datacentres or between them, as `measure` says.
    pub(super) fn flows(&self, measure: &str) -> Result<Vec<&Flow>, InputError> {
        if self.flows.get().is_none() {
            let mut flows = Vec::new();
            let path = self.path.join("flows.jsonl");
            each_line(&path, |flow| flows.push(flow))?;
            self.check_complete(&path, flows.len())?;
            // Nothing else sets it.
            let _ = self.flows.set(flows);
        }
        let wanted = |flow: &&Flow| match measure {
            "fct_intra_us" => flow.inter == Some(false),
            "fct_inter_us" => flow.inter == Some(true),
            _ => true,
        };
        Ok(self.flows.get().into_iter().flatten().filter(wanted).collect())
    }

    /// Checks that flows.jsonl, at `path`, has a line for each flow of the summary: a copy of
    /// results may have broken off.
    fn check_complete(&self, path: &Path, lines: usize) -> Result<(), InputError> {
        let total = self.summary.pointer("/flows/total").and_then(Value::as_u64);
        let Some(total) = total.filter(|total| *total != lines as u64) else { return Ok(()) };
        let expected = format!("{total}, one for each flow of summary.json beside it");
        let error = InputError::new(format!("{lines} lines"), expected);
        let help = "copy the directory again, or run it again";
        Err(error.at(&path.display().to_string(), 0, 0).help(help))
    }

    /// The completion times of the flows of a measure that finished, ascending, and how many there
    /// are of both kinds.
    pub(super) fn fcts(&self, measure: &str) -> Result<(Vec<f64>, usize), InputError> {
        let flows = self.flows(measure)?;
        let mut times: Vec<f64> = flows.iter().filter_map(|flow| flow.fct_us).collect();
        times.sort_by(f64::total_cmp);
        Ok((times, flows.len()))
    }

    /// The network, as a `.topo` file; `None` of older programs.
    pub(super) fn network(&self) -> Result<Option<String>, InputError> {
        Ok(self.manifest()?.and_then(|manifest| manifest.network))
    }

    /// manifest.json; `None` where there is none.
    fn manifest(&self) -> Result<Option<Recorded>, InputError> {
        let path = self.path.join("manifest.json");
        path.exists().then(|| json(&path)).transpose()
    }

    /// Passes each sample on.
    pub(super) fn samples(&self, take: impl FnMut(Sample)) -> Result<(), InputError> {
        each_line(&self.series()?, take)
    }

    /// The lines of the matrix that samples show one by one, from 0; none without samples.
    pub(super) fn sampled_flows(&self) -> Result<Vec<usize>, InputError> {
        let path = self.series()?;
        let first = lines_of(&path)?.next().transpose();
        let first = first.map_err(|error| InputError::io(&path.display().to_string(), &error))?;
        let Some(line) = first else { return Ok(Vec::new()) };
        let sample: Sample =
            serde_json::from_str(&line).map_err(|error| wrong(&path, 1, &error))?;
        match sample.flows.is_empty() {
            true => Ok((0..sample.delivered_bytes.len()).collect()),
            false => Ok(sample.flows),
        }
    }

    /// The file of samples.
    fn series(&self) -> Result<PathBuf, InputError> {
        let path = self.path.join("series.jsonl");
        if path.exists() {
            return Ok(path);
        }
        let error = InputError::new("no series", "a run that was sampled");
        let error = error.help("run it with --set sampling.interval=1us");
        Err(error.at(&path.display().to_string(), 0, 0))
    }
}

/// The number at `path` of a summary, with dots between keys.
pub(super) fn measure(summary: &Value, path: &str) -> Option<f64> {
    path.split('.').try_fold(summary, |value, key| value.get(key)).and_then(Value::as_f64)
}

/// A file of JSON.
pub(super) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, InputError> {
    serde_json::from_str(&text(path)?).map_err(|error| wrong(path, 0, &error))
}

/// Passes the value of each line of a file on, one at a time: the file may be large.
fn each_line<T: DeserializeOwned>(path: &Path, mut take: impl FnMut(T)) -> Result<(), InputError> {
    for (at, line) in (1..).zip(lines_of(path)?) {
        let line = line.map_err(|error| InputError::io(&path.display().to_string(), &error))?;
        take(serde_json::from_str(&line).map_err(|error| wrong(path, at, &error))?);
    }
    Ok(())
}

fn lines_of(path: &Path) -> Result<Lines<BufReader<File>>, InputError> {
    let file = File::open(path);
    let file = file.map_err(|error| InputError::io(&path.display().to_string(), &error))?;
    Ok(BufReader::new(file).lines())
}

fn text(path: &Path) -> Result<String, InputError> {
    let name = path.display().to_string();
    fs::read_to_string(path).map_err(|error| InputError::io(&name, &error))
}

fn wrong(path: &Path, line: u32, error: &serde_json::Error) -> InputError {
    let line = if line == 0 { u32::try_from(error.line()).unwrap_or(0) } else { line };
    let column = u32::try_from(error.column()).unwrap_or(0);
    InputError::new(format!("something else ({error})"), "what `headrace run --out` writes").at(
        &path.display().to_string(),
        line,
        column,
    )
}
