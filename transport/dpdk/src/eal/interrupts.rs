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
//! One hold at a time in a process; a second one waits for nothing and holds nothing.

use std::ffi::c_void;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::eal::{self, Eal};

/// Stops the interrupt thread for as long as this value exists. Dropping it releases the thread.
#[derive(Debug)]
pub struct InterruptHold {
    eal: Eal,
    /// Whether this hold has stopped the thread.
    held: bool,
}

/// The state of the interrupt thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HoldState {
    /// The thread runs.
    Free,
    /// The callback is requested.
    Asked,
    /// The thread is held in the callback.
    Held,
    /// The thread is released, and still in the callback.
    Leaving,
}

static STATE: Mutex<HoldState> = Mutex::new(HoldState::Free);
static CHANGED: Condvar = Condvar::new();

/// The interrupt thread may be in the middle of a handshake with a peer; no step of one is longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time from the end of one callback to the next, in which other interrupts are served.
const LEEWAY: Duration = Duration::from_micros(200);

impl InterruptHold {
    /// A worker that has received nothing for this long lets the interrupt thread through.
    pub const QUIET: transport::Duration = transport::Duration::from_ms(5);

    /// Waits until the interrupt thread has ended its present work, and left an earlier hold, and
    /// holds it.
    #[must_use]
    pub fn new(eal: &Eal) -> Self {
        let mut hold = Self { eal: eal.clone(), held: false };
        if *lock() == HoldState::Leaving {
            wait_until_it_has_left();
        }
        hold.catch();
        hold
    }

    /// Lets the interrupt thread do its pending work, and holds it again. Takes some 300 us.
    pub fn let_through(&mut self) {
        self.release();
        wait_until_it_has_left();
        self.catch();
    }

    fn catch(&mut self) {
        let mut state = lock();
        if *state != HoldState::Free {
            return;
        }
        *state = HoldState::Asked;
        let control = self.eal.control();
        if !eal::call_on_interrupt_thread(stand_still, &control) {
            *state = HoldState::Free;
            return;
        }
        drop(control);
        let (mut state, _) = CHANGED
            .wait_timeout_while(state, PATIENCE, |state| *state == HoldState::Asked)
            .unwrap_or_else(PoisonError::into_inner);
        self.held = *state == HoldState::Held;
        if !self.held {
            // The callback finds no thread waiting when it runs, and returns.
            *state = HoldState::Free;
            tracing::warn!("DPDK's interrupt thread is busy for longer than {PATIENCE:?}");
        }
    }

    fn release(&mut self) {
        if self.held {
            *lock() = HoldState::Leaving;
            CHANGED.notify_all();
            self.held = false;
        }
    }
}

impl Drop for InterruptHold {
    fn drop(&mut self) {
        self.release();
    }
}

/// Waits until the interrupt thread is out of the callback of a hold that was released. An alarm
/// that is due before then would run inside that callback, which would then never end.
fn wait_until_it_has_left() {
    let leaving = |state: &mut HoldState| *state == HoldState::Leaving;
    drop(CHANGED.wait_timeout_while(lock(), PATIENCE, leaving));
    thread::sleep(LEEWAY);
}

fn lock() -> MutexGuard<'static, HoldState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On the interrupt thread: stays until it is released.
extern "C" fn stand_still(_argument: *mut c_void) {
    let mut state = lock();
    if *state != HoldState::Asked {
        return;
    }
    *state = HoldState::Held;
    CHANGED.notify_all();
    while *state == HoldState::Held {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    *state = HoldState::Free;
    CHANGED.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_right_after_another_holds() {
        let eal = Eal::shared_by_tests();
        for turn in 0..20 {
            assert!(InterruptHold::new(&eal).held, "turn {turn}");
        }
        // The thread runs between two holds, and is held again.
        let mut hold = InterruptHold::new(&eal);
        hold.let_through();
        assert!(hold.held);
    }
}
