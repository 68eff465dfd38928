//! Directories of results: what is left of earlier runs there, and what report and compare make of
//! runs that are invalid, missing or of one name.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use common::headrace;

fn path(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

/// A matrix of four short flows.
fn matrix(dir: &TempDir) -> String {
    let flows: String = (0..4).map(|i| format!("{i}->{} start 0 size 65536\n", i + 4)).collect();
    fs::write(dir.path().join("m.cm"), format!("Nodes 16\nConnections 4\n{flows}")).unwrap();
    path(dir, "m.cm")
}

fn summaries(dir: &str) -> Vec<PathBuf> {
    let dirs = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = dirs.chain([dir.into()]).map(|dir| dir.join("summary.json"));
    files.filter(|file| file.exists()).collect()
}

#[test]
fn results_without_a_valid_run_are_drawn_and_compared_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let (matrix, drawn) = (matrix(&dir), path(&dir, "drawn"));
    for (out, name, count) in [("several", "m", 2), ("one", "runs", 1)] {
        let out = path(&dir, out);
        let transports = if count == 2 { "smartt,dctcp" } else { "smartt" };
        let line = ["run", &matrix, "-q", "--out", &out, "--transport", transports];
        assert_eq!(headrace(&line).0, 0);
        let all = summaries(&out);
        assert_eq!(all.len(), count);
        for summary in all {
            let text = fs::read_to_string(&summary).unwrap();
            let late = text.replace("\"lateness\": null", "\"lateness\": {\"valid\": false}");
            assert_ne!(text, late);
            fs::write(&summary, late).unwrap();
        }
        let (code, _, err) = headrace(&["report", &out, "-o", &drawn]);
        assert!(code == 0 && err.contains(&format!("{name}: {count} run")), "{err}");
        assert!(err.contains("INVALID"), "{err}");
        let picture = fs::read_to_string(format!("{drawn}/{name}.svg")).unwrap();
        assert!(picture.contains("INVALID"), "{name}: marked");
        let (code, both, err) = headrace(&["compare", &out, &out]);
        assert_eq!((code, both.matches("B is INVALID").count()), (0, count), "{both}{err}");
        assert_eq!(both.matches("fct_us.max").count(), count, "{both}");
    }
}

#[test]
fn results_of_one_run_and_of_several_replace_one_another() {
    let dir = tempfile::tempdir().unwrap();
    let (matrix, out) = (matrix(&dir), path(&dir, "out"));
    let one = ["run", &matrix, "-q", "--out", &out];
    let several = [&one[..], &["--transport", "smartt,dctcp"]].concat();
    for (line, said) in [
        (&one[..], "runs: 1 run drawn\n"),
        (&several, "m: 2 runs drawn\n"),
        (&one, "runs: 1 run drawn\n"),
    ] {
        assert_eq!(headrace(line).0, 0, "{line:?}");
        let (code, _, err) = headrace(&["report", &out, "-o", &path(&dir, "drawn")]);
        assert_eq!((code, err.as_str()), (0, said), "{line:?}");
    }
}

#[test]
fn runs_in_directories_of_one_name_are_distinct_and_none_is_drawn_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (matrix, drawn) = (matrix(&dir), path(&dir, "drawn"));
    let outs = ["a/out", "b/out"].map(|name| path(&dir, name));
    for (out, transport) in outs.iter().zip(["smartt", "dctcp"]) {
        assert_eq!(headrace(&["run", &matrix, "-q", "--out", out, "--transport", transport]).0, 0);
    }
    let (code, _, err) = headrace(&["report", &outs[0], &outs[1], "-o", &drawn]);
    assert_eq!(code, 0, "{err}");
    let numbers = fs::read(Path::new(&drawn).join("runs.json")).unwrap();
    let numbers: Value = serde_json::from_slice(&numbers).unwrap();
    assert_eq!(numbers["runs"][0]["variant"], outs[0].as_str());
    assert_eq!(numbers["runs"][1]["variant"], outs[1].as_str());
    let (code, _, err) = headrace(&["report", &outs[0], &outs[0], "-o", &drawn]);
    assert!(code == 2 && err.contains("a second time"), "{err}");
}

#[test]
fn what_is_missing_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = matrix(&dir);
    let outs = ["a", "b"].map(|name| path(&dir, name));
    for out in &outs {
        let line = ["run", &matrix, "-q", "--out", out, "--transport", "smartt,dctcp,swift"];
        assert_eq!(headrace(&line).0, 0);
    }
    fs::remove_dir_all(format!("{}/transport=dctcp", outs[1])).unwrap();
    let (code, out, err) = headrace(&["compare", &outs[0], &outs[1]]);
    assert_eq!((code, out.matches("fct_us.max").count()), (0, 2), "{out}");
    assert!(err.contains("left out") && err.contains("transport=dctcp"), "{err}");
    let (code, _, err) = headrace(&["compare", &outs[0], &outs[0]]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (code, _, err) = headrace(&["report", &outs[1], "-o", &path(&dir, "drawn")]);
    assert!(code == 0 && err.contains("m: 2 of 3 runs drawn"), "{err}");
}

#[test]
fn matrices_of_one_name_have_results_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let (matrix, out) = (matrix(&dir), path(&dir, "out"));
    let names = ["a b.cm", "a-b.cm", "x/m.cm"].map(|name| path(&dir, name));
    fs::create_dir(dir.path().join("x")).unwrap();
    names.iter().for_each(|name| _ = fs::copy(&matrix, name).unwrap());
    // No two names of runs are one.
    let (code, _, err) = headrace(&["run", &names[0], &names[1], "--out", &out, "-q"]);
    assert!(code == 2 && err.contains("one name") && !Path::new(&out).exists(), "{err}");
    let (code, _, err) = headrace(&["run", &matrix, &names[2], "--out", &out, "-q"]);
    assert_eq!((code, summaries(&out).len()), (0, 2), "{err}");
}

#[test]
fn figures_of_one_name_do_not_replace_one_another() {
    let dir = tempfile::tempdir().unwrap();
    let (matrix, first, second) = (matrix(&dir), path(&dir, "first"), path(&dir, "second"));
    for (out, transports) in [(&first, "smartt,dctcp"), (&second, "smartt,swift")] {
        let line = ["run", &matrix, "-q", "--out", out, "--transport", transports];
        assert_eq!(headrace(&line).0, 0);
    }
    let drawn = path(&dir, "drawn");
    let refused = |dirs: [&str; 2]| {
        let (code, _, err) = headrace(&[&["report", "-o", &drawn][..], &dirs].concat());
        assert!(code == 2 && err.contains("the figure `m`") && err.contains("-o"), "{err}");
        let [first, second] = dirs;
        assert!(err.starts_with(&format!("error: {second}: ")) && err.contains(first), "{err}");
    };
    refused([&first, &second]);
    assert!(!Path::new(&drawn).exists(), "nothing is drawn");
    assert_eq!(headrace(&["report", &first, "-o", &drawn]).0, 0);
    // The numbers of an earlier report are a figure, too.
    refused([&format!("{drawn}/m.json"), &second]);
}

#[test]
fn what_is_explained_is_run_again_where_no_explanation_was_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (matrix, out) = (matrix(&dir), path(&dir, "out"));
    let line = ["run", &matrix, "--out", &out, "--seed", "1,2", "--resume"];
    for (flags, here) in [(&[][..], 0), (&["--why"], 0), (&["--why"], 2), (&[], 2)] {
        let (code, _, err) = headrace(&[&line[..], flags].concat());
        assert!(code == 0 && err.contains(&format!("{here} of 2 runs are in")), "{err}");
    }
    assert!(Path::new(&out).join("seed=2/why.jsonl").exists());
}

#[test]
fn settings_whose_keys_end_alike_are_axes_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let (matrix, out) = (matrix(&dir), path(&dir, "out"));
    let kmin = ["--set", "switch.kmin=0.1,0.2", "--set", "switch.phantom.kmin=0.3,0.4"];
    let line = ["run", &matrix, "-q", "--out", &out];
    let (code, _, err) = headrace(&[&line[..], &kmin].concat());
    assert_eq!(code, 0, "{err}");
    assert!(Path::new(&out).join("kmin=0.1,switch.phantom.kmin=0.4").exists());
    let twice = ["--set", "switch.kmin=0.1,0.2", "--set", "switch.kmin=0.3,0.4"];
    let (code, _, err) = headrace(&[&line[..], &twice].concat());
    assert!(code == 2 && err.contains("a second axis `kmin`"), "{err}");
}

#[test]
fn a_directory_is_no_place_for_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let (code, out, err) = headrace(&["gen", "permutation", "--hosts", "16", "-o", place]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains(place) && err.contains("choose another file"), "{err}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
}
