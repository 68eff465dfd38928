//! A fixed number of equal pieces of memory, given out last in first out: the one given back last
//! is in the cache.
//!
//! Reserved at once and zeroed by the kernel page by page, so what is never used takes no memory.

use super::LINE;

/// A piece that is given out.
#[derive(Debug)]
pub(super) struct Piece(u32);

impl Piece {
    /// The piece's number, below the number of pieces.
    pub(super) const fn number(&self) -> u32 {
        self.0
    }
}

#[derive(Debug)]
pub(super) struct SlotPool {
    memory: Vec<u8>,
    /// Offset of the first piece, on a cache line.
    start: usize,
    len: usize,
    free: Vec<u32>,
}

impl SlotPool {
    /// `count` pieces of `len` bytes.
    pub(super) fn new(count: u32, len: usize) -> Self {
        let memory = vec![0; count as usize * len + LINE];
        let start = memory.as_ptr().align_offset(LINE).min(LINE);
        Self { memory, start, len, free: (0..count).rev().collect() }
    }

    /// Pieces that are not given out.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// A piece with arbitrary content; `None` when all are given out.
    pub(super) fn take(&mut self) -> Option<Piece> {
        self.free.pop().map(Piece)
    }

    /// Takes a piece back.
    pub(super) fn give(&mut self, Piece(index): Piece) {
        self.free.push(index);
    }

    /// The bytes of a piece.
    #[inline]
    pub(super) fn bytes(&mut self, slot: &Piece) -> &mut [u8] {
        let from = self.start + slot.0 as usize * self.len;
        self.memory.get_mut(from..from + self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_apart_and_only_as_many_as_there_are() {
        let mut slots = SlotPool::new(2, 128);
        let [a, b] = [slots.take().unwrap(), slots.take().unwrap()];
        assert!(slots.take().is_none());
        slots.bytes(&a).fill(1);
        slots.bytes(&b).fill(2);
        assert!(slots.bytes(&a).iter().all(|byte| *byte == 1));
        assert_eq!(slots.bytes(&b).as_ptr().align_offset(LINE), 0);
        let last = b.0;
        slots.give(a);
        slots.give(b);
        assert_eq!(slots.take().unwrap().0, last, "the warm one first");
        assert_eq!(slots.free(), 1);
    }
}
