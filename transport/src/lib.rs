//! The protocol core of Headrace: plain data in, plain data out.
//!
//! The core has no clock, no bytes, no device and no source of random numbers. A driver passes in
//! time, parsed headers and a seed, and gets segments to send, places for bytes, and events. So one
//! core runs behind a NIC, in a simulator without any payload, and in a replay of either.
//!
//! ```text
//!                     post_send             poll_event
//!                         |                     ^
//!   Endpoint   flows of one (host, core): slabs, timers, scheduler (sched)
//!      |
//!   flow       one flow: messages and segments (tx, rx), what is lost (recovery), what is whole
//!      |
//!   cc, lb     pure state machines: how much may be in flight, which path is next
//!      |
//!   wire       headers <-> octets; nothing else touches byte order
//!      |
//!   units, time, rng, timer, slab: newtypes and containers
//! ```
//!
//! Arrows go down only, and policies see neither an endpoint nor each other. A new policy is one
//! file in the folder of its kind and one line in the `registry!` of that folder.
//!
//! Two endpoints, one message, a perfect wire:
//!
//! ```
//! use core::num::NonZeroU32;
//! use transport::{
//!     BURST, Burst, Config, Duration, Endpoint, Event, HostId, Instant, MsgSpec, Placement, Rng,
//!     RxSegment, Settings,
//! };
//!
//! let config = Config::new(Settings::default())?;
//! let mut hosts = [0, 1].map(|id| Endpoint::new(&config, HostId(id), Rng::new(7)));
//! let mut now = Instant::ZERO;
//! let flow = hosts[0].open_flow(HostId(1), config.default_path())?;
//! let len = NonZeroU32::new(10_000).expect("not zero");
//! let msg = hosts[0].post_send(now, MsgSpec { flow, len, tag: 42 })?;
//!
//! let mut events = Vec::new();
//! while !events.contains(&Event::Sent { msg }) {
//!     for from in [0, 1] {
//!         let mut burst = Burst::with_limit(BURST);
//!         hosts[from].poll_transmit(now, &mut burst);
//!         now += Duration::from_us(3);
//!         for sent in burst.iter() {
//!             let arrived = RxSegment {
//!                 hdr: sent.hdr,
//!                 at: now,
//!                 from: hosts[from].host(),
//!                 payload_len: sent.payload.len,
//!                 ce: false,
//!                 trimmed: false,
//!             };
//!             let mut place = [Placement::Release];
//!             hosts[1 - from].handle_burst(now, &[arrived], &mut place);
//!         }
//!         events.extend(hosts.iter_mut().flat_map(|host| host.poll_event()));
//!     }
//! }
//! assert!(matches!(events[0], Event::Delivered { len: 10_000, tag: 42, .. }));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cc;
pub mod config;
pub mod ec;
pub mod endpoint;
pub mod event;
mod flow;
pub mod histogram;
pub mod lb;
pub mod number;
pub mod params;
pub mod path;
pub mod rc;
pub mod record;
pub mod registry;
pub mod rng;
pub mod sched;
pub mod segment;
pub mod slab;
pub mod stats;
mod telemetry;
pub mod time;
pub mod timer;
pub mod token_bucket;
pub mod trace;
pub mod units;
pub mod wire;

pub use config::{Config, ConfigError, FarSettings, LossSettings, Policies, Settings, ShareMax};
pub use endpoint::error::PostError;
pub use endpoint::{ByKey, Endpoint, KeyHash, MsgSpec};
pub use event::{Event, FailReason};
pub use flow::tx::{Standing, Wait};
pub use path::Path;
pub use rng::Rng;
pub use segment::{BURST, Burst, Coding, PayloadRef, Placement, Restore, RxSegment, TxSegment};
pub use stats::{DropReason, Stats};
pub use time::{Duration, Instant, Rate};
pub use units::{Bytes, EntropyValue, FlowId, HostId, Key, MsgId, MsgNo, Psn};
