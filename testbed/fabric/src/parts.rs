//! A network in parts, each run by a thread of its own.
//!
//! Within a window no port affects another, so ports may be divided among parts in any way: a part
//! is a network of which only some ports are ever used. Packets that a port puts on a link to a
//! port of another part wait in its *crossings* until the window is over. A switch is never
//! divided, so that a discipline may treat all ports of a switch together.
//!
//! Hosts are divided into contiguous ranges along the boundaries of pods (or of smaller switches,
//! where there are too few pods) so that the parts have about the same traffic. Switches go with
//! the hosts below; those that have hosts of several parts below are dealt out evenly.

use std::ops::Range;
use std::sync::Arc;

use transport::Instant;

use super::blueprint::Blueprint;
use super::calendar::Flight;
use super::crossings::Crossings;
use super::elements::Node;
use super::network::Network;

/// The assignment of hosts, ports and programs to parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The hosts of each part.
    pub hosts: Vec<Range<u32>>,
    /// The part of each port.
    pub ports: Vec<u32>,
    /// The part of each target of flights, a port or a programmed switch.
    homes: Arc<[u32]>,
}

impl Parts {
    /// Divides a network whose hosts have traffic of `weights` into at most `count` parts, at least
    /// one.
    pub fn new(blueprint: &Blueprint, weights: &[u64], count: usize) -> Self {
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
        let programs = blueprint.programs.keys().map(|switch| home(Node::Switch(*switch)));
        let homes = ports.iter().copied().chain(programs).collect();
        Self { hosts, ports, homes }
    }

    /// How many parts there are.
    pub fn count(&self) -> usize {
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

impl Network {
    /// Divides a network in which nothing has happened yet into its parts.
    pub fn split(self, parts: &Parts) -> Vec<Self> {
        debug_assert_eq!(self.now(), Instant::ZERO, "nothing has happened yet");
        let mut networks = Vec::with_capacity(parts.count());
        networks.resize_with(parts.count() - 1, || self.clone());
        networks.push(self);
        if parts.count() > 1 {
            for (part, network) in (0..).zip(&mut networks) {
                let crossed = vec![Vec::new(); parts.count()];
                let crossings = Crossings { part, homes: parts.homes.clone(), crossed };
                network.links.crossings = Some(Box::new(crossings));
                network.links.calendar = network.links.calendar.empty();
                network.wake_programs(|target| parts.homes[target as usize] == part);
            }
        }
        networks
    }

    /// The flights that have left for part `to`, in the order in which they left.
    pub fn crossed(&mut self, to: usize) -> impl Iterator<Item = Flight> + '_ {
        let crossed =
            self.links.crossings.as_mut().and_then(|crossings| crossings.crossed.get_mut(to));
        crossed.into_iter().flat_map(|flights| flights.drain(..))
    }

    /// Takes over a flight from another part.
    #[inline]
    pub fn admit(&mut self, flight: Flight) {
        self.links.counts.on_wire += u64::from(flight.is_packet());
        self.links.calendar.push(flight);
    }

    /// The whole network with all counts and queues, for its books; packets on links are not taken
    /// over.
    pub fn join(mut networks: Vec<Self>, parts: &Parts) -> Self {
        let mut whole = networks.remove(0);
        whole.links.crossings = None;
        for (part, mut network) in (1..).zip(networks) {
            whole.links.counts.add(&network.links.counts);
            whole.links.queue_stats.add(&network.links.queue_stats);
            whole.add_earlier_peaks(&network);
            let ports = whole.ports.iter_mut().zip(&mut network.ports).zip(&parts.ports);
            for ((port, own), home) in ports {
                if *home == part {
                    std::mem::swap(port, own);
                }
                // A switch that has no way for a packet charges the port it came by.
                port.stats.merge(&own.stats);
            }
            let homes = parts.homes[parts.ports.len()..].iter();
            let programs = whole.programs.iter_mut().zip(&mut network.programs);
            for ((program, own), _) in programs.zip(homes).filter(|(_, home)| **home == part) {
                std::mem::swap(program, own);
            }
        }
        whole
    }
}
