//! Converts the time that a device's clock shows to the driver's time.
//!
//! A device stamps frames by a clock of its own, with an unknown rate, an arbitrary offset, and
//! drift. It is read now and then, between two readings of the driver's clock: the *bracket*. A
//! reading was taken somewhere in its bracket, so its middle is wrong by at most half the bracket's
//! width, and wide brackets (the thread was interrupted) are worth little.
//!
//! ```text
//!   readings --narrowest of a group--> points (16) --rate: oldest and newest good one--> line
//!                                                                                          |
//!   stamps --------------------> [ before | slew | after ] <--------- continuous at both seams
//! ```
//!
//! The line through the oldest and the newest good point is right to about half a bracket: the rate
//! is taken over a second. The conversion does not jump to a new line. It bends towards the line
//! and meets it at most [`SETTLE`] later, so times of later ticks are never earlier.
//!
//! A clock that drifts is followed. A clock that stands still, jumps, or is read too slowly
//! converts nothing. Sans-IO: this code reads no clock. Times are the driver's, ticks the device's
//! and of any rate in 1 MHz ..= 10 GHz; they may wrap around at 2^64.

use transport::{Duration, Instant};

/// A device's clock, read between two readings of the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Read before.
    pub before: Instant,
    /// The ticks that the device's clock showed.
    pub ticks: u64,
    /// The host's clock, read after the device's; not before `before`.
    pub after: Instant,
}

/// Picoseconds a tick, times 2^40.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate(u64);

/// Why a device's clock is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockFault {
    /// The clock showed the same ticks at three readings.
    Stuck,
    /// The clock jumped, or ran backwards, again and again.
    Jumps,
    /// A tick would be shorter than 50 ps or longer than 2 us.
    Rate,
    /// Reading the clock takes longer than [`BRACKET_MAX`]: the time of the poll is nearer.
    Slow,
    /// The device refuses to be read.
    Refused,
}

/// The result of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingResult {
    /// The reading was taken into the line.
    Taken,
    /// The reading contradicts all before it: the line is forgotten.
    Jumped,
    /// The clock is given up, permanently.
    Lost(ClockFault),
}

/// A conversion of ticks to time that follows from readings.
#[derive(Clone, Debug)]
pub struct ClockFit {
    /// The narrowest readings of as many groups, oldest first; the first `len` mean something.
    points: [Point; POINTS],
    len: usize,
    /// The narrowest of the group that is not over, and how many of how many the group has.
    candidate: Option<Point>,
    taken: u32,
    group: u32,
    /// A rate that was measured before; used until points give a better one.
    seed: Option<TickRate>,
    last: Option<Reading>,
    same: u32,
    /// Jumps with fewer than [`CALM`] readings between them.
    jumps: u32,
    calm: u32,
    newest: Option<Newest>,
    map: Option<Map>,
    fault: Option<ClockFault>,
}

/// A reading in the middle of its bracket.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    ticks: u64,
    at_ps: u64,
    width_ps: u64,
}

/// The newest line and its quality.
#[derive(Clone, Copy, Debug)]
struct Newest {
    line: Linear,
    /// The span of time that the rate was measured over, picoseconds; 0 for a seed.
    span_ps: u64,
    /// The narrowest bracket then; its points are at most twice as wide.
    narrow_ps: u64,
}

/// Time by ticks: `at_ps` at `ticks`, and so on at the rate `mult`.
#[derive(Clone, Copy, Debug)]
struct Linear {
    ticks: u64,
    at_ps: i64,
    /// The multiplier, as in [`TickRate`].
    mult: u64,
}

/// Three lines that meet: before the seam at `slew.ticks`, up to `after.ticks`, and behind.
#[derive(Clone, Copy, Debug)]
struct Map {
    before: Linear,
    slew: Linear,
    after: Linear,
    /// Ticks a picosecond on each line, times 2^[`INVERSE_SHIFT`].
    inverse: [u64; 3],
}

/// Points that are kept: 1.3 s of them at a reading every 10 ms. Even.
const POINTS: usize = 16;

/// Readings of a group at most. At first every reading is a point. When there is no room for
/// another point, every two become one, and groups become twice as large. So a line is 1/8 as old
/// as the readings that it follows from.
const GROUP: u32 = 8;

/// Between readings: a 16th of the time that points span, within these.
const EVERY_MIN: Duration = Duration::from_ms(1);
const EVERY: Duration = Duration::from_ms(10);

/// Points, or more readings, after which the rate of readings is known to be low.
const SLOW_AFTER: usize = 8;

/// The conversion reaches a new line after as long as it has followed the last, within these.
pub const SETTLE: Duration = Duration::from_ms(100);
const SETTLE_MIN: Duration = Duration::from_ms(1);

/// The shortest span that a rate is taken from.
const SPAN_MIN_PS: u64 = 5_000_000_000;

/// Fraction bits of a rate: 2^61 is not reached.
const SHIFT: u32 = 40;

/// Fraction bits of its inverse: a nanosecond of error in 100 ms at 1 MHz.
const INVERSE_SHIFT: u32 = 48;

/// Shortest and longest ticks, picoseconds: twice what clocks have, since brackets blur it.
const TICK_PS: core::ops::RangeInclusive<u64> = 50..=2_000_000;

/// A clock whose narrowest bracket is wider is not used.
pub const BRACKET_MAX: Duration = Duration::from_us(20);

/// A reading may be this far from the line, beyond four brackets, the error of the rate that
/// brackets cause, ...
const SLACK_PS: u64 = 2_000_000;

/// ... and a 2^14th (61 ppm) of the time since the line's point.
const DRIFT_SHIFT: u32 = 14;

/// Equal readings in a row after which a clock is stuck, if they are so far apart each.
const SAME_MAX: u32 = 3;
const SAME_PS: u64 = 100_000_000;

/// Jumps after which a clock is given up, and readings in a row without one that reset their count.
const JUMPS_MAX: u32 = 3;
const CALM: u32 = 64;

impl Reading {
    /// The width of the reading's bracket.
    #[must_use]
    pub const fn width(&self) -> Duration {
        self.after.since(self.before)
    }

    fn point(&self) -> Point {
        let width_ps = self.width().as_ps();
        Point { ticks: self.ticks, at_ps: self.before.as_ps() + width_ps / 2, width_ps }
    }
}

impl TickRate {
    /// `span` passed while `ticks` were counted; `None` when that is no rate of a clock.
    #[must_use]
    pub fn from_span(ticks: u64, span: Duration) -> Option<Self> {
        let ticks = u128::from(ticks.max(1));
        let mult = u64::try_from((u128::from(span.as_ps()) << SHIFT) / ticks).ok()?;
        TICK_PS.contains(&(mult >> SHIFT)).then_some(Self(mult))
    }

    /// Ticks a second, rounded down.
    #[must_use]
    pub fn hz(self) -> u64 {
        u64::try_from((1_000_000_000_000_u128 << SHIFT) / u128::from(self.0)).unwrap_or(u64::MAX)
    }
}

impl Linear {
    /// The time at which the clock shows `ticks`; rounded down, so later ticks are never earlier.
    #[inline]
    fn at(&self, ticks: u64) -> i64 {
        let delta = i128::from(ticks.wrapping_sub(self.ticks).cast_signed());
        let span = (delta * i128::from(self.mult)) >> SHIFT;
        // Years at any rate of a clock; a stamp that means nothing saturates.
        let span = i64::try_from(span).unwrap_or(if span < 0 { i64::MIN } else { i64::MAX });
        self.at_ps.saturating_add(span)
    }

    /// This line through another of its points.
    fn from(&self, ticks: u64) -> Self {
        Self { ticks, at_ps: self.at(ticks), mult: self.mult }
    }
}

impl ClockFit {
    /// A clock without readings, whose rate may be known: then the first reading is enough, else
    /// two that are 5 ms apart.
    #[must_use]
    pub fn new(rate: Option<TickRate>) -> Self {
        Self {
            points: [Point::default(); POINTS],
            len: 0,
            candidate: None,
            taken: 0,
            group: 1,
            seed: rate,
            last: None,
            same: 0,
            jumps: 0,
            calm: 0,
            newest: None,
            map: None,
            fault: None,
        }
    }

    /// The time at which the clock showed `ticks`; `None` while that is not known, and for times
    /// before the driver's epoch.
    #[inline]
    #[must_use]
    pub fn at(&self, ticks: u64) -> Option<Instant> {
        let map = self.map.as_ref()?;
        let ps = if is_before(ticks, map.slew.ticks) {
            map.before.at(ticks)
        } else if is_before(ticks, map.after.ticks) {
            map.slew.at(ticks)
        } else {
            map.after.at(ticks)
        };
        u64::try_from(ps).ok().map(Instant::from_ps)
    }

    /// The ticks that the clock shows at `at`.
    #[inline]
    #[must_use]
    pub fn ticks_at(&self, at: Instant) -> Option<u64> {
        let map = self.map.as_ref()?;
        let ps = i64::try_from(at.as_ps()).ok()?;
        let (line, inverse) = if ps < map.slew.at_ps {
            (&map.before, map.inverse[0])
        } else if ps < map.after.at_ps {
            (&map.slew, map.inverse[1])
        } else {
            (&map.after, map.inverse[2])
        };
        let delta = (i128::from(ps - line.at_ps) * i128::from(inverse)) >> INVERSE_SHIFT;
        let delta = i64::try_from(delta).ok()?;
        Some(line.ticks.wrapping_add(delta.cast_unsigned()))
    }

    /// Whether stamps can be converted.
    #[inline]
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.map.is_some()
    }

    /// Whether the fit is still young: readings improve it more than later ones.
    #[must_use]
    pub const fn is_young(&self) -> bool {
        self.group < GROUP
    }

    /// How long after the last reading the next is worth taking.
    #[must_use]
    pub fn interval(&self) -> Duration {
        let [first, .., last] = &self.points[..self.len] else { return EVERY_MIN };
        let span = Duration::from_ps(last.at_ps.saturating_sub(first.at_ps));
        (span / POINTS as u64).clamp(EVERY_MIN, EVERY)
    }

    /// Why the clock was given up.
    #[must_use]
    pub const fn fault(&self) -> Option<ClockFault> {
        self.fault
    }

    /// Gives the clock up.
    pub fn give_up(&mut self, fault: ClockFault) -> ReadingResult {
        self.forget();
        self.fault = Some(fault);
        ReadingResult::Lost(fault)
    }

    /// Takes in a reading; each is later than the one before. Bounded: 16 points are looked at.
    pub fn read(&mut self, reading: Reading) -> ReadingResult {
        if let Some(fault) = self.fault {
            return ReadingResult::Lost(fault);
        }
        if let Some(last) = self.last {
            let gap = reading.before.since(last.after).as_ps();
            let step = reading.ticks.wrapping_sub(last.ticks).cast_signed();
            if step == 0 && gap >= SAME_PS {
                self.same += 1;
                let stuck = self.same + 1 >= SAME_MAX;
                return if stuck { self.give_up(ClockFault::Stuck) } else { ReadingResult::Taken };
            }
            if step < 0 || self.contradicts(&reading) {
                return self.jump(reading);
            }
        }
        // Saturates: at a reading a millisecond it would overflow within two months.
        self.calm = self.calm.saturating_add(1);
        if self.calm >= CALM {
            self.jumps = 0;
        }
        self.same = 0;
        self.last = Some(reading);
        self.learn(reading.point())
    }

    /// Whether the newest line puts the reading well outside of its bracket.
    fn contradicts(&self, reading: &Reading) -> bool {
        let Some(Newest { line, span_ps, narrow_ps }) = self.newest else { return false };
        // A tick is as good as a bracket: the clock showed it all that long.
        let narrow = narrow_ps + (line.mult >> SHIFT);
        let ps = |at: Instant| i64::try_from(at.as_ps()).unwrap_or(i64::MAX);
        let (before, after) = (ps(reading.before), ps(reading.after));
        let elapsed = before.saturating_sub(line.at_ps).max(0).cast_unsigned();
        // Half a bracket at each end of the span, for points of up to two narrow ones.
        let blur = Duration::from_ps(2 * narrow).mul_ratio(elapsed, span_ps.max(SPAN_MIN_PS));
        let slack = SLACK_PS + 4 * narrow + (elapsed >> DRIFT_SHIFT) + blur.as_ps();
        let slack = i64::try_from(slack).unwrap_or(i64::MAX);
        let at = line.at(reading.ticks);
        at.saturating_add(slack) < before || at > after.saturating_add(slack)
    }

    fn jump(&mut self, reading: Reading) -> ReadingResult {
        self.jumps += 1;
        if self.jumps >= JUMPS_MAX {
            return self.give_up(ClockFault::Jumps);
        }
        self.forget();
        self.last = Some(reading);
        let _ = self.learn(reading.point());
        ReadingResult::Jumped
    }

    /// Forgets everything but the number of jumps: a rate measured before may have been wrong, too.
    fn forget(&mut self) {
        let jumps = self.jumps;
        *self = Self { jumps, ..Self::new(None) };
    }

    fn learn(&mut self, point: Point) -> ReadingResult {
        let narrower = |best: Point| if point.width_ps < best.width_ps { point } else { best };
        let best = self.candidate.map_or(point, narrower);
        self.candidate = Some(best);
        self.taken += 1;
        if self.taken < self.group {
            return ReadingResult::Taken;
        }
        (self.candidate, self.taken) = (None, 0);
        if self.len == POINTS {
            self.make_room();
        }
        self.points[self.len] = best;
        self.len += 1;
        self.fit(point.ticks)
    }

    /// The oldest point goes, or while groups are small the wider one of any two.
    fn make_room(&mut self) {
        if self.group == GROUP {
            self.points.copy_within(1.., 0);
            self.len -= 1;
            return;
        }
        for pair in 0..POINTS / 2 {
            let [first, second] = [self.points[2 * pair], self.points[2 * pair + 1]];
            let narrower = if second.width_ps < first.width_ps { second } else { first };
            self.points[pair] = narrower;
        }
        self.len = POINTS / 2;
        self.group *= 2;
    }

    fn narrowest(&self) -> Option<u64> {
        self.points[..self.len].iter().map(|point| point.width_ps).min()
    }

    /// A new line, which the conversion bends to from `now` on.
    fn fit(&mut self, now: u64) -> ReadingResult {
        let Some(narrow_ps) = self.narrowest() else { return ReadingResult::Taken };
        if narrow_ps > BRACKET_MAX.as_ps() {
            let slow = self.len >= SLOW_AFTER || self.group > 1;
            return if slow { self.give_up(ClockFault::Slow) } else { ReadingResult::Taken };
        }
        let points = &self.points[..self.len];
        let mut good = points.iter().filter(|point| point.width_ps <= 2 * narrow_ps);
        let (Some(first), last) = (good.next(), good.next_back()) else {
            return ReadingResult::Taken;
        };
        let last = last.unwrap_or(first);
        let span = Duration::from_ps(last.at_ps.saturating_sub(first.at_ps));
        let (rate, span_ps) = if span.as_ps() >= SPAN_MIN_PS {
            let Some(rate) = TickRate::from_span(last.ticks.wrapping_sub(first.ticks), span) else {
                return self.give_up(ClockFault::Rate);
            };
            (Some(rate), span.as_ps())
        } else {
            (self.seed, 0)
        };
        let Some(TickRate(mult)) = rate else { return ReadingResult::Taken };
        let at_ps = i64::try_from(last.at_ps).unwrap_or(i64::MAX);
        let line = Linear { ticks: last.ticks, at_ps, mult };
        self.newest = Some(Newest { line, span_ps, narrow_ps });
        self.map = Some(self.map.map_or(Map::straight(line), |map| map.bent(line, now)));
        ReadingResult::Taken
    }
}

impl Map {
    fn straight(line: Linear) -> Self {
        Self { before: line, slew: line, after: line, inverse: [inverse(line.mult); 3] }
    }

    /// A map that is unchanged up to `now`, and [`SETTLE`] later on `line`.
    fn bent(&self, line: Linear, now: u64) -> Self {
        let on = if is_before(now, self.after.ticks) { &self.slew } else { &self.after };
        let before = on.from(now);
        // As long as the line before was followed, so that no error outlives two lines.
        let followed = before.at_ps.saturating_sub(self.slew.at_ps).max(0).cast_unsigned();
        let settle = followed.clamp(SETTLE_MIN.as_ps(), SETTLE.as_ps());
        let ticks = (u128::from(settle) << SHIFT) / u128::from(line.mult);
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX >> 1);
        let after = line.from(now.wrapping_add(ticks));
        // Positive, or a clock would be far out, which an earlier reading has shown.
        let span = u128::from(after.at_ps.saturating_sub(before.at_ps).max(0).cast_unsigned());
        let mult = u64::try_from((span << SHIFT) / u128::from(ticks.max(1))).unwrap_or(u64::MAX);
        let slew = Linear { mult, ..before };
        let inverse = [before.mult, mult, after.mult].map(inverse);
        Self { before, slew, after, inverse }
    }
}

/// Ticks a picosecond.
fn inverse(mult: u64) -> u64 {
    let wide = (1_u128 << (SHIFT + INVERSE_SHIFT)) / u128::from(mult.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Serial order of ticks.
#[inline]
fn is_before(ticks: u64, other: u64) -> bool {
    ticks.wrapping_sub(other).cast_signed() < 0
}

impl core::fmt::Display for ClockFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Stuck => "it stands still",
            Self::Jumps => "it jumps: is a PTP daemon setting it in steps?",
            Self::Rate => "its rate is not in 1 MHz ..= 10 GHz",
            Self::Slow => "reading it takes longer than 20 us",
            Self::Refused => "the driver does not read it",
        })
    }
}

#[cfg(test)]
mod tests;
