//! A worker's clock that also counts the time of each stage.
//!
//! Ticks of the time-stamp counter. Reading it costs about 9 ns a mark, which is measured too: see
//! [`StageClock::mark_ticks`].

use std::cell::Cell;
use std::rc::Rc;

use transport::Instant;
use transport_dpdk::{Clock, DilatedClock, Stage, eal};

/// Ticks by stage, shared by the clock in the worker and its reader.
#[derive(Debug, Default)]
pub(super) struct StageTicks {
    ticks: [Cell<u64>; Stage::ALL.len()],
    marks: Cell<u64>,
}

/// Measures stages when `ticks` is there; else it is the plain clock.
#[derive(Clone, Debug)]
pub(super) struct StageClock {
    clock: DilatedClock,
    ticks: Option<Rc<StageTicks>>,
    last: u64,
}

impl StageClock {
    /// A clock that measures nothing.
    pub(super) const fn plain(clock: DilatedClock) -> Self {
        Self { clock, ticks: None, last: 0 }
    }

    /// A clock that adds to `ticks`.
    pub(super) const fn staged(clock: DilatedClock, ticks: Rc<StageTicks>) -> Self {
        Self { clock, ticks: Some(ticks), last: 0 }
    }

    /// The cost of one mark, ticks: the least of many.
    pub(super) fn mark_ticks() -> u64 {
        let gap = |_| {
            let before = eal::tsc();
            eal::tsc().wrapping_sub(before)
        };
        (0..10_000).map(gap).min().unwrap_or(0)
    }
}

impl StageTicks {
    /// Ticks by stage so far, in the order of [`Stage::ALL`], and the number of marks.
    pub(super) fn read(&self) -> ([u64; Stage::ALL.len()], u64) {
        (std::array::from_fn(|stage| self.ticks[stage].get()), self.marks.get())
    }

    fn add(&self, stage: Stage, ticks: u64) {
        let sum = &self.ticks[stage as usize];
        sum.set(sum.get() + ticks);
        self.marks.set(self.marks.get() + 1);
    }
}

impl Clock for StageClock {
    #[inline]
    fn now(&mut self) -> Instant {
        self.last = eal::tsc();
        self.clock.at(self.last)
    }

    #[inline]
    fn mark(&mut self, stage: Stage) {
        if let Some(ticks) = &self.ticks {
            let now = eal::tsc();
            ticks.add(stage, now.wrapping_sub(self.last));
            self.last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Duration;
    use transport_dpdk::{Calibration, TimeScale};

    #[test]
    fn stages_add_up_to_the_time_between_the_reading_and_the_last_mark() {
        let rate = Calibration::measure(Duration::from_ms(200)).unwrap();
        let ticks = Rc::new(StageTicks::default());
        let mut clock = StageClock::staged(rate.clock(TimeScale::REAL), Rc::clone(&ticks));
        let first = clock.now();
        for stage in Stage::ALL.into_iter().cycle().take(1000) {
            clock.mark(stage);
        }
        let (by_stage, marks) = ticks.read();
        let last = clock.now();
        let sum = by_stage.iter().sum::<u64>();
        assert_eq!(marks, 1000);
        assert!(sum > 0 && by_stage.iter().all(|ticks| *ticks > 0), "{by_stage:?}");
        // There is one reading more than intervals in the sum.
        let whole = last.since(first).as_ps() / 1000 * rate.hz() / 1_000_000_000;
        assert!(sum <= whole + whole / 100 + 100, "{sum} of {whole}");
    }
}
