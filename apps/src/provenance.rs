//! The origin of a result: its inputs, the program and the machine.

use std::fs;

use experiments::measure::summary::Provenance;

use crate::manifest::Setting;
use crate::on_dpdk;

/// The commit that the program was built from, with [`DIRTY`] behind it where its sources had
/// changes that no commit has; empty outside of a Git tree.
pub(crate) const COMMIT: &str = env!("HEADRACE_COMMIT");

/// What is behind the commit of a tree with changes.
pub(crate) const DIRTY: &str = "-dirty";

/// A hash of the sources that the program was built from, 16 hex digits. It differs with any change
/// of the code, whether it is in a commit or not.
pub(crate) const SOURCES: &str = env!("HEADRACE_SOURCES");

/// The version of the program with its commit, and of DPDK.
pub(crate) fn version() -> String {
    let commit = if COMMIT.is_empty() { "without a commit" } else { COMMIT };
    let dpdk = on_dpdk::version().unwrap_or_else(|| "no DPDK".to_owned());
    format!("headrace {} ({commit}), {dpdk}", env!("CARGO_PKG_VERSION"))
}

/// The provenance of a run of `matrix` with these settings.
pub(crate) fn of_run(matrix: &str, configuration: &[Setting]) -> Provenance {
    let topology = configuration.iter().find(|setting| setting.key == "topology");
    let text = |of: fn(&Setting) -> &String| topology.map(of).cloned().unwrap_or_default();
    Provenance {
        matrix: matrix.to_owned(),
        topology: text(|setting| &setting.value),
        topology_source: text(|setting| &setting.source),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: Some(COMMIT.to_owned()).filter(|commit| !commit.is_empty()),
        dpdk: on_dpdk::version(),
        machine: machine(),
    }
}

/// The processor, how many cores this process may use, and the kernel. Names no host.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(':')).map_or("unknown processor", |m| m.1);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, {cores} cores, Linux {}", model.trim(), kernel.trim())
}
