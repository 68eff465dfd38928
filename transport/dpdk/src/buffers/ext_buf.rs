//! Uses of regions: mbufs that point into an application's memory instead of holding a copy.
//!
//! Source: DPDK Programmer's Guide, "Mbuf Library", external buffers. An [`ExtBuf`] is made for a
//! message, and counts the mbufs that are attached through it, wherever drivers hold them; DPDK
//! reports when the last goes. Lengths are bytes.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use dpdk_sys as sys;

use crate::buffers::pages::Mapping;
use crate::buffers::region::Region;
use crate::eal::cards::Readers;

/// One use of a region: mbufs point into it instead of holding a copy. It is counted: the region is
/// released when this handle and every mbuf attached through it are gone, or earlier where a card
/// has read the mbufs.
///
/// The handle counts holders in advance, a burst of them at a time, so that attaching touches the
/// shared count, which other threads change, once a burst.
pub struct ExtBuf {
    region: Arc<Region>,
    shared: NonNull<ExtShared>,
    /// Counted already, but not attached yet.
    ahead: Cell<u16>,
}

/// Holders counted at once.
const AHEAD: u16 = 32;

/// DPDK counts holders in 16 bits. The distance to 65 535 covers threads that attach at once.
const HOLDERS_MAX: u16 = 60_000;

/// The heap object behind a counted use; the last holder frees it.
struct ExtShared {
    info: sys::rte_mbuf_ext_shared_info,
    #[allow(dead_code, reason = "held, not read")]
    holds: Holds,
}

/// The memory that mbufs keep alive while they point into it.
#[allow(dead_code, reason = "held, not read")]
enum Holds {
    /// The right to read the bytes.
    Region(Arc<Region>),
    /// The pages, whose bytes may be changed by others.
    Pages(Arc<Mapping>),
}

impl ExtBuf {
    /// A use of `region` that no mbuf shares yet.
    #[must_use]
    pub fn over(region: Arc<Region>) -> Self {
        let info = sys::rte_mbuf_ext_shared_info::default();
        let holds = Holds::Region(Arc::clone(&region));
        let shared = NonNull::from(Box::leak(Box::new(ExtShared { info, holds })));
        let this = Self { region, shared, ahead: Cell::new(0) };
        // SAFETY: `info` is valid and not shared yet; the callback gets the box's pointer back.
        unsafe { sys::rdpdk_ext_init(this.info(), Some(free_ext), this.shared.as_ptr().cast()) };
        this
    }

    /// The bytes of `range`; `None` when it reaches beyond the memory.
    #[inline]
    #[must_use]
    pub fn range(&self, range: Range<usize>) -> Option<&[u8]> {
        self.region.range(range)
    }

    /// Whether `reader` reads `range` where it lies.
    #[inline]
    pub(crate) fn is_read_by(&self, reader: Readers, range: &Range<usize>) -> bool {
        self.region.is_read_by(reader, range)
    }

    /// Holders: this handle and every attached mbuf.
    #[inline]
    #[must_use]
    pub fn holders(&self) -> u16 {
        self.count().load(Ordering::Acquire) - self.ahead.get()
    }

    /// Ends the use: the region is the application's again, although mbufs point into it. Where no
    /// card reads its memory, it stays with the mbufs.
    ///
    /// # Safety
    /// Nothing reads bytes through mbufs attached to it any more.
    pub(crate) unsafe fn give_back(self) {
        if let Some(mapping) = self.region.mapping() {
            // SAFETY: the box lives at least as long as this handle, which counts as a holder.
            // Nothing else reads or writes `holds`: mbufs touch the count alone, and the last
            // holder frees the box.
            let holds = unsafe { &mut (*self.shared.as_ptr()).holds };
            *holds = Holds::Pages(mapping);
        }
    }

    /// Address, address for devices, and length of `range`, for one holder more; `None`, and
    /// nothing changed, when it is outside or longer than 65 535, or there are too many holders.
    #[inline]
    pub(crate) fn lend(&self, range: Range<usize>) -> Option<(*mut c_void, u64, u16)> {
        let start = range.start;
        let (address, length) = self.region.span_of(range)?;
        let length = u16::try_from(length).ok()?;
        self.share().then(|| (address.as_ptr().cast(), self.region.iova(start), length))
    }

    /// One holder more, unless there are too many.
    #[inline]
    fn share(&self) -> bool {
        if self.ahead.get() == 0 {
            let room = HOLDERS_MAX.saturating_sub(self.count().load(Ordering::Relaxed));
            if room == 0 {
                return false;
            }
            let more = room.min(AHEAD);
            self.count().fetch_add(more, Ordering::Relaxed);
            self.ahead.set(more);
        }
        self.ahead.set(self.ahead.get() - 1);
        true
    }

    #[inline]
    fn count(&self) -> &AtomicU16 {
        // SAFETY: the address of a field of a live object; nothing is read.
        let count = unsafe { &raw mut (*self.info()).refcnt };
        // SAFETY: alive while this handle counts, aligned, and changed atomically only.
        unsafe { AtomicU16::from_ptr(count) }
    }

    pub(crate) fn info(&self) -> *mut sys::rte_mbuf_ext_shared_info {
        // SAFETY: the address of a field of a live object; nothing is read.
        unsafe { &raw mut (*self.shared.as_ptr()).info }
    }
}

// SAFETY: the bytes are read-only and the count is atomic; `ahead` goes with the handle.
unsafe impl Send for ExtBuf {}

impl Drop for ExtBuf {
    fn drop(&mut self) {
        let own = 1 + self.ahead.get();
        if self.count().fetch_sub(own, Ordering::AcqRel) == own {
            // SAFETY: the count reached zero here, so no mbuf will call it.
            unsafe { free_ext(ptr::null_mut(), self.shared.as_ptr().cast()) };
        }
    }
}

impl fmt::Debug for ExtBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExtBuf({} bytes, {} holders)", self.region.len(), self.holders())
    }
}

/// Frees the memory; DPDK calls it when the last mbuf attached to it goes.
unsafe extern "C" fn free_ext(_address: *mut c_void, opaque: *mut c_void) {
    // SAFETY: `opaque` is the box that `ExtBuf::over` leaked; by the count no holder is left.
    drop(unsafe { Box::from_raw(opaque.cast::<ExtShared>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::mbuf::Mbuf;
    use crate::buffers::pool::{Pool, PoolConfig};
    use crate::eal::Eal;

    /// A use of the region, and an mbuf that a driver keeps.
    fn kept(pool: &Pool, region: &Arc<Region>) -> (ExtBuf, Mbuf) {
        let memory = ExtBuf::over(Arc::clone(region));
        let (head, piece) = (pool.alloc().unwrap(), pool.alloc().unwrap());
        let kept = Mbuf::frame(head, 10, piece, &memory, 0..5).unwrap();
        assert_eq!(kept.segments().nth(1), Some(&b"first"[..]));
        (memory, kept)
    }

    #[test]
    fn pages_that_cards_read_outlast_a_region_given_back_and_other_memory_stays_with_its_mbufs() {
        let eal = Eal::shared_by_tests();
        let config = PoolConfig { count: 15, room: 128, cache: 0, socket: -1 };
        let pool = Pool::new(&eal, config).unwrap();
        let mut region = Arc::new(Region::in_pages(&eal, b"first").expect("pages to register"));
        let (memory, mbuf) = kept(&pool, &region);
        assert!(Arc::get_mut(&mut region).is_none(), "the mbuf and the message hold it");
        // SAFETY: the mbuf's bytes are read below only while nothing writes them.
        unsafe { memory.give_back() };
        let own = Arc::get_mut(&mut region).expect("it is the application's again");
        own.bytes_mut().copy_from_slice(b"other");
        drop(region);
        assert_eq!(mbuf.segments().nth(1), Some(&b"other"[..]), "the pages are still there");
        drop(mbuf);

        let mut region = Arc::new(Region::new(&eal, (*b"first").into()).unwrap());
        let (memory, mbuf) = kept(&pool, &region);
        // SAFETY: nothing writes the memory here.
        unsafe { memory.give_back() };
        assert!(Arc::get_mut(&mut region).is_none());
        drop(mbuf);
        assert!(Arc::get_mut(&mut region).is_some());
        assert_eq!(pool.in_use(), 0);
    }
}
