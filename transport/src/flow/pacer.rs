//! Spreads segments at a rate when the controller asks for it.

use crate::time::{Instant, Rate};
use crate::units::Bytes;

/// When the next paced segment may leave. A late poll costs nothing up to `BURST_BYTES`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    next_at: Instant,
}

/// Bytes that may be sent back to back after an idle time or a late poll.
const BURST_BYTES: Bytes = Bytes(16 * 1024);

impl Pacer {
    /// The instant before which nothing may leave at `rate`.
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Accounts for `len` bytes that leave at `now`.
    pub(crate) fn on_sent(&mut self, now: Instant, len: Bytes, rate: Rate) {
        let credit = rate.time_for(BURST_BYTES);
        let earliest = Instant::from_ps(now.as_ps().saturating_sub(credit.as_ps()));
        self.next_at = self.next_at.max(earliest) + rate.time_for(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    #[test]
    fn the_long_run_rate_is_the_rate_asked_for_whatever_the_polls() {
        let rate = Rate::from_gbps(8);
        let mut pacer = Pacer::default();
        let (mut now, mut sent) = (Instant::ZERO, 0u64);
        while now < Instant::from_ps(1_000_000_000) {
            while pacer.next_at() <= now {
                pacer.on_sent(now, Bytes(1000), rate);
                sent += 1000;
            }
            now += Duration::from_us(7);
        }
        let ideal = rate.bytes_in(Duration::from_ms(1)).0;
        assert!(sent.abs_diff(ideal) <= 2 * BURST_BYTES.0, "{sent} against {ideal}");
    }
}
