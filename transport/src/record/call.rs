//! The kinds of call on an endpoint, how segments are written, and the digest of answers.

use alloc::vec::Vec;

use super::FormatError;
use super::reader::Reader;
use crate::event::Event;
use crate::rng::mix;
use crate::segment::{Burst, Placement, Restore, RxSegment, TxSegment};
use crate::time::Instant;
use crate::units::{EntropyValue, HostId};
use crate::wire::{Ext, Header, frame};

macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident = $octet:literal),+ $(,)?) => {
        /// The kind of a call.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum CallKind { $($(#[$meta])* $kind = $octet),+ }

        impl CallKind {
            pub(super) fn of(octet: u8) -> Option<Self> {
                match octet { $($octet => Some(Self::$kind),)+ _ => None }
            }
        }
    };
}

kinds! {
    /// `open_flow`
    OpenFlow = 1,
    /// `close_flow`
    CloseFlow = 2,
    /// `post_send`
    PostSend = 3,
    /// `handle_burst`
    HandleBurst = 4,
    /// `poll_transmit`
    PollTransmit = 5,
    /// `handle_timeout`
    HandleTimeout = 6,
    /// `poll_event` that gave one
    PollEvent = 7,
    /// The end of the recording.
    End = 8,
    /// `send_ahead`
    SendAhead = 9,
    /// `open_labelled` with a label
    OpenLabelled = 10,
}

/// Octets that hold any Headrace header with its extensions.
const HEADER_MAX: usize = frame::HEADERS_MAX as usize;

const CE: u8 = 1;
const TRIMMED: u8 = 2;

/// Writes a segment with the extensions that its header names.
pub(super) fn write_segment(segment: &RxSegment, ext: &Ext, out: &mut Vec<u8>) {
    let mut header = [0; HEADER_MAX];
    let len = segment.hdr.emit(ext, &mut header);
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    out.extend(segment.at.as_ps().to_le_bytes());
    out.extend(segment.from.0.to_le_bytes());
    out.extend(segment.payload_len.to_le_bytes());
    out.push(flag(segment.ce, CE) | flag(segment.trimmed, TRIMMED));
    out.extend(segment.hdr.ev.0.to_le_bytes());
    out.push(u8::try_from(len).unwrap_or(u8::MAX));
    out.extend(&header[..len]);
}

pub(super) fn read_segment(reader: &mut Reader<'_>) -> Result<(RxSegment, Ext), FormatError> {
    let at = Instant::from_ps(reader.u64()?);
    let from = HostId(reader.u32()?);
    let payload_len = reader.u16()?;
    let flags = reader.u8()?;
    let ev = EntropyValue(reader.u16()?);
    let len = usize::from(reader.u8()?);
    let malformed = reader.malformed();
    let (hdr, ext, used) = Header::parse(ev, reader.take(len)?).map_err(|_| malformed)?;
    if used != len || flags & !(CE | TRIMMED) != 0 {
        return Err(malformed);
    }
    let (ce, trimmed) = (flags & CE != 0, flags & TRIMMED != 0);
    Ok((RxSegment { hdr, at, from, payload_len, ce, trimmed }, ext))
}

/// A running digest of inputs and answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) const fn new() -> Self {
        Self(0x4852_5245_434f_5244)
    }

    pub(super) const fn value(self) -> u64 {
        self.0
    }

    /// The low half of the digest.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub(super) const fn short(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn word(&mut self, word: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
    }

    pub(super) fn octets(&mut self, octets: &[u8]) {
        let (words, rest) = octets.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let last = rest.iter().fold(1, |word, octet| word << 8 | u64::from(*octet));
        self.word(last);
    }

    pub(super) fn placements(&mut self, places: &[Placement]) {
        for place in places {
            match *place {
                Placement::Release => self.word(0),
                Placement::Place { msg, offset, msg_len } => {
                    self.word(1 << 32 | u64::from(msg.0));
                    self.word(u64::from(offset) << 32 | u64::from(msg_len));
                }
                Placement::Parity { msg, offset, msg_len, index } => {
                    self.word((2 + u64::from(index)) << 32 | u64::from(msg.0));
                    self.word(u64::from(offset) << 32 | u64::from(msg_len));
                }
            }
        }
    }

    /// Adds nothing for flows without a code.
    pub(super) fn restores<'a>(&mut self, restores: impl Iterator<Item = &'a Restore>) {
        for restore in restores {
            let Restore { msg, offset, msg_len, full, data, parity, have } = *restore;
            let shape = u32::from_le_bytes([full, data, parity, 0]);
            self.word(u64::from(shape) << 32 | u64::from(msg.0));
            self.word(u64::from(offset) << 32 | u64::from(msg_len));
            self.word(have);
        }
    }

    /// What an endpoint has put into a burst, from item `first` on.
    pub(super) fn sent(&mut self, burst: &Burst<TxSegment>, first: usize) {
        let mut header = [0; HEADER_MAX];
        for (index, segment) in burst.iter().enumerate().skip(first) {
            let len = segment.hdr.emit(burst.ext(index), &mut header);
            self.octets(&header[..len]);
            self.word(u64::from(segment.hdr.ev.0) << 32 | u64::from(segment.peer.0));
            self.word(u64::from(segment.payload.msg.0) << 32 | u64::from(segment.payload.offset));
            self.word(u64::from(segment.payload.len));
            if let Some(departure) = burst.own_departure(index) {
                self.word(departure.as_ps());
            }
        }
        self.word(u64::MAX);
    }

    pub(super) fn event(&mut self, event: &Event) {
        match *event {
            Event::Sent { msg } => self.word(1 << 32 | u64::from(msg.0)),
            Event::Failed { msg, reason } => {
                self.word(2 << 32 | u64::from(msg.0));
                self.word(reason as u64);
            }
            Event::Delivered { msg, from, len, tag } => {
                self.word(3 << 32 | u64::from(msg.0));
                self.word(u64::from(from.0) << 32 | u64::from(len));
                self.word(tag);
            }
            Event::Aborted { msg, from } => {
                self.word(4 << 32 | u64::from(msg.0));
                self.word(u64::from(from.0));
            }
        }
    }
}
