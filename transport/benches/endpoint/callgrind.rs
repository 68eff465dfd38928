//! Counts of instructions by callgrind: a benchmark runs itself under valgrind with the arguments
//! of one part, and the instructions executed below the part's function are counted. The benchmark
//! of the pod scheduler has this file by `#[path]`.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

/// The argument with which a benchmark runs only the part to be counted.
pub(crate) const CHILD: &str = "--counted";

/// Instructions executed below functions called `part` by a build of this program, run with `args`.
pub(crate) fn count(program: &Path, part: &str, args: &[&str]) -> Result<u64, String> {
    let run = run(program, part, args)?;
    let printed = String::from_utf8_lossy(&run.stderr);
    let total =
        printed.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    total.filter(|total| *total > 0).ok_or_else(|| {
        let (program, args) = (program.display(), args.join(" "));
        format!(
            "not counted: `{program} {CHILD} {args}` executed no instruction below `{part}`, \
             expected some; that function has to be called and not inlined; valgrind printed \
             {printed}"
        )
    })
}

/// What such a run prints. A run that fails is an error.
pub(crate) fn run(program: &Path, part: &str, args: &[&str]) -> Result<Output, String> {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*{part}*"))
        .arg(program)
        .arg(CHILD)
        .args(args)
        .output()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => String::from("not counted: valgrind is not installed"),
            _ => format!("not counted: valgrind: {error}"),
        })?;
    if run.status.success() {
        return Ok(run);
    }
    let (program, args, status) = (program.display(), args.join(" "), run.status);
    let printed = String::from_utf8_lossy(&run.stderr);
    Err(format!(
        "not counted: `{program} {CHILD} {args}` ended under valgrind with {status}, expected \
         success; run it without valgrind to see whether it fails there too; valgrind printed \
         {printed}"
    ))
}
