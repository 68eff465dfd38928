//! A `headrace` process of a test: started, listened to, signalled, and never left behind.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use serde_json::Value;

/// A process under way. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    out: Text,
    err: Text,
    readers: Vec<JoinHandle<()>>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code; `None` when a signal ended the process.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

type Text = Arc<Mutex<Vec<u8>>>;

const STEP: Duration = Duration::from_millis(20);
/// Steps to wait for processes that take seconds, or hang.
const STEPS: u32 = 60_000 / 20;

/// Processor time of a process that is at work, hundredths of a second.
const BUSY_TICKS: u64 = 20;

impl Process {
    /// `headrace ARGS`, in network namespace `netns` when one is named.
    pub(crate) fn start(netns: Option<&str>, args: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let command = match netns {
            Some(netns) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", netns]).arg(program);
                command
            }
            None => Command::new(program),
        };
        Self::spawn(command, args)
    }

    /// `headrace ARGS`, started by the shell's `script` as `"$0" "$@"`.
    #[allow(dead_code, reason = "not of every harness")]
    pub(crate) fn shell(script: &str, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(std::env::current_exe().unwrap());
        Self::spawn(command, args)
    }

    fn spawn(mut command: Command, args: &[&str]) -> Self {
        let command = command.arg("--headrace").args(args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child process");
        let [out, err] = [Text::default(), Text::default()];
        let readers = vec![
            collect(child.stdout.take().unwrap(), Arc::clone(&out)),
            collect(child.stderr.take().unwrap(), Arc::clone(&err)),
        ];
        Self { child, out, err, readers }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has written `text` to standard error.
    pub(crate) fn on_event(&mut self, text: &str) {
        for _ in 0..STEPS {
            if read(&self.err).contains(text) {
                return;
            }
            let over = self.child.try_wait().unwrap();
            assert!(over.is_none(), "it ended before `{text}`: {}", read(&self.err));
            sleep(STEP);
        }
        panic!("never said `{text}`: {}", read(&self.err));
    }

    /// Waits until the process has computed for longer than reading its arguments takes.
    #[allow(dead_code, reason = "not of every harness")]
    pub(crate) fn on_work(&mut self) {
        for _ in 0..STEPS {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
            // Clock ticks of a hundredth of a second in user mode, the 14th field; the name, which
            // is the second, may have blanks.
            let fields = stat.rsplit(')').next().unwrap_or_default();
            let ticks = fields.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok());
            if ticks.unwrap_or(0) >= BUSY_TICKS {
                return;
            }
            let over = self.child.try_wait().unwrap();
            assert!(over.is_none(), "it ended before it worked: {}", read(&self.err));
            sleep(STEP);
        }
        panic!("it does not work: {}", read(&self.err));
    }

    /// What the process has written to standard error so far.
    #[allow(dead_code, reason = "not of every harness")]
    pub(crate) fn said(&self) -> String {
        read(&self.err)
    }

    /// Whether the process still runs.
    #[allow(dead_code, reason = "not of every harness")]
    pub(crate) fn goes_on(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(sent.success(), "kill -{name}");
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        for _ in 0..STEPS {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.readers.drain(..).for_each(|reader| reader.join().unwrap());
                let (out, err) = (read(&self.out), read(&self.err));
                return Ended { code: status.code(), out, err };
            }
            sleep(STEP);
        }
        panic!("it does not end: {} {}", read(&self.out), read(&self.err));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The process's result, which must report success.
    pub(crate) fn result(&self) -> Value {
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
    pub(crate) fn counter(&self, whose: &str, name: &str) -> u64 {
        self.result()[whose][name].as_u64().unwrap_or(0)
    }
}

fn collect(mut pipe: impl Read + Send + 'static, into: Text) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length) = pipe.read(&mut piece) {
            if length == 0 {
                return;
            }
            into.lock().unwrap().extend_from_slice(&piece[..length]);
        }
    })
}

fn read(text: &Text) -> String {
    String::from_utf8_lossy(&text.lock().unwrap()).into_owned()
}
