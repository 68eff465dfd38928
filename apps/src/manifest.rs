//! manifest.json: the inputs of a run, so that it can be repeated.
//!
//! Holds no time and no host name: the same inputs give the same manifest on one machine. Input
//! hashes are SHA-256, in hex.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::Path;

use experiments::measure::Adapted;
use experiments::measure::summary::Provenance;
use experiments::workload::cm::StartUnit;
use experiments::workload::{Matrix, cm_write};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Settings that change no result.
pub(crate) const FREE: [&str; 2] = ["sim.threads", "run.memory"];

/// The record of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Manifest {
    /// Version of this format.
    pub(crate) schema: u32,
    /// Version of the program.
    pub(crate) version: &'static str,
    /// The commit that it was built from, with `-dirty` behind it where sources had changes that no
    /// commit has; empty outside of a Git tree.
    pub(crate) commit: &'static str,
    /// A hash of the program's sources.
    pub(crate) sources: &'static str,
    /// Inputs by name, program and machine.
    pub(crate) provenance: Provenance,
    /// The name of the run among those of its command line; null where it is the only one.
    pub(crate) variant: Option<String>,
    /// The command line, the program's name first.
    pub(crate) arguments: Vec<String>,
    /// Root of all chance.
    pub(crate) seed: u64,
    /// Every setting with its value and where the value came from.
    pub(crate) configuration: Vec<Setting>,
    /// SHA-256 of the flows as text, 64 hex digits, whether they were read or generated.
    pub(crate) traffic: String,
    /// Settings that the world changed, and why.
    pub(crate) adapted: Vec<Adapted>,
    /// Every file that was read.
    pub(crate) inputs: Vec<Input>,
    /// The network as a `.topo` file.
    pub(crate) network: String,
}

/// The fields of a manifest that are used when it is read back.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Recorded {
    /// Version of the program.
    pub(crate) version: String,
    /// The commit that the program was built from.
    #[serde(default)]
    pub(crate) commit: Option<String>,
    /// The name of the run among those of its command line; earlier versions recorded none.
    #[serde(default)]
    pub(crate) variant: Option<String>,
    /// The command line.
    pub(crate) arguments: Vec<String>,
    /// Every setting.
    pub(crate) configuration: Vec<Setting>,
    /// Every file that was read.
    pub(crate) inputs: Vec<Input>,
    /// The network as a `.topo` file; earlier versions recorded none.
    #[serde(default)]
    pub(crate) network: Option<String>,
}

/// One setting of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// Dotted name, as `--set` takes it.
    pub(crate) key: String,
    /// Value as text.
    pub(crate) value: String,
    /// The origin of the value: `default`, a flag, a file.
    #[serde(default)]
    pub(crate) source: String,
}

/// The values of each name, one after another where it has several, as faults have.
pub(crate) fn joined(all: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in all {
        match joined.entry(name) {
            Entry::Vacant(place) => drop(place.insert(value)),
            Entry::Occupied(mut known) => known.get_mut().extend([", ", value.as_str()]),
        }
    }
    joined
}

/// One file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Input {
    /// The file's role in the run: matrix, topology, scenario.
    pub(crate) role: Cow<'static, str>,
    /// The path as the user named it.
    pub(crate) path: String,
    /// Length.
    pub(crate) bytes: u64,
    /// SHA-256 of its bytes, 64 hex digits.
    pub(crate) sha256: String,
}

impl Input {
    /// Hashes the file at `path`. O(its length).
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn hash(role: &'static str, path: &Path) -> io::Result<Self> {
        Self::of(role, path, File::open(path)?)
    }

    /// Hashes `content`, which is or will be that of the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of(
        role: &'static str,
        path: &Path,
        mut content: impl io::Read,
    ) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; READ_BYTES];
        let mut bytes = 0;
        loop {
            let len = content.read(&mut chunk)?;
            if len == 0 {
                break;
            }
            hasher.update(&chunk[..len]);
            bytes += len as u64;
        }
        let sha256 = hex(hasher);
        Ok(Self { role: role.into(), path: path.display().to_string(), bytes, sha256 })
    }
}

/// The SHA-256 of the text of `matrix`, in hex. O(its flows).
pub(crate) fn traffic(matrix: &Matrix) -> String {
    let mut hasher = Sha256::new();
    // A hasher takes every write.
    let _ = cm_write::write(matrix, StartUnit::Us, &mut hasher);
    hex(hasher)
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

const READ_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_as_sha256sum_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let input = Input::hash("matrix", &path).unwrap();
        assert_eq!(input.bytes, 3);
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(input.sha256, expected);
    }
}
