//! A network in parts, each run by a thread of its own.
//!
//! Within a window no port affects another, so ports may be shared out at will: a part is a network
//! of which only some ports are ever used. What a port puts on a link to a port of another part
//! waits at the *border* until the window is over. A switch is never divided, so that a discipline
//! may treat all ports of one as one.
//!
//! Hosts are divided into contiguous ranges along the boundaries of pods (or of smaller switches,
//! where there are too few pods) so that the parts have about the same traffic. Switches go with
//! the hosts below; those that have hosts of several parts below are dealt out evenly.

use std::ops::Range;
use std::sync::Arc;

use super::blueprint::{Blueprint, Node};
use super::calendar::Flight;
use super::network::Network;
use super::pfc;

/// Who runs what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The hosts of each part.
    pub(crate) hosts: Vec<Range<u32>>,
    /// By port: its part.
    ports: Vec<u32>,
    /// By target of flights, a port or a whole switch: its part.
    homes: Arc<[u32]>,
}

/// What leaves a part.
#[derive(Clone, Debug)]
pub(super) struct Border {
    part: u32,
    homes: Arc<[u32]>,
    /// By part: what goes there, in the order in which it left.
    crossed: Vec<Vec<Flight>>,
}

impl Parts {
    /// At most `count` parts of a network whose hosts have traffic of `weights`, at least one.
    pub(crate) fn new(blueprint: &Blueprint, weights: &[u64], count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX).clamp(1, blueprint.hosts.max(1));
        let below = blueprint.switches.iter().map(|switch| switch.hosts);
        let fits = |unit: &u32| blueprint.hosts / unit.max(&1) >= count;
        let unit = below.filter(fits).max().unwrap_or(1).max(1);
        let hosts = ranges(blueprint.hosts, weights, unit, count);
        let part_of = |host: u32| hosts.partition_point(|range| range.end <= host);
        let mut next = 0;
        let switches = blueprint.switches.iter().map(|switch| {
            let last = switch.first_host + switch.hosts.saturating_sub(1);
            let (first, last) = (part_of(switch.first_host), part_of(last));
            if first == last {
                return first;
            }
            next = (next + 1) % hosts.len();
            next
        });
        let switches: Vec<usize> = switches.collect();
        let home = |owner: Node| {
            let part = match owner {
                Node::Host(host) => part_of(host),
                Node::Switch(switch) => switches[switch as usize],
            };
            u32::try_from(part).unwrap_or(u32::MAX)
        };
        let ports: Vec<u32> = blueprint.ports.iter().map(|port| home(port.owner)).collect();
        let homes = if pfc::is_lossless(blueprint) {
            let switches = (0..).zip(&blueprint.switches).map(|(switch, _)| Node::Switch(switch));
            (0..blueprint.hosts).map(Node::Host).chain(switches).map(home).collect()
        } else {
            ports.clone().into()
        };
        Self { hosts, ports, homes }
    }

    /// How many parts there are.
    pub(crate) fn count(&self) -> usize {
        self.hosts.len()
    }
}

/// Cuts hosts into `count` ranges of whole units, none empty, each with about the same weight.
fn ranges(hosts: u32, weights: &[u64], unit: u32, count: u32) -> Vec<Range<u32>> {
    let weight = |range: Range<u32>| -> u128 {
        let weights = range.map(|host| weights.get(host as usize).copied().unwrap_or(0));
        weights.map(|weight| u128::from(weight) + 1).sum()
    };
    let all = weight(0..hosts);
    let mut ranges = Vec::new();
    let (mut from, mut passed) = (0, 0);
    for left in (1..count).rev() {
        // Enough units for the ranges that follow.
        let last = (hosts / unit - left) * unit;
        let wanted = all * u128::from(count - left) / u128::from(count);
        let mut to = from + unit;
        passed += weight(from..to);
        while to < last {
            let next = weight(to..to + unit);
            if passed + next / 2 > wanted {
                break;
            }
            (to, passed) = (to + unit, passed + next);
        }
        ranges.push(from..to);
        from = to;
    }
    ranges.push(from..hosts);
    ranges
}

impl Border {
    /// Keeps `flight` when it leaves the part.
    #[inline]
    pub(super) fn crosses(&mut self, flight: &Flight) -> bool {
        let home = self.homes[flight.target as usize];
        if home == self.part {
            return false;
        }
        self.crossed[home as usize].push(*flight);
        true
    }
}

impl Network {
    /// A network nothing has happened in, once for each part.
    pub(crate) fn split(self, parts: &Parts) -> Vec<Self> {
        debug_assert_eq!(self.next_event_at(), None, "nothing has happened yet");
        let mut networks = Vec::with_capacity(parts.count());
        networks.resize_with(parts.count() - 1, || self.clone());
        networks.push(self);
        if parts.count() > 1 {
            for (part, network) in (0..).zip(&mut networks) {
                let crossed = vec![Vec::new(); parts.count()];
                let border = Border { part, homes: parts.homes.clone(), crossed };
                network.links.border = Some(Box::new(border));
            }
        }
        networks
    }

    /// What has left for the part called `to`, in the order in which it left.
    pub(crate) fn crossed(&mut self, to: usize) -> impl Iterator<Item = Flight> + '_ {
        let crossed = self.links.border.as_mut().and_then(|border| border.crossed.get_mut(to));
        crossed.into_iter().flat_map(|flights| flights.drain(..))
    }

    /// Takes over what comes from another part.
    #[inline]
    pub(crate) fn admit(&mut self, flight: Flight) {
        self.links.counts.on_wire += u64::from(flight.is_packet());
        self.links.calendar.push(flight);
    }

    /// The whole with all counts and queues, for its books: what is on links stays behind.
    pub(crate) fn join(mut networks: Vec<Self>, parts: &Parts) -> Self {
        let mut whole = networks.remove(0);
        whole.links.border = None;
        for (part, mut network) in (1..).zip(networks) {
            whole.links.counts.add(&network.links.counts);
            whole.links.queue_stats.add(&network.links.queue_stats);
            let ports = whole.ports.iter_mut().zip(&mut network.ports).zip(&parts.ports);
            for ((port, own), home) in ports {
                if *home == part {
                    std::mem::swap(port, own);
                }
                // A switch that has no way for a packet charges the port it came by.
                port.stats.merge(&own.stats);
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fabric::PortSpec;
    use crate::topology::{self, FabricParams, FatTree};

    fn blueprint(name: &str) -> Blueprint {
        let tree = FatTree::new(topology::by_name(name).unwrap()).unwrap();
        tree.blueprint(&FabricParams::default())
    }

    proptest! {
        #[test]
        fn every_host_is_in_one_part_and_every_switch_in_a_whole_one(
            name in prop_oneof![
                Just("ft128-8os"), Just("ft1024-1os"), Just("leaf-spine:4,8,8,800"), Just("two-dc"),
            ],
            count in 1usize..=64,
            weights in prop::collection::vec(0u64..1000, 0..1024),
        ) {
            let blueprint = blueprint(name);
            let parts = Parts::new(&blueprint, &weights, count);
            let expected = count.min(blueprint.hosts as usize);
            prop_assert_eq!(parts.count(), expected);
            let mut next = 0;
            for range in &parts.hosts {
                prop_assert!(range.start == next && range.end > next, "{:?}", parts.hosts);
                next = range.end;
            }
            prop_assert_eq!(next, blueprint.hosts);
            let mut homes = vec![None; blueprint.switches.len()];
            for (port, home) in blueprint.ports.iter().zip(&parts.ports) {
                match port.owner {
                    Node::Host(host) => {
                        prop_assert!(parts.hosts[*home as usize].contains(&host));
                    }
                    Node::Switch(switch) => {
                        let known = homes[switch as usize].get_or_insert(home);
                        prop_assert_eq!(*known, home);
                    }
                }
            }
        }
    }

    #[test]
    fn only_links_between_two_sites_leave_their_parts() {
        let blueprint = blueprint("two-dc");
        let parts = Parts::new(&blueprint, &[1; 256], 2);
        assert_eq!(parts.hosts, [0..128, 128..256]);
        let owned = blueprint.ports.iter().zip(&parts.ports);
        let home = |node| owned.clone().find(|(port, _)| port.owner == node).map(|(_, home)| *home);
        let crosses = |port: &&PortSpec| home(port.owner) != home(port.to);
        assert_eq!(blueprint.ports.iter().filter(crosses).count(), 2 * 8);
    }

    #[test]
    fn pods_stay_whole_and_parts_weigh_the_same_where_that_is_possible() {
        let blueprint = blueprint("ft1024-1os");
        let even = Parts::new(&blueprint, &[1; 1024], 2);
        assert_eq!(even.hosts, [0..512, 512..1024]);
        // One host has as much to do as all others together.
        let mut weights = [1; 1024];
        weights[70] = 1024;
        let parts = Parts::new(&blueprint, &weights, 2);
        assert!(parts.hosts[0].end < 512, "{:?}", parts.hosts);
        let pod = blueprint.switches.iter().map(|switch| switch.hosts).filter(|n| *n < 1024).max();
        assert_eq!(parts.hosts[0].end % pod.unwrap(), 0);
    }
}
