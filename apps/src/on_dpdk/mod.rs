//! What runs on DPDK: the worlds `vdev` and `nic`, and the commands that open devices.
//!
//! A build without the feature `dpdk` has `without_dpdk.rs` in the place of this folder: functions
//! of the names below, which refuse. No other file of this crate asks for the feature, but for the
//! doctor's `machine.rs`.

mod bench;
mod dci;
mod device;
mod inspection;
mod keys;
mod perf;
mod scheduler;
mod worlds;

pub(crate) use bench::run as bench;
pub(crate) use dci::run as dci;
pub(crate) use inspection::look_at as look_at_device;
pub(crate) use keys::look_at as look_at_keys;
pub(crate) use live::nic::is_card;
pub(crate) use live::peers::SharedKeys;
pub(crate) use live::vdev::{expected as expected_vdev, run_observed as run_vdev};
pub(crate) use perf::{perf, ping};
pub(crate) use scheduler::run as scheduler;
pub(crate) use worlds::{run_nic, shared_keys, warning_of};

/// The version of libdpdk as it calls itself.
pub(crate) fn version() -> Option<String> {
    Some(live::dpdk_version())
}
