//! docs/SCENARIOS.md is about this program: its generated part is what the program says, and every
//! key that a scenario may have is in it. `UPDATE_DOCS=1` writes the generated part anew.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod common;

use std::fmt::Write as _;
use std::fs;

use experiments::scenario::{PlotKind, fault};
use experiments::workload::GENERATORS;
use serde_json::Value;

use common::headrace;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/SCENARIOS.md");
const BEGIN: &str = "<!-- generated -->\n";
const END: &str = "<!-- end -->";

/// The names that the program lists, each with its sentence.
fn listed(what: &str) -> String {
    let (code, out, err) = headrace(&["list", what, "--json"]);
    assert_eq!(code, 0, "{err}");
    let all: Vec<Value> = serde_json::from_str(&out).unwrap();
    let line = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap().replace('|', "\\|");
        format!("| `{}` | {} |\n", text("name"), text("about"))
    };
    all.iter().map(line).collect()
}

fn generated() -> String {
    let mut text = "\n## Generators\n".to_owned();
    for generator in GENERATORS {
        let _ = write!(
            text,
            "\n`{}`: {}.\n\n| Parameter | Means |\n|---|---|\n",
            generator.name, generator.about
        );
        for parameter in generator.parameters {
            let about = parameter.about.replace('|', "\\|");
            let _ = writeln!(text, "| `{}` | {about} |", parameter.name);
        }
    }
    let _ = write!(text, "\n## Faults\n\n`{}`.\n", fault::KINDS.join("`, `"));
    text += "\n## Plots\n\n| Kind | Measures, the default first |\n|---|---|\n";
    for name in PlotKind::NAMES {
        let measures = PlotKind::by_name(name).unwrap().measures().join("`, `");
        let _ = writeln!(text, "| `{name}` | `{measures}` |");
    }
    for (title, what) in [
        ("Networks", "topologies"),
        ("Transports", "transports"),
        ("Distributions of sizes", "distributions"),
        ("Scenarios that come with the program", "scenarios"),
    ] {
        let _ = write!(text, "\n## {title}\n\n| Name | Is |\n|---|---|\n{}", listed(what));
    }
    text + "\n"
}

#[test]
fn the_generated_part_is_what_the_program_says() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (old, tail) = rest.split_once(END).unwrap();
    let new = generated();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, format!("{head}{BEGIN}{new}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        old == new,
        "docs/SCENARIOS.md is old: UPDATE_DOCS=1 cargo test -p headrace --test scenarios"
    );
}

/// The keys that may stand in a part of a scenario, by the answer to one that may not.
fn known(text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.toml");
    fs::write(&file, text).unwrap();
    let (code, _, err) = headrace(&["run", file.to_str().unwrap()]);
    assert_eq!(code, 2, "{text}: {err}");
    let list = err.split_once("known: ").unwrap_or_else(|| panic!("{err}")).1;
    list.lines().next().unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_of_a_scenario_is_in_the_page() {
    let page = fs::read_to_string(PAGE).unwrap();
    let whole = "[scenario]\nname = \"x\"\nabout = \"x\"\n[workload]\nkind = \"incast\"\n";
    let wrong = [
        format!("qqqqqq = 1\n{whole}"),
        format!("{whole}[[fault]]\nqqqqqq = 1\n"),
        format!("{whole}[[plot]]\nqqqqqq = 1\n"),
        format!("{whole}[figure]\nqqqqqq = 1\n"),
        format!("{whole}[[variant]]\nqqqqqq = 1\n"),
    ];
    for text in wrong {
        let keys = known(&text);
        assert!(keys.len() > 1, "{keys:?}");
        for key in keys {
            let named = [format!("`{key}`"), format!("`[{key}]`"), format!("`[[{key}]]`")];
            assert!(named.iter().any(|name| page.contains(name)), "{key} of {text}");
        }
    }
}

/// The names of the keys of `value`; those of the parts `within` with the part's name before them.
fn names(value: &Value, within: &[&str]) -> Vec<String> {
    let entries = value.as_object().unwrap().iter();
    let of_entry = |(key, value): (&String, &Value)| {
        if !within.contains(&&**key) {
            return vec![key.clone()];
        }
        let part = value.as_object().unwrap_or_else(|| panic!("`{key}` is {value}"));
        part.keys().map(|inner| format!("{key}.{inner}")).collect()
    };
    entries.flat_map(of_entry).collect()
}

/// The keys that the first columns of tables name, in the part of a page between two texts.
fn tabled(page: &str, from: &str, to: &str) -> Vec<String> {
    let page = fs::read_to_string(PAGE.replace("SCENARIOS", page)).unwrap();
    let part = page.split_once(from).unwrap_or_else(|| panic!("{from}")).1;
    let part = part.split_once(to).map_or(part, |halves| halves.0);
    let cells = part.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells.flat_map(|cell| cell.split("`, `").map(|key| key.replace('`', ""))).collect()
}

#[test]
fn every_key_of_a_result_is_in_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let run = |hosts: &str, topology: &str, transport: &str| {
        let [matrix, out] = ["m.cm", "out"].map(|name| dir.path().join(name));
        let (matrix, out) = (matrix.to_str().unwrap(), out.to_str().unwrap());
        let made = ["gen", "permutation", "--hosts", hosts, "--size", "20000", "-o", matrix];
        assert_eq!(headrace(&made).0, 0);
        let flags = ["--topo", topology, "--transport", transport];
        let sampled = ["--set", "sampling.interval=5us", "--out", out];
        let (code, _, err) = headrace(&[&["run", matrix], &flags[..], &sampled[..]].concat());
        assert_eq!(code, 0, "{err}");
        let read = |name: &str| fs::read_to_string(format!("{out}/{name}")).unwrap();
        let summary: Value = serde_json::from_str(&read("summary.json")).unwrap();
        let line = read("series.jsonl").lines().last().unwrap().to_owned();
        (summary, serde_json::from_str::<Value>(&line).unwrap())
    };
    let holds = |table: &[String], key: &String| {
        let whole = format!("{key}.");
        table.contains(key) || table.iter().any(|known| known.starts_with(&whole))
    };
    let (summary, series) = run("256", "two-dc-leaf", "mlcc");
    let table = tabled("SCENARIOS", "These are the keys of summary.json;", "The part `dcsim`");
    let parts = ["flows", "packets", "bytes", "audit", "mlcc"];
    let keys = names(&summary, &parts).into_iter().filter(|key| key != "scheduler");
    keys.for_each(|key| assert!(holds(&table, &key), "docs/SCENARIOS.md lacks `{key}`"));
    let table = tabled("SCENARIOS", "series.jsonl has a line", "### Where the time");
    for key in names(&series, &[]) {
        assert!(holds(&table, &key), "docs/SCENARIOS.md lacks `{key}` of series.jsonl");
    }
    let (summary, _) = run("16", "zeropod:8", "zeropod");
    let table = tabled("ZEROPOD", "## The scheduler in summary.json", "\n## ");
    for key in names(&summary["scheduler"], &[]) {
        assert!(holds(&table, &key), "docs/ZEROPOD.md lacks `{key}`");
    }
}
