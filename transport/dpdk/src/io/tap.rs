//! Copies of a worker's frames, sent and received, on their way to a file.
//!
//! The worker copies frames into a ring of bytes and goes on; another thread has the other end
//! and takes them out. A frame that finds no room is lost to the capture, and counted, never to
//! the worker. A record is 16 bytes of head and the bytes kept. Stamps are network time: of a
//! received frame when it arrived, as the endpoint is given it; of a sent one when it was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use transport::Instant;

/// The worker's end.
#[derive(Debug)]
pub struct Tap {
    ring: Producer<u8>,
    counts: Arc<TapCounts>,
    /// Bytes kept of a frame.
    snap: usize,
    /// One frame of so many is taken, at least 1.
    every: u32,
    /// Frames until the next that is taken.
    until: u32,
}

/// The reading end of a tap.
#[derive(Debug)]
pub struct TapReader {
    ring: Consumer<u8>,
    counts: Arc<TapCounts>,
    /// Read already; its bytes are still to come.
    pending: Option<Captured>,
}

/// Numbers of frames; the worker is the only writer.
#[derive(Debug, Default)]
struct TapCounts {
    seen: AtomicU64,
    lost: AtomicU64,
}

/// Metadata of a captured frame beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captured {
    /// When the worker sent or received the frame.
    pub at: Instant,
    /// Sent by the worker; else received.
    pub sent: bool,
    /// Bytes of the whole frame.
    pub len: u32,
    /// Bytes that were kept.
    pub kept: u32,
}

const HEAD: usize = 16;
/// Marks a sent frame, in the word of the bytes kept.
const SENT: u32 = 1 << 31;

/// Both ends of a ring of `ring` bytes; `snap` bytes of every `every`th frame are kept.
#[must_use]
pub fn tap(ring: usize, snap: u32, every: u32) -> (Tap, TapReader) {
    let (tx, rx) = RingBuffer::new(ring);
    let counts = Arc::new(TapCounts::default());
    let snap = usize::try_from(snap.min(SENT - 1)).unwrap_or(usize::MAX);
    let shared = Arc::clone(&counts);
    let tap = Tap { ring: tx, counts: shared, snap, every: every.max(1), until: 1 };
    (tap, TapReader { ring: rx, counts, pending: None })
}

impl Tap {
    /// Takes a frame, whose bytes lie in two places.
    pub(crate) fn record(&mut self, at: Instant, sent: bool, near: &[u8], far: &[u8]) {
        count(&self.counts.seen);
        self.until -= 1;
        if self.until > 0 {
            return;
        }
        self.until = self.every;
        let near_kept = near.len().min(self.snap);
        let far_kept = far.len().min(self.snap - near_kept);
        let kept = near_kept + far_kept;
        if self.ring.slots() < HEAD + kept {
            count(&self.counts.lost);
            return;
        }
        let narrow = |bytes: usize| u32::try_from(bytes).unwrap_or(SENT - 1);
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&at.as_ps().to_le_bytes());
        head[8..12].copy_from_slice(&narrow(near.len() + far.len()).to_le_bytes());
        let direction = if sent { SENT } else { 0 };
        head[12..].copy_from_slice(&(narrow(kept) | direction).to_le_bytes());
        for piece in [&head[..], &near[..near_kept], &far[..far_kept]] {
            let put = self.ring.push_entire_slice(piece);
            debug_assert!(put.is_ok(), "room was seen");
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl TapReader {
    /// The next frame, whose bytes go behind those in `out`; `None` when there is none now.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Option<Captured> {
        let captured = match self.pending.take() {
            Some(captured) => captured,
            None => {
                let mut head = [0; HEAD];
                self.ring.pop_entire_slice(&mut head).ok()?;
                Captured::read(&head)
            }
        };
        let kept = usize::try_from(captured.kept).unwrap_or(usize::MAX);
        if self.ring.slots() < kept {
            self.pending = Some(captured);
            return None;
        }
        let start = out.len();
        out.resize(start + kept, 0);
        self.ring.pop_entire_slice(&mut out[start..]).ok()?;
        Some(captured)
    }

    /// Frames that the worker has sent and received since the tap was made.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.counts.seen.load(Ordering::Relaxed)
    }

    /// Frames that should have been captured but found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }
}

impl Captured {
    fn read(head: &[u8; HEAD]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&head[at..at + 4]);
            u32::from_le_bytes(bytes)
        };
        let ps = u64::from(word(0)) | u64::from(word(4)) << 32;
        let (len, kept) = (word(8), word(12));
        Self { at: Instant::from_ps(ps), sent: kept & SENT != 0, len, kept: kept & !SENT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn at(ns: u64) -> Instant {
        Instant::from_ps(ns * 1000)
    }

    #[test]
    fn frames_come_out_as_they_went_in_cut_at_the_snap_length() {
        let (mut tap, mut reader) = tap(4096, 6, 1);
        tap.record(at(1 << 40), true, b"abcd", b"efgh");
        tap.record(at(2), false, b"abcdefgh", b"ij");
        tap.record(at(3), false, b"ab", b"");
        let mut bytes = Vec::new();
        let long = Captured { at: at(1 << 40), sent: true, len: 8, kept: 6 };
        assert_eq!(reader.next(&mut bytes), Some(long));
        assert_eq!(reader.next(&mut bytes).map(|frame| (frame.sent, frame.len)), Some((false, 10)));
        assert_eq!(reader.next(&mut bytes).map(|frame| frame.kept), Some(2));
        assert_eq!(reader.next(&mut bytes), None);
        assert_eq!(bytes, b"abcdefabcdefab");
        assert_eq!((reader.seen(), reader.lost()), (3, 0));
    }

    #[test]
    fn one_of_so_many_is_taken_and_all_are_counted() {
        let (mut tap, mut reader) = tap(4096, 64, 3);
        (0..10).for_each(|i| tap.record(at(i), true, b"x", b""));
        let mut bytes = Vec::new();
        let taken: Vec<_> = std::iter::from_fn(|| reader.next(&mut bytes)).collect();
        let stamps: Vec<Instant> = taken.iter().map(|frame| frame.at).collect();
        assert_eq!((stamps, reader.seen()), (vec![at(0), at(3), at(6), at(9)], 10));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_what_is_in_stays_whole() {
        let (mut tap, mut reader) = tap(2 * (HEAD + 10) + 5, 64, 1);
        (0..4).for_each(|i| tap.record(at(i), true, b"0123456789", b""));
        let mut bytes = Vec::new();
        assert_eq!(std::iter::from_fn(|| reader.next(&mut bytes)).count(), 2);
        assert_eq!((bytes.as_slice(), reader.lost()), (&b"01234567890123456789"[..], 2));
    }

    #[test]
    fn a_reader_on_another_thread_sees_whole_frames_in_order() {
        let (mut tap, mut reader) = tap(200, 64, 1);
        let writer = thread::spawn(move || {
            for i in 0..5000u64 {
                let bytes = i.to_le_bytes();
                tap.record(at(i), false, &bytes[..3], &bytes[3..]);
                if i % 5 == 0 {
                    thread::yield_now();
                }
            }
        });
        let (mut last, mut taken) = (None, 0);
        loop {
            let over = writer.is_finished();
            let mut bytes = Vec::new();
            match reader.next(&mut bytes) {
                Some(frame) => {
                    assert_eq!(bytes, (frame.at.as_ps() / 1000).to_le_bytes());
                    assert!(last.is_none_or(|last| last < frame.at));
                    last = Some(frame.at);
                    taken += 1;
                }
                None if over => break,
                None => {}
            }
        }
        writer.join().unwrap();
        assert_eq!(taken + reader.lost(), 5000);
    }
}
