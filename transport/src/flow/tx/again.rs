//! Segments of which no report can come any more: how often they are sent again.
//!
//! Source: ours. Such segments were lost, or their reports were. They are sent again at once, which
//! takes them out of flight before any timeout. Where the receiver is gone that would have no end:
//! no timeout would count, and the flow would never be given up. So each segment is sent again once
//! for that. Where segments that had left again have no report either, one at a time leaves, a
//! probe, up to `PROBES_MAX` times. The others stay in flight, where the timeout finds them, until
//! a report shows that the receiver is there.

use crate::time::{Duration, Instant};

/// Probes since something arrived. With the paper's numbers each takes 32 epochs and the time of a
/// demand, so the receiver may be cut off for a millisecond.
const PROBES_MAX: u8 = 32;

/// What was sent again since something arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Again {
    /// When the last probe was found to be without a report. Once there have been all, the instant
    /// before which the segments left that were withheld.
    probed_at: Instant,
    /// Probes since something arrived, 0..=PROBES_MAX.
    probes: u8,
    /// Whether segments are in flight that are to be sent again.
    withholds: bool,
}

// There is one in each flow that sends.
const _: () = assert!(size_of::<Again>() <= 16);

impl Again {
    /// Whether a segment that left at `sent_at`, `again` or for the first time, is sent again,
    /// since no report of it can come any more at `now`.
    pub(super) fn may_leave(&mut self, sent_at: Instant, again: bool, now: Instant) -> bool {
        if !again {
            return true;
        }
        if sent_at >= self.probed_at {
            if self.probes < PROBES_MAX {
                (self.probed_at, self.probes) = (now, self.probes + 1);
                return true;
            }
            self.probed_at = sent_at + Duration::from_ps(1);
        }
        self.withholds = true;
        false
    }

    /// Something has arrived. Returns the instant before which segments left that are sent again
    /// now, where some were withheld.
    pub(super) fn arrived(&mut self) -> Option<Instant> {
        let before = core::mem::take(self);
        before.withholds.then_some(before.probed_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn all_segments_leave_again_once_and_then_one_at_a_time() {
        let mut again = Again::default();
        assert!((0..10).all(|sent| again.may_leave(at(sent), false, at(20 + sent))));
        assert_eq!(again.arrived(), None);
        // These ten leave again from 30 us on. One is a probe.
        let probes = (30..40).filter(|sent| again.may_leave(at(*sent), true, at(60)));
        assert_eq!(probes.collect::<Vec<_>>(), [30]);
        // It leaves again, and so on, up to a limit.
        let more = (1..100).take_while(|n| again.may_leave(at(80 * n), true, at(80 * n + 30)));
        let more = u64::try_from(more.count()).unwrap();
        assert_eq!(more, u64::from(PROBES_MAX) - 1);
        // Where something arrives, what was withheld leaves, and all begins anew.
        assert_eq!(again.arrived(), Some(at(80 * (more + 1)) + Duration::from_ps(1)));
        assert_eq!(again.arrived(), None);
        assert!(again.may_leave(at(50), true, at(9000)));
    }
}
