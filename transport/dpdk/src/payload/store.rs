//! What a worker asks of a store of application bytes.
//!
//! A store copies between bytes and bytes, because what it copies from or to may be a chain of
//! buffers. Lengths and offsets are bytes.

use std::ops::Range;

use transport::wire::checksum::Checksum;
use transport::{MsgId, PayloadRef, Restore};

use crate::buffers::ext_buf::ExtBuf;
use crate::payload::source::Source;

/// The bytes of messages. The worker sees to it that every message is released exactly once.
pub trait PayloadStore {
    /// What an application gets for an incoming message.
    type Received;

    /// Outgoing message `msg` of `len` bytes takes them from `source` until
    /// [`PayloadStore::release`].
    fn insert(&mut self, msg: MsgId, len: u32, source: Source);
    /// Copies the bytes that `payload` names to `out`, which has their length, and adds them to
    /// `sum`, if asked, and to the parity of their block; false when there is no such message or
    /// its source is shorter.
    fn fill(&mut self, payload: &PayloadRef, out: &mut [u8], sum: Option<&mut Checksum>) -> bool;
    /// Where the bytes lie that `payload` names, when devices may read them there. They count as
    /// sent: they are added to the parity of their block.
    fn lend(&mut self, payload: &PayloadRef) -> Option<(&ExtBuf, Range<usize>)>;
    /// How often a block's parity was computed from the memory of its message, when it was due.
    fn parity_recomputed(&self) -> u64;
    /// Outgoing message `msg` is over; its source is the application's again, once nobody holds
    /// what is returned but the caller.
    fn release(&mut self, msg: MsgId) -> Option<ExtBuf>;

    /// Whether incoming messages of `bytes` in total, `messages` of them, could be stored now.
    fn has_room(&self, messages: usize, bytes: u64) -> bool;
    /// Copies `bytes` to `offset` of incoming message `msg` of `msg_len` bytes, whose memory is
    /// reserved when it is new; false when there is no memory or the range is outside.
    fn place(&mut self, msg: MsgId, offset: u32, msg_len: u32, bytes: &[u8]) -> bool;
    /// Blocks of incoming messages that parity could be kept for now, beside those it is kept for.
    fn parity_room(&self) -> usize;
    /// Keeps parity packet `index` of the block at `offset` of incoming message `msg`, as
    /// [`PayloadStore::place`] would; its bytes lie in up to two pieces.
    fn keep(
        &mut self,
        msg: MsgId,
        offset: u32,
        msg_len: u32,
        index: u8,
        bytes: (&[u8], &[u8]),
    ) -> bool;
    /// Restores what a block of an incoming message lacks, and lets its parity go; false when its
    /// packets do not suffice.
    fn restore(&mut self, restore: &Restore) -> bool;
    /// Hands over incoming message `msg`, which is whole.
    fn deliver(&mut self, msg: MsgId) -> Option<Self::Received>;
    /// Incoming message `msg` will never be whole: frees its memory.
    fn abort(&mut self, msg: MsgId);
}
