//! The rate that telemetry calls for: the load of a path's links, and the update of HPCC. Source:
//! \[hpcc\] sec. 3.2 and alg. 1.
//!
//! ```text
//!   each hop:   load = tx / B + min(q, q_last) / (B * T)
//!   U         = (1 - tau / T) * U + tau / T * load of the busiest hop, tau at most T
//!   U >= eta, or the stages are over:   rate = reference * eta / U + ai
//!   else:                               rate = reference + ai
//!   once a round:                       reference = rate
//! ```
//!
//! The controllers of both ends that read hops share this code, with PowerTCP's update beside it.
//! Each controller chooses which quantity of a hop is its load ([`Sample`], [`Law`]). Units: bits a
//! second, picoseconds. It does not depend on where the hops come from, and reads no clock.

use crate::params::words;
use crate::time::{Duration, Instant, Rate};
use crate::wire::ExtRefusal;
use crate::wire::int::Hop;

words! {
    /// What a rate follows: the load of the busiest link as HPCC has it, or as PowerTCP has it.
    pub enum Law: "auto, hpcc or powertcp" {
        /// The law of flows inside a site; HPCC's where these follow neither law.
        Auto = "auto",
        /// Utilisation and the queue that stands, in steps between cuts.
        Hpcc = "hpcc",
        /// Power, which a growing queue raises at once.
        PowerTcp = "powertcp",
    }
}

impl Law {
    /// The load of a link: 1 where it is just full.
    pub(crate) fn load(self, sample: &Sample, rtt: f64) -> f64 {
        match self {
            Self::Auto | Self::Hpcc => sample.utilisation(rtt),
            Self::PowerTcp => sample.power(rtt),
        }
    }

    /// Has `rate` follow a load that this law has measured.
    pub(crate) fn follow(
        self,
        rate: &mut RateLaw,
        load: f64,
        ends_round: bool,
        law: &LawConstants,
    ) {
        match self {
            Self::Auto | Self::Hpcc => rate.follow(load, ends_round, law),
            Self::PowerTcp => rate.follow_power(load, ends_round, law),
        }
    }
}

/// The telemetry of one port between two packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    /// B: rate of the link, bit/s, above 0.
    pub(crate) link: f64,
    /// The rate that the port sent at, bit/s.
    pub(crate) sent: f64,
    /// Bits that wait at the later packet.
    pub(crate) queue: f64,
    /// Bits that waited at the earlier packet.
    pub(crate) queue_last: f64,
    /// The time between the two packets, seconds, above 0.
    pub(crate) span: f64,
}

impl Sample {
    /// The share of the link that is in use, with the queue as far as it stands: above 1 where the
    /// link cannot follow. `rtt` is T, seconds.
    pub(crate) fn utilisation(&self, rtt: f64) -> f64 {
        //= hpcc#eq2
        let queue = self.queue.min(self.queue_last);
        self.sent / self.link + queue / (self.link * rtt)
    }

    /// The power of the link over that of a link that is just full. `rtt` is T, seconds.
    pub(crate) fn power(&self, rtt: f64) -> f64 {
        //= powertcp#eq8
        // The shipped code assumes at least half of a link's rate: a short silence is no lack of
        // demand.
        let grown = (self.queue - self.queue_last) / self.span;
        let current = (self.sent + grown).max(self.link / 2.0);
        let voltage = self.queue + self.link * rtt;
        current * voltage / (self.link * self.link * rtt)
    }
}

/// The smoothed load of a path of at most `N` hops.
#[derive(Clone, Debug)]
pub(crate) struct Load<const N: usize> {
    /// The hops, of which the first `known` are those of the last packet.
    hops: [Hop; N],
    known: u8,
    /// Packets in a row whose hops were older than these.
    refused: u8,
    /// U, above 0.
    average: f32,
}

impl<const N: usize> Load<N> {
    /// A path that is just full, of which nothing is known.
    pub(crate) fn new() -> Self {
        Self { hops: [Hop::default(); N], known: 0, refused: 0, average: 1.0 }
    }

    /// Takes the hops of a packet; returns the smoothed load, or `None` when they show none: there
    /// are none, or the path is new.
    ///
    /// # Errors
    /// When the path is too long, or later hops were seen already.
    pub(crate) fn measure(
        &mut self,
        hops: &[Hop],
        rtt: Duration,
        load: impl Fn(&Sample, f64) -> f64,
    ) -> Result<Option<f64>, ExtRefusal> {
        if hops.is_empty() {
            return Ok(None);
        }
        if hops.len() > N {
            return Err(ExtRefusal::Int);
        }
        let last = &self.hops[..usize::from(self.known)];
        let is_same = last.len() == hops.len()
            && last.iter().zip(hops).all(|(last, hop)| last.port() == hop.port());
        if !is_same || self.refused >= REFUSED_MAX {
            self.hops[..hops.len()].copy_from_slice(hops);
            self.known = u8::try_from(hops.len()).unwrap_or(u8::MAX);
            self.refused = 0;
            return Ok(None);
        }
        let rtt = seconds(rtt).max(1e-9);
        let mut busiest = (0.0, 0.0);
        for (last, hop) in last.iter().zip(hops) {
            let Some(sample) = sample(last, hop) else {
                self.refused += 1;
                return Err(ExtRefusal::Int);
            };
            let load = load(&sample, rtt);
            if load > busiest.0 {
                busiest = (load, sample.span);
            }
        }
        self.hops[..hops.len()].copy_from_slice(hops);
        self.refused = 0;
        let (load, span) = busiest;
        let weight = (span / rtt).min(1.0);
        let average = f64::from(self.average) * (1.0 - weight) + weight * load;
        self.average = narrow(average.clamp(LOAD_MIN, LOAD_MAX));
        Ok(Some(f64::from(self.average)))
    }
}

/// Packets with older hops in a row after which they do not count as overtaken: a counter began
/// anew, or the time has wrapped while the flow was at rest.
const REFUSED_MAX: u8 = 8;

/// Bounds of the load: that of a queue of 256 GB at 100 Mb/s, and that of a link that is nearly
/// idle.
const LOAD_MIN: f64 = 1e-6;
const LOAD_MAX: f64 = 1e12;

/// The change of one port; `None` when its counters run backwards or stand still.
fn sample(last: &Hop, hop: &Hop) -> Option<Sample> {
    let span = seconds(hop.since(last)?);
    if span <= 0.0 {
        return None;
    }
    Some(Sample {
        link: rate_of(hop.rate()),
        sent: hop.sent_since(last)?.as_f64() * 8.0 / span,
        queue: hop.waiting().as_f64() * 8.0,
        queue_last: last.waiting().as_f64() * 8.0,
        span,
    })
}

/// A duration in seconds.
pub(crate) fn seconds(span: Duration) -> f64 {
    span.as_us_f64() / 1e6
}

/// A rate as a real number, bit/s.
pub(crate) fn rate_of(rate: Rate) -> f64 {
    crate::units::Bytes(rate.as_bps()).as_f64()
}

/// A rate from a real number, at least one bit a second.
pub(crate) fn to_rate(bps: f64) -> Rate {
    Rate::from_bps(crate::units::Bytes(1).scaled(bps).0.max(1))
}

#[expect(clippy::cast_possible_truncation, reason = "half the digits are enough for an average")]
const fn narrow(value: f64) -> f32 {
    value as f32
}

/// The constants of [`RateLaw`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LawConstants {
    /// eta: the load to aim at, above 0.
    pub(crate) target: f32,
    /// Rounds of additive increase before the next multiplicative one.
    pub(crate) stages: u16,
    /// Additive increase, bit/s.
    pub(crate) increase: f64,
    /// Smallest rate, bit/s, above 0.
    pub(crate) least: f64,
    /// Largest rate, bit/s, at least `least`.
    pub(crate) line: f64,
}

/// A rate that follows the load of a path, and changes its reference once a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLaw {
    /// The rate in force, bit/s.
    rate: f64,
    /// The rate of the last round, bit/s.
    reference: f64,
    /// When the round began: what was sent before does not end it. [`Instant::ZERO`] before the
    /// first measurement, which begins the first round and ends none.
    round_at: Instant,
    /// gamma, which only PowerTCP's update has: weight of the rate that the power calls for.
    gain: f32,
    /// Rounds of additive increase.
    stage: u16,
}

impl RateLaw {
    /// A flow that starts at `rate`, with a gamma of 1.
    pub(crate) const fn new(rate: f64) -> Self {
        Self { rate, reference: rate, round_at: Instant::ZERO, gain: 1.0, stage: 0 }
    }

    /// The law with PowerTCP's gamma.
    pub(crate) const fn with_gain(self, gain: f32) -> Self {
        Self { gain, ..self }
    }

    /// The law of a flow that starts again, at `rate`.
    pub(crate) const fn anew(&self, rate: f64) -> Self {
        Self::new(rate).with_gain(self.gain)
    }

    /// The rate in force, bit/s.
    pub(crate) const fn rate(&self) -> f64 {
        self.rate
    }

    /// When the round began.
    pub(crate) const fn round_at(&self) -> Instant {
        self.round_at
    }

    /// A round begins at `now`.
    pub(crate) const fn begin_round(&mut self, now: Instant) {
        self.round_at = now;
    }

    /// Whether what was sent at `sent_at` ends the round at `now`.
    pub(crate) fn ends_round(&mut self, sent_at: Instant, now: Instant) -> bool {
        let is_first = self.round_at == Instant::ZERO;
        let ends = sent_at >= self.round_at;
        if ends {
            self.round_at = now;
        }
        ends && !is_first
    }

    /// Follows a `load`, and keeps the rate as the reference where this ends a round.
    pub(crate) fn follow(&mut self, load: f64, ends_round: bool, law: &LawConstants) {
        //= hpcc#alg1
        let relative = load / f64::from(law.target);
        let is_cut = relative >= 1.0 || self.stage >= law.stages;
        let base = if is_cut { self.reference / relative } else { self.reference };
        self.set(base + law.increase, ends_round, law);
        if ends_round {
            self.stage = if is_cut { 0 } else { self.stage + 1 };
        }
    }

    /// Follows a power, 1 where the link is just full.
    pub(crate) fn follow_power(&mut self, power: f64, ends_round: bool, law: &LawConstants) {
        let (reference, gain) = (self.reference, f64::from(self.gain));
        //= powertcp#alg1
        let called = reference * f64::from(law.target) / power + law.increase;
        self.set(gain * called + (1.0 - gain) * reference, ends_round, law);
    }

    /// Takes `rate` over, within bounds.
    pub(crate) const fn set(&mut self, rate: f64, ends_round: bool, law: &LawConstants) {
        self.rate = rate.clamp(law.least, law.line);
        if ends_round {
            self.reference = self.rate;
        }
    }

    /// Halves the rate at `now`, if what was lost left in this round.
    pub(crate) fn cut(&mut self, sent_at: Instant, now: Instant, law: &LawConstants) {
        let is_first = self.round_at == Instant::ZERO;
        if self.ends_round(sent_at, now) || is_first {
            self.stage = 0;
            self.set(self.reference / 2.0, true, law);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    const T: Duration = Duration::from_us(10);
    const LAW: LawConstants =
        LawConstants { target: 0.95, stages: 5, increase: 5e7, least: 1e8, line: 1e11 };

    /// A hop of a link of 100 Gb/s, `sent` and `waiting` in units of 64 bytes.
    fn hop(us: u64, sent: u64, waiting: u64) -> Hop {
        let at = Instant::ZERO + Duration::from_us(us);
        Hop::new(at, Bytes(sent * 64), Bytes(waiting * 64), Rate::from_gbps(100), 1)
    }

    #[test]
    fn a_full_link_without_a_queue_has_load_one_and_half_of_it_half() {
        let mut load = Load::<2>::new();
        assert_eq!(load.measure(&[hop(0, 0, 0)], T, Sample::utilisation), Ok(None));
        // 100 Gb/s are 1953.125 units in 10 us.
        let full = load.measure(&[hop(10, 1953, 0)], T, Sample::utilisation).unwrap().unwrap();
        assert!((full - 1.0).abs() < 1e-3, "{full}");
        let half =
            load.measure(&[hop(20, 1953 + 976, 0)], T, Sample::utilisation).unwrap().unwrap();
        assert!((half - 0.5).abs() < 1e-3, "{half}");
        // Half a round weighs half; a queue of one BDP that stands adds 1.
        let queued =
            load.measure(&[hop(25, 2929 + 976, 1953)], T, Sample::utilisation).unwrap().unwrap();
        assert!(
            (queued - 0.75).abs() < 2e-3,
            "a queue that has just come does not count: {queued}"
        );
        let stands =
            load.measure(&[hop(35, 3905 + 1953, 1953)], T, Sample::utilisation).unwrap().unwrap();
        assert!((stands - 2.0).abs() < 2e-3, "{stands}");
    }

    #[test]
    fn hops_of_another_path_or_of_the_past_say_nothing() {
        let mut load = Load::<2>::new();
        let mut measured = |hops: &[Hop]| load.measure(hops, T, Sample::utilisation);
        let refused = Err(ExtRefusal::Int);
        assert_eq!(measured(&[hop(0, 0, 0)]), Ok(None));
        assert_eq!(measured(&[hop(0, 5, 0)]), refused, "time stands");
        assert_eq!(measured(&[]), Ok(None));
        assert_eq!(measured(&[hop(9, 9, 0); 3]), refused, "too long");
        assert!(measured(&[hop(10, 100, 0)]).unwrap().is_some());
        assert_eq!(measured(&[hop(5, 50, 0)]), refused, "overtaken");
        assert_eq!(measured(&[hop(20, 200, 0); 2]), Ok(None), "new path");
        assert_eq!(measured(&[hop(30, 1, 0); 2]), refused, "a restart");
    }

    #[test]
    fn counters_that_begin_anew_are_followed_after_some_packets() {
        let mut load = Load::<2>::new();
        assert_eq!(load.measure(&[hop(0, 1 << 30, 0)], T, Sample::utilisation), Ok(None));
        let measured =
            |load: &mut Load<2>, n| load.measure(&[hop(n, n, 0)], T, Sample::utilisation);
        let first = (1..100).find(|n| measured(&mut load, *n).is_ok_and(|load| load.is_some()));
        assert_eq!(first, Some(u64::from(REFUSED_MAX) + 2));
        assert!(measured(&mut load, 200).unwrap().is_some());
    }

    #[test]
    fn the_power_of_a_full_link_is_one_and_a_growing_queue_raises_it() {
        let at = |queue: f64, queue_last: f64| {
            Sample { link: 1e11, sent: 1e11, queue, queue_last, span: 1e-5 }.power(1e-5)
        };
        assert!((at(0.0, 0.0) - 1.0).abs() < 1e-9);
        // One BDP more in one round trip: twice the current at twice the voltage.
        assert!((at(1e6, 0.0) - 4.0).abs() < 1e-9);
        assert!(at(0.0, 1e6) < 1.0);
    }

    #[test]
    fn an_overloaded_path_gets_its_share_at_once_and_the_reference_once_a_round() {
        let mut law = RateLaw::new(1e11);
        law.follow(1.9, false, &LAW);
        assert!((law.rate() - 5.005e10).abs() < 1e4);
        law.follow(1.9, false, &LAW);
        assert!((law.rate() - 5.005e10).abs() < 1e4, "of the reference, not of itself");
        law.follow(1.9, true, &LAW);
        law.follow(1.9, true, &LAW);
        assert!((law.rate() - 2.5075e10).abs() < 1e4);
    }

    #[test]
    fn an_idle_path_is_probed_in_steps_and_then_taken() {
        let mut law = RateLaw::new(1e10);
        for step in 1..=5 {
            law.follow(0.1, true, &LAW);
            assert!((law.rate() - 1e10 - f64::from(step) * 5e7).abs() < 1.0);
        }
        law.follow(0.1, true, &LAW);
        assert!(law.rate() > 9e10, "{}", law.rate());
    }

    #[test]
    fn a_round_ends_with_what_was_sent_in_it_and_a_loss_halves_once_a_round() {
        let us = |us| Instant::ZERO + Duration::from_us(us);
        let mut law = RateLaw::new(1e10);
        assert!(!law.ends_round(us(0), us(10)), "the first round begins");
        assert!(!law.ends_round(us(9), us(12)));
        law.cut(us(9), us(12), &LAW);
        assert!((law.rate() - 1e10).abs() < 1.0);
        law.cut(us(10), us(20), &LAW);
        law.cut(us(19), us(21), &LAW);
        assert!((law.rate() - 5e9).abs() < 1.0);
        for at in 3..100 {
            law.cut(us(at * 10), us(at * 10 + 9), &LAW);
        }
        assert!((law.rate() - LAW.least).abs() < 1e-3);
    }
}
