//! The NOTEs of DCsim: SIM, a probe, and SIM-ACK, its answer.
//!
//! Source: \[dcsim\] sec. 2.3 and 2.4. A SIM has everything that its sender needs in the answer, so
//! its receiver keeps no state: a SIM-ACK repeats the fields of its SIM. With 12 octets in a NOTE a
//! SIM is 64 octets in IPv4, as in the paper.
//!
//! A random nonce ties an answer to its probe. So a host that did not see the SIM cannot make a
//! SIM-ACK that its sender accepts, and a late SIM-ACK does not answer another probe of the same
//! port.

use super::class::TrafficClass;
use super::note::OCTETS_MAX;
use super::{Note, note};
use crate::units::FlowId;

/// The number of the protocol in its NOTEs.
pub const PROTOCOL: u8 = 0xD5;

/// Octets of a SIM or SIM-ACK inside its NOTE.
const OCTETS: usize = 12;

/// Length of a SIM or SIM-ACK header on the wire.
pub const LEN: u16 = note::LEN + 12;

const _: () = assert!(OCTETS + note::LEN as usize == LEN as usize && OCTETS <= OCTETS_MAX);

/// The content of a SIM, and of the SIM-ACK that answers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sim {
    /// The number of the probe at its sender; wraps.
    pub number: u32,
    /// A random number that the sender draws.
    pub nonce: u32,
    /// The flow at its sender that it is sent for.
    pub src_flow: FlowId,
}

impl Sim {
    /// The NOTE of a SIM.
    #[inline]
    #[must_use]
    pub fn probe(self) -> Note {
        self.note(TrafficClass::Probe)
    }

    /// The NOTE of the SIM-ACK that answers it.
    #[inline]
    #[must_use]
    pub fn answer(self) -> Note {
        self.note(TrafficClass::ProbeAck)
    }

    #[inline]
    fn note(self, class: TrafficClass) -> Note {
        let mut octets = [0; OCTETS_MAX];
        octets[..4].copy_from_slice(&self.number.to_be_bytes());
        octets[4..8].copy_from_slice(&self.nonce.to_be_bytes());
        octets[8..OCTETS].copy_from_slice(&self.src_flow.0.to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "12")]
        Note { class, protocol: PROTOCOL, len: OCTETS as u8, octets }
    }

    /// The content of a NOTE of this protocol; `None` for any other NOTE.
    #[inline]
    #[must_use]
    pub fn of(note: &Note) -> Option<Self> {
        if note.protocol != PROTOCOL || note.said().len() != OCTETS {
            return None;
        }
        let word = |at: usize| {
            let octets = &note.octets;
            u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
        };
        Some(Self { number: word(0), nonce: word(4), src_flow: FlowId(word(8)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::EntropyValue;
    use crate::wire::{Body, Header};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_note_says_what_its_sim_said_in_both_classes(number: u32, nonce: u32, flow: u32) {
            let sim = Sim { number, nonce, src_flow: FlowId(flow) };
            for (note, class) in
                [(sim.probe(), TrafficClass::Probe), (sim.answer(), TrafficClass::ProbeAck)]
            {
                prop_assert_eq!((Sim::of(&note), note.class), (Some(sim), class));
            }
        }
    }

    #[test]
    fn a_sim_is_as_long_as_its_ack_and_other_notes_are_neither() {
        let sim = Sim { number: 1, nonce: 2, src_flow: FlowId(3) };
        for note in [sim.probe(), sim.answer()] {
            let header = Header::new(EntropyValue(1), FlowId::UNKNOWN, Body::Note(note));
            assert_eq!(header.emit_len(), LEN);
        }
        let mut other = sim.probe();
        other.protocol += 1;
        assert_eq!(Sim::of(&other), None);
        assert_eq!(Sim::of(&Note::new(PROTOCOL, &[0; 10]).unwrap()), None);
    }
}
