//! Two datacentres: fat trees of switches with RADIX ports, joined by links between the border
//! switches of both.
//!
//! Source: \[uno\] sec. 5.1: two 8-ary fat trees of 128 hosts with one border switch each, and
//! eight links between the border switches. Links have 100 Gb/s and 1 us, and links between the
//! sites have 886.5 us, as in the paper's simulator. The round trip between the farthest hosts is
//! then 128 times the 14 us inside; the paper says 2 ms. A border switch has RADIX links to every
//! switch of its site's top tier, as many as that switch has down.

use transport::Bytes;

use super::NamedNetwork;
use super::parameters::{GBPS_DEFAULT, Kind, Values, optional, required};
use crate::topology::spec::{FatTreeSpec, TierSpec, WanSpec};

/// The paper's two sites, and the family.
pub(super) const NETWORKS: &[NamedNetwork] = &[
    NamedNetwork {
        name: "two-dc",
        parameters: &[],
        about: "two sites of 128 hosts, 3 tiers, 100 Gb/s; 8 links of 886.5 us join them",
        spec: two_dc,
    },
    NamedNetwork {
        name: "two-dc",
        parameters: &[
            required("RADIX", Kind::Number),
            optional("WAN_LINKS", Kind::Number),
            optional("DELAY", Kind::Delay),
            optional("GBPS", Kind::Speed),
        ],
        about: "two fat trees of RADIX^3 / 4 hosts, joined by links of DELAY, 886.5us if not given",
        spec: two_dc,
    },
];

/// Ports of a switch below the border.
const RADIX: u32 = 8;
/// The largest radix: half a million hosts a site.
const RADIX_MAX: u32 = 128;
/// One way between border switches, so that the longest base RTT is 128 times that of a site.
const WAN_DELAY_NS: u32 = 886_500;

fn two_dc(&[radix, links, delay, gbps, ..]: &Values) -> Result<FatTreeSpec, &'static str> {
    let radix = radix.unwrap_or(RADIX);
    let (links, gbps) = (links.unwrap_or(radix), gbps.unwrap_or(GBPS_DEFAULT));
    if !radix.is_multiple_of(2) || radix > RADIX_MAX {
        return Err("an even radix up to 128");
    }
    let half = radix / 2;
    let cores = half * half;
    let tier = |radix_down, radix_up, bundle| TierSpec {
        downlink_mbps: gbps.saturating_mul(1000),
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
    let border = tier(cores * radix, links, radix);
    let tree = FatTreeSpec {
        nodes: 2 * radix * cores,
        tiers: 3,
        podsize: cores,
        tier: [tier(half, half, 1), tier(half, half, 1), tier(radix, radix, 1), border],
        wan: Some(WanSpec { gbps, latency_ns: delay.unwrap_or(WAN_DELAY_NS), borders: 1 }),
        ..FatTreeSpec::default()
    };
    Ok(tree.with_oversubscription())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::by_name;

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
        assert_eq!(ratio.wan, Some(WanSpec { gbps: 400, latency_ns: 46_500, borders: 1 }));
    }
}
