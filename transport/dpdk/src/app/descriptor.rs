//! Requests and completions between an application and a worker, and their fixed layout.
//!
//! [`Request`] and [`Completion`] are the values. [`RequestSlot`] and [`CompletionSlot`] are 64
//! bytes each, `repr(C)`, plain integers in the machine's byte order. Every combination of them is
//! either accepted or refused, so that the other end may be another process in future. Memory does
//! not travel in them; it takes a second ring (`ring.rs`). Times are picoseconds of network time,
//! lengths bytes, rates bit/s.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use transport::sched::Label;
use transport::{Bytes, Duration, FailReason, HostId, Instant, Path, PostError, Rate};

use crate::buffers::region::Region;
use crate::payload::memory::Received;
use crate::payload::message_bytes::{MessageBytes, Pattern};

/// A request of an application to its worker.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// Open a flow that the application calls `connection`.
    Open {
        /// Dense from 0, below `WorkerConfig::connections_max`, free to use again once closed.
        connection: u32,
        /// The destination.
        peer: HostId,
        /// The path to the destination.
        path: Path,
        /// The flow's label for the scheduler.
        label: Label,
    },
    /// Send a message. Ends in one [`Completion::Sent`] or [`Completion::Failed`].
    Send {
        /// The number that its `Open` gave the connection.
        connection: u32,
        /// The bytes of the message.
        source: MessageBytes,
        /// Length of the message, bytes.
        len: NonZeroU32,
        /// Handed to the receiver; 0 is none.
        tag: u64,
        /// Comes back with the completion.
        cookie: u64,
    },
    /// Close once all messages are finished. Ends in one [`Completion::Closed`], or in a
    /// [`Completion::Refused`] where no such connection is open.
    Close {
        /// The number that its `Open` gave the connection.
        connection: u32,
    },
}

impl Request {
    /// Opens a flow without a label.
    #[must_use]
    pub const fn open(connection: u32, peer: HostId, path: Path) -> Self {
        Self::Open { connection, peer, path, label: Label::NONE }
    }

    /// Whether memory travels beside the request.
    #[inline]
    pub(crate) fn has_memory(&self) -> bool {
        let Self::Send { source, .. } = self else { return false };
        matches!(source, MessageBytes::Owned(_) | MessageBytes::Region { .. })
    }
}

/// A [`Request`] as the worker finds it in the ring, without its source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Asked {
    Open {
        connection: u32,
        peer: HostId,
        path: Path,
        label: Label,
    },
    Send {
        connection: u32,
        len: NonZeroU32,
        tag: u64,
        cookie: u64,
        /// Whether the source has so many bytes.
        covered: bool,
    },
    Close {
        connection: u32,
    },
}

/// A report of a worker to its application.
#[derive(PartialEq, Debug)]
pub enum Completion {
    /// A message is wholly acknowledged; its memory is the application's again.
    Sent {
        /// The cookie of the request.
        cookie: u64,
        /// The connection of the request.
        connection: u32,
        /// When the last acknowledgement was handled.
        at: Instant,
    },
    /// A message was not, or not as a whole, sent.
    Failed {
        /// The cookie of the request.
        cookie: u64,
        /// The connection of the request.
        connection: u32,
        /// The cause.
        reason: Failure,
        /// When the worker gave the message up.
        at: Instant,
    },
    /// A flow could not be opened, or there was none to close.
    Refused {
        /// The connection of the request.
        connection: u32,
        /// The cause.
        reason: Failure,
        /// When the worker refused the request.
        at: Instant,
    },
    /// A connection is closed and its number is free; its messages may still be under way.
    Closed {
        /// The connection of the request.
        connection: u32,
        /// When.
        at: Instant,
    },
    /// A message has come in, whole; reported once.
    Delivered {
        /// The sender of the message.
        from: HostId,
        /// The sender's tag; 0 is none.
        tag: u64,
        /// XXH3-64 over all bytes.
        checksum: u64,
        /// The bytes; dropping them makes room for others.
        memory: Received,
        /// When its last segment was handled.
        at: Instant,
    },
    /// A message has come in part and never will be whole.
    Aborted {
        /// The sender of the message.
        from: HostId,
        /// When the worker gave the message up.
        at: Instant,
    },
}

/// Why a request came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Failure {
    /// The peer acknowledged nothing through all retries.
    PeerSilent = 1,
    /// An earlier message of this connection failed for this reason: open another connection.
    FlowFailed = 2,
    /// No such connection is open.
    NoSuchConnection = 3,
    /// The connection's number is taken, or not below the limit.
    ConnectionTaken = 4,
    /// A host cannot send to itself.
    SelfSend = 5,
    /// The host has no address.
    NoSuchHost = 6,
    /// The source has fewer bytes than the message.
    ShortSource = 7,
    /// The slot holds no request.
    Malformed = 8,
    /// The peer has forgotten the connection and may have delivered the message.
    PeerForgot = 9,
    /// The peer had no room for the connection or message through all retries.
    PeerFull = 10,
    /// Flows of connections that were closed take all places that this host has for flows: a place
    /// is free when its peer has forgotten the flow.
    FlowTableFull = 11,
}

impl Failure {
    const ALL: [Self; 11] = [
        Self::PeerSilent,
        Self::FlowFailed,
        Self::NoSuchConnection,
        Self::ConnectionTaken,
        Self::SelfSend,
        Self::NoSuchHost,
        Self::ShortSource,
        Self::Malformed,
        Self::PeerForgot,
        Self::PeerFull,
        Self::FlowTableFull,
    ];
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Self {
        match error {
            PostError::FlowFailed => Self::FlowFailed,
            PostError::SelfSend => Self::SelfSend,
            PostError::FlowTableFull => Self::FlowTableFull,
            // A message for which the table has no room never gets here: it waits.
            PostError::NoSuchFlow | PostError::MsgTableFull => Self::NoSuchConnection,
        }
    }
}

impl From<FailReason> for Failure {
    fn from(reason: FailReason) -> Self {
        match reason {
            FailReason::PeerSilent => Self::PeerSilent,
            FailReason::PeerForgot => Self::PeerForgot,
            FailReason::PeerFull => Self::PeerFull,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeerSilent => "the peer acknowledged nothing through all retries",
            Self::PeerFull => "the peer had no room for the connection or message",
            Self::PeerForgot => {
                "the peer has forgotten the connection, and may have delivered the message"
            }
            Self::FlowFailed => "the connection's peer fell silent: open another connection",
            Self::NoSuchConnection => "no such connection is open: open it first",
            Self::ConnectionTaken => {
                "the connection's number is taken or too large: close it, or raise connections_max"
            }
            Self::SelfSend => "a host cannot send to itself",
            Self::NoSuchHost => "the peer has no address: list it in the address table",
            Self::ShortSource => "the source has fewer bytes than the message",
            Self::Malformed => "the descriptor holds no request",
            Self::FlowTableFull => {
                "closed connections still take all places for flows: open it again later"
            }
        })
    }
}

/// Memory of a message, on its way beside the slot.
#[derive(Clone, Debug)]
pub(crate) enum SourceMemory {
    Owned(Arc<[u8]>),
    Region(Arc<Region>),
}

impl SourceMemory {
    /// The memory of `source`, if it has any.
    pub(crate) fn of(source: MessageBytes) -> Option<Self> {
        match source {
            MessageBytes::Owned(memory) => Some(Self::Owned(memory)),
            MessageBytes::Region { region, .. } => Some(Self::Region(region)),
            MessageBytes::Pattern(_) => None,
        }
    }
}

/// A [`Request`] in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RequestSlot {
    kind: u32,
    connection: u32,
    /// Open: the peer. Send: the length.
    number: u32,
    reserved: u32,
    /// Open: base RTT. Send: the cookie.
    first: u64,
    /// Open: line rate. Send: the tag.
    second: u64,
    /// Open: MTU. Send: the pattern's seed, or the first byte in the region.
    third: u64,
    /// Open: collective (high half) and priority. Send: the pattern's tag.
    fourth: u64,
    unused: [u64; 2],
}

/// A [`Completion`] in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CompletionSlot {
    kind: u32,
    connection: u32,
    /// Delivered, Aborted: the sender. Failed, Refused: the reason.
    number: u32,
    /// Delivered: the length.
    len: u32,
    /// Sent, Failed: the cookie. Delivered: the tag.
    first: u64,
    /// Delivered: the checksum.
    second: u64,
    at: u64,
    unused: [u64; 3],
}

const _: () = assert!(size_of::<RequestSlot>() == 64);
const _: () = assert!(size_of::<CompletionSlot>() == 64);

const OPEN: u32 = 1;
const SEND_OWNED: u32 = 2;
const SEND_PATTERN: u32 = 3;
const CLOSE: u32 = 4;
const SEND_REGION: u32 = 5;

const SENT: u32 = 1;
const FAILED: u32 = 2;
const REFUSED: u32 = 3;
const DELIVERED: u32 = 4;
const ABORTED: u32 = 5;
const CLOSED: u32 = 6;

impl RequestSlot {
    /// The slot of `request`; memory stays behind.
    #[inline]
    pub(crate) fn of(request: &Request) -> Self {
        match *request {
            Request::Open { connection, peer, path, label } => Self {
                kind: OPEN,
                connection,
                number: peer.0,
                first: path.base_rtt.as_ps(),
                second: path.line_rate.as_bps(),
                third: path.mtu.0,
                fourth: u64::from(label.collective) << 32 | u64::from(label.prio),
                ..Self::default()
            },
            Request::Send { connection, ref source, len, tag, cookie } => {
                let (kind, third, fourth) = match source {
                    MessageBytes::Owned(_) => (SEND_OWNED, 0, 0),
                    MessageBytes::Region { offset, .. } => (SEND_REGION, *offset, 0),
                    MessageBytes::Pattern(pattern) => (SEND_PATTERN, pattern.seed, pattern.tag),
                };
                let number = len.get();
                let (first, second) = (cookie, tag);
                Self { kind, connection, number, first, second, third, fourth, ..Self::default() }
            }
            Request::Close { connection } => Self { kind: CLOSE, connection, ..Self::default() },
        }
    }

    /// Whether memory belongs to the descriptor.
    pub(crate) fn has_memory(&self) -> bool {
        matches!(self.kind, SEND_OWNED | SEND_REGION)
    }

    /// The request, with a look at the memory that belongs to it; `None` when the slot holds none.
    #[inline]
    pub(crate) fn read(&self, memory: Option<&SourceMemory>) -> Option<Asked> {
        let connection = self.connection;
        let holds = |bytes: usize, first: u64| {
            first.checked_add(u64::from(self.number)).is_some_and(|end| end <= bytes as u64)
        };
        let covered = match (self.kind, memory) {
            (OPEN, _) => {
                let path = Path {
                    base_rtt: Duration::from_ps(self.first),
                    line_rate: Rate::from_bps(self.second),
                    mtu: Bytes(self.third),
                };
                let [collective, prio] = [self.fourth >> 32, self.fourth & u64::from(u32::MAX)]
                    .map(|half| u32::try_from(half).unwrap_or(u32::MAX));
                let label = Label { collective, prio };
                return Some(Asked::Open { connection, peer: HostId(self.number), path, label });
            }
            (CLOSE, _) => return Some(Asked::Close { connection }),
            (SEND_OWNED, Some(SourceMemory::Owned(memory))) => holds(memory.len(), 0),
            (SEND_REGION, Some(SourceMemory::Region(region))) => holds(region.len(), self.third),
            (SEND_PATTERN, None) => true,
            _ => return None,
        };
        let len = NonZeroU32::new(self.number)?;
        Some(Asked::Send { connection, len, tag: self.second, cookie: self.first, covered })
    }

    /// The source of a message, with the memory that belongs to the slot.
    #[inline]
    pub(crate) fn source(&self, memory: Option<SourceMemory>) -> Option<MessageBytes> {
        match (self.kind, memory) {
            (SEND_OWNED, Some(SourceMemory::Owned(memory))) => Some(MessageBytes::Owned(memory)),
            (SEND_REGION, Some(SourceMemory::Region(region))) => {
                Some(MessageBytes::Region { region, offset: self.third })
            }
            (SEND_PATTERN, None) => {
                Some(MessageBytes::Pattern(Pattern { seed: self.third, tag: self.fourth }))
            }
            _ => None,
        }
    }

    /// Connection and cookie for the answer to a slot that holds no request.
    pub(crate) fn names(&self) -> (u32, u64) {
        (self.connection, self.first)
    }
}

impl CompletionSlot {
    /// The slot of `completion`; memory stays behind.
    #[inline]
    pub(crate) fn of(completion: &Completion) -> Self {
        match *completion {
            Completion::Sent { cookie, connection, at } => {
                Self { kind: SENT, connection, first: cookie, at: at.as_ps(), ..Self::default() }
            }
            Completion::Failed { cookie, connection, reason, at } => Self {
                kind: FAILED,
                connection,
                number: reason as u32,
                first: cookie,
                at: at.as_ps(),
                ..Self::default()
            },
            Completion::Refused { connection, reason, at } => Self {
                kind: REFUSED,
                connection,
                number: reason as u32,
                at: at.as_ps(),
                ..Self::default()
            },
            Completion::Closed { connection, at } => {
                Self { kind: CLOSED, connection, at: at.as_ps(), ..Self::default() }
            }
            Completion::Delivered { from, tag, checksum, ref memory, at } => Self {
                kind: DELIVERED,
                number: from.0,
                len: u32::try_from(memory.len()).unwrap_or(u32::MAX),
                first: tag,
                second: checksum,
                at: at.as_ps(),
                ..Self::default()
            },
            Completion::Aborted { from, at } => {
                Self { kind: ABORTED, number: from.0, at: at.as_ps(), ..Self::default() }
            }
        }
    }

    /// Whether memory belongs to the descriptor.
    pub(crate) fn has_memory(&self) -> bool {
        self.kind == DELIVERED
    }

    /// The completion, with the memory that belongs to it; `None` when the slot holds none.
    #[inline]
    pub(crate) fn read(&self, memory: Option<Received>) -> Option<Completion> {
        let (connection, cookie) = (self.connection, self.first);
        let at = Instant::from_ps(self.at);
        let reason = || Failure::ALL.into_iter().find(|reason| *reason as u32 == self.number);
        Some(match self.kind {
            SENT => Completion::Sent { cookie, connection, at },
            FAILED => Completion::Failed { cookie, connection, reason: reason()?, at },
            REFUSED => Completion::Refused { connection, reason: reason()?, at },
            CLOSED => Completion::Closed { connection, at },
            DELIVERED => Completion::Delivered {
                from: HostId(self.number),
                tag: self.first,
                checksum: self.second,
                memory: memory?,
                at,
            },
            ABORTED => Completion::Aborted { from: HostId(self.number), at },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Asked {
        /// The request again, of which `source` was the source.
        pub(crate) fn with(self, source: Option<MessageBytes>) -> Request {
            match self {
                Self::Open { connection, peer, path, label } => {
                    Request::Open { connection, peer, path, label }
                }
                Self::Send { connection, len, tag, cookie, .. } => {
                    let source = source.unwrap();
                    Request::Send { connection, source, len, tag, cookie }
                }
                Self::Close { connection } => Request::Close { connection },
            }
        }
    }

    #[test]
    fn every_request_survives_its_slot() {
        let path = Path {
            base_rtt: Duration::from_us(12),
            line_rate: Rate::from_gbps(100),
            mtu: Bytes(4160),
        };
        let send = |source| Request::Send {
            connection: 3,
            source,
            len: NonZeroU32::new(6).unwrap(),
            tag: u64::MAX,
            cookie: 1 << 63,
        };
        let memory: Arc<[u8]> = Arc::from(&b"abcdef"[..]);
        for request in [
            Request::Open {
                connection: 1,
                peer: HostId(9),
                path,
                label: Label { collective: u32::MAX, prio: 7 },
            },
            send(MessageBytes::Owned(memory.clone())),
            send(MessageBytes::Pattern(Pattern { seed: 4, tag: 5 })),
            Request::Close { connection: u32::MAX },
        ] {
            let slot = RequestSlot::of(&request);
            assert_eq!(slot.has_memory(), request.has_memory());
            let memory = slot.has_memory().then(|| SourceMemory::Owned(memory.clone()));
            let asked = slot.read(memory.as_ref()).unwrap();
            assert_eq!(asked.with(slot.source(memory)), request);
        }
    }

    #[test]
    fn a_message_longer_than_its_source_is_seen() {
        let memory = SourceMemory::Owned(Arc::from(&b"abcdef"[..]));
        for (len, fits) in [(1, true), (6, true), (7, false), (u32::MAX, false)] {
            let slot = RequestSlot { kind: SEND_OWNED, number: len, ..Default::default() };
            let asked = slot.read(Some(&memory));
            assert!(matches!(asked, Some(Asked::Send { covered, .. }) if covered == fits), "{len}");
        }
        // Memory of another kind than the slot names.
        let slot = RequestSlot { kind: SEND_REGION, number: 1, ..Default::default() };
        assert_eq!((slot.read(Some(&memory)), slot.source(Some(memory))), (None, None));
    }

    #[test]
    fn slots_that_say_nothing_known_are_refused() {
        for kind in [0, 6, u32::MAX] {
            assert_eq!(RequestSlot { kind, number: 1, ..Default::default() }.read(None), None);
        }
        for kind in [SEND_OWNED, SEND_PATTERN, SEND_REGION] {
            assert_eq!(RequestSlot { kind, ..Default::default() }.read(None), None);
        }
        for kind in [0, FAILED, REFUSED, DELIVERED, 7] {
            assert_eq!(CompletionSlot { kind, ..Default::default() }.read(None), None);
        }
    }
}
