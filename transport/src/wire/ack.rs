//! ACK and NACK on the wire: 44 octets, one layout, and extensions ([`super::ext`]).

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ext::{ACK_ADVICE, ACK_INT};
use super::{Ack, Name, ParseError, Receipt, first_octet};
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
    cumulative: U32,
    sack: U64,
    echo_sent_at: U32,
    held: U32,
    sharers: U16,
}

/// Octets of an ACK or NACK.
pub const LEN: u16 = 44;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);

const FLAG_CE: u8 = 1;
const FLAG_DUPLICATE: u8 = 2;
const FLAG_DECODED: u8 = 4;
/// Extensions follow, which [`super::ext`] reads.
const FLAGS_EXT: u8 = ACK_INT | ACK_ADVICE;
const FLAGS_KNOWN: u8 = FLAG_CE | FLAG_DUPLICATE | FLAG_DECODED | FLAGS_EXT;

/// Whether extensions follow a packet that [`parse`] has read.
#[inline]
pub(super) fn has_ext(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|flags| flags & FLAGS_EXT != 0)
}

#[inline]
pub(super) fn emit(ack: &Ack, kind: u8, (dst_flow, key): Name, out: &mut [u8]) {
    let receipt = match ack.receipt {
        Receipt::First => 0,
        Receipt::Again => FLAG_DUPLICATE,
        Receipt::Decoded => FLAG_DECODED,
    };
    let fixed = Fixed {
        first: first_octet(kind),
        flags: if ack.ce { FLAG_CE } else { 0 } | receipt,
        dst_flow: dst_flow.0.into(),
        key: key.0.into(),
        src_flow: ack.src_flow.0.into(),
        psn: ack.psn.0.into(),
        cumulative: ack.cumulative.0.into(),
        sack: ack.sack.into(),
        echo_sent_at: ack.echo_sent_at.into(),
        held: ack.held.into(),
        sharers: ack.sharers.into(),
    };
    out.copy_from_slice(fixed.as_bytes());
}

#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<(Name, Ack), ParseError> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    let src_flow = FlowId(fixed.src_flow.get());
    if fixed.flags & !FLAGS_KNOWN != 0 || src_flow.generation() == 0 {
        return Err(ParseError::Field);
    }
    // In the order of the enum, this is arithmetic; in any other form, a jump through a table.
    let receipt = match (fixed.flags & (FLAG_DUPLICATE | FLAG_DECODED)) / FLAG_DUPLICATE {
        0 => Receipt::First,
        1 => Receipt::Again,
        2 => Receipt::Decoded,
        _ => return Err(ParseError::Field),
    };
    let ack = Ack {
        src_flow,
        psn: Psn(fixed.psn.get()),
        cumulative: Psn(fixed.cumulative.get()),
        sack: fixed.sack.get(),
        echo_sent_at: fixed.echo_sent_at.get(),
        held: fixed.held.get(),
        sharers: fixed.sharers.get(),
        ce: fixed.flags & FLAG_CE != 0,
        receipt,
    };
    let name = (FlowId(fixed.dst_flow.get()), Key(fixed.key.get()));
    Ok((name, ack))
}
