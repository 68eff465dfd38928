//! CREDIT and REQUEST on the wire: 22 octets, one layout.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Allowance, Name, ParseError, first_octet};
use crate::units::{Credit, FlowId, Key};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    first: u8,
    flags: u8,
    dst_flow: U32,
    key: U64,
    src_flow: U32,
    upto: U32,
}

/// Octets of a CREDIT or REQUEST.
pub const LEN: u16 = 22;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);

pub(super) fn emit(allowance: &Allowance, kind: u8, (dst_flow, key): Name, out: &mut [u8]) {
    let fixed = Fixed {
        first: first_octet(kind),
        flags: 0,
        dst_flow: dst_flow.0.into(),
        key: key.0.into(),
        src_flow: allowance.src_flow.0.into(),
        upto: allowance.upto.number().into(),
    };
    out.copy_from_slice(fixed.as_bytes());
}

pub(super) fn parse(bytes: &[u8]) -> Result<(Name, Allowance), ParseError> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let src_flow = FlowId(fixed.src_flow.get());
    if fixed.flags != 0 || src_flow.generation() == 0 {
        return Err(ParseError::Field);
    }
    let upto = Credit::new(fixed.upto.get()).ok_or(ParseError::Field)?;
    let name = (FlowId(fixed.dst_flow.get()), Key(fixed.key.get()));
    Ok((name, Allowance { src_flow, upto }))
}
