//! When a polling thread that holds DPDK's interrupt thread lets it through.
//!
//! A peer that is gone sends nothing, so what the interrupt thread has to do then is done when
//! nothing has been received for a while. Each time takes some 300 us in which nothing is polled,
//! which counts as late in the verdict on a run (`lateness.rs`); so the waits double while nothing
//! comes.

use transport::{Duration, Instant};
use transport_dpdk::InterruptHold;

/// DPDK's interrupt thread, held by a thread that polls devices whose memory another process
/// shares, and let through at quiet instants.
#[derive(Debug)]
pub(crate) struct QuietHold {
    hold: InterruptHold,
    quiet: Quiet,
}

impl QuietHold {
    /// The clock of `now` is the one of later calls.
    pub(crate) const fn new(hold: InterruptHold, now: Instant) -> Self {
        Self { hold, quiet: Quiet::new(now) }
    }

    /// Between two polls at `now`, when so many packets have been received: lets the interrupt
    /// thread through if that is due.
    pub(crate) fn look(&mut self, received: u64, now: Instant) {
        if self.quiet.is_due(received, now) {
            self.hold.let_through();
        }
    }

    /// Lets the interrupt thread through.
    pub(crate) fn let_through(&mut self) {
        self.hold.let_through();
    }

    /// The hold, for a thread with a clock of its own.
    pub(crate) fn into_hold(self) -> InterruptHold {
        self.hold
    }
}

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_ms(80);

/// The instants at which the interrupt thread is let through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    /// Packets received so far.
    received: u64,
    /// When the last one was seen, or the thread was let through last.
    since: Instant,
    wait: Duration,
}

impl Quiet {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { received: 0, since: now, wait: InterruptHold::QUIET }
    }

    /// Whether the interrupt thread is let through at `now`, when so many packets have been
    /// received.
    pub(crate) fn is_due(&mut self, received: u64, now: Instant) -> bool {
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
