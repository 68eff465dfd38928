//! Settings of a worker.

use transport::Duration;
use transport::wire::addressing::Addressing;

/// Settings of a worker beyond its endpoint's configuration.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// How hosts are addressed; the worker's own host is its endpoint's.
    pub addressing: Addressing,
    /// Connections that the application may have open at once.
    pub connections_max: u32,
    /// `Settings::msgs_max` of the endpoint.
    pub msgs_max: u32,
    /// Frames that the device has refused for this long are dropped and counted as `device_stuck`.
    pub stuck_after: Duration,
    /// UDP checksums. All hosts of a network must agree.
    pub udp: UdpSums,
    /// Whether delivered messages are reported with the XXH3-64 of their bytes; else with 0.
    /// Summing reads every byte once more.
    pub digest: bool,
}

/// How UDP checksums are computed and verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UdpSums {
    /// Checksums are computed and verified: by the device where it offers that, else by the worker.
    #[default]
    Software,
    /// The worker computes checksums, and verifies those that others send. For hosts that have no
    /// information about the settings of others.
    Offered,
    /// Checksums are sent as 0; those of other hosts are verified. For networks whose links check
    /// every frame anyway; payload that is not copied is then not even read.
    Without,
}
