//! What a sender remembers of each segment it has sent: a ring indexed by PSN.
//!
//! Invariants: `base <= next`; every PSN in `base..next` has an entry; the entry of `base` is not
//! acknowledged, or the ring is empty; at most `capacity` PSNs are outstanding. All O(1), `ack`
//! amortised. Growth happens only in [`SentPackets::reserve`], which the application's side calls.

use alloc::vec::Vec;

use crate::time::Instant;
use crate::units::{Bytes, EntropyValue, MsgId, Psn};

/// What has become of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// On its way, or so we believe.
    InFlight,
    /// Believed lost; waits in the retransmission queue.
    Lost,
    /// Arrived.
    Acked,
}

/// One segment that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SentPacket {
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    /// Which message of this endpoint.
    pub(crate) msg: MsgId,
    /// First payload byte within the message.
    pub(crate) offset: u32,
    /// Bytes on the wire as last sent.
    pub(crate) wire_len: u16,
    /// Payload bytes.
    pub(crate) payload_len: u16,
    /// The path it last took.
    pub(crate) ev: EntropyValue,
    /// What has become of it.
    pub(crate) fate: Fate,
    /// True once it has been sent again.
    pub(crate) resent: bool,
}

const _: () = assert!(size_of::<SentPacket>() <= 24);

impl SentPacket {
    /// Bytes on the wire as last sent.
    pub(crate) fn wire_bytes(&self) -> Bytes {
        Bytes(u64::from(self.wire_len))
    }
}

/// The ring of outstanding segments.
#[derive(Clone, Debug)]
pub(crate) struct SentPackets {
    ring: Vec<SentPacket>,
    base: Psn,
    next: Psn,
}

const VACANT: SentPacket = SentPacket {
    sent_at: Instant::ZERO,
    msg: MsgId(0),
    offset: 0,
    wire_len: 0,
    payload_len: 0,
    ev: EntropyValue(0),
    fate: Fate::Acked,
    resent: false,
};

impl SentPackets {
    /// Nothing sent yet; room for `capacity` PSNs, rounded up to a power of two.
    pub(crate) fn new(capacity: u32) -> Self {
        let mut this = Self { ring: Vec::new(), base: Psn(0), next: Psn(0) };
        this.reserve(capacity);
        this
    }

    /// Makes room for at least `capacity` outstanding PSNs. Allocates; not for the hot path.
    pub(crate) fn reserve(&mut self, capacity: u32) {
        let wanted = capacity.next_power_of_two().max(16) as usize;
        if wanted <= self.ring.len() {
            return;
        }
        let mut larger = alloc::vec![VACANT; wanted];
        for step in 0..self.outstanding() {
            let psn = self.base.plus(step);
            larger[psn.0 as usize & (wanted - 1)] = self.ring[self.slot(psn)];
        }
        self.ring = larger;
    }

    /// How many PSNs fit.
    pub(crate) fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// PSNs between the first unacknowledged one and the next to be sent.
    pub(crate) fn outstanding(&self) -> u32 {
        self.next.distance_from(self.base).unsigned_abs()
    }

    /// True when another PSN would not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.outstanding() as usize >= self.ring.len()
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
    pub(crate) fn push(&mut self, packet: SentPacket) -> Psn {
        assert!(!self.is_full(), "sent-packet ring overrun");
        let psn = self.next;
        let slot = self.slot(psn);
        self.ring[slot] = packet;
        self.next = psn.plus(1);
        psn
    }

    /// The entry of `psn` while it is outstanding (in `base..next`).
    pub(crate) fn entry(&mut self, psn: Psn) -> Option<&mut SentPacket> {
        let ahead = psn.distance_from(self.base);
        if ahead < 0 || ahead.unsigned_abs() >= self.outstanding() {
            return None;
        }
        let slot = self.slot(psn);
        Some(&mut self.ring[slot])
    }

    /// Marks `psn` as arrived; its entry as it was before, unless it was known to have arrived.
    pub(crate) fn ack(&mut self, psn: Psn) -> Option<SentPacket> {
        let entry = self.entry(psn)?;
        if entry.fate == Fate::Acked {
            return None;
        }
        let before = *entry;
        entry.fate = Fate::Acked;
        if psn == self.base {
            while self.base != self.next && self.ring[self.slot(self.base)].fate == Fate::Acked {
                self.base = self.base.plus(1);
            }
        }
        Some(before)
    }

    fn slot(&self, psn: Psn) -> usize {
        psn.0 as usize & (self.ring.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn packet(offset: u32) -> SentPacket {
        SentPacket { offset, fate: Fate::InFlight, ..VACANT }
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((0u8..3, 0u32..64), 1..500)) {
            let mut subject = SentPackets::new(32);
            let mut oracle: BTreeMap<u32, u32> = BTreeMap::new();
            let mut next = 0u32;
            for (what, arg) in steps {
                match what {
                    0 if !subject.is_full() => {
                        prop_assert_eq!(subject.push(packet(next * 7)), Psn(next));
                        oracle.insert(next, next * 7);
                        next += 1;
                    }
                    1 => {
                        let psn = next.saturating_sub(arg);
                        let acked = subject.ack(Psn(psn)).map(|p| p.offset);
                        prop_assert_eq!(acked, oracle.remove(&psn));
                    }
                    2 if arg == 0 => subject.reserve(64),
                    _ => {}
                }
                prop_assert_eq!(subject.base().0, oracle.keys().next().copied().unwrap_or(next));
            }
        }
    }

    #[test]
    fn growing_keeps_what_is_outstanding() {
        let mut ring = SentPackets::new(16);
        for i in 0..16 {
            ring.push(packet(i));
        }
        assert!(ring.is_full());
        ring.reserve(100);
        assert!(!ring.is_full());
        assert_eq!(ring.entry(Psn(5)).unwrap().offset, 5);
    }
}
