//! `headrace bench datapath` measures what one segment costs one core, beside dpdk-testpmd on a
//! device of the same kind in the same run. `headrace bench messages` measures small messages and
//! their round trips.
//!
//! | Field | Is |
//! |---|---|
//! | `ns_per_segment` | all that the sending core does for a segment and its acknowledgement |
//! | `headrace_mpps`, `headrace_gbps` | what a core so reaches: segments, bits of payload |
//! | `testpmd_mpps` | frames of the same length that dpdk-testpmd makes and sends on one core |
//! | `ratio` | the first over the second; null without dpdk-testpmd |
//!
//! With `--security`, `headrace bench datapath` measures seals instead, see `sealing.rs`.
//! `headrace bench dci` is about MLCC's border switch, see `border.rs`.
//! `headrace bench scheduler --device` is about the pod scheduler at a device, see `pod.rs`.
//!
//! `live::datapath` measures; the command asks for it and prints the result.

mod border;
mod datapath;
mod messages;
mod pod;
mod report;
mod sealing;
mod testpmd;

use crate::args::Bench;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Measures `what` at a device.
///
/// # Errors
/// Names and sizes that do not exist, and machines on which DPDK does not start.
pub(crate) fn run(what: &Bench, console: &mut Console<'_>) -> Result<Exit, Failure> {
    match what {
        Bench::Datapath(args) => match args.security {
            Some(mode) => sealing::run(args, mode, console),
            None => datapath::run(args, console),
        },
        Bench::Messages(args) => messages::run(args, console),
        Bench::Scheduler(args) => pod::run(args, console),
        Bench::Dci(args) => border::run(args, console),
    }
}

/// A number of two decimals; a dash for one that was not measured.
fn maybe(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}
