//! The segments that a sender has sent and that are outstanding: a ring indexed by PSN.
//!
//! Invariants: `base <= next`; every PSN in `base..next` has an entry and a bit that says whether
//! it has arrived; that of `base` has not, or the ring is empty; at most `capacity` PSNs are
//! outstanding. Lost segments, and those sent again, are chained through their entries in the
//! order in which they became so. All O(1), `advance` amortised. Memory: 32 bytes and a bit for
//! each PSN of the capacity; it grows only in [`SentPackets::reserve`], which the application's
//! side calls.

use alloc::boxed::Box;
use alloc::vec;

use crate::ec::PARITY_MAX;
use crate::time::Instant;
use crate::units::{Bytes, EntropyValue, MsgId, Psn};

/// The fate of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Counts as on its way.
    InFlight,
    /// Counts as lost; waits in the retransmission queue.
    Lost,
    /// Counts as lost and is not needed: its block can be decoded from other packets that are on
    /// their way.
    Spare,
    /// Arrived.
    Acked,
}

/// One segment that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SentPacket {
    /// When the segment was last sent.
    pub(crate) sent_at: Instant,
    /// The message that the segment is a part of.
    pub(crate) msg: MsgId,
    /// First payload byte within the message.
    pub(crate) offset: u32,
    /// Bytes on the wire as last sent.
    pub(crate) wire_len: u16,
    /// Payload bytes.
    pub(crate) payload_len: u16,
    /// The path that the segment took last.
    pub(crate) ev: EntropyValue,
    /// The fate of the segment.
    pub(crate) fate: Fate,
    /// Whether the segment was sent again, and which parity packet it is, if any.
    pub(crate) marks: Marks,
    /// Neighbours of the packet in its chain, if any.
    pub(crate) links: ChainLinks,
}

/// Whether a packet has been sent again, and which parity packet of its block it is: one octet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    const RESENT: u8 = 0x80;
    const COPIED: u8 = 0x40;
    /// Set where a later segment had its turn before this one.
    const HELD: u8 = 0x20;
    /// COPIED and HELD together: a segment that had either was sent again after its own turn.
    const BOTH: u8 = 0x60;
    /// The number of a parity packet plus 1; zero for a segment.
    const NUMBER: u8 = 0x1F;

    /// Marks of a segment of an erasure-coded block: a number that no parity packet has.
    pub(crate) const CODED: Self = Self(Self::NUMBER);

    /// Marks of a segment that has left only as a copy.
    pub(crate) const COPY: Self = Self(Self::COPIED);

    /// Marks of a segment that has not left, because a later one had its turn first.
    pub(crate) const PASSED_OVER: Self = Self(Self::HELD);

    /// True before the segment has had its first turn.
    #[inline]
    pub(crate) const fn awaits_turn(self) -> bool {
        self.0 == Self::COPIED || self.0 == Self::HELD
    }

    /// True when a transmission with these marks is not the first that leaves.
    #[inline]
    pub(crate) const fn repeats(self) -> bool {
        self.resent() && self.0 & Self::BOTH != Self::HELD
    }

    /// True when its first transmission was a copy. True, too, when it was passed over and then
    /// sent twice.
    #[inline]
    pub(crate) const fn copied(self) -> bool {
        self.0 & Self::COPIED != 0
    }

    /// Marks of parity packet `index` of its block, sent for the first time.
    pub(crate) const fn parity(index: u8) -> Self {
        Self(index + 1)
    }

    /// The marks of this packet once it is sent again.
    pub(crate) const fn again(self) -> Self {
        let marks = self.0 | Self::RESENT;
        let had_its_turn = self.resent() && self.0 & Self::BOTH != 0;
        Self(if had_its_turn { marks | Self::BOTH } else { marks })
    }

    /// True once the segment was sent twice in the window: a copy left outside of it.
    #[inline]
    pub(crate) const fn is_retransmission(self) -> bool {
        let early = self.0 & Self::BOTH;
        self.resent() && (early == 0 || early == Self::BOTH)
    }

    /// True once the segment has been sent again.
    #[inline]
    pub(crate) const fn resent(self) -> bool {
        self.0 & Self::RESENT != 0
    }

    /// The number of the parity packet in its block, from 0; `None` for a segment.
    #[inline]
    pub(crate) const fn parity_index(self) -> Option<u8> {
        let number = (self.0 & Self::NUMBER).wrapping_sub(1);
        if number < PARITY_MAX { Some(number) } else { None }
    }

    /// True for segments and parity of an erasure-coded block.
    #[inline]
    pub(crate) const fn is_coded(self) -> bool {
        self.0 & Self::NUMBER != 0
    }
}

/// Neighbours in a chain. Meaningless before the first and after the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChainLinks {
    before: Psn,
    after: Psn,
}

// Two to a cache line.
const _: () = assert!(size_of::<SentPacket>() == 32);

impl SentPacket {
    /// True while the first transmission is in flight.
    #[inline]
    pub(crate) fn is_first_flight(&self) -> bool {
        self.fate == Fate::InFlight && !self.marks.resent()
    }

    /// Bytes on the wire as last sent.
    pub(crate) fn wire_bytes(&self) -> Bytes {
        Bytes(u64::from(self.wire_len))
    }
}

/// A chain through entries of the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    first: Psn,
    last: Psn,
    len: u32,
}

/// The ring of outstanding segments.
#[derive(Clone, Debug)]
pub(crate) struct SentPackets {
    ring: Box<[SentPacket]>,
    /// Words by `psn / 64`, modulo their number: bit `psn % 64` is set when the PSN has arrived.
    /// Bits of PSNs that are not outstanding mean nothing.
    arrived: Box<[u64]>,
    base: Psn,
    next: Psn,
    /// Segments to send again, oldest loss first.
    lost: Chain,
    /// Segments sent again and in flight, in order of time.
    resent: Chain,
    /// Segments of `lost` that have left only as a copy.
    copies: u32,
    /// Whether a segment has ever left as a copy.
    has_copied: bool,
}

const VACANT: SentPacket = SentPacket {
    sent_at: Instant::ZERO,
    msg: MsgId(0),
    offset: 0,
    wire_len: 0,
    payload_len: 0,
    ev: EntropyValue(0),
    fate: Fate::Acked,
    marks: Marks(0),
    links: ChainLinks { before: Psn(0), after: Psn(0) },
};

impl SentPackets {
    /// A ring of which nothing was sent, without memory.
    pub(crate) fn new() -> Self {
        Self {
            ring: Box::default(),
            arrived: Box::default(),
            base: Psn(0),
            next: Psn(0),
            lost: Chain::default(),
            resent: Chain::default(),
            copies: 0,
            has_copied: false,
        }
    }

    /// Makes room for at least `capacity` outstanding PSNs, rounded up to a power of two.
    /// Allocates; not for the hot path.
    pub(crate) fn reserve(&mut self, capacity: u32) {
        let wanted = capacity.next_power_of_two().max(16) as usize;
        if wanted <= self.ring.len() {
            return;
        }
        let mut larger = Self {
            ring: vec![VACANT; wanted].into_boxed_slice(),
            arrived: vec![0; wanted.div_ceil(64)].into_boxed_slice(),
            ..*self
        };
        for step in 0..self.outstanding() {
            let psn = self.base.plus(step);
            let slot = larger.slot(psn);
            larger.ring[slot] = self.ring[self.slot(psn)];
            let arrived = u64::from(larger.ring[slot].fate == Fate::Acked);
            *larger.arrivals(psn) |= arrived << (psn.0 % 64);
        }
        *self = larger;
    }

    /// PSNs between the first unacknowledged one and the next to be sent.
    pub(crate) fn outstanding(&self) -> u32 {
        self.next.0.wrapping_sub(self.base.0)
    }

    /// True when another PSN would not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// How many more PSNs fit.
    pub(crate) fn room(&self) -> usize {
        self.ring.len() - self.outstanding() as usize
    }

    /// The first PSN that is not acknowledged; the next to be sent when there is none.
    pub(crate) fn base(&self) -> Psn {
        self.base
    }

    /// The PSN that the next new segment gets.
    pub(crate) fn next(&self) -> Psn {
        self.next
    }

    /// Notes a new segment and names it.
    ///
    /// # Panics
    /// When full: the flow asks first.
    #[inline]
    pub(crate) fn push(&mut self, packet: SentPacket) -> Psn {
        assert!(!self.is_full(), "sent-packet ring overrun");
        let psn = self.next;
        let slot = self.slot(psn);
        self.ring[slot] = packet;
        *self.arrivals(psn) &= !(1 << (psn.0 % 64));
        self.next = psn.plus(1);
        psn
    }

    /// Passes over the next PSN: no packet has it, and it counts as arrived.
    ///
    /// # Panics
    /// As [`SentPackets::push`].
    pub(crate) fn pass_over(&mut self) {
        let psn = self.push(VACANT);
        *self.arrivals(psn) |= 1 << (psn.0 % 64);
        self.advance();
    }

    /// The entry of `psn` while it is outstanding (in `base..next`).
    #[inline]
    pub(crate) fn entry(&self, psn: Psn) -> Option<&SentPacket> {
        self.is_outstanding(psn).then(|| &self.ring[self.slot(psn)])
    }

    /// False when the transmission of `psn` that left at wire time `sent_at` was a copy, or may
    /// have been one.
    #[inline]
    pub(crate) fn had_its_turn(&self, psn: Psn, sent_at: u32) -> bool {
        let of_turn = |packet: &SentPacket| {
            packet.marks != Marks::COPY && packet.sent_at.to_wire() == sent_at
        };
        !self.has_copied || self.entry(psn).is_some_and(of_turn)
    }

    /// Marks the PSNs `word + i` of the bits i of `bits` as arrived. Returns the bits of
    /// outstanding PSNs whose arrival was not known: call [`SentPackets::arrive`] for each, then
    /// [`SentPackets::advance`]. `word` is a multiple of 64.
    #[inline]
    pub(crate) fn note(&mut self, word: Psn, bits: u64) -> u64 {
        let (from, to) = (self.base.distance_from(word), self.next.distance_from(word));
        if from >= 64 || to <= 0 || self.base == self.next {
            return 0;
        }
        let from = u64::MAX << from.max(0);
        let to = if to >= 64 { u64::MAX } else { (1 << to) - 1 };
        let known = self.arrivals(word);
        let news = bits & from & to & !*known;
        *known |= news;
        news
    }

    /// The entry of `psn`, which [`SentPackets::note`] has just named, as it was before.
    #[inline]
    pub(crate) fn arrive(&mut self, psn: Psn) -> SentPacket {
        let slot = self.slot(psn);
        let before = self.ring[slot];
        self.ring[slot].fate = Fate::Acked;
        if before.marks.resent() || before.fate != Fate::InFlight {
            match before.fate {
                Fate::Lost => {
                    self.copies -= u32::from(before.marks == Marks::COPY);
                    self.unchain(psn, |this| &mut this.lost);
                }
                Fate::InFlight => self.unchain(psn, |this| &mut this.resent),
                Fate::Spare | Fate::Acked => {}
            }
        }
        before
    }

    /// Moves `base` over PSNs that have arrived. Bounded by a turn for each word of the ring.
    #[inline]
    pub(crate) fn advance(&mut self) {
        while self.base != self.next {
            let offset = self.base.0 % 64;
            let run = (*self.arrivals(self.base) >> offset).trailing_ones().min(self.outstanding());
            self.base = self.base.plus(run);
            if offset + run < 64 {
                return;
            }
        }
    }

    /// Notes a new segment that waits to be sent in its turn, and names it.
    ///
    /// # Panics
    /// As [`SentPackets::push`].
    pub(crate) fn push_waiting(&mut self, packet: SentPacket) -> Psn {
        let psn = self.push(SentPacket { fate: Fate::Spare, ..packet });
        self.copies += u32::from(packet.marks == Marks::COPY);
        self.has_copied |= packet.marks == Marks::COPY;
        self.want(psn);
        psn
    }

    /// A segment among the oldest 64 that has left only as copies: the one whose last copy left
    /// first.
    pub(crate) fn oldest_copy(&self) -> Option<(Psn, SentPacket)> {
        let near = (0..self.outstanding().min(64)).map(|step| self.base.plus(step));
        let entries = near.filter_map(|psn| Some((psn, *self.entry(psn)?)));
        let waits = |entry: &SentPacket| entry.fate == Fate::Lost && entry.marks == Marks::COPY;
        entries.filter(|(_, entry)| waits(entry)).min_by_key(|(_, entry)| entry.sent_at)
    }

    /// One more copy of `psn`, which has left only as copies, leaves.
    pub(crate) fn copy_again(&mut self, psn: Psn, packet: &SentPacket) {
        let slot = self.slot(psn);
        (self.ring[slot].sent_at, self.ring[slot].ev) = (packet.sent_at, packet.ev);
    }

    /// Declares `psn`, which is in flight, lost.
    pub(crate) fn lose(&mut self, psn: Psn) -> Option<SentPacket> {
        let entry = self.spare(psn)?;
        self.want(psn);
        Some(entry)
    }

    /// Queues `psn`, which is in flight, to be sent again before all others.
    pub(crate) fn lose_first(&mut self, psn: Psn) -> Option<SentPacket> {
        let entry = self.spare(psn)?;
        let slot = self.slot(psn);
        let Chain { first, last, len } = self.lost;
        self.ring[slot].fate = Fate::Lost;
        self.ring[slot].links = ChainLinks { before: psn, after: first };
        if len > 0 {
            let second = self.slot(first);
            self.ring[second].links.before = psn;
        }
        self.lost = Chain { first: psn, last: if len > 0 { last } else { psn }, len: len + 1 };
        Some(entry)
    }

    /// Declares `psn`, which is in flight, lost, and does not queue it to be sent again.
    pub(crate) fn spare(&mut self, psn: Psn) -> Option<SentPacket> {
        let entry = self.entry(psn).copied().filter(|entry| entry.fate == Fate::InFlight)?;
        if entry.marks.resent() {
            self.unchain(psn, |this| &mut this.resent);
        }
        let slot = self.slot(psn);
        self.ring[slot].fate = Fate::Spare;
        Some(entry)
    }

    /// Queues `psn`, which is spare, to be sent again.
    pub(crate) fn want(&mut self, psn: Psn) {
        let slot = self.slot(psn);
        debug_assert_eq!(self.ring[slot].fate, Fate::Spare);
        self.ring[slot].fate = Fate::Lost;
        self.chain(psn, |this| &mut this.lost);
    }

    /// Notes that `psn`, which was lost, is in flight again as `packet`.
    pub(crate) fn resend(&mut self, psn: Psn, packet: SentPacket) {
        debug_assert!(self.entry(psn).is_some_and(|entry| entry.fate == Fate::Lost));
        self.unchain(psn, |this| &mut this.lost);
        let slot = self.slot(psn);
        self.copies -= u32::from(self.ring[slot].marks == Marks::COPY);
        self.ring[slot] = packet;
        self.chain(psn, |this| &mut this.resent);
    }

    /// The segment that waits behind `skip` others in its queue: where `copies`, among those that
    /// have left only as a copy, else among the rest. O(segments that wait before it).
    pub(crate) fn nth_lost(&self, skip: usize, copies: bool) -> Option<(Psn, &SentPacket)> {
        let chain = (0..self.lost.len).scan(self.lost.first, |psn, _| {
            let here = *psn;
            *psn = self.ring[self.slot(here)].links.after;
            Some((here, &self.ring[self.slot(here)]))
        });
        chain.filter(|(_, packet)| (packet.marks == Marks::COPY) == copies).nth(skip)
    }

    /// The oldest loss that was not sent again yet.
    pub(crate) fn first_lost(&self) -> Option<(Psn, &SentPacket)> {
        self.first(&self.lost)
    }

    /// The segment in flight whose retransmission is the oldest.
    pub(crate) fn first_resent(&self) -> Option<(Psn, &SentPacket)> {
        self.first(&self.resent)
    }

    /// True when some segment was sent again and is in flight.
    #[inline]
    pub(crate) fn has_resent(&self) -> bool {
        self.resent.len > 0
    }

    /// Segments that wait to be sent again.
    pub(crate) fn lost(&self) -> u32 {
        self.lost.len
    }

    /// Segments of these that have left only as a copy.
    pub(crate) fn copies(&self) -> u32 {
        self.copies
    }

    /// True when some segment waits to be sent again.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.len > 0
    }

    fn first(&self, chain: &Chain) -> Option<(Psn, &SentPacket)> {
        (chain.len > 0).then(|| (chain.first, &self.ring[self.slot(chain.first)]))
    }

    /// Appends the entry of `psn` to a chain.
    fn chain(&mut self, psn: Psn, which: fn(&mut Self) -> &mut Chain) {
        let chain = *which(self);
        let slot = self.slot(psn);
        self.ring[slot].links = ChainLinks { before: chain.last, after: psn };
        if chain.len > 0 {
            let last = self.slot(chain.last);
            self.ring[last].links.after = psn;
        }
        let first = if chain.len > 0 { chain.first } else { psn };
        *which(self) = Chain { first, last: psn, len: chain.len + 1 };
    }

    /// Takes the entry of `psn` out of the chain it is in.
    #[inline(never)]
    fn unchain(&mut self, psn: Psn, which: fn(&mut Self) -> &mut Chain) {
        let mut chain = *which(self);
        let ChainLinks { before, after } = self.ring[self.slot(psn)].links;
        if psn == chain.first {
            chain.first = after;
        } else {
            let slot = self.slot(before);
            self.ring[slot].links.after = after;
        }
        if psn == chain.last {
            chain.last = before;
        } else {
            let slot = self.slot(after);
            self.ring[slot].links.before = before;
        }
        chain.len -= 1;
        *which(self) = chain;
    }

    /// True when `psn` was sent and is not known to have arrived with all before it (in
    /// `base..next`).
    #[inline]
    pub(crate) fn is_outstanding(&self, psn: Psn) -> bool {
        psn.0.wrapping_sub(self.base.0) < self.next.0.wrapping_sub(self.base.0)
    }

    #[inline]
    fn arrivals(&mut self, psn: Psn) -> &mut u64 {
        let word = (psn.0 / 64) as usize & (self.arrived.len() - 1);
        &mut self.arrived[word]
    }

    #[inline]
    fn slot(&self, psn: Psn) -> usize {
        psn.0 as usize & (self.ring.len() - 1)
    }
}

#[cfg(test)]
mod tests;
