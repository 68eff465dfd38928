//! `headrace bench dci`: MLCC's border switch between two devices, beside dpdk-testpmd that
//! forwards between two devices of the same kind, in the same run.

use std::io::{self, Write};

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use live::datapath::{Bench, BorderCase, BorderCost, Device};
use serde::Serialize;

use super::datapath::{no_device, unfit};
use super::report::round;
use super::testpmd::{self, Mode, Testpmd};
use crate::args::BenchDciArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Payload bytes of a segment.
const SEGMENTS: [u16; 4] = [256, 1500, 4096, 8960];
/// Flows with a queue.
const QUEUES: [u32; 3] = [1, 100, 4096];
/// The kinds of device whose far end can send frames.
const DEVICES: [Device; 2] = [Device::Ring, Device::Memif];

/// One case. Nanoseconds a packet.
#[derive(Debug, Serialize)]
struct Row {
    device: &'static str,
    segment_bytes: u16,
    queues: u32,
    /// Packets that one core passes, millions a second.
    mpps: f64,
    /// Frames of the same length that dpdk-testpmd forwards on one core.
    testpmd_mpps: Option<f64>,
    ratio: Option<f64>,
    ns_per_packet: f64,
    receive_ns: f64,
    switch_ns: f64,
    send_ns: f64,
}

impl Row {
    fn new(case: &BorderCase, cost: &BorderCost, testpmd_mpps: Option<f64>) -> Self {
        let mpps = 1000.0 / cost.ns_per_packet.max(f64::MIN_POSITIVE);
        Self {
            device: case.device.name(),
            segment_bytes: case.segment_bytes,
            queues: case.queues,
            mpps: round(mpps),
            testpmd_mpps: testpmd_mpps.map(round),
            ratio: testpmd_mpps.map(|beside| round(mpps / beside)),
            ns_per_packet: round(cost.ns_per_packet),
            receive_ns: round(cost.receive_ns),
            switch_ns: round(cost.switch_ns),
            send_ns: round(cost.send_ns),
        }
    }
}

/// Measures, and reports progress on standard error.
///
/// # Errors
/// A device that cannot be measured, or a machine that is not fit.
pub(super) fn run(args: &BenchDciArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let devices = devices(&args.device)?;
    let sizes = if args.segment.is_empty() { &SEGMENTS[..] } else { &args.segment };
    let queues = if args.queues.is_empty() { &QUEUES[..] } else { &args.queues };
    let testpmd = if args.no_testpmd { None } else { Testpmd::find() };
    if testpmd.is_none() && !args.no_testpmd {
        writeln!(
            console.err,
            "dpdk-testpmd is not in PATH: its columns stay empty (Debian: apt-get install dpdk-dev)"
        )?;
    }
    let bench = Bench::start().map_err(unfit)?;
    let mut rows = Vec::new();
    for device in devices {
        for &segment_bytes in sizes {
            let name = device.name();
            let huge = bench.has_hugepages();
            let frame = Bench::border_frame_bytes(segment_bytes);
            let mode = Mode::Forward;
            let beside = testpmd.as_ref().map(|program| {
                writeln!(console.err, "measuring dpdk-testpmd, {name}, {segment_bytes} B")?;
                Ok::<_, Failure>(program.mpps(&testpmd::Run { device, frame, huge, mode }))
            });
            let testpmd_mpps = match beside.transpose()? {
                Some(Ok(mpps)) => Some(mpps),
                Some(Err(why)) => {
                    writeln!(console.err, "dpdk-testpmd on {name}: {why}; its columns stay empty")?;
                    None
                }
                None => None,
            };
            for &queues in queues {
                writeln!(console.err, "measuring {name}, {segment_bytes} B, {queues} queues")?;
                let case = BorderCase { device, segment_bytes, queues, packets: args.packets };
                let cost = bench.border(&case).map_err(unfit)?;
                rows.push(Row::new(&case, &cost, testpmd_mpps));
            }
        }
    }
    if args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(io::Error::from)?;
        writeln!(console.out, "{text}")?;
    } else {
        write_table(&rows, console.out)?;
    }
    Ok(Exit::Finished)
}

fn devices(names: &[String]) -> Result<Vec<Device>, Failure> {
    if names.is_empty() {
        return Ok(DEVICES.to_vec());
    }
    let named = |name: &String| {
        let device = Device::by_name(name).filter(|device| DEVICES.contains(device));
        device.ok_or_else(|| no_device(name, &DEVICES))
    };
    names.iter().map(named).collect()
}

fn write_table(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY);
    table.set_header([
        "device",
        "bytes",
        "queues",
        "Mpps",
        "testpmd Mpps",
        "ratio",
        "ns",
        "receive",
        "switch",
        "send",
    ]);
    let maybe = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    for row in rows {
        table.add_row([
            row.device.to_owned(),
            row.segment_bytes.to_string(),
            row.queues.to_string(),
            format!("{:.2}", row.mpps),
            maybe(row.testpmd_mpps),
            maybe(row.ratio),
            format!("{:.1}", row.ns_per_packet),
            format!("{:.1}", row.receive_ns),
            format!("{:.1}", row.switch_ns),
            format!("{:.1}", row.send_ns),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")
}
