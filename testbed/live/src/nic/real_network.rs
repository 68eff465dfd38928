//! What a run on a real network is given beside its plan.

use experiments::hosts_file::HostsFile;
use experiments::observe::Observe;
use transport_dpdk::SharedKeys;

/// The network of a run, and the number of this process's host in it.
#[derive(Clone, Debug)]
pub struct RealNetwork {
    /// All hosts.
    pub hosts: HostsFile,
    /// The number of this one.
    pub own: u32,
    /// The user has described the network; else it counts as one switch, as fast as the slowest
    /// device.
    pub topology_given: bool,
    /// The observations of this host meanwhile.
    pub observe: Observe,
    /// Keys that seal packets; all hosts have some, or none has.
    pub keys: Option<SharedKeys>,
}
