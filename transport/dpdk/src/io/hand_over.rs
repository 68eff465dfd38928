//! Several workers at one device: each frame goes to the worker whose host it is for.
//!
//! A worker is a host with an address of its own, and has all flows of that host. Every packet
//! names its destination, so no flow has packets at two workers. Devices may spread received frames
//! over their queues in any way, for example by a hash that includes the entropy value, which
//! differs from packet to packet. So each worker looks at the frames of its queue and hands over
//! those of other workers, through a ring between every two workers.
//!
//! A frame that does not fit into the other worker's ring is dropped and counted, and its sender
//! sends it again: a worker that stands still must not stop the others. Counts are frames.

use std::fmt;
use std::sync::Arc;

use transport::wire::addressing::Addressing;
use transport::wire::frame;
use transport::{HostId, counters};

use crate::buffers::burst::MbufBurst;
use crate::buffers::mbuf::Mbuf;
use crate::buffers::ring::{Ring, RingError, RingRx, RingTx};
use crate::eal::Eal;

/// One worker's ends of the rings between all workers of a device.
pub struct HandOver {
    addressing: Addressing,
    /// The host of each worker.
    hosts: Arc<[HostId]>,
    own: usize,
    /// Rings to the other workers, by worker; none to itself.
    ways: Box<[Option<Way>]>,
    from: Vec<RingRx>,
    /// The last burst began with the rings, and the next begins with the worker's own queue.
    rings_first: bool,
    counts: HandOverCounts,
}

/// Frames for another worker, and its ring.
struct Way {
    ring: RingTx,
    frames: MbufBurst,
}

counters! {
    /// Counters of frames handed over between workers.
    pub struct HandOverCounts {
        /// Frames given to other workers.
        pub given: u64,
        /// Frames taken from other workers.
        pub taken: u64,
        /// Frames for another worker whose ring was full.
        pub ring_full: u64,
    }
}

impl HandOver {
    /// The ends of all rings, one for each of `hosts`, the hosts of a device's workers. Each ring
    /// holds `depth` frames.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn between(
        eal: &Eal,
        addressing: &Addressing,
        hosts: &[HostId],
        depth: u32,
    ) -> Result<Vec<Self>, RingError> {
        let hosts: Arc<[HostId]> = hosts.into();
        let workers = hosts.len();
        let mut all: Vec<Self> = (0..workers)
            .map(|own| Self {
                addressing: addressing.clone(),
                hosts: Arc::clone(&hosts),
                own,
                ways: (0..workers).map(|_| None).collect(),
                from: Vec::new(),
                rings_first: false,
                counts: HandOverCounts::default(),
            })
            .collect();
        for from in 0..workers {
            for to in (0..workers).filter(|to| *to != from) {
                let (ring, end) = Ring::spsc(eal, depth)?;
                all[from].ways[to] = Some(Way { ring, frames: MbufBurst::new() });
                all[to].from.push(end);
            }
        }
        Ok(all)
    }

    /// The counters of frames handed over so far.
    #[must_use]
    pub const fn counts(&self) -> HandOverCounts {
        self.counts
    }

    /// Fills `rx`, which is empty, from the worker's own `queue` and from frames that other workers
    /// have handed over, and hands over frames of other workers. Queue and rings come first by
    /// turns, so that neither a full queue nor full rings stop the other.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        rx: &mut MbufBurst,
        queue: impl FnOnce(&mut MbufBurst) -> usize,
    ) {
        self.rings_first = !self.rings_first;
        if self.rings_first {
            self.take(rx);
        }
        let taken = rx.len();
        if queue(rx) > 0 {
            self.give(rx, taken);
        }
        if !self.rings_first {
            self.take(rx);
        }
    }

    /// Adds to `rx` the frames that others have handed over, as many as fit.
    #[inline]
    fn take(&mut self, rx: &mut MbufBurst) {
        // Rotates the order, so that no ring is always read last, or not at all.
        if self.from.len() > 1 {
            self.from.rotate_left(1);
        }
        for ring in &mut self.from {
            if rx.room() == 0 {
                return;
            }
            self.counts.taken += ring.rx_burst(rx) as u64;
        }
    }

    /// Gives frames of `rx` from `first` on that are for other workers to their rings; the order of
    /// the rest stays. A frame for none of the workers stays too, to be counted.
    #[inline]
    fn give(&mut self, rx: &mut MbufBurst, first: usize) {
        for (index, mbuf) in rx.drain().enumerate() {
            let owner = if index < first { None } else { self.owner(&mbuf) };
            let way = owner.and_then(|owner| self.ways[owner].as_mut());
            // Both hold what one burst brings.
            let kept = match way {
                Some(way) => way.frames.push(mbuf),
                None => rx.push(mbuf),
            };
            debug_assert!(kept.is_ok(), "more frames than a burst");
        }
        for way in self.ways.iter_mut().flatten().filter(|way| !way.frames.is_empty()) {
            self.counts.given += way.ring.tx_burst(&mut way.frames) as u64;
            self.counts.ring_full += way.frames.len() as u64;
            way.frames.clear();
        }
    }

    /// The worker of the host that a frame is for.
    #[inline]
    fn owner(&self, mbuf: &Mbuf) -> Option<usize> {
        let host = frame::route_of(mbuf.data(), &self.addressing).ok()?.dst;
        if self.hosts.get(self.own) == Some(&host) {
            return Some(self.own);
        }
        self.hosts.iter().position(|known| *known == host)
    }
}

impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandOver(worker {} of {}, {:?})", self.own, self.hosts.len(), self.counts)
    }
}
