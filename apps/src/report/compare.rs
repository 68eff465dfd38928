//! `headrace compare A B`: two results side by side, those of B as multiples of those of A.

use std::collections::BTreeSet;
use std::path::Path;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::Value;

use super::read::{self, Results, Run, measure};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use experiments::input::InputError;

/// Prints the comparison. Of two scenarios the variants of the same name are compared; two single
/// runs always are.
///
/// # Errors
/// When a directory holds no results, or the two have nothing in common.
pub(crate) fn compare(a: &Path, b: &Path, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let (left, right) = (read::one(a)?, read::one(b)?);
    let pairs = pairs(&left, &right);
    if pairs.is_empty() {
        let found = format!("no variant that {} has too", a.display());
        let error = InputError::new(found, "results of the same scenario, or of two single runs");
        return Err(error.at(&b.display().to_string(), 0, 0).into());
    }
    for (left, right) in pairs {
        if left.name == right.name {
            writeln!(console.out, "{}", left.name)?;
        }
        let mut table = Table::new();
        table
            .load_preset(UTF8_BORDERS_ONLY)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(["", "A", "B", "B / A"]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for name in names(&left.summary, &right.summary) {
            table.add_row(row(&name, &left.summary, &right.summary));
        }
        writeln!(console.out, "{table}")?;
    }
    Ok(Exit::Finished)
}

fn pairs<'a>(left: &'a Results, right: &'a Results) -> Vec<(&'a Run, &'a Run)> {
    if let ([left], [right]) = (&left.runs[..], &right.runs[..]) {
        return vec![(left, right)];
    }
    let same = |run: &'a Run| {
        let other = right.runs.iter().find(|other| other.name == run.name)?;
        Some((run, other))
    };
    left.runs.iter().filter_map(same).collect()
}

/// Every number of either summary by its dotted name, in the order of the schema.
fn names(left: &Value, right: &Value) -> Vec<String> {
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for summary in [left, right] {
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

fn row(name: &str, left: &Value, right: &Value) -> [String; 4] {
    let (left, right) = (measure(left, name), measure(right, name));
    let shown = |value: Option<f64>| match value {
        None => "-".to_owned(),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.3}"),
    };
    let ratio = match (left, right) {
        (Some(left), Some(right)) if left != 0.0 => format!("{:.3}", right / left),
        _ => "-".to_owned(),
    };
    [name.to_owned(), shown(left), shown(right), ratio]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_both_is_shown_once_with_its_ratio() {
        let left = serde_json::json!({"seed": 1, "world": "sim", "slowdown": 2.0,
            "fct_us": {"max": 4.0, "min": null}});
        let right = serde_json::json!({"slowdown": 1.0, "fct_us": {"max": 6.0, "min": 1.5}});
        let names = names(&left, &right);
        assert_eq!(names, ["slowdown", "fct_us.max", "fct_us.min"]);
        assert_eq!(row("slowdown", &left, &right), ["slowdown", "2", "1", "0.500"]);
        assert_eq!(row("fct_us.min", &left, &right)[1..], ["-", "1.500", "-"]);
    }
}
