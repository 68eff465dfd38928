//! The mbufs that are in the emulated network, by the handles of their [`fabric::Packet`]s, each
//! with the place of its telemetry.
//!
//! Each copy of a packet but the last gets a copy of the bytes when it ends or is edited.

use fabric::{CopySlab, Counted};
use transport::wire::frame::IntPlace;
use transport_dpdk::{Mbuf, Pool};

/// One packet under way.
#[derive(Debug)]
struct CountedMbuf {
    /// `None` in a free place.
    mbuf: Option<Mbuf>,
    copies: u16,
    int: Option<IntPlace>,
}

const _: () = assert!(size_of::<CountedMbuf>() == 16, "four packets in a line of cache");

impl Counted for CountedMbuf {
    fn copies(&mut self) -> &mut u16 {
        &mut self.copies
    }
}

/// The mbufs under way.
#[derive(Debug, Default)]
pub(crate) struct MbufSlab(CopySlab<CountedMbuf>);

impl MbufSlab {
    /// Keeps a packet, whose frame has its telemetry at `int`, and names it.
    #[inline]
    pub(crate) fn insert(&mut self, mbuf: Mbuf, int: Option<IntPlace>) -> u32 {
        self.0.keep(CountedMbuf { mbuf: Some(mbuf), copies: 1, int })
    }

    /// Counts one more copy of the packet.
    pub(crate) fn duplicate(&mut self, handle: u32) {
        self.0.duplicate(handle);
    }

    /// The bytes of a packet under way; `None` for a free place.
    #[inline]
    pub(crate) fn of(&self, handle: u32) -> Option<&Mbuf> {
        self.0.of(handle).mbuf.as_ref()
    }

    /// Where the frame of a packet has its telemetry.
    #[inline]
    pub(crate) fn int_of(&self, handle: u32) -> Option<IntPlace> {
        self.0.of(handle).int
    }

    /// The bytes of a packet under way, to be edited: see [`MbufSlab::own`].
    pub(crate) fn of_mut(&mut self, handle: u32) -> Option<&mut Mbuf> {
        self.0.of_mut(handle).mbuf.as_mut()
    }

    /// The bytes of a packet with telemetry of which no other copy is under way, to be edited, and
    /// the place of its telemetry.
    #[inline]
    pub(crate) fn of_one_copy(&mut self, handle: u32) -> Option<(&mut Mbuf, IntPlace)> {
        let CountedMbuf { mbuf, copies, int } = self.0.of_mut(handle);
        mbuf.as_mut().filter(|_| *copies == 1).zip(*int)
    }

    /// A handle under which no other copy travels: the packet's own, or that of bytes copied from
    /// `pool`; `None` when that is exhausted.
    pub(crate) fn own(&mut self, handle: u32, pool: &Pool) -> Option<u32> {
        if !self.0.is_shared(handle) {
            return Some(handle);
        }
        let (mbuf, int) = (self.of(handle)?.deep_copy(pool)?, self.int_of(handle));
        self.lose(handle);
        Some(self.insert(mbuf, int))
    }

    /// One copy of the packet has reached its end: its bytes, copied from `pool` while other copies
    /// are under way; `None` when that is exhausted.
    #[inline]
    pub(crate) fn take(&mut self, handle: u32, pool: &Pool) -> Option<Mbuf> {
        if let Some(last) = self.0.end(handle) {
            return last.mbuf.take();
        }
        self.of(handle)?.deep_copy(pool)
    }

    /// One copy of the packet is lost.
    pub(crate) fn lose(&mut self, handle: u32) {
        if let Some(last) = self.0.end(handle) {
            last.mbuf = None;
        }
    }

    /// Copies under way.
    pub(crate) fn live(&self) -> u64 {
        self.0.live()
    }
}
