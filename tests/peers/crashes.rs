//! The surroundings fail: processes that stand still, links that flap, disks that are full, memory
//! that is limited, readers that stop, files that a killed process left.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use transport::Rng;

use super::netns::Pair;
use super::{Stage, Verdict, across};
use system_tests::process::{Ended, Running};

/// Rounds of a case at random instants: a few, or as many as `CRASHES` says.
pub(super) fn rounds(least: u64) -> u64 {
    let wanted = std::env::var("CRASHES").ok().and_then(|count| count.parse().ok());
    wanted.unwrap_or(least).max(least)
}

/// Seconds that processes stand still: one, or those that `STALLS` names, as in `1,12,60`.
fn stalls() -> Vec<u64> {
    let wanted = std::env::var("STALLS").unwrap_or_default();
    let seconds: Vec<u64> = wanted.split(',').filter_map(|second| second.parse().ok()).collect();
    if seconds.is_empty() { vec![1] } else { seconds }
}

/// For how long a link goes down, each in turn: short ones, and as long as processes stand still.
pub(super) fn breaks() -> Vec<Duration> {
    let long = std::env::var("STALLS").is_ok();
    let long = if long { stalls() } else { Vec::new() };
    let short = [100, 600].map(Duration::from_millis);
    short.into_iter().chain(long.into_iter().map(Duration::from_secs)).collect()
}

/// Each side of a session stands still in turn, and no byte is lost or wrong.
pub(super) fn stalled() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let patience = (stalls().iter().max().unwrap() * 2 + 10).to_string();
    let stage = Stage::memif(dir.path(), &["--patience", &patience]);
    for seconds in stalls() {
        for side in 0..2 {
            let time = (seconds + 2).to_string();
            let more = ["--time", &time, "--bidir", "--verify", "--patience", &patience];
            let mut client = stage.client("perf", &more);
            client.on_event(" 1.");
            let stopped = if side == 0 { &client } else { &stage.server };
            stopped.signal("STOP");
            sleep(Duration::from_secs(seconds));
            stopped.signal("CONT");
            let result = client.wait().result();
            assert!(result["from_server"]["bytes"].as_u64() > Some(0), "{result:#}");
        }
    }
    stage.end();
    Verdict::Passed
}

/// A link goes down and comes up again at random instants.
pub(super) fn flaps() -> Verdict {
    let pair = match Pair::new("flaps", 9000) {
        Ok(pair) => pair,
        Err(reason) => return Verdict::Skipped(reason),
    };
    let mut rng = Rng::new(14).fork("flaps", 0);
    let stage = across(&pair, ["veth", "veth"]);
    let mut client = stage.client("perf", &["--bytes", "64GiB", "--verify", "--patience", "20"]);
    client.on_event(" 1.");
    for _ in 0..rounds(3) {
        let end = rng.below(2) == 0;
        pair.set([end, !end]).unwrap();
        sleep(Duration::from_millis(rng.below(600)));
        pair.set([true, true]).unwrap();
        sleep(Duration::from_millis(rng.below(400)));
    }
    client.signal("INT");
    let ended = client.wait();
    assert!(ended.counter("counters", "link_downs") > 0, "{ended:?}");
    let result = stage.run("perf", &["--bytes", "1MiB", "--verify"]).result();
    assert_eq!(result["to_server"]["bytes"], 1 << 20);
    stage.end();
    Verdict::Passed
}

/// A ping is posted while the client's interface is down, and answered soon after it is up,
/// although the first timeout and the reminders of an idle flow are many seconds away.
pub(super) fn kept_frames() -> Verdict {
    let pair = match Pair::new("kept", 9000) {
        Ok(pair) => pair,
        Err(reason) => return Verdict::Skipped(reason),
    };
    let stage = across(&pair, ["veth", "veth"]);
    let pings = ["--count", "2", "--interval", "3s"];
    let late = ["--patience", "60", "--set", "loss.rto_min=20s"];
    let mut client = stage.client("ping", &[pings, late].concat());
    client.on_event("session with");
    sleep(Duration::from_secs(1));
    pair.set([true, false]).unwrap();
    sleep(Duration::from_millis(3500));
    pair.set([true, true]).unwrap();
    let result = client.wait().result();
    let longest = result["round_trip_us"]["max"].as_f64().unwrap();
    assert!((200_000.0..10_000_000.0).contains(&longest), "{result:#}");
    stage.end();
    Verdict::Passed
}

/// A file system of so many kilobytes, gone when this is dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn new(place: &Path, kilobytes: u32) -> Result<Self, String> {
        fs::create_dir(place).unwrap();
        let size = format!("size={kilobytes}k");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place).output();
        let mounted = mounted.map_err(|error| format!("mount: {error}"))?;
        if mounted.status.success() {
            return Ok(Self(place.to_owned()));
        }
        Err(format!("a small disk: {}", String::from_utf8_lossy(&mounted.stderr).trim()))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A matrix of one flow, in `dir`.
fn matrix(dir: &Path) -> String {
    let path = dir.join("matrix.cm");
    fs::write(&path, "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 2000000\n").unwrap();
    path.display().to_string()
}

/// Checks that a process ended by itself, with this code and this message.
#[track_caller]
fn says(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(words.iter().all(|word| ended.err.contains(word)), "{words:?}: {ended:?}");
    assert!(!ended.err.contains("panicked"), "{ended:?}");
}

/// Every output to a disk that is full: exit code 3, the message names the file, and what was
/// written before stays.
pub(super) fn full_disk() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let matrix = matrix(dir.path());
    let small = match SmallDisk::new(&dir.path().join("small"), 16) {
        Ok(small) => small,
        Err(reason) => return Verdict::Skipped(reason),
    };
    let full = ["cannot be written", "help: free some space"];
    for world in ["sim", "vdev"] {
        let run = ["run", &matrix, "--world", world, "--quiet"];
        let out = small.path("out");
        let ended = Running::alone(&[&run[..], &["--out", &out]].concat()).wait();
        says(&ended, 3, &[&full[..], &[&format!("{out}/")]].concat());
        assert!(ended.out.contains("completion"), "the result is there: {ended:?}");
        let whole = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
        let whole = whole.filter(|name| !name.to_string_lossy().starts_with('.'));
        assert!(whole.count() > 0, "{world}: {ended:?}");
        fs::remove_dir_all(&out).unwrap();
        let capture = small.path("frames.pcapng");
        let ended = Running::alone(&[&run[..], &["--capture", &capture]].concat()).wait();
        says(&ended, 3, &[&full[..], &[&capture]].concat());
        assert!(ended.out.contains("flows"), "the result is there: {ended:?}");
        assert!(fs::metadata(&capture).unwrap().len() > 4096);
        fs::remove_file(&capture).unwrap();
        let command = format!("exec \"$0\" \"$@\" > {}", small.path("summary"));
        fs::write(small.path("filler"), [0; 16 << 10]).unwrap();
        let ended = Running::shell(&command, &[&run[..], &["--json"]].concat()).wait();
        says(&ended, 3, &["standard output cannot be written", full[1]]);
        fs::remove_file(small.path("filler")).unwrap();
        fs::remove_file(small.path("summary")).unwrap();
    }
    // Room for all but the recordings.
    drop(small);
    fs::remove_dir(dir.path().join("small")).unwrap();
    let Ok(small) = SmallDisk::new(&dir.path().join("small"), 40) else {
        return Verdict::Skipped("a second small disk".to_owned());
    };
    let out = small.path("out");
    let run = ["run", &matrix, "--world", "vdev", "--set", "vdev.record=on", "--out", &out];
    says(&Running::alone(&run).wait(), 3, &full);
    assert!(fs::read_dir(&out).unwrap().count() > 0);
    Verdict::Passed
}

/// Too little memory is reported before anything fails for lack of it.
pub(super) fn little_memory() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let small = matrix(dir.path());
    let large = dir.path().join("large.cm").display().to_string();
    let made = ["gen", "permutation", "--hosts", "8192", "-o", &large];
    says(&Running::alone(&made).wait(), 0, &[]);
    let limited = "ulimit -v 150000; exec \"$0\" \"$@\"";
    let run = ["run", &large, "--topo", "ft8192-1os", "--world", "sim"];
    says(&Running::shell(limited, &run).wait(), 3, &["memory: ", "help: "]);
    let run = ["run", &small, "--world", "vdev"];
    says(&Running::shell(limited, &run).wait(), 3, &["memory.address_space", "ulimit -v"]);
    Verdict::Passed
}

/// A reader that has ended, which did not get the result, costs the exit code and no message; one
/// that is slow gets all of it.
pub(super) fn readers() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let many = dir.path().join("many.cm").display().to_string();
    let made = ["gen", "permutation", "--hosts", "1024", "-o", &many];
    says(&Running::alone(&made).wait(), 0, &[]);
    // More than a pipe holds.
    let run = ["run", &many, "--topo", "ft1024-1os", "--world", "sim", "--flows", "--quiet"];
    let piped = |reader: &str, code: &str| {
        let script = format!("{{ \"$0\" \"$@\"; echo \"code $?\" >&2; }} | {reader}");
        let ended = Running::shell(&script, &run).wait();
        says(&ended, 0, &[]);
        assert_eq!(ended.err, format!("code {code}\n"), "nothing else is said");
        ended
    };
    piped(":", "141");
    let ended = piped("(sleep 2; cat)", "0");
    assert!(ended.out.lines().count() > 1024 && ended.out.len() > 1 << 16, "{}", ended.out.len());
    Verdict::Passed
}

/// Sockets that a killed process left are no obstacle to the next.
pub(super) fn left_over() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let metrics = dir.path().join("metrics").display().to_string();
    let long = dir.path().join("long.cm");
    fs::write(&long, "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 4000000000\n").unwrap();
    let long = long.display().to_string();
    let short = matrix(dir.path());
    let show = ["--world", "vdev", "--metrics", &metrics, "--telemetry", "--quiet"];
    for _ in 0..rounds(1) {
        let killed = Running::alone(&[&["run", &long], &show[..]].concat());
        let appears = (0..12_000).any(|_| {
            sleep(Duration::from_millis(5));
            Path::new(&metrics).exists()
        });
        assert!(appears, "no socket in a minute");
        killed.signal("KILL");
        assert_eq!(killed.wait().code, Some(-9));
        assert!(Path::new(&metrics).exists(), "nothing was left over");
        let next = [&["run", &short], &show[..]].concat();
        let ended = Running::alone(&next).wait();
        assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        assert!(ended.out.contains("flows"), "{ended:?}");
        assert!(!Path::new(&metrics).exists(), "it goes with the process that ends");
    }
    Verdict::Passed
}
