//! The fat trees of \[smartt\] sec. IV: three tiers, 800 Gb/s, links of 600 ns, switches of 400 ns,
//! in the radices of uet-htsim's files of 128, 1024 and 8192 hosts.

use super::NamedNetwork;
use super::shapes::tier;
use crate::topology::{FatTreeSpec, TierSpec};

/// Makes `NETWORKS` of the numbers of trees without parameters.
macro_rules! fat_trees {
    ($($name:literal, $about:literal, $nodes:literal, $podsize:literal, $radices:expr;)+) => {
        /// The trees: `ft<hosts>-<oversubscription>os`.
        pub(super) const NETWORKS: &[NamedNetwork] = &[$(NamedNetwork {
            name: $name,
            parameters: &[],
            about: $about,
            spec: |_| Ok(fat_tree($nodes, $podsize, $radices)),
        }),+];
    };
}

// Name, sentence, hosts, hosts of a pod, radices (down, up) by tier.
fat_trees! {
    "ft128-1os", "128 hosts, 3 tiers, 800 Gb/s, not oversubscribed",
        128, 16, [(4, 4), (4, 4), (8, 0)];
    "ft128-4os", "128 hosts, 3 tiers, 800 Gb/s, oversubscribed 4:1",
        128, 16, [(4, 4), (4, 1), (8, 0)];
    "ft128-8os", "128 hosts, 3 tiers, 800 Gb/s, oversubscribed 8:1",
        128, 16, [(4, 1), (4, 2), (8, 0)];
    "ft1024-1os", "1024 hosts, 3 tiers, 800 Gb/s, not oversubscribed",
        1024, 64, [(8, 8), (8, 8), (16, 0)];
    "ft1024-2os", "1024 hosts, 3 tiers, 800 Gb/s, oversubscribed 2:1",
        1024, 64, [(8, 4), (8, 8), (16, 0)];
    "ft1024-4os", "1024 hosts, 3 tiers, 800 Gb/s, oversubscribed 4:1",
        1024, 64, [(8, 2), (8, 8), (16, 0)];
    "ft1024-8os", "1024 hosts, 3 tiers, 800 Gb/s, oversubscribed 8:1",
        1024, 64, [(8, 2), (8, 4), (16, 0)];
    "ft8192-1os", "8192 hosts, 3 tiers, 800 Gb/s, not oversubscribed",
        8192, 256, [(16, 16), (16, 16), (32, 0)];
}

/// Three tiers at the paper's speed and latencies; radices (down, up) by tier.
fn fat_tree(nodes: u32, podsize: u32, radices: [(u32, u32); 3]) -> FatTreeSpec {
    let [tor, agg, core] = radices.map(|(down, up)| tier(800, down, up));
    let tier = [tor, agg, core, TierSpec::default()];
    FatTreeSpec { nodes, tiers: 3, podsize, tier, ..FatTreeSpec::default() }.with_oversubscription()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::by_name;

    #[test]
    fn trees_are_as_large_and_as_oversubscribed_as_their_names_say() {
        for network in NETWORKS {
            let tree = by_name(network.name).unwrap();
            let ratio: u32 = (0..tree.levels()).map(|tier| tree.oversubscription(tier)).product();
            assert_eq!(network.name, format!("ft{}-{ratio}os", tree.nodes));
        }
    }
}
