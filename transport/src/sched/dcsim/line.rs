//! The host's own line: when it is free, and the token bucket of its SIMs.
//!
//! Source: \[dcsim\] sec. 2.3 and fig. 1: hosts have the arbiter, too. The scheduler hands over a
//! packet when the line is free for it. So a SIM leaves at the time that the line allows in every
//! world, and no packet of a lower class is queued before it in a device. A packet starts when the
//! line is free and the packet is there, whatever the time of the call. So a host that is polled
//! late hands over all packets that became due meanwhile, and loses no rate. Where the device sends
//! packets at a given time, those that start soon are handed over ahead, with that time.

use crate::time::{Duration, Instant, Rate};
use crate::token_bucket::TokenBucket;
use crate::units::Bytes;

/// The plan of a host's line: when it is busy, and when SIMs may use it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The instant at which all packets handed over so far have been sent.
    free_at: Instant,
    rate: Rate,
    bucket: TokenBucket,
}

impl Line {
    pub(super) const fn new(rate: Rate, slot: Duration, bucket: u32) -> Self {
        Self { free_at: Instant::ZERO, rate, bucket: TokenBucket::new(slot, bucket) }
    }

    /// Whether a packet that is handed over at `now` leaves at once.
    #[inline]
    pub(super) fn is_free(&self, now: Instant) -> bool {
        self.free_at <= now
    }

    /// The instant from which on the line is free.
    #[inline]
    pub(super) const fn free_at(&self) -> Instant {
        self.free_at
    }

    /// The time that the line takes to send `len` bytes.
    #[inline]
    pub(super) fn time_of(&self, len: u16) -> Duration {
        self.rate.time_for(Bytes(len.into()))
    }

    /// The instant at which a packet starts that has waited since `since`, if none goes before it.
    #[inline]
    pub(super) fn start(&self, since: Instant) -> Instant {
        self.free_at.max(since)
    }

    /// Plans a packet of `len` bytes that has waited since `since`; returns when it starts.
    #[inline]
    pub(super) fn occupy(&mut self, len: u16, since: Instant) -> Instant {
        let start = self.start(since);
        self.free_at = start + self.time_of(len);
        start
    }

    /// The instant at which a SIM may leave that has waited since `since`.
    #[inline]
    pub(super) fn sim_at(&self, since: Instant) -> Instant {
        self.free_at.max(self.bucket.ready_at()).max(since)
    }

    /// Plans a packet of `len` bytes that starts at `at`, before data that has waited since `data`.
    /// A call that is late for both packet and data hands over the packet first. The packet counts
    /// from the earlier of the two instants, so the data does not lose the time between them.
    #[inline]
    pub(super) fn occupy_before(&mut self, len: u16, at: Instant, data: Option<Instant>) {
        self.occupy(len, data.map_or(at, |data| data.min(at)));
    }

    /// Gives back the token of a SIM that was lost.
    pub(super) fn give_back(&mut self, now: Instant) {
        self.bucket.give_back(now);
    }

    /// Takes the token of a SIM that starts at `at`.
    #[inline]
    pub(super) fn take_token(&mut self, at: Instant) {
        self.bucket.take(at);
    }
}
