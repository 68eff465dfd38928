//! Frames whose payload is attached: a small buffer for the headers, and one that points at the
//! payload.

use std::ops::Range;
use std::sync::Arc;

use crate::buffers::burst::MbufBurst;
use crate::buffers::ext_buf::ExtBuf;
use crate::buffers::mbuf::Mbuf;
use crate::buffers::pool::Pool;

/// Small buffers: one for the headers of a frame, one to point at its payload.
pub(super) struct Attaching {
    pub(super) heads: MbufBurst,
    pub(super) pieces: MbufBurst,
    pub(super) pool: Arc<Pool>,
}

/// Fills `spare` up to `wanted`, or as far as possible: `pool` gives either all buffers that a call
/// asks for, or none.
#[inline]
pub(super) fn refill(pool: &Pool, spare: &mut MbufBurst, wanted: usize) {
    let mut missing = wanted - spare.len();
    while missing > 0 && !pool.alloc_burst(spare, missing) {
        missing /= 2;
    }
}

impl Attaching {
    /// Makes `wanted` buffers of each kind ready, if the pool has them.
    #[inline]
    pub(super) fn refill(&mut self, wanted: usize) {
        for spare in [&mut self.heads, &mut self.pieces] {
            if spare.len() < wanted {
                refill(&self.pool, spare, wanted);
            }
        }
    }

    /// A frame of `head` bytes to be written and `range` of `memory`; `None` when buffers are
    /// missing, or the memory has too many holders.
    #[inline]
    pub(super) fn frame(
        &mut self,
        head: u16,
        memory: &ExtBuf,
        range: Range<usize>,
    ) -> Option<Mbuf> {
        if self.heads.is_empty() || self.pieces.is_empty() {
            return None;
        }
        let (piece, frame) = (self.pieces.pop()?, self.heads.pop()?);
        match Mbuf::frame(frame, head, piece, memory, range) {
            Ok(frame) => Some(frame),
            Err((frame, piece)) => {
                // Room for both was checked before.
                let kept = (self.heads.push(frame), self.pieces.push(piece));
                debug_assert!(kept.0.is_ok() && kept.1.is_ok(), "a burst grew while it was used");
                None
            }
        }
    }
}
