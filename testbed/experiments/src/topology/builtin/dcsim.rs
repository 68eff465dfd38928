//! The fat tree of \[dcsim\] sec. 4.1: k = 8, 128 hosts, 800 Gb/s, 500 KB a port. The paper's links
//! of 200 ns and switches of 450 ns are links of 650 ns here, since its hosts take 450 ns too.

use transport::Bytes;

use super::NamedNetwork;
use super::shapes::tier;
use crate::topology::{FatTreeSpec, TierSpec};

/// The fat tree of DCsim's paper, and that of its figure 8.
pub(super) const NETWORKS: &[NamedNetwork] = &[
    NamedNetwork {
        name: "dcsim",
        parameters: &[],
        about: "128 hosts, 3 tiers, 800 Gb/s, 650 ns a hop, 500 KB a port: DCsim's",
        spec: |_| Ok(tree()),
    },
    NamedNetwork {
        name: "dcsim-half",
        parameters: &[],
        about: "the network of dcsim, whose even core switches send at 1 % of their rate",
        spec: |_| Ok(FatTreeSpec { faults: &HALF, ..tree() }),
    },
];

/// The paper names no direction: the ports of these switches are slow, the links up to them not.
//= dcsim#4.2: core switches of odd number stay, and the others have 1 % of their rate.
const HALF: [&str; 8] = [
    "degrade:0.01@core:0:down",
    "degrade:0.01@core:2:down",
    "degrade:0.01@core:4:down",
    "degrade:0.01@core:6:down",
    "degrade:0.01@core:8:down",
    "degrade:0.01@core:10:down",
    "degrade:0.01@core:12:down",
    "degrade:0.01@core:14:down",
];

//= dcsim#4.1
fn tree() -> FatTreeSpec {
    let queue = Some(Bytes(500_000));
    let tier = |radix_down, radix_up| TierSpec {
        queue_down: queue,
        queue_up: queue.filter(|_| radix_up > 0),
        switch_latency_ns: 0,
        downlink_latency_ns: 650,
        ..tier(800, radix_down, radix_up)
    };
    let tier = [tier(4, 4), tier(4, 4), tier(8, 0), TierSpec::default()];
    FatTreeSpec { nodes: 128, tiers: 3, podsize: 16, tier, ..FatTreeSpec::default() }
        .with_oversubscription()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::by_name;
    use transport::Duration;

    #[test]
    fn its_round_trip_without_transmission_is_the_papers() {
        let tree = by_name("dcsim").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs(), tree.cores()), (128, 32, 32, 16));
        assert_eq!(tree.base_rtt(Bytes::ZERO, Bytes::ZERO), Duration::from_ns(7800));
    }
}
