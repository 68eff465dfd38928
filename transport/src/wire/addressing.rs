//! The MAC and IP address of each host: computed in emulated worlds, from a table on real NICs.
//!
//! Emulated hosts need no configuration: IPv4 10.x.y.z with z in 1..=254, IPv6 in one /64 of
//! fd00::/8 (RFC 4193), locally administered MACs. It does not resolve addresses (no ARP, no
//! neighbour discovery).

mod groups;

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::units::HostId;

pub use groups::Groups;

/// The IP version of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersion {
    /// IPv4, no options: 20 octets.
    V4,
    /// IPv6, no extension headers: 40 octets.
    V6,
}

/// The addresses of one host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostAddr {
    /// Ethernet address; on a routed path the next hop's, when this is a destination.
    pub mac: [u8; 6],
    /// IP address.
    pub ip: IpAddr,
}

/// Both ends of a frame; the IP versions cannot differ. Cheap to keep per peer: 48 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddrPair {
    /// MAC of the sender.
    pub src_mac: [u8; 6],
    /// MAC of the receiver or of the next hop.
    pub dst_mac: [u8; 6],
    /// IP addresses.
    pub ip: IpPair,
    /// UDP destination port.
    pub udp_port: u16,
}

/// Source and destination IP of one version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpPair {
    /// IPv4.
    V4 {
        /// Sender.
        src: Ipv4Addr,
        /// Receiver.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Sender.
        src: Ipv6Addr,
        /// Receiver.
        dst: Ipv6Addr,
    },
}

/// How [`HostId`]s map to addresses, and the UDP port that all of them listen at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addressing {
    hosts: Hosts,
    udp_port: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Hosts {
    /// Addresses computed from the host number; no state.
    Emulated(IpVersion),
    /// Addresses from a table, for real NICs.
    Table(AddressTable),
}

/// UDP destination port of Headrace packets unless operators choose another. It is near the ports
/// of RoCEv2 (4791) and UET (4793), but different from both.
pub const UDP_PORT: u16 = 4797;

/// Explicit addresses: host i has the i-th entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressTable {
    hosts: Vec<HostAddr>,
    /// The hosts by address, scattered over at least twice as many places, a power of two: each in
    /// the first place free from that of its address on.
    by_ip: Vec<Option<(u128, HostId)>>,
    version: IpVersion,
}

/// Why a list of addresses is not a table. Hosts are named by their place in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressError {
    /// The list is empty, or longer than a host number reaches.
    Count,
    /// This host's IP version differs from host 0's.
    MixedVersions(HostId),
    /// This host's IP or MAC is not the address of one machine (multicast, broadcast or all zero).
    NotUnicast(HostId),
    /// Two hosts have one IP address.
    Duplicate(HostId, HostId),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => {
                f.write_str("address table: expected at least one host; list one {mac, ip} a host")
            }
            Self::MixedVersions(host) => {
                write!(
                    f,
                    "address table: host {host} and host 0 differ in IP version; use one for all"
                )
            }
            Self::NotUnicast(host) => {
                write!(f, "address table: host {host} needs a unicast MAC and IP address")
            }
            Self::Duplicate(a, b) => {
                write!(f, "address table: hosts {a} and {b} have one IP address; give each its own")
            }
        }
    }
}

impl core::error::Error for AddressError {}

impl IpVersion {
    /// Octets of an address.
    #[must_use]
    pub const fn address_len(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    /// Octets of the IP header.
    #[must_use]
    pub const fn header_len(self) -> u16 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

impl AddrPair {
    /// A frame from `src` to port `udp_port` of `dst`; `None` when one is IPv4 and the other IPv6.
    #[must_use]
    pub fn new(src: &HostAddr, dst: &HostAddr, udp_port: u16) -> Option<Self> {
        let ip = match (src.ip, dst.ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => IpPair::V4 { src, dst },
            (IpAddr::V6(src), IpAddr::V6(dst)) => IpPair::V6 { src, dst },
            _ => return None,
        };
        Some(Self { src_mac: src.mac, dst_mac: dst.mac, ip, udp_port })
    }

    /// The IP version of both ends.
    #[must_use]
    pub const fn version(&self) -> IpVersion {
        match self.ip {
            IpPair::V4 { .. } => IpVersion::V4,
            IpPair::V6 { .. } => IpVersion::V6,
        }
    }
}

impl Addressing {
    /// Hosts that emulated IPv4 can number: 0 .. this - 1. IPv6 numbers all of them.
    pub const EMULATED_V4_HOSTS: u32 = 254 << 16;

    /// Addresses that are computed from the host number; no state.
    #[must_use]
    pub const fn emulated(version: IpVersion) -> Self {
        Self { hosts: Hosts::Emulated(version), udp_port: UDP_PORT }
    }

    /// Addresses that are listed, for real NICs.
    #[must_use]
    pub const fn table(table: AddressTable) -> Self {
        Self { hosts: Hosts::Table(table), udp_port: UDP_PORT }
    }

    /// This addressing with another UDP port than [`UDP_PORT`].
    #[must_use]
    pub fn with_udp_port(self, udp_port: u16) -> Self {
        Self { udp_port, ..self }
    }

    /// The UDP port that every host listens at.
    #[inline]
    #[must_use]
    pub const fn udp_port(&self) -> u16 {
        self.udp_port
    }

    /// The IP version of every host.
    #[must_use]
    pub const fn version(&self) -> IpVersion {
        match &self.hosts {
            Hosts::Emulated(version) => *version,
            Hosts::Table(table) => table.version,
        }
    }

    /// The addresses of `host`; `None` when there is no such host. O(1).
    #[must_use]
    pub fn addr(&self, host: HostId) -> Option<HostAddr> {
        match &self.hosts {
            Hosts::Emulated(IpVersion::V4) => {
                Some(HostAddr { mac: emulated_mac(host), ip: emulated_v4(host)?.into() })
            }
            Hosts::Emulated(IpVersion::V6) => {
                Some(HostAddr { mac: emulated_mac(host), ip: emulated_v6(host).into() })
            }
            Hosts::Table(table) => table.hosts.get(usize::try_from(host.0).ok()?).copied(),
        }
    }

    /// Gives a listed host another MAC, which may be that of the next hop. Returns whether that was
    /// done: not for hosts that are not listed, and not for a MAC of no single machine. O(1).
    pub fn set_mac(&mut self, host: HostId, mac: [u8; 6]) -> bool {
        let Hosts::Table(table) = &mut self.hosts else { return false };
        let listed = usize::try_from(host.0).ok().and_then(|at| table.hosts.get_mut(at));
        let Some(listed) = listed.filter(|_| is_unicast(mac)) else { return false };
        listed.mac = mac;
        true
    }

    /// The addresses of a frame from `src` to `dst`; `None` when one of them does not exist.
    #[must_use]
    pub fn pair(&self, src: HostId, dst: HostId) -> Option<AddrPair> {
        AddrPair::new(&self.addr(src)?, &self.addr(dst)?, self.udp_port)
    }

    /// The host with this IPv4 address. O(1).
    #[inline]
    #[must_use]
    pub fn host_of_v4(&self, ip: [u8; 4]) -> Option<HostId> {
        match &self.hosts {
            Hosts::Emulated(IpVersion::V4) => match ip {
                [10, x, y, z @ 1..=254] => {
                    Some(HostId((u32::from(x) << 8 | u32::from(y)) * 254 + u32::from(z) - 1))
                }
                _ => None,
            },
            Hosts::Emulated(IpVersion::V6) => None,
            Hosts::Table(table) => table.host_of(Ipv4Addr::from(ip).into()),
        }
    }

    /// The host with this IPv6 address. O(1).
    #[must_use]
    pub fn host_of_v6(&self, ip: [u8; 16]) -> Option<HostId> {
        match &self.hosts {
            Hosts::Emulated(IpVersion::V6) => {
                let bits = u128::from_be_bytes(ip).checked_sub(EMULATED_V6_FIRST)?;
                u32::try_from(bits).ok().map(HostId)
            }
            Hosts::Emulated(IpVersion::V4) => None,
            Hosts::Table(table) => table.host_of(Ipv6Addr::from(ip).into()),
        }
    }
}

impl AddressTable {
    /// A table of `hosts`, host 0 first.
    ///
    /// # Errors
    /// [`AddressError`] names the first host that cannot be addressed.
    pub fn new(hosts: Vec<HostAddr>) -> Result<Self, AddressError> {
        let first = hosts.first().ok_or(AddressError::Count)?;
        let version = if first.ip.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        let mut by_ip = Vec::with_capacity(hosts.len());
        for (index, host) in hosts.iter().enumerate() {
            let id = HostId(u32::try_from(index).map_err(|_| AddressError::Count)?);
            if host.ip.is_ipv4() != first.ip.is_ipv4() {
                return Err(AddressError::MixedVersions(id));
            }
            let ip_ok = match host.ip {
                IpAddr::V4(ip) => !(ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified()),
                IpAddr::V6(ip) => !(ip.is_multicast() || ip.is_unspecified()),
            };
            if !ip_ok || !is_unicast(host.mac) {
                return Err(AddressError::NotUnicast(id));
            }
            by_ip.push((number_of(host.ip), id));
        }
        by_ip.sort_unstable();
        if let Some(two) = by_ip.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(AddressError::Duplicate(two[0].1, two[1].1));
        }
        let mut table = Self { hosts, by_ip: Vec::new(), version };
        table.by_ip = vec![None; (2 * by_ip.len()).next_power_of_two()];
        for (ip, host) in by_ip {
            if let Err(place) = table.place_of(ip) {
                table.by_ip[place] = Some((ip, host));
            }
        }
        Ok(table)
    }

    /// The host of an address, or else the place where that address would be. O(1) on average: at
    /// least half of the places are free.
    #[inline]
    fn place_of(&self, ip: u128) -> Result<HostId, usize> {
        /// The golden ratio, as a multiplier that scatters neighbours.
        const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;
        #[expect(clippy::cast_possible_truncation, reason = "the halves of an address")]
        let halves = (ip as u64, (ip >> 64) as u64);
        let hash = (halves.0 ^ halves.1.rotate_left(32)).wrapping_mul(SCATTER) >> 32;
        let mask = self.by_ip.len() - 1;
        let mut place = usize::try_from(hash).unwrap_or(0) & mask;
        loop {
            match self.by_ip[place] {
                Some((known, host)) if known == ip => return Ok(host),
                Some(_) => place = (place + 1) & mask,
                None => return Err(place),
            }
        }
    }

    #[inline]
    fn host_of(&self, ip: IpAddr) -> Option<HostId> {
        if ip.is_ipv4() != (self.version == IpVersion::V4) {
            return None;
        }
        self.place_of(number_of(ip)).ok()
    }
}

/// Whether a MAC is that of one machine.
fn is_unicast(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

/// The bits of an address, in the order of addresses of its version.
fn number_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// 02: locally administered, unicast; 48: the letter H; then the host number.
fn emulated_mac(host: HostId) -> [u8; 6] {
    let [a, b, c, d] = host.0.to_be_bytes();
    [0x02, 0x48, a, b, c, d]
}

/// 10.x.y.z with x.y counting blocks of 254 hosts, so that z is never 0 or 255, which some stacks
/// and switches treat as network and broadcast addresses.
fn emulated_v4(host: HostId) -> Option<Ipv4Addr> {
    if host.0 >= Addressing::EMULATED_V4_HOSTS {
        return None;
    }
    let net = 10 << 24 | (host.0 / 254) << 8;
    Some(Ipv4Addr::from_bits(net | (host.0 % 254 + 1)))
}

/// fd48:6561:6472::1, the address of host 0 (the global ID spells "Headr"): interface 0 would be
/// the subnet-router anycast address.
const EMULATED_V6_FIRST: u128 = (0xfd48_6561_6472 << 80) + 1;

fn emulated_v6(host: HostId) -> Ipv6Addr {
    Ipv6Addr::from_bits(EMULATED_V6_FIRST + u128::from(host.0))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    const V4: Addressing = Addressing::emulated(IpVersion::V4);
    const V6: Addressing = Addressing::emulated(IpVersion::V6);

    fn host(last: u8) -> HostAddr {
        HostAddr { mac: [2, 0, 0, 0, 0, last], ip: Ipv4Addr::new(192, 0, 2, last).into() }
    }

    #[test]
    fn the_first_and_last_emulated_addresses_are_as_documented() {
        let last = HostId(Addressing::EMULATED_V4_HOSTS - 1);
        assert_eq!(V4.addr(HostId(0)).unwrap().ip.to_string(), "10.0.0.1");
        assert_eq!(V4.addr(HostId(254)).unwrap().ip.to_string(), "10.0.1.1");
        assert_eq!(V4.addr(last).unwrap().ip.to_string(), "10.255.255.254");
        assert_eq!(V4.addr(HostId(last.0 + 1)), None);
        assert_eq!(V6.addr(HostId(0)).unwrap().ip.to_string(), "fd48:6561:6472::1");
        assert_eq!(V6.addr(HostId(u32::MAX)).unwrap().ip.to_string(), "fd48:6561:6472::1:0:0");
    }

    #[test]
    fn addresses_outside_the_emulated_network_belong_to_no_host() {
        for ip in [[10, 0, 0, 0], [10, 0, 0, 255], [11, 0, 0, 1], [0; 4]] {
            assert_eq!(V4.host_of_v4(ip), None, "{ip:?}");
        }
        assert_eq!(V6.host_of_v6(Ipv6Addr::UNSPECIFIED.octets()), None);
        assert_eq!(V6.host_of_v6((EMULATED_V6_FIRST - 1).to_be_bytes()), None);
        assert_eq!(V6.host_of_v6((EMULATED_V6_FIRST + (1 << 32)).to_be_bytes()), None);
    }

    #[test]
    fn a_table_finds_hosts_both_ways() {
        let table = Addressing::table(AddressTable::new(vec![host(9), host(3)]).unwrap());
        assert_eq!(table.addr(HostId(1)), Some(host(3)));
        assert_eq!(table.host_of_v4([192, 0, 2, 9]), Some(HostId(0)));
        assert_eq!(table.host_of_v4([192, 0, 2, 4]), None);
        assert_eq!((table.addr(HostId(2)), table.version()), (None, IpVersion::V4));
    }

    #[test]
    fn a_listed_host_gets_another_mac_of_one_machine() {
        let mut table = Addressing::table(AddressTable::new(vec![host(9), host(3)]).unwrap());
        assert!(table.set_mac(HostId(1), [2, 0, 0, 0, 0, 7]));
        assert_eq!(table.addr(HostId(1)), Some(HostAddr { mac: [2, 0, 0, 0, 0, 7], ..host(3) }));
        assert_eq!(table.host_of_v4([192, 0, 2, 3]), Some(HostId(1)));
        for (host, mac) in [(2, [2; 6]), (1, [0; 6]), (1, [3, 0, 0, 0, 0, 7])] {
            assert!(!table.set_mac(HostId(host), mac), "{host} {mac:?}");
        }
        assert_eq!(table.addr(HostId(1)).unwrap().mac, [2, 0, 0, 0, 0, 7]);
        assert!(!V4.clone().set_mac(HostId(1), [2; 6]), "computed");
    }

    #[test]
    fn a_bad_table_names_the_host_at_fault() {
        let v6 = HostAddr { ip: Ipv6Addr::LOCALHOST.into(), ..host(1) };
        let cast = HostAddr { mac: [1, 0, 0, 0, 0, 1], ..host(2) };
        let new = |hosts| AddressTable::new(hosts).unwrap_err();
        assert_eq!(new(vec![]), AddressError::Count);
        assert_eq!(new(vec![host(1), v6]), AddressError::MixedVersions(HostId(1)));
        assert_eq!(new(vec![host(1), cast]), AddressError::NotUnicast(HostId(1)));
        let twice = vec![host(1), host(2), host(1)];
        assert_eq!(new(twice), AddressError::Duplicate(HostId(0), HostId(2)));
    }

    proptest! {
        #[test]
        fn every_emulated_address_leads_back_to_its_host(host: u32) {
            if let Some(addr) = V4.addr(HostId(host)) {
                let IpAddr::V4(ip) = addr.ip else { panic!("{addr:?}") };
                prop_assert!((1..=254).contains(&ip.octets()[3]));
                prop_assert_eq!(V4.host_of_v4(ip.octets()), Some(HostId(host)));
            }
            let addr = V6.addr(HostId(host)).unwrap();
            let IpAddr::V6(ip) = addr.ip else { panic!("{addr:?}") };
            prop_assert!(ip.is_unique_local());
            prop_assert_eq!(V6.host_of_v6(ip.octets()), Some(HostId(host)));
        }
    }
}
