//! Two tiers of any size: every leaf is linked to every spine.

use super::parameters::{GBPS_DEFAULT, Kind, optional, required};
use super::{NamedNetwork, shapes};

/// Leaf-spine networks of any number of leaves and spines.
pub(super) const NETWORKS: &[NamedNetwork] = &[NamedNetwork {
    name: "leaf-spine",
    parameters: &[
        required("LEAVES", Kind::Number),
        required("SPINES", Kind::Number),
        required("HOSTS_PER_LEAF", Kind::Number),
        optional("GBPS", Kind::Speed),
    ],
    about: "two tiers, every leaf linked to every spine",
    spec: |values| {
        let [leaves, spines, hosts, ..] = values.map(Option::unwrap_or_default);
        Ok(shapes::leaf_spine(leaves, spines, hosts, values[3].unwrap_or(GBPS_DEFAULT)))
    },
}];

#[cfg(test)]
mod tests {
    use crate::topology::by_name;

    #[test]
    fn leaves_spines_hosts_and_speed_are_parameters() {
        let tree = by_name("leaf-spine:8,2,16,400").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs()), (128, 8, 2));
        assert_eq!((tree.tier[0].oversubscribed, tree.tier[1].downlink_mbps), (8, 400_000));
    }
}
