//! The host's own line: when it is free, and the token bucket of its SIMs.
//!
//! Source: \[dcsim\] sec. 2.3 and fig. 1: the arbiter stands in hosts too. The scheduler gives each
//! packet when the line is free for it, so a SIM's time is that of the line in every world, and
//! nothing of a lower class is before it in a device. A packet starts when the line is free and the
//! packet is there, never at the time of the call, so a host that is polled late gives all that has
//! become due since, at no loss of rate.

use crate::time::{Duration, Instant, Rate};
use crate::token_bucket::TokenBucket;
use crate::units::Bytes;

/// The line of a host as it is planned.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// When all that was given has been sent.
    free_at: Instant,
    rate: Rate,
    bucket: TokenBucket,
}

impl Line {
    pub(super) const fn new(rate: Rate, slot: Duration, bucket: u32) -> Self {
        Self { free_at: Instant::ZERO, rate, bucket: TokenBucket::new(slot, bucket) }
    }

    /// Whether a packet given at `now` leaves at once.
    #[inline]
    pub(super) fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// When it is free.
    #[inline]
    pub(super) const fn free_at(&self) -> Instant {
        self.free_at
    }

    /// A packet of `len` bytes that has waited since `since` is given.
    #[inline]
    pub(super) fn occupy(&mut self, len: u16, since: Instant) {
        self.free_at = self.free_at.max(since) + self.rate.time_for(Bytes(len.into()));
    }

    /// When a SIM may leave that has waited since `since`.
    #[inline]
    pub(super) fn sim_at(&self, since: Instant) -> Instant {
        self.free_at.max(self.bucket.ready_at()).max(since)
    }

    /// A packet of `len` bytes that starts at `at` is given before data that has waited since
    /// `data`: a call that is late for both gives it first, and it must not keep the data waiting
    /// for the time in between.
    #[inline]
    pub(super) fn occupy_before(&mut self, len: u16, at: Instant, data: Option<Instant>) {
        self.occupy(len, data.map_or(at, |data| data.min(at)));
    }

    /// The SIM that starts at `at` takes its token.
    #[inline]
    pub(super) fn take_token(&mut self, at: Instant) {
        self.bucket.take(at);
    }
}
