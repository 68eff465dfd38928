//! From results to curves: which run and which measure goes into which panel. Draws nothing.

use std::collections::BTreeMap;

use experiments::input::InputError;
use experiments::scenario::{Plot, PlotKind};
use serde::{Deserialize, Serialize};

use super::read::{Results, Run, Sample};
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
    /// took no longer.
    pub(super) points: Vec<(f64, f64)>,
}

/// Rows of panels: one row for each plot of the figure.
pub(super) fn plots(results: &Results) -> Result<Vec<Vec<Panel>>, InputError> {
    let by_default = [Plot {
        kind: PlotKind::Cdf,
        y: "fct_us".to_owned(),
        x: None,
        panel: None,
        flows: 1,
        from_us: 0.0,
        until_us: None,
    }];
    let plots = &results.head.figure.plots;
    let plots = if plots.is_empty() { &by_default[..] } else { &plots[..] };
    plots.iter().map(|plot| row(results, plot)).collect()
}

fn row(results: &Results, plot: &Plot) -> Result<Vec<Panel>, InputError> {
    let titles = match &plot.panel {
        None => vec![String::new()],
        Some(axis) => labels(results.all(), axis),
    };
    let varying = varying(results, plot);
    let mut row = Vec::new();
    for title in titles {
        let is_here = |run: &&Run| match &plot.panel {
            None => true,
            Some(axis) => run.parts.get(axis) == Some(&title),
        };
        let runs: Vec<&Run> = results.all().filter(is_here).collect();
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
        let title = match &plot.panel {
            Some(axis) => called(axis, &title),
            None => title,
        };
        row.push(Panel { kind: plot.kind, title, x, categories, y, curves });
    }
    Ok(row)
}

/// The labels on an axis, in the order of the runs.
pub(super) fn labels<'a>(runs: impl Iterator<Item = &'a Run>, axis: &str) -> Vec<String> {
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
    // Distributions of runs that differ in chance alone are one.
    if plot.kind == PlotKind::Cdf && axes.len() > 1 {
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
fn curve_name(run: &Run, axes: &[String]) -> String {
    let name = name_of(&run.parts, axes);
    match (run.is_valid(), name.is_empty()) {
        (true, _) => name,
        (false, true) => INVALID.to_owned(),
        (false, false) => format!("{name}, {INVALID}"),
    }
}

/// The mark of a run whose polls were too late.
const INVALID: &str = "INVALID (late polls)";

/// A label, with its axis where a number or a switch alone means nothing.
fn called(axis: &str, label: &str) -> String {
    let bare = label.starts_with(|c: char| c.is_ascii_digit())
        || ["true", "false", "on", "off"].contains(&label);
    if bare && axis != "variant" { format!("{axis} {label}") } else { label.to_owned() }
}

fn by_axis(
    runs: &[&Run],
    plot: &Plot,
    (axis, categories): (&str, &[String]),
    varying: &[String],
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for run in runs {
        let Some(value) = run.measure(&plot.y) else { continue };
        let place = |label| categories.iter().position(|known| known == label);
        let Some(at) = run.parts.get(axis).and_then(place) else { continue };
        let name = curve_name(run, varying);
        #[expect(clippy::cast_precision_loss, reason = "a place among few")]
        let point = (at as f64, rounded(value));
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name, points: vec![point] }),
        }
    }
    curves
}

fn curves(runs: &[&Run], plot: &Plot, varying: &[String]) -> Result<Vec<Curve>, InputError> {
    if plot.kind == PlotKind::Cdf {
        return distributions(runs, plot, varying);
    }
    let mut curves = Vec::new();
    for run in runs {
        let name = curve_name(run, varying);
        let series = run.series()?;
        let flows = of_flows(&plot.y, &series).unwrap_or(1).min(plot.flows);
        for flow in 0..flows {
            let points = over_time(&series, plot, flow);
            let name = match (flows, name.is_empty()) {
                (1, _) => name.clone(),
                (_, true) => format!("flow {}", flow + 1),
                _ => format!("{name}, flow {}", flow + 1),
            };
            curves.push(Curve { name, points });
        }
    }
    Ok(curves)
}

/// A distribution for each name, of the flows of all runs that have it.
fn distributions(runs: &[&Run], plot: &Plot, varying: &[String]) -> Result<Vec<Curve>, InputError> {
    let mut pools: Vec<(String, Vec<f64>)> = Vec::new();
    for run in runs {
        let (name, times) = (curve_name(run, varying), run.fcts(&plot.y)?);
        match pools.iter_mut().find(|(known, _)| *known == name) {
            Some((_, pool)) => pool.extend(times),
            None => pools.push((name, times)),
        }
    }
    let curve = |(name, mut times): (String, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let mut points = distribution(&times);
        points.retain(|point| is_shown(plot, point.0));
        Curve { name, points }
    };
    Ok(pools.into_iter().map(curve).collect())
}

/// One distribution for each category, in their order.
fn violins(
    runs: &[&Run],
    plot: &Plot,
    (axis, categories): (&str, &[String]),
) -> Result<Vec<Curve>, InputError> {
    // Flows of several runs are one violin, in which an invalid one could not be marked.
    let pools = pooled(runs.iter().copied().filter(|run| run.is_valid()), plot, axis)?;
    let violin = |name: &String| {
        let times = pools.iter().find(|(known, _)| known == name).map(|(_, times)| &times[..]);
        let mut points = distribution(times.unwrap_or_default());
        points.retain(|point| is_shown(plot, point.0));
        Curve { name: name.clone(), points }
    };
    Ok(categories.iter().map(violin).collect())
}

/// The times, ascending, of the flows of all runs that have the same label on an axis, by label.
pub(super) fn pooled<'a>(
    runs: impl Iterator<Item = &'a Run>,
    plot: &Plot,
    axis: &str,
) -> Result<Vec<(String, Vec<f64>)>, InputError> {
    let mut pools: Vec<(String, Vec<f64>)> = Vec::new();
    for run in runs {
        let Some(label) = run.parts.get(axis) else { continue };
        let times = run.fcts(&plot.y)?;
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

/// The distribution function of ascending `times` at equally spaced shares.
fn distribution(times: &[f64]) -> Vec<(f64, f64)> {
    let steps = times.len().min(QUANTILES);
    let at = |step: usize| {
        let rank = (step * times.len()).div_ceil(steps.max(1)).max(1) - 1;
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
        let share = step as f64 / steps as f64;
        Some((rounded(*times.get(rank)?), rounded(share)))
    };
    (0..=steps).filter_map(at).collect()
}

/// Points of a distribution: more cannot be distinguished in print.
const QUANTILES: usize = 100;

/// How many single flows a measure has; `None` when it is not of flows.
fn of_flows(measure: &str, series: &[Sample]) -> Option<usize> {
    let flows = series.first().map_or(0, |sample| sample.delivered_bytes.len());
    let is_one = ["flow_gbps", "cwnd_bytes", "dci_queue_bytes", "dci_rate_gbps", "rate_gbps"];
    is_one.contains(&measure).then_some(flows)
}

/// A measure over time, thinned.
fn over_time(series: &[Sample], plot: &Plot, flow: usize) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut before: Option<&Sample> = None;
    for sample in series {
        let value = value(sample, before, &plot.y, flow);
        before = Some(sample);
        if let Some(value) = value.filter(|_| is_shown(plot, sample.t_us)) {
            points.push((sample.t_us, value));
        }
    }
    thin(&points, COUNTS.contains(&plot.y.as_str()))
}

/// Measures that count events between two samples.
const COUNTS: [&str; 1] = ["trimmed"];

fn is_shown(plot: &Plot, us: f64) -> bool {
    us >= plot.from_us && plot.until_us.is_none_or(|until| us <= until)
}

fn value(sample: &Sample, before: Option<&Sample>, measure: &str, flow: usize) -> Option<f64> {
    match measure {
        "goodput_gbps" => Some(sample.goodput_gbps),
        "queue_max_bytes" => Some(sample.queue_max_bytes),
        "queue_sum_bytes" => Some(sample.queue_sum_bytes),
        "cwnd_bytes" => sample.cwnd_bytes.get(flow).copied().flatten(),
        "dci_queue_bytes" => sample.dci_queue_bytes.get(flow).copied().flatten(),
        "dci_queue_sum_bytes" => {
            let queues = &sample.dci_queue_bytes;
            (!queues.is_empty()).then(|| queues.iter().flatten().sum())
        }
        "dci_rate_gbps" => sample.dci_rate_gbps.get(flow).copied().flatten(),
        "rate_gbps" => sample.rate_gbps.get(flow).copied().flatten(),
        "cwnd_sum_bytes" => Some(sample.cwnd_bytes.iter().flatten().sum()),
        "trimmed" => Some(sample.trimmed - before.map_or(0.0, |before| before.trimmed)),
        // Bytes and microseconds make Gbit/s when multiplied by 8 and divided by 1000.
        "flow_gbps" => {
            let (now, then) = (sample.delivered_bytes.get(flow)?, before?);
            let span = sample.t_us - then.t_us;
            let bytes = now - then.delivered_bytes.get(flow)?;
            (span > 0.0).then(|| bytes * 8.0 / (span * 1000.0))
        }
        "flows_jain" => {
            let then = &before?.delivered_bytes;
            let rates = sample.delivered_bytes.iter().zip(then).map(|(now, then)| now - then);
            jain(rates)
        }
        _ => None,
    }
}

/// Jain's index of the flows' throughputs: 1 when all are equal, 1 / n when one flow has all;
/// `None` when all are 0.
fn jain(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum, squares) = shares
        .fold((0.0, 0.0, 0.0), |(n, sum, sq), share| (n + 1.0, sum + share, sq + share * share));
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

/// At most [`POINTS`] points: means of equally many neighbours, or sums of what is counted.
fn thin(points: &[(f64, f64)], is_count: bool) -> Vec<(f64, f64)> {
    let width = points.len().div_ceil(POINTS).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        #[expect(clippy::cast_precision_loss, reason = "a chunk of points")]
        let count = chunk.len() as f64;
        let sum = chunk.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (rounded(sum.0 / count), rounded(if is_count { sum.1 } else { sum.1 / count }))
    };
    points.chunks(width).map(mean).collect()
}

/// Points of a curve over time: about two for each pixel of a panel's width would be twice that.
const POINTS: usize = 160;

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
        assert_eq!(distribution(&[]), []);
        assert_eq!(distribution(&[5.0]), [(5.0, 0.0), (5.0, 1.0)]);
        let times: Vec<f64> = (1..=1000).map(f64::from).collect();
        let points = distribution(&times);
        assert_eq!((points.len(), points[0], points[100]), (101, (1.0, 0.0), (1000.0, 1.0)));
        assert_eq!(points[50], (500.0, 0.5));
    }

    #[test]
    fn thinning_keeps_the_mean_and_the_sum_of_what_is_counted() {
        let points: Vec<(f64, f64)> = (0..1600).map(|i| (f64::from(i), 3.0)).collect();
        let thinned = thin(&points, false);
        assert_eq!((thinned.len(), thinned[0]), (160, (4.5, 3.0)));
        assert_eq!(thin(&points, true)[159], (1594.5, 30.0));
    }

    #[test]
    fn a_flows_rate_is_what_was_delivered_between_two_samples() {
        let sample = |t_us: f64, delivered: f64| Sample {
            t_us,
            goodput_gbps: 0.0,
            queue_max_bytes: 0.0,
            queue_sum_bytes: 0.0,
            trimmed: t_us,
            cwnd_bytes: vec![None, Some(7.0)],
            delivered_bytes: vec![delivered],
            dci_queue_bytes: vec![Some(5.0), None, Some(6.0)],
            dci_rate_gbps: Vec::new(),
            rate_gbps: vec![Some(2.5)],
        };
        let (a, b) = (sample(1.0, 1000.0), sample(3.0, 2000.0));
        assert_eq!(value(&b, Some(&a), "flow_gbps", 0), Some(4.0));
        assert_eq!(value(&b, None, "flow_gbps", 0), None);
        assert_eq!(value(&b, Some(&a), "trimmed", 0), Some(2.0));
        assert_eq!(value(&b, Some(&a), "flows_jain", 0), Some(1.0));
        assert_eq!(value(&b, Some(&b), "flows_jain", 0), None);
        assert_eq!(jain([3.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(value(&b, Some(&a), "cwnd_sum_bytes", 0), Some(7.0));
        assert_eq!(value(&b, Some(&a), "cwnd_bytes", 0), None);
        assert_eq!(value(&b, Some(&a), "dci_queue_bytes", 2), Some(6.0));
        assert_eq!(value(&b, Some(&a), "dci_queue_bytes", 1), None);
        assert_eq!(value(&b, Some(&a), "dci_queue_sum_bytes", 0), Some(11.0));
        assert_eq!(value(&b, Some(&a), "dci_rate_gbps", 0), None);
        assert_eq!(value(&b, Some(&a), "rate_gbps", 0), Some(2.5));
    }

    #[test]
    fn a_panel_that_lacks_a_run_has_a_gap_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let plot = |kind, y: &str| Plot {
            kind,
            y: y.to_owned(),
            x: Some("size".to_owned()),
            panel: Some("lb".to_owned()),
            flows: 1,
            from_us: 0.0,
            until_us: None,
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
            fs::write(run.join("flows.jsonl"), "{\"fct_us\": 7.0, \"inter\": null}\n").unwrap();
        }
        let rows = plots_of(dir.path());
        let [_, spray] = &rows[0][..] else { panic!("two panels") };
        assert_eq!(spray.categories, ["1MiB", "4MiB"]);
        assert_eq!(spray.curves[0].points, [(1.0, 2.5)], "bars stand over 4MiB");
        let [_, spray] = &rows[1][..] else { panic!("two panels") };
        let flows: Vec<usize> = spray.curves.iter().map(|curve| curve.points.len()).collect();
        assert_eq!(flows, [0, 2], "and violins");
    }

    fn plots_of(dir: &Path) -> Vec<Vec<Panel>> {
        plots(&super::super::read::one(dir).unwrap()).unwrap()
    }

    #[test]
    fn bare_values_are_called_by_their_axis_too() {
        let pairs = [("variant", "8to1"), ("size", "1MiB"), ("lb", "reps")];
        let parts = pairs.map(|(axis, label)| (axis.to_owned(), label.to_owned())).into();
        let axes = ["variant", "size", "lb"].map(str::to_owned);
        assert_eq!(name_of(&parts, &axes), "8to1, size 1MiB, reps");
    }
}
