//! A DPDK queue as the worker's device: bursts of mbufs, paced to the emulated link.
//!
//! Sent frames come from one pool, one segment each, so its buffers must hold a full frame. Frames
//! not used stay here for the next poll. A stamp travels in the dynamic field of mbufs, in both
//! directions: a host stamps what it sends, the soft switch what it delivers. Lengths are bytes
//! without FCS.

use std::fmt;
use std::sync::Arc;

use transport::{BURST, Instant, Rate};

use crate::boundary::{PacketIo, RxCheck, RxFrame};
use crate::burst::MbufBurst;
use crate::mbuf::{Mbuf, Pool, TimestampField};
use crate::nic::{Port, PortQueue};
use crate::pacer::LinkPacer;

/// One queue, its pace and its frames.
pub struct PortIo {
    queue: PortQueue,
    pool: Arc<Pool>,
    stamps: Option<TimestampField>,
    pacer: Option<LinkPacer>,
    rx: MbufBurst,
    /// Filled, or kept.
    tx: MbufBurst,
    spare: MbufBurst,
    /// Where chains are gathered.
    gathered: Box<[u8]>,
    rx_checked: bool,
}

/// The longest frame of ours: 9 KB jumbo with room for all headers.
const FRAME_MAX: usize = 9216;

impl PortIo {
    /// Sends at the device's own pace, with frames from `pool`.
    #[must_use]
    pub fn new(queue: PortQueue, pool: Arc<Pool>, stamps: Option<TimestampField>) -> Self {
        let rx_checked = queue.caps().rx_checksums;
        Self {
            queue,
            pool,
            stamps,
            pacer: None,
            rx: MbufBurst::new(),
            tx: MbufBurst::new(),
            spare: MbufBurst::new(),
            gathered: vec![0; FRAME_MAX].into_boxed_slice(),
            rx_checked,
        }
    }

    /// The first queue of `port`; the others, if any, are closed with it.
    #[must_use]
    pub fn of_port(port: Port, pool: Arc<Pool>, stamps: Option<TimestampField>) -> Option<Self> {
        let queue = port.into_queues().into_iter().next()?;
        Some(Self::new(queue, pool, stamps))
    }

    /// Paces it to an emulated link of `rate` for packets of at most `packet` bytes.
    #[must_use]
    pub fn paced(mut self, rate: Rate, packet: transport::Bytes) -> Self {
        self.pacer = Some(LinkPacer::new(rate, packet));
        self
    }

    /// The queue, for its counters.
    #[must_use]
    pub fn queue(&self) -> &PortQueue {
        &self.queue
    }

    /// The frames that the next [`PacketIo::tx_burst`] hands over, for a device that looks on.
    pub fn pending(&self) -> impl Iterator<Item = &Mbuf> {
        self.tx.iter()
    }

    /// Moves the mbufs of `burst`, as many as fit, behind those received: an emulated device's.
    pub fn deliver(&mut self, burst: &mut MbufBurst) {
        let mut kept = MbufBurst::new();
        for mbuf in burst.drain() {
            if let Err(mbuf) = self.rx.push(mbuf) {
                let kept = kept.push(mbuf);
                debug_assert!(kept.is_ok(), "a burst grew while it was moved");
            }
        }
        *burst = kept;
    }

    /// Mbufs in its hands: received, kept and spare. All return to their pools when it is dropped.
    #[must_use]
    pub fn held(&self) -> usize {
        self.rx.len() + self.tx.len() + self.spare.len()
    }
}

impl PacketIo for PortIo {
    #[inline]
    fn rx_burst(&mut self) -> usize {
        self.rx.clear();
        self.queue.rx_burst(&mut self.rx)
    }

    #[inline]
    fn rx_frame(&mut self, index: usize) -> Option<RxFrame<'_>> {
        let mbuf = self.rx.get(index)?;
        let stamp = self.stamps.and_then(|field| field.get(mbuf)).map(Instant::from_ps);
        let check = if mbuf.checksum_bad() {
            RxCheck::Bad
        } else if self.rx_checked && mbuf.checksum_good() {
            RxCheck::Good
        } else {
            RxCheck::Unknown
        };
        let bytes = if mbuf.nb_segs() == 1 {
            mbuf.data()
        } else {
            let length = usize::try_from(mbuf.pkt_len()).ok()?;
            let room = self.gathered.get_mut(..length)?;
            mbuf.copy_out(0, room).then_some(&*room)?
        };
        Some(RxFrame { bytes, stamp, check })
    }

    #[inline]
    fn rx_release(&mut self) {
        self.rx.clear();
    }

    #[inline]
    fn tx_room(&mut self, now: Instant) -> usize {
        let pace = self.pacer.as_mut().map_or(BURST, |pacer| pacer.room(now));
        let wanted = pace.min(self.tx.room());
        if self.spare.len() < wanted {
            // All or none; with none, what is spare already still goes.
            let missing = wanted - self.spare.len();
            self.pool.alloc_burst(&mut self.spare, missing);
        }
        wanted.min(self.spare.len())
    }

    #[inline]
    fn tx_frame(&mut self, len: u16, now: Instant) -> Option<&mut [u8]> {
        let mut mbuf = self.spare.pop()?;
        mbuf.append(len)?;
        if let Some(field) = self.stamps {
            field.set(&mut mbuf, now.as_ps());
        }
        let at = self.tx.len();
        self.tx.push(mbuf).ok()?;
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(u64::from(len));
        }
        self.tx.get_mut(at)?.data_mut()
    }

    fn tx_cancel(&mut self) {
        drop(self.tx.pop());
    }

    #[inline]
    fn tx_burst(&mut self) -> usize {
        if self.tx.is_empty() { 0 } else { self.queue.tx_burst(&mut self.tx) }
    }

    #[inline]
    fn tx_kept(&self) -> usize {
        self.tx.len()
    }

    fn tx_discard(&mut self) -> usize {
        let discarded = self.tx.len();
        self.tx.clear();
        discarded
    }
}

impl fmt::Debug for PortIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortIo({:?}, {} mbufs held)", self.queue, self.held())
    }
}
