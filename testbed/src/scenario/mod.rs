//! Scenarios: one TOML file that names the traffic, the network, the policies, the settings and the
//! faults of a run.
//!
//! ```toml
//! matrix = "incast.cm"            # or [workload] kind = "incast" with its parameters
//! topology = "ft128-1os"          # a built-in name, or a path that ends in .topo
//! transport = "smartt"            # and cc, lb, ec = "8,2" | "off", trim = true, seed = 1
//! [scenario]                      # name, about; the keys above may stand here as well
//! [set]                           # KEY = VALUE, dotted keys, as the command line's --set
//! [[fault]]                       # kind, link, rate, burst, delay_us, factor, from_us, until_us
//! [sampling]                      # interval_us
//! ```
//!
//! Reading is strict: an unknown key is an error with the nearest known one, and every error has
//! its line and column. Paths are relative to the scenario's file. Names of policies and settings
//! are kept with their places for those who know them; topologies, workloads and faults are checked
//! here.

pub mod fault;
mod table;

use std::path::{Path, PathBuf};

use transport::{Duration, Rng};

pub use fault::{FaultKind, FaultSpec, LinkSelector, Ports};

use self::fault::FaultParts;
use self::table::{Document, Table};
use crate::input::number;
use crate::input::{InputError, Located, Warning};
use crate::topology::{self, FatTreeSpec, topo_file};
use crate::workload::cm::{self, StartUnit};
use crate::workload::matrix::HOSTS_MAX;
use crate::workload::{self, Matrix, Params, Workload};

/// A run as a file describes it. What the file does not say is `None` and left to the command
/// line's defaults.
#[derive(Debug)]
pub struct Scenario {
    /// Its name; the file's name without the ending when it has none.
    pub name: String,
    /// What it shows, for lists; may be empty.
    pub about: String,
    /// Where the traffic comes from.
    pub traffic: Traffic,
    /// The network.
    pub topology: Option<TopologySource>,
    /// Preset of policies.
    pub transport: Option<Located<String>>,
    /// Congestion control.
    pub cc: Option<Located<String>>,
    /// Load balancer.
    pub lb: Option<Located<String>>,
    /// Erasure code: `X,Y` or `off`.
    pub ec: Option<Located<String>>,
    /// Whether switches trim.
    pub trim: Option<bool>,
    /// Root of all chance.
    pub seed: Option<u64>,
    /// Settings by dotted key, in the order of the file.
    pub settings: Vec<Setting>,
    /// Faults in the order of the file.
    pub faults: Vec<FaultSpec>,
    /// Time between samples of the series, above zero.
    pub sampling: Option<Duration>,
}

/// Where the traffic of a run comes from.
#[derive(Debug)]
pub enum Traffic {
    /// A `.cm` file.
    File(PathBuf),
    /// A generator.
    Workload {
        /// Its name.
        kind: String,
        /// The number of hosts it is made for; the topology's when the file names none.
        nodes: Option<u32>,
        /// The generator with its parameters.
        workload: Box<dyn Workload>,
    },
}

/// Where the network of a run comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologySource {
    /// A `.topo` file.
    File(PathBuf),
    /// A built-in network; the name is known and its parameters are sound.
    Builtin(String),
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
        let io = |error| InputError::io(&name, &error);
        let file = std::fs::File::open(path).map_err(io)?;
        let mut bytes = Vec::new();
        let limit = BYTES_MAX as u64 + 1;
        std::io::Read::read_to_end(&mut std::io::Read::take(file, limit), &mut bytes)
            .map_err(io)?;
        Self::read(&bytes, &name, path.parent().unwrap_or(Path::new(".")))
    }

    /// Reads a scenario; `name` is what errors call it, relative paths start at `base`. Files that
    /// it names are not opened, but for size distributions.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and column.
    pub fn read(bytes: &[u8], name: &str, base: &Path) -> Result<Self, InputError> {
        if bytes.len() > BYTES_MAX {
            let expected = format!("a scenario of at most {BYTES_MAX} bytes");
            return Err(InputError::new("a longer file", expected).at(name, 1, 0));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let lines = before.iter().filter(|&&byte| byte == b'\n').count();
            let line = u32::try_from(lines + 1).unwrap_or(u32::MAX);
            InputError::new("bytes that are not UTF-8", "text in UTF-8").at(name, line, 0)
        })?;
        let document = Document::new(name, text);
        let parsed = document.parse()?;
        let root = Table::root(&document, &parsed);
        root.expect_only(&[&COMMON[..], &TABLES[..]].concat())?;
        let stem = Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Reader::new(root, base)?.scenario(name, stem.unwrap_or_default())
    }
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
            Self::Workload { nodes: own, workload, .. } => {
                let matrix = workload.generate(own.unwrap_or(nodes), rng)?;
                Ok((matrix, Vec::new()))
            }
        }
    }
}

impl TopologySource {
    /// What `text` names: a path when it ends in `.topo`, else a built-in network.
    ///
    /// # Errors
    /// When it is neither, with the nearest name and without a place.
    pub fn parse(text: &str, base: &Path) -> Result<Self, InputError> {
        let path = Path::new(text);
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("topo")) {
            return Ok(Self::File(base.join(path)));
        }
        topology::by_name(text).map(|_| Self::Builtin(text.to_owned()))
    }

    /// The network itself.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong.
    pub fn load(&self) -> Result<FatTreeSpec, InputError> {
        match self {
            Self::File(path) => topo_file::read_path(path),
            Self::Builtin(name) => topology::by_name(name),
        }
    }
}

/// No scenario is a megabyte long.
const BYTES_MAX: usize = 1 << 20;

/// Keys that may stand at the top or in `[scenario]`.
const COMMON: [&str; 8] = ["matrix", "topology", "transport", "cc", "lb", "ec", "trim", "seed"];
const TABLES: [&str; 5] = ["scenario", "workload", "set", "fault", "sampling"];
const FAULT_KEYS: [&str; 8] =
    ["link", "kind", "rate", "burst", "delay_us", "from_us", "until_us", "factor"];

struct Reader<'d> {
    root: Table<'d>,
    own: Option<Table<'d>>,
    base: &'d Path,
}

impl<'d> Reader<'d> {
    fn new(root: Table<'d>, base: &'d Path) -> Result<Self, InputError> {
        let own = root.table("scenario", "[scenario]")?;
        if let Some(own) = own {
            own.expect_only(&[&["name", "about"], &COMMON[..]].concat())?;
            if let Some(key) = COMMON.into_iter().find(|key| own.has(key) && root.has(key)) {
                let found = format!("`{key}` at the top and in [scenario]");
                return Err(own.error(key, InputError::new(found, "it in one place")));
            }
        }
        Ok(Self { root, own, base })
    }

    /// The table in which a common key stands.
    fn holder(&self, key: &str) -> Table<'d> {
        self.own.filter(|own| own.has(key)).unwrap_or(self.root)
    }

    fn scenario(&self, file: &str, stem: String) -> Result<Scenario, InputError> {
        let own_text = |key| match self.own {
            None => Ok(None),
            Some(own) => own.string(key),
        };
        let policy = |key| self.holder(key).string(key);
        let topology = self.holder("topology");
        let topology = match topology.string("topology")? {
            None => None,
            Some(text) => Some(
                TopologySource::parse(&text.value, self.base)
                    .map_err(|error| topology.error("topology", error))?,
            ),
        };
        Ok(Scenario {
            name: own_text("name")?.map_or(stem, |name| name.value),
            about: own_text("about")?.unwrap_or_default().value,
            traffic: self.traffic(file)?,
            topology,
            transport: policy("transport")?,
            cc: policy("cc")?,
            lb: policy("lb")?,
            ec: policy("ec")?,
            trim: self.holder("trim").boolean("trim")?.map(|trim| trim.value),
            seed: self.holder("seed").integer("seed")?.map(|seed| seed.value),
            settings: self.settings()?,
            faults: self.faults()?,
            sampling: self.sampling()?,
        })
    }

    fn traffic(&self, file: &str) -> Result<Traffic, InputError> {
        let holder = self.holder("matrix");
        let matrix = holder.string("matrix")?;
        match (matrix, self.root.table("workload", "[workload]")?) {
            (Some(path), None) => Ok(Traffic::File(self.base.join(path.value))),
            (None, Some(table)) => self.workload(file, table),
            (Some(_), Some(_)) => {
                let error = InputError::new("`matrix` and [workload]", "one of the two");
                Err(holder.error("matrix", error.help("remove one; each is all of the traffic")))
            }
            (None, None) => {
                let error = InputError::new("no traffic", "`matrix = \"FILE.cm\"` or [workload]");
                Err(self.root.error("matrix", error))
            }
        }
    }

    fn workload(&self, file: &str, table: Table<'d>) -> Result<Traffic, InputError> {
        let Some(kind) = table.string("kind")? else {
            let error = InputError::new("a [workload] without `kind`", "the name of a workload");
            return Err(table.error("kind", error.help(workload::NAMES.join(", "))));
        };
        let mut params = Params::new(file, self.base);
        let mut nodes = None;
        for (key, value) in table.flat()? {
            match key.as_str() {
                "kind" => {}
                "nodes" => {
                    let count = number::integer(value.value.as_bytes()).ok();
                    let count = count.and_then(|count| u32::try_from(count).ok());
                    nodes = count.filter(|count| (1..=HOSTS_MAX).contains(count));
                    if nodes.is_none() {
                        let expected = format!("a number of hosts in 1..={HOSTS_MAX}");
                        let error = InputError::new(format!("nodes = {}", value.value), expected);
                        return Err(table.error("nodes", error));
                    }
                }
                _ => params.push(&key, &value.value, value.line, value.column),
            }
        }
        let workload = workload::by_name(&kind.value, &params).map_err(|error| {
            if error.line == 0 && error.file == file { table.error("kind", error) } else { error }
        })?;
        Ok(Traffic::Workload { kind: kind.value, nodes, workload })
    }

    fn settings(&self) -> Result<Vec<Setting>, InputError> {
        let Some(table) = self.root.table("set", "[set]")? else { return Ok(Vec::new()) };
        let settings = table.flat()?.into_iter();
        Ok(settings.map(|(key, value)| Setting { key, value }).collect())
    }

    fn faults(&self) -> Result<Vec<FaultSpec>, InputError> {
        let mut faults = Vec::new();
        for table in self.root.tables("fault", "[[fault]]")? {
            table.expect_only(&FAULT_KEYS)?;
            let text = |key| table.text(key).map(|text| text.map(|text| text.value));
            let kind = text("kind")?.unwrap_or_default();
            let (rate, factor, links) = (text("rate")?, text("factor")?, text("link")?);
            let (burst, delay_us) = (text("burst")?, text("delay_us")?);
            let (from_us, until_us) = (text("from_us")?, text("until_us")?);
            let parts = FaultParts {
                kind: &kind,
                rate: rate.as_deref(),
                factor: factor.as_deref(),
                links: links.as_deref(),
                burst: burst.as_deref(),
                delay_us: delay_us.as_deref(),
                from_us: from_us.as_deref(),
                until_us: until_us.as_deref(),
            };
            faults.push(parts.build().map_err(|(key, error)| table.error(key, error))?);
        }
        Ok(faults)
    }

    fn sampling(&self) -> Result<Option<Duration>, InputError> {
        let Some(table) = self.root.table("sampling", "[sampling]")? else { return Ok(None) };
        table.expect_only(&["interval_us"])?;
        let text = table.text("interval_us")?.map(|text| text.value).unwrap_or_default();
        let interval = number::decimal(text.as_bytes(), 6).ok().filter(|&ps| ps > 0);
        interval.map(|ps| Some(Duration::from_ps(ps))).ok_or_else(|| {
            let error = InputError::new(format!("interval_us = `{text}`"), "a time above zero");
            table.error("interval_us", error.help("write microseconds, like interval_us = 10"))
        })
    }
}

#[cfg(test)]
mod tests;
