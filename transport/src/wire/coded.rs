//! The place of a packet in a block of an erasure-coded message, as headers in memory have it.

use core::num::NonZeroU8;

/// The place of a packet in a block.
///
/// The place takes three octets, since DATA has no more room. The number of the code is in the high
/// bits of two of them, which hold the number of parity packets and the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coded {
    data: NonZeroU8,
    /// Parity packets, and the low bits of the code's number above them.
    parity: u8,
    /// The packet, and the high bits of the code's number above it.
    packet: u8,
}

/// Bits of a number below 64.
const BITS: u32 = 6;
const MASK: u8 = (1 << BITS) - 1;

impl Coded {
    /// The largest number of a code: two bits in each of two octets.
    pub const NUMBER_MAX: u8 = 15;
    /// Packets of a block: one bit each in a bitmap.
    pub const PACKETS_MAX: u8 = 64;

    /// Packet `packet` of a block with `data` data and `parity` parity packets, of the code with
    /// that number: data packets count from 0, parity packets from `data`, in a short block too.
    /// `None` when there is no such packet, or no such code.
    #[must_use]
    pub const fn new(number: NonZeroU8, data: u8, parity: u8, packet: u8) -> Option<Self> {
        let packets = data.saturating_add(parity);
        let Some(data) = NonZeroU8::new(data) else { return None };
        let number = number.get();
        if packets > Self::PACKETS_MAX || packet >= packets || number > Self::NUMBER_MAX {
            return None;
        }
        let (low, high) = (number << BITS, number >> 2 << BITS);
        Some(Self { data, parity: low | parity, packet: high | packet })
    }

    /// Which code, by its number in the registry of codes.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.packet >> BITS << 2 | self.parity >> BITS
    }

    /// Data packets of a full block, at least 1.
    #[must_use]
    pub const fn data(self) -> u8 {
        self.data.get()
    }

    /// Parity packets of every block.
    #[must_use]
    pub const fn parity(self) -> u8 {
        self.parity & MASK
    }

    /// The number of the packet in its block, from 0, data first.
    #[must_use]
    pub const fn packet(self) -> u8 {
        self.packet & MASK
    }

    /// The number of the parity packet in its block, from 0; `None` for a segment.
    #[must_use]
    pub const fn parity_index(self) -> Option<u8> {
        self.packet().checked_sub(self.data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_of_all_codes_are_kept_and_no_others_are_taken() {
        let mut kept = 0;
        for number in (1..=u8::MAX).filter_map(NonZeroU8::new) {
            for (data, parity) in (0..=65_u8).flat_map(|data| (0..=65).map(move |y| (data, y))) {
                for packet in [0, data.saturating_sub(1), data, data + parity, u8::MAX] {
                    let legal = number.get() <= 15 && data > 0 && data + parity <= 64;
                    let code = Coded::new(number, data, parity, packet);
                    assert_eq!(code.is_some(), legal && packet < data + parity);
                    let Some(code) = code else { continue };
                    kept += 1;
                    let read = (code.number(), code.data(), code.parity(), code.packet());
                    assert_eq!(read, (number.get(), data, parity, packet));
                    assert_eq!(code.parity_index(), packet.checked_sub(data));
                }
            }
        }
        assert!(kept > 10_000);
    }
}
