//! Another host in the place of the leading one, when that fails while flows are under way.
//!
//! From the start every host but the first listens on a port that the system picks, and names that
//! port when hosts introduce themselves. When the connection to the leading host ends, the host
//! with the least number that is not lost leads. All others connect to it ([`Say::Follow`]) and
//! report which hosts are lost and whether the run is over. It waits for them, and sends the sum of
//! these reports to all ([`Say::Lead`]). A host that does not come is lost, and so is one that any
//! other host has lost. Messages that hosts had sent to the former leading host are void, and the
//! hosts send them again (`ongoing_run.rs`).
//!
//! A host reads connections to that port only once it has lost the leading host itself. So when
//! only one host has lost the leading host, it gets no answer, and ends.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use experiments::plan::RunError;
use transport::Duration;

use super::connection::{Connection, is_pause};
use super::control_port::FirstLine;
use super::meeting::{CONNECT_WITHIN, Meanwhile, Meeting, RETRY};
use super::message::{Hello, Round, RoundPart, Say, SuccessorAddress};

/// How long the leading host waits for others, which may notice later that the former one is gone.
const FOLLOW_WITHIN: Duration = Duration::from_s(if cfg!(test) { 1 } else { 5 });

/// By how much longer a host waits for an answer of the host that is to lead than that host waits.
const LEAD_BEYOND: Duration = Duration::from_s(if cfg!(test) { 1 } else { 5 });

/// The time that `leader`, which is to lead, waits for the others: each of them may try every host
/// before it in vain.
fn follow_within(leader: u32) -> Duration {
    let connect = Duration::from_s(CONNECT_WITHIN.as_secs());
    FOLLOW_WITHIN + connect * u64::from(leader)
}

/// Longer than any answer, octets.
const ANSWER_MAX: usize = 1 << 20;

impl Meeting {
    /// The first round: gives this host's `hello` with the address of its port, and returns the
    /// parts of all hosts, by host.
    pub(super) fn introduce(
        &mut self,
        hello: Hello,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Vec<Hello>, RunError> {
        let hello = Hello { successor: self.successor_port.own, ..hello };
        let (parts, _) = self.gather(Round::Join, RoundPart::Join(hello), meanwhile)?;
        let join = |part| if let RoundPart::Join(hello) = part { Some(hello) } else { None };
        let hellos: Vec<Hello> = parts.into_iter().filter_map(join).collect();
        self.successor_port.all = hellos.iter().map(|hello| hello.successor).collect();
        Ok(hellos)
    }

    /// Goes on without the leading host, which is lost for `reason`: under another, or as that
    /// other.
    ///
    /// # Errors
    /// [`RunError::Peer`] names the host that is lost when no other can be followed.
    pub(super) fn succeed(&mut self, reason: String) -> Result<(), RunError> {
        let failed = self.names[self.leader as usize].clone();
        let alone = RunError::Peer { host: failed, reason: reason.clone(), running: true };
        self.note_lost(self.leader, reason);
        for host in 0..self.count() {
            if self.has_lost(host) {
                continue;
            }
            if host == self.own {
                return self.lead().unwrap_or(Err(alone));
            }
            match self.follow(host) {
                Followed::Leads => return Ok(()),
                Followed::Gone(reason) => self.note_lost(host, reason),
                Followed::Unanswered => break,
            }
        }
        Err(alone)
    }

    /// Takes the place of the leading host; `None` when this host has no port for that.
    fn lead(&mut self) -> Option<Result<(), RunError>> {
        let own = self.successor_port.own?;
        let mut listener = self.successor_port.listener.take()?;
        self.leader = self.own;
        let until = self.clock.now() + follow_within(self.own);
        while self.missing().next().is_some() && self.clock.now() < until {
            match listener.poll(self.clock.now()) {
                Ok(Some(FirstLine::Whole(stream, from, line))) => {
                    if let Err(why) = self.take(stream, own, &line) {
                        listener.log_refused(from, &why);
                    }
                }
                Ok(Some(FirstLine::Refused(from, why))) => listener.log_refused(from, why),
                Ok(None) => thread::sleep(RETRY / 100),
                Err(error) => {
                    tracing::warn!(%error, "no further host can come");
                    break;
                }
            }
        }
        // A host that comes later gets no answer; no second host leads it.
        self.successor_port.listener = Some(listener);
        let missing: Vec<u32> = self.missing().collect();
        for host in missing {
            let leader = &self.names[self.own as usize];
            self.note_lost(host, format!("it did not come to `{leader}`, which leads the run"));
        }
        if let Some(stopped) = self.over {
            self.early.push_back((self.own, Say::End { stopped }));
        }
        Some(self.say_all(&Say::Lead { lost: self.lost.clone(), over: self.over }))
    }

    /// The hosts that have not come and are not known to be lost.
    fn missing(&self) -> impl Iterator<Item = u32> {
        let is_missing = |host: &u32| {
            *host != self.own && !self.has_lost(*host) && self.connections[*host as usize].is_none()
        };
        (0..self.count()).filter(is_missing)
    }

    /// Takes the connection of a host that follows this one.
    fn take(
        &mut self,
        stream: TcpStream,
        own: SuccessorAddress,
        line: &[u8],
    ) -> Result<(), String> {
        let say = Say::parse(line).ok_or("its first line is none of this protocol")?;
        let Say::Follow { host, pass, lost, over } = say else {
            return Err("it does not follow".to_owned());
        };
        if pass != own.pass {
            return Err("it is no host of this run".to_owned());
        }
        if !self.missing().any(|missing| missing == host) {
            return Err(format!("host {host} is not waited for"));
        }
        let connection = Connection::start(stream, (host, self.into_inbox.clone()), self.clock);
        self.connections[host as usize] = Some(connection.map_err(|error| error.to_string())?);
        // Also one that has come: hosts that differ in which are lost never find the end of the
        // run.
        self.note_others_lost(lost, host);
        self.over = self.over.or(over);
        Ok(())
    }

    /// Notes the losses that `host` reports, except its own and this host's.
    pub(super) fn note_others_lost(&mut self, lost: BTreeMap<u32, String>, host: u32) {
        for (lost, reason) in lost {
            if ![self.own, host].contains(&lost) {
                self.note_lost(lost, reason);
            }
        }
    }

    /// Connects to `host`, which is to lead, and waits until it does.
    fn follow(&mut self, host: u32) -> Followed {
        let Some(to) = self.successor_port.all.get(host as usize).copied().flatten() else {
            return Followed::Gone("the others cannot reach it".to_owned());
        };
        let (lost, over) = (self.lost.clone(), self.over);
        let follow = Say::Follow { host: self.own, pass: to.pass, lost, over };
        // A connection that ends without an answer is of a process that has ended, which then takes
        // no further one, or of a host that does not wait for this one.
        for _ in 0..2 {
            let (stream, lead) = match self.ask_to_lead((host, to), &follow) {
                Ok(Some(answered)) => answered,
                Ok(None) => return Followed::Unanswered,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
                Err(error) => return Followed::Gone(format!("it cannot be reached ({error})")),
            };
            let Say::Lead { lost, over } = lead else { return Followed::Unanswered };
            match Connection::start(stream, (host, self.into_inbox.clone()), self.clock) {
                Ok(connection) => self.connections[host as usize] = Some(connection),
                Err(error) => return Followed::Gone(error.to_string()),
            }
            self.leader = host;
            self.note_others_lost(lost, host);
            self.over = over;
            if let Some(stopped) = over {
                self.early.push_back((host, Say::End { stopped }));
            }
            return Followed::Leads;
        }
        Followed::Unanswered
    }

    /// Sends `follow` to `host` at `to`. Returns the connection and the answer, `None` when no
    /// answer comes in time.
    fn ask_to_lead(
        &self,
        (host, to): (u32, SuccessorAddress),
        follow: &Say,
    ) -> io::Result<Option<(TcpStream, Say)>> {
        let mut stream = TcpStream::connect_timeout(&to.address, CONNECT_WITHIN)?;
        stream.write_all(&follow.line())?;
        stream.set_read_timeout(Some(RETRY))?;
        let until = self.clock.now() + follow_within(host) + LEAD_BEYOND;
        // Octet by octet: what follows the answer is for the connection's reader.
        let (mut line, mut octet) = (Vec::new(), [0]);
        while self.clock.now() < until && line.len() < ANSWER_MAX {
            match stream.read_exact(&mut octet) {
                Ok(()) => line.push(octet[0]),
                Err(error) if is_pause(error.kind()) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                Err(error) => return Err(error),
            }
            if line.last() == Some(&b'\n') {
                match Say::parse(&line) {
                    Some(lead @ Say::Lead { .. }) => return Ok(Some((stream, lead))),
                    _ => line.clear(),
                }
            }
        }
        Ok(None)
    }
}

/// The outcome of an attempt to follow a host.
enum Followed {
    Leads,
    /// The host is gone, and why.
    Gone(String),
    /// The host is there, and does not lead.
    Unanswered,
}
