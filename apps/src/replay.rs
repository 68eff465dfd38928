//! `headrace replay`: recorded runs through the core again.
//!
//! A recording holds all input of one host's endpoint and a digest of all its output. A
//! replay needs neither DPDK nor a network: the same input must give the same answers, bit for bit.

use std::fs;
use std::path::{Path, PathBuf};

use experiments::input::InputError;
use transport::Instant;
use transport::record::{ReplayError, replay};

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// The name of the file in the directory of a run that has the recording of `host`.
pub(crate) fn file_name(host: usize) -> String {
    format!("host-{host}.{ENDING}")
}

const ENDING: &str = "rec";

/// Replays every recording that `paths` name; the first that differs does not stop the others.
///
/// # Errors
/// When a path is no recording, or there is none in a directory.
pub(crate) fn run(paths: &[PathBuf], console: &mut Console<'_>) -> Result<Exit, Failure> {
    let mut exit = Exit::Finished;
    for path in recordings(paths)? {
        let name = path.display().to_string();
        let bytes = fs::read(&path).map_err(|error| InputError::io(&name, &error))?;
        match replay(&bytes) {
            Ok(report) => writeln!(
                console.out,
                "{name}: host {}, {} calls, {} segments received, {} sent, {:.3} us: the same",
                report.host,
                report.calls,
                report.received,
                report.sent,
                report.until.since(Instant::ZERO).as_us_f64(),
            )?,
            Err(error @ ReplayError::Format(_)) => {
                let found = format!("no whole recording ({error})");
                let error = InputError::new(found, "a recording of this version").at(&name, 0, 0);
                return Err(error.help("record with --set vdev.record=on --out DIR").into());
            }
            Err(error) => {
                writeln!(console.out, "{name}: {error}")?;
                exit = Exit::Unfinished;
            }
        }
    }
    Ok(exit)
}

/// The files behind `paths`: a directory stands for the recordings in it, by host.
fn recordings(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let name = path.display().to_string();
        let entries = fs::read_dir(path).map_err(|error| InputError::io(&name, &error))?;
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|file| file.extension().is_some_and(|ending| ending == ENDING))
            .collect();
        if found.is_empty() {
            let error = InputError::new("no recording", "host-N.rec files").at(&name, 0, 0);
            return Err(error.help("record with --set vdev.record=on --out DIR").into());
        }
        found.sort_by_key(|file| (stem_len(file), file.clone()));
        all.append(&mut found);
    }
    Ok(all)
}

/// The length of the file's name without its ending, by which host 10 comes after host 9.
fn stem_len(file: &Path) -> usize {
    file.file_stem().map_or(0, |stem| stem.len())
}
