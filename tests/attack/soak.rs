//! A server for as long as `--soak SECONDS` says, with clients that pause, are killed and come
//! again, under every attack in turn: its memory and descriptors stay as they are.

use std::path::Path;
use std::time::{Duration, Instant};

use transport::Rng;

use crate::forger::{Attack, VICTIMS};
use crate::victims::{Attacker, WAITS, addressed, client, server, start, with_attacker};
use system_tests::lab::Lab;
use system_tests::process::Running;

/// Growth of a server's memory that does not count: pages that it touches for the first time.
const GROWTH_KB: u64 = 4096;

/// Turns before a server's memory is looked at: tables and buffers are in use by then.
const WARM: u32 = 4;

/// Kilobytes in memory, and open descriptors.
fn held(process: &Running) -> (u64, usize) {
    let of = format!("/proc/{}", process.id());
    let status = std::fs::read_to_string(format!("{of}/status")).unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kb = rss.trim().trim_end_matches(" kB").parse().unwrap();
    (kb, std::fs::read_dir(format!("{of}/fd")).unwrap().count())
}

/// One client, of the kind that `turn` says; true when it ended well by itself.
fn visit(lab: &Lab, turn: u32, rng: &mut Rng) -> bool {
    let perf = |more: &[&str]| client(lab, &addressed(&VICTIMS), more);
    match turn % 4 {
        0 => drop(perf(&["--time", "4"]).wait().result()),
        1 => drop(perf(&["--time", "4", "--bidir", "--think", "20ms"]).wait().result()),
        2 => {
            let what = ["ping", "client", "--device", "eth0", "--json"];
            let idle = ["--count", "2", "--interval", "10s"];
            let ends = addressed(&VICTIMS);
            let ended = start(lab, 1, &ends, &[&what[..], &idle, &WAITS].concat()).wait();
            assert_eq!(ended.result()["round_trip_us"]["count"], 2, "{ended:?}");
        }
        _ => {
            let mut killed = perf(&["--time", "60"]);
            killed.on_event("session with");
            std::thread::sleep(Duration::from_millis(rng.below(2000)));
            killed.signal("KILL");
            assert_eq!(killed.wait().code, Some(-9));
            return false;
        }
    }
    true
}

/// # Panics
/// When a client is refused or gets wrong bytes, or a server grows, or ends with a finding.
pub(crate) fn suffer(seconds: u64) -> Result<String, String> {
    let lab = with_attacker()?;
    let mut rng = Rng::new(21);
    // One needs a recording, and one a core of its own.
    let is_fit = |attack: &Attack| !matches!(attack, Attack::Replay | Attack::Flood);
    let attacks: Vec<Attack> = Attack::ALL.iter().copied().filter(is_fit).collect();
    let begun = Instant::now();
    let (mut turn, mut servers, mut memory) = (0, 0, Vec::new());
    while begun.elapsed().as_secs() < seconds {
        let now = server(&lab, &addressed(&VICTIMS));
        servers += 1;
        // Half of the time each: one restart.
        let until = Duration::from_secs(seconds * servers / 2);
        let (mut warm, mut broken, mut own) = (None, 0, 0);
        while begun.elapsed() < until || warm.is_none() {
            let attack = attacks[turn as usize % attacks.len()];
            let attacker = Attacker::start(&lab, attack, Path::new("none"), None);
            broken += u32::from(!visit(&lab, turn, &mut rng));
            attacker.end();
            (turn, own) = (turn + 1, own + 1);
            if own == WARM {
                warm = Some(held(&now));
            }
        }
        let (before, after) = (warm.unwrap(), held(&now));
        assert!(after.0 <= before.0 + GROWTH_KB, "{before:?} kB and descriptors, then {after:?}");
        assert_eq!(after.1, before.1, "descriptors");
        now.signal("INT");
        let ended = now.wait();
        // Its buffers are all back, or it would not end so.
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let served: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(served["broken"], broken, "{served:#}");
        memory.push(format!("{} then {} kB", before.0, after.0));
    }
    Ok(format!("{turn} clients of {servers} servers, in memory: {}", memory.join("; ")))
}
