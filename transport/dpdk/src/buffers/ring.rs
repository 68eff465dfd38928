//! Rings: single-producer, single-consumer queues of mbufs.
//!
//! Source: DPDK Programmer's Guide, "Ring Library". A ring is made as its two halves, each of which
//! may go to another thread. Counts are mbufs; a burst is at most 32. No call blocks.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys as sys;
use thiserror::Error;

use crate::buffers::burst::{MbufBurst, count_u16};
use crate::buffers::mbuf::as_pointers;
use crate::eal::{self, Eal, EalError, Errno};

/// Why no ring was made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// EAL refused.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// A ring of no or of too many entries.
    #[error("a ring cannot have {0} entries; choose 1 ..= 1048575")]
    Size(u32),
    /// No memory for a ring.
    #[error("no memory for a ring of {entries} entries ({errno}); give DPDK more memory")]
    Memory {
        /// Entries asked for.
        entries: u32,
        /// DPDK's reason.
        errno: Errno,
    },
}

/// A single-producer, single-consumer ring of mbufs; made as its two halves. Mbufs left in it when
/// both ends are dropped are freed.
pub struct Ring {
    raw: NonNull<sys::rte_ring>,
    #[allow(dead_code, reason = "keeps EAL alive for the ring's memory")]
    eal: Eal,
}

/// The producer's half.
#[derive(Debug)]
pub struct RingTx(Arc<Ring>);

/// The consumer's half.
#[derive(Debug)]
pub struct RingRx(Arc<Ring>);

impl Ring {
    /// A ring for at least `entries` mbufs, 1 ..= 1 048 575.
    ///
    /// # Errors
    /// [`RingError::Size`] and [`RingError::Memory`].
    pub fn spsc(eal: &Eal, entries: u32) -> Result<(RingTx, RingRx), RingError> {
        if !(1..1 << 20).contains(&entries) {
            return Err(RingError::Size(entries));
        }
        let name = eal::c_string(&eal::unique_name())?;
        // One entry of a power of two is unused, so that full differs from empty.
        let size = (entries + 1).next_power_of_two();
        // SAFETY: EAL runs; the name is NUL-terminated and copied.
        let raw = unsafe { sys::rte_ring_create(name.as_ptr(), size, -1, sys::RDPDK_RING_SPSC) };
        let raw = NonNull::new(raw)
            .ok_or_else(|| RingError::Memory { entries, errno: eal::last_errno() })?;
        let ring = Arc::new(Self { raw, eal: eal.clone() });
        Ok((RingTx(Arc::clone(&ring)), RingRx(ring)))
    }

    fn count(&self) -> u32 {
        // SAFETY: the ring lives as long as `self`.
        unsafe { sys::rdpdk_ring_count(self.raw.as_ptr()) }
    }

    fn room(&self) -> u32 {
        // SAFETY: the ring lives as long as `self`.
        unsafe { sys::rdpdk_ring_free_count(self.raw.as_ptr()) }
    }

    fn dequeue(&self, burst: &mut MbufBurst) -> usize {
        let spare = burst.spare();
        let room = u32::from(count_u16(spare.len()));
        let slots = as_pointers(spare);
        // SAFETY: called by the one consumer, or when no other holder is left; room for `room`.
        let got = unsafe { sys::rdpdk_ring_sc_dequeue_burst(self.raw.as_ptr(), slots, room) };
        let got = usize::try_from(got).unwrap_or(0);
        burst.grow(got);
        got
    }
}

// SAFETY: the two halves synchronise inside the ring, and there is one of each.
unsafe impl Send for Ring {}
// SAFETY: as above; `count` and `room` only read.
unsafe impl Sync for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut burst = MbufBurst::new();
        while self.dequeue(&mut burst) > 0 {
            burst.clear();
        }
        // SAFETY: both ends are gone, and so is a device that served them.
        unsafe { sys::rte_ring_free(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} of {})", self.count(), self.count() + self.room())
    }
}

impl RingTx {
    /// DPDK's ring, for a device that serves it.
    pub(crate) fn raw(&self) -> *mut sys::rte_ring {
        self.0.raw.as_ptr()
    }

    /// Puts mbufs from the front of `burst` into the ring, keeps what does not fit, and returns how
    /// many.
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        let filled = burst.filled();
        let count = u32::from(count_u16(filled.len()));
        let slots = as_pointers(filled).cast_const();
        // SAFETY: this half is the one producer; `count` owned mbufs.
        let put = unsafe { sys::rdpdk_ring_sp_enqueue_burst(self.0.raw.as_ptr(), slots, count) };
        let put = usize::try_from(put).unwrap_or(0);
        burst.forget_front(put);
        put
    }

    /// Mbufs that fit now, at least.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        self.0.room()
    }
}

impl RingRx {
    /// DPDK's ring, for a device that serves it.
    pub(crate) fn raw(&self) -> *mut sys::rte_ring {
        self.0.raw.as_ptr()
    }

    /// Takes up to `burst.room()` mbufs, adds them to `burst`, and returns how many.
    #[inline]
    pub fn rx_burst(&mut self, burst: &mut MbufBurst) -> usize {
        self.0.dequeue(burst)
    }

    /// Mbufs in the ring now, at least.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.count()
    }
}
