//! Attacks by a host that sees none of its victims' packets: on a transfer between two others, and
//! on clients that come meanwhile. A long case prints what the attack left of the throughput,
//! beside as many packets to another port in every second slice of time.
//!
//! Started with `--headrace ARGS` this binary is the program itself, with `--attack NAME ARGS` the
//! attacker. A case that cannot run on this machine prints why and counts as skipped, never as
//! passed. Arguments filter by name as with libtest; `--seconds N` makes every attack longer, and
//! from 30 on nine tenths of the throughput must be left. `--soak N` alone runs `attack/soak.rs`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "a test harness, by the wall clock"
)]

#[path = "attack/forger.rs"]
mod forger;
#[path = "nic/lab.rs"]
#[allow(dead_code, reason = "shared with another harness")]
mod lab;
#[path = "attack/neighbours.rs"]
mod neighbours;
#[path = "peers/process.rs"]
#[allow(dead_code, reason = "shared with another harness")]
mod process;
#[path = "attack/soak.rs"]
mod soak;
#[path = "attack/victims.rs"]
mod victims;

use std::process::ExitCode;

use system_tests::cases::{self, Verdict};

use forger::Attack;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        // `--headrace` stands in the place of the program's name.
        Some("--headrace") => return headrace::main_of(std::env::args_os().skip(1)),
        Some("--attack") => return forger::run(&arguments[1..]),
        Some("--eavesdrop") => return forger::eavesdrop(&arguments[1..]),
        Some("--list") => return cases::list(names()),
        _ => {}
    }
    let place = |flag: &str| arguments.iter().position(|argument| argument == flag);
    let number = |at: usize| arguments.get(at + 1)?.parse().ok();
    if let Some(seconds) = place("--soak").and_then(number) {
        println!("{}", soak::suffer(seconds).unwrap_or_else(|reason| format!("SKIP: {reason}")));
        return ExitCode::SUCCESS;
    }
    let at = place("--seconds");
    let seconds = at.and_then(number).unwrap_or(2);
    let value = at.map(|at| at + 1);
    let filters = (0..).zip(&arguments).filter(|(i, a)| !a.starts_with("--") && Some(*i) != value);
    let filters: Vec<&String> = filters.map(|(_, filter)| filter).collect();
    let wanted = names().enumerate().filter(|(_, name)| cases::is_wanted(name, &filters));
    cases::run(wanted.map(|(place, name)| (name, move || verdict(place, seconds))))
}

/// The verdict of the case at `place` in [`names`].
fn verdict(place: usize, seconds: u64) -> Verdict {
    let suffered = match Attack::ALL.get(place) {
        Some(attack) => victims::suffer(*attack, seconds),
        None => neighbours::suffer(neighbours::VERSIONS[place - Attack::ALL.len()]),
    };
    suffered.map_or_else(Verdict::Skipped, Verdict::Measured)
}

/// The names of all cases: the attacks, then those of [`neighbours`] by IP version.
fn names() -> impl Iterator<Item = &'static str> {
    let on_the_link =
        ["false_answers_to_arp_divert_no_transfer", "false_advertisements_divert_none"];
    Attack::ALL.iter().map(|attack| attack.name()).chain(on_the_link)
}
