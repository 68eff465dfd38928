//! Newtypes that carry units and identities, so that a byte count cannot be used as a sequence
//! number.

use core::fmt;
use core::num::NonZeroU32;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A count of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A packet sequence number of one flow: 32 bits in serial arithmetic (RFC 1982).
///
/// Two numbers compare by [`Psn::distance_from`]; at most 2^31 - 1 may be outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(pub u32);

/// An entropy value: the UDP source port, which a load balancer chooses per segment and ECMP
/// hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntropyValue(pub u16);

/// A host of the network, dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostId(pub u32);

/// A flow as its owner names it: slab index in the low 20 bits, generation in the high 12.
///
/// Zero means "not known yet" on the wire; the generation of a live flow is never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowId(pub u32);

/// The secret of a flow, drawn by its sender and carried by every packet of the flow in both
/// directions. A host that has seen none of these packets cannot make one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Key(pub u64);

impl Key {
    /// The key of a packet that belongs to no flow.
    pub const NONE: Self = Self(0);
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("key")
    }
}

/// A message as one endpoint names it: slab index in the low 20 bits, generation in the high 12.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MsgId(pub u32);

/// A message of one flow as the wire names it: counted from 0 in the order of posting; wraps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MsgNo(pub u32);

/// A place in the stream of wire bytes that a flow sends against credit, counted from
/// [`Credit::START`] when the flow opens: 32 bits in serial arithmetic, never zero.
///
/// Cumulative, so that a lost, repeated or overtaken announcement does no harm. Two places compare
/// by [`Credit::distance_from`]; at most 2^31 - 1 bytes may lie between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Credit(NonZeroU32);

impl Credit {
    /// The place before anything was sent against credit.
    pub const START: Self = Self(NonZeroU32::MIN);

    /// The place with this number; `None` for zero, since no place has that number.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number of the place.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// The place `n` bytes after this one; one byte further where that is zero.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        match NonZeroU32::new(self.0.get().wrapping_add(n)) {
            Some(number) => Self(number),
            None => Self::START,
        }
    }

    /// How far `self` is after `base` in serial arithmetic; negative when before.
    #[must_use]
    pub const fn distance_from(self, base: Self) -> i32 {
        self.0.get().wrapping_sub(base.0.get()).cast_signed()
    }

    /// How many bytes `self` is after `base`, 0 when it is before.
    #[must_use]
    pub fn ahead_of(self, base: Self) -> u32 {
        u32::try_from(self.distance_from(base)).unwrap_or(0)
    }
}

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// `self - other`, not below zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The count as a real number, for ratios.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53 bytes")]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// `self * factor`, rounded down and saturating; a negative factor or a NaN gives nothing.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let product = self.as_f64() * factor;
        #[expect(clippy::cast_possible_truncation, reason = "rounding is meant, `as` saturates")]
        Self(product as u64)
    }
}

impl Psn {
    /// The number `n` after this one.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// How far `self` is after `base` in serial arithmetic; negative when before.
    #[must_use]
    pub const fn distance_from(self, base: Self) -> i32 {
        self.0.wrapping_sub(base.0).cast_signed()
    }
}

impl MsgNo {
    /// How far `self` is after `base` in serial arithmetic; negative when before.
    #[must_use]
    pub const fn distance_from(self, base: Self) -> i32 {
        self.0.wrapping_sub(base.0).cast_signed()
    }

    /// The number `n` after this one.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

impl FlowId {
    /// "Not known yet": the value of an opening segment for its peer's flow.
    pub const UNKNOWN: Self = Self(0);
}

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

macro_rules! slab_key {
    ($($name:ident),*) => {$(
        impl $name {
            /// How many entries one endpoint can hold.
            pub const CAPACITY: usize = 1 << INDEX_BITS;
            /// Generations run 1 ..= this, then wrap to 1, so a live id is never zero.
            pub const GENERATION_MAX: u32 = u32::MAX >> INDEX_BITS;

            /// The id of slab entry `index` in its `generation`.
            ///
            /// # Panics
            /// When `index` is not below `CAPACITY` or `generation` is not in
            /// `1..=GENERATION_MAX`: a bug of the slab, never of the network.
            #[must_use]
            pub const fn new(index: u32, generation: u32) -> Self {
                assert!(index <= INDEX_MASK);
                assert!(generation >= 1 && generation <= Self::GENERATION_MAX);
                Self(index | generation << INDEX_BITS)
            }

            /// Slab index.
            #[must_use]
            pub const fn index(self) -> usize {
                (self.0 & INDEX_MASK) as usize
            }

            /// Generation of the slab entry; zero only in forged ids.
            #[must_use]
            pub const fn generation(self) -> u32 {
                self.0 >> INDEX_BITS
            }
        }
    )*};
}

slab_key!(FlowId, MsgId);

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0 + rhs.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        self.0 += rhs.0;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0 - rhs.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, rhs: Self) {
        self.0 -= rhs.0;
    }
}

macro_rules! shown_as {
    ($($name:ident => $format:literal),* $(,)?) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}

shown_as! {
    Bytes => "{}B", Psn => "psn{}", EntropyValue => "ev{}", HostId => "h{}", FlowId => "f{:#x}",
    MsgId => "m{:#x}", MsgNo => "msg{}",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psn_distance_is_serial() {
        assert_eq!(Psn(2).distance_from(Psn(u32::MAX)), 3);
        assert_eq!(Psn(u32::MAX).distance_from(Psn(2)), -3);
    }

    #[test]
    fn a_flow_id_keeps_index_and_generation_and_is_never_unknown() {
        let id = FlowId::new(0xF_FFFF, FlowId::GENERATION_MAX);
        assert_eq!((id.index(), id.generation()), (0xF_FFFF, FlowId::GENERATION_MAX));
        assert_ne!(FlowId::new(0, 1), FlowId::UNKNOWN);
    }
}
