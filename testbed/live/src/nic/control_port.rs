//! The control port, and the connections to it that have not yet sent their first line.
//!
//! Each has a time limit from its arrival, however its bytes trickle in, and no read waits: the
//! host that listens goes on with everything else. However many connections come from one address,
//! they take no place from an address that has fewer. The meaning of a first line is not decided
//! here.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use transport::{Duration, Instant};

/// A first line is complete this long after its connection was accepted, or the connection ends.
const LINE_WITHIN: Duration = Duration::from_s(2);

/// Longer than any first line, bytes.
const LINE_MAX: usize = 1 << 20;

/// Connections that wait at once. Where one more comes, one is closed: the oldest of the address
/// that has most of them.
const WAITING_MAX: usize = 64;

/// The first refusals, which are all logged. A later one is logged where its number is a power of
/// two.
const LOGGED_EACH: u64 = 16;

/// Bytes that one connection is read at a time.
const PIECE: usize = 16 << 10;

/// The listening socket and the connections that wait.
#[derive(Debug)]
pub(super) struct ControlPort {
    listener: TcpListener,
    /// Oldest first, at most [`WAITING_MAX`] between two polls.
    waiting: VecDeque<WaitingConnection>,
    /// Refusals so far.
    refused: u64,
}

/// A connection without a whole first line.
#[derive(Debug)]
struct WaitingConnection {
    stream: TcpStream,
    from: SocketAddr,
    line: Vec<u8>,
    until: Instant,
}

/// A connection that has been decided: by its first line, or by its end.
#[derive(Debug)]
pub(super) enum FirstLine {
    /// The connection's first line, newline included. The stream blocks again.
    Whole(TcpStream, SocketAddr, Vec<u8>),
    /// The connection was closed, and why.
    Refused(SocketAddr, &'static str),
}

impl ControlPort {
    /// Listens on `address`.
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, waiting: VecDeque::new(), refused: 0 })
    }

    /// The address that the listener is bound to.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next connection whose fate is decided by `now`; `None` when there is none. Never waits.
    ///
    /// # Errors
    /// When the listening socket fails.
    pub(super) fn poll(&mut self, now: Instant) -> io::Result<Option<FirstLine>> {
        loop {
            // First the lines of those that wait: others that come all the time must not keep this
            // host from reading them.
            if let Some(first) = self.decided(now) {
                return Ok(Some(first));
            }
            if self.waiting.len() > WAITING_MAX {
                return Ok(self.make_room());
            }
            match self.listener.accept() {
                Ok((stream, from)) if stream.set_nonblocking(true).is_err() => {
                    return Ok(Some(FirstLine::Refused(from, "its connection failed")));
                }
                Ok((stream, from)) => {
                    let until = now + LINE_WITHIN;
                    self.waiting.push_back(WaitingConnection {
                        stream,
                        from,
                        line: Vec::new(),
                        until,
                    });
                }
                Err(error) if is_passing(error.kind()) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Logs that a connection was refused; only some of many, so that a stranger that connects all
    /// the time fills no log.
    pub(super) fn log_refused(&mut self, from: SocketAddr, why: &str) {
        self.refused += 1;
        if self.refused <= LOGGED_EACH || self.refused.is_power_of_two() {
            tracing::warn!(%from, why, refused = self.refused, "a connection was refused");
        }
    }

    /// Reads what has come from each connection that waits; the first whose fate is decided by
    /// `now`.
    fn decided(&mut self, now: Instant) -> Option<FirstLine> {
        for index in 0..self.waiting.len() {
            let Some(connection) = self.waiting.get_mut(index) else { break };
            let outcome = match connection.read() {
                Ok(false) if now > connection.until => Err("it sent no whole line in time"),
                other => other,
            };
            let whole = match outcome {
                Ok(false) => continue,
                Ok(true) => Ok(()),
                Err(why) => Err(why),
            };
            let WaitingConnection { stream, from, line, .. } = self.waiting.remove(index)?;
            return Some(match whole {
                Ok(()) => match stream.set_nonblocking(false) {
                    Ok(()) => FirstLine::Whole(stream, from, line),
                    Err(_) => FirstLine::Refused(from, "its connection failed"),
                },
                Err(why) => FirstLine::Refused(from, why),
            });
        }
        None
    }

    /// Closes the oldest connection of the address that has most of them.
    fn make_room(&mut self) -> Option<FirstLine> {
        let of = |ip: IpAddr| {
            self.waiting.iter().filter(|connection| connection.from.ip() == ip).count()
        };
        let crowds = |at: &usize| (of(self.waiting[*at].from.ip()), Reverse(*at));
        let at = (0..self.waiting.len()).max_by_key(crowds)?;
        let WaitingConnection { from, .. } = self.waiting.remove(at)?;
        Some(FirstLine::Refused(from, "too many others wait"))
    }
}

impl WaitingConnection {
    /// Reads one piece of the bytes that have come. True when the line is whole. If this host was
    /// slow, the other has sent signs of life behind its line; they stay in the connection.
    fn read(&mut self) -> Result<bool, &'static str> {
        let mut piece = [0; PIECE];
        let seen = match self.stream.peek(&mut piece) {
            Ok(0) => return Err("it ended without a line"),
            Ok(seen) => &piece[..seen],
            Err(error) if is_passing(error.kind()) => return Ok(false),
            Err(_) => return Err("its connection failed"),
        };
        let end = seen.iter().position(|octet| *octet == b'\n').map(|end| end + 1);
        let mut read = [0; PIECE];
        let read = &mut read[..end.unwrap_or(seen.len())];
        self.stream.read_exact(read).map_err(|_| "its connection failed")?;
        self.line.extend_from_slice(read);
        match end {
            Some(_) => Ok(true),
            None if self.line.len() > LINE_MAX => Err("its line has no end"),
            None => Ok(false),
        }
    }
}

/// Whether `accept` may be tried again after this error. One cause is a connection that its peer
/// gave up before it was accepted.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use super::*;

    fn control_port() -> (ControlPort, SocketAddr) {
        let control_port = ControlPort::open("127.0.0.1:0").unwrap();
        let address = control_port.listener.local_addr().unwrap();
        (control_port, address)
    }

    /// Polls at `now` until something is decided; panics after two seconds.
    fn decided(control_port: &mut ControlPort, now: Instant) -> FirstLine {
        for _ in 0..2000 {
            if let Some(first) = control_port.poll(now).unwrap() {
                return first;
            }
            thread::sleep(core::time::Duration::from_millis(1));
        }
        panic!("nothing was decided");
    }

    /// Polls until as many connections wait.
    fn waiting(control_port: &mut ControlPort, count: usize, now: Instant) {
        while control_port.waiting.len() < count {
            assert!(control_port.poll(now).unwrap().is_none());
        }
    }

    #[test]
    fn a_line_in_pieces_is_a_line_if_it_is_whole_in_time() {
        let (mut control_port, address) = control_port();
        let mut stream = TcpStream::connect(address).unwrap();
        for piece in [&b"a li"[..], b"ne", b"\n"] {
            stream.write_all(piece).unwrap();
            thread::sleep(core::time::Duration::from_millis(5));
            if piece == b"\n" {
                break;
            }
            waiting(&mut control_port, 1, Instant::ZERO);
            assert!(control_port.poll(Instant::ZERO).unwrap().is_none());
        }
        let FirstLine::Whole(_, _, line) = decided(&mut control_port, Instant::ZERO) else {
            panic!()
        };
        assert_eq!(line, b"a line\n");
    }

    #[test]
    fn a_connection_that_trickles_is_closed_at_its_time_and_holds_up_none_behind_it() {
        let (mut control_port, address) = control_port();
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"x").unwrap();
        waiting(&mut control_port, 1, Instant::ZERO);
        let mut quick = TcpStream::connect(address).unwrap();
        quick.write_all(b"quick\n").unwrap();
        let FirstLine::Whole(_, _, line) = decided(&mut control_port, Instant::ZERO) else {
            panic!()
        };
        assert_eq!(line, b"quick\n");
        // A byte just before the limit does not move the limit.
        let limit = Instant::ZERO + LINE_WITHIN;
        slow.write_all(b"y").unwrap();
        thread::sleep(core::time::Duration::from_millis(5));
        assert!(control_port.poll(limit).unwrap().is_none());
        let late = decided(&mut control_port, limit + Duration::from_ps(1));
        assert!(matches!(late, FirstLine::Refused(_, "it sent no whole line in time")), "{late:?}");
    }

    #[test]
    fn what_waits_is_bounded_and_the_oldest_makes_room() {
        let (mut control_port, address) = control_port();
        let mut streams = vec![TcpStream::connect(address).unwrap()];
        let oldest = streams[0].local_addr().unwrap();
        waiting(&mut control_port, 1, Instant::ZERO);
        for count in 2..=WAITING_MAX {
            streams.push(TcpStream::connect(address).unwrap());
            waiting(&mut control_port, count, Instant::ZERO);
        }
        streams.push(TcpStream::connect(address).unwrap());
        let FirstLine::Refused(from, _) = decided(&mut control_port, Instant::ZERO) else {
            panic!()
        };
        assert_eq!((from, control_port.waiting.len()), (oldest, WAITING_MAX));
    }

    #[test]
    fn many_connections_of_one_address_take_the_place_of_none_of_another() {
        let (mut control_port, address) = control_port();
        let mut quick = TcpStream::connect(address).unwrap();
        waiting(&mut control_port, 1, Instant::ZERO);
        let other = SocketAddr::from(([192, 0, 2, 1], 7));
        control_port.waiting[0].from = other;
        let mut strangers = Vec::new();
        for count in 0..3 * WAITING_MAX {
            strangers.push(TcpStream::connect(address).unwrap());
            if count + 1 < WAITING_MAX {
                waiting(&mut control_port, count + 2, Instant::ZERO);
                continue;
            }
            let FirstLine::Refused(from, _) = decided(&mut control_port, Instant::ZERO) else {
                panic!()
            };
            assert_ne!(from, other);
        }
        quick.write_all(b"quick\n").unwrap();
        let FirstLine::Whole(_, from, line) = decided(&mut control_port, Instant::ZERO) else {
            panic!()
        };
        assert_eq!((from, &*line), (other, &b"quick\n"[..]));
    }

    #[test]
    fn a_whole_line_is_read_before_its_connection_could_make_room() {
        let (mut control_port, address) = control_port();
        let mut strangers = Vec::new();
        for count in 1..=WAITING_MAX {
            strangers.push(TcpStream::connect(address).unwrap());
            waiting(&mut control_port, count, Instant::ZERO);
        }
        let mut quick = TcpStream::connect(address).unwrap();
        quick.write_all(b"quick\n").unwrap();
        strangers.extend((0..WAITING_MAX).map(|_| TcpStream::connect(address).unwrap()));
        let FirstLine::Whole(_, _, line) = decided(&mut control_port, Instant::ZERO) else {
            panic!()
        };
        assert_eq!(line, b"quick\n");
    }

    #[test]
    fn what_a_host_sends_behind_its_first_line_stays_in_its_connection() {
        let (mut control_port, address) = control_port();
        let mut host = TcpStream::connect(address).unwrap();
        host.write_all(b"one\ntwo\n").unwrap();
        drop(host);
        let FirstLine::Whole(mut stream, _, line) = decided(&mut control_port, Instant::ZERO)
        else {
            panic!()
        };
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!((line, rest), (b"one\n".to_vec(), b"two\n".to_vec()));
    }

    #[test]
    fn an_endless_line_and_an_early_end_are_refused() {
        for (octets, expected) in [
            (vec![b'x'; LINE_MAX + 1], "its line has no end"),
            (b"half".to_vec(), "it ended without a line"),
        ] {
            let (mut control_port, address) = control_port();
            let writer = thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                // The other end closes the connection under an endless line.
                let _ = stream.write_all(&octets);
            });
            let FirstLine::Refused(_, why) = decided(&mut control_port, Instant::ZERO) else {
                panic!()
            };
            assert_eq!(why, expected);
            drop(control_port);
            writer.join().unwrap();
        }
    }
}
