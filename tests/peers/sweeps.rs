//! Several runs in real time, of which each is a process of its own.

use std::fs;

use super::Verdict;
use system_tests::process::Running;

/// A sweep reports the progress of the run that goes on, and its time left is real time.
pub(super) fn progress() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let runs = [("long", 4_000_000), ("short", 4_000)].map(|(name, size)| {
        let file = dir.path().join(name).with_extension("cm");
        let text = format!("Nodes 2\nConnections 1\n0->1 id 1 start 0 size {size}\n");
        fs::write(&file, text).unwrap();
        file.display().to_string()
    });
    // Network time of the long one is 0.33 ms, and its plain line needs a second of real time.
    let slow = ["--world", "vdev", "--set", "vdev.time_scale=4000", "--set", "run.message=64KiB"];
    let ended = Running::alone(&[&["run", "-v", &runs[0], &runs[1]], &slow[..]].concat()).wait();
    // On a busy machine runs in real time may count as invalid, which others test.
    let is_invalid = ended.code == Some(1) && ended.out.contains("INVALID");
    assert!(ended.code == Some(0) || is_invalid, "{ended:?}");
    let line = |with: &str| ended.err.lines().find(|line| line.contains(with));
    assert!(line("progress").is_none(), "what a run says to its sweep is shown: {ended:?}");
    assert!(line("run{name=\"matrix=short\"}").is_some(), "its log is not: {ended:?}");
    let going = line(": 0/2 runs, ").unwrap_or_else(|| panic!("no line of the first: {ended:?}"));
    let share = going.split_once(" runs, ").and_then(|(_, rest)| rest.split_once(" %")).unwrap();
    let share: f64 = share.0.parse().unwrap();
    assert!(share > 0.0 && share < 100.0, "{going}");
    // A simulation of the short one costs a thousandth; in real time DPDK has to start again, which
    // takes a third of the long one's time, however busy the machine is.
    let [over, none] = ["[1/2]", "[2/2]"].map(|run| line(run).unwrap());
    let (_, times) = over.rsplit_once("; ").unwrap();
    let times: Vec<u32> = times.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [took, left] = times[..] else { panic!("{over}") };
    assert!((1..=took).contains(&left) && none.ends_with("about 0 s left"), "{ended:?}");
    Verdict::Passed
}
