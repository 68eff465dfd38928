//! Network namespaces of tests, by `ip` of iproute2.

use std::path::Path;
use std::process::Command;

/// `program` inside the namespace `name`. `ip netns exec` becomes the program that it starts.
#[must_use]
pub fn command(name: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name]).arg(program);
    command
}

/// Runs `ip` with these words.
///
/// # Errors
/// What it says when it fails.
pub fn ip(words: &str) -> Result<(), String> {
    run("ip", words)
}

/// Runs `program`, which is of iproute2, with these words.
///
/// # Errors
/// What it says when it fails.
pub fn run(program: &str, words: &str) -> Result<(), String> {
    match Command::new(program).args(words.split_whitespace()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(format!("`{program} {words}` says: {said}"))
        }
        Err(error) => Err(format!("there is no `{program}` here ({error}); install iproute2")),
    }
}
