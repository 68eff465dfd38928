//! A server, its client, and what an attack does to them.

use std::fmt::Display;
use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::forger::{Attack, FLOOD_MIN, KEY_NUMBER, OTHER_PORT, PORT, VICTIMS, port_of, slice_at};
use system_tests::lab::Lab;
use system_tests::process::{Ended, Running};

/// Seconds from which on throughput is compared.
pub(crate) const LONG: u64 = 30;

/// Packets go to the victims' port for as long, and then for as long past them.
pub(crate) const SLICE: Duration = Duration::from_secs(3);

/// Slices under attack that must have a slice beside the attack on either side; a long attack of
/// [`LONG`] seconds has nine.
const PAIRS_MIN: usize = 6;

/// Between two reports of a transfer.
pub(crate) const REPORT: Duration = Duration::from_secs(1);

/// Clients that come one after the other during a long attack.
const CLIENTS: u32 = 5;

/// A client that comes during an attack takes no longer. A flood of openings in its name delays the
/// first flow of the client, that of its session and that of its data, each by 2.7 s in the mean at
/// 143,000 packets a second; at 175,000, one client in 2000 takes longer. All other attacks delay a
/// client by less, and have the same bound, since other programs delay it, too.
const DELAY_MAX: Duration = Duration::from_secs(40);

/// Transfers that are listened to before an attack gives up.
const LISTENS_MAX: u32 = 10;

/// The part of its throughput that an attack must leave a transfer.
pub(crate) const LEFT: f64 = 0.9;

/// The standard error beyond which such a part is no evidence: other programs use the machine.
const ERROR_MAX: f64 = 0.1;

/// The arguments that name the victims' addresses.
pub(crate) fn addressed(addresses: &[impl Display]) -> Vec<String> {
    let hosts = addresses.iter().enumerate();
    hosts.flat_map(|(host, address)| ["--at".to_owned(), format!("{host}={address}")]).collect()
}

/// Silence after which either end gives up a session. With the default, one session in 50 is given
/// up under a flood of openings, because its flows have to prove the address again.
const PATIENT: [&str; 2] = ["--patience", "60"];

/// How long a client waits for a server: longer than a server keeps the session of a client that
/// was killed. With the default, one client in 50 finds no server under a flood of openings in its
/// name.
pub(crate) const WAITS: [&str; 2] = ["--wait", "90"];

/// `headrace ARGS` at victim `host`. `ends` has what both victims are given: their addresses, and
/// keys where they share some.
pub(crate) fn start(lab: &Lab, host: u32, ends: &[String], what: &[&str]) -> Running {
    let ends = ends.iter().map(String::as_str);
    let arguments: Vec<&str> = what.iter().copied().chain(ends).chain(PATIENT).collect();
    Running::start(Some(lab.name(host)), &arguments)
}

/// A server that is ready.
pub(crate) fn server(lab: &Lab, ends: &[String]) -> Running {
    let mut server = start(lab, 0, ends, &["perf", "server", "--device", "eth0", "--json"]);
    server.on_event("queue(s) of");
    server
}

/// What a client is started with.
const CLIENT: [&str; 8] =
    ["perf", "client", "--device", "eth0", "--json", "--verify", "--udp-sum", "on"];

/// A client with these arguments beside those of all.
pub(crate) fn client(lab: &Lab, ends: &[String], more: &[&str]) -> Running {
    start(lab, 1, ends, &[&CLIENT, more, &WAITS].concat())
}

fn transfer(lab: &Lab, ends: &[String], more: &[&str]) -> Ended {
    client(lab, ends, more).wait()
}

/// The arguments that make both victims use keys, whose file is in `dir`.
fn keys(dir: &Path) -> [String; 2] {
    let file = dir.join("keys");
    std::fs::write(&file, format!("{KEY_NUMBER} {}\n", "3c5a".repeat(16))).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    ["--security".to_owned(), format!("psk:{}", file.display())]
}

/// Runs transfers until the packets of one are noted in `file`, as seen from the server's
/// namespace, and returns how many. On a busy machine the listener's socket overflows.
fn overheard(lab: &Lab, ends: &[String], file: &Path) -> u32 {
    for sessions in 1..=LISTENS_MAX {
        listen(lab, ends, file);
        if std::fs::metadata(file).unwrap().len() > 1 << 20 {
            return sessions;
        }
    }
    panic!("no session was overheard");
}

/// Runs a transfer, and notes in `file` what is overheard of it.
fn listen(lab: &Lab, ends: &[String], file: &Path) {
    let program = std::env::current_exe().unwrap();
    let mut listener = lab.command(0, &program);
    let listener =
        listener.arg("--eavesdrop").arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut listener = listener.spawn().unwrap();
    // Its one line says that it listens.
    let mut ready = [0; 6];
    listener.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    drop(transfer(lab, ends, &["--bytes", "1MiB"]).result());
    drop(listener.stdin.take());
    assert!(listener.wait().unwrap().success());
}

/// An attacker under way.
pub(crate) struct Attacker(Child);

impl Attacker {
    pub(crate) fn start(lab: &Lab, attack: Attack, file: &Path, slices: Option<Duration>) -> Self {
        let words = ["--attack", attack.name(), file.to_str().unwrap()];
        Self::in_slices(lab, &words, slices)
    }

    /// This binary with `arguments`, and the length of its slices behind them, at the attacker.
    pub(crate) fn in_slices(lab: &Lab, arguments: &[&str], slices: Option<Duration>) -> Self {
        let slices = slices.unwrap_or_default().as_millis().to_string();
        Self::with(lab, 2, &[arguments, &[&slices]].concat())
    }

    /// This binary with `arguments` at `host`.
    pub(crate) fn with(lab: &Lab, host: u32, arguments: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = lab.command(host, &program);
        let command = command.args(arguments);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Ends the attacker; returns how many packets it sent to the victims.
    pub(crate) fn end(mut self) -> u64 {
        drop(self.0.stdin.take());
        let mut sent = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut sent).unwrap();
        assert!(self.0.wait().unwrap().success());
        sent.trim().parse().expect("the attack ran")
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A slice of time: which one since 1970, and the gigabits a second of the reports that lie in it.
struct Slice {
    number: u128,
    gbps: Vec<f64>,
}

impl Slice {
    fn mean(&self) -> f64 {
        self.gbps.iter().sum::<f64>() / self.gbps.len() as f64
    }
}

/// The slices of a transfer, in order: in every second one an attack hit, in the others as many
/// packets went past the victims.
#[derive(Default)]
pub(crate) struct Compared(Vec<Slice>);

/// Mean, and its standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count * (count - 1.0).max(1.0))).sqrt())
}

impl Compared {
    /// A report of a transfer, `at` which it was read.
    fn add(&mut self, line: &str, at: Duration) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["s", "sent", gbps, "Gb/s", ..] = words[..].get(1..).unwrap_or_default() else {
            return;
        };
        self.add_rate(gbps.parse().unwrap(), at);
    }

    /// The rate of the last [`REPORT`] before `at`.
    pub(crate) fn add_rate(&mut self, gbps: f64, at: Duration) {
        // A report is read late, and an attack takes a moment to arrive.
        let spare = Duration::from_millis(100);
        let [first, last] = [at - REPORT - spare, at].map(|end| slice_at(end, SLICE));
        if first != last {
            return;
        }
        match self.0.last_mut().filter(|slice| slice.number == last) {
            Some(slice) => slice.gbps.push(gbps),
            None => self.0.push(Slice { number: last, gbps: vec![gbps] }),
        }
    }

    /// The logarithms of the parts of its throughput that the attack left: of each slice under
    /// attack, beside the two around it. Other work of the machine changes over many seconds, so
    /// neighbouring slices have about as much of it, and their spread shows how much it explains.
    fn parts(&self) -> Vec<f64> {
        let around = self.0.windows(3).filter(|slices| {
            let first = slices[0].number;
            slices[1].number == first + 1
                && slices[2].number == first + 2
                && port_of(slices[1].number) == PORT
        });
        let part =
            |slices: &[Slice]| slices[1].mean() / (slices[0].mean() * slices[2].mean()).sqrt();
        around.map(|slices| part(slices).ln()).collect()
    }

    /// The part of its throughput that the attack left.
    ///
    /// # Panics
    /// When the attack left less than `least`, by more than chance explains.
    pub(crate) fn judge(&self, least: f64) -> String {
        let (said, parts, [part, error]) = self.measured();
        assert!(parts >= PAIRS_MIN, "too few reports: {said}");
        assert!(error < ERROR_MAX, "other work on this machine hides what the attack does: {said}");
        assert!(part + 2.0 * error > least, "{said}");
        said
    }

    /// The part of its throughput that the attack left, in words; of how many slices; and the part
    /// with its standard error.
    fn measured(&self) -> (String, usize, [f64; 2]) {
        let of = |port: u16| {
            let slices = self.0.iter().filter(|slice| port_of(slice.number) == port);
            mean(&slices.map(Slice::mean).collect::<Vec<_>>()).0
        };
        let parts = self.parts();
        let (log, error) = mean(&parts);
        let part = log.exp();
        let error = part * error;
        let (under, beside) = (of(PORT), of(OTHER_PORT));
        let said = format!(
            "{under:.2} of {beside:.2} Gb/s ({part:.2} +- {error:.2} of {} slices), packets to \
             another port",
            parts.len()
        );
        (said, parts.len(), [part, error])
    }
}

/// A transfer of `seconds` whose reports are sorted by what the attack did meanwhile; and the
/// client's counters.
pub(crate) fn observed(lab: &Lab, ends: &[String], seconds: u64) -> (Compared, Value) {
    let seconds = seconds.to_string();
    let mut client = client(lab, ends, &["--time", &seconds]);
    let (mut compared, mut seen) = (Compared::default(), 0);
    while client.goes_on() {
        let said = client.said();
        let whole = said.rfind('\n').map_or(0, |end| end + 1);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        said[seen..whole].lines().for_each(|line| compared.add(line, now));
        seen = whole;
        std::thread::sleep(Duration::from_millis(5));
    }
    (compared, client.wait().result()["counters"].clone())
}

/// A network for both victims and the attacker, which has an address.
pub(crate) fn with_attacker() -> Result<Lab, String> {
    let lab = Lab::new(3, 9000)?;
    let mut own = lab.command(2, Path::new("ip"));
    let given = own.args(["address", "add", "192.0.2.3/24", "dev", "eth0"]).status();
    if given.is_ok_and(|status| status.success()) {
        return Ok(lab);
    }
    Err("the attacker cannot have an address".to_owned())
}

/// Runs the attack on the victims, which share keys where the case is `keyed`, for `seconds`, and
/// for as long past them; returns its effect.
///
/// # Panics
/// When a transfer ends, a byte is wrong, a client that comes meanwhile is refused or takes longer
/// than [`DELAY_MAX`], or a long attack leaves less than [`LEFT`] of the throughput beside as
/// many packets to another port.
pub(crate) fn suffer(attack: Attack, keyed: bool, seconds: u64) -> Result<String, String> {
    let lab = with_attacker()?;
    let dir = tempfile::tempdir().unwrap();
    let mut ends = addressed(&VICTIMS);
    if keyed {
        ends.extend(keys(dir.path()));
    }
    let server = server(&lab, &ends);
    let file = dir.path().join("session");
    let replays = attack == Attack::Replay;
    let before = if replays { overheard(&lab, &ends, &file) } else { 0 };
    let is_long = seconds >= LONG;
    // The attack begins before the victims meet, and ends after them.
    let begun = Instant::now();
    let attacker = Attacker::start(&lab, attack, &file, is_long.then_some(SLICE));
    let (compared, clients_counters) =
        observed(&lab, &ends, if is_long { 2 * seconds } else { seconds });
    let sent = attacker.end();
    let rate = sent / begun.elapsed().as_secs().max(1) * if is_long { 2 } else { 1 };
    if attack.is_flood() && rate < FLOOD_MIN {
        return Err(format!("only {rate} packets a second: no flood"));
    }
    assert!(sent > attack.least(seconds), "the attacker sent {sent} packets");
    let attacker = Attacker::start(&lab, attack, &file, None);
    let clients = if is_long { CLIENTS } else { 1 };
    let mut longest = Duration::ZERO;
    for _ in 0..clients {
        let came = Instant::now();
        let later = transfer(&lab, &ends, &["--bytes", "1MiB"]).result();
        assert_eq!(later["to_server"]["bytes"], 1 << 20, "{later:#}");
        longest = longest.max(came.elapsed());
    }
    attacker.end();
    assert!(longest < DELAY_MAX, "a client took {longest:?}");
    server.signal("INT");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let served: Value = serde_json::from_str(&ended.out).unwrap();
    let sessions = 1 + clients + before;
    assert_eq!(served["complete"], sessions, "{served:#}");
    assert_eq!(served["broken"], 0, "{served:#}");
    let counters = [&served["counters"], &clients_counters];
    let (victim, name) = attack.raises(keyed);
    let raised = counters[victim][name].as_u64().unwrap_or(0);
    // The attack was under way for most of both victims' time, and the device may drop half.
    assert!(raised > attack.least(seconds) / 20, "{name} of victim {victim}: {counters:#?}");
    let [server, client] = counters.map(|counters| {
        let counted = counters.as_object().unwrap().iter();
        let counted = counted.filter(|(name, _)| !name.starts_with("data_"));
        let counted = counted.map(|(name, count)| format!("{name} {count}"));
        counted.collect::<Vec<_>>().join(", ")
    });
    let left = if is_long { compared.judge(LEFT) } else { "nothing ended".to_owned() };
    Ok(format!(
        "{sent} forged packets, {rate} a second, {left}; clients that came meanwhile: {clients}, \
         each for at most {:.1} s; the server's counters: {server}; the client's: {client}",
        longest.as_secs_f64()
    ))
}
