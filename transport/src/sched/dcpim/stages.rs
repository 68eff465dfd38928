//! The clock of the matching: half rounds of one length, counted since time 0.
//!
//! In an even stage receivers take grants and ask, in an odd one sources give. Clocks of hosts need
//! not agree: each message names the stage of its host, and a host that is behind follows.

use crate::time::{Duration, Instant};

/// Stages of one host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    /// Length of a stage; not zero.
    half: Duration,
    /// Rounds of an epoch, at least 1.
    rounds: u64,
    /// How far the stages are ahead of the host's clock.
    lead: Duration,
}

/// How far stages may come ahead of a clock.
const LEAD_MAX: Duration = Duration::from_ps(1 << 62);

impl Stages {
    pub(super) fn new(round: Duration, rounds: u64) -> Self {
        let half = Duration::from_ps((round.as_ps() / 2).max(1));
        Self { half, rounds: rounds.max(1), lead: Duration::ZERO }
    }

    /// The stage of an instant.
    pub(super) fn at(&self, now: Instant) -> u64 {
        (now.as_ps() + self.lead.as_ps()) / self.half.as_ps()
    }

    /// The first instant of a stage, 0 where it was before.
    pub(super) fn start(&self, stage: u64) -> Instant {
        let ahead = stage.saturating_mul(self.half.as_ps());
        Instant::from_ps(ahead.saturating_sub(self.lead.as_ps()))
    }

    /// The length of an epoch.
    pub(super) fn epoch(&self) -> Duration {
        self.half * (2 * self.rounds)
    }

    /// Stages of an epoch.
    pub(super) const fn of_epoch(&self) -> u64 {
        2 * self.rounds
    }

    /// The epoch in which a round is.
    pub(super) const fn epoch_of(&self, round: u64) -> u64 {
        round / self.rounds
    }

    /// The number of a round in its epoch, from 0.
    pub(super) const fn in_epoch(&self, round: u64) -> u64 {
        round % self.rounds
    }

    /// The number near `own` that is `number` modulo 2^32.
    pub(super) fn near(number: u32, own: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let ahead = number.wrapping_sub(own as u32).cast_signed();
        own.saturating_add_signed(ahead.into())
    }

    /// Another host is in `stage`, modulo 2^32: stages that are behind it go on from there.
    pub(super) fn follow(&mut self, stage: u32, now: Instant) {
        let own = self.at(now);
        let stage = Self::near(stage, own);
        if stage > own {
            let behind = self.start(stage).since(now);
            if self.lead + behind <= LEAD_MAX {
                self.lead += behind;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_behind_follows_and_one_that_is_ahead_does_not() {
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let mut stages = Stages::new(Duration::from_us(10), 4);
        assert_eq!((stages.at(at(4)), stages.at(at(5)), stages.start(3)), (0, 1, at(15)));
        stages.follow(0, at(12));
        assert_eq!(stages.at(at(12)), 2, "no clock goes back");
        stages.follow(7, at(12));
        assert_eq!((stages.at(at(12)), stages.start(8)), (7, at(17)));
        stages.follow(7, at(13));
        assert_eq!(stages.start(8), at(17));
        assert_eq!((stages.epoch_of(7), stages.in_epoch(7)), (1, 3));
        assert_eq!(Stages::near(u32::MAX, 1 << 32), (1 << 32) - 1);
    }
}
