//! NOTE on the wire: 10 octets, the key of the flow where the note names one, and up to 32 octets
//! that schedulers or controllers define.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::class::TrafficClass;
use super::ext::NOTE_INT;
use super::{KEY_LEN, KIND_NOTE, Name, Note, ParseError, first_octet};
use crate::units::{FlowId, Key};

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

/// Octets of a NOTE for a host without content.
pub const LEN: u16 = 10;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);

/// Most octets of content.
pub const OCTETS_MAX: usize = 32;

/// Classes by their number in the header.
const CLASSES: [TrafficClass; 3] =
    [TrafficClass::Control, TrafficClass::ProbeAck, TrafficClass::Probe];

/// Octets of the key in a note that names `dst_flow`: a note for a host is of no flow.
pub(super) const fn key_len(dst_flow: FlowId) -> u16 {
    if dst_flow.0 == FlowId::UNKNOWN.0 { 0 } else { KEY_LEN }
}

pub(super) fn emit(note: &Note, (dst_flow, key): Name, out: &mut [u8]) {
    let class = match note.class {
        TrafficClass::Probe => 2,
        TrafficClass::ProbeAck => 1,
        TrafficClass::Data
        | TrafficClass::Unscheduled
        | TrafficClass::Trimmed
        | TrafficClass::Control => 0,
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
    let (head, rest) = out.split_at_mut(usize::from(LEN));
    head.copy_from_slice(fixed.as_bytes());
    let (name, said) = rest.split_at_mut(usize::from(key_len(dst_flow)));
    name.copy_from_slice(&U64::new(key.0).as_bytes()[..name.len()]);
    said.copy_from_slice(note.said());
}

/// Whether extensions follow a note that [`parse`] has read.
pub(super) fn has_ext(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|flags| flags & NOTE_INT != 0)
}

pub(super) fn parse(bytes: &[u8]) -> Result<(Name, Note), ParseError> {
    let (fixed, rest) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let class = CLASSES.get(usize::from(fixed.class)).copied();
    let (Some(class), 0, 0) = (class, fixed.flags & !NOTE_INT, fixed.reserved) else {
        return Err(ParseError::Field);
    };
    let dst_flow = FlowId(fixed.dst_flow.get());
    let (key, said) = if key_len(dst_flow) == 0 {
        (Key::NONE, rest)
    } else {
        let (key, said) = U64::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
        (Key(key.get()), said)
    };
    // Headers have even lengths, for checksums.
    let len = usize::from(fixed.length);
    if len > OCTETS_MAX || len % 2 != 0 {
        return Err(ParseError::Field);
    }
    let mut octets = [0; OCTETS_MAX];
    octets[..len].copy_from_slice(said.get(..len).ok_or(ParseError::Truncated)?);
    let note = Note { class, protocol: fixed.protocol, len: fixed.length, octets };
    Ok(((dst_flow, key), note))
}
