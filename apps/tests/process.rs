//! What only a process of its own shows: its log, full disks behind its streams, and refusals of
//! the world that needs DPDK.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

fn headrace(dir: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headrace"));
    command.args(line.split_whitespace()).current_dir(dir).env_remove("RUST_LOG");
    command
}

fn ran(dir: &Path, line: &str) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = headrace(dir, line).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(ran(dir.path(), "gen incast --hosts 16 --degree 4 --size 64KiB -o a.cm").0, Some(0));
    dir
}

#[test]
fn a_log_names_files_and_settings_and_has_no_colours_in_a_file() {
    let dir = dir();
    let log = dir.path().join("log");
    let mut command = headrace(dir.path(), "-v run a.cm --transport swift --quiet");
    let status = command.stdout(Stdio::null()).stderr(File::create(&log).unwrap()).status();
    assert!(status.unwrap().success());
    let log = fs::read_to_string(&log).unwrap();
    for part in ["INFO read role=\"matrix\" path=\"a.cm\"", "key=\"cc\" value=\"swift\""] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains('\x1b'), "{log}");
    assert_eq!(ran(dir.path(), "run a.cm --quiet"), (Some(0), String::new()));
}

#[test]
fn every_line_of_the_log_of_several_runs_names_its_run() {
    let dir = dir();
    let line = "-vvv run a.cm --transport swift,dctcp --jobs 2 --quiet";
    let (code, log) = ran(dir.path(), line);
    assert_eq!(code, Some(0), "{log}");
    for name in ["swift", "dctcp"] {
        let span = format!("run{{name=\"transport={name}\"}}: ");
        let of_run = |part: &str| log.lines().any(|l| l.contains(&span) && l.contains(part));
        let set = format!("key=\"cc\" value=\"{name}\"");
        for part in ["read role=\"matrix\"", &set, "progress seconds="] {
            assert!(of_run(part), "{part}: {log}");
        }
    }
    let unnamed = log.lines().filter(|l| !l.contains("run{name="));
    assert!(unnamed.clone().all(|l| l.contains("DEBUG forecast")), "{log}");
}

#[test]
fn a_full_disk_behind_standard_output_ends_with_three() {
    let dir = dir();
    for line in ["run a.cm --json", "run a.cm --quiet", "list settings"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = headrace(dir.path(), line).stdout(full).stderr(Stdio::piped()).output();
        let Output { status, stderr, .. } = output.unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(3), "{line}: {text}");
        assert!(text.contains("standard output cannot be written"), "{line}: {text}");
    }
}

#[test]
fn a_reader_that_ends_early_is_no_mistake() {
    let dir = dir();
    for out in ["a", "b"] {
        let line = format!("run a.cm --quiet --why --out {out}");
        assert_eq!(ran(dir.path(), &line), (Some(0), String::new()));
    }
    let verbs = [
        "run a.cm --quiet",
        "run a.cm --quiet --json",
        "list settings",
        "gen permutation",
        "why a",
        "compare a b",
        "doctor",
        "completions bash",
        "run --help",
        "--version",
    ];
    for line in verbs {
        // Nothing has been read when the pipe closes.
        let mut command = headrace(dir.path(), line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        // As a shell has it for a program that SIGPIPE ended.
        assert_eq!(status.code(), Some(141), "{line}");
        assert_eq!(String::from_utf8(stderr).unwrap(), "", "{line}");
    }
}

#[test]
fn more_hosts_than_devices_are_not_answered_with_another_topology() {
    let dir = dir();
    assert_eq!(ran(dir.path(), "gen permutation --hosts 40 -o b.cm").0, Some(0));
    let (code, text) = ran(dir.path(), "run b.cm --world vdev");
    // A machine without DPDK ends before.
    if code != Some(3) {
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("the matrix has 40 hosts") && !text.contains("topology"), "{text}");
    }
}

#[test]
fn a_file_of_a_network_may_have_any_name_and_is_called_as_it_was_written() {
    let dir = dir();
    let text = include_str!("../../tests/fuzz/seeds/topo/ft128-8os.topo");
    fs::write(dir.path().join("net.txt"), text).unwrap();
    for (name, shown) in [("./net.txt", "topology     ./net.txt ("), ("net.txt", " net.txt (")] {
        let line = format!("run a.cm --topo {name} --quiet");
        let Output { stdout, .. } = headrace(dir.path(), &line).output().unwrap();
        let text = String::from_utf8(stdout).unwrap();
        assert!(text.contains(shown), "{text}");
    }
    // A file that is not there is none, and no misspelt name.
    for (name, part) in [("./nott.txt", "No such file"), ("nott.txt", "a file, or a built-in")] {
        let (code, text) = ran(dir.path(), &format!("run a.cm --topo {name}"));
        assert!(code == Some(2) && text.contains(part) && text.contains(name), "{text}");
    }
}

#[test]
fn a_host_of_a_large_pod_takes_little_memory_beside_its_flows() {
    let dir = dir();
    let peak = |hosts: u32, topology: &str| {
        let generate = format!("gen incast --hosts {hosts} --degree 2 --size 64KiB -o b.cm");
        assert_eq!(ran(dir.path(), &generate).0, Some(0));
        let line = format!(
            "run b.cm --topo {topology} --transport zeropod --set sched.zeropod.cells=32 --json"
        );
        let Output { status, stdout, .. } = headrace(dir.path(), &line).output().unwrap();
        assert!(status.success());
        serde_json::from_slice::<Value>(&stdout).unwrap()["peak_rss_bytes"].as_u64().unwrap()
    };
    // The scheduler's entries of all pairs, if they were written, would be 32 KiB more.
    let more = peak(1024, "zeropod:64").saturating_sub(peak(16, "zeropod:8"));
    assert!(more / (1024 - 16) < 40 << 10, "{} bytes a host", more / (1024 - 16));
}

#[test]
fn a_repetition_that_is_stopped_compares_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let made = ran(dir.path(), "gen incast --hosts 16 --degree 8 --size 1GiB -o a.cm");
    assert_eq!(made.0, Some(0), "{}", made.1);
    let stopped = |line: &str, out: &str| {
        let mut command = headrace(dir.path(), &format!("{line} --quiet --out {out}"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // It has begun when it writes; it would go on for long.
        while !dir.path().join(out).join("flows.jsonl.part").exists() {
            assert!(child.try_wait().unwrap().is_none(), "{line} has ended");
            thread::sleep(Duration::from_millis(10));
        }
        let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(interrupt.unwrap().success());
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{text}");
        text
    };
    stopped("run a.cm", "first");
    let text = stopped("run first/manifest.json", "again");
    assert!(text.contains("bytes are not compared") && !text.contains("NOT the same"), "{text}");
}

#[test]
fn a_run_that_is_interrupted_says_what_was_delivered() {
    let dir = tempfile::tempdir().unwrap();
    let made = ran(dir.path(), "gen incast --hosts 16 --degree 8 --size 1GiB -o a.cm");
    assert_eq!(made.0, Some(0), "{}", made.1);
    let mut command = headrace(dir.path(), "-vvv run a.cm --quiet --out cut");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let delivers = |line: &str| {
        let progress = line.split_once("progress seconds=")?.1;
        let bytes = progress.split_once(" bytes=")?.1.split(' ').next()?;
        bytes.parse::<u64>().ok().filter(|bytes| *bytes > 0)
    };
    let before = log.find_map(|line| delivers(&line)).expect("bytes before the end");
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    log.for_each(drop);
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(status.code() == Some(1) && text.contains("stopped early"), "{text}");
    assert!(text.contains("of 8.6 GB delivered") && !text.contains(" 0 B of 8.6 GB"), "{text}");
    let flows = fs::read_to_string(dir.path().join("cut/flows.jsonl")).unwrap();
    let flows = flows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let delivered: u64 = flows.map(|flow| flow["delivered"].as_u64().unwrap()).sum();
    assert!(delivered >= before, "{delivered}, {before} while it ran");
}
