//! The fit against simulated clocks, whose true times are known.

use proptest::prelude::*;
use transport::Rng;

use super::*;

const MS: u64 = 1_000_000_000;
const EVERY: u64 = 10 * MS;

/// A device's clock: `ppm` off its rate, `steps` added at their times, read in brackets of
/// `width_ps` to twice that, one in ten of which is interrupted.
#[derive(Clone, Debug)]
struct Device {
    hz: u64,
    ppm: i64,
    offset: u64,
    width_ps: u64,
    rng: Rng,
}

impl Device {
    fn new(hz: u64, ppm: i64, width_ps: u64, seed: u64) -> Self {
        Self { hz, ppm, offset: 0, width_ps, rng: Rng::new(seed) }
    }

    fn ticks(&self, at_ps: u64) -> u64 {
        let rate = i128::from(self.hz) * i128::from(1_000_000 + self.ppm);
        let ticks = i128::from(at_ps) * rate / 1_000_000_000_000_000_000;
        self.offset.wrapping_add(u64::try_from(ticks).unwrap())
    }

    fn reading(&mut self, at_ps: u64) -> Reading {
        let mut width = self.width_ps + self.rng.below(self.width_ps);
        if self.rng.chance(0.1) {
            width *= 10 + self.rng.below(190);
        }
        let taken = at_ps + self.rng.below(width + 1);
        let ticks = self.ticks(taken);
        let (before, after) = (Instant::from_ps(at_ps), Instant::from_ps(at_ps + width));
        Reading { before, ticks, after }
    }

    fn tick_ps(&self) -> u64 {
        1_000_000_000_000_u64.div_ceil(self.hz)
    }

    /// How wrong the conversion of a stamp taken at `at_ps` is.
    fn error(&self, fit: &ClockFit, at_ps: u64) -> Option<u64> {
        Some(fit.at(self.ticks(at_ps))?.as_ps().abs_diff(at_ps))
    }
}

fn clocks() -> impl Strategy<Value = Device> {
    let hz = prop_oneof![
        Just(1_000_000u64),
        Just(156_250_000),
        Just(1_000_000_000),
        1_000_000u64..9_990_000_000
    ];
    let offset = prop_oneof![Just(0), any::<u64>(), (0..1u64 << 30).prop_map(|ahead| !ahead)];
    (hz, -100i64..=100, offset, 200_000u64..4_000_000, any::<u64>()).prop_map(
        |(hz, ppm, offset, width_ps, seed)| Device {
            offset,
            ..Device::new(hz, ppm, width_ps, seed)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn times_are_right_to_two_brackets_and_later_ticks_are_never_earlier(
        mut device in clocks(),
        seeded in any::<bool>(),
    ) {
        let hz = i128::from(device.hz) * i128::from(1_000_005 + device.ppm) / 1_000_000;
        let exact = TickRate::from_span(u64::try_from(hz).unwrap(), Duration::from_s(1));
        let mut fit = ClockFit::new(exact.filter(|_| seeded));
        let (width, tick) = (device.width_ps, device.tick_ps());
        let mut newest = Instant::ZERO;
        for turn in 1..400u64 {
            let start = turn * EVERY;
            let verdict = fit.read(device.reading(start));
            prop_assert_eq!(verdict, ReadingResult::Taken, "reading {}", turn);
            // Frames of the time up to the next reading.
            for part in 0..10 {
                let at_ps = start + EVERY / 2 + part * (EVERY / 20);
                let Some(error) = device.error(&fit, at_ps) else {
                    prop_assert!(turn < 8, "unknown after {turn} readings");
                    continue;
                };
                let at = fit.at(device.ticks(at_ps)).unwrap();
                prop_assert!(at >= newest, "{at:?} behind {newest:?}");
                newest = at;
                // A second is a hundred readings; of the first few all may be interrupted ones.
                let interrupted = if turn > 12 { 0 } else { 3 * BRACKET_MAX.as_ps() };
                let brackets = if turn > 100 { 2 } else { 6 };
                let bound = brackets * width + 2 * tick + interrupted;
                prop_assert!(error <= bound, "{error} ps at {turn}, {bound} allowed");
            }
        }
    }

    #[test]
    fn a_departure_in_ticks_is_the_inverse_of_a_time_from_ticks(mut device in clocks()) {
        let mut fit = ClockFit::new(None);
        for turn in 1..200u64 {
            let reading = device.reading(turn * EVERY);
            fit.read(reading);
            for ahead_us in [0, 7, 50, 1000] {
                let at = reading.after + Duration::from_us(ahead_us);
                let Some(ticks) = fit.ticks_at(at) else { continue };
                let back = fit.at(ticks).unwrap().as_ps();
                let bound = 2 * device.tick_ps() + 1000;
                prop_assert!(back.abs_diff(at.as_ps()) <= bound, "{back} {at:?}");
            }
        }
        prop_assert!(fit.is_known());
    }

    #[test]
    fn a_step_is_found_at_the_next_reading_and_is_learnt_anew(
        mut device in clocks(),
        back in any::<bool>(),
        step_us in 3_000u64..10_000_000,
    ) {
        // Every bracket is narrow, so that a step is larger than what one hides.
        let mut fit = ClockFit::new(None);
        (1..150u64).for_each(|turn| { fit.read(device.reading(turn * EVERY)); });
        let step = step_us * device.hz / 1_000_000;
        device.offset = if back {
            device.offset.wrapping_sub(step)
        } else {
            device.offset.wrapping_add(step)
        };
        prop_assert_eq!(fit.read(device.reading(150 * EVERY)), ReadingResult::Jumped);
        prop_assert_eq!(fit.at(device.ticks(150 * EVERY)), None);
        for turn in 151..260u64 {
            prop_assert_eq!(fit.read(device.reading(turn * EVERY)), ReadingResult::Taken);
        }
        let error = device.error(&fit, 260 * EVERY).unwrap();
        prop_assert!(error <= 2 * device.width_ps + 2 * device.tick_ps(), "{error}");
    }
}

/// A clock that was read for long enough.
fn learnt(device: &mut Device) -> ClockFit {
    let mut fit = ClockFit::new(None);
    (1..=200u64).for_each(|turn| {
        fit.read(device.reading(turn * EVERY));
    });
    fit
}

#[test]
fn a_clock_that_stands_still_is_given_up_at_the_third_equal_reading() {
    let mut device = Device::new(1_000_000_000, 3, 500_000, 1);
    let mut fit = learnt(&mut device);
    let stopped = device.reading(200 * EVERY).ticks;
    let mut read = |turn: u64| fit.read(Reading { ticks: stopped, ..device.reading(turn * EVERY) });
    let lost = ReadingResult::Lost(ClockFault::Stuck);
    // Behind the reading of the same turn it has run backwards: that is a jump.
    assert_eq!([read(201), read(202)], [ReadingResult::Jumped, ReadingResult::Taken]);
    assert_eq!([read(203), read(204)], [lost, lost]);
    assert!(!fit.is_known() && fit.fault() == Some(ClockFault::Stuck));
}

#[test]
fn a_clock_that_starts_again_from_zero_jumps_and_is_learnt_anew() {
    let mut device = Device { offset: 1 << 50, ..Device::new(156_250_000, -40, 900_000, 2) };
    let mut fit = learnt(&mut device);
    device.offset = device.ticks(201 * EVERY).wrapping_neg().wrapping_add(1 << 50);
    assert_eq!(fit.read(device.reading(202 * EVERY)), ReadingResult::Jumped);
    (203..230u64)
        .for_each(|turn| assert_eq!(fit.read(device.reading(turn * EVERY)), ReadingResult::Taken));
    assert!(device.error(&fit, 230 * EVERY).unwrap() < 20_000_000);
}

#[test]
fn a_clock_that_jumps_three_times_in_a_row_is_given_up_and_one_that_jumps_rarely_is_not() {
    let mut device = Device::new(1_000_000_000, 3, 500_000, 3);
    let mut fit = learnt(&mut device);
    let mut turn = 200;
    let mut jump = |fit: &mut ClockFit, calm: u64| {
        device.offset += 50_000_000;
        turn += 1;
        let verdict = fit.read(device.reading(turn * EVERY));
        (0..calm).for_each(|_| {
            turn += 1;
            fit.read(device.reading(turn * EVERY));
        });
        verdict
    };
    for _ in 0..10 {
        assert_eq!(jump(&mut fit, 70), ReadingResult::Jumped);
    }
    assert!(fit.is_known());
    assert_eq!([jump(&mut fit, 10), jump(&mut fit, 10)], [ReadingResult::Jumped; 2]);
    assert_eq!(jump(&mut fit, 10), ReadingResult::Lost(ClockFault::Jumps));
    assert_eq!(fit.at(0), None);
}

#[test]
fn a_clock_that_was_read_for_months_is_read_on() {
    let mut device = Device::new(1_000_000_000, 3, 500_000, 10);
    let mut fit = learnt(&mut device);
    fit.calm = u32::MAX;
    assert_eq!(fit.read(device.reading(201 * EVERY)), ReadingResult::Taken);
    device.offset += 50_000_000;
    assert_eq!(fit.read(device.reading(202 * EVERY)), ReadingResult::Jumped);
}

#[test]
fn a_rate_that_a_daemon_bends_is_followed_without_a_jump() {
    let mut device = Device::new(1_000_000_000, 0, 500_000, 4);
    let mut fit = learnt(&mut device);
    for turn in 201..=1000u64 {
        if turn % 100 == 0 {
            // 10 ppm more or less from here on, without a step.
            let at = turn * EVERY;
            let before = device.ticks(at);
            device.ppm = if device.ppm == 0 { 10 } else { 0 };
            device.offset = device.offset.wrapping_add(before.wrapping_sub(device.ticks(at)));
        }
        assert_eq!(fit.read(device.reading(turn * EVERY)), ReadingResult::Taken);
        // The error of the rate over the time that a new line takes.
        let bound = 2 * device.width_ps + 3_000_000;
        let error = device.error(&fit, turn * EVERY + EVERY).unwrap();
        assert!(error <= bound, "{error} at {turn}");
    }
}

#[test]
fn clocks_that_are_too_slow_to_read_or_of_no_sensible_rate_are_given_up() {
    let last = |device: &mut Device| {
        let mut fit = ClockFit::new(None);
        (1..20u64).map(|turn| fit.read(device.reading(turn * EVERY))).last()
    };
    let lost = |fault| Some(ReadingResult::Lost(fault));
    assert_eq!(last(&mut Device::new(1_000_000_000, 0, 25_000_000, 5)), lost(ClockFault::Slow));
    assert_eq!(last(&mut Device::new(1000, 0, 500_000, 6)), lost(ClockFault::Rate));
    assert_eq!(last(&mut Device::new(50_000_000_000, 0, 500_000, 7)), lost(ClockFault::Rate));
    assert_eq!(last(&mut Device::new(1_000_000, 0, 500_000, 8)), Some(ReadingResult::Taken));
}

#[test]
fn with_its_rate_known_beforehand_the_first_reading_is_enough() {
    let mut device =
        Device { offset: u64::MAX - 5000, ..Device::new(1_000_000_000, 50, 500_000, 9) };
    let rate =
        TickRate::from_span(device.ticks(MS).wrapping_sub(device.offset), Duration::from_ms(1));
    assert_eq!(rate.unwrap().hz(), 1_000_050_000);
    let mut fit = ClockFit::new(rate);
    let reading = device.reading(EVERY);
    assert_eq!(
        (fit.is_known(), fit.read(reading), fit.is_known()),
        (false, ReadingResult::Taken, true)
    );
    let error = device.error(&fit, 2 * EVERY).unwrap();
    assert!(error <= reading.width().as_ps(), "{error}");
    // Also for what arrived just before.
    assert!(device.error(&fit, EVERY / 2).unwrap() <= reading.width().as_ps());
}
