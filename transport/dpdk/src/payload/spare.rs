//! Memory of received messages that are over, kept for the next ones. Memory that is fresh from the
//! kernel costs a page fault for every 4 KiB, a quarter of the work of a receiver of such messages.
//!
//! Bound: [`KEPT`] bytes a size; what is given back beyond that is freed. Memory of short messages
//! is the allocator's, which keeps it by itself. Memory of long ones is always fresh: the kernel
//! zeroes it page by page as bytes come in, so that a gibibyte stalls no poll. Sizes are bytes.

use crossbeam_channel::{Receiver, Sender, bounded};

/// Shared by the worker that takes memory and the application's threads that give it back.
#[derive(Debug)]
pub(crate) struct Spare {
    /// A shelf for each size, [`SMALLEST`] and its doubles.
    sizes: [Shelf; SIZES],
}

/// Free memory of one size.
#[derive(Debug)]
struct Shelf {
    put: Sender<Vec<u8>>,
    take: Receiver<Vec<u8>>,
}

impl Spare {
    pub(crate) fn new() -> Self {
        let shelf = |size: usize| {
            let (put, take) = bounded(KEPT / (SMALLEST << size));
            Shelf { put, take }
        };
        Self { sizes: std::array::from_fn(shelf) }
    }

    /// Memory of `len` zeroes.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let Some(size) = size_of(len) else { return vec![0; len] };
        let kept = self.sizes.get(size).and_then(|shelf| shelf.take.try_recv().ok());
        let Some(mut bytes) = kept else {
            let mut bytes = vec![0; SMALLEST << size];
            bytes.truncate(len);
            return bytes;
        };
        // No application sees what another message left.
        bytes.clear();
        bytes.resize(len, 0);
        bytes
    }

    /// Takes back what [`Spare::take`] gave.
    pub(crate) fn give(&self, bytes: Vec<u8>) {
        let size = size_of(bytes.len()).filter(|&size| bytes.capacity() == SMALLEST << size);
        if let Some(shelf) = size.and_then(|size| self.sizes.get(size)) {
            // Full: it is freed.
            drop(shelf.put.try_send(bytes));
        }
    }
}

/// The size that holds `len` bytes and leaves at most half of it unused; `None` when none is kept.
fn size_of(len: usize) -> Option<usize> {
    let size = len.div_ceil(SMALLEST).next_power_of_two().trailing_zeros() as usize;
    (len > SMALLEST / 2 && size < SIZES).then_some(size)
}

const SMALLEST: usize = 64 << 10;
/// Number of sizes: up to 1 MiB, which takes some 50 us to clear.
const SIZES: usize = 5;
const KEPT: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_zeroed_to_messages_of_its_size_and_to_no_others() {
        let spare = Spare::new();
        let mut first = spare.take(100_000);
        first.fill(7);
        let at = first.as_ptr();
        spare.give(first);
        let others = [60_000, 200_000].map(|len| spare.take(len));
        assert!(others.iter().all(|other| other.as_ptr() != at));
        let second = spare.take(120_000);
        assert_eq!((second.as_ptr(), second.len()), (at, 120_000));
        assert!(second.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn what_is_kept_is_bounded_and_short_and_long_messages_keep_nothing() {
        let spare = Spare::new();
        for (len, kept) in [(1 << 20, 2), (SMALLEST, 32), (SMALLEST / 2, 0), ((1 << 20) + 1, 0)] {
            let many: Vec<_> = (0..40).map(|_| spare.take(len)).collect();
            many.into_iter().for_each(|bytes| spare.give(bytes));
            let all: usize = spare.sizes.iter().map(|shelf| shelf.take.len()).sum();
            assert_eq!(all, kept, "{len}");
            spare.sizes.iter().for_each(|shelf| shelf.take.try_iter().for_each(drop));
        }
    }

    #[test]
    fn every_length_is_given_in_zeroes() {
        let spare = Spare::new();
        for len in [0, 1, 32_768, 32_769, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 3 << 20] {
            let bytes = spare.take(len);
            assert!(bytes.len() == len && bytes.iter().all(|&byte| byte == 0), "{len}");
            spare.give(bytes);
        }
    }
}
