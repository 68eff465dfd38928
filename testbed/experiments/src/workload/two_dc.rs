//! Hosts in two datacentres: the first so many in one, the others in the other, as two-datacentre
//! topologies number them. No generator of its own; it divides hosts into near and far.

use std::ops::Range;

use transport::{HostId, Rng};

use super::does_not_fit;
use super::params::{Parameter, Params};
use crate::input::InputError;

/// The parameter `dc0_hosts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Hosts of the first datacentre; half of all when `None`.
    pub dc0_hosts: Option<u32>,
}

/// The hosts of each datacentre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TwoDc {
    dc0: u32,
    nodes: u32,
}

impl Division {
    pub(super) const DC0_HOSTS: Parameter =
        Parameter { name: "dc0_hosts", about: "hosts of the first datacentre (half of all)" };

    /// Reads the parameter.
    pub(super) fn from_params(params: &Params) -> Result<Self, InputError> {
        let dc0 = params.integer("dc0_hosts", 1, 1, u32::MAX)?;
        Ok(Self { dc0_hosts: Some(dc0).filter(|_| params.has("dc0_hosts")) })
    }

    /// Divides `nodes` hosts; each datacentre has at least one.
    pub(super) fn divide(self, nodes: u32) -> Result<TwoDc, InputError> {
        let dc0 = self.dc0_hosts.unwrap_or(nodes / 2);
        if dc0 == 0 || dc0 >= nodes {
            let found = format!("{dc0} of {nodes} hosts in the first datacentre");
            return Err(does_not_fit(found, "at least one host in each of the two"));
        }
        Ok(TwoDc { dc0, nodes })
    }
}

impl TwoDc {
    /// The hosts of datacentre 0 or 1.
    pub(super) const fn hosts(self, dc: usize) -> Range<u32> {
        if dc == 0 { 0..self.dc0 } else { self.dc0..self.nodes }
    }

    /// The datacentre of `host`, 0 or 1.
    pub(super) const fn dc_of(self, host: u32) -> usize {
        if host < self.dc0 { 0 } else { 1 }
    }

    /// A host of the other datacentre than that of `src`.
    pub(super) fn draw_far(self, src: u32, rng: &mut Rng) -> HostId {
        let far = self.hosts(1 - self.dc_of(src));
        HostId(far.start + below(far.end - far.start, rng))
    }

    /// Another host of the datacentre of `src`; `None` when it is alone there.
    pub(super) fn draw_near(self, src: u32, rng: &mut Rng) -> Option<HostId> {
        let near = self.hosts(self.dc_of(src));
        let others = near.end - near.start - 1;
        (others > 0).then(|| {
            let drawn = near.start + below(others, rng);
            HostId(if drawn < src { drawn } else { drawn + 1 })
        })
    }
}

/// A uniform number in `0..n`.
fn below(n: u32, rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(u64::from(n))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_in_the_own_datacentre_and_far_in_the_other() {
        let hosts = Division { dc0_hosts: Some(3) }.divide(8).unwrap();
        let mut rng = Rng::new(4);
        for src in 0..8 {
            let mut seen = [0u32; 8];
            for _ in 0..400 {
                let (near, far) = (hosts.draw_near(src, &mut rng), hosts.draw_far(src, &mut rng));
                for host in [near.unwrap(), far] {
                    seen[host.0 as usize] += 1;
                }
                assert_eq!(hosts.dc_of(near.unwrap().0), hosts.dc_of(src));
                assert_ne!(hosts.dc_of(far.0), hosts.dc_of(src));
            }
            assert_eq!(seen[src as usize], 0);
            assert!((0..8).all(|host| host == src || seen[host as usize] > 0), "{src}: {seen:?}");
        }
    }

    #[test]
    fn a_host_alone_has_no_neighbour_and_an_empty_datacentre_is_refused() {
        let hosts = Division::default().divide(3).unwrap();
        assert_eq!((hosts.hosts(0), hosts.hosts(1)), (0..1, 1..3));
        assert_eq!(hosts.draw_near(0, &mut Rng::new(1)), None);
        for (dc0_hosts, nodes) in [(Some(3), 3), (Some(4), 3), (None, 1)] {
            assert!(Division { dc0_hosts }.divide(nodes).is_err());
        }
    }
}
