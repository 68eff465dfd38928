//! Application memory that devices may read where it lies.
//!
//! A [`Region`] is filled by the application, given to messages, and read by devices. It is shared
//! while a message or an mbuf refers to it; once all are over, `Arc::get_mut` gives it back to be
//! written. Devices find it by its process address (IOVA as VA). Cards that are open when it is
//! made get its pages mapped (`pages.rs`); for a card that is opened later, or refuses, its bytes
//! are copied into the frames. Offsets are bytes.
//!
//! A message that is reported as sent has left its region. A message that failed may leave frames
//! in a card's queue: its region comes back with them, when more is sent or the card is closed.
//!
//! # Aliasing
//! An application in C writes parts of a region while other parts are read. So a region holds its
//! memory by a raw pointer, made once from the whole allocation and never from a reference. A
//! reference is made only to the range that a message names. The memory does not move with the
//! region, and neither moving nor borrowing a region touches the provenance of [`Region::as_ptr`].
#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buffers::error::MbufError;
use crate::buffers::pages::{Mapping, Pages};
use crate::eal::cards::{Readers, VIRTUAL};
use crate::eal::{self, Eal};

/// Memory of an application at an address that devices can read.
pub struct Region {
    memory: Backing,
    iova: u64,
    readers: Readers,
}

enum Backing {
    /// The application's own allocation, from `Box::into_raw`.
    Given(NonNull<[u8]>),
    /// A copy that is mapped for cards.
    Mapped(Pages),
}

impl Region {
    /// Takes over `bytes`; where cards are open it moves them to pages that are mapped for these.
    ///
    /// # Errors
    /// [`MbufError::NotAddressable`] when devices use physical addresses.
    pub fn new(eal: &Eal, bytes: Box<[u8]>) -> Result<Self, MbufError> {
        let mapped = if eal.iova_is_va() { Pages::new(eal, &bytes) } else { None };
        let readers = mapped.as_ref().map_or(VIRTUAL, Pages::readers);
        let memory = mapped.map_or_else(|| Backing::given(bytes), Backing::Mapped);
        let start = memory.span().as_ptr().cast_const().cast();
        let iova = eal::iova_of(eal, start).ok_or(MbufError::NotAddressable)?;
        Ok(Self { memory, iova, readers })
    }

    /// A copy of `bytes` in pages of its own, mapped for no card.
    #[cfg(test)]
    pub(crate) fn in_pages(eal: &Eal, bytes: &[u8]) -> Option<Self> {
        let memory = Backing::Mapped(Pages::mapped_for(eal, bytes, &[])?);
        let iova = eal::iova_of(eal, memory.span().as_ptr().cast_const().cast())?;
        Some(Self { memory, iova, readers: VIRTUAL })
    }

    /// The length of the region, bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.span().len()
    }

    /// Whether the region has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The region's first byte, for an application that writes without a reference. The pointer is
    /// valid for all bytes until the region is dropped. The application must not write bytes of a
    /// message until the message is over: that makes [`Region::range`] sound.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.span().as_ptr().cast()
    }

    /// The bytes of `range`; `None` when it reaches beyond the end.
    #[inline]
    #[must_use]
    pub fn range(&self, range: Range<usize>) -> Option<&[u8]> {
        let (start, len) = self.span_of(range)?;
        // SAFETY: within the allocation, which `self` keeps. No reference to be written exists
        // beside `&self`, and `as_ptr` demands that these bytes are not written meanwhile.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) })
    }

    /// All bytes, while nothing writes any of them.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.range(0..self.len()).unwrap_or_default()
    }

    /// All bytes, to be filled; there is no other holder.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the allocation that `self` keeps, borrowed exclusively. Cards only read, and a
        // frame that a card reads then is of a message that is over.
        unsafe { self.memory.span().as_mut() }
    }

    /// First byte and length of `range`, with the provenance of the whole; `None` when it reaches
    /// beyond the end. Makes no reference.
    #[inline]
    pub(crate) fn span_of(&self, range: Range<usize>) -> Option<(NonNull<u8>, usize)> {
        let span = self.memory.span();
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= span.len())?;
        // SAFETY: `range.start` is at most the length of the allocation.
        Some((unsafe { span.cast::<u8>().add(range.start) }, len))
    }

    /// Whether `reader` reads `range` where it lies.
    #[inline]
    pub(crate) fn is_read_by(&self, reader: Readers, range: &Range<usize>) -> bool {
        let as_one = match &self.memory {
            Backing::Mapped(pages) if reader != VIRTUAL => pages.holds_as_one(range),
            Backing::Mapped(_) | Backing::Given(_) => true,
        };
        self.readers & reader != 0 && as_one
    }

    /// The mapping that keeps its pages, where they are mapped for cards.
    pub(crate) fn mapping(&self) -> Option<Arc<Mapping>> {
        match &self.memory {
            Backing::Mapped(pages) => Some(pages.mapping()),
            Backing::Given(_) => None,
        }
    }

    /// The address at which a device finds byte `offset`.
    #[inline]
    pub(crate) const fn iova(&self, offset: usize) -> u64 {
        self.iova + offset as u64
    }
}

impl Backing {
    fn given(bytes: Box<[u8]>) -> Self {
        // SAFETY: `Box::into_raw` never returns null.
        Self::Given(unsafe { NonNull::new_unchecked(Box::into_raw(bytes)) })
    }

    /// All bytes of the memory, without a reference.
    #[inline]
    fn span(&self) -> NonNull<[u8]> {
        match self {
            Self::Given(span) => *span,
            Self::Mapped(pages) => pages.span(),
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if let Self::Given(span) = self {
            // SAFETY: from `Box::into_raw` in `given`, and no other holder is left.
            drop(unsafe { Box::from_raw(span.as_ptr()) });
        }
    }
}

// SAFETY: a region owns its memory, as a box of bytes would.
unsafe impl Send for Region {}
// SAFETY: what is shared is read only, but for the writes whose writer `as_ptr` holds responsible.
unsafe impl Sync for Region {}

/// Two regions are equal when they are the same memory: comparing contents would read bytes that an
/// application may be writing.
impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.as_ptr() == other.as_ptr() && self.len() == other.len()
    }
}

impl Eq for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs no EAL, so that Miri can run what uses it.
    fn region(bytes: &[u8]) -> Region {
        Region { memory: Backing::given(bytes.into()), iova: 0, readers: VIRTUAL }
    }

    #[test]
    fn bytes_are_written_by_pointer_beside_a_range_that_is_read() {
        let region = Arc::new(region(b"abcdefgh"));
        let pointer = region.as_ptr();
        let message = region.range(2..4).unwrap();
        // SAFETY: byte 4, which no reference covers.
        unsafe { pointer.wrapping_add(4).write(b'X') };
        // SAFETY: byte 1, which no reference covers.
        unsafe { pointer.wrapping_add(1).write(b'Y') };
        assert_eq!(message, b"cd");
        let shared = Arc::clone(&region);
        drop(region);
        assert_eq!(shared.bytes(), b"aYcdXfgh");
    }

    #[test]
    fn a_pointer_outlasts_moves_of_its_region_and_exclusive_use_of_it() {
        let mut made = region(b"abcd");
        let pointer = made.as_ptr();
        made.bytes_mut()[0] = b'1';
        let moved = Box::new(Arc::new(made));
        // SAFETY: no reference to the bytes exists.
        unsafe { pointer.wrapping_add(3).write(b'4') };
        assert_eq!((moved.bytes(), moved.as_ptr()), (&b"1bc4"[..], pointer));
    }

    #[test]
    fn a_range_beyond_the_end_or_backwards_is_none() {
        let region = region(b"abcd");
        assert_eq!(region.range(4..4), Some(&b""[..]));
        assert_eq!((region.range(3..5), region.range(5..5)), (None, None));
        let (start, end) = (3, 2);
        assert_eq!(region.range(start..end), None);
        assert_eq!(region.range(1..usize::MAX), None);
    }

    #[test]
    fn regions_of_equal_bytes_are_not_the_same() {
        let (one, two) = (region(b"ab"), region(b"ab"));
        assert!(one == one && one != two);
    }
}
