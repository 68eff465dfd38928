//! The `nic` world: hosts that are processes, over devices of two kinds, with everything that a
//! machine with a network card would do but the card.
//!
//! Hosts over AF_PACKET live in network namespaces of their own, joined by veth pairs and a bridge
//! of the kernel; that takes root, and without it a case says so and counts as skipped. Hosts over
//! memif need nothing. Every case makes what it needs and removes it. Nothing asks how fast
//! anything is.
//! `--stall SECONDS` stops the hosts of one case for as long.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "a test harness, by the wall clock"
)]

#[path = "nic/cases.rs"]
mod cases;
#[path = "nic/hosts.rs"]
mod hosts;
#[path = "nic/lab.rs"]
mod lab;
#[path = "nic/stalls.rs"]
mod stalls;

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::process::ExitCode;

use cases::CASES;

/// The outcome of a case that does not panic.
pub(crate) enum Verdict {
    Passed,
    Skipped(String),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|flag| flag == hosts::AS_HEADRACE) {
        let rest = arguments.into_iter().skip(1);
        let code = headrace::main_with(rest, &mut std::io::stdout(), &mut std::io::stderr());
        return ExitCode::from(code);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        CASES.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let is_filter = |word: &str| !word.starts_with('-') && word.parse::<u64>().is_err();
    let filters: Vec<&String> = words.iter().filter(|word| is_filter(word)).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(*f));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, case) in CASES.iter().filter(|(name, _)| wanted(name)) {
        let verdict = match catch_unwind(case) {
            Ok(Verdict::Passed) => {
                passed += 1;
                "ok".to_owned()
            }
            Ok(Verdict::Skipped(reason)) => {
                skipped += 1;
                format!("SKIP: {reason}")
            }
            Err(_) => {
                failed += 1;
                "FAILED".to_owned()
            }
        };
        println!("test {name} ... {verdict}");
    }
    println!("\ntest result: {passed} passed; {failed} failed; {skipped} skipped\n");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
