//! The sending side of the matching: a host with segments for others gives its channels to those
//! that ask for them.
//!
//! A source gives at most k channels of one epoch. A grant keeps its channels until the next round;
//! an acceptance that comes later gets the channels that are left. Messages that come late by up to
//! an epoch, because of clocks or round trips, count for the epoch in which they come.

use alloc::vec;
use alloc::vec::Vec;

use super::stages::Stages;
use super::{Matching, Outbox};
use crate::rng::Rng;
use crate::sched::SchedSetup;
use crate::units::{FlowId, HostId};
use crate::wire::dcpim::{MatchStep, Offer};

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Requested {
    /// The request waits for the next grants, or is lost where too many wait.
    Waits,
    /// The request or a later one of its receiver has come before.
    Again,
    /// The request is of an epoch that is over.
    Late,
}

/// A request that waits for the next round of grants.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    from: HostId,
    offer: Offer,
    /// The round of the request, in full.
    round: u64,
    /// Decides between requests for the same number of segments, and between all requests of later
    /// rounds.
    tie: u32,
}

/// A grant of this epoch or the one before.
#[derive(Clone, Copy, Debug)]
struct Granted {
    to: HostId,
    /// The round of its request.
    round: u64,
    /// The random number that its acceptance repeats.
    nonce: u32,
    /// The stage in which the grant was given.
    stage: u64,
    channels: u8,
    early: u8,
    /// Whether its acceptance has come; a repeated acceptance changes nothing.
    accepted: bool,
}

/// The channels of one host as a source.
#[derive(Clone, Debug)]
pub(super) struct Source {
    matching: Matching,
    requests: Vec<Waiting>,
    /// By slab index of the flow that a request names: that flow, and the first round in which it
    /// may be named again, so that a request that comes twice counts once.
    named_from: Vec<(FlowId, u64)>,
    granted: Vec<Granted>,
    /// The stage of the last grants: channels of earlier grants are no longer reserved.
    stage: u64,
    /// The epoch that is being matched.
    epoch: u64,
    /// Channels given in that epoch, early ones among them.
    given: u8,
    given_early: u8,
    /// Channels given in the epoch before, whose segments leave now.
    busy: u8,
    rng: Rng,
}

/// Requests of a round that are kept at most.
const REQUESTS_MAX: usize = 4096;

impl Source {
    pub(super) fn new(setup: &SchedSetup<'_>, matching: Matching) -> Self {
        let most = (setup.tx_flows_max as usize).min(REQUESTS_MAX);
        let rounds = usize::from(matching.rounds);
        Self {
            matching,
            requests: Vec::with_capacity(most),
            named_from: vec![(FlowId::UNKNOWN, 0); setup.tx_flows_max as usize],
            granted: Vec::with_capacity(3 * rounds * usize::from(matching.channels)),
            stage: 0,
            epoch: 0,
            given: 0,
            given_early: 0,
            busy: 0,
            rng: setup.rng.fork("dcpim.source", setup.host.0.into()),
        }
    }

    /// Whether requests wait for a stage.
    pub(super) fn waits(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Takes a request, which may be late by an epoch.
    pub(super) fn on_request(
        &mut self,
        from: HostId,
        offer: Offer,
        round: u64,
        epoch: u64,
    ) -> Requested {
        if epoch + 1 < self.epoch {
            return Requested::Late;
        }
        let Some(named) = self.named_from.get_mut(offer.flow.index()) else {
            return Requested::Again;
        };
        if named.0 != offer.flow {
            *named = (offer.flow, 0);
        }
        if round < named.1 {
            return Requested::Again;
        }
        named.1 = round + 1;
        if self.requests.len() < self.requests.capacity() {
            self.requests.push(Waiting { from, offer, round, tie: self.rng.next_u32() });
        }
        Requested::Waits
    }

    /// Begins `epoch`, unless it has begun.
    fn begin(&mut self, stages: &Stages, epoch: u64) {
        if epoch > self.epoch {
            self.busy = if epoch == self.epoch + 1 { self.given } else { 0 };
            (self.epoch, self.given, self.given_early) = (epoch, 0, 0);
            // An acceptance that comes late takes what the next epoch has left.
            self.granted.retain(|granted| stages.epoch_of(granted.round) + 1 >= epoch);
        }
    }

    /// Gives channels to the receivers that have asked. The stage is odd: acceptances of the last
    /// epoch have come.
    pub(super) fn grant(&mut self, stages: &Stages, stage: u64, out: &mut Outbox) {
        let round = stage / 2;
        self.begin(stages, stages.epoch_of(round));
        self.stage = stage;
        let epoch = self.epoch;
        self.requests.retain(|asked| stages.epoch_of(asked.round) + 1 >= epoch);
        let by_size = self.matching.by_size(stages.in_epoch(round));
        self.requests
            .sort_unstable_by_key(|asked| (if by_size { asked.offer.left } else { 0 }, asked.tie));
        let mut room = self.matching.channels - self.given;
        let busy = self.busy + self.given_early;
        let mut room_early = self.matching.room_early(busy);
        for &Waiting { from, offer, round, .. } in &self.requests {
            let twice = |other: &Granted| (other.to, other.round) == (from, round);
            if self.granted.iter().any(twice) {
                continue;
            }
            let channels = offer.channels.min(room);
            if channels == 0 || self.granted.len() == self.granted.capacity() {
                break;
            }
            let early = offer.early.min(channels).min(room_early);
            (room, room_early) = (room - channels, room_early - early);
            let nonce = self.rng.next_u32();
            let accepted = false;
            self.granted.push(Granted { to: from, round, nonce, stage, channels, early, accepted });
            let offer = Offer { granted: nonce, ..offer };
            out.answer(from, &offer, MatchStep::Grant, (channels, early));
        }
        self.requests.clear();
    }

    /// A receiver takes channels that it was granted. Channels that other receivers have been given
    /// meanwhile are taken back.
    pub(super) fn on_accept(&mut self, from: HostId, offer: &Offer, round: u64, out: &mut Outbox) {
        let of_it = |granted: &Granted| {
            (granted.to, granted.round, granted.nonce) == (from, round, offer.granted)
        };
        let Some(at) = self.granted.iter().position(of_it) else {
            return out.answer(from, offer, MatchStep::Return, (offer.channels, offer.early));
        };
        if self.granted[at].accepted {
            return;
        }
        self.granted[at].accepted = true;
        let granted = self.granted[at];
        // A grant of the last round has its channels; others share what that round has left.
        let (mut held, mut held_early) = (0, 0);
        if granted.stage != self.stage {
            let last = |other: &&Granted| other.stage == self.stage && !other.accepted;
            for other in self.granted.iter().filter(last) {
                (held, held_early) = (held + other.channels, held_early + other.early);
            }
        }
        let most = self.matching.channels;
        let room = most.saturating_sub(self.given + held);
        let room_early = self.matching.room_early(self.busy + self.given_early + held_early);
        let channels = offer.channels.min(granted.channels).min(room);
        let early = offer.early.min(granted.early).min(room_early).min(channels);
        // A channel that cannot be used early goes back whole.
        let channels = channels.min(offer.channels.saturating_sub(offer.early - early)).max(early);
        (self.given, self.given_early) = (self.given + channels, self.given_early + early);
        let back = (offer.channels - channels, offer.early - early);
        if back != (0, 0) {
            out.answer(from, offer, MatchStep::Return, (back.0.max(back.1), back.1));
        }
    }

    /// Requests that wait.
    #[cfg(test)]
    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Channels given in the epoch that is being matched, and in the one before.
    #[cfg(test)]
    pub(super) const fn given(&self) -> (u64, u8, u8) {
        (self.epoch, self.given, self.busy)
    }
}
