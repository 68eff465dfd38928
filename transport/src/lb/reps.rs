//! REPS: an entropy value whose segment was acknowledged unmarked is used once more, else a new one
//! is drawn.
//! Source: \[reps\] algorithms 1 and 2, sec. 3.2 (freezing); the buffer of 8 as \[uec\] has it.
//!
//! ```text
//!                   timeout, not exploring
//!   recycling ------------------------------> frozen: no drawing, old values are used again
//!       ^                                        |
//!       +--- `explore` drawn segments <----------+ `freeze` has passed
//! ```
//!
//! A trim is congestion, not failure: its value is merely not recycled. There is no list of dead
//! paths. New values come in the order of `Walk`, unless [`SprayOrder::Uniform`] asks for the
//! paper's order.

use super::{Balancer, LbParams, LoadBalancer, PathFeedback, SprayOrder, draw, entropy};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue};

/// Entropy values kept: bounds a burst of acknowledgements, and the choice while frozen.
//= reps#3.1
const BUFFER: u8 = 8;

params! {
    /// Settings of [`Reps`].
    pub struct RepsParams {
        /// REPS: how long exploring stops after a timeout. The reference simulator's 10 ms.
        freeze: Duration = Duration::from_ms(10), in Duration::ZERO..=Duration::from_s(3600);
        /// REPS: segments that explore when a freeze ends, in BDPs of full segments.
        explore: f32 = 1.0, in 0.0..=64.0;
        /// REPS: in which order new entropy values are tried. The paper draws them; permuted is an
        /// improvement of ours.
        explore_order: SprayOrder = SprayOrder::Permuted;
    }
}

/// Recycled entropy values of one flow.
#[derive(Clone, Debug)]
pub struct Reps {
    freeze: Duration,
    /// End of the freeze.
    frozen_until: Option<Instant>,
    /// Ring of values in the order they came back; the first `written` are meaningful.
    values: [EntropyValue; BUFFER as usize],
    /// Segments still to be drawn after a freeze.
    exploring: u16,
    explore: u16,
    paths: u16,
    /// The order of new values; each is drawn when `None`.
    walk: Option<Walk>,
    /// The place of the next value, 0..8; never above `written` while that is below 8.
    head: u8,
    /// How many of the values before `head` are not used yet, 0..=`written`.
    fresh: u8,
    /// How much of the ring was ever written, 0..=8.
    written: u8,
}

const _: () = assert!(size_of::<Reps>() <= 64);

impl Reps {
    /// A balancer without recycled values: the flow explores.
    #[must_use]
    pub fn new(params: &LbParams, path: &Path) -> Self {
        //= reps#alg1
        // NUM_PKTS_BDP.
        let bdp_pkts = Bytes(path.bdp().0 / path.mtu.0.max(1));
        let explore = bdp_pkts.scaled(f64::from(params.reps.explore)).0;
        Self {
            freeze: params.reps.freeze,
            frozen_until: None,
            values: [EntropyValue(0); BUFFER as usize],
            exploring: 0,
            explore: u16::try_from(explore).unwrap_or(u16::MAX),
            paths: params.common.paths,
            walk: (params.reps.explore_order == SprayOrder::Permuted).then(Walk::default),
            head: 0,
            fresh: 0,
            written: 0,
        }
    }

    /// True while only known values are used.
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.frozen_until.is_some()
    }

    fn thaw(&mut self, now: Instant) {
        //= reps#alg1
        if self.frozen_until.is_some_and(|end| now > end) {
            self.frozen_until = None;
            self.exploring = self.explore;
        }
    }

    /// A value to try.
    fn explore(&mut self, rng: &mut Rng) -> EntropyValue {
        match &mut self.walk {
            Some(walk) => entropy(walk.next(self.paths, rng)),
            None => draw(self.paths, rng),
        }
    }

    fn recycle(&mut self, ev: EntropyValue) {
        //= reps#alg1
        self.values[usize::from(self.head)] = ev;
        self.fresh = (self.fresh + 1).min(BUFFER);
        self.written = self.written.max(self.head + 1);
        self.head = (self.head + 1) % BUFFER;
    }

    /// A value from the ring: the oldest fresh one, or in a freeze without fresh ones the next old
    /// one.
    fn known(&mut self) -> EntropyValue {
        //= reps#alg2
        let slot = if self.fresh > 0 {
            let slot = (self.head + BUFFER - self.fresh) % BUFFER;
            self.fresh -= 1;
            slot
        } else {
            // A ring that was never full is cycled as far as it was written.
            let slot = self.head % self.written;
            self.head = (slot + 1) % BUFFER;
            slot
        };
        self.values[usize::from(slot)]
    }
}

/// Visits all paths in turn from a random one, in strides of a random length. The length has no
/// factor in common with the number of paths. So each path comes up once in a round, and flows take
/// different orders.
///
/// Drawing `n` times among `n` values leaves a third of them out and takes others two to five
/// times. This doubles the variance of a path's load in the first round trip, when there is nothing
/// to recycle. The state is two numbers, where a shuffled list would need all of them.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// The next path, below their number.
    at: u16,
    /// 0 before the first step.
    stride: u16,
}

impl Walk {
    fn next(&mut self, paths: u16, rng: &mut Rng) -> u16 {
        if self.stride == 0 {
            *self = Self::start(paths, rng);
        }
        let path = self.at;
        let next = (u32::from(path) + u32::from(self.stride)) % u32::from(paths);
        self.at = u16::try_from(next).unwrap_or(0);
        path
    }

    /// Two draws, and a step to the next number as long as the stride has a factor in common with
    /// `paths`: at most 21 of them follow each other below 65536.
    fn start(paths: u16, rng: &mut Rng) -> Self {
        let mut below = || u16::try_from(rng.below(u64::from(paths))).unwrap_or(0);
        let (at, mut stride) = (below(), below().max(1));
        while gcd(stride, paths) != 1 {
            stride = stride % paths + 1;
        }
        Self { at, stride }
    }
}

/// The greatest common divisor; `b` is above zero.
fn gcd(mut a: u16, mut b: u16) -> u16 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Registered for Reps {
    const ABOUT: &'static str = "recycles entropy values that came back unmarked";
    type Params = RepsParams;
}

impl Balancer for Reps {
    fn build(params: &LbParams, path: &Path, _block: u8, _rng: &mut Rng) -> Self {
        Self::new(params, path)
    }
}

impl LoadBalancer for Reps {
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue {
        // DEVIATION(reps#alg1): the paper leaves the freeze only on an acknowledgement, which never
        // comes when all the known values lead to dead paths.
        self.thaw(now);
        //= reps#alg2
        let stale = self.fresh == 0 && !self.is_frozen();
        if self.written == 0 || stale || self.exploring > 0 {
            self.exploring = self.exploring.saturating_sub(1);
            return self.explore(rng);
        }
        self.known()
    }

    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant) {
        match what {
            PathFeedback::Good => {
                self.recycle(ev);
                self.thaw(now);
            }
            PathFeedback::Ecn | PathFeedback::Nack | PathFeedback::Lost => {}
            PathFeedback::Timeout => {
                //= reps#alg1
                if !self.is_frozen() && self.exploring == 0 {
                    self.frozen_until = Some(now + self.freeze);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use alloc::vec::Vec;

    fn good(reps: &mut Reps, ports: core::ops::Range<u16>) {
        ports.for_each(|port| reps.on_feedback(EntropyValue(port), PathFeedback::Good, T0));
    }

    /// Four packets of BDP.
    const PATH: Path = Path {
        base_rtt: Duration::from_ns(3328),
        line_rate: Rate::from_gbps(40),
        mtu: Bytes(4160),
    };
    const T0: Instant = Instant::ZERO;

    fn taken(reps: &mut Reps, rng: &mut Rng, now: Instant, count: usize) -> Vec<u16> {
        (0..count).map(|_| reps.next_ev(now, rng).0).collect()
    }

    #[test]
    fn an_unmarked_value_is_recycled_once_and_in_order_while_a_marked_one_is_not() {
        let (mut reps, mut rng) = (Reps::new(&LbParams::default(), &PATH), Rng::new(1));
        good(&mut reps, 1..4);
        reps.on_feedback(EntropyValue(9), PathFeedback::Ecn, T0);
        reps.on_feedback(EntropyValue(9), PathFeedback::Nack, T0);
        assert_eq!(taken(&mut reps, &mut rng, T0, 3), [1, 2, 3]);
        // Values 1..=9 are ports that are never drawn.
        assert!(taken(&mut reps, &mut rng, T0, 4).iter().all(|ev| *ev >= 49_152));
    }

    #[test]
    fn a_burst_of_acknowledgements_keeps_the_latest_eight() {
        let (mut reps, mut rng) = (Reps::new(&LbParams::default(), &PATH), Rng::new(1));
        good(&mut reps, 1..14);
        assert_eq!(taken(&mut reps, &mut rng, T0, 8), [6, 7, 8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn a_timeout_freezes_to_known_values_and_the_end_of_the_freeze_explores() {
        let params = LbParams::default();
        let (mut reps, mut rng) = (Reps::new(&params, &PATH), Rng::new(1));
        good(&mut reps, 1..4);
        reps.on_feedback(EntropyValue(9), PathFeedback::Timeout, T0);
        assert!(reps.is_frozen());
        assert_eq!(taken(&mut reps, &mut rng, T0, 7), [1, 2, 3, 1, 2, 3, 1]);
        let after = T0 + params.reps.freeze + Duration::from_ps(1);
        good(&mut reps, 20..21);
        assert!(taken(&mut reps, &mut rng, after, 4).iter().all(|ev| *ev >= 49_152));
        assert!(!reps.is_frozen());
        assert_eq!(taken(&mut reps, &mut rng, after, 1), [20]);
    }

    #[test]
    fn a_freeze_ends_even_if_nothing_is_acknowledged_any_more() {
        let (mut reps, mut rng) = (Reps::new(&LbParams::default(), &PATH), Rng::new(1));
        good(&mut reps, 1..9);
        reps.on_feedback(EntropyValue(1), PathFeedback::Timeout, T0);
        let after = T0 + LbParams::default().reps.freeze + Duration::from_ps(1);
        assert!(reps.next_ev(after, &mut rng).0 >= 49_152);
    }

    #[test]
    fn a_timeout_while_exploring_does_not_freeze_again() {
        let (mut reps, mut rng) = (Reps::new(&LbParams::default(), &PATH), Rng::new(1));
        good(&mut reps, 1..9);
        reps.on_feedback(EntropyValue(1), PathFeedback::Timeout, T0);
        let after = T0 + LbParams::default().reps.freeze + Duration::from_ps(1);
        reps.next_ev(after, &mut rng);
        reps.on_feedback(EntropyValue(1), PathFeedback::Timeout, after);
        assert!(!reps.is_frozen());
    }

    #[test]
    fn exploring_takes_every_path_once_a_round_and_each_flow_in_its_own_order() {
        for paths in [1, 2, 3, 60, 256, 65_535] {
            let mut params = LbParams::default();
            params.common.paths = paths;
            let mut rng = Rng::new(u64::from(paths));
            let mut rounds = Vec::new();
            for _ in 0..3 {
                let mut reps = Reps::new(&params, &PATH);
                let first = taken(&mut reps, &mut rng, T0, usize::from(paths));
                let mut sorted = first.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), usize::from(paths), "a path came up twice");
                assert_eq!(taken(&mut reps, &mut rng, T0, usize::from(paths)), first);
                rounds.push(first);
            }
            assert!(paths < 60 || (rounds[0] != rounds[1] && rounds[1] != rounds[2]), "{paths}");
        }
    }

    #[test]
    fn the_papers_order_draws_with_repetitions() {
        let mut params = LbParams::default();
        params.reps.explore_order = SprayOrder::Uniform;
        let (mut reps, mut rng) = (Reps::new(&params, &PATH), Rng::new(1));
        let mut drawn = taken(&mut reps, &mut rng, T0, 256);
        drawn.sort_unstable();
        drawn.dedup();
        // 1 - 1/e of 256 values come up.
        assert!((140..185).contains(&drawn.len()), "{}", drawn.len());
    }
}
