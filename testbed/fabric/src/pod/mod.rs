//! Zeropod's pod scheduler: which host may send to which other in which epoch, and by which links.
//! Source: \[zeropod\] IV-A.
//!
//! Plain data in, plain data out: no clock, no device, no octets. A driver hands in the requests of
//! hosts and Cores, and takes out their grants; random numbers come from a seed. Nothing is
//! allocated after `new`.
//!
//! - [`Demands`] are the three matrices, with priorities and ages.
//! - [`IdlePorts`] are the idle ports and links of an epoch.
//! - A [`Matcher`](matcher::Matcher) turns both into [`Grant`]s.
//! - The [`PodDecider`] keeps the demands of a pod up to date by requests, decides every epoch,
//!   and answers.

mod chance;
mod demands;
mod kernel;
mod ladder;
pub mod load;
pub mod matcher;
mod ops;
mod ports;
pub mod scheduler;
mod shape;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use chance::Chance;
pub use demands::{DemandOrder, Demands, To};
pub use kernel::Kernel;
pub use ladder::Ladder;
pub use ports::{Grant, IdlePorts};
pub use scheduler::PodDecider;
pub use shape::{OutOfRange, Shape};
