//! What keys and the checks of packets cost: this benchmark beside a copy of itself without them.
//!
//! The product cannot leave them out, so a copy of the core is made below `target`. There a [`Key`]
//! has no bits: it is not stored, carried, written, read or compared, and the headers of DATA and
//! ACK are 8 octets shorter. An acknowledgement is not compared with what was sent, and hosts need
//! no proof of their addresses and have no shares. All other lines are those of the product. Both
//! programs run in turns, as hosts of a real network, where addresses have to be proved.
//!
//! [`Key`]: transport::Key

use std::fs::{self, create_dir_all};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, hint};

use transport::wire::{Ext, Header};
use transport::{BURST, EntropyValue};

use crate::exchange::{Exchange, Nanos, timed};
use crate::lacks::LACKS;
use crate::{REFERENCE, above, instructions, median};

/// The argument with which the benchmark measures itself and prints numbers only.
pub(crate) const CHILD: &str = "--measured";

/// Turns of each program.
const TURNS: usize = 101;
/// Batches of segments in one turn.
const BATCHES: usize = 9;
const SEGMENTS: u64 = 20_000;
const FLOWS: [u32; 2] = [1, 64];
/// What is measured: a segment at its sender; a segment and the acknowledgement of it at the
/// receiver; that acknowledgement at the sender. Headers are written and read in each.
const ENDS: [&str; 3] = ["a segment, sender", "a segment, receiver", "an ACK"];

/// Prints the difference.
pub(crate) fn print() {
    let with = env::current_exe().expect("this program has a path");
    let without = copy().and_then(|copy| build(&copy));
    let without = without.unwrap_or_else(|why| panic!("no copy without keys: {why}"));
    println!(
        "what keys and checks cost, beside a copy without them, first deciles of {TURNS} turns:"
    );
    for flows in FLOWS {
        println!("  {flows} flows, bursts of {BURST}:");
        let mut turns: [[Vec<f64>; 2]; 3] = Default::default();
        for _ in 0..TURNS {
            let (ours, bare) = (measured(&with, flows), measured(&without, flows));
            for (end, [of_ours, of_bare]) in turns.iter_mut().enumerate() {
                of_ours.push(ours[end]);
                of_bare.push(bare[end]);
            }
        }
        let (flows, burst) = (&flows.to_string(), &BURST.to_string());
        let more = |exchange: &[&str]| {
            let (ours, bare) =
                (instructions_of(&with, exchange)?, instructions_of(&without, exchange)?);
            Some([0, 1, 2].map(|end| ours[end] - bare[end]))
        };
        let proven = more(&["proven", flows]);
        let trusted = more(&["exchange", REFERENCE.name(), flows, burst]);
        let counts = proven.zip(trusted);
        for (end, (name, taken)) in ENDS.into_iter().zip(turns).enumerate() {
            let [ours, bare] = taken.map(decile);
            print!("    {name:<20} {:>5.1} ns ({ours:.1} against {bare:.1})", ours - bare);
            match counts {
                Some((proven, trusted)) => println!(
                    "  {:>5.1} instructions, {:>5.1} where hosts are trusted",
                    proven[end], trusted[end]
                ),
                None => println!("  instructions not counted: is valgrind installed?"),
            }
        }
    }
}

/// The first decile. Other load of the machine, and memory that falls on the same places of a
/// cache, make a turn up to 1.8 times as long, and none shorter. With medians, slow turns of one
/// program would be compared with quick ones of the other.
fn decile(turns: Vec<f64>) -> f64 {
    above(turns, 10)
}

/// Makes the copy. It is a workspace of its own, of one package.
fn copy() -> Result<PathBuf, String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = ours.parent().ok_or("no workspace")?;
    let copy = root.join("target/keyless");
    let text = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let written = |path: &Path, text: &str| {
        let made = path.parent().map_or(Ok(()), create_dir_all);
        made.and_then(|()| fs::write(path, text)).map_err(|error| error.to_string())
    };
    let manifest = text(&root.join("Cargo.toml"))?;
    let (workspace, _) = manifest.split_once("\n[package]").ok_or("Cargo.toml has no package")?;
    let listed = |line: &&str| !["members", "default-members"].iter().any(|l| line.starts_with(l));
    let mut kept: Vec<&str> = workspace.lines().filter(listed).collect();
    kept.insert(1, "members = [\"transport\"]");
    // Under a version of its own cargo keeps its build apart from that of the product.
    for line in kept.iter_mut().filter(|line| line.starts_with("version = ")) {
        *line = "version = \"0.0.0\"";
    }
    written(&copy.join("Cargo.toml"), &kept.join("\n"))?;
    written(&copy.join("Cargo.lock"), &text(&root.join("Cargo.lock"))?)?;
    let mut folders = vec![PathBuf::from("src"), PathBuf::from("benches")];
    let mut files = vec![PathBuf::from("Cargo.toml")];
    while let Some(folder) = folders.pop() {
        let entries = ours.join(&folder).read_dir().map_err(|error| error.to_string())?;
        for entry in entries.filter_map(Result::ok) {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let into = if is_folder { &mut folders } else { &mut files };
            into.push(folder.join(entry.file_name()));
        }
    }
    // A file that is gone from the product is not to be found in the copy.
    for folder in ["src", "benches"].map(|folder| copy.join("transport").join(folder)) {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
        }
    }
    for file in files {
        let mut changed = text(&ours.join(&file))?;
        for (_, from, to) in LACKS.iter().filter(|(of, ..)| Path::new(of) == file) {
            if changed.matches(from).count() != 1 {
                return Err(format!("{} has not once: {from}", file.display()));
            }
            changed = changed.replace(from, to);
        }
        written(&copy.join("transport").join(&file), &changed)?;
    }
    Ok(copy)
}

/// Builds the copy as this program was built, beside it, so that dependencies are shared.
fn build(copy: &Path) -> Result<PathBuf, String> {
    let target = copy.parent().ok_or("no folder")?;
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let built = Command::new(cargo)
        .args(["bench", "--offline", "--bench", "endpoint", "--no-run", "--message-format=json"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", target)
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&built.stdout);
    let path = said.lines().rev().find_map(|line| {
        let (_, path) = line.split_once("\"executable\":\"")?;
        path.split_once('"').map(|(path, _)| PathBuf::from(path))
    });
    path.filter(|_| built.status.success())
        .ok_or_else(|| format!("cargo: {}", String::from_utf8_lossy(&built.stderr)))
}

/// One turn of a program: nanoseconds of each of [`ENDS`].
fn measured(program: &Path, flows: u32) -> [f64; 3] {
    let run = Command::new(program).args([CHILD, &flows.to_string()]).output();
    let run = run.expect("the program runs");
    let said = String::from_utf8_lossy(&run.stdout);
    let mut numbers = said.split_whitespace().map(|word| word.parse().expect("a number"));
    [(); 3].map(|()| numbers.next().expect("three numbers"))
}

/// Instructions of each of [`ENDS`] of a program that exchanges segments as `exchange` says; `None`
/// without valgrind.
fn instructions_of(program: &Path, exchange: &[&str]) -> Option<[f64; 3]> {
    let part = |name| {
        let counted = instructions::count(program, name, exchange).ok()?;
        Some(counted as f64 / instructions::SEGMENTS as f64)
    };
    let header = |name, of| {
        let counted = instructions::count(program, name, &["header", of]).ok()?;
        Some(counted as f64 / SEGMENTS as f64)
    };
    Some([
        part("part_send")? + header("part_write", "data")?,
        header("part_read", "data")? + part("part_receive")? + header("part_write", "ack")?,
        header("part_read", "ack")? + part("part_ack")?,
    ])
}

/// Prints one turn.
pub(crate) fn child(args: &[String]) {
    let flows = args.first().and_then(|flows| flows.parse().ok()).expect("a number of flows");
    let mut exchange = Exchange::proven(REFERENCE, flows);
    exchange.run(2 * SEGMENTS, &mut Nanos::default());
    let [mut data, mut ack] = exchange.headers().map(Octets::new);
    let mut taken = Nanos::default();
    let mut headers: [Vec<f64>; 4] = Default::default();
    for _ in 0..BATCHES {
        exchange.run(SEGMENTS, &mut taken);
        let batch =
            [data.write(SEGMENTS), data.read(SEGMENTS), ack.write(SEGMENTS), ack.read(SEGMENTS)];
        headers.iter_mut().zip(batch).for_each(|(all, ns)| all.push(ns));
    }
    let [write, read, write_ack, read_ack] = headers.map(median);
    let [send, receive, ack] = [taken.send, taken.receive, taken.ack].map(median);
    println!("{} {} {}", send + write, read + receive + write_ack, read_ack + ack);
}

/// A header and its octets.
pub(crate) struct Octets {
    header: Header,
    ext: Ext,
    octets: [u8; 256],
}

impl Octets {
    /// The octets of `header` on the wire.
    pub(crate) fn new(header: Header) -> Self {
        let mut octets = [0; 256];
        header.emit(&Ext::VACANT, &mut octets);
        Self { header, ext: Ext::VACANT, octets }
    }

    /// Writes them `count` times; nanoseconds for one.
    pub(crate) fn write(&mut self, count: u64) -> f64 {
        timed(|| (0..count).for_each(|_| part_write(hint::black_box(self)))) / count as f64
    }

    /// Reads them `count` times; nanoseconds for one.
    pub(crate) fn read(&mut self, count: u64) -> f64 {
        timed(|| (0..count).for_each(|_| part_read(hint::black_box(self)))) / count as f64
    }
}

/// Each is a function of its own, so that callgrind shows it.
#[inline(never)]
fn part_write(octets: &mut Octets) {
    octets.header.emit(&octets.ext, &mut octets.octets);
}

#[inline(never)]
fn part_read(octets: &mut Octets) {
    let read = octets.header.read(EntropyValue(7), &octets.octets, &mut octets.ext);
    assert!(read.is_ok(), "it is ours");
}

/// Writes and reads the headers of a kind, to be counted.
pub(crate) fn count_headers(of: &str) {
    let mut exchange = Exchange::new(REFERENCE, 1, BURST);
    exchange.run(SEGMENTS, &mut Nanos::default());
    let [data, ack] = exchange.headers().map(Octets::new);
    let mut octets = if of == "data" { data } else { ack };
    octets.write(SEGMENTS);
    octets.read(SEGMENTS);
}
