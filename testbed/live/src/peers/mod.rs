//! Two processes, each a host with a device of its own: throughput and round trips between them.
//!
//! ```text
//!   application - Worker - device  <- memif, veth, wire ->  device - Worker - application
//!   client                                                                   server
//! ```
//!
//! The server needs a device and an address. The client names everything else, also congestion
//! control, when it opens a *session* (`protocol.rs`). Both build an endpoint for the session
//! alone, so no state of one session is left in the next, and a client that is killed leaves
//! nothing to the client that follows it. An application and its worker take turns on one thread,
//! as a library that runs to completion. Times are real; bytes are message bytes.
//!
//! | File | Is |
//! |---|---|
//! | `protocol` | what the two say to each other, and the tags of messages |
//! | `terms` | an endpoint's configuration from what the client wants |
//! | `host` | EAL, device, worker and application's ring of one process |
//! | `session` | what both ends keep of one |
//! | `stream` | the messages of a direction: posted, counted, verified |
//! | `vitals` | what an end sees of its traffic: round trips, windows, processor time |
//! | `server`, `client` | the two ends of a session |
//!
//! It judges nothing and prints nothing: a [`SessionMonitor`] gets its events.

mod client;
mod error;
mod host;
mod protocol;
mod server;
mod session;
mod stream;
mod terms;
mod vitals;

pub use client::{ClientOptions, Outcome, run};
pub use error::PeerError;
pub use host::HostSetup;
pub use protocol::{Job, Totals};
pub use server::{Served, ServerOptions, serve};
pub use terms::{Policies, Terms};
pub use transport_dpdk::{DeviceName, DeviceNameError, MemoryMode, SharedKeys, Side};
pub use vitals::{RoundTrips, Vitals};

use experiments::measure::Counters;
use transport::{Duration, HostId};

/// An event of a session while it goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEvent<'a> {
    /// The device is open; the text describes it in one line.
    Opened(&'a str),
    /// The link went down, or came up again.
    Link(bool),
    /// Packets have come to another UDP port than this one, at which we listen; reported once.
    OtherPort(u16),
    /// The file of keys has changed and is in use, or cannot be and the keys before it are.
    Keys(Option<&'a str>),
    /// A session begins with this host.
    Begins(HostId, &'a Terms),
    /// Traffic since the last event of this kind.
    Interval(Interval),
    /// A session has ended, and why if not as agreed.
    Ends(HostId, Option<&'a str>),
}

/// Traffic of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// From the session's start to the end of this time.
    pub until: Duration,
    /// The length of the session.
    pub length: Duration,
    /// Bytes of messages wholly acknowledged.
    pub sent: u64,
    /// Bytes of messages delivered.
    pub received: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Round trips of segments from here; `None` where there were none.
    pub rtt: Option<RoundTrips>,
    /// Mean window of a flow from here that had something under way, bytes; `None` where none had.
    pub cwnd_bytes: Option<u64>,
}

/// Takes the events of sessions, and may end them.
pub trait SessionMonitor {
    /// Whether to end as soon as may be.
    fn wants_end(&mut self) -> bool;
    /// Something has happened.
    fn on_event(&mut self, event: &SessionEvent<'_>);
}
