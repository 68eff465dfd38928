//! A run in a process of its own: DPDK starts once in a process.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use super::sweep::Ended;
use crate::args::{OnOff, RunArgs, Seeds};
use crate::estimate::Done;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::logging;

/// The lines of a process on standard error.
#[derive(Debug, PartialEq)]
pub(super) enum Said<'a> {
    /// How far its run is.
    Done(Done),
    /// A line of text.
    Text(&'a str),
}

/// Runs the variant of that name in another process, with the flags of this one, and passes on its
/// messages meanwhile. With its result comes the reason why no other variant is to follow, if there
/// is one.
///
/// # Errors
/// When it cannot start, or leaves no result.
pub(super) fn run(
    args: &RunArgs,
    name: &str,
    pass: &mut dyn FnMut(Said<'_>),
) -> Result<(Ended, Option<Failure>), Failure> {
    let failed = |what: &str| Failure::Unfit(format!("variant {name}: {what}"));
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .arg("run")
        .args(&args.inputs)
        .args(["--json", "--quiet", "--progress-lines", "--variant", name])
        .args(flags(args))
        .args(logging::flag())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // A pipe that is full stops the process: both are read at the same time.
    let text = thread::scope(|scope| {
        let read = scope.spawn(|| out.map_or(Ok(String::new()), io::read_to_string));
        let said = err.map_or(Ok(()), |err| follow(BufReader::new(err), pass));
        read.join()
            .unwrap_or_else(|panic| resume_unwind(panic))
            .and_then(|text| said.map(|()| text))
    })?;
    let status = child.wait()?;
    let wrong = || failed("its process left no result; what it said stands above");
    let array: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    let element = array.get(0).cloned().ok_or_else(wrong)?;
    let is_full = status.code() == Some(i32::from(Exit::Unfit.code()));
    let unfit = is_full.then(|| failed("its results are not whole; the reason stands above"));
    Ok(((element, status.success()), unfit))
}

/// The flags of a run that change it, and where its results go.
fn flags(args: &RunArgs) -> Vec<OsString> {
    let switch = |on: OnOff| if on == OnOff::On { "on" } else { "off" }.to_owned();
    let texts = [
        ("--world", args.world.map(|world| world.name().to_owned())),
        ("--topo", args.topo.clone()),
        ("--transport", args.policies.transport.clone()),
        ("--cc", args.policies.cc.clone()),
        ("--lb", args.policies.lb.clone()),
        ("--ec", args.ec.clone()),
        ("--trim", args.trim.map(switch)),
        ("--seed", args.seed.as_ref().map(Seeds::to_string)),
        ("--udp-port", args.udp_port.map(|port| port.to_string())),
    ];
    let texts = texts.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
    let sets = args.policies.set.iter().map(|text| ["--set".to_owned(), text.clone()]);
    let mut flags: Vec<OsString> = texts.chain(sets).flatten().map(OsString::from).collect();
    if let Some(out) = &args.out {
        flags.extend(["--out".into(), out.as_os_str().to_owned()]);
    }
    flags
}

/// Passes on each line until the process closes its end.
fn follow(err: impl BufRead, pass: &mut dyn FnMut(Said<'_>)) -> io::Result<()> {
    for line in err.split(b'\n') {
        let line = line?;
        let text = String::from_utf8_lossy(&line);
        pass(Done::of_line(&text).map_or(Said::Text(&text), Said::Done));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_a_process_is_no_text() {
        let done = Done { bytes: 0.25, hops: 1.5, time: 0.0, limit: 1e-9 };
        let text =
            format!("warning: progress is slow\n{}\nprogress of what\n\u{fffd}", done.line());
        let mut said = Vec::new();
        let mut pass = |one: Said<'_>| match one {
            Said::Done(done) => said.push(Err(done)),
            Said::Text(text) => said.push(Ok(text.to_owned())),
        };
        follow(text.as_bytes(), &mut pass).unwrap();
        let texts = ["warning: progress is slow", "progress of what", "\u{fffd}"];
        let [first, middle, last] = texts.map(|text| Ok(text.to_owned()));
        assert_eq!(said, [first, Err(done), middle, last]);
    }
}
