//! The clock of a simulated host: network time, or an affine map of it with noise.
//!
//! Source of the need: \[dcsim\], paragraph "Clock drift", evaluates a static drift; \[zeropod\],
//! paragraph "Time synchronization", needs endhosts that agree on time, and evaluates perfect
//! clocks alone. The model is ours. An endpoint sees only the local time of its host; everything
//! else in a simulation goes by network time. A host's clock starts ahead of network time by an
//! offset of its own, and runs faster or slower by a drift of its own. Both are drawn once a host,
//! within the bounds of the settings. Each reading is late by random noise of 0 up to the jitter;
//! readings never go backwards.

use transport::{Duration, HostId, Instant, Rng};

use crate::plan::ClockSettings;

/// The local time of one host.
#[derive(Clone, Debug)]
pub(super) enum HostClock {
    /// Network time.
    Exact,
    /// A time of its own.
    Skewed(Box<Skew>),
}

/// An affine map from network time to local time, and the noise of readings.
#[derive(Clone, Debug)]
pub(super) struct Skew {
    /// Local time at network time zero.
    offset: Duration,
    /// Local time passes faster than network time by this many parts in 2^40, below 2^40.
    drift: i64,
    jitter: Duration,
    rng: Rng,
    /// The latest reading.
    last: Instant,
}

/// Denominator of a drift.
const UNIT: i128 = 1 << 40;

impl HostClock {
    /// The clock of `host`, with chance from the root of a run.
    pub(super) fn new(settings: &ClockSettings, host: HostId, root: &Rng) -> Self {
        if *settings == ClockSettings::EXACT {
            return Self::Exact;
        }
        let mut rng = root.fork("clock", u64::from(host.0));
        // Drawn around the bound, since time does not begin below zero.
        let offset = uniform(settings.offset.as_ps() * 2, &mut rng);
        let bound = drift_of(settings.drift_ppm);
        let drift = uniform(bound.unsigned_abs() * 2, &mut rng);
        Self::Skewed(Box::new(Skew {
            offset: Duration::from_ps(offset),
            drift: i64::try_from(drift).unwrap_or(i64::MAX) - bound,
            jitter: settings.jitter,
            rng,
            last: Instant::ZERO,
        }))
    }

    /// Whether the clock shows network time, so that a reading changes nothing.
    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        matches!(self, Self::Exact)
    }

    /// Reads the clock at network time `now`.
    #[inline]
    pub(super) fn read(&mut self, now: Instant) -> Instant {
        match self {
            Self::Exact => now,
            Self::Skewed(skew) => skew.read(now),
        }
    }

    /// The first network time at which the clock cannot read less than `local`;
    /// [`Instant::FAR_FUTURE`] stays.
    #[inline]
    pub(super) fn when(&self, local: Instant) -> Instant {
        match self {
            Self::Exact => local,
            Self::Skewed(skew) => skew.when(local),
        }
    }
}

impl Skew {
    #[cold]
    fn read(&mut self, now: Instant) -> Instant {
        let late = uniform(self.jitter.as_ps(), &mut self.rng);
        self.last = self.last.max(self.local(now) + Duration::from_ps(late));
        self.last
    }

    /// Local time without noise.
    fn local(&self, now: Instant) -> Instant {
        let passed = i128::from(now.as_ps());
        let gained = (passed * i128::from(self.drift)).div_euclid(UNIT);
        let local = i128::from(self.offset.as_ps()) + passed + gained;
        Instant::from_ps(u64::try_from(local).unwrap_or(u64::MAX))
    }

    #[cold]
    fn when(&self, local: Instant) -> Instant {
        if local == Instant::FAR_FUTURE {
            return local;
        }
        // The least `passed` with floor(passed * (UNIT + drift) / UNIT) >= `wanted`.
        let wanted = i128::from(local.as_ps().saturating_sub(self.offset.as_ps()));
        let rate = UNIT + i128::from(self.drift);
        let passed = (wanted * UNIT + rate - 1).div_euclid(rate);
        Instant::from_ps(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// A drift in parts in 2^40.
#[expect(clippy::cast_possible_truncation, reason = "at most 1 % of 2^40")]
fn drift_of(ppm: f64) -> i64 {
    (ppm * 1e-6 * UNIT as f64) as i64
}

/// A number in 0..=`most`; draws nothing where there is no choice.
fn uniform(most: u64, rng: &mut Rng) -> u64 {
    if most == 0 { 0 } else { rng.below(most.saturating_add(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use transport::Rng;

    fn settings(offset: Duration, drift_ppm: f64, jitter: Duration) -> ClockSettings {
        ClockSettings { offset, drift_ppm, jitter }
    }

    fn skewed(settings: &ClockSettings, host: u32) -> Skew {
        match HostClock::new(settings, HostId(host), &Rng::new(7)) {
            HostClock::Skewed(skew) => *skew,
            HostClock::Exact => panic!("{settings:?} is exact"),
        }
    }

    #[test]
    fn clocks_without_bounds_are_network_time() {
        let mut clock = HostClock::new(&ClockSettings::EXACT, HostId(3), &Rng::new(1));
        let at = Instant::from_ps(123_456_789);
        assert!(matches!(clock, HostClock::Exact));
        assert_eq!((clock.read(at), clock.when(at)), (at, at));
    }

    #[test]
    fn hosts_draw_offsets_and_drifts_of_their_own_over_the_whole_range() {
        let settings = settings(Duration::from_us(100), 50.0, Duration::ZERO);
        let clocks: Vec<Skew> = (0..200).map(|host| skewed(&settings, host)).collect();
        let spread = |values: Vec<f64>, low: f64, high: f64| {
            let within = |value: &f64| (low..=high).contains(value);
            assert!(values.iter().all(within), "{values:?}");
            let span = high - low;
            assert!(values.iter().any(|value| *value < low + span / 10.0), "{values:?}");
            assert!(values.iter().any(|value| *value > high - span / 10.0), "{values:?}");
        };
        spread(clocks.iter().map(|clock| clock.offset.as_us_f64()).collect(), 0.0, 200.0);
        let second = Instant::from_ps(1_000_000_000_000);
        let gained = |clock: &Skew| {
            clock.local(second).as_us_f64() - clock.offset.as_us_f64() - second.as_us_f64()
        };
        spread(clocks.iter().map(gained).collect(), -50.0, 50.0);
    }

    proptest! {
        #[test]
        fn when_is_the_first_instant_that_reads_no_less(
            offset in 0_u64..1_000_000_000,
            ppm in 0.0_f64..10_000.0,
            host in 0_u32..50,
            local in 0_u64..1 << 50,
        ) {
            let settings = settings(Duration::from_ps(offset), ppm, Duration::from_ns(1));
            let clock = skewed(&settings, host);
            let local = Instant::from_ps(local);
            let when = clock.when(local);
            prop_assert!(clock.local(when) >= local);
            if when > Instant::ZERO {
                prop_assert!(clock.local(Instant::from_ps(when.as_ps() - 1)) < local);
            }
        }

        #[test]
        fn readings_never_go_backwards_and_are_late_by_the_jitter_at_most(
            steps in proptest::collection::vec(0_u64..3_000, 1..200),
            host in 0_u32..50,
        ) {
            let jitter = Duration::from_ns(2);
            let mut clock = skewed(&settings(Duration::from_us(1), 100.0, jitter), host);
            let (mut now, mut last) = (Instant::ZERO, Instant::ZERO);
            for step in steps {
                now += Duration::from_ps(step);
                let read = clock.read(now);
                prop_assert!(read >= last && read >= clock.local(now));
                prop_assert!(read <= clock.local(now) + jitter);
                last = read;
            }
        }
    }
}
