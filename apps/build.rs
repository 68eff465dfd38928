//! Names the commit that the program is built from, for `headrace --version` and for every result.
//! A tree without Git, as an archive of a release, has none, wherever it is unpacked.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    println!("cargo:rustc-env=HEADRACE_COMMIT={}", commit(&workspace).unwrap_or_default());
    for path in deciding(&workspace) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-changed=build.rs");
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
