//! The poll-mode data path of Headrace: DPDK made safe, in the units of the protocol core.
//!
//! | Module | Is |
//! |---|---|
//! | [`memory`] | what memory the machine offers, and the choice of hugepages or not |
//! | [`eal`] | DPDK's process-wide environment, threads as lcores |
//! | [`mbuf`], [`burst`] | packet buffers: pools, move-only mbufs, bursts of 32, attached memory |
//! | [`nic`], [`caps`], [`port_error`] | devices set up by what they offer, and rings of mbufs |
//! | [`link`](mod@link), [`netns`] | virtual links of four kinds, host to soft switch |
//! | [`clock`] | the calibrated TSC as network time, dilated on demand |
//!
//! Everything is owned: an mbuf returns to its pool, a port is closed and unplugged, a ring is
//! drained and freed, and EAL ends when the last of them is gone. `unsafe` is in `eal`, `mbuf` and
//! `nic` only. Needs libdpdk 22.11 or newer; no other crate of ours names `dpdk-sys`.

pub mod burst;
pub mod caps;
pub mod clock;
pub mod eal;
pub mod link;
pub mod mbuf;
pub mod memory;
pub mod netns;
pub mod nic;
pub mod port_error;

pub use burst::{BURST, MbufBurst};
pub use caps::{Caps, FrameLimit, PortConfig};
pub use clock::{Calibration, DilatedClock, TimeScale};
pub use eal::{Eal, EalError, EalOptions, Errno, LogLevel, RegisteredThread};
pub use link::{Link, LinkConfig, LinkEnd};
pub use mbuf::{Checksums, ExtBuf, HEADROOM, Mbuf, MbufError, Pool, PoolConfig, TimestampField};
pub use memory::{Memory, MemoryError, MemoryFacts, MemoryMode};
pub use netns::Netns;
pub use nic::{Port, PortQueue, PortStats, Ring, RingRx, RingTx};
pub use port_error::{PortError, Step};
