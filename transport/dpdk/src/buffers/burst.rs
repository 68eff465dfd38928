//! An owned burst of mbufs: what one call to a device, a ring or a pool moves.
//!
//! A fixed array of 32 with a length; the first `len()` slots are filled, in order. C reads and
//! writes the array as pointers (`mbuf.rs` does that); nothing here is unsafe. It never allocates.

use std::fmt;
use std::mem::{self, ManuallyDrop};

use crate::buffers::mbuf::{self, Mbuf};

/// Packets moved by one call; the unit of all loops here and in the core.
pub use transport::BURST;

/// `count`, at most [`BURST`], as DPDK takes it.
#[inline]
pub(crate) fn count_u16(count: usize) -> u16 {
    u16::try_from(count.min(BURST)).unwrap_or(0)
}

/// Up to [`BURST`] mbufs in order. Dropping it frees them in one call.
pub struct MbufBurst {
    /// Filled slots are freed together; empty slots are not read when a burst is dropped.
    slots: ManuallyDrop<[Option<Mbuf>; BURST]>,
    length: usize,
}

/// Iterator that gives out the mbufs of a burst; those it did not give out are freed with it.
#[derive(Debug)]
pub struct Drain {
    burst: MbufBurst,
    at: usize,
}

impl MbufBurst {
    /// An empty burst.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: ManuallyDrop::new([const { None }; BURST]), length: 0 }
    }

    /// Mbufs in the burst.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether the burst is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Mbufs that the burst can still take.
    #[inline]
    #[must_use]
    pub const fn room(&self) -> usize {
        BURST - self.length
    }

    /// Adds one at the end.
    ///
    /// # Errors
    /// Gives the mbuf back when the burst is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        match self.slots.get_mut(self.length) {
            Some(slot) => {
                *slot = Some(mbuf);
                self.length += 1;
                Ok(())
            }
            None => Err(mbuf),
        }
    }

    /// Takes the last one.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.length = self.length.checked_sub(1)?;
        self.slots[self.length].take()
    }

    /// Takes the one at `index` and puts the last one there; `None` when there is none.
    #[inline]
    pub fn swap_remove(&mut self, index: usize) -> Option<Mbuf> {
        let last = self.length.checked_sub(1).filter(|last| index <= *last)?;
        self.slots.swap(index, last);
        self.pop()
    }

    /// The mbuf at `index`.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Mbuf> {
        self.slots.get(index)?.as_ref()
    }

    /// The mbuf at `index`, to change.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Mbuf> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// The mbufs in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Mbuf> {
        self.slots[..self.length].iter().flatten()
    }

    /// The mbufs in order, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Mbuf> {
        self.slots[..self.length].iter_mut().flatten()
    }

    /// Sorts by `key`; equal ones stay in order.
    pub(crate) fn sort_by_key(&mut self, key: impl Fn(&Mbuf) -> i64) {
        // Nearly sorted as a rule, and short.
        self.slots[..self.length].sort_by_key(|slot| slot.as_ref().map(&key));
    }

    /// Takes all in order and leaves the burst empty.
    #[inline]
    pub fn drain(&mut self) -> Drain {
        Drain { burst: mem::take(self), at: 0 }
    }

    /// Frees all, in one call.
    #[inline]
    pub fn clear(&mut self) {
        mbuf::free_all(&mut self.slots[..self.length]);
        self.length = 0;
    }

    /// The empty slots, for a call that fills some from the front; then [`Self::grow`].
    #[inline]
    pub(crate) fn spare(&mut self) -> &mut [Option<Mbuf>] {
        &mut self.slots[self.length..]
    }

    /// Counts the first `count` spare slots, which were filled, as part of the burst.
    #[inline]
    pub(crate) fn grow(&mut self, count: usize) {
        self.length = (self.length + count).min(BURST);
    }

    /// The filled slots, for a call that takes over some from the front; then
    /// [`Self::forget_front`].
    #[inline]
    pub(crate) fn filled(&mut self) -> &mut [Option<Mbuf>] {
        &mut self.slots[..self.length]
    }

    /// Drops the first `count` places without freeing their mbufs, which have another owner now,
    /// and moves the rest to the front.
    #[inline]
    pub(crate) fn forget_front(&mut self, count: usize) {
        let count = count.min(self.length);
        mbuf::forget_all(&mut self.slots[..count]);
        self.slots[..self.length].rotate_left(count);
        self.length -= count;
    }
}

impl Default for MbufBurst {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for MbufBurst {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Debug for MbufBurst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Iterator for Drain {
    type Item = Mbuf;

    #[inline]
    fn next(&mut self) -> Option<Mbuf> {
        let mbuf = self.burst.slots.get_mut(self.at)?.take()?;
        self.at += 1;
        Some(mbuf)
    }
}
