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
        .args(arguments(args, name))
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

/// The command line of the process of the variant `name`. Inputs stand behind `--`, and values in
/// the word of their flag, so that both may begin with `-`.
fn arguments(args: &RunArgs, name: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> =
        ["run", "--json", "--quiet", "--progress-lines"].map(OsString::from).into();
    words.push(format!("--variant={name}").into());
    words.extend(flags(args));
    words.extend(logging::flag().map(OsString::from));
    words.push("--".into());
    words.extend(args.inputs.iter().map(|input| input.as_os_str().to_owned()));
    words
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
    let texts = texts.into_iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value?)));
    let sets = args.policies.set.iter().map(|text| format!("--set={text}"));
    let mut flags: Vec<OsString> = texts.chain(sets).map(OsString::from).collect();
    if let Some(out) = &args.out {
        let mut flag = OsString::from("--out=");
        flag.push(out);
        flags.push(flag);
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
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_process_of_its_own_has_the_inputs_and_flags_of_the_sweep_whatever_they_begin_with() {
        let line = "headrace run --world vdev --set mtu=2048 --out=-results --seed 1,2 --trim off \
                    --transport uno -- -a.cm --b.cm";
        let run = |words: &mut dyn Iterator<Item = OsString>| {
            let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            let Command::Run(args) = cli.command else { panic!("another command") };
            args
        };
        let args = run(&mut line.split_whitespace().map(OsString::from));
        let words = [OsString::from("headrace")].into_iter();
        let own = run(&mut words.chain(arguments(&args, "-matrix=a")));
        assert_eq!(own.variant, ["-matrix=a"]);
        assert_eq!((&own.inputs, &own.out), (&args.inputs, &args.out));
        assert_eq!(flags(&own), flags(&args));
        assert_eq!(flags(&args).len(), 6);
    }

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
