//! The networks that have names: the papers' trees and families with parameters.
//!
//! Source: \[smartt\] sec. IV (three tiers, 800 Gbps, 600 ns links, 400 ns switches) in the radices
//! of uet-htsim's files of 128, 1024 and 8192 hosts; the emulated testbed of \[smartt\] sec. IV at
//! 100 Gbps. \[uno\] sec. 5.1: two 8-ary fat trees of 128 hosts, one switch at the border of each
//! and eight links between these, 100 Gbps and 1 us everywhere else; the paper's 2 ms between
//! farthest hosts are 128 times the 14 us inside, by 886.5 us of delay, as in its simulator. A name
//! never reads a file.

use transport::Bytes;

use super::spec::{FatTreeSpec, GBPS_MAX, LATENCY_NS_MAX, NODES_MAX, RADIX_MAX, TierSpec, WanSpec};
use crate::input::number;
use crate::input::{InputError, did_you_mean};

/// Every name that [`by_name`] knows; capitals stand for parameters, brackets for what may be left
/// out.
pub const NAMES: [&str; 13] = [
    "paper-testbed",
    "ft128-1os",
    "ft128-4os",
    "ft128-8os",
    "ft1024-1os",
    "ft1024-2os",
    "ft1024-4os",
    "ft1024-8os",
    "ft8192-1os",
    "two-dc",
    LEAF_SPINE,
    DUMBBELL,
    TWO_DC,
];

const LEAF_SPINE: &str = "leaf-spine:LEAVES,SPINES,HOSTS_PER_LEAF[,GBPS]";
const DUMBBELL: &str = "dumbbell:HOSTS_PER_SIDE[,GBPS[,DELAY]]";
const TWO_DC: &str = "two-dc:RADIX[,WAN_LINKS[,DELAY[,GBPS]]]";

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
        "two-dc" => two_dc("8", name)?,
        _ => match name.split_once(':') {
            Some(("leaf-spine", rest)) => parameters(rest, name, LEAF_SPINE, 3)
                .map(|[leaves, spines, hosts, gbps]| leaf_spine(leaves, spines, hosts, gbps))?,
            Some(("dumbbell", rest)) => dumbbell(rest, name)?,
            Some(("two-dc", rest)) => two_dc(rest, name)?,
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

/// Two switches with a third between them; of its two links each has half of DELAY.
fn dumbbell(text: &str, name: &str) -> Result<FatTreeSpec, InputError> {
    let mut words = text.splitn(3, ',');
    let head = [words.next(), words.next()].into_iter().flatten().collect::<Vec<_>>().join(",");
    let delay = words.next().map(|word| delay_ns(word, name, DUMBBELL)).transpose()?;
    let [hosts, gbps, ..] = parameters(&head, name, DUMBBELL, 1)?;
    let mut tree = leaf_spine(2, 1, hosts, gbps);
    if let Some(delay) = delay {
        tree.tier[1].downlink_latency_ns = delay / 2;
    }
    Ok(tree)
}

/// Two fat trees of switches with RADIX ports, all of which the border switch of each has a link to
/// for every host.
fn two_dc(text: &str, name: &str) -> Result<FatTreeSpec, InputError> {
    let words: Vec<&str> = text.split(',').collect();
    // The delay is a time, the others are numbers.
    let number = |at: usize, default: u32| match words.get(at) {
        None => Ok(default),
        Some(word) => parameters(word, name, TWO_DC, 1).map(|[value, ..]| value),
    };
    let radix = number(0, 8)?;
    let (links, gbps) = (number(1, radix)?, number(3, GBPS_DEFAULT)?);
    let latency_ns = match words.get(2) {
        None => WAN_DELAY_NS,
        Some(word) => delay_ns(word, name, TWO_DC)?,
    };
    if !radix.is_multiple_of(2) || radix > 128 || words.len() > 4 {
        let found = format!("topology `{name}`");
        return Err(InputError::new(found, format!("{TWO_DC}, an even radix up to 128")));
    }
    let half = radix / 2;
    let cores = half * half;
    let tier = |radix_down, radix_up, bundle| TierSpec {
        downlink_gbps: gbps,
        radix_down,
        radix_up,
        //= uno#5.1
        queue_down: Some(Bytes(1 << 20)),
        queue_up: Some(Bytes(1 << 20)),
        oversubscribed: 1,
        bundle,
        switch_latency_ns: 0,
        downlink_latency_ns: 1000,
    };
    let border = tier(cores.saturating_mul(radix), links, radix);
    let tree = FatTreeSpec {
        nodes: 2 * radix * cores,
        tiers: 3,
        podsize: cores,
        tier: [tier(half, half, 1), tier(half, half, 1), tier(radix, radix, 1), border],
        wan: Some(WanSpec { gbps, latency_ns }),
    };
    Ok(with_oversubscription(tree))
}

/// One way between border switches, so that the longest base RTT is 128 of those inside.
const WAN_DELAY_NS: u32 = 886_500;

/// A time in whole nanoseconds, microseconds when it has no unit.
fn delay_ns(text: &str, name: &str, pattern: &str) -> Result<u32, InputError> {
    let span = number::duration(text.trim()).ok();
    let ns = span.and_then(|span| u32::try_from(span.as_ps() / 1000).ok());
    ns.filter(|ns| *ns <= LATENCY_NS_MAX).ok_or_else(|| {
        InputError::new(format!("delay `{text}` of topology `{name}`"), "a time up to 1s")
            .help(format!("{pattern}; a delay is like 886.5us or 20ms"))
    })
}

/// Three tiers at the paper's speed and latencies; radices (down, up) by tier.
fn fat_tree(nodes: u32, podsize: u32, radices: [(u32, u32); 3]) -> FatTreeSpec {
    let [tor, agg, core] = radices.map(|(down, up)| tier(800, down, up));
    let tier = [tor, agg, core, TierSpec::default()];
    with_oversubscription(FatTreeSpec { nodes, tiers: 3, podsize, tier, wan: None })
}

/// Every leaf has one link to every spine. Numbers that overflow give zero hosts, which no check
/// passes.
fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32, gbps: u32) -> FatTreeSpec {
    let nodes = leaves.checked_mul(hosts_per_leaf).unwrap_or(0);
    let [none, leaf, spine] =
        [TierSpec::default(), tier(gbps, hosts_per_leaf, spines), tier(gbps, leaves, 0)];
    let tier = [leaf, spine, none, none];
    with_oversubscription(FatTreeSpec { nodes, tiers: 2, podsize: nodes, tier, wan: None })
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
    for tier in 0..tree.levels() {
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
    fn the_two_datacentres_of_uno_are_as_far_apart_as_in_its_simulator() {
        let tree = by_name("two-dc").unwrap();
        assert_eq!((tree.nodes, tree.site_hosts(), tree.sites()), (256, 128, 2));
        let switches = [0, 1, 2, 3].map(|tier| tree.switches(tier));
        assert_eq!(switches, [64, 64, 32, 2]);
        assert_eq!((tree.border().radix_down, tree.border().radix_up), (128, 8));
        let (packet, ack) = (Bytes(4160), Bytes(64));
        assert_eq!(tree.site_rtt(packet, ack).as_ps(), 14_027_520);
        // Nine links of 332.8 ns and 5.12 ns, eight of them of 1 us, both ways.
        assert_eq!(tree.base_rtt(packet, ack).as_ps(), 1_792_041_280);
        assert_eq!(tree, by_name("two-dc:8,8,886.5us,100").unwrap());
        let ratio = by_name("two-dc:4,3,46.5us,400").unwrap();
        assert_eq!((ratio.nodes, ratio.border().radix_up), (32, 3));
        assert_eq!(ratio.wan, Some(WanSpec { gbps: 400, latency_ns: 46_500 }));
    }

    #[test]
    fn a_dumbbell_is_as_long_as_it_is_said_to_be() {
        let tree = by_name("dumbbell:2,100,1ms").unwrap();
        let plain = by_name("dumbbell:2").unwrap();
        let longer = tree.latency_via(1).saturating_sub(plain.latency_via(1));
        assert_eq!(longer, transport::Duration::from_ns(2 * (500_000 - 600)));
        assert_eq!(tree.latency_via(0), plain.latency_via(0));
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
            "dumbbell:2,100,x",
            "dumbbell:2,100,1ms,4",
            "two-dc:",
            "two-dc:7",
            "two-dc:8,0",
            "two-dc:8,8,2s",
            "two-dc:8,8,1ms,100,3",
            "two-dc:1000000",
        ] {
            assert!(by_name(name).is_err(), "{name}");
        }
    }
}
