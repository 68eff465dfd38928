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
fn a_tree_whose_sources_changed_says_so_and_one_inside_another_has_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path();
    assert_eq!(build::commit(workspace), None, "no Git tree");
    git(workspace, &["init", "-q"]);
    let write = |file: &str, text: &str| {
        let file = workspace.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let apart = ["docs/A.md", "transport/gf/tests/a.rs", "testbed/live/benches/b/c.rs"];
    let sources =
        ["apps/src/lib.rs", "Cargo.lock", "testbed/live/src/lib.rs", "transport/src/a/tests/b.rs"];
    sources.iter().chain(&apart).for_each(|file| write(file, "one"));
    git(workspace, &["add", "."]);
    git(workspace, &["commit", "-q", "-m", "one"]);
    // A tag does not take the commit's place.
    git(workspace, &["tag", "-a", "v1", "-m", "v1"]);
    let commit = build::commit(workspace).unwrap();
    let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(commit.len() >= 12 && is_hex, "{commit}");
    let dirty = format!("{commit}-dirty");
    for file in sources {
        write(file, "two");
        assert_eq!(build::commit(workspace).as_ref(), Some(&dirty), "{file}");
        write(file, "one");
        assert_eq!(build::commit(workspace).as_ref(), Some(&commit), "{file}");
    }
    // What the program is not made of changes nothing.
    apart.iter().for_each(|file| write(file, "two"));
    assert_eq!(build::commit(workspace), Some(commit));
    write("transport/src/new.rs", "one");
    assert_eq!(build::commit(workspace), Some(dirty));
    // An archive that is unpacked there is not of that commit.
    assert_eq!(build::commit(&workspace.join("apps")), None);
}

#[test]
fn the_commit_is_looked_at_again_when_sources_change() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let watched = build::Sources::of(&workspace).watched;
    for part in ["apps/src", "testbed/live/src", "transport/src", "testbed/scenarios", "build.rs"] {
        let path = workspace.join(part);
        assert!(path.exists(), "{part}");
        assert!(watched.iter().any(|watched| path.starts_with(watched)), "{part}: {watched:?}");
    }
    for part in ["tests", "apps/tests", "testbed/experiments/tests", "docs"] {
        let path = workspace.join(part).join("x");
        assert!(!watched.iter().any(|watched| path.starts_with(watched)), "{part}: {watched:?}");
    }
    // An archive has no commit.
    if build::commit(&workspace).is_some() {
        assert_eq!(build::heads(&workspace).len(), 2);
    }
}
