//! The pod's time at a host whose clock is off: the scheduler's clock is the pod's.
//!
//! Source: \[zeropod\] IV-E; the exchange is ours. Nothing waits in a pod, so an answer that left
//! its scheduler in a known slot arrives at a known instant of the pod's time, and so does a
//! request. The lateness of the answer by the host's clock, less the lateness of the request by the
//! scheduler's, is twice the error of the host's estimate, whatever time the links take:
//!
//! ```text
//!   request of an epoch  --->  scheduler: late by   links - error
//!   answer of a window   --->  host:      late by   links + error
//! ```
//!
//! A host follows the median of its last corrections. It sends nothing before the first answer.
//! Then it sends only requests, until [`SETTLED`] answers have reported how late these were. From
//! then on it sends cells, too.
//!
//! A host of a real network is sometimes polled late by more than an epoch, which makes one of the
//! two directions longer. It uses answers that name their epoch. Among the last corrections it uses
//! the one with the shortest round trip, as RFC 5905 does.

use super::Zeropod;
use crate::time::{Duration, Instant};
use crate::wire::pod::{ClockState, Schd, Stamp};

/// The estimate of a host.
#[derive(Clone, Debug)]
pub(super) struct PodClock {
    /// Local time less the pod's, picoseconds; `None` before the first answer.
    ahead: Option<i64>,
    median: Median,
    /// Answers that said how late a request was; counts to [`SETTLED`].
    paired: u8,
    /// `ahead` at the requests of the last epochs, by their number modulo [`KEPT`], and theirs.
    kept: [(u64, i64); KEPT],
    /// The epoch from which on the clock has settled; `None` until then.
    pub(super) settled_in: Option<u64>,
    /// The time by which the host may be late: it sends by an estimate that is behind by as much.
    pub(super) lag: Duration,
}

/// Answers after which a clock has settled.
const SETTLED: u8 = 4;

/// A host that may be late corrects its clock by a part of the correction.
const STEP_OF_LAG: u64 = 8;

/// Epochs whose estimates are kept. An answer takes fewer epochs to report how late a request was,
/// where a receipt is passed on within 48 epochs, as plans demand.
const KEPT: usize = 32;

/// The last values of local time less the pod's.
#[derive(Clone, Copy, Debug, Default)]
struct Median {
    values: [i64; Self::LEN],
    /// The round trips that showed the values, where round trips count.
    trips: [i64; Self::LEN],
    len: usize,
    next: usize,
}

impl Median {
    const LEN: usize = 8;

    /// Adds a value that a round trip of `trip` has shown, and returns that of the shortest one of
    /// the last.
    fn add_of(&mut self, value: i64, trip: i64) -> i64 {
        (self.values[self.next], self.trips[self.next]) = (value, trip);
        self.next = (self.next + 1) % Self::LEN;
        self.len = (self.len + 1).min(Self::LEN);
        let all = self.trips[..self.len].iter().zip(&self.values);
        all.min_by_key(|(trip, _)| **trip).map_or(value, |(_, value)| *value)
    }

    /// Adds a value, and returns the lower median of the last ones.
    fn add(&mut self, value: i64) -> i64 {
        self.values[self.next] = value;
        self.next = (self.next + 1) % Self::LEN;
        self.len = (self.len + 1).min(Self::LEN);
        let mut sorted = self.values;
        let sorted = &mut sorted[..self.len];
        sorted.sort_unstable();
        sorted[(self.len - 1) / 2]
    }
}

impl PodClock {
    pub(super) fn new(lag: Duration) -> Self {
        let kept = [(u64::MAX, 0); KEPT];
        Self { ahead: None, median: Median::default(), kept, paired: 0, settled_in: None, lag }
    }

    /// The pod's time at `local`; zero before the first answer.
    fn pod(&self, local: Instant) -> Instant {
        let pod = self.ahead.map(|ahead| local.as_ps().saturating_add_signed(ahead.wrapping_neg()));
        Instant::from_ps(pod.unwrap_or(0))
    }

    fn local(&self, pod: Instant) -> Instant {
        if pod == Instant::FAR_FUTURE {
            return pod;
        }
        Instant::from_ps(pod.as_ps().saturating_add_signed(self.ahead.unwrap_or(0)))
    }

    /// Takes in local time less the pod's, as one answer shows it, alone or paired with a request,
    /// after a round trip of `trip` where that counts. A settled clock moves by `step` at most.
    fn add(&mut self, ahead: i64, is_paired: bool, trip: Option<i64>, step: Duration) {
        if is_paired && self.paired < SETTLED {
            if self.paired == 0 {
                // One way alone is worth less.
                self.median = Median::default();
            }
            self.paired += 1;
        }
        let median = match trip {
            Some(trip) => self.median.add_of(ahead, trip),
            None => self.median.add(ahead),
        };
        let most = i64::try_from(step.as_ps()).unwrap_or(i64::MAX);
        self.ahead = Some(match (self.ahead, self.settled_in) {
            (Some(own), Some(_)) => own + (median - own).clamp(-most, most),
            _ => median,
        });
    }

    /// By how much the estimate of how far local time is ahead has grown since the request of
    /// `epoch`; `None` where the earlier estimate is not kept any more.
    fn moved_since(&self, epoch: u64) -> Option<i64> {
        let (of, ahead) = self.kept[place(epoch)];
        (of == epoch).then(|| self.ahead.unwrap_or(ahead).wrapping_sub(ahead))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below KEPT")]
const fn place(epoch: u64) -> usize {
    (epoch % KEPT as u64) as usize
}

/// `a - b` in picoseconds.
fn difference(a: Instant, b: Instant) -> i64 {
    a.as_ps().wrapping_sub(b.as_ps()).cast_signed()
}

impl Zeropod {
    /// The pod's time at `local` time, for what this host sends. For a host that may be late, this
    /// is earlier by the time by which it may be late.
    #[inline]
    pub(super) fn pod_time(&self, local: Instant) -> Instant {
        match &self.clock {
            None => local,
            Some(clock) => clock.pod(local).before(clock.lag),
        }
    }

    /// The pod's time at `local` time, at which something has arrived.
    #[inline]
    pub(super) fn time_of_arrival(&self, local: Instant) -> Instant {
        match &self.clock {
            None => local,
            Some(clock) => clock.pod(local),
        }
    }

    /// Whether packets leave when they are made, behind the instant of their slot.
    #[inline]
    pub(super) fn lags(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.lag > Duration::ZERO)
    }

    /// Local time at `pod` time, for what this host sends.
    #[inline]
    pub(super) fn local_time(&self, pod: Instant) -> Instant {
        match &self.clock {
            None => pod,
            Some(_) if pod == Instant::FAR_FUTURE => pod,
            Some(clock) => clock.local(pod + clock.lag),
        }
    }

    /// Whether the host is free to ask and to send cells.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.clock.as_ref().is_none_or(|clock| clock.settled_in.is_some())
    }

    /// Whether the host has the pod's time, if only roughly.
    #[inline]
    pub(super) fn has_time(&self) -> bool {
        self.clock.as_ref().is_none_or(|clock| clock.ahead.is_some())
    }

    /// Whether the host sends requests to follow the pod's clock, and is answered to that end: in
    /// every epoch, or in turns where it asks on change and its clock has settled.
    #[inline]
    pub(super) fn follows(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.ahead.is_some())
    }

    /// What the request of `epoch` says of the host's clock.
    pub(super) fn clock_state(&mut self, epoch: u64) -> Option<ClockState> {
        let clock = self.clock.as_mut()?;
        clock.kept[place(epoch)] = (epoch, clock.ahead?);
        let peer = self.peer_in(epoch);
        let behind_gap = peer.is_some_and(|peer| peer < self.pod_end.own);
        Some(ClockState { behind_gap, settled: self.is_settled() })
    }

    /// An answer with this stamp has come at `local` time.
    pub(super) fn follow(&mut self, schd: &Schd, local: Instant) {
        let (Some(stamp), Some(clock)) = (schd.stamp, &self.clock) else { return };
        let way = self.timing.answers_at
            + self.timing.answer_behind(self.pod_end.own, stamp.behind_gap)
            + self.timing.control_flight;
        let window = match (clock.ahead, stamp.window) {
            (None, None) => return,
            (None, Some(window)) => window.into(),
            (Some(_), Some(window)) if self.lags() => self.full(window),
            (Some(_), None) if self.lags() => return,
            // The one that it fits best.
            (Some(_), _) => {
                let half = Duration::from_ps(self.timing.epoch.as_ps() / 2);
                self.timing.epoch_at((clock.pod(local) + half).before(way))
            }
        };
        let came = self.timing.start(window) + way;
        let own = clock.ahead.unwrap_or_else(|| difference(local, came));
        let error = difference(local, came).wrapping_sub(own);
        let moved = window.checked_sub(Stamp::BEHIND).and_then(|epoch| clock.moved_since(epoch));
        let paired = stamp.late.zip(moved);
        let unit = Stamp::unit(self.timing.epoch).as_ps().cast_signed();
        if self.lags() && clock.ahead.is_some() && paired.is_none() {
            // One way of a host that is polled late says nothing.
            return;
        }
        let trip = |(late, moved): (i16, i64)| error + i64::from(late) * unit + moved;
        let trip = self.lags().then(|| paired.map_or(i64::MAX, trip));
        let error = match paired {
            // By the present estimate the request would have been later by what that has moved.
            Some((late, moved)) => (error - i64::from(late) * unit - moved) / 2,
            None => error,
        };
        let step = self.timing.clock_step().max(clock.lag / STEP_OF_LAG);
        if let Some(clock) = &mut self.clock {
            clock.add(own.wrapping_add(error), paired.is_some(), trip, step);
        }
        let now = self.pod_time(local);
        self.settle(now);
    }

    /// From here on the host asks and sends.
    fn settle(&mut self, now: Instant) {
        let epoch = self.epoch_at(now);
        if let Some(clock) = &mut self.clock
            && clock.settled_in.is_none()
            && clock.paired == SETTLED
        {
            clock.settled_in = Some(epoch);
            self.counts.settled_in = epoch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::zeropod::timing::{Timing, TimingInputs};
    use crate::time::Rate;
    use crate::units::Bytes;

    #[test]
    fn the_median_of_the_last_eight_leaves_out_what_is_far_off() {
        let mut median = Median::default();
        assert_eq!(median.add(10), 10);
        assert_eq!(median.add(1_000_000), 10);
        for value in [12, 11, -500_000, 13, 12, 11] {
            median.add(value);
        }
        assert_eq!(median.add(12), 12);
        // What is older than that is forgotten.
        let last = (0..8).map(|_| median.add(500)).last();
        assert_eq!(last, Some(500));
    }

    #[test]
    fn of_a_host_that_is_polled_late_the_shortest_round_trip_counts() {
        let mut clock = PodClock::new(Duration::from_us(1));
        let step = Duration::from_ps(100);
        clock.add(40_000, false, Some(i64::MAX), step);
        for (ahead, trip) in [(9_000, 8_000), (5_000, 20), (-70_000, 150_000), (8_000, 6_000)] {
            clock.add(ahead, true, Some(trip), step);
        }
        assert_eq!((clock.ahead, clock.paired), (Some(5_000), 4));
        // What is older than eight is forgotten.
        for _ in 0..8 {
            clock.add(7_000, true, Some(500), step);
        }
        assert_eq!(clock.ahead, Some(7_000));
    }

    /// Whatever the length of links and epochs.
    #[test]
    fn an_estimate_is_kept_until_the_answer_comes_that_says_how_late_its_request_was() {
        let mut longest = 0;
        for cells in 1..=32_u16 {
            for hop in (0..400).map(|step| Duration::from_ns(100 * step)) {
                let timing = Timing::new(&TimingInputs {
                    cell: Bytes(552),
                    control: Bytes(40),
                    rate: Rate::from_gbps(100),
                    hop,
                    cells,
                    guard: Duration::from_ns(10),
                    delay: Duration::from_us(15),
                    layers: 0,
                    early: Duration::ZERO,
                    guards_answers: true,
                });
                if timing.to_receipt + timing.to_decision + 4 > 48 {
                    continue;
                }
                // Request and answer of the last host of a ToR, each as late as it may be.
                let asked = timing.request_at(cells, Some(0));
                let window = timing.epoch * Stamp::BEHIND + timing.answers_at;
                let came = window + timing.answer_at(cells, Some(0)) + timing.control_flight;
                // By then the request of another epoch has its place.
                assert!(came < timing.epoch * KEPT as u64 + asked, "{cells} cells, {hop}");
                longest = longest.max(timing.epoch_at(Instant::ZERO + came));
            }
        }
        assert!(longest > 28, "{longest}");
    }

    #[test]
    fn a_settled_clock_moves_by_a_step_at_most() {
        let mut clock = PodClock::new(Duration::ZERO);
        let (at, step) = (Instant::from_ps, Duration::from_ps(100));
        assert_eq!((clock.pod(at(77)), clock.ahead), (Instant::ZERO, None));
        clock.add(5_000, true, None, step);
        clock.add(9_000, true, None, step);
        clock.add(9_000, true, None, step);
        assert_eq!((clock.pod(at(10_000)), clock.local(at(1_000))), (at(1_000), at(10_000)));
        clock.settled_in = Some(3);
        for _ in 0..8 {
            clock.add(20_000, true, None, step);
        }
        assert!(clock.ahead.is_some_and(|ahead| (9_100..=9_800).contains(&ahead)), "{clock:?}");
        assert_eq!(clock.local(Instant::FAR_FUTURE), Instant::FAR_FUTURE);
    }
}
