//! Pods of \[zeropod\] sec. V-A, of switches with K ports: K/2 ToRs with K/2 hosts each, K/2
//! aggregation switches, and a scheduler with a link to all of them. Every hop takes 1 us.

use transport::wire::pod::AGGS_MAX;

use super::parameters::{GBPS_DEFAULT, Kind, Parameter, Values, required};
use super::{Network, shapes};
use crate::topology::FatTreeSpec;

const PARAMETERS: &[Parameter] = &[required("K", Kind::Number)];

/// The paper's pod, and the same one with links of the double rate.
pub(super) const NETWORKS: &[Network] = &[
    Network {
        name: "zeropod",
        parameters: PARAMETERS,
        about: "a pod with a scheduler: K/2 ToRs of K/2 hosts, K/2 switches above, 100 Gbps, 1 us",
        spec: |values| pod(values, GBPS_DEFAULT),
    },
    Network {
        name: "zeropod-2x",
        parameters: PARAMETERS,
        about: "the pod of zeropod:K with links of 200 Gbps",
        spec: |values| pod(values, 2 * GBPS_DEFAULT),
    },
];

//= zeropod#V-A
fn pod(values: &Values, gbps: u32) -> Result<FatTreeSpec, &'static str> {
    let radix = values[0].unwrap_or_default();
    if !radix.is_multiple_of(2) || !(4..=2 * AGGS_MAX).contains(&radix) {
        return Err("an even number of ports, 4 to 64");
    }
    let half = radix / 2;
    let mut tree = shapes::leaf_spine(half, half, half, gbps);
    for tier in &mut tree.tier[..2] {
        (tier.downlink_latency_ns, tier.switch_latency_ns) = (1000, 0);
    }
    tree.schedulers = true;
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use crate::topology::by_name;
    use transport::{Bytes, Duration};

    #[test]
    fn the_papers_pod_has_256_hosts_and_four_hops_of_a_microsecond() {
        let tree = by_name("zeropod:32").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs(), tree.pods()), (256, 16, 16, 1));
        assert_eq!(tree.base_rtt(Bytes::ZERO, Bytes::ZERO), Duration::from_us(8));
        assert_eq!(by_name("zeropod-2x:8").unwrap().tier[0].downlink_gbps, 200);
        for wrong in ["zeropod:2", "zeropod:7", "zeropod:66", "zeropod:x", "zeropod"] {
            assert!(by_name(wrong).is_err(), "{wrong}");
        }
    }
}
