//! PLB: one path a flow, changed when it stays congested. Source: \[plb\] sec. 3, with the names
//! and the defaults of its implementation in Linux.
//!
//! ```text
//!   a round in which a share K of the segments met congestion: congested, else the count is 0
//!   idle, and M congested rounds in a row:   a new path
//!   N congested rounds in a row:             a new path
//!   timeout:    a new path, and none for congestion during one to two `plb_suspend`
//! ```
//!
//! A segment met congestion when it was marked, trimmed or overtaken by a loss. Feedback about an
//! earlier path is ignored.
//!
//! DEVIATION(plb#sec3): a round is a base RTT with feedback, because a balancer sees neither
//! windows nor packets in flight; under congestion that is shorter than a round trip, so paths
//! change somewhat sooner. A flow is idle when nothing was sent or reported for a base RTT.

use super::{Balancer, LbParams, LoadBalancer, PathFeedback, draw};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue};

params! {
    /// Settings of [`Plb`].
    pub struct PlbParams {
        /// PLB: K, share of a round's segments that makes it congested.
        plb_fraction: f32 = 0.5, in 0.0..=1.0;
        /// PLB: N, congested rounds in a row after which the path changes; 0 is never.
        plb_rounds: u16 = 12, in 0..=1000;
        /// PLB: M, congested rounds in a row after which an idle flow changes path; 0 is never.
        plb_idle_rounds: u16 = 3, in 0..=1000;
        /// PLB: after a timeout congestion changes no path for this time up to twice this time.
        plb_suspend: Duration = Duration::from_s(60), in Duration::ZERO..=Duration::from_s(3600);
    }
}

/// One path at a time.
#[derive(Clone, Debug)]
pub struct Plb {
    base_rtt: Duration,
    /// End of the round that is being counted.
    round_end: Instant,
    /// When the flow last sent a segment or received feedback.
    active_at: Instant,
    /// Congestion does not change the path before this instant.
    paused_until: Instant,
    suspend: Duration,
    /// Segments with feedback in this round; saturates.
    observed: u32,
    /// Segments that met congestion in this round, 0..=`observed`.
    congested: u32,
    /// Congested rounds in a row; saturates.
    rounds: u16,
    rounds_max: u16,
    idle_rounds: u16,
    paths: u16,
    fraction: f32,
    ev: EntropyValue,
    /// A segment on this path was lost in silence.
    failed: bool,
}

const _: () = assert!(size_of::<Plb>() <= 72);

impl Plb {
    /// Draws the first path.
    #[must_use]
    pub fn new(params: &LbParams, path: &Path, rng: &mut Rng) -> Self {
        Self {
            base_rtt: path.base_rtt,
            round_end: Instant::ZERO,
            active_at: Instant::ZERO,
            paused_until: Instant::ZERO,
            suspend: params.plb.plb_suspend,
            observed: 0,
            congested: 0,
            rounds: 0,
            rounds_max: params.plb.plb_rounds,
            idle_rounds: params.plb.plb_idle_rounds,
            paths: params.common.paths,
            fraction: params.plb.plb_fraction,
            ev: draw(params.common.paths, rng),
            failed: false,
        }
    }

    /// Counts the round that has ended, if one has.
    fn close_round(&mut self, now: Instant) {
        if now < self.round_end {
            return;
        }
        if self.observed > 0 {
            let share = ratio(self.congested, self.observed);
            //= plb#sec3
            self.rounds =
                if share >= f64::from(self.fraction) { self.rounds.saturating_add(1) } else { 0 };
        }
        (self.observed, self.congested) = (0, 0);
        self.round_end = now + self.base_rtt;
    }

    /// Whether congestion asks for a new path now.
    fn is_due(&self, now: Instant) -> bool {
        //= plb#sec3
        let after = |rounds: u16| rounds > 0 && self.rounds >= rounds;
        let idle = now.since(self.active_at) >= self.base_rtt;
        now >= self.paused_until && (after(self.rounds_max) || idle && after(self.idle_rounds))
    }

    fn repath(&mut self, rng: &mut Rng) {
        self.ev = draw(self.paths, rng);
        self.rounds = 0;
        (self.observed, self.congested) = (0, 0);
    }
}

impl Registered for Plb {
    const ABOUT: &'static str = "one path for a flow, another when it stays congested";
    type Params = PlbParams;
}

impl Balancer for Plb {
    fn build(params: &LbParams, path: &Path, _block: u8, rng: &mut Rng) -> Self {
        Self::new(params, path, rng)
    }

    fn keeps_path() -> bool {
        true
    }
}

impl LoadBalancer for Plb {
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue {
        if self.failed {
            //= plb#sec3
            // A random pause, so that flows do not come back to a dead link together.
            let more = rng.below(self.suspend.as_ps().max(1));
            self.paused_until = now + self.suspend + Duration::from_ps(more);
            self.failed = false;
            self.repath(rng);
        } else if self.is_due(now) {
            self.repath(rng);
        }
        self.active_at = now;
        self.ev
    }

    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant) {
        self.active_at = now;
        if ev != self.ev {
            return;
        }
        self.close_round(now);
        self.observed = self.observed.saturating_add(1);
        match what {
            PathFeedback::Good => {}
            PathFeedback::Ecn | PathFeedback::Nack | PathFeedback::Lost => {
                self.congested = self.congested.saturating_add(1);
            }
            PathFeedback::Timeout => self.failed = true,
        }
    }
}

fn ratio(part: u32, whole: u32) -> f64 {
    Bytes(u64::from(part)).as_f64() / Bytes(u64::from(whole)).as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;

    const RTT: Duration = Duration::from_us(10);
    const PATH: Path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };

    /// A balancer, its chance, and the time.
    struct Bench {
        plb: Plb,
        rng: Rng,
        now: Instant,
    }

    impl Bench {
        fn new(settings: &[(&str, &str)]) -> Self {
            let mut params = LbParams::default();
            params.common.paths = 65_535;
            settings.iter().for_each(|(key, value)| params.set(key, value).unwrap());
            let mut rng = Rng::new(2);
            let plb = Plb::new(&params, &PATH, &mut rng);
            Self { plb, rng, now: Instant::ZERO + RTT }
        }

        fn ev(&mut self) -> EntropyValue {
            self.plb.next_ev(self.now, &mut self.rng)
        }

        /// A round of ten segments, `congested` of which meet congestion; returns the path at its
        /// end.
        fn round(&mut self, congested: u32) -> EntropyValue {
            for i in 0..10 {
                let ev = self.ev();
                let what = if i < congested { PathFeedback::Ecn } else { PathFeedback::Good };
                self.plb.on_feedback(ev, what, self.now);
                self.now += RTT / 10;
            }
            self.ev()
        }

        /// How many rounds in a row the flow keeps its path; up to 100.
        fn patience(&mut self, congested: u32) -> usize {
            let before = self.ev();
            (0..100).take_while(|_| self.round(congested) == before).count()
        }
    }

    #[test]
    fn a_congested_path_is_left_after_the_set_number_of_rounds_and_a_good_one_never() {
        let mut bench = Bench::new(&[]);
        assert_eq!(bench.patience(4), 100);
        // The first of the congested rounds ends when the next begins.
        assert_eq!(bench.patience(5), 12);
        let mut bench = Bench::new(&[("plb_rounds", "0")]);
        assert_eq!(bench.patience(10), 100);
    }

    #[test]
    fn one_good_round_starts_the_count_again() {
        let mut bench = Bench::new(&[]);
        let before = bench.ev();
        for _ in 0..10 {
            (0..11).for_each(|_| assert_eq!(bench.round(10), before));
            assert_eq!(bench.round(0), before);
        }
    }

    #[test]
    fn an_idle_flow_leaves_a_congested_path_sooner() {
        for (rounds, moves) in [(3, false), (4, true)] {
            let mut bench = Bench::new(&[]);
            let before = bench.ev();
            (0..rounds).for_each(|_| assert_eq!(bench.round(10), before));
            bench.now += RTT;
            assert_eq!(bench.ev() != before, moves, "{rounds} rounds");
        }
    }

    #[test]
    fn a_timeout_moves_at_once_and_then_congestion_does_not_for_a_while() {
        let mut bench = Bench::new(&[("plb_suspend", "1ms")]);
        let before = bench.ev();
        for _ in 0..5 {
            bench.plb.on_feedback(before, PathFeedback::Timeout, bench.now);
        }
        let after = bench.ev();
        assert_ne!(after, before);
        // More losses by the same timer, on the former path, and congestion on the new one.
        bench.plb.on_feedback(before, PathFeedback::Timeout, bench.now);
        assert_eq!(bench.patience(10), 100);
        let pause = bench.plb.paused_until.since(Instant::ZERO + RTT);
        assert!((Duration::from_ms(1)..=Duration::from_ms(2)).contains(&pause), "{pause}");
        bench.now = bench.plb.paused_until;
        assert_ne!(bench.ev(), after);
        // A timeout moves during a pause, too.
        let ev = bench.ev();
        bench.plb.on_feedback(ev, PathFeedback::Timeout, bench.now);
        assert_ne!(bench.ev(), ev);
    }
}
