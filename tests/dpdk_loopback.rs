//! The `vdev` world over real DPDK virtual devices: matrices in, verified payload out.
//!
//! A process has one EAL, so every case runs in a child: this binary with `--case NAME`. A case
//! that cannot run on this machine prints why and counts as skipped, never as passed. Arguments
//! filter by name as with libtest; `--list` lists. SHOW=1 prints what passed cases print.
#![allow(clippy::print_stdout, reason = "a test harness")]

mod loopback;
mod pcapng;

use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use system_tests::cases::{self, Verdict};

use loopback::CASES;

/// Exit code of a child whose case cannot run here.
const SKIPPED: u8 = 77;

/// A case takes seconds; this is for one that hangs.
const PATIENCE: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice()
        && flag == "--case"
    {
        return child(name);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return cases::list(CASES.iter().map(|(name, _)| *name));
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let wanted = CASES.iter().filter(|(name, _)| cases::is_wanted(name, &filters));
    cases::run(wanted.map(|(name, _)| (*name, || verdict(name))))
}

/// The verdict of a case, which runs in a child.
fn verdict(name: &str) -> Verdict {
    let (code, output) = run_child(name);
    if std::env::var_os("SHOW").is_some() {
        println!("{output}");
    }
    match code {
        Some(0) => Verdict::Passed,
        Some(code) if code == i32::from(SKIPPED) => {
            Verdict::Skipped(output.lines().next().unwrap_or_default().to_owned())
        }
        Some(code) => Verdict::Failed(format!("with exit code {code}\n{output}")),
        None => Verdict::Failed(format!("killed after {} s\n{output}", PATIENCE.as_secs())),
    }
}

fn child(name: &str) -> ExitCode {
    let Some((_, case)) = CASES.iter().find(|(known, _)| *known == name) else {
        return ExitCode::FAILURE;
    };
    match case() {
        Verdict::Passed | Verdict::Measured(_) => ExitCode::SUCCESS,
        Verdict::Skipped(reason) => {
            println!("{reason}");
            ExitCode::from(SKIPPED)
        }
        Verdict::Failed(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a case and what it printed; no code when it had to be killed.
fn run_child(name: &str) -> (Option<i32>, String) {
    let program = std::env::current_exe().expect("the path of this test");
    let mut child = Command::new(program)
        .args(["--case", name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child process");
    let out = collect(child.stdout.take());
    let err = collect(child.stderr.take());
    let code = wait(&mut child);
    let output = [out, err].map(|reader| reader.join().unwrap_or_default()).concat();
    (code, output)
}

fn wait(child: &mut Child) -> Option<i32> {
    let step = Duration::from_millis(10);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        match child.try_wait() {
            // Ended by a signal: no code, but an end.
            Ok(Some(status)) => return Some(status.code().unwrap_or(-1)),
            Ok(None) => sleep(step),
            Err(error) => panic!("{error}"),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
