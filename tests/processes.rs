//! Two processes with a device each: `headrace perf` and `headrace ping` as users run them.
//!
//! Started with `--headrace ARGS` this binary is the program itself. A case that cannot run on this
//! machine prints why and counts as skipped, never as passed. Arguments filter by name as with
//! libtest; `--list` lists.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test harness")]

mod peers;

use std::panic::catch_unwind;
use std::process::ExitCode;

use peers::{CASES, Verdict};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--headrace") {
        // `--headrace` stands in the place of the program's name.
        return headrace::main_of(std::env::args_os().skip(1));
    }
    if arguments.iter().any(|argument| argument == "--list") {
        CASES.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, case) in CASES {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(*filter)) {
            continue;
        }
        match catch_unwind(case) {
            Ok(Verdict::Passed) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Ok(Verdict::Skipped(reason)) => {
                skipped += 1;
                println!("test {name} ... SKIP: {reason}");
            }
            Err(_) => {
                failed += 1;
                println!("test {name} ... FAILED");
            }
        }
    }
    println!("\ntest result: {passed} passed; {failed} failed; {skipped} skipped\n");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
