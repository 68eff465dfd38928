//! Frames of notes that differ only in the notes' content.
//!
//! A host that sends a note in every epoch repeats addresses, lengths, key and kind in each of
//! them. A receiver that has read one such frame in full compares the octets of the next one with
//! it, and then only has to compute the checksum. A frame that
//! [`frame::parse`](super::frame::parse) would refuse is never accepted, since everything that
//! `parse` reads is either compared or summed. A sender copies these octets in the same way.
//! Source: V. Jacobson, "4BSD Header Prediction", ACM CCR 20(2), 1990.

use super::addressing::IpVersion;
use super::checksum::Checksum;
use super::frame::{UDP_LEN, header_overhead};
use super::outer::{self, Head4, Head6, Received as _};
use super::{Body, Header, KEY_LEN, Note, NoteView, TrafficClass, note};

/// Octets in front of the content of a note with a key, by version of IP.
const HEAD_V4: usize = (header_overhead(IpVersion::V4) + note::LEN + KEY_LEN) as usize;
const HEAD_V6: usize = (header_overhead(IpVersion::V6) + note::LEN + KEY_LEN) as usize;
/// Octets of a header of a note with its key.
const NOTE_HEAD: usize = (note::LEN + KEY_LEN) as usize;
/// Where the UDP checksum is, from the beginning of the UDP header on.
const SUM_AT: usize = 6;

/// Frames of one sender to one receiver whose notes differ only in their content.
#[derive(Clone, Debug)]
pub struct NoteFrames {
    /// The octets in front of the note's content; the first ones are in use.
    head: [u8; HEAD_V6],
    version: IpVersion,
    /// The common fields of the notes, without their content.
    class: TrafficClass,
    protocol: u8,
    len: u8,
    /// Sum of the pseudo-header, and of the datagram as far as it is in `head`, without checksum.
    sum: Checksum,
}

impl NoteFrames {
    /// Frames like `frame`, which [`frame::parse`](super::frame::parse) has read as one of `header`
    /// with a checksum, or which has been made of it; `None` where that is no note with a key, or
    /// has extensions.
    #[must_use]
    pub fn like(frame: &[u8], header: &Header) -> Option<Self> {
        let Body::Note(note) = header.body else { return None };
        if header.dst_flow != note::KEYED || header.ext.is_some() {
            return None;
        }
        let version = outer::version(frame).ok()?;
        let (pseudo, len) = match version {
            IpVersion::V4 => (outer::open::<Head4>(frame).ok()?.pseudo(), HEAD_V4),
            IpVersion::V6 => (outer::open::<Head6>(frame).ok()?.pseudo(), HEAD_V6),
        };
        let mut head = [0; HEAD_V6];
        head[..len].copy_from_slice(frame.get(..len)?);
        let udp_at = len - NOTE_HEAD - usize::from(UDP_LEN);
        head[udp_at + SUM_AT..udp_at + SUM_AT + 2].fill(0);
        let mut sum = pseudo;
        sum.add(&head[udp_at..len]);
        let Note { class, protocol, len, .. } = note;
        Some(Self { head, version, class, protocol, len, sum })
    }

    /// The note in `frame`, if that is one of these frames and intact. `None` does not mean that a
    /// frame is bad.
    #[inline]
    #[must_use]
    pub fn read<'a>(&self, frame: &'a [u8]) -> Option<NoteView<'a>> {
        match self.version {
            IpVersion::V4 => self.read_behind::<HEAD_V4>(frame),
            IpVersion::V6 => self.read_behind::<HEAD_V6>(frame),
        }
    }

    #[inline]
    fn read_behind<'a, const HEAD: usize>(&self, frame: &'a [u8]) -> Option<NoteView<'a>> {
        let (head, rest) = frame.split_first_chunk::<HEAD>()?;
        let said = rest.get(..usize::from(self.len))?;
        let known = self.head.first_chunk::<HEAD>()?;
        let sum_at = HEAD - NOTE_HEAD - usize::from(UDP_LEN) + SUM_AT;
        let written = u16::from_be_bytes([head[sum_at], head[sum_at + 1]]);
        if !is_alike(head, known, sum_at) {
            return None;
        }
        let mut sum = self.sum;
        sum.add_word(written);
        sum.add(said);
        if written == 0 || sum.finish() != 0 {
            return None;
        }
        Some(NoteView { class: self.class, protocol: self.protocol, said })
    }

    /// Writes the frame of `note` to the front of `out`; its length, or `None` where it is none of
    /// these frames, or `out` is too short.
    #[inline]
    #[must_use]
    pub fn write(&self, note: &Note, out: &mut [u8]) -> Option<usize> {
        let own = (self.class, self.protocol, self.len);
        if (note.class, note.protocol, note.len) != own {
            return None;
        }
        match self.version {
            IpVersion::V4 => self.write_behind::<HEAD_V4>(note, out),
            IpVersion::V6 => self.write_behind::<HEAD_V6>(note, out),
        }
    }

    #[inline]
    fn write_behind<const HEAD: usize>(&self, note: &Note, out: &mut [u8]) -> Option<usize> {
        let (head, rest) = out.split_first_chunk_mut::<HEAD>()?;
        *head = *self.head.first_chunk()?;
        let length = usize::from(note.len);
        let mut sum = self.sum;
        // As a rule there is room for the zeros behind it, too.
        if let Some(all) = rest.first_chunk_mut() {
            *all = note.octets;
            sum.add(&note.octets);
        } else {
            rest.get_mut(..length)?.copy_from_slice(note.said());
            sum.add(note.said());
        }
        // A sum of zero is sent as 0xFFFF (RFC 768): zero says that there is none.
        let sum = if sum.finish() == 0 { 0xFFFF } else { sum.finish() };
        let sum_at = HEAD - NOTE_HEAD - usize::from(UDP_LEN) + SUM_AT;
        [head[sum_at], head[sum_at + 1]] = sum.to_be_bytes();
        Some(HEAD + length)
    }
}

/// Whether two heads are equal except for the two octets of the checksum from `sum_at` on. All
/// octets are compared, eight at a time, which takes a few cycles where the length is known at
/// compile time. The last eight overlap those before them, so each octet of the checksum is left
/// out by itself.
#[inline(always)]
fn is_alike<const HEAD: usize>(one: &[u8; HEAD], other: &[u8; HEAD], sum_at: usize) -> bool {
    const { assert!(HEAD >= 8, "a head has at least eight octets") };
    let mut differ = 0;
    let mut from = 0;
    while from < HEAD {
        let at = from.min(HEAD - 8);
        let (Some(ones), Some(others)) = (one[at..].first_chunk(), other[at..].first_chunk())
        else {
            return false;
        };
        let is_sum = |place: usize| (at..at + 8).contains(&place);
        let octet = |place: usize| if is_sum(place) { 0xFF << ((place - at) * 8) } else { 0 };
        let but = octet(sum_at) | octet(sum_at + 1);
        differ |= (u64::from_le_bytes(*ones) ^ u64::from_le_bytes(*others)) & !but;
        from += 8;
    }
    differ == 0
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::super::addressing::Addressing;
    use super::super::class::TrafficClass;
    use super::super::frame::{self, FrameSpec, UdpCheck};
    use super::*;
    use crate::units::{EntropyValue, HostId, Key};
    use crate::wire::Ext;

    const RECEIVER: HostId = HostId(9);

    fn addressing(v6: bool) -> Addressing {
        Addressing::emulated(if v6 { IpVersion::V6 } else { IpVersion::V4 })
    }

    /// The frame of a note of `host` under `key` that says `said`.
    fn frame(v6: bool, (host, key): (u16, u64), (protocol, said): (u8, &[u8])) -> Vec<u8> {
        let note = Note::new(protocol, said).unwrap();
        let header = note.for_host(EntropyValue(host), Key(key));
        let addrs = addressing(v6).pair(HostId(host.into()), RECEIVER).unwrap();
        let class = TrafficClass::Control;
        let mut out = Vec::from([0; 256]);
        let spec = FrameSpec { addrs, ecn: class.ecn(), class };
        let len = frame::emit(&spec, &header, &Ext::VACANT, 0, &mut out);
        frame::finish_udp_checksum(&mut out[..len], Checksum::new());
        out.truncate(len);
        out
    }

    /// What reading `frame` in full gives.
    fn header_of(v6: bool, frame: &[u8]) -> Option<Header> {
        let read = frame::parse(frame, &addressing(v6), UdpCheck::Required).ok()?;
        (read.dst == RECEIVER).then_some(read.header)
    }

    fn alike(v6: bool, frame: &[u8]) -> Option<NoteFrames> {
        NoteFrames::like(frame, &header_of(v6, frame)?)
    }

    fn content() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..=note::OCTETS_MAX / 2)
            .prop_map(|half| [&half[..], &half].concat())
    }

    proptest! {
        #[test]
        fn a_note_is_read_by_comparison_as_in_full_and_no_damaged_one_is(
            v6 in any::<bool>(), host in 0_u16..8, key in 1_u64.., protocol in any::<u8>(),
            said in content(), first in any::<u8>(), padding in 0_usize..20,
            flip in any::<prop::sample::Index>(), bit in 0_u8..8,
        ) {
            let other: Vec<u8> = said.iter().map(|octet| octet.wrapping_add(first)).collect();
            let frames = alike(v6, &frame(v6, (host, key), (protocol, &said))).unwrap();
            let mut next = frame(v6, (host, key), (protocol, &other));
            let length = next.len();
            next.resize(length + padding, 0xEE);
            let note = frames.read(&next);
            let note = note.and_then(|note| Note::new(note.protocol, note.said));
            prop_assert_eq!(note, Note::new(protocol, &other));
            let full = header_of(v6, &next).map(|header| header.body);
            let mut written = [0; 256];
            let len = frames.write(&Note::new(protocol, &other).unwrap(), &mut written).unwrap();
            prop_assert_eq!(&written[..len], &next[..length]);
            written.fill(0);
            let exact = frames.write(&Note::new(protocol, &other).unwrap(), &mut written[..length]);
            prop_assert_eq!((exact, &written[..len]), (Some(length), &next[..length]));
            prop_assert_eq!(note.map(Body::Note), full);
            next[flip.index(length)] ^= 1_u8 << bit;
            prop_assert_eq!(frames.read(&next), None);
            prop_assert_eq!(frames.read(&next[..length - 1]), None);
        }

        #[test]
        fn frames_of_others_are_not_taken_for_alike(
            v6 in any::<bool>(), hosts in (0_u16..8, 0_u16..8), keys in (1_u64..4, 1_u64..4),
            said in content(),
        ) {
            let frames = alike(v6, &frame(v6, (hosts.0, keys.0), (1, &said))).unwrap();
            let other = frame(v6, (hosts.1, keys.1), (1, &said));
            let same = hosts.0 == hosts.1 && keys.0 == keys.1;
            prop_assert_eq!(frames.read(&other).is_some(), same);
            prop_assert!(frames.read(&frame(v6, (hosts.0, keys.0), (2, &said))).is_none());
            prop_assert!(frames.read(&frame(!v6, (hosts.0, keys.0), (1, &said))).is_none());
        }
    }

    /// The sum of the head is that of the known one, so that only the comparison finds most bits.
    #[test]
    fn a_frame_that_differs_in_any_bit_of_its_head_is_not_read() {
        for v6 in [false, true] {
            let mut next = frame(v6, (1, 7), (1, &[1, 2]));
            let frames = alike(v6, &next).unwrap();
            for at in 0..if v6 { HEAD_V6 } else { HEAD_V4 } {
                for bit in 0..8 {
                    next[at] ^= 1 << bit;
                    assert_eq!(frames.read(&next), None, "octet {at}, bit {bit}");
                    next[at] ^= 1 << bit;
                }
            }
            assert!(frames.read(&next).is_some());
        }
    }

    #[test]
    fn notes_without_a_key_or_a_checksum_are_not_read_by_comparison() {
        let mut said = frame(false, (1, 0), (1, &[1, 2]));
        assert!(alike(false, &said).is_none());
        said = frame(false, (1, 7), (1, &[1, 2]));
        let frames = alike(false, &said).unwrap();
        said[40..42].fill(0);
        assert_eq!(frames.read(&said), None);
    }
}
