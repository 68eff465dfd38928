//! When a polling thread that has stopped DPDK's interrupt thread lets it run.
//!
//! A peer that is gone sends nothing, so the interrupt thread's work for such a peer can wait until
//! nothing has been received for a while. Each time takes some 300 us in which nothing is polled;
//! so the waits double while nothing comes.

use transport::{Duration, Instant};

use crate::eal::Eal;
use crate::eal::interrupts::InterruptHold;

/// The quiet instants of a thread that polls devices, and its hold on DPDK's interrupt thread.
///
/// The driver of a device whose memory another process shares unmaps that memory on the interrupt
/// thread, when the other process ends. So the thread that polls the device holds the interrupt
/// thread, and lets it through at quiet instants, between two polls.
#[derive(Debug)]
pub struct QuietHold {
    hold: Option<InterruptHold>,
    quiet: Quiet,
}

impl QuietHold {
    /// Holds the interrupt thread from now on. It takes up to 2 s to end what it does. The clock of
    /// `now` is the one of later calls.
    #[must_use]
    pub fn new(eal: &Eal, now: Instant) -> Self {
        Self { hold: Some(InterruptHold::new(eal)), quiet: Quiet::new(now) }
    }

    /// Quiet instants alone, for devices that lead to no other process.
    #[must_use]
    pub const fn of_none(now: Instant) -> Self {
        Self { hold: None, quiet: Quiet::new(now) }
    }

    /// Begins anew at `now`, which may be of another clock.
    pub const fn restart(&mut self, now: Instant) {
        self.quiet = Quiet::new(now);
    }

    /// Between two polls, when so many packets have been received: lets the interrupt thread
    /// through at a quiet instant, and returns whether this is one. `now` is before the last poll:
    /// a process that ends takes away the frames that it sent last, so a poll has to find none
    /// after the time of quiet, however late this thread is since.
    pub fn look(&mut self, received: u64, now: Instant) -> bool {
        let is_due = self.quiet.is_due(received, now);
        if is_due {
            self.let_through();
        }
        is_due
    }

    /// Between two polls: lets the interrupt thread through, unless another thread holds it, too.
    pub fn let_through(&mut self) {
        self.hold.iter_mut().for_each(InterruptHold::let_through);
    }
}

/// The first wait.
const WAIT_MIN: Duration = Duration::from_ms(5);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_ms(80);

/// The instants at which the interrupt thread is let through.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    /// Packets received so far.
    received: u64,
    /// When the last one was seen, or the thread was let through last.
    since: Instant,
    wait: Duration,
}

impl Quiet {
    const fn new(now: Instant) -> Self {
        Self { received: 0, since: now, wait: WAIT_MIN }
    }

    /// Whether the interrupt thread is let through at `now`, when so many packets have been
    /// received.
    fn is_due(&mut self, received: u64, now: Instant) -> bool {
        if received != self.received {
            *self = Self { received, ..Self::new(now) };
            return false;
        }
        if now.since(self.since) < self.wait {
            return false;
        }
        (self.since, self.wait) = (now, (self.wait * 2).min(WAIT_MAX));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interrupt_thread_is_let_through_soon_and_then_seldom_while_nothing_comes() {
        let at = |us: u64| Instant::ZERO + Duration::from_us(us);
        let mut quiet = Quiet::new(at(0));
        let mut through = |received, polls: std::ops::Range<u64>| {
            polls.step_by(10).filter(|us| quiet.is_due(received, at(*us))).collect::<Vec<_>>()
        };
        assert!(through(1, 0..5_000).is_empty());
        let idle = through(1, 5_000..2_005_000);
        assert_eq!(idle[..3], [5_000_u64, 15_000, 35_000]);
        // 300 us each are less than a hundredth of the time.
        assert!(idle.len() < 60, "{}", idle.len());
        assert_eq!(through(2, 2_005_000..2_012_000), vec![2_010_000], "soon again");
    }
}
