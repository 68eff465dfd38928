//! Names the commit that the program is built from, for `headrace --version` and for every result.
//! A tree without Git, as an archive of a release, has none.

use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let ran = Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(ran.stdout).ok()?;
        ran.status.success().then(|| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    println!("cargo:rustc-env=HEADRACE_COMMIT={commit}");
    // Built again where HEAD moves: to another branch, or with the branch that it names.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
}
