//! From results to curves: which run and which measure goes into which panel. Draws nothing.

mod over_time;
mod sizes;

use std::collections::BTreeMap;

use experiments::flow_set::FlowSet;
use experiments::input::InputError;
use experiments::scenario::{Plot, PlotKind};
use serde::{Deserialize, Serialize};

use super::measures::in_words;
use super::read::{Results, RunResults};
use crate::ranking::{half_width, mean};
use crate::sweep_dir::CHANCE;

/// One system of axes with its curves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Panel {
    /// The form of the panel.
    pub(super) kind: PlotKind,
    /// The value of the axis that it stands for; may be empty.
    pub(super) title: String,
    /// The measure along x.
    pub(super) x: String,
    /// The values along x where they are no numbers; `x` of a point is then a place in it.
    pub(super) categories: Vec<String>,
    /// The measure along y.
    pub(super) y: String,
    /// The curves; of violins one for each category, without points where there are no flows.
    pub(super) curves: Vec<Curve>,
}

/// One curve, or the bars of one colour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Curve {
    /// The name of the curve; may be empty when there is nothing to distinguish.
    pub(super) name: String,
    /// (x, y), ascending in x; of a violin, as of a distribution, times and the share of flows that
    /// took no longer. The distribution of few flows has both corners of each step.
    pub(super) points: Vec<(f64, f64)>,
    /// For each point: half the width of the 95 % interval of the mean that it is, 0 where it is of
    /// one run; empty where no point is a mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) half_widths: Vec<f64>,
}

impl Curve {
    /// A curve whose points are no means.
    pub(super) fn new(name: String, points: Vec<(f64, f64)>) -> Self {
        Self { name, points, half_widths: Vec::new() }
    }
}

/// Rows of panels: one row for each plot of the figure, and one for each measure of the `flows`
/// that were asked for by name.
///
/// # Errors
/// When files of a run cannot be read, or it was not sampled, or other flows of it were.
pub(super) fn plots(
    results: &Results,
    flows: Option<&FlowSet>,
) -> Result<Vec<Vec<Panel>>, InputError> {
    let by_default = [PlotKind::Cdf, PlotKind::Sizes].map(|kind| Plot::of(kind, None));
    let plots = &results.head.figure.plots;
    let plots = if plots.is_empty() { &by_default[..] } else { &plots[..] };
    let rows: Vec<Vec<Panel>> =
        plots.iter().map(|plot| row(results, plot)).collect::<Result<_, _>>()?;
    let mut rows: Vec<Vec<Panel>> = rows.into_iter().filter(|row| !row.is_empty()).collect();
    if let Some(flows) = flows {
        rows.extend(over_time::chosen(results, flows)?);
    }
    Ok(rows)
}

fn row(results: &Results, plot: &Plot) -> Result<Vec<Panel>, InputError> {
    let titles = match &plot.panel {
        None => vec![String::new()],
        Some(axis) => labels(results.all(), axis),
    };
    let varying = varying(results, plot);
    let mut row = Vec::new();
    for title in titles {
        let is_left_out = |run: &RunResults| {
            plot.without.as_ref().is_some_and(|without| run.parts.values().any(|v| v == without))
        };
        let is_here = |run: &&RunResults| {
            let panel = plot.panel.as_ref();
            !is_left_out(run) && panel.is_none_or(|axis| run.parts.get(axis) == Some(&title))
        };
        let runs: Vec<&RunResults> = results.all().filter(is_here).collect();
        let title = match &plot.panel {
            Some(axis) => called(axis, &title),
            None => title,
        };
        if plot.kind == PlotKind::Sizes {
            row.extend(sizes::panels(&runs, plot, &varying, &title)?);
            continue;
        }
        // The labels of all panels, so that a panel which lacks a run has a gap there.
        let categories = plot.x.as_ref().map(|axis| labels(results.all(), axis));
        let categories = categories.unwrap_or_default();
        let curves = match (&plot.x, plot.kind) {
            (None, _) => curves(&runs, plot, &varying)?,
            (Some(axis), PlotKind::Violin) => violins(&runs, plot, (axis, &categories))?,
            (Some(axis), _) => by_axis(&runs, plot, (axis, &categories), &varying),
        };
        let x = plot.x.clone().unwrap_or_else(|| match plot.kind {
            PlotKind::Cdf => plot.y.clone(),
            _ => "t_us".to_owned(),
        });
        let y = if plot.kind == PlotKind::Cdf { "share of flows" } else { &plot.y }.to_owned();
        row.push(Panel { kind: plot.kind, title, x, categories, y, curves });
    }
    Ok(row)
}

/// The labels on an axis, in the order of the runs.
pub(super) fn labels<'a>(runs: impl Iterator<Item = &'a RunResults>, axis: &str) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for label in runs.filter_map(|run| run.parts.get(axis)) {
        if !labels.contains(label) {
            labels.push(label.clone());
        }
    }
    labels
}

/// The axes that distinguish the curves of a panel, variants first.
pub(super) fn varying(results: &Results, plot: &Plot) -> Vec<String> {
    let Some(run) = results.all().next() else { return Vec::new() };
    let shown = |axis: &&String| {
        plot.x.as_ref() != Some(axis)
            && plot.panel.as_ref() != Some(axis)
            && labels(results.all(), axis).len() > 1
    };
    let mut axes: Vec<String> = run.parts.keys().filter(shown).cloned().collect();
    // Runs that differ in chance alone are one: a distribution, or a mean with its interval.
    if plot.kind != PlotKind::Series && (axes.len() > 1 || plot.x.is_some()) {
        axes.retain(|axis| axis != CHANCE);
    }
    axes.sort_by_key(|axis| axis != "variant");
    axes
}

/// The name of a run among those that differ along `axes`.
pub(super) fn name_of(parts: &BTreeMap<String, String>, axes: &[String]) -> String {
    let label = |axis: &String| called(axis, parts.get(axis).map_or("", String::as_str));
    axes.iter().map(label).collect::<Vec<_>>().join(", ")
}

/// The name of the curve of a run; an invalid one is marked.
fn curve_name(run: &RunResults, axes: &[String]) -> String {
    marked(run, name_of(&run.parts, axes))
}

/// What is drawn of a run under `name`, marked where the run is invalid.
fn marked(run: &RunResults, name: String) -> String {
    match (run.is_valid(), name.is_empty()) {
        (true, _) => name,
        (false, true) => INVALID.to_owned(),
        (false, false) => format!("{name}, {INVALID}"),
    }
}

/// The mark of a run whose polls were too late.
const INVALID: &str = "INVALID (late polls)";

/// A label, with its axis where a number or a switch alone has no meaning.
pub(super) fn called(axis: &str, label: &str) -> String {
    let bare = label.starts_with(|c: char| c.is_ascii_digit())
        || ["true", "false", "on", "off"].contains(&label);
    if bare && axis != "variant" { format!("{axis} {label}") } else { label.to_owned() }
}

/// A measure of runs along an axis: for each name of a curve and each label of the axis the values
/// of the runs that have them, which differ in chance alone.
pub(super) fn grouped<'a>(
    runs: impl Iterator<Item = &'a RunResults>,
    measure: &str,
    (axis, categories): (&str, &[String]),
    name_of: impl Fn(&RunResults) -> String,
) -> Vec<(String, Vec<Vec<f64>>)> {
    let mut groups: Vec<(String, Vec<Vec<f64>>)> = Vec::new();
    for run in runs {
        let place = |label| categories.iter().position(|known| known == label);
        let Some(at) = run.parts.get(axis).and_then(place) else { continue };
        let name = name_of(run);
        let group = groups.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            groups.push((name, vec![Vec::new(); categories.len()]));
            groups.len() - 1
        });
        groups[group].1[at].extend(run.measure(measure));
    }
    groups
}

/// The name of a curve of a plot with two measures.
fn name_beside(name: &str, measure: &str) -> String {
    let words = in_words(measure);
    if name.is_empty() { words.to_owned() } else { format!("{name}: {words}") }
}

fn by_axis(
    runs: &[&RunResults],
    plot: &Plot,
    axis: (&str, &[String]),
    varying: &[String],
) -> Vec<Curve> {
    let of = |measure: &str| {
        let name = |run: &RunResults| match plot.beside {
            None => curve_name(run, varying),
            Some(_) => name_beside(&curve_name(run, varying), measure),
        };
        grouped(runs.iter().copied(), measure, axis, name)
    };
    let mut groups = of(&plot.y);
    groups.extend(plot.beside.iter().flat_map(|beside| of(beside)));
    let curve = |(name, values): (String, Vec<Vec<f64>>)| {
        let places = values.iter().enumerate().filter(|(_, values)| !values.is_empty());
        let mut curve = Curve::new(name, Vec::new());
        for (at, values) in places {
            #[expect(clippy::cast_precision_loss, reason = "a place among few")]
            curve.points.push((at as f64, rounded(mean(values))));
            let half = if values.len() > 1 { half_width(values) } else { 0.0 };
            curve.half_widths.push(rounded(half));
        }
        if curve.half_widths.iter().all(|half| *half == 0.0) {
            curve.half_widths.clear();
        }
        curve
    };
    groups.into_iter().map(curve).collect()
}

fn curves(runs: &[&RunResults], plot: &Plot, varying: &[String]) -> Result<Vec<Curve>, InputError> {
    if plot.kind == PlotKind::Cdf {
        return distributions(runs, plot, varying);
    }
    let mut curves = Vec::new();
    for run in runs {
        curves.extend(over_time::curves(run, plot, &curve_name(run, varying))?);
    }
    Ok(curves)
}

/// A distribution for each name, of the flows of all runs that have it; flows that did not finish
/// keep it below 1.
fn distributions(
    runs: &[&RunResults],
    plot: &Plot,
    varying: &[String],
) -> Result<Vec<Curve>, InputError> {
    let mut pools: Vec<(String, Vec<f64>, usize)> = Vec::new();
    for run in runs {
        let (name, (times, of)) = (curve_name(run, varying), run.fcts(&plot.y)?);
        match pools.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, pool, all)) => {
                pool.extend(times);
                *all += of;
            }
            None => pools.push((name, times, of)),
        }
    }
    let curve = |(name, mut times, of): (String, Vec<f64>, usize)| {
        times.sort_by(f64::total_cmp);
        let mut points = distribution(&times, of);
        points.retain(|point| is_shown(plot, point.0));
        Curve::new(name, points)
    };
    Ok(pools.into_iter().map(curve).collect())
}

/// One distribution for each category, in their order.
fn violins(
    runs: &[&RunResults],
    plot: &Plot,
    (axis, categories): (&str, &[String]),
) -> Result<Vec<Curve>, InputError> {
    // Flows of several runs are one violin, in which an invalid one could not be marked.
    let pools = pooled(runs.iter().copied().filter(|run| run.is_valid()), plot, axis)?;
    let violin = |name: &String| {
        let times = pools.iter().find(|(known, _)| known == name).map(|(_, times)| &times[..]);
        let times = times.unwrap_or_default();
        let mut points = quantiles(times, times.len());
        points.retain(|point| is_shown(plot, point.0));
        Curve::new(name.clone(), points)
    };
    Ok(categories.iter().map(violin).collect())
}

/// The times, ascending, of the flows of all runs that have the same label on an axis, by label.
pub(super) fn pooled<'a>(
    runs: impl Iterator<Item = &'a RunResults>,
    plot: &Plot,
    axis: &str,
) -> Result<Vec<(String, Vec<f64>)>, InputError> {
    let mut pools: Vec<(String, Vec<f64>)> = Vec::new();
    for run in runs {
        let Some(label) = run.parts.get(axis) else { continue };
        let (times, _) = run.fcts(&plot.y)?;
        match pools.iter_mut().find(|(known, _)| known == label) {
            Some((_, pool)) => pool.extend(times),
            None => pools.push((label.clone(), times)),
        }
    }
    for (_, pool) in &mut pools {
        pool.sort_by(f64::total_cmp);
    }
    Ok(pools)
}

/// The curve of the distribution function of ascending `times`. `of` counts all flows, also those
/// that did not finish. It has both corners of each flow's step, or points at equally spaced shares
/// where the flows are more than can be distinguished in print.
fn distribution(times: &[f64], of: usize) -> Vec<(f64, f64)> {
    if times.len() > QUANTILES {
        return quantiles(times, of);
    }
    #[expect(clippy::cast_precision_loss, reason = "few flows")]
    let share = |count: usize| rounded(count as f64 / of as f64);
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (before, time) in times.iter().map(|time| rounded(*time)).enumerate() {
        match corners.last_mut() {
            Some((at, top)) if *at == time => *top = share(before + 1),
            _ => corners.extend([(time, share(before)), (time, share(before + 1))]),
        }
    }
    corners
}

/// The distribution function of ascending `times` at equally spaced shares, of `of` flows, of which
/// the rest did not finish.
fn quantiles(times: &[f64], of: usize) -> Vec<(f64, f64)> {
    let steps = times.len().min(QUANTILES);
    let at = |step: usize| {
        let rank = (step * times.len()).div_ceil(steps.max(1)).max(1) - 1;
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
        let share = (step * times.len()) as f64 / (steps * of) as f64;
        Some((rounded(*times.get(rank)?), rounded(share)))
    };
    (0..=steps).filter_map(at).collect()
}

/// Points of a distribution: more cannot be distinguished in print.
const QUANTILES: usize = 100;

fn is_shown(plot: &Plot, us: f64) -> bool {
    us >= plot.from_us && plot.until_us.is_none_or(|until| us <= until)
}

/// Six significant digits, so that files are small and show no more digits than are meaningful.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use experiments::scenario::Figure;

    use super::*;
    use crate::sweep_dir::{SweepDir, Variant};

    #[test]
    fn a_distribution_goes_from_the_shortest_to_the_longest() {
        assert_eq!(distribution(&[], 0), []);
        assert_eq!(distribution(&[5.0], 1), [(5.0, 0.0), (5.0, 1.0)]);
        // Steps: a share stays until the next flow is done; flows that end together are one step.
        let corners = distribution(&[1.0, 2.0, 2.0, 4.0], 8);
        let step = |time: f64, low: f64, high: f64| [(time, low), (time, high)];
        let steps = [step(1.0, 0.0, 0.125), step(2.0, 0.125, 0.375), step(4.0, 0.375, 0.5)];
        assert_eq!(corners, steps.concat());
        let times: Vec<f64> = (1..=1000).map(f64::from).collect();
        let points = distribution(&times, 1000);
        assert_eq!((points.len(), points[0], points[100]), (101, (1.0, 0.0), (1000.0, 1.0)));
        assert_eq!(points[50], (500.0, 0.5));
        // As many again did not finish.
        assert_eq!(distribution(&times, 2000)[100], (1000.0, 0.5));
    }

    #[test]
    fn a_panel_that_lacks_a_run_has_a_gap_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let plot = |kind, y: &str| Plot {
            y: y.to_owned(),
            panel: Some("lb".to_owned()),
            ..Plot::of(kind, Some("size".to_owned()))
        };
        let parts = |lb: &str, size: &str| {
            BTreeMap::from([("lb", lb), ("size", size)].map(|(a, b)| (a.to_owned(), b.to_owned())))
        };
        let named = |lb: &str, size: &str| (format!("{lb}-{size}"), parts(lb, size));
        let all = [("reps", "1MiB"), ("reps", "4MiB"), ("spray", "1MiB"), ("spray", "4MiB")];
        let variants = all.map(|(lb, size)| named(lb, size));
        let variants = variants.map(|(name, parts)| Variant { name, parts });
        let plots = vec![plot(PlotKind::Bars, "slowdown"), plot(PlotKind::Violin, "fct_us")];
        let figure = Figure { plots, ..Figure::default() };
        let (name, about) = ("x".to_owned(), String::new());
        let variants = variants.into();
        let head = SweepDir { schema: 1, name, about, figure, variants, compared: None };
        fs::write(dir.path().join("scenario.json"), serde_json::to_vec(&head).unwrap()).unwrap();
        // In the second panel the first size has not run.
        for (lb, size) in [all[0], all[1], all[3]] {
            let run = dir.path().join(named(lb, size).0);
            fs::create_dir(&run).unwrap();
            fs::write(run.join("summary.json"), r#"{"slowdown": 2.5}"#).unwrap();
            fs::write(run.join("flows.jsonl"), FLOW).unwrap();
        }
        let rows = plots_of(dir.path());
        let [_, spray] = &rows[0][..] else { panic!("two panels") };
        assert_eq!(spray.categories, ["1MiB", "4MiB"]);
        assert_eq!(spray.curves[0].points, [(1.0, 2.5)], "bars stand over 4MiB");
        let [_, spray] = &rows[1][..] else { panic!("two panels") };
        let flows: Vec<usize> = spray.curves.iter().map(|curve| curve.points.len()).collect();
        assert_eq!(flows, [0, 2], "and violins");
    }

    const FLOW: &str = "{\"src\": 0, \"dst\": 1, \"size\": 9, \"fct_us\": 7.0}\n";

    fn plots_of(dir: &Path) -> Vec<Vec<Panel>> {
        plots(&super::super::read::one(dir).unwrap(), None).unwrap()
    }

    #[test]
    fn runs_that_differ_in_their_seeds_are_a_mean_with_its_interval() {
        let dir = tempfile::tempdir().unwrap();
        let plot = Plot::of(PlotKind::Bars, Some("cc".to_owned()));
        let without = Plot { without: Some("dctcp".to_owned()), ..plot.clone() };
        let plots = vec![plot, without];
        let figure = Figure { plots, ..Figure::default() };
        let all = [("swift", "1", 2.0), ("swift", "2", 4.0), ("dctcp", "1", 3.0)];
        let variant = |(cc, seed, _): (&str, &str, f64)| Variant {
            name: format!("{cc}-{seed}"),
            parts: BTreeMap::from([("cc", cc), ("seed", seed)].map(|(a, b)| (a.into(), b.into()))),
        };
        let variants: Vec<Variant> = all.map(variant).into();
        for (variant, (.., slowdown)) in variants.iter().zip(all) {
            let run = dir.path().join(&variant.name);
            fs::create_dir(&run).unwrap();
            fs::write(run.join("summary.json"), format!("{{\"slowdown\": {slowdown}}}")).unwrap();
        }
        let (name, about) = ("x".to_owned(), String::new());
        let head = SweepDir { schema: 1, name, about, figure, variants, compared: None };
        fs::write(dir.path().join("scenario.json"), serde_json::to_vec(&head).unwrap()).unwrap();
        let rows = plots_of(dir.path());
        let [curve] = &rows[0][0].curves[..] else { panic!("one curve: {rows:?}") };
        assert_eq!(curve.points, [(0.0, 3.0), (1.0, 3.0)]);
        // Deviation sqrt(2), two runs: 12.706 * sqrt(2) / sqrt(2), as the table has it.
        assert_eq!(curve.half_widths, [12.706, 0.0]);
        assert_eq!(rows[1][0].curves[0].points, [(0.0, 3.0)], "a run that is left out");
    }

    #[test]
    fn a_second_measure_has_curves_of_its_own_in_the_same_panel() {
        let dir = tempfile::tempdir().unwrap();
        let beside = Some("scheduler.unscheduled.share_eq6".to_owned());
        let y = "scheduler.unscheduled.share".to_owned();
        let plot = Plot { y, beside, ..Plot::of(PlotKind::Lines, Some("load".to_owned())) };
        let figure = Figure { plots: vec![plot], ..Figure::default() };
        let variant = |load: &str| Variant {
            name: load.to_owned(),
            parts: BTreeMap::from([("load".to_owned(), load.to_owned())]),
        };
        let variants = vec![variant("0.1"), variant("0.2")];
        for (variant, share) in variants.iter().zip([0.8, 0.6]) {
            let run = dir.path().join(&variant.name);
            fs::create_dir(&run).unwrap();
            let shares = serde_json::json!({ "share": share, "share_eq6": share / 2.0 });
            let summary = serde_json::json!({ "scheduler": { "unscheduled": shares } });
            fs::write(run.join("summary.json"), summary.to_string()).unwrap();
        }
        let (name, about) = ("x".to_owned(), String::new());
        let head = SweepDir { schema: 1, name, about, figure, variants, compared: None };
        fs::write(dir.path().join("scenario.json"), serde_json::to_vec(&head).unwrap()).unwrap();
        let rows = plots_of(dir.path());
        let [panel] = &rows[0][..] else { panic!("one panel: {rows:?}") };
        let curves = panel.curves.iter().map(|curve| {
            let heights = curve.points.iter().map(|(_, y)| *y);
            (curve.name.as_str(), heights.collect::<Vec<f64>>())
        });
        let ours = ("share of cells without a grant that arrive", vec![0.8, 0.6]);
        assert_eq!(curves.collect::<Vec<_>>(), [ours, ("equation 6", vec![0.4, 0.3])]);
    }

    #[test]
    fn bare_values_are_called_by_their_axis_too() {
        let pairs = [("variant", "8to1"), ("size", "1MiB"), ("lb", "reps")];
        let parts = pairs.map(|(axis, label)| (axis.to_owned(), label.to_owned())).into();
        let axes = ["variant", "size", "lb"].map(str::to_owned);
        assert_eq!(name_of(&parts, &axes), "8to1, size 1MiB, reps");
    }
}
