//! How late the polls of a run were, and whether its results are valid in spite of it.
//!
//! Every polling thread keeps the gaps between its successive polls in a [`Gaps`]. Gaps are network
//! time inside a run and real time in the report. A poll that comes late delays what the thread
//! does next; it does not falsify what the network does, since departures and arrivals keep their
//! own instants (see `fabric`). So a run is invalid only when much of it was spent in gaps that are
//! long compared with the emulated control loop: longer than half a base RTT.

use experiments::measure::Lateness;
use fabric::Eighths;
use transport::histogram::Spans;
use transport::{Duration, Instant};

/// Runs are invalid in which a thread spent a larger share of the time in late gaps.
///
/// Measured on two cores at the default scale, for runs of 0.2 to 3 s: nothing was late on a quiet
/// machine nor beside one busy loop. Beside two loops up to 0.07 was late, and completion times
/// were up to 1.3 times the quiet ones. Beside four it was 0.13 to 0.36, and up to 1.8 times.
pub const LATE_SHARE_MAX: f64 = 0.1;

/// The gaps between the polls of one thread. Fixed size, 4 KiB.
#[derive(Clone, Debug)]
pub(crate) struct Gaps {
    last: Option<Instant>,
    first: Instant,
    /// Longer gaps are late.
    limit: Duration,
    /// Picoseconds of network time.
    gaps: Eighths,
    late: Duration,
    max: Duration,
}

impl Gaps {
    /// Gaps before the first poll; gaps above half of `base_rtt`, that of the shortest loop, will
    /// be late.
    pub(crate) fn new(base_rtt: Duration) -> Self {
        Self {
            last: None,
            first: Instant::ZERO,
            limit: base_rtt.mul_ratio(1, 2),
            gaps: Eighths::new(),
            late: Duration::ZERO,
            max: Duration::ZERO,
        }
    }

    /// Notes a poll.
    #[inline]
    pub(crate) fn poll(&mut self, now: Instant) {
        let Some(last) = self.last.replace(now) else {
            self.first = now;
            return;
        };
        let gap = now.since(last);
        self.gaps.sample(gap.as_ps());
        self.max = self.max.max(gap);
        if gap > self.limit {
            self.late += gap;
        }
    }

    /// Share of the time between the first and the last poll that was spent in late gaps.
    fn late_share(&self) -> f64 {
        let span = self.last.map_or(Duration::ZERO, |last| last.since(self.first));
        if span == Duration::ZERO { 0.0 } else { self.late.as_us_f64() / span.as_us_f64() }
    }
}

/// The verdict over all polling threads, each figure that of the worst; `scale` is real time per
/// network time.
pub(crate) fn judge(threads: &[Gaps], scale: f64) -> Lateness {
    let worst = |of: &dyn Fn(&Gaps) -> f64| threads.iter().map(of).fold(0.0, f64::max);
    let real_us = |ps: u64| Duration::from_ps(ps).as_us_f64() * scale;
    let late_share = worst(&Gaps::late_share);
    Lateness {
        p50_us: worst(&|thread| real_us(thread.gaps.quantile(0.5))),
        p99_us: worst(&|thread| real_us(thread.gaps.quantile(0.99))),
        max_us: worst(&|thread| real_us(thread.max.as_ps())),
        late_share,
        valid: late_share <= LATE_SHARE_MAX,
        late_share_max: LATE_SHARE_MAX,
        late_departures: false,
    }
}

/// Adds the verdict on `late`, the times by which segments of DCsim left later than their SIMs and
/// the lines of their hosts allowed; `slot` is their T'. A wait for the own line is no lateness:
/// `sim` has it, too.
pub(crate) fn judge_departures(lateness: &mut Lateness, late: &Spans, slot: Duration) {
    lateness.late_departures = late.percentile(99) >= slot;
    lateness.valid &= !lateness.late_departures;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_a_slot_late_make_a_run_invalid_unless_they_are_few() {
        for (late, valid) in [(0, true), (9, true), (11, false)] {
            let mut times = Spans::default();
            (0..1000).for_each(|n| times.note(Duration::from_ns(if n < late { 200 } else { 9 })));
            let mut verdict = judge(&[polled(&[1; 100])], 1.0);
            judge_departures(&mut verdict, &times, Duration::from_ns(91));
            assert_eq!((verdict.valid, verdict.late_departures), (valid, !valid), "{late}");
        }
    }

    fn polled(gaps_us: &[u64]) -> Gaps {
        let mut gaps = Gaps::new(Duration::from_us(10));
        let mut now = Instant::ZERO + Duration::from_us(3);
        gaps.poll(now);
        for &gap in gaps_us {
            now += Duration::from_us(gap);
            gaps.poll(now);
        }
        gaps
    }

    #[test]
    fn only_gaps_longer_than_half_a_base_rtt_are_late() {
        assert_eq!(judge(&[polled(&[5; 100])], 1.0).late_share, 0.0);
        let late = judge(&[polled(&[1, 1, 1, 1, 6])], 1.0);
        assert!((late.late_share - 0.6).abs() < 1e-9 && !late.valid, "{late:?}");
    }

    #[test]
    fn the_worst_thread_speaks_for_all_and_in_real_time() {
        let verdict = judge(&[polled(&[1; 1000]), polled(&[2; 100])], 100.0);
        assert!((200.0..=225.0).contains(&verdict.p50_us), "{verdict:?}");
        assert_eq!((verdict.max_us, verdict.valid), (200.0, true));
    }

    #[test]
    fn a_run_without_polls_is_not_late() {
        assert!(judge(&[Gaps::new(Duration::from_us(1))], 1.0).valid);
    }
}
