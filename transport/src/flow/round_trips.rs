//! Recent round-trip times to a peer, where they are longer than the timeout. Queues on the way are
//! then deeper than the timeout allows for, and segments that wait in them are silent but not lost.
//!
//! All flows to a peer share them, as control blocks of TCP are shared (RFC 9040). A flow whose
//! first segments are still in the queue uses the round trips of other flows' segments. The send
//! time that each acknowledgement echoes names the transmission, so round trips of segments sent
//! again count, too. Only flows that are about to time out read this, and only round trips longer
//! than a timeout are noted: nothing here is touched while the timeout is right. There is a fixed
//! number of places; each peer has one, and peers that share a place overwrite each other.

use crate::time::{Duration, Instant};
use crate::units::HostId;

/// The long round trips of an endpoint.
#[derive(Debug)]
pub(crate) struct LongRoundTrips {
    places: [Long; PLACES],
}

/// A round trip to a peer, the longest while it is new.
#[derive(Clone, Copy, Debug)]
struct Long {
    peer: HostId,
    took: Duration,
    /// When the round trip ended.
    at: Instant,
}

const PLACES: usize = 32;

impl LongRoundTrips {
    /// No round trip is long.
    pub(crate) const fn new() -> Self {
        let none = Long { peer: HostId(u32::MAX), took: Duration::ZERO, at: Instant::ZERO };
        Self { places: [none; PLACES] }
    }

    /// Notes that a round trip to `peer` that ended at `now` took longer than a timeout.
    pub(crate) fn note(&mut self, peer: HostId, took: Duration, now: Instant) {
        let place = &mut self.places[Self::place(peer)];
        // A round trip counts for as long as it took. It is replaced after half of that, so that
        // there is no gap.
        let old = !place.counts_for(peer, now) || now.since(place.at) >= place.took / 2;
        if old || took >= place.took {
            *place = Long { peer, took, at: now };
        }
    }

    /// The recent round-trip time to `peer`; `None` when none was longer than a timeout. A round
    /// trip counts for as long as it took: segments sent after it will have been answered by then.
    pub(crate) fn lately(&self, peer: HostId, now: Instant) -> Option<Duration> {
        let place = &self.places[Self::place(peer)];
        place.counts_for(peer, now).then_some(place.took)
    }

    fn place(peer: HostId) -> usize {
        peer.0 as usize % PLACES
    }
}

impl Long {
    fn counts_for(&self, peer: HostId, now: Instant) -> bool {
        self.peer == peer && now.since(self.at) <= self.took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn the_longest_round_trip_stands_for_as_long_as_it_took() {
        let (mut trips, [one, other]) = (LongRoundTrips::new(), [HostId(3), HostId(4)]);
        let us = Duration::from_us;
        assert_eq!(trips.lately(one, at(0)), None);
        trips.note(one, us(50), at(100));
        trips.note(one, us(40), at(124));
        let both = [one, other].map(|peer| trips.lately(peer, at(150)));
        assert_eq!(both, [Some(us(50)), None]);
        assert_eq!(trips.lately(one, at(151)), None);
        trips.note(one, us(40), at(151));
        trips.note(one, us(60), at(152));
        assert_eq!(trips.lately(one, at(212)), Some(us(60)));
    }

    #[test]
    fn the_next_round_trip_takes_over_before_the_longest_is_too_old() {
        let (mut trips, peer) = (LongRoundTrips::new(), HostId(3));
        trips.note(peer, Duration::from_us(50), at(100));
        trips.note(peer, Duration::from_us(49), at(150));
        assert_eq!(trips.lately(peer, at(199)), Some(Duration::from_us(49)));
    }

    #[test]
    fn peers_that_share_a_place_are_not_taken_for_each_other() {
        let mut trips = LongRoundTrips::new();
        let [one, other] = [HostId(1), HostId(1 + u32::try_from(PLACES).unwrap())];
        trips.note(one, Duration::from_us(9), at(0));
        assert_eq!(trips.lately(other, at(1)), None);
        trips.note(other, Duration::from_us(5), at(1));
        assert_eq!(trips.lately(one, at(2)), None);
    }
}
