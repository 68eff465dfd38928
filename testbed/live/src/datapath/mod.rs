//! The cost of the data path: one worker on one core, its device, and a peer that answers.
//!
//! ```text
//!   application <--ring--> Worker (SMaRTT) <--PortIo--> device <--> Peer: parses, acknowledges
//!   |------------- measured, a stage at a time ---------------|    |-- timed apart --|
//! ```
//!
//! All parts take turns on one thread, so that no scheduler is between the two ends. The time-stamp
//! counter is read between the turns, so the peer's cost is measured and is not part of a segment's
//! cost. Every segment is acknowledged by a frame that the peer's endpoint has decided on; it is
//! built in an mbuf, travels, is parsed and reaches the controller.
//!
//! | Device | A sent frame |
//! |---|---|
//! | `net_null` | is freed by the driver; the peer is shown its headers before |
//! | `net_ring` | is passed by pointer to the peer, which frees it; that counts as the device's |
//! | `net_memif` | is copied by the driver into shared memory, and out of it at the peer's |
//!
//! Costs are nanoseconds a segment, of network time at scale 1. This code judges nothing and prints
//! nothing.

mod border;
mod link;
mod peer;
mod pod;
mod policies;
mod round_trip;
mod run;
mod sealing;
mod stage_clock;
mod windows;

pub use border::{ACK_EVERY, BorderCase, BorderCost};
pub use pod::{PodCase, PodCost, PodWaiting};
pub use policies::PolicyCosts;
pub use round_trip::RoundTrip;
pub use run::{Bench, BenchError, Case, Cost, MESSAGE};
pub use sealing::{SealCost, sealing};
pub use transport_dpdk::Payloads;

/// The devices that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A device that drops the frames that it is given.
    Null,
    /// Passes pointers.
    Ring,
    /// Copies through shared memory.
    Memif,
}

impl DeviceKind {
    /// All devices.
    pub const ALL: [Self; 3] = [Self::Null, Self::Ring, Self::Memif];

    /// The name of the driver.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "net_null",
            Self::Ring => "net_ring",
            Self::Memif => "net_memif",
        }
    }

    /// The device called `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.name() == name)
    }
}
