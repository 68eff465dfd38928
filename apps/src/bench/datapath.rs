//! The cases of `headrace bench datapath`, one after the other.

use experiments::plan::{Draft, Origin};
use live::datapath::{Bench, BenchError, Case, Device, MESSAGE};

use super::report::{self, Row};
use super::testpmd::{self, Mode, Testpmd};
use crate::args::DatapathArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Payload bytes: a small message, MTU 1500, the default, and jumbo frames.
const SEGMENTS: [u16; 4] = [256, 1500, 4096, 8960];

/// Measures, and reports progress on standard error.
///
/// # Errors
/// A device that there is not, a size that no endpoint takes, a machine that is not fit.
pub(super) fn run(args: &DatapathArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let cases = cases(args)?;
    let testpmd = if args.no_testpmd { None } else { Testpmd::find() };
    if testpmd.is_none() && !args.no_testpmd {
        writeln!(
            console.err,
            "dpdk-testpmd is not in PATH: its columns stay empty (Debian: apt-get install dpdk-dev)"
        )?;
    }
    let bench = Bench::start_observed(&args.observe.wanted()).map_err(unfit)?;
    let policies = bench.policies();
    let mut rows = Vec::new();
    for case in &cases {
        let name = case.device.name();
        writeln!(console.err, "measuring {name}, {} B", case.segment_bytes)?;
        let cost = bench.measure(case).map_err(unfit)?;
        let frame = Bench::frame_bytes(case).map_err(unfit)?;
        let beside = testpmd.as_ref().map(|program| {
            let (huge, mode) = (bench.has_hugepages(), Mode::Generate);
            let how = testpmd::Run { device: case.device, frame, huge, mode };
            program.mpps(&how)
        });
        let testpmd_mpps = match beside {
            Some(Ok(mpps)) => Some(mpps),
            Some(Err(why)) => {
                writeln!(console.err, "dpdk-testpmd on {name}: {why}; its columns stay empty")?;
                None
            }
            None => None,
        };
        rows.push(Row::new(case, &cost, policies, testpmd_mpps));
    }
    if args.json {
        report::write_json(&rows, console.out)?;
    } else {
        report::write_table(&rows, console.out)?;
    }
    Ok(Exit::Finished)
}

fn cases(args: &DatapathArgs) -> Result<Vec<Case>, Failure> {
    let mut devices = Vec::new();
    for name in &args.device {
        devices.push(Device::by_name(name).ok_or_else(|| no_device(name, &Device::ALL))?);
    }
    if devices.is_empty() {
        devices.extend(Device::ALL);
    }
    let transport = args.transport.as_deref().map(known_transport).transpose()?;
    let sizes = if args.segment.is_empty() { &SEGMENTS[..] } else { &args.segment };
    let mut cases = Vec::new();
    for device in devices {
        for &segment_bytes in sizes {
            let case = Case {
                device,
                segment_bytes,
                message_bytes: MESSAGE,
                segments: args.segments,
                attach: !args.copy,
                ack_every: args.ack_every,
                code: args.ec,
                transport,
            };
            Bench::frame_bytes(&case)
                .map_err(|error| Failure::CommandLine(format!("error: --segment: {error}")))?;
            cases.push(case);
        }
    }
    Ok(cases)
}

/// The name of a transport as the list of transports has it; one that hosts can run.
fn known_transport(name: &str) -> Result<&'static str, Failure> {
    let mut draft = Draft::default();
    let known = draft.set_transport(name, Origin::Set);
    known.map_err(|error| error.at("--transport", 0, 0))?;
    draft.check_sends().map_err(|error| error.at("--transport", 0, 0))?;
    Ok(draft.transport.name)
}

pub(super) fn no_device(name: &str, known: &[Device]) -> Failure {
    let known: Vec<&str> = known.iter().copied().map(Device::name).collect();
    let known = known.join(", ");
    Failure::CommandLine(format!(
        "error: --device: `{name}` cannot be measured\n  expected: one of {known}"
    ))
}

pub(super) fn unfit(error: BenchError) -> Failure {
    match error {
        BenchError::Observe(error) => error.into(),
        BenchError::Sealed(_) => Failure::CommandLine(format!("error: {error}")),
        other => Failure::Unfit(other.to_string()),
    }
}
