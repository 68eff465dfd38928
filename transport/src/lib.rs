//! The protocol core of Headrace: plain data in, plain data out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod rng;
pub mod time;
pub mod units;

pub use rng::Rng;
pub use time::{Duration, Instant, Rate};
pub use units::{Bytes, EntropyValue, FlowId, HostId, MsgId, Psn};
