//! The `vdev` world: the same endpoints and the same switches, in real time over DPDK virtual
//! devices.
//!
//! ```text
//!   Control <--app rings--> Worker (endpoint) <--Port--> link <--LinkEnd--> SoftSwitch (Network)
//!   conductor, checksums    threads of Pollers              rings, memif, TAP  emulated switches
//! ```
//!
//! Soft switch and control share the calling thread; the hosts are spread over the others. Network
//! time is the TSC, slowed down so that this machine keeps up (`time_scale`). The lateness of polls
//! is measured, and decides whether the run is valid (`lateness`). Payload is real, and every
//! message's checksum is verified.
//!
//! One run a process: DPDK cannot start twice. A caller that wants more holds an `Eal` of its own.

mod links;
mod result;
mod run;
mod soft_switch;
mod stepped;
mod time_scale;

pub use run::{run, run_observed};
pub use stepped::{DeliveredFrame, SteppedSwitch};
pub use time_scale::expected;
