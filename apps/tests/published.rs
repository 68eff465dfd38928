//! Published numbers are what the program gives today: rows of tables that are written by hand, and
//! the results behind the pictures of docs/results.
//!
//! `make test` runs the short ones; `DOCUMENTED=whole`, as `make docs-test` sets it, runs the
//! shortest run of every figure that takes less than a minute or so.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use common::headrace;

/// Hops of the longest run that `make test` and `make docs-test` repeat.
const HOPS: u64 = 150_000;
const HOPS_WHOLE: u64 = 30_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Lines of the table below this heading of docs/results/reference.md, cell by cell.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/results/reference.md")).unwrap();
    let section = text.split_once(&format!("\n## {heading}\n")).expect(heading).1;
    let lines = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The summary of an incast that a table names as `32:1, 1 MiB`, on 128 hosts, with these flags.
fn incast(name: &str, flags: &[&str]) -> Value {
    let (degree, size) = name.split_once(":1, ").expect(name);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("incast.cm");
    let file = file.to_str().unwrap();
    let size = size.replace(' ', "");
    let gen_line = ["gen", "incast", "--hosts", "128", "--degree", degree, "--size", &size];
    let (code, _, err) = headrace(&[&gen_line[..], &["-o", file]].concat());
    assert_eq!(code, 0, "{err}");
    let line = ["run", file, "--topo", "ft128-1os", "--json", "--quiet"];
    let (code, out, err) = headrace(&[&line[..], flags].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

fn sent_again(summary: &Value) -> String {
    summary["packets"]["retransmitted"].to_string()
}

/// A number of a summary as a table rounds it to this many decimals.
fn rounded(value: &Value, decimals: usize) -> String {
    format!("{:.decimals$}", value.as_f64().unwrap())
}

#[test]
fn incasts_without_trimming_are_as_published() {
    let rows = table("Incasts without trimming");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let bdp = row[1].split_once(" BDP").unwrap().0;
        let summary =
            incast(&row[0], &["--trim", "off", "--set", &format!("switch.queue_bdp={bdp}")]);
        let found = (rounded(&summary["slowdown"], 2), sent_again(&summary));
        assert_eq!(found, (row[2].clone(), row[3].clone()), "{row:?}");
    }
}

#[test]
fn incasts_with_trimming_are_as_published() {
    let rows = table("Incasts, 128-host fat tree, trimming on");
    let short = |row: &&Vec<String>| !row[0].contains("4 MiB");
    assert!(rows.iter().filter(short).count() >= 5);
    for row in rows.iter().filter(short) {
        for (transport, slowdown, again) in [("smartt", 1, 2), ("smartt-paper", 6, 7)] {
            let summary = incast(&row[0], &["--transport", transport]);
            let found = (rounded(&summary["slowdown"], 3), sent_again(&summary));
            assert_eq!(found, (row[slowdown].clone(), row[again].clone()), "{transport}: {row:?}");
            let longest = rounded(&summary["fct_us"]["max"], 1);
            assert!(transport != "smartt" || row[3] == format!("{longest} us"), "{row:?}");
        }
    }
}

/// The scenario of a figure.
fn scenario(figure: &str) -> PathBuf {
    let folders = fs::read_dir(root().join("testbed/scenarios")).unwrap();
    let files = folders.map(|folder| folder.unwrap().path().join(format!("{figure}.toml")));
    files.into_iter().find(|file| file.exists()).expect(figure)
}

/// The run of a figure's results in virtual time with the fewest hops: its name and summary.
fn shortest(results: &Value) -> Option<(String, &Value)> {
    let runs = results["runs"].as_array().unwrap().iter();
    let hops = |run: &&Value| run["summary"]["packets"]["hops"].as_u64();
    let counted = runs.filter(|run| run["summary"]["world"] == "sim" && hops(run).is_some());
    let shortest = counted.min_by_key(hops)?;
    Some((shortest["variant"].as_str().unwrap().to_owned(), &shortest["summary"]))
}

/// Whether a result says what a published one says, whose last digits were rounded another way and
/// which may lack what is counted since.
fn agrees(found: &Value, published: &Value) -> bool {
    match (found, published) {
        (Value::Number(found), Value::Number(published)) => {
            let (found, published) = (found.as_f64().unwrap(), published.as_f64().unwrap());
            (found - published).abs() <= 1e-9 * published.abs()
        }
        (Value::Object(found), Value::Object(published)) => published
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|found| agrees(found, value))),
        (Value::Array(found), Value::Array(published)) => {
            let mut both = found.iter().zip(published);
            found.len() == published.len()
                && both.all(|(found, published)| agrees(found, published))
        }
        _ => found == published,
    }
}

#[test]
fn the_shortest_run_of_each_figure_is_as_published() {
    let whole = std::env::var("DOCUMENTED").is_ok_and(|what| what == "whole");
    let longest = if whole { HOPS_WHOLE } else { HOPS };
    let files = fs::read_dir(root().join("docs/results")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut figures: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|kind| kind == "json")).collect();
    figures.sort();
    let (mut ran, mut wrong) = (0, Vec::new());
    for figure in figures {
        let results: Value = serde_json::from_slice(&fs::read(&figure).unwrap()).unwrap();
        let Some((variant, published)) = shortest(&results) else { continue };
        if published["packets"]["hops"].as_u64() > Some(longest) {
            continue;
        }
        let name = figure.file_stem().unwrap().to_str().unwrap();
        let file = scenario(name);
        let line = ["run", file.to_str().unwrap(), "--variant", &variant, "--json", "--quiet"];
        let (code, out, err) = headrace(&line);
        assert!(code <= 1, "{name}, {variant}: {err}");
        ran += 1;
        let found: Vec<Value> = serde_json::from_str(&out).unwrap();
        for (key, value) in published.as_object().unwrap() {
            if !agrees(&found[0][key], value) {
                wrong
                    .push(format!("{name}, {variant}: {key} {}, published {value}", found[0][key]));
            }
        }
    }
    assert!(ran >= 5, "{ran} figures");
    assert!(
        wrong.is_empty(),
        "make results FIGURE=... writes these anew, and the text beside them may be old:\n{}",
        wrong.join("\n")
    );
}
