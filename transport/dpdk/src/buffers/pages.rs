//! Pages of applications that cards read by DMA.
//!
//! Source: DPDK Programmer's Guide, "Support for Externally Allocated Memory"; Linux
//! `Documentation/driver-api/vfio.rst`. A card behind an IOMMU reads only what was mapped for it,
//! page by page. So each [`Pages`] has pages of its own: if two of them shared a page, its second
//! mapping would count as done, and later be missing. They lie low in the address space, because
//! the address is the card's too (IOVA as VA) and some IOMMUs translate 39 bits only.
//!
//! Pages that exist already are not mapped for a card that is opened later. Where cards use
//! physical addresses nothing is mapped: the kernel may move pages of applications.
//!
//! [`Pages`] are written by one owner, and stay mapped while anything, such as an mbuf in a
//! driver's ring, refers to them by a [`Mapping`]. Lengths are bytes.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpdk_sys as sys;

use crate::eal::cards::{Card, Readers, VIRTUAL};
use crate::eal::{self, Eal};

/// Memory that is mapped for cards, with the right to read and write it.
#[derive(Debug)]
pub(crate) struct Pages(Arc<Mapping>);

/// Keeps memory mapped, for the process and for cards. It gives no access to the bytes.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<u8>,
    /// Bytes in use, of the pages.
    len: usize,
    /// All bytes, whole pages.
    mapped: usize,
    /// Bytes of a page, a power of two.
    page: usize,
    is_registered: bool,
    cards: Vec<Card>,
    readers: Readers,
    /// Keeps the descriptions of the devices.
    #[allow(dead_code, reason = "held, not read")]
    eal: Eal,
}

/// Lists the card of `port` when it takes memory of applications, which is tried, and gives its
/// bit; 0 when it does not. The port is open.
pub(crate) fn enlist(eal: &Eal, port: u16, name: &str) -> Readers {
    // SAFETY: a valid port.
    let device = NonNull::new(unsafe { sys::rdpdk_port_device(port) });
    let Some(device) = device.filter(|_| eal.iova_is_va()) else { return 0 };
    let contained = is_vfio(name);
    let takes = |card: &Card| Pages::mapped_for(eal, b"a trial", &[*card]).is_some();
    eal.cards().add(|bit| Card { device, bit, contained }, takes)
}

/// Whether the kernel's driver of PCI device `name` is vfio's.
fn is_vfio(name: &str) -> bool {
    let driver = fs::read_link(Path::new("/sys/bus/pci/devices").join(name).join("driver"));
    let driver = driver.as_deref().ok().and_then(Path::file_name);
    driver.is_some_and(|driver| driver.to_string_lossy().contains("vfio"))
}

impl Pages {
    /// A copy of `bytes` that the open cards can read; `None` when there are none, or one refuses.
    pub(crate) fn new(eal: &Eal, bytes: &[u8]) -> Option<Self> {
        let cards = eal.cards().open();
        if cards.is_empty() { None } else { Self::mapped_for(eal, bytes, &cards) }
    }

    /// A copy of `bytes` that `cards` can read; `None` when one of them refuses.
    pub(crate) fn mapped_for(eal: &Eal, bytes: &[u8], cards: &[Card]) -> Option<Self> {
        let mut mapping = Mapping::of(eal, bytes.len())?;
        let mapped = mapping
            .register()
            .and_then(|()| cards.iter().try_for_each(|card| mapping.map_for(*card)));
        if let Err(error) = mapped {
            tracing::info!(
                "{} bytes of an application are not mapped for cards ({error}): they are copied",
                bytes.len()
            );
            return None;
        }
        // SAFETY: `bytes` has as many bytes as the fresh pages, which nothing else refers to.
        unsafe {
            mapping.address.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        };
        Some(Self(Arc::new(mapping)))
    }

    /// The handle that keeps these pages mapped.
    pub(crate) fn mapping(&self) -> Arc<Mapping> {
        Arc::clone(&self.0)
    }

    /// Whether `range` lies in one page. Emulated cards behind an emulated IOMMU lose a frame with
    /// a piece that is not contiguous in physical memory.
    #[inline]
    pub(crate) fn holds_as_one(&self, range: &Range<usize>) -> bool {
        is_in_one_page(range, self.0.page)
    }

    pub(crate) fn readers(&self) -> Readers {
        self.0.readers
    }

    /// The bytes in use, without a reference to them; valid until the last mapping is dropped.
    #[inline]
    pub(crate) fn span(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.0.address, self.0.len)
    }
}

impl Mapping {
    /// Fresh pages for `len` bytes, mapped for no card.
    fn of(eal: &Eal, len: usize) -> Option<Self> {
        let (address, mapped, page) = if len >= HUGE_FROM {
            map(len, HUGE_BYTES, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)
        } else {
            None
        }
        .or_else(|| map(len, page_bytes(), 0))?;
        Some(Self {
            address,
            len,
            mapped,
            page,
            is_registered: false,
            cards: Vec::new(),
            readers: VIRTUAL,
            eal: eal.clone(),
        })
    }

    fn register(&mut self) -> Result<(), eal::Errno> {
        let first = self.address.as_ptr() as u64;
        let mut iovas: Vec<u64> = (first..first + self.mapped as u64).step_by(self.page).collect();
        let count = u32::try_from(iovas.len()).map_err(|_| eal::Errno(libc::E2BIG))?;
        // SAFETY: `count` whole pages of this value, which unregisters them before it unmaps them;
        // the array is read during the call.
        let ret = unsafe {
            sys::rte_extmem_register(
                self.start(),
                self.mapped,
                iovas.as_mut_ptr(),
                count,
                self.page,
            )
        };
        if ret != 0 {
            return Err(eal::last_errno());
        }
        self.is_registered = true;
        Ok(())
    }

    /// Maps the pages for `card`; cards of one container share a mapping.
    fn map_for(&mut self, card: Card) -> Result<(), eal::Errno> {
        let is_mapped = card.contained && self.cards.iter().any(|other| other.contained);
        if !is_mapped {
            let device = card.device.as_ptr();
            // SAFETY: a device of the running EAL and registered pages of this value, which has
            // them unmapped before it goes.
            let ret = unsafe { sys::rdpdk_dma_map(device, self.start(), self.mapped) };
            if ret != 0 {
                return Err(eal::last_errno());
            }
            self.cards.push(card);
        }
        self.readers |= card.bit;
        Ok(())
    }

    const fn start(&self) -> *mut c_void {
        self.address.as_ptr().cast()
    }
}

// SAFETY: memory that this value keeps, to which `Pages` alone gives access.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        let mut is_clear = true;
        for card in &self.cards {
            let device = card.device.as_ptr();
            // SAFETY: EAL runs, so the device's description is there, its port open or closed; the
            // last mbuf is back, so no device reads the pages.
            is_clear &= unsafe { sys::rdpdk_dma_unmap(device, self.start(), self.mapped) } == 0;
        }
        if self.is_registered {
            // SAFETY: registered by this value with this length.
            is_clear &= unsafe { sys::rte_extmem_unregister(self.start(), self.mapped) } == 0;
        }
        if is_clear {
            // SAFETY: mapped by this value with this length, and nothing refers to it any more.
            unsafe { libc::munmap(self.start(), self.mapped) };
        } else {
            // Other pages at this address would pass for mapped, and a card would send old bytes.
            tracing::warn!(bytes = self.mapped, "a card keeps pages of an application mapped");
        }
    }
}

/// Whether `range` of memory that begins with a page lies in one of `page` bytes, a power of two.
/// Asked for each segment, so without a division.
#[inline]
const fn is_in_one_page(range: &Range<usize>, page: usize) -> bool {
    range.start ^ range.end.saturating_sub(1) < page
}

/// Zeroed pages of `page` bytes for `len` bytes: where they start, all their bytes, and `page`.
fn map(len: usize, page: usize, flags: i32) -> Option<(NonNull<u8>, usize, usize)> {
    let mapped = len.max(1).checked_next_multiple_of(page)?;
    let hint = NEXT.fetch_add(mapped.checked_next_multiple_of(HUGE_BYTES)?, Ordering::Relaxed);
    // SAFETY: a hint without MAP_FIXED, so nothing that is mapped already is replaced.
    let address = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(hint % SPAN + LOW),
            mapped,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(address.cast()).map(|address| (address, mapped, page))
}

/// From this length on hugepages are tried: fewer payloads cross a border between pages, and IOMMUs
/// have fewer misses.
const HUGE_FROM: usize = 256 << 10;
const HUGE_BYTES: usize = 2 << 20;
/// The address from which free room for pages is searched: above what EAL reserves and below 2^39.
const LOW: usize = 1 << 38;
/// Bytes behind [`LOW`] in which room for pages is searched.
const SPAN: usize = 1 << 37;
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn page_bytes() -> usize {
    // SAFETY: asks for a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_in_one_page_when_its_first_and_last_byte_are() {
        for start in [0, 1, 4095, 4096, 4097, 8191, 12_288] {
            for len in [1, 2, 4095, 4096, 4097, 9000] {
                let expected = start / 4096 == (start + len - 1) / 4096;
                assert_eq!(is_in_one_page(&(start..start + len), 4096), expected, "{start} {len}");
            }
        }
    }
}
