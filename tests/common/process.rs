//! A process of a test: started, listened to, signalled, and never left behind.

use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::netns;

/// Makes the binary of a test the program itself: it stands in the place of the program's name.
pub const AS_HEADRACE: &str = "--headrace";

/// A process that takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// Between two looks at a process.
const STEP: Duration = Duration::from_millis(20);

/// Processor time of a process that is at work, hundredths of a second.
const BUSY_TICKS: u64 = 20;

/// A process under way. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: Collected,
    err: Collected,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code, or the negative number of the signal that ended the process; `None` where it
    /// hung and was killed.
    pub code: Option<i32>,
    /// What the process wrote to standard output.
    pub out: String,
    /// What the process wrote to standard error.
    pub err: String,
}

/// What a process writes, and the thread that reads it until its end.
#[derive(Debug)]
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// `command`, started.
    ///
    /// # Panics
    /// Where it cannot start.
    #[must_use]
    pub fn of(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = Collected::of(child.stdout.take());
        let err = Collected::of(child.stderr.take());
        Self { child, out, err }
    }

    /// `headrace ARGS`, in network namespace `netns` when one is named.
    #[must_use]
    pub fn start(netns: Option<&str>, args: &[&str]) -> Self {
        let mut command = match netns {
            Some(name) => netns::command(name, &this_binary()),
            None => Command::new(this_binary()),
        };
        command.arg(AS_HEADRACE).args(args);
        Self::of(command)
    }

    /// `headrace ARGS`, in the network namespace of the test.
    #[must_use]
    pub fn alone(args: &[&str]) -> Self {
        Self::start(None, args)
    }

    /// `headrace ARGS`, started by the shell's `script` as `"$0" "$@"`.
    #[must_use]
    pub fn shell(script: &str, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(this_binary()).arg(AS_HEADRACE).args(args);
        Self::of(command)
    }

    /// The number of the process. `ip netns exec` becomes the program that it starts.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process still runs.
    pub fn goes_on(&mut self) -> bool {
        self.status().is_none()
    }

    /// What the process has written to standard error so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.err.text()
    }

    /// What the process has written to standard output so far.
    #[must_use]
    pub fn written(&self) -> String {
        self.out.text()
    }

    /// Whether the process has mapped memory whose name contains `name`.
    #[must_use]
    pub fn maps(&self, name: &str) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id()));
        maps.is_ok_and(|maps| maps.contains(name))
    }

    /// Waits until the process has written `text` to standard error.
    ///
    /// # Panics
    /// Where it ends before, or takes too long.
    pub fn on_event(&mut self, text: &str) {
        self.until(&format!("it said `{text}`"), |process| process.said().contains(text));
    }

    /// Waits until the process has computed for longer than reading its arguments takes.
    ///
    /// # Panics
    /// Where it ends before, or takes too long.
    pub fn on_work(&mut self) {
        let stat = format!("/proc/{}/stat", self.id());
        self.until("it worked", |_| {
            let text = std::fs::read_to_string(&stat).unwrap_or_default();
            // Clock ticks of a hundredth of a second in user mode, the 14th field; the name, which
            // is the second, may have blanks.
            let fields = text.rsplit(')').next().unwrap_or_default();
            let ticks = fields.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok());
            ticks.unwrap_or(0) >= BUSY_TICKS
        });
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..steps() {
            if holds(self) {
                return;
            }
            assert!(self.goes_on(), "it ended before {what}: {}", self.said());
            thread::sleep(STEP);
        }
        panic!("it took longer than {PATIENCE:?} until {what}: {}", self.said());
    }

    /// Sends a signal by name.
    ///
    /// # Panics
    /// Where the process is gone, or there is no such signal.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Ends the process at once, as a power cut would.
    pub fn kill(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// Where it hangs: it is killed, and what it wrote is in the message.
    #[must_use]
    #[track_caller]
    pub fn wait(self) -> Ended {
        let ended = self.wait_or_kill();
        assert!(ended.code.is_some(), "it does not end: {ended:?}");
        ended
    }

    /// Waits for the end of the process, and kills it where it hangs.
    #[must_use]
    pub fn wait_or_kill(mut self) -> Ended {
        let mut code = None;
        for _ in 0..steps() {
            code = self.status();
            if code.is_some() {
                break;
            }
            thread::sleep(STEP);
        }
        self.kill();
        if code.is_none() {
            // What the process had started may still have its outputs, and hang, too.
            return Ended { code, out: self.out.text(), err: self.err.text() };
        }
        Ended { code, out: self.out.whole(), err: self.err.whole() }
    }

    /// The exit code of a process that has ended, or the negative number of its signal.
    fn status(&mut self) -> Option<i32> {
        let status = self.child.try_wait().unwrap_or_else(|error| panic!("{error}"))?;
        status.code().or_else(|| status.signal().map(|signal| -signal))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Ended {
    /// The result of `headrace perf` and its kin, which must report success.
    ///
    /// # Panics
    /// Where it does not.
    #[must_use]
    pub fn result(&self) -> Value {
        let value: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err));
        assert_eq!(self.code, Some(0), "{value:#} {}", self.err);
        assert_eq!(
            (value["ok"].as_bool(), value["findings"].as_array().map(Vec::len)),
            (Some(true), Some(0))
        );
        value
    }

    /// A counter of its result's `whose`; 0 when it counted nothing.
    #[must_use]
    pub fn counter(&self, whose: &str, name: &str) -> u64 {
        self.result()[whose][name].as_u64().unwrap_or(0)
    }
}

impl Collected {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let into = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let Some(mut pipe) = pipe else { return };
            let mut piece = [0; 4096];
            // A length of 0 is the end.
            while let Ok(length @ 1..) = pipe.read(&mut piece) {
                into.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&piece[..length]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The whole text, once the process has ended.
    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            // A reader that panics has read what it has read.
            let _ = reader.join();
        }
        self.text()
    }
}

/// This binary, which is the program, too.
fn this_binary() -> std::path::PathBuf {
    std::env::current_exe().unwrap_or_else(|error| panic!("the path of this test: {error}"))
}

fn steps() -> u128 {
    PATIENCE.as_millis() / STEP.as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::of(command)
    }

    #[test]
    fn a_process_that_is_dropped_is_gone() {
        let process = shell("exec sleep 1000");
        let place = format!("/proc/{}", process.id());
        assert!(std::path::Path::new(&place).exists());
        drop(process);
        assert!(!std::path::Path::new(&place).exists());
    }

    #[test]
    fn the_end_of_a_process_has_its_code_or_its_signal_and_all_that_it_wrote() {
        let ended = shell("echo out; echo err >&2; exit 3").wait();
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(3), "out\n", "err\n"));
        let mut process = shell("echo ready >&2; exec sleep 1000");
        process.on_event("ready");
        assert!(process.goes_on());
        process.signal("KILL");
        assert_eq!(process.wait().code, Some(-9));
    }
}
