//! Time and rate: the only clock values of the core.
//!
//! Units: [`Instant`] and [`Duration`] count picoseconds since the driver's epoch (2^64 ps = 213
//! days), [`Rate`] counts bits a second. There is no clock here: a driver reads its own and hands
//! the value in.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

use crate::units::Bytes;

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// A point in time, picoseconds since the driver's epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A span of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A rate in bits a second; at most 2^63 so that sums do not overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);
    /// Later than any instant a run reaches.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `ps` picoseconds after the epoch.
    #[inline]
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Microseconds since the epoch, for reports.
    #[must_use]
    pub fn as_us_f64(self) -> f64 {
        Duration(self.0).as_us_f64()
    }

    /// Time since `earlier`; zero when `earlier` is in fact later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The instant `span` before this one, the epoch where that would be earlier.
    #[inline]
    #[must_use]
    pub const fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The low 32 bits of the time in units of 1.024 ns (2^10 ps), as the wire carries them.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "wraps by design; see `WireTime`")]
    pub const fn to_wire(self) -> u32 {
        (self.0 >> WIRE_TIME_SHIFT) as u32
    }

    /// How long before `self` the wire time `stamp` was taken; at most 4.398 s, the wrap of the
    /// stamp.
    #[must_use]
    pub const fn since_wire(self, stamp: u32) -> Duration {
        Duration((self.to_wire().wrapping_sub(stamp) as u64) << WIRE_TIME_SHIFT)
    }

    /// The instant of wire time `stamp` where that is ahead by at most half of the wrap; else
    /// `self`.
    #[must_use]
    pub const fn next_wire(self, stamp: u32) -> Self {
        let units = stamp.wrapping_sub(self.to_wire());
        if units.cast_signed() <= 0 {
            return self;
        }
        let at = (self.0 >> WIRE_TIME_SHIFT).saturating_add(units as u64);
        Self(at.saturating_mul(1 << WIRE_TIME_SHIFT))
    }

    /// [`Instant::since_wire`] for a stamp that may be ahead of `self`: at most half of the wrap,
    /// and zero for a stamp that is ahead. A device may send a little before the departure that it
    /// was given, by its clock.
    #[must_use]
    pub const fn round_trip(self, stamp: u32) -> Duration {
        let is_ahead = self.to_wire().wrapping_sub(stamp).cast_signed() < 0;
        if is_ahead { Duration::ZERO } else { self.since_wire(stamp) }
    }
}

/// Wire time counts units of 2^10 ps, so one stamp wraps after 2^42 ps = 4.398 s.
const WIRE_TIME_SHIFT: u32 = 10;

impl Duration {
    /// A span of zero.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// `ps` picoseconds.
    #[inline]
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// `ns` nanoseconds; saturates.
    #[inline]
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(PS_PER_NS))
    }

    /// `us` microseconds; saturates.
    #[inline]
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(PS_PER_US))
    }

    /// `ms` milliseconds; saturates.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(PS_PER_MS))
    }

    /// `s` seconds; saturates.
    #[must_use]
    pub const fn from_s(s: u64) -> Self {
        Self(s.saturating_mul(PS_PER_S))
    }

    /// Picoseconds.
    #[inline]
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Microseconds, for reports and for the float side of a controller.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits hold 104 days of picoseconds at 1 ns")]
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / PS_PER_US as f64
    }

    /// `self * factor`, rounded down; `factor` is not negative. Exact below 2^53 ps, 2.5 h.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits hold 2.5 h of picoseconds")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }

    /// This span in wire time units (see [`Instant::to_wire`]); saturates at `u32::MAX`.
    #[must_use]
    pub fn to_wire(self) -> u32 {
        u32::try_from(self.0 >> WIRE_TIME_SHIFT).unwrap_or(u32::MAX)
    }

    /// The span that `units` wire time units stand for.
    #[must_use]
    pub const fn from_wire(units: u32) -> Self {
        Self((units as u64) << WIRE_TIME_SHIFT)
    }

    /// `self - other`, not below zero.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self * num / den` in 128-bit arithmetic, saturating.
    ///
    /// # Panics
    /// When `den` is zero.
    #[must_use]
    pub fn mul_ratio(self, num: u64, den: u64) -> Self {
        let wide = u128::from(self.0) * u128::from(num) / u128::from(den);
        Self(u64::try_from(wide).unwrap_or(u64::MAX))
    }
}

impl Rate {
    /// A rate of zero, at which nothing is ever sent.
    pub const ZERO: Self = Self(0);

    /// `bps` bits a second.
    #[must_use]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// `gbps` gigabits a second.
    #[must_use]
    pub const fn from_gbps(gbps: u64) -> Self {
        Self(gbps.saturating_mul(1_000_000_000))
    }

    /// Bits a second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Gigabits a second.
    #[must_use]
    pub fn as_gbps_f64(self) -> f64 {
        Bytes(self.0).as_f64() / 1e9
    }

    /// How long `bytes` take on a link of this rate, rounded up to a picosecond; [`Duration::MAX`]
    /// at rate zero.
    #[inline]
    #[must_use]
    pub fn time_for(self, bytes: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        // Nearly all lengths are those of packets, and a division of 128 bits takes far longer.
        if let Some(bit_ps) = bytes.0.checked_mul(8 * PS_PER_S) {
            return Duration(bit_ps.div_ceil(self.0));
        }
        let bit_ps = u128::from(bytes.0) * 8 * u128::from(PS_PER_S);
        Duration(u64::try_from(bit_ps.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }

    /// How many whole bytes fit into `span` at this rate: the bandwidth-delay product when `span`
    /// is a round-trip time.
    #[must_use]
    pub fn bytes_in(self, span: Duration) -> Bytes {
        let bits = u128::from(self.0) * u128::from(span.0) / u128::from(PS_PER_S);
        Bytes(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[inline]
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Add for Duration {
    type Output = Self;
    #[inline]
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Duration {
    type Output = Self;
    #[inline]
    fn sub(self, rhs: Self) -> Self {
        self.saturating_sub(rhs)
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    #[inline]
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    #[inline]
    fn div(self, rhs: u64) -> Self {
        Self(self.0 / rhs)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", Duration(self.0))
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0"),
            ps if ps < PS_PER_US => write!(f, "{}.{:03}ns", ps / PS_PER_NS, ps % PS_PER_NS),
            ps if ps < PS_PER_S => {
                write!(f, "{}.{:03}us", ps / PS_PER_US, ps % PS_PER_US / PS_PER_NS)
            }
            ps => write!(f, "{}.{:03}s", ps / PS_PER_S, ps % PS_PER_S / PS_PER_MS),
        }
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}Gbps", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000_000)
    }
}

/// The earlier of two instants or epochs, either of which may never come.
#[inline]
pub(crate) fn earliest<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_at_800_gbps_takes_41_6_ns() {
        assert_eq!(Rate::from_gbps(800).time_for(Bytes(4160)), Duration::from_ps(41_600));
    }

    #[test]
    fn the_bdp_of_the_papers_network_is_what_the_reference_obtains() {
        let bdp = Rate::from_gbps(800).bytes_in(Duration::from_ps(11_453_440));
        assert_eq!(bdp, Bytes(1_145_344));
    }

    #[test]
    fn rate_zero_never_finishes_and_does_not_panic() {
        assert_eq!(Rate::ZERO.time_for(Bytes(1)), Duration::MAX);
    }

    #[test]
    fn a_wire_stamp_survives_the_wrap() {
        let sent = Instant::from_ps((u64::from(u32::MAX) - 3) << WIRE_TIME_SHIFT);
        let back = sent + Duration::from_ps(10 << WIRE_TIME_SHIFT);
        let ten = Duration::from_ps(10 << WIRE_TIME_SHIFT);
        assert_eq!([back.since_wire(sent.to_wire()), back.round_trip(sent.to_wire())], [ten; 2]);
        assert_eq!(sent.round_trip(back.to_wire()), Duration::ZERO, "sent before its time");
        let off = Duration::from_ps(700);
        assert_eq!([sent + off, back].map(|now| now.next_wire(back.to_wire())), [back; 2]);
        assert_eq!((back + off).next_wire(sent.to_wire()), back + off, "past");
    }

    #[test]
    fn serialisation_rounds_up_so_that_rate_is_never_exceeded() {
        assert_eq!(Rate::from_bps(3).time_for(Bytes(1)).as_ps(), 2_666_666_666_667);
    }
}
