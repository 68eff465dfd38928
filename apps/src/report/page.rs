//! Tables of results in a document, or in a page that it links, between their markers.
//!
//! ```text
//! <!-- results: NAME -->
//! whatever stood here is replaced
//! <!-- end -->
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use experiments::input::InputError;
use experiments::scenario::{Plot, PlotKind};

use super::panel::{grouped, labels, name_of, pooled, varying};
use super::read::{Results, RunResults};
use super::reference::Reference;
use crate::failure::Failure;
use crate::output;
use crate::ranking::{half_width, mean};
use crate::sweep_dir::Variant;
use crate::table::{markdown_head, markdown_row};

/// The file that has the markers of `name`: the document at `path`, else the first page that it
/// links and that has them.
///
/// # Errors
/// When no such file has them, or the document cannot be read.
pub(super) fn place(path: &Path, name: &str) -> Result<PathBuf, Failure> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| InputError::io(&file, &error))?;
    let begin = begin(name);
    if text.contains(&begin) {
        return Ok(path.to_owned());
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let pages = || linked(&text).map(|page| folder.join(page));
    // A link that leads nowhere is no place; `tests/tidy` finds those of our documents.
    let has_it = |page: &PathBuf| fs::read_to_string(page).is_ok_and(|text| text.contains(&begin));
    pages().find(has_it).ok_or_else(|| {
        let error = InputError::new("no place for these results", format!("a line `{begin}`"));
        let pages = match pages().count() {
            0 => "it".to_owned(),
            pages => format!("it or to one of the {pages} pages that it links"),
        };
        let help = format!("add the line to {pages}, and below it a line `{END}`");
        error.help(help).at(&file, 0, 0).into()
    })
}

/// The pages that a document links, relative to it.
fn linked(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|page| page.ends_with(".md") && !page.contains("://"))
}

/// Replaces what stands between the markers of `name` in the document at `path`.
///
/// # Errors
/// When it has no such markers, or cannot be read or written.
pub(super) fn update(path: &Path, name: &str, block: &str) -> Result<(), Failure> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| InputError::io(&file, &error))?;
    let text = replaced(&text, name, block).map_err(|error| {
        let line = error.line;
        error.at(&file, line, 0)
    })?;
    Ok(output::write_file(path, |out| out.write_all(text.as_bytes()))?)
}

fn begin(name: &str) -> String {
    format!("<!-- results: {name} -->")
}

const END: &str = "<!-- end -->";

fn replaced(text: &str, name: &str, block: &str) -> Result<String, InputError> {
    let (begin, end) = (begin(name), END);
    let Some((head, rest)) = text.split_once(&begin) else {
        let error = InputError::new("no place for these results", format!("a line `{begin}`"));
        return Err(error.help(format!("add it, and below it a line `{end}`")));
    };
    // An end behind the beginning of other results is theirs.
    let own = rest.split("<!-- results: ").next().unwrap_or_default();
    let Some((_, tail)) = rest.split_once(end).filter(|_| own.contains(end)) else {
        let line = head.lines().count() + 1;
        let error = InputError::new(format!("`{begin}` without an end"), format!("`{end}`"));
        return Err(error.at("", u32::try_from(line).unwrap_or(0), 0));
    };
    Ok(format!("{head}{begin}\n{}\n{end}{tail}", block.trim_end()))
}

/// The block of a document about the results: command, claim, picture, tables.
///
/// # Errors
/// When the flows of a run cannot be read.
pub(super) fn block(
    results: &Results,
    picture: &str,
    reference: Option<&Reference>,
) -> Result<String, InputError> {
    let head = &results.head;
    let mut text = format!("`headrace run {}`: {}.\n", head.name, head.about);
    if !head.figure.claim.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Claimed: {}.", head.figure.claim);
    }
    let _ = write!(text, "\n![{}]({picture})\n", head.about);
    let by_axis: Vec<(&Plot, &str)> =
        head.figure.plots.iter().filter_map(|plot| Some((plot, plot.x.as_deref()?))).collect();
    for (plot, axis) in &by_axis {
        text += &match plot.kind {
            PlotKind::Violin => percentiles(results, plot, axis)?,
            _ => pivot(results, plot, axis, reference),
        };
    }
    if by_axis.is_empty() {
        text += &list(results, reference);
    }
    if !results.invalid.is_empty() {
        let _ = writeln!(
            text,
            "\nLeft out, since the machine was too busy to poll in time: {}.",
            results.invalid_names()
        );
    }
    Ok(text)
}

/// The table of a violin: percentiles, nearest rank, of the flows of all runs by a label of the
/// axis.
fn percentiles(results: &Results, plot: &Plot, axis: &str) -> Result<String, InputError> {
    let mut header = vec![format!("{}, by {axis}", plot.y), "flows".to_owned(), "mean".to_owned()];
    header.extend(PERCENTILES.map(|(title, _)| title.to_owned()));
    let mut text = markdown_head(&header);
    for (label, times) in pooled(results.runs.iter(), plot, axis)? {
        let mean = (!times.is_empty()).then(|| mean(&times));
        let mut cells = vec![label, times.len().to_string(), shown(mean, 1)];
        cells.extend(PERCENTILES.map(|(_, percent)| {
            let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
            shown(times.get(rank).copied(), 1)
        }));
        text += &markdown_row(&cells);
    }
    Ok(text)
}

const PERCENTILES: [(&str, usize); 8] = [
    ("least", 0),
    ("p5", 5),
    ("p25", 25),
    ("p50", 50),
    ("p75", 75),
    ("p95", 95),
    ("p99", 99),
    ("most", 100),
];

/// A line a run; a column that no run has a value for is left out, as times are where all flows
/// outlast the run.
fn list(results: &Results, reference: Option<&Reference>) -> String {
    let of_others: Vec<Option<(f64, f64)>> =
        results.runs.iter().map(|run| of_reference(results, run, reference?)).collect();
    let any = of_others.iter().any(Option::is_some);
    let has_values = |path: &str| results.runs.iter().any(|run| run.measure(path).is_some());
    let columns = COLUMNS.into_iter().filter(|(_, path, _)| has_values(path));
    let columns: Vec<(&str, &str, usize)> = columns.collect();
    let mut header: Vec<String> = columns.iter().map(|(title, ..)| (*title).to_owned()).collect();
    header.insert(0, "run".to_owned());
    if let Some(reference) = reference.filter(|_| any) {
        header.push(format!("{}: longest FCT", reference.name));
        header.push("its sent again".to_owned());
    }
    let mut text = markdown_head(&header);
    for (run, other) in results.runs.iter().zip(of_others) {
        let mut cells = vec![run.name.replace(',', ", ")];
        let values = columns.iter().map(|(_, path, digits)| shown(run.measure(path), *digits));
        cells.extend(values);
        if any {
            cells.push(shown(other.map(|other| other.0), 1));
            cells.push(shown(other.map(|other| other.1), 0));
        }
        text += &markdown_row(&cells);
    }
    text
}

/// Columns of a list: title, place in the summary, decimals.
const COLUMNS: [(&str, &str, usize); 8] = [
    ("shortest FCT us", "fct_us.min", 1),
    ("median", "fct_us.p50", 1),
    ("longest", "fct_us.max", 1),
    ("completion us", "completion_us", 1),
    ("slowdown", "slowdown", 3),
    ("Jain", "jain", 4),
    ("sent again", "packets.retransmitted", 0),
    ("trimmed", "packets.trimmed", 0),
];

/// One measure, with an axis across; runs that differ in chance alone are a mean with half the
/// width of its 95 % interval.
fn pivot(results: &Results, plot: &Plot, axis: &str, reference: Option<&Reference>) -> String {
    let first = pivot_of(results, plot, &plot.y, axis, reference);
    let beside = plot.beside.as_ref();
    first + &beside.map_or_else(String::new, |it| pivot_of(results, plot, it, axis, reference))
}

fn pivot_of(
    results: &Results,
    plot: &Plot,
    measure: &str,
    axis: &str,
    reference: Option<&Reference>,
) -> String {
    let columns = labels(results.runs.iter(), axis);
    let unfolded = Plot { panel: None, ..plot.clone() };
    let axes = varying(results, &unfolded);
    let mut header = vec![format!("{measure}, by {axis}")];
    header.extend(columns.iter().cloned());
    let mut text = markdown_head(&header);
    let name = |run: &RunResults| name_of(&run.parts, &axes);
    for (name, ours) in grouped(results.runs.iter(), measure, (axis, &columns), name) {
        let mut others = vec![Vec::new(); columns.len()];
        for run in results.runs.iter().filter(|run| name_of(&run.parts, &axes) == name) {
            let other =
                reference.and_then(|of| of.measure(&results.head.name, &variant(run), measure));
            let at = columns.iter().position(|label| run.parts.get(axis) == Some(label));
            if let (Some(at), Some(other)) = (at, other) {
                others[at].push(other);
            }
        }
        let ours: Vec<String> = ours.iter().map(|values| means(values)).collect();
        let label = std::slice::from_ref(&name);
        text += &markdown_row(&[label, &ours[..]].concat());
        if let Some(reference) = reference.filter(|_| others.iter().any(|of| !of.is_empty())) {
            let others: Vec<String> = others.iter().map(|values| means(values)).collect();
            text +=
                &markdown_row(&[&[format!("{name} ({})", reference.name)], &others[..]].concat());
        }
    }
    text
}

/// Decimals of a value.
fn digits(value: Option<f64>) -> usize {
    if value.is_some_and(|value| value < 100.0) { 3 } else { 1 }
}

/// The mean of values, and half the width of its interval where there are several.
fn means(values: &[f64]) -> String {
    match values {
        [] => "-".to_owned(),
        [one] => shown(Some(*one), digits(Some(*one))),
        _ => {
            let (mean, half) = (mean(values), half_width(values));
            let digits = digits(Some(mean));
            format!("{mean:.digits$} ± {half:.digits$}")
        }
    }
}

fn of_reference(results: &Results, run: &RunResults, reference: &Reference) -> Option<(f64, f64)> {
    let of = |path| reference.measure(&results.head.name, &variant(run), path);
    Some((of("fct_us.max")?, of("packets.retransmitted")?))
}

fn variant(run: &RunResults) -> Variant {
    Variant { name: run.name.clone(), parts: run.parts.clone() }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "a\n<!-- results: x -->\nold\n<!-- end -->\nb\n<!-- results: y -->\n";

    #[test]
    fn only_what_stands_between_the_markers_changes() {
        let page = replaced(PAGE, "x", "new\n\n").unwrap();
        let begin = "a\n<!-- results: x -->\nnew\n<!-- end -->\nb\n";
        assert!(page.starts_with(begin), "{page}");
        assert_eq!(replaced(&page, "x", "new").unwrap(), page);
    }

    #[test]
    fn several_seeds_are_a_mean_with_its_interval() {
        assert_eq!(means(&[]), "-");
        assert_eq!(means(&[250.0]), "250.0");
        assert_eq!(means(&[2.0, 4.0]), "3.000 ± 12.706");
    }

    #[test]
    fn a_document_without_a_place_says_what_to_add() {
        let error = replaced(PAGE, "z", "").unwrap_err();
        assert!(error.expected.contains("<!-- results: z -->"), "{error}");
        let other = format!("{PAGE}<!-- results: z -->\nkept\n<!-- end -->\n");
        assert!(replaced(&other, "y", "").is_err(), "what follows is of z");
        let error = replaced(PAGE, "y", "").unwrap_err();
        assert_eq!((error.line, error.found.contains("without an end")), (6, true), "{error}");
    }

    #[test]
    fn results_go_to_the_page_that_has_their_place() {
        let root = std::env::temp_dir().join(format!("headrace-pages-{}", std::process::id()));
        fs::create_dir_all(root.join("sub")).unwrap();
        let first = root.join("first.md");
        let links = "[a](https://x.org/a.md) [b](gone.md) [c](sub/c.md#d) <!-- results: own -->\n";
        fs::write(&first, links).unwrap();
        fs::write(root.join("sub/c.md"), "<!-- results: x -->\n<!-- end -->\n").unwrap();
        assert_eq!(place(&first, "own").unwrap(), first);
        assert_eq!(place(&first, "x").unwrap(), root.join("sub/c.md"));
        let Err(Failure::Input(error)) = place(&first, "y") else { panic!("a place for y") };
        assert!(error.to_string().contains("first.md"), "{error}");
        assert!(format!("{error:?}").contains("2 pages that it links"), "{error:?}");
        fs::remove_dir_all(&root).unwrap();
    }
}
