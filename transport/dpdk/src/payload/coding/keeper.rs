//! Parity that was received, kept until its block needs no more.
//!
//! Bound: a slot for each block with kept parity. A table of chains finds them by message and
//! offset, with as many chains as slots, so in O(1) unless a sender chooses offsets to collide, and
//! then no longer than the table. Nothing is allocated after `new`.

use transport::rng::mix;
use transport::{MsgId, Restore};

use super::{PARITY, Piece, Shape, SlotPool};

const DATA: usize = transport::ec::DATA_MAX as usize;

/// The place of a parity packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// The incoming message.
    pub(crate) msg: MsgId,
    /// Offset of the packet's block in the message.
    pub(crate) block: u32,
    /// The number of the parity packet in its block, from 0.
    pub(crate) index: u8,
}

/// An entry of the table: one block with kept parity.
#[derive(Debug)]
struct BlockEntry {
    slot: Piece,
    msg: MsgId,
    block: u32,
    /// Bit i: parity packet i is there.
    have: u64,
    /// The next of its chain.
    next: Option<u32>,
}

/// The kept parity of an endpoint.
#[derive(Debug)]
pub(crate) struct Keeper {
    shape: Shape,
    slots: SlotPool,
    /// Entries by the number of their slot; as many as there are slots.
    entries: Box<[Option<BlockEntry>]>,
    /// The first entry of each chain; the number of chains is a power of two.
    chains: Box<[Option<u32>]>,
    /// Blocks with kept parity by their message's index.
    of_msg: Box<[u32]>,
}

impl Keeper {
    /// A table for at most `blocks` blocks of `msgs` messages.
    pub(super) fn new(shape: Shape, blocks: u32, msgs: u32) -> Self {
        let slots = SlotPool::new(blocks, shape.slot_len());
        Self {
            of_msg: (0..msgs).map(|_| 0).collect(),
            shape,
            slots,
            entries: (0..blocks).map(|_| None).collect(),
            chains: (0..blocks.next_power_of_two()).map(|_| None).collect(),
        }
    }

    /// Blocks that parity can begin to be kept for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.slots.free()
    }

    /// Keeps the bytes of a parity packet, which lie in up to two pieces; false when there is no
    /// room, or no such packet.
    pub(crate) fn keep(&mut self, kept: &Kept, (near, far): (&[u8], &[u8])) -> bool {
        let Some(at) = self.find(kept.msg, kept.block).or_else(|| self.insert(kept)) else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(at as usize).and_then(Option::as_mut) else {
            return false;
        };
        let len = near.len() + far.len();
        if len > self.shape.payload_max || usize::from(kept.index) >= self.shape.count() {
            return false;
        }
        let parity = self.shape.parity(self.slots.bytes(&entry.slot), len);
        let (front, back) = parity[usize::from(kept.index)].split_at_mut(near.len());
        front.copy_from_slice(near);
        back.copy_from_slice(far);
        entry.have |= 1 << kept.index;
        true
    }

    /// Restores the segments that `restore` names as missing in `memory`, the whole message's, and
    /// frees the block's parity. False when that is not possible, because its packets contradict
    /// each other.
    pub(crate) fn restore(&mut self, restore: &Restore, memory: &mut [u8]) -> bool {
        let Some(at) = self.find(restore.msg, restore.offset) else { return false };
        let Some(entry) = self.remove(at) else { return false };
        let restored = self.decode(restore, &entry, memory);
        self.slots.give(entry.slot);
        restored
    }

    fn decode(&mut self, restore: &Restore, entry: &BlockEntry, memory: &mut [u8]) -> bool {
        let data = usize::from(restore.data);
        let all_data = (1 << restore.data) - 1;
        if restore.have & all_data == all_data {
            return true;
        }
        let Some(block) = memory.get_mut(restore.offset as usize..) else { return false };
        let longest = block.len().min(self.shape.payload_max);
        let parity = self.shape.parity(self.slots.bytes(&entry.slot), longest);
        let mut packets: [&mut [u8]; DATA + PARITY] = std::array::from_fn(|_| &mut [][..]);
        let segments = block.chunks_mut(self.shape.payload_max).take(data);
        let all = segments.chain(parity.into_iter().take(self.shape.count()));
        let count = packets.iter_mut().zip(all).map(|(packet, bytes)| *packet = bytes).count();
        let have = restore.have & all_data | entry.have << restore.data;
        let whole = count == data + self.shape.count();
        whole && self.shape.codec.decode(restore.data, have, &mut packets[..count]).is_ok()
    }

    /// Incoming message `msg` is over: frees the parity that is still kept for it. Some is kept
    /// when the message is given up or its packets contradict each other. O(slots) then.
    pub(crate) fn forget(&mut self, msg: MsgId) {
        if self.of_msg.get(msg.index()).is_none_or(|&blocks| blocks == 0) {
            return;
        }
        for at in (0..).take(self.entries.len()) {
            let of = self.entries.get(at as usize).and_then(Option::as_ref);
            if of.is_some_and(|entry| entry.msg == msg)
                && let Some(entry) = self.remove(at)
            {
                self.slots.give(entry.slot);
            }
        }
    }

    fn chain(&mut self, msg: MsgId, block: u32) -> &mut Option<u32> {
        let hash = mix(u64::from(msg.0) << 32 | u64::from(block));
        let mask = self.chains.len() - 1;
        &mut self.chains[usize::try_from(hash).unwrap_or(0) & mask]
    }

    fn find(&mut self, msg: MsgId, block: u32) -> Option<u32> {
        let mut next = *self.chain(msg, block);
        while let Some(at) = next {
            let entry = self.entries.get(at as usize)?.as_ref()?;
            if (entry.msg, entry.block) == (msg, block) {
                return Some(at);
            }
            next = entry.next;
        }
        None
    }

    fn insert(&mut self, kept: &Kept) -> Option<u32> {
        let Kept { msg, block, .. } = *kept;
        let of_msg = self.of_msg.get_mut(msg.index())?;
        let slot = self.slots.take()?;
        *of_msg += 1;
        let at = slot.number();
        let next = self.chain(msg, block).replace(at);
        self.entries[at as usize] = Some(BlockEntry { slot, msg, block, have: 0, next });
        Some(at)
    }

    /// Takes an entry out of its chain.
    fn remove(&mut self, at: u32) -> Option<BlockEntry> {
        let entry = self.entries.get_mut(at as usize)?.take()?;
        if let Some(of_msg) = self.of_msg.get_mut(entry.msg.index()) {
            *of_msg -= 1;
        }
        let first = self.chain(entry.msg, entry.block);
        if *first == Some(at) {
            *first = entry.next;
            return Some(entry);
        }
        let mut before = *first;
        while let Some(other) = before {
            let other = self.entries.get_mut(other as usize)?.as_mut()?;
            if other.next == Some(at) {
                other.next = entry.next;
                break;
            }
            before = other.next;
        }
        Some(entry)
    }
}
