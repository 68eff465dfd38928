//! The server: waits for clients, one session at a time, and goes on after each.
//!
//! ```text
//!      Hello: agreed, Welcome acknowledged or Go  Done, Stop, silence,
//!   lobby ---------------------> session --+-----  another Hello of that host  -----------> lobby
//!     ^  \ Hello: refused, with a reason   | Hello of another host: busy
//!     +---+                                +---+
//! ```
//!
//! A session has an endpoint of its own, and is under way once Go has arrived.
//!
//! In the lobby it sleeps between polls. A client that is killed is silent: its session ends after
//! the server's patience, or at once when the same host asks for another. A client that was silent
//! and is back is notified that its session has ended.

use std::collections::VecDeque;

use experiments::measure::Counters;
use transport::{Duration, HostId, Instant};
use transport_dpdk::{Completion, Failure, Idle, IdleMode, Request};

use super::error::PeerError;
use super::host::{FAREWELL, PeerHost, STRANGER};
use super::protocol::{Kind, Memo, Tag};
use super::session::Session;
use super::setup::ProcessSetup;
use super::stream::{Slots, short};
use super::terms::{FLOWS_SPARE, Job, SessionTerms};
use super::{SessionEvent, SessionMonitor};
use crate::workers::counters;

/// The terms on which a server serves.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Silence after which a client is given up.
    pub patience: Duration,
    /// Bytes of messages that a session may need at once.
    pub memory_bytes: u64,
    /// Sessions after which the server ends; never when `None`.
    pub sessions_max: Option<u64>,
}

/// The work of a server.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Sessions that ended as agreed.
    pub complete: u64,
    /// Sessions that ended otherwise.
    pub broken: u64,
    /// Sessions refused.
    pub refused: u64,
    /// The counters of the server.
    pub counters: Counters,
}

struct Server<'a> {
    host: PeerHost,
    options: ServerOptions,
    /// The session, and how far its end has come.
    session: Option<(Session, Ending)>,
    /// A session that the client has not acknowledged yet.
    welcome: Option<Welcome>,
    served: Served,
    /// The session that was given up last, until its client has been notified or asks for another,
    /// or another one is given up.
    broken: Option<Broken>,
    /// When clients were turned away by memos whose flows are not forgotten yet, and which.
    refusals: VecDeque<(Instant, HostId)>,
    monitor: &'a mut dyn SessionMonitor,
}

/// The welcome to a session that is agreed to. The endpoint that got the client's request sends it,
/// because the session's own endpoint may have a scheduler that sends nothing before the client's
/// endpoint for the session answers.
struct Welcome {
    peer: HostId,
    number: u64,
    terms: SessionTerms,
    /// The cookie of its message.
    cookie: u64,
    /// When the welcome is withdrawn.
    until: Instant,
}

/// A session that was given up because its client was silent or took nothing.
struct Broken {
    peer: HostId,
    number: u64,
    why: String,
}

/// How far the end of a session has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// The session goes on.
    Open,
    /// The client has asked for the report.
    Wanted,
    /// The report is on its way; the client says when it has it.
    Reported,
}

/// Time between two checks of the clock, of the user's request to end, and of silence.
const LOOK_EVERY: Duration = Duration::from_ms(50);
/// Refusals whose flows are kept: fewer than a session has flows to spare.
pub(super) const REFUSALS_MAX: usize = FLOWS_SPARE as usize / 4 * 3;
/// Refusals to one host that are kept, so that a host that asks all the time leaves room for
/// others.
pub(super) const REFUSALS_A_HOST: usize = REFUSALS_MAX / 8;
/// Requests that wait for the worker before pings go unanswered.
const WAITING_MAX: usize = 1 << 16;
/// How long a client is asked for its MAC.
const FIND_FOR: Duration = Duration::from_s(1);

/// Serves until the monitor ends it, or all sessions are served.
///
/// # Errors
/// When there is no device; nothing that a client does is one.
pub fn serve(
    setup: ProcessSetup,
    options: &ServerOptions,
    monitor: &mut dyn SessionMonitor,
) -> Result<Served, PeerError> {
    let host = PeerHost::open(setup, Duration::ZERO, monitor)?;
    let served = Served::default();
    let (session, welcome, broken, refusals) = (None, None, None, VecDeque::new());
    let options = *options;
    let mut server = Server { host, options, session, welcome, served, broken, refusals, monitor };
    server.run()?;
    server.served.counters = server.host.counters();
    Ok(server.served)
}

impl Server<'_> {
    fn run(&mut self) -> Result<(), PeerError> {
        let mut look_at = Instant::ZERO;
        let mut idle = Idle::new(IdleMode::Sleepy);
        let mut at_work = Idle::new(IdleMode::Shared);
        loop {
            let turn = self.host.turn(self.monitor);
            let took = self.take(turn.now)?;
            let posted = self.session.as_mut().is_some_and(|(session, _)| {
                session.sample_windows(&self.host, turn.now);
                session.post(&mut self.host, turn.now)
            });
            self.report(turn.now);
            if turn.now >= look_at {
                look_at = turn.now + LOOK_EVERY;
                let ended = self.served.complete + self.served.broken;
                if self.options.sessions_max.is_some_and(|most| ended >= most) {
                    return Ok(());
                }
                if self.monitor.wants_end() {
                    return self.say_farewell();
                }
                self.check_session(turn.now)?;
            }
            let busy = turn.busy || took || posted;
            if self.session.is_some() {
                at_work.turn(busy)
            } else {
                idle.turn(busy)
            };
        }
    }

    /// Handles a completion of the worker; true when there was one.
    fn take(&mut self, now: Instant) -> Result<bool, PeerError> {
        let mut any = false;
        let most = self.session.as_mut().map_or(1, |(session, _)| session.appetite(now));
        for _ in 0..most {
            let Some(completion) = self.host.poll() else { break };
            any = true;
            if let Completion::Delivered { from, tag, memory, .. } = &completion
                && self.is_of_broken(*from, *tag, memory)
            {
                self.notify_of_broken();
                continue;
            }
            let rest = match &mut self.session {
                Some((session, _)) => session.take(completion),
                None => Some(completion),
            };
            match rest {
                Some(completion) => self.handle(completion, now)?,
                None => continue,
            }
        }
        Ok(any)
    }

    fn handle(&mut self, completion: Completion, now: Instant) -> Result<(), PeerError> {
        match completion {
            Completion::Delivered { from, tag, memory, .. } => match Tag::unpack(tag) {
                Some(Tag { kind: Kind::Memo, .. }) => self.on_memo(from, &memory, now),
                Some(tag @ Tag { kind: Kind::Ping, .. }) => {
                    self.answer(tag, from);
                    Ok(())
                }
                _ => Ok(()),
            },
            Completion::Sent { cookie, .. } if self.session.is_none() => self.on_welcomed(cookie),
            // The client has left the endpoint that the welcome was for.
            Completion::Failed { cookie, reason: Failure::PeerForgot, .. }
                if self.session.is_none() =>
            {
                self.on_welcomed(cookie)
            }
            // A memo to another host than the session's is of no session.
            Completion::Failed { connection: STRANGER, cookie, .. } => {
                self.welcome.take_if(|sent| sent.cookie == cookie);
                Ok(())
            }
            Completion::Failed { cookie, reason, .. } => match (Tag::unpack(cookie), &self.session)
            {
                (Some(tag), Some((session, _))) if tag.session == short(session.number) => {
                    self.give_up(&reason.to_string())
                }
                _ => Ok(()),
            },
            // The answer to the close of a connection whose refusal came before.
            Completion::Refused { reason: Failure::NoSuchConnection, .. } => Ok(()),
            Completion::Refused { reason, .. } => {
                tracing::warn!(%reason, "no flow to a client");
                Ok(())
            }
            Completion::Sent { .. } | Completion::Closed { .. } | Completion::Aborted { .. } => {
                Ok(())
            }
        }
    }

    /// Whether a message shows that the client of the session that was given up last is still in
    /// it. A request for a session shows that it is not.
    fn is_of_broken(&self, from: HostId, tag: u64, octets: &[u8]) -> bool {
        let Some(broken) = &self.broken else { return false };
        let tag = Tag::unpack(tag).filter(|tag| tag.session == short(broken.number));
        let asks = |tag: Tag| {
            tag.kind == Kind::Memo && matches!(Memo::read(octets), Ok(Memo::Hello { .. }))
        };
        from == broken.peer && tag.is_some_and(|tag| !asks(tag))
    }

    /// Notifies the client of that session, by which the server was reached again, that it is over.
    fn notify_of_broken(&mut self) {
        let Some(Broken { peer, number, why }) = self.broken.take() else { return };
        self.host.send_memo_once(peer, number, &Memo::Stop { session: number, reason: why });
    }

    fn on_memo(&mut self, from: HostId, bytes: &[u8], now: Instant) -> Result<(), PeerError> {
        let memo = match Memo::read(bytes) {
            Ok(memo) => memo,
            Err(reason) => {
                if self.reaches(from)? {
                    self.refuse(from, Memo::session_of(bytes), false, reason);
                }
                return Ok(());
            }
        };
        if let Memo::Hello { session, terms, .. } = memo {
            return self.on_hello(from, session, *terms, now);
        }
        if let Memo::Go { session: number } = memo
            && let Some(sent) =
                self.welcome.take_if(|sent| sent.number == number && sent.peer == from)
        {
            self.begin(sent)?;
        }
        let own =
            self.session.as_mut().filter(|(own, _)| own.peer == from && memo.is_of(own.number));
        match (memo, own) {
            (Memo::Go { .. }, Some(_)) => self.go(now),
            (Memo::Go { session }, None) => {
                let reason = "it has no session of this number".to_owned();
                if self.reaches(from)? {
                    self.turn_away(from, session, &Memo::Stop { session, reason });
                }
            }
            (Memo::Finish { .. }, Some((session, ending))) if session.has_started => {
                session.sender.iter_mut().for_each(|sender| sender.stop(now));
                *ending = Ending::Wanted;
            }
            (Memo::Done { .. }, Some((_, Ending::Reported))) => return self.end(None),
            (Memo::Stop { reason, .. }, Some(_)) => {
                return self.end(Some(&format!("the client ended it: {reason}")));
            }
            (Memo::Stop { session: number, .. }, None) => {
                self.welcome.take_if(|sent| sent.number == number && sent.peer == from);
            }
            _ => {}
        }
        Ok(())
    }

    fn on_hello(
        &mut self,
        from: HostId,
        number: u64,
        mut terms: SessionTerms,
        now: Instant,
    ) -> Result<(), PeerError> {
        self.broken.take_if(|broken| broken.peer == from);
        let welcomed = self.welcome.as_ref().map(|sent| (sent.number, sent.peer));
        let began = self.session.as_ref().map(|(session, _)| (session.number, session.peer));
        if let Some((known, peer)) = began.or(welcomed) {
            if known == number && peer == from {
                return Ok(());
            }
            if peer != from {
                // A host whose MAC is not known asks again, and is answered after the session.
                let reason = format!("host {peer} has a session; one at a time");
                if self.reaches(from)? {
                    self.refuse(from, number, true, reason);
                }
                return Ok(());
            }
            self.welcome = None;
            self.end(Some("its client began another"))?;
        }
        if !self.reaches(from)? {
            return Ok(());
        }
        terms.payload_bytes = terms.payload_bytes.min(self.host.payload_max());
        if let Err(reason) = self.judge(&terms) {
            self.refuse(from, number, false, reason);
            return Ok(());
        }
        let welcome = Memo::Welcome { session: number, payload_bytes: terms.payload_bytes };
        let cookie = self.host.send_memo_once(from, number, &welcome);
        let until = now + self.options.patience;
        self.welcome = Some(Welcome { peer: from, number, terms, cookie, until });
        Ok(())
    }

    /// Whether a client can be answered. One whose MAC is not known is asked for it, unless that
    /// would end a session or the welcome to one.
    fn reaches(&mut self, client: HostId) -> Result<bool, PeerError> {
        if self.session.is_some() || self.welcome.is_some() {
            return Ok(self.host.can_address(client));
        }
        let is_found = self.host.find(client, FIND_FOR, self.monitor)?;
        if !is_found {
            tracing::info!(host = client.0, "a client does not say its MAC");
        }
        Ok(is_found)
    }

    /// Begins the session whose welcome had this cookie, if there is one.
    fn on_welcomed(&mut self, cookie: u64) -> Result<(), PeerError> {
        let sent = self.welcome.take_if(|sent| sent.cookie == cookie);
        sent.map_or(Ok(()), |sent| self.begin(sent))
    }

    /// Builds the endpoint of a session that is agreed to.
    fn begin(&mut self, welcome: Welcome) -> Result<(), PeerError> {
        let Welcome { peer, number, terms, .. } = welcome;
        self.monitor.on_event(&SessionEvent::Begins(peer, &terms));
        let counted = self.host.counters();
        self.host.build(&terms)?;
        let slots = Slots::new(self.host.eal(), number, &terms);
        let mut session = Session::new(slots, number, peer, terms, self.host.now());
        session.counted_before = counted;
        self.session = Some((session, Ending::Open));
        Ok(())
    }

    /// Why there can be no session on these terms.
    fn judge(&self, terms: &SessionTerms) -> Result<(), String> {
        if terms.is_lobby() {
            return Err("a session of no flows".to_owned());
        }
        self.host.config(terms).map_err(|error| error.to_string())?;
        let (wanted, most) = (terms.receive_bytes(), self.options.memory_bytes);
        if wanted > most {
            return Err(format!(
                "messages of {} bytes, {} flows and depth {} may hold {wanted} bytes at once; the \
                 server gives {most}: use smaller or fewer, or start it with more --memory",
                terms.message_bytes, terms.flows, terms.depth
            ));
        }
        Ok(())
    }

    fn refuse(&mut self, client: HostId, session: u64, busy: bool, reason: String) {
        self.served.refused += u64::from(!busy);
        tracing::info!(host = client.0, reason, "a session is refused");
        self.turn_away(client, session, &Memo::Refused { session, busy, reason });
    }

    /// Sends `memo` to a client without a session, unless too many were sent lately: each takes a
    /// flow for some time, and the session has flows of its own.
    fn turn_away(&mut self, client: HostId, session: u64, memo: &Memo) {
        let now = self.host.now();
        let lasts = self.host.flow_lasts();
        self.refusals.retain(|(at, _)| now.since(*at) < lasts);
        let own = self.refusals.iter().filter(|(_, to)| *to == client).count();
        if self.refusals.len() >= REFUSALS_MAX || own >= REFUSALS_A_HOST {
            return;
        }
        self.refusals.push_back((now, client));
        self.host.send_memo_once(client, session, memo);
    }

    /// Opens the session's connections, notifies the client that it may send, and begins to send,
    /// if that has not been done.
    fn go(&mut self, now: Instant) {
        let Some((session, _)) = &mut self.session else { return };
        if session.has_started {
            return;
        }
        let sends = !matches!(session.terms.job, Job::Perf { down: false, .. });
        self.host.meet(session.peer, if sends { session.terms.flows } else { 0 });
        self.host.send_memo(session.number, &Memo::Ready { session: session.number });
        session.start(sends, now);
    }

    fn answer(&mut self, ping: Tag, from: HostId) {
        let Some((session, _)) = &self.session else { return };
        // A client that takes no answers gets no more of them.
        let is_full = self.host.waiting.len() >= WAITING_MAX;
        if !session.owns(ping, from) || !session.has_started || is_full {
            return;
        }
        let tag = Tag { kind: Kind::Pong, ..ping }.pack();
        let (source, len) = (session.slots.source_of(ping.number), session.slots.len());
        self.host.waiting.push_back(Request::Send { connection: 1, source, len, tag, cookie: tag });
    }

    /// Sends the report once it is wanted and nothing of ours is under way.
    fn report(&mut self, now: Instant) {
        let Some((session, ending @ Ending::Wanted)) = &mut self.session else { return };
        let number = session.number;
        if let Some(sender) = &mut session.sender {
            if !sender.is_over(now) {
                return;
            }
            self.host.send_memo(number, &Memo::End { session: number, sent: sender.acked() });
        }
        let counters = counters::since(self.host.counters(), &session.counted_before);
        let received = session.receiver.got();
        let vitals = session.gauge.whole(&self.host, now);
        let report = Memo::Report { session: number, received, counters, vitals };
        self.host.send_memo(number, &report);
        *ending = Ending::Reported;
    }

    /// Checks for a welcome without an answer, and for silence; reports the traffic of the last
    /// interval.
    fn check_session(&mut self, now: Instant) -> Result<(), PeerError> {
        self.welcome.take_if(|sent| now >= sent.until);
        let Some((session, _)) = &mut self.session else { return Ok(()) };
        session.report_interval(&self.host, now, self.monitor);
        let silence = now.since(session.silent_since(&self.host, now));
        if silence < self.options.patience {
            return Ok(());
        }
        let seconds = silence.as_us_f64() / 1e6;
        self.give_up(&format!("nothing was received from its client for {seconds:.1} s"))
    }

    /// Ends the session; its client cannot be notified of that now.
    fn give_up(&mut self, why: &str) -> Result<(), PeerError> {
        let session = self.session.as_ref();
        let broken = session.map(|(session, _)| (session.peer, session.number));
        self.end(Some(why))?;
        let why = why.to_owned();
        self.broken = broken.map(|(peer, number)| Broken { peer, number, why });
        Ok(())
    }

    /// Ends the session, and why if not as agreed; nothing of it stays.
    fn end(&mut self, why: Option<&str>) -> Result<(), PeerError> {
        let Some((mut session, _)) = self.session.take() else { return Ok(()) };
        session.report_rest(&self.host, self.host.now(), self.monitor);
        match why {
            None => self.served.complete += 1,
            Some(_) => self.served.broken += 1,
        }
        self.monitor.on_event(&SessionEvent::Ends(session.peer, why));
        self.host.build(&SessionTerms::lobby())
    }

    /// Notifies the client of a session, or of a welcome to one, that there will be no more of it.
    fn say_farewell(&mut self) -> Result<(), PeerError> {
        let session = self.session.as_ref().map(|(session, _)| (session.number, session.peer));
        let welcome = self.welcome.as_ref().map(|sent| (sent.number, sent.peer));
        let Some((session, peer)) = session.or(welcome) else { return Ok(()) };
        let reason = "it was interrupted";
        let stop = Memo::Stop { session, reason: reason.to_owned() };
        let stop = if self.host.peer == Some(peer) {
            self.host.send_memo(session, &stop)
        } else {
            self.host.send_memo_once(peer, session, &stop)
        };
        self.host.wait_for_end_of(stop, FAREWELL, self.monitor);
        self.end(Some("the server was interrupted"))
    }
}

#[cfg(test)]
mod tests;
