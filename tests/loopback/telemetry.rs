//! Telemetry of a run that goes on: scraped as OpenMetrics, asked through DPDK's own socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::progress::{Progress, Watch};
use live::vdev;
use serde_json::Value;

use super::{Verdict, assert_whole, matrix, plan, show};

/// Scrapes at every look.
struct Scraper {
    path: PathBuf,
    scrapes: Vec<String>,
}

impl Watch for Scraper {
    fn goes_on(&mut self, _: &Progress) -> bool {
        self.scrapes.push(scrape(&self.path));
        true
    }
}

fn scrape(path: &Path) -> String {
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: headrace\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// The value of a counter of `worker`.
fn value(scrape: &str, name: &str, worker: u32) -> u64 {
    let start = format!("headrace_{name}_total{{worker=\"{worker}\",host=\"{worker}\"}} ");
    let line = scrape.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("{start}")).parse().unwrap()
}

pub(super) fn scraped() -> Verdict {
    let name = format!("headrace-metrics-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut scraper = Scraper { path: path.clone(), scrapes: Vec::new() };
    let matrix = matrix("permutation", 4, &[("size", "4MiB")]);
    let plan = plan(&[], matrix, "leaf-spine:2,2,2");
    let observe = Observe { metrics: Some(path.clone()), ..Observe::default() };
    let outcome = vdev::run_observed(&plan, &observe, &mut scraper).unwrap();
    show(&outcome);
    assert_whole(&outcome);
    assert!(!path.exists(), "the socket outlives the run");
    assert!(scraper.scrapes.iter().all(|text| text.starts_with("HTTP/1.1 200 OK\r\n")));
    for worker in 0..4 {
        let sent = |text: &String| value(text, "endpoint_data_new", worker);
        let seen: Vec<u64> = scraper.scrapes.iter().map(sent).collect();
        assert!(seen.is_sorted(), "{seen:?}");
        assert!(seen.last().is_some_and(|last| *last > 0), "{seen:?}");
    }
    consistent(scraper.scrapes.last().unwrap(), &outcome);
    Verdict::Passed
}

/// Checks that counters of the last scrape do not exceed those at the end of the run.
fn consistent(scrape: &str, outcome: &Outcome) {
    let of_all = |name: &str| (0..4).map(|worker| value(scrape, name, worker)).sum::<u64>();
    let stats = &outcome.stats;
    assert!(of_all("endpoint_data_new") <= stats.data_new);
    assert!(of_all("endpoint_acks_received") <= stats.acks_received);
    for worker in 0..4 {
        let parsed = value(scrape, "worker_parsed", worker);
        assert_eq!(value(scrape, "worker_received", worker), parsed, "worker {worker}");
    }
    let bucket = "headrace_rtt_seconds_bucket{le=\"+Inf\",worker=\"0\",host=\"0\"} ";
    let rtts = scrape.lines().find_map(|line| line.strip_prefix(bucket)).unwrap();
    assert!(rtts.parse::<u64>().unwrap() > 0);
}

/// Asks DPDK's telemetry as soon as packets move, and ends the run with the answer.
#[derive(Default)]
struct Asker {
    child: Option<Child>,
    answer: Option<String>,
}

const COMMANDS: &str = "/headrace/list\n/headrace/workers\n/headrace/worker,1\n\
    /headrace/histograms\n/headrace/histogram,1,rtt\n/headrace/worker,9\n";

impl Watch for Asker {
    fn goes_on(&mut self, progress: &Progress) -> bool {
        let Some(child) = &mut self.child else {
            if progress.hops > 1000 {
                self.child = Some(ask());
            }
            return true;
        };
        if child.try_wait().unwrap().is_none() {
            return true;
        }
        let mut answer = String::new();
        child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        self.answer = Some(answer);
        false
    }
}

fn ask() -> Child {
    let prefix = format!("headrace-{}", std::process::id());
    let mut child = Command::new("dpdk-telemetry.py")
        .args(["-f", &prefix])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(COMMANDS.as_bytes()).unwrap();
    child
}

pub(super) fn asked() -> Verdict {
    let tool = Command::new("dpdk-telemetry.py").arg("--help").output();
    if !tool.is_ok_and(|output| output.status.success()) {
        let reason = "no dpdk-telemetry.py (Debian: apt-get install dpdk)";
        return Verdict::Skipped(reason.to_owned());
    }
    // Longer than any client waits: the answer ends it.
    let matrix = matrix("permutation", 4, &[("size", "1GiB")]);
    let plan = plan(&[("run.message", "1MiB")], matrix, "leaf-spine:2,2,2");
    let observe = Observe { telemetry: true, ..Observe::default() };
    let mut asker = Asker::default();
    let outcome = vdev::run_observed(&plan, &observe, &mut asker).unwrap();
    show(&outcome);
    let answer = asker.answer.expect("DPDK's telemetry answers while the run goes on");
    println!("{answer}");
    let answers: Vec<Value> = serde_json::Deserializer::from_str(&answer)
        .into_iter::<Value>()
        .map(|value| value.unwrap())
        .collect();
    let of = |command: &str| answers.iter().find_map(|answer| answer.get(command));
    assert_eq!(of("/headrace/list").unwrap().as_array().unwrap().len(), 5);
    assert_eq!(*of("/headrace/workers").unwrap(), serde_json::json!([0, 1, 2, 3]));
    assert_eq!(of("/headrace/histograms").unwrap().as_array().unwrap().len(), 5);
    let dictionaries: Vec<&Value> =
        answers.iter().filter_map(|a| a.get("/headrace/worker")).collect();
    assert_eq!(dictionaries.len(), 2, "one for worker 1, nothing for worker 9");
    assert!(dictionaries[1].is_null(), "{}", dictionaries[1]);
    let number = |from: &Value, name: &str| from.get(name).and_then(Value::as_u64).unwrap();
    assert_eq!(number(dictionaries[0], "host"), 1);
    assert!(number(dictionaries[0], "endpoint_data_new") > 0);
    let rtt = of("/headrace/histogram").unwrap();
    let quantiles = ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
    assert!(quantiles.map(|name| number(rtt, name)).is_sorted() && number(rtt, "count") > 0);
    Verdict::Passed
}
