//! What a driver keeps for the packets that are in a network, by the handles of [`Packet`]s.
//!
//! A faulty link may deliver a packet twice, so the copies under way are counted: see `Frames`.
//! Grows to the most packets ever under way at once, then allocates no more. Its bound is what
//! hosts may have outstanding.
//!
//! [`Packet`]: crate::Packet

/// An item with room for the number of its copies, so that both share a cache line.
pub trait Counted {
    /// The copies under way; 0 in a free place. Each duplicating link adds one.
    fn copies(&mut self) -> &mut u16;
}

/// Items with the number of their copies, by handle.
#[derive(Debug)]
pub struct CopySlab<T> {
    items: Vec<T>,
    free: Vec<u32>,
    live: u64,
}

impl<T> Default for CopySlab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new(), live: 0 }
    }
}

impl<T: Counted> CopySlab<T> {
    /// Keeps one copy of an item and names it.
    #[inline]
    pub fn keep(&mut self, mut item: T) -> u32 {
        *item.copies() = 1;
        self.live += 1;
        if let Some(handle) = self.free.pop() {
            self.items[handle as usize] = item;
            return handle;
        }
        self.items.push(item);
        u32::try_from(self.items.len() - 1).unwrap_or(u32::MAX)
    }

    /// Counts one more copy of an item.
    #[inline]
    pub fn duplicate(&mut self, handle: u32) {
        *self.items[handle as usize].copies() += 1;
        self.live += 1;
    }

    /// The item of a handle.
    #[inline]
    #[must_use]
    pub fn of(&self, handle: u32) -> &T {
        &self.items[handle as usize]
    }

    /// The item of a number that need not be a handle.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize)
    }

    /// The item of a handle, to be edited.
    #[inline]
    pub fn of_mut(&mut self, handle: u32) -> &mut T {
        &mut self.items[handle as usize]
    }

    /// Whether another copy of an item is under way.
    #[inline]
    #[must_use]
    pub fn is_shared(&mut self, handle: u32) -> bool {
        *self.items[handle as usize].copies() > 1
    }

    /// One copy of an item has reached its end. The item, if that was the last copy: its place is
    /// free then.
    #[inline]
    pub fn end(&mut self, handle: u32) -> Option<&mut T> {
        let item = &mut self.items[handle as usize];
        debug_assert!(*item.copies() > 0, "a packet ends once");
        *item.copies() -= 1;
        self.live -= 1;
        if *item.copies() > 0 {
            return None;
        }
        self.free.push(handle);
        Some(item)
    }

    /// Places in use or free: handles are below this.
    #[inline]
    #[must_use]
    pub fn places(&self) -> usize {
        self.items.len()
    }

    /// Copies under way.
    #[must_use]
    pub const fn live(&self) -> u64 {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Letter(char, u16);

    impl Counted for Letter {
        fn copies(&mut self) -> &mut u16 {
            &mut self.1
        }
    }

    #[test]
    fn an_item_goes_with_its_last_copy_and_its_place_is_used_again() {
        let mut slab = CopySlab::default();
        let [first, second] = ['a', 'b'].map(|letter| slab.keep(Letter(letter, 0)));
        slab.duplicate(first);
        assert_eq!((slab.live(), slab.places()), (3, 2));
        assert!(slab.is_shared(first) && !slab.is_shared(second));
        assert_eq!(slab.end(first), None);
        assert_eq!(slab.end(first), Some(&mut Letter('a', 0)));
        assert_eq!((slab.keep(Letter('c', 0)), slab.live()), (first, 2));
        slab.of_mut(second).0 = 'd';
        assert_eq!((slab.of(first).0, slab.of(second).0), ('c', 'd'));
        assert_eq!(slab.end(second), Some(&mut Letter('d', 0)));
        assert_eq!((slab.get(second), slab.get(2)), (Some(&Letter('d', 0)), None));
    }
}
