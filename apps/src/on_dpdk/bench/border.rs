//! `headrace bench dci`: MLCC's border switch between two devices, beside dpdk-testpmd that
//! forwards between two devices of the same kind, in the same run.

use live::datapath::{Bench, BorderCase, BorderCost, DeviceKind};
use serde::Serialize;

use super::datapath::{devices, unfit};
use super::maybe;
use super::testpmd::{self, Beside, Mode};
use crate::args::BenchDciArgs;
use crate::bench::shown::{self, ShownRow, header, round};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Payload bytes of a segment.
const SEGMENTS: [u16; 4] = [256, 1500, 4096, 8960];
/// Flows with a queue.
const QUEUES: [u32; 3] = [1, 100, 4096];
/// The kinds of device whose far end can send frames.
const DEVICES: [DeviceKind; 2] = [DeviceKind::Ring, DeviceKind::Memif];

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
    let devices = devices(&args.device, &DEVICES)?;
    let sizes = if args.segment.is_empty() { &SEGMENTS[..] } else { &args.segment };
    let queues = if args.queues.is_empty() { &QUEUES[..] } else { &args.queues };
    let beside = Beside::find(!args.no_testpmd, console)?;
    let bench = Bench::start().map_err(unfit)?;
    let mut rows = Vec::new();
    for device in devices {
        for &segment_bytes in sizes {
            let name = device.name();
            let huge = bench.has_hugepages();
            let frame = Bench::border_frame_bytes(segment_bytes);
            let forwarded = testpmd::TestpmdTask { device, frame, huge, mode: Mode::Forward };
            let testpmd_mpps = beside.mpps(&forwarded, console)?;
            for &queues in queues {
                writeln!(console.err, "measuring {name}, {segment_bytes} B, {queues} queues")?;
                let case = BorderCase { device, segment_bytes, queues, packets: args.packets };
                let cost = bench.border(&case).map_err(unfit)?;
                rows.push(Row::new(&case, &cost, testpmd_mpps));
            }
        }
    }
    shown::write(&rows, args.json, console)
}

impl ShownRow for Row {
    const WORDS: usize = 1;

    fn header(_: &[Self]) -> Vec<String> {
        header([
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
        ])
    }

    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.device.to_owned(),
            self.segment_bytes.to_string(),
            self.queues.to_string(),
            format!("{:.2}", self.mpps),
            maybe(self.testpmd_mpps),
            maybe(self.ratio),
            format!("{:.1}", self.ns_per_packet),
            format!("{:.1}", self.receive_ns),
            format!("{:.1}", self.switch_ns),
            format!("{:.1}", self.send_ns),
        ]]
    }
}
