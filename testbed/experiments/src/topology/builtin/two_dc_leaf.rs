//! Two sites of leaves and spines with a border switch each, joined by a long link.
//!
//! Source: \[mlcc\] sec. 4.1. A site has two spines and four leaves. Links to hosts have 25 Gb/s
//! and 1 us, links between switches 100 Gb/s and 5 us. Oversubscription is 4:1, so a leaf has 32
//! hosts. The sites are 3 ms apart. Several border switches a site are ours. Buffers of 22 MB a
//! switch and 128 MB at the border are the transport's settings: they are shared by ports there.

use super::parameters::{GBPS_DEFAULT, Kind, Values, optional, required};
use super::{NamedNetwork, shapes};
use crate::topology::spec::{FatTreeSpec, TierSpec, WanSpec};

/// The paper's two sites, and the family.
pub(super) const NETWORKS: &[NamedNetwork] = &[
    NamedNetwork {
        name: "two-dc-leaf",
        parameters: &[],
        about: "two sites of 128 hosts, 25 Gb/s, 4:1 oversubscribed; a link of 100 Gb/s, 3 ms",
        spec: two_dc_leaf,
    },
    NamedNetwork {
        name: "two-dc-leaf",
        parameters: &[
            required("DELAY", Kind::Delay),
            optional("GBPS", Kind::Speed),
            optional("WAN_LINKS", Kind::Number),
            optional("HOSTS_PER_LEAF", Kind::Number),
            optional("BORDERS", Kind::Number),
        ],
        about: "the same sites with BORDERS border switches each, every two of which are joined by \
                WAN_LINKS links of GBPS and DELAY",
        spec: two_dc_leaf,
    },
];

//= mlcc#4.1
const LEAVES: u32 = 4;
const SPINES: u32 = 2;
const HOSTS: u32 = 32;
const HOST_GBPS: u32 = 25;
const FABRIC_GBPS: u32 = 100;
const HOST_NS: u32 = 1000;
const FABRIC_NS: u32 = 5000;
const WAN_NS: u32 = 3_000_000;

fn two_dc_leaf(
    &[delay, gbps, links, hosts, borders]: &Values,
) -> Result<FatTreeSpec, &'static str> {
    let (hosts, links) = (hosts.unwrap_or(HOSTS), links.unwrap_or(1));
    let borders = borders.unwrap_or(1);
    let ups = links.checked_mul(borders).ok_or("fewer links")?;
    let tier = |radix_down, radix_up, (gbps, downlink_latency_ns): (u32, u32)| TierSpec {
        switch_latency_ns: 0,
        downlink_latency_ns,
        ..shapes::tier(gbps, radix_down, radix_up)
    };
    let fabric = (FABRIC_GBPS, FABRIC_NS);
    let leaf = tier(hosts, SPINES, (HOST_GBPS, HOST_NS));
    let site = LEAVES.checked_mul(hosts).ok_or("fewer hosts")?;
    let tree = FatTreeSpec {
        nodes: site.checked_mul(2).ok_or("fewer hosts")?,
        tiers: 2,
        podsize: site,
        tier: [leaf, tier(LEAVES, borders, fabric), tier(SPINES, ups, fabric), TierSpec::default()],
        wan: Some(WanSpec {
            gbps: gbps.unwrap_or(GBPS_DEFAULT),
            latency_ns: delay.unwrap_or(WAN_NS),
            borders,
        }),
        ..FatTreeSpec::default()
    };
    Ok(tree.with_oversubscription())
}

#[cfg(test)]
mod tests {
    use transport::Bytes;

    use super::*;
    use crate::topology::by_name;

    #[test]
    fn the_network_of_the_paper_has_its_round_trips_and_four_to_one() {
        let tree = by_name("two-dc-leaf").unwrap();
        assert_eq!((tree.nodes, tree.site_hosts(), tree.sites()), (256, 128, 2));
        assert_eq!([0, 1, 2].map(|tier| tree.switches(tier)), [8, 4, 2]);
        assert_eq!(tree.tier[0].oversubscribed, 4);
        // Two links of 1 us, four of 5 us and the long one, both ways, and what packets take:
        // 1090 and 102 bytes at 25 Gb/s twice, at 100 Gb/s five times.
        let rtt = tree.base_rtt(Bytes(1090), Bytes(102)).as_ps();
        let packets = 2 * (348_800 + 32_640) + 5 * (87_200 + 8160);
        assert_eq!(rtt, 2 * (2 * 1_000_000 + 4 * 5_000_000 + 3_000_000_000) + packets);
        assert_eq!(tree, by_name("two-dc-leaf:3ms,100,1,32").unwrap());
        let near = by_name("two-dc-leaf:1ms,400,2").unwrap();
        assert_eq!(near.wan, Some(WanSpec { gbps: 400, latency_ns: 1_000_000, borders: 1 }));
        assert_eq!(near.border().radix_up, 2);
        let several = by_name("two-dc-leaf:1ms,100,2,8,3").unwrap();
        assert_eq!([0, 1, 2].map(|tier| several.switches(tier)), [8, 4, 6]);
        assert_eq!((several.border().radix_down, several.border().radix_up), (2, 6));
        assert_eq!(several.tier[1].radix_up, 3);
    }
}
