//! REPORT on the wire: 50 octets.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{KIND_REPORT, Name, ParseError, Report, first_octet};
use crate::units::{FlowId, Key, Psn};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    first_octet: u8,
    flags: u8,
    dst_flow: U32,
    key: U64,
    first: U32,
    arrived: [U32; 8],
}

/// Octets of a REPORT.
pub const LEN: u16 = 50;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);

pub(super) fn emit(report: &Report, (dst_flow, key): Name, out: &mut [u8]) {
    let fixed = Fixed {
        first_octet: first_octet(KIND_REPORT),
        flags: 0,
        dst_flow: dst_flow.0.into(),
        key: key.0.into(),
        first: report.first.0.into(),
        arrived: report.arrived.map(U32::from),
    };
    out.copy_from_slice(fixed.as_bytes());
}

pub(super) fn parse(bytes: &[u8]) -> Result<(Name, Report), ParseError> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let first = fixed.first.get();
    if fixed.flags != 0 || !first.is_multiple_of(64) {
        return Err(ParseError::Field);
    }
    let report = Report { first: Psn(first), arrived: fixed.arrived.map(U32::get) };
    Ok(((FlowId(fixed.dst_flow.get()), Key(fixed.key.get())), report))
}
