//! NOTE on the wire: 10 octets and up to 32 that schedulers or controllers define.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::class::TrafficClass;
use super::{KIND_NOTE, Note, ParseError, first_octet};
use crate::units::FlowId;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    first: u8,
    flags: u8,
    dst_flow: U32,
    class: u8,
    protocol: u8,
    length: u8,
    reserved: u8,
}

/// Octets of a NOTE that says nothing.
pub const LEN: u16 = 10;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);

/// Most octets that a NOTE says.
pub const OCTETS_MAX: usize = 32;

/// Classes by their number in the header.
const CLASSES: [TrafficClass; 3] =
    [TrafficClass::Control, TrafficClass::ProbeAck, TrafficClass::Probe];

pub(super) fn emit(note: &Note, dst_flow: FlowId, out: &mut [u8]) {
    let class = match note.class {
        TrafficClass::Probe => 2,
        TrafficClass::ProbeAck => 1,
        TrafficClass::Data | TrafficClass::Trimmed | TrafficClass::Control => 0,
    };
    let fixed = Fixed {
        first: first_octet(KIND_NOTE),
        flags: 0,
        dst_flow: dst_flow.0.into(),
        class,
        protocol: note.protocol,
        length: note.len,
        reserved: 0,
    };
    let (head, said) = out.split_at_mut(usize::from(LEN));
    head.copy_from_slice(fixed.as_bytes());
    said.copy_from_slice(note.said());
}

pub(super) fn parse(bytes: &[u8]) -> Result<(FlowId, Note), ParseError> {
    let (fixed, said) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let class = CLASSES.get(usize::from(fixed.class)).copied();
    let (Some(class), 0, 0) = (class, fixed.flags, fixed.reserved) else {
        return Err(ParseError::Field);
    };
    // Headers have even lengths, for checksums.
    let len = usize::from(fixed.length);
    if len > OCTETS_MAX || len % 2 != 0 {
        return Err(ParseError::Field);
    }
    let mut octets = [0; OCTETS_MAX];
    octets[..len].copy_from_slice(said.get(..len).ok_or(ParseError::Truncated)?);
    let note = Note { class, protocol: fixed.protocol, len: fixed.length, octets };
    Ok((FlowId(fixed.dst_flow.get()), note))
}
