//! The thread that writes a capture while workers fill their taps.
//!
//! In each round it takes the packets of all taps, puts them in order of time and writes them; it
//! sleeps a millisecond when there were none. Within a round packets are in order; a worker that
//! was slow may bring older ones in the next round (`reordercap` puts all in order). Stamps are
//! network time since the start of the run, added to the wall clock of that start.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use experiments::capture::pcapng::{Direction, Interface, Packet, StampUnit, Statistics, Writer};
use transport_dpdk::{Captured, TapReader};

/// A worker whose frames are captured.
#[derive(Debug)]
pub(crate) struct TappedWorker {
    /// The name in the file.
    pub(crate) name: String,
    pub(crate) description: String,
    /// bit/s.
    pub(crate) speed: u64,
    pub(crate) reader: TapReader,
}

/// A capture under way.
#[derive(Debug)]
pub(crate) struct CaptureThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

const NAP: Duration = Duration::from_millis(1);

impl CaptureThread {
    /// Writes the frames of `tapped` to `file`, of each of which `snap` bytes are kept.
    pub(crate) fn start(
        file: File,
        tapped: Vec<TappedWorker>,
        snap: u32,
        comment: &str,
    ) -> io::Result<Self> {
        let mut writer = Writer::new(BufWriter::new(file), comment, StampUnit::Nanosecond)?;
        for TappedWorker { name, description, speed, .. } in &tapped {
            writer.interface(&Interface { name, description, speed: *speed, snap })?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let start_ns = wall_clock_ns();
        let rounds = Rounds { writer, tapped, start_ns, taken: Vec::new(), bytes: Vec::new() };
        let thread = thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || rounds.until(&stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Writes the remaining frames and ends. No worker fills a tap any more.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for CaptureThread {
    fn drop(&mut self) {
        // An error ends the run; it says more than this thread could.
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The state of the writing thread.
struct Rounds {
    writer: Writer<BufWriter<File>>,
    tapped: Vec<TappedWorker>,
    start_ns: u64,
    /// Frames taken in this round: the frame, its source, and where its bytes begin.
    taken: Vec<(Captured, usize, usize)>,
    bytes: Vec<u8>,
}

/// Frames that a round takes from one source, so that a round's memory is bounded.
const ROUND: usize = 4096;

impl Rounds {
    fn until(mut self, stop: &AtomicBool) -> io::Result<()> {
        loop {
            // The flag is read first: all frames up to the stop are in the rings then.
            let last = stop.load(Ordering::Acquire);
            if self.turn()? == 0 {
                if last {
                    return self.end();
                }
                thread::sleep(NAP);
            }
        }
    }

    /// Writes the frames that have come; returns how many.
    fn turn(&mut self) -> io::Result<usize> {
        self.taken.clear();
        self.bytes.clear();
        for (index, source) in self.tapped.iter_mut().enumerate() {
            for _ in 0..ROUND {
                let start = self.bytes.len();
                let Some(frame) = source.reader.next(&mut self.bytes) else { break };
                self.taken.push((frame, index, start));
            }
        }
        self.taken.sort_by_key(|(frame, ..)| frame.at);
        for (frame, index, start) in &self.taken {
            let kept = usize::try_from(frame.kept).unwrap_or(usize::MAX);
            self.writer.packet(&Packet {
                interface: u32::try_from(*index).unwrap_or(u32::MAX),
                at: self.start_ns + frame.at.as_ps() / 1000,
                direction: if frame.sent { Direction::Sent } else { Direction::Received },
                len: frame.len,
                bytes: self.bytes.get(*start..*start + kept).unwrap_or_default(),
            })?;
        }
        Ok(self.taken.len())
    }

    fn end(mut self) -> io::Result<()> {
        let span = (self.start_ns, wall_clock_ns().max(self.start_ns));
        for (index, source) in (0..).zip(&self.tapped) {
            let (seen, lost) = (source.reader.seen(), source.reader.lost());
            self.writer.statistics(index, &Statistics { span, seen, lost })?;
        }
        self.writer.flush()
    }
}

/// Nanoseconds since 1970: what other captures are stamped with.
#[expect(clippy::disallowed_types, reason = "a stamp for people, which decides nothing")]
fn wall_clock_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
