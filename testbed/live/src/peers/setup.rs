//! The settings of one process: its device, its host, its memory.

use transport::HostId;
use transport::wire::addressing::{AddressTable, Addressing};
use transport::wire::frame::HEADERS_MAX;
use transport_dpdk::neighbour::Mac;
use transport_dpdk::{DeviceName, EalOptions, MemoryMode, Pool, SharedKeys, Side};

use super::error::PeerError;

/// The settings of a process.
#[derive(Clone, Debug)]
pub struct ProcessSetup {
    /// The device of the process.
    pub device: DeviceName,
    /// Whether this process opens the device first.
    pub side: Side,
    /// The number of the own host.
    pub host: HostId,
    /// How hosts are addressed; the value in place of a MAC that was not given has no effect.
    pub addressing: Addressing,
    /// Hosts whose MACs are not given: peers are asked for theirs, the own one is the device's.
    pub unresolved: Vec<HostId>,
    /// Hugepages or not.
    pub memory: MemoryMode,
    /// Frames that can be held at once.
    pub buffers: u32,
    /// Frames in the device's queue, each way.
    pub depth: u16,
    /// EAL arguments, unchanged.
    pub eal_arguments: Vec<String>,
    /// The core that the polling thread is pinned to.
    pub core: Option<usize>,
    /// Keys that seal packets; without keys, plain packets are sent and accepted.
    pub keys: Option<SharedKeys>,
}

/// Memory that DPDK needs beside the pools: for queues, and a memif's rings.
const EAL_MB: u64 = 128;

impl ProcessSetup {
    /// Notes the MAC of `host`.
    pub(super) fn note_mac(&mut self, host: HostId, mac: Mac) -> Result<(), PeerError> {
        let hosts = (0..).map_while(|number| self.addressing.addr(HostId(number)));
        let mut hosts: Vec<_> = hosts.collect();
        if let Some(known) = hosts.get_mut(host.0 as usize) {
            known.mac = mac;
        }
        let table = AddressTable::new(hosts);
        let table = table.map_err(|error| PeerError::Address(error.to_string()))?;
        let udp_port = self.addressing.udp_port();
        self.addressing = Addressing::table(table).with_udp_port(udp_port);
        self.unresolved.retain(|known| *known != host);
        Ok(())
    }

    /// How DPDK starts for buffers of `room` octets.
    pub(super) fn eal_options(&self, room: u16) -> EalOptions {
        let received = Pool::memory(self.buffers + self.device.buffers_kept(), room);
        let own = Pool::memory(self.buffers, room);
        let small = Pool::memory(2 * self.buffers, HEADERS_MAX);
        let bytes = received + own + small;
        let rings = u64::from(self.depth) * u64::from(room) * 2;
        let mb = (bytes + rings).div_ceil(1 << 20) + EAL_MB;
        self.device.allowed_in(EalOptions {
            memory: self.memory,
            memory_mb: u32::try_from(mb).unwrap_or(u32::MAX),
            extra_args: self.eal_arguments.clone(),
            ..EalOptions::default()
        })
    }
}
