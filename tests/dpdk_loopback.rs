//! The `vdev` world over real DPDK virtual devices: matrices in, verified payload out.
//!
//! A process has one EAL, so every case runs in a child: this binary with `--case NAME`. A case
//! that cannot run on this machine prints why and counts as skipped, never as passed. Arguments
//! filter by name as with libtest; `--list` lists. SHOW=1 prints what passed cases print.
#![allow(clippy::print_stdout, reason = "a test harness")]

mod loopback;
mod pcapng;

use std::process::{Command, ExitCode};

use system_tests::cases::{self, Verdict};
use system_tests::process::{Ended, PATIENCE, Running};

use loopback::CASES;

/// Exit code of a child whose case cannot run here.
const SKIPPED: u8 = 77;

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
    let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
    command.args(["--case", name]);
    let Ended { code, out, err } = Running::of(command).wait_or_kill();
    (code, out + &err)
}
