//! From the application's names to the endpoint's: connections to flows, messages to cookies.
//!
//! Requests are served one by one in the order they were made; the one that a full table keeps out
//! waits here, and all others behind it. Tables are sized once. It sends nothing.

use transport::record::Recorder;
use transport::{FlowId, HostId, Instant, MsgId, MsgSpec, PostError};

use crate::app_ring::WorkerEnd;
use crate::descriptor::{Completion, Failure, Request};
use crate::source::Source;
use crate::worker::WorkerConfig;

/// The names of one worker's connections and messages.
#[derive(Debug)]
pub(crate) struct Connections {
    /// By connection.
    flows: Box<[Option<FlowId>]>,
    /// By index of the message: which one, its connection and its cookie.
    posted: Box<[Option<(MsgId, u32, u64)>]>,
    posted_count: usize,
    /// Keeps its turn until a table has room.
    waiting: Option<Request>,
}

/// What a request led to at once.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// A message was posted; its bytes come from here.
    pub(crate) posted: Option<(MsgId, Source)>,
    /// It came to nothing, which the application must hear.
    pub(crate) failed: Option<Completion>,
}

impl Connections {
    pub(crate) fn new(config: &WorkerConfig) -> Self {
        Self {
            flows: (0..config.connections_max).map(|_| None).collect(),
            posted: (0..config.msgs_max).map(|_| None).collect(),
            posted_count: 0,
            waiting: None,
        }
    }

    /// Serves the next request; `None` when there is none or it must wait.
    pub(crate) fn step(
        &mut self,
        app: &mut WorkerEnd,
        core: &mut Recorder,
        reachable: impl Fn(HostId) -> bool,
        now: Instant,
    ) -> Option<Step> {
        let request = match self.waiting.take() {
            Some(request) => request,
            None => match app.take()? {
                Ok(request) => request,
                Err((connection, cookie)) => {
                    let reason = Failure::Malformed;
                    let failed = Completion::Failed { cookie, connection, reason, at: now };
                    return Some(Step { posted: None, failed: Some(failed) });
                }
            },
        };
        match request {
            Request::Open { connection, peer, path } => {
                let opened = self.open(connection, core, |core| {
                    if reachable(peer) {
                        Ok(core.open_flow(peer, path))
                    } else {
                        Err(Failure::NoSuchHost)
                    }
                });
                let Ok(opened) = opened else {
                    self.waiting = Some(Request::Open { connection, peer, path });
                    return None;
                };
                let failed = opened.err();
                let failed =
                    failed.map(|reason| Completion::Refused { connection, reason, at: now });
                Some(Step { posted: None, failed })
            }
            Request::Close { connection } => {
                let flow = self.flows.get_mut(connection as usize).and_then(Option::take);
                match flow {
                    Some(flow) => {
                        core.close_flow(now, flow);
                        Some(Step::default())
                    }
                    None => {
                        let reason = Failure::NoSuchConnection;
                        let failed = Completion::Refused { connection, reason, at: now };
                        Some(Step { posted: None, failed: Some(failed) })
                    }
                }
            }
            send @ Request::Send { .. } => self.send(send, core, now),
        }
    }

    /// `Err` when the flow table is full: ask again.
    fn open(
        &mut self,
        connection: u32,
        core: &mut Recorder,
        open: impl FnOnce(&mut Recorder) -> Result<Result<FlowId, PostError>, Failure>,
    ) -> Result<Result<(), Failure>, PostError> {
        let slot = self.flows.get_mut(connection as usize).filter(|slot| slot.is_none());
        let Some(slot) = slot else { return Ok(Err(Failure::ConnectionTaken)) };
        match open(core) {
            Ok(Ok(flow)) => {
                *slot = Some(flow);
                Ok(Ok(()))
            }
            Ok(Err(PostError::FlowTableFull)) => Err(PostError::FlowTableFull),
            Ok(Err(error)) => Ok(Err(error.into())),
            Err(failure) => Ok(Err(failure)),
        }
    }

    fn send(&mut self, request: Request, core: &mut Recorder, now: Instant) -> Option<Step> {
        let Request::Send { connection, ref source, len, tag, cookie } = request else {
            return None;
        };
        let flow = self.flows.get(connection as usize).copied().flatten();
        let posted = match flow {
            None => Err(Failure::NoSuchConnection),
            Some(_) if !source.covers(len.get()) => Err(Failure::ShortSource),
            Some(flow) => match core.post_send(now, MsgSpec { flow, len, tag }) {
                Err(PostError::MsgTableFull) => {
                    self.waiting = Some(request);
                    return None;
                }
                posted => posted.map_err(Failure::from),
            },
        };
        let msg = match posted {
            Ok(msg) => msg,
            Err(reason) => {
                let failed = Completion::Failed { cookie, connection, reason, at: now };
                return Some(Step { posted: None, failed: Some(failed) });
            }
        };
        if let Some(slot) = self.posted.get_mut(msg.index()) {
            *slot = Some((msg, connection, cookie));
            self.posted_count += 1;
        }
        let Request::Send { source, .. } = request else { return None };
        Some(Step { posted: Some((msg, source)), failed: None })
    }

    /// Outgoing message `msg` is over: its connection and cookie.
    pub(crate) fn end_message(&mut self, msg: MsgId) -> Option<(u32, u64)> {
        let slot = self.posted.get_mut(msg.index())?;
        let (_, connection, cookie) = slot.take_if(|(held, _, _)| *held == msg)?;
        self.posted_count -= 1;
        Some((connection, cookie))
    }

    /// Whether no message is out and no request waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.posted_count == 0 && self.waiting.is_none()
    }
}
