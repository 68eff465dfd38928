//! Variants: one scenario, several runs. Every variant with every combination of the grid is a
//! cell: the scenario's table with theirs laid over it, which is then read as any run's is.
//!
//! Values keep their places in the file, so that errors in a cell point at what the user wrote.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::AxisPoint;
use super::reader::{COMMON, TABLES};
use crate::input::table::{Table, scalar};
use crate::input::{InputError, did_you_mean, nearest};

/// The axis of `[[variant]]`.
pub const VARIANT: &str = "variant";

/// The most runs of one scenario.
pub const RUNS_MAX: usize = 256;

/// One run as a table.
pub(super) struct Cell<'d> {
    pub(super) parts: Vec<AxisPoint>,
    entries: DeTable<'d>,
}

/// One choice on an axis, and the table that makes it.
struct Choice<'d> {
    label: String,
    overlay: DeTable<'d>,
}

/// An axis along which runs differ.
struct Axis<'d> {
    name: String,
    choices: Vec<Choice<'d>>,
}

impl<'d> Cell<'d> {
    /// The parts joined by commas.
    pub(super) fn name(&self) -> String {
        self.parts.iter().map(AxisPoint::to_string).collect::<Vec<_>>().join(",")
    }

    /// The cell in the place of the scenario's `root`.
    pub(super) fn table<'e>(&'e self, root: Table<'d>) -> Table<'e> {
        root.replaced(&self.entries)
    }
}

/// The cells of a scenario in the order of the file, the grid's last key fastest; one without parts
/// when there are no variants.
pub(super) fn cells<'d>(root: Table<'d>) -> Result<Vec<Cell<'d>>, InputError> {
    let mut axes = Vec::new();
    axes.extend(variants(root)?);
    grid(root, &mut axes)?;
    let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.choices.len()));
    if count.is_none_or(|count| count > RUNS_MAX) {
        let found = "a grid of more runs than that";
        return Err(root.error("grid", InputError::new(found, format!("at most {RUNS_MAX} runs"))));
    }
    let mut plain = root.entries().clone();
    for key in [VARIANT, "grid", "figure", "plot"] {
        plain.remove(key);
    }
    let mut cells = vec![Cell { parts: Vec::new(), entries: plain }];
    for axis in &axes {
        let step = |cell: &Cell<'d>, choice: &Choice<'d>| {
            let mut parts = cell.parts.clone();
            parts.push(AxisPoint { axis: axis.name.clone(), label: choice.label.clone() });
            let mut entries = cell.entries.clone();
            lay_over(&mut entries, &choice.overlay);
            Cell { parts, entries }
        };
        cells = cells
            .iter()
            .flat_map(|cell| axis.choices.iter().map(move |choice| step(cell, choice)))
            .collect();
    }
    Ok(cells)
}

/// The names of the axes of `cells`.
pub(super) fn axes(cells: &[Cell<'_>]) -> Vec<String> {
    let parts = cells.first().map(|cell| cell.parts.as_slice()).unwrap_or_default();
    parts.iter().map(|part| part.axis.clone()).collect()
}

fn variants<'d>(root: Table<'d>) -> Result<Option<Axis<'d>>, InputError> {
    let mut choices: Vec<Choice<'d>> = Vec::new();
    for table in root.tables(VARIANT, "[[variant]]")? {
        table.expect_only(&[&["name"], &COMMON[..], &TABLES[..]].concat())?;
        let Some(name) = table.string("name")? else {
            let error = InputError::new("a [[variant]] without `name`", "a name");
            return Err(table.error("name", error));
        };
        let starts_well = name.value.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !starts_well || label(&name.value) != name.value {
            let error = InputError::new(format!("name `{}`", name.value), "a short name");
            let help = "letters, digits and . _ + -, a letter or digit first: it names a directory";
            return Err(table.error("name", error.help(help)));
        }
        if [".json", ".jsonl"].iter().any(|ending| name.value.ends_with(ending)) {
            let error = InputError::new(format!("name `{}`", name.value), "no name of a file");
            let help = "it names a directory, beside files that end so: leave the ending out";
            return Err(table.error("name", error.help(help)));
        }
        if choices.iter().any(|choice| choice.label == name.value) {
            let error = InputError::new(format!("a second variant `{}`", name.value), "one");
            return Err(table.error("name", error));
        }
        let mut overlay = table.entries().clone();
        overlay.remove("name");
        choices.push(Choice { label: name.value, overlay });
    }
    Ok((!choices.is_empty()).then(|| Axis { name: VARIANT.to_owned(), choices }))
}

fn grid<'d>(root: Table<'d>, axes: &mut Vec<Axis<'d>>) -> Result<(), InputError> {
    let Some(table) = root.table("grid", "[grid]")? else { return Ok(()) };
    table.expect_only(&[&COMMON[..], &["workload", "set"]].concat())?;
    grid_of(root, table.entries(), &mut Vec::new(), axes)
}

// The parser bounds how deep tables nest, and with it this recursion.
fn grid_of<'d>(
    root: Table<'d>,
    entries: &'d DeTable<'d>,
    path: &mut Vec<Spanned<&'d str>>,
    axes: &mut Vec<Axis<'d>>,
) -> Result<(), InputError> {
    for (key, value) in entries {
        path.push(Spanned::new(key.span(), key.get_ref().as_ref()));
        match value.get_ref() {
            DeValue::Array(items) if !items.is_empty() => {
                let mut choices: Vec<Choice<'d>> = Vec::new();
                for item in items.iter() {
                    let at = item.span().start;
                    let Some(text) = scalar(item.get_ref()) else {
                        let found = item.get_ref().type_str().to_owned();
                        let error = InputError::new(found, "a string, a number, true or false");
                        return Err(root.error_at(at, error));
                    };
                    let label = label(&text);
                    if choices.iter().any(|choice| choice.label == label) {
                        let error = InputError::new(format!("a second `{label}`"), "each once");
                        return Err(root.error_at(at, error));
                    }
                    choices.push(Choice { label, overlay: nested(path, item) });
                }
                let last = key.get_ref().rsplit('.').next().unwrap_or_default();
                let name = label(last);
                if name == VARIANT || axes.iter().any(|axis| axis.name == name) {
                    let error = InputError::new(format!("a second axis `{name}`"), "one");
                    return Err(root.error_at(key.span().start, error));
                }
                axes.push(Axis { name, choices });
            }
            DeValue::Table(inner) => grid_of(root, inner, path, axes)?,
            value_of => {
                let what = if matches!(value_of, DeValue::Array(_)) {
                    "an array without values"
                } else {
                    "no array"
                };
                let found = format!("`{}`, which is {what}", label(key.get_ref()));
                let error = InputError::new(found, "an array of values, `KEY = [A, B]`");
                return Err(root.error_at(value.span().start, error));
            }
        }
        path.pop();
    }
    Ok(())
}

/// `value` under the key `path`.
fn nested<'d>(path: &[Spanned<&'d str>], value: &Spanned<DeValue<'d>>) -> DeTable<'d> {
    let mut table = DeTable::new();
    if let Some((first, rest)) = path.split_first() {
        let key = Spanned::new(first.span(), (*first.get_ref()).into());
        let inner = match rest {
            [] => value.clone(),
            rest => Spanned::new(value.span(), DeValue::Table(nested(rest, value))),
        };
        table.insert(key, inner);
    }
    table
}

/// Lays the table of a variant over a scenario.
fn lay_over<'d>(base: &mut DeTable<'d>, overlay: &DeTable<'d>) {
    for (key, value) in overlay {
        let name = key.get_ref().as_ref();
        let replaced: &[&str] = match (name, value.get_ref()) {
            ("matrix", _) => &["matrix", "workload"],
            ("workload", DeValue::Table(table)) if table.contains_key("kind") => {
                &["matrix", "workload"]
            }
            _ => &[],
        };
        replaced.iter().for_each(|other| drop(base.remove(*other)));
        if let Some(DeValue::Table(own)) = base.get_mut("scenario").map(Spanned::get_mut) {
            own.remove(name);
            replaced.iter().for_each(|other| drop(own.remove(*other)));
        }
        match (base.get_mut(name).map(Spanned::get_mut), value.get_ref()) {
            (Some(DeValue::Table(below)), DeValue::Table(above)) => merge(below, above),
            (Some(DeValue::Array(below)), DeValue::Array(above)) => {
                above.iter().for_each(|item| below.push(item.clone()));
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Merges tables key by key; values of `above` win.
fn merge<'d>(below: &mut DeTable<'d>, above: &DeTable<'d>) {
    for (key, value) in above {
        match (below.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), value.get_ref()) {
            (Some(DeValue::Table(below)), DeValue::Table(above)) => merge(below, above),
            _ => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

/// A text as part of a file's name.
pub(super) fn label(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    text.chars().take(LABEL_MAX).map(|c| if fits(c) { c } else { '-' }).collect()
}

const LABEL_MAX: usize = 48;

/// The error for a name that is no axis.
pub(super) fn no_such_axis(name: &str, axes: &[String]) -> InputError {
    let known: Vec<&str> = axes.iter().map(String::as_str).collect();
    let found = format!("axis `{}`", label(name));
    InputError::new(found, "an axis: `variant`, or the last word of a key of [grid]")
        .help(did_you_mean(name, &known))
}

/// The error for a name by which `picks` finds none of `runs`: what of it is unknown, and what
/// there is. The error lists the axes, since the names are their product and may be hundreds.
pub(super) fn no_such_variant(name: &str, runs: &[Vec<AxisPoint>]) -> InputError {
    let mut axes: Vec<(&str, Vec<String>)> = Vec::new();
    for part in runs.iter().flatten() {
        let (axis, text) = (part.axis.as_str(), part.to_string());
        match axes.iter_mut().find(|(known, _)| *known == axis) {
            Some((_, values)) if values.contains(&text) => {}
            Some((_, values)) => values.push(text),
            None => axes.push((axis, vec![text])),
        }
    }
    let all = || axes.iter().flat_map(|(_, values)| values).map(String::as_str);
    let unknown = name.split(',').map(str::trim).find(|part| !all().any(|known| known == *part));
    let found = match unknown {
        Some(part) if part == name => format!("`{name}`"),
        Some(part) => format!("`{part}` in `{name}`"),
        // Every combination is a run, so that only a second value of an axis can be too much.
        None => format!("`{name}`, two values of one axis"),
    };
    let bare = |part: &str| runs.iter().flatten().find(|p| p.label == part);
    let advice = match unknown.map(|part| (bare(part), nearest(part, all()))) {
        Some((Some(meant), _)) => format!("did you mean `{meant}`? "),
        Some((None, Some(near))) => format!("did you mean `{near}`? "),
        Some((None, None)) => String::new(),
        None => "name each in a --variant of its own; ".to_owned(),
    };
    let lines: String =
        axes.iter().map(|(_, values)| format!("\n    {}", values.join(" "))).collect();
    let expected = "at most one value of each axis, joined by commas";
    InputError::new(found, expected)
        .help(format!("{advice}the axes of {} runs:{lines}", runs.len()))
}
