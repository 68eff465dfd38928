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

use transport::wire::addressing::IpVersion;
use transport::wire::frame::header_overhead;
use transport::wire::{Ext, Header};
use transport::{BURST, EntropyValue};

use crate::exchange::{Exchange, Nanos, timed};
use crate::lacks::LACKS;
use crate::{REFERENCE, callgrind, instructions, median, quantile};

/// The argument with which the benchmark measures itself and prints numbers only.
pub(crate) const CHILD: &str = "--measured";

/// Turns of each program.
const TURNS: usize = 101;
/// Before a process measures, it takes less than this many bytes of memory, and keeps them.
/// Otherwise the system would give each process the pages that the last one returned, and all turns
/// of a program would meet the same places of the caches.
const HELD_MAX: usize = 64 << 20;
/// What one process takes more than the last one, modulo [`HELD_MAX`]: odd, so that all amounts
/// differ.
const HELD_STEP: usize = 37_000_111;
/// Batches of segments in one turn.
const BATCHES: usize = 9;
const SEGMENTS: u64 = 20_000;
const _: () = assert!(SEGMENTS.is_multiple_of(BURST as u64), "whole bursts of headers");
const FLOWS: [u32; 2] = [1, 64];
/// What is measured: a segment at its sender; a segment and the acknowledgement of it at the
/// receiver; that acknowledgement at the sender. Each includes the headers that its end writes and
/// reads.
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
        for run in 0..2 * TURNS {
            // Each program is the first one in every second turn.
            let program = run.div_ceil(2) % 2;
            let held = (run * HELD_STEP) % HELD_MAX;
            let taken = measured([&with, &without][program], flows, held);
            turns.iter_mut().zip(taken).for_each(|(of_end, ns)| of_end[program].push(ns));
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
/// cache, make some turns twice as long, and none shorter. With medians, slow turns of one program
/// would be compared with quick ones of the other.
fn decile(turns: Vec<f64>) -> f64 {
    quantile(turns, 10)
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

/// One turn of a program, whose process keeps `held` bytes: nanoseconds of each of [`ENDS`].
fn measured(program: &Path, flows: u32, held: usize) -> [f64; 3] {
    let run = Command::new(program).args([CHILD, &flows.to_string(), &held.to_string()]).output();
    let run = run.expect("the program runs");
    let said = String::from_utf8_lossy(&run.stdout);
    let mut numbers = said.split_whitespace().map(|word| word.parse().expect("a number"));
    [(); 3].map(|()| numbers.next().expect("three numbers"))
}

/// Instructions of each of [`ENDS`] of a program that exchanges segments as `exchange` says; `None`
/// without valgrind.
fn instructions_of(program: &Path, exchange: &[&str]) -> Option<[f64; 3]> {
    let part = |name| {
        let counted = callgrind::count(program, name, exchange).ok()?;
        Some(counted as f64 / instructions::SEGMENTS as f64)
    };
    let header = |name, of| {
        let counted = callgrind::count(program, name, &["header", of]).ok()?;
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
    let [flows, held] = [0, 1].map(|at| args.get(at).and_then(|arg| arg.parse::<u32>().ok()));
    let (flows, held) = flows.zip(held).expect("flows, and bytes to hold");
    let held = vec![1_u8; held as usize];
    let mut exchange = Exchange::proven(REFERENCE, flows);
    exchange.run(2 * SEGMENTS, &mut Nanos::default());
    let [mut data, mut ack] = exchange.headers().map(HeaderBurst::new);
    let mut taken = Nanos::default();
    let mut headers: [Vec<f64>; 4] = Default::default();
    for _ in 0..BATCHES {
        exchange.run(SEGMENTS, &mut taken);
        let batch = [data.write(), data.read(), ack.write(), ack.read()];
        headers.iter_mut().zip(batch).for_each(|(all, ns)| all.push(ns));
    }
    let [write, read, write_ack, read_ack] = headers.map(median);
    let [send, receive, ack] = [taken.send, taken.receive, taken.ack].map(median);
    println!("{} {} {}", send + write, read + receive + write_ack, read_ack + ack);
    hint::black_box(held);
}

/// A burst of packets with the same header.
struct HeaderBurst {
    headers: [Header; BURST],
    frames: Box<[Frame; BURST]>,
    ext: Ext,
}

/// A packet's octets on the wire, which begin where they do in a buffer of a driver: behind the
/// headers of Ethernet, IPv4 and UDP.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Frame([u8; 256]);

const HEADER_AT: usize = header_overhead(IpVersion::V4) as usize;

impl HeaderBurst {
    fn new(header: Header) -> Self {
        let mut frame = Frame([0; 256]);
        header.emit(&Ext::VACANT, &mut frame.0[HEADER_AT..]);
        Self { headers: [header; BURST], frames: Box::new([frame; BURST]), ext: Ext::VACANT }
    }

    /// Writes [`SEGMENTS`] headers; nanoseconds for one.
    fn write(&mut self) -> f64 {
        self.repeat(part_write)
    }

    /// Reads [`SEGMENTS`] headers; nanoseconds for one.
    fn read(&mut self) -> f64 {
        self.repeat(part_read)
    }

    fn repeat(&mut self, part: fn(&mut Self)) -> f64 {
        let bursts = 0..SEGMENTS / BURST as u64;
        timed(|| bursts.for_each(|_| part(hint::black_box(self)))) / SEGMENTS as f64
    }
}

/// Writes a burst of headers. It is a function of its own, so that callgrind shows it.
#[inline(never)]
fn part_write(burst: &mut HeaderBurst) {
    for (header, frame) in burst.headers.iter().zip(burst.frames.iter_mut()) {
        header.emit(&burst.ext, &mut frame.0[HEADER_AT..]);
    }
}

/// Reads a burst of headers, in a function of its own. A call for each header would save one more
/// register for the key; a driver's loop, into which reading is inlined, saves all of them once.
#[inline(never)]
fn part_read(burst: &mut HeaderBurst) {
    for (header, frame) in burst.headers.iter_mut().zip(burst.frames.iter()) {
        let read = header.read(EntropyValue(7), &frame.0[HEADER_AT..], &mut burst.ext);
        assert!(read.is_ok(), "it is ours");
    }
}

/// Writes and reads the headers of a kind, to be counted.
pub(crate) fn count_headers(of: &str) {
    let mut exchange = Exchange::new(REFERENCE, 1, BURST);
    exchange.run(SEGMENTS, &mut Nanos::default());
    let [data, ack] = exchange.headers().map(HeaderBurst::new);
    let mut burst = if of == "data" { data } else { ack };
    burst.write();
    burst.read();
}
