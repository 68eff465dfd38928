//! `headrace compare A B ...`: results side by side, and as multiples of the results of the first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table};
use serde_json::Value;

use super::read::{self, Results, RunResults, measure};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::fit;
use crate::table::plain;
use experiments::input::InputError;

/// Prints the comparison. Of scenarios the variants of the same name are compared; single runs
/// always are.
///
/// # Errors
/// When a directory holds no results, or one has nothing in common with the first.
pub(crate) fn compare(dirs: &[PathBuf], console: &mut Console<'_>) -> Result<Exit, Failure> {
    let all: Vec<Results> = dirs.iter().map(|dir| read::one(dir)).collect::<Result<_, _>>()?;
    let groups = groups(dirs, &all)?;
    for (column, dir) in columns(dirs.len()).iter().zip(dirs) {
        writeln!(console.out, "{column}: {}", dir.display())?;
    }
    let left_out = left_out(&groups, &all);
    if !left_out.is_empty() {
        let text = "left out, since not all of these directories have results of it";
        writeln!(console.err, "{text}: {}", left_out.join("; "))?;
    }
    for runs in groups {
        if runs.iter().all(|run| run.name == runs[0].name) {
            writeln!(console.out, "{}", runs[0].name)?;
        }
        for (column, run) in columns(runs.len()).iter().zip(&runs) {
            if !run.is_valid() {
                writeln!(console.out, "{column} is INVALID: its polls were too late")?;
            }
        }
        inputs(&runs, console)?;
        results(&runs, console)?;
    }
    Ok(Exit::Finished)
}

/// Names of columns: A, B, C.
fn columns(count: usize) -> Vec<String> {
    let letter = |at: usize| match u8::try_from(at) {
        Ok(at @ 0..26) => char::from(b'A' + at).to_string(),
        _ => format!("#{}", at + 1),
    };
    (0..count).map(letter).collect()
}

/// Runs that are compared, one of each directory.
fn groups<'a>(
    dirs: &[PathBuf],
    all: &'a [Results],
) -> Result<Vec<Vec<&'a RunResults>>, InputError> {
    let single = |results: &'a Results| {
        let mut runs = results.all();
        runs.next().filter(|_| runs.next().is_none())
    };
    if let Some(runs) = all.iter().map(single).collect::<Option<Vec<&RunResults>>>() {
        return Ok(vec![runs]);
    }
    let of_name = |name: &String| {
        let of = |results: &'a Results| results.all().find(|run| run.name == *name);
        all.iter().map(of).collect::<Option<Vec<&RunResults>>>()
    };
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let groups: Vec<Vec<&RunResults>> = first.all().filter_map(|run| of_name(&run.name)).collect();
    if !groups.is_empty() {
        return Ok(groups);
    }
    let shares =
        |results: &&Results| results.all().any(|run| first.all().any(|r| r.name == run.name));
    let lone = all.iter().position(|results| !shares(&results)).unwrap_or(1);
    let (dir, of) = (dirs.get(lone).map_or(Path::new(""), PathBuf::as_path), &dirs[0]);
    let found = format!("no variant that {} has too", of.display());
    let error = InputError::new(found, "results of the same scenario, or single runs");
    Err(error.at(&dir.display().to_string(), 0, 0))
}

/// The names of runs that are in no group, where groups go by names.
fn left_out<'a>(groups: &[Vec<&RunResults>], all: &'a [Results]) -> Vec<&'a str> {
    let by_name = groups.iter().all(|runs| runs.iter().all(|run| run.name == runs[0].name));
    let is_compared = |name: &str| groups.iter().any(|runs| runs[0].name == name);
    let names = all.iter().flat_map(Results::all).map(|run| run.name.as_str());
    let lone: BTreeSet<&str> = names.filter(|name| by_name && !is_compared(name)).collect();
    lone.into_iter().collect()
}

/// A table with a column for each run.
fn table(head: &str, columns: Vec<String>) -> Table {
    let mut table = plain();
    table.set_header([vec![head.to_owned()], columns].concat());
    table
}

/// Writes the settings and inputs in which the runs differ; nothing where they are the same.
fn inputs(runs: &[&RunResults], console: &mut Console<'_>) -> Result<(), Failure> {
    let all: Vec<_> = runs.iter().map(|run| run.inputs()).collect::<Result<_, _>>()?;
    let mut table = table("input", columns(runs.len()));
    table.add_rows(differences(&all));
    if table.row_count() > 0 {
        fit::write_columns(table, console)?;
    }
    Ok(())
}

/// Inputs that come first: what was sent, where and how.
const FIRST: [&str; 5] = ["matrix", "topology", "world", "transport", "seed"];

/// The inputs in which runs differ, a row each. Settings of a policy that some runs do not have at
/// all, and the others have with the same values, are one row.
fn differences(all: &[BTreeMap<String, String>]) -> Vec<Vec<String>> {
    let keys: BTreeSet<&str> = all.iter().flat_map(|of| of.keys()).map(String::as_str).collect();
    let first = FIRST.into_iter().filter(|key| keys.contains(key));
    let rest = keys.iter().copied().filter(|key| !FIRST.contains(key));
    let (mut rows, mut shown) = (Vec::new(), BTreeSet::new());
    for key in first.chain(rest) {
        let values: Vec<Option<&String>> = all.iter().map(|inputs| inputs.get(key)).collect();
        if values.iter().all(|value| *value == values[0]) {
            continue;
        }
        let known: BTreeSet<&String> = values.iter().flatten().copied().collect();
        let family = key.rsplit_once('.').map(|(family, _)| format!("{family}."));
        let has_none = |family: &String| {
            let of_family = |key: &String| key.starts_with(family.as_str());
            all.iter().any(|of| !of.keys().any(of_family))
        };
        match family.filter(|family| known.len() == 1 && has_none(family)) {
            Some(family) => {
                if shown.insert(family.clone()) {
                    let counts = all.iter().map(|of| agreed(of, &family, all));
                    rows.push([format!("{family}*")].into_iter().chain(counts).collect());
                }
            }
            None => {
                let text = |value: Option<&String>| value.map_or("-", String::as_str).to_owned();
                let values = values.into_iter().map(text);
                rows.push([key.to_owned()].into_iter().chain(values).collect());
            }
        }
    }
    rows
}

/// How many settings of a family a run has whose values are the same in all runs that have them.
fn agreed(of: &BTreeMap<String, String>, family: &str, all: &[BTreeMap<String, String>]) -> String {
    let agrees = |key: &&String| {
        key.starts_with(family)
            && all.iter().filter_map(|of| of.get(*key)).all(|value| Some(value) == of.get(*key))
    };
    match of.keys().filter(agrees).count() {
        0 => "-".to_owned(),
        1 => "1 setting".to_owned(),
        count => format!("{count} settings"),
    }
}

/// Writes every number of the runs.
fn results(runs: &[&RunResults], console: &mut Console<'_>) -> Result<(), Failure> {
    let names_of_columns = columns(runs.len());
    let ratios = names_of_columns.iter().skip(1).map(|column| format!("{column} / A"));
    let mut table = table("", names_of_columns.iter().cloned().chain(ratios).collect());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let summaries: Vec<&Value> = runs.iter().map(|run| &run.summary).collect();
    for name in names(&summaries) {
        table.add_row(row(&name, &summaries));
    }
    Ok(fit::write_columns(table, console)?)
}

/// Every number of the summaries by its dotted name, in the order of the schema.
fn names(summaries: &[&Value]) -> Vec<String> {
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for summary in summaries {
        for (key, value) in summary.as_object().into_iter().flatten() {
            let inner = value.as_object().into_iter().flatten();
            let inner = inner.map(|(inner, value)| (format!("{key}.{inner}"), value));
            let all = std::iter::once((key.clone(), value)).chain(inner);
            for (name, _) in all.filter(|(_, value)| value.is_number()) {
                if !SAME.contains(&name.as_str()) && seen.insert(name.clone()) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// Numbers that are no results.
const SAME: [&str; 2] = ["schema", "seed"];

fn row(name: &str, summaries: &[&Value]) -> Vec<String> {
    let values: Vec<Option<f64>> = summaries.iter().map(|of| measure(of, name)).collect();
    let shown = |value: &Option<f64>| match value {
        None => "-".to_owned(),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.3}"),
    };
    let ratio = |value: &Option<f64>| match (values[0], value) {
        (Some(first), Some(value)) if first != 0.0 => format!("{:.3}", value / first),
        _ => "-".to_owned(),
    };
    let texts = values.iter().map(shown).chain(values.iter().skip(1).map(ratio));
    [name.to_owned()].into_iter().chain(texts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_run_comes_first_and_the_settings_of_a_policy_that_others_lack_are_one_row() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let smartt = |topology| {
            of(&[("cc.a.k", "1"), ("cc.a.x", "2"), ("lb.n", "3"), ("topology", topology)])
        };
        let swift = of(&[("cc.b.k", "1"), ("lb.n", "4"), ("topology", "T")]);
        let rows = differences(&[smartt("T"), swift]);
        assert_eq!(
            rows,
            [["cc.a.*", "2 settings", "-"], ["cc.b.*", "-", "1 setting"], ["lb.n", "3", "4"]]
        );
        let rows = differences(&[smartt("100G"), smartt("800G")]);
        assert_eq!(rows, [["topology", "100G", "800G"]]);
        let mut other = smartt("T");
        other.insert("cc.a.k".to_owned(), "9".to_owned());
        let rows = differences(&[smartt("T"), other, of(&[("lb.n", "3"), ("topology", "T")])]);
        assert_eq!(rows, [["cc.a.k", "1", "9", "-"], ["cc.a.*", "1 setting", "1 setting", "-"]]);
        // A run of an earlier version, which lacks one setting of a policy, has the policy.
        let older = of(&[("cc.a.k", "9"), ("lb.n", "3"), ("topology", "T")]);
        let rows = differences(&[smartt("T"), older]);
        assert_eq!(rows, [["cc.a.k", "1", "9"], ["cc.a.x", "2", "-"]]);
    }

    #[test]
    fn every_number_of_both_is_shown_once_with_its_ratio() {
        let left = serde_json::json!({"seed": 1, "world": "sim", "slowdown": 2.0,
            "fct_us": {"max": 4.0, "min": null}});
        let right = serde_json::json!({"slowdown": 1.0, "fct_us": {"max": 6.0, "min": 1.5}});
        let names = names(&[&left, &right]);
        assert_eq!(names, ["slowdown", "fct_us.max", "fct_us.min"]);
        assert_eq!(row("slowdown", &[&left, &right]), ["slowdown", "2", "1", "0.500"]);
        assert_eq!(row("fct_us.min", &[&left, &right])[1..], ["-", "1.500", "-"]);
    }
}
