//! The mbufs that are in the emulated network, by the handles of their [`fabric::Packet`]s.
//!
//! A faulty link may deliver a packet twice, so the copies under way are counted; each but the
//! last end gets a copy of the bytes. Grows to the most packets ever under way at once, then
//! allocates no more. It does not bound itself: what hosts may have outstanding does.

use transport_dpdk::{Mbuf, Pool};

/// One packet under way.
#[derive(Debug)]
struct CountedMbuf {
    /// `None` in a free place.
    mbuf: Option<Mbuf>,
    copies: u32,
}

/// The mbufs under way.
#[derive(Debug, Default)]
pub(super) struct MbufSlab {
    places: Vec<CountedMbuf>,
    free: Vec<u32>,
    live: u64,
}

impl MbufSlab {
    /// Keeps a packet and names it.
    pub(super) fn insert(&mut self, mbuf: Mbuf) -> u32 {
        let place = CountedMbuf { mbuf: Some(mbuf), copies: 1 };
        self.live += 1;
        if let Some(handle) = self.free.pop() {
            self.places[handle as usize] = place;
            return handle;
        }
        self.places.push(place);
        u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
    }

    /// Counts one more copy of the packet.
    pub(super) fn duplicate(&mut self, handle: u32) {
        if let Some(place) = self.places.get_mut(handle as usize) {
            place.copies += 1;
            self.live += 1;
        }
    }

    /// The bytes of a packet under way.
    pub(super) fn of(&self, handle: u32) -> Option<&Mbuf> {
        self.places.get(handle as usize)?.mbuf.as_ref()
    }

    /// The bytes of a packet under way, to be edited: see [`MbufSlab::own`].
    pub(super) fn of_mut(&mut self, handle: u32) -> Option<&mut Mbuf> {
        self.places.get_mut(handle as usize)?.mbuf.as_mut()
    }

    /// A handle under which no other copy travels: the packet's own, or that of bytes copied from
    /// `pool`; `None` when that is exhausted.
    pub(super) fn own(&mut self, handle: u32, pool: &Pool) -> Option<u32> {
        let kept = self.places.get(handle as usize)?;
        if kept.copies == 1 {
            return Some(handle);
        }
        let mbuf = kept.mbuf.as_ref()?.deep_copy(pool)?;
        self.end(handle);
        Some(self.insert(mbuf))
    }

    /// One copy of the packet has reached its end: its bytes, copied from `pool` while other copies
    /// are under way; `None` when that is exhausted.
    pub(super) fn take(&mut self, handle: u32, pool: &Pool) -> Option<Mbuf> {
        let place = self.end(handle)?;
        if place.copies == 0 { place.mbuf.take() } else { place.mbuf.as_ref()?.deep_copy(pool) }
    }

    /// One copy of the packet is lost.
    pub(super) fn lose(&mut self, handle: u32) {
        if let Some(place) = self.end(handle).filter(|place| place.copies == 0) {
            place.mbuf = None;
        }
    }

    fn end(&mut self, handle: u32) -> Option<&mut CountedMbuf> {
        let place = self.places.get_mut(handle as usize)?;
        debug_assert!(place.copies > 0, "a packet ends once");
        place.copies -= 1;
        self.live -= 1;
        if place.copies == 0 {
            self.free.push(handle);
        }
        Some(place)
    }

    /// Copies under way.
    pub(super) fn live(&self) -> u64 {
        self.live
    }
}
