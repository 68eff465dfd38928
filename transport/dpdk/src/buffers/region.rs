//! Application memory that devices may read where it lies.
//!
//! A [`Region`] is filled by the application, given to messages, and read by devices. It is shared
//! while a message or an mbuf refers to it; once all are over, `Arc::get_mut` gives it back to be
//! written. Devices find it by its process address (IOVA as VA). Cards that are open when it is
//! made are told of it (`pages.rs`), and it lies in pages of its own then; for one that is opened
//! later, or refuses, its bytes are copied into the frames. Offsets are bytes.
//!
//! When a message is told as sent, its region is free of it. A message that failed may leave frames
//! in a card's queue: its region comes back with them, when more is sent or the card is closed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::buffers::error::MbufError;
use crate::buffers::pages::{Mapping, Pages};
use crate::eal::cards::{Readers, VIRTUAL};
use crate::eal::{self, Eal};

/// Memory of an application, at an address that devices know.
pub struct Region {
    memory: Memory,
    iova: u64,
    readers: Readers,
}

enum Memory {
    /// As the application gave it.
    Given(Box<[u8]>),
    /// A copy that cards were told of.
    Told(Pages),
}

impl Region {
    /// Takes over `bytes`; where cards are open it moves them to pages that it tells these of.
    ///
    /// # Errors
    /// [`MbufError::NotAddressable`] when devices use physical addresses.
    pub fn new(eal: &Eal, bytes: Box<[u8]>) -> Result<Self, MbufError> {
        let told = if eal.iova_is_va() { Pages::new(eal, &bytes) } else { None };
        let readers = told.as_ref().map_or(VIRTUAL, Pages::readers);
        let memory = told.map_or(Memory::Given(bytes), Memory::Told);
        let start = memory.bytes().as_ptr().cast();
        let iova = eal::iova_of(eal, start).ok_or(MbufError::NotAddressable)?;
        Ok(Self { memory, iova, readers })
    }

    /// A copy of `bytes` in pages of its own, of which no card was told.
    #[cfg(test)]
    pub(crate) fn in_pages(eal: &Eal, bytes: &[u8]) -> Option<Self> {
        let memory = Memory::Told(Pages::told(eal, bytes, &[])?);
        let iova = eal::iova_of(eal, memory.bytes().as_ptr().cast())?;
        Some(Self { memory, iova, readers: VIRTUAL })
    }

    /// What it holds.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// To be filled; there is no other holder.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Given(bytes) => bytes,
            Memory::Told(pages) => pages.bytes_mut(),
        }
    }

    /// Whether `reader` reads `range` where it lies.
    #[inline]
    pub(crate) fn is_read_by(&self, reader: Readers, range: &Range<usize>) -> bool {
        let as_one = match &self.memory {
            Memory::Told(pages) if reader != VIRTUAL => pages.holds_as_one(range),
            Memory::Told(_) | Memory::Given(_) => true,
        };
        self.readers & reader != 0 && as_one
    }

    /// What keeps its memory mapped, where cards were told of it.
    pub(crate) fn mapping(&self) -> Option<Arc<Mapping>> {
        match &self.memory {
            Memory::Told(pages) => Some(pages.mapping()),
            Memory::Given(_) => None,
        }
    }

    /// Where a device finds byte `offset`.
    #[inline]
    pub(crate) const fn iova(&self, offset: usize) -> u64 {
        self.iova + offset as u64
    }
}

impl Memory {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Given(bytes) => bytes,
            Self::Told(pages) => pages.bytes(),
        }
    }
}

impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes)", self.bytes().len())
    }
}
