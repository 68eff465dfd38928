//! Pools of packet buffers, from which mbufs are allocated, alone or a burst at a time.
//!
//! Source: DPDK Programmer's Guide, "Mempool Library". Counts are buffers, sizes are bytes.
//! Allocation crosses to C once a burst.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::{self, size_of};
use std::ptr::NonNull;

use dpdk_sys as sys;
use sys::rte_mbuf;

use crate::buffers::burst::MbufBurst;
use crate::buffers::error::MbufError;
use crate::buffers::mbuf::{HEADROOM, Mbuf, as_pointers};
use crate::eal::{self, Eal};

/// Size of a [`Pool`].
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Mbufs in the pool; 2^k - 1 uses memory best.
    pub count: u32,
    /// Bytes of data that one segment holds behind the headroom.
    pub room: u16,
    /// Mbufs cached per lcore, 0 ..= 512 and at most count / 1.5.
    pub cache: u32,
    /// NUMA node, -1 for any.
    pub socket: i32,
}

/// Bytes of an ordinary page.
const PAGE: u64 = 4096;
const CACHE_LINE: u64 = 64;
/// Bytes that a pool puts before each mbuf, in a cache line of their own.
const OBJECT_HEADER: u64 = CACHE_LINE;
/// Bytes that the ring of a pool has for each mbuf: it has places for up to twice as many.
const IN_RING: u64 = 16;

/// A pool of packet buffers, shared by threads.
///
/// Dropping it returns its memory to DPDK unless mbufs are still out or other lcores run, which
/// could be inside its caches: then the memory stays until EAL ends. So end the workers first.
pub struct Pool {
    raw: NonNull<sys::rte_mempool>,
    config: PoolConfig,
    eal: Eal,
}

impl Pool {
    /// A full pool.
    ///
    /// # Errors
    /// [`MbufError::Config`] and [`MbufError::Memory`].
    pub fn new(eal: &Eal, config: PoolConfig) -> Result<Self, MbufError> {
        let PoolConfig { count, room, cache, socket } = config;
        let too_cached =
            cache > sys::RDPDK_MEMPOOL_CACHE_MAX || u64::from(cache) * 3 > u64::from(count) * 2;
        let data_room = room.checked_add(HEADROOM).filter(|_| count > 0 && room > 0 && !too_cached);
        let Some(data_room) = data_room else {
            return Err(MbufError::Config { count, room, cache });
        };
        let name = eal::c_string(&eal::unique_name()).unwrap_or_default();
        // SAFETY: EAL runs while `eal` lives; the name is NUL-terminated and copied.
        let raw = unsafe {
            sys::rte_pktmbuf_pool_create(name.as_ptr(), count, cache, 0, data_room, socket)
        };
        let Some(raw) = NonNull::new(raw) else {
            let mb = Self::memory(count, room).div_ceil(1 << 20);
            return Err(MbufError::Memory { count, mb, errno: eal::last_errno() });
        };
        Ok(Self { raw, config, eal: eal.clone() })
    }

    /// Bytes of DPDK's memory that a pool of `count` mbufs with `room` takes in ordinary pages; in
    /// hugepages it takes at most as many. A pool puts no mbuf that fits into a page across two
    /// pages, so that mbufs above half a page have a page each. It also gives each mbuf an odd
    /// number of cache lines. Its header has the caches of all lcores, a MiB, which a pool without
    /// caches does not take.
    ///
    /// Source: `rte_mempool_calc_obj_size` and `rte_mempool_op_calc_mem_size_helper` of DPDK.
    #[must_use]
    pub const fn memory(count: u32, room: u16) -> u64 {
        let parts = OBJECT_HEADER + size_of::<rte_mbuf>() as u64 + HEADROOM as u64 + room as u64;
        let object = (parts.div_ceil(CACHE_LINE) | 1) * CACHE_LINE;
        let in_page = PAGE / object;
        let held = match in_page {
            0 => object * count as u64,
            in_page => (count as u64).div_ceil(in_page) * PAGE,
        };
        sys::RDPDK_MEMPOOL_HEADER as u64 + held + IN_RING * count as u64
    }

    /// One empty mbuf, or `None` when the pool is exhausted.
    #[inline]
    #[must_use]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool lives as long as `self`; pools are safe to use from any thread.
        let raw = NonNull::new(unsafe { sys::rdpdk_mbuf_alloc(self.raw.as_ptr()) })?;
        // SAFETY: a fresh mbuf that has no other owner.
        Some(unsafe { Mbuf::own(raw) })
    }

    /// Adds `count` empty mbufs to `burst`: all of them, or none (false) when the pool has fewer or
    /// the burst has less room.
    #[inline]
    pub fn alloc_burst(&self, burst: &mut MbufBurst, count: usize) -> bool {
        let Ok(wanted) = u32::try_from(count) else { return false };
        let Some(spare) = burst.spare().get_mut(..count) else { return false };
        // SAFETY: `spare` has room for `count` pointers; the pool fills all of them or none.
        let ret =
            unsafe { sys::rdpdk_mbuf_alloc_bulk(self.raw.as_ptr(), as_pointers(spare), wanted) };
        if ret == 0 {
            burst.grow(count);
        }
        ret == 0
    }

    /// Mbufs of the pool.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.config.count
    }

    /// Data bytes of one segment behind the headroom.
    #[must_use]
    pub fn room(&self) -> u16 {
        self.config.room
    }

    /// The NUMA node asked for, -1 for any.
    #[must_use]
    pub const fn socket(&self) -> i32 {
        self.config.socket
    }

    /// Mbufs that can be allocated, lcore caches included. Walks the caches: not for the hot path.
    /// Exact while no other thread allocates or frees.
    #[must_use]
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { sys::rte_mempool_avail_count(self.raw.as_ptr()) }
    }

    /// Mbufs that are out: in hands, rings and devices. Zero at the end of a run without leaks.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        self.config.count.saturating_sub(self.available())
    }

    /// DPDK's pool, for the setup of receive queues.
    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.raw.as_ptr()
    }
}

// SAFETY: a mempool may be used from any thread (its ring is multi-producer, multi-consumer, and a
// cache belongs to one lcore).
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        let out = self.in_use();
        if out > 0 {
            // These mbufs may still return to this pool, so neither the pool nor EAL may end before
            // them.
            tracing::warn!(
                out,
                "a pool's memory is kept until the process ends, because mbufs of it are out: \
                 held by this process, or by a device that does not give back what waits to be \
                 filled when it closes, as AF_XDP's in the kernel's ring"
            );
            mem::forget(self.eal.clone());
        } else if !self.eal.others_registered() {
            // SAFETY: no mbuf is out, no other lcore can be inside a cache, and `self` is going.
            unsafe { sys::rte_mempool_free(self.raw.as_ptr()) };
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Mbuf {
    /// A copy of data, flags and fields in fresh mbufs of `pool`; `None` when that runs out.
    #[must_use]
    pub fn deep_copy(&self, pool: &Pool) -> Option<Self> {
        // SAFETY: an owned chain and a live pool; the copy shares nothing with the original.
        let copy = unsafe { sys::rte_pktmbuf_copy(self.raw(), pool.raw.as_ptr(), 0, u32::MAX) };
        let copy = NonNull::new(copy)?;
        // SAFETY: a fresh chain that has no other owner.
        Some(unsafe { Self::own(copy) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_takes_a_page_for_each_mbuf_above_half_a_page() {
        // The room, and bytes of DPDK's memory for 12 mbufs: three to a page, two, one, and packed.
        let cases = [(1000, 4 * PAGE), (1600, 6 * PAGE), (2048, 12 * PAGE), (3584, 12 * PAGE)];
        let header = u64::from(sys::RDPDK_MEMPOOL_HEADER);
        for (room, held) in cases {
            assert_eq!(Pool::memory(12, room), header + held + 12 * IN_RING, "{room}");
        }
        assert_eq!(Pool::memory(12, 9000), header + 12 * (9408 + IN_RING));
        assert_eq!(Pool::memory(13, 1600), header + 7 * PAGE + 13 * IN_RING);
        // Each lcore has a cache of twice the largest size, in pointers.
        let caches = 2 * sys::RDPDK_MEMPOOL_CACHE_MAX * 8 * sys::RDPDK_MAX_LCORE;
        assert!(header > caches.into(), "{header} {caches}");
    }
}
