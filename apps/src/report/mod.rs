//! `headrace report` and `headrace compare`: pictures, numbers and tables of what runs left behind.
//!
//! | Module | Is |
//! |---|---|
//! | `read` | directories of results |
//! | `panel` | from results to curves |
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
mod legend;
mod page;
mod panel;
mod read;
mod reference;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use compare::compare;

use crate::args::ReportArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::OutDir;
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
    runs: Vec<Run>,
    /// The names of runs whose polls were too late to mean anything.
    #[serde(default)]
    invalid: Vec<String>,
    plots: Vec<Vec<Panel>>,
}

/// A run of a figure.
#[derive(Serialize, Deserialize)]
struct Run {
    variant: String,
    /// The summary without what depends on the machine.
    summary: Value,
}

/// Draws every directory of results, and the numbers of every earlier report again.
///
/// # Errors
/// When one holds no results, or the output cannot be written.
pub(crate) fn run(args: &ReportArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let is_numbers = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let (earlier, dirs): (Vec<&PathBuf>, Vec<&PathBuf>) = args.dirs.iter().partition(is_numbers);
    let dirs: Vec<PathBuf> = dirs.into_iter().cloned().collect();
    let earlier = earlier.into_iter().map(|path| read::json(path));
    let earlier: Vec<Numbers> = earlier.collect::<Result<_, _>>()?;
    let all = read::all(&dirs)?;
    let reference = args.reference.as_deref().map(Reference::read).transpose()?;
    let link = args.page.is_some().then(|| format::linked(&args.format)).transpose()?;
    let out = OutDir::create(&args.output)?;
    let redrawn = earlier.len();
    let mut figures = earlier;
    figures.extend(all.iter().map(numbers).collect::<Result<Vec<_>, _>>()?);
    format::write(&out, &figures, &args.format)?;
    for numbers in &figures[..redrawn] {
        writeln!(console.err, "{}: drawn again", numbers.name)?;
    }
    for results in &all {
        let name = &results.head.name;
        if let (Some(path), Some(ending)) = (&args.page, link) {
            let path = page::place(path, name)?;
            let picture = beside(&path, &args.output.join(format!("{name}.{ending}")));
            let block = page::block(results, &picture, reference.as_ref())?;
            page::update(&path, name, &block)?;
        }
        writeln!(console.err, "{name}: {} runs drawn", results.all().count())?;
        if !results.invalid.is_empty() {
            let names = results.invalid_names();
            writeln!(console.err, "{name}: INVALID, since their polls were too late: {names}")?;
        }
    }
    Ok(Exit::Finished)
}

/// What a picture shows, in words: the sentence of the scenario, and the figure that it repeats.
fn title(numbers: &Numbers) -> String {
    let about = if numbers.about.is_empty() { &numbers.name } else { &numbers.about };
    let mut letters = about.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let of = if numbers.of.is_empty() { String::new() } else { format!(" ({})", numbers.of) };
    format!("{first}{}{of}", letters.as_str())
}

fn numbers(results: &Results) -> Result<Numbers, Failure> {
    let head = &results.head;
    let run = |run: &read::Run| Run { variant: run.name.clone(), summary: lasting(&run.summary) };
    Ok(Numbers {
        schema: 1,
        name: head.name.clone(),
        of: head.figure.of.clone(),
        about: head.about.clone(),
        claim: head.figure.claim.clone(),
        runs: results.runs.iter().map(run).collect(),
        invalid: results.invalid.iter().map(|run| run.name.clone()).collect(),
        plots: panel::plots(results)?,
    })
}

/// A summary without what differs from one time that it ran to the next in virtual time, and from
/// one machine to the next.
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
