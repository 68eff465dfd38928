//! The seal of a frame on the wire: 32 octets behind the payload that authenticate the frame. Where
//! the sender encrypts, this file also has the shape of the encrypted payload.
//!
//! Layout alone, as pure functions over slices: which octets are authenticated, which may be
//! encrypted, and how lengths change. Keys, ciphers and windows are the driver's. A frame without
//! its seal is a plain frame, octet for octet. Source of the shape: the PSP security protocol.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::addressing::IpVersion;
use super::checksum::updated;
use super::class::TrafficClass;
use super::frame::{ETHERNET_LEN, UDP_LEN, header_overhead, payload_start};
use super::outer::{self, Head4, Head6};
use super::{KIND_DATA, KIND_NOTE, KIND_PARITY, ParseError, data, note};

/// Octets that a seal adds to a frame.
pub const LEN: u16 = 32;
/// Octets of the tag, which comes first.
pub const TAG_LEN: usize = 16;
/// The bit of the first octet of a Headrace header that marks a frame with a seal at its end.
pub const SEALED: u8 = 0x80;
/// Numbers are below this.
pub const NUMBERS: u64 = 1 << 48;
/// Most octets that [`FrameParts::authenticated`] names: addresses and UDP header of IPv6, and the
/// longest Headrace header.
pub const AUTHENTICATED_MAX: usize = super::frame::HEADERS_MAX as usize;

const ENCRYPTED: u8 = 1;
/// Octets of the INT extension that its sender sets and no switch changes: the room.
const ROOM_LEN: usize = 1;

/// The part of a seal behind its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    /// The payload is encrypted; else it is authenticated alone.
    pub encrypted: bool,
    /// Which of the keys that hosts share.
    pub key: u8,
    /// Counts the frames that are sealed with one derived key, below [`NUMBERS`].
    pub number: u64,
    /// When the derived key was first used, by the sender's clock; ns since 1970.
    pub start: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Octets {
    mode: u8,
    key: u8,
    number_high: [u8; 2],
    number: U32,
    start: U64,
}

const _: () = assert!(TAG_LEN + size_of::<Octets>() == LEN as usize);

/// Where the parts of a frame lie; octets from the destination MAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameParts {
    version: IpVersion,
    header_at: usize,
    /// The payload, or the end of the packet where there is none.
    pub payload_at: usize,
    /// The end of the packet, in front of a seal.
    pub end: usize,
    /// A seal follows.
    pub sealed: bool,
    /// A switch has cut off payload and seal, or a forged frame claims so.
    pub trimmed: bool,
    /// The key of its flow in the header; 0 for a note for a host.
    pub flow_key: u64,
}

impl FrameParts {
    /// The parts of `frame`, with or without seal; a plain one may have room for a seal behind it.
    ///
    /// # Errors
    /// [`ParseError`] when it is no frame of this protocol, or is cut short.
    #[inline]
    pub fn of(frame: &[u8]) -> Result<Self, ParseError> {
        let version = outer::version(frame)?;
        let (udp_len, tos) = match version {
            IpVersion::V4 => lengths(outer::open::<Head4>(frame)?)?,
            IpVersion::V6 => lengths(outer::open::<Head6>(frame)?)?,
        };
        let header_at = usize::from(header_overhead(version));
        let header = frame.get(header_at..).ok_or(ParseError::Truncated)?;
        let first = *header.first().ok_or(ParseError::Truncated)?;
        let sealed = first & SEALED != 0;
        if (first & !SEALED) >> 4 != super::VERSION {
            return Err(ParseError::Version);
        }
        let trimmed = TrafficClass::of_dscp(tos >> 2) == TrafficClass::Trimmed;
        let seal = if sealed { usize::from(LEN) } else { 0 };
        let end = header_at - usize::from(UDP_LEN) + usize::from(udp_len);
        let end = end.checked_sub(seal).ok_or(ParseError::Truncated)?;
        let payload_at = match first & 0xF {
            KIND_DATA | KIND_PARITY => payload_start(frame).ok_or(ParseError::Truncated)?,
            _ => end,
        };
        let is_short = frame.len() < end + seal && !trimmed;
        if payload_at > end || payload_at < header_at || is_short {
            return Err(ParseError::Truncated);
        }
        // The octets of a seal are no part of a header that is too short.
        let header = header.get(..header.len().min(end - header_at)).unwrap_or_default();
        let flow_key = flow_key(first & 0xF, header)?;
        Ok(Self { version, header_at, payload_at, end, sealed, trimmed, flow_key })
    }

    /// The octets that are authenticated and never encrypted: addresses, UDP header and Headrace
    /// header.
    #[inline]
    #[must_use]
    pub const fn authenticated(&self) -> core::ops::Range<usize> {
        let addresses = 2 * self.version.address_len();
        self.header_at - UDP_LEN as usize - addresses..self.payload_at
    }

    /// Source and destination address of `frame`.
    #[inline]
    #[must_use]
    pub fn addresses<'a>(&self, frame: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let len = self.version.address_len();
        let both = frame.get(self.authenticated()).and_then(|octets| octets.get(..2 * len));
        both.unwrap_or_default().split_at_checked(len).unwrap_or_default()
    }

    /// The telemetry that switches write, as offsets into [`FrameParts::authenticated`]; `None`
    /// where a frame has no room for it.
    #[inline]
    #[must_use]
    pub fn telemetry(&self, frame: &[u8]) -> Option<core::ops::Range<usize>> {
        let header = frame.get(self.header_at..self.payload_at)?;
        let at = usize::from(data::layout_of(header)?.1?);
        let skipped = self.header_at - self.authenticated().start;
        // All but the room, which the sender sets.
        Some(skipped + at + ROOM_LEN..self.payload_at - self.authenticated().start)
    }

    /// Makes this plain frame one that announces a seal and has no UDP checksum, since the tag
    /// covers more. The caller writes the seal.
    ///
    /// # Panics
    /// When `frame` is shorter than with its seal: a bug of the driver.
    #[inline]
    pub fn mark(&self, frame: &mut [u8]) {
        assert!(frame.len() >= self.end + usize::from(LEN), "no room for a seal");
        frame[self.header_at] |= SEALED;
        let grown = self.grow(frame, true);
        debug_assert!(grown.is_some(), "a frame that was made by the driver");
    }

    /// Makes a plain frame out of this sealed one; the octets of the seal are behind it then.
    #[inline]
    pub fn unmark(&self, frame: &mut [u8]) {
        if let Some(first) = frame.get_mut(self.header_at) {
            *first &= !SEALED;
        }
        // The frame has these fields, because it has been read.
        let _ = self.grow(frame, false);
    }

    /// Clears the UDP checksum, which a sealed frame does not have, as its sender did before the
    /// tag was computed.
    #[inline]
    pub fn clear_checksum(&self, frame: &mut [u8]) {
        if let Some(sum) = frame.get_mut(self.header_at - 2..self.header_at) {
            sum.fill(0);
        }
    }

    /// Adds a seal's length to those of UDP and IP, or takes it away, and clears the UDP checksum.
    /// The IP length of a trimmed frame is that of what is left, and stays.
    #[inline]
    fn grow(&self, frame: &mut [u8], by: bool) -> Option<()> {
        let changed = |old: u16| if by { old.wrapping_add(LEN) } else { old.wrapping_sub(LEN) };
        let udp_at = self.header_at - usize::from(UDP_LEN);
        let udp: &mut [u8; 8] = frame.get_mut(udp_at..)?.first_chunk_mut()?;
        let len = changed(u16::from_be_bytes([udp[4], udp[5]])).to_be_bytes();
        udp[4..].copy_from_slice(&[len[0], len[1], 0, 0]);
        if self.trimmed {
            return Some(());
        }
        let ip = frame.get_mut(usize::from(ETHERNET_LEN)..)?;
        match self.version {
            IpVersion::V4 => {
                let ip: &mut [u8; 20] = ip.first_chunk_mut()?;
                let old = u16::from_be_bytes([ip[2], ip[3]]);
                let sum = u16::from_be_bytes([ip[10], ip[11]]);
                ip[2..4].copy_from_slice(&changed(old).to_be_bytes());
                ip[10..12].copy_from_slice(&updated(sum, old, changed(old)).to_be_bytes());
            }
            IpVersion::V6 => {
                let ip: &mut [u8; 40] = ip.first_chunk_mut()?;
                let old = u16::from_be_bytes([ip[4], ip[5]]);
                ip[4..6].copy_from_slice(&changed(old).to_be_bytes());
            }
        }
        Some(())
    }
}

impl Seal {
    /// Writes all but the tag behind it, into the octets of a seal.
    #[inline]
    pub fn emit(&self, seal: &mut [u8; LEN as usize]) {
        let [_, _, high @ .., n3, n2, n1, n0] = self.number.to_be_bytes();
        let octets = Octets {
            mode: if self.encrypted { ENCRYPTED } else { 0 },
            key: self.key,
            number_high: high,
            number: U32::from_bytes([n3, n2, n1, n0]),
            start: self.start.into(),
        };
        seal[TAG_LEN..].copy_from_slice(octets.as_bytes());
    }

    /// Reads all but the tag out of the octets of a seal.
    ///
    /// # Errors
    /// [`ParseError::Field`] for an unknown mode.
    #[inline]
    pub fn read(seal: &[u8; LEN as usize]) -> Result<Self, ParseError> {
        let octets = Octets::ref_from_bytes(&seal[TAG_LEN..]).map_err(|_| ParseError::Truncated)?;
        if octets.mode & !ENCRYPTED != 0 {
            return Err(ParseError::Field);
        }
        let high = u64::from(u16::from_be_bytes(octets.number_high));
        Ok(Self {
            encrypted: octets.mode & ENCRYPTED != 0,
            key: octets.key,
            number: high << 32 | u64::from(octets.number.get()),
            start: octets.start.get(),
        })
    }
}

/// The UDP length of a frame and the octet of DSCP and ECN. The fields in front of UDP that no tag
/// covers must agree with it, or the frame would be refused only after it had been opened.
#[inline]
fn lengths<H: outer::Outer>(outer: &H) -> Result<(u16, u8), ParseError> {
    let (len, tos) = (outer.udp().len.get(), outer.tos());
    let trimmed = TrafficClass::of_dscp(tos >> 2) == TrafficClass::Trimmed;
    let agrees = outer.repeats_path() && (trimmed || outer.ip_payload_len()? == len);
    if agrees { Ok((len, tos)) } else { Err(ParseError::Field) }
}

/// The key of the flow of a header of `kind`.
#[inline]
fn flow_key(kind: u8, header: &[u8]) -> Result<u64, ParseError> {
    /// Where the key lies in every header but that of a note.
    const KEY_AT: usize = 6;
    const FLOW: core::ops::Range<usize> = 2..6;
    let at = match kind {
        KIND_NOTE if header.get(FLOW) == Some(&[0; 4]) => return Ok(0),
        KIND_NOTE => usize::from(note::LEN),
        _ => KEY_AT,
    };
    let key = header.get(at..).and_then(<[u8]>::first_chunk).ok_or(ParseError::Truncated)?;
    Ok(u64::from_be_bytes(*key))
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::units::{EntropyValue, FlowId, HostId, Key, Psn};
    use crate::wire::addressing::Addressing;
    use crate::wire::frame::{self, Ecn, FrameSpec, UdpCheck};
    use crate::wire::int::{Hop, Int};
    use crate::wire::{Body, Data, Ext, Extent, Header, Note, Presence};
    use crate::{Bytes, Instant, Rate};

    const PAYLOAD: u16 = 100;

    fn data() -> Body {
        Body::Data(Data { psn: Psn(3), offset: 7, sent_at: 9, ..Data::VACANT })
    }

    /// A plain frame with room for a seal.
    fn plain(version: IpVersion, header: &Header, ext: &Ext, payload_len: u16) -> Vec<u8> {
        let addrs = Addressing::emulated(version).pair(HostId(1), HostId(2)).unwrap();
        let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Data };
        let mut octets = vec![0; 512];
        let at = frame::emit(&spec, header, ext, payload_len, &mut octets);
        octets[at..at + usize::from(payload_len)].fill(0xAB);
        octets.truncate(at + usize::from(payload_len + LEN));
        octets
    }

    fn bodies() -> [(Body, u16); 3] {
        let note = Note::new(9, &[1, 2]).unwrap();
        let presence = Presence::Keep;
        [(data(), PAYLOAD), (Body::Note(note), 0), (Body::Presence(presence), 0)]
    }

    #[test]
    fn a_frame_without_its_seal_is_the_frame_that_was_sealed() {
        for version in [IpVersion::V4, IpVersion::V6] {
            for (body, len) in bodies() {
                let header = Header::new(EntropyValue(5), FlowId::new(1, 1), body).keyed(Key(77));
                let before = plain(version, &header, &Ext::VACANT, len);
                let parts = FrameParts::of(&before).unwrap();
                assert_eq!((parts.flow_key, parts.sealed), (77, false));
                assert_eq!(parts.end - parts.payload_at, usize::from(len));
                let mut after = before.clone();
                parts.mark(&mut after);
                let sealed = FrameParts::of(&after).unwrap();
                assert_eq!(sealed, FrameParts { sealed: true, ..parts });
                // The IPv4 checksum is right, or a host would not find a Headrace header.
                let addressing = Addressing::emulated(version);
                let read = frame::parse(&after, &addressing, UdpCheck::Skip);
                assert_eq!(read.unwrap_err(), ParseError::Sealed);
                sealed.unmark(&mut after);
                assert_eq!(after, before);
            }
        }
    }

    #[test]
    fn what_switches_write_is_named_and_nothing_else() {
        let ext = Ext { int: Int::with_room(3), ..Ext::VACANT };
        let header = Header::new(EntropyValue(5), FlowId::new(1, 1), data()).keyed(Key(77));
        let header = header.extended(Extent::NONE.with_int(&ext.int));
        let before = plain(IpVersion::V6, &header, &ext, PAYLOAD);
        let parts = FrameParts::of(&before).unwrap();
        let mut sealed = before.clone();
        parts.mark(&mut sealed);
        let mut after = sealed.clone();
        let hop = Hop::new(Instant::ZERO, Bytes(640), Bytes(64), Rate::from_gbps(100), 1);
        let place = frame::IntPlace::of(&after).unwrap();
        assert!(frame::stamp(&mut after, place, &[hop]) && frame::set_ce(&mut after));
        let named = |octets: &[u8]| {
            let parts = FrameParts::of(octets).unwrap();
            let telemetry = parts.telemetry(octets).unwrap();
            let mut octets = octets[parts.authenticated()].to_vec();
            assert_eq!(telemetry.len(), 3 + 3 * 16);
            octets[telemetry].fill(0);
            octets
        };
        assert_ne!(after, sealed);
        assert_eq!(named(&after), named(&sealed));
        let header = Header { ext: Extent::NONE, ..header };
        let bare = plain(IpVersion::V4, &header, &Ext::VACANT, PAYLOAD);
        assert_eq!(FrameParts::of(&bare).unwrap().telemetry(&bare), None);
    }

    #[test]
    fn a_trimmed_frame_loses_its_seal_and_says_how_much_payload_it_had() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let header = Header::new(EntropyValue(5), FlowId::new(1, 1), data()).keyed(Key(77));
            let mut octets = plain(version, &header, &Ext::VACANT, PAYLOAD);
            FrameParts::of(&octets).unwrap().mark(&mut octets);
            let len = frame::trim(&mut octets);
            octets.truncate(len);
            let parts = FrameParts::of(&octets).unwrap();
            assert!(parts.sealed && parts.trimmed && parts.payload_at == len);
            parts.unmark(&mut octets);
            let addressing = Addressing::emulated(version);
            let parsed = frame::parse(&octets, &addressing, UdpCheck::Required).unwrap();
            assert!(parsed.trimmed && parsed.payload_len == PAYLOAD);
        }
    }

    #[test]
    fn no_octets_of_any_length_make_a_seal_panic() {
        let header = Header::new(EntropyValue(5), FlowId::new(1, 1), data()).keyed(Key(77));
        let mut whole = plain(IpVersion::V4, &header, &Ext::VACANT, PAYLOAD);
        FrameParts::of(&whole).unwrap().mark(&mut whole);
        for len in 0..whole.len() {
            assert!(FrameParts::of(&whole[..len]).is_err(), "{len} octets are no sealed frame");
        }
        // A UDP length that is shorter than headers and seal.
        let udp_len = usize::from(ETHERNET_LEN) + 20 + 4;
        for len in 0..200_u16 {
            let mut lying = whole.clone();
            lying[udp_len..udp_len + 2].copy_from_slice(&len.to_be_bytes());
            if let Ok(parts) = FrameParts::of(&lying) {
                assert!(
                    parts.payload_at <= parts.end && parts.end + usize::from(LEN) <= lying.len()
                );
            }
        }
    }

    #[test]
    fn a_seal_reads_as_it_was_written() {
        let numbers = [0, 1, 0x0102_0304_0506, NUMBERS - 1];
        for number in numbers {
            for encrypted in [false, true] {
                let seal = Seal { encrypted, key: 200, number, start: 0x1122_3344_5566_7788 };
                let mut octets = [0; LEN as usize];
                seal.emit(&mut octets);
                assert_eq!(Seal::read(&octets), Ok(seal));
            }
        }
        assert_eq!(Seal::read(&[0xFF; LEN as usize]), Err(ParseError::Field));
    }
}
