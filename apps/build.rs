//! Names the commit that the program is built from, for `headrace --version` and for every result,
//! and the hash of its sources. A tree without Git, as an archive of a release, has no commit,
//! wherever it is unpacked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    println!("cargo:rustc-env=HEADRACE_COMMIT={}", commit(&workspace).unwrap_or_default());
    for path in deciding(&workspace) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rustc-env=HEADRACE_SOURCES={:016x}", sources());
}

/// What the program is made of, from the root of the tree.
const SOURCES: [&str; 7] = [
    "Cargo.lock",
    "dpdk-sys",
    "transport",
    "testbed",
    "apps/src",
    "apps/Cargo.toml",
    "apps/build.rs",
];

/// Folders in which there is nothing of the program.
const APART: [&str; 4] = ["target", "tests", "benches", "examples"];

/// A hash (FNV-1a) of the sources' paths and bytes, so that results of other code are seen to be
/// such in a tree with changes beside its commit, too. Built again where one of them changes.
fn sources() -> u64 {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    SOURCES.iter().for_each(|name| collect(&root.join(name), &mut files));
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        println!("cargo:rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        let bytes = fs::read(&file).unwrap_or_default();
        let len = (bytes.len() as u64).to_le_bytes();
        for byte in name.bytes().chain(len).chain(bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// Adds the file at `path`, or all files below it.
fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(path) else {
        files.extend(path.is_file().then(|| path.to_owned()));
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !APART.contains(&name.as_str()) {
            collect(&entry.path(), files);
        }
    }
}

/// The commit of the Git tree whose root is `workspace`, with `-dirty` behind it where files differ
/// from it; `None` where that is no Git tree of its own.
pub(crate) fn commit(workspace: &Path) -> Option<String> {
    let root = git(workspace, &["rev-parse", "--show-toplevel"])?;
    // Below the root of another tree, whose commits say nothing about this one.
    if Path::new(&root).canonicalize().ok()? != workspace.canonicalize().ok()? {
        return None;
    }
    git(workspace, &["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

/// The files and folders by whose changes the commit may be another: HEAD moves, to another branch
/// or with the branch that it names, or sources of the program change.
pub(crate) fn deciding(workspace: &Path) -> BTreeSet<String> {
    let git_file =
        |file| git(workspace, &["rev-parse", "--path-format=absolute", "--git-path", file]);
    let files = ["HEAD", "logs/HEAD"].into_iter().filter_map(git_file);
    let tracked = git(workspace, &["ls-files", "*/src/*.rs"]).unwrap_or_default();
    let folders = tracked.lines().filter_map(|path| path.split_once("/src/"));
    let folders = folders.map(|(owner, _)| format!("{owner}/src"));
    let read = ["Cargo.toml", "Cargo.lock", "testbed/cdfs", "testbed/scenarios"].map(str::to_owned);
    let sources = folders.chain(read).map(|path| workspace.join(path).display().to_string());
    files.chain(sources).collect()
}

/// The output of a Git command in `dir`; `None` when it fails.
fn git(dir: &Path, args: &[&str]) -> Option<String> {
    let ran = Command::new("git").arg("-C").arg(dir).args(args).output().ok()?;
    let text = String::from_utf8(ran.stdout).ok()?;
    ran.status.success().then(|| text.trim().to_owned())
}
