//! Zeropod's hosts and their scheduler, a process each, on a bridge of the kernel.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cases::{PATIENT, over_memif, same_story, v4, v6};
use crate::hosts::{Files, Running, kept_setting};
use system_tests::cases::Verdict::{self, Passed, Skipped};
use system_tests::lab::Lab;

/// With links of 1 Gb/s, long cells are for machines whose processes wait for a processor: epochs
/// of up to 3.2 ms, guards of up to 1 ms.
const SLOTS: [&str; 4] = ["--transport", "zeropod", "--set", "mtu=8192"];
/// A scheduler that has not reported it within this time never will.
const SAID_WITHIN: Duration = Duration::from_secs(30);

/// Hosts on a bridge, and behind them their scheduler; `address(number)` is that of each.
pub(crate) fn on_pod(hosts: u32, cm: &str, address: fn(u32) -> String) -> Result<Files, String> {
    let lab = Lab::new(hosts + 1, 9000)?;
    let control = Lab::control();
    let files = Files::new(hosts, cm, Some(lab), |host| {
        let address = address(host);
        format!("address = \"{address}\"\ndevice = \"eth0\"\ncontrol = \"{control}\"\n")
    });
    files.end_hosts_with(&scheduler_entry(&address(hosts)));
    Ok(files)
}

fn scheduler_entry(address: &str) -> String {
    format!(
        "[[host]]\nname = \"s\"\nrole = \"scheduler\"\naddress = \"{address}\"\ndevice = \"eth0\"\n"
    )
}

/// The arguments of a host in a pod of `hosts`.
fn arguments(hosts: u32) -> Vec<String> {
    let topo = format!("leaf-spine:1,1,{hosts},1");
    let words = PATIENT.iter().chain(&SLOTS).copied().chain(["--topo", &topo]);
    words.map(str::to_owned).collect()
}

/// A scheduler, which ends with its case.
pub(crate) struct Scheduler(Running);

impl Scheduler {
    pub(crate) fn start(files: &Files, hosts: u32) -> Self {
        let path = files.path("hosts.toml");
        let words = ["scheduler", "--json", "--hosts", path.to_str().unwrap()];
        Self(files.beside(hosts, &words))
    }

    fn wait_until_said(&mut self, words: &str) {
        let process = &mut self.0;
        let from = Instant::now();
        while !process.said().contains(words) {
            assert!(process.goes_on(), "it has ended without `{words}`");
            assert!(from.elapsed() < SAID_WITHIN, "it does not say `{words}`");
            sleep(Duration::from_millis(5));
        }
    }

    /// Ends the scheduler as a user does; returns its books.
    pub(crate) fn books(self) -> Value {
        self.0.signal("INT");
        let ended = self.0.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str(&ended.out).unwrap()
    }
}

/// The named counters of all hosts.
fn counted(summary: &Value, name: &str) -> u64 {
    let hosts = summary["per_host"].as_array().unwrap().iter();
    hosts.map(|host| host["counters"][name].as_u64().unwrap_or(0)).sum()
}

/// Three processes: cells leave as granted, every byte arrives, and epochs are as measured.
pub(crate) fn served() -> Verdict {
    let cm = "Nodes 2\nConnections 3\nTriggers 1\n\
              0->1 id 1 start 0 size 400000 recv_done_trigger 1\n\
              1->0 id 2 start 0 size 300000\n\
              1->0 id 3 trigger 1 size 5000\n\
              trigger id 1 oneshot\n";
    let files = match on_pod(2, cm, v4) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let scheduler = Scheduler::start(&files, 2);
    let arguments = arguments(2);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let out = files.path("out");
    let kept = [&arguments[..], &["--out", out.to_str().unwrap()]].concat();
    // A second run finds the same scheduler, in a later term.
    for first in [&kept, &arguments] {
        let ended = [files.start(0, first), files.start(1, &arguments)].map(Running::wait);
        let summary = same_story(&ended);
        assert_eq!(summary["flows"]["finished"], 3);
        assert!(counted(&summary, "zeropod_cells") >= 705_000 / 8192, "{summary}");
        for host in &ended {
            for named in ["sched.zeropod.guard is", "sched.zeropod.cells is", "jitter of echoes"] {
                assert!(host.err.contains(named), "{named}: {host:?}");
            }
        }
    }
    // Flows wait for a scheduler that is started again, as for any peer.
    assert_eq!(kept_setting(&out, "loss.give_up"), "90s");
    let books = scheduler.books();
    assert_eq!((&books["counters"]["pods"], &books["scheduler"]["term"]), (&2.into(), &3.into()));
    assert!(books["scheduler"]["grants"].as_u64() >= Some(2 * 705_000 / (32 * 8192)), "{books}");
    Passed
}

/// A scheduler is killed and started again while flows begin one after the other: it is in a later
/// term then, and every flow ends.
pub(crate) fn restarted() -> Verdict {
    const FLOWS: u64 = 60;
    let mut cm = format!("Nodes 2\nConnections {FLOWS}\n");
    for flow in 0..FLOWS {
        let (from, start_us) = (flow % 2, flow * 50_000);
        writeln!(cm, "{from}->{} id {} start {start_us} size 100000", 1 - from, flow + 1).unwrap();
    }
    let files = match on_pod(2, &cm, v4) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let mut scheduler = Scheduler::start(&files, 2);
    let arguments = arguments(2);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let hosts = [0, 1].map(|host| files.start(host, &arguments));
    scheduler.wait_until_said("term 1");
    sleep(Duration::from_millis(500));
    // As a power cut does.
    drop(scheduler);
    let mut again = Scheduler::start(&files, 2);
    again.wait_until_said("term 3");
    let summary = same_story(&hosts.map(Running::wait));
    assert_eq!(summary["flows"]["finished"], FLOWS);
    let books = again.books();
    assert_eq!(books["scheduler"]["term"], 3, "{books}");
    assert!(books["scheduler"]["grants"].as_u64() > Some(0), "{books}");
    Passed
}

/// Three processes over IPv6.
pub(crate) fn ipv6() -> Verdict {
    let cm = "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 300000\n";
    let files = match on_pod(2, cm, v6) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let scheduler = Scheduler::start(&files, 2);
    let arguments = arguments(2);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let summary = same_story(&files.run(&arguments));
    assert!(counted(&summary, "zeropod_cells") >= 300_000 / 8192, "{summary}");
    assert!(scheduler.books()["scheduler"]["grants"].as_u64() > Some(0));
    Passed
}

/// A scheduler ends for good while flows wait: the flows are given up, and all hosts end and name
/// the missing scheduler.
pub(crate) fn lost() -> Verdict {
    let cm = "Nodes 2\nConnections 2\n0->1 id 1 start 0 size 1000000000\n\
              1->0 id 2 start 0 size 1000000000\n";
    let files = match on_pod(2, cm, v4) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let mut scheduler = Scheduler::start(&files, 2);
    let arguments = arguments(2);
    let more = ["--set", "loss.give_up=1s", "--set", "loss.retries_max=1"];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more).collect();
    let hosts = [0, 1].map(|host| files.start(host, &arguments));
    scheduler.wait_until_said("term 1");
    drop(scheduler);
    for ended in hosts.map(Running::wait) {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let summary: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(summary["flows"]["finished"], 0, "{summary}");
        let findings = summary["audit"]["findings"].to_string();
        for words in ["the scheduler s (10.77.0.3) did not answer", "start headrace scheduler"] {
            assert!(findings.contains(words), "{words}: {findings}");
        }
    }
    Passed
}

/// Hosts whose scheduler is missing report its address, and how it is started.
pub(crate) fn missing() -> Verdict {
    let files = over_memif("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 1000\n");
    files.end_hosts_with(&scheduler_entry("10.0.0.3/24"));
    let hasty = [&SLOTS[..], &["--set", "nic.patience=2s"]].concat();
    for ended in files.run(&hasty) {
        assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
        for words in ["s (10.0.0.3) does not say its MAC", "start headrace scheduler --hosts"] {
            assert!(ended.err.contains(words), "{words}: {ended:?}");
        }
    }
    Passed
}

/// Impossible inputs are refused before DPDK starts, with their place and a remedy.
pub(crate) fn refused() -> Verdict {
    let files = over_memif("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 1000\n");
    let path = files.path("hosts.toml");
    let path = path.to_str().unwrap();
    let wrong = |running: Running, words: &[&str]| {
        let ended = running.wait();
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(words.iter().all(|word| ended.err.contains(word)), "{words:?}: {}", ended.err);
    };
    let scheduler =
        |more: &[&str]| Running::alone(&[&["scheduler", "--hosts", path], more].concat());
    let named = ["hosts.toml", "no scheduler", "role = \"scheduler\""];
    wrong(scheduler(&[]), &named);
    wrong(files.start(0, &SLOTS), &named);
    files.end_hosts_with(&scheduler_entry("10.0.0.3/24"));
    let device = ["--device", "net_memif0"];
    wrong(scheduler(&[device, device].concat()), &["--device", "multiple times"]);
    wrong(scheduler(&["--device", "a b"]), &["--device"]);
    let matchers = fabric::pod::matcher::MatcherKind::NAMES.join(", ");
    wrong(scheduler(&["--set", "sched.zeropod.matcher=best"]), &["`best`", &matchers]);
    wrong(scheduler(&["--set", "sched.zeropod.cells=8"]), &["--set", "cells", "hosts have all"]);
    wrong(scheduler(&["--set", "matcher"]), &["--set", "KEY=VALUE"]);
    let run = ["run", "m.cm", "--world", "nic", "--hosts", path, "--host", "s"];
    wrong(Running::alone(&run), &["`s`, the scheduler", "headrace scheduler --hosts"]);
    let guard = ["--set", "sched.zeropod.guard=2s"];
    wrong(files.start(0, &[&SLOTS[..], &guard].concat()), &["sched.zeropod.guard", "2.000s"]);
    files.end_hosts_with(&scheduler_entry("10.0.0.4/24").replace("\"s\"", "\"t\""));
    wrong(scheduler(&[]), &["hosts.toml:", "a second scheduler", "`s` has that role"]);
    Passed
}
