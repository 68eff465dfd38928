//! The connections of a run's hosts: a star of TCP connections around the first host.
//!
//! Rounds ([`Meeting::gather`]) are the only meeting points: every host gives its part, and the
//! first host collects all parts and passes them to all hosts. A host that cannot go on sends the
//! reason. A host that receives it, or that has lost another host, ends with an error that names
//! that host. So no host waits for one that is gone.
//!
//! Once flows have begun, a host that fails is lost, and the others go on. The leading host, which
//! is the first one at the start, ends the connection of the lost host, notifies the others, and
//! gives its part of further rounds. When the leading host fails, another takes its place
//! (`succession.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::io::{ErrorKind, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::thread;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use experiments::hosts_file::HostsFile;
use experiments::plan::RunError;
use transport::{Duration, Instant};
use transport_dpdk::DilatedClock;

use super::connection::{Connection, FromPeer};
use super::control_port::{ControlPort, FirstLine};
use super::message::{Hello, Round, RoundPart, Say};
use super::offset::Offset;
use super::successor_port::SuccessorPort;

/// A function that is called while this host waits for others. It answers peers, and returns an
/// error to end the wait.
pub(super) type Meanwhile<'a> = &'a mut dyn FnMut() -> Result<(), RunError>;

/// This host among the others.
#[derive(Debug)]
pub(super) struct Meeting {
    pub(super) names: Vec<String>,
    pub(super) own: u32,
    /// The host that all others are connected to: the first one, or the one in its place.
    pub(super) leader: u32,
    /// For each host that this one is connected to: its connection.
    pub(super) connections: Vec<Option<Connection>>,
    pub(super) inbox: Receiver<(u32, FromPeer)>,
    /// The other end of `inbox`.
    pub(super) into_inbox: Sender<(u32, FromPeer)>,
    /// Messages that came before they were asked for.
    pub(super) early: VecDeque<(u32, Say)>,
    /// Whether flows have begun.
    pub(super) running: bool,
    /// Hosts that failed since, and why.
    pub(super) lost: BTreeMap<u32, String>,
    /// Set when the end of the run is known: whether it was ended early.
    pub(super) over: Option<bool>,
    /// Where this host and the others listen in case the leading host fails.
    pub(super) successor_port: SuccessorPort,
    pub(super) clock: DilatedClock,
}

/// Between two attempts to reach the first host.
pub(super) const RETRY: core::time::Duration = core::time::Duration::from_millis(100);

/// How long one attempt to reach another host takes at most.
pub(super) const CONNECT_WITHIN: core::time::Duration = core::time::Duration::from_secs(2);

/// Questions about the time, of which the fastest answer counts.
const CLOCK_ASKS: u32 = 32;

impl Meeting {
    /// Connects host `hello.host` with the others, for as long as `patience`; `going_on` fails when
    /// the user ends the run.
    ///
    /// # Errors
    /// [`RunError::Peer`] names a host that did not come.
    pub(super) fn open(
        network: &HostsFile,
        hello: &Hello,
        (clock, patience): (DilatedClock, Duration),
        going_on: Meanwhile<'_>,
    ) -> Result<Self, RunError> {
        let (into_inbox, inbox) = unbounded();
        let names: Vec<String> = network.hosts.iter().map(|host| host.name.clone()).collect();
        let mut meeting = Self {
            connections: names.iter().map(|_| None).collect(),
            names,
            own: hello.host,
            leader: 0,
            inbox,
            into_inbox,
            early: VecDeque::new(),
            running: false,
            lost: BTreeMap::new(),
            over: None,
            successor_port: SuccessorPort::default(),
            clock,
        };
        let address = network.control();
        let until = clock.now() + patience;
        if hello.host == 0 {
            meeting.wait_for_all(address, until, going_on)?;
        } else {
            meeting.join(address, until, going_on)?;
        }
        Ok(meeting)
    }

    /// The first host: takes connections until all others have one.
    fn wait_for_all(
        &mut self,
        address: &str,
        until: Instant,
        going_on: Meanwhile<'_>,
    ) -> Result<(), RunError> {
        let refused = |error| {
            RunError::Environment(format!(
                "cannot listen on {address}, the `control` of the first host ({error}): it must \
                 be an address of this machine, and the port be free"
            ))
        };
        let mut control_port = ControlPort::open(address).map_err(refused)?;
        while self.connections.iter().skip(1).any(Option::is_none) {
            going_on()?;
            match control_port.poll(self.clock.now()).map_err(refused)? {
                Some(FirstLine::Whole(stream, from, line)) => {
                    if let Err(why) = self.admit(&stream, &line) {
                        control_port.log_refused(from, &why);
                        self.refuse(&stream, &why);
                    }
                }
                Some(FirstLine::Refused(from, why)) => control_port.log_refused(from, why),
                None => thread::sleep(RETRY / 10),
            }
            self.free_places();
            if self.clock.now() > until {
                let missing = self.connections.iter().zip(&self.names).skip(1);
                let missing: Vec<&str> = missing
                    .filter(|(connection, _)| connection.is_none())
                    .map(|(_, name)| &**name)
                    .collect();
                let host = missing.join("`, `");
                let reason = format!("it did not connect to {address} in time");
                return Err(self.fail(host, reason));
            }
        }
        Ok(())
    }

    /// Takes a connection if its first line names a host that is missing.
    fn admit(&mut self, stream: &TcpStream, line: &[u8]) -> Result<(), String> {
        let io = |error: std::io::Error| error.to_string();
        let say = Say::parse(line).ok_or("its first line is none of this protocol")?;
        let Say::Part { part: RoundPart::Join(hello), .. } = &say else {
            return Err("it did not introduce itself".to_owned());
        };
        let host = hello.host;
        let place = self.connections.get_mut(host as usize).filter(|_| host > 0);
        let Some(place) = place else { return Err(format!("there is no host {host}")) };
        if place.is_some() {
            let name = &self.names[host as usize];
            return Err(format!(
                "another process runs as host `{name}` already: end that one, or give this one a \
                 `--host` of its own"
            ));
        }
        let inbox = (host, self.into_inbox.clone());
        let stream = stream.try_clone().map_err(io)?;
        *place = Some(Connection::start(stream, inbox, self.clock).map_err(io)?);
        self.early.push_back((host, say));
        Ok(())
    }

    /// Sends the process at the other end, which may be a stranger, the reason of a refusal.
    fn refuse(&self, mut stream: &TcpStream, why: &str) {
        let reason = format!("it refused this process, since {why}");
        let failed = Say::Failed { host: self.names[self.own as usize].clone(), reason };
        // A stranger may be gone already.
        let _ = stream.write_all(&failed.line());
    }

    /// Frees the places of hosts whose process has ended while others are still missing, so that
    /// they may be started again.
    fn free_places(&mut self) {
        while let Ok((from, said)) = self.inbox.try_recv() {
            let host = &self.names[from as usize];
            match said {
                FromPeer::Gone(why) => {
                    tracing::warn!(host, why, "a host left before all had come; its place is free");
                    self.connections[from as usize] = None;
                    self.early.retain(|(host, _)| *host != from);
                }
                // The end of its connection follows.
                FromPeer::Line(Say::Failed { reason, .. }) => {
                    tracing::warn!(host, reason, "a host cannot go on");
                }
                FromPeer::Line(Say::Alive) => {}
                FromPeer::Line(say) => self.early.push_back((from, say)),
            }
        }
    }

    /// Any other host: connects to the first.
    fn join(
        &mut self,
        address: &str,
        until: Instant,
        going_on: Meanwhile<'_>,
    ) -> Result<(), RunError> {
        loop {
            going_on()?;
            let to = address.to_socket_addrs().map(|mut all| all.next());
            let connected = match to {
                Ok(Some(to)) => TcpStream::connect_timeout(&to, CONNECT_WITHIN),
                Ok(None) => Err(ErrorKind::AddrNotAvailable.into()),
                Err(error) => Err(error),
            };
            let connection = connected.and_then(|stream| {
                self.successor_port.open(stream.local_addr()?.ip());
                Connection::start(stream, (0, self.into_inbox.clone()), self.clock)
            });
            match connection {
                Ok(connection) => {
                    self.connections[0] = Some(connection);
                    return Ok(());
                }
                Err(error) if self.clock.now() > until => {
                    let reason = format!("it cannot be reached at {address} ({error})");
                    return Err(self.fail(self.names[0].clone(), reason));
                }
                Err(_) => thread::sleep(RETRY),
            }
        }
    }

    /// The names of all hosts.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The host that all others are connected to: the first one, or the one in its place.
    pub(super) const fn leader(&self) -> u32 {
        self.leader
    }

    /// Whether this host leads.
    pub(super) const fn leads(&self) -> bool {
        self.own == self.leader
    }

    /// From now on a failure counts as one of a run under way.
    pub(super) const fn begin(&mut self) {
        self.running = true;
    }

    /// Whether `host` failed since flows have begun.
    pub(super) fn has_lost(&self, host: u32) -> bool {
        self.lost.contains_key(&host)
    }

    /// Host `host` cannot go on. While flows are under way, the leading host notifies the others
    /// and goes on without it; the caller receives [`Say::Lost`], too. Without the leading host
    /// another leads.
    ///
    /// # Errors
    /// [`RunError::Peer`] when this host cannot go on without it.
    fn lose(&mut self, host: u32, reason: String) -> Result<(), RunError> {
        if !self.running {
            return Err(self.fail(self.names[host as usize].clone(), reason));
        }
        if self.has_lost(host) {
            return Ok(());
        }
        if !self.leads() {
            return self.succeed(reason);
        }
        self.note_lost(host, reason.clone());
        self.say_all(&Say::Lost { host, reason })
    }

    /// Ends the connection to `host`, which is lost, and reports the loss to the caller. Without
    /// effect for a number that no host has: other processes send such numbers.
    pub(super) fn note_lost(&mut self, host: u32, reason: String) {
        let Some(connection) = self.connections.get_mut(host as usize) else { return };
        if self.lost.contains_key(&host) {
            return;
        }
        if let Some(connection) = connection.take() {
            connection.close();
        }
        self.lost.insert(host, reason.clone());
        self.early.push_back((self.own, Say::Lost { host, reason }));
    }

    /// Gives this host's part of a round and waits for all others'; returns all, by host, and the
    /// time of the leading host's clock when they were complete.
    pub(super) fn gather(
        &mut self,
        round: Round,
        part: RoundPart,
        meanwhile: Meanwhile<'_>,
    ) -> Result<(Vec<RoundPart>, u64), RunError> {
        while !self.leads() {
            // Again where another host leads now.
            if let Some(whole) = self.hand_in(round, &part, meanwhile)? {
                return Ok(whole);
            }
        }
        self.collect(round, part, meanwhile)
    }

    /// Gives this host's part to the leading host and waits for all parts; `None` when another host
    /// leads before they have come.
    fn hand_in(
        &mut self,
        round: Round,
        part: &RoundPart,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Option<(Vec<RoundPart>, u64)>, RunError> {
        let leader = self.leader;
        self.say(leader, &Say::Part { round, part: part.clone() })?;
        while self.leader == leader {
            match self.poll()? {
                Some((_, Say::Whole { round: of, parts, now_ps })) if of == round => {
                    return Ok(Some((parts, now_ps)));
                }
                Some((from, say)) => self.stale(from, &say)?,
                None => wait(meanwhile)?,
            }
        }
        Ok(None)
    }

    /// The leading host: waits for the parts of all, and passes them to all.
    fn collect(
        &mut self,
        round: Round,
        part: RoundPart,
        meanwhile: Meanwhile<'_>,
    ) -> Result<(Vec<RoundPart>, u64), RunError> {
        let mut parts: Vec<Option<RoundPart>> = self.names.iter().map(|_| None).collect();
        parts[self.own as usize] = Some(part);
        loop {
            for (host, reason) in &self.lost {
                let lost = || RoundPart::Lost { reason: reason.clone() };
                if let Some(part) = parts.get_mut(*host as usize) {
                    part.get_or_insert_with(lost);
                }
            }
            if parts.iter().all(Option::is_some) {
                break;
            }
            match self.poll()? {
                Some((from, Say::Part { round: of, part }))
                    if of == round && part.round() == Some(round) =>
                {
                    parts[from as usize] = Some(part);
                }
                Some((from, say)) => self.stale(from, &say)?,
                None => wait(meanwhile)?,
            }
        }
        let parts: Vec<RoundPart> = parts.into_iter().flatten().collect();
        let now_ps = self.clock.now().as_ps();
        self.say_all(&Say::Whole { round, parts: parts.clone(), now_ps })?;
        Ok((parts, now_ps))
    }

    /// Notifies all others that the run is over.
    pub(super) fn end(&mut self, stopped: bool) -> Result<(), RunError> {
        self.over = Some(stopped);
        self.say_all(&Say::End { stopped })
    }

    /// The error of host `from`, whose part does not belong to the round.
    pub(super) fn out_of_turn(&self, from: u32, part: &RoundPart) -> RunError {
        self.fail(self.names[from as usize].clone(), out_of_turn(part))
    }

    /// Ignores a message that may still be on its way when a run has ended. The sender of any other
    /// cannot go on.
    ///
    /// # Errors
    /// See [`Meeting::lose`].
    pub(super) fn stale(&mut self, from: u32, say: &Say) -> Result<(), RunError> {
        match say {
            Say::Idle(_)
            | Say::Poke(_)
            | Say::Stop
            | Say::End { .. }
            | Say::Lost { .. }
            | Say::ClockAnswer { .. } => Ok(()),
            other => self.lose(from, out_of_turn(other)),
        }
    }

    /// Whether host `from` may send `say`. What holds for all hosts comes from the leading host
    /// alone. It never reports the loss of the receiver, whose connection it ends, nor its own. A
    /// leading host whose hosts file has other hosts gets as far as round Join, which shows that.
    fn may_say(&self, from: u32, say: &Say) -> bool {
        let leads = from == self.leader;
        match say {
            Say::Lost { host, .. } => {
                leads && *host < self.count() && ![from, self.own].contains(host)
            }
            Say::Whole { round, parts, .. } => {
                leads && (*round == Round::Join || parts.len() == self.names.len())
            }
            Say::Ask | Say::End { .. } | Say::ClockAnswer { .. } => leads,
            _ => true,
        }
    }

    /// The next message of another host; `None` when there is none.
    ///
    /// # Errors
    /// [`RunError::Peer`] when a host cannot go on or is gone.
    pub(super) fn poll(&mut self) -> Result<Option<(u32, Say)>, RunError> {
        if let Some(early) = self.early.pop_front() {
            return Ok(Some(early));
        }
        loop {
            match self.inbox.try_recv() {
                Ok((_, FromPeer::Line(Say::Alive))) => {}
                Ok((from, FromPeer::Line(Say::ClockAsk { sent_ps }))) => {
                    let now_ps = self.clock.now().as_ps();
                    self.say(from, &Say::ClockAnswer { sent_ps, now_ps })?;
                }
                Ok((from, FromPeer::Line(Say::Failed { host, reason }))) => {
                    if !self.running {
                        return Err(self.fail(host, reason));
                    }
                    self.lose(from, reason)?;
                    return Ok(self.early.pop_front());
                }
                Ok((from, FromPeer::Gone(reason))) => {
                    self.lose(from, reason)?;
                    return Ok(self.early.pop_front());
                }
                // A line of a host that is lost may have been on its way.
                Ok((from, FromPeer::Line(_))) if self.has_lost(from) => {}
                Ok((from, FromPeer::Line(say))) if !self.may_say(from, &say) => {
                    self.lose(from, out_of_turn(&say))?;
                    return Ok(self.early.pop_front());
                }
                Ok((_, FromPeer::Line(Say::Lost { host, reason }))) => {
                    self.note_lost(host, reason);
                    if let Some(early) = self.early.pop_front() {
                        return Ok(Some(early));
                    }
                }
                Ok((from, FromPeer::Line(say))) => {
                    if let Say::End { stopped } = say {
                        self.over = Some(stopped);
                    }
                    return Ok(Some((from, say)));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Notices failures; other messages are kept for later.
    pub(super) fn look(&mut self) -> Result<(), RunError> {
        let mut kept = VecDeque::new();
        std::mem::swap(&mut kept, &mut self.early);
        while let Some(said) = self.poll()? {
            kept.push_back(said);
        }
        self.early = kept;
        Ok(())
    }

    /// Compares clocks with the leading host, which must be waiting in a round meanwhile. The
    /// answer means nothing where another host leads from then on.
    pub(super) fn compare_clocks(&mut self, meanwhile: Meanwhile<'_>) -> Result<Offset, RunError> {
        if self.leads() {
            return Ok(Offset::none());
        }
        let leader = self.leader;
        let mut offset = Offset::default();
        for _ in 0..CLOCK_ASKS {
            let asked = self.clock.now();
            self.say(leader, &Say::ClockAsk { sent_ps: asked.as_ps() })?;
            while self.leader == leader {
                match self.poll()? {
                    Some((_, Say::ClockAnswer { sent_ps, now_ps })) if sent_ps == asked.as_ps() => {
                        offset.add(asked, now_ps, self.clock.now());
                        break;
                    }
                    Some((from, say)) => self.stale(from, &say)?,
                    None => wait(meanwhile)?,
                }
            }
        }
        Ok(offset)
    }

    /// Sends `say` to one host.
    pub(super) fn say(&mut self, to: u32, say: &Say) -> Result<(), RunError> {
        let connection = self.connections.get(to as usize).and_then(Option::as_ref);
        match connection.map(|connection| connection.say(say)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                // The host may have sent a reason before its connection ended.
                thread::sleep(RETRY);
                self.look()?;
                self.lose(to, format!("it does not listen any more ({error})"))
            }
        }
    }

    /// Sends `say` to all hosts that this one is connected to.
    pub(super) fn say_all(&mut self, say: &Say) -> Result<(), RunError> {
        (0..self.count()).try_for_each(|to| self.say(to, say))
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }

    /// The error of a host that is gone; all others are notified.
    fn fail(&self, host: String, reason: String) -> RunError {
        self.send_failure(&host, &reason);
        RunError::Peer { host, reason, running: self.running }
    }

    /// Notifies all hosts in reach that `host` cannot go on.
    fn send_failure(&self, host: &str, reason: &str) {
        let failed = Say::Failed { host: host.to_owned(), reason: reason.to_owned() };
        for connection in self.connections.iter().flatten() {
            // The connection may be the one that is gone.
            let _ = connection.say(&failed);
        }
    }

    /// Notifies all hosts that this host cannot go on, unless another host's failure, of which they
    /// are notified already, is the reason.
    pub(super) fn give_up(&self, error: &RunError) {
        if !matches!(error, RunError::Peer { .. } | RunError::Disagree(_)) {
            self.send_failure(&self.names[self.own as usize], &error.to_string());
        }
    }

    /// Ends the connections after the last messages are sent: the leading host leaves when all
    /// others have left.
    pub(super) fn part(&mut self) {
        let until = self.clock.now() + Duration::from_s(5);
        if self.leads() {
            // A host that leaves sends `Bye`, and then its connection ends: it counts once.
            let mut there: BTreeSet<u32> = (0..)
                .zip(&self.connections)
                .filter_map(|(host, connection)| connection.as_ref().map(|_| host))
                .collect();
            while !there.is_empty() && self.clock.now() < until {
                match self.inbox.try_recv() {
                    Ok((from, FromPeer::Line(Say::Bye) | FromPeer::Gone(_))) => {
                        there.remove(&from);
                    }
                    Ok(_) => {}
                    Err(_) => thread::sleep(RETRY / 100),
                }
            }
        } else {
            // Everything was received, so nothing is lost if this is.
            let _ = self.connections[self.leader as usize]
                .as_ref()
                .map(|connection| connection.say(&Say::Bye));
        }
    }
}

/// Why a host that has sent `what` cannot go on.
fn out_of_turn(what: &impl Debug) -> String {
    format!("it said something out of turn: {:.80}", format!("{what:?}"))
}

fn wait(meanwhile: Meanwhile<'_>) -> Result<(), RunError> {
    meanwhile()?;
    thread::yield_now();
    Ok(())
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.connections.iter().flatten().for_each(Connection::close);
    }
}

#[cfg(test)]
mod tests;
