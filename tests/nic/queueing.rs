//! How long packets queue before a host that receives many flows, with Zeropod and with DCTCP.
//! Echoes of the receiver's kernel that pass the same queue measure it.
//!
//! ```text
//!   h1 --\                              tbf, 1 Gb/s
//!         bridge ------------------------------------> h0
//!   h2 --/   \-- UDP to a closed port, 500 a second -> its kernel: ICMP, at once
//! ```
//!
//! What an echo takes beyond the shortest one is the time in that queue. Echoes count while at
//! least [`BUSY_BYTES`] have passed since the one before. `QUEUEING_KB` is the length of a flow;
//! with the default the case shows that both transports can be measured, and no more:
//!
//!     QUEUEING_KB=4000 cargo test --release --test nic -- queue

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cases::{PATIENT, same_story};
use crate::hosts::Files;
use crate::pod::{self, Scheduler};
use system_tests::cases::Verdict::{self, Measured, Skipped};

/// Makes this binary the sender of echoes.
pub(crate) const AS_ECHO: &str = "echo";

/// Between two echoes.
const EVERY: Duration = Duration::from_millis(2);
/// Until the first echoes have come back.
const PATIENCE: Duration = Duration::from_secs(20);
/// A port on which no process listens.
const CLOSED_PORT: u16 = 9;
/// Bytes since the last echo that make an echo count: a tenth of what passes at 1 Gb/s.
const BUSY_BYTES: u64 = 25_000;
/// Flows of each sender, and kilobytes of a flow unless they are given.
const FLOWS: u32 = 32;
const KILOBYTES: u64 = 100;

/// Sends echoes to the address in `arguments` until it is killed, and prints of each its
/// nanoseconds, and the bytes that have passed the device that is named.
pub(crate) fn echo(arguments: &[OsString]) -> ExitCode {
    let [address, device] = arguments else { return ExitCode::FAILURE };
    let [address, device] = [address, device].map(|word| word.to_str().unwrap());
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((address, CLOSED_PORT)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let passed = format!("/sys/class/net/{device}/statistics/tx_bytes");
    let mut out = std::io::stdout().lock();
    loop {
        let from = Instant::now();
        // That no process listens there comes back as an error of either call.
        let answered = socket.send(&[0; 32]).and_then(|_| socket.recv(&mut [0; 32]));
        let took = from.elapsed().as_nanos();
        let is_answer =
            |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        if answered.is_err_and(is_answer) {
            let bytes = fs::read_to_string(&passed).unwrap();
            writeln!(out, "{took} {}", bytes.trim()).unwrap();
        }
        sleep(EVERY);
    }
}

/// Microseconds of the echoes while flows passed, beyond the shortest of all, ascending.
fn queued(text: &str) -> Vec<f64> {
    let mut echoes = Vec::new();
    for line in text.lines() {
        let (took, bytes) = line.split_once(' ').unwrap();
        echoes.push((took.parse::<f64>().unwrap() / 1000.0, bytes.parse::<u64>().unwrap()));
    }
    let base = echoes.iter().map(|(us, _)| *us).fold(f64::INFINITY, f64::min);
    let busy = echoes.windows(2).filter(|pair| pair[1].1 > pair[0].1 + BUSY_BYTES);
    let mut queued: Vec<f64> = busy.map(|pair| pair[1].0 - base).collect();
    queued.sort_by(f64::total_cmp);
    queued
}

/// The incast with `settings` and its measurement, in words.
fn measured(files: &Files, name: &str, settings: &[&str]) -> String {
    let mut echoes = files.at_bridge(&[AS_ECHO, "192.168.177.1", "p0"]);
    // The shortest one is of an empty queue.
    for _ in 0..PATIENCE.as_millis() / EVERY.as_millis() {
        if echoes.written().lines().count() >= 20 {
            break;
        }
        sleep(EVERY);
    }
    assert!(echoes.written().lines().count() >= 20, "no echo comes back");
    let topo = ["--topo", "leaf-spine:1,1,3,1", "--set", "mtu=8192"];
    let ended = files.run(&[&PATIENT[..], &topo, settings].concat());
    echoes.kill();
    let mut text = echoes.wait().out;
    // Its last line may not be whole.
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    let summary: Value = same_story(&ended);
    assert_eq!(summary["flows"]["finished"], 2 * FLOWS);
    let queued = queued(&text);
    let at = |share: usize| queued.get((queued.len() * share / 100).min(queued.len().max(1) - 1));
    let us = |share| at(share).map_or("-".to_owned(), |us| format!("{us:.0}"));
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let mean = queued.iter().sum::<f64>() / queued.len().max(1) as f64;
    format!(
        "{name}: {} echoes, us queued p50 {}, p90 {}, p99 {}, mean {mean:.0}; {:.2} Gb/s, {} lost",
        queued.len(),
        us(50),
        us(90),
        us(99),
        summary["goodput_gbps"].as_f64().unwrap(),
        summary["drops"]["lost_in_network"].as_u64().unwrap_or(0)
    )
}

/// An incast of each transport through a queue of 1 MB.
pub(crate) fn incast() -> Verdict {
    let kilobytes = std::env::var("QUEUEING_KB").ok().and_then(|text| text.parse().ok());
    let bytes = kilobytes.unwrap_or(KILOBYTES) * 1000;
    let mut cm = format!("Nodes 3\nConnections {}\n", 2 * FLOWS);
    for flow in 0..2 * FLOWS {
        writeln!(cm, "{}->0 id {} start 0 size {bytes}", 1 + flow % 2, flow + 1).unwrap();
    }
    let ready = pod::on_pod(3, &cm, crate::cases::v4).and_then(|files| {
        files.limit(0, "tbf rate 1gbit burst 32kb limit 1mb")?;
        Ok(files)
    });
    let files = match ready {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let dctcp = measured(&files, "dctcp", &["--transport", "dctcp"]);
    let scheduler = Scheduler::start(&files, 3);
    let zeropod = measured(&files, "zeropod", &["--transport", "zeropod"]);
    let early = ["--transport", "zeropod", "--set", "sched.zeropod.early=3ms"];
    let strict = measured(&files, "zeropod, early=3ms", &early);
    scheduler.books();
    Measured(format!("{dctcp}; {zeropod}; {strict}"))
}
