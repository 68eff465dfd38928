//! NOTE on the wire: 10 octets, the key of the flow where the note names one, and up to 32 octets
//! that schedulers or controllers define. A note for a host has a key where it names [`KEYED`].

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::class::TrafficClass;
use super::ext::NOTE_INT;
use super::template::front;
use super::{Body, Header, KEY_LEN, KIND_NOTE, Name, Note, ParseError, first_octet};
use crate::units::{EntropyValue, FlowId, Key};

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
pub const OCTETS_MAX: usize = SAID_MAX as usize;
/// [`OCTETS_MAX`] as a length of a header.
pub const SAID_MAX: u16 = 32;

/// Classes by their number in the header.
const CLASSES: [TrafficClass; 3] =
    [TrafficClass::Control, TrafficClass::ProbeAck, TrafficClass::Probe];

/// The flow that a note for a host names where the note has a key. No flow has this number, whose
/// generation is 0.
pub const KEYED: FlowId = FlowId(1);

/// Whether a note that names `dst_flow` is for the host, and for none of its flows.
#[inline]
#[must_use]
pub const fn is_for_host(dst_flow: FlowId) -> bool {
    dst_flow.0 == FlowId::UNKNOWN.0 || dst_flow.0 == KEYED.0
}

/// A note that is read where it lies, in a frame or in a [`Note`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoteView<'a> {
    /// As [`Note::class`].
    pub class: TrafficClass,
    /// As [`Note::protocol`].
    pub protocol: u8,
    /// The content, up to [`OCTETS_MAX`] octets.
    pub said: &'a [u8],
}

impl Note {
    /// This note, to be read.
    #[inline]
    #[must_use]
    pub fn view(&self) -> NoteView<'_> {
        NoteView { class: self.class, protocol: self.protocol, said: self.said() }
    }

    /// The header of this note for a host, with a key unless that is [`Key::NONE`].
    #[inline]
    #[must_use]
    pub fn for_host(self, ev: EntropyValue, key: Key) -> Header {
        let to = if key == Key::NONE { FlowId::UNKNOWN } else { KEYED };
        Header::new(ev, to, Body::Note(self)).keyed(key)
    }
}

/// Octets of the key in a note that names `dst_flow`.
#[inline]
pub(super) const fn key_len(dst_flow: FlowId) -> u16 {
    if dst_flow.0 == FlowId::UNKNOWN.0 { 0 } else { KEY_LEN }
}

#[inline]
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
    let head: &mut [u8; LEN as usize] = front(out);
    *head = zerocopy::transmute!(fixed);
    let mut at = usize::from(LEN);
    if key_len(dst_flow) > 0 {
        let name: &mut [u8; KEY_LEN as usize] = front(&mut out[at..]);
        *name = key.0.to_be_bytes();
        at += usize::from(KEY_LEN);
    }
    out[at..].copy_from_slice(note.said());
}

/// Whether extensions follow a note that [`parse`] has read.
#[inline]
pub(super) fn has_ext(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|flags| flags & NOTE_INT != 0)
}

#[inline]
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
