//! The cards that are open and read memory of applications, as EAL lists them for the process.
//!
//! Each card has a bit for as long as the process lives, so that memory can say which cards read
//! it. Memory is made known to cards in `buffers/pages.rs`.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk_sys as sys;

/// The devices that may read some memory, a bit for each card and one for all virtual devices.
pub(crate) type Readers = u64;

/// The virtual devices, which read all memory of the process.
pub(crate) const VIRTUAL: Readers = 1;

/// The cards that are open and take memory of applications.
#[derive(Debug, Default)]
pub(crate) struct Cards(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    open: Vec<Card>,
    /// Cards that were ever listed: a bit is not used again.
    ever: u32,
}

/// A card that takes memory of applications.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    pub(crate) device: NonNull<sys::rte_device>,
    pub(crate) bit: Readers,
    /// Whether one mapping serves all such cards: those of vfio are in one container.
    pub(crate) contained: bool,
}

// SAFETY: DPDK's description of a device, which lives as long as EAL and is only handed back to it.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

impl Cards {
    /// Lists the card that `describe` makes of a free bit, when it `takes` memory, and gives its
    /// bit; 0 when it does not, or when no bit is free.
    pub(crate) fn add(
        &self,
        describe: impl FnOnce(Readers) -> Card,
        takes: impl FnOnce(&Card) -> bool,
    ) -> Readers {
        let mut listed = self.lock();
        let bit = Readers::checked_shl(2, listed.ever).filter(|bit| *bit != 0);
        let Some(card) = bit.map(describe).filter(takes) else { return 0 };
        listed.ever += 1;
        listed.open.push(card);
        card.bit
    }

    /// Takes a card off the list before its port is closed.
    pub(crate) fn remove(&self, bit: Readers) {
        self.lock().open.retain(|card| card.bit != bit);
    }

    /// The cards that are open now.
    pub(crate) fn open(&self) -> Vec<Card> {
        self.lock().open.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
