//! Two processes with a device each: `headrace perf` and `headrace ping` as users run them.
//!
//! Started with `--headrace ARGS` or `run ARGS` this binary is the program itself. A case that
//! cannot run on this machine prints why and counts as skipped, never as passed. Arguments filter
//! by name as with libtest; `--list` lists.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test harness")]

mod peers;

use std::process::ExitCode;

use system_tests::cases;
use system_tests::process::AS_HEADRACE;

use peers::CASES;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == AS_HEADRACE) {
        // `--headrace` stands in the place of the program's name.
        return headrace::main_of(std::env::args_os().skip(1));
    }
    // The runs of a sweep in real time are processes of the program that it is itself.
    if arguments.first().is_some_and(|first| first == "run") {
        return headrace::main_of(std::env::args_os());
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return cases::list(CASES.iter().map(|(name, _)| *name));
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    cases::run(CASES.iter().copied().filter(|(name, _)| cases::is_wanted(name, &filters)))
}
