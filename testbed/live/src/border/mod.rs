//! MLCC's border switch as a process: the program `dci` between real devices.
//!
//! ```text
//!   LAN devices -> Bridge -> Network: the switch with its program -> WAN device
//!               <-  mbufs    paced queues, notes, emulated distance <-
//! ```
//!
//! Frames between known hosts go through the program that also runs in `sim` and `vdev`; other
//! frames, such as those that ask for addresses, are passed on as they are. A delay towards the
//! other site can be emulated. Hosts get telemetry of switches inside the site only if these
//! switches write it. One thread polls all devices.

mod bridge;
mod network;
mod run;
mod stations;

pub(crate) use bridge::Bridge;
pub use network::Marks;
pub(crate) use run::between;
pub use run::{BorderError, BorderMonitor, BorderSetup, Passed, run};
