//! Two processes, each a host with a device of its own: throughput and round trips between them.
//!
//! ```text
//!   application - Worker - device  <- memif, veth, wire ->  device - Worker - application
//!   client                                                                   server
//! ```
//!
//! The server needs a device and an address. The client names everything else, congestion control
//! included, when it opens a *session* (`protocol.rs`). Both build an endpoint for only that
//! session. So no state of one session is left in the next, and a client that is killed leaves
//! nothing to the client that follows it. An application and its worker take turns on one thread,
//! as a library that runs to completion. Times are real; bytes are message bytes.
//!
//! | File | Is |
//! |---|---|
//! | `protocol` | messages about sessions between client and server, and their tags |
//! | `terms` | an endpoint's configuration from what the client wants |
//! | `setup` | the settings of one process |
//! | `host` | EAL, device, worker and application's ring of one process |
//! | `session` | the state that both ends keep of a session |
//! | `stream` | the messages of a direction: posted, counted, verified |
//! | `vitals` | measurements of an end: round trips, windows, processor time |
//! | `server`, `client` | the two ends of a session |
//!
//! This module prints nothing: a [`SessionMonitor`] gets its events.

mod client;
mod error;
mod gauge;
mod host;
mod protocol;
mod server;
mod session;
mod setup;
mod stream;
mod terms;
#[cfg(test)]
mod tests;
mod vitals;

pub use client::{ClientOptions, SessionOutcome, run};
pub use error::PeerError;
pub use protocol::Totals;
pub use server::{Served, ServerOptions, serve};
pub use setup::ProcessSetup;
pub use terms::{Job, Policies, SessionTerms};
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
    /// Packets have come to another UDP port than this, the port of this host; reported once.
    OtherPort(u16),
    /// The file of keys has changed. Its keys are in use. With a reason, they are not, and the
    /// former keys still are.
    Keys(Option<&'a str>),
    /// A session begins with this host.
    Begins(HostId, &'a SessionTerms),
    /// Traffic since the last event of this kind.
    Interval(Interval),
    /// A session has ended, and why if not as agreed.
    Ends(HostId, Option<&'a str>),
}

/// The traffic of an interval of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// From the session's start to the end of the interval.
    pub until: Duration,
    /// The length of the interval.
    pub length: Duration,
    /// Bytes of messages wholly acknowledged.
    pub sent: u64,
    /// Bytes of messages delivered.
    pub received: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Round trips of segments from here; `None` where there were none.
    pub rtt: Option<RoundTrips>,
    /// Mean window of a flow from here that had something under way, bytes; `None` where none had.
    pub cwnd_bytes: Option<u64>,
}

/// Takes the events of sessions, and may end them.
pub trait SessionMonitor {
    /// Whether the session is to end as soon as possible.
    fn wants_end(&mut self) -> bool;
    /// Takes one event of a session.
    fn on_event(&mut self, event: &SessionEvent<'_>);
}
