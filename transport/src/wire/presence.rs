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
    value: U64,
}

/// Octets of a PRESENCE: as many as of the shortest packet that is answered by one.
pub const LEN: u16 = 22;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);
const _: () = assert!(LEN <= super::credit::LEN && LEN <= super::data::LEN);

const UNKNOWN: u8 = 0;
const FORGOTTEN: u8 = 1;
const KEEP: u8 = 2;
const PROVE: u8 = 3;
const PROOF: u8 = 4;
const REFUSED: u8 = 5;

pub(super) fn emit(presence: &Presence, (dst_flow, key): Name, out: &mut [u8]) {
    let (step, value) = match *presence {
        Presence::Unknown { named } => (UNKNOWN, u64::from(named.0) << 32),
        Presence::Forgotten { named } => (FORGOTTEN, u64::from(named.0) << 32),
        Presence::Keep => (KEEP, 0),
        Presence::Prove { cookie } => (PROVE, cookie),
        Presence::Proof { cookie } => (PROOF, cookie),
        Presence::Refused => (REFUSED, 0),
    };
    let fixed = Fixed {
        first: first_octet(KIND_PRESENCE),
        step,
        dst_flow: dst_flow.0.into(),
        key: key.0.into(),
        value: value.into(),
    };
    out.copy_from_slice(fixed.as_bytes());
}

pub(super) fn parse(bytes: &[u8]) -> Result<(Name, Presence), ParseError> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let (dst_flow, value) = (FlowId(fixed.dst_flow.get()), fixed.value.get());
    // A name, where the step has one, and nothing behind it.
    let named = FlowId(u32::try_from(value.rotate_left(32)).unwrap_or(0));
    let presence = match (fixed.step, dst_flow.generation() != 0) {
        (UNKNOWN, false) if named.generation() != 0 => Presence::Unknown { named },
        (FORGOTTEN, false) if named.generation() != 0 => Presence::Forgotten { named },
        (KEEP, true) if value == 0 => Presence::Keep,
        (PROVE, true) => Presence::Prove { cookie: value },
        (PROOF, true) => Presence::Proof { cookie: value },
        (REFUSED, true) if value == 0 => Presence::Refused,
        _ => return Err(ParseError::Field),
    };
    if dst_flow.generation() == 0 && dst_flow != FlowId::UNKNOWN {
        return Err(ParseError::Field);
    }
    Ok(((dst_flow, Key(fixed.key.get())), presence))
}
