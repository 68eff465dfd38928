//! How the links of a network are connected, for switches that run programs. It has the port that
//! leads back along a link, the target of flights that stands for a port, and the ports that lead
//! to a switch that is an end of packets.

use std::collections::VecDeque;

use super::elements::{Node, PortSpec};

/// The links as programs need them; empty in a network of plain switches.
#[derive(Clone, Debug, Default)]
pub(super) struct Wiring {
    /// For each port: the port at the far end that leads back.
    pub(super) back: Vec<u32>,
    /// For each port: the target of flights that stands for it, the port itself or its switch as a
    /// whole.
    pub(super) target: Vec<u32>,
}

/// Stands for a missing target.
const NONE: u32 = u32::MAX;

impl Wiring {
    /// The wiring of `ports`. Each switch of `programmed` is a target, from the number behind the
    /// last port on.
    pub(super) fn new(ports: &[PortSpec], programmed: &[u32]) -> Self {
        let whole = |switch: u32| programmed.binary_search(&switch).ok();
        let target = |(number, port): (u32, &PortSpec)| match port.owner {
            Node::Switch(switch) => whole(switch).map_or(number, |at| index(ports.len() + at)),
            Node::Host(_) => number,
        };
        Self { back: ports_back(ports), target: (0..).zip(ports).map(target).collect() }
    }
}

/// A place as the number of a port or target.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(NONE)
}

/// For each port: the port that leads back from the end of its link. The i-th of parallel links
/// leads back by the i-th.
pub(super) fn ports_back(ports: &[PortSpec]) -> Vec<u32> {
    let key = |node: Node| match node {
        Node::Host(host) => (0, host),
        Node::Switch(switch) => (1, switch),
    };
    let sorted = |by: fn(&PortSpec) -> (Node, Node)| {
        let mut order: Vec<_> = (0u32..).zip(ports).collect();
        order.sort_by_key(|(number, port)| {
            let (first, second) = by(port);
            (key(first), key(second), *number)
        });
        order
    };
    let there = sorted(|port| (port.owner, port.to));
    let here = sorted(|port| (port.to, port.owner));
    let mut back = vec![NONE; ports.len()];
    for ((number, port), (other, reverse)) in there.into_iter().zip(here) {
        assert!((port.owner, port.to) == (reverse.to, reverse.owner), "links go both ways");
        back[number as usize] = other;
    }
    back
}

/// The ways to one switch: by switch, the ports on shortest ways, ascending; none from itself.
pub(super) type Ways = Vec<Box<[u32]>>;

/// The ways to `end` from each of `count` switches. O(links).
pub(super) fn ways_to(ports: &[PortSpec], count: usize, end: u32) -> Ways {
    let mut into: Vec<Vec<(u32, u32)>> = vec![Vec::new(); count];
    for (number, port) in (0..).zip(ports) {
        if let (Node::Switch(from), Node::Switch(to)) = (port.owner, port.to) {
            into[to as usize].push((from, number));
        }
    }
    let mut distance = vec![u32::MAX; count];
    let mut ways = vec![Vec::new(); count];
    let mut queue = VecDeque::from([end]);
    distance[end as usize] = 0;
    while let Some(switch) = queue.pop_front() {
        let near = distance[switch as usize] + 1;
        for (from, port) in &into[switch as usize] {
            let known = &mut distance[*from as usize];
            if *known == u32::MAX {
                *known = near;
                queue.push_back(*from);
            }
            if *known == near {
                ways[*from as usize].push(*port);
            }
        }
    }
    let sorted = |mut ports: Vec<u32>| {
        ports.sort_unstable();
        ports.into()
    };
    ways.into_iter().map(sorted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blueprint, QdiscKind, QdiscParams, leaf_spine};
    use transport::Bytes;

    fn blueprint() -> Blueprint {
        let params = QdiscParams::for_buffer(Bytes(9000), Bytes(900), QdiscParams::MARK);
        leaf_spine::blueprint(QdiscKind::Ecn, params)
    }

    #[test]
    fn every_link_leads_back_to_where_it_comes_from() {
        let blueprint = blueprint();
        let back = ports_back(&blueprint.ports);
        for (number, port) in (0..).zip(&blueprint.ports) {
            let there = back[number as usize];
            let reverse = &blueprint.ports[there as usize];
            assert_eq!((reverse.owner, reverse.to), (port.to, port.owner));
            assert_eq!(back[there as usize], number, "and from there to here");
        }
    }

    #[test]
    fn every_way_to_a_switch_ends_there_and_no_other_is_shorter() {
        let blueprint = blueprint();
        let switches = u32::try_from(blueprint.switches.len()).unwrap();
        for end in 0..switches {
            let ways = ways_to(&blueprint.ports, blueprint.switches.len(), end);
            for from in 0..switches {
                // Leaves and spines hang together in two layers.
                let is_leaf = |switch| switch < 4;
                let shortest = if is_leaf(from) == is_leaf(end) { 2 } else { 1 };
                let first = &ways[from as usize];
                assert_eq!(first.is_empty(), from == end);
                for port in first {
                    let Node::Switch(next) = blueprint.ports[*port as usize].to else {
                        panic!("a way through a host");
                    };
                    assert_eq!(next == end, shortest == 1);
                    assert!(next == end || !ways[next as usize].is_empty());
                }
                if from != end && shortest == 2 {
                    assert_eq!(first.len(), if is_leaf(from) { 2 } else { 4 }, "all equal ways");
                }
            }
        }
    }
}
