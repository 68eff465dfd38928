//! The swarm: random small scenarios, and what must hold after each of them.
//!
//! `SEED=7 SWARM_CASES=1000 cargo test --workspace --test swarm` runs other and more cases than
//! the default; `SWARM_CASE=12` runs one and prints it, and `SWARM_WITH=dcsim` leaves out all cases
//! whose text lacks that word. A case that fails prints the command that repeats it and the
//! scenario as files and flags.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use experiments::plan::{Plan, transports};
use transport::{Duration as Span, Rng};

#[path = "swarm/borders.rs"]
mod borders;
#[path = "swarm/case.rs"]
mod case;
#[path = "swarm/forgetful.rs"]
mod forgetful;
#[path = "swarm/invariants.rs"]
mod invariants;
#[path = "swarm/mixed.rs"]
mod mixed;

use case::Case;

/// Cases when none are asked for; each runs twice.
const CASES: u64 = 240;

/// How long no case may start or end before the ones under way count as hung. It is far longer than
/// three threads need that meet at every instant of a case, on a machine that is busy otherwise.
const PATIENCE: Duration = Duration::from_secs(180);

/// The number that an environment variable gives.
fn number<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Whether the case has the word that was asked for.
fn is_wanted(seed: u64, number: u64) -> bool {
    match std::env::var("SWARM_WITH") {
        Ok(word) => Case::new(seed, number).text().contains(&word),
        Err(_) => true,
    }
}

/// The verdict on a case, panics included.
fn verdict(seed: u64, number: u64) -> Result<invariants::Tally, String> {
    let case = Case::new(seed, number);
    // Windows as in other runs, of one instant, and of a length in between.
    let windows = [Span::MAX, Span::ZERO, Span::from_ns(200)];
    let window = windows[usize::try_from(number % 3).unwrap()];
    let threads = usize::try_from(number / 3 % 3).unwrap() + 1;
    let checked = catch_unwind(AssertUnwindSafe(|| invariants::check(&case, window, threads)));
    let found = checked.unwrap_or_else(|_| Err("a panic; see above".to_owned()));
    found.map_err(|found| blame(seed, number, &found))
}

/// The command that repeats a case, and its contents.
fn blame(seed: u64, number: u64, found: &str) -> String {
    let text = Case::new(seed, number).text();
    format!(
        "case {number}: {found}\nrepeat it: SEED={seed} SWARM_CASE={number} cargo test --workspace \
         --test swarm -- --nocapture\n{text}"
    )
}

/// Runs the cases on all cores; returns their properties, and the failures.
fn run(seed: u64, cases: Range<u64>) -> (invariants::Tally, Vec<String>) {
    let next = Arc::new(AtomicU64::new(cases.start));
    // A case that is asked for by its number runs, whatever it is.
    let alone = cases.end - cases.start == 1;
    let (results, judged) = mpsc::channel();
    for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
        let (next, results, end) = (next.clone(), results.clone(), cases.end);
        // Not joined: a case that hangs must not hang the test.
        std::thread::spawn(move || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number < end && !alone && !is_wanted(seed, number) {
                    continue;
                }
                if number >= end || results.send((number, None)).is_err() {
                    return;
                }
                let verdict = verdict(seed, number);
                if results.send((number, Some(verdict))).is_err() {
                    return;
                }
            }
        });
    }
    drop(results);
    let (mut tally, mut failures) = (invariants::Tally::default(), Vec::new());
    let mut running = BTreeSet::new();
    loop {
        match judged.recv_timeout(PATIENCE) {
            Ok((number, None)) => drop(running.insert(number)),
            Ok((number, Some(verdict))) => {
                running.remove(&number);
                match verdict {
                    Ok(case) => tally.add(&case),
                    Err(failure) => failures.push(failure),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return (tally, failures),
            Err(RecvTimeoutError::Timeout) => {
                let hung = running.iter().map(|&number| blame(seed, number, "hangs"));
                failures.extend(hung);
                return (tally, failures);
            }
        }
    }
}

#[test]
fn every_random_scenario_keeps_every_invariant() {
    let seed = number("SEED").unwrap_or(1);
    let cases = match number("SWARM_CASE") {
        Some(case) => {
            println!("{}", Case::new(seed, case).text());
            case..case + 1
        }
        None => 0..number("SWARM_CASES").unwrap_or(CASES),
    };
    let (tally, failures) = run(seed, cases.clone());
    println!("seed {seed}, cases {cases:?}: {tally:?}");
    for failure in &failures {
        println!("{failure}\n");
    }
    assert!(failures.is_empty(), "{} cases failed, see above", failures.len());
    // A swarm in which nothing goes wrong tests nothing.
    if cases.end - cases.start >= CASES && std::env::var_os("SWARM_WITH").is_none() {
        assert!(tally.failed > 0 && tally.retransmitted > 0 && tally.trimmed > 0, "{tally:?}");
    }
}

/// Seeds of which so many cases each are drawn and planned, but do not run.
const DRAWN: (Range<u64>, u64) = (20..31, 400);

#[test]
fn no_plan_refuses_what_seeds_draw() {
    let mut refused = Vec::new();
    for seed in DRAWN.0 {
        for number in 0..DRAWN.1 {
            let case = Case::new(seed, number);
            let plan = Plan::new(&case.draft(), case.matrix.clone(), &case.topology);
            refused.extend(plan.err().map(|error| format!("seed {seed}, case {number}: {error}")));
        }
    }
    assert!(refused.is_empty(), "{}: {refused:#?}", refused.len());
}

#[test]
fn a_name_that_is_added_changes_only_the_draws_in_which_it_is_drawn() {
    let names: Vec<_> = transports::names();
    let drawn = |draw: u64, names| case::drawn_by_name(&Rng::new(draw), names);
    let mut won = BTreeSet::new();
    for draw in 0..1000 {
        let first = drawn(draw, names.clone());
        won.insert(first);
        let more = drawn(draw, [&["added"], &names[..]].concat());
        assert!(more == first || more == "added", "{draw}: {first} became {more}");
    }
    assert_eq!(won.len(), names.len(), "a name that is never drawn");
}

/// Cases with programs in switches when none are asked for; each runs twice.
const MIXED: u64 = 40;

#[test]
fn the_books_of_mixed_networks_balance_on_any_number_of_threads() {
    let seed = number("SEED").unwrap_or(1);
    let cases = match number("SWARM_CASE") {
        Some(case) => case..case + 1,
        None => 0..number("SWARM_CASES").map_or(MIXED, |cases: u64| cases / 15),
    };
    let is_whole = cases.end - cases.start >= MIXED;
    // In some seeds none of the first cases pauses: buffers are too small for programs that pause.
    let most = if is_whole { 4 * cases.end } else { cases.end };
    let (mut made, mut forged, mut pauses, mut mixed, mut ran) = (0, 0, 0, 0, 0);
    for number in cases.start..most {
        if number >= cases.end && pauses > 0 {
            break;
        }
        ran += 1;
        let done = mixed::check(seed, number);
        let done = done.unwrap_or_else(|found| panic!("{}", blame(seed, number, &found)));
        if let Some(done) = done {
            (made, pauses, mixed) = (made + done.made, pauses + done.pauses, mixed + 1);
            forged += done.forged;
        }
    }
    println!("seed {seed}: {mixed} cases, {made} packets made, {forged} forged, {pauses} pauses");
    if is_whole {
        assert!(
            made.min(forged).min(pauses) > 0 && 2 * mixed > ran,
            "{made} {forged} {pauses} {mixed} of {ran}"
        );
    }
}

/// Cases with hosts that begin anew when none are asked for; each runs twice.
const FORGETFUL: u64 = 60;

#[test]
fn hosts_that_begin_anew_lose_only_their_flows_and_repeat_messages_by_the_rules() {
    let seed = number("SEED").unwrap_or(1);
    let cases = match number("SWARM_CASE") {
        Some(case) => case..case + 1,
        None => 0..number("SWARM_CASES").map_or(FORGETFUL, |cases: u64| cases / 4),
    };
    let (mut all, mut failures) = (forgetful::Done::default(), Vec::new());
    for number in cases.clone() {
        match forgetful::check(seed, number) {
            Ok(done) => all.add(&done.unwrap_or_default()),
            Err(found) => failures.push(blame(seed, number, &found)),
        }
    }
    println!("seed {seed}: {all:?}");
    failures.iter().for_each(|failure| println!("{failure}\n"));
    assert!(failures.is_empty(), "{} cases failed, see above", failures.len());
    if cases.end - cases.start >= FORGETFUL {
        assert!(all.ended.min(all.reopened).min(all.forged) > 0, "{all:?}");
        assert!((all.again + all.twice) * 100 < all.messages, "{all:?}");
    }
}
