//! Application memory that devices may read where it lies.
//!
//! A [`Region`] is filled by the application, given to messages, and read by devices. It is shared
//! while a message or an mbuf refers to it; once all are over, `Arc::get_mut` gives it back to be
//! written. Devices find it by its process address (IOVA as VA); those that need their IOMMU told
//! are told by who opens them. Offsets are bytes.

use std::fmt;

use crate::eal::{self, Eal};
use crate::mbuf::MbufError;

/// Memory of an application, at an address that devices know.
pub struct Region {
    bytes: Box<[u8]>,
    iova: u64,
}

impl Region {
    /// Takes over `bytes`.
    ///
    /// # Errors
    /// [`MbufError::NotAddressable`] when devices use physical addresses.
    pub fn new(eal: &Eal, bytes: Box<[u8]>) -> Result<Self, MbufError> {
        let iova = eal::iova_of(eal, bytes.as_ptr().cast()).ok_or(MbufError::NotAddressable)?;
        Ok(Self { bytes, iova })
    }

    /// What it holds.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// To be filled; there is no other holder.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Where a device finds byte `offset`.
    #[inline]
    pub(crate) const fn iova(&self, offset: usize) -> u64 {
        self.iova + offset as u64
    }
}

impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes)", self.bytes.len())
    }
}
