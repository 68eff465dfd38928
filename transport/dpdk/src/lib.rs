//! The poll-mode data path of Headrace: DPDK made safe, in the units of the protocol core.
//!
//! | Module | Is |
//! |---|---|
//! | [`memory`] | what memory the machine offers, and the choice of hugepages or not |
//! | [`eal`] | DPDK's process-wide environment, threads as lcores |
//! | [`mbuf`], [`burst`], [`ext_buf`] | buffers: pools, move-only mbufs, bursts, attached memory |
//! | [`nic`], [`caps`], [`port_error`] | devices set up by what they offer, and rings of mbufs |
//! | [`port_stats`] | what a device counts of itself |
//! | [`device`], [`meeting`] | devices by the names that people give them; who waits for whom |
//! | [`interrupts`] | DPDK's interrupt thread held off while a worker polls |
//! | [`neighbour`], [`enquiry`] | ARP, neighbour discovery and echoes: peers' MACs before a run |
//! | [`link`](mod@link), [`netns`] | virtual links of four kinds, host to soft switch |
//! | [`boundary`] | what a worker asks of its surroundings: clock, device, store of bytes |
//! | [`worker`] | one endpoint, one device, its applications: the poll loop |
//! | [`mod@app_ring`], [`descriptor`] | rings between application and worker, their language |
//! | [`payload`], [`region`], [`source`] | application memory: bounded, lent, or patterns |
//! | [`port_io`], [`pacer`] | a DPDK queue as a worker's device, paced to its emulated link |
//! | [`steering`], [`rules`] | several workers at one device, and what that does to help |
//! | [`idle`] | what a poller does when there is nothing to do |
//! | [`tap`](mod@tap) | copies of frames, on their way to a capture |
//! | [`telemetry`] | what workers tell while they run: counters, histograms, and who may ask |
//! | [`clock`] | the calibrated TSC as network time, dilated on demand |
//! | [`clock_fit`] | what a device's clock shows, in the driver's time |
//! | [`timed`] | frames that a device sends at their time |
//! | [`device_clock`] | a device's clock at one queue, and what it makes of stamps |
//!
//! Everything is owned: an mbuf returns to its pool, a port is closed and unplugged, a ring is
//! drained and freed, and EAL ends when the last of them is gone. `unsafe` is in `eal`, `mbuf`,
//! `ext_buf`, `extmem`, `ethdev`, `nic`, `ring`, `stamp_field` and `telemetry/rte.rs` only, and in
//! one call of `payload`. Needs libdpdk 22.11 or newer; no other crate of ours names `dpdk-sys`.

pub mod app_ring;
pub mod boundary;
pub mod burst;
pub mod caps;
pub mod clock;
pub mod clock_fit;
mod coding;
mod connections;
pub mod descriptor;
pub mod device;
pub mod device_clock;
pub mod eal;
pub mod enquiry;
mod ethdev;
pub mod ext_buf;
mod extmem;
pub mod idle;
pub mod interrupts;
pub mod link;
pub mod mbuf;
mod mbuf_error;
pub mod meeting;
pub mod memory;
pub mod neighbour;
pub mod netns;
pub mod nic;
mod outbox;
pub mod pacer;
pub mod payload;
pub mod port_error;
pub mod port_io;
pub mod port_stats;
pub mod region;
pub mod ring;
pub mod rules;
pub mod source;
mod spare;
pub mod stamp_field;
pub mod steering;
pub mod tap;
pub mod telemetry;
mod templates;
pub mod timed;
pub mod worker;

pub use app_ring::{AppEnd, WorkerEnd, app_ring};
pub use boundary::{Clock, IoCounts, PacketIo, PayloadStore, RxCheck, RxFrame, Stage};
pub use burst::{BURST, MbufBurst};
pub use caps::{Caps, FrameLimit, Lost, PortConfig, RxTimes, TxTimes};
pub use clock::{Calibration, DilatedClock, TimeScale};
pub use descriptor::{Completion, Failure, Request};
pub use device::{DeviceName, DeviceNameError};
pub use device_clock::{ClockCounts, DeviceClock};
pub use eal::{Eal, EalError, EalOptions, Errno, LogLevel, RegisteredThread};
pub use enquiry::Enquiry;
pub use ext_buf::ExtBuf;
pub use idle::{Idle, IdleMode};
pub use interrupts::InterruptHold;
pub use link::{Link, LinkConfig, LinkEnd};
pub use mbuf::{HEADROOM, Mbuf, MbufError, Pool, PoolConfig};
pub use meeting::{Side, SocketError};
pub use memory::{Memory, MemoryError, MemoryFacts, MemoryMode};
pub use netns::Netns;
pub use nic::{Port, PortQueue};
pub use pacer::LinkPacer;
pub use payload::{AppMemory, MemoryConfig, Received};
pub use port_error::{PortError, Step};
pub use port_io::PortIo;
pub use port_stats::PortStats;
pub use region::Region;
pub use ring::{Ring, RingRx, RingTx};
pub use rules::Rung;
pub use source::{Pattern, Source};
pub use stamp_field::TimestampField;
pub use steering::{HandOver, HandOverCounts, share};
pub use tap::{Captured, Tap, TapReader, tap};
pub use telemetry::{Meter, MetricsError, MetricsServer, Telemetry};
pub use worker::{Counts, Progress, UdpSums, Worker, WorkerConfig, application_of};
