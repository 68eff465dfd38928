//! Parity of sent messages.
//!
//! A message's segments leave in order the first time, and its parity leaves right behind each
//! block. So a message has one block open at a time, and keeps how far that block has come
//! ([`Accumulated`]). Parity that was not accumulated, because no slot was free or it is sent
//! again, is computed from the message's memory, and counted.

use transport::MsgId;

use super::{Piece, Shape, SlotPool};
use crate::payload::message_bytes::MessageBytes;

/// How far the parity of a message's open block has come.
#[derive(Debug, Default)]
pub(crate) struct Accumulated {
    slot: Option<Piece>,
    /// Offset of the block in the message.
    block: u32,
    /// The next packet to add; those of the block before it have been added.
    next: u8,
}

/// A parity packet that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) msg: MsgId,
    /// Length of the message.
    pub(crate) msg_len: u32,
    /// Offset of the packet's block in the message.
    pub(crate) block: u32,
    /// The number of the parity packet in its block, from 0.
    pub(crate) index: u8,
}

/// Accumulates parity for all messages of an endpoint.
#[derive(Debug)]
pub(crate) struct Encoder {
    shape: Shape,
    slots: SlotPool,
    /// Parity that was computed from the whole block, because none is accumulated any more.
    anew: Box<[u8]>,
    /// The message and the offset of the block whose parity `anew` holds.
    anew_of: Option<(MsgId, u32)>,
    /// A copy of one segment while parity is computed again.
    segment: Box<[u8]>,
    recomputed: u64,
}

impl Encoder {
    /// An encoder for at most `blocks` open blocks.
    pub(super) fn new(shape: Shape, blocks: u32) -> Self {
        let slot_len = shape.slot_len();
        Self {
            slots: SlotPool::new(blocks, slot_len),
            anew: vec![0; slot_len].into_boxed_slice(),
            anew_of: None,
            segment: vec![0; shape.payload_max].into_boxed_slice(),
            recomputed: 0,
            shape,
        }
    }

    /// Adds packet `packet` of a block, which is at `offset` of its message, to the block's parity.
    /// A packet that has been added already changes nothing; after a missing packet the block's
    /// parity will be computed anew.
    #[inline]
    pub(crate) fn add(&mut self, of: &mut Accumulated, offset: u32, packet: u8, bytes: &[u8]) {
        let before = usize::from(packet) * self.shape.payload_max;
        let block = offset.wrapping_sub(u32::try_from(before).unwrap_or(u32::MAX));
        if packet == 0 {
            (of.block, of.next) = (block, 0);
            if of.slot.is_none() {
                of.slot = self.slots.take();
            }
        }
        let Some(slot) = &of.slot else { return };
        if (block, packet) != (of.block, of.next) {
            return;
        }
        let mut parity = self.shape.parity(self.slots.bytes(slot), bytes.len());
        let parity = &mut parity[..self.shape.count()];
        // The first segment of a block is its longest.
        if packet == 0 {
            self.shape.codec.start(packet, bytes, parity);
        } else {
            self.shape.codec.update(packet, bytes, parity);
        }
        of.next += 1;
    }

    /// Copies the wanted parity packet of a message with these bytes to all of `out`; false when
    /// `source` does not have the bytes.
    pub(crate) fn write(
        &mut self,
        of: &mut Accumulated,
        wanted: &Wanted,
        source: &MessageBytes,
        out: &mut [u8],
    ) -> bool {
        let left = wanted.msg_len.saturating_sub(wanted.block) as usize;
        let len = left.min(self.shape.payload_max);
        let packets = left.min(self.shape.block_len()).div_ceil(self.shape.payload_max);
        let whole = of.block == wanted.block && usize::from(of.next) == packets;
        let accumulated = of.slot.take_if(|_| whole);
        let parity = match &accumulated {
            Some(slot) => self.slots.bytes(slot),
            None if self.compute(wanted, packets, len, source) => &mut self.anew,
            None => return false,
        };
        let from = usize::from(wanted.index) * self.shape.stride;
        let bytes = parity.get(from..from + len).filter(|bytes| bytes.len() == out.len());
        let copied = bytes.map(|bytes| out.copy_from_slice(bytes)).is_some();
        match accumulated {
            // Behind the last one it is not asked for again but to be sent again.
            Some(slot) if usize::from(wanted.index) + 1 == self.shape.count() => {
                self.slots.give(slot);
            }
            slot => of.slot = slot.or(of.slot.take()),
        }
        copied
    }

    /// Computes the parity of a block of `packets` segments, the longest of `len` bytes, unless
    /// that was the last thing computed.
    fn compute(
        &mut self,
        wanted: &Wanted,
        packets: usize,
        len: usize,
        source: &MessageBytes,
    ) -> bool {
        let of = Some((wanted.msg, wanted.block));
        if self.anew_of == of {
            return true;
        }
        self.anew_of = None;
        self.recomputed += 1;
        let mut parity = self.shape.parity(&mut self.anew, len);
        let parity = &mut parity[..self.shape.count()];
        let mut offset = wanted.block;
        for packet in (0..).take(packets) {
            let left = wanted.msg_len.saturating_sub(offset) as usize;
            let Some(segment) = self.segment.get_mut(..left.min(len)) else { return false };
            if !source.read(offset, segment) {
                return false;
            }
            if packet == 0 {
                self.shape.codec.start(packet, segment, parity);
            } else {
                self.shape.codec.update(packet, segment, parity);
            }
            offset = offset.saturating_add(u32::try_from(segment.len()).unwrap_or(u32::MAX));
        }
        self.anew_of = of;
        true
    }

    /// A message is over.
    pub(crate) fn release(&mut self, msg: MsgId, of: Accumulated) {
        if let Some(slot) = of.slot {
            self.slots.give(slot);
        }
        // The message's name may soon name another message.
        self.anew_of = self.anew_of.filter(|(of, _)| *of != msg);
    }

    /// How often the parity of a block was computed from the memory of its message.
    pub(crate) const fn recomputed(&self) -> u64 {
        self.recomputed
    }
}
