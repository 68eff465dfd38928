//! The messages of dcPIM's hosts while they match: requests, grants, acceptances, and returns.
//!
//! Source: the public dcPIM simulator, see \[dcpim\]. All four are NOTEs of class Control for a
//! host. An answer repeats what names its request, so a request needs no record of its own.

use super::note::OCTETS_MAX;
use super::{Note, TrafficClass};
use crate::units::FlowId;

/// The number of the protocol in its NOTEs.
pub const PROTOCOL: u8 = 0xD1;

const OCTETS: usize = 32;
const _: () = assert!(OCTETS <= OCTETS_MAX);

/// The steps of a round of matching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchStep {
    /// A receiver asks a source that owes it segments for channels.
    Request = 0,
    /// The source gives the receiver some channels.
    Grant = 1,
    /// The receiver takes some of these.
    Accept = 2,
    /// The source takes back channels that it has given to others by now. Without channels: the
    /// request came too late, or the source has nothing to send in that flow.
    Return = 3,
}

/// A message of the matching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Which of the four messages this is.
    pub step: MatchStep,
    /// Channels asked for, given, taken or taken back.
    pub channels: u8,
    /// Channels of these that may be used before their epoch begins.
    pub early: u8,
    /// The round of its request, counted since time 0, modulo 2^32.
    pub round: u32,
    /// The half round in which the message left, by the clock of its host, counted since time 0,
    /// modulo 2^32.
    pub stage: u32,
    /// Segments that the shortest flow between the two hosts has left; 0 in a return where the
    /// source has nothing to send in that flow.
    pub left: u32,
    /// A flow at the source with segments for the receiver.
    pub flow: FlowId,
    /// The receiver's number for the source.
    pub place: u32,
    /// A random number of the receiver: a grant and a return repeat that of their request.
    pub asked: u32,
    /// A random number of the source, 0 in a request: an acceptance repeats that of its grant.
    pub granted: u32,
}

impl Offer {
    /// The NOTE of this message.
    #[must_use]
    pub fn note(&self) -> Note {
        let mut octets = [0; OCTETS_MAX];
        octets[..4].copy_from_slice(&[self.step as u8, self.channels, self.early, 0]);
        let ids = [self.flow.0, self.place, self.asked, self.granted];
        let words = [self.round, self.stage, self.left].into_iter().chain(ids);
        for (place, word) in octets[4..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        #[expect(clippy::cast_possible_truncation, reason = "32")]
        Note { class: TrafficClass::Control, protocol: PROTOCOL, len: OCTETS as u8, octets }
    }

    /// The message in a NOTE; `None` for any other NOTE, and where more channels are early than
    /// there are.
    #[must_use]
    pub fn of(note: &Note) -> Option<Self> {
        if note.protocol != PROTOCOL || note.class != TrafficClass::Control {
            return None;
        }
        let octets: &[u8; OCTETS] = note.said().try_into().ok()?;
        let [step, channels, early, reserved] = octets[..4].try_into().ok()?;
        let word = |at: usize| {
            u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
        };
        let steps = [MatchStep::Request, MatchStep::Grant, MatchStep::Accept, MatchStep::Return];
        let step = steps.into_iter().find(|known| *known as u8 == step)?;
        (reserved == 0 && early <= channels).then(|| Self {
            step,
            channels,
            early,
            round: word(4),
            stage: word(8),
            left: word(12),
            flow: FlowId(word(16)),
            place: word(20),
            asked: word(24),
            granted: word(28),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VACANT: Offer = Offer {
        step: MatchStep::Request,
        channels: 0,
        early: 0,
        round: 0,
        stage: 0,
        left: 0,
        flow: FlowId(0),
        place: 0,
        asked: 0,
        granted: 0,
    };

    proptest! {
        #[test]
        fn a_note_says_what_its_message_said(
            step in prop::sample::select(
                &[MatchStep::Request, MatchStep::Grant, MatchStep::Accept, MatchStep::Return][..]
            ),
            (channels, early) in (0_u8..=255).prop_flat_map(|most| (Just(most), 0..=most)),
            (round, stage, left, flow) in any::<(u32, u32, u32, u32)>(),
            (place, asked, granted) in any::<(u32, u32, u32)>(),
        ) {
            let flow = FlowId(flow);
            let known = Offer { step, channels, early, round, stage, left, flow, place, ..VACANT };
            let offer = Offer { asked, granted, ..known };
            prop_assert_eq!(Offer::of(&offer.note()), Some(offer));
        }

        #[test]
        fn any_octets_are_read_or_refused(
            protocol in prop::sample::select(&[PROTOCOL, PROTOCOL + 1][..]),
            octets in prop::collection::vec(any::<u8>(), 0..=OCTETS_MAX),
        ) {
            let note = Note::new(protocol, &octets).unwrap();
            if let Some(offer) = Offer::of(&note) {
                prop_assert!(protocol == PROTOCOL && offer.early <= offer.channels);
                prop_assert_eq!(offer.note(), note);
            }
        }
    }
}
