//! Applications in C whose peer is killed in the middle of messages: what their calls return, how
//! soon, and that the next peer needs no hand.

#![allow(clippy::disallowed_types, reason = "how soon, by the wall clock")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{compiled_from, here};

/// No call of an application takes longer, whatever its peer does, ms. The machine may be busy.
const CALL_MAX: u64 = 200;

/// After so long a silent peer is given up; docs/C_API.md says it.
const GIVE_UP: Duration = Duration::from_secs(50);

/// Messages of 400,000 bytes: some seconds.
const MESSAGES: u64 = 4000;

/// One of the two applications of `killed.c`.
struct Side {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// The program, and the device that joins its two processes.
struct Stage {
    program: PathBuf,
    device: String,
}

impl Stage {
    fn new(build: &Path, name: &str) -> Self {
        let program = compiled_from(&here().join("tests/c_api/killed.c"), build);
        let device = format!("net_memif0,socket=headrace-c-{name}-{}", std::process::id());
        Self { program, device }
    }

    fn start(&self, roles: [&str; 2]) -> Side {
        let mut child = Command::new(&self.program)
            .args(roles)
            .args([&self.device, &MESSAGES.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Side { child, lines }
    }
}

impl Side {
    /// The next line; without one the process has ended.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Kills the process as `kill -9` does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The counts of the last line by their names. The process has ended well.
    #[track_caller]
    fn counts<const N: usize>(mut self, names: [&str; N]) -> [u64; N] {
        let line = self.line();
        assert!(self.child.wait().unwrap().success(), "{line}");
        let words: Vec<_> = line.split(' ').collect();
        names.map(|name| {
            let at = words.iter().position(|word| *word == name);
            at.and_then(|at| words[at + 1].parse().ok()).unwrap_or_else(|| panic!("{name}: {line}"))
        })
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn messages_to_a_peer_that_is_killed_and_started_again_go_on() {
    let build = tempfile::tempdir().unwrap();
    let stage = Stage::new(build.path(), "again");
    let survivor = stage.start(["sends", "listens"]);
    let mut first = stage.start(["receives", "connects"]);
    assert_eq!(first.line(), "first");
    sleep(Duration::from_millis(200));
    first.kill();
    sleep(Duration::from_secs(1));
    let mut second = stage.start(["receives", "connects"]);
    assert_eq!(second.line(), "first");
    let [whole, aborted] = second.counts(["whole", "aborted"]);
    assert!((1..MESSAGES).contains(&whole) && aborted == 0, "{whole} {aborted}");
    let [sent, silent, quiet, longest] = survivor.counts(["sent", "silent", "quiet", "longest"]);
    assert_eq!((sent, silent), (MESSAGES, 0));
    assert!((1000..15_000).contains(&quiet), "{quiet} ms");
    assert!(longest < CALL_MAX, "{longest} ms");
}

#[test]
#[ignore = "takes a minute: make crash runs it"]
fn messages_to_a_peer_that_is_killed_fail_after_fifty_seconds_and_a_new_device_serves() {
    let build = tempfile::tempdir().unwrap();
    let stage = Stage::new(build.path(), "silent");
    let mut first = stage.start(["receives", "listens"]);
    let mut survivor = stage.start(["sends", "connects"]);
    assert_eq!(first.line(), "first");
    sleep(Duration::from_millis(200));
    first.kill();
    let killed = Instant::now();
    assert_eq!(survivor.line(), "silent");
    let took = killed.elapsed();
    assert!((GIVE_UP..GIVE_UP + Duration::from_secs(10)).contains(&took), "{took:?}");
    assert_eq!(survivor.line(), "failed");
    let mut second = stage.start(["receives", "listens"]);
    assert_eq!(second.line(), "first");
    let [aborted] = second.counts(["aborted"]);
    assert_eq!(aborted, 0);
    let [sent, silent, longest] = survivor.counts(["sent", "silent", "longest"]);
    assert_eq!((sent, silent), (MESSAGES, 8));
    assert!(longest < CALL_MAX, "{longest} ms");
}

#[test]
fn a_receiver_whose_sender_is_killed_serves_the_next_one() {
    let build = tempfile::tempdir().unwrap();
    let stage = Stage::new(build.path(), "sender");
    let mut survivor = stage.start(["receives", "listens"]);
    let first = stage.start(["sends", "connects"]);
    assert_eq!(survivor.line(), "first");
    sleep(Duration::from_millis(200));
    first.kill();
    let second = stage.start(["sends", "connects"]);
    let [sent, silent] = second.counts(["sent", "silent"]);
    assert_eq!((sent, silent), (MESSAGES, 0));
    let [whole, longest] = survivor.counts(["whole", "longest"]);
    assert!((MESSAGES + 1..2 * MESSAGES).contains(&whole), "{whole}");
    assert!(longest < CALL_MAX, "{longest} ms");
}
