//! Every command of README.md and of the documents is run, and ends as a reader expects: blocks of
//! shell lines as they stand, in a directory of their own, and commands inside sentences.
//!
//! `make test` runs a sample, in short. `make docs-test` (`DOCUMENTED=whole`) runs all of it, two
//! pages at a time, and says how long each block and command took. It leaves out pages that passed
//! with the same program before. What is not run at all is listed here, with the reason.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    reason = "the test harness shows it where a test fails; commands take real time"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, RwLock};
use std::thread;
use std::time::Instant;

/// Commands that are not run, by a part of them: the reason.
const NOT_RUN: [(&str, &str); 13] = [
    (
        "headrace run manifest.json",
        "stands for that of a run; README.md and TUTORIAL.md repeat one",
    ),
    ("make setup", "installs packages"),
    ("make build", "builds this program"),
    ("cargo build", "builds another program; c_api.rs of transport/ffi does that"),
    ("cc -std", "needs that program; c_api.rs builds and runs the examples"),
    ("target/exchange", "needs that program; c_api.rs builds and runs the examples"),
    ("target/peer", "needs that program; c_api.rs builds and runs the examples"),
    ("--device eth0", "needs a card"),
    ("3b:00.0", "needs a card"),
    ("--world nic --hosts hosts.toml", "needs two servers; tests/nic.rs has them as processes"),
    ("--world nic --hosts servers.toml", "needs two servers; tests/nic.rs has them as processes"),
    ("tcpdump.pcap", "needs a capture of sealed packets; tests/dissector.rs makes one"),
    ("headrace seal", "is a text that a key is derived from, no command"),
];

/// Commands that `make test` shortens, by a part of them: what they end with there.
const SHORTENED: [(&str, &str); 5] = [
    ("bench datapath --security", ""),
    ("bench datapath", "--device net_null --segment 1500 --segments 100000 --no-testpmd"),
    ("bench dci", "--device net_ring --segment 1500 --queues 1 --packets 20000 --no-testpmd"),
    ("bench messages", "--count 100000 --trips 0"),
    ("--time 5", "--time 1"),
];

/// What `make docs-test` shortens, too, likewise: a round trip between threads takes milliseconds
/// instead of nanoseconds on a machine without two cores that do nothing else.
const ROUND_TRIPS: (&str, &str) = ("bench messages", "--count 100000 --trips 1000");

/// Commands that only `make docs-test` runs, by a part of them: the reason.
const LONG: [(&str, &str); 6] = [
    ("bench datapath --security", "measures for half a minute"),
    ("run fig12-incast", "six incasts of a paper"),
    ("--topo two-dc --transport uno", "round trips of 1.8 ms"),
    ("run far.cm", "a GiB over 10 ms in real time"),
    ("--topo ft1024-8os", "1024 hosts"),
    ("tournament --purpose checking", "768 runs"),
];

/// Commands in real time, by a part of them: no other command of this file runs beside one.
const REAL_TIME: [&str; 5] = ["vdev", "lossy-16", " bench ", " perf ", " ping "];

/// Seconds that a command inside a sentence may take.
const SECONDS: u32 = 120;
/// Seconds that a block may take.
const BLOCK_SECONDS: u32 = 600;
/// How many times as long both may take in `make docs-test`, which may share the machine.
const PATIENCE: u32 = 10;

fn whole() -> bool {
    std::env::var("DOCUMENTED").is_ok_and(|what| what == "whole")
}

/// Seconds that `make test` or `make docs-test` waits.
fn patience(seconds: u32) -> u32 {
    if whole() { seconds * PATIENCE } else { seconds }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// README.md and the documents: names and texts.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/results"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names = names.filter(|name| name.ends_with(".md"));
        pages.extend(names.map(|name| format!("{folder}/{name}")));
    }
    pages.sort();
    let read = |name: String| (name.clone(), fs::read_to_string(root().join(name)).unwrap());
    pages.into_iter().map(read).collect()
}

/// Blocks of shell lines.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```sh\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0))
}

/// Commands of the program that blocks of pages have, as sentences spell them.
fn in_blocks(pages: &[(String, String)]) -> BTreeSet<String> {
    let lines = pages.iter().flat_map(|(_, text)| blocks(text)).flat_map(str::lines);
    let command = |line: &str| line.split(" #").next().map(|line| line.trim().replace('$', ""));
    lines.filter_map(command).filter(|line| line.starts_with("headrace ")).collect()
}

/// Commands of the program inside sentences.
fn spans(text: &str) -> Vec<String> {
    let outside = text.split("```").step_by(2);
    let code = outside.flat_map(|part| part.split('`').skip(1).step_by(2));
    let command = code.filter(|code| *code == "headrace" || code.starts_with("headrace "));
    command.map(|code| code.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The program that documents speak of.
fn program() -> PathBuf {
    let built = option_env!("CARGO_BIN_EXE_headrace").unwrap_or_default();
    root().join(std::env::var("HEADRACE").unwrap_or_else(|_| built.to_owned()))
}

/// A directory for the commands of one page: the repository's folders, the program on `PATH` and
/// where `make build` leaves it, and the files that pages speak of.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for folder in ["docs", "testbed"] {
        symlink(root().join(folder), path(folder)).unwrap();
    }
    fs::create_dir_all(path("target/release")).unwrap();
    fs::create_dir(path("bin")).unwrap();
    // A run in real time on a busy machine may be too late: it says so, and is run all the same.
    let script = format!(
        "#!/bin/bash\nout=$(mktemp)\n{} \"$@\" >\"$out\" &\ntrap \"kill $!\" TERM\nwait $!\n\
         code=$?\ncat \"$out\"\ngrep -q INVALID \"$out\" && [ $code = 1 ] && code=0\n\
         rm -f \"$out\"\nexit $code\n",
        program().display()
    );
    for name in ["target/release/headrace", "bin/headrace"] {
        fs::write(path(name), &script).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let tutorial = fs::read_to_string(root().join("docs/TUTORIAL.md")).unwrap();
    let matrix = tutorial.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    fs::write(path("my.cm"), matrix).unwrap();
    let incast = "headrace gen incast --hosts 128 --degree 8 --size 1MiB -o incast.cm";
    run(incast, dir.path(), SECONDS).unwrap();
    dir
}

/// Runs a script in `place`: what it printed, or why it failed.
fn run(script: &str, place: &Path, seconds: u32) -> Result<String, String> {
    let path = format!("{}/bin:{}", place.display(), std::env::var("PATH").unwrap());
    let ran = Command::new("timeout")
        .args(["--kill-after=5", &seconds.to_string(), "bash", "-c", script])
        .current_dir(place)
        .env("PATH", path)
        .output()
        .unwrap();
    let text = [&ran.stdout[..], &ran.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    match ran.status.code() {
        Some(0) => Ok(text),
        Some(124) => Err(format!("was ended after {seconds} s: {text}")),
        _ => Err(format!("{}: {text}", ran.status)),
    }
}

/// A page: its name, and what is run of it in turn, as the text has it and as a script.
type Page = (String, Vec<(String, String)>);

/// Held for reading by scripts in virtual time, for writing by one in real time.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs pages, each in a directory of its own, two at a time in `make docs-test`: what failed.
fn run_pages(pages: &[Page], seconds: u32) -> Vec<String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let worker = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(page) = pages.get(at) else { return };
        let why = run_page(page, seconds);
        failed.lock().unwrap().insert(at, why);
    };
    thread::scope(|scope| {
        for _ in 0..1 + usize::from(whole()) {
            scope.spawn(worker);
        }
    });
    failed.into_inner().unwrap().into_values().flatten().collect()
}

fn run_page(page: &Page, seconds: u32) -> Vec<String> {
    let (name, steps) = page;
    if steps.is_empty() {
        return Vec::new();
    }
    // Reading the program for each page would take long in `make test`.
    let passed = whole().then(|| passed(page));
    if let Some(passed) = passed.as_ref().filter(|passed| passed.exists()) {
        println!("{name}: passed before with this program, see {}", passed.display());
        return Vec::new();
    }
    let place = place();
    let mut failed = Vec::new();
    for (text, script) in steps {
        let real_time = REAL_TIME.iter().any(|part| script.contains(part));
        let alone = real_time.then(|| MACHINE.write().unwrap());
        let beside_others = (!real_time).then(|| MACHINE.read().unwrap());
        let from = Instant::now();
        let outcome = run(script, place.path(), seconds);
        drop((alone, beside_others));
        let first = text.lines().next().unwrap_or_default();
        let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("{name}: {verdict} after {} s: {first}", from.elapsed().as_secs());
        failed.extend(outcome.err().map(|why| format!("{name}:\n{text}\n{why}")));
    }
    if let Some(passed) = passed.filter(|_| failed.is_empty()) {
        fs::create_dir_all(passed.parent().unwrap()).unwrap();
        fs::write(passed, "").unwrap();
    }
    failed
}

/// A file that is there when a page passed with this very program and these very inputs.
fn passed(page: &Page) -> PathBuf {
    static PROGRAM_AND_INPUTS: OnceLock<u64> = OnceLock::new();
    let both = PROGRAM_AND_INPUTS.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        fs::read(program()).unwrap().hash(&mut hasher);
        for inputs in ["testbed/scenarios", "docs/nic"] {
            hash_files(&root().join(inputs), &mut hasher);
        }
        hasher.finish()
    });
    let mut hasher = DefaultHasher::new();
    (page, both).hash(&mut hasher);
    root().join(format!("target/documented/{:016x}", hasher.finish()))
}

/// Hashes all files below a directory: their names and contents.
fn hash_files(dir: &Path, hasher: &mut DefaultHasher) {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.collect::<BTreeSet<PathBuf>>() {
        path.hash(hasher);
        match path.is_dir() {
            true => hash_files(&path, hasher),
            false => fs::read(&path).unwrap().hash(hasher),
        }
    }
}

/// The names of a table that are part of a command.
fn of<'t, T>(table: &'t [(&'t str, T)], command: &str) -> Option<&'t (&'t str, T)> {
    table.iter().find(|(part, _)| command.contains(part))
}

/// Whether a program that a command begins with is not on this machine.
fn is_absent(command: &str) -> bool {
    ["tshark", "capinfos", "curl", "openssl", "jq"].iter().any(|tool| {
        command.split_whitespace().any(|word| word == *tool)
            && !Command::new("sh")
                .args(["-c", &format!("command -v {tool}")])
                .output()
                .unwrap()
                .status
                .success()
    })
}

/// A command that takes less time.
fn in_short(command: &str) -> String {
    let table = if whole() { &[ROUND_TRIPS][..] } else { &SHORTENED[..] };
    let Some((part, more)) = of(table, command) else {
        return command.to_owned();
    };
    if part.starts_with("--") {
        return command.replace(part, more);
    }
    let more = if command.contains("--no-testpmd") {
        more.replace("--no-testpmd", "")
    } else {
        (*more).to_owned()
    };
    format!("{command} {more}")
}

/// The commands of a block as they are run here: what is not run is left out, which a line on
/// standard output says, and servers go to the background. Adds the parts of tables that were
/// `used`.
fn script(block: &str, used: &mut BTreeSet<&'static str>) -> String {
    let mut script =
        "trap 'echo \"failed: $BASH_COMMAND\"' ERR\ntrap 'kill $(jobs -p) 2>/dev/null || true' \
                      EXIT\nset -e -o pipefail\n"
            .to_owned();
    for line in block.replace("\\\n", " ").lines() {
        let line = line.split(" #").next().unwrap_or_default().trim_end();
        let not_run = of(&NOT_RUN, line);
        let long = of(&LONG, line);
        let short = of(&SHORTENED, line).map(|(part, _)| *part);
        used.extend(not_run.map(|(part, _)| *part).into_iter().chain(long.map(|(part, _)| *part)));
        used.extend(short);
        let left_out = match (not_run, long) {
            (Some((_, why)), _) => Some(*why),
            (_, Some((_, why))) if !whole() => Some(*why),
            _ if is_absent(line) => Some("needs a program that is not on this machine"),
            _ => None,
        };
        if let Some(why) = left_out {
            println!("left out: `{line}`: it {why}");
            continue;
        }
        let line = in_short(line);
        // A server serves until it is ended.
        let end = if line.contains("perf server") { " &\n" } else { "\n" };
        script += &(line + end);
    }
    script
}

#[test]
fn blocks_of_shell_lines_succeed_as_they_stand() {
    let (mut used, mut count, mut to_run) = (BTreeSet::new(), 0, Vec::new());
    for (name, text) in pages() {
        count += blocks(&text).map(|block| block.lines().count()).sum::<usize>();
        let steps = blocks(&text).map(|block| (block.to_owned(), script(block, &mut used)));
        to_run.push((name, steps.collect()));
    }
    let failed = run_pages(&to_run, patience(BLOCK_SECONDS));
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(count > 50, "{count} lines");
    let inside: Vec<String> = pages().iter().flat_map(|(_, text)| spans(text)).collect();
    for (part, why) in NOT_RUN.into_iter().chain(LONG).chain(SHORTENED) {
        let is_inside = inside.iter().any(|span| span.contains(part));
        assert!(used.contains(part) || is_inside, "`{part}` ({why}) is in no page");
    }
}

/// Whether a command inside a sentence is whole: it has something to do, and no word that stands
/// for another.
fn is_whole(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let capital = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase());
    let stands_for = |word: &&str| word.split(['/', ',', '=', ':', '.']).any(capital);
    let last = words.last().copied().unwrap_or_default();
    let lone = ["--version", "--list"].contains(&last);
    let reads = ["run", "report", "compare", "why", "gather"].contains(words.get(1).unwrap_or(&""));
    let nothing = reads && words.get(2).is_some_and(|word| word.starts_with("--"));
    let ends = (!last.starts_with("--") && words.len() > 2) || lone;
    ends && !nothing && !words.iter().any(stands_for)
}

/// What a command that is no whole one names is there: its subcommands, and their flags.
fn names_what_exists(command: &str, place: &Path) -> Result<String, String> {
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let subcommands: Vec<&str> =
        words.iter().take_while(|word| !word.starts_with("--")).filter(is_name).copied().collect();
    // `list transports` has no help of its own.
    let depth = match subcommands.first() {
        Some(&("perf" | "ping" | "bench" | "gen")) => 2,
        Some(_) => 1,
        None => 0,
    };
    let line = subcommands.iter().take(depth).copied().collect::<Vec<_>>().join(" ");
    let mut help = run(&format!("headrace {line} --help"), place, SECONDS)?;
    if subcommands.len() == 1 && depth == 2 {
        // Flags of all its commands.
        for inner in ["client", "server", "datapath", "messages", "dci", "scheduler"] {
            help += &run(&format!("headrace {line} {inner} --help"), place, SECONDS)
                .unwrap_or_default();
        }
    }
    let known: BTreeSet<&str> =
        help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let missing: Vec<_> =
        flags.filter(|flag| !known.contains(flag.split('=').next().unwrap())).collect();
    if missing.is_empty() {
        Ok(help)
    } else {
        Err(format!("no {missing:?} in the help of `{line}`"))
    }
}

/// A command inside a sentence as it is run here: of a scenario the first variant, in `make test`
/// for some microseconds of network time.
fn shortened(command: &str, place: &Path) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let is_scenario =
        words[1] == "run" && !words[2].contains('.') && !command.contains("--variant");
    let mut line = command.to_owned();
    if is_scenario {
        let variants = run(&format!("headrace list variants {}", words[2]), place, SECONDS);
        let first = variants.ok().and_then(|list| Some(list.split_whitespace().next()?.to_owned()));
        line += &first.map_or_else(String::new, |first| format!(" --variant '{first}'"));
    }
    let is_run = words[1] == "run";
    if is_run && !whole() {
        line += " --set run.limit=20us";
    }
    // Unfinished flows are no mistake where a run ends before they do.
    if is_run && (!whole() || (is_scenario && is_limited(words[2]))) {
        line += " --quiet || [ $? = 1 ]";
    }
    in_short(&line)
}

/// Whether the scenario of a name ends at a time.
fn is_limited(name: &str) -> bool {
    let folders = fs::read_dir(root().join("testbed/scenarios")).unwrap();
    let file = |folder: fs::DirEntry| folder.path().join(name).with_extension("toml");
    let mut texts = folders.filter_map(|folder| fs::read_to_string(file(folder.unwrap())).ok());
    texts.any(|text| text.contains("run.limit"))
}

#[test]
fn commands_inside_sentences_are_what_they_seem() {
    let place = place();
    let (mut failed, mut seen, mut to_run) = (Vec::new(), BTreeSet::new(), Vec::new());
    let pages = pages();
    let in_blocks = in_blocks(&pages);
    for (name, text) in pages {
        let mut steps = Vec::new();
        for command in spans(&text) {
            let is_listed = of(&NOT_RUN, &command).is_some() || in_blocks.contains(&command);
            if is_listed || !seen.insert(command.clone()) {
                continue;
            }
            if !is_whole(&command) {
                let missing = names_what_exists(&command, place.path()).err();
                failed.extend(missing.map(|why| format!("{name}: `{command}`: {why}")));
            } else if whole() || (of(&LONG, &command).is_none() && steps.len() < SAMPLE) {
                let script = shortened(&command, place.path());
                steps.push((script.clone(), script));
            }
        }
        to_run.push((name, steps));
    }
    let ran = to_run.iter().map(|(_, steps)| steps.len()).sum::<usize>();
    failed.extend(run_pages(&to_run, patience(SECONDS)));
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(seen.len() > 80 && ran > 10, "{} commands, {ran} ran", seen.len());
}

/// Whole commands inside sentences that `make test` runs of each page.
const SAMPLE: usize = 2;

#[test]
fn commands_and_parts_of_them_are_not_mistaken_for_each_other() {
    for whole in [
        "headrace run fig01",
        "headrace list cc",
        "headrace --version",
        "headrace tournament --list",
    ] {
        assert!(is_whole(whole), "{whole}");
    }
    for part in [
        "headrace perf",
        "headrace run NAME",
        "headrace run --part I/N",
        "headrace run --slurm",
        "headrace run a/DIR/b.toml",
        "headrace report --format svg",
    ] {
        assert!(!is_whole(part), "{part}");
    }
    assert_eq!(
        spans("a `headrace x` b\n```sh\nheadrace y\n```\n`headrace z`"),
        ["headrace x", "headrace z"]
    );
}
