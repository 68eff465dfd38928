//! A device's clock at one queue: it is read now and then, and converts stamps.
//!
//! A reading costs about as much as a packet, or 100 times that where firmware is asked. So the
//! clock is read at the end of a turn without work, or, when no such turn comes, at the end of any
//! turn. Readings take a thousandth of the time at most, so slow readings are rare.
//! Frames without a stamp, and those whose stamp cannot be true, count as arrived when they were
//! found. Ticks are the device's, times the driver's.

use std::fmt;

use transport::{BURST, Duration, Instant};

use crate::buffers::burst::MbufBurst;
use crate::buffers::stamp_field::TimestampField;
use crate::clock::fit::{BRACKET_MAX, ClockFault, ClockFit, Reading, ReadingResult, TickRate};
use crate::clock::poll_clock::Clock;

/// Reads the clock that stamps frames, somewhere between call and return; `None` when it cannot.
pub type ReadTicks = Box<dyn FnMut() -> Option<u64> + Send>;

/// The clock of one device, as one queue's worker reads it.
pub struct DeviceClock {
    field: TimestampField,
    ticks: ReadTicks,
    fit: ClockFit,
    /// When the next reading is due.
    due: Instant,
    /// How long a frame may have been on its way from the wire to a poll that could have found it.
    reach: Duration,
    /// When the device last had nothing.
    drained_at: Instant,
    /// Arrival of each frame of the last burst; [`NO_STAMP`] where the poll's time counts.
    arrivals: [Instant; BURST],
    /// Frames in the last burst.
    stamped: usize,
    counts: ClockCounts,
}

/// Counters of a device's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockCounts {
    /// Frames whose time of arrival is the device's.
    pub stamped: u64,
    /// Stamps that could not be true; the poll's time counted.
    pub refused: u64,
    /// Readings.
    pub readings: u64,
    /// Times that all readings were discarded because the clock had jumped.
    pub jumps: u64,
    /// 1 when the device's clock is used no more, otherwise 0.
    pub lost: u64,
}

const NO_STAMP: Instant = Instant::FAR_FUTURE;

/// A busy worker reads the clock later by at most this much, once the clock is known well.
const PATIENCE: Duration = Duration::from_ms(10);

/// A reading takes a thousandth of the time between two, or less.
const SHARE: u64 = 1000;

/// A card may hold a frame back for as long as its memory holds, at a bus that is busy: 1 MB at
/// 100 Gb/s is 80 us.
const REACH: Duration = Duration::from_ms(1);

/// The bound where workers share a device: a frame may also wait in another worker's queue, whose
/// turns may be late.
const REACH_SHARED: Duration = Duration::from_s(1);

/// A stamp later than a poll's time is that of a frame that came during the poll, unless it is
/// later by this much.
const AHEAD: Duration = Duration::from_ms(10);

/// Readings at each end of a span from which a rate is computed.
const ENDS: usize = 8;

impl DeviceClock {
    /// The clock that `ticks` reads and whose stamps are in `field`.
    #[must_use]
    pub fn new(field: TimestampField, ticks: ReadTicks) -> Self {
        Self {
            field,
            ticks,
            fit: ClockFit::new(None),
            due: Instant::ZERO,
            reach: REACH,
            drained_at: Instant::ZERO,
            arrivals: [NO_STAMP; BURST],
            stamped: 0,
            counts: ClockCounts::default(),
        }
    }

    /// Frames may come by way of other workers.
    pub(crate) fn share(&mut self) {
        self.reach = REACH_SHARED;
    }

    /// Whether stamps are converted now.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.fit.is_known()
    }

    /// The conversion.
    #[must_use]
    pub const fn fit(&self) -> &ClockFit {
        &self.fit
    }

    /// The counters of this clock so far.
    #[must_use]
    pub const fn counts(&self) -> ClockCounts {
        self.counts
    }

    /// Looks at the stamps of a burst that was found at `now`.
    #[inline(never)]
    pub(crate) fn stamp(&mut self, burst: &MbufBurst, now: Instant) {
        let oldest = self.drained_at.as_ps().saturating_sub(self.reach.as_ps());
        let (oldest, newest) = (Instant::from_ps(oldest), now + AHEAD);
        self.stamped = burst.len();
        if burst.is_empty() {
            self.drained_at = now;
        }
        for (mbuf, arrival) in burst.iter().zip(&mut self.arrivals) {
            let at = self.field.get(mbuf).and_then(|ticks| self.fit.at(ticks));
            let at = at.unwrap_or(NO_STAMP);
            *arrival = if (oldest..=newest).contains(&at) { at } else { NO_STAMP };
            self.counts.stamped += u64::from(*arrival != NO_STAMP);
            self.counts.refused += u64::from(*arrival != at);
        }
    }

    /// When frame `index` of the last burst arrived, by its stamp.
    #[inline(never)]
    pub(crate) fn arrival(&self, index: usize) -> Option<Instant> {
        let at = *self.arrivals[..self.stamped].get(index)?;
        (at != NO_STAMP).then_some(at)
    }

    /// Whether a reading is due at `now`, at the end of a turn that was busy or idle.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant, busy: bool) -> bool {
        now >= self.due && (!busy || self.fit.is_young() || now >= self.due + PATIENCE)
    }

    /// Takes a reading and updates the fit. Logs once when the clock is given up.
    #[cold]
    pub(crate) fn read<C: Clock>(&mut self, clock: &mut C) {
        if self.fit.fault().is_some() {
            self.due = Instant::FAR_FUTURE;
            return;
        }
        let verdict = match self.reading(clock) {
            Some(reading) => {
                let verdict = self.fit.read(reading);
                self.due = reading.after + pause(self.fit.interval(), reading.width());
                verdict
            }
            None => self.fit.give_up(ClockFault::Refused),
        };
        self.counts.readings += 1;
        match verdict {
            ReadingResult::Taken => {}
            ReadingResult::Jumped => self.counts.jumps += 1,
            ReadingResult::Lost(fault) => {
                self.counts.jumps += u64::from(fault == ClockFault::Jumps);
                self.counts.lost = 1;
                tracing::warn!(
                    "the device's clock is not used any more ({fault}): frames arrive when they \
                     are found, and round trips contain the wait for the poll"
                );
            }
        }
    }

    /// Measures the clock's rate over `span`, so that the first reading of a worker is enough. The
    /// thread sleeps meanwhile.
    pub fn learn_rate<C: Clock>(&mut self, clock: &mut C, span: Duration) {
        let first = self.narrowest(clock);
        std::thread::sleep(core::time::Duration::from_nanos(span.as_ps() / 1000));
        let last = self.narrowest(clock);
        let rate = first.zip(last).and_then(|(first, last)| {
            let ticks = last.ticks.wrapping_sub(first.ticks);
            // Both in the middle of their brackets.
            let twice = last.before.since(first.before) + last.after.since(first.after);
            TickRate::from_span(ticks, twice / 2)
        });
        if rate.is_some() {
            self.fit = ClockFit::new(rate);
        }
    }

    fn narrowest<C: Clock>(&mut self, clock: &mut C) -> Option<Reading> {
        let readings = (0..ENDS).filter_map(|_| self.reading(clock));
        readings.min_by_key(Reading::width)
    }

    fn reading<C: Clock>(&mut self, clock: &mut C) -> Option<Reading> {
        let before = clock.now();
        let ticks = (self.ticks)()?;
        Some(Reading { before, ticks, after: clock.now().max(before) })
    }
}

/// Time to the next reading: `wish`, the pause that the fit asks for, or longer after a reading of
/// this `width`. A reading wider than [`BRACKET_MAX`] was interrupted and proves nothing about how
/// long the next will take.
fn pause(wish: Duration, width: Duration) -> Duration {
    wish.max(width.min(BRACKET_MAX) * SHARE)
}

impl fmt::Debug for DeviceClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceClock({:?}, {:?})", self.fit.fault(), self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_takes_a_thousandth_of_the_time_and_an_interrupted_one_stops_nothing_for_long() {
        let wish = Duration::from_ms(1);
        assert_eq!(pause(wish, Duration::from_ns(200)), wish);
        assert_eq!(pause(wish, Duration::from_us(5)), Duration::from_ms(5));
        // A process that was stopped for a second would not look again for a quarter of an hour.
        assert_eq!(pause(wish, Duration::from_s(1)), BRACKET_MAX * SHARE);
    }
}
