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

/// What a host says once it has read other keys.
const SAID: &str = "keys have changed";

/// A host that has not said so in this time never will: it looks every second.
const SAID_WITHIN: Duration = Duration::from_secs(10);

/// Packets under way have arrived after this.
const SETTLES: Duration = Duration::from_millis(100);

/// Flows of a run of some seconds, each way in turn: one begins every 50 ms.
const FLOWS: u64 = 160;

/// Bytes of a flow.
const SIZE: u64 = 200_000;

fn matrix() -> String {
    let mut text = format!("Nodes 2\nConnections {FLOWS}\n");
    for flow in 0..FLOWS {
        let (from, start_us) = (flow % 2, flow * 50_000);
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

/// Keys are added, changed and removed on both hosts, in the documented order: every flow goes on,
/// and no packet is sealed by a key that its receiver lacks.
pub(crate) fn rotated() -> Verdict {
    let files = over_memif(&matrix());
    let names = ["keys", "keys-of-1"];
    names.iter().for_each(|name| put(&files, name, &[(1, 0xA1)]));
    let given = names.map(|name| format!("psk:{}", files.path(name).display()));
    let flags = |host: usize| vec!["--security", given[host].as_str()];
    let mut hosts: [Running; 2] = under_way(&files, flags);
    for (step, keys) in
        (1..).zip([&[(1, 0xA1), (2, 0xB2)][..], &[(2, 0xB2), (1, 0xA1)], &[(2, 0xB2)]])
    {
        names.iter().for_each(|name| put(&files, name, keys));
        let from = Instant::now();
        for (host, running) in hosts.iter_mut().enumerate() {
            while running.times_said(SAID) < step {
                assert!(from.elapsed() < SAID_WITHIN, "host {host} does not use {keys:?}");
                assert!(running.goes_on(), "the run is over too soon");
                sleep(Duration::from_millis(5));
            }
        }
        // What was sealed by the keys before arrives.
        sleep(SETTLES);
    }
    let summary = same_story(&hosts.map(Running::wait));
    assert_eq!(summary["flows"]["finished"], FLOWS);
    let lacked = &summary["counters"]["unknown_key"];
    assert!(lacked.as_u64().unwrap_or(0) == 0, "{lacked}");
    Passed
}
