//! Tests of the tree's arithmetic: against the wiring it describes, and against the reference.

use fabric::{FaultSpec, Network, PortId};
use proptest::prelude::*;

use super::*;
use crate::scenario::FaultSpec as NamedFault;
use crate::topology::spec::{TierSpec, WanSpec};
use crate::topology::{SelectorError, by_name};
use crate::workload::matrix::SwitchTier;

fn named(name: &str) -> FatTree {
    FatTree::new(by_name(name).unwrap()).unwrap()
}

fn select(tree: &FatTree, links: &str) -> Result<Vec<PortId>, SelectorError> {
    tree.select(&links.parse().unwrap())
}

/// Trees with bundles, of two and three tiers, alone or in pairs.
fn any_tree() -> impl Strategy<Value = FatTree> {
    let numbers = (2u32..5, 1u32..4, 1u32..4, 1u32..4, 1u32..3, 1u32..3, 1u32..4, any::<bool>());
    let border = prop::option::of((1u32..4, 1u32..4, 1u32..4));
    (numbers, border).prop_map(|(numbers, border)| {
        let (hosts, tors, pods, aggs, bundle, core_bundle, cores, deep) = numbers;
        let pods = if deep { pods } else { 1 };
        let tier = |radix_down, radix_up, bundle| TierSpec {
            downlink_mbps: 800_000,
            radix_down,
            radix_up,
            bundle,
            oversubscribed: 1,
            switch_latency_ns: 400,
            downlink_latency_ns: 600,
            ..TierSpec::default()
        };
        let to_border = border.map_or(0, |(bundle, _, borders)| bundle * borders);
        // Core switches are dealt out in some of the trees that may have them so.
        let dealt = deep && border.is_none() && core_bundle == 1 && hosts == 3;
        let agg_ups = if deep { cores * core_bundle } else { to_border };
        let mut tiers = vec![tier(hosts, aggs * bundle, 1), tier(tors * bundle, agg_ups, bundle)];
        if deep {
            tiers.push(tier(pods * core_bundle, to_border, core_bundle));
        }
        if let Some((bundle, links, borders)) = border {
            let tops = if deep { aggs * cores } else { aggs };
            tiers.push(tier(tops * bundle, links * borders, bundle));
        }
        tiers.resize(TIERS_MAX, TierSpec::default());
        let spec = FatTreeSpec {
            nodes: hosts * tors * pods * if border.is_some() { 2 } else { 1 },
            tiers: if deep { 3 } else { 2 },
            podsize: hosts * tors,
            tier: tiers.try_into().unwrap(),
            wan: border.map(|(_, _, borders)| WanSpec { gbps: 400, latency_ns: 50_000, borders }),
            schedulers: hosts % 3,
            dealt_cores: dealt.then(|| aggs * (cores - 1) + 1 + (tors - 1) % aggs),
            faults: &[],
        };
        FatTree::new(spec).unwrap()
    })
}

#[test]
fn the_papers_trees_have_the_references_buffers_and_thresholds() {
    let params = FabricParams::default();
    let tree = named("ft1024-8os");
    assert_eq!(tree.base_rtt(&params), Duration::from_ps(11_453_440));
    assert_eq!(tree.bdp(&params), Bytes(1_148_160));
    let blueprint = tree.blueprint(&params);
    assert_eq!(blueprint.switches.len(), 128 + 32 + 8);
    let params = blueprint.ports.last().unwrap().params;
    assert_eq!((params.kmin, params.kmax), (Bytes(232_960), Bytes(919_360)));
}

#[test]
fn a_control_queue_holds_as_much_as_data_but_never_less_than_64_acknowledgements() {
    let limit = |buffer: u64, control: Option<u64>| {
        let control_buffer = control.map(Bytes);
        let params =
            FabricParams { buffer: Some(Bytes(buffer)), control_buffer, ..FabricParams::default() };
        named("ft1024-8os").blueprint(&params).ports.last().unwrap().params.control_limit
    };
    assert_eq!(limit(1 << 20, None), Bytes(1 << 20));
    assert_eq!(limit(164, None), Bytes(64 * 64));
    assert_eq!(limit(1 << 20, Some(100)), Bytes(100), "a smaller buffer is taken as it is");
}

proptest! {
    #[test]
    fn every_link_ends_where_its_other_direction_starts(tree in any_tree()) {
        let ports = tree.blueprint(&FabricParams::default()).ports;
        prop_assert_eq!(ports.len(), 2 * tree.links() as usize);
        let spec = tree.spec();
        let ups = |tier: u8| {
            let tree = &tree;
            (0..spec.switches(tier))
                .flat_map(move |s| (0..tree.ups_of(tier, s)).map(move |i| (tier, s, i)))
        };
        let name = |tier: u8| match tier {
            0 => "tor",
            1 => "agg",
            _ if tier == spec.tiers => "border",
            _ => "core",
        };
        let mut seen = vec![false; ports.len()];
        let mut links: Vec<[u32; 2]> = (0..spec.nodes).map(|host| {
            let link = select(&tree, &format!("host:{host}")).unwrap();
            [link[0].0, link[1].0]
        }).collect();
        for (tier, switch, i) in (0..spec.levels()).flat_map(ups) {
            let own = name(tier);
            let [PortId(up)] = select(&tree, &format!("{own}:{switch}:up:{i}")).unwrap()[..] else {
                panic!("a named direction is one port");
            };
            let (upper, above, way, port) = if tier == spec.tiers {
                let (peer, port) = tree.across(switch, i);
                prop_assert_eq!(tree.across(peer, port), (switch, i));
                prop_assert_ne!(peer / spec.borders(), switch / spec.borders());
                (own, peer, "up", port)
            } else {
                let (above, port) = tree.above(tier, switch, i);
                prop_assert_eq!(tree.below(tier + 1, above, port), (switch, i));
                (name(tier + 1), above, "down", port)
            };
            let down = select(&tree, &format!("{upper}:{above}:{way}:{port}")).unwrap();
            if tier < spec.tiers || switch < spec.borders() {
                links.push([up, down[0].0]);
            }
            // The whole switch names both directions, from either end.
            for name in [format!("{own}:{switch}"), format!("{upper}:{above}")] {
                let all = select(&tree, &name).unwrap();
                prop_assert!(all.contains(&PortId(up)) && all.contains(&down[0]), "{}", name);
            }
        }
        for [a, b] in links {
            let [there, back] = [&ports[a as usize], &ports[b as usize]];
            prop_assert_eq!((there.owner, there.to), (back.to, back.owner));
            prop_assert_eq!(there.rate, back.rate);
            for port in [a, b] {
                prop_assert!(!std::mem::replace(&mut seen[port as usize], true), "{} twice", port);
            }
        }
        // Links of schedulers have no names.
        let first = tree.scheduler_of(0).unwrap_or(u32::MAX);
        let is_scheduler = |node| matches!(node, Node::Switch(switch) if switch >= first);
        for (port, seen) in ports.iter().zip(&mut seen) {
            if is_scheduler(port.owner) || is_scheduler(port.to) {
                let back = |other: &&PortSpec| (other.owner, other.to) == (port.to, port.owner);
                prop_assert!(!*seen && ports.iter().filter(back).count() == 1);
                *seen = true;
            }
        }
        prop_assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn a_switch_owns_the_ports_it_routes_by(tree in any_tree()) {
        let blueprint = tree.blueprint(&FabricParams::default());
        for (index, switch) in (0..).zip(&blueprint.switches) {
            let downs = switch.hosts / switch.child_hosts * switch.bundle;
            let ups = switch.up_ports();
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
                        let range = (below.first_host, below.hosts);
                        prop_assert_eq!(range, (first, switch.child_hosts));
                    }
                }
            }
        }
    }

    #[test]
    fn any_selector_gives_ports_that_exist_or_says_what_does(
        tree in any_tree(),
        tier in prop_oneof![
            Just("tor"), Just("agg"), Just("core"), Just("border"), Just("host")
        ],
        switch in prop_oneof![0u32..6, any::<u32>()],
        way in prop_oneof![Just(""), Just(":up"), Just(":down")],
        port in prop::option::of(prop_oneof![0u32..6, any::<u32>()]),
    ) {
        let port = port.filter(|_| !way.is_empty()).map(|p| format!(":{p}")).unwrap_or_default();
        let way = if tier == "host" { String::new() } else { format!("{way}{port}") };
        match select(&tree, &format!("{tier}:{switch}{way}")) {
            Ok(ports) => prop_assert!(ports.iter().all(|port| port.0 < 2 * tree.links())),
            Err(error) => prop_assert!(error.given >= error.count && !error.to_string().is_empty()),
        }
    }
}

#[test]
fn groups_of_links_are_what_their_names_say() {
    let tree = named("ft1024-8os");
    let count = |links: &str| select(&tree, links).unwrap().len();
    assert_eq!((count("hosts"), count("fabric")), (2048, 2 * (256 + 128)));
    assert_eq!(count("all"), 2 * tree.links() as usize);
    assert_eq!((count("tor:3"), count("agg:31"), count("core:7")), (20, 24, 32));
    assert_eq!((count("tor:3:up"), count("tor:3:down"), count("tor:3:up:1")), (2, 8, 1));
}

#[test]
fn links_that_are_not_there_are_refused_with_what_is() {
    let tree = named("ft1024-8os");
    let error = |links: &str| select(&tree, links).unwrap_err().to_string();
    assert_eq!(error("host:1024"), "host 1024 does not exist: they go from 0 to 1023");
    assert!(error("tor:0:up:2").contains("port up 2"));
    assert!(error("core:0:up:0").contains("none there"));
    let testbed = named("paper-testbed");
    assert!(select(&testbed, "core:0").unwrap_err().to_string().contains("core switch 0"));
    for links in ["wan", "border", "border:0:up"] {
        let error = select(&testbed, links).unwrap_err().to_string();
        assert_eq!(error, "border switch 0 does not exist: this network has none there");
    }
}

#[test]
fn links_between_sites_and_to_them_have_names() {
    let tree = named("two-dc");
    let count = |links: &str| select(&tree, links).unwrap().len();
    assert_eq!((count("wan"), count("border")), (2 * 8, 2 * (8 + 2 * 128)));
    assert_eq!((count("border:0"), count("border:1:up"), count("border:0:up:7")), (272, 8, 1));
    assert_eq!((count("core:0"), count("core:31:up")), (2 * (8 + 8), 8));
    assert_eq!(count("fabric"), 2 * (2 * 3 * 128 + 8));
}

#[test]
fn ports_at_a_border_may_have_a_discipline_of_their_own() {
    let tree = named("two-dc:4");
    let params = FabricParams {
        qdisc: QdiscKind::Ecn,
        border_qdisc: Some(QdiscKind::DropTail),
        ..FabricParams::default()
    };
    let blueprint = tree.blueprint(&params);
    let border = select(&tree, "border").unwrap();
    for (number, port) in (0..).zip(&blueprint.ports).skip(tree.spec().nodes as usize) {
        let at_border = border.contains(&PortId(number));
        let expected = if at_border { QdiscKind::DropTail } else { QdiscKind::Ecn };
        assert_eq!(port.qdisc, expected, "port {number}");
    }
}

#[test]
fn ports_of_switches_have_the_bdp_of_the_longest_path_and_those_of_nics_none() {
    let tree = named("two-dc");
    let blueprint = tree.blueprint(&FabricParams::default());
    let (nics, ports) = blueprint.ports.split_at(tree.spec().nodes as usize);
    assert!(nics.iter().all(|nic| nic.params.path_bdp.is_none()));
    // 1792 us at 100 Gb/s, in whole packets.
    assert!(ports.iter().all(|port| port.params.path_bdp == Some(Bytes(22_401_600))));
}

#[test]
fn a_fault_as_text_becomes_one_the_fabric_takes() {
    let tree = named("paper-testbed");
    let mut network =
        Network::new(tree.blueprint(&FabricParams::default()), &transport::Rng::new(1));
    for text in [
        "loss:0.01@all",
        "burst-loss:0.01@fabric,burst=8",
        "burst-loss:1@host:3",
        "duplicate:0.001@hosts",
        "reorder:0.05@all,delay_us=20",
        "corrupt:0.0001@host:3",
        "block-loss:0.3/0.1@fabric,block=4",
        "degrade:0.5@tor:0:up:2",
        "down@tor:0:up:2,from_us=10,until_us=20",
    ] {
        let named: NamedFault = text.parse().unwrap();
        let (ports, spec) = named.on(&tree).unwrap();
        assert!(!ports.is_empty());
        assert_eq!(network.add_fault(&ports, spec), Ok(()), "{text}");
    }
    let down: NamedFault = "down,from_us=10,until_us=20".parse().unwrap();
    let (_, FaultSpec { from, until, .. }) = down.on(&tree).unwrap();
    assert_eq!((from.as_us_f64(), until.as_us_f64()), (10.0, 20.0));
}

#[test]
fn a_failed_link_is_both_its_directions_from_either_end() {
    let tree = named("ft1024-8os");
    let mut up = tree.link(SwitchTier::Agg, 0, 3).unwrap();
    let mut down = tree.link(SwitchTier::Core, 3, 0).unwrap();
    up.sort_unstable();
    down.sort_unstable();
    assert_eq!(up, down);
    assert!(
        tree.link(SwitchTier::Tor, 0, 2).is_err() && tree.link(SwitchTier::Core, 8, 0).is_err()
    );
}

#[test]
fn a_tree_that_contradicts_itself_is_refused() {
    let mut spec = by_name("ft1024-8os").unwrap();
    spec.tier[2].radix_down = 8;
    assert!(FatTree::new(spec).unwrap_err().to_string().contains("Radix_Down 8"));
}
