//! DPDK's interrupt thread, held while a worker polls and released when the worker is idle.
//!
//! Source: DPDK 22.11, `memif_disconnect`: when a memif peer goes away, the driver unmaps the
//! shared rings on the interrupt thread, although a worker may be polling them at that moment. A
//! worker whose peer may be killed at any time holds that thread in a callback of its own, and lets
//! it do its pending work only between two polls. It does so when nothing has been received for a
//! while. A peer that is gone sends nothing, so the work for its end does not wait long. A memif is
//! closed while the thread is held, too: the driver would take it apart on both threads at once
//! when both ends close at the same time.
//!
//! Holds of several threads are counted: the thread runs again when the last one is dropped, and is
//! not let through by one holder while another one has it.

use std::ffi::c_void;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::eal::{self, Eal};

/// Stops the interrupt thread for as long as this value exists. Dropping the last one releases the
/// thread.
#[derive(Debug)]
pub(crate) struct InterruptHold {
    eal: Eal,
}

/// The interrupt thread and what holds it.
#[derive(Debug)]
struct Interrupts {
    thread: ThreadState,
    /// Holds that exist, whether or not the thread stands still for them yet.
    holds: u32,
}

/// The state of the interrupt thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ThreadState {
    /// The thread runs.
    Free,
    /// The callback is requested, and runs once the thread has ended what it does.
    Asked,
    /// The thread is held in the callback.
    Held,
    /// The thread is released, and still in the callback.
    Leaving,
}

static INTERRUPTS: Mutex<Interrupts> =
    Mutex::new(Interrupts { thread: ThreadState::Free, holds: 0 });
static CHANGED: Condvar = Condvar::new();

/// The interrupt thread may be in the middle of a handshake with a peer; no step of one is longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time from the end of one callback to the next, in which other interrupts are served.
const LEEWAY: Duration = Duration::from_micros(200);

impl InterruptHold {
    /// Waits until the interrupt thread has ended its present work, and left an earlier hold, and
    /// holds it.
    #[must_use]
    pub(crate) fn new(eal: &Eal) -> Self {
        let hold = Self { eal: eal.clone() };
        let leaves = {
            let mut interrupts = lock();
            interrupts.holds += 1;
            interrupts.thread == ThreadState::Leaving
        };
        if leaves {
            wait_until_it_has_left();
        }
        hold.catch();
        hold
    }

    /// Lets the interrupt thread do its pending work, and holds it again. Takes some 300 us.
    /// Another holder may be polling or closing a device: while there is one, nothing is let
    /// through.
    pub(crate) fn let_through(&mut self) {
        let goes = {
            let mut interrupts = lock();
            interrupts.holds == 1 && interrupts.release()
        };
        if goes {
            wait_until_it_has_left();
        }
        self.catch();
    }

    /// Waits until the thread is held, for this hold or for another one. A thread that is busy for
    /// longer is held later.
    fn catch(&self) {
        let mut interrupts = lock();
        if interrupts.thread == ThreadState::Free {
            let control = self.eal.control();
            if !eal::call_on_interrupt_thread(stand_still, &control) {
                tracing::warn!("DPDK's interrupt thread takes no alarms, so it cannot be held");
                return;
            }
            interrupts.thread = ThreadState::Asked;
        }
        let asked = |interrupts: &mut Interrupts| interrupts.thread == ThreadState::Asked;
        let waited = CHANGED.wait_timeout_while(interrupts, PATIENCE, asked);
        let (interrupts, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if interrupts.thread != ThreadState::Held {
            tracing::warn!("DPDK's interrupt thread is busy for longer than {PATIENCE:?}");
        }
    }
}

impl Drop for InterruptHold {
    fn drop(&mut self) {
        let mut interrupts = lock();
        interrupts.holds -= 1;
        if interrupts.holds == 0 {
            interrupts.release();
        }
    }
}

impl Interrupts {
    /// Ends the callback in which the thread stands; false where it stands in none.
    fn release(&mut self) -> bool {
        let held = self.thread == ThreadState::Held;
        if held {
            self.thread = ThreadState::Leaving;
            CHANGED.notify_all();
        }
        held
    }
}

/// Waits until the interrupt thread is out of the callback of a hold that was released. An alarm
/// that is due before then would run inside that callback, which would then never end.
fn wait_until_it_has_left() {
    let leaving = |interrupts: &mut Interrupts| interrupts.thread == ThreadState::Leaving;
    drop(CHANGED.wait_timeout_while(lock(), PATIENCE, leaving));
    thread::sleep(LEEWAY);
}

fn lock() -> MutexGuard<'static, Interrupts> {
    INTERRUPTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On the interrupt thread: stays until it is released, where a hold still exists.
extern "C" fn stand_still(_argument: *mut c_void) {
    let mut interrupts = lock();
    if interrupts.holds > 0 {
        interrupts.thread = ThreadState::Held;
        CHANGED.notify_all();
    }
    while interrupts.thread == ThreadState::Held {
        interrupts = CHANGED.wait(interrupts).unwrap_or_else(PoisonError::into_inner);
    }
    interrupts.thread = ThreadState::Free;
    CHANGED.notify_all();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Tests that hold the thread, one at a time: one of them keeps it busy.
    static ONE: Mutex<()> = Mutex::new(());

    fn is_held() -> bool {
        lock().thread == ThreadState::Held
    }

    /// Alarms of the test that have run.
    static RUN: AtomicU32 = AtomicU32::new(0);

    extern "C" fn count(_argument: *mut c_void) {
        RUN.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the interrupt thread runs an alarm within so many milliseconds.
    fn runs(eal: &Eal, within: u32) -> bool {
        let before = RUN.load(Ordering::Acquire);
        assert!(eal::call_on_interrupt_thread(count, &eal.control()));
        (0..within).any(|_| {
            thread::sleep(Duration::from_millis(1));
            RUN.load(Ordering::Acquire) != before
        })
    }

    #[test]
    fn a_hold_right_after_another_holds() {
        let _one = ONE.lock();
        let eal = Eal::shared_by_tests();
        for turn in 0..20 {
            let _hold = InterruptHold::new(&eal);
            assert!(is_held(), "turn {turn}");
        }
        // The thread runs between two holds, and is held again.
        let mut hold = InterruptHold::new(&eal);
        hold.let_through();
        assert!(is_held());
    }

    #[test]
    fn a_thread_that_is_busy_for_long_is_held_later() {
        extern "C" fn busy(_argument: *mut c_void) {
            thread::sleep(PATIENCE + Duration::from_secs(1));
        }
        let _one = ONE.lock();
        let eal = Eal::shared_by_tests();
        assert!(eal::call_on_interrupt_thread(busy, &eal.control()));
        thread::sleep(Duration::from_millis(10));
        let hold = InterruptHold::new(&eal);
        assert!(!is_held(), "the thread is busy");
        assert!(!runs(&eal, 4000) && is_held(), "not held when it was no longer busy");
        drop(hold);
        // A request that no hold waits for any more.
        assert!(runs(&eal, 10_000) && eal::call_on_interrupt_thread(busy, &eal.control()));
        thread::sleep(Duration::from_millis(10));
        drop(InterruptHold::new(&eal));
        assert!(runs(&eal, 10_000) && !is_held(), "held for no hold");
    }

    #[test]
    fn the_last_of_several_holds_releases_the_thread() {
        let _one = ONE.lock();
        let eal = Eal::shared_by_tests();
        let (first, mut second) = (InterruptHold::new(&eal), InterruptHold::new(&eal));
        let before = RUN.load(Ordering::Acquire);
        assert!(!runs(&eal, 50), "not held by two");
        // The alarm is due.
        second.let_through();
        assert_eq!(RUN.load(Ordering::Acquire), before, "let through by one of two");
        drop(first);
        assert!(is_held() && !runs(&eal, 50), "released by the first of two");
        second.let_through();
        assert!(is_held());
        drop(second);
        assert!(runs(&eal, 10_000), "not released by the last");
    }
}
