//! Packet buffers: move-only mbufs, and memory attached to them.
//!
//! Source: DPDK Programmer's Guide, "Mbuf Library"; layout in `dpdk_sys::rte_mbuf`. An [`Mbuf`]
//! owns one chain of segments and frees it when dropped; raw pointers leave this file only inside
//! the crate, as the arguments of a burst. Lengths are bytes, counts are buffers. Field access is
//! inlined; allocation and freeing cross to C once a burst.
//!
//! An mbuf parses nothing and computes no checksum. References to one buffer from two mbufs
//! ("indirect" mbufs) are not made here, but are recognised and kept read-only when a driver makes
//! them.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, size_of};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use dpdk_sys as sys;
use sys::rte_mbuf;
use transport::wire::addressing::IpVersion;

use crate::buffers::ext_buf::ExtBuf;

/// Bytes before the data of a fresh mbuf, for headers put in front later.
pub const HEADROOM: u16 = sys::RDPDK_PKTMBUF_HEADROOM;

/// A chain of one or more segments, one packet. Dropping it frees the chain.
#[repr(transparent)]
pub struct Mbuf(NonNull<rte_mbuf>);

impl Mbuf {
    /// Bytes in all segments.
    #[inline]
    #[must_use]
    pub fn pkt_len(&self) -> u32 {
        self.head().pkt_len
    }

    /// Segments in the chain, at least 1.
    #[inline]
    #[must_use]
    pub fn nb_segs(&self) -> u16 {
        self.head().nb_segs
    }

    /// Data of the first segment.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        segment_data(self.head())
    }

    /// Data of the first segment, unless it is attached or shared memory.
    #[inline]
    #[must_use]
    pub fn data_mut(&mut self) -> Option<&mut [u8]> {
        let segment = self.head_mut();
        writable(segment).then(|| {
            let length = usize::from(segment.data_len);
            // SAFETY: `data_len` bytes behind `data_off` are in the buffer (an invariant of mbufs),
            // which this mbuf alone refers to; the borrow of `self` covers the slice.
            unsafe { slice::from_raw_parts_mut(data_start(segment), length) }
        })
    }

    /// The data of each segment in order.
    #[must_use]
    pub fn segments(&self) -> Segments<'_> {
        Segments { next: self.0.as_ptr(), chain: PhantomData }
    }

    /// Free bytes before the data of the first segment.
    #[inline]
    #[must_use]
    pub fn headroom(&self) -> u16 {
        self.head().data_off
    }

    /// Free bytes behind the data of the first segment.
    #[inline]
    #[must_use]
    pub fn tailroom(&self) -> u16 {
        tailroom(self.head())
    }

    /// References to the first segment; 1 unless a driver shares it.
    #[inline]
    #[must_use]
    pub fn refcnt(&self) -> u16 {
        self.head().refcnt.load(Ordering::Acquire)
    }

    /// Grows the last segment by `length` bytes and returns them, with arbitrary content; `None`,
    /// and nothing changed, when it has no room or is not writable.
    #[inline]
    pub fn append(&mut self, length: u16) -> Option<&mut [u8]> {
        let last = self.last();
        if !writable(last) || length > tailroom(last) {
            return None;
        }
        let at = data_start(last).wrapping_add(usize::from(last.data_len));
        last.data_len += length;
        self.head_mut().pkt_len += u32::from(length);
        // SAFETY: the bytes are in the tailroom, checked above, and pool memory starts zeroed.
        Some(unsafe { slice::from_raw_parts_mut(at, usize::from(length)) })
    }

    /// Grows the first segment by `length` bytes at its front and returns them; `None`, and nothing
    /// changed, when the headroom is smaller or not writable.
    #[inline]
    pub fn prepend(&mut self, length: u16) -> Option<&mut [u8]> {
        let first = self.head_mut();
        if !writable(first) || length > first.data_off {
            return None;
        }
        first.data_off -= length;
        first.data_len += length;
        first.pkt_len += u32::from(length);
        let at = data_start(first);
        // SAFETY: the bytes were headroom, checked above, and pool memory starts zeroed.
        Some(unsafe { slice::from_raw_parts_mut(at, usize::from(length)) })
    }

    /// Removes `length` bytes from the front of the first segment; false, and nothing changed, when
    /// it has fewer.
    #[inline]
    #[must_use]
    pub fn adjust(&mut self, length: u16) -> bool {
        let first = self.head_mut();
        let enough = length <= first.data_len;
        if enough {
            first.data_off += length;
            first.data_len -= length;
            first.pkt_len -= u32::from(length);
        }
        enough
    }

    /// Removes `length` bytes from the end of the last segment; false, and nothing changed, when it
    /// has fewer.
    #[inline]
    #[must_use]
    pub fn trim(&mut self, length: u16) -> bool {
        let last = self.last();
        let enough = length <= last.data_len;
        if enough {
            last.data_len -= length;
            self.head_mut().pkt_len -= u32::from(length);
        }
        enough
    }

    /// Appends the segments of `tail`; gives it back when the chain would exceed 65 535 segments.
    ///
    /// # Errors
    /// The unchanged `tail`.
    #[inline]
    pub fn chain(&mut self, tail: Self) -> Result<(), Self> {
        // Headers and payload, the chain of every packet sent without a copy: no need to look for
        // the last segment.
        if self.nb_segs() == 1 && tail.nb_segs() < u16::MAX {
            let (bytes, segments) = (tail.pkt_len(), tail.nb_segs());
            let first = self.head_mut();
            first.next = tail.0.as_ptr();
            first.nb_segs += segments;
            first.pkt_len += bytes;
            mem::forget(tail);
            return Ok(());
        }
        // SAFETY: two distinct owned chains; on success the first owns the segments of both.
        let ret = unsafe { sys::rdpdk_mbuf_chain(self.0.as_ptr(), tail.0.as_ptr()) };
        if ret != 0 {
            return Err(tail);
        }
        mem::forget(tail);
        Ok(())
    }

    /// Gathers all segments in the first; false, and nothing changed, when that has no room or is
    /// not writable.
    #[must_use]
    pub fn linearize(&mut self) -> bool {
        // SAFETY: an owned chain; the call checks the tailroom before it moves anything.
        writable(self.head()) && unsafe { sys::rdpdk_mbuf_linearize(self.0.as_ptr()) } == 0
    }

    /// Copies packet bytes `offset ..` into all of `out`, over segment borders; false, with `out`
    /// in part written, when the packet is shorter.
    #[must_use]
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) -> bool {
        let mut skip = offset;
        let mut filled = 0;
        for segment in self.segments() {
            let piece = segment.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(segment.len());
            let length = piece.len().min(out.len() - filled);
            out[filled..filled + length].copy_from_slice(&piece[..length]);
            filled += length;
        }
        filled == out.len()
    }

    /// Points this empty, single-segment mbuf at `range` of `memory`. Devices that fetch by DMA
    /// need that memory registered with them as well; the virtual ones do not.
    ///
    /// # Errors
    /// Gives the mbuf back unchanged when it is not empty, not writable, the range is outside
    /// `memory` or longer than 65 535, or `memory` has 60 000 holders already.
    pub fn attach(self, memory: &ExtBuf, range: Range<usize>) -> Result<Self, Self> {
        if !self.is_fresh() {
            return Err(self);
        }
        let Some((address, iova, length)) = memory.lend(range) else { return Err(self) };
        // SAFETY: a direct mbuf with one reference; the memory lives until its shared count, which
        // `lend` raised for this mbuf, falls to zero.
        unsafe {
            sys::rdpdk_mbuf_attach_extbuf(self.0.as_ptr(), address, iova, length, memory.info());
        }
        let mut attached = self;
        attached.head_mut().data_len = length;
        attached.head_mut().pkt_len = u32::from(length);
        Ok(attached)
    }

    /// A frame of `length` bytes to be written, in `head`, and `range` of `memory`, which `piece`
    /// points at: what [`Mbuf::append`], [`Mbuf::attach`] and [`Mbuf::chain`] make of two empty
    /// mbufs, in one step.
    ///
    /// # Errors
    /// Gives both back unchanged where one of those three would.
    #[inline]
    pub fn frame(
        head: Self,
        length: u16,
        piece: Self,
        memory: &ExtBuf,
        range: Range<usize>,
    ) -> Result<Self, (Self, Self)> {
        if !head.is_fresh() || !piece.is_fresh() || length > head.tailroom() {
            return Err((head, piece));
        }
        let Some((address, iova, behind)) = memory.lend(range) else { return Err((head, piece)) };
        let (first, second) = (head.0.as_ptr(), piece.0.as_ptr());
        // SAFETY: two direct, unchained mbufs with one reference each, the first with the room; the
        // memory lives as in `attach`.
        unsafe {
            sys::rdpdk_mbuf_frame(first, length, second, address, iova, behind, memory.info());
        }
        // The head owns the chain.
        mem::forget(piece);
        Ok(head)
    }

    /// Whether the mbuf is empty, in no chain, and writable.
    #[inline]
    fn is_fresh(&self) -> bool {
        let first = self.head();
        first.pkt_len == 0 && first.nb_segs == 1 && writable(first)
    }

    /// Offload flags, `dpdk_sys::RDPDK_MBUF_F_*`.
    #[inline]
    #[must_use]
    pub fn ol_flags(&self) -> u64 {
        self.head().ol_flags
    }

    /// Asks the device for the UDP checksum of a packet whose field holds the sum of the
    /// pseudo-header. `l2` is the length of the headers before IP, bytes, below 128.
    #[inline]
    pub fn request_udp_checksum(&mut self, l2: u16, ip: IpVersion) {
        let first = self.head_mut();
        first.tx_offload = u64::from(l2 & 0x7f) | u64::from(ip.header_len()) << 7;
        first.ol_flags |= sys::RDPDK_MBUF_F_TX_UDP_CKSUM
            | match ip {
                IpVersion::V4 => sys::RDPDK_MBUF_F_TX_IPV4,
                IpVersion::V6 => sys::RDPDK_MBUF_F_TX_IPV6,
            };
    }

    /// Whether the device found a wrong IP or UDP checksum.
    #[inline]
    #[must_use]
    pub fn checksum_bad(&self) -> bool {
        let flags = self.ol_flags();
        flags & sys::RDPDK_MBUF_F_RX_IP_CKSUM_MASK == sys::RDPDK_MBUF_F_RX_IP_CKSUM_BAD
            || flags & sys::RDPDK_MBUF_F_RX_L4_CKSUM_MASK == sys::RDPDK_MBUF_F_RX_L4_CKSUM_BAD
    }

    /// Whether the device has found the UDP checksum right, and has not found the IPv4 header's
    /// checksum wrong. Also true when the device reports an intact datagram without a computed
    /// checksum, as between guests of one host.
    #[inline]
    #[must_use]
    pub fn checksum_good(&self) -> bool {
        let flags = self.ol_flags();
        let udp = flags & sys::RDPDK_MBUF_F_RX_L4_CKSUM_MASK;
        flags & sys::RDPDK_MBUF_F_RX_IP_CKSUM_MASK != sys::RDPDK_MBUF_F_RX_IP_CKSUM_BAD
            && (udp == sys::RDPDK_MBUF_F_RX_L4_CKSUM_GOOD
                || udp == sys::RDPDK_MBUF_F_RX_L4_CKSUM_NONE)
    }

    /// DPDK's own consistency check of the chain, for tests and audits.
    ///
    /// # Errors
    /// What is inconsistent.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut reason: *const c_char = ptr::null();
        // SAFETY: an owned chain, read only, and a place for the reason.
        let ret = unsafe { sys::rte_mbuf_check(self.0.as_ptr(), 1, &raw mut reason) };
        if ret == 0 {
            return Ok(());
        }
        if reason.is_null() {
            return Err("no reason given");
        }
        // SAFETY: not null: a string literal of DPDK.
        Err(unsafe { CStr::from_ptr(reason) }.to_str().unwrap_or("not UTF-8"))
    }

    /// Asks for the first line of data to be brought into the cache. Reads the header.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(data_start(self.head()));
    }

    /// Asks for the header, and for the first three lines of data where a pool's buffers have them:
    /// all at once, though only the header shows where the data is. If the data is elsewhere, this
    /// does no harm.
    #[inline]
    pub fn prefetch_unread(&self) {
        let header = self.0.as_ptr().cast::<u8>().cast_const();
        let data = header.wrapping_add(size_of::<rte_mbuf>() + usize::from(HEADROOM));
        prefetch(header);
        prefetch(data);
        prefetch(data.wrapping_add(LINE));
        prefetch(data.wrapping_add(2 * LINE));
    }

    /// Takes over a chain.
    ///
    /// # Safety
    /// `raw` is the first segment of a chain that the caller owns, and gives away.
    #[inline]
    pub(crate) const unsafe fn own(raw: NonNull<rte_mbuf>) -> Self {
        Self(raw)
    }

    #[inline]
    fn head(&self) -> &rte_mbuf {
        // SAFETY: points to a header that this value owns; only `refcnt`, an atomic, can change.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut rte_mbuf {
        // SAFETY: as in `head`, and `self` is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }

    /// The header, for fields that are found by their offset.
    #[inline]
    pub(crate) fn raw(&self) -> *mut rte_mbuf {
        self.0.as_ptr()
    }

    /// Adds `flags` to the offload flags.
    #[inline]
    pub(crate) fn add_flags(&mut self, flags: u64) {
        self.head_mut().ol_flags |= flags;
    }

    /// The last segment of the chain; walks it.
    #[inline]
    fn last(&mut self) -> &mut rte_mbuf {
        let mut at = self.0;
        loop {
            // SAFETY: every segment of the chain is owned by `self`, which is borrowed exclusively.
            let segment = unsafe { at.as_mut() };
            match NonNull::new(segment.next) {
                Some(next) => at = next,
                None => return segment,
            }
        }
    }
}

// SAFETY: an mbuf is owned by one value, and may be freed by any thread.
unsafe impl Send for Mbuf {}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this value owns the chain and is going.
        unsafe { sys::rdpdk_mbuf_free(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mbuf({} bytes in {} segments)", self.pkt_len(), self.nb_segs())
    }
}

/// Iterator over the data of a chain's segments.
#[derive(Debug)]
pub struct Segments<'a> {
    next: *mut rte_mbuf,
    chain: PhantomData<&'a Mbuf>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // SAFETY: null, or a segment of a chain that is borrowed for 'a.
        let segment: &'a rte_mbuf = unsafe { self.next.as_ref() }?;
        self.next = segment.next;
        Some(segment_data(segment))
    }
}

/// Asks for the line at `address` to be brought into the cache.
#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it reads nothing that the program could see and accepts any address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Bytes of a line of cache.
const LINE: usize = 64;

#[inline]
fn data_start(segment: &rte_mbuf) -> *mut u8 {
    segment.buf_addr.cast::<u8>().wrapping_add(usize::from(segment.data_off))
}

#[inline]
fn segment_data(segment: &rte_mbuf) -> &[u8] {
    // SAFETY: `data_len` bytes behind `data_off` are in the buffer (an invariant of mbufs), which
    // nothing writes while the segment is borrowed.
    unsafe { slice::from_raw_parts(data_start(segment), usize::from(segment.data_len)) }
}

#[inline]
fn tailroom(segment: &rte_mbuf) -> u16 {
    segment.buf_len.saturating_sub(segment.data_off).saturating_sub(segment.data_len)
}

#[inline]
fn writable(segment: &rte_mbuf) -> bool {
    segment.ol_flags & (sys::RDPDK_MBUF_F_EXTERNAL | sys::RDPDK_MBUF_F_INDIRECT) == 0
        && segment.refcnt.load(Ordering::Acquire) == 1
}

// A burst is an array of these, and C reads and writes it as an array of pointers.
const _: () = assert!(size_of::<Option<Mbuf>>() == size_of::<*mut rte_mbuf>());

/// The array as C sees it: pointers, null for `None`.
#[inline]
pub(crate) fn as_pointers(slots: &mut [Option<Mbuf>]) -> *mut *mut rte_mbuf {
    slots.as_mut_ptr().cast()
}

/// Frees the mbufs of all slots in one call and leaves `None` behind.
#[inline]
pub(crate) fn free_all(slots: &mut [Option<Mbuf>]) {
    if let Ok(count @ 1..) = u32::try_from(slots.len()) {
        // SAFETY: owned chains or null, which is skipped; the slots are forgotten below.
        unsafe { sys::rdpdk_mbuf_free_bulk(as_pointers(slots), count) };
    }
    forget_all(slots);
}

/// Leaves `None` in all slots, whose mbufs have another owner now.
#[inline]
pub(crate) fn forget_all(slots: &mut [Option<Mbuf>]) {
    for slot in slots {
        mem::forget(slot.take());
    }
}
