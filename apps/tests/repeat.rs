//! Tests of `headrace run manifest.json`, `headrace why` and what results say of themselves.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs;
use std::path::Path;

use serde_json::Value;

fn headrace(args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once("headrace").chain(args.iter().copied());
    let code = headrace::main_with(args.map(Into::into), &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// A directory with a matrix, and the results of a run of it.
fn ran(more: &[&str]) -> (tempfile::TempDir, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (matrix, out) = (path("small.cm"), path("out"));
    let made = headrace(&["gen", "incast", "--hosts", "16", "--degree", "4", "-o", &matrix]);
    assert_eq!(made.0, 0, "{made:?}");
    let run = headrace(&[&["run", &matrix, "--out", &out, "-q"], more].concat());
    assert_eq!(run.0, 0, "{run:?}");
    (dir, matrix, out)
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_run_is_repeated_from_its_manifest_to_the_byte() {
    let (_dir, matrix, out) = ran(&["--transport", "swift", "--seed", "7"]);
    let manifest = format!("{out}/manifest.json");
    let (code, table, err) = headrace(&["run", &manifest, "-q"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("byte for byte") && table.contains("swift"), "{err}{table}");
    // Other flows than those of the run are seen, and their first line is named.
    let flows = format!("{out}/flows.jsonl");
    let lines = fs::read_to_string(&flows).unwrap();
    fs::write(&flows, lines.replacen("\"flow\":1", "\"flow\":9", 1)).unwrap();
    let (code, _, err) = headrace(&["run", &manifest, "-q"]);
    assert!(code == 1 && err.contains("differs from that of") && err.contains("line 2"), "{err}");
    // Another matrix under the old name is not run.
    let text = fs::read_to_string(&matrix).unwrap();
    fs::write(&matrix, format!("{text}\n")).unwrap();
    let (code, _, err) = headrace(&["run", &manifest, "-q"]);
    assert!(code == 2 && err.contains("has changed since that run"), "{err}");
    fs::write(&manifest, "{}").unwrap();
    let (code, _, err) = headrace(&["run", &manifest]);
    assert!(code == 2 && err.contains("no manifest"), "{err}");
}

#[test]
fn a_run_of_several_is_repeated_alone() {
    let (_dir, _, out) = ran(&["--transport", "smartt,dctcp", "--seed", "1..2"]);
    let run = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let run = run.filter(|path| path.is_dir()).max().unwrap();
    let manifest = run.join("manifest.json");
    let (code, table, err) = headrace(&["run", manifest.to_str().unwrap(), "-q"]);
    assert!(code == 0 && err.contains("byte for byte"), "{err}{table}");
    let (code, _, err) = headrace(&["why", &out]);
    assert!(code == 2 && err.contains("VARIANT"), "{err}");
}

#[test]
fn results_name_matrix_topology_program_and_machine() {
    let (_dir, matrix, out) = ran(&[]);
    for file in ["summary.json", "manifest.json"] {
        let of = &json(&format!("{out}/{file}"))["provenance"];
        assert_eq!(of["matrix"], matrix.as_str());
        assert_eq!(of["topology"], "paper-testbed");
        assert_eq!(of["topology_source"], "default for 16 hosts");
        assert!(of["machine"].as_str().unwrap().contains("cores"), "{of}");
        assert_eq!(of["version"], env!("CARGO_PKG_VERSION"));
    }
    let (code, table, _) = headrace(&["run", &matrix, "-q"]);
    assert_eq!(code, 0);
    for text in [matrix.as_str(), "paper-testbed (default for 16 hosts)", "machine", "built"] {
        assert!(table.contains(text), "{text} is not in {table}");
    }
    let (code, text, _) = headrace(&["--version"]);
    assert_eq!(code, 0);
    assert!(text.starts_with("headrace ") && text.contains("DPDK"), "{text}");
}

#[test]
fn why_repeats_a_run_that_did_not_explain_itself_and_keeps_the_answer() {
    let (_dir, _, out) = ran(&[]);
    let file = format!("{out}/why.jsonl");
    assert!(!Path::new(&file).exists());
    let (code, text, err) = headrace(&["why", &out, "-q"]);
    assert!(code == 0 && text.contains("flows to that host share it"), "{err}{text}");
    let kept = fs::read_to_string(&file).unwrap();
    assert_eq!(kept.lines().count(), 4);
    let (code, text, _) = headrace(&["why", &out, "--flow", "2"]);
    assert!(code == 0 && text.contains("fct") && text.contains("100.0"), "{text}");
    let (code, text, _) = headrace(&["why", &out, "--json"]);
    let flows: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, flows.as_array().unwrap().len()), (0, 4));
    for wrong in ["0", "5"] {
        let (code, _, err) = headrace(&["why", &out, "--flow", wrong]);
        assert!(code == 2 && err.contains("a flow from 1 to 4"), "{err}");
    }
    // A run that explains itself at once writes the same.
    let (_dir, _, out) = ran(&["--why"]);
    assert_eq!(fs::read_to_string(format!("{out}/why.jsonl")).unwrap(), kept);
    let (code, _, err) = headrace(&["why", "/no/such/place"]);
    assert!(code == 2 && err.contains("no such directory"), "{err}");
}
