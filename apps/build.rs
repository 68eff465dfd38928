//! Names the commit that the program is built from, for `headrace --version` and for every result,
//! and the hash of its sources. A tree without Git, as an archive of a release, has no commit,
//! wherever it is unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    println!("cargo:rustc-env=HEADRACE_COMMIT={}", commit(&workspace).unwrap_or_default());
    let sources = Sources::of(&workspace);
    println!("cargo:rustc-env=HEADRACE_SOURCES={:016x}", sources.hash(&workspace));
    for path in heads(&workspace).iter().chain(&sources.watched) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// What the program is made of, from the root of the tree.
const SOURCES: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "build.rs",
    "dpdk-sys",
    "transport",
    "testbed",
    "apps/src",
    "apps/Cargo.toml",
    "apps/build.rs",
];

/// Folders in which there is nothing of the program, unless they are below a folder `src`.
const APART: [&str; 4] = ["target", "tests", "benches", "examples"];

/// The files that the program is made of.
#[derive(Default)]
pub(crate) struct Sources {
    /// All files, in order.
    files: Vec<PathBuf>,
    /// The files and folders that have all of those and nothing else, new files too.
    pub(crate) watched: Vec<PathBuf>,
}

impl Sources {
    /// The sources in the tree whose root is `workspace`.
    pub(crate) fn of(workspace: &Path) -> Self {
        let mut sources = Self::default();
        SOURCES.iter().for_each(|name| _ = sources.add(workspace, Path::new(name)));
        sources.files.sort();
        sources
    }

    /// Adds the file at `path` of `workspace`, or all files below it; false where something below
    /// it is apart.
    fn add(&mut self, workspace: &Path, path: &Path) -> bool {
        let before = self.watched.len();
        let mut is_whole = true;
        let place = workspace.join(path);
        if let Ok(entries) = fs::read_dir(&place) {
            for entry in entries.flatten() {
                let below = path.join(entry.file_name());
                let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
                is_whole &= !is_apart(&below) && (is_hidden || self.add(workspace, &below));
            }
        } else if place.is_file() {
            self.files.push(place.clone());
        } else {
            return true;
        }
        if is_whole {
            self.watched.truncate(before);
            self.watched.push(place);
        }
        is_whole
    }

    /// A hash (FNV-1a) of paths and bytes. It shows which results are of other code, also in a tree
    /// with uncommitted changes.
    fn hash(&self, workspace: &Path) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for file in &self.files {
            let name = file.strip_prefix(workspace).unwrap_or(file).to_string_lossy().into_owned();
            let bytes = fs::read(file).unwrap_or_default();
            let len = (bytes.len() as u64).to_le_bytes();
            for byte in name.bytes().chain(len).chain(bytes) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash
    }
}

/// The commit of the Git tree whose root is `workspace`, with `-dirty` behind it where sources of
/// the program differ from it; `None` where that is no Git tree of its own.
pub(crate) fn commit(workspace: &Path) -> Option<String> {
    let root = git(workspace, &["rev-parse", "--show-toplevel"])?;
    // Below the root of another tree, whose commits say nothing about this one.
    if Path::new(&root).canonicalize().ok()? != workspace.canonicalize().ok()? {
        return None;
    }
    let commit = git(workspace, &["describe", "--always", "--abbrev=12", "--exclude=*"])?;
    let mut args = vec!["status", "--porcelain", "--no-renames", "--untracked-files=all", "--"];
    args.extend(SOURCES);
    let changes = git(workspace, &args)?;
    // Letters and a blank are before each path.
    let mut paths = changes.lines().filter_map(|line| line.trim_start().split_once(' '));
    let is_changed = paths.any(|(_, path)| !is_apart(Path::new(path.trim_start())));
    Some(if is_changed { commit + "-dirty" } else { commit })
}

/// Whether what is at `path`, from the root of the tree, is apart.
fn is_apart(path: &Path) -> bool {
    let names = path.iter().map(|name| name.to_string_lossy());
    names.take_while(|name| name != "src").any(|name| APART.contains(&&*name))
}

/// Git's files that change when HEAD moves: to another branch, or with the branch that it names.
pub(crate) fn heads(workspace: &Path) -> Vec<PathBuf> {
    let git_file =
        |file| git(workspace, &["rev-parse", "--path-format=absolute", "--git-path", file]);
    ["HEAD", "logs/HEAD"].into_iter().filter_map(git_file).map(PathBuf::from).collect()
}

/// The output of a Git command in `dir`; `None` when it fails.
fn git(dir: &Path, args: &[&str]) -> Option<String> {
    // Without a lock, so that a build does not stop a commit that is made beside it.
    let git = Command::new("git").arg("--no-optional-locks").current_dir(dir).args(args).output();
    let ran = git.ok()?;
    let text = String::from_utf8(ran.stdout).ok()?;
    ran.status.success().then(|| text.trim().to_owned())
}
