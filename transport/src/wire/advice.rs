//! ADVICE on the wire: 12 octets of ACK and NACK from a receiver's half of a controller to the
//! sender's half.

use core::num::NonZeroU8;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ParseError;
use super::half::Half;

/// The advice of a receiver's half of a controller, which defines the meaning of number and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advice {
    /// The half that gives the advice.
    pub half: Half,
    /// A number that may wrap, for example of a round.
    pub number: u16,
    /// Two values.
    pub values: [u32; 2],
}

/// Octets of the extension.
pub const LEN: u16 = 12;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Octets {
    half: u8,
    reserved: u8,
    number: U16,
    values: [U32; 2],
}

const _: () = assert!(size_of::<Octets>() == LEN as usize);

impl Advice {
    /// A place to be filled.
    pub(super) const VACANT: Self = Self { half: NonZeroU8::MIN, number: 0, values: [0; 2] };
}

/// Writes the extension to the front of `out`.
pub(super) fn emit(advice: &Advice, out: &mut [u8]) -> u16 {
    let octets = Octets {
        half: advice.half.get(),
        reserved: 0,
        number: advice.number.into(),
        values: advice.values.map(U32::from),
    };
    out[..usize::from(LEN)].copy_from_slice(octets.as_bytes());
    LEN
}

/// Reads the extension at the front of `bytes`.
pub(super) fn read(bytes: &[u8]) -> Result<Advice, ParseError> {
    let (octets, _) = Octets::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let half = Half::new(octets.half).filter(|_| octets.reserved == 0);
    Ok(Advice {
        half: half.ok_or(ParseError::Field)?,
        number: octets.number.get(),
        values: octets.values.each_ref().map(|value| value.get()),
    })
}
