//! Receivers' halves of congestion controllers. One file a half, one line in the registry.
//!
//! A half gets every segment of a flow that arrives and puts its report into acknowledgements,
//! where the controller at the sender reads it. Which half a flow has follows from its controller
//! ([`crate::cc::CcKind::half`]); the sender names it in each segment, so a receiver chooses
//! nothing. Its state is on loan to flows that are not at rest. It has no access to an endpoint, a
//! socket or a clock.

pub use mlcc::{Initial as MlccHalfInitial, Mlcc as MlccHalf, Signal as MlccHalfSignal};

use crate::registry::{Registered, registry};
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, Psn};
use crate::wire::half::Half;
use crate::wire::{ExtRefusal, Extensions};

/// A segment that arrived, as a half sees it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentArrival<'a> {
    /// When the segment arrived.
    pub at: Instant,
    /// The segment's number in its flow.
    pub psn: Psn,
    /// Payload that arrived; 0 when it was trimmed or had arrived before.
    pub bytes: Bytes,
    /// The segment arrived with CE.
    pub ce: bool,
    /// A switch cut the payload off.
    pub trimmed: bool,
    /// Flows that the receiver is receiving messages on, this one included.
    pub sharers: u16,
    /// What followed its header: telemetry, for one.
    pub extensions: Extensions<'a>,
}

/// What a half says in an acknowledgement. The half defines what number and values mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HalfReport {
    /// A number that may wrap, and begins anew when the flow has been at rest.
    pub number: u16,
    /// Two values.
    pub values: [u32; 2],
}

/// The behaviour of a half.
pub trait ReceiverHalf {
    /// A segment arrived, for the first time or again. Returns what of its extensions is refused;
    /// the segment counts all the same.
    fn on_segment(&mut self, arrival: &SegmentArrival<'_>) -> Option<ExtRefusal>;
    /// What an acknowledgement that is made at `now` says; `None` when there is nothing to say.
    fn report(&mut self, now: Instant) -> Option<HalfReport>;
}

/// What a half is made from.
#[derive(Clone, Copy, Debug)]
pub struct HalfSetup<'a> {
    /// The settings of all halves.
    pub params: &'a RcParams,
    /// Rate of the receiver's link.
    pub line_rate: Rate,
    /// Base RTT of the network's longest path.
    pub base_rtt: Duration,
    /// Wire bytes of a full segment.
    pub mtu: Bytes,
}

/// What a half's file states for its registration.
pub trait Reporter: ReceiverHalf + Registered {
    /// The half of a flow of which nothing has arrived.
    fn build(setup: &HalfSetup<'_>) -> Self;
    /// The half's number on the wire, 1..=255, different from that of every other half.
    fn number() -> u8;
}

registry! {
    /// Names the registered halves.
    pub enum RcKind;
    /// The half of one flow.
    pub enum Rc: ReceiverHalf;
    new: Reporter::build(setup: &HalfSetup<'_>);
    params {
        /// The settings of every half, `rc.<name>.<key>`.
        pub struct RcParams;
    }
    kinds {
        /// The half's number on the wire.
        fn number() -> u8;
    }
    policies {
        "arrival-rate" => arrival_rate::ArrivalRate,
        "mlcc" => mlcc::Mlcc,
    }
    fn on_segment(&mut self, arrival: &SegmentArrival<'_>) -> Option<ExtRefusal>;
    fn report(&mut self, now: Instant) -> Option<HalfReport>;
}

const _: () = assert!(size_of::<Rc>() <= 256, "one for each flow that is received");

impl RcKind {
    /// The half of a number on the wire; `None` when this version has no such half.
    #[must_use]
    pub fn by_number(half: Half) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.number() == half.get())
    }

    /// The half's name on the wire.
    ///
    /// # Panics
    /// When it states 0, which a test excludes.
    #[must_use]
    pub fn half(self) -> Half {
        Half::new(self.number()).expect("a half has a number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_has_a_number_of_its_own_and_is_found_by_it() {
        for kind in RcKind::ALL {
            assert_eq!(RcKind::by_number(kind.half()), Some(*kind));
            let same = RcKind::ALL.iter().filter(|other| other.number() == kind.number());
            assert_eq!(same.count(), 1, "{}", kind.name());
        }
        assert_eq!(RcKind::by_number(Half::MAX), None);
    }
}
