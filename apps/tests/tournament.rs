//! A tournament that is interrupted.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

#[test]
fn an_interrupted_tournament_has_no_standings_and_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headrace"));
        let flags = "tournament --family near-incast --mixes 8 --scale 0.02 --transport uno,smartt";
        command.args(flags.split(' ')).arg("--out").arg(dir.path());
        command
    };
    let mut child = command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("[1/16]") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no run ended");
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("of 16 runs are kept and there are no standings"), "{rest}");
    assert!(!fs::exists(dir.path().join("standings.json")).unwrap());
    let again = command().output().unwrap();
    let err = String::from_utf8(again.stderr).unwrap();
    assert_eq!(again.status.code(), Some(0), "{err}");
    let kept = err.lines().find(|line| line.contains("of 16 runs are in")).unwrap();
    assert!(!kept.starts_with("0 "), "{kept}");
    assert!(fs::exists(dir.path().join("standings.json")).unwrap());
}
