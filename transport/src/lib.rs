//! The protocol core of Headrace: plain data in, plain data out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cc;
pub mod config;
pub mod endpoint;
pub mod event;
mod flow;
pub mod lb;
pub mod params;
pub mod path;
pub mod record;
mod registry;
pub mod rng;
pub mod sched;
pub mod segment;
pub mod slab;
pub mod stats;
pub mod time;
pub mod timer;
pub mod trace;
pub mod units;
pub mod wire;

pub use config::{Config, ConfigError, LossSettings, Settings};
pub use endpoint::error::PostError;
pub use endpoint::{Endpoint, MsgSpec};
pub use event::{Event, FailReason};
pub use flow::tx::Wait;
pub use path::Path;
pub use rng::Rng;
pub use segment::{BURST, Burst, PayloadRef, Placement, RxSegment, TxSegment};
pub use stats::{DropReason, Stats};
pub use time::{Duration, Instant, Rate};
pub use units::{Bytes, EntropyValue, FlowId, HostId, MsgId, MsgNo, Psn};
