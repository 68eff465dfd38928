//! Demands to measure and test matchers with: every pair of hosts, or some receivers a host.

use crate::pod::chance::{Chance, shuffle};
use crate::pod::demands::{Demands, To};
use crate::pod::ladder::Ladder;
use crate::pod::shape::Shape;

/// The pairs of hosts that have demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DemandPattern {
    /// Every host for every other one.
    All,
    /// Every host for this many others, drawn anew for each.
    Some(usize),
}

impl DemandPattern {
    /// Demands of a pod whose hosts ask for this load. Sizes are of classes drawn uniformly from
    /// all that `ladder` has.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "hosts and classes are below 2^16")]
    pub fn demands(self, shape: &Shape, ladder: Ladder, chance: &mut Chance) -> Demands {
        let mut demands = Demands::new(*shape, ladder);
        let mut others: Vec<u16> = (0..shape.hosts() as u16).collect();
        for host in 0..shape.hosts() {
            shuffle(&mut others, chance);
            let wanted = match self {
                Self::All => others.len(),
                Self::Some(count) => count,
            };
            let to = others.iter().filter(|other| usize::from(**other) != host).take(wanted);
            for other in to {
                let class = chance.below(ladder.classes() as u32) as u8;
                demands.ask(host, To::Host(*other), ladder.least(class), 0);
            }
        }
        demands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ask_for_as_many_others_as_they_should() {
        let shape = Shape::square(64).unwrap();
        for (load, each) in
            [(DemandPattern::All, 63), (DemandPattern::Some(4), 4), (DemandPattern::Some(1000), 63)]
        {
            let demands = load.demands(&shape, Ladder::Sizes, &mut Chance::new(1));
            for host in 0..64 {
                let row: u32 = demands.row(host).0.iter().map(|word| word.count_ones()).sum();
                assert_eq!(row, each);
            }
        }
    }
}
