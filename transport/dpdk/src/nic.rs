//! Devices: one port is one ethdev.
//!
//! Source: DPDK Programmer's Guide, "Poll Mode Driver". A [`Port`] is set up by
//! what the device says of itself (`caps.rs`), owns its queues, and is closed and unplugged when
//! the port and all queues are gone. Queues are separate values, so that each can go to another
//! worker. Frame lengths are bytes without FCS; a burst is at most 32 packets.
//!
//! It waits for nothing but the link, retries nothing, and steers nothing.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::thread;

use dpdk_sys as sys;

use crate::burst::{BURST, MbufBurst};
use crate::caps::{self, Caps, FrameLimit, Plan, PortConfig, RxTimes, TxTimes};
use crate::device_clock::ReadTicks;
use crate::eal::{self, Eal, Errno};
use crate::ext_buf::ExtBuf;
use crate::extmem::{Readers, VIRTUAL};
use crate::mbuf::{Pool, as_pointers};
use crate::netns::Netns;
use crate::port_error::{PortError, Step};
use crate::port_stats::PortStats;
use crate::ring::{RingRx, RingTx};
use crate::rules::{self, Rule, Rung};
use crate::stamp_field::TimestampField;

/// One device with all its queues.
#[derive(Debug)]
pub struct Port {
    queues: Vec<PortQueue>,
    device: Arc<Device>,
    tie: Option<Arc<Tie>>,
}

/// One receive and one transmit queue of a port. `Send`, so that a worker can own it.
#[derive(Debug)]
pub struct PortQueue {
    index: u16,
    refused: u64,
    device: Arc<Device>,
    #[allow(dead_code, reason = "held, not read")]
    tie: Option<Arc<Tie>>,
}

/// Two connected devices of this process that are taken down together, when both ports and all
/// their queues are gone: nobody polls one while the other pulls the connection away, and the
/// driver's own disconnect (on DPDK's interrupt thread) is over before the second device is closed.
///
/// Every holder drops its device before its tie, so that the tie's are the last.
#[derive(Debug)]
struct Tie {
    first: Arc<Device>,
    second: Arc<Device>,
}

/// What a device needs until it is closed.
#[derive(Debug)]
pub(crate) enum Keep {
    /// Nothing.
    Nothing,
    /// The ring halves that a net_ring device serves.
    Rings(#[allow(dead_code, reason = "held, not read")] Vec<(RingTx, RingRx)>),
    /// The namespace that its kernel side lives in.
    Netns(#[allow(dead_code, reason = "held, not read")] Arc<Netns>),
}

/// An ethdev that is closed and unplugged on drop. Field order: rings free their mbufs first, then
/// the pool those came from can go, then EAL.
struct Device {
    id: u16,
    name: CString,
    caps: Caps,
    /// Where it says when frames arrived, if it does.
    times: Option<TimestampField>,
    /// Where it is told when frames are to leave, if it is.
    departures: Option<TimestampField>,
    is_vdev: bool,
    /// Its bit in who may read memory of applications; 0 when it reads none.
    reader: Readers,
    #[allow(dead_code, reason = "held, not read")]
    keep: Keep,
    /// Receive queues take their buffers from it.
    pool: Arc<Pool>,
    eal: Eal,
}

impl Port {
    /// Opens the device `name` (e.g. a PCI address), which EAL has probed; received packets come
    /// from `pool`.
    ///
    /// # Errors
    /// [`PortError::Setup`].
    pub fn open(
        eal: &Eal,
        name: &str,
        config: &PortConfig,
        pool: Arc<Pool>,
    ) -> Result<Self, PortError> {
        let id = find(eal, name)?;
        Self::set_up(eal, (id, name), config, pool, (false, Keep::Nothing))
    }

    /// Adds the virtual device `name` and opens it.
    pub(crate) fn open_vdev(
        eal: &Eal,
        (name, arguments): (&str, &str),
        config: &PortConfig,
        pool: Arc<Pool>,
        keep: Keep,
    ) -> Result<Self, PortError> {
        check_port_count()?;
        eal.add_vdev(name, arguments)?;
        let id = find(eal, name).inspect_err(|_| eal.remove_vdev_by_name(name))?;
        Self::set_up(eal, (id, name), config, pool, (true, keep))
    }

    /// A device with a queue for each of `rings`: it sends into the first half and receives from
    /// the second.
    pub(crate) fn from_rings(
        eal: &Eal,
        config: &PortConfig,
        pool: Arc<Pool>,
        rings: Vec<(RingTx, RingRx)>,
    ) -> Result<Self, PortError> {
        check_port_count()?;
        let short = eal::unique_name();
        let name = format!("net_ring_{short}");
        let c_short = eal::c_string(&short)?;
        let rx_rings: Vec<_> = rings.iter().map(|(_, rx)| rx.raw()).collect();
        let tx_rings: Vec<_> = rings.iter().map(|(tx, _)| tx.raw()).collect();
        let count = u32::try_from(rings.len()).unwrap_or(0);
        let id = {
            let _control = eal.control();
            // SAFETY: live rings whose other ends this port alone uses (it takes the halves over);
            // the arrays and the name are read during the call only.
            let id = unsafe {
                sys::rte_eth_from_rings(
                    c_short.as_ptr(),
                    rx_rings.as_ptr(),
                    count,
                    tx_rings.as_ptr(),
                    count,
                    ANY_SOCKET,
                )
            };
            u16::try_from(id)
                .map_err(|_| PortError::setup(&name, Step::Find, -eal::last_errno().0))?
        };
        Self::set_up(eal, (id, &name), config, pool, (true, Keep::Rings(rings)))
    }

    fn set_up(
        eal: &Eal,
        (id, name): (u16, &str),
        config: &PortConfig,
        pool: Arc<Pool>,
        (is_vdev, keep): (bool, Keep),
    ) -> Result<Self, PortError> {
        let mut offer = sys::rdpdk_port_info::default();
        // Made first, so that every failure below closes and unplugs the device again.
        let mut device = Device {
            id,
            name: eal::c_string(name)?,
            caps: caps::negotiate(&offer, config, String::new(), 0).caps,
            times: None,
            departures: None,
            is_vdev,
            reader: 0,
            keep,
            pool,
            eal: eal.clone(),
        };
        {
            let _control = eal.control();
            // SAFETY: a valid port id and a place for the answer.
            let ret = unsafe { sys::rdpdk_port_info(id, &raw mut offer) };
            check(name, Step::Query, ret)?;
            let driver = c_text(&offer.driver);
            let mut plan = caps::negotiate(&offer, config, driver, device.pool.room());
            configure(id, name, &mut plan)?;
            if !config.keep_mtu {
                set_mtu(id, config, &mut plan);
            }
            set_up_queues(id, name, &plan, &device.pool)?;
            if plan.caps.tx_times == TxTimes::Device {
                device.departures = TimestampField::of_departures(&device.eal).ok();
            }
            // SAFETY: a valid, configured port.
            let ret = unsafe { sys::rte_eth_dev_start(id) };
            check(name, Step::Start, ret)?;
            // SAFETY: a valid port. Devices without such a mode receive everything anyway.
            unsafe { sys::rte_eth_promiscuous_enable(id) };
            device.caps = plan.caps;
        }
        device.find_clock();
        device.reader = device.reader_bit();
        device.caps.attaches = device.reader != 0;
        device.warn_of_distance();
        device.caps.link_mbps = device.link().filter(|mbps| *mbps != 0);
        let device = Arc::new(device);
        Ok(Self { queues: queues_of(&device), device, tie: None })
    }

    /// Makes two ports that are connected within this process, as two memif devices are, go
    /// together; `self` must be the side that connects.
    pub fn tie_to(&mut self, other: &mut Self) {
        let (first, second) = (Arc::clone(&self.device), Arc::clone(&other.device));
        let tie = Some(Arc::new(Tie { first, second }));
        for port in [self, other] {
            port.tie.clone_from(&tie);
            port.queues.iter_mut().for_each(|queue| queue.tie.clone_from(&tie));
        }
    }

    /// The effective configuration.
    #[must_use]
    pub fn caps(&self) -> &Caps {
        &self.device.caps
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.name.to_str().unwrap_or("?")
    }

    /// The device's hardware address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        let mut address = sys::rte_ether_addr::default();
        // SAFETY: a valid port and a place for the answer, which stays zero on failure.
        unsafe { sys::rte_eth_macaddr_get(self.device.id, &raw mut address) };
        address.addr_bytes
    }

    /// Waits until the link is up, at most `timeout_ms` milliseconds; false when it is not.
    #[must_use]
    pub fn wait_link(&self, timeout_ms: u32) -> bool {
        self.device.wait_link(true, timeout_ms)
    }

    /// The device's counters.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        self.device.stats()
    }

    /// Every counter that the driver has, by the driver's names.
    #[must_use]
    pub fn xstats(&self) -> Vec<(String, u64)> {
        self.device.xstats()
    }

    /// Has frames for `udp_port` of `addresses[i]` come to queue `i`, as far as the device can, and
    /// says how far: here, in the effective configuration, and in the log with why not better.
    /// Comes before [`Port::tie_to`].
    pub fn steer(&mut self, addresses: &[IpAddr], udp_port: u16) -> Rung {
        let Caps { queues, steering, .. } = *self.caps();
        if queues <= 1 {
            return steering;
        }
        let (rung, refused) = {
            let _control = self.device.eal.control();
            let hashes = steering == Rung::Spread;
            rules::climb(&mut Rules { port: self.device.id, udp_port }, addresses, queues, hashes)
        };
        for why in refused {
            tracing::info!("{}: not steered by {why}", self.name());
        }
        // The queues hold the device, and none has been given out or used yet.
        self.queues.clear();
        if let Some(device) = Arc::get_mut(&mut self.device) {
            device.caps.steering = rung;
        }
        self.queues = queues_of(&self.device);
        tracing::info!("{}: {}", self.name(), self.caps());
        rung
    }

    /// Queue `index`.
    #[must_use]
    pub fn queue(&mut self, index: usize) -> Option<&mut PortQueue> {
        self.queues.get_mut(index)
    }

    /// Receives on queue 0; see [`PortQueue::rx_burst`].
    #[inline]
    pub fn rx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        self.queues.first_mut().map_or(0, |queue| queue.rx_burst(burst))
    }

    /// Sends on queue 0; see [`PortQueue::tx_burst`].
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        self.queues.first_mut().map_or(0, |queue| queue.tx_burst(burst))
    }

    /// Packets that queue 0 refused; see [`PortQueue::refused`].
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.queues.iter().map(PortQueue::refused).sum()
    }

    /// Gives the queues out, one for each worker. The device is closed when the last is dropped.
    #[must_use]
    pub fn into_queues(self) -> Vec<PortQueue> {
        self.queues
    }
}

/// Every queue of `device`.
fn queues_of(device: &Arc<Device>) -> Vec<PortQueue> {
    let queue = |index| PortQueue { index, refused: 0, device: Arc::clone(device), tie: None };
    (0..device.caps.queues).map(queue).collect()
}

impl PortQueue {
    /// Receives up to `burst.room()` packets, adds them to `burst`, and says how many.
    #[inline]
    pub fn rx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        let spare = burst.spare();
        let room = count_u16(spare.len());
        let slots = as_pointers(spare);
        // SAFETY: a started port and a queue that this value alone polls; room for `room` pointers.
        let got = unsafe { sys::rdpdk_rx_burst(self.device.id, self.index, slots, room) };
        burst.grow(usize::from(got));
        usize::from(got)
    }

    /// Sends from the front of `burst`, keeps in it what the device has no descriptors for, and
    /// says how many were sent. Packets that the device cannot send at all are freed and counted in
    /// [`Self::refused`]: drivers would loop on them, truncate them, or count them as sent.
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        self.refuse_unsendable(burst);
        let prepares = self.device.caps.tx_checksums;
        let count = if prepares { self.prepare(burst) } else { count_u16(burst.len()) };
        let slots = as_pointers(burst.filled());
        // SAFETY: a started port and a queue that this value alone uses; `count` owned mbufs.
        let sent = unsafe { sys::rdpdk_tx_burst(self.device.id, self.index, slots, count) };
        burst.forget_front(usize::from(sent));
        usize::from(sent)
    }

    /// Has the driver make packets with offloads ready, and says how many from the front are. The
    /// first packet is freed if it can never be sent.
    #[inline]
    fn prepare(&mut self, burst: &mut MbufBurst) -> u16 {
        let filled = burst.filled();
        let count = count_u16(filled.len());
        let slots = as_pointers(filled);
        // SAFETY: a started port and a queue that this value alone uses; `count` owned mbufs.
        let ready = unsafe { sys::rdpdk_tx_prepare(self.device.id, self.index, slots, count) };
        if ready == 0 && count > 0 {
            let mut all = burst.drain();
            self.refused += u64::from(all.next().is_some());
            for mbuf in all {
                let kept = burst.push(mbuf);
                debug_assert!(kept.is_ok(), "a burst grew while it was filtered");
            }
        }
        ready
    }

    /// Whether the device reads `range` of `memory` where it lies. A card that was not told of it
    /// would read nothing and send nothing.
    #[inline]
    pub(crate) fn reads(&self, memory: &ExtBuf, range: &Range<usize>) -> bool {
        memory.is_read_by(self.device.reader, range)
    }

    /// The message that `memory` was attached for is over, acknowledged to its last byte or not.
    /// Returns what is still to be waited for.
    ///
    /// Drivers of cards keep the last frames that they sent until more are sent, which an idle card
    /// never does, so they are not waited for. An acknowledgement proves that the card has read a
    /// segment: it takes the frames of a queue in order; what is attached is a segment's first
    /// transmission, retransmissions and parity are copied and come behind it; so whichever frame
    /// told the receiver of the bytes, that transmission had left. A peer that acknowledges what it
    /// never got may be sent what the application writes there next, within the region. Of a
    /// message that failed nothing is proven: the region comes back with the driver's frames.
    pub(crate) fn message_over(&self, memory: ExtBuf, acknowledged: bool) -> Option<ExtBuf> {
        if self.device.is_vdev {
            return Some(memory);
        }
        if acknowledged {
            // SAFETY: the mbufs were given to this card, whose driver only frees them, and the card
            // has read them, see above.
            unsafe { memory.give_back() };
        }
        None
    }

    /// Where the device says when frames arrived, in what [`Self::ticks`] reads; `None` where it
    /// does not.
    pub(crate) fn times(&self) -> Option<TimestampField> {
        self.device.times
    }

    /// Reads the device's clock: a register of the card is read, or its firmware asked.
    pub(crate) fn ticks(&self) -> ReadTicks {
        let device = Arc::clone(&self.device);
        Box::new(move || device.clock())
    }

    /// The queue for frames that the device sends at their time, and where it is told; `None` where
    /// it does not. To be asked once.
    pub(crate) fn timed(&self) -> Option<(Self, TimestampField)> {
        let device = &self.device;
        let field = device.departures.filter(|_| device.caps.tx_times == TxTimes::Device)?;
        let index = device.caps.queues + self.index;
        let (device, tie) = (Arc::clone(device), self.tie.clone());
        Some((Self { index, refused: 0, device, tie }, field))
    }

    /// Asks the driver to free what it has sent and kept; drivers without such a call free it when
    /// more is sent.
    pub(crate) fn reclaim(&mut self) {
        // SAFETY: a started port and a queue that this value alone uses; 0 is all.
        unsafe { sys::rte_eth_tx_done_cleanup(self.device.id, self.index, 0) };
    }

    /// Packets freed because they were longer than the device's limit, or chains that it cannot
    /// send and that do not fit in one segment.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// The effective configuration of the port.
    #[must_use]
    pub fn caps(&self) -> &Caps {
        &self.device.caps
    }

    /// The device's counters, all queues together.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        self.device.stats()
    }

    /// Every counter that the driver has, by the driver's names, all queues together.
    #[must_use]
    pub fn xstats(&self) -> Vec<(String, u64)> {
        self.device.xstats()
    }

    /// Whether the device has a link.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.device.link().is_some()
    }

    #[inline]
    fn refuse_unsendable(&mut self, burst: &mut MbufBurst) {
        let limit = self.device.caps.max_frame.bytes();
        let chains = self.device.caps.tx_multi_segs;
        let bad = |m: &mut crate::mbuf::Mbuf| {
            m.pkt_len() > limit || (!chains && m.nb_segs() > 1 && !m.linearize())
        };
        if burst.iter_mut().any(bad) {
            // Rare, so the order of the rest is kept the simple way.
            let mut kept = MbufBurst::new();
            for mut mbuf in burst.drain() {
                if bad(&mut mbuf) {
                    self.refused += 1;
                } else {
                    let kept = kept.push(mbuf);
                    debug_assert!(kept.is_ok(), "a burst grew while it was filtered");
                }
            }
            *burst = kept;
        }
    }
}

impl Device {
    fn clock(&self) -> Option<u64> {
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

    /// Its bit in who may read memory of applications; 0 when it reads none, or when what it sends
    /// at a time of its own can be overtaken, so that [`PortQueue::message_over`] would not hold.
    fn reader_bit(&self) -> Readers {
        let Caps { tx_multi_segs, tx_times, ref driver, .. } = self.caps;
        if !tx_multi_segs {
            0
        } else if self.is_vdev {
            if READS_ALL.contains(&driver.as_str()) { VIRTUAL } else { 0 }
        } else if tx_times == TxTimes::Device {
            0
        } else {
            self.eal.cards().add(&self.eal, self.id, self.name.to_str().unwrap_or_default())
        }
    }

    /// Says when buffers lie at another processor than the device: every packet then crosses.
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
    fn link(&self) -> Option<u32> {
        let mut mbps = 0;
        let mut up = 0;
        // SAFETY: a valid port and two places for the answer.
        let ret = unsafe { sys::rdpdk_port_link(self.id, &raw mut mbps, &raw mut up) };
        let known = if mbps == sys::RDPDK_LINK_SPEED_UNKNOWN { 0 } else { mbps };
        (ret == 0 && up != 0).then_some(known)
    }

    /// Waits until the link is up, or down, at most `timeout_ms` milliseconds; false when it is
    /// not.
    fn wait_link(&self, up: bool, timeout_ms: u32) -> bool {
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

    fn stats(&self) -> PortStats {
        let mut raw = sys::rte_eth_stats::default();
        // SAFETY: a valid port and a place for the answer, which stays zero on failure.
        unsafe { sys::rte_eth_stats_get(self.id, &raw mut raw) };
        PortStats {
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

    fn xstats(&self) -> Vec<(String, u64)> {
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
struct Rules {
    port: u16,
    udp_port: u16,
}

impl rules::Rules for Rules {
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

impl Drop for Tie {
    fn drop(&mut self) {
        let eal = self.first.eal.clone();
        let control = eal.control();
        // A handshake under way would run into the disconnect; it takes about a second.
        let connected =
            self.first.wait_link(true, HANDSHAKE_MS) && self.second.wait_link(true, HANDSHAKE_MS);
        eal.settle_interrupts(&control);
        // SAFETY: no queue is left, so nobody polls either port.
        unsafe { sys::rte_eth_dev_stop(self.first.id) };
        if connected && !self.second.wait_link(false, HANDSHAKE_MS) {
            tracing::warn!(port = ?self.second.name, "the far side did not see the disconnect");
        }
        eal.settle_interrupts(&control);
    }
}

const HANDSHAKE_MS: u32 = 3000;

impl Drop for Device {
    fn drop(&mut self) {
        if !self.is_vdev {
            self.eal.cards().remove(self.reader);
        }
        let control = self.eal.control();
        // Some drivers refuse to close over rules.
        clear_rules(self.id);
        // SAFETY: no queue is left, so nobody polls the port.
        unsafe { sys::rte_eth_dev_stop(self.id) };
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

/// Virtual devices that copy what they send, or hand it to a reader within this process. Others may
/// pass it on to cards, or to processes that cannot read it.
const READS_ALL: [&str; 7] =
    ["net_af_packet", "net_af_xdp", "net_memif", "net_null", "net_pcap", "net_ring", "net_tap"];

const ANY_SOCKET: u32 = u32::MAX;

fn check(port: &str, step: Step, ret: c_int) -> Result<(), PortError> {
    if ret == 0 { Ok(()) } else { Err(PortError::setup(port, step, ret)) }
}

fn check_port_count() -> Result<(), PortError> {
    // SAFETY: counts entries of a table.
    let taken = unsafe { sys::rte_eth_dev_count_avail() };
    if u32::from(taken) < sys::RDPDK_MAX_ETHPORTS {
        Ok(())
    } else {
        Err(PortError::TooMany(sys::RDPDK_MAX_ETHPORTS))
    }
}

fn find(eal: &Eal, name: &str) -> Result<u16, PortError> {
    let c_name = eal::c_string(name)?;
    let _control = eal.control();
    let mut id = 0;
    // SAFETY: a NUL-terminated name and a place for the answer.
    let ret = unsafe { sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &raw mut id) };
    check(name, Step::Find, ret).map(|()| id)
}

fn configure(id: u16, name: &str, plan: &mut Plan) -> Result<(), PortError> {
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
    check(name, Step::Configure, ret)?;
    let (rx, tx) = &mut plan.caps.descriptors;
    // SAFETY: a valid port and two numbers to adjust.
    let ret = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, rx, tx) };
    check(name, Step::Configure, ret)
}

/// Sets the MTU once more as its own call, whose answer says whether the device has such a setting.
fn set_mtu(id: u16, config: &PortConfig, plan: &mut Plan) {
    if config.keep_mtu {
        plan.caps.max_frame = FrameLimit::Set(config.max_frame);
        return;
    }
    // SAFETY: a valid, configured port.
    let ret = unsafe { sys::rte_eth_dev_set_mtu(id, plan.mtu) };
    plan.caps.max_frame = match ret {
        0 => FrameLimit::Set(plan.mtu_frame.min(config.max_frame)),
        _ if ret == -libc::ENOTSUP => FrameLimit::Unproven(config.max_frame),
        // It has the setting and refuses this one: what every Ethernet carries is left.
        _ => FrameLimit::Set(config.max_frame.min(STANDARD_FRAME)),
    };
}

const STANDARD_FRAME: u32 = 1514;

fn set_up_queues(id: u16, name: &str, plan: &Plan, pool: &Pool) -> Result<(), PortError> {
    for queue in 0..plan.caps.queues {
        let descriptors = plan.caps.descriptors.0;
        // SAFETY: a configured port, defaults for the settings, and a pool that the device keeps.
        let ret = unsafe {
            sys::rte_eth_rx_queue_setup(id, queue, descriptors, ANY_SOCKET, ptr::null(), pool.raw())
        };
        check(name, Step::RxQueue, ret)?;
    }
    for queue in 0..plan.tx_queues {
        let descriptors = plan.caps.descriptors.1;
        // SAFETY: a configured port and defaults for the settings.
        let ret =
            unsafe { sys::rte_eth_tx_queue_setup(id, queue, descriptors, ANY_SOCKET, ptr::null()) };
        check(name, Step::TxQueue, ret)?;
    }
    Ok(())
}

/// The text up to the first NUL of a C array.
fn c_text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().map(|c| c.cast_unsigned()).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |t| t.to_string_lossy().into())
}

#[inline]
fn count_u16(count: usize) -> u16 {
    // Bursts are at most 32 long.
    u16::try_from(count.min(BURST)).unwrap_or(0)
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
