//! One TCP connection between two hosts of a run: lines out, lines in, and whether the other host
//! still runs.
//!
//! A thread reads; it also sends `Alive` now and then, so that a host whose main thread opens a
//! device for seconds still counts as running. A host that sends nothing for [`SILENCE`] counts as
//! gone. Lines have a limit, and a line that is not of the protocol ends the connection.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::Sender;
use experiments::hosts_file::SILENCE_S;
use transport::Duration;
use transport_dpdk::DilatedClock;

use super::message::Say;

/// A silence after which a host counts as gone. A process that ends is noticed at once.
const SILENCE: Duration = Duration::from_s(SILENCE_S);

/// Between two signs of life.
const BEAT: core::time::Duration = core::time::Duration::from_millis(500);

/// The longest time of a write: where it takes longer than a silence may last, no process reads at
/// the other end.
const WRITE_MAX: core::time::Duration = core::time::Duration::from_secs(SILENCE_S);

/// The longest line: the reports of all hosts.
const LINE_MAX: u64 = 128 << 20;

/// Most octets of a flow in the reports of its sender and its receiver.
const FLOW_LINE_MAX: u64 = 288;

/// Flows of a run: the reports of so many fit a line, with room for all else.
pub(super) const FLOWS_MAX: u64 = LINE_MAX / FLOW_LINE_MAX - (1 << 14);

/// An arrival from a host.
#[derive(Debug)]
pub(super) enum FromPeer {
    Line(Say),
    /// The connection has ended, and why.
    Gone(String),
}

/// The connection to one host.
#[derive(Debug)]
pub(super) struct Connection(Arc<Mutex<TcpStream>>);

impl Connection {
    /// Starts to read from `from`; its messages go to `inbox`.
    pub(super) fn start(
        stream: TcpStream,
        (from, inbox): (u32, Sender<(u32, FromPeer)>),
        clock: DilatedClock,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(BEAT))?;
        stream.set_write_timeout(Some(WRITE_MAX))?;
        let reader = BufReader::new(stream.try_clone()?);
        let connection = Self(Arc::new(Mutex::new(stream)));
        let writer = Self(Arc::clone(&connection.0));
        let listen = move || {
            let how = listen(
                reader,
                &writer,
                |say| inbox.send((from, FromPeer::Line(say))).is_ok(),
                clock,
            );
            // A closed inbox has no reader that needs this.
            let _ = inbox.send((from, FromPeer::Gone(how)));
        };
        thread::Builder::new().name(format!("host-{from}")).spawn(listen)?;
        Ok(connection)
    }

    /// Sends a line.
    pub(super) fn say(&self, say: &Say) -> io::Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(&say.line())
    }

    /// Ends the connection; the thread that listens ends too.
    pub(super) fn close(&self) {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The connection may be closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Passes on lines until the connection ends, or `pass` ends it; returns how it ended.
fn listen(
    mut reader: BufReader<TcpStream>,
    writer: &Connection,
    pass: impl Fn(Say) -> bool,
    clock: DilatedClock,
) -> String {
    let beat = Duration::from_ms(u64::try_from(BEAT.as_millis()).unwrap_or(500));
    let mut line = Vec::new();
    let (mut received_at, mut sent_at) = (clock.now(), clock.now());
    loop {
        let before = line.len();
        let room = LINE_MAX.saturating_sub(before as u64);
        let read = reader.by_ref().take(room).read_until(b'\n', &mut line);
        let now = clock.now();
        if line.len() > before {
            received_at = now;
        }
        match read {
            Ok(_) if line.ends_with(b"\n") => {
                let Some(say) = Say::parse(&line) else {
                    return "it said something that this version cannot read".to_owned();
                };
                line.clear();
                if !pass(say) {
                    return String::new();
                }
            }
            Ok(_) if room == 0 => return format!("it sent a line of more than {LINE_MAX} bytes"),
            Ok(_) => return "its process has ended".to_owned(),
            Err(error) if is_pause(error.kind()) => {
                if now.since(received_at) > SILENCE {
                    let seconds = SILENCE.as_us_f64() / 1e6;
                    return format!(
                        "it was silent for {seconds} s: its machine or its network is down"
                    );
                }
            }
            Err(error) => return format!("its process has ended ({error})"),
        }
        if now.since(sent_at) >= beat {
            sent_at = now;
            // The reading thread finds out when a host cannot be reached.
            let _ = writer.say(&Say::Alive);
        }
    }
}

pub(super) fn is_pause(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::super::message::{ReceivedFlow, SentFlow};
    use super::*;

    #[test]
    fn a_flow_takes_no_more_of_a_line_than_is_counted() {
        let (flow, full) = (u32::MAX, u64::MAX);
        let most = Some(full);
        let sent = SentFlow {
            flow,
            start_ps: most,
            acked_ps: most,
            acked: full,
            begun: full,
            failed: false,
        };
        let received = ReceivedFlow { flow, delivered_ps: most, delivered: full, begun: full };
        let sent = serde_json::to_vec(&sent).unwrap().len();
        let received = serde_json::to_vec(&received).unwrap().len();
        // A comma stands behind each.
        assert!((sent + received + 2) as u64 <= FLOW_LINE_MAX, "{sent} and {received}");
    }
}
