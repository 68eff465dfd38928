//! The pod's time at a host whose clock is off: the scheduler's clock is the pod's.
//!
//! Source: \[zeropod\] IV-E; the exchange is ours. Nothing waits in a pod, so an answer that left
//! its scheduler in a known slot arrives at a known instant of the pod's time, and so does a
//! request. What the host sees of the one, less what the scheduler saw of the other, is twice the
//! error of the host's estimate, whatever the links take:
//!
//! ```text
//!   request of an epoch  --->  scheduler: late by   links - error
//!   answer of a window   --->  host:      late by   links + error
//! ```
//!
//! A host follows the median of its last corrections. It sends nothing before the first answer,
//! and requests alone until [`SETTLED`] answers have said how late these were: from then on cells.

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
}

/// Answers after which a clock has settled.
const SETTLED: u8 = 4;

/// Corrections are at most so large once the clock has settled, so that no cell is passed by the
/// one behind it: half of a control cell.
const STEP_OF_CONTROL: u64 = 2;

/// Epochs whose estimates are kept: more than an answer takes to say how late a request was, where
/// a receipt is passed on within 48 epochs, as plans demand.
const KEPT: usize = 32;

/// The last values of local time less the pod's.
#[derive(Clone, Copy, Debug, Default)]
struct Median {
    values: [i64; Self::LEN],
    len: usize,
    next: usize,
}

impl Median {
    const LEN: usize = 8;

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
    pub(super) fn new() -> Self {
        let kept = [(u64::MAX, 0); KEPT];
        Self { ahead: None, median: Median::default(), kept, paired: 0, settled_in: None }
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

    /// Takes in local time less the pod's, as one answer shows it, alone or paired with a request.
    /// A settled clock moves by `step` at most.
    fn add(&mut self, ahead: i64, is_paired: bool, step: Duration) {
        if is_paired && self.paired < SETTLED {
            if self.paired == 0 {
                // One way alone is worth less.
                self.median = Median::default();
            }
            self.paired += 1;
        }
        let median = self.median.add(ahead);
        let most = i64::try_from(step.as_ps()).unwrap_or(i64::MAX);
        self.ahead = Some(match (self.ahead, self.settled_in) {
            (Some(own), Some(_)) => own + (median - own).clamp(-most, most),
            _ => median,
        });
    }

    /// How much more than at the request of `epoch` local time is thought to be ahead now; `None`
    /// where that is not known any more.
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
    /// The pod's time at `local` time.
    #[inline]
    pub(super) fn pod_time(&self, local: Instant) -> Instant {
        match &self.clock {
            None => local,
            Some(clock) => clock.pod(local),
        }
    }

    /// Local time at `pod` time.
    #[inline]
    pub(super) fn local_time(&self, pod: Instant) -> Instant {
        match &self.clock {
            None => pod,
            Some(clock) => clock.local(pod),
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

    /// Whether the host sends a request in every epoch, to be answered in every epoch.
    #[inline]
    pub(super) fn follows(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.ahead.is_some())
    }

    /// What the request of `epoch` says of the host's clock.
    pub(super) fn clock_state(&mut self, epoch: u64) -> Option<ClockState> {
        let clock = self.clock.as_mut()?;
        clock.kept[place(epoch)] = (epoch, clock.ahead?);
        let peer = self.peer_in(epoch);
        let behind_gap = peer.is_some_and(|peer| peer < self.seat.own);
        Some(ClockState { behind_gap, settled: self.is_settled() })
    }

    /// An answer with this stamp has come at `local` time.
    pub(super) fn follow(&mut self, schd: &Schd, local: Instant) {
        let (Some(stamp), Some(clock)) = (schd.stamp, &self.clock) else { return };
        let way = self.timing.answers_at
            + self.timing.answer_behind(self.seat.own, stamp.behind_gap)
            + self.timing.control_flight;
        let window = match (clock.ahead, stamp.window) {
            (None, None) => return,
            (None, Some(window)) => window.into(),
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
        let error = match paired {
            // By the present estimate the request would have been later by what that has moved.
            Some((late, moved)) => (error - i64::from(late) * UNIT_PS - moved) / 2,
            None => error,
        };
        let step = Duration::from_ps(self.timing.control.as_ps() / STEP_OF_CONTROL);
        if let Some(clock) = &mut self.clock {
            clock.add(own.wrapping_add(error), paired.is_some(), step);
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

const UNIT_PS: i64 = Stamp::UNIT.as_ps().cast_signed();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::zeropod::timing::{Terms, Timing};
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

    /// Whatever the length of links and epochs.
    #[test]
    fn an_estimate_is_kept_until_the_answer_comes_that_says_how_late_its_request_was() {
        let mut longest = 0;
        for cells in 1..=32_u16 {
            for hop in (0..400).map(|step| Duration::from_ns(100 * step)) {
                let timing = Timing::new(&Terms {
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
        let mut clock = PodClock::new();
        let (at, step) = (Instant::from_ps, Duration::from_ps(100));
        assert_eq!((clock.pod(at(77)), clock.ahead), (Instant::ZERO, None));
        clock.add(5_000, true, step);
        clock.add(9_000, true, step);
        clock.add(9_000, true, step);
        assert_eq!((clock.pod(at(10_000)), clock.local(at(1_000))), (at(1_000), at(10_000)));
        clock.settled_in = Some(3);
        for _ in 0..8 {
            clock.add(20_000, true, step);
        }
        assert!(clock.ahead.is_some_and(|ahead| (9_100..=9_800).contains(&ahead)), "{clock:?}");
        assert_eq!(clock.local(Instant::FAR_FUTURE), Instant::FAR_FUTURE);
    }
}
