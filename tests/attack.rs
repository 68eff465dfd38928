//! Attacks by a host that sees none of its victims' packets. It attacks a transfer between two
//! others, clients that come meanwhile, hosts that meet for a run, and a pod of Zeropod's hosts. A
//! long case prints the throughput that the attack left, compared with slices of time in which as
//! many packets go to another port.
//!
//! Some attacks are on victims that share keys; a long run has all of them with keys, too.
//!
//! Started with `--headrace ARGS` this binary is the program itself, with `--attack NAME ARGS` the
//! attacker. A case that cannot run on this machine prints why and counts as skipped, never as
//! passed. Arguments filter by name as with libtest. `--seconds N` makes every attack longer; from
//! 30 on, nine tenths of the throughput must be left. `--all` runs the attacks of a long run for a
//! short time. `--soak N` alone runs `attack/soak.rs`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "a test harness, by the wall clock"
)]

#[path = "attack/control.rs"]
mod control;
#[path = "attack/forger.rs"]
mod forger;
#[path = "attack/neighbours.rs"]
mod neighbours;
#[path = "attack/pods.rs"]
mod pods;
#[path = "attack/soak.rs"]
mod soak;
#[path = "attack/victims.rs"]
mod victims;

use std::process::ExitCode;

use system_tests::cases::{self, Verdict};
use system_tests::process::AS_HEADRACE;

use forger::Attack;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        // `--headrace` stands in the place of the program's name.
        Some(AS_HEADRACE) => return headrace::main_of(std::env::args_os().skip(1)),
        Some("--attack") => return forger::run(&arguments[1..]),
        Some("--forge-pod") => return pods::forge(),
        Some("--eavesdrop") => return forger::eavesdrop(&arguments[1..]),
        Some("--knock") => return neighbours::knock(&arguments[1..]),
        Some("--lie") => return neighbours::lie(&arguments[1..]),
        Some("--call") => return control::call(&arguments[1..]),
        Some("--list") => {
            return cases::list(all_cases(true).iter().map(|(name, _)| name.as_str()));
        }
        _ => {}
    }
    let place = |flag: &str| arguments.iter().position(|argument| argument == flag);
    let number = |at: usize| arguments.get(at + 1)?.parse().ok();
    if let Some(seconds) = place("--soak").and_then(number) {
        println!("{}", soak::suffer(seconds).unwrap_or_else(|reason| format!("SKIP: {reason}")));
        return ExitCode::SUCCESS;
    }
    let at = place("--seconds");
    let seconds = at.and_then(number).unwrap_or(1);
    let value = at.map(|at| at + 1);
    let filters = (0..).zip(&arguments).filter(|(i, a)| !a.starts_with("--") && Some(*i) != value);
    let filters: Vec<&String> = filters.map(|(_, filter)| filter).collect();
    let all = all_cases(seconds >= victims::LONG || place("--all").is_some());
    let wanted = all.iter().filter(|(name, _)| cases::is_wanted(name, &filters));
    cases::run(wanted.map(|(name, case)| (&**name, move || verdict(*case, seconds))))
}

/// What a case is.
#[derive(Clone, Copy)]
enum Case {
    /// An attack, on victims that share keys or do not.
    Suffer(Attack, bool),
    /// False answers, by IP version.
    Neighbours(usize),
    /// Strangers at the ports at which hosts of a run meet.
    Control,
    /// Forged notes between a pod's hosts and their scheduler.
    Pod,
}

fn verdict(case: Case, seconds: u64) -> Verdict {
    let suffered = match case {
        Case::Suffer(attack, keyed) => victims::suffer(attack, keyed, seconds),
        Case::Neighbours(version) => neighbours::suffer(neighbours::VERSIONS[version], seconds),
        Case::Control => control::suffer(seconds),
        Case::Pod => pods::suffer(),
    };
    suffered.map_or_else(Verdict::Skipped, Verdict::Measured)
}

/// All cases by name: the attacks, those on victims that share keys, and false answers on the link.
/// Short runs have a sample of them.
fn all_cases(long: bool) -> Vec<(String, Case)> {
    let wanted = |attack: &Attack, keyed| long || attack.is_in_sample(keyed);
    let plain = Attack::ALL.iter().filter(|attack| !attack.is_of_seals() && wanted(attack, false));
    let plain = plain.map(|attack| (attack.name().to_owned(), Case::Suffer(*attack, false)));
    let keyed = Attack::ALL.iter().filter(|attack| wanted(attack, true));
    let keyed =
        keyed.map(|attack| (format!("with_keys_{}", attack.name()), Case::Suffer(*attack, true)));
    let on_the_link =
        ["false_answers_to_arp_divert_no_transfer", "false_advertisements_divert_none"];
    let on_the_link = on_the_link.into_iter().enumerate();
    let on_the_link = on_the_link.map(|(at, name)| (name.to_owned(), Case::Neighbours(at)));
    let of_control = ["strangers_at_control_ports_keep_no_host_out_and_slow_no_flow"];
    let of_control = of_control.into_iter().map(|name| (name.to_owned(), Case::Control));
    let of_pods = ["forged_notes_of_a_pod_begin_end_ask_and_grant_nothing"];
    let of_pods = of_pods.into_iter().map(|name| (name.to_owned(), Case::Pod));
    plain.chain(keyed).chain(on_the_link).chain(of_control).chain(of_pods).collect()
}
