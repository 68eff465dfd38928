//! What travels through the emulated network: 16 bytes by value, in queues and in events alike.
//!
//! The bytes of a packet stay with the driver, which knows them by [`Packet::handle`]; the fabric
//! edits only what is here, and the driver applies the edits (CE, trimming, corruption) to its own
//! copy when the packet comes out. Lengths are bytes on the wire.

use transport::rng::mix;
use transport::{EntropyValue, HostId};

/// One packet as the fabric sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The driver's name for the packet; the fabric never looks behind it. Two copies of one
    /// packet (see `Output::Duplicated`) share it.
    pub handle: u32,
    /// Where it goes.
    pub dst: HostId,
    /// Hash of the 5-tuple, the entropy value included; computed once, by the driver.
    pub hash: u32,
    /// Bytes on the wire now, 1 ..= 65535.
    pub len: u16,
    /// What `len` becomes when the packet is trimmed: its headers, 1 ..= 255 bytes.
    pub trim_len: u8,
    /// What it is and what has happened to it.
    pub flags: Flags,
}

const _: () = assert!(size_of::<Packet>() == 16, "queues and events move packets by value");

/// The flags of a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No flag: a data packet that can be neither marked nor trimmed.
    pub const NONE: Self = Self(0);
    /// Travels in the control class, above data.
    pub const CONTROL: Self = Self(1);
    /// ECN-capable: may be marked.
    pub const ECT: Self = Self(1 << 1);
    /// Marked: congestion was experienced.
    pub const CE: Self = Self(1 << 2);
    /// May lose its payload instead of being dropped.
    pub const TRIMMABLE: Self = Self(1 << 3);
    /// Has lost its payload; in the control class from then on.
    pub const TRIMMED: Self = Self(1 << 4);
    /// Some bits were flipped on the way; the driver decides what that means.
    pub const CORRUPT: Self = Self(1 << 5);

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Packet {
    /// Whether the strict-priority class carries it: control packets and trimmed ones.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.flags.any(Flags::CONTROL.with(Flags::TRIMMED))
    }

    /// The packet without its payload.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        self.len = self.len.min(u16::from(self.trim_len).max(1));
        self.flags = self.flags.with(Flags::TRIMMED);
        self
    }

    /// Bytes on the wire, widened for sums.
    #[must_use]
    pub const fn wire_bytes(&self) -> u64 {
        self.len as u64
    }
}

/// What a driver puts into [`Packet::hash`]: ends and entropy value of a packet, well mixed.
#[must_use]
pub const fn flow_hash(src: HostId, dst: HostId, ev: EntropyValue) -> u32 {
    let ends = mix((src.0 as u64) << 32 | dst.0 as u64);
    (mix(ends ^ ev.0 as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_keeps_the_headers_and_moves_the_packet_to_the_control_class() {
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
        assert!(header.is_control() && !data.is_control());
        assert!(header.flags.has(Flags::ECT.with(Flags::TRIMMED)));
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
