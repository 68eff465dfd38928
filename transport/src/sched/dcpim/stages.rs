//! The clock of the matching: half rounds of one length, counted since time 0.
//!
//! In an even stage receivers take grants and send requests, in an odd stage sources send grants.
//! Clocks of hosts need not agree: each message names the stage of its host, and a host that is
//! behind follows. The number of large steps is bounded. Small steps together are bounded to a
//! small part of the time that passes. So peers whose stages run ahead for ever take a bounded
//! share of a host's epochs. All peers share these budgets: while one peer uses them up, hosts
//! whose clocks differ stay apart.

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
    /// Instant from which small steps have their whole budget again.
    paid_at: Instant,
    /// Instant from which steps of more than an epoch have their whole budget again.
    jumps_paid_at: Instant,
}

/// How far stages may be ahead of a clock.
const LEAD_MAX: Duration = Duration::from_ps(1 << 62);
/// Time that pays for a small step, as a multiple of the step; an epoch at once at most.
const STEP_PRICE: u64 = 16;
/// Epochs that pay for a step of more than an epoch.
const JUMP_PRICE: u64 = 64;
/// Far steps that may come at once: hosts that meet follow one after the other.
const JUMPS_MAX: u64 = 8;

impl Stages {
    pub(super) fn new(round: Duration, rounds: u64) -> Self {
        let half = Duration::from_ps((round.as_ps() / 2).max(1));
        Self {
            half,
            rounds: rounds.max(1),
            lead: Duration::ZERO,
            paid_at: Instant::ZERO,
            jumps_paid_at: Instant::ZERO,
        }
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

    /// Another host is in `stage`, modulo 2^32: if the stages here are behind it, they go on from
    /// there, unless the budget of steps is used up.
    pub(super) fn follow(&mut self, stage: u32, now: Instant) {
        let own = self.at(now);
        let stage = Self::near(stage, own);
        if stage > own {
            let ahead = self.start(stage).since(now);
            if self.lead + ahead <= LEAD_MAX && self.may_follow(ahead, now) {
                self.lead += ahead;
            }
        }
    }

    /// Pays for going ahead by `ahead`, as a small step or, if it is longer than an epoch, as a far
    /// one. False when the budget of such steps is used up.
    fn may_follow(&mut self, ahead: Duration, now: Instant) -> bool {
        let epoch = self.epoch();
        let pay = |paid_at: &mut Instant, price: Duration, credit: Duration| {
            let paid = (*paid_at).max(now) + price;
            let may = paid <= now + credit;
            if may {
                *paid_at = paid;
            }
            may
        };
        let jump = epoch * JUMP_PRICE;
        if ahead <= epoch {
            pay(&mut self.paid_at, ahead * STEP_PRICE, epoch * STEP_PRICE)
        } else {
            pay(&mut self.jumps_paid_at, jump, jump * JUMPS_MAX)
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

    #[test]
    fn a_peer_that_is_ahead_for_ever_takes_a_small_share_of_the_epochs() {
        for ahead in [1_u64, 7, 8, 9, 16, 1000] {
            let mut stages = Stages::new(Duration::from_us(10), 4);
            let (half, epoch) = (stages.half, stages.epoch());
            let (mut now, mut far) = (Instant::ZERO, 0);
            let mut small = Duration::ZERO;
            let end = now + epoch * (100 * JUMP_PRICE);
            while now < end {
                let (own, lead) = (stages.at(now), stages.lead);
                let stage = u32::try_from((own + ahead) % (1 << 32)).unwrap();
                stages.follow(stage, now);
                let step = stages.lead - lead;
                if step > epoch {
                    far += 1;
                } else {
                    small += step;
                }
                now += half;
            }
            // 100 far steps are paid for, and 8 come at once.
            assert!(far <= 108, "{far} steps ahead by {ahead}");
            let most = end.since(Instant::ZERO).mul_ratio(1, STEP_PRICE) + epoch;
            assert!(small <= most, "{small} of {most}, ahead by {ahead}");
            assert!(far > 0 || small > epoch * 100, "honest hosts are followed: {ahead}");
        }
    }

    #[test]
    fn small_steps_take_nothing_from_far_ones() {
        let mut stages = Stages::new(Duration::from_us(10), 4);
        let now = Instant::ZERO + Duration::from_us(1);
        for _ in 0..1000 {
            stages.follow(u32::try_from(stages.at(now)).unwrap() + 1, now);
        }
        let own = stages.at(now);
        assert!(own <= stages.of_epoch() + 1, "small steps are used up after an epoch: {own}");
        stages.follow(u32::try_from(own).unwrap() + 100, now);
        assert_eq!(stages.at(now), own + 100);
    }
}
