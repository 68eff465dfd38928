//! The protocol core of Headrace: plain data in, plain data out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cc;
pub mod lb;
pub mod params;
mod registry;
pub mod rng;
pub mod slab;
pub mod time;
pub mod timer;
pub mod units;
pub mod wire;

pub use rng::Rng;
pub use time::{Duration, Instant, Rate};
pub use units::{Bytes, EntropyValue, FlowId, HostId, MsgId, Psn};
