//! Pods of \[zeropod\] sec. V-A, of switches with K ports: K/2 ToRs with K/2 hosts each, K/2
//! aggregation switches, and a scheduler with a link to all of them. Every hop takes 1 us. Several
//! pods are joined by Cores in any number, each with a link to one aggregation switch of every pod.

use transport::wire::pod::{AGGS_MAX, LAYERS_MAX, PODS_MAX};

use super::parameters::{GBPS_DEFAULT, Kind, NetworkParameter, Values, optional, required};
use super::{NamedNetwork, shapes};
use crate::topology::{FatTreeSpec, TierSpec};

const PARAMETERS: &[NetworkParameter] =
    &[required("K", Kind::Number), optional("PODS", Kind::Number), optional("CORES", Kind::Number)];

/// The paper's pod, and the same one with links of the double rate.
pub(super) const NETWORKS: &[NamedNetwork] = &[
    NamedNetwork {
        name: "zeropod",
        parameters: PARAMETERS,
        about: "pods with schedulers: K/2 ToRs of K/2 hosts, K/2 switches above, 100 Gb/s, 1 us",
        spec: |values| pod(values, GBPS_DEFAULT, 1),
    },
    NamedNetwork {
        name: "zeropod-2x",
        parameters: PARAMETERS,
        about: "the pods of zeropod:K with links of 200 Gb/s",
        spec: |values| pod(values, 2 * GBPS_DEFAULT, 1),
    },
    NamedNetwork {
        name: "zeropod-ha",
        parameters: PARAMETERS,
        about: "the pods of zeropod:K, each with a backup of its scheduler",
        spec: |values| pod(values, GBPS_DEFAULT, 2),
    },
];

//= zeropod#V-A
fn pod(values: &Values, gbps: u32, schedulers: u32) -> Result<FatTreeSpec, &'static str> {
    let radix = values[0].unwrap_or_default();
    if !radix.is_multiple_of(2) || !(4..=2 * AGGS_MAX).contains(&radix) {
        return Err("an even number of ports, 4 to 64");
    }
    let half = radix / 2;
    let mut tree = match (values[1], values[2]) {
        (None, _) => shapes::leaf_spine(half, half, half, gbps),
        (Some(pods), Some(cores)) => joined(half, pods, cores, gbps)?,
        (Some(_), None) => return Err("Cores beside the pods: K,PODS,CORES"),
    };
    for tier in &mut tree.tier[..usize::from(tree.tiers)] {
        (tier.downlink_latency_ns, tier.switch_latency_ns) = (1000, 0);
    }
    tree.schedulers = schedulers;
    Ok(tree)
}

/// `pods` pods of `half` ToRs, hosts of each and aggregation switches, joined by `cores` Cores.
fn joined(half: u32, pods: u32, cores: u32, gbps: u32) -> Result<FatTreeSpec, &'static str> {
    if !(2..=PODS_MAX).contains(&pods) {
        return Err("2 to 32 pods beside Cores");
    }
    if cores > half * LAYERS_MAX {
        return Err("1 to 4 K Cores: 8 at each aggregation switch of a pod");
    }
    let podsize = half * half;
    let tier = [
        shapes::tier(gbps, half, half),
        shapes::tier(gbps, half, cores.div_ceil(half)),
        shapes::tier(gbps, pods, 0),
        TierSpec::default(),
    ];
    let (nodes, dealt_cores) = (podsize * pods, Some(cores));
    let tree = FatTreeSpec { nodes, tiers: 3, podsize, tier, dealt_cores, ..Default::default() };
    Ok(tree.with_oversubscription())
}

#[cfg(test)]
mod tests {
    use crate::topology::{FabricParams, FatTree, by_name};
    use fabric::Node;
    use transport::{Bytes, Duration};

    #[test]
    fn the_papers_pod_has_256_hosts_and_four_hops_of_a_microsecond() {
        let tree = by_name("zeropod:32").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs(), tree.pods()), (256, 16, 16, 1));
        assert_eq!(tree.base_rtt(Bytes::ZERO, Bytes::ZERO), Duration::from_us(8));
        assert_eq!(by_name("zeropod-2x:8").unwrap().tier[0].downlink_mbps, 200_000);
        for wrong in ["zeropod:2", "zeropod:7", "zeropod:66", "zeropod:x", "zeropod"] {
            assert!(by_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cores_in_any_number_have_a_link_to_one_aggregation_switch_of_each_pod() {
        let spec = by_name("zeropod:8,8,7").unwrap();
        assert_eq!((spec.nodes, spec.pods(), spec.aggs(), spec.cores()), (128, 8, 32, 7));
        for cores in 1..=32 {
            let tree = FatTree::new(by_name(&format!("zeropod:8,3,{cores}")).unwrap()).unwrap();
            let ports = tree.blueprint(&FabricParams::default());
            assert_eq!(ports.ports.len(), 2 * tree.links() as usize);
            let first = tree.first_switch(2);
            for core in 0..cores {
                let to = Node::Switch(first + core);
                let links = ports.ports.iter().filter(|port| port.to == to);
                let of: Vec<Node> = links.map(|port| port.owner).collect();
                let agg = tree.first_switch(1) + core % 4;
                let aggs = (0..3).map(|pod| Node::Switch(agg + pod * 4));
                assert_eq!(of, aggs.collect::<Vec<_>>(), "Core {core} of {cores}");
            }
        }
        for (wrong, words) in [
            ("zeropod:8,8", "K,PODS,CORES"),
            ("zeropod:8,1,4", "2 to 32 pods"),
            ("zeropod:8,33,4", "2 to 32 pods"),
            ("zeropod:8,8,33", "1 to 4 K Cores"),
            ("zeropod:8,8,0", "positive"),
        ] {
            let said = by_name(wrong).unwrap_err().to_string();
            assert!(said.contains(words), "{wrong}: {said}");
        }
    }
}
