//! Curves over network time, from the samples of a run.

use experiments::flow_set::FlowSet;
use experiments::input::InputError;
use experiments::measure::fct::jain;
use experiments::scenario::{Plot, PlotKind};

use super::super::read::{Results, RunResults, Sample};
use super::{Curve, Panel, is_shown, marked, rounded};

/// Whether a measure is of a single flow.
fn of_flows(measure: &str) -> bool {
    ["flow_gbps", "cwnd_bytes", "dci_queue_bytes", "dci_rate_gbps", "rate_gbps"].contains(&measure)
}

/// The curves of a plot of one run: one, or one for each of the first flows that it shows.
pub(super) fn curves(run: &RunResults, plot: &Plot, name: &str) -> Result<Vec<Curve>, InputError> {
    let lines = if of_flows(&plot.y) { run.sampled_flows()? } else { vec![0] };
    let lines = &lines[..lines.len().min(plot.flows)];
    let wanted: Vec<(&str, usize)> = (0..lines.len()).map(|at| (plot.y.as_str(), at)).collect();
    let name = |line: usize| match (lines.len(), name.is_empty()) {
        (1, _) => name.to_owned(),
        (_, true) => of_line(line),
        _ => format!("{name}, {}", of_line(line)),
    };
    let tracks = match plot.y.as_str() {
        FAIRNESS => vec![fairness(run, plot)?],
        _ => tracks(run, &wanted, plot)?,
    };
    Ok(tracks
        .into_iter()
        .zip(lines)
        .map(|(points, line)| Curve::new(name(*line), points))
        .collect())
}

/// The name of the flow of a line of the matrix, counted from 1 as on the command line.
fn of_line(line: usize) -> String {
    format!("flow {}", line + 1)
}

/// Measures of single flows that are drawn of those that were asked for, where a run has them.
const OF_FLOWS: [&str; 4] = ["flow_gbps", "cwnd_bytes", "rate_gbps", "dci_queue_bytes"];

/// A row of panels for each measure of `flows`, one panel a run.
///
/// # Errors
/// When a run was not sampled, or these flows of it were not.
pub(super) fn chosen(results: &Results, flows: &FlowSet) -> Result<Vec<Vec<Panel>>, InputError> {
    let mut rows: Vec<Vec<Panel>> = OF_FLOWS.map(|_| Vec::new()).into();
    let one = results.all().count() == 1;
    for run in results.all() {
        let sampled = run.sampled_flows()?;
        let lines: Vec<usize> = flows.lines(usize::MAX).collect();
        let place = |line: &usize| sampled.binary_search(line).map_err(|_| *line);
        let places: Result<Vec<usize>, usize> = lines.iter().map(place).collect();
        let places = places.map_err(|line| not_sampled(run, line, &sampled, flows))?;
        let wanted: Vec<(&str, usize)> = OF_FLOWS
            .iter()
            .flat_map(|measure| places.iter().map(move |place| (*measure, *place)))
            .collect();
        let mut tracks = tracks(run, &wanted, &Plot::of(PlotKind::Series, None))?.into_iter();
        for (row, measure) in rows.iter_mut().zip(OF_FLOWS) {
            let points = tracks.by_ref().take(lines.len());
            let curves =
                points.zip(&lines).map(|(points, line)| Curve::new(of_line(*line), points));
            row.push(Panel {
                kind: PlotKind::Series,
                title: marked(run, if one { String::new() } else { run.name.replace(',', ", ") }),
                x: "t_us".to_owned(),
                categories: Vec::new(),
                y: measure.to_owned(),
                curves: curves.collect(),
            });
        }
    }
    rows.retain(|row| row.iter().flat_map(|panel| &panel.curves).any(|one| !one.points.is_empty()));
    Ok(rows)
}

fn not_sampled(run: &RunResults, line: usize, sampled: &[usize], flows: &FlowSet) -> InputError {
    let found = format!("flow {} of `{}`, which no sample shows", line + 1, run.name);
    let expected = match sampled {
        [] => "flows of a run with samples".to_owned(),
        _ => format!("flows among those that were sampled: {}", FlowSet::of(sampled)),
    };
    let help = format!("run it again with --set sampling.flows={flows}; flows count from 1");
    InputError::new(found, expected).at("--flows", 0, 0).help(help)
}

/// The points of measures of a run over time, thinned: for each a measure, and the place of its
/// flow in the lists of a sample. One pass over the samples.
fn tracks(
    run: &RunResults,
    wanted: &[(&str, usize)],
    plot: &Plot,
) -> Result<Vec<Vec<(f64, f64)>>, InputError> {
    let mut tracks: Vec<Vec<(f64, f64)>> = vec![Vec::new(); wanted.len()];
    let mut before: Option<Sample> = None;
    run.samples(|sample| {
        for ((measure, flow), points) in wanted.iter().zip(&mut tracks) {
            let value = value(&sample, before.as_ref(), measure, *flow);
            if let Some(value) = value.filter(|_| is_shown(plot, sample.t_us)) {
                points.push((sample.t_us, value));
            }
        }
        before = Some(sample);
    })?;
    let tracks = wanted.iter().zip(&tracks);
    Ok(tracks.map(|((measure, _), points)| thin(points, Merge::of(measure))).collect())
}

/// The measure of a sample that is of all its flows together, and of the time since another.
const FAIRNESS: &str = "flows_jain";

/// Jain's index over time, thinned: of the bytes that each flow got from point to point, of those
/// flows that were under way for all of that time.
fn fairness(run: &RunResults, plot: &Plot) -> Result<Vec<(f64, f64)>, InputError> {
    let lines = run.sampled_flows()?;
    let flows = run.flows(FAIRNESS)?;
    let of_line = |line: &usize| flows.get(*line).map(|flow| (flow.start_us, flow.delivered_us));
    let spans: Vec<Span> = lines.iter().map(|line| of_line(line).unwrap_or_default()).collect();
    // Twice through the file, whose samples are too many to hold.
    let (mut count, mut any_before) = (0, false);
    run.samples(|sample| {
        count += usize::from(any_before && is_shown(plot, sample.t_us));
        any_before = true;
    })?;
    let mut track = FairTrack::new(&spans, count.div_ceil(POINTS).max(1));
    run.samples(|sample| {
        let shown = is_shown(plot, sample.t_us);
        track.add(sample, shown);
    })?;
    Ok(track.finish())
}

/// The points of [`fairness`], of some samples each.
struct FairTrack<'a> {
    /// When each flow was under way.
    spans: &'a [Span],
    /// Samples of a point.
    width: usize,
    points: Vec<(f64, f64)>,
    /// The sample before.
    last: Option<Sample>,
    /// The sample from which the point is that has begun.
    then: Option<Sample>,
    /// The times of the samples of the point that has begun.
    times: Vec<f64>,
}

impl<'a> FairTrack<'a> {
    const fn new(spans: &'a [Span], width: usize) -> Self {
        Self { spans, width, points: Vec::new(), last: None, then: None, times: Vec::new() }
    }

    /// Takes the next sample. One that is not shown ends the point that has begun, without being
    /// part of it.
    fn add(&mut self, sample: Sample, shown: bool) {
        if !shown {
            self.end_point();
        } else if self.last.is_some() {
            self.then = self.then.take().or_else(|| self.last.clone());
            self.times.push(sample.t_us);
        }
        self.last = Some(sample);
        if self.times.len() == self.width {
            self.end_point();
        }
    }

    /// The point that has begun is from `then` to the last sample.
    fn end_point(&mut self) {
        let (then, times) = (self.then.take(), std::mem::take(&mut self.times));
        let now = self.last.as_ref();
        self.points.extend(now.and_then(|now| fair_point(then.as_ref(), now, self.spans, &times)));
    }

    fn finish(mut self) -> Vec<(f64, f64)> {
        self.end_point();
        self.points
    }
}

/// When a flow started and was delivered, microseconds; `None` where it was not.
type Span = (Option<f64>, Option<f64>);

/// A point of [`fairness`] from the sample `then` to `now`, at the mean of the `times` between.
fn fair_point(
    then: Option<&Sample>,
    now: &Sample,
    spans: &[Span],
    times: &[f64],
) -> Option<(f64, f64)> {
    let then = then?;
    let under_way = |(start, delivered): &Span| {
        let started = start.is_some_and(|start| start <= then.t_us);
        started && delivered.is_none_or(|delivered| delivered >= now.t_us)
    };
    let bytes = now.delivered_bytes.iter().zip(&then.delivered_bytes).zip(spans);
    let shares = bytes.filter(|(_, span)| under_way(span)).map(|((now, then), _)| now - then);
    #[expect(clippy::cast_precision_loss, reason = "a few points")]
    let at = times.iter().sum::<f64>() / times.len().max(1) as f64;
    jain(shares).map(|jain| (rounded(at), rounded(jain)))
}

/// How neighbouring points are made one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    Mean,
    /// For measures that count events between two samples.
    Sum,
    /// For measures that are a maximum, so that no peak vanishes.
    Max,
}

impl Merge {
    fn of(measure: &str) -> Self {
        match measure {
            "trimmed" => Self::Sum,
            "queue_max_bytes" => Self::Max,
            _ => Self::Mean,
        }
    }
}

/// A measure of a sample; of a single flow it is that at place `flow` of the sample's lists.
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
        _ => None,
    }
}

/// At most [`POINTS`] points: equally many neighbours make one.
fn thin(points: &[(f64, f64)], merge: Merge) -> Vec<(f64, f64)> {
    let width = points.len().div_ceil(POINTS).max(1);
    let merged = |chunk: &[(f64, f64)]| {
        #[expect(clippy::cast_precision_loss, reason = "a chunk of points")]
        let count = chunk.len() as f64;
        let sum = chunk.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let value = match merge {
            Merge::Mean => sum.1 / count,
            Merge::Sum => sum.1,
            Merge::Max => chunk.iter().fold(f64::MIN, |most, point| most.max(point.1)),
        };
        (rounded(sum.0 / count), rounded(value))
    };
    points.chunks(width).map(merged).collect()
}

/// Points of a curve over time: about two for each pixel of a panel's width would be twice that.
const POINTS: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_means_sums_of_counts_and_peaks() {
        let mut points: Vec<(f64, f64)> = (0..1600).map(|i| (f64::from(i), 3.0)).collect();
        let thinned = thin(&points, Merge::of("goodput_gbps"));
        assert_eq!((thinned.len(), thinned[0]), (160, (4.5, 3.0)));
        assert_eq!(thin(&points, Merge::of("trimmed"))[159], (1594.5, 30.0));
        points[1597].1 = 90.0;
        assert_eq!(thin(&points, Merge::of("queue_max_bytes"))[159], (1594.5, 90.0));
    }

    #[test]
    fn fairness_is_among_the_flows_that_are_under_way() {
        let sample = |t_us: f64, delivered: [f64; 3]| {
            let bytes = serde_json::json!({"t_us": t_us, "goodput_gbps": 0.0,
                "queue_max_bytes": 0, "queue_sum_bytes": 0, "trimmed": 0, "cwnd_bytes": [],
                "delivered_bytes": delivered});
            serde_json::from_value::<Sample>(bytes).unwrap()
        };
        let (then, now) = (sample(1.0, [5.0, 0.0, 3.0]), sample(3.0, [9.0, 4.0, 3.0]));
        let jain = |spans: [Span; 3]| fair_point(Some(&then), &now, &spans, &[2.0, 3.0]);
        let always = (Some(0.0), None);
        assert_eq!(jain([always; 3]), Some((2.5, 0.666667)));
        // The third flow has not begun, has begun in between, or has ended before.
        for idle in [(None, None), (Some(2.0), None), (Some(0.0), Some(1.0))] {
            assert_eq!(jain([always, always, idle]), Some((2.5, 1.0)), "{idle:?}");
        }
        assert_eq!(jain([(None, None); 3]), None);
    }

    #[test]
    fn fairness_ends_with_the_last_sample_that_is_shown() {
        // Two flows are alike up to 10 us, when the first of them alone goes on.
        let sample = |t: u32| {
            let (t_us, second) = (f64::from(t), f64::from(t.min(10)));
            let bytes = serde_json::json!({"t_us": t_us, "goodput_gbps": 0.0,
                "queue_max_bytes": 0, "queue_sum_bytes": 0, "trimmed": 0, "cwnd_bytes": [],
                "delivered_bytes": [t_us, second]});
            serde_json::from_value::<Sample>(bytes).unwrap()
        };
        let spans = [(Some(0.0), None); 2];
        let points = |shown: &dyn Fn(u32) -> bool| {
            let mut track = FairTrack::new(&spans, 4);
            (0..30).for_each(|t| track.add(sample(t), shown(t)));
            track.finish()
        };
        let until_10 = [(2.5, 1.0), (6.5, 1.0), (9.5, 1.0)];
        assert_eq!(points(&|t| t <= 10), until_10);
        assert_eq!(points(&|t| (5..=10).contains(&t)), [(6.5, 1.0), (9.5, 1.0)]);
        let all = points(&|_| true);
        assert_eq!((all.len(), all[7]), (8, (29.0, 0.5)));
    }

    #[test]
    fn a_flows_rate_is_what_was_delivered_between_two_samples() {
        let sample = |t_us: f64, delivered: f64| Sample {
            t_us,
            goodput_gbps: 0.0,
            queue_max_bytes: 0.0,
            queue_sum_bytes: 0.0,
            trimmed: t_us,
            flows: Vec::new(),
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
        assert_eq!(value(&b, Some(&a), "cwnd_sum_bytes", 0), Some(7.0));
        assert_eq!(value(&b, Some(&a), "cwnd_bytes", 0), None);
        assert_eq!(value(&b, Some(&a), "dci_queue_bytes", 2), Some(6.0));
        assert_eq!(value(&b, Some(&a), "dci_queue_bytes", 1), None);
        assert_eq!(value(&b, Some(&a), "dci_queue_sum_bytes", 0), Some(11.0));
        assert_eq!(value(&b, Some(&a), "dci_rate_gbps", 0), None);
        assert_eq!(value(&b, Some(&a), "rate_gbps", 0), Some(2.5));
    }
}
