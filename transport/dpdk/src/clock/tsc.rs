//! The TSC as a clock of network time, calibrated and optionally dilated.
//!
//! Source: measured against CLOCK_MONOTONIC_RAW; `rte_get_tsc_hz` is never used, because it rounds
//! to 10 MHz (0.15 % wrong on common machines). Units: picoseconds of network time since the clock
//! was made. With time scale S, network time runs S times slower than real time: a link that the
//! box can drive at 1 Gb/s then behaves like one of S Gb/s. Needs no EAL.
//!
//! The clock does not slew: two readings of 0.2 s give below 1 ppm, and all workers copy one clock,
//! so they agree exactly. The TSC must be constant-rate and synchronous between cores, as on every
//! x86 server.

use std::fmt;
use std::thread;

use thiserror::Error;
use transport::{Duration, Instant};

use crate::clock::poll_clock::Clock;
use crate::eal;

/// The shortest calibration that is worth having.
pub const CALIBRATION_MIN: Duration = Duration::from_ms(200);

/// How many times slower than real time network time runs: 1 ..= 1 000 000.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct TimeScale(f64);

/// Why there is no clock.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum ClockError {
    /// A scale outside 1 ..= 1 000 000.
    #[error("time scale {0} is not in 1 ..= 1000000; 1 is real time, 100 is 100 times slower")]
    Scale(f64),
    /// The counter stood still or ran backwards.
    #[error(
        "the time-stamp counter counted {ticks} ticks in {real_ns} ns; pin the thread, and check \
         that /proc/cpuinfo lists constant_tsc and nonstop_tsc"
    )]
    Counter {
        /// Ticks counted.
        ticks: i64,
        /// Real time that passed, nanoseconds.
        real_ns: u64,
    },
}

/// The measured rate of the time-stamp counter of this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    ticks: u64,
    real_ns: u64,
}

/// A clock of network time. `Copy`: every worker holds the same one and reads the same time.
#[derive(Clone, Copy, Debug)]
pub struct DilatedClock {
    start: u64,
    /// Picoseconds of network time a tick, times 2^[`SHIFT`]; below 2^63.
    mult: u64,
    scale: TimeScale,
}

/// Fraction bits of `mult`: at scale 10^6 and 5 GHz still 27 bits are left, below 0.01 ppm.
const SHIFT: u32 = 40;

impl TimeScale {
    /// Real time.
    pub const REAL: Self = Self(1.0);

    /// The scale `factor`.
    ///
    /// # Errors
    /// [`ClockError::Scale`] when it is not in 1 ..= 1 000 000.
    pub fn new(factor: f64) -> Result<Self, ClockError> {
        if (1.0..=1e6).contains(&factor) {
            Ok(Self(factor))
        } else {
            Err(ClockError::Scale(factor))
        }
    }

    /// The factor, for reports.
    #[must_use]
    pub const fn factor(self) -> f64 {
        self.0
    }
}

impl Calibration {
    /// Measures for `span`, at least [`CALIBRATION_MIN`]; the thread sleeps meanwhile.
    ///
    /// # Errors
    /// [`ClockError::Counter`] when the counter cannot be a clock.
    pub fn measure(span: Duration) -> Result<Self, ClockError> {
        let (first_tsc, first_ns) = read_both();
        thread::sleep(core::time::Duration::from_nanos(span.max(CALIBRATION_MIN).as_ps() / 1000));
        let (last_tsc, last_ns) = read_both();
        Self::from_span(last_tsc.wrapping_sub(first_tsc), last_ns.saturating_sub(first_ns))
    }

    /// A calibration from `ticks` counted in `real_ns` nanoseconds.
    ///
    /// # Errors
    /// [`ClockError::Counter`] unless the rate is in 1 MHz ..= 1 THz.
    pub fn from_span(ticks: u64, real_ns: u64) -> Result<Self, ClockError> {
        let plausible =
            ticks <= real_ns.saturating_mul(1000) && ticks.saturating_mul(1000) >= real_ns;
        if real_ns == 0 || ticks == 0 || !plausible {
            return Err(ClockError::Counter { ticks: ticks.cast_signed(), real_ns });
        }
        Ok(Self { ticks, real_ns })
    }

    /// Ticks a second, rounded down.
    #[must_use]
    pub fn hz(self) -> u64 {
        let hz = u128::from(self.ticks) * 1_000_000_000 / u128::from(self.real_ns);
        u64::try_from(hz).unwrap_or(u64::MAX)
    }

    /// A clock at this rate whose epoch is now.
    #[must_use]
    pub fn clock(self, scale: TimeScale) -> DilatedClock {
        DilatedClock { start: eal::tsc(), mult: self.mult(scale), scale }
    }

    /// A clock at this rate and in real time whose epoch is when `clock` shows `start`; until then
    /// it stands at its epoch.
    #[must_use]
    pub fn clock_from(self, clock: DilatedClock, start: Instant) -> DilatedClock {
        let ticks = u128::from(start.as_ps()) * u128::from(self.ticks);
        let ticks = ticks / (u128::from(self.real_ns) * 1000);
        let start = clock.start.wrapping_add(u64::try_from(ticks).unwrap_or(u64::MAX));
        DilatedClock { start, mult: self.mult(TimeScale::REAL), scale: TimeScale::REAL }
    }

    fn mult(self, scale: TimeScale) -> u64 {
        // The scale enters as an integer in units of 2^-20, so that equal scales give equal clocks.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 ..= 2^40")]
        let scale_q20 = (scale.0 * f64::from(1 << 20)).round() as u64;
        let span_ps = u128::from(self.real_ns) * 1000;
        let mult = (span_ps << SHIFT) / u128::from(self.ticks);
        u64::try_from((mult << 20) / u128::from(scale_q20)).unwrap_or(u64::MAX)
    }
}

impl DilatedClock {
    /// Network time now. One counter read and one multiplication, about 10 ns.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.at(eal::tsc())
    }

    /// The network time of a counter value; the epoch for values from before it.
    #[inline]
    #[must_use]
    pub fn at(&self, tsc: u64) -> Instant {
        // A counter of another core may read a few ticks before `start`: that is the epoch too.
        let ticks = tsc.wrapping_sub(self.start).cast_signed().max(0).cast_unsigned();
        // 64 x 64 -> 128 bits is one instruction, and unlike a running sum it needs no state that
        // workers would have to share.
        let wide = (u128::from(ticks) * u128::from(self.mult)) >> SHIFT;
        Instant::from_ps(u64::try_from(wide).unwrap_or(u64::MAX))
    }

    /// How much real time `span` of network time takes.
    #[must_use]
    pub fn real(&self, span: Duration) -> core::time::Duration {
        core::time::Duration::from_nanos(span.as_ps() / 1000).mul_f64(self.scale.0)
    }

    /// The time scale.
    #[must_use]
    pub const fn scale(&self) -> TimeScale {
        self.scale
    }
}

impl Clock for DilatedClock {
    #[inline]
    fn now(&mut self) -> Instant {
        Self::now(self)
    }
}

impl fmt::Display for TimeScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1:{}", self.0)
    }
}

/// The generation for the flow identifiers of a process that starts now, 1..=4095: see
/// `Settings::incarnation`. Processes of this machine that start 62 ms to 4 minutes apart have
/// different ones, and peers have forgotten flows long before it comes again.
#[must_use]
pub fn incarnation() -> u16 {
    let ticks = eal::monotonic_raw_ns() / INCARNATION_NS;
    u16::try_from(ticks % INCARNATIONS + 1).unwrap_or(1)
}

const INCARNATION_NS: u64 = 62_500_000;
const INCARNATIONS: u64 = 4095;

/// (counter, nanoseconds) read as close together as 16 attempts allow.
fn read_both() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = eal::tsc();
        let real_ns = eal::monotonic_raw_ns();
        let gap = eal::tsc().wrapping_sub(before);
        if gap < best.0 {
            best = (gap, before.wrapping_add(gap / 2), real_ns);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(hz: u64, scale: f64) -> DilatedClock {
        let rate = Calibration::from_span(hz, 1_000_000_000).unwrap();
        DilatedClock { start: 1000, ..rate.clock(TimeScale::new(scale).unwrap()) }
    }

    #[test]
    fn a_second_of_ticks_is_a_second_to_a_picosecond_in_a_million() {
        for hz in [1_000_000_000, 2_596_117_000, 4_999_999_999] {
            let second = clock(hz, 1.0).at(1000 + hz).as_ps();
            assert!(second.abs_diff(1_000_000_000_000) < 1_000_000, "{hz}: {second}");
        }
    }

    #[test]
    fn scale_100_makes_a_real_second_10_ms_of_network_time() {
        let ps = clock(2_500_000_000, 100.0).at(1000 + 2_500_000_000).as_ps();
        assert!(ps.abs_diff(10_000_000_000) < 10_000, "{ps}");
        let back = clock(2_500_000_000, 100.0).real(Duration::from_ms(10));
        assert_eq!(back, core::time::Duration::from_secs(1));
    }

    #[test]
    fn a_counter_before_the_start_is_the_epoch_and_a_year_does_not_overflow() {
        assert_eq!(clock(2_500_000_000, 1.0).at(0), Instant::ZERO);
        let year = 365 * 86_400 * 2_500_000_000;
        assert_eq!(clock(2_500_000_000, 1.0).at(1000 + year), Instant::FAR_FUTURE);
        let days = clock(2_500_000_000, 1e6).at(1000 + year).as_ps();
        assert!(days.abs_diff(31_536_000_000_000) < 1_000_000_000, "{days}");
    }

    #[test]
    fn a_clock_may_begin_at_an_instant_of_another() {
        let rate = Calibration::from_span(2_500_000_000, 1_000_000_000).unwrap();
        let first = DilatedClock { start: 1000, ..rate.clock(TimeScale::REAL) };
        let second = rate.clock_from(first, Instant::ZERO + Duration::from_s(2));
        let begin = 1000 + 2 * 2_500_000_000;
        assert_eq!((second.at(begin - 1), second.at(begin)), (Instant::ZERO, Instant::ZERO));
        let later = second.at(begin + 2_500_000).as_ps();
        assert!(later.abs_diff(1_000_000_000) < 1000, "{later}");
    }

    #[test]
    fn scales_below_one_and_not_a_number_are_refused() {
        for bad in [0.99, 0.0, -1.0, f64::NAN, f64::INFINITY, 1.1e6] {
            assert!(matches!(TimeScale::new(bad), Err(ClockError::Scale(_))), "{bad}");
        }
    }

    #[test]
    fn a_stopped_or_absurd_counter_is_no_clock() {
        for (ticks, ns) in [(0, 1_000_000), (5, 0), (1, 1_000_000), (u64::MAX, 1_000_000)] {
            assert!(matches!(Calibration::from_span(ticks, ns), Err(ClockError::Counter { .. })));
        }
    }

    #[test]
    fn the_calibrated_clock_agrees_with_monotonic_raw_to_a_thousandth() {
        let clock = Calibration::measure(CALIBRATION_MIN).unwrap().clock(TimeScale::REAL);
        let (first_tsc, first_ns) = read_both();
        thread::sleep(core::time::Duration::from_millis(300));
        let (last_tsc, last_ns) = read_both();
        let ours_ps = clock.at(last_tsc).since(clock.at(first_tsc)).as_ps();
        let real_ps = (last_ns - first_ns) * 1000;
        assert!(ours_ps.abs_diff(real_ps) * 1000 < real_ps, "{ours_ps} against {real_ps}");
    }
}
