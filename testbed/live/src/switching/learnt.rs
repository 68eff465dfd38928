//! The addresses of hosts, whose MACs are learnt from their frames where no file names them.

use transport::HostId;
use transport::wire::addressing::{AddressError, AddressTable, Addressing, HostAddr};

/// Stands for a MAC that is not known yet.
const UNKNOWN: [u8; 6] = [2, 0, 0, 0, 0, 0];

/// Octets of an Ethernet header, in which the sender's MAC has the second place.
const ETHERNET: usize = 14;

/// The addresses of hosts by number.
#[derive(Debug)]
pub(crate) struct LearntAddresses {
    addressing: Addressing,
    /// MACs that have changed so far.
    changes: u64,
}

impl LearntAddresses {
    /// Hosts with the given addresses, and MACs as far as they are known.
    ///
    /// # Errors
    /// When two hosts have one address, or it is none of a machine.
    pub(crate) fn new(
        hosts: impl Iterator<Item = (std::net::IpAddr, Option<[u8; 6]>)>,
        udp_port: u16,
    ) -> Result<Self, AddressError> {
        let address = |(ip, mac): (_, Option<_>)| HostAddr { mac: mac.unwrap_or(UNKNOWN), ip };
        let table = AddressTable::new(hosts.map(address).collect())?;
        Ok(Self { addressing: Addressing::table(table).with_udp_port(udp_port), changes: 0 })
    }

    /// How hosts are addressed.
    pub(crate) const fn addressing(&self) -> &Addressing {
        &self.addressing
    }

    /// MACs that have changed so far.
    #[inline]
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Frames to `host` go to the sender of the frame that begins with `head`: the host itself, or
    /// its router. O(1).
    #[inline]
    pub(crate) fn learn(&mut self, host: HostId, head: &[u8]) {
        let mac = head.get(6..12).and_then(|octets| <[u8; 6]>::try_from(octets).ok());
        if let Some(mac) = mac.filter(|_| head.len() >= ETHERNET) {
            self.set(host, mac);
        }
    }

    /// The MAC of `host`, if it is known.
    pub(crate) fn mac(&self, host: HostId) -> Option<[u8; 6]> {
        self.addressing.addr(host).map(|address| address.mac).filter(|mac| *mac != UNKNOWN)
    }

    /// Frames to `host` go to `mac`, if that is the MAC of one machine. O(1).
    #[inline]
    pub(crate) fn set(&mut self, host: HostId, mac: [u8; 6]) {
        let is_new = self.addressing.addr(host).is_some_and(|known| known.mac != mac);
        self.changes += u64::from(is_new && self.addressing.set_mac(host, mac));
    }
}
