//! The emulated testbed of \[smartt\] sec. IV: 100 Gb/s, four leaves below four spines.

use super::NamedNetwork;
use super::shapes::leaf_spine;

/// The testbed of SMaRTT's paper.
pub(super) const NETWORKS: &[NamedNetwork] = &[NamedNetwork {
    name: "paper-testbed",
    parameters: &[],
    about: "16 hosts, 4 leaves, 4 spines, 100 Gb/s",
    spec: |_| Ok(leaf_spine(4, 4, 4, 100)),
}];

#[cfg(test)]
mod tests {
    use crate::topology::by_name;

    #[test]
    fn the_papers_testbed_has_four_leaves_four_spines_and_sixteen_hosts() {
        let tree = by_name("paper-testbed").unwrap();
        assert_eq!((tree.nodes, tree.tors(), tree.aggs(), tree.cores()), (16, 4, 4, 0));
        assert_eq!(tree, by_name("leaf-spine:4,4,4").unwrap());
    }
}
