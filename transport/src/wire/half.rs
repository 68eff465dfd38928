//! HALF on the wire: 2 octets of DATA and PARITY that name the receiver's half of the controller.

use core::num::NonZeroU8;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ParseError;

/// Names a receiver's half of a controller. The two ends agree on the numbers; a receiver runs no
/// half for a number that it does not have.
pub type Half = NonZeroU8;

/// Octets of the extension.
pub const LEN: u16 = 2;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Octets {
    half: u8,
    reserved: u8,
}

const _: () = assert!(size_of::<Octets>() == LEN as usize);

/// Writes the extension to the front of `out`.
pub(super) fn emit(half: Half, out: &mut [u8]) -> u16 {
    let octets = Octets { half: half.get(), reserved: 0 };
    out[..usize::from(LEN)].copy_from_slice(octets.as_bytes());
    LEN
}

/// Reads the extension at the front of `bytes`.
pub(super) fn read(bytes: &[u8]) -> Result<Half, ParseError> {
    let (octets, _) = Octets::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    match (Half::new(octets.half), octets.reserved) {
        (Some(half), 0) => Ok(half),
        _ => Err(ParseError::Field),
    }
}
