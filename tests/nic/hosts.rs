//! The hosts of a case: a process each, with a limit on how long they may take.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::lab::Lab;

/// Makes this binary the program itself.
pub(crate) const AS_HEADRACE: &str = "headrace";

/// A host that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(100);

/// The result of a host: its exit code, or the negative number of the signal that ended it, and its
/// output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Files of a case.
pub(crate) struct Files {
    dir: TempDir,
    hosts: u32,
    lab: Option<Lab>,
}

/// A host under way.
pub(crate) struct Running {
    child: Child,
    out: Collected,
    err: Collected,
}

/// What a process writes, and the thread that reads it.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Files {
    /// The matrix `cm`, and a hosts file with `host(number)` behind each host's name.
    pub(crate) fn new(
        hosts: u32,
        cm: &str,
        lab: Option<Lab>,
        host: impl Fn(u32) -> String,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("matrix.cm"), cm).unwrap();
        let mut text = String::new();
        for number in 0..hosts {
            writeln!(text, "[[host]]\nname = \"h{number}\"\n{}", host(number)).unwrap();
        }
        fs::write(dir.path().join("hosts.toml"), text).unwrap();
        Self { dir, hosts, lab }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts `text` in front of the hosts.
    pub(crate) fn begin_hosts_with(&self, text: &str) {
        let path = self.path("hosts.toml");
        let hosts = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}{hosts}")).unwrap();
    }

    /// Puts `text` behind the hosts.
    pub(crate) fn end_hosts_with(&self, text: &str) {
        let path = self.path("hosts.toml");
        let hosts = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{hosts}{text}")).unwrap();
    }

    /// `headrace ARGUMENTS` at the device of host `number`.
    pub(crate) fn beside(&self, number: u32, arguments: &[&str]) -> Running {
        let program = std::env::current_exe().unwrap();
        let mut command = match &self.lab {
            Some(lab) => lab.command(number, &program),
            None => Command::new(program),
        };
        command.arg(AS_HEADRACE).args(arguments);
        Running::start(command)
    }

    /// Has frames to host `number` pass a queue, where hosts are on a bridge.
    pub(crate) fn limit(&self, number: u32, queue: &str) -> Result<(), String> {
        self.lab.as_ref().unwrap().limit(number, queue)
    }

    /// This binary with `arguments` at the bridge.
    pub(crate) fn at_bridge(&self, arguments: &[&str]) -> Running {
        let program = std::env::current_exe().unwrap();
        let mut command = self.lab.as_ref().unwrap().at_bridge(&program);
        command.args(arguments);
        Running::start(command)
    }

    /// Takes the link of host `number` down, or up again, where hosts are on a bridge.
    pub(crate) fn link(&self, number: u32, up: bool) {
        self.lab.as_ref().unwrap().link(number, up).unwrap();
    }

    /// Starts host `number` with more flags.
    pub(crate) fn start(&self, number: u32, more: &[&str]) -> Running {
        let [matrix, hosts] = ["matrix.cm", "hosts.toml"].map(|name| self.path(name));
        let [matrix, hosts] = [&matrix, &hosts].map(|path| path.to_str().unwrap());
        let host = format!("h{number}");
        let words = ["run", matrix, "--world", "nic", "--json", "--host", &host, "--hosts", hosts];
        self.beside(number, &[&words, more].concat())
    }

    /// Starts all hosts with the same flags and waits for them.
    pub(crate) fn run(&self, more: &[&str]) -> Vec<Ended> {
        let all: Vec<Running> = (0..self.hosts).map(|number| self.start(number, more)).collect();
        all.into_iter().map(Running::wait).collect()
    }
}

impl Running {
    /// `headrace ARGUMENTS` alone.
    pub(crate) fn alone(arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(AS_HEADRACE).args(arguments);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = collect(child.stdout.take());
        let err = collect(child.stderr.take());
        Self { child, out, err }
    }

    /// Waits for its end; without an exit code when it had to be killed.
    pub(crate) fn wait(mut self) -> Ended {
        let step = Duration::from_millis(20);
        let mut code = None;
        for _ in 0..PATIENCE.as_millis() / step.as_millis() {
            if let Some(status) = self.child.try_wait().unwrap() {
                code = status.code().or_else(|| status.signal().map(|signal| -signal));
                break;
            }
            thread::sleep(step);
        }
        if code.is_none() {
            self.kill();
        }
        let [out, err] = [self.out, self.err].map(Collected::whole);
        Ended { code, out, err }
    }

    /// Whether the host has written `text` to standard error.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.err.text().contains(text)
    }

    /// How often the host has written `text` to standard error.
    pub(crate) fn times_said(&self, text: &str) -> usize {
        self.err.text().matches(text).count()
    }

    /// Lines that the host has written to standard output.
    pub(crate) fn lines_out(&self) -> usize {
        self.out.text().lines().count()
    }

    /// Kills the host's process; returns its standard output up to the last whole line.
    pub(crate) fn end(mut self) -> String {
        self.kill();
        let text = self.out.whole();
        text[..text.rfind('\n').map_or(0, |end| end + 1)].to_owned()
    }

    /// Whether the host's process still runs.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Whether the host's process has mapped memory whose name contains `name`.
    pub(crate) fn maps(&self, name: &str) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.child.id()));
        maps.is_ok_and(|maps| maps.contains(name))
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(sent.success(), "kill -{name}");
    }

    /// Ends the process at once, as a power cut would. `ip netns exec` becomes the program it
    /// starts.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The summary that the host printed, which is whole and sound.
    pub(crate) fn summary(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        let summary: Value = serde_json::from_str(&self.out).unwrap();
        assert_eq!(summary["world"], "nic");
        assert_eq!(summary["audit"]["findings"], Value::Array(Vec::new()), "{summary}");
        assert_eq!(summary["flows"]["finished"], summary["flows"]["total"]);
        assert_eq!(summary["bytes"]["delivered"], summary["bytes"]["offered"]);
        for unknown in ["/packets/hops", "/packets/ecn_marked", "/queue_bytes"] {
            assert_eq!(summary.pointer(unknown), Some(&Value::Null), "{unknown}");
        }
        summary
    }
}

/// The lines of flows.jsonl in `dir`.
pub(crate) fn flows(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("flows.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Collected {
    let bytes = Arc::<Mutex<Vec<u8>>>::default();
    let into = Arc::clone(&bytes);
    let reader = thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut piece = [0; 4096];
        // A length of 0 is the end.
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            into.lock().unwrap().extend_from_slice(&piece[..length]);
        }
    });
    Collected { bytes, reader }
}

impl Collected {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// The whole text, once the process has ended.
    fn whole(self) -> String {
        self.reader.join().unwrap();
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}
