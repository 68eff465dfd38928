//! The Headrace header. The plain value is here. Its octets are in one file for each layout
//! ([`data`], [`ack`], [`report`], [`block`], [`credit`], [`note`]), for each extension ([`ext`])
//! and for the seal ([`seal`]). The frame around it is in [`frame`]. Nothing outside `wire` depends
//! on byte order. docs/WIRE.md has the offsets.
//!
//! DATA travels from sender to receiver, ACK and NACK back. A PSN names one segment of a flow for
//! good: a retransmission carries the PSN of the original. So a receiver recognises every duplicate
//! by PSN alone, and the echoed send time keeps round-trip samples unambiguous. Where receivers
//! give out credit, CREDIT travels back and REQUEST asks for it. Where messages are erasure-coded,
//! PARITY travels with DATA, in the same numbers, and BLOCK_NACK asks for packets that a block
//! lacks.

pub mod ack;
pub mod addressing;
pub mod advice;
pub mod block;
pub mod checksum;
pub mod class;
mod coded;
pub mod credit;
pub mod data;
pub mod dcpim;
pub mod ext;
pub mod frame;
pub mod half;
pub mod int;
pub mod note;
pub mod note_frames;
mod outer;
pub mod pod;
pub mod presence;
pub mod report;
pub mod seal;
pub mod sim;
pub mod sizes;
pub mod template;
#[cfg(test)]
mod tests;

use core::fmt;
use core::num::NonZeroU32;

pub use coded::Coded;
pub use note::NoteView;
pub use sizes::{AccountedSizes, WireSizes};

use crate::units::{Credit, EntropyValue, FlowId, Key, MsgNo, Psn};
use class::TrafficClass;
pub use ext::{Ext, ExtRefusal, Extensions, Extent};

/// Version of the wire format, in the high four bits of the first octet.
pub const VERSION: u8 = 2;

/// Octets of the key in the header of every packet that belongs to a flow, and in a NOTE for a host
/// where its scheduler has one.
pub const KEY_LEN: u16 = 8;

/// A flow as a header names it.
type Name = (FlowId, Key);

/// A Headrace header without addresses; those are in the frame around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The entropy value that this packet travels with: its UDP source port. ACK and NACK travel
    /// with that of the segment that they answer, so that the balancer gets feedback about its
    /// choice.
    pub ev: EntropyValue,
    /// The flow at the host that receives this packet; [`FlowId::UNKNOWN`] while opening.
    pub dst_flow: FlowId,
    /// Which extensions follow that are not in the body; their content is an [`Ext`].
    pub ext: Extent,
    /// The flow's secret: a packet without it changes nothing. In a NOTE for a host this is a
    /// secret of the host's scheduler, or [`Key::NONE`].
    pub key: Key,
    /// The content of the packet, by kind.
    pub body: Body,
}

/// The kinds of packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A segment of a message, or a parity packet of a block of segments.
    Data(Data),
    /// A segment arrived.
    Ack(Ack),
    /// A segment arrived without its payload: it was trimmed.
    Nack(Ack),
    /// A report of which of 256 segments have arrived, where an acknowledgement alone says too
    /// little.
    Report(Report),
    /// A block of segments lacks more than its parity makes up for.
    BlockNack(BlockNack),
    /// A receiver lets a flow send.
    Credit(Allowance),
    /// A flow that may not send asks its receiver to let it.
    Request(Allowance),
    /// A note between schedulers, or from a network to a flow's controller.
    Note(Note),
    /// Whether a flow exists.
    Presence(Presence),
}

/// The header of a segment of a message, or of a parity packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Names the segment within its flow.
    pub psn: Psn,
    /// The message of the flow, numbered in the order of posting.
    pub msg: MsgNo,
    /// Offset of the payload in the message, bytes; for parity the offset of its block.
    pub offset: u32,
    /// The sender's clock when the segment left, [`crate::Instant::to_wire`] units.
    pub sent_at: u32,
    /// True when this PSN has been sent before.
    pub retransmission: bool,
    /// Present until the receiver has acknowledged a segment of the flow and of the message.
    pub open: Option<Open>,
    /// The application's tag, on packets of offset 0 only; 0 is no tag and takes no room.
    pub tag: u64,
    /// The place up to which the flow would send, given credit; `None` where senders need none.
    pub demand: Option<Credit>,
    /// The segment's place in a block of the erasure code; `None` where the message has no blocks.
    pub code: Option<Coded>,
}

impl Data {
    /// The first segment of a flow's first message, with no field that may be left out.
    pub const VACANT: Self = Self {
        psn: Psn(0),
        msg: MsgNo(0),
        offset: 0,
        sent_at: 0,
        retransmission: false,
        open: None,
        tag: 0,
        demand: None,
        code: None,
    };

    /// The number of the parity packet in its block, from 0; `None` for a segment.
    #[must_use]
    pub fn parity_index(&self) -> Option<u8> {
        self.code.and_then(Coded::parity_index)
    }
}

/// The fields that a receiver needs to accept the first segment of a flow or message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// The flow at the sender, where acknowledgements go.
    pub src_flow: FlowId,
    /// Length of the message, bytes.
    pub msg_len: NonZeroU32,
}

/// The header of an acknowledgement (or refusal) of one segment, with news of its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The flow at the receiver of data, so that the sender may address it directly.
    pub src_flow: FlowId,
    /// The segment that caused this packet.
    pub psn: Psn,
    /// Every PSN before this one has arrived.
    pub cumulative: Psn,
    /// Bit i: PSN `(psn & !63) + i` has arrived.
    pub sack: u64,
    /// The `sent_at` of the segment that caused this packet.
    pub echo_sent_at: u32,
    /// How long the receiver held the acknowledgement, wire time units.
    pub held: u32,
    /// Flows that the receiver is receiving messages on now, this one included; saturates.
    pub sharers: u16,
    /// The segment arrived with CE (congestion experienced).
    pub ce: bool,
    /// The effect of its arrival.
    pub receipt: Receipt,
}

/// The effect of a segment's arrival at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receipt {
    /// The segment arrived for the first time.
    First,
    /// The segment had arrived before: a needless retransmission or a duplicate of the network.
    Again,
    /// The segment's block is decoded, so that nothing more of it is needed; the segment may have
    /// arrived before.
    Decoded,
}

/// The header of a report on 256 segments. It travels in front of an ACK, which names the segment
/// that caused both, and has the times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The first PSN reported on, a multiple of 64; every PSN before it has arrived.
    pub first: Psn,
    /// Bit i of word w: PSN `first + 32 w + i` has arrived.
    pub arrived: [u32; 8],
}

/// The header of a request for packets that a block lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockNack {
    /// The flow at the receiver of data.
    pub src_flow: FlowId,
    /// The first packet of the block.
    pub psn: Psn,
    /// Bit i: packet `psn + i` of the block has not arrived. Not 0.
    pub missing: u64,
}

/// The header of CREDIT and of REQUEST: the place up to which a flow may send, or would.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// The flow at the host that sends this packet.
    pub src_flow: FlowId,
    /// CREDIT: the flow may send up to this place. REQUEST: it would send up to it, given credit.
    pub upto: Credit,
}

/// Whether a flow exists: one end of the flow sends this to the other in a packet of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// The receiver has no flow of the name and key that a packet gave, and never had one.
    Unknown {
        /// The flow that the packet named.
        named: FlowId,
    },
    /// The receiver has no such flow any more: it had one since it started, and forgot it.
    Forgotten {
        /// The flow that the packet named.
        named: FlowId,
    },
    /// The sender has nothing to send, and may have something later.
    Keep,
    /// The receiver asks a flow's sender to show that it receives packets at the address which its
    /// packets name.
    Prove {
        /// What the sender is to send back: a function of the receiver's secret, the flow and time.
        cookie: u64,
    },
    /// The answer to [`Presence::Prove`] from the sender of the flow that the header names.
    Proof {
        /// The cookie of the question.
        cookie: u64,
    },
    /// The receiver has no room for the flow, or for more of its host, now.
    Refused,
}

/// The header of a packet whose content one scheduler or controller defines: for a host where
/// `dst_flow` is [`FlowId::UNKNOWN`] or [`note::KEYED`], else for that flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// How switches queue the packet: control, probe or answer to a probe.
    pub class: TrafficClass,
    /// The protocol and its kind of packet, as its scheduler numbers them.
    pub protocol: u8,
    /// Octets used, even, 0..=[`note::OCTETS_MAX`].
    pub len: u8,
    /// The content; 0 from `len` on.
    pub octets: [u8; note::OCTETS_MAX],
}

impl Note {
    /// A note of class Control with `octets`, padded by a zero to an even number; `None` when they
    /// are too many.
    #[must_use]
    pub fn new(protocol: u8, octets: &[u8]) -> Option<Self> {
        let mut all = [0; note::OCTETS_MAX];
        all.get_mut(..octets.len())?.copy_from_slice(octets);
        let len = u8::try_from(octets.len().next_multiple_of(2)).ok()?;
        Some(Self { class: TrafficClass::Control, protocol, len, octets: all })
    }

    /// The content.
    #[must_use]
    pub fn said(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

// 48 octets and the 8 of the flow's key. `ext` lies in two octets that alignment leaves beside the
// other fields, so a header without extensions is as long as if there were none.
const _: () = assert!(size_of::<Header>() <= 56);
const _: () = assert!(size_of::<Header>() == size_of::<(Body, Key, FlowId, EntropyValue)>());

/// Why bytes are not a Headrace packet. Each is counted by name, never a panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ParseError {
    /// The packet is shorter than its kind needs.
    Truncated,
    /// The frame is not UDP in IPv4 or IPv6.
    NotHeadrace,
    /// UDP to another port, of another protocol or of a peer with another setting.
    Port,
    /// Another version of the wire format.
    Version,
    /// A seal ends the frame, which is for a host that shares its sender's key.
    Sealed,
    /// A kind that this version does not have.
    Kind,
    /// A flag that this version does not have, or a field outside its range.
    Field,
    /// The IPv4 or UDP checksum does not match.
    Checksum,
    /// The source or destination IP address is no host's.
    Address,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "packet shorter than its header",
            Self::NotHeadrace => "not UDP",
            Self::Port => "UDP to another port",
            Self::Version => "unknown wire version",
            Self::Sealed => "sealed, and this host has no key",
            Self::Kind => "unknown packet kind",
            Self::Field => "header field outside its range",
            Self::Checksum => "checksum mismatch",
            Self::Address => "IP address of no known host",
        })
    }
}

impl core::error::Error for ParseError {}

impl Header {
    /// A header that no extension follows, without a key.
    #[inline]
    #[must_use]
    pub const fn new(ev: EntropyValue, dst_flow: FlowId, body: Body) -> Self {
        Self { ev, dst_flow, ext: Extent::NONE, key: Key::NONE, body }
    }

    /// This header with the key of its flow.
    #[inline]
    #[must_use]
    pub const fn keyed(self, key: Key) -> Self {
        Self { key, ..self }
    }

    /// This header with extensions behind it.
    #[inline]
    #[must_use]
    pub const fn extended(self, ext: Extent) -> Self {
        Self { ext, ..self }
    }

    /// A place to be filled.
    pub const VACANT: Self = Self {
        ev: EntropyValue(0),
        dst_flow: FlowId::UNKNOWN,
        ext: Extent::NONE,
        key: Key::NONE,
        body: Body::Credit(Allowance { src_flow: FlowId::UNKNOWN, upto: Credit::START }),
    };

    /// Whether the packet is an acknowledgement or a refusal.
    #[inline]
    #[must_use]
    pub const fn is_feedback(&self) -> bool {
        matches!(self.body, Body::Ack(_) | Body::Nack(_) | Body::Report(_) | Body::BlockNack(_))
    }

    /// Bytes of this header on the wire, without the frame around it. These are 30..=54 for DATA
    /// and PARITY, 44 for ACK and NACK, 50 for REPORT, 30 for BLOCK_NACK, 22 for CREDIT, REQUEST
    /// and PRESENCE, and 10..=50 for NOTE. The octets of its extent are added.
    #[inline]
    #[must_use]
    pub fn emit_len(&self) -> u16 {
        self.body_len() + self.ext.len()
    }

    /// Bytes in front of the extensions that are not in the body.
    #[inline]
    fn body_len(&self) -> u16 {
        match &self.body {
            Body::Data(data) => data.emit_len(),
            Body::Ack(_) | Body::Nack(_) => ack::LEN,
            Body::Report(_) => report::LEN,
            Body::BlockNack(_) => block::LEN,
            Body::Credit(_) | Body::Request(_) => credit::LEN,
            Body::Presence(_) => presence::LEN,
            Body::Note(note) => note::LEN + note::key_len(self.dst_flow) + u16::from(note.len),
        }
    }

    /// Writes the header with its extensions to the front of `out` and returns their length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Header::emit_len`]: the driver's buffer is too small, a bug.
    #[inline]
    pub fn emit(&self, ext: &Ext, out: &mut [u8]) -> usize {
        let name = (self.dst_flow, self.key);
        let len = usize::from(self.body_len());
        match &self.body {
            Body::Data(data) => data::emit(data, name, &mut out[..len]),
            Body::Ack(ack) => ack::emit(ack, KIND_ACK, name, &mut out[..len]),
            Body::Nack(ack) => ack::emit(ack, KIND_NACK, name, &mut out[..len]),
            Body::Report(report) => report::emit(report, name, &mut out[..len]),
            Body::BlockNack(nack) => block::emit(nack, name, &mut out[..len]),
            Body::Credit(upto) => credit::emit(upto, KIND_CREDIT, name, &mut out[..len]),
            Body::Request(upto) => credit::emit(upto, KIND_REQUEST, name, &mut out[..len]),
            Body::Note(note) => note::emit(note, name, &mut out[..len]),
            Body::Presence(presence) => presence::emit(presence, name, &mut out[..len]),
        }
        if self.ext.is_some() {
            return self.emit_ext(ext, len, out);
        }
        len
    }

    /// The part of [`Header::emit`] behind the body.
    #[inline(never)]
    fn emit_ext(&self, ext: &Ext, at: usize, out: &mut [u8]) -> usize {
        let len = at + usize::from(self.ext.len());
        out[1] |= self.ext.flags(&self.body);
        self.ext.emit(ext, &mut out[at..len]);
        len
    }

    /// Reads a header from the front of `bytes`; `ev` is the UDP source port it came with. Returns
    /// the header, its extensions and the length of all; what follows is payload.
    ///
    /// # Errors
    /// [`ParseError`] for anything that [`Header::emit`] could not have written.
    pub fn parse(ev: EntropyValue, bytes: &[u8]) -> Result<(Self, Ext, usize), ParseError> {
        let (mut header, mut ext) = (Self::VACANT, Ext::VACANT);
        let len = header.read(ev, bytes, &mut ext)?;
        Ok((header, ext, len.into()))
    }

    /// [`Header::parse`] into the places where header and extensions stay, because a processor
    /// stalls when memory that was just written in words is moved in vectors. After an error they
    /// mean nothing; only extensions that the header names are written to `ext`.
    ///
    /// # Errors
    /// As [`Header::parse`].
    #[inline]
    pub fn read(
        &mut self,
        ev: EntropyValue,
        bytes: &[u8],
        ext: &mut Ext,
    ) -> Result<u16, ParseError> {
        // An endpoint receives one ACK for each segment that it sends; a branch among the other
        // kinds would cost a nanosecond more.
        if bytes.first() == Some(&first_octet(KIND_ACK)) {
            let ((dst_flow, key), ack) = ack::parse(bytes)?;
            *self = Self::new(ev, dst_flow, Body::Ack(ack)).keyed(key);
            if ack::has_ext(bytes) {
                return self.read_ext(ack::LEN, bytes, ext);
            }
            return Ok(ack::LEN);
        }
        self.read_other(ev, bytes, ext)
    }

    /// [`Header::read`] of any kind but ACK.
    fn read_other(
        &mut self,
        ev: EntropyValue,
        bytes: &[u8],
        ext: &mut Ext,
    ) -> Result<u16, ParseError> {
        let first = *bytes.first().ok_or(ParseError::Truncated)?;
        if first >> 4 != VERSION {
            let is_sealed = first & !seal::SEALED == first_octet(first & 0xF);
            return Err(if is_sealed { ParseError::Sealed } else { ParseError::Version });
        }
        match first & 0xF {
            KIND_DATA | KIND_PARITY => {
                let ((dst_flow, key), data) = data::parse(bytes)?;
                let len = data.emit_len();
                *self = Self::new(ev, dst_flow, Body::Data(data)).keyed(key);
                if data::has_ext(bytes) {
                    return self.read_ext(len, bytes, ext);
                }
                return Ok(len);
            }
            KIND_NACK => {
                let ((dst_flow, key), ack) = ack::parse(bytes)?;
                *self = Self::new(ev, dst_flow, Body::Nack(ack)).keyed(key);
                if ack::has_ext(bytes) {
                    return self.read_ext(ack::LEN, bytes, ext);
                }
            }
            KIND_BLOCK_NACK => {
                let ((dst_flow, key), nack) = block::parse(bytes)?;
                *self = Self::new(ev, dst_flow, Body::BlockNack(nack)).keyed(key);
            }
            KIND_CREDIT => {
                let ((dst_flow, key), upto) = credit::parse(bytes)?;
                *self = Self::new(ev, dst_flow, Body::Credit(upto)).keyed(key);
            }
            KIND_REQUEST => {
                let ((dst_flow, key), upto) = credit::parse(bytes)?;
                *self = Self::new(ev, dst_flow, Body::Request(upto)).keyed(key);
            }
            KIND_REPORT => {
                let ((dst_flow, key), report) = report::parse(bytes)?;
                *self = Self::new(ev, dst_flow, Body::Report(report)).keyed(key);
            }
            KIND_PRESENCE => {
                let ((dst_flow, key), presence) = presence::parse(bytes)?;
                *self = Self::new(ev, dst_flow, Body::Presence(presence)).keyed(key);
            }
            KIND_NOTE => {
                let ((dst_flow, key), note) = note::parse(bytes)?;
                *self = Self::new(ev, dst_flow, Body::Note(note)).keyed(key);
                if note::has_ext(bytes) {
                    return self.read_ext(self.body_len(), bytes, ext);
                }
            }
            _ => return Err(ParseError::Kind),
        }
        Ok(self.body_len())
    }

    /// Reads the extensions of a packet, whose body was read and ends at `at`.
    #[inline(never)]
    fn read_ext(&mut self, at: u16, bytes: &[u8], ext: &mut Ext) -> Result<u16, ParseError> {
        let (Some(flags), Some(rest)) = (bytes.get(1), bytes.get(usize::from(at)..)) else {
            return Err(ParseError::Truncated);
        };
        self.ext = Extent::read(*flags, &self.body, rest, ext)?;
        Ok(at + self.ext.len())
    }
}

const KIND_DATA: u8 = 0;
const KIND_ACK: u8 = 1;
const KIND_NACK: u8 = 2;
const KIND_CREDIT: u8 = 3;
const KIND_REQUEST: u8 = 4;
const KIND_PARITY: u8 = 5;
const KIND_BLOCK_NACK: u8 = 6;
const KIND_NOTE: u8 = 7;
const KIND_REPORT: u8 = 8;
const KIND_PRESENCE: u8 = 9;

/// First octet of a packet of `kind`.
const fn first_octet(kind: u8) -> u8 {
    VERSION << 4 | kind
}
