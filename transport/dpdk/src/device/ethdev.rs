//! One ethdev: set up by what the device reports (`caps.rs`), read, closed.
//!
//! Source: DPDK Programmer's Guide, "Poll Mode Driver". A [`Device`] is shared by the queues of a
//! port (`port.rs`), and is closed and unplugged when the last of them is gone. Nothing here is on
//! the path of segments. Frame lengths are bytes without FCS.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::thread;

use dpdk_sys as sys;

use crate::buffers::pages;
use crate::buffers::pool::Pool;
use crate::buffers::ring::{RingRx, RingTx};
use crate::buffers::stamp_field::TimestampField;
use crate::device::caps::{self, Caps, DeviceConfig, FrameLimit, PortConfig, RxTimes, TxTimes};
use crate::device::driver_socket::DriverSocket;
use crate::device::drivers::MEMIF;
use crate::device::error::{PortError, SetupStep};
use crate::device::listener::Listener;
use crate::device::rules::{self, Rule};
use crate::device::stats::DeviceStats;
use crate::eal::cards::{Readers, VIRTUAL};
use crate::eal::interrupts::InterruptHold;
use crate::eal::netns::Netns;
use crate::eal::{self, Eal, Errno};
/// Resources that a device needs until it is closed.
#[derive(Debug)]
pub(crate) enum Keep {
    /// Nothing has to be kept.
    Nothing,
    /// The device itself, and the socket at which other processes find it. It is stopped instead of
    /// closed until EAL ends. The memif driver of 22.11 frees its listening socket's state and goes
    /// on listening, so that the next process to connect would crash this one.
    Listening(#[allow(dead_code, reason = "held, not read")] Arc<Listener>),
    /// The socket at which both ends of a memif in this process have met.
    DriverSocket(Arc<DriverSocket>),
    /// The ring halves that a net_ring device serves.
    Rings(#[allow(dead_code, reason = "held, not read")] Vec<(RingTx, RingRx)>),
    /// The namespace that holds the kernel side of the device.
    Netns(#[allow(dead_code, reason = "held, not read")] Arc<Netns>),
}

/// An ethdev that is closed and unplugged on drop. Field order: rings free their mbufs first, then
/// the pool those came from can go, then EAL.
pub(crate) struct Device {
    pub(crate) id: u16,
    pub(crate) name: CString,
    pub(crate) caps: Caps,
    /// The field in which the device reports when frames arrived, if it does.
    pub(crate) times: Option<TimestampField>,
    /// The field that gives the device departures of frames, if it takes these.
    pub(crate) departures: Option<TimestampField>,
    pub(crate) is_vdev: bool,
    /// Whether the port has been started, and so may have rules.
    started: bool,
    /// The device's bit among the readers of applications' memory; 0 when it reads none.
    pub(crate) reader: Readers,
    keep: Keep,
    /// A descriptor that is only held: while it is open, the kernel's interface receives frames to
    /// all addresses.
    all_frames: Option<OwnedFd>,
    /// Where the kernel sends out of rings: the driver's socket of each queue.
    rings: Vec<OwnedFd>,
    /// Receive queues take their buffers from it.
    pub(crate) pool: Arc<Pool>,
    pub(crate) eal: Eal,
}

impl Device {
    /// Sets the port `id`, called `name`, up and starts it.
    pub(crate) fn open(
        eal: &Eal,
        (id, name): (u16, &str),
        config: &PortConfig,
        pool: Arc<Pool>,
        (is_vdev, keep): (bool, Keep),
    ) -> Result<Self, PortError> {
        let mut info = sys::rdpdk_port_info::default();
        // Made first, so that every failure below closes and unplugs the device again.
        let mut device = Self {
            id,
            name: eal::c_string(name)?,
            caps: caps::negotiate(&info, config, String::new(), 0).caps,
            times: None,
            departures: None,
            is_vdev,
            started: false,
            reader: 0,
            keep,
            all_frames: None,
            rings: Vec::new(),
            pool,
            eal: eal.clone(),
        };
        {
            let _control = eal.control();
            // SAFETY: a valid port id and a place for the answer.
            let ret = unsafe { sys::rdpdk_port_info(id, &raw mut info) };
            check(name, SetupStep::Query, ret)?;
            let driver = c_text(&info.driver);
            device.caps.driver.clone_from(&driver);
            let mut plan = caps::negotiate(&info, config, driver, device.pool.room());
            configure(id, name, &mut plan)?;
            if !config.keep_mtu {
                set_mtu(id, config, &mut plan);
            }
            set_up_queues(id, name, &plan, &device.pool)?;
            if plan.caps.tx_times == TxTimes::Device {
                device.departures = TimestampField::of_departures(&device.eal).ok();
            }
            if eal::is_set_to_receive_all(info.interface) {
                // A start would clear the flag of an interface, unless it was set by this port.
                // SAFETY: a valid port.
                unsafe { sys::rte_eth_promiscuous_enable(id) };
            }
            // SAFETY: a valid, configured port.
            let ret = unsafe { sys::rte_eth_dev_start(id) };
            check(name, SetupStep::Start, ret)?;
            device.started = true;
            device.caps = plan.caps;
            device.receive_all(info.interface);
            if device.caps.driver == SENDS_FROM_RINGS {
                device.rings = eal::packet_rings(info.interface);
                let (found, own) = (device.rings.len(), usize::from(info.tx_queues_max));
                if found != own {
                    tracing::warn!(
                        "{name}: {found} rings of packet sockets at its interface and not {own}: \
                         frames that wait while it is down leave with the next ones"
                    );
                    device.rings.clear();
                }
            }
        }
        device.find_clock();
        device.reader = device.reader_bit();
        device.caps.attaches = device.reader != 0;
        device.warn_of_distance();
        device.caps.link_mbps = device.link().filter(|mbps| *mbps != 0);
        Ok(device)
    }

    /// Has the port receive frames to all addresses; `interface` is the kernel's number of the
    /// interface behind it, or 0. The drivers that share an interface with the kernel would set a
    /// flag of it that outlives the process.
    fn receive_all(&mut self, interface: u32) {
        if interface == 0 || !SHARES.contains(&self.caps.driver.as_str()) {
            // SAFETY: a valid port. Devices without such a mode receive everything anyway.
            unsafe { sys::rte_eth_promiscuous_enable(self.id) };
            return;
        }
        match eal::receive_all(interface) {
            Ok(held) => self.all_frames = Some(held),
            Err(error) => tracing::warn!(
                port = ?self.name, %error,
                "the interface receives frames to its own address alone; CAP_NET_RAW is needed for \
                 others"
            ),
        }
    }

    pub(crate) fn clock(&self) -> Option<u64> {
        let mut ticks = 0;
        // SAFETY: a valid port and a place for the answer.
        let ret = unsafe { sys::rdpdk_read_clock(self.id, &raw mut ticks) };
        (ret == 0).then_some(ticks)
    }

    /// The clock of stamps that were asked for: some drivers read it only when started.
    fn find_clock(&mut self) {
        if self.caps.rx_times != RxTimes::Device {
            return;
        }
        self.times = self.clock().and_then(|_| TimestampField::of_devices(&self.eal).ok());
        if self.times.is_none() {
            self.caps.rx_times = RxTimes::NoClock;
        }
        if self.caps.tx_times == TxTimes::Device
            && (self.times.is_none() || self.departures.is_none())
        {
            self.caps.tx_times = TxTimes::NoClock;
        }
    }

    /// The device's bit among the readers of applications' memory. It is 0 when the device reads
    /// none. It is also 0 when a frame that the device sends at a time of its own can be overtaken,
    /// so that `PortQueue::message_over` would not hold.
    fn reader_bit(&self) -> Readers {
        let Caps { tx_multi_segs, tx_times, ref driver, .. } = self.caps;
        if !tx_multi_segs {
            0
        } else if self.is_vdev {
            if READS_ALL.contains(&driver.as_str()) { VIRTUAL } else { 0 }
        } else if tx_times == TxTimes::Device {
            0
        } else {
            pages::enlist(&self.eal, self.id, self.name.to_str().unwrap_or_default())
        }
    }

    /// Warns when buffers lie at another processor than the device: every packet then goes from one
    /// processor to the other.
    fn warn_of_distance(&self) {
        let (device, buffers) = (self.caps.socket, self.pool.socket());
        if device >= 0 && buffers >= 0 && device != buffers {
            tracing::warn!(
                port = ?self.name,
                "the device is at NUMA node {device} and its buffers at {buffers}: make the pool \
                 there, and pin the workers to cores of that node"
            );
        }
    }

    /// The speed in Mbit/s, 0 when unknown; `None` when the link is down.
    pub(crate) fn link(&self) -> Option<u32> {
        let mut mbps = 0;
        let mut up = 0;
        // SAFETY: a valid port and two places for the answer.
        let ret = unsafe { sys::rdpdk_port_link(self.id, &raw mut mbps, &raw mut up) };
        let known = if mbps == sys::RDPDK_LINK_SPEED_UNKNOWN { 0 } else { mbps };
        (ret == 0 && up != 0).then_some(known)
    }

    /// The socket by which the kernel sends the frames of transmit queue `queue` out of a ring.
    pub(crate) fn ring(&self, queue: u16) -> Option<&OwnedFd> {
        self.rings.get(usize::from(queue))
    }

    /// Waits until the link is up, or down, at most `timeout_ms` milliseconds; false when it is
    /// not.
    pub(crate) fn wait_link(&self, up: bool, timeout_ms: u32) -> bool {
        let mut left = timeout_ms;
        while self.link().is_some() != up {
            if left == 0 {
                return false;
            }
            let nap = left.min(5);
            thread::sleep(core::time::Duration::from_millis(u64::from(nap)));
            left -= nap;
        }
        true
    }

    pub(crate) fn stats(&self) -> DeviceStats {
        let mut raw = sys::rte_eth_stats::default();
        // SAFETY: a valid port and a place for the answer, which stays zero on failure.
        unsafe { sys::rte_eth_stats_get(self.id, &raw mut raw) };
        DeviceStats {
            rx_packets: raw.ipackets,
            tx_packets: raw.opackets,
            rx_bytes: raw.ibytes,
            tx_bytes: raw.obytes,
            rx_missed: raw.imissed,
            rx_errors: raw.ierrors,
            tx_errors: raw.oerrors,
            rx_no_mbuf: raw.rx_nombuf,
        }
    }

    pub(crate) fn xstats(&self) -> Vec<(String, u64)> {
        // SAFETY: a valid port; null with size 0 asks for the count.
        let count = unsafe { sys::rte_eth_xstats_get(self.id, ptr::null_mut(), 0) };
        let (Ok(length), Ok(size)) = (usize::try_from(count), u32::try_from(count)) else {
            return Vec::new();
        };
        let mut values = vec![sys::rte_eth_xstat::default(); length];
        let mut names = vec![sys::rte_eth_xstat_name::default(); length];
        // SAFETY: room for `size` values.
        let got = unsafe { sys::rte_eth_xstats_get(self.id, values.as_mut_ptr(), size) };
        // SAFETY: room for `size` names.
        let named = unsafe { sys::rte_eth_xstats_get_names(self.id, names.as_mut_ptr(), size) };
        if got != count || named != count {
            return Vec::new();
        }
        values
            .iter()
            .filter_map(|value| {
                let name = names.get(usize::try_from(value.id).ok()?)?;
                Some((c_text(&name.name), value.value))
            })
            .collect()
    }
}

/// The rules of a port, while its device is held, for UDP to one port.
pub(crate) struct PortRules {
    pub(crate) port: u16,
    pub(crate) udp_port: u16,
}

impl rules::Rules for PortRules {
    fn add(&mut self, rule: Rule) -> Result<(), String> {
        let mut raw = sys::rdpdk_rule { udp_port: self.udp_port, ..Default::default() };
        match rule {
            Rule::Queue { address, queue } => {
                raw.queue = queue;
                raw.v6 = u8::from(address.is_ipv6());
                match address {
                    IpAddr::V4(v4) => raw.dst[..4].copy_from_slice(&v4.octets()),
                    IpAddr::V6(v6) => raw.dst = v6.octets(),
                }
            }
            Rule::ByDestination { v6, queues } => (raw.v6, raw.queues) = (u8::from(v6), queues),
        }
        let mut words = [0; 160];
        let room = 160;
        // SAFETY: a started port, a rule that is read, and `room` bytes for a text.
        let ret =
            unsafe { sys::rdpdk_rule_add(self.port, &raw const raw, words.as_mut_ptr(), room) };
        if ret == 0 { Ok(()) } else { Err(c_text(&words)) }
    }

    fn clear(&mut self) {
        clear_rules(self.port);
    }
}

/// Takes all rules of a started port back.
fn clear_rules(port: u16) {
    // SAFETY: a started port.
    unsafe { sys::rdpdk_rules_clear(port) };
}

impl Drop for Device {
    fn drop(&mut self) {
        if !self.is_vdev {
            self.eal.cards().remove(self.reader);
        }
        // The other process may end at the same time: its memif would be taken apart by this
        // thread and by the interrupt thread.
        let may_be_left = self.caps.driver == MEMIF;
        let _hold = may_be_left.then(|| InterruptHold::new(&self.eal));
        let control = self.eal.control();
        if self.started {
            // Some drivers refuse to close over rules.
            clear_rules(self.id);
        }
        // SAFETY: no queue is left, so no thread polls the port.
        unsafe { sys::rte_eth_dev_stop(self.id) };
        match &self.keep {
            Keep::Listening(_) => return,
            Keep::DriverSocket(socket) => socket.end_closes(),
            _ => {}
        }
        // SAFETY: as above; also allowed for a port that was never started.
        let ret = unsafe { sys::rte_eth_dev_close(self.id) };
        if ret != 0 {
            tracing::warn!(port = ?self.name, error = %Errno(ret.abs()), "port not closed");
        }
        if self.is_vdev {
            self.eal.remove_vdev(&self.name, &control);
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({:?}, {})", self.name, self.caps)
    }
}

/// Virtual devices that copy the frames that they send, or hand them to a reader within this
/// process. Others may pass frames on to cards, or to processes that cannot read the memory.
const READS_ALL: [&str; 7] =
    ["net_af_packet", "net_af_xdp", "net_memif", "net_null", "net_pcap", "net_ring", "net_tap"];

/// Drivers of interfaces that the kernel uses, too.
const SHARES: [&str; 2] = ["net_af_packet", "net_af_xdp"];

/// The driver whose frames stay in rings of the kernel's while the interface is down. The first
/// attempt to send them after that sends nothing, and there is no other before the driver is given
/// more frames.
const SENDS_FROM_RINGS: &str = "net_af_packet";

pub(crate) const ANY_SOCKET: u32 = u32::MAX;

fn check(port: &str, step: SetupStep, ret: c_int) -> Result<(), PortError> {
    if ret == 0 { Ok(()) } else { Err(PortError::setup(port, step, ret)) }
}

pub(crate) fn check_port_count() -> Result<(), PortError> {
    // SAFETY: counts entries of a table.
    let taken = unsafe { sys::rte_eth_dev_count_avail() };
    if u32::from(taken) < sys::RDPDK_MAX_ETHPORTS {
        Ok(())
    } else {
        Err(PortError::TooMany(sys::RDPDK_MAX_ETHPORTS))
    }
}

pub(crate) fn find(eal: &Eal, name: &str) -> Result<u16, PortError> {
    let c_name = eal::c_string(name)?;
    let _control = eal.control();
    let mut id = 0;
    // SAFETY: a NUL-terminated name and a place for the answer.
    let ret = unsafe { sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &raw mut id) };
    check(name, SetupStep::Find, ret).map(|()| id)
}

fn configure(id: u16, name: &str, plan: &mut DeviceConfig) -> Result<(), PortError> {
    let config = sys::rdpdk_port_config {
        rx_offloads: plan.rx_offloads,
        tx_offloads: plan.tx_offloads,
        rss_types: plan.rss_types,
        mtu: plan.mtu,
        rx_queues: plan.caps.queues,
        tx_queues: plan.tx_queues,
    };
    // SAFETY: a valid port and a settings struct that is read during the call.
    let ret = unsafe { sys::rdpdk_port_configure(id, &raw const config) };
    check(name, SetupStep::Configure, ret)?;
    let (rx, tx) = &mut plan.caps.descriptors;
    // SAFETY: a valid port and two numbers to adjust.
    let ret = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, rx, tx) };
    check(name, SetupStep::Configure, ret)
}

/// Sets the MTU once more as its own call, whose result shows whether the device has such a
/// setting.
fn set_mtu(id: u16, config: &PortConfig, plan: &mut DeviceConfig) {
    // SAFETY: a valid, configured port.
    let ret = unsafe { sys::rte_eth_dev_set_mtu(id, plan.mtu) };
    plan.caps.max_frame = match ret {
        0 => FrameLimit::Set(plan.mtu_frame.min(config.max_frame)),
        _ if ret == -libc::ENOTSUP => FrameLimit::Unproven(config.max_frame),
        // The device has the setting and refuses this MTU: the frame length that every Ethernet
        // carries is left.
        _ => FrameLimit::Set(config.max_frame.min(STANDARD_FRAME)),
    };
}

const STANDARD_FRAME: u32 = 1514;

fn set_up_queues(id: u16, name: &str, plan: &DeviceConfig, pool: &Pool) -> Result<(), PortError> {
    for queue in 0..plan.caps.queues {
        let descriptors = plan.caps.descriptors.0;
        // SAFETY: a configured port, defaults for the settings, and a pool that the device keeps.
        let ret = unsafe {
            sys::rte_eth_rx_queue_setup(id, queue, descriptors, ANY_SOCKET, ptr::null(), pool.raw())
        };
        check(name, SetupStep::RxQueue, ret)?;
    }
    for queue in 0..plan.tx_queues {
        let descriptors = plan.caps.descriptors.1;
        // SAFETY: a configured port and defaults for the settings.
        let ret =
            unsafe { sys::rte_eth_tx_queue_setup(id, queue, descriptors, ANY_SOCKET, ptr::null()) };
        check(name, SetupStep::TxQueue, ret)?;
    }
    Ok(())
}

/// The text up to the first NUL of a C array.
fn c_text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().map(|c| c.cast_unsigned()).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |t| t.to_string_lossy().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_c_end_at_the_nul_or_at_the_end_of_the_array() {
        let raw = |text: &[u8]| text.iter().map(|b| b.cast_signed()).collect::<Vec<_>>();
        assert_eq!(c_text(&raw(b"net_ring\0rest")), "net_ring");
        assert_eq!(c_text(&raw(b"full")), "full");
        assert_eq!(c_text(&[]), "");
    }
}
