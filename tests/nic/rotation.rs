//! Keys that change while hosts of the `nic` world run.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cases::{over_memif, same_story};
use crate::hosts::{Files, Running};
use crate::stalls::under_way;
use system_tests::cases::Verdict::{self, Passed};
use system_tests::metrics::counted;

/// The message of a host that has read other keys.
const SAID: &str = "keys have changed";

/// A host that has not reported so within this time never will: it checks every second.
const SAID_WITHIN: Duration = Duration::from_secs(10);

/// Packets under way have arrived after this.
const SETTLES: Duration = Duration::from_millis(100);

/// Flows of a run of some seconds, each way in turn: one begins every 40 ms.
const FLOWS: u64 = 200;

/// Bytes of a flow.
const SIZE: u64 = 200_000;

fn matrix() -> String {
    let mut text = format!("Nodes 2\nConnections {FLOWS}\n");
    for flow in 0..FLOWS {
        let (from, start_us) = (flow % 2, flow * 40_000);
        writeln!(text, "{from}->{} id {} start {start_us} size {SIZE}", 1 - from, flow + 1)
            .unwrap();
    }
    text
}

/// Lines of a file of keys, each a number and an octet of its key.
fn lines(keys: &[(u8, u8)]) -> String {
    let line = |(number, octet): &(u8, u8)| format!("{number} {octet:02x}{}\n", "9d".repeat(31));
    keys.iter().map(line).collect()
}

/// Puts a file of `keys` in the place of `name`, as documents advise.
fn put(files: &Files, name: &str, keys: &[(u8, u8)]) {
    let beside = files.path("beside");
    fs::write(&beside, lines(keys)).unwrap();
    fs::set_permissions(&beside, Permissions::from_mode(0o600)).unwrap();
    fs::rename(&beside, files.path(name)).unwrap();
}

/// Puts these keys in the files of hosts `of`, and waits until each has said `times` that it uses
/// them.
#[track_caller]
fn change(files: &Files, hosts: &mut [Running; 2], of: &[usize], keys: &[(u8, u8)], times: usize) {
    of.iter().for_each(|host| put(files, NAMES[*host], keys));
    let from = Instant::now();
    for host in of {
        while hosts[*host].said().matches(SAID).count() < times {
            assert!(from.elapsed() < SAID_WITHIN, "host {host} does not use {keys:?}");
            assert!(hosts[*host].goes_on(), "the run is over too soon");
            sleep(Duration::from_millis(5));
        }
    }
    // What was sealed by the keys before arrives.
    sleep(SETTLES);
}

/// Packets that host 0 had no key for.
fn lacked(files: &Files) -> u64 {
    let count = counted(&files.path("metrics"), "headrace_drops_total", "reason=\"unknown_key\"");
    count.expect("host 0 shows its counters while it runs")
}

/// The files of keys of both hosts.
const NAMES: [&str; 2] = ["keys", "keys-of-1"];

/// Keys are added, changed and removed on both hosts, in the documented order: every flow goes on,
/// and no packet is sealed by a key that its receiver lacks. Then host 1 alone goes back to the key
/// that was removed: host 0 lacks it until it has that key again, so workers did change keys.
pub(crate) fn rotated() -> Verdict {
    let files = over_memif(&matrix());
    let (first, second) = ((1, 0xA1), (2, 0xB2));
    NAMES.iter().for_each(|name| put(&files, name, &[first]));
    let given = NAMES.map(|name| format!("psk:{}", files.path(name).display()));
    let flags = |host: usize| vec!["--security", given[host].as_str()];
    let mut hosts: [Running; 2] = under_way(&files, flags);
    change(&files, &mut hosts, &[0, 1], &[first, second], 1);
    change(&files, &mut hosts, &[0, 1], &[second, first], 2);
    change(&files, &mut hosts, &[0, 1], &[second], 3);
    assert_eq!(lacked(&files), 0, "in the documented order");
    change(&files, &mut hosts, &[1], &[first, second], 4);
    let from = Instant::now();
    while lacked(&files) == 0 {
        assert!(
            from.elapsed() < SAID_WITHIN,
            "host 1 seals by {second:?}, or host 0 kept {first:?}"
        );
        sleep(Duration::from_millis(5));
    }
    change(&files, &mut hosts, &[0], &[second, first], 4);
    let summary = same_story(&hosts.map(Running::wait));
    assert_eq!(summary["flows"]["finished"], FLOWS);
    let lacked = &summary["per_host"][1]["counters"]["unknown_key"];
    assert!(lacked.as_u64().unwrap_or(0) == 0, "host 1 has had every key: {lacked}");
    Passed
}
