//! The cases of `headrace bench datapath`, one after the other.

use experiments::plan::{Draft, Origin};
use live::datapath::{Bench, BenchError, Case, DeviceKind, MESSAGE};

use super::report::Row;
use super::testpmd::{self, Beside, Mode};
use crate::args::DatapathArgs;
use crate::bench::shown;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Payload bytes: a small message, MTU 1500, the default, and jumbo frames.
const SEGMENTS: [u16; 4] = [256, 1500, 4096, 8960];

/// Measures, and reports progress on standard error.
///
/// # Errors
/// A device that does not exist, a size that no endpoint takes, a machine that is not fit.
pub(super) fn run(args: &DatapathArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let cases = cases(args)?;
    let beside = Beside::find(!args.no_testpmd, console)?;
    let bench = Bench::start_observed(&args.observe.wanted()).map_err(unfit)?;
    let policies = bench.policies();
    let mut rows = Vec::new();
    for case in &cases {
        let name = case.device.name();
        writeln!(console.err, "measuring {name}, {} B", case.segment_bytes)?;
        let cost = bench.measure(case).map_err(unfit)?;
        let frame = Bench::frame_bytes(case).map_err(unfit)?;
        let (huge, mode) = (bench.has_hugepages(), Mode::Generate);
        let generated = testpmd::TestpmdTask { device: case.device, frame, huge, mode };
        let testpmd_mpps = beside.mpps(&generated, console)?;
        rows.push(Row::new(case, &cost, policies, testpmd_mpps));
    }
    shown::write(&rows, args.json, console)
}

fn cases(args: &DatapathArgs) -> Result<Vec<Case>, Failure> {
    let devices = devices(&args.device, &DeviceKind::ALL)?;
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

/// The devices of these names among the `known` ones; all of them without names.
///
/// # Errors
/// A name that none of them has.
pub(super) fn devices(names: &[String], known: &[DeviceKind]) -> Result<Vec<DeviceKind>, Failure> {
    if names.is_empty() {
        return Ok(known.to_vec());
    }
    let named = |name: &String| {
        let device = DeviceKind::by_name(name).filter(|device| known.contains(device));
        device.ok_or_else(|| {
            let known: Vec<&str> = known.iter().copied().map(DeviceKind::name).collect();
            Failure::CommandLine(format!(
                "error: --device: `{name}` cannot be measured\n  expected: one of {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(named).collect()
}

pub(super) fn unfit(error: BenchError) -> Failure {
    match error {
        BenchError::Observe(error) => error.into(),
        BenchError::Sealed(_) => Failure::CommandLine(format!("error: {error}")),
        other => Failure::Unfit(other.to_string()),
    }
}
