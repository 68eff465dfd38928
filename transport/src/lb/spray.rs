//! Oblivious packet spraying: every segment takes another path, without any regard to feedback.
//! Source: \[rps\], and \[ndp\] sec. 3 for the order; \[smartt\] sec. III-A compares it.
//!
//! Paths drawn one by one are loaded unevenly by chance: some come up often and some never. So
//! spraying goes over all paths in rounds, each in a random order, and sends equally many segments
//! over every path.

use super::rounds::Rounds;
use super::{Balancer, LbParams, LoadBalancer, PathFeedback, draw, entropy};
use crate::params::{params, words};
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::Instant;
use crate::units::EntropyValue;

words! {
    /// The order in which spraying takes its paths.
    pub enum SprayOrder: "permuted or uniform" {
        /// Rounds over all paths, each round in a random order.
        Permuted = "permuted",
        /// Each path drawn independently.
        Uniform = "uniform",
    }
}

params! {
    /// Settings of [`Spray`].
    pub struct SprayParams {
        /// Spraying: in which order paths are taken.
        spray_order: SprayOrder = SprayOrder::Permuted;
    }
}

/// A balancer that gives every segment another path.
#[derive(Clone, Debug)]
pub struct Spray {
    paths: u16,
    /// The order in rounds; each path is drawn when `None`.
    rounds: Option<Rounds>,
}

impl Spray {
    /// Sprays over `params.common.paths`.
    #[must_use]
    pub fn new(params: &LbParams, rng: &mut Rng) -> Self {
        let paths = params.common.paths;
        let permuted = params.spray.spray_order == SprayOrder::Permuted;
        Self { paths, rounds: permuted.then(|| Rounds::new(paths, rng)) }
    }
}

impl Registered for Spray {
    const ABOUT: &'static str = "another path for every segment, whatever became of the others";
    type Params = SprayParams;
}

impl Balancer for Spray {
    fn build(params: &LbParams, _path: &Path, _block: u8, rng: &mut Rng) -> Self {
        Self::new(params, rng)
    }
}

impl LoadBalancer for Spray {
    fn next_ev(&mut self, _now: Instant, rng: &mut Rng) -> EntropyValue {
        match &mut self.rounds {
            Some(rounds) => entropy(rounds.next(rng)),
            None => draw(self.paths, rng),
        }
    }
    fn on_feedback(&mut self, _ev: EntropyValue, _what: PathFeedback, _now: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(order: SprayOrder, paths: u16, segments: u32) -> alloc::vec::Vec<u32> {
        let mut rng = Rng::new(3);
        let mut params = LbParams::default();
        (params.common.paths, params.spray.spray_order) = (paths, order);
        let mut spray = Spray::new(&params, &mut rng);
        let mut counts = alloc::vec![0_u32; usize::from(paths)];
        for _ in 0..segments {
            let ev = spray.next_ev(Instant::ZERO, &mut rng);
            counts[usize::from(ev.0.wrapping_sub(49_152))] += 1;
        }
        counts
    }

    #[test]
    fn drawn_one_by_one_every_path_is_taken_about_equally() {
        let counts = counts(SprayOrder::Uniform, 16, 16_000);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn in_permuted_order_every_path_is_taken_exactly_once_a_lap() {
        for paths in [1, 2, 3, 16, 100, 256, 16_384] {
            let laps = 5;
            let counts = counts(SprayOrder::Permuted, paths, laps * u32::from(paths));
            assert!(counts.iter().all(|count| *count == laps), "{paths}: {counts:?}");
        }
    }

    #[test]
    fn each_lap_and_each_flow_has_an_order_of_its_own() {
        let rng = Rng::new(3);
        let mut params = LbParams::default();
        params.spray.spray_order = SprayOrder::Permuted;
        let lap = |spray: &mut Spray| {
            let mut rng = rng.fork("lap", 0);
            (0..256)
                .map(|_| spray.next_ev(Instant::ZERO, &mut rng).0)
                .collect::<alloc::vec::Vec<_>>()
        };
        let mut chance = Rng::new(4);
        let (mut one, mut two) =
            (Spray::new(&params, &mut chance), Spray::new(&params, &mut chance));
        let (first, second, other) = (lap(&mut one), lap(&mut one), lap(&mut two));
        assert!(first != second && first != other);
    }
}
