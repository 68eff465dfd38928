//! Connections to the TCP ports at which hosts of the `nic` world meet. While hosts meet they go to
//! the port of the first host. While flows are under way they go to that of the host that would
//! take its place.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use socket2::{Domain, Socket, Type};
use system_tests::metrics::counted;

use crate::forger::{PACE, PORT, send_until_input_ends};
use crate::pods::files;
use crate::victims::{Attacker, Compared, LEFT, LONG, REPORT, SLICE, with_attacker};
use system_tests::lab::Lab;
use system_tests::process::Running;

/// Connections that the attacker keeps, of which each sends an octet now and then.
const KEPT: usize = 500;

/// Connections that must have been tried while hosts meet.
const LEAST: u64 = 1000;

/// A run that takes longer to begin hangs.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// A flow of a long run, and how many of them there are one after the other: more than fit into
/// its time.
const FLOW_BYTES: u64 = 100_000_000;
const FLOWS: u64 = 3000;

/// `ADDRESS ADDRESS MILLISECONDS`: connects to both, again and again, until its input ends. With
/// slices, it connects to another port of the same hosts in every second slice.
pub(crate) fn call(arguments: &[String]) -> ExitCode {
    let [one, other, slices] = arguments else { return ExitCode::FAILURE };
    let hosts: [SocketAddr; 2] = [one, other].map(|address| address.parse().unwrap());
    let mut kept = VecDeque::with_capacity(KEPT);
    send_until_input_ends(PACE, slices, |turn, port| {
        let mut to = hosts[usize::from(turn & 1 == 1)];
        if port != PORT {
            to.set_port(port);
        }
        let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, None) else { return false };
        socket.set_nonblocking(true).unwrap();
        // Whether it is refused is found out later, if at all.
        let _ = socket.connect(&to.into());
        kept.push_back(socket);
        if kept.len() >= KEPT {
            // A part of a line that never ends; the other end may have closed the connection.
            let _ = kept[KEPT / 2].send(b"x");
            kept.pop_front();
        }
        true
    })
}

/// Flows one after the other each way, for long, or one each way.
fn matrix(is_long: bool) -> String {
    if !is_long {
        return "Nodes 2\nConnections 2\n0->1 id 1 start 0 size 120000000\n\
                1->0 id 2 start 0 size 120000000\n"
            .to_owned();
    }
    let mut text = format!("Nodes 2\nConnections {FLOWS}\nTriggers {}\n", FLOWS - 1);
    for flow in 1..=FLOWS {
        let begins = if flow == 1 { "start 0".to_owned() } else { format!("trigger {}", flow - 1) };
        let then = if flow < FLOWS { format!(" send_done_trigger {flow}") } else { String::new() };
        text += &format!("0->1 id {flow} {begins} size {FLOW_BYTES}{then}\n");
    }
    for trigger in 1..FLOWS {
        text += &format!("trigger id {trigger} oneshot\n");
    }
    text
}

/// The address at which the second host listens, which strangers would have to guess.
fn place(lab: &Lab) -> SocketAddr {
    let mut cat = lab.command(1, Path::new("cat"));
    let read = cat.arg("/proc/net/tcp").output().unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    // The second word is the address and the port of this end, the fourth the state: listening.
    let listens = text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (ip, port) = words.get(1)?.split_once(':')?;
        let ip = u32::from_str_radix(ip, 16).ok()?.to_le_bytes();
        let port = u16::from_str_radix(port, 16).ok()?;
        (words.get(3) == Some(&"0A")).then(|| SocketAddr::new(IpAddr::from(ip), port))
    });
    listens.unwrap_or_else(|| panic!("the second host does not listen: {text}"))
}

/// Bytes of segments that a run has sent for the first time, by its metrics; 0 before it begins.
fn sent(metrics: &Path) -> u64 {
    counted(metrics, "headrace_endpoint_data_new_total", "").unwrap_or(0) * 8960
}

/// Compares slices of a run of `seconds` that shows its counters at `metrics`.
fn compared(metrics: &Path, seconds: u64) -> Compared {
    let (mut compared, begun) = (Compared::default(), Instant::now());
    let mut last = (Instant::now(), sent(metrics));
    while begun.elapsed().as_secs() < seconds {
        sleep(REPORT);
        let now = (Instant::now(), sent(metrics));
        let gbps = 8e-9 * (now.1 - last.1) as f64 / (now.0 - last.0).as_secs_f64();
        compared.add_rate(gbps, SystemTime::UNIX_EPOCH.elapsed().unwrap());
        last = now;
    }
    compared
}

/// Runs two hosts whose control ports are connected to all the time.
///
/// # Panics
/// When hosts do not meet, a flow does not end, or a long attack takes more of the throughput than
/// as many connections to another port.
pub(crate) fn suffer(seconds: u64) -> Result<String, String> {
    let lab = with_attacker()?;
    let dir = tempfile::tempdir().unwrap();
    let is_long = seconds >= LONG;
    files(dir.path(), 2, &matrix(is_long));
    let [hosts, matrix, metrics] =
        ["hosts.toml", "matrix.cm", "metrics"].map(|name| dir.path().join(name));
    let call = |to: SocketAddr, slices| {
        let control = Lab::control();
        Attacker::in_slices(&lab, &["--call", &control, &to.to_string()], slices)
    };
    // Before hosts meet there is one such port.
    let before = call(Lab::control().parse().unwrap(), None);
    let start = |number: u32| {
        let name = format!("h{number}");
        let [hosts, matrix] = [&hosts, &matrix].map(|path| path.to_str().unwrap());
        let words = ["run", matrix, "--world", "nic", "--json", "--host", &name, "--hosts", hosts];
        let own = ["--metrics", metrics.to_str().unwrap()];
        let patient = ["--set", "loss.retries_max=64"];
        let own = if number == 0 { &own[..] } else { &[] };
        Running::start(Some(lab.name(number)), &[&words[..], &patient, own].concat())
    };
    let mut first = start(0);
    // Strangers have come before the other host does.
    first.on_event("a connection was refused");
    let mut run = [first, start(1)];
    let begun = Instant::now();
    while sent(&metrics) == 0 {
        assert!(begun.elapsed() < BEGINS_WITHIN, "the run does not begin: {}", run[0].said());
        assert!(run.iter_mut().all(Running::goes_on), "{}", run[0].said());
        sleep(Duration::from_millis(5));
    }
    let tried = before.end();
    assert!(tried > LEAST, "the attacker has connected {tried} times");
    let during = call(place(&lab), is_long.then_some(SLICE));
    let mut left = "nothing ended".to_owned();
    if is_long {
        left = compared(&metrics, 2 * seconds).judge(LEFT);
        run[0].signal("INT");
    }
    let ended = run.map(Running::wait);
    let during = during.end();
    for ended in &ended {
        assert_eq!(ended.code, Some(if is_long { 1 } else { 0 }), "{ended:?}");
        let summary: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(summary["audit"]["findings"], Value::Array(Vec::new()), "{summary}");
        let (flows, least) = (&summary["flows"], if is_long { 1 } else { 2 });
        assert!(flows["finished"].as_u64() >= Some(least), "{summary}");
    }
    Ok(format!("{tried} connections while hosts met, {during} while flows were under way; {left}"))
}
