//! Application memory: where outgoing bytes come from and incoming ones go.
//!
//! Bytes are copied once each way between the memory of a message and a frame. Bytes of a
//! [`Region`](crate::Region) are not copied where the device can read them in place. An incoming
//! message gets all its memory with its first segment, and keeps it until the application drops it.
//! A budget bounds the memory of all messages of one store together.
//!
//! When the budget is used up, the first segment of a message is refused *before* it is given to
//! the endpoint ([`IncomingBytes::has_room`], called by the worker). It was never received, is
//! counted as `no_buffer`, and its sender sends it again after its timeout. In the other order,
//! bytes that cannot be stored would be acknowledged. Segments of messages that have memory are
//! never refused. Parity of erasure-coded blocks has a budget of its own, and is refused before the
//! endpoint sees it too.
//!
//! Lengths are bytes. This code verifies nothing; the checksum handed over with a message is the
//! worker's.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use transport::wire::checksum::Checksum;
use transport::{BURST, Coding, Config, MsgId, PayloadRef, Restore};

use crate::buffers::ext_buf::ExtBuf;
use crate::payload::coding::{self, Accumulated, Kept, Wanted};
use crate::payload::message_bytes::MessageBytes;
use crate::payload::spare::Spare;
use crate::payload::store::{IncomingBytes, OutgoingBytes};

/// How much an [`AppMemory`] may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Bytes of incoming messages, those included that the application has not dropped yet. Their
    /// memory may be up to twice that, and up to 10 MiB are kept of messages that are over.
    pub bytes_max: u64,
    /// Incoming messages, counted likewise.
    pub messages_max: u32,
    /// Bytes of parity that are kept for blocks that are not whole, at least those of one block.
    /// Only used parts take memory.
    pub parity_max: u64,
}

impl MemoryConfig {
    /// Enough parity for 2000 blocks of (8,2) and 4 KiB: 6 ms of a 100 Gb/s link on which every
    /// block waits for packets.
    pub const PARITY_MAX: u64 = 16 << 20;
}

/// The memory of one application's messages.
#[derive(Debug)]
pub struct AppMemory {
    outgoing: Box<[Option<OutgoingMessage>]>,
    incoming: Box<[Option<(MsgId, Received)>]>,
    /// Whole messages whose places new messages took within one burst; at most one for each segment
    /// of the burst.
    displaced: Vec<(MsgId, Received)>,
    budget: Arc<Budget>,
    /// State for erasure-coded messages, where there are any.
    coding: Option<Box<coding::Coding>>,
}

/// A message to send.
#[derive(Debug)]
struct OutgoingMessage {
    msg: MsgId,
    len: u32,
    source: MessageBytes,
    /// The message's use of its region, and the message's first byte there.
    lent: Option<(ExtBuf, usize)>,
    /// Accumulated parity of the block being sent.
    parity: Accumulated,
}

/// The bytes of an incoming message. Dropping them returns their share of the budget.
pub struct Received {
    bytes: Vec<u8>,
    budget: Arc<Budget>,
}

/// Memory in use, and memory to use again: the state that a store shares with the application's
/// threads, touched twice a message.
#[derive(Debug)]
struct Budget {
    spare: Spare,
    bytes_max: u64,
    messages_max: u64,
    bytes: AtomicU64,
    messages: AtomicU64,
}

impl AppMemory {
    /// A store without messages for an endpoint of `config`.
    #[must_use]
    pub fn new(config: &Config, limits: &MemoryConfig) -> Self {
        let places = config.msgs_max as usize;
        Self {
            outgoing: (0..places).map(|_| None).collect(),
            incoming: (0..places).map(|_| None).collect(),
            displaced: Vec::with_capacity(BURST),
            budget: Arc::new(Budget {
                spare: Spare::new(),
                bytes_max: limits.bytes_max,
                messages_max: u64::from(limits.messages_max),
                bytes: AtomicU64::new(0),
                messages: AtomicU64::new(0),
            }),
            coding: coding::Coding::of(config, limits.parity_max).map(Box::new),
        }
    }

    /// Bytes that incoming messages hold, with the application's.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.budget.bytes.load(Ordering::Acquire)
    }

    /// Incoming messages that are held, with the application's.
    #[must_use]
    pub fn held_messages(&self) -> u64 {
        self.budget.messages.load(Ordering::Acquire)
    }

    /// Incoming message `msg`, which has memory.
    fn held(&mut self, msg: MsgId) -> Option<&mut Received> {
        let slot = self.incoming.get_mut(msg.index())?.as_mut();
        let displaced = self.displaced.iter_mut();
        let mut held = slot.into_iter().chain(displaced);
        held.find(|(held, _)| *held == msg).map(|(_, received)| received)
    }

    fn incoming_of(&mut self, msg: MsgId, msg_len: u32) -> Option<&mut Received> {
        let slot = self.incoming.get_mut(msg.index())?;
        if slot.as_ref().is_none_or(|(held, _)| *held != msg) {
            let reserved = Received::reserve(&self.budget, msg_len)?;
            self.displaced.extend(slot.replace((msg, reserved)));
        }
        slot.as_mut().map(|(_, received)| received)
    }
}

impl OutgoingBytes for AppMemory {
    fn insert(&mut self, msg: MsgId, len: u32, source: MessageBytes) {
        let lent = match &source {
            MessageBytes::Region { region, offset } => {
                let first = usize::try_from(*offset).ok();
                first.map(|first| (ExtBuf::over(Arc::clone(region)), first))
            }
            MessageBytes::Owned(_) | MessageBytes::Pattern(_) => None,
        };
        if let Some(slot) = self.outgoing.get_mut(msg.index()) {
            *slot =
                Some(OutgoingMessage { msg, len, source, lent, parity: Accumulated::default() });
        }
    }

    #[inline]
    fn fill(&mut self, payload: &PayloadRef, out: &mut [u8], sum: Option<&mut Checksum>) -> bool {
        let Some(outgoing) = outgoing_of(&mut self.outgoing, payload.msg) else { return false };
        let copied = match payload.coding {
            Coding::Data | Coding::Copy | Coding::Train(_) => {
                outgoing.source.read(payload.offset, out)
            }
            _ => fill_coded(self.coding.as_deref_mut(), outgoing, payload, out),
        };
        if let Some(sum) = sum {
            add_payload(sum, out);
        }
        copied
    }

    #[inline]
    fn lend(&mut self, payload: &PayloadRef) -> Option<(&ExtBuf, Range<usize>)> {
        let outgoing = outgoing_of(&mut self.outgoing, payload.msg)?;
        let (memory, first) = outgoing.lent.as_ref()?;
        let start = first.checked_add(usize::try_from(payload.offset).ok()?)?;
        let range = start..start.checked_add(usize::from(payload.len))?;
        match payload.coding {
            Coding::Data | Coding::Copy | Coding::Train(_) => {}
            Coding::Block(packet) => {
                let bytes = memory.range(range.clone())?;
                if let Some(coding) = &mut self.coding {
                    coding.encoder.add(&mut outgoing.parity, payload.offset, packet, bytes);
                }
            }
            // Parity lies in no application's memory.
            Coding::Parity(_) => return None,
        }
        Some((memory, range))
    }

    fn parity_recomputed(&self) -> u64 {
        self.coding.as_ref().map_or(0, |coding| coding.encoder.recomputed())
    }

    fn release(&mut self, msg: MsgId) -> Option<ExtBuf> {
        let slot = self.outgoing.get_mut(msg.index())?;
        let outgoing = slot.take_if(|held| held.msg == msg)?;
        if let Some(coding) = &mut self.coding {
            coding.encoder.release(msg, outgoing.parity);
        }
        outgoing.lent.map(|(memory, _)| memory)
    }
}

impl IncomingBytes for AppMemory {
    type Received = Received;

    fn has_room(&self, messages: usize, bytes: u64) -> bool {
        self.budget.fits(messages as u64, bytes)
    }

    #[inline]
    fn place(&mut self, msg: MsgId, offset: u32, msg_len: u32, bytes: &[u8]) -> bool {
        let start = offset as usize;
        let Some(received) = self.incoming_of(msg, msg_len) else { return false };
        let room = received.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..bytes.len()));
        room.map(|room| room.copy_from_slice(bytes)).is_some()
    }

    fn parity_room(&self) -> usize {
        self.coding.as_ref().map_or(0, |coding| coding.keeper.room())
    }

    fn keep(
        &mut self,
        msg: MsgId,
        offset: u32,
        msg_len: u32,
        index: u8,
        bytes: (&[u8], &[u8]),
    ) -> bool {
        // Reserves the message's memory too, so that restored segments have a place.
        let has_memory = self.incoming_of(msg, msg_len).is_some();
        let kept = Kept { msg, block: offset, index };
        let coding = self.coding.as_mut().filter(|_| has_memory);
        coding.is_some_and(|coding| coding.keeper.keep(&kept, bytes))
    }

    fn restore(&mut self, restore: &Restore) -> bool {
        let Some(mut coding) = self.coding.take() else { return false };
        let memory = self.held(restore.msg);
        let restored =
            memory.is_some_and(|memory| coding.keeper.restore(restore, &mut memory.bytes));
        self.coding = Some(coding);
        restored
    }

    fn deliver(&mut self, msg: MsgId) -> Option<Received> {
        if let Some(coding) = &mut self.coding {
            coding.keeper.forget(msg);
        }
        let slot = self.incoming.get_mut(msg.index())?;
        let mut found = slot.take_if(|(held, _)| *held == msg);
        if found.is_none() {
            let at = self.displaced.iter().position(|(held, _)| *held == msg);
            found = at.map(|at| self.displaced.swap_remove(at));
        }
        found.map(|(_, received)| received)
    }

    fn abort(&mut self, msg: MsgId) {
        drop(self.deliver(msg));
    }
}

/// Fills in a packet of a block: a segment that is added to its parity, or parity.
fn fill_coded(
    coding: Option<&mut coding::Coding>,
    outgoing: &mut OutgoingMessage,
    payload: &PayloadRef,
    out: &mut [u8],
) -> bool {
    let OutgoingMessage { msg, len: msg_len, source, parity, .. } = outgoing;
    let (msg, msg_len) = (*msg, *msg_len);
    match (payload.coding, coding) {
        (Coding::Parity(index), Some(coding)) => {
            let wanted = Wanted { msg, msg_len, block: payload.offset, index };
            coding.encoder.write(parity, &wanted, source, out)
        }
        (Coding::Parity(_), None) => false,
        (Coding::Block(packet), Some(coding)) => {
            let copied = source.read(payload.offset, out);
            coding.encoder.add(parity, payload.offset, packet, out);
            copied
        }
        (Coding::Data | Coding::Copy | Coding::Train(_) | Coding::Block(_), _) => {
            source.read(payload.offset, out)
        }
    }
}

#[inline]
fn outgoing_of(
    outgoing: &mut [Option<OutgoingMessage>],
    msg: MsgId,
) -> Option<&mut OutgoingMessage> {
    outgoing.get_mut(msg.index())?.as_mut().filter(|outgoing| outgoing.msg == msg)
}

impl Budget {
    fn fits(&self, messages: u64, bytes: u64) -> bool {
        // Only this store's worker adds, so what fits now fits until it has added it.
        let held = self.bytes.load(Ordering::Acquire).saturating_add(bytes);
        let count = self.messages.load(Ordering::Acquire).saturating_add(messages);
        held <= self.bytes_max && count <= self.messages_max
    }
}

impl Received {
    fn reserve(budget: &Arc<Budget>, len: u32) -> Option<Self> {
        if !budget.fits(1, u64::from(len)) {
            return None;
        }
        let bytes = budget.spare.take(len as usize);
        budget.bytes.fetch_add(u64::from(len), Ordering::AcqRel);
        budget.messages.fetch_add(1, Ordering::AcqRel);
        Some(Self { bytes, budget: Arc::clone(budget) })
    }
}

impl Deref for Received {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes.len() as u64, Ordering::AcqRel);
        self.budget.messages.fetch_sub(1, Ordering::AcqRel);
        self.budget.spare.give(std::mem::take(&mut self.bytes));
    }
}

impl PartialEq for Received {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received({} bytes)", self.bytes.len())
    }
}

/// Adds `bytes` to `sum`: long ones by 256-bit vectors, where the processor has them.
#[inline]
pub(crate) fn add_payload(sum: &mut Checksum, bytes: &[u8]) {
    /// Fewer are summed before the call would have begun.
    const LONG: usize = 256;
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= LONG && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature, as was just asked.
        #[allow(unsafe_code)]
        unsafe {
            add_avx2(sum, bytes);
        }
        return;
    }
    sum.add(bytes);
}

/// [`Checksum::add`], compiled for 256-bit vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_avx2(sum: &mut Checksum, bytes: &[u8]) {
    sum.add_wide(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Settings;

    fn store(bytes_max: u64) -> AppMemory {
        let config = Config::new(Settings { msgs_max: 4, ..Settings::default() }).unwrap();
        AppMemory::new(&config, &MemoryConfig { bytes_max, messages_max: 3, parity_max: 0 })
    }

    #[test]
    fn bytes_placed_in_any_order_are_delivered_whole_and_once() {
        let mut store = store(100);
        let msg = MsgId::new(2, 1);
        assert!(store.place(msg, 4, 6, b"ef") && store.place(msg, 0, 6, b"abcd"));
        assert_eq!(store.deliver(msg).as_deref(), Some(&b"abcdef"[..]));
        assert!(store.deliver(msg).is_none());
        assert!(!store.place(msg, 5, 6, b"xy"), "beyond the end");
        assert!(!store.place(MsgId::new(9, 1), 0, 1, b"x"), "beyond the table");
    }

    #[test]
    fn a_message_whose_place_is_taken_before_it_is_delivered_is_kept() {
        let mut store = store(100);
        let (old, new) = (MsgId::new(2, 1), MsgId::new(2, 2));
        assert!(store.place(old, 0, 3, b"old") && store.place(new, 0, 3, b"new"));
        assert_eq!(store.deliver(old).as_deref(), Some(&b"old"[..]));
        assert_eq!(store.deliver(new).as_deref(), Some(&b"new"[..]));
        assert_eq!(store.held_bytes(), 0);
    }

    #[test]
    fn the_budget_counts_what_the_application_still_holds() {
        let mut store = store(100);
        let (one, two) = (MsgId::new(0, 1), MsgId::new(1, 1));
        assert!(store.place(one, 0, 60, b"x"));
        assert!(!store.has_room(1, 41) && store.has_room(1, 40) && !store.has_room(3, 0));
        assert!(!store.place(two, 0, 60, b"x"));
        let held = store.deliver(one);
        assert_eq!((store.held_bytes(), store.has_room(1, 60)), (60, false));
        drop(held);
        assert!(store.place(two, 0, 60, b"x"));
        store.abort(two);
        assert_eq!((store.held_bytes(), store.held_messages()), (0, 0));
    }

    #[test]
    fn an_outgoing_message_is_found_until_it_is_released_and_by_its_whole_id() {
        let mut store = store(0);
        let msg = MsgId::new(1, 5);
        store.insert(msg, 6, MessageBytes::Owned(Arc::from(&b"abcdef"[..])));
        let mut out = [0; 2];
        let of = |msg| PayloadRef { msg, offset: 2, len: 2, ..PayloadRef::default() };
        assert!(store.fill(&of(msg), &mut out, None) && out == *b"cd");
        assert!(store.lend(&of(msg)).is_none());
        assert!(!store.fill(&of(MsgId::new(1, 4)), &mut out, None));
        assert!(store.release(MsgId::new(1, 4)).is_none());
        assert!(store.fill(&of(msg), &mut out, None));
        assert!(store.release(msg).is_none());
        assert!(!store.fill(&of(msg), &mut out, None));
    }

    #[test]
    fn payload_sums_the_same_by_vectors_of_any_width() {
        let bytes: Vec<u8> = (0..9000_u32).map(|i| (i * 37 % 251).to_le_bytes()[0]).collect();
        for (from, len) in [(0, 0), (1, 1), (0, 63), (3, 64), (5, 127), (7, 1499), (2, 8960)] {
            let bytes = &bytes[from..from + len];
            let (mut plain, mut wide) = (Checksum::new(), Checksum::new());
            // Behind an odd number of octets, too.
            for piece in [&bytes[..len / 3], &bytes[len / 3..]] {
                piece.iter().for_each(|octet| plain.add(&[*octet]));
                add_payload(&mut wide, piece);
            }
            assert_eq!(wide.finish(), plain.finish(), "{len} octets from {from}");
        }
    }
}
