//! An application at a device: a card, an interface of the kernel, one end of a memif.
//!
//! The application gives the hosts of the network by address. The network is asked for MACs that it
//! does not give (ARP, neighbour discovery), and this host answers requests for its own.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use transport::wire::addressing::{AddressTable, Addressing, HostAddr};
use transport::{Duration, HostId, Instant};
use transport_dpdk::neighbour::{Mac, Resolution, Station};
use transport_dpdk::{
    DeviceName, DevicePort, Pool, PoolConfig, PortConfig, PortError, PortIo, QuietHold, Side,
};

use crate::stack::{Attached, BUFFERS, CACHE, DEPTH, Stack, io_of};

/// A device and the hosts that it reaches.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSetup {
    pub(crate) name: DeviceName,
    pub(crate) side: Side,
    /// How long to wait for the other process of a memif, the link, and answers, together.
    pub(crate) patience: Duration,
    pub(crate) hosts: Vec<(IpAddr, Option<Mac>)>,
    /// The place of this host among them.
    pub(crate) own: u32,
    /// The UDP port of all hosts.
    pub(crate) udp_port: u16,
}

impl Stack {
    /// Attaches an application at a device of its own.
    pub(crate) fn attach_device(&mut self, setup: &DeviceSetup) -> Result<Attached, String> {
        self.wait_for_closed_devices();
        let until = self.clock_now() + setup.patience;
        self.opening.store(true, Ordering::Release);
        let linked = self.open_linked(setup, until);
        self.opening.store(false, Ordering::Release);
        let (io, addressing) = self.ask_for_hosts(setup, linked?, until)?;
        self.attach(io, (HostId(setup.own), addressing), setup.name.meets())
    }

    /// Opens the device and waits for its link.
    fn open_linked(
        &self,
        setup: &DeviceSetup,
        until: Instant,
    ) -> Result<(DevicePort, Arc<Pool>), String> {
        let (port, pool) = self.open_port(setup)?;
        let left_ms = until.since(self.clock_now()).as_ps() / 1_000_000_000;
        if !port.wait_link(u32::try_from(left_ms).unwrap_or(u32::MAX)) {
            return Err(format!("the link of {} did not come up in time", port.name()));
        }
        Ok((port, pool))
    }

    /// The first queue of a device whose link is up, and the addresses of all hosts.
    fn ask_for_hosts(
        &self,
        setup: &DeviceSetup,
        (port, pool): (DevicePort, Arc<Pool>),
        until: Instant,
    ) -> Result<(PortIo, Addressing), String> {
        let Some((own_ip, own_mac)) = setup.hosts.get(setup.own as usize).copied() else {
            return Err(format!("host {} is not among the {}", setup.own, setup.hosts.len()));
        };
        let own_mac = own_mac.unwrap_or(port.mac());
        let station = Station { mac: own_mac, ip: own_ip, prefix: 0, gateway: None };
        let io = io_of(port, &pool)?.attaching(self.small_pool()?);
        let mut io = io.answering(station);
        let mut hosts = setup.hosts.clone();
        hosts[setup.own as usize].1 = Some(own_mac);
        let table = self.resolved(&mut io, &hosts, (setup.name.meets(), until))?;
        Ok((io, Addressing::table(table).with_udp_port(setup.udp_port)))
    }

    fn open_port(&self, setup: &DeviceSetup) -> Result<(DevicePort, Arc<Pool>), String> {
        let device = &setup.name;
        let (headers, frame) = (self.around_payload(), self.frame_max());
        let fits = |most: u32| {
            let room = most.saturating_sub(u32::from(headers));
            let text = format!(
                "{device} carries frames of {most} bytes: set payload_max to {room} or less"
            );
            if u32::from(frame) <= most { Ok(()) } else { Err(text) }
        };
        fits(device.frame_max().into())?;
        let (count, room) = (BUFFERS + device.buffers_kept(), device.buffer_room());
        let config = PoolConfig { count, room, cache: CACHE, socket: device.socket() };
        let pool = Arc::new(Pool::new(self.eal(), config).map_err(|error| error.to_string())?);
        let config = PortConfig {
            rx_descriptors: DEPTH,
            tx_descriptors: DEPTH,
            max_frame: device.frame_max().min(room).into(),
            keep_mtu: device.interface().is_some(),
            ..PortConfig::default()
        };
        let (side, end) = ((setup.side, setup.patience), || Ok::<(), PortError>(()));
        let port = device.clone().open_with_patience(self.eal(), &config, &pool, side, end);
        let port = port.map_err(|error| error.to_string())?;
        let port =
            port.ok_or_else(|| format!("no process listens at the other end of {device}"))?;
        fits(port.caps().max_frame.bytes())?;
        Ok((port, pool))
    }

    /// The addresses of all hosts; a host without a given MAC is asked for it. A device that leads
    /// to another process is polled while DPDK's interrupt thread is held.
    fn resolved(
        &self,
        io: &mut PortIo,
        hosts: &[(IpAddr, Option<Mac>)],
        (meets, until): (bool, Instant),
    ) -> Result<AddressTable, String> {
        let mut enquiry = io.enquire().ok_or("the device has no queue")?;
        let mut hold = meets.then(|| QuietHold::new(self.eal(), self.clock_now()));
        let patience = until.since(self.clock_now());
        let look = |received, polled| {
            if let Some(hold) = &mut hold {
                hold.look(received, polled);
            }
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(found) = enquiry.resolve(hosts, patience, || self.clock_now(), look);
        let entry = |(found, (ip, _)): (Resolution, &(IpAddr, _))| match found {
            Resolution::Known(mac) => Ok(HostAddr { mac, ip: *ip }),
            other => Err(format!("{ip} has given no MAC ({other:?}): is it there, at this link?")),
        };
        let table = found.into_iter().zip(hosts).map(entry).collect::<Result<Vec<_>, _>>()?;
        AddressTable::new(table).map_err(|error| error.to_string())
    }
}
