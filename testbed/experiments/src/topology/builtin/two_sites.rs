//! Two sites of any number of hosts, joined by a long link: one leaf, one spine and one border
//! switch a site.
//!
//! This is the network of hosts of two sites, where only the sites of hosts are given. Links
//! between switches carry what all hosts of a site send, so hosts' links alone limit flows.
//! Latencies inside a site are those of \[smartt\] sec. IV, and the sites are as far apart as in
//! \[mlcc\] sec. 4.1.

use super::parameters::{GBPS_DEFAULT, Kind, optional, required};
use super::{NamedNetwork, shapes};
use crate::topology::spec::{FatTreeSpec, TierSpec, WanSpec};

/// Two sites of any number of hosts.
pub(super) const NETWORKS: &[NamedNetwork] = &[NamedNetwork {
    name: "two-sites",
    parameters: &[
        required("HOSTS_PER_SITE", Kind::Number),
        optional("GBPS", Kind::Speed),
        optional("DELAY", Kind::Delay),
    ],
    about: "two sites of a leaf, a spine and a border switch, not oversubscribed; DELAY between \
            the sites, 3ms if not given",
    spec: |&[hosts, gbps, delay, ..]| {
        let (hosts, gbps) = (hosts.unwrap_or_default(), gbps.unwrap_or(GBPS_DEFAULT));
        let nodes = hosts.checked_mul(2).ok_or("fewer hosts")?;
        let [leaf, above] = [hosts, 1].map(|down| shapes::tier(gbps, down, 1));
        let tree = FatTreeSpec {
            nodes,
            tiers: 2,
            podsize: hosts,
            tier: [leaf, above, above, TierSpec::default()],
            wan: Some(WanSpec { gbps, latency_ns: delay.unwrap_or(WAN_NS), borders: 1 }),
            ..FatTreeSpec::default()
        };
        Ok(tree.with_hosts_at(gbps.saturating_mul(1000)))
    },
}];

//= mlcc#4.1
const WAN_NS: u32 = 3_000_000;

#[cfg(test)]
mod tests {
    use crate::topology::by_name;
    use transport::{Bytes, Rate};

    #[test]
    fn hosts_speed_and_distance_are_parameters_and_no_link_is_oversubscribed() {
        let tree = by_name("two-sites:3,10,1ms").unwrap();
        assert_eq!((tree.nodes, tree.site_hosts(), tree.sites()), (6, 3, 2));
        assert_eq!([0, 1, 2].map(|tier| tree.switches(tier)), [2, 2, 2]);
        assert_eq!([0, 1, 2].map(|tier| tree.tier[tier].downlink_mbps), [10_000, 30_000, 30_000]);
        assert_eq!([0, 1, 2].map(|tier| tree.oversubscription(tier)), [1; 3]);
        assert_eq!(tree.wan.map(|wan| (wan.gbps, wan.latency_ns)), Some((30, 1_000_000)));
        let far = by_name("two-sites:1").unwrap();
        assert_eq!((far.nodes, far.tier[0].downlink_mbps), (2, 100_000));
        assert!(far.base_rtt(Bytes(1000), Bytes(100)).as_us_f64() > 6000.0);
        assert!(by_name("two-sites:4294967295").is_err());
    }

    #[test]
    fn links_of_hosts_are_as_fast_as_their_devices_to_the_megabit() {
        for (name, mbps) in [("leaf-spine:1,1,3", 10), ("two-sites:3", 2500), ("two-sites:2", 10)] {
            let tree = by_name(name).unwrap().with_hosts_at(mbps);
            assert_eq!(tree.check(), Ok(()), "{name}");
            assert_eq!(tree.tier[0].link_rate(), Rate::from_bps(u64::from(mbps) * 1_000_000));
            let all = (0..tree.levels()).map(|tier| tree.oversubscription(tier));
            assert!(all.max() == Some(1) || name.starts_with("leaf"), "{name}");
        }
    }
}
