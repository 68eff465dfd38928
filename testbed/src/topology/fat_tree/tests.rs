//! Tests of the tree's arithmetic: against the wiring it describes, and against the reference.

use proptest::prelude::*;

use super::*;
use crate::fabric::PortId;
use crate::topology::SelectorError;

fn tier(radix_down: u32, radix_up: u32) -> TierSpec {
    TierSpec {
        down_rate: Rate::from_gbps(800),
        down_latency: Duration::from_ns(600),
        switch_latency: Duration::from_ns(400),
        radix_down,
        radix_up,
        bundle: 1,
        queue_down: None,
        queue_up: None,
    }
}

fn tree(hosts: u32, pod_hosts: u32, tiers: Vec<TierSpec>) -> FatTree {
    FatTree::new(TreeSpec { hosts, pod_hosts, tiers }).unwrap()
}

/// The paper's 1024 hosts without oversubscription.
pub(in crate::topology) fn one_to_one() -> FatTree {
    tree(1024, 64, vec![tier(8, 8), tier(8, 8), tier(16, 0)])
}

/// The paper's 1024 hosts, 4:1 at the ToRs and 2:1 above.
pub(in crate::topology) fn eight_to_one() -> FatTree {
    tree(1024, 64, vec![tier(8, 2), tier(8, 4), tier(16, 0)])
}

/// Trees with bundles, of two and three tiers.
fn any_tree() -> impl Strategy<Value = FatTree> {
    let numbers = (1u32..5, 1u32..4, 1u32..4, 1u32..4, 1u32..3, 1u32..3, 1u32..4, any::<bool>());
    numbers.prop_map(|(hosts, tors, pods, aggs, bundle, core_bundle, cores, deep)| {
        let pods = if deep { pods } else { 1 };
        let tor = tier(hosts, aggs * bundle);
        let agg = TierSpec { bundle, ..tier(tors * bundle, cores * core_bundle) };
        let core = TierSpec { bundle: core_bundle, ..tier(pods * core_bundle, 0) };
        let tiers = if deep { vec![tor, agg, core] } else { vec![tor, agg] };
        tree(hosts * tors * pods, hosts * tors, tiers)
    })
}

#[test]
fn the_papers_trees_have_the_references_switches_and_buffers() {
    let params = FabricParams::default();
    let tree = eight_to_one();
    assert_eq!((tree.tors, tree.aggs, tree.cores), (128, 32, 8));
    assert_eq!(tree.base_rtt(&params), Duration::from_ps(11_453_440));
    assert_eq!(tree.bdp(&params), Bytes(1_148_160));
    let blueprint = tree.blueprint(&params);
    let params = blueprint.ports.last().unwrap().params;
    assert_eq!((params.kmin, params.kmax), (Bytes(232_960), Bytes(919_360)));
    assert_eq!((one_to_one().aggs, one_to_one().cores), (128, 64));
}

proptest! {
    #[test]
    fn every_link_ends_where_its_other_direction_starts(tree in any_tree()) {
        let ports = tree.blueprint(&FabricParams::default()).ports;
        prop_assert_eq!(ports.len(), 2 * tree.links() as usize);
        let mut seen = vec![false; ports.len()];
        let agg_ups = tree.agg_ups();
        let names = (0..tree.spec().hosts).map(|h| format!("host:{h}"))
            .chain((0..tree.tors).flat_map(|t| {
                (0..tree.spec().tiers[0].radix_up).map(move |i| format!("tor:{t}:up:{i}"))
            }))
            .chain((0..tree.aggs).flat_map(|a| {
                (0..agg_ups).map(move |i| format!("agg:{a}:up:{i}"))
            }));
        for name in names {
            let [PortId(a), PortId(b)] = tree.select(&name).unwrap()[..] else {
                panic!("{name} is not one link");
            };
            let [there, back] = [&ports[a as usize], &ports[b as usize]];
            prop_assert_eq!((there.owner, there.to), (back.to, back.owner), "{}", name);
            prop_assert_eq!(there.rate, back.rate);
            for port in [a, b] {
                prop_assert!(!std::mem::replace(&mut seen[port as usize], true), "{} twice", port);
            }
        }
        prop_assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn a_switch_owns_the_ports_it_routes_by(tree in any_tree()) {
        let blueprint = tree.blueprint(&FabricParams::default());
        for (index, switch) in (0..).zip(&blueprint.switches) {
            let downs = switch.hosts / switch.child_hosts * switch.bundle;
            let ups = switch.up_port..switch.up_port + switch.ups;
            for port in (switch.down_port..switch.down_port + downs).chain(ups) {
                prop_assert_eq!(blueprint.ports[port as usize].owner, Node::Switch(index));
            }
            for child in 0..downs {
                let port = &blueprint.ports[(switch.down_port + child) as usize];
                let first = switch.first_host + child / switch.bundle * switch.child_hosts;
                match port.to {
                    Node::Host(host) => prop_assert_eq!(host, first),
                    Node::Switch(below) => {
                        let below = &blueprint.switches[below as usize];
                        prop_assert_eq!((below.first_host, below.hosts), (first, switch.child_hosts));
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_either_end_mean_the_same_link(tree in any_tree()) {
        for (lower, ups, upper) in [("tor", tree.spec().tiers[0].radix_up, "agg"),
                                    ("agg", tree.agg_ups(), "core")] {
            for i in 0..ups {
                let link = tree.select(&format!("{lower}:0:up:{i}")).unwrap();
                let (at, port) = if lower == "tor" { tree.above_tor(0, i) }
                                 else { tree.above_agg(0, i) };
                prop_assert_eq!(tree.select(&format!("{upper}:{at}:down:{port}")).unwrap(), link);
            }
        }
    }

    #[test]
    fn no_name_and_no_shape_makes_it_panic(
        name in "(host|tor|agg|core|all|x)?(:[0-9]{1,11}|:up|:down|:){0,5}",
        numbers in prop::collection::vec(prop_oneof![0u32..20, any::<u32>()], 11),
        three in any::<bool>(),
    ) {
        let _ = one_to_one().select(&name);
        let tier = |n: &[u32]| TierSpec { bundle: n[2], ..tier(n[0], n[1]) };
        let mut tiers: Vec<_> = numbers[2..].chunks_exact(3).map(tier).collect();
        tiers.truncate(if three { 3 } else { 2 });
        let _ = FatTree::new(TreeSpec { hosts: numbers[0], pod_hosts: numbers[1], tiers });
    }
}

#[test]
fn groups_of_links_are_what_their_names_say() {
    let tree = eight_to_one();
    let count = |name: &str| tree.select(name).unwrap().len();
    assert_eq!((count("hosts"), count("fabric")), (2048, 2 * (256 + 128)));
    assert_eq!(count("all"), 2 * tree.links() as usize);
    assert_eq!((count("tor:3"), count("agg:31"), count("core:7")), (20, 24, 32));
}

#[test]
fn wrong_names_are_refused_with_what_is_there() {
    let tree = eight_to_one();
    let error = |name: &str| tree.select(name).unwrap_err().to_string();
    assert!(error("host:1024").contains("0 to 1023"));
    assert!(error("tor:0:up:2").contains("up port 2"));
    assert!(error("core:0:up:0").contains("has none"));
    for name in ["", "host", "host:x", "host:1:up:0", "tor:0:up", "tor:0:sideways:1", "spine:1"] {
        assert_eq!(tree.select(name), Err(SelectorError::Form), "{name}");
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_the_number() {
    let good = eight_to_one().spec;
    let broken = |change: fn(&mut TreeSpec)| {
        let mut spec = good.clone();
        change(&mut spec);
        FatTree::new(spec).unwrap_err().to_string()
    };
    assert!(broken(|spec| spec.tiers.truncate(1)).contains("1 tiers"));
    assert!(broken(|spec| spec.hosts = 1000).contains("multiple of podsize (64)"));
    assert!(broken(|spec| spec.tiers[1].radix_down = 9).contains("make it 8"));
    assert!(broken(|spec| spec.tiers[2].radix_down = 8).contains("make it 16"));
    assert!(broken(|spec| spec.tiers[0].radix_down = 0).contains("radix_down of tier 0 is zero"));
    assert!(broken(|spec| spec.tiers[1].down_rate = Rate::ZERO).contains("downlink_speed"));
}

#[test]
fn a_leaf_spine_is_a_tree_of_two_tiers() {
    let spec = TreeSpec::leaf_spine(
        4,
        4,
        4,
        Rate::from_gbps(100),
        Duration::from_ns(600),
        Duration::from_ns(400),
    );
    let tree = FatTree::new(spec).unwrap();
    assert_eq!((tree.tors, tree.aggs, tree.cores, tree.links()), (4, 4, 0, 32));
    assert_eq!(tree.blueprint(&FabricParams::default()).switches.len(), 8);
}
