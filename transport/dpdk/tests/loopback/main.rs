//! Everything that needs a running EAL, in one process, because a process has one EAL.
//!
//! A small harness instead of libtest's: checks share the EAL and run in order. `cargo test`
//! arguments that name a check filter as usual; `--list` lists. EAL runs in the mode that the
//! machine offers. A check that cannot run here prints why and counts as skipped, never as passed.
//!
//! Started with `--probe` the binary is a child of its own checks: it runs one ring link in a fresh
//! EAL and reports by its exit code, with nothing on standard output. With `--closes`
//! it is one of two processes that close their ends of a memif, see `closing.rs`. With `--pair` it
//! runs two workers at two devices of the caller's, see `pair.rs`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test harness")]

mod buffers;
mod closing;
mod links;
mod pair;
mod process;
mod sharing;
mod stamps;
mod traffic;
mod workers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use transport_dpdk::{Eal, EalError, EalOptions};

/// The outcome of a check that does not panic.
pub(crate) enum Outcome {
    /// The check passed.
    Passed,
    /// The check cannot run on this machine, for this reason.
    Skipped(String),
}

type Check = (&'static str, fn(&Eal) -> Outcome);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--probe") {
        return process::probe(&arguments[at + 1..]);
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--closes") {
        return closing::run(&arguments[at + 1..]);
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--pair") {
        return pair::run(&arguments[at + 1..]);
    }
    let all = [
        buffers::CHECKS,
        links::CHECKS,
        workers::CHECKS,
        sharing::CHECKS,
        stamps::CHECKS,
        process::CHECKS,
        closing::CHECKS,
        pair::CHECKS,
    ];
    let checks: Vec<Check> = all.into_iter().flatten().copied().collect();
    if arguments.iter().any(|argument| argument == "--list") {
        checks.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(*f));
    let eal = Eal::start(&EalOptions { memory_mb: 512, ..EalOptions::default() })
        .unwrap_or_else(|error| panic!("{error}"));
    println!("\nrunning on {}, {}", transport_dpdk::eal::dpdk_version(), eal.memory());
    let main_thread = eal.register_thread().expect("the main thread becomes an lcore");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, check) in checks.into_iter().filter(|(name, _)| wanted(name)) {
        match catch_unwind(AssertUnwindSafe(|| check(&eal))) {
            Ok(Outcome::Passed) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                println!("test {name} ... skipped: {reason}");
            }
            Err(_) => {
                failed += 1;
                println!("test {name} ... FAILED");
            }
        }
    }
    drop(main_thread);
    drop(eal);
    // Last, because it needs the end of EAL: every handle must be gone by now.
    match Eal::start(&EalOptions::default()) {
        Err(EalError::Over) => passed += 1,
        other => {
            failed += 1;
            println!("test eal_ends_with_its_last_handle ... FAILED: {other:?}");
        }
    }
    println!("\ntest result: {passed} passed; {failed} failed; {skipped} skipped\n");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
