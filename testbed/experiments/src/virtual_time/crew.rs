//! The threads of a run: one a part. The thread that leads decides what the next window is while
//! all others wait, then all run it, each its own part.
//!
//! ```text
//!   leader:  exchange, decide | part 0 | wait | exchange, decide | part 0 | ...
//!   others:        wait       | part n |         wait            | part n | ...
//! ```
//!
//! By these turns no two threads lock the same part at once, so a part's mutex is never contended.
//! A thread that waits spins for a few microseconds, then sleeps, since cores may be shared. Where
//! windows are shorter than waking up takes, the leader runs all parts itself.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::part::{Part, Span};
use crate::plan::RunError;

/// The parts of a run, and the orders for the threads that run them.
pub(super) struct Crew<'a, 'p> {
    parts: &'p [Mutex<Part<'a>>],
    /// The window to run; `None` when there is none any more.
    order: Mutex<Option<Span>>,
    /// How many orders were given.
    ordered: SharedCount,
    /// How many windows were run by threads that do not lead.
    reported: SharedCount,
}

/// Something counted that can be waited for.
#[derive(Default)]
struct SharedCount {
    count: AtomicU64,
    sleepers: Mutex<()>,
    counted: Condvar,
}

/// Flights of a window that are worth waking other threads for: some tens of microseconds.
const FLIGHTS_SHARED: usize = 128;

/// Looks before a thread that waits goes to sleep: about ten microseconds.
const LOOKS: u32 = 256;

impl SharedCount {
    fn add_one(&self) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.fetch_add(1, Ordering::Release);
        drop(sleepers);
        self.counted.notify_all();
    }

    fn wait_for(&self, count: u64) {
        let reached = || self.count.load(Ordering::Acquire) >= count;
        for _ in 0..LOOKS {
            if reached() {
                return;
            }
            spin_loop();
        }
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        while !reached() {
            sleepers = self.counted.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Counts a window as run, however its thread leaves it: a leader must not wait for ever.
struct ReportAtDrop<'t>(&'t SharedCount);

impl Drop for ReportAtDrop<'_> {
    fn drop(&mut self) {
        self.0.add_one();
    }
}

/// Ends the other threads when the leader returns or panics.
struct Dismissal<'c, 'a, 'p>(&'c Crew<'a, 'p>);

impl Drop for Dismissal<'_, '_, '_> {
    fn drop(&mut self) {
        self.0.give(None);
    }
}

/// Lets `lead` run `parts` on as many threads, its own among them.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn with_crew<'a, R>(
    parts: &[Mutex<Part<'a>>],
    lead: impl FnOnce(&Crew<'a, '_>) -> R,
) -> Result<R, RunError> {
    let crew = Crew {
        parts,
        order: Mutex::new(None),
        ordered: SharedCount::default(),
        reported: SharedCount::default(),
    };
    thread::scope(|scope| {
        let _dismissal = Dismissal(&crew);
        for (number, part) in parts.iter().enumerate().skip(1) {
            let thread = thread::Builder::new().name(format!("sim-{number}"));
            thread.spawn_scoped(scope, || crew.work(part)).map_err(|error| {
                RunError::Environment(format!(
                    "thread {number} of sim.threads {} cannot be started: {error}; ask for fewer \
                     with --threads 1",
                    parts.len()
                ))
            })?;
        }
        Ok(lead(&crew))
    })
}

impl<'a, 'p> Crew<'a, 'p> {
    /// All parts, between two windows.
    ///
    /// # Panics
    /// When a thread has panicked: a bug, which it has reported.
    pub(super) fn meet(&self) -> Vec<MutexGuard<'p, Part<'a>>> {
        let lock = |part: &'p Mutex<Part<'a>>| part.lock().ok();
        let parts: Option<Vec<_>> = self.parts.iter().map(lock).collect();
        let Some(parts) = parts else { panic!("a thread of the run has panicked") };
        parts
    }

    /// Runs every part through `span`, which has about so many `flights`; the caller holds none.
    pub(super) fn run(&self, span: Span, flights: usize) {
        if flights < FLIGHTS_SHARED {
            let parts = self.parts.iter().filter_map(|part| part.lock().ok());
            return parts.for_each(|mut part| part.run_window(span));
        }
        let others = self.parts.len() as u64 - 1;
        if others > 0 {
            self.give(Some(span));
        }
        if let Ok(mut part) = self.parts[0].lock() {
            part.run_window(span);
        }
        self.reported.wait_for(self.ordered.count.load(Ordering::Relaxed) * others);
    }

    fn give(&self, order: Option<Span>) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
        self.ordered.add_one();
    }

    /// The loop of a thread that does not lead.
    fn work(&self, part: &Mutex<Part<'a>>) {
        for turn in 1.. {
            self.ordered.wait_for(turn);
            let order = *self.order.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(span) = order else { return };
            let _report = ReportAtDrop(&self.reported);
            let Ok(mut part) = part.lock() else { return };
            part.run_window(span);
        }
    }
}
