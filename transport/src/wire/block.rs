//! BLOCK_NACK on the wire: 30 octets.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BlockNack, KIND_BLOCK_NACK, Name, ParseError, first_octet};
use crate::units::{FlowId, Key, Psn};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    first: u8,
    flags: u8,
    dst_flow: U32,
    key: U64,
    src_flow: U32,
    psn: U32,
    missing: U64,
}

/// Octets of a BLOCK_NACK.
pub const LEN: u16 = 30;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);

pub(super) fn emit(nack: &BlockNack, (dst_flow, key): Name, out: &mut [u8]) {
    let fixed = Fixed {
        first: first_octet(KIND_BLOCK_NACK),
        flags: 0,
        dst_flow: dst_flow.0.into(),
        key: key.0.into(),
        src_flow: nack.src_flow.0.into(),
        psn: nack.psn.0.into(),
        missing: nack.missing.into(),
    };
    out.copy_from_slice(fixed.as_bytes());
}

pub(super) fn parse(bytes: &[u8]) -> Result<(Name, BlockNack), ParseError> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let src_flow = FlowId(fixed.src_flow.get());
    let missing = fixed.missing.get();
    if fixed.flags != 0 || src_flow.generation() == 0 || missing == 0 {
        return Err(ParseError::Field);
    }
    let nack = BlockNack { src_flow, psn: Psn(fixed.psn.get()), missing };
    let name = (FlowId(fixed.dst_flow.get()), Key(fixed.key.get()));
    Ok((name, nack))
}
