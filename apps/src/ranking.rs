//! Runs that differ by chance as one line each: means with intervals, and a rank.

use std::io;

use comfy_table::CellAlignment;
use experiments::scenario::AxisPoint;
use serde_json::Value;

use crate::console::Console;
use crate::fit;
use crate::table::plain;

/// Runs with the same place on every axis but that of chance.
struct Group<'a> {
    name: String,
    /// The group's place on the axes along which runs are not compared: the work that is done.
    work: String,
    runs: Vec<&'a Value>,
    rank: Option<usize>,
}

/// Measures of a line: title, place in the summary, decimals.
const COLUMNS: [(&str, &str, usize); 6] = [
    ("completion us", RANKED_BY, 2),
    ("slowdown", "/slowdown", 3),
    ("fct mean us", "/fct_us/mean", 2),
    ("fct p99 us", "/fct_us/p99", 2),
    ("Jain", "/jain", 4),
    ("sent again", "/packets/retransmitted", 0),
];

/// The measure that gives the rank, the least first.
const RANKED_BY: &str = "/completion_us";

/// Writes a line for all runs that differ in the axis `chance` alone: each mean, with half the
/// width of its 95 % interval. Ranks the lines of the same work, which are lines that differ only
/// in axes of `compared`. `runs` are elements of the array that `--json` prints, with their places.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write(
    runs: &[(&Value, &[AxisPoint])],
    compared: &[String],
    chance: &str,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let groups = ranked(groups(runs, compared, chance));
    let mut table = plain();
    let titles = COLUMNS.map(|(title, ..)| title);
    table.set_header(["run", "rank", "runs", "finished"].into_iter().chain(titles));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for group in &groups {
        let sum = |path| numbers(group, path).iter().sum::<f64>();
        let finished = format!("{}/{}", sum("/flows/finished"), sum("/flows/total"));
        let rank = group.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
        let head = [group.name.clone(), rank, group.runs.len().to_string(), finished];
        let values = COLUMNS.map(|(_, path, digits)| shown(&numbers(group, path), digits));
        table.add_row(head.into_iter().chain(values));
    }
    fit::write_columns(table, console)?;
    if groups.iter().any(|group| group.runs.len() > 1) {
        writeln!(console.out, "mean ± half the width of its 95 % interval over the seeds")?;
    }
    Ok(())
}

fn groups<'a>(
    runs: &[(&'a Value, &[AxisPoint])],
    compared: &[String],
    chance: &str,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (run, parts) in runs {
        let joined = |kept: &dyn Fn(&AxisPoint) -> bool| {
            let texts = parts.iter().filter(|part| kept(part)).map(AxisPoint::to_string);
            texts.collect::<Vec<_>>().join(",")
        };
        let mut name = joined(&|part| part.axis != chance);
        if name.is_empty() {
            // Runs that differ by chance alone are named by what they run.
            name = run["transport"].as_str().unwrap_or_default().to_owned();
        }
        let work = joined(&|part| part.axis != chance && !compared.contains(&part.axis));
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { name, work, runs: vec![run], rank: None }),
        }
    }
    groups
}

/// Gives each group its place among those of the same work; equal ones, to the digits that are
/// shown, share a place. A group with a run that did not finish has none.
fn ranked(mut groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let means: Vec<Option<f64>> = groups
        .iter()
        .map(|group| {
            let values = numbers(group, RANKED_BY);
            (values.len() == group.runs.len()).then(|| (mean(&values) * 100.0).round())
        })
        .collect();
    let works: Vec<String> = groups.iter().map(|group| group.work.clone()).collect();
    for (at, group) in groups.iter_mut().enumerate() {
        let Some(own) = means[at] else { continue };
        let others = means.iter().zip(&works).filter(|(_, work)| **work == works[at]);
        group.rank = Some(place(own, others.filter_map(|(mean, _)| *mean)));
    }
    groups
}

/// The place of `own` among `all`, the least first; equal ones share a place.
pub(crate) fn place(own: f64, all: impl Iterator<Item = f64>) -> usize {
    1 + all.filter(|other| *other < own).count()
}

fn numbers(group: &Group<'_>, path: &str) -> Vec<f64> {
    group.runs.iter().filter_map(|run| run.pointer(path).and_then(Value::as_f64)).collect()
}

fn shown(values: &[f64], digits: usize) -> String {
    match values.len() {
        0 => "-".to_owned(),
        1 => format!("{:.digits$}", values[0]),
        _ => format!("{:.digits$} ± {:.digits$}", mean(values), half_width(values)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Half the width of the interval that holds the mean with 95 %, by Student's distribution. At
/// least two values.
#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
pub(crate) fn half_width(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    let quantile = STUDENT_975.get(values.len() - 2).copied().unwrap_or(NORMAL_975);
    quantile * deviation / count.sqrt()
}

/// The geometric mean of `ratios`, above 0; 1 of none. It is proportional: dividing all ratios by
/// one number changes it by the same factor for everything that is compared.
pub(crate) fn geometric_mean(ratios: &[f64]) -> f64 {
    mean(&logarithms(ratios)).exp()
}

/// The interval that holds the geometric mean of `ratios` with 95 %, by the spread of their
/// logarithms; `None` for fewer than two.
pub(crate) fn geometric_interval(ratios: &[f64]) -> Option<(f64, f64)> {
    let logarithms = logarithms(ratios);
    (ratios.len() > 1).then(|| {
        let (mean, half) = (mean(&logarithms), half_width(&logarithms));
        ((mean - half).exp(), (mean + half).exp())
    })
}

fn logarithms(ratios: &[f64]) -> Vec<f64> {
    ratios.iter().map(|ratio| ratio.ln()).collect()
}

/// The 97.5 % quantiles of Student's distribution with 1 to 29 degrees of freedom.
const STUDENT_975: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045,
];

/// The quantile of the normal distribution, for more degrees of freedom.
const NORMAL_975: f64 = 1.960;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(completion: Option<f64>) -> Value {
        json!({"completion_us": completion, "slowdown": 1.0,
            "flows": {"total": 2, "finished": if completion.is_some() { 2 } else { 1 }}})
    }

    fn parts(texts: &[(&str, &str)]) -> Vec<AxisPoint> {
        texts.iter().map(|(axis, value)| AxisPoint::new(axis, value)).collect()
    }

    #[test]
    fn runs_of_several_seeds_are_one_line_with_an_interval_and_a_rank_among_equal_work() {
        let values = [10.0, 12.0, 14.0, 9.0, 9.0, 9.0, 1.0].map(|value| run(Some(value)));
        let of = |matrix, cc, seed| parts(&[("matrix", matrix), ("cc", cc), ("seed", seed)]);
        let places = [
            of("a", "swift", "1"),
            of("a", "swift", "2"),
            of("a", "swift", "3"),
            of("a", "dctcp", "1"),
            of("a", "dctcp", "2"),
            of("a", "dctcp", "3"),
            of("b", "swift", "1"),
        ];
        let runs: Vec<_> = values.iter().zip(places.iter().map(Vec::as_slice)).collect();
        let groups = ranked(groups(&runs, &["cc".to_owned()], "seed"));
        let ranks: Vec<_> = groups.iter().map(|group| (group.name.as_str(), group.rank)).collect();
        let expected = [
            ("matrix=a,cc=swift", Some(2)),
            ("matrix=a,cc=dctcp", Some(1)),
            ("matrix=b,cc=swift", Some(1)),
        ];
        assert_eq!(ranks, expected);
        // What is shown alike has one place.
        let values = [9.001, 9.002, 9.02].map(|value| run(Some(value)));
        let places = ["swift", "dctcp", "bbr"].map(|cc| of("a", cc, "1"));
        let runs: Vec<_> = values.iter().zip(places.iter().map(Vec::as_slice)).collect();
        let equal = ranked(super::groups(&runs, &["cc".to_owned()], "seed"));
        let ranks: Vec<_> = equal.iter().map(|group| group.rank).collect();
        assert_eq!(ranks, [Some(1), Some(1), Some(3)]);
        // Deviation 2, three runs: 4.303 * 2 / sqrt(3).
        assert_eq!(shown(&numbers(&groups[0], RANKED_BY), 2), "12.00 ± 4.97");
        assert_eq!(shown(&[3.0], 1), "3.0");
    }

    #[test]
    fn geometric_means_have_intervals_of_logarithms() {
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
        // Logarithms 0, ln 2, ln 4: deviation ln 2, three values: 4.303 * ln 2 / sqrt(3).
        let (low, high) = geometric_interval(&[1.0, 2.0, 4.0]).unwrap();
        let half = (4.303 * 2f64.ln() / 3f64.sqrt()).exp();
        assert!((low - 2.0 / half).abs() < 1e-9 && (high - 2.0 * half).abs() < 1e-9);
        assert_eq!(geometric_interval(&[3.0]), None);
    }

    #[test]
    fn a_line_with_an_unfinished_run_has_no_rank() {
        let (a, b) = (run(Some(5.0)), run(None));
        let (pa, pb) = (parts(&[("cc", "x"), ("seed", "1")]), parts(&[("cc", "x"), ("seed", "2")]));
        let runs = [(&a, &pa[..]), (&b, &pb[..])];
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console::plain(&mut out, &mut err);
        write(&runs, &["cc".to_owned()], "seed", &mut console).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("3/4") && text.contains(" - "), "{text}");
    }
}
