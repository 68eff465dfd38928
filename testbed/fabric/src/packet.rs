//! A packet of the emulated network: 16 bytes by value, in queues and in events alike.
//!
//! The bytes of a packet stay with the driver, which finds them by [`Packet::handle`]. The fabric
//! edits only what is here. The driver applies the edits (CE, trimming, corruption) to its own copy
//! when the packet comes out. Lengths are bytes on the wire.

use transport::rng::mix;
use transport::sched::Ranks;
use transport::units::Credit;
use transport::wire::class::TrafficClass;
use transport::wire::pod::CellName;
use transport::wire::{Body, Header};
use transport::{DropReason, EntropyValue, HostId, Instant};

/// One packet as the fabric sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The driver's name for the packet; the fabric never uses what it refers to. Two copies of one
    /// packet (see `Frames::duplicate`) share it.
    pub handle: u32,
    /// The destination.
    pub dst: HostId,
    /// Hash of the 5-tuple, the entropy value included; computed once, by the driver.
    pub hash: u32,
    /// Bytes on the wire now, 1 ..= 65535.
    pub len: u16,
    /// The value of `len` when the packet is trimmed: its headers, 1 ..= 255 bytes. Data that has a
    /// rank is not trimmed; its rank is here.
    pub trim_len: u8,
    /// The packet's class, and the marks that the network has set on it.
    pub flags: Flags,
}

const _: () = assert!(size_of::<Packet>() == 16, "queues and events move packets by value");

/// The class of a packet in three bits, and its flags in one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No flag: a data packet that can be neither marked nor trimmed.
    pub const NONE: Self = Self::of(TrafficClass::Data);
    /// ECN-capable: may be marked.
    pub const ECT: Self = Self(1);
    /// Marked: congestion was experienced.
    pub const CE: Self = Self(1 << 1);
    /// May lose its payload instead of being dropped; a control packet yields to all others.
    pub const TRIMMABLE: Self = Self(1 << 2);
    /// Some bits were flipped on the way; the driver decides what that causes.
    pub const CORRUPT: Self = Self(1 << 3);
    /// Has room for telemetry: ports that write theirs do so as it leaves them.
    pub const INT: Self = Self(1 << 7);

    const CLASS_AT: u32 = 4;
    const CLASS: u8 = 0b111 << Self::CLASS_AT;
    /// Bits of which the two classes with payload have none.
    const NO_DATA: u8 = 0b110 << Self::CLASS_AT;

    /// A packet of `class` without a flag.
    #[must_use]
    pub const fn of(class: TrafficClass) -> Self {
        Self((class as u8) << Self::CLASS_AT)
    }

    /// These flags with `other` set; the class stays.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        debug_assert!(other.0 & Self::CLASS == 0, "a flag, not a class");
        Self(self.0 | other.0)
    }

    /// Whether the flag `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

const _: () = assert!(TrafficClass::ALL.len() <= 8, "a class has three bits");

impl Packet {
    /// The rank of data that yields to all others.
    pub const LAST_RANK: u8 = u8::MAX;

    /// The class by which queues separate packets.
    #[must_use]
    pub const fn class(&self) -> TrafficClass {
        match (self.flags.0 & Flags::CLASS) >> Flags::CLASS_AT {
            0 => TrafficClass::Data,
            1 => TrafficClass::Unscheduled,
            2 => TrafficClass::Trimmed,
            3 => TrafficClass::Control,
            4 => TrafficClass::ProbeAck,
            _ => TrafficClass::Probe,
        }
    }

    /// Whether the packet carries payload; every class without has priority over data.
    #[inline]
    #[must_use]
    pub const fn is_data(&self) -> bool {
        self.flags.0 & Flags::NO_DATA == 0
    }

    /// The packet without its payload, in the class of trimmed packets.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        self.len = self.len.min(u16::from(self.trim_len).max(1));
        let flags = self.flags.0 & !Flags::CLASS;
        self.flags = Flags::of(TrafficClass::Trimmed).with(Flags(flags));
        self
    }

    /// The packet with the rank that its header calls for; a packet that is no DATA is returned
    /// unchanged.
    #[inline]
    #[must_use]
    pub fn ranked(self, hdr: &Header, ranks: Ranks) -> Self {
        match (&hdr.body, ranks) {
            (Body::Data(data), Ranks::Left) => {
                self.ranked_by(data.demand.map_or(u32::MAX, Credit::number))
            }
            (Body::Data(_), Ranks::Granted) if CellName::of(hdr.ev).unscheduled => {
                self.ranked_by(u32::MAX)
            }
            _ => self,
        }
    }

    /// Whether every other packet goes first: data of the last rank, and control packets that
    /// [`Packet::yielding`] has made.
    #[inline]
    #[must_use]
    pub const fn yields(&self) -> bool {
        let trimmable = self.flags.has(Flags::TRIMMABLE);
        if self.is_data() {
            !trimmable && self.trim_len == Self::LAST_RANK
        } else {
            trimmable && matches!(self.class(), TrafficClass::Control)
        }
    }

    /// The control packet, so that it yields to every other packet.
    #[must_use]
    pub fn yielding(mut self) -> Self {
        debug_assert!(matches!(self.class(), TrafficClass::Control));
        self.flags = self.flags.with(Flags::TRIMMABLE);
        self
    }

    /// The packet of a flow that has `left` segments to send, this one among them: it has a rank by
    /// them, and may not be trimmed.
    #[must_use]
    pub fn ranked_by(mut self, left: u32) -> Self {
        // Five digits in base 2: up to 31 the number itself, then steps of a sixteenth of it.
        let left = left.min((1 << 19) - 1);
        let shift = left.max(16).ilog2() - 4;
        self.trim_len = u8::try_from(shift * 16 + (left >> shift)).unwrap_or(u8::MAX);
        self.flags.0 &= !Flags::TRIMMABLE.0;
        self
    }

    /// The rank of data for disciplines that sort by it, least first: 255 for data without one.
    #[inline]
    #[must_use]
    pub const fn rank(&self) -> u8 {
        if self.flags.has(Flags::TRIMMABLE) { u8::MAX } else { self.trim_len }
    }

    /// Bytes on the wire, widened for sums.
    #[must_use]
    pub const fn wire_bytes(&self) -> u64 {
        self.len as u64
    }
}

/// The reports of a network to its driver. Every packet ends exactly once, delivered, dropped or
/// consumed by a program, and each second copy that `Duplicated` announces ends once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A packet is at its destination.
    Delivered {
        /// The destination.
        host: HostId,
        /// The packet, whose flags and length show the effects of the network.
        packet: Packet,
        /// The instant at which its last bit arrived.
        at: Instant,
    },
    /// A packet is lost; its frame has ended.
    Dropped {
        /// The packet at the instant of the loss.
        packet: Packet,
        /// The cause of the loss.
        reason: DropReason,
        /// The instant of the loss.
        at: Instant,
    },
}

/// The value for [`Packet::hash`]: ends and entropy value of a packet, well mixed.
#[must_use]
pub const fn flow_hash(src: HostId, dst: HostId, ev: EntropyValue) -> u32 {
    let ends = mix((src.0 as u64) << 32 | dst.0 as u64);
    (mix(ends ^ ev.0 as u64) >> 32) as u32
}

/// How the ends of a packet are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ends {
    /// Source and destination: [`flow_hash`].
    #[default]
    Ordered,
    /// Both ends in ascending order, so both directions of a flow have one hash.
    Either,
}

impl Ends {
    /// The value for [`Packet::hash`].
    #[inline]
    #[must_use]
    pub const fn hash(self, src: HostId, dst: HostId, ev: EntropyValue) -> u32 {
        let is_turned = matches!(self, Self::Either) & (src.0 > dst.0);
        let (first, second) = if is_turned { (dst, src) } else { (src, dst) };
        flow_hash(first, second, ev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_keeps_headers_and_flags_and_changes_the_class() {
        let data = Packet {
            handle: 7,
            dst: HostId(1),
            hash: 3,
            len: 4160,
            trim_len: 64,
            flags: Flags::ECT.with(Flags::TRIMMABLE),
        };
        let header = data.trimmed();
        assert_eq!((header.len, header.handle, header.dst), (64, 7, HostId(1)));
        assert_eq!((data.class(), header.class()), (TrafficClass::Data, TrafficClass::Trimmed));
        assert!(data.is_data() && !header.is_data());
        assert!(header.flags.has(Flags::ECT.with(Flags::TRIMMABLE)));
    }

    #[test]
    fn every_class_fits_beside_every_flag() {
        let three = Flags::ECT.with(Flags::CE).with(Flags::TRIMMABLE);
        let all = three.with(Flags::CORRUPT).with(Flags::INT);
        for class in TrafficClass::ALL {
            for flags in [Flags::NONE, all] {
                let flags = Flags::of(class).with(flags);
                let packet =
                    Packet { handle: 0, dst: HostId(0), hash: 0, len: 9, trim_len: 9, flags };
                assert_eq!((packet.class(), packet.is_data()), (class, class.is_data()));
                assert_eq!(flags.has(all), flags != Flags::of(class));
            }
        }
    }

    #[test]
    fn entropy_values_and_ends_all_change_the_hash() {
        let hash = |src, dst, ev| flow_hash(HostId(src), HostId(dst), EntropyValue(ev));
        let mut hashes: Vec<_> = (0..1000).map(|ev| hash(1, 2, ev)).collect();
        hashes.extend((3..1000).map(|host| hash(host, 2, 0)));
        hashes.extend((3..1000).map(|host| hash(2, host, 0)));
        let all = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert!(all - hashes.len() < 3, "{} of {all} collide", all - hashes.len());
    }

    #[test]
    fn ranks_rise_with_what_is_left_in_steps_of_a_sixteenth_at_most() {
        let flags = Flags::ECT.with(Flags::TRIMMABLE);
        let plain = Packet { handle: 0, dst: HostId(0), hash: 0, len: 9000, trim_len: 64, flags };
        assert_eq!(plain.rank(), 255);
        let rank = |left| plain.ranked_by(left).rank();
        assert_eq!([0, 1, 31, 32, 33, 34].map(rank), [0, 1, 31, 32, 32, 33]);
        assert_eq!([(1 << 19) - 1, u32::MAX].map(rank), [255, 255]);
        assert!((1..100_000).all(|left| rank(left) <= rank(left + 1)));
        assert!((32..100_000).all(|left| rank(left) < rank(left + left / 16 + 1)));
        assert!(!plain.ranked_by(1).flags.has(Flags::TRIMMABLE));
    }

    #[test]
    fn trimming_never_lengthens_a_packet_and_never_leaves_nothing() {
        let tiny = Packet {
            handle: 0,
            dst: HostId(0),
            hash: 0,
            len: 40,
            trim_len: 64,
            flags: Flags::NONE,
        };
        assert_eq!(tiny.trimmed().len, 40);
        assert_eq!(Packet { trim_len: 0, ..tiny }.trimmed().len, 1);
    }
}
