//! DATA and PARITY on the wire: 30 octets. There are 8 more while opening, 8 more with a tag, 4
//! more with a demand, and 4 more in a block of an erasure code. Extensions follow
//! ([`super::ext`]).

use core::num::{NonZeroU8, NonZeroU32};

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ext::{DATA_HALF, DATA_INT};
use super::half::Half;
use super::seal::SEALED;
use super::{
    Body, Coded, Data, Ext, Header, KIND_DATA, KIND_PARITY, Name, Open, ParseError, first_octet,
    half, int,
};
use crate::units::{Credit, FlowId, Key, MsgNo, Psn};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    first: u8,
    flags: u8,
    dst_flow: U32,
    key: U64,
    psn: U32,
    msg: U32,
    offset: U32,
    sent_at: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OpenExt {
    src_flow: U32,
    msg_len: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CodeExt {
    /// Which code, not 0.
    number: u8,
    data: u8,
    parity: u8,
    packet: u8,
}

/// Octets of a DATA header without extensions.
pub const LEN: u16 = 30;
/// Octets of the opening extension.
pub const OPEN_LEN: u16 = 8;
/// Octets of the tag extension.
pub const TAG_LEN: u16 = 8;
/// Octets of the demand extension.
pub const DEMAND_LEN: u16 = 4;
/// Octets of the code extension.
pub const CODE_LEN: u16 = 4;
/// The longest DATA header without the extensions of [`super::ext`].
pub const PLAIN_LEN_MAX: u16 = LEN + OPEN_LEN + TAG_LEN + DEMAND_LEN + CODE_LEN;
/// The longest DATA header.
pub const LEN_MAX: u16 = PLAIN_LEN_MAX + half::LEN + int::LEN_MAX;

const _: () = assert!(size_of::<Fixed>() == LEN as usize);
const _: () = assert!(size_of::<OpenExt>() == OPEN_LEN as usize);
const _: () = assert!(size_of::<CodeExt>() == CODE_LEN as usize);

const FLAG_OPEN: u8 = 1;
const FLAG_TAG: u8 = 2;
const FLAG_RETRANSMISSION: u8 = 4;
const FLAG_DEMAND: u8 = 8;
const FLAG_CODE: u8 = 16;
/// Extensions follow, which [`super::ext`] reads.
const FLAGS_EXT: u8 = DATA_INT | DATA_HALF;
const FLAGS_KNOWN: u8 =
    FLAG_OPEN | FLAG_TAG | FLAG_RETRANSMISSION | FLAG_DEMAND | FLAG_CODE | FLAGS_EXT;

impl Data {
    /// Octets of this header on the wire, without the extensions of [`super::ext`].
    #[inline]
    #[must_use]
    pub fn emit_len(&self) -> u16 {
        LEN + if self.open.is_some() { OPEN_LEN } else { 0 }
            + if self.tag == 0 { 0 } else { TAG_LEN }
            + if self.demand.is_some() { DEMAND_LEN } else { 0 }
            + if self.code.is_some() { CODE_LEN } else { 0 }
    }

    fn first_octet(&self) -> u8 {
        first_octet(if self.parity_index().is_some() { KIND_PARITY } else { KIND_DATA })
    }
}

/// Octets of the DATA or PARITY header at the front of `bytes`, and the offset of its INT extension
/// if it has one; `None` for another kind or version, and for a header that is unknown or cut
/// short.
#[inline]
pub(super) fn layout_of(bytes: &[u8]) -> Option<(u16, Option<u16>)> {
    let (at, telemetry) = parts_of(bytes)?;
    let len = at + telemetry;
    (bytes.len() >= usize::from(len)).then_some((len, (telemetry > 0).then_some(at)))
}

/// What a border switch reads of data whose controller has a half at the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance {
    /// The flow's key.
    pub key: Key,
    /// The flow at the sender, where the packet names it, else [`FlowId::UNKNOWN`].
    pub src_flow: FlowId,
    /// The half at the receiver.
    pub half: Half,
    /// Whether the telemetry has hops, or lacks some.
    pub has_hops: bool,
}

impl Glance {
    /// The glance at a header with its extensions; `None` unless it is data that has room for
    /// telemetry and names a half.
    #[must_use]
    pub fn of(header: &Header, ext: &Ext) -> Option<Self> {
        let Body::Data(data) = &header.body else { return None };
        let (int, half) = (header.ext.int(ext)?, header.ext.half(ext)?);
        let src_flow = data.open.map_or(FlowId::UNKNOWN, |open| open.src_flow);
        let has_hops = !int.hops().is_empty() || int.is_cut();
        Some(Self { key: header.key, src_flow, half, has_hops })
    }
}

/// [`Glance::of`] the DATA or PARITY header at the front of `bytes`, whose INT extension is at
/// `at`. No other field is read or checked. `None` where the header is sealed, too.
#[inline]
pub(super) fn glance(bytes: &[u8], at: usize) -> Option<Glance> {
    let (fixed, rest) = Fixed::ref_from_prefix(bytes).ok()?;
    if fixed.flags & DATA_HALF == 0 || fixed.first & SEALED != 0 {
        return None;
    }
    let src_flow = if fixed.flags & FLAG_OPEN != 0 {
        FlowId(OpenExt::ref_from_prefix(rest).ok()?.0.src_flow.get())
    } else {
        FlowId::UNKNOWN
    };
    let half = Half::new(*bytes.get(at.checked_sub(half::LEN.into())?)?)?;
    let has_hops = int::has_hops(bytes.get(at..)?);
    Some(Glance { key: Key(fixed.key.get()), src_flow, half, has_hops })
}

/// Octets of a DATA or PARITY header in front of its INT extension, and octets of the extension.
#[inline]
fn parts_of(bytes: &[u8]) -> Option<(u16, u16)> {
    let (fixed, _) = Fixed::ref_from_prefix(bytes).ok()?;
    const DATA: u8 = first_octet(KIND_DATA);
    const PARITY: u8 = first_octet(KIND_PARITY);
    // Switches trim and measure sealed packets as others.
    if !matches!(fixed.first & !SEALED, DATA | PARITY) || fixed.flags & !FLAGS_KNOWN != 0 {
        return None;
    }
    let ext = |flag: u8, len: u16| if fixed.flags & flag != 0 { len } else { 0 };
    let at = LEN
        + ext(FLAG_OPEN, OPEN_LEN)
        + ext(FLAG_TAG, TAG_LEN)
        + ext(FLAG_DEMAND, DEMAND_LEN)
        + ext(FLAG_CODE, CODE_LEN)
        + ext(DATA_HALF, half::LEN);
    if fixed.flags & DATA_INT == 0 {
        return Some((at, 0));
    }
    Some((at, int::len_of(bytes.get(usize::from(at)..)?)?))
}

/// Whether extensions follow a packet that [`parse`] has read.
#[inline]
pub(super) fn has_ext(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|flags| flags & FLAGS_EXT != 0)
}

#[inline]
pub(super) fn emit(data: &Data, (dst_flow, key): Name, out: &mut [u8]) {
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    let fixed = Fixed {
        first: data.first_octet(),
        flags: flag(data.open.is_some(), FLAG_OPEN)
            | flag(data.tag != 0, FLAG_TAG)
            | flag(data.retransmission, FLAG_RETRANSMISSION)
            | flag(data.demand.is_some(), FLAG_DEMAND)
            | flag(data.code.is_some(), FLAG_CODE),
        dst_flow: dst_flow.0.into(),
        key: key.0.into(),
        psn: data.psn.0.into(),
        msg: data.msg.0.into(),
        offset: data.offset.into(),
        sent_at: data.sent_at.into(),
    };
    let (head, mut rest) = out.split_at_mut(usize::from(LEN));
    head.copy_from_slice(fixed.as_bytes());
    if let Some(open) = &data.open {
        let ext = OpenExt { src_flow: open.src_flow.0.into(), msg_len: open.msg_len.get().into() };
        let (head, tail) = rest.split_at_mut(usize::from(OPEN_LEN));
        head.copy_from_slice(ext.as_bytes());
        rest = tail;
    }
    if data.tag != 0 {
        let (head, tail) = rest.split_at_mut(usize::from(TAG_LEN));
        head.copy_from_slice(U64::new(data.tag).as_bytes());
        rest = tail;
    }
    if let Some(demand) = data.demand {
        let (head, tail) = rest.split_at_mut(usize::from(DEMAND_LEN));
        head.copy_from_slice(U32::new(demand.number()).as_bytes());
        rest = tail;
    }
    if let Some(code) = data.code {
        let ext = CodeExt {
            number: code.number(),
            data: code.data(),
            parity: code.parity(),
            packet: code.packet(),
        };
        rest.copy_from_slice(ext.as_bytes());
    }
}

#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<(Name, Data), ParseError> {
    let (fixed, mut rest) = Fixed::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    if fixed.flags & !FLAGS_KNOWN != 0 {
        return Err(ParseError::Field);
    }
    let mut open = None;
    if fixed.flags & FLAG_OPEN != 0 {
        let (ext, tail) = OpenExt::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
        let src_flow = FlowId(ext.src_flow.get());
        let msg_len = NonZeroU32::new(ext.msg_len.get()).ok_or(ParseError::Field)?;
        if src_flow.generation() == 0 {
            return Err(ParseError::Field);
        }
        open = Some(Open { src_flow, msg_len });
        rest = tail;
    }
    let mut tag = 0;
    if fixed.flags & FLAG_TAG != 0 {
        let (value, tail) = U64::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
        tag = value.get();
        if tag == 0 {
            return Err(ParseError::Field);
        }
        rest = tail;
    }
    let mut demand = None;
    if fixed.flags & FLAG_DEMAND != 0 {
        let (value, tail) = U32::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
        demand = Some(Credit::new(value.get()).ok_or(ParseError::Field)?);
        rest = tail;
    }
    let code = if fixed.flags & FLAG_CODE != 0 { Some(parse_code(rest)?) } else { None };
    let data = Data {
        psn: Psn(fixed.psn.get()),
        msg: MsgNo(fixed.msg.get()),
        offset: fixed.offset.get(),
        sent_at: fixed.sent_at.get(),
        retransmission: fixed.flags & FLAG_RETRANSMISSION != 0,
        open,
        tag,
        demand,
        code,
    };
    // The kind repeats whether it is parity, for readers of the first octet alone.
    if fixed.first != data.first_octet() {
        return Err(ParseError::Field);
    }
    Ok(((FlowId(fixed.dst_flow.get()), Key(fixed.key.get())), data))
}

fn parse_code(rest: &[u8]) -> Result<Coded, ParseError> {
    let (ext, _) = CodeExt::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
    let number = NonZeroU8::new(ext.number).ok_or(ParseError::Field)?;
    Coded::new(number, ext.data, ext.parity, ext.packet).ok_or(ParseError::Field)
}
