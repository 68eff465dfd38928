//! Processes that stand still for a while in the middle of a run, and hosts of the `nic` world that
//! are killed there.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Verdict::{self, Passed};
use crate::cases::{over_memif, same_story};
use crate::hosts::{Files, Running};

/// Both ways, for several seconds.
const LONG: &str = "\
Nodes 2
Connections 4
0->1 id 1 start 0 size 1000000000
1->0 id 2 start 0 size 1000000000
0->1 id 3 start 0 size 1000000
1->0 id 4 start 0 size 1000000
";

/// Between two breaks.
const RUNS_FOR: Duration = Duration::from_millis(200);

/// A host that takes longer to begin hangs.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// Survivors name a killed host within this, on a machine where other programs run.
const NAMED_WITHIN: Duration = Duration::from_secs(3);

/// A break of an emulated run, and the time between two.
const BREAK: Duration = Duration::from_millis(300);

/// The breaks of the shorter case, milliseconds: each host in turn.
const SHORT: [u64; 4] = [100, 100, 300, 1000];

/// Starts both hosts and waits until segments of host 0 have left.
fn under_way(files: &Files) -> [Running; 2] {
    let metrics = files.path("metrics");
    let flag = ["--metrics", metrics.to_str().unwrap()];
    let mut hosts = [files.start(0, &flag), files.start(1, &[])];
    let begun = Instant::now();
    while !has_sent(&metrics) {
        assert!(begun.elapsed() < BEGINS_WITHIN, "the run does not begin");
        assert!(hosts.iter_mut().all(Running::goes_on), "{:?}", hosts.map(Running::wait));
        sleep(Duration::from_millis(5));
    }
    hosts
}

fn has_sent(metrics: &Path) -> bool {
    let Ok(mut client) = UnixStream::connect(metrics) else { return false };
    let mut answer = String::new();
    let asked = client.write_all(b"GET /metrics HTTP/1.1\r\nHost: headrace\r\n\r\n");
    if asked.and_then(|()| client.read_to_string(&mut answer)).is_err() {
        return false;
    }
    let sent = answer.lines().filter(|line| line.starts_with("headrace_endpoint_data_new_total"));
    sent.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>() > 0
}

/// Stops the hosts in turn for these milliseconds; all flows finish with the right bytes.
fn survived(breaks: &[u64]) -> Verdict {
    let files = over_memif(LONG);
    let mut hosts = under_way(&files);
    let mut stopped = 0;
    for (turn, ms) in breaks.iter().enumerate() {
        let host = &mut hosts[(turn + 1) % 2];
        if !host.goes_on() {
            break;
        }
        host.signal("STOP");
        sleep(Duration::from_millis(*ms));
        host.signal("CONT");
        stopped += 1;
        sleep(RUNS_FOR);
    }
    let ended = hosts.map(Running::wait);
    let summary = same_story(&ended);
    assert_eq!(
        (summary["flows"]["finished"].as_u64(), summary["audit"]["ok"].as_bool()),
        (Some(4), Some(true))
    );
    assert!(stopped >= breaks.len().min(2), "the run ended after {stopped} breaks");
    Passed
}

pub(crate) fn short() -> Verdict {
    survived(&SHORT)
}

/// Breaks of `--stall SECONDS`, for each host; without it the case has nothing to do.
pub(crate) fn long() -> Verdict {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == "--stall");
    let Some(seconds) = at.and_then(|at| words.get(at + 1)?.parse::<u64>().ok()) else {
        return Verdict::Skipped("`--stall SECONDS` runs it".to_owned());
    };
    survived(&[seconds * 1000, seconds * 1000])
}

pub(crate) fn killed() -> Verdict {
    for victim in [1, 0] {
        let files = over_memif(LONG);
        let mut hosts = under_way(&files).map(Some);
        let mut killed = hosts[victim].take().unwrap();
        killed.kill();
        let at = Instant::now();
        let ended = hosts[1 - victim].take().unwrap().wait();
        let after = at.elapsed();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains(&format!("host `h{victim}` failed")), "{ended:?}");
        assert!(after < NAMED_WITHIN, "{after:?}: {ended:?}");
        // The next start needs no hand.
        let next = over_memif("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 1000\n");
        same_story(&next.run(&[]));
    }
    Passed
}

/// Flows of a process that stands still half of the time finish; its figures mean nothing, and it
/// says so.
pub(crate) fn emulated() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let matrix = dir.path().join("matrix.cm");
    std::fs::write(&matrix, "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 20000000\n").unwrap();
    let mut run = Running::alone(&["run", matrix.to_str().unwrap(), "--world", "vdev", "--json"]);
    while run.goes_on() {
        run.signal("STOP");
        sleep(BREAK);
        run.signal("CONT");
        sleep(BREAK);
    }
    let ended = run.wait();
    let summary: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&summary["flows"]["finished"], &summary["audit"]["ok"]), (&1.into(), &true.into()));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("INVALID: ") && ended.err.contains("time_scale"), "{ended:?}");
    Passed
}
