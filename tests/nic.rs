//! The `nic` world: hosts that are processes, over devices of two kinds. Everything is as on a
//! machine with a network card, except for the card.
//!
//! Hosts over AF_PACKET live in network namespaces of their own, joined by veth pairs and a bridge
//! of the kernel. That needs root; without it a case reports this and counts as skipped. Hosts over
//! memif need no rights. Every case makes what it needs and removes it. No case checks speed.
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
#[path = "nic/pod.rs"]
mod pod;
#[path = "nic/queueing.rs"]
mod queueing;
#[path = "nic/rotation.rs"]
mod rotation;
#[path = "nic/sites.rs"]
mod sites;
#[path = "nic/stalls.rs"]
mod stalls;

use std::ffi::OsString;
use std::process::ExitCode;

use system_tests::cases::{is_wanted, run};
use system_tests::process::AS_HEADRACE;

use cases::CASES;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|flag| flag == AS_HEADRACE) {
        return headrace::main_of(arguments.into_iter().skip(1));
    }
    if arguments.get(1).is_some_and(|flag| flag == queueing::AS_ECHO) {
        return queueing::echo(&arguments[2..]);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return system_tests::cases::list(CASES.iter().map(|(name, _)| *name));
    }
    let is_filter = |word: &str| !word.starts_with('-') && word.parse::<u64>().is_err();
    let filters: Vec<&String> = words.iter().filter(|word| is_filter(word)).collect();
    run(CASES.iter().copied().filter(|(name, _)| is_wanted(name, &filters)))
}
