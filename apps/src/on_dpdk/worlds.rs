//! Runs in the worlds of real time.

use std::path::Path;

use experiments::hosts_file::HostsFile;
use experiments::measure::Outcome;
use experiments::observe::Observe;
use experiments::plan::{Plan, RunError};
use experiments::progress::Watch;
use live::nic::RealNetwork;
use live::peers::SharedKeys;

use crate::failure::Failure;

/// Runs `plan` in the `nic` world, as host `own` of `hosts`. `topology_given` says whether the user
/// has described switches and links.
pub(crate) fn run_nic(
    plan: &Plan,
    (hosts, own, topology_given): (HostsFile, u32, bool),
    keys: Option<SharedKeys>,
    observe: Observe,
    watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    let network = RealNetwork { hosts, own, topology_given, observe, keys };
    live::nic::run(plan, &network, watch)
}

/// The keys of `--security`, which seal packets, and which are logged in the file at `log`.
///
/// # Errors
/// [`Failure::CommandLine`] when there are none, or others could read them.
pub(crate) fn shared_keys(text: &str, log: Option<&Path>) -> Result<SharedKeys, Failure> {
    let keys = SharedKeys::read(text);
    let logged = keys.and_then(|keys| log.map_or(Ok(keys.clone()), |log| keys.logged(log)));
    logged.map_err(|error| Failure::CommandLine(format!("error: {error}")))
}

/// The message of a run whose keys are logged.
pub(crate) fn warning_of(keys: &SharedKeys) -> Option<String> {
    keys.warning()
}
