//! Tests of how a topology is divided into parts for threads.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use experiments::topology::{self, FabricParams, FatTree};
use fabric::{Blueprint, Node, Parts, PortSpec};
use proptest::prelude::*;

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
