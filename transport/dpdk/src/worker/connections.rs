//! From the application's names to the endpoint's: connections to flows, messages to cookies.
//!
//! Requests are served one by one, in the order in which they were made, and in place. A message
//! for which the table of messages has no room stays in the ring, with all others behind it, until
//! a message ends. A connection for which the table of flows has no room is refused, and requests
//! behind it do not wait. Flows of closed connections keep their places for as long as their peers
//! keep them. Tables are sized once. This code sends nothing.

use transport::record::Recorder;
use transport::{FlowId, HostId, Instant, MsgId, MsgSpec, PostError};

use crate::app::descriptor::{Asked, Completion, Failure};
use crate::app::ring::WorkerEnd;
use crate::payload::store::OutgoingBytes;
use crate::worker::config::WorkerConfig;

/// The names of one worker's connections and messages.
#[derive(Debug)]
pub(crate) struct Connections {
    /// The flow of each connection.
    flows: Box<[Option<FlowId>]>,
    /// For each message, by its index: its id, its connection and its cookie.
    posted: Box<[Option<(MsgId, u32, u64)>]>,
    posted_count: usize,
}

/// The immediate result of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    /// A message was posted, and the store has its source.
    Posted(MsgId),
    /// The request failed, or is done at once; the application is informed.
    Answered(Completion),
    /// The request posted no message and has no answer yet.
    Done,
}

impl Connections {
    pub(crate) fn new(config: &WorkerConfig) -> Self {
        Self {
            flows: (0..config.connections_max).map(|_| None).collect(),
            posted: (0..config.msgs_max).map(|_| None).collect(),
            posted_count: 0,
        }
    }

    /// Serves the next request; `None` when there is none or it must wait. The source of a message
    /// goes to `store`.
    pub(crate) fn step<P: OutgoingBytes>(
        &mut self,
        app: &mut WorkerEnd,
        core: &mut Recorder,
        store: &mut P,
        reachable: impl Fn(HostId) -> bool,
        now: Instant,
    ) -> Option<RequestOutcome> {
        let (slot, memory) = app.peek()?;
        let names = slot.names();
        let refused = |connection, reason| {
            RequestOutcome::Answered(Completion::Refused { connection, reason, at: now })
        };
        let step = match slot.read(memory) {
            Some(send @ Asked::Send { .. }) => return self.send(send, app, core, store, now),
            Some(Asked::Open { connection, peer, path, label }) => {
                let reachable = reachable(peer);
                match self.open(connection, reachable, || core.open_labelled(peer, path, label)) {
                    Ok(()) => RequestOutcome::Done,
                    Err(reason) => refused(connection, reason),
                }
            }
            Some(Asked::Close { connection }) => {
                let flow = self.flows.get_mut(connection as usize).and_then(Option::take);
                if let Some(flow) = flow {
                    core.close_flow(now, flow);
                    RequestOutcome::Answered(Completion::Closed { connection, at: now })
                } else {
                    refused(connection, Failure::NoSuchConnection)
                }
            }
            None => {
                let ((connection, cookie), reason) = (names, Failure::Malformed);
                RequestOutcome::Answered(Completion::Failed { cookie, connection, reason, at: now })
            }
        };
        drop(app.take());
        Some(step)
    }

    /// Opens `connection` to a peer that is `reachable` or not, with a flow from `open_flow`.
    fn open(
        &mut self,
        connection: u32,
        reachable: bool,
        open_flow: impl FnOnce() -> Result<FlowId, PostError>,
    ) -> Result<(), Failure> {
        let slot = self.flows.get_mut(connection as usize).filter(|slot| slot.is_none());
        let slot = slot.ok_or(Failure::ConnectionTaken)?;
        if !reachable {
            return Err(Failure::NoSuchHost);
        }
        *slot = Some(open_flow()?);
        Ok(())
    }

    #[inline]
    fn send<P: OutgoingBytes>(
        &mut self,
        asked: Asked,
        app: &mut WorkerEnd,
        core: &mut Recorder,
        store: &mut P,
        now: Instant,
    ) -> Option<RequestOutcome> {
        let Asked::Send { connection, len, tag, cookie, covered } = asked else { return None };
        let flow = self.flows.get(connection as usize).copied().flatten();
        let posted = match flow {
            None => Err(Failure::NoSuchConnection),
            Some(_) if !covered => Err(Failure::ShortSource),
            Some(flow) => match core.post_send(now, MsgSpec { flow, len, tag }) {
                Err(PostError::MsgTableFull) => return None,
                posted => posted.map_err(Failure::from),
            },
        };
        let source = app.take();
        let (msg, source) = match (posted, source) {
            (Ok(msg), Some(source)) => (msg, source),
            (posted, _) => {
                let reason = posted.err().unwrap_or(Failure::Malformed);
                let failed = Completion::Failed { cookie, connection, reason, at: now };
                return Some(RequestOutcome::Answered(failed));
            }
        };
        store.insert(msg, len.get(), source);
        if let Some(slot) = self.posted.get_mut(msg.index()) {
            *slot = Some((msg, connection, cookie));
            self.posted_count += 1;
        }
        Some(RequestOutcome::Posted(msg))
    }

    /// Outgoing message `msg` is over: its connection and cookie.
    pub(crate) fn end_message(&mut self, msg: MsgId) -> Option<(u32, u64)> {
        let slot = self.posted.get_mut(msg.index())?;
        let (_, connection, cookie) = slot.take_if(|(held, _, _)| *held == msg)?;
        self.posted_count -= 1;
        Some((connection, cookie))
    }

    /// Whether no message is out.
    pub(crate) fn is_idle(&self) -> bool {
        self.posted_count == 0
    }
}
