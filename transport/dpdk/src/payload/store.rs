//! Stores of application bytes as a worker uses them, by direction.
//!
//! A store copies between bytes and bytes, because what it copies from or to may be a chain of
//! buffers. Lengths and offsets are bytes.

use std::ops::Range;

use transport::wire::checksum::Checksum;
use transport::{MsgId, PayloadRef, Restore};

use crate::buffers::ext_buf::ExtBuf;
use crate::payload::message_bytes::MessageBytes;

/// The bytes of outgoing messages. The worker releases every message exactly once.
pub trait OutgoingBytes {
    /// Message `msg` of `len` bytes takes them from `source` until [`OutgoingBytes::release`].
    fn insert(&mut self, msg: MsgId, len: u32, source: MessageBytes);
    /// Copies the bytes that `payload` names to `out`, which has their length. Adds them to `sum`,
    /// if there is one, and to the parity of their block. False when there is no such message or
    /// its source is shorter.
    fn fill(&mut self, payload: &PayloadRef, out: &mut [u8], sum: Option<&mut Checksum>) -> bool;
    /// The memory and range of the bytes that `payload` names, when devices may read them there.
    /// These bytes count as sent: they are added to the parity of their block.
    fn lend(&mut self, payload: &PayloadRef) -> Option<(&ExtBuf, Range<usize>)>;
    /// How often a block's parity was computed from the memory of its message, when it was due.
    fn parity_recomputed(&self) -> u64;
    /// Ends message `msg`. Its source is the application's again as soon as the caller is the only
    /// holder of the returned value.
    fn release(&mut self, msg: MsgId) -> Option<ExtBuf>;
}

/// The bytes of incoming messages. The worker delivers or aborts every message exactly once.
pub trait IncomingBytes {
    /// The value that an application gets for a received message.
    type Received;

    /// Whether messages of `bytes` in total, `messages` of them, could be stored now.
    fn has_room(&self, messages: usize, bytes: u64) -> bool;
    /// Copies `bytes` to `offset` of message `msg` of `msg_len` bytes, whose memory is reserved
    /// when it is new; false when there is no memory or the range is outside.
    fn place(&mut self, msg: MsgId, offset: u32, msg_len: u32, bytes: &[u8]) -> bool;
    /// Further blocks whose parity could be kept now.
    fn parity_room(&self) -> usize;
    /// Keeps parity packet `index` of the block at `offset` of message `msg`, as
    /// [`IncomingBytes::place`] would; its bytes lie in up to two pieces.
    fn keep(
        &mut self,
        msg: MsgId,
        offset: u32,
        msg_len: u32,
        index: u8,
        bytes: (&[u8], &[u8]),
    ) -> bool;
    /// Restores the segments that a block of a message lacks, and frees its parity; false when its
    /// packets do not suffice.
    fn restore(&mut self, restore: &Restore) -> bool;
    /// Gives out message `msg`, which is whole.
    fn deliver(&mut self, msg: MsgId) -> Option<Self::Received>;
    /// Message `msg` will never be whole: frees its memory.
    fn abort(&mut self, msg: MsgId);
}
