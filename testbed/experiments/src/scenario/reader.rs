//! Reads what one run is from a table: the traffic, the network, the policies, the settings and the
//! faults.

use std::path::Path;

use transport::Duration;

use super::fault::{FaultParts, FaultSpec};
use super::{Setting, Setup, TopologySource, Traffic};
use crate::input::number;
use crate::input::table::Table;
use crate::input::{InputError, Located};
use crate::series::INTERVAL_MIN;
use crate::workload::matrix::HOSTS_MAX;
use crate::workload::{self, Params};

/// Keys that may stand at the top or in `[scenario]`, and in a variant.
pub(super) const COMMON: [&str; 9] =
    ["world", "matrix", "topology", "transport", "cc", "lb", "ec", "trim", "seed"];
/// Tables of a run.
pub(super) const TABLES: [&str; 4] = ["workload", "set", "fault", "sampling"];
const FAULT_KEYS: [&str; 9] =
    ["link", "kind", "rate", "burst", "block", "delay_us", "from_us", "until_us", "factor"];

pub(super) struct Reader<'d> {
    root: Table<'d>,
    own: Option<Table<'d>>,
    base: &'d Path,
}

impl<'d> Reader<'d> {
    /// A reader of `root`; relative paths start at `base`.
    pub(super) fn new(root: Table<'d>, base: &'d Path) -> Result<Self, InputError> {
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

    fn places(&self) -> Result<[(u32, u32); 2], InputError> {
        let mut places = [(0, 0); 2];
        for (place, key) in places.iter_mut().zip(["matrix", "topology"]) {
            let text = self.holder(key).string(key)?;
            *place = text.map_or((0, 0), |text| (text.line, text.column));
        }
        Ok(places)
    }

    /// A text of `[scenario]` alone.
    pub(super) fn own_text(&self, key: &str) -> Result<Option<String>, InputError> {
        match self.own {
            None => Ok(None),
            Some(own) => Ok(own.string(key)?.map(|text| text.value)),
        }
    }

    /// The run; `file` is what errors call the source.
    pub(super) fn setup(&self, file: &str) -> Result<Setup, InputError> {
        let policy = |key| self.holder(key).string(key);
        let topology = self.holder("topology");
        let topology = match topology.string("topology")? {
            None => None,
            Some(text) => Some(
                TopologySource::parse(&text.value, self.base)
                    .map_err(|error| topology.error("topology", error))?,
            ),
        };
        Ok(Setup {
            world: policy("world")?,
            traffic: self.traffic(file)?,
            topology,
            transport: policy("transport")?,
            cc: policy("cc")?,
            lb: policy("lb")?,
            ec: policy("ec")?,
            trim: self.holder("trim").boolean("trim")?,
            seed: self.holder("seed").integer("seed")?.map(|seed| seed.value),
            settings: self.settings()?,
            faults: self.faults()?,
            sampling: self.sampling()?,
            places: self.places()?,
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
                    let count = count.filter(|count| (1..=HOSTS_MAX).contains(count));
                    let (line, column) = (value.line, value.column);
                    nodes = count.map(|value| Located { value, line, column });
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

    fn faults(&self) -> Result<Vec<Located<FaultSpec>>, InputError> {
        let mut faults = Vec::new();
        for table in self.root.tables("fault", "[[fault]]")? {
            table.expect_only(&FAULT_KEYS)?;
            let text = |key| table.text(key).map(|text| text.map(|text| text.value));
            let kind = table.text("kind")?.unwrap_or_default();
            let place = table.text("link")?.unwrap_or_else(|| kind.clone());
            let (rate, factor, links) = (text("rate")?, text("factor")?, text("link")?);
            let (burst, block, delay_us) = (text("burst")?, text("block")?, text("delay_us")?);
            let (from_us, until_us) = (text("from_us")?, text("until_us")?);
            let parts = FaultParts {
                kind: &kind.value,
                rate: rate.as_deref(),
                factor: factor.as_deref(),
                links: links.as_deref(),
                burst: burst.as_deref(),
                block: block.as_deref(),
                delay_us: delay_us.as_deref(),
                from_us: from_us.as_deref(),
                until_us: until_us.as_deref(),
            };
            let value = parts.build().map_err(|(key, error)| table.error(key, error))?;
            faults.push(Located { value, line: place.line, column: place.column });
        }
        Ok(faults)
    }

    fn sampling(&self) -> Result<Option<Located<Duration>>, InputError> {
        let Some(table) = self.root.table("sampling", "[sampling]")? else { return Ok(None) };
        table.expect_only(&["interval_us"])?;
        let Located { value: text, line, column } = table.text("interval_us")?.unwrap_or_default();
        let interval = number::decimal(text.as_bytes(), 6).ok().map(Duration::from_ps);
        let interval = interval.filter(|interval| *interval >= INTERVAL_MIN);
        interval.map(|value| Some(Located { value, line, column })).ok_or_else(|| {
            let expected = "at least 0.01, which is 10 ns";
            let error = InputError::new(format!("interval_us = `{text}`"), expected);
            table.error("interval_us", error.help("write microseconds, like interval_us = 10"))
        })
    }
}
