//! A matcher that `tests/adding.rs` adds: greedy's pass in two epochs of four. Tests of all
//! matchers judge the first two decisions.

use transport::params::NoParams;
use transport::registry::Registered;

use super::greedy::Greedy;
use super::{Built, Match, MatcherSetup, Pair};
use crate::pod::chance::Chance;
use crate::pod::demands::Demands;
use crate::pod::ports::{Grant, IdlePorts};
use crate::pod::shape::Shape;

/// The matcher.
#[derive(Clone, Debug)]
pub struct Slow {
    greedy: Greedy,
    decisions: u8,
}

impl Registered for Slow {
    const ABOUT: &'static str = "added by a test";
    type Params = NoParams;
}

impl Built for Slow {
    fn build(shape: &Shape, setup: MatcherSetup) -> Self {
        Self { greedy: Greedy::new(shape, setup.kernel), decisions: 0 }
    }
}

impl Match for Slow {
    fn decide(
        &mut self,
        first: &[Pair],
        demands: &Demands,
        ports: &mut IdlePorts,
        chance: &mut Chance,
        grants: &mut Vec<Grant>,
    ) {
        let rests = self.decisions % 4 >= 2;
        self.decisions = self.decisions.wrapping_add(1);
        if !rests {
            self.greedy.decide(first, demands, ports, chance, grants);
        }
    }
}
