//! A sweep in parts, as a scheduler's job array runs it, and put together again.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod common;

use std::fs;

use serde_json::Value;

use common::headrace;

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
    assert!(table.contains("topology paper-testbed (default for 16 hosts)\nheadrace "), "{table}");
    let (_, script, _) =
        headrace(&[&sweep[..], &["--slurm", "--threads", "4", "--resume"]].concat());
    assert!(script.contains("--cpus-per-task=4\n") && script.contains("'--resume'"), "{script}");
    // Flows that start one another at an instant run on one thread, whatever the command line says.
    let ring = path("ring.cm");
    let flows = "Nodes 16\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 1000 \
                 send_done_trigger 1\n2->3 id 2 trigger 1 size 1000\ntrigger id 1 oneshot\n";
    fs::write(&ring, flows).unwrap();
    let coupled = ["run", &ring, "--seed", "1..2", "--out", &out, "--slurm", "--threads", "4"];
    let (code, script, err) = headrace(&coupled);
    assert_eq!((code, script.contains("--cpus-per-task=1\n")), (0, true), "{script}{err}");
    let behind = ["run", "--transport", "smartt,dctcp", "--out", &out, "--slurm", "--", &matrix];
    let (code, script, err) = headrace(&behind);
    assert_eq!(code, 0, "{err}");
    let (flags, inputs) = script.rsplit_once(" '--' ").unwrap();
    assert!(flags.contains("--part") && inputs.contains("small.cm"), "{script}");
    for (line, wrong) in [
        (["gather", matrix.as_str()].as_slice(), "no scenario.json"),
        (&[&sweep[..], &["--part", "3/3"]].concat(), "below"),
        (&["run", &matrix, "--out", &out, "--part", "0/2"], "one run"),
    ] {
        let (code, _, err) = headrace(line);
        assert!(code == 2 && err.contains(wrong), "{line:?}: {err}");
    }
}

#[test]
fn parts_of_other_sweeps_are_refused_and_damaged_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (matrix, out) = (path("a.cm"), path("out"));
    let gen_matrix = |hosts| {
        let line = ["gen", "incast", "--hosts", hosts, "--degree", "2", "-o", &matrix];
        assert_eq!(headrace(&line).0, 0);
    };
    let part = |number: &str, more: &[&str]| {
        let sweep = ["run", &matrix, "--transport", "smartt,swift", "--out", &out, "-q"];
        let (code, _, err) = headrace(&[&sweep[..], &["--part", number], more].concat());
        assert_eq!(code, 0, "{err}");
    };
    let refused = |words: &[&str]| {
        let (code, _, err) = headrace(&["gather", &out]);
        assert_eq!(code, 2, "{err}");
        words.iter().for_each(|word| assert!(err.contains(word), "{word}: {err}"));
    };
    gen_matrix("16");
    part("0/2", &[]);
    // Other flags.
    part("1/2", &["--trim", "off"]);
    refused(&["transport=swift/manifest.json: found trim `off`", "transport=smartt/manifest.json"]);
    part("1/2", &["--threads", "2"]);
    assert_eq!(headrace(&["gather", &out]).0, 0);
    // Another matrix of that name.
    gen_matrix("32");
    part("1/2", &[]);
    refused(&["the matrix with SHA-256", "run this part again"]);
    gen_matrix("16");
    part("1/2", &[]);
    // Another program.
    let manifest = format!("{out}/transport=swift/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let other = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&other));
    fs::write(&manifest, text.replacen(&other, "\"version\": \"0.0.9\"", 1)).unwrap();
    refused(&["headrace 0.0.9", &format!("expected {}", env!("CARGO_PKG_VERSION"))]);
    // Damaged files.
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    let (code, table, err) = headrace(&["gather", &out]);
    assert!(code == 1 && table.contains("transport=smartt"), "{table}{err}");
    assert!(err.contains("missing: transport=swift: ") && err.contains("manifest.json"), "{err}");
    fs::write(format!("{out}/scenario.json"), "{\"schema\": 1").unwrap();
    refused(&["out/scenario.json: found a damaged scenario.json", "run a part again"]);
}
