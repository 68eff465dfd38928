//! When each port of a switch has its next turn, and which turn is the first of all.
//!
//! A tournament: a complete binary tree whose leaves are the ports, in their order. Each inner node
//! has the earlier of the two instants below it, so the root has the first of all. A turn that
//! changes is compared only on its way up, which ends where the earlier instant is what it was
//! before. So nothing is ever out of date, and a switch of 8 ports needs three comparisons at most.
//! Nodes have instants alone: which port is first is looked for from the root down, when it is
//! asked. Where two turns are at one instant, that of the port with the lower number comes first.

use std::ops::Range;

use transport::Instant;

/// The turns of the ports of one switch.
#[derive(Clone, Debug)]
pub(super) struct PortTurns {
    /// The instant of the first turn of all, which is the root: node 1.
    first_at: Instant,
    /// The tree: below node `n`, which is in pair `n / 2`, are the two of pair `n`. There are as
    /// many pairs as leaves, and two at least; pair 0 is not used.
    pairs: Box<[[Instant; 2]]>,
    /// The leaf of the first port. The deepest leaves come first from left to right, so the ports
    /// go on behind the last node with the leaves of the level above.
    first_leaf: usize,
    first_port: u32,
}

impl PortTurns {
    /// No turn for any of `ports`. Memory: 16 bytes a port.
    pub(super) fn new(ports: Range<u32>) -> Self {
        let leaves = ports.len().max(2);
        Self {
            first_at: Instant::FAR_FUTURE,
            pairs: vec![[Instant::FAR_FUTURE; 2]; leaves].into_boxed_slice(),
            first_leaf: leaves.next_power_of_two(),
            first_port: ports.start,
        }
    }

    /// The instant of the first turn of all; [`Instant::FAR_FUTURE`] when no port has one. O(1).
    #[inline]
    pub(super) const fn first_at(&self) -> Instant {
        self.first_at
    }

    /// The first turn of all, and its port; `None` when no port has one. O(log ports).
    #[inline]
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        let at = self.first_at;
        if at == Instant::FAR_FUTURE {
            return None;
        }
        let mut node = 1;
        while let Some([left, _]) = self.pairs.get(node) {
            node = 2 * node + usize::from(*left != at);
        }
        let leaf = if node < self.first_leaf { node + self.pairs.len() } else { node };
        let place = u32::try_from(leaf - self.first_leaf).unwrap_or(0);
        Some((at, self.first_port + place))
    }

    /// The next turn of `port` is at `at`. O(log ports), and O(1) when it was so before.
    #[inline]
    pub(super) fn set(&mut self, port: u32, at: Instant) {
        let leaf = self.first_leaf + (port - self.first_port) as usize;
        let mut node = if leaf < 2 * self.pairs.len() { leaf } else { leaf - self.pairs.len() };
        let mut at = at;
        while node > 1 {
            let (pair, side) = (&mut self.pairs[node / 2], node % 2);
            if pair[side] == at {
                return;
            }
            pair[side] = at;
            at = at.min(pair[1 - side]);
            node /= 2;
        }
        self.first_at = at;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_turn_is_the_least_by_instant_and_port(
            ports in 1u32..40, changes in prop::collection::vec((0u32..40, 0u64..9), 1..200),
        ) {
            let mut turns = PortTurns::new(100..100 + ports);
            let mut oracle = vec![Instant::FAR_FUTURE; ports as usize];
            prop_assert_eq!(turns.first(), None);
            for (port, at) in changes {
                let port = port % ports;
                let at = if at == 0 { Instant::FAR_FUTURE } else { Instant::from_ps(at) };
                turns.set(100 + port, at);
                oracle[port as usize] = at;
                let least = oracle.iter().copied().zip(100..).min();
                prop_assert_eq!(turns.first(), least.filter(|(at, _)| *at < Instant::FAR_FUTURE));
            }
        }
    }
}
