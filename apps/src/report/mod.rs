//! `headrace report` and `headrace compare`: pictures, numbers and tables of what runs left behind.
//!
//! | Module | Is |
//! |---|---|
//! | `read` | directories of results |
//! | `panel` | from results to curves |
//! | `draw` | from curves to SVG |
//! | `page` | tables in a document |
//! | `reference` | results of another simulator |
//!
//! Equal results give equal bytes: no times of day, no machine's speed.

mod compare;
mod draw;
mod page;
mod panel;
mod read;
mod reference;

use std::path::Path;

use serde::Serialize;
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
#[derive(Serialize)]
struct Numbers<'a> {
    schema: u32,
    name: &'a str,
    of: &'a str,
    about: &'a str,
    claim: &'a str,
    runs: Vec<Run<'a>>,
    plots: &'a [Vec<Panel>],
}

/// A run of a figure.
#[derive(Serialize)]
struct Run<'a> {
    variant: &'a str,
    /// Without what depends on the machine.
    summary: Value,
}

/// Draws every directory.
///
/// # Errors
/// When one holds no results, or the output cannot be written.
pub(crate) fn run(args: &ReportArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let all = read::all(&args.dirs)?;
    let reference = args.reference.as_deref().map(Reference::read).transpose()?;
    let out = OutDir::create(&args.output)?;
    for results in &all {
        let plots = panel::plots(results)?;
        let name = &results.head.name;
        let of = &results.head.figure.of;
        let title = if of.is_empty() { name.clone() } else { format!("{name} ({of})") };
        let svg = draw::svg(&title, &plots)?;
        out.write(&format!("{name}.svg"), |file| file.write_all(svg.as_bytes()))?;
        let numbers = numbers(results, &plots);
        out.write(&format!("{name}.json"), |file| {
            serde_json::to_writer(&mut *file, &numbers)?;
            file.write_all(b"\n")
        })?;
        if let Some(path) = &args.page {
            let picture = beside(path, &args.output.join(format!("{name}.svg")));
            let block = page::block(results, &picture, reference.as_ref())?;
            page::update(path, name, &block)?;
        }
        writeln!(console.err, "{name}: {} runs drawn", results.runs.len())?;
    }
    Ok(Exit::Finished)
}

fn numbers<'a>(results: &'a Results, plots: &'a [Vec<Panel>]) -> Numbers<'a> {
    let head = &results.head;
    let run = |run: &'a read::Run| Run { variant: &run.name, summary: lasting(&run.summary) };
    Numbers {
        schema: 1,
        name: &head.name,
        of: &head.figure.of,
        about: &head.about,
        claim: &head.figure.claim,
        runs: results.runs.iter().map(run).collect(),
        plots,
    }
}

/// A summary without what differs from one time that it ran to the next in virtual time.
fn lasting(summary: &Value) -> Value {
    let mut summary = summary.clone();
    if let Some(object) = summary.as_object_mut() {
        for key in ["wall_s", "hops_per_s", "peak_rss_bytes"] {
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
