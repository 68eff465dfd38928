//! The functions of `on_dpdk` in a build without DPDK: each refuses, with one message.

use std::path::Path;

use experiments::hosts_file::HostsFile;
use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::plan::{Plan, RunError};
use experiments::progress::Watch;
use transport::Duration;

use crate::args::Bench;
use crate::args::dci::DciArgs;
use crate::args::perf::{Perf, Ping};
use crate::args::scheduler::SchedulerArgs;
use crate::console::Console;
use crate::doctor::Finding;
use crate::exit::Exit;
use crate::failure::Failure;

/// The message, which says how to get a build with DPDK.
const REFUSAL: &str = "this headrace was built without DPDK: install libdpdk (make setup), then \
                       build it with `cargo build --release -p headrace`";

fn refused() -> Failure {
    Failure::Unfit(REFUSAL.to_owned())
}

fn not_run() -> RunError {
    RunError::Environment(REFUSAL.to_owned())
}

/// Keys have no use without devices.
#[derive(Clone, Debug)]
pub(crate) enum SharedKeys {}

pub(crate) fn version() -> Option<String> {
    None
}

pub(crate) fn bench(_what: &Bench, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(refused())
}

pub(crate) fn perf(_what: &Perf, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(refused())
}

pub(crate) fn ping(_what: &Ping, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(refused())
}

pub(crate) fn dci(_args: &DciArgs, _console: &mut Console<'_>) -> Result<Exit, Failure> {
    Err(refused())
}

pub(crate) fn scheduler(
    _args: &SchedulerArgs,
    _console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    Err(refused())
}

pub(crate) fn look_at_device(_device: &str, _queues: u16) -> Result<Vec<Finding>, Failure> {
    Err(refused())
}

pub(crate) fn look_at_keys(text: &str) -> Vec<Finding> {
    let what = format!("--security {text}: {REFUSAL}");
    let why = "only packets of real devices are sealed";
    vec![Finding::fail(
        "security.keys",
        what,
        why,
        "make setup && cargo build --release -p headrace",
    )]
}

pub(crate) fn is_card(_device: &str) -> bool {
    true
}

pub(crate) fn expected_vdev(_plan: &Plan) -> Duration {
    Duration::ZERO
}

pub(crate) fn run_vdev(
    _plan: &Plan,
    _observe: &Observe,
    _watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    Err(not_run())
}

pub(crate) fn run_nic(
    _plan: &Plan,
    _place: (HostsFile, u32, bool),
    _keys: Option<SharedKeys>,
    _observe: Observe,
    _watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    Err(not_run())
}

pub(crate) fn shared_keys(_text: &str, _log: Option<&Path>) -> Result<SharedKeys, Failure> {
    Err(refused())
}

pub(crate) fn warning_of(keys: &SharedKeys) -> Option<String> {
    match *keys {}
}
