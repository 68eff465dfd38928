//! One application: connections, messages, requests and responses over the rings of its worker.
//!
//! The tag of a message has three parts on the wire. The lower 46 bits are the application's tag,
//! or the number of a request. The two bits above say whether it is a message, a request or a
//! response. The upper 16 bits belong to the worker (`application_of`). A response travels on a
//! connection that the answering side opens when it first needs one. The limits of the stack bound
//! all tables.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;

use transport::sched::Label;
use transport::{HostId, Instant, Path};
use transport_dpdk::{AppEnd, Completion, Failure, MessageBytes, Received, Region, Request};

use crate::stack::Attached;

/// Why a call did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The ring or a table is full: poll, and try again.
    Again,
    /// An argument has a value that is not allowed.
    Invalid,
    /// No such connection is open.
    NoConnection,
    /// The application itself has opened as many connections as the limit allows.
    TooMany,
    /// No request of that cookie waits for its response.
    NoRequest,
    /// The stack has stopped.
    Gone,
}

/// An event for the application.
#[derive(Debug)]
pub(crate) enum Event {
    Sent { connection: u32, cookie: u64, at: Instant },
    Failed { connection: u32, cookie: u64, reason: Failure, at: Instant },
    Refused { connection: u32, reason: Failure, at: Instant },
    Message { peer: HostId, tag: u64, memory: Received, at: Instant },
    Request { peer: HostId, token: u64, memory: Received, at: Instant },
    Response { peer: HostId, cookie: u64, memory: Received, at: Instant },
    Aborted { peer: HostId, at: Instant },
}

/// The bytes of a message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageSource<'a> {
    /// Bytes that are copied.
    Copied(&'a [u8]),
    /// Bytes that devices may read in place: the region, first byte and length.
    InRegion(&'a Arc<Region>, u64, u32),
}

impl MessageSource<'_> {
    /// The number of bytes; `None` for more than a message can have, and for bytes that are not
    /// all in their region.
    fn len(self) -> Option<u32> {
        match self {
            Self::Copied(bytes) => u32::try_from(bytes.len()).ok(),
            Self::InRegion(region, first, len) => {
                let end = first.checked_add(len.into())?;
                (end <= region.len() as u64).then_some(len)
            }
        }
    }

    fn source(self) -> MessageBytes {
        match self {
            Self::Copied(bytes) => MessageBytes::Owned(Arc::from(bytes)),
            Self::InRegion(region, offset, _) => {
                MessageBytes::Region { region: Arc::clone(region), offset }
            }
        }
    }
}

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Message = 0,
    Request = 1,
    Response = 2,
}

/// A message that is under way.
#[derive(Clone, Copy, Debug)]
struct MessageUnderWay {
    cookie: u64,
    connection: u32,
    /// The destination and the number of a request; `None` for other messages.
    asks: Option<(HostId, u64)>,
}

/// A connection. Its number is taken until the worker has answered every request that names it.
#[derive(Clone, Copy, Debug)]
struct Connection {
    peer: HostId,
    /// Whether the library opened the connection itself, for responses.
    own: bool,
    phase: Phase,
    /// Why the worker has refused to open it.
    refused: Option<Failure>,
    /// Messages under way.
    outstanding: u32,
    /// How many messages the application had posted when it last posted one here.
    used: u64,
}

/// ```text
/// Open -> Failed -> Closing -> Over
///    \------\---------^        ^ also from Open: refused
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Carries messages.
    Open,
    /// The peer is silent: messages fail until the connection is closed.
    Failed,
    /// The worker has been asked to close it and has not answered.
    Closing,
    /// Refused or closed; messages may be under way.
    Over,
}

/// One application.
#[derive(Debug)]
pub(crate) struct App {
    ring: AppEnd,
    host: HostId,
    path: Path,
    /// Connections by their number; the length is the limit.
    connections: Vec<Option<Connection>>,
    /// Messages by the cookie that the worker sees.
    outgoing: Vec<Option<MessageUnderWay>>,
    free: Vec<usize>,
    /// Requests without a response: their cookies.
    asked: BTreeMap<(HostId, u64), u64>,
    next_request: u64,
    /// Connections for responses that are to be closed, because their peers are silent.
    closes: VecDeque<u32>,
    /// Messages posted so far.
    posted: u64,
}

/// Bits of a tag that are the application's.
pub(crate) const TAG_BITS: u32 = 46;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

impl App {
    /// An application at `attached`, with so many connections and messages at most.
    pub(crate) fn new(attached: Attached, connections: u32, messages: u32) -> Self {
        let Attached { ring, host, path } = attached;
        let messages = usize::try_from(messages).unwrap_or(usize::MAX);
        Self {
            ring,
            host,
            path,
            connections: (0..connections).map(|_| None).collect(),
            outgoing: vec![None; messages],
            free: (0..messages).rev().collect(),
            asked: BTreeMap::new(),
            next_request: 1,
            closes: VecDeque::new(),
            posted: 0,
        }
    }

    pub(crate) fn host(&self) -> HostId {
        self.host
    }

    /// Whether the stack has stopped, so that no more will be reported.
    pub(crate) fn is_over(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Opens a connection to `peer`, and returns its number.
    pub(crate) fn connect(&mut self, peer: HostId, label: Label) -> Result<u32, Refusal> {
        self.open(peer, label, false, 1)
    }

    /// Closes a connection once all its messages are over. Another connection gets its number when
    /// the worker has answered, so that a late answer never meets the wrong connection.
    pub(crate) fn close(&mut self, connection: u32) -> Result<(), Refusal> {
        self.connection(connection)?;
        self.submit(Request::Close { connection })?;
        self.enter(connection, Phase::Closing);
        Ok(())
    }

    /// Posts a message; ends in one `Sent` or `Failed`.
    pub(crate) fn post(
        &mut self,
        connection: u32,
        bytes: MessageSource<'_>,
        tag: u64,
        cookie: u64,
    ) -> Result<(), Refusal> {
        if tag > TAG_MASK {
            return Err(Refusal::Invalid);
        }
        self.connection(connection)?;
        self.send(bytes, (Kind::Message, tag), MessageUnderWay { cookie, connection, asks: None })
    }

    /// Posts a request; ends in one `Response` or `Failed`, or when it is cancelled.
    pub(crate) fn request(
        &mut self,
        connection: u32,
        bytes: &[u8],
        cookie: u64,
    ) -> Result<(), Refusal> {
        let peer = self.connection(connection)?.peer;
        if self.asked.len() >= self.outgoing.len() {
            return Err(Refusal::Again);
        }
        let number = self.next_request;
        let asks = Some((peer, number));
        let bytes = MessageSource::Copied(bytes);
        self.send(bytes, (Kind::Request, number), MessageUnderWay { cookie, connection, asks })?;
        self.asked.insert((peer, number), cookie);
        self.next_request = number % TAG_MASK + 1;
        Ok(())
    }

    /// Gives up a request with `cookie` that has no response: no event of it is reported any more.
    /// O(requests without a response).
    pub(crate) fn cancel(&mut self, cookie: u64) -> Result<(), Refusal> {
        let asked = self.asked.iter().find(|(_, asked)| **asked == cookie);
        let request = asked.map(|(request, _)| *request).ok_or(Refusal::NoRequest)?;
        self.asked.remove(&request);
        Ok(())
    }

    /// Answers the request that `peer` has made as `token`; ends in one `Sent` or `Failed`.
    pub(crate) fn respond(
        &mut self,
        peer: HostId,
        token: u64,
        bytes: &[u8],
        cookie: u64,
    ) -> Result<(), Refusal> {
        if token == 0 || token > TAG_MASK {
            return Err(Refusal::Invalid);
        }
        if self.free.is_empty() || bytes.is_empty() {
            return Err(if bytes.is_empty() { Refusal::Invalid } else { Refusal::Again });
        }
        let serves =
            |c: &Option<Connection>| c.is_some_and(|c| c.peer == peer && c.phase == Phase::Open);
        let connection = match self.connections.iter().position(serves) {
            Some(known) => u32::try_from(known).unwrap_or(u32::MAX),
            None => self.open(peer, Label::NONE, true, 2)?,
        };
        let bytes = MessageSource::Copied(bytes);
        self.send(
            bytes,
            (Kind::Response, token),
            MessageUnderWay { cookie, connection, asks: None },
        )
    }

    /// The next thing that happened; `None` when there is nothing now.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        while let Some(connection) = self.closes.pop_front() {
            let failed = |c: &Connection| c.own && c.phase == Phase::Failed;
            if !self.connections[connection as usize].as_ref().is_some_and(failed) {
                continue;
            }
            if self.submit(Request::Close { connection }).is_err() {
                self.closes.push_front(connection);
                break;
            }
            self.enter(connection, Phase::Closing);
        }
        // Some completions are no event for the application, as that of a request which was
        // acknowledged. There are no more of them than messages under way.
        while let Some(completion) = self.ring.poll() {
            if let Some(event) = self.event_of(completion) {
                return Some(event);
            }
        }
        None
    }

    fn event_of(&mut self, completion: Completion) -> Option<Event> {
        match completion {
            Completion::Sent { cookie, connection, at } => {
                let outgoing = self.end(cookie)?;
                let event = Event::Sent { connection, cookie: outgoing.cookie, at };
                outgoing.asks.is_none().then_some(event)
            }
            Completion::Failed { cookie, connection, reason, at } => {
                self.note_failure(connection, reason);
                let reason = self.cause(connection, reason);
                let outgoing = self.end(cookie)?;
                if let Some(asks) = outgoing.asks {
                    // A request that has its response has not failed, although its last
                    // acknowledgement never came.
                    self.asked.remove(&asks)?;
                }
                Some(Event::Failed { connection, cookie: outgoing.cookie, reason, at })
            }
            Completion::Refused { connection, reason, at } => {
                let known = self.connections.get_mut(connection as usize)?.as_mut()?;
                let (own, was_closed) = (known.own, known.phase == Phase::Closing);
                if was_closed && reason == Failure::NoSuchConnection {
                    // The answer to the close of a connection that was refused before.
                    self.enter(connection, Phase::Over);
                    return None;
                }
                known.refused = Some(reason);
                if !was_closed {
                    self.enter(connection, Phase::Over);
                }
                (!own).then_some(Event::Refused { connection, reason, at })
            }
            Completion::Closed { connection, .. } => {
                self.enter(connection, Phase::Over);
                None
            }
            Completion::Delivered { from, tag, memory, at, .. } => {
                let number = tag & TAG_MASK;
                match (tag >> TAG_BITS) & 3 {
                    kind if kind == Kind::Message as u64 => {
                        Some(Event::Message { peer: from, tag: number, memory, at })
                    }
                    kind if kind == Kind::Request as u64 => {
                        Some(Event::Request { peer: from, token: number, memory, at })
                    }
                    kind if kind == Kind::Response as u64 => {
                        // A response to no request is dropped.
                        let cookie = self.asked.remove(&(from, number))?;
                        Some(Event::Response { peer: from, cookie, memory, at })
                    }
                    _ => None,
                }
            }
            Completion::Aborted { from, at } => Some(Event::Aborted { peer: from, at }),
        }
    }

    /// Why a message on `connection` failed: where the connection was refused, the reason of that,
    /// since a refused connection for responses is no event of its own.
    fn cause(&self, connection: u32, reason: Failure) -> Failure {
        let known = self.connections.get(connection as usize).and_then(Option::as_ref);
        let refused = known.and_then(|known| known.refused);
        refused.filter(|_| reason == Failure::NoSuchConnection).unwrap_or(reason)
    }

    /// Marks a connection whose peer is silent as failed. One for responses is to be closed.
    fn note_failure(&mut self, connection: u32, reason: Failure) {
        if !matches!(reason, Failure::PeerSilent | Failure::PeerFull | Failure::FlowFailed) {
            return;
        }
        let slot = self.connections.get_mut(connection as usize);
        if let Some(known) = slot.and_then(Option::as_mut).filter(|c| c.phase == Phase::Open) {
            known.phase = Phase::Failed;
            if known.own {
                self.closes.push_back(connection);
            }
        }
    }

    /// Moves a connection to `phase`. Its number is free once it and all its messages are over.
    fn enter(&mut self, connection: u32, phase: Phase) {
        let Some(slot) = self.connections.get_mut(connection as usize) else { return };
        if let Some(known) = slot {
            known.phase = phase;
        }
        slot.take_if(|known| known.phase == Phase::Over && known.outstanding == 0);
    }

    fn connection(&self, number: u32) -> Result<Connection, Refusal> {
        let slot = self.connections.get(number as usize).copied().flatten();
        let usable = slot.filter(|known| matches!(known.phase, Phase::Open | Phase::Failed));
        usable.ok_or(Refusal::NoConnection)
    }

    /// Opens a connection, if the ring has room for so many `requests`.
    fn open(
        &mut self,
        peer: HostId,
        label: Label,
        own: bool,
        requests: usize,
    ) -> Result<u32, Refusal> {
        let Some(free) = self.connections.iter().position(Option::is_none) else {
            return Err(self.make_room());
        };
        let connection = u32::try_from(free).unwrap_or(u32::MAX);
        if self.ring.room() < requests {
            return Err(if self.ring.is_abandoned() { Refusal::Gone } else { Refusal::Again });
        }
        self.submit(Request::Open { connection, peer, path: self.path, label })?;
        let used = self.posted;
        let (phase, refused, outstanding) = (Phase::Open, None, 0);
        let opened = Connection { peer, own, phase, refused, outstanding, used };
        self.connections[free] = Some(opened);
        Ok(connection)
    }

    /// Closes the connection for responses that has been idle longest, unless a number will be free
    /// without that. Returns why no number is free now.
    fn make_room(&mut self) -> Refusal {
        let numbered = || (0..).zip(self.connections.iter().flatten());
        if numbered().any(|(_, c)| matches!(c.phase, Phase::Closing | Phase::Over)) {
            return Refusal::Again;
        }
        let idle = numbered().filter(|(_, c)| c.own && c.outstanding == 0);
        let idlest = idle.min_by_key(|(_, c)| c.used).map(|(connection, _)| connection);
        match idlest.map(|connection| self.close(connection)) {
            Some(closed) => closed.err().unwrap_or(Refusal::Again),
            None if self.connections.iter().flatten().any(|c| c.own) => Refusal::Again,
            None => Refusal::TooMany,
        }
    }

    fn send(
        &mut self,
        bytes: MessageSource<'_>,
        (kind, number): (Kind, u64),
        outgoing: MessageUnderWay,
    ) -> Result<(), Refusal> {
        let len = bytes.len().and_then(NonZeroU32::new);
        let len = len.ok_or(Refusal::Invalid)?;
        // Checked before the bytes are copied.
        if self.ring.room() == 0 && !self.ring.is_abandoned() {
            return Err(Refusal::Again);
        }
        let place = self.free.pop().ok_or(Refusal::Again)?;
        let source = bytes.source();
        let tag = (kind as u64) << TAG_BITS | number;
        let connection = outgoing.connection;
        let request = Request::Send { connection, source, len, tag, cookie: place as u64 };
        if let Err(refusal) = self.submit(request) {
            self.free.push(place);
            return Err(refusal);
        }
        self.outgoing[place] = Some(outgoing);
        self.posted += 1;
        if let Some(known) = self.connections.get_mut(connection as usize).and_then(Option::as_mut)
        {
            known.outstanding += 1;
            known.used = self.posted;
        }
        Ok(())
    }

    fn end(&mut self, cookie: u64) -> Option<MessageUnderWay> {
        let place = usize::try_from(cookie).ok()?;
        let outgoing = self.outgoing.get_mut(place)?.take()?;
        self.free.push(place);
        let connection = outgoing.connection;
        if let Some(known) = self.connections.get_mut(connection as usize).and_then(Option::as_mut)
        {
            known.outstanding -= 1;
            let phase = known.phase;
            self.enter(connection, phase);
        }
        Some(outgoing)
    }

    fn submit(&mut self, request: Request) -> Result<(), Refusal> {
        if self.ring.is_abandoned() {
            return Err(Refusal::Gone);
        }
        self.ring.submit(request).map_err(|_| Refusal::Again)
    }
}

#[cfg(test)]
mod tests;
