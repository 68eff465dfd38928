//! The poll-mode data path of Headrace: DPDK made safe, in the units of the protocol core.
//!
//! Modules, each using only those above it:
//!
//! | Folder | Is |
//! |---|---|
//! | [`keys`] | what flows' keys are made of on a real network |
//! | [`neighbour`] | ARP, neighbour discovery and echoes: peers' MACs before a run |
//! | [`eal`] | DPDK's process-wide environment, its memory, its threads, its interrupt thread |
//! | [`buffers`] | pools, move-only mbufs, bursts, rings, attached memory of applications |
//! | [`clock`] | the calibrated TSC as network time, and clocks of devices related to it |
//! | [`device`] | devices by name, set up by what they offer; virtual links; rules that steer |
//! | [`payload`] | bytes of messages: bounded, lent, or patterns; parity of their blocks |
//! | [`app`] | rings between application and worker, and their language |
//! | [`io`] | what a worker asks of a device, and a DPDK queue that does it: paced, timed, shared |
//! | [`security`] | frames sealed and opened by keys that hosts share |
//! | [`telemetry`] | what workers report while they run: counters, histograms, and their readers |
//! | [`worker`] | one endpoint, one device, its applications: the poll loop |
//!
//! Everything is owned: an mbuf returns to its pool, a port is closed and unplugged, a ring is
//! drained and freed, and EAL ends when the last of them is gone. `tests/tidy/words.rs` lists the
//! files that may hold `unsafe`. Needs libdpdk 22.11 or newer; no other crate of ours names
//! `dpdk-sys`.

pub mod app;
pub mod buffers;
pub mod clock;
pub mod device;
pub mod eal;
pub mod io;
pub mod keys;
pub mod neighbour;
pub mod payload;
pub mod security;
pub mod telemetry;
pub mod worker;

pub use app::descriptor::{Completion, Failure, Request};
pub use app::ring::{AppEnd, WorkerEnd, app_ring};
pub use buffers::burst::{BURST, MbufBurst};
pub use buffers::error::MbufError;
pub use buffers::ext_buf::ExtBuf;
pub use buffers::mbuf::{HEADROOM, Mbuf};
pub use buffers::pool::{Pool, PoolConfig};
pub use buffers::region::Region;
pub use buffers::ring::{Ring, RingError, RingRx, RingTx};
pub use buffers::stamp_field::TimestampField;
pub use clock::device_clock::{ClockCounts, DeviceClock};
pub use clock::poll_clock::{Clock, Stage};
pub use clock::tsc::{CALIBRATION_MIN, Calibration, ClockError, DilatedClock, TimeScale};
pub use device::caps::{Caps, FrameLimit, Lost, PortConfig, RxTimes, TxTimes};
pub use device::drivers::Side;
pub use device::error::{PortError, SetupStep};
pub use device::link::{Link, LinkConfig, LinkEnd};
pub use device::name::{DeviceName, DeviceNameError};
pub use device::port::{DevicePort, PortQueue};
pub use device::rules::Rung;
pub use device::socket::SocketError;
pub use device::stats::DeviceStats;
pub use eal::memory::{Memory, MemoryError, MemoryFacts, MemoryMode};
pub use eal::netns::{Netns, NetnsError};
pub use eal::quiet::QuietHold;
pub use eal::{Eal, EalError, EalOptions, Errno, LogLevel, RegisteredThread};
pub use io::enquiry::Enquiry;
pub use io::hand_over::{HandOver, HandOverCounts};
pub use io::in_place::InPlace;
pub use io::pacer::LinkPacer;
pub use io::packet_io::{HandedOver, PacketIo, RxCheck, RxFrame, TxFrame};
pub use io::port_io::PortIo;
pub use io::steering::share;
pub use io::tap::{Captured, Tap, TapReader, tap};
pub use io::upkeep::{IoCounts, Offers, Upkeep};
pub use keys::{keyed, random, sealed};
pub use payload::memory::{AppMemory, MemoryConfig, Received};
pub use payload::message_bytes::{MessageBytes, Pattern};
pub use payload::store::{IncomingBytes, OutgoingBytes};

pub use security::{
    KeyFile, KeyFileError, KeyLog, Keys, Payloads, Security, SharedKeys, WallClock,
};
pub use telemetry::{Meter, MetricsError, MetricsServer, Telemetry, WorkerCounts};
pub use worker::config::{UdpSums, WorkerConfig};
pub use worker::idle::{Idle, IdleMode};
pub use worker::{TurnWork, Worker, application_of};
