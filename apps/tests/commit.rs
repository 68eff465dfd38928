//! Tests of the commit that results are of: what the build script says of a tree.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[expect(dead_code, reason = "Cargo runs its main")]
#[allow(clippy::print_stdout, reason = "Cargo reads what it prints")]
#[path = "../build.rs"]
mod build;

fn git(dir: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=x", "-c", "user.email=x@x.x", "-c", "commit.gpgsign=false"];
    let ran = Command::new("git").arg("-C").arg(dir).args(identity).args(args).output().unwrap();
    assert!(ran.status.success(), "{args:?}: {ran:?}");
}

#[test]
fn a_tree_with_changes_says_so_and_one_inside_another_has_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path();
    assert_eq!(build::commit(workspace), None, "no Git tree");
    git(workspace, &["init", "-q"]);
    let source = workspace.join("x/src/lib.rs");
    fs::create_dir_all(source.parent().unwrap()).unwrap();
    fs::write(&source, "one").unwrap();
    git(workspace, &["add", "."]);
    git(workspace, &["commit", "-q", "-m", "one"]);
    // A tag does not take the commit's place.
    git(workspace, &["tag", "-a", "v1", "-m", "v1"]);
    let commit = build::commit(workspace).unwrap();
    let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(commit.len() >= 12 && is_hex, "{commit}");
    fs::write(&source, "two").unwrap();
    assert_eq!(build::commit(workspace), Some(format!("{commit}-dirty")));
    fs::write(&source, "one").unwrap();
    assert_eq!(build::commit(workspace), Some(commit));
    // An archive that is unpacked there is not of that commit.
    assert_eq!(build::commit(&workspace.join("x")), None);
}

#[test]
fn the_commit_is_looked_at_again_when_sources_change() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let deciding = build::deciding(&workspace);
    // An archive has no list of its files.
    if build::commit(&workspace).is_some() {
        for part in ["apps/src", "testbed/fabric/src", "transport/src", "testbed/scenarios"] {
            let path = workspace.join(part).display().to_string();
            assert!(Path::new(&path).exists() && deciding.contains(&path), "{part}: {deciding:?}");
        }
    }
}
