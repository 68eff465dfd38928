//! Devices: one port is one ethdev.
//!
//! Source: DPDK Programmer's Guide, "Poll Mode Driver". A [`DevicePort`] owns its queues; its
//! device (`ethdev.rs`) is closed and unplugged when the port and all queues are gone. Queues are
//! separate values, so that each can go to another worker. Frame lengths are bytes without FCS; a
//! burst is at most 32 packets.
//!
//! This code waits only for the link, retries nothing, and steers nothing.
#![allow(unsafe_code)]

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use dpdk_sys as sys;

use crate::buffers::burst::{MbufBurst, count_u16};
use crate::buffers::ext_buf::ExtBuf;
use crate::buffers::mbuf::as_pointers;
use crate::buffers::pool::Pool;
use crate::buffers::ring::{RingRx, RingTx};
use crate::buffers::stamp_field::TimestampField;
use crate::clock::device_clock::ReadTicks;
use crate::device::caps::{Caps, PortConfig, TxTimes};
use crate::device::error::{PortError, SetupStep};
use crate::device::ethdev::{self, ANY_SOCKET, Device, Keep, PortRules};
use crate::device::rules::{self, Rung};
use crate::device::stats::DeviceStats;
use crate::eal::{self, Eal};

/// One device with all its queues.
#[derive(Debug)]
pub struct DevicePort {
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

/// Two connected devices of this process that are closed together, when both ports and all their
/// queues are dropped. So no thread polls one while the other ends the connection. The driver's own
/// disconnect (on DPDK's interrupt thread) is over before the second device is closed.
///
/// Every holder drops its device before its tie, so that the tie's are the last.
#[derive(Debug)]
struct Tie {
    first: Arc<Device>,
    second: Arc<Device>,
}

impl DevicePort {
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
        let id = ethdev::find(eal, name)?;
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
        ethdev::check_port_count()?;
        eal.add_vdev(name, arguments)?;
        let id = ethdev::find(eal, name).inspect_err(|_| eal.remove_vdev_by_name(name))?;
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
        ethdev::check_port_count()?;
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
                .map_err(|_| PortError::setup(&name, SetupStep::Find, -eal::last_errno().0))?
        };
        Self::set_up(eal, (id, &name), config, pool, (true, Keep::Rings(rings)))
    }

    fn set_up(
        eal: &Eal,
        named: (u16, &str),
        config: &PortConfig,
        pool: Arc<Pool>,
        kind: (bool, Keep),
    ) -> Result<Self, PortError> {
        let device = Arc::new(Device::open(eal, named, config, pool, kind)?);
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
    pub fn stats(&self) -> DeviceStats {
        self.device.stats()
    }

    /// Every counter that the driver has, by the driver's names.
    #[must_use]
    pub fn xstats(&self) -> Vec<(String, u64)> {
        self.device.xstats()
    }

    /// Steers frames for `udp_port` of `addresses[i]` to queue `i`, as far as the device can, and
    /// returns how far. The effective configuration and the log have the result, too, with the
    /// reason why it is not better. Comes before [`DevicePort::tie_to`].
    pub fn steer(&mut self, addresses: &[IpAddr], udp_port: u16) -> Rung {
        let Caps { queues, steering, .. } = *self.caps();
        if queues <= 1 {
            return steering;
        }
        let (rung, refused) = {
            let _control = self.device.eal.control();
            let hashes = steering == Rung::Spread;
            rules::climb(
                &mut PortRules { port: self.device.id, udp_port },
                addresses,
                queues,
                hashes,
            )
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
    /// Receives up to `burst.room()` packets, adds them to `burst`, and returns how many.
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

    /// Sends from the front of `burst`, keeps frames in it for which the device has no descriptors,
    /// and returns how many were sent. Packets that the device cannot send at all are freed and
    /// counted in [`Self::refused`]: drivers would loop on them, truncate them, or count them as
    /// sent.
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

    /// Has the driver make packets with offloads ready, and returns how many from the front are.
    /// The first packet is freed if it can never be sent.
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

    /// Whether the device reads `range` of `memory` where it lies. A card that it is not mapped for
    /// would read nothing and send nothing.
    #[inline]
    pub(crate) fn reads(&self, memory: &ExtBuf, range: &Range<usize>) -> bool {
        memory.is_read_by(self.device.reader, range)
    }

    /// Ends the use of `memory` by a message that is over, acknowledged to its last byte or not.
    /// Returns the memory while frames of it still have to be waited for.
    ///
    /// Drivers of cards keep the last frames that they sent until more are sent, which an idle card
    /// never does, so they are not waited for. An acknowledgement proves that the card has read a
    /// segment. A card takes the frames of a queue in order. What is attached is a segment's first
    /// transmission; retransmissions and parity are copied and come behind it. So whichever frame
    /// brought the bytes to the receiver, that transmission had left. A peer that acknowledges
    /// bytes which it never got may be sent what the application writes there next, within the
    /// region. For a message that failed there is no such proof: the region comes back with the
    /// driver's frames.
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

    /// The field in which the device reports when frames arrived, in ticks of [`Self::ticks`];
    /// `None` where it does not.
    pub(crate) fn times(&self) -> Option<TimestampField> {
        self.device.times
    }

    /// Reads the device's clock: a register of the card is read, or its firmware asked.
    pub(crate) fn ticks(&self) -> ReadTicks {
        let device = Arc::clone(&self.device);
        Box::new(move || device.clock())
    }

    /// The queue for frames that the device sends at their time, and the field of that time; `None`
    /// where it does not. To be called once.
    pub(crate) fn timed(&self) -> Option<(Self, TimestampField)> {
        let device = &self.device;
        let field = device.departures.filter(|_| device.caps.tx_times == TxTimes::Device)?;
        let index = device.caps.queues + self.index;
        let (device, tie) = (Arc::clone(device), self.tie.clone());
        Some((Self { index, refused: 0, device, tie }, field))
    }

    /// Asks the driver to free the frames that it has sent and kept; drivers without such a call
    /// free them when more are sent.
    pub(crate) fn reclaim(&mut self) {
        // SAFETY: a started port and a queue that this value alone uses; 0 is all.
        unsafe { sys::rte_eth_tx_done_cleanup(self.device.id, self.index, 0) };
    }

    /// Whether the kernel sends the queue's frames out of a ring.
    pub(crate) fn has_ring(&self) -> bool {
        self.device.ring(self.index).is_some()
    }

    /// Has the kernel send the frames that wait in the queue's ring; true when none waited.
    pub(crate) fn send_waiting(&self) -> bool {
        self.device.ring(self.index).is_none_or(eal::send_waiting)
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
    pub fn stats(&self) -> DeviceStats {
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
        let bad = |m: &mut crate::buffers::mbuf::Mbuf| {
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

impl Drop for Tie {
    fn drop(&mut self) {
        let eal = self.first.eal.clone();
        let control = eal.control();
        // A handshake under way would run into the disconnect; it takes about a second.
        let connected =
            self.first.wait_link(true, HANDSHAKE_MS) && self.second.wait_link(true, HANDSHAKE_MS);
        eal.settle_interrupts(&control);
        // SAFETY: no queue is left, so no thread polls either port.
        unsafe { sys::rte_eth_dev_stop(self.first.id) };
        if connected && !self.second.wait_link(false, HANDSHAKE_MS) {
            tracing::warn!(port = ?self.second.name, "the far side did not see the disconnect");
        }
        eal.settle_interrupts(&control);
    }
}

const HANDSHAKE_MS: u32 = 3000;
