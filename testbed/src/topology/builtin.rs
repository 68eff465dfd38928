//! The networks that have names: the papers' trees and two families with parameters.
//!
//! Source: \[smartt\] sec. IV (three tiers, 800 Gbps, 600 ns links, 400 ns switches) in the radices
//! of uet-htsim's files of 128, 1024 and 8192 hosts; the emulated testbed of \[smartt\] sec. IV at
//! 100 Gbps. A name never reads a file.

use super::spec::{FatTreeSpec, GBPS_MAX, NODES_MAX, RADIX_MAX, TierSpec};
use crate::input::number;
use crate::input::{InputError, did_you_mean};

/// Every name that [`by_name`] knows; capitals stand for parameters, brackets for what may be left
/// out.
pub const NAMES: [&str; 11] = [
    "paper-testbed",
    "ft128-1os",
    "ft128-4os",
    "ft128-8os",
    "ft1024-1os",
    "ft1024-2os",
    "ft1024-4os",
    "ft1024-8os",
    "ft8192-1os",
    LEAF_SPINE,
    DUMBBELL,
];

const LEAF_SPINE: &str = "leaf-spine:LEAVES,SPINES,HOSTS_PER_LEAF[,GBPS]";
const DUMBBELL: &str = "dumbbell:HOSTS_PER_SIDE[,GBPS]";

/// The network of that name.
///
/// # Errors
/// An [`InputError`] without a place, with the nearest name, when there is none of that name or its
/// parameters are wrong.
pub fn by_name(name: &str) -> Result<FatTreeSpec, InputError> {
    let tree = match name {
        "paper-testbed" => leaf_spine(4, 4, 4, 100),
        "ft128-1os" => fat_tree(128, 16, [(4, 4), (4, 4), (8, 0)]),
        "ft128-4os" => fat_tree(128, 16, [(4, 4), (4, 1), (8, 0)]),
        "ft128-8os" => fat_tree(128, 16, [(4, 1), (4, 2), (8, 0)]),
        "ft1024-1os" => fat_tree(1024, 64, [(8, 8), (8, 8), (16, 0)]),
        "ft1024-2os" => fat_tree(1024, 64, [(8, 4), (8, 8), (16, 0)]),
        "ft1024-4os" => fat_tree(1024, 64, [(8, 2), (8, 8), (16, 0)]),
        "ft1024-8os" => fat_tree(1024, 64, [(8, 2), (8, 4), (16, 0)]),
        "ft8192-1os" => fat_tree(8192, 256, [(16, 16), (16, 16), (32, 0)]),
        _ => match name.split_once(':') {
            Some(("leaf-spine", rest)) => parameters(rest, name, LEAF_SPINE, 3)
                .map(|[leaves, spines, hosts, gbps]| leaf_spine(leaves, spines, hosts, gbps))?,
            Some(("dumbbell", rest)) => parameters(rest, name, DUMBBELL, 1)
                .map(|[hosts, gbps, ..]| leaf_spine(2, 1, hosts, gbps))?,
            _ => {
                return Err(InputError::new(format!("topology `{name}`"), "a built-in topology")
                    .help(did_you_mean(name, &NAMES)));
            }
        },
    };
    tree.check().map_err(|error| {
        InputError::new(format!("topology `{name}`: {error}"), "numbers that fit together")
    })?;
    Ok(tree)
}

/// Numbers separated by commas: `required` of them, then perhaps a rate in Gbps (100 if not given).
fn parameters(
    text: &str,
    name: &str,
    pattern: &str,
    required: usize,
) -> Result<[u32; 4], InputError> {
    let wrong = || {
        InputError::new(format!("topology `{name}`"), format!("{pattern}, positive integers"))
            .help(format!("at most {NODES_MAX} hosts, {RADIX_MAX} ports, {GBPS_MAX} Gbps"))
    };
    let mut values = [0; 4];
    values[required] = GBPS_DEFAULT;
    let mut count = 0;
    for word in text.split(',') {
        let value = number::integer(word.trim().as_bytes()).ok();
        let value = value.and_then(|value| u32::try_from(value).ok());
        let slot = values.get_mut(count).filter(|_| count <= required).ok_or_else(wrong)?;
        *slot = value.filter(|&value| value > 0).ok_or_else(wrong)?;
        count += 1;
    }
    if count < required { Err(wrong()) } else { Ok(values) }
}

const GBPS_DEFAULT: u32 = 100;

/// Three tiers at the paper's speed and latencies; radices (down, up) by tier.
fn fat_tree(nodes: u32, podsize: u32, radices: [(u32, u32); 3]) -> FatTreeSpec {
    let tier = radices.map(|(radix_down, radix_up)| tier(800, radix_down, radix_up));
    with_oversubscription(FatTreeSpec { nodes, tiers: 3, podsize, tier })
}

/// Every leaf has one link to every spine. Numbers that overflow give zero hosts, which no check
/// passes.
fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32, gbps: u32) -> FatTreeSpec {
    let nodes = leaves.checked_mul(hosts_per_leaf).unwrap_or(0);
    let tier = [tier(gbps, hosts_per_leaf, spines), tier(gbps, leaves, 0), TierSpec::default()];
    with_oversubscription(FatTreeSpec { nodes, tiers: 2, podsize: nodes, tier })
}

fn tier(downlink_gbps: u32, radix_down: u32, radix_up: u32) -> TierSpec {
    TierSpec {
        downlink_gbps,
        radix_down,
        radix_up,
        queue_down: None,
        queue_up: None,
        oversubscribed: 1,
        bundle: 1,
        //= smartt#sec4
        switch_latency_ns: 400,
        downlink_latency_ns: 600,
    }
}

fn with_oversubscription(mut tree: FatTreeSpec) -> FatTreeSpec {
    for tier in 0..tree.tiers {
        tree.tier[usize::from(tier)].oversubscribed = tree.oversubscription(tier);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_without_parameters_is_a_sound_network_of_its_size() {
        for name in NAMES.iter().filter(|name| !name.contains(':')) {
            let tree = by_name(name).unwrap();
            let digits: String = name.chars().skip(2).take_while(char::is_ascii_digit).collect();
            if let Ok(nodes) = digits.parse::<u32>() {
                assert_eq!(tree.nodes, nodes, "{name}");
            }
        }
    }

    #[test]
    fn the_papers_testbed_has_four_leaves_four_spines_and_sixteen_hosts() {
        let tree = by_name("paper-testbed").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs(), tree.cores()), (16, 4, 4, 0));
        assert_eq!(tree, by_name("leaf-spine:4,4,4").unwrap());
    }

    #[test]
    fn families_take_parameters() {
        let tree = by_name("leaf-spine:8,2,16,400").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs()), (128, 8, 2));
        assert_eq!((tree.tier[0].oversubscribed, tree.tier[1].downlink_gbps), (8, 400));
        let bell = by_name("dumbbell:6,25").unwrap();
        assert_eq!((bell.nodes, bell.tors(), bell.aggs()), (12, 2, 1));
        assert_eq!(bell.tier[0].downlink_gbps, 25);
    }

    #[test]
    fn wrong_names_and_parameters_say_what_would_be_right() {
        let error = by_name("ft1024-8so").unwrap_err();
        assert!(error.help.contains("did you mean `ft1024-8os`"), "{error}");
        for name in [
            "leaf-spine:4,4",
            "leaf-spine:4,4,4,100,9",
            "leaf-spine:0,1,1",
            "dumbbell:x",
            "leaf-spine:65536,65536,65536",
            "dumbbell:4294967295",
            "dumbbell:",
        ] {
            assert!(by_name(name).is_err(), "{name}");
        }
    }
}
