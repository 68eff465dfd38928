//! When each port of a switch has its next turn, and which turn is the first of all.
//!
//! A tournament: a complete binary tree whose leaves are the ports. Each inner node has the earlier
//! of the two turns below it, and the first of all comes out above them. A turn that changes is
//! compared only on its way up, which ends where the earlier turn is what it was before. So nothing
//! is ever out of date, and a switch of 8 ports needs three comparisons at most. Where two turns
//! are at one instant, that of the port with the lower number comes first.

use std::ops::Range;

use transport::Instant;

/// The turn of a port; at [`Instant::FAR_FUTURE`] when it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortTurn {
    at: Instant,
    port: u32,
}

/// The turns of the ports of one switch.
#[derive(Clone, Debug)]
pub(super) struct PortTurns {
    /// The first turn of all.
    first: PortTurn,
    /// The tree: node `n` is in pair `n / 2`, below it are the two of pair `n`. The leaves are the
    /// last half of all. There are as many pairs as leaves, a power of two and two at least; pair 0
    /// is not used.
    pairs: Box<[[PortTurn; 2]]>,
    /// The port of the first leaf.
    first_port: u32,
}

impl PortTurns {
    /// No turn for any of `ports`. Memory: 32 bytes a port, up to the next power of two.
    pub(super) fn new(ports: Range<u32>) -> Self {
        let leaves = ports.len().next_power_of_two().max(2);
        let none = PortTurn { at: Instant::FAR_FUTURE, port: ports.start };
        let mut pairs = vec![[none; 2]; leaves].into_boxed_slice();
        for (leaf, port) in (leaves..).zip(ports.clone()) {
            pairs[leaf / 2][leaf % 2].port = port;
        }
        Self { first: none, pairs, first_port: ports.start }
    }

    /// The first turn of all, and its port; `None` when no port has one. O(1).
    #[inline]
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        let PortTurn { at, port } = self.first;
        (at < Instant::FAR_FUTURE).then_some((at, port))
    }

    /// The next turn of `port` is at `at`. O(log ports), and O(1) when it was so before.
    #[inline]
    pub(super) fn set(&mut self, port: u32, at: Instant) {
        let mut node = self.pairs.len() + (port - self.first_port) as usize;
        let mut turn = PortTurn { at, port };
        while node > 1 {
            let pair = &mut self.pairs[node / 2];
            if pair[node % 2] == turn {
                return;
            }
            pair[node % 2] = turn;
            turn = pair[usize::from(pair[1].at < pair[0].at)];
            node /= 2;
        }
        self.first = turn;
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
