//! When the kernel is asked to send what may wait in its ring.
//!
//! A driver that passes frames to the kernel in a ring asks the kernel once to send them, when it
//! gets them. While the interface is down they stay in the ring. When it is up again, they stay
//! until the driver gets more frames. A host that waits for an answer sends no more before its
//! timeout. So the kernel is asked again each [`EVERY`] after frames were given, until none waits.

use transport::{Duration, Instant};

/// Time from frames that are given to the request to send them, and between two such requests.
const EVERY: Duration = Duration::from_ms(10);

/// What is known of the ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingWatch {
    /// Frames were given since the kernel last had none.
    waits: bool,
    /// When the kernel is asked next, once a turn has found frames given.
    ask_at: Option<Instant>,
}

impl RingWatch {
    /// Frames were given to the driver.
    #[inline]
    pub(super) const fn given(&mut self) {
        self.waits = true;
    }

    /// Asks by `send` when that is due at `now`; it returns whether no frame waited.
    #[inline]
    pub(super) fn look(&mut self, now: Instant, send: impl FnOnce() -> bool) {
        if !self.waits {
            return;
        }
        let at = *self.ask_at.get_or_insert(now + EVERY);
        if at <= now {
            self.waits = !send();
            self.ask_at = self.waits.then_some(now + EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_each_10_ms_until_no_frame_waits() {
        let mut watch = RingWatch::default();
        let asked = |watch: &mut RingWatch, ms: std::ops::Range<u64>, up| {
            let mut asked = Vec::new();
            for ms in ms {
                watch.look(Instant::ZERO + Duration::from_ms(ms), || {
                    asked.push(ms);
                    up
                });
            }
            asked
        };
        assert_eq!(asked(&mut watch, 0..100, false), [], "nothing was given");
        watch.given();
        assert_eq!(asked(&mut watch, 100..135, false), [110, 120, 130]);
        assert_eq!(asked(&mut watch, 135..200, true), [140]);
        watch.given();
        assert_eq!(asked(&mut watch, 200..300, true), [210]);
    }
}
