//! Counters and histograms that workers publish while they run.
//!
//! ```text
//! Worker -- Meter --> Board <-- Telemetry --> rte_telemetry under /headrace/
//!  (its thread)   (plain stores)  (any thread)  \-> OpenMetrics on a unix socket
//! ```
//!
//! A [`Board`] is the memory between a worker and its readers: counters and histograms, atomics
//! with one writer, so that a worker stores and never waits. Histograms are counted where they lie;
//! the worker's counters stay its own and are copied to the board every few milliseconds, as one
//! picture (a sequence number makes a reader read again). The names of all counters and histograms
//! are in [`catalogue`], and docs/TELEMETRY.md lists them. A worker without a meter executes one
//! more branch for each burst.
//!
//! Times are network time. Nothing here reads a clock or opens a device.

pub mod catalogue;
pub mod counts;
mod histogram;
pub(crate) mod meter;
mod openmetrics;
mod rte;
mod server;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::yield_now;

use transport::{Duration, HostId};

pub use catalogue::{COUNTERS, Counter, Group, HISTOGRAMS, HistogramName};
pub use counts::{Pressure, WorkerCounts};
pub use histogram::{Picture, SharedHistogram};
pub use meter::Meter;
pub use openmetrics::exposition;
pub use server::{MetricsError, MetricsServer};

/// All boards of a process; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Telemetry(Arc<Mutex<Vec<Arc<Board>>>>);

/// The counters and histograms that one worker publishes.
#[derive(Debug)]
pub struct Board {
    worker: u32,
    host: HostId,
    /// Odd while the counters are being written.
    sequence: AtomicU64,
    counters: [AtomicU64; COUNTERS.len()],
    histograms: [SharedHistogram; HistogramName::ALL.len()],
}

impl Telemetry {
    /// A meter for the next worker, at `host` with `msgs_max` messages, which brings its counters
    /// up to date every `interval`.
    #[must_use]
    pub fn meter(&self, host: HostId, msgs_max: u32, interval: Duration) -> Meter {
        let mut boards = self.boards();
        let worker = u32::try_from(boards.len()).unwrap_or(u32::MAX);
        let board = Arc::new(Board::new(worker, host));
        boards.push(Arc::clone(&board));
        Meter::new(board, msgs_max, interval)
    }

    /// The boards so far, in the order of their workers' numbers.
    #[must_use]
    pub fn workers(&self) -> Vec<Arc<Board>> {
        self.boards().clone()
    }

    /// The board of worker number `worker`.
    #[must_use]
    pub fn worker(&self, worker: u32) -> Option<Arc<Board>> {
        self.boards().get(usize::try_from(worker).ok()?).cloned()
    }

    fn boards(&self) -> MutexGuard<'_, Vec<Arc<Board>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Attempts to read before a reader lets others run.
const READS_A_TURN: u32 = 64;

impl Board {
    fn new(worker: u32, host: HostId) -> Self {
        Self {
            worker,
            host,
            sequence: AtomicU64::new(0),
            counters: [const { AtomicU64::new(0) }; COUNTERS.len()],
            histograms: [const { SharedHistogram::new() }; HistogramName::ALL.len()],
        }
    }

    /// The worker's number, from 0 in the order of making.
    #[must_use]
    pub const fn worker(&self) -> u32 {
        self.worker
    }

    /// The worker's host.
    #[must_use]
    pub const fn host(&self) -> HostId {
        self.host
    }

    /// One of the worker's histograms.
    #[must_use]
    pub const fn histogram(&self, name: HistogramName) -> &SharedHistogram {
        &self.histograms[name as usize]
    }

    /// All counters of one instant, in the order of [`COUNTERS`]. Reads again while the worker
    /// writes, which takes it some 100 ns every few milliseconds.
    #[must_use]
    pub fn counters(&self) -> [u64; COUNTERS.len()] {
        let mut attempts = 0_u32;
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            let values = self.counters.each_ref().map(|counter| counter.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == before {
                return values;
            }
            attempts = attempts.wrapping_add(1);
            // A worker that lost its core in the middle of a write needs a core to finish.
            if attempts.is_multiple_of(READS_A_TURN) { yield_now() } else { spin_loop() }
        }
    }

    /// Shows `values`. One thread's: the worker's.
    fn publish(&self, values: impl Iterator<Item = u64>) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (counter, value) in self.counters.iter().zip(values) {
            counter.store(value, Ordering::Relaxed);
        }
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn a_reader_sees_all_counters_of_one_instant() {
        let board = Arc::new(Board::new(0, HostId(0)));
        let done = Arc::new(AtomicBool::new(false));
        let (shown, over) = (Arc::clone(&board), Arc::clone(&done));
        let writer = thread::spawn(move || {
            let mut value = 0;
            while !over.load(Ordering::Acquire) {
                value += 1;
                shown.publish(std::iter::repeat_n(value, COUNTERS.len()));
                // A writer without rest would leave a reader no time between two writes.
                (0..16).for_each(|_| spin_loop());
            }
            value
        });
        let (mut last, mut changes) = (0, 0);
        // Until the reader has seen the writer at work, which on a machine without a core for each
        // takes a switch between them every time.
        while changes < 500 {
            let values = board.counters();
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            assert!(values[0] >= last, "{} after {last}", values[0]);
            changes += u32::from(values[0] > last);
            last = values[0];
        }
        done.store(true, Ordering::Release);
        let value = writer.join().unwrap();
        assert_eq!(board.counters(), [value; COUNTERS.len()]);
    }

    #[test]
    fn workers_are_numbered_in_the_order_of_their_meters() {
        let telemetry = Telemetry::default();
        let meters = [7, 3].map(|host| telemetry.meter(HostId(host), 1, Duration::from_ms(1)));
        let hosts: Vec<HostId> = telemetry.workers().iter().map(|board| board.host()).collect();
        assert_eq!(hosts, [HostId(7), HostId(3)]);
        assert_eq!(telemetry.worker(1).map(|board| board.worker()), Some(1));
        assert!(telemetry.worker(2).is_none() && meters.len() == 2);
    }
}
