//! The Makefile: where it looks for what was built, and the exit codes of what it starts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

/// `make WORDS` in the directory of the Makefile, apart from the `make` that may run this test.
fn make(words: &[&str]) -> Output {
    let mut command = Command::new("make");
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(words);
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CARGO_TARGET_DIR"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[test]
fn what_was_built_is_where_cargo_was_asked_to_build_it() {
    for (words, place) in [
        (&["-n", "sim"][..], " target/release/headrace run"),
        (&["-n", "sim", "CARGO_TARGET_DIR=/elsewhere"], " /elsewhere/release/headrace run"),
        (&["-n", "results", "CARGO_TARGET_DIR=/elsewhere"], "--out /elsewhere/results"),
    ] {
        let ran = make(words);
        let text = format!(" {}", String::from_utf8_lossy(&ran.stdout).replace('\n', " "));
        assert!(ran.status.success() && text.contains(place), "{words:?}: {ran:?}");
    }
}

/// A program in `dir` that runs the shell's `a` as host a and `b` as host b.
fn hosts(dir: &Path, a: &str, b: &str) -> String {
    let program = dir.join("program");
    let text = format!(
        "#!/bin/sh\ncd {}\ncase \"$*\" in\n*\"--host a\"*) {a} ;;\n*) {b} ;;\nesac\n",
        dir.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    format!("HEADRACE={}", program.display())
}

#[test]
fn a_demo_of_two_hosts_fails_with_either_and_leaves_none_behind() {
    let begun = "while [ ! -e begun ]; do sleep 0.01; done";
    let waits = "trap 'touch ended; exit 1' TERM; touch begun; while :; do sleep 0.02; done";
    for (a, b, words, is_ended) in [
        ("exit 0".to_owned(), "sleep 0.2; touch ended", "", true),
        ("exit 0".to_owned(), "sleep 0.2; exit 4", "Error 4", false),
        (format!("{begun}; exit 3"), waits, "Error 3", true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let ran = make(&["-o", "build", "nic-demo", &hosts(dir.path(), &a, b)]);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() == words.is_empty() && said.contains(words), "{ran:?}");
        let ended = dir.path().join("ended");
        for _ in 0..500 {
            if ended.exists() == is_ended {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        assert_eq!(ended.exists(), is_ended, "{a}, {b}: {ran:?}");
    }
}
