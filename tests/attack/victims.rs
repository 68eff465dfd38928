//! A server, its client, and what an attack does to them.

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::forger::{Attack, PORT, VICTIMS};
use crate::lab::Lab;
use crate::process::{Ended, Process};

/// The port to which the forged packets of the comparison go.
const OTHER_PORT: u16 = 9;

/// Seconds from which on throughput is compared.
const LONG: u64 = 30;

/// The victims' arguments: their addresses.
fn addressed(what: &[&str]) -> Vec<String> {
    let hosts = VICTIMS
        .iter()
        .enumerate()
        .flat_map(|(host, address)| ["--at".to_owned(), format!("{host}={address}")]);
    what.iter().map(|word| (*word).to_owned()).chain(hosts).collect()
}

fn start(lab: &Lab, host: u32, what: &[&str]) -> Process {
    let arguments = addressed(what);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Process::start(Some(lab.name(host)), &arguments)
}

fn transfer(lab: &Lab, more: &[&str]) -> Ended {
    let what = ["perf", "client", "--device", "eth0", "--json", "--verify", "--udp-sum", "on"];
    start(lab, 1, &[&what, more].concat()).end()
}

/// Runs a transfer whose packets are noted in `file`, as seen from the server's namespace.
fn overheard(lab: &Lab, file: &Path) {
    let program = std::env::current_exe().unwrap();
    let mut listener = lab.command(0, &program);
    let mut listener =
        listener.arg("--eavesdrop").arg(file).arg("4").stdout(Stdio::piped()).spawn().unwrap();
    // Its one line says that it listens.
    let mut ready = [0; 6];
    listener.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    transfer(lab, &["--bytes", "1MiB"]).result();
    assert!(listener.wait().unwrap().success());
    assert!(std::fs::metadata(file).unwrap().len() > 1 << 20, "the session was not overheard");
}

/// Runs a transfer beside an attack on `port`, with what `file` has of an earlier session: gigabits
/// a second, and packets sent by the attacker.
fn attacked(lab: &Lab, attack: Attack, (port, file): (u16, &Path), seconds: u64) -> (f64, u64) {
    let program = std::env::current_exe().unwrap();
    let mut attacker = lab.command(2, &program);
    // The attack begins before the victims meet, and ends after them.
    let words = [attack.name().to_owned(), (seconds + 2).to_string(), port.to_string()];
    let attacker =
        attacker.arg("--attack").args(words).arg(file).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let result = transfer(lab, &["--time", &seconds.to_string()]).result();
    let sent = attacker.wait_with_output().unwrap();
    let sent = String::from_utf8_lossy(&sent.stdout).trim().parse().expect("the attack ran");
    (result["to_server"]["gbps"].as_f64().unwrap(), sent)
}

/// Runs the attack on the victims for `seconds`; returns its effect.
///
/// # Panics
/// When a transfer ends, a byte is wrong, or a client that comes later is refused.
pub(crate) fn suffer(attack: Attack, seconds: u64) -> Result<String, String> {
    let lab = Lab::new(3, 9000)?;
    let mut own = lab.command(2, Path::new("ip"));
    let given = own.args(["address", "add", "192.0.2.3/24", "dev", "eth0"]).status();
    if !given.is_ok_and(|status| status.success()) {
        return Err("the attacker cannot have an address".to_owned());
    }
    let mut server = start(&lab, 0, &["perf", "server", "--device", "eth0"]);
    server.on_event("queue(s) of");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("session");
    let replays = attack == Attack::Replay;
    if replays {
        overheard(&lab, &file);
    }
    let (beside, _) = attacked(&lab, attack, (OTHER_PORT, &file), seconds);
    let (under, sent) = attacked(&lab, attack, (PORT, &file), seconds);
    assert!(sent > attack.least(seconds), "the attacker sent {sent} packets");
    // A short attack is too short to compare where other programs run.
    assert!(seconds < LONG || under > 0.5 * beside, "{under:.2} Gb/s of {beside:.2}");
    let later = transfer(&lab, &["--bytes", "1MiB"]).result();
    assert_eq!(later["to_server"]["bytes"], 1 << 20, "{later:#}");
    server.signal("INT");
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let sessions = format!("{} sessions, 0 broken", 3 + u32::from(replays));
    assert!(ended.out.contains(&sessions), "{}", ended.out);
    Ok(format!(
        "{under:.2} Gb/s under {sent} forged packets, {beside:.2} beside as many to another port"
    ))
}
