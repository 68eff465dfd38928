//! How the results of a scenario are drawn, and the claims that they are compared with.
//!
//! Plain data for drawing: which measure goes where. It reads no results.

use serde::{Deserialize, Serialize};

use super::variants::no_such_axis;
use crate::flow_set::SET_MAX;
use crate::input::table::Table;
use crate::input::{InputError, did_you_mean, number};

/// A figure: of what, and its plots from top to bottom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The source, such as `smartt fig. 7`; may be empty.
    pub of: String,
    /// The claim of the source; may be empty.
    pub claim: String,
    /// The plots of the figure; a plot that fits the runs is chosen when there are none.
    pub plots: Vec<Plot>,
}

/// One plot: a panel, or one for each value of an axis side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// The form of the plot.
    pub kind: PlotKind,
    /// The measure that is shown: one of [`PlotKind::measures`].
    pub y: String,
    /// A second measure that is drawn beside the first, such as what a theory says: for bars and
    /// lines.
    #[serde(default)]
    pub beside: Option<String>,
    /// The axis of the scenario along x, for bars, lines and violins.
    pub x: Option<String>,
    /// The axis of the scenario that has a panel for each value.
    pub panel: Option<String>,
    /// The variant or the value of an axis whose runs are not drawn, since all others would be too
    /// small beside them. Tables have them.
    #[serde(default)]
    pub without: Option<String>,
    /// For measures of single flows: how many of the sampled flows are shown, from 1; by default
    /// the first ones of the matrix are sampled.
    pub flows: usize,
    /// For series and distributions: nothing below this time is shown, microseconds.
    pub from_us: f64,
    /// For series and distributions: nothing above this time is shown, microseconds.
    pub until_us: Option<f64>,
}

/// The form of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlotKind {
    /// The distribution of a measure over flows.
    Cdf,
    /// A measure of each run, grouped along an axis.
    Bars,
    /// A measure of each run as a line along the axis.
    Lines,
    /// A measure over time.
    Series,
    /// The distribution of a measure over flows for each value of an axis, side by side; runs that
    /// differ in anything else (seeds) are one.
    Violin,
    /// The median and the 99th percentile of a measure of flows by their size, a panel each.
    Sizes,
}

impl Plot {
    /// A plot of that kind with its default measure, along the axis `x` where it needs one.
    #[must_use]
    pub fn of(kind: PlotKind, x: Option<String>) -> Self {
        let y = kind.measures()[0].to_owned();
        let (panel, without) = (None, None);
        let (beside, flows, from_us, until_us) = (None, 1, 0.0, None);
        Self { kind, y, beside, x, panel, without, flows, from_us, until_us }
    }
}

impl Figure {
    /// How runs along these axes are drawn where no scenario says so. There are four plots: the
    /// slowdown by the value of the first axis; the distribution of completion times by that value,
    /// and for each combination of all axes; and slowdowns by size. Runs that differ in `chance`
    /// alone are one.
    #[must_use]
    pub fn of_axes(axes: &[String], chance: &str) -> Self {
        let Some(x) = axes.iter().find(|axis| *axis != chance) else { return Self::default() };
        let kinds = [PlotKind::Bars, PlotKind::Violin, PlotKind::Cdf, PlotKind::Sizes];
        let plot = |kind: PlotKind| Plot::of(kind, Some(x.clone()).filter(|_| kind.is_by_axis()));
        let plots = kinds.map(plot).into();
        Self { plots, ..Self::default() }
    }
}

impl PlotKind {
    /// The kinds by name.
    pub const NAMES: [&'static str; 6] = ["cdf", "bars", "lines", "series", "violin", "sizes"];
    const ALL: [Self; 6] =
        [Self::Cdf, Self::Bars, Self::Lines, Self::Series, Self::Violin, Self::Sizes];

    /// The kind of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .zip(Self::NAMES)
            .find(|(_, known)| *known == name)
            .map(|(kind, _)| kind)
    }

    /// The measures that the form can show. The first is the default. Measures of runs are paths
    /// into summary.json; those of series are keys of series.jsonl, or sums and rates of them.
    #[must_use]
    pub const fn measures(self) -> &'static [&'static str] {
        match self {
            Self::Sizes => &["fct_slowdown", "fct_us"],
            Self::Cdf | Self::Violin => &["fct_us", "fct_intra_us", "fct_inter_us"],
            Self::Bars | Self::Lines => &[
                "slowdown",
                "completion_us",
                "fct_us.mean",
                "fct_us.p50",
                "fct_us.p99",
                "fct_us.max",
                "fct_intra_us.mean",
                "fct_intra_us.p99",
                "fct_intra_us.p999",
                "fct_inter_us.mean",
                "fct_inter_us.p99",
                "fct_inter_us.p999",
                "fct_slowdown.mean",
                "fct_slowdown.p99",
                "goodput_gbps",
                "jain",
                "packets.retransmitted",
                "packets.trimmed",
                "packets.dropped",
                "queue_bytes.mean",
                "queue_bytes.p99",
                "queue_bytes.max",
                "collectives.cct_us.mean",
                "collectives.cct_us.max",
                "utilisation",
                "reordered",
                "wire_delay_us.mean",
                "wire_delay_us.p99",
                "dcsim.rtt_max_us",
                "dcsim.sim_rtt_us.max",
                "dcsim.sims.late",
                "dcsim.follow.correlation",
                "dcsim.follow.lag_rtt_max",
                "dcsim.follow.at_papers_lag",
                "dcsim.follow.unshifted",
                "arrivals.host_gbps",
                "arrivals.mice_us.p50",
                "arrivals.mice_us.p99",
                "arrivals.short_us.p50",
                "arrivals.short_us.p99",
                "scheduler.core_cells_max",
                "scheduler.core_bytes_max",
                "scheduler.unscheduled.share",
                "scheduler.unscheduled.share_eq6",
                "scheduler.unscheduled.goodput",
                "scheduler.unscheduled.goodput_eq7",
            ],
            Self::Series => &[
                "goodput_gbps",
                "flow_gbps",
                "flows_jain",
                "cwnd_bytes",
                "cwnd_sum_bytes",
                "queue_max_bytes",
                "queue_sum_bytes",
                "dci_queue_bytes",
                "dci_queue_sum_bytes",
                "dci_rate_gbps",
                "rate_gbps",
                "trimmed",
            ],
        }
    }

    const fn is_by_axis(self) -> bool {
        matches!(self, Self::Bars | Self::Lines | Self::Violin)
    }

    /// Whether times bound the plot: those along x, or those that are distributed.
    const fn has_times(self) -> bool {
        !matches!(self, Self::Bars | Self::Lines | Self::Sizes)
    }
}

/// Reads `[figure]` and `[[plot]]` of a scenario with these axes, whose values `has` finds.
pub(super) fn read(
    root: Table<'_>,
    axes: &[String],
    has: impl Fn(&str) -> bool,
) -> Result<Figure, InputError> {
    let mut figure = Figure::default();
    if let Some(table) = root.table("figure", "[figure]")? {
        table.expect_only(&["of", "claim"])?;
        figure.of = table.string("of")?.unwrap_or_default().value;
        figure.claim = table.string("claim")?.unwrap_or_default().value;
    }
    for table in root.tables("plot", "[[plot]]")? {
        figure.plots.push(plot(table, axes, &has)?);
    }
    Ok(figure)
}

fn plot(table: Table<'_>, axes: &[String], has: impl Fn(&str) -> bool) -> Result<Plot, InputError> {
    let keys = ["kind", "y", "beside", "x", "panel", "without", "flows", "from_us", "until_us"];
    table.expect_only(&keys)?;
    let name = table.string("kind")?.unwrap_or_default().value;
    let kind = PlotKind::by_name(&name).ok_or_else(|| {
        let error = InputError::new(format!("kind `{name}` of plot"), "a kind of plot");
        table.error("kind", error.help(did_you_mean(&name, &PlotKind::NAMES)))
    })?;
    let y = measure(table, "y", kind, &name)?.unwrap_or_else(|| kind.measures()[0].to_owned());
    let beside = measure(table, "beside", kind, &name)?;
    if beside.is_some() && !matches!(kind, PlotKind::Bars | PlotKind::Lines) {
        let error = InputError::new(format!("`beside` in a plot of {name}"), "bars or lines");
        return Err(table.error("beside", error));
    }
    if beside.as_ref() == Some(&y) {
        let error = InputError::new(format!("`beside` of {y}, which is `y`"), "another measure");
        return Err(table.error("beside", error));
    }
    let axis = |key| match table.string(key)? {
        Some(name) if !axes.contains(&name.value) => {
            Err(table.error(key, no_such_axis(&name.value, axes)))
        }
        name => Ok(name.map(|name| name.value)),
    };
    let (x, panel) = (axis("x")?, axis("panel")?);
    if kind.is_by_axis() != x.is_some() {
        let found = if x.is_some() { "`x`" } else { "no `x`" };
        let expected = format!("{} `x`", if kind.is_by_axis() { "an axis as" } else { "no" });
        let error = InputError::new(format!("{found} in a plot of {name}"), expected);
        return Err(table.error("x", error));
    }
    let time = |key| match table.text(key)? {
        None => Ok(None),
        Some(text) => number::real(text.value.as_bytes())
            .ok()
            .filter(|&us| us >= 0.0 && kind.has_times())
            .map(Some)
            .ok_or_else(|| {
                let error = InputError::new(format!("{key} = `{}`", text.value), "microseconds");
                table.error(key, error.help("for plots of times"))
            }),
    };
    let flows = table.integer("flows")?.map_or(1, |flows| flows.value);
    let flows = usize::try_from(flows).ok().filter(|flows| (1..=SET_MAX).contains(flows));
    let flows = flows.ok_or_else(|| {
        let error = InputError::new("`flows`", format!("a number of flows, 1..={SET_MAX}"));
        table.error("flows", error)
    })?;
    let without = table.string("without")?.map(|name| name.value);
    if let Some(name) = without.as_ref().filter(|name| !has(name)) {
        let error = InputError::new(format!("`{name}`"), "a variant, or a value of the grid");
        return Err(table.error("without", error));
    }
    let (from_us, until_us) = (time("from_us")?.unwrap_or(0.0), time("until_us")?);
    Ok(Plot { kind, y, beside, x, panel, without, flows, from_us, until_us })
}

/// The measure that a plot of `kind` names under `key`.
fn measure(
    table: Table<'_>,
    key: &str,
    kind: PlotKind,
    name: &str,
) -> Result<Option<String>, InputError> {
    let Some(y) = table.string(key)?.map(|found| found.value) else { return Ok(None) };
    if kind.measures().contains(&y.as_str()) {
        return Ok(Some(y));
    }
    let error = InputError::new(format!("{key} = `{y}`"), format!("a measure of {name}"));
    Err(table.error(key, error.help(did_you_mean(&y, kind.measures()))))
}
