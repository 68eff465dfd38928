//! Groups of hosts that have one address prefix.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::{Addressing, Hosts, IpVersion};
use crate::units::HostId;

/// Which hosts are in one group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Groups {
    /// No host is in a group.
    #[default]
    None,
    /// Hosts whose numbers are in one run of this length; above zero.
    Runs(u32),
    /// The group of each host by its number; hosts behind the end are in none.
    Listed(Arc<[u32]>),
}

impl Groups {
    /// The group that `host` is in.
    #[must_use]
    pub fn of(&self, host: HostId) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Runs(length) => host.0.checked_div(*length),
            Self::Listed(groups) => groups.get(usize::try_from(host.0).ok()?).copied(),
        }
    }
}

/// Bits of an IPv4 address that hosts of a group have in common: those of a usual subnet.
const PREFIX_V4: u32 = 24;
/// Bits of an IPv6 address that hosts of a group have in common: those of a link (RFC 4291, 2.5.4).
const PREFIX_V6: u32 = 64;
/// Hosts of an emulated /24.
const EMULATED_RUN: u32 = 254;

/// `ip` without the bits behind its prefix.
fn prefix(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => (ip.to_bits() >> (32 - PREFIX_V4)).into(),
        IpAddr::V6(ip) => ip.to_bits() >> (128 - PREFIX_V6),
    }
}

impl Addressing {
    /// Hosts by address prefix: the first 24 bits of IPv4, the first 64 of IPv6.
    #[must_use]
    pub fn groups(&self) -> Groups {
        let table = match &self.hosts {
            Hosts::Emulated(IpVersion::V4) => return Groups::Runs(EMULATED_RUN),
            // All are of one prefix.
            Hosts::Emulated(IpVersion::V6) => return Groups::Runs(u32::MAX),
            Hosts::Table(table) => table,
        };
        let mut known: Vec<u128> = table.hosts.iter().map(|host| prefix(host.ip)).collect();
        known.sort_unstable();
        known.dedup();
        let group =
            |ip| known.binary_search(&prefix(ip)).ok().and_then(|at| u32::try_from(at).ok());
        Groups::Listed(table.hosts.iter().filter_map(|host| group(host.ip)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AddressTable, HostAddr};
    use super::*;

    fn table(ips: &[&str]) -> Groups {
        let host = |ip: &&str| HostAddr { mac: [2, 0, 0, 0, 0, 1], ip: ip.parse().unwrap() };
        let table = AddressTable::new(ips.iter().map(host).collect()).unwrap();
        Addressing::table(table).groups()
    }

    #[test]
    fn hosts_of_one_prefix_are_one_group_and_others_none_of_it() {
        let groups = table(&["10.0.2.7", "10.0.1.1", "10.0.2.200", "10.1.2.7"]);
        let of = |host| groups.of(HostId(host)).unwrap();
        assert_eq!(of(0), of(2));
        assert!(of(0) != of(1) && of(0) != of(3) && of(1) != of(3));
        assert_eq!(groups.of(HostId(4)), None);
        let groups = table(&["fd00::1", "fd00::2:0:0:1", "fd00:0:0:1::1"]);
        let of = |host| groups.of(HostId(host)).unwrap();
        assert!(of(0) == of(1) && of(0) != of(2));
    }

    #[test]
    fn emulated_hosts_are_in_the_groups_of_their_addresses() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let addressing = Addressing::emulated(version);
            let groups = addressing.groups();
            for (one, other) in [(0, 1), (0, 253), (253, 254), (254, 507), (507, 508), (3, 70_000)]
            {
                let ip = |host| prefix(addressing.addr(HostId(host)).unwrap().ip);
                let group = |host| groups.of(HostId(host)).unwrap();
                assert_eq!(group(one) == group(other), ip(one) == ip(other), "{one} {other}");
            }
        }
    }
}
