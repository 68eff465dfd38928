//! `headrace bench datapath --security psk`: what it costs to seal a frame and to open it, beside
//! the library that does it.
//!
//! | Field | Is |
//! |---|---|
//! | `seal_ns`, `open_ns` | a frame, all that a worker adds to it by its keys |
//! | `seal_gb_per_s`, `open_gb_per_s` | gigabytes of payload a second on one core |
//! | `seal_mpps`, `open_mpps` | millions of segments a second on one core |
//! | `library_*` | AES-128-GCM of aws-lc-rs over the payload alone, in the same run |
//! | `seal_ratio`, `open_ratio` | the first over the library's |

use live::datapath::{Payloads, SealCost, sealing};
use serde::Serialize;

use super::datapath::unfit;
use crate::args::{DatapathArgs, SealMode};
use crate::bench::shown::{self, ShownRow, header, round};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Payload bytes: MTU 1500, and the default.
const SEGMENTS: [u16; 2] = [1500, 4096];

/// One size.
#[derive(Debug, Serialize)]
struct Row {
    security: &'static str,
    segment_bytes: u16,
    seal_ns: f64,
    seal_gb_per_s: f64,
    seal_mpps: f64,
    library_seal_gb_per_s: f64,
    seal_ratio: f64,
    open_ns: f64,
    open_gb_per_s: f64,
    open_mpps: f64,
    library_open_gb_per_s: f64,
    open_ratio: f64,
}

/// Measures, and prints rows.
///
/// # Errors
/// A size that is out of range, a machine whose clocks cannot be compared.
pub(super) fn run(
    args: &DatapathArgs,
    mode: SealMode,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let (security, payloads) = match mode {
        SealMode::Psk => ("psk", Payloads::Encrypted),
        SealMode::PskAuth => ("psk-auth", Payloads::Authenticated),
    };
    let sizes = if args.segment.is_empty() { &SEGMENTS[..] } else { &args.segment };
    let mut rows = Vec::new();
    for bytes in sizes {
        rows.push(Row::new(security, &sealing(*bytes, payloads).map_err(unfit)?));
    }
    shown::write(&rows, args.json, console)
}

impl Row {
    fn new(security: &'static str, cost: &SealCost) -> Self {
        // Bytes a nanosecond are gigabytes a second.
        let gb_per_s = |ns: f64| round(f64::from(cost.payload_bytes) / ns);
        let mpps = |ns: f64| round(1000.0 / ns);
        Self {
            security,
            segment_bytes: cost.payload_bytes,
            seal_ns: round(cost.seal_ns),
            seal_gb_per_s: gb_per_s(cost.seal_ns),
            seal_mpps: mpps(cost.seal_ns),
            library_seal_gb_per_s: gb_per_s(cost.library_seal_ns),
            seal_ratio: round(cost.library_seal_ns / cost.seal_ns),
            open_ns: round(cost.open_ns),
            open_gb_per_s: gb_per_s(cost.open_ns),
            open_mpps: mpps(cost.open_ns),
            library_open_gb_per_s: gb_per_s(cost.library_open_ns),
            open_ratio: round(cost.library_open_ns / cost.open_ns),
        }
    }

    /// The cells of one direction.
    fn cells(&self, is_seal: bool) -> Vec<String> {
        let (what, values) = if is_seal {
            let ratios = [self.library_seal_gb_per_s, self.seal_ratio];
            ("seal", ([self.seal_ns, self.seal_gb_per_s, self.seal_mpps], ratios))
        } else {
            let ratios = [self.library_open_gb_per_s, self.open_ratio];
            ("open", ([self.open_ns, self.open_gb_per_s, self.open_mpps], ratios))
        };
        let values = values.0.iter().chain(&values.1).map(|value| format!("{value:.2}"));
        let names = [what.to_owned(), self.security.to_owned(), self.segment_bytes.to_string()];
        names.into_iter().chain(values).collect()
    }
}

impl ShownRow for Row {
    const WORDS: usize = 2;

    fn header(_: &[Self]) -> Vec<String> {
        header(["", "security", "bytes", "ns", "GB/s", "Mpps", "library GB/s", "ratio"])
    }

    fn lines(&self) -> Vec<Vec<String>> {
        vec![self.cells(true), self.cells(false)]
    }
}
