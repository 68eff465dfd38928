//! Which switches of a tree links join.

use super::FatTree;

/// The links between two switches, or those of a switch to the other site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The tier of the lower switch, or of both.
    pub tier: u8,
    /// The lower switch, counted in its tier.
    pub below: u32,
    /// The upper switch, counted in its own tier; of a border switch the other one.
    pub above: u32,
}

impl FatTree {
    /// Every link between switches once, those of schedulers excepted. O(links).
    pub fn uplinks(&self) -> impl Iterator<Item = Uplink> + '_ {
        let spec = self.spec();
        let switches = (0..spec.levels())
            .flat_map(move |tier| (0..spec.switches(tier)).map(move |s| (tier, s)));
        // Links between sites have two upper ends: they count at the first.
        let first = move |&(tier, switch): &(u8, u32)| tier < spec.tiers || switch < spec.borders();
        switches.filter(first).flat_map(move |(tier, below)| {
            (0..self.ups_of(tier, below)).map(move |up| {
                let above = if tier == spec.tiers {
                    self.across(below, up).0
                } else {
                    self.above(tier, below, up).0
                };
                Uplink { tier, below, above }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::by_name;

    #[test]
    fn every_link_between_switches_is_there_once() {
        for name in [
            "leaf-spine:4,4,4",
            "ft1024-8os",
            "two-dc:4",
            "two-dc-leaf:1ms,100,2,8,3",
            "zeropod:8,2,3",
        ] {
            let tree = FatTree::new(by_name(name).unwrap()).unwrap();
            let spec = tree.spec();
            let asides: u32 = (0..2).map(|tier| spec.switches(tier) * spec.asides(tier)).sum();
            let links = tree.links() - spec.nodes - asides;
            assert_eq!(tree.uplinks().count(), links as usize, "{name}");
        }
    }
}
