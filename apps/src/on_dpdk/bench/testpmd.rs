//! dpdk-testpmd on a device of the same kind, which shows how many frames the device can carry.
//!
//! As a sender without protocol it runs in the mode `flowgen`: one core makes frames of a given
//! length with their headers, sends them, and frees what it receives. As a switch without a program
//! it runs in the mode `macswap`: one core swaps the addresses of frames and forwards them between
//! two devices, in a circle. Devices are those of DPDK's own guides; memory and cores are given to
//! it as to this program. Frames are counted by the driver. Commands go through its prompt.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use live::datapath::DeviceKind;

use crate::console::Console;
use crate::failure::Failure;

/// The program.
#[derive(Debug)]
struct Testpmd(PathBuf);

/// The task of a run of testpmd.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestpmdTask {
    pub(super) device: DeviceKind,
    /// Bytes of a frame.
    pub(super) frame: u64,
    /// Whether in hugepages.
    pub(super) huge: bool,
    pub(super) mode: Mode,
}

/// What testpmd does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// testpmd makes and sends frames.
    Generate,
    /// testpmd forwards frames between two devices.
    Forward,
}

/// Why testpmd gave no figure.
#[derive(Debug)]
pub(super) enum TestpmdError {
    /// The program cannot be started, or its input and output fail.
    Io(io::Error),
    /// The program ended without a rate; its last line of output.
    NoRate(String),
}

impl fmt::Display for TestpmdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NoRate(last) => write!(f, "no rate (it ended with: {last})"),
        }
    }
}

impl From<io::Error> for TestpmdError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Windows whose best counts: other programs on the machine can only slow one down.
const WINDOWS: usize = 10;
const WINDOW: Duration = Duration::from_millis(100);
/// Until a memif link is up, which takes more than a second.
const CONNECT: Duration = Duration::from_millis(2500);
/// How long testpmd may be silent.
const PATIENCE: Duration = Duration::from_secs(20);
const PROMPT: &str = "testpmd> ";
/// Bursts that circle when frames are forwarded.
const CIRCLING: u32 = 4;
const MBUFS: u32 = 8191;
const HEADROOM: u64 = 128;

/// testpmd beside a benchmark, unless it is not wanted or not installed.
#[derive(Debug)]
pub(super) struct Beside(Option<Testpmd>);

impl Beside {
    /// Looks for the program where it is `wanted`, and reports when there is none.
    ///
    /// # Errors
    /// When standard error fails.
    pub(super) fn find(wanted: bool, console: &mut Console<'_>) -> Result<Self, Failure> {
        let program = if wanted { Testpmd::find() } else { None };
        if wanted && program.is_none() {
            writeln!(
                console.err,
                "dpdk-testpmd is not in PATH: its columns stay empty (Debian: apt-get install \
                 dpdk-dev)"
            )?;
        }
        Ok(Self(program))
    }

    /// Millions of frames a second; `None` without the program, and where it fails, which is
    /// reported.
    ///
    /// # Errors
    /// When standard error fails.
    pub(super) fn mpps(
        &self,
        run: &TestpmdTask,
        console: &mut Console<'_>,
    ) -> Result<Option<f64>, Failure> {
        let Some(program) = &self.0 else { return Ok(None) };
        let name = run.device.name();
        writeln!(console.err, "measuring dpdk-testpmd, {name}, frames of {} B", run.frame)?;
        match program.mpps(run) {
            Ok(mpps) => Ok(Some(mpps)),
            Err(why) => {
                writeln!(console.err, "dpdk-testpmd on {name}: {why}; its columns stay empty")?;
                Ok(None)
            }
        }
    }
}

impl Testpmd {
    /// The program in PATH.
    fn find() -> Option<Self> {
        let path = env::var_os("PATH")?;
        let found = env::split_paths(&path).map(|directory| directory.join("dpdk-testpmd"));
        found.into_iter().find(|program| program.is_file()).map(Self)
    }

    /// Runs testpmd and returns how many million frames a second it sent.
    ///
    /// # Errors
    /// [`TestpmdError`].
    pub(super) fn mpps(&self, run: &TestpmdTask) -> Result<f64, TestpmdError> {
        let mut child = Command::new(&self.0)
            .args(run.arguments(&own_prefix()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let said = run.converse(&mut child);
        // Also after a failed conversation: it must not stay behind.
        let ended = child.kill();
        child.wait()?;
        remove_runtime_dir(&own_prefix());
        let said = said?;
        drop(ended);
        let rates = rates(&said, run.ports());
        let best = rates.into_iter().max().unwrap_or(0);
        if best == 0 {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            return Err(TestpmdError::NoRate(last.unwrap_or("nothing").trim().to_owned()));
        }
        let best = u32::try_from(best).unwrap_or(u32::MAX);
        Ok(f64::from(best) / 1e6)
    }
}

/// The prefix by which DPDK separates this process's testpmd from others.
fn own_prefix() -> String {
    format!("headrace-testpmd-{}", process::id())
}

/// Removes what testpmd leaves in DPDK's runtime directory, wherever that is: it is killed, and
/// would leave these files after a normal end, too.
fn remove_runtime_dir(prefix: &str) {
    let by_environment =
        ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"].into_iter().filter_map(env::var_os);
    let all = by_environment.chain(["/var/run", "/tmp"].map(OsString::from));
    for base in all {
        // Most of them never had it.
        let _ = fs::remove_dir_all(Path::new(&base).join("dpdk").join(prefix));
    }
}

impl TestpmdTask {
    fn ports(&self) -> usize {
        if self.device == DeviceKind::Memif || self.mode == Mode::Forward { 2 } else { 1 }
    }

    fn arguments(&self, prefix: &str) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // Both of its threads float over the same cores as ours do.
        let all = format!("(0-{})", cores - 1);
        arguments.push(format!("--lcores=0@{all},1@{all}"));
        let memory: &[&str] =
            if self.huge { &["--in-memory"] } else { &["--no-huge", "--no-shconf", "-m", "512"] };
        arguments.extend(memory.iter().map(|argument| (*argument).to_owned()));
        arguments.extend(["--no-pci", "--no-telemetry", "--log-level=error"].map(str::to_owned));
        arguments.push(format!("--file-prefix={prefix}"));
        match self.device {
            DeviceKind::Null => {
                let vdev = |port: usize| format!("--vdev=net_null{port},no-rx=1");
                arguments.extend((0..self.ports()).map(vdev));
            }
            // What such a device sends is what it receives.
            DeviceKind::Ring => {
                let vdev = |port: usize| format!("--vdev=net_ring{port}");
                arguments.extend((0..self.ports()).map(vdev));
            }
            DeviceKind::Memif => {
                let buffer = self.frame.next_multiple_of(64).max(2048);
                for (port, role) in ["server", "client"].into_iter().enumerate() {
                    arguments.push(format!(
                        "--vdev=net_memif{port},role={role},id=0,rsize=9,bsize={buffer},\
                         socket={prefix},socket-abstract=yes"
                    ));
                }
            }
        }
        arguments.push("--".to_owned());
        let room = (self.frame + HEADROOM).next_multiple_of(64).max(2176);
        let mode = if self.mode == Mode::Forward { "macswap" } else { "flowgen" };
        arguments.extend(["-i", "--burst=32"].map(str::to_owned));
        arguments.push(format!("--forward-mode={mode}"));
        arguments.push(format!("--total-num-mbufs={MBUFS}"));
        arguments.push(format!("--mbuf-size={room}"));
        arguments.push(format!("--txpkts={}", self.frame));
        arguments
    }

    /// Waits for its prompt, starts it, asks for its counters at intervals, and ends it; returns
    /// its output.
    fn converse(&self, child: &mut Child) -> io::Result<String> {
        let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (sender, receiver) = mpsc::channel();
        let reader = thread::spawn(move || forward(stdout, &sender));
        let mut said = String::new();
        while !said.contains(PROMPT) {
            match receiver.recv_timeout(PATIENCE) {
                Ok(piece) => said.push_str(&piece),
                // The program ended at once; its output says why.
                Err(RecvTimeoutError::Disconnected) => return Ok(said),
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
        let settle = if self.device == DeviceKind::Memif { CONNECT } else { WINDOW };
        if self.mode == Mode::Forward {
            // Frames that are sent before the link is up are lost, and none would circle.
            thread::sleep(settle);
            stdin.write_all(format!("start tx_first {CIRCLING}\n").as_bytes())?;
            thread::sleep(WINDOW);
        } else {
            stdin.write_all(b"start\n")?;
            thread::sleep(settle);
        }
        for _ in 0..=WINDOWS {
            stdin.write_all(b"show port stats all\n")?;
            thread::sleep(WINDOW);
        }
        stdin.write_all(b"stop\nquit\n")?;
        drop(stdin);
        while let Ok(piece) = receiver.recv_timeout(PATIENCE) {
            said.push_str(&piece);
        }
        // The reader has nothing more to read, or the child is about to be killed.
        drop(reader);
        Ok(said)
    }
}

/// Passes on the lines of `from`, until it ends or its reader is gone.
fn forward(mut from: impl Read, to: &mpsc::Sender<String>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let piece = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if to.send(piece).is_err() {
            return;
        }
    }
}

/// Frames a second in each window, over `ports` ports. The first answer has no window before it.
fn rates(said: &str, ports: usize) -> Vec<u64> {
    let of_line = |line: &str| {
        let (_, rest) = line.split_once("Tx-pps:")?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    let all: Vec<u64> = said.lines().filter_map(of_line).collect();
    all.chunks(ports).skip(1).map(|window| window.iter().sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "  Throughput (since last show)\n  Rx-pps: 1  Rx-bps: 1\n  \
        Tx-pps:        999999   Tx-bps: 1\n  Tx-pps:  5  Tx-bps: 2\n\
        Tx-pps: 10\n Tx-pps: 20\nTx-pps: 7 Tx-bps: 8\nTx-pps: 8\n";

    #[test]
    fn rates_are_summed_over_ports_and_the_first_answer_is_none() {
        assert_eq!(rates(SAID, 2), [30, 15]);
        assert_eq!(rates(SAID, 1), [5, 10, 20, 7, 8]);
        assert!(rates("Tx-pps: 1", 1).is_empty() && rates("", 2).is_empty());
    }

    #[test]
    fn what_it_leaves_in_the_runtime_directory_goes() {
        let prefix = format!("headrace-testpmd-test-{}", process::id());
        let left = Path::new("/tmp/dpdk").join(&prefix);
        fs::create_dir_all(left.join("more")).unwrap();
        remove_runtime_dir(&prefix);
        assert!(!left.exists());
    }

    #[test]
    fn its_frames_have_our_length_and_its_devices_are_ours() {
        let modes = [Mode::Generate, Mode::Forward];
        for (device, mode) in DeviceKind::ALL.into_iter().flat_map(|d| modes.map(|mode| (d, mode)))
        {
            let run = TestpmdTask { device, frame: 4160, huge: false, mode };
            let arguments = run.arguments("seven");
            assert!(arguments.iter().any(|argument| argument == "--txpkts=4160"));
            let vdevs = arguments.iter().filter(|argument| argument.starts_with("--vdev="));
            let named = vdevs.filter(|argument| argument.contains(device.name())).count();
            assert_eq!(named, run.ports());
        }
    }
}
