//! Shapes that several networks have: two tiers with all links between them, and three tiers.

use crate::topology::spec::{FatTreeSpec, TierSpec};

/// Every leaf has one link to every spine. Numbers that overflow give zero hosts, which no check
/// passes.
pub(super) fn leaf_spine(leaves: u32, spines: u32, hosts_per_leaf: u32, gbps: u32) -> FatTreeSpec {
    let nodes = leaves.checked_mul(hosts_per_leaf).unwrap_or(0);
    let [none, leaf, spine] =
        [TierSpec::default(), tier(gbps, hosts_per_leaf, spines), tier(gbps, leaves, 0)];
    let tier = [leaf, spine, none, none];
    FatTreeSpec { nodes, tiers: 2, podsize: nodes, tier, ..FatTreeSpec::default() }
        .with_oversubscription()
}

/// A tier at the latencies of \[smartt\] sec. IV.
pub(super) fn tier(gbps: u32, radix_down: u32, radix_up: u32) -> TierSpec {
    TierSpec {
        downlink_mbps: gbps.saturating_mul(1000),
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
