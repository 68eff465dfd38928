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
//! `headrace bench scheduler` is about the pod scheduler and needs no DPDK, see `scheduler.rs`,
//! unless it is measured at a device, see `pod.rs`.
//!
//! `live::datapath` measures; the command asks for it and prints the result.

#[cfg(feature = "dpdk")]
mod border;
#[cfg(feature = "dpdk")]
mod datapath;
#[cfg(feature = "dpdk")]
mod messages;
#[cfg(feature = "dpdk")]
mod pod;
#[cfg(feature = "dpdk")]
mod report;
mod scheduler;
#[cfg(feature = "dpdk")]
mod sealing;
mod shown;
#[cfg(feature = "dpdk")]
mod testpmd;

use crate::args::Bench;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// Measures `what`.
///
/// # Errors
/// Names and sizes that do not exist, and machines without DPDK where it is needed.
pub(crate) fn run(what: &Bench, console: &mut Console<'_>) -> Result<Exit, Failure> {
    match what {
        Bench::Scheduler(args) if args.device.is_empty() => scheduler::run(args, console),
        #[cfg(feature = "dpdk")]
        Bench::Datapath(args) => match args.security {
            Some(mode) => sealing::run(args, mode, console),
            None => datapath::run(args, console),
        },
        #[cfg(feature = "dpdk")]
        Bench::Messages(args) => messages::run(args, console),
        #[cfg(feature = "dpdk")]
        Bench::Scheduler(args) => pod::run(args, console),
        #[cfg(feature = "dpdk")]
        Bench::Dci(args) => border::run(args, console),
        #[cfg(not(feature = "dpdk"))]
        Bench::Datapath(_) | Bench::Messages(_) | Bench::Dci(_) | Bench::Scheduler(_) => {
            let text = "this build of headrace has no DPDK; build it with the feature `dpdk`";
            Err(Failure::Unfit(text.to_owned()))
        }
    }
}
