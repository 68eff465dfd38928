//! `headrace report` and `headrace compare`: pictures, numbers and tables of results.
//!
//! | Module | Is |
//! |---|---|
//! | `read` | directories of results |
//! | `panel` | from results to curves |
//! | `inputs` | the matrix and the network of results, as pictures |
//! | `draw`, `legend` | from curves to SVG |
//! | `format`, `html` | the files of a figure by format, one page for a browser |
//! | `page` | tables in a document |
//! | `reference` | results of another simulator |
//!
//! Equal results give equal bytes: no times of day, no machine's speed.

mod compare;
mod draw;
mod format;
mod html;
mod inputs;
mod legend;
mod measures;
mod page;
mod panel;
mod read;
mod reference;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use experiments::input::InputError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use compare::compare;

use crate::args::{Format, LogAxis, ReportArgs};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::OutDir;
use draw::{Scales, scalable};
use inputs::Inputs;
use panel::Panel;
use read::Results;
use reference::Reference;

/// The numbers of a figure: NAME.json.
#[derive(Serialize, Deserialize)]
struct Numbers {
    schema: u32,
    name: String,
    of: String,
    about: String,
    claim: String,
    runs: Vec<FigureRun>,
    /// The names of runs that are invalid because their polls were too late.
    #[serde(default)]
    invalid: Vec<String>,
    plots: Vec<Vec<Panel>>,
    /// Matrices and networks, if the user asked for these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Inputs>,
}

/// A run of a figure.
#[derive(Serialize, Deserialize)]
struct FigureRun {
    variant: String,
    /// The summary without what depends on the machine.
    summary: Value,
}

/// Figures have files by their names: two of one name would replace one another. `places` are where
/// the figures were read, in their order.
fn names_differ(figures: &[Numbers], places: &[&Path]) -> Result<(), InputError> {
    let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
    for (numbers, place) in figures.iter().zip(places) {
        let Some(first) = names.insert(&numbers.name, place) else { continue };
        let found = format!("the figure `{}`, as {} is, too", numbers.name, first.display());
        let error = InputError::new(found, "one result for each figure: its files have that name");
        let help = format!(
            "draw them apart: headrace report {} -o PLACE1, headrace report {} -o PLACE2; headrace \
             compare has both in one table",
            first.display(),
            place.display()
        );
        return Err(error.at(&place.display().to_string(), 0, 0).help(help));
    }
    Ok(())
}

/// Draws every directory of results, and the numbers of every earlier report again.
///
/// # Errors
/// When one holds no results, or the output cannot be written.
pub(crate) fn run(args: &ReportArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let is_numbers = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let (earlier, dirs): (Vec<&PathBuf>, Vec<&PathBuf>) = args.dirs.iter().partition(is_numbers);
    let mut places: Vec<&Path> = earlier.iter().map(|path| path.as_path()).collect();
    let dirs: Vec<PathBuf> = dirs.into_iter().cloned().collect();
    let earlier = earlier.into_iter().map(|path| read::json(path));
    let earlier: Vec<Numbers> = earlier.collect::<Result<_, _>>()?;
    let all = read::all(&dirs)?;
    let reference = args.reference.as_deref().map(Reference::read).transpose()?;
    let link = args.page.is_some().then(|| format::linked(&args.format)).transpose()?;
    let redrawn = earlier.len();
    let mut figures = earlier;
    figures.extend(all.iter().map(|one| numbers(one, args)).collect::<Result<Vec<_>, _>>()?);
    places.extend(all.iter().map(|results| results.place.as_path()));
    names_differ(&figures, &places)?;
    let out = OutDir::create(&args.output)?;
    let scales = Scales { x: args.log.contains(&LogAxis::X), y: args.log.contains(&LogAxis::Y) };
    format::write(&out, &figures, (&args.format, args.inputs), scales)?;
    for numbers in &figures[..redrawn] {
        writeln!(console.err, "{}: drawn again", numbers.name)?;
        if args.flows.is_some() || (args.inputs && numbers.inputs.is_none()) {
            let text = "an earlier report has what it drew: name the results for more";
            writeln!(console.err, "warning: {}: {text}", numbers.name)?;
        }
    }
    for numbers in &figures {
        let can = numbers.plots.iter().flatten().map(scalable);
        let can = can.fold(Scales::default(), |a, b| Scales { x: a.x || b.x, y: a.y || b.y });
        for (axis, asked, can) in [("x", scales.x, can.x), ("y", scales.y, can.y)] {
            if asked && !can {
                let name = &numbers.name;
                writeln!(
                    console.err,
                    "warning: {name}: --log {axis} changes nothing: no panel has \
                    only numbers above 0 there"
                )?;
            }
        }
    }
    for results in &all {
        let name = &results.head.name;
        if let (Some(path), Some(ending)) = (&args.page, link) {
            let path = page::place(path, name)?;
            let picture = beside(&path, &args.output.join(format!("{name}.{ending}")));
            let block = page::block(results, &picture, reference.as_ref())?;
            page::update(&path, name, &block)?;
        }
        let drawn = results.all().count();
        match results.missing {
            0 if drawn == 1 => writeln!(console.err, "{name}: 1 run drawn")?,
            0 => writeln!(console.err, "{name}: {drawn} runs drawn")?,
            missing => {
                let all = drawn + missing;
                let text = "the others have no results in that directory";
                writeln!(console.err, "{name}: {drawn} of {all} runs drawn: {text}")?;
            }
        }
    }
    for numbers in &figures[redrawn..] {
        for note in notes(numbers) {
            writeln!(console.err, "{}: {note}", numbers.name)?;
        }
    }
    Ok(Exit::Finished)
}

/// The most runs that a note names.
const NAMED: usize = 6;

/// Warnings for the reader of a picture: invalid runs, and unfinished ones.
fn notes(numbers: &Numbers) -> Vec<String> {
    let listed = |names: &[String]| {
        let rest = names.len().saturating_sub(NAMED);
        let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
        format!("{}{rest}", names[..names.len().min(NAMED)].join("; "))
    };
    let quoted = |name: &String| format!("`{name}`");
    let invalid: Vec<String> = numbers.invalid.iter().map(quoted).collect();
    let (mut unfinished, mut unsound) = (Vec::new(), Vec::new());
    for run in &numbers.runs {
        let (finished, all) = (&run.summary["flows"]["finished"], &run.summary["flows"]["total"]);
        if finished != all {
            unfinished.push(format!("{} ({finished} of {all} flows)", quoted(&run.variant)));
        }
        if run.summary["audit"]["ok"] == Value::Bool(false) {
            unsound.push(quoted(&run.variant));
        }
    }
    [
        ("INVALID, since their polls were too late: ", invalid),
        ("UNFINISHED, so that fewer flows have times: ", unfinished),
        ("AUDIT FAILED: ", unsound),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(why, names)| format!("{why}{}", listed(&names)))
    .collect()
}

/// What a picture shows, in words: the sentence of the scenario, and the figure that it repeats.
fn title(numbers: &Numbers) -> String {
    let about = if numbers.about.is_empty() { &numbers.name } else { &numbers.about };
    let mut letters = about.chars();
    // A file's name stays as it is.
    let word = about.split_whitespace().next().unwrap_or_default();
    let is_word = word.chars().all(char::is_alphabetic);
    let first: String = match letters.next() {
        Some(first) if is_word => first.to_uppercase().collect(),
        first => first.into_iter().collect(),
    };
    let of = if numbers.of.is_empty() { String::new() } else { format!(" ({})", numbers.of) };
    format!("{first}{}{of}", letters.as_str())
}

fn numbers(results: &Results, args: &ReportArgs) -> Result<Numbers, Failure> {
    let head = &results.head;
    let run = |run: &read::RunResults| FigureRun {
        variant: run.name.clone(),
        summary: lasting(&run.summary),
    };
    Ok(Numbers {
        schema: 1,
        name: head.name.clone(),
        of: head.figure.of.clone(),
        about: head.about.clone(),
        claim: head.figure.claim.clone(),
        runs: results.runs.iter().map(run).collect(),
        invalid: results.invalid.iter().map(|run| run.name.clone()).collect(),
        plots: panel::plots(results, args.flows.as_ref())?,
        inputs: (args.inputs || args.format.contains(&Format::Html))
            .then(|| Inputs::of(results))
            .transpose()?,
    })
}

/// A summary without the values that differ when a run in virtual time is repeated, or runs on
/// another machine.
fn lasting(summary: &Value) -> Value {
    let mut summary = summary.clone();
    if let Some(object) = summary.as_object_mut() {
        for key in ["wall_s", "hops_per_s", "peak_rss_bytes", "provenance"] {
            object.remove(key);
        }
    }
    summary
}

/// `path` as a link in the document `page` has it.
fn beside(page: &Path, path: &Path) -> String {
    let folder = page.parent().unwrap_or(Path::new(""));
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(about: &str) -> Numbers {
        let numbers = serde_json::json!({"schema": 1, "name": "uno-fig03", "of": "uno fig. 3",
            "about": about, "claim": "", "runs": [], "plots": []});
        serde_json::from_value(numbers).unwrap()
    }

    #[test]
    fn a_picture_is_called_by_what_it_shows_and_not_by_a_files_name() {
        assert_eq!(title(&numbers("two flows in one port")), "Two flows in one port (uno fig. 3)");
        let of_file = title(&numbers("my_runs.cm by transport, 5 seeds"));
        assert_eq!(of_file, "my_runs.cm by transport, 5 seeds (uno fig. 3)");
    }

    #[test]
    fn runs_that_are_not_whole_are_named_below_the_picture() {
        let mut numbers = numbers("x");
        let run = |name: &str, finished: u64, ok: bool| FigureRun {
            variant: name.to_owned(),
            summary: serde_json::json!({"flows": {"total": 9, "finished": finished},
                "audit": {"ok": ok}}),
        };
        numbers.runs = vec![run("a", 9, true), run("b", 7, true), run("c", 9, false)];
        numbers.invalid = (0..8).map(|at| format!("late {at}")).collect();
        let all = notes(&numbers);
        assert!(
            all[0].starts_with("INVALID") && all[0].ends_with("`late 5`; and 2 more"),
            "{all:?}"
        );
        assert!(all[1].starts_with("UNFINISHED") && all[1].ends_with("`b` (7 of 9 flows)"));
        assert_eq!((all.len(), all[2].as_str()), (3, "AUDIT FAILED: `c`"));
    }
}
