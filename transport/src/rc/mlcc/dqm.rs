//! DQM: the rate for the sender that brings the delay in the flow's queue to its threshold, from a
//! prediction of the queue one RTT_C ahead. Source: \[mlcc\] sec. 3.3.1, eq. 1 to 9, alg. 2.
//!
//! ```text
//!   pre    = mean over RTT_C of the rates advised        what is on its way
//!   Q_pre  = max(0, (pre - R_credit) * RTT_C + Q)        eq. 3
//!   D_pre  = Q_pre / mean of the last m R_credit         eq. 4
//!   R_DQM  = R_credit * (1 - (D_pre - D_t) / theta)      eq. 5
//!   segment: dw -= dw / N;  dw += 1 or - 1, by a token   eq. 6 to 8
//!   Rbar   = R_credit + dw * MTU / RTT_C                 eq. 9
//! ```
//!
//! Units: bits a second, bytes, seconds; dw in segments per RTT_C.

use super::{Below, MlccParams, Signal, UNIT};
use crate::telemetry::{Law, seconds};
use crate::time::{Duration, Instant};
use crate::units::Bytes;

/// Spans into which the last RTT_C is divided.
const SPANS: usize = 12;

/// Most rounds over which R_credit is averaged.
const ROUNDS: usize = 5;

/// The settings of DQM as it computes with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DqmConstants {
    dt: f32,
    theta: f32,
    rtt_c: f32,
    /// Bytes of a full segment.
    mtu: u16,
    /// Bounds of rates, kb/s, as they are reported.
    least: u32,
    line: u32,
    alpha: f32,
    m: u8,
    leak: bool,
    below: Below,
    pub(super) signal: Signal,
    pub(super) law: Law,
}

impl DqmConstants {
    /// For segments of `mtu` and rates in `bounds`.
    pub(super) fn new(params: &MlccParams, mtu: Bytes, bounds: (f64, f64)) -> Self {
        Self {
            dt: narrow(seconds(params.dt)),
            theta: narrow(seconds(params.theta)),
            rtt_c: narrow(seconds(params.rtt_c).max(1e-9)),
            mtu: u16::try_from(mtu.0.max(1)).unwrap_or(u16::MAX),
            least: kbps(bounds.0),
            line: kbps(bounds.1),
            alpha: params.alpha,
            m: u8::try_from(params.m).unwrap_or(1),
            leak: params.leak,
            below: params.below,
            signal: params.signal,
            law: params.law,
        }
    }

    /// Largest rate, bit/s.
    pub(super) fn line(&self) -> f64 {
        f64::from(self.line) * UNIT
    }

    /// Smallest rate, bit/s.
    fn least(&self) -> f64 {
        f64::from(self.least) * UNIT
    }

    /// Bits of a full segment.
    fn mtu_bits(&self) -> f32 {
        f32::from(self.mtu) * 8.0
    }

    /// `rate` within its bounds.
    pub(super) fn clamp(&self, rate: f64) -> f64 {
        rate.clamp(self.least(), self.line())
    }

    fn span(&self) -> Duration {
        Duration::from_ps(whole(f64::from(self.rtt_c) * 1e12) / SPANS as u64)
    }
}

/// The state of DQM for one flow.
#[derive(Clone, Debug)]
pub(super) struct Dqm {
    /// Mean rates advised in the last spans, a ring.
    advised: [f32; SPANS],
    /// R_credit of the last rounds, a ring; 0 before the first.
    credits: [f32; ROUNDS],
    /// The span under way, and its rounds.
    place: u8,
    round: u8,
    in_span: u32,
    /// When the span under way began; [`Instant::ZERO`] before the first round.
    since: Instant,
    /// R_DQM, bit/s.
    target: f32,
    token: f32,
    /// The dynamic window, segments per RTT_C.
    window: f32,
}

impl Dqm {
    /// A flow that was advised `initial` all the time.
    pub(super) const fn new(initial: f64) -> Self {
        let initial = narrow(initial);
        Self {
            advised: [initial; SPANS],
            credits: [0.0; ROUNDS],
            place: 0,
            round: 0,
            in_span: 0,
            since: Instant::ZERO,
            target: initial,
            token: 0.0,
            window: 0.0,
        }
    }

    /// A round has ended at `at`, with `queue` bytes left.
    pub(super) fn on_round(&mut self, at: Instant, credit: f64, queue: f64, c: &DqmConstants) {
        let place = usize::from(self.round) % usize::from(c.m).clamp(1, ROUNDS);
        self.credits[place] = narrow(credit);
        self.round = u8::try_from(place + 1).unwrap_or(0);
        self.note(at, self.advised(credit, c), c);
        let rtt = f64::from(c.rtt_c);
        //= mlcc#eq2
        let pre = self.advised.iter().map(|rate| f64::from(*rate)).sum::<f64>()
            / Bytes(SPANS as u64).as_f64();
        //= mlcc#eq3
        let ahead = ((pre - credit) * rtt + queue * 8.0).max(0.0);
        //= mlcc#eq4
        let delay = ahead / self.mean_credit().max(c.least());
        let excess = (delay - f64::from(c.dt)) / f64::from(c.theta);
        // DEVIATION(mlcc#alg2): line 5 has no branch for a delay below the threshold, and its
        // symbols are not those of eq. 4. R_credit adds no delay to a flow that is limited
        // elsewhere; `below` has the two other readings.
        let target = match c.below {
            _ if excess > 0.0 => credit * (1.0 - excess),
            Below::Credit => credit,
            Below::Eq5 => credit * (1.0 - excess),
            Below::Stale => f64::from(self.target),
        };
        self.target = narrow(c.clamp(target));
    }

    /// Notes that `rate` is advised from `at` on.
    fn note(&mut self, at: Instant, rate: f64, c: &DqmConstants) {
        let span = c.span();
        if self.since == Instant::ZERO {
            self.since = at;
        }
        let since = self.since;
        let passed = at.since(since).as_ps() / span.as_ps().max(1);
        // A silence longer than RTT_C leaves nothing of what was before it.
        for _ in 0..passed.min(SPANS as u64) {
            let last = self.advised[usize::from(self.place)];
            self.place = if usize::from(self.place) + 1 < SPANS { self.place + 1 } else { 0 };
            self.advised[usize::from(self.place)] = last;
            self.in_span = 0;
        }
        self.since = since + span * passed;
        let mean = &mut self.advised[usize::from(self.place)];
        self.in_span = self.in_span.saturating_add(1);
        *mean += (narrow(rate) - *mean) / narrow(f64::from(self.in_span));
    }

    /// Mean of the last R_credit.
    fn mean_credit(&self) -> f64 {
        let known = self.credits.iter().filter(|credit| **credit > 0.0);
        let (sum, count) =
            known.fold((0.0, 0.0), |(sum, count), credit| (sum + f64::from(*credit), count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }

    /// A token step, for one segment.
    pub(super) fn on_segment(&mut self, credit: f64, c: &DqmConstants) {
        let credit = narrow(credit).max(1.0);
        //= mlcc#eq7
        self.token += (c.alpha * self.target / credit).min(1.0);
        //= mlcc#eq6
        // DEVIATION(mlcc#alg2): line 7 loops without end below one token, and the text leaves out
        // one token exactly. One step a segment, and `>=`, hold the rate when both are equal.
        let is_up = self.token >= 1.0;
        if is_up {
            self.token -= 1.0;
        }
        let per_round = (credit * c.rtt_c / c.mtu_bits()).max(1.0);
        if c.leak {
            // DEVIATION(mlcc#eq8): as printed the window only adds up, and the queue oscillates
            // without damping. With this share lost at each segment the window is what eq. 9
            // divides by: segments more or fewer in an RTT_C.
            self.window -= self.window / per_round;
        }
        //= mlcc#eq8
        self.window += if is_up { 1.0 } else { -1.0 };
        let rate = f64::from(credit) + f64::from(self.window * c.mtu_bits() / c.rtt_c);
        let held = narrow(c.clamp(rate)) - credit;
        if rate < c.least() || rate > c.line() {
            self.window = held * c.rtt_c / c.mtu_bits();
        }
    }

    /// Rbar: the rate for the sender.
    pub(super) fn advised(&self, credit: f64, c: &DqmConstants) -> f64 {
        //= mlcc#eq9
        c.clamp(credit + f64::from(self.window * c.mtu_bits() / c.rtt_c))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half the digits are enough for a rate")]
pub(super) const fn narrow(value: f64) -> f32 {
    value as f32
}

/// A rate in kb/s, at least 1.
fn kbps(rate: f64) -> u32 {
    u32::try_from(whole(rate / UNIT)).unwrap_or(u32::MAX).max(1)
}

/// A number that is not negative as a whole one.
pub(super) fn whole(value: f64) -> u64 {
    Bytes(1).scaled(value).0
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use super::*;

    const RTT: f64 = 6.05e-3;

    /// The loop of DQM on its own: a queue that is emptied at 12.5 Gb/s and that a sender RTT_C
    /// away fills as it is advised, from line rate on. Bytes in the queue, each millisecond.
    fn run(params: &MlccParams, ms: usize) -> Vec<f64> {
        let (credit, line) = (12.5e9, 25e9);
        let c = DqmConstants::new(params, Bytes(1090), (1e8, line));
        let mut dqm = Dqm::new(line);
        let step = 24e-6;
        let mut on_its_way: VecDeque<f64> = core::iter::repeat_n(line, 252).collect();
        let (mut queue, mut owed, mut samples) = (0.0, 0.0, Vec::new());
        let mut at = Instant::ZERO;
        for round in 0.. {
            if samples.len() == ms {
                break;
            }
            let arrives = on_its_way.pop_front().unwrap_or(line);
            let leaves = (queue * 8.0 / step + arrives).min(credit);
            queue = (queue + (arrives - leaves) * step / 8.0).max(0.0);
            owed += leaves * step / 8.0 / 1090.0;
            while owed >= 1.0 {
                owed -= 1.0;
                dqm.on_segment(credit, &c);
            }
            at += Duration::from_us(24);
            dqm.on_round(at, credit, queue, &c);
            on_its_way.push_back(dqm.advised(credit, &c));
            if (f64::from(round) * step * 1e3).fract() + step * 1e3 >= 1.0 {
                samples.push(queue);
            }
        }
        samples
    }

    fn theta(ms: u64) -> MlccParams {
        let rtt_c = Duration::from_us(6050);
        MlccParams { theta: Duration::from_ms(ms), rtt_c, ..MlccParams::default() }
    }

    /// D_t at the rate that empties the queue.
    const SETTLED: f64 = 12.5e9 * 1e-3 / 8.0;

    #[test]
    fn the_queue_settles_at_its_delay_and_a_longer_theta_takes_longer() {
        let half_at = [6, 18, 30].map(|ms| {
            let queue = run(&theta(ms), 250);
            let peak = queue.iter().copied().fold(0.0, f64::max);
            // One RTT_C at twice the rate that empties it.
            let expected = 12.5e9 * RTT / 8.0;
            assert!((peak / expected - 1.0).abs() < 0.35, "{ms}: {peak}");
            let top = queue.iter().position(|bytes| *bytes == peak).unwrap();
            top + queue[top..].iter().position(|bytes| *bytes < peak / 2.0).unwrap()
        });
        assert!(half_at.is_sorted() && half_at[0] < half_at[2], "{half_at:?}");
        let settled = *run(&theta(18), 250).last().unwrap();
        assert!((settled / SETTLED - 1.0).abs() < 0.15, "{settled}");
    }

    #[test]
    fn the_damping_follows_theta_and_without_the_leak_there_is_none() {
        // Sec. 2.4 of the analysis: theta T Q'' + theta Q' + Q = R D_t, so 6 ms undershoots and 18
        // does not.
        let least = |params: &MlccParams| {
            run(params, 200)[20..].iter().copied().fold(f64::INFINITY, f64::min)
        };
        assert!(least(&theta(6)) < 0.8 * SETTLED, "{}", least(&theta(6)));
        assert!(least(&theta(18)) > 0.9 * SETTLED, "{}", least(&theta(18)));
        let literal = MlccParams { leak: false, below: Below::Eq5, ..theta(18) };
        let literal = run(&literal, 200);
        let late = &literal[100..];
        let swing = late.iter().copied().fold(0.0, f64::max)
            - late.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(swing > SETTLED, "it swings for good: {swing}");
    }

    #[test]
    fn equal_rates_hold_the_window_and_bounds_hold_the_rate() {
        let c = DqmConstants::new(&theta(18), Bytes(1090), (1e8, 25e9));
        let mut dqm = Dqm::new(10e9);
        (0..10_000).for_each(|_| dqm.on_segment(10e9, &c));
        assert!((dqm.advised(10e9, &c) / 10e9 - 1.0).abs() < 1e-3);
        // A queue beyond all measure: the least rate, and never less.
        for round in 0..100 {
            dqm.on_round(Instant::ZERO + Duration::from_us(round * 24), 10e9, 1e12, &c);
            (0..1000).for_each(|_| dqm.on_segment(10e9, &c));
        }
        assert!((dqm.advised(10e9, &c) - 1e8).abs() < 1e4, "{}", dqm.advised(10e9, &c));
    }
}
