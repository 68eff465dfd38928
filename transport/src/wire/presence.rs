//! PRESENCE on the wire: 22 octets.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{KIND_PRESENCE, Name, ParseError, Presence, first_octet};
use crate::units::{FlowId, Key};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    first: u8,
    step: u8,
    dst_flow: U32,
    key: U64,
    named: U32,
    reserved: U32,
}

/// Octets of a PRESENCE: as many as of the shortest packet that is answered by one.
pub const LEN: u16 = 22;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);
const _: () = assert!(LEN <= super::credit::LEN && LEN <= super::data::LEN);

const UNKNOWN: u8 = 0;
const FORGOTTEN: u8 = 1;
const KEEP: u8 = 2;

pub(super) fn emit(presence: &Presence, (dst_flow, key): Name, out: &mut [u8]) {
    let (step, named) = match *presence {
        Presence::Unknown { named } => (UNKNOWN, named),
        Presence::Forgotten { named } => (FORGOTTEN, named),
        Presence::Keep => (KEEP, FlowId::UNKNOWN),
    };
    let fixed = Fixed {
        first: first_octet(KIND_PRESENCE),
        step,
        dst_flow: dst_flow.0.into(),
        key: key.0.into(),
        named: named.0.into(),
        reserved: 0.into(),
    };
    out.copy_from_slice(fixed.as_bytes());
}

pub(super) fn parse(bytes: &[u8]) -> Result<(Name, Presence), ParseError> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let (dst_flow, named) = (FlowId(fixed.dst_flow.get()), FlowId(fixed.named.get()));
    let (to_sender, is_named) = (dst_flow == FlowId::UNKNOWN, named.generation() != 0);
    let presence = match fixed.step {
        UNKNOWN if to_sender && is_named => Presence::Unknown { named },
        FORGOTTEN if to_sender && is_named => Presence::Forgotten { named },
        KEEP if dst_flow.generation() != 0 && named == FlowId::UNKNOWN => Presence::Keep,
        _ => return Err(ParseError::Field),
    };
    if fixed.reserved.get() != 0 {
        return Err(ParseError::Field);
    }
    Ok(((dst_flow, Key(fixed.key.get())), presence))
}
