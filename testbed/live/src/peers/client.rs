//! The client: asks a server for a session, does the job, and compares what both ends counted.

use std::collections::VecDeque;

use experiments::measure::Counters;
use transport::{Duration, HostId, Instant};
use transport_dpdk::{Completion, Failure, Idle, IdleMode, Request, eal};

use super::error::PeerError;
use super::host::{FAREWELL, PeerHost};
use super::protocol::{Kind, Memo, PROTOCOL, Tag, Totals};
use super::session::Session;
use super::setup::ProcessSetup;
use super::stream::{Slots, short};
use super::terms::{Job, Policies, SessionTerms};
use super::vitals::Vitals;
use super::{Interval, SessionEvent, SessionMonitor};

/// The choices of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// The server that the client connects to.
    pub server: HostId,
    /// How long the client waits for the link, and for a server that answers and is not busy.
    pub wait: Duration,
    /// Silence after which a session is given up.
    pub patience: Duration,
    /// Round trips to measure.
    pub pings: u64,
    /// Time between two round trips; none waits for the answer only.
    pub interval: Duration,
}

/// The outcome of a session.
#[derive(Clone, Debug)]
pub struct SessionOutcome {
    /// The terms as agreed.
    pub terms: SessionTerms,
    /// The policies of the session, by name.
    pub policies: Policies,
    /// How long data was sent and received.
    pub took: Duration,
    /// Messages to the server that were acknowledged here.
    pub sent: Totals,
    /// Messages of the server that were delivered here.
    pub received: Totals,
    /// Messages that the server has delivered and counted.
    pub server_received: Totals,
    /// Round trips, nanoseconds, sorted.
    pub round_trips: Vec<u64>,
    /// Counters of this side.
    pub counters: Counters,
    /// Counters of the server's.
    pub server_counters: Counters,
    /// What this end and the server's end have measured of their own traffic.
    pub vitals: [Vitals; 2],
    /// The session by intervals, the first of them.
    pub intervals: Vec<Interval>,
    /// How many intervals followed those of the list.
    pub intervals_omitted: u64,
    /// Contradictions between the counts; empty when all is well.
    pub findings: Vec<String>,
    /// Whether the user ended the session early.
    pub stopped: bool,
}

struct Client<'a> {
    host: PeerHost,
    options: ClientOptions,
    monitor: &'a mut dyn SessionMonitor,
    /// The session that is asked for, or runs; memos of an earlier one may still arrive.
    number: u64,
    /// The server's memos that have not been read yet, at most [`MEMOS_MAX`].
    memos: VecDeque<Memo>,
    /// The server's end of its sending.
    server_sent: Option<Totals>,
    /// The cookie of the session's memo that is to be answered; 0 is none.
    asked: u64,
    /// Why that memo, or a ping of the session, was not delivered. There is no answer to it.
    undelivered: Option<Failure>,
    stopped: bool,
    look_at: Instant,
    idle: Idle,
}

const LOOK_EVERY: Duration = Duration::from_ms(50);
/// Memos that wait to be read: as many as completions are taken in a turn without a session.
const MEMOS_MAX: usize = 64;
/// Pause before a busy server is asked again.
const BUSY: Duration = Duration::from_s(1);
/// Time for acknowledgements that are decided to leave.
const FLUSH: Duration = Duration::from_ms(2);
/// When the client is about to end, its server has this long to answer a memo, and no longer than
/// the client's patience.
const ANSWER_WITHIN: Duration = Duration::from_s(5);
/// Round trips that do not count, at the start: a tenth of all, at most this many.
const WARM_UP_MAX: u64 = 1000;

/// Runs a session with these terms.
///
/// # Errors
/// [`PeerError`]: what is wrong with the input, the machine, or the server.
pub fn run(
    setup: ProcessSetup,
    terms: &SessionTerms,
    options: &ClientOptions,
    monitor: &mut dyn SessionMonitor,
) -> Result<SessionOutcome, PeerError> {
    let terms = &terms.surviving(options.patience);
    // Refused before anything is opened.
    terms.config(1, &setup.addressing)?;
    let host = PeerHost::open(setup, options.wait, monitor)?;
    let mut client = Client {
        number: PeerHost::session_number()?,
        host,
        options: *options,
        monitor,
        memos: VecDeque::new(),
        server_sent: None,
        asked: 0,
        undelivered: None,
        stopped: false,
        look_at: Instant::ZERO,
        idle: Idle::new(IdleMode::Shared),
    };
    client.wait_for_link()?;
    client.find_server()?;
    client.run_session(terms).map_err(|error| client.stop(error))
}

impl Client<'_> {
    fn wait_for_link(&mut self) -> Result<(), PeerError> {
        let until = self.host.now() + self.options.wait;
        while !self.host.is_link_up() {
            let now = self.turn(None)?;
            if now > until {
                let device = self.host.setup().device.to_string();
                let seconds = self.options.wait.as_ps() / 1_000_000_000_000;
                return Err(PeerError::LinkDown { device, seconds });
            }
            if self.stopped {
                return Err(PeerError::Interrupted);
            }
        }
        Ok(())
    }

    /// Asks for the server's MAC, unless it was given.
    fn find_server(&mut self) -> Result<(), PeerError> {
        let host = self.options.server;
        if self.host.find(host, self.options.wait, self.monitor)? {
            return Ok(());
        }
        let address = self.host.setup().addressing.addr(host);
        let ip = address.map_or_else(|| "no address".to_owned(), |address| address.ip.to_string());
        Err(PeerError::NoMac { host, ip })
    }

    /// Runs the session.
    fn run_session(&mut self, terms: &SessionTerms) -> Result<SessionOutcome, PeerError> {
        let mut session = self.open(terms)?;
        let round_trips = match session.terms.job {
            Job::Ping => self.ping(&mut session)?,
            Job::Perf { .. } => {
                self.stream(&mut session)?;
                Vec::new()
            }
        };
        self.close(session, round_trips)
    }

    /// Asks until the server agrees.
    fn open(&mut self, terms: &SessionTerms) -> Result<Session, PeerError> {
        let until = self.host.now() + self.options.wait;
        let mut terms = terms.clone();
        terms.payload_bytes = terms.payload_bytes.min(self.host.payload_max());
        let number = self.number;
        let server = self.options.server;
        let mut busy = None;
        // The first memo is sent again for as long as an answer is waited for.
        let lobby = SessionTerms::lobby().surviving(self.options.wait);
        loop {
            self.host.build(&lobby)?;
            self.host.meet(server, 0);
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let asked = Box::new(terms.clone());
            let hello = Memo::Hello { protocol: PROTOCOL, version, session: number, terms: asked };
            self.host.send_memo(number, &hello);
            let retry_at = match self.answer(until)? {
                Some(Memo::Welcome { payload_bytes, .. }) => {
                    self.rest(FLUSH)?;
                    terms.payload_bytes = terms.payload_bytes.min(payload_bytes);
                    return self.begin(number, terms);
                }
                Some(Memo::Refused { busy: false, reason, .. }) => {
                    return Err(PeerError::Refused(reason));
                }
                Some(Memo::Refused { reason, .. }) => {
                    busy = Some(reason);
                    self.host.now() + BUSY
                }
                _ => self.host.now() + BUSY,
            };
            if self.host.now() > until {
                if let Some(reason) = busy {
                    return Err(PeerError::Busy(reason));
                }
                let address = format!("host {server}");
                let seconds = self.options.wait.as_ps() / 1_000_000_000_000;
                let udp_port = self.host.setup().addressing.udp_port();
                return Err(PeerError::NoServer { address, udp_port, seconds });
            }
            while self.turn(None)? < retry_at {}
        }
    }

    /// Waits for the server's answer; `None` when there is none in time.
    fn answer(&mut self, until: Instant) -> Result<Option<Memo>, PeerError> {
        loop {
            let now = self.turn(None)?;
            if let Some(memo) = self.memos.pop_front() {
                return Ok(Some(memo));
            }
            if self.stopped {
                return Err(PeerError::Interrupted);
            }
            if now > until {
                return Ok(None);
            }
        }
    }

    fn rest(&mut self, time: Duration) -> Result<(), PeerError> {
        let until = self.host.now() + time;
        while self.turn(None)? < until {}
        Ok(())
    }

    /// Builds the session's endpoint, notifies the server that it is there, and waits until the
    /// server is ready.
    fn begin(&mut self, number: u64, terms: SessionTerms) -> Result<Session, PeerError> {
        let server = self.options.server;
        self.monitor.on_event(&SessionEvent::Begins(server, &terms));
        self.host.build(&terms)?;
        let sends = !matches!(terms.job, Job::Perf { up: false, .. });
        self.host.meet(server, if sends { terms.flows } else { 0 });
        let slots = Slots::new(self.host.eal(), number, &terms);
        let mut session = Session::new(slots, number, server, terms, self.host.now());
        let go = Memo::Go { session: number };
        self.ask(&mut session, &go, |session, memo| {
            // Its data shows as well that Go has arrived, where Ready is lost and sent again.
            let is_ready = matches!(memo, Some(Memo::Ready { .. }));
            (is_ready || session.receiver.got().messages > 0).then_some(())
        })?;
        session.start(sends, self.host.now());
        Ok(session)
    }

    /// Sends and receives until both senders are through.
    fn stream(&mut self, session: &mut Session) -> Result<(), PeerError> {
        let Job::Perf { down, .. } = session.terms.job else { return Ok(()) };
        loop {
            let now = self.turn(Some(session))?;
            if session.post(&mut self.host, now) {
                self.idle.turn(true);
            }
            let sent = session.sender.as_mut().is_none_or(|sender| {
                if self.stopped {
                    sender.stop(now);
                }
                sender.is_over(now)
            });
            let is_served =
                !down || self.server_sent.is_some() || self.server_is_through(session, now);
            if sent && (is_served || self.stopped) {
                return Ok(());
            }
        }
    }

    /// Whether the server has stopped sending by the terms: time and bytes are the same there.
    fn server_is_through(&self, session: &Session, now: Instant) -> bool {
        let Job::Perf { duration_ms, bytes, .. } = session.terms.job else { return true };
        let in_time = duration_ms.is_none_or(|ms| now.since(session.began) < Duration::from_ms(ms));
        !(in_time && bytes.is_none_or(|bytes| session.receiver.got().bytes < bytes))
    }

    /// Round trips one after the other, nanoseconds.
    fn ping(&mut self, session: &mut Session) -> Result<Vec<u64>, PeerError> {
        let warm_up = (self.options.pings / 10).min(WARM_UP_MAX);
        let mut trips = Vec::with_capacity(usize::try_from(self.options.pings).unwrap_or(0));
        for turn in 0..warm_up + self.options.pings {
            let number = u32::try_from(turn % (1 << 32)).unwrap_or(0);
            let Some(trip) = self.round_trip(session, number)? else { break };
            if turn >= warm_up {
                trips.push(trip);
            }
            if self.options.interval > Duration::ZERO {
                let until = self.host.now() + self.options.interval;
                while self.turn(Some(session))? < until && !self.stopped {}
            }
        }
        trips.sort_unstable();
        Ok(trips)
    }

    /// Runs one round trip; `None` when the user wants to end.
    fn round_trip(&mut self, session: &mut Session, number: u32) -> Result<Option<u64>, PeerError> {
        if self.stopped {
            return Ok(None);
        }
        let start = eal::tsc();
        let tag = Tag { kind: Kind::Ping, session: short(session.number), number }.pack();
        let (source, len) = (session.slots.source_of(number), session.slots.len());
        self.host.waiting.push_back(Request::Send { connection: 1, source, len, tag, cookie: tag });
        let pong = Tag { kind: Kind::Pong, session: short(session.number), number }.pack();
        loop {
            let turn = self.host.turn(self.monitor);
            session.sample_windows(&self.host, turn.now);
            let mut busy = turn.busy;
            while let Some(completion) = self.host.poll() {
                busy = true;
                match completion {
                    Completion::Delivered { from, tag, checksum, memory, .. }
                        if tag == pong && from == session.peer =>
                    {
                        let ticks = eal::tsc().wrapping_sub(start);
                        session.receiver.count(&session.slots, number, checksum, memory.len());
                        return Ok(Some(nanoseconds(ticks, self.host.hz())));
                    }
                    other => self.on_completion(other)?,
                }
            }
            if turn.now >= self.look_at {
                self.check_session(Some(session), turn.now)?;
                if self.stopped {
                    return Ok(None);
                }
            }
            self.idle.turn(busy);
        }
    }

    /// Asks for the server's counts and compares.
    fn close(
        &mut self,
        mut session: Session,
        round_trips: Vec<u64>,
    ) -> Result<SessionOutcome, PeerError> {
        let asked = self.host.now();
        let took = asked.since(session.began);
        let own = session.gauge.whole(&self.host, asked);
        session.report_rest(&self.host, asked, self.monitor);
        let intervals = std::mem::take(&mut session.intervals);
        let finish = Memo::Finish { session: session.number };
        let (server_received, server_counters, theirs) =
            self.ask(&mut session, &finish, |_, memo| match memo? {
                Memo::Report { received, counters, vitals, .. } => {
                    Some((received, counters, vitals))
                }
                _ => None,
            })?;
        let done = self.host.send_memo(session.number, &Memo::Done { session: session.number });
        self.host.wait_for_end_of(done, self.answer_within(), self.monitor);
        let sent = session.sender.as_ref().map(|sender| sender.acked()).unwrap_or_default();
        let received = session.receiver.got();
        let mut outcome = SessionOutcome {
            policies: session.terms.policies()?,
            took,
            sent,
            received,
            server_received,
            round_trips,
            counters: self.host.counters(),
            server_counters,
            vitals: [own, theirs],
            intervals: intervals.kept,
            intervals_omitted: intervals.omitted,
            findings: Vec::new(),
            stopped: self.stopped,
            terms: session.terms.clone(),
        };
        outcome.judge(&session, self.server_sent);
        Ok(outcome)
    }

    /// Sends `memo` and waits until `answer` finds what it wants in the session or in a memo of the
    /// server.
    fn ask<T>(
        &mut self,
        session: &mut Session,
        memo: &Memo,
        answer: impl Fn(&Session, Option<Memo>) -> Option<T>,
    ) -> Result<T, PeerError> {
        // What came before answers an earlier memo.
        self.memos.clear();
        self.asked = self.host.send_memo(session.number, memo);
        let asked = self.host.now();
        let within = self.answer_within();
        loop {
            let now = self.turn(Some(session))?;
            let memos = std::mem::take(&mut self.memos).into_iter().map(Some);
            if let Some(found) = memos.chain([None]).find_map(|memo| answer(session, memo)) {
                return Ok(found);
            }
            if self.stopped && now.since(asked) > within {
                return Err(PeerError::Interrupted);
            }
        }
    }

    /// Notifies the server that the client ends because of `error`, unless the server has ended or
    /// refused the session or has not answered. Returns the error.
    fn stop(&mut self, error: PeerError) -> PeerError {
        let is_known = matches!(
            error,
            PeerError::Stopped(_)
                | PeerError::Refused(_)
                | PeerError::Busy(_)
                | PeerError::NoServer { .. }
        );
        if !is_known {
            let stop = Memo::Stop { session: self.number, reason: error.to_string() };
            let stop = self.host.send_memo(self.number, &stop);
            self.host.wait_for_end_of(stop, FAREWELL, self.monitor);
        }
        error
    }

    /// How long the server has to answer a memo when the client is about to end.
    fn answer_within(&self) -> Duration {
        ANSWER_WITHIN.min(self.options.patience)
    }

    /// One turn of everything; the time.
    fn turn(&mut self, session: Option<&mut Session>) -> Result<Instant, PeerError> {
        let turn = self.host.turn(self.monitor);
        let mut busy = turn.busy;
        let mut session = session;
        session.iter_mut().for_each(|session| session.sample_windows(&self.host, turn.now));
        let most = session.as_mut().map_or(64, |session| session.appetite(turn.now));
        for _ in 0..most {
            let Some(completion) = self.host.poll() else { break };
            busy = true;
            let rest = match &mut session {
                Some(session) => session.take(completion),
                None => Some(completion),
            };
            if let Some(completion) = rest {
                self.on_completion(completion)?;
            }
        }
        if turn.now >= self.look_at {
            self.check_session(session, turn.now)?;
        }
        self.idle.turn(busy);
        Ok(turn.now)
    }

    /// Handles a message that is no data. A memo of another session is dropped.
    fn on_completion(&mut self, completion: Completion) -> Result<(), PeerError> {
        match completion {
            Completion::Delivered { from, tag, memory, .. } if from == self.options.server => {
                let is_memo = Tag::unpack(tag).is_some_and(|tag| tag.kind == Kind::Memo);
                let memo = Memo::read(&memory).ok().filter(|_| is_memo);
                match memo.filter(|memo| memo.is_of(self.number)) {
                    Some(Memo::Stop { reason, .. }) => return Err(PeerError::Stopped(reason)),
                    Some(Memo::End { sent, .. }) => self.server_sent = Some(sent),
                    Some(memo) if self.memos.len() < MEMOS_MAX => self.memos.push_back(memo),
                    _ => {}
                }
            }
            Completion::Failed { cookie, reason, .. } => {
                tracing::debug!(%reason, "not delivered");
                let is_ping = Tag::unpack(cookie).is_some_and(|tag| tag.kind == Kind::Ping);
                if is_ping || cookie == self.asked {
                    self.undelivered.get_or_insert(reason);
                }
            }
            Completion::Refused { reason, .. } => tracing::warn!(%reason, "no flow to the server"),
            Completion::Sent { .. }
            | Completion::Closed { .. }
            | Completion::Delivered { .. }
            | Completion::Aborted { .. } => {}
        }
        Ok(())
    }

    /// Checks whether the user wants to end, for silence, and for a message that is never answered;
    /// reports the traffic of the last interval.
    fn check_session(
        &mut self,
        session: Option<&mut Session>,
        now: Instant,
    ) -> Result<(), PeerError> {
        self.look_at = now + LOOK_EVERY;
        self.stopped |= self.monitor.wants_end();
        let Some(session) = session else { return Ok(()) };
        session.report_interval(&self.host, now, self.monitor);
        let silence = now.since(session.silent_since(&self.host, now).max(session.began));
        if silence > self.options.patience {
            let counted = self.host.counters();
            let counted = counted.iter().map(|(name, count)| format!("{name} {count}"));
            let counters = counted.collect::<Vec<_>>().join(", ");
            let seconds = silence.as_ps() / 1_000_000_000_000;
            return Err(PeerError::Silent { seconds, counters });
        }
        // A long silence is the cause, and ends the session soon. Without one the server is there,
        // and would keep the session for ever.
        let is_there = silence < self.options.patience / 2;
        match self.undelivered.filter(|_| is_there) {
            Some(reason) => Err(PeerError::Undelivered(reason)),
            None => Ok(()),
        }
    }
}

impl SessionOutcome {
    /// Checks that the counts of both ends agree.
    fn judge(&mut self, session: &Session, server_sent: Option<Totals>) {
        if let Some(sender) = &session.sender {
            if let Some(reason) = sender.failure() {
                self.findings.push(format!("a message to the server was not sent: {reason}"));
            }
            if !self.sent.agrees(&self.server_received) {
                let (ours, theirs) = (self.sent, self.server_received);
                self.findings.push(format!(
                    "to the server: {} messages of {} bytes acknowledged, {} of {} delivered",
                    ours.messages, ours.bytes, theirs.messages, theirs.bytes
                ));
            }
        }
        if let Some(theirs) = server_sent
            && !theirs.agrees(&self.received)
        {
            let ours = self.received;
            self.findings.push(format!(
                "from the server: {} messages of {} bytes acknowledged, {} of {} delivered",
                theirs.messages, theirs.bytes, ours.messages, ours.bytes
            ));
        }
        for (whose, wrong) in [("here", self.received.wrong), ("there", self.server_received.wrong)]
        {
            if wrong > 0 {
                self.findings.push(format!("{wrong} messages delivered {whose} had wrong bytes"));
            }
        }
    }
}

fn nanoseconds(ticks: u64, hz: u64) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(hz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
