//! Scenarios: one TOML file that names the traffic, the network, the policies, the settings and the
//! faults of a run.
//!
//! ```toml
//! matrix = "incast.cm"            # or [workload] kind = "incast" with its parameters
//! topology = "ft128-1os"          # a built-in name, or a path that ends in .topo
//! transport = "smartt"            # and cc, lb, ec = "8,2" | "auto" | "off", trim = true, seed = 1
//! [scenario]                      # name, about; the keys above may stand here as well
//! [set]                           # KEY = VALUE, dotted keys, as the command line's --set
//! [[fault]]                       # kind, link, rate, burst, delay_us, factor, from_us, until_us
//! [sampling]                      # interval_us
//!
//! [[variant]]                     # what is compared: a name, and any of the keys and tables above
//! name = "no-trimming"
//! trim = false
//! [grid]                          # arrays of values; every combination runs, with every variant
//! workload.size = ["64KiB", "1MiB"]
//! [figure]                        # of = "smartt fig. 7", claim = "what the paper says it shows"
//! [[plot]]                        # kind, y, x, panel, flows, from_us, until_us
//! ```
//!
//! A variant's keys replace those above it. Its `[workload]` and `[set]` are laid over the upper
//! ones key by key; a workload of another `kind` replaces the whole table. Its faults are added. A
//! grid's combination is laid over the variant in the same way.
//!
//! Reading is strict: an unknown key is an error with the nearest known one, and every error has
//! its line and column. Paths are relative to the scenario's file. Names of policies and settings
//! are kept with their places for later checks; topologies, workloads and faults are checked here.

pub mod fault;
pub mod figure;
mod reader;
mod variants;

use std::fmt;
use std::path::{Path, PathBuf};

use transport::{Duration, Rng};

pub use fault::{FaultKind, FaultSpec};
pub use figure::{Figure, Plot, PlotKind};
pub use variants::{RUNS_MAX, VARIANT};

use self::reader::{COMMON, Reader, TABLES};
use crate::input::table::{Document, Table, bytes_of, text_of};
use crate::input::{InputError, Located, Warning};
use crate::topology::{self, FatTreeSpec, topo_file};
use crate::workload::cm::{self, StartUnit};
use crate::workload::{Matrix, Workload};

/// The content of a scenario file: one run, or variants of one to compare.
#[derive(Debug)]
pub struct Scenario {
    /// The scenario's name; the file's name without the ending when it has none.
    pub name: String,
    /// One sentence for lists; may be empty.
    pub about: String,
    /// How the scenario's results are drawn, and the claims that they are compared with.
    pub figure: Figure,
    /// The runs, in the order of the file: one with an empty name, or the variants.
    pub runs: Vec<Run>,
}

/// One run of a scenario.
#[derive(Debug)]
pub struct Run {
    /// The parts joined by commas, unique in the scenario and fit for a file's name; empty for the
    /// only run of a scenario without variants.
    pub name: String,
    /// The run's place on each axis of the scenario.
    pub parts: Vec<AxisPoint>,
    /// The run itself.
    pub setup: Setup,
}

/// A place on an axis: which variant, or which value of a grid's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisPoint {
    /// `variant`, or the last word of a grid's key.
    pub axis: String,
    /// Letters, digits and `._+-`.
    pub label: String,
}

/// A run as a file describes it. A field that the file leaves out is `None`, and the command line's
/// default applies.
#[derive(Debug)]
pub struct Setup {
    /// The world of the run unless the command line says otherwise.
    pub world: Option<Located<String>>,
    /// The source of the traffic.
    pub traffic: Traffic,
    /// The network.
    pub topology: Option<TopologySource>,
    /// Preset of policies.
    pub transport: Option<Located<String>>,
    /// Congestion control.
    pub cc: Option<Located<String>>,
    /// Load balancer.
    pub lb: Option<Located<String>>,
    /// Erasure code: `X,Y`, `auto` or `off`.
    pub ec: Option<Located<String>>,
    /// Whether switches trim.
    pub trim: Option<Located<bool>>,
    /// Root of all chance.
    pub seed: Option<u64>,
    /// Settings by dotted key, in the order of the file.
    pub settings: Vec<Setting>,
    /// Faults in the order of the file.
    pub faults: Vec<Located<FaultSpec>>,
    /// Time between samples of the series, 10 ns at least.
    pub sampling: Option<Located<Duration>>,
    /// The lines and columns of `matrix` and `topology`; 0 where the file has none.
    pub places: [(u32, u32); 2],
}

/// The source of a run's traffic.
#[derive(Debug)]
pub enum Traffic {
    /// A `.cm` file.
    File(PathBuf),
    /// A `.cm` file inside the program.
    Inside(Inside),
    /// A generator.
    Workload {
        /// The name of the generator.
        kind: String,
        /// The number of hosts it is made for; the topology's when the file names none.
        nodes: Option<Located<u32>>,
        /// The generator with its parameters.
        workload: Box<dyn Workload>,
    },
}

/// The source of a run's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologySource {
    /// A `.topo` file.
    File(PathBuf),
    /// A `.topo` file inside the program.
    Inside(Inside),
    /// A built-in network; the name is known and its parameters are sound.
    Builtin(String),
}

/// A file that comes inside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The name of the file, without a folder.
    pub name: &'static str,
    /// The content of the file.
    pub text: &'static str,
}

/// One `KEY = VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key, parts joined by dots.
    pub key: String,
    /// The value as text, and its place.
    pub value: Located<String>,
}

impl Scenario {
    /// Reads the scenario in the file at `path`.
    ///
    /// # Errors
    /// As [`Scenario::read`], and when the file cannot be read.
    pub fn read_path(path: &Path) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let bytes = bytes_of(path, BYTES_MAX)?;
        Self::read(&bytes, &name, path.parent().unwrap_or(Path::new(".")))
    }

    /// Reads a scenario; `name` is what errors call it, relative paths start at `base`. Files that
    /// it names are not opened, but for size distributions.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and column.
    pub fn read(bytes: &[u8], name: &str, base: &Path) -> Result<Self, InputError> {
        let text = text_of(bytes, name, ("a scenario", BYTES_MAX))?;
        let document = Document::new(name, text);
        let parsed = document.parse()?;
        let root = Table::root(&document, "a scenario", &parsed);
        root.expect_only(&[&COMMON[..], &TABLES[..], &WHOLE[..]].concat())?;
        let head = Reader::new(root, base)?;
        let stem = Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let cells = variants::cells(root)?;
        let axes = variants::axes(&cells);
        let has = |value: &str| {
            cells.iter().any(|cell| cell.parts.iter().any(|part| part.label == value))
        };
        let figure = figure::read(root, &axes, has)?;
        let mut runs = Vec::with_capacity(cells.len());
        for cell in cells {
            let setup = Reader::new(cell.table(root), base)?.setup(name)?;
            runs.push(Run { name: cell.name(), parts: cell.parts, setup });
        }
        Ok(Self {
            name: head.own_text("name")?.or(stem).unwrap_or_default(),
            about: head.own_text("about")?.unwrap_or_default(),
            figure,
            runs,
        })
    }

    /// The scenario with `files` in the place of files of their names that it names.
    #[must_use]
    pub fn with_inside(mut self, files: &[Inside]) -> Self {
        let inside = |path: &Path| {
            let is_named = |file: &&Inside| path.file_name().is_some_and(|name| name == file.name);
            files.iter().find(is_named).copied()
        };
        for Run { setup, .. } in &mut self.runs {
            if let Traffic::File(path) = &setup.traffic
                && let Some(file) = inside(path)
            {
                setup.traffic = Traffic::Inside(file);
            }
            if let Some(TopologySource::File(path)) = &setup.topology
                && let Some(file) = inside(path)
            {
                setup.topology = Some(TopologySource::Inside(file));
            }
        }
        self
    }

    /// Whether the scenario has variants. Its results are then a list, even of a single one.
    #[must_use]
    pub fn has_variants(&self) -> bool {
        self.runs.iter().any(|run| !run.parts.is_empty())
    }
}

/// Checks that `name` picks one of the runs that have these parts.
///
/// # Errors
/// When it picks none, with the axes and their values and without a place.
pub fn expect_variant(name: &str, runs: &[Vec<AxisPoint>]) -> Result<(), InputError> {
    match runs.iter().any(|parts| picks(name, parts)) {
        true => Ok(()),
        false => Err(variants::no_such_variant(name, runs)),
    }
}

impl AxisPoint {
    /// The place of `value` on an axis; characters that no file's name should have become `-`.
    #[must_use]
    pub fn new(axis: &str, value: &str) -> Self {
        Self { axis: variants::label(axis), label: variants::label(value) }
    }

    /// Whether this is all of `text`: the label of a variant, or `AXIS=LABEL`.
    fn is(&self, text: &str) -> bool {
        self.to_string() == text
    }
}

/// Writes the place as it stands in the name of a run.
impl fmt::Display for AxisPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.axis.as_str() {
            VARIANT => f.write_str(&self.label),
            axis => write!(f, "{axis}={}", self.label),
        }
    }
}

/// Whether `name` picks a run with these parts: each of its parts, split at commas, is one of them.
#[must_use]
pub fn picks(name: &str, parts: &[AxisPoint]) -> bool {
    name.split(',').all(|wanted| parts.iter().any(|part| part.is(wanted.trim())))
}

impl Traffic {
    /// The matrix: read, or made for `nodes` hosts unless the scenario says how many.
    ///
    /// # Errors
    /// When the file is wrong, or the generator does not fit that many hosts.
    pub fn matrix(
        &self,
        nodes: u32,
        unit: StartUnit,
        rng: &mut Rng,
    ) -> Result<(Matrix, Vec<Warning>), InputError> {
        match self {
            Self::File(path) => cm::read_path(path, unit).map(|file| (file.matrix, file.warnings)),
            Self::Inside(Inside { name, text }) => {
                cm::read(text.as_bytes(), name, unit).map(|file| (file.matrix, file.warnings))
            }
            Self::Workload { nodes: own, workload, .. } => {
                let matrix = workload.generate(own.as_ref().map_or(nodes, |own| own.value), rng)?;
                Ok((matrix, Vec::new()))
            }
        }
    }

    /// Checks that `network` has the capacities that the loads of a generator are shares of.
    ///
    /// # Errors
    /// When the network has less.
    pub fn check(&self, network: &FatTreeSpec) -> Result<(), InputError> {
        match self {
            Self::File(_) | Self::Inside(_) => Ok(()),
            Self::Workload { nodes, workload, .. } => {
                let nodes = nodes.as_ref().map_or(network.nodes, |nodes| nodes.value);
                workload.check(nodes, &network.capacities())
            }
        }
    }
}

impl Setup {
    /// A run with this traffic, and the defaults for all else.
    #[must_use]
    pub const fn of(traffic: Traffic) -> Self {
        Self {
            world: None,
            traffic,
            topology: None,
            transport: None,
            cc: None,
            lb: None,
            ec: None,
            trim: None,
            seed: None,
            settings: Vec::new(),
            faults: Vec::new(),
            sampling: None,
            places: [(0, 0); 2],
        }
    }

    /// Checks that the files which it names are there: the matrix, and the network where the run
    /// `has_topology` from here. `scenario` is the file of the scenario.
    ///
    /// # Errors
    /// Names the file that is missing, with the line that asks for it.
    pub fn expect_files(&self, scenario: &str, has_topology: bool) -> Result<(), InputError> {
        let matrix = if let Traffic::File(path) = &self.traffic { Some(path) } else { None };
        let topology = match &self.topology {
            Some(TopologySource::File(path)) if has_topology => Some(path),
            _ => None,
        };
        let named = [("matrix", matrix), ("topology", topology)].into_iter().zip(self.places);
        for ((key, path), (line, column)) in named {
            if let Some((path, Err(error))) = path.map(|path| (path, path.metadata())) {
                let found = format!("{key} = {} ({error})", path.display());
                let error = InputError::new(found, "a file that can be read");
                let help = "relative paths start at the folder of the scenario";
                return Err(error.at(scenario, line, column).help(help));
            }
        }
        Ok(())
    }
}

/// Writes the network as a user names it.
impl fmt::Display for TopologySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Inside(file) => f.write_str(file.name),
            Self::Builtin(name) => f.write_str(name),
        }
    }
}

impl TopologySource {
    /// The network that `text` names: a path when it ends in `.topo` or names a folder, else a
    /// built-in network, else a file of any other name.
    ///
    /// # Errors
    /// When it is neither, with the nearest name and without a place.
    pub fn parse(text: &str, base: &Path) -> Result<Self, InputError> {
        let path = Path::new(text);
        let ends = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("topo"));
        if ends || path.components().count() > 1 {
            return Ok(Self::File(base.join(path)));
        }
        match topology::by_name(text) {
            Ok(_) => Ok(Self::Builtin(text.to_owned())),
            Err(_) if base.join(path).is_file() => Ok(Self::File(base.join(path))),
            Err(error) => Err(error),
        }
    }

    /// The network itself.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong.
    pub fn load(&self) -> Result<FatTreeSpec, InputError> {
        match self {
            Self::File(path) => topo_file::read_path(path),
            Self::Inside(Inside { name, text }) => topo_file::read(text.as_bytes(), name),
            Self::Builtin(name) => topology::by_name(name),
        }
    }
}

/// No scenario is a megabyte long.
const BYTES_MAX: usize = 1 << 20;

/// Keys that concern a scenario as a whole.
const WHOLE: [&str; 5] = ["scenario", "variant", "grid", "figure", "plot"];

#[cfg(test)]
mod tests;
