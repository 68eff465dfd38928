//! A sweep in parts, as a scheduler's job array runs it, and put together again.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs;

use serde_json::Value;

fn headrace(args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let line = std::iter::once("headrace").chain(args.iter().copied()).map(Into::into);
    let code = headrace::main_with(line, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// What does not differ between two runs of the same thing. Numbers are equal to the last digit: a
/// number that is read from a file is printed as it stood there.
fn lasting(text: &str) -> Vec<Value> {
    let mut all: Vec<Value> = serde_json::from_str(text).unwrap();
    for run in &mut all {
        for key in ["wall_s", "hops_per_s", "peak_rss_bytes"] {
            run.as_object_mut().unwrap().remove(key);
        }
    }
    all
}

#[test]
fn parts_of_a_sweep_are_gathered_to_what_one_command_shows() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (matrix, out) = (path("it's small.cm"), path("out"));
    assert_eq!(headrace(&["gen", "permutation", "--hosts", "16", "-o", &matrix]).0, 0);
    let sweep = ["run", &matrix, "--transport", "smartt,dctcp", "--seed", "1..3", "--out", &out];
    let (code, script, err) = headrace(&[&sweep[..], &["--slurm"]].concat());
    assert_eq!(code, 0, "{err}");
    for line in ["#!/bin/sh", "#SBATCH --array=0-5", "--part \"${SLURM_ARRAY_TASK_ID:?}/6\""] {
        assert!(script.contains(line), "{line} in {script}");
    }
    assert!(script.contains("'\\''"), "the matrix's name is quoted: {script}");
    assert!(!fs::exists(&out).unwrap(), "a script runs nothing");
    // Two parts of three, then what is missing is named.
    for part in ["0/3", "2/3"] {
        let (code, _, err) = headrace(&[&sweep[..], &["--part", part, "-q"]].concat());
        assert_eq!(code, 0, "{err}");
    }
    let head: Value =
        serde_json::from_slice(&fs::read(format!("{out}/scenario.json")).unwrap()).unwrap();
    assert_eq!(head["about"], "it's small.cm by transport, 3 seeds");
    let (code, _, err) = headrace(&["gather", &out]);
    assert_eq!((code, err.matches("missing: ").count()), (1, 2), "{err}");
    assert_eq!(headrace(&[&sweep[..], &["--part", "1/3", "-q"]].concat()).0, 0);
    let (code, gathered, err) = headrace(&["gather", &out, "--json"]);
    assert_eq!(code, 0, "{err}");
    let at_once = headrace(&[&sweep[..6], &["--json", "-q"]].concat());
    let (apart, together) = (lasting(&gathered), lasting(&at_once.1));
    assert_eq!(apart.len(), 6);
    for run in &apart {
        assert!(together.contains(run), "{}", run["variant"]);
    }
    let (code, table, _) = headrace(&["gather", &out]);
    assert!(code == 0 && table.contains("95 % interval"), "{table}");
    for (line, wrong) in [
        (["gather", matrix.as_str()].as_slice(), "no scenario.json"),
        (&[&sweep[..], &["--part", "3/3"]].concat(), "below"),
        (&["run", &matrix, "--out", &out, "--part", "0/2"], "one run"),
    ] {
        let (code, _, err) = headrace(line);
        assert!(code == 2 && err.contains(wrong), "{line:?}: {err}");
    }
}
