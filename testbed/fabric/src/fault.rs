//! Faults of links, and their windows of time.
//!
//! A fault has a kind and a window of time. The state of a link at any instant follows from its
//! windows alone, so faults add no events, and a late poll has the same result as a punctual one.
//! Only random draws have a state: each link has a stream of its own, with one draw for each
//! departure and window. Faults act when a packet's transmission starts. Probabilities are 0 ..= 1
//! a packet.

use core::fmt;

use transport::{Duration, Instant, Rate, Rng};

use transport::DropReason;

/// One fault of one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// Acts from this instant on,
    pub from: Instant,
    /// and before this one.
    pub until: Instant,
    /// The effect of the fault.
    pub kind: FaultKind,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Loses each packet independently.
    Loss {
        /// Probability of loss.
        p: f64,
    },
    /// Loses packets in bursts (Gilbert 1960, Elliott 1963): a good state without loss, a bad one.
    BurstLoss {
        /// Probability that a packet finds the state turned bad.
        enter: f64,
        /// Probability that a packet finds the state turned good again.
        leave: f64,
        /// Probability of loss in the bad state.
        loss: f64,
    },
    /// Loses packets of consecutive blocks together, as measured between datacentres. The number of
    /// lost packets in a block is drawn from a table; which packets these are is uniform.
    //= uno#2.4
    BlockLoss {
        /// Packets of a block, 1 ..= [`BLOCK_MAX`].
        block: u32,
        /// Probability that exactly 1, 2, ... packets of a block are lost; the rest of 1 is that of
        /// none.
        losses: [f64; LOSSES_MAX],
    },
    /// Delivers a packet twice.
    Duplicate {
        /// Probability of a second copy.
        p: f64,
    },
    /// Holds a packet back so that later ones overtake it.
    Reorder {
        /// Probability of being held.
        p: f64,
        /// Longest extra delay; uniform up to it.
        extra_max: Duration,
    },
    /// Flips bits: the packet arrives with the flag CORRUPT.
    Corrupt {
        /// Probability of corruption.
        p: f64,
    },
    /// The link is down. The port goes on sending, and all packets of its queue are lost. Packets
    /// that are on the link when it goes down (the far switch's traversal included) are lost, too.
    Down,
    /// The link is down because the switch at one end has crashed: all links of that switch have
    /// this fault. Its program loses its packets and its state at the start; at the end the switch
    /// runs again.
    Crash,
    /// The link sends at a share of its rate.
    Degrade {
        /// The share, above 0 and at most 1.
        share: f64,
    },
}

/// The longest block of [`FaultKind::BlockLoss`].
pub const BLOCK_MAX: u32 = 64;

/// The most losses in a block that its table can hold.
pub const LOSSES_MAX: usize = 8;

/// Why a fault is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultError {
    /// A probability is not in 0 ..= 1.
    Probability {
        /// The value that was given.
        given: f64,
    },
    /// A link cannot run at rate zero.
    NoRate,
    /// A block has no packets, more than [`BLOCK_MAX`], or fewer than its table loses.
    Block {
        /// Packets of the block.
        given: u32,
    },
    /// The window ends before it starts.
    ActiveFault {
        /// The start of the window.
        from: Instant,
        /// The end of the window.
        until: Instant,
    },
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probability { given } => {
                write!(f, "fault: probability {given} is not in 0 ..= 1; give a share, not percent")
            }
            Self::Block { given } => write!(
                f,
                "fault: a block of {given} packets; give 1 to {BLOCK_MAX}, and no fewer than the \
                 table loses"
            ),
            Self::NoRate => write!(f, "fault: degraded to a rate of zero; use `down` instead"),
            Self::ActiveFault { from, until } => {
                write!(f, "fault: ends at {until:?}, before its start at {from:?}; swap the two")
            }
        }
    }
}

impl std::error::Error for FaultError {}

impl FaultSpec {
    /// # Errors
    /// When a probability, a rate or the window makes no sense.
    pub fn check(&self) -> Result<(), FaultError> {
        if self.until < self.from {
            return Err(FaultError::ActiveFault { from: self.from, until: self.until });
        }
        let chances = match self.kind {
            FaultKind::Loss { p }
            | FaultKind::Duplicate { p }
            | FaultKind::Reorder { p, .. }
            | FaultKind::Corrupt { p } => [p, 0.0, 0.0],
            FaultKind::BurstLoss { enter, leave, loss } => [enter, leave, loss],
            FaultKind::BlockLoss { block, losses } => {
                let most = losses.iter().rposition(|p| *p != 0.0).map_or(0, |last| last + 1);
                if !(1..=BLOCK_MAX).contains(&block) || most > block as usize {
                    return Err(FaultError::Block { given: block });
                }
                let wrong = losses.into_iter().find(|p| !(0.0..=1.0).contains(p));
                [wrong.unwrap_or_else(|| losses.iter().sum()), 0.0, 0.0]
            }
            FaultKind::Down | FaultKind::Crash => [0.0; 3],
            FaultKind::Degrade { share: 0.0 } => return Err(FaultError::NoRate),
            FaultKind::Degrade { share } => [share, 0.0, 0.0],
        };
        match chances.into_iter().find(|p| !(0.0..=1.0).contains(p)) {
            Some(given) => Err(FaultError::Probability { given }),
            None => Ok(()),
        }
    }

    fn acts_at(&self, at: Instant) -> bool {
        self.from <= at && at < self.until
    }

    const fn degrades(&self) -> bool {
        matches!(self.kind, FaultKind::Degrade { .. })
    }
}

/// The faults of one link and their chance.
#[derive(Clone, Debug)]
pub(super) struct LinkFaults {
    windows: Vec<ActiveFault>,
    /// When the link is down: times that do not touch one another.
    downs: Vec<(Instant, Instant)>,
    rate: Rate,
    /// Changes of the rate up to this instant have been made at the port.
    changed_at: Instant,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct ActiveFault {
    spec: FaultSpec,
    /// The state of `BurstLoss`.
    bad: bool,
    /// The state of `BlockLoss`.
    block: Block,
}

/// The rest of a block of packets.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Packets of the block that are still to come.
    left: u32,
    /// Which of the coming packets are lost, a bit each; the next is bit 0.
    lost: u64,
}

impl Block {
    /// The next block. The table decides how many packets it loses; which ones they are is random
    /// (Floyd's sampling).
    fn draw(size: u32, losses: &[f64], rng: &mut Rng) -> Self {
        let chance = rng.next_f64();
        let mut below = 0.0;
        let drawn = losses.iter().position(|p| {
            below += p;
            chance < below
        });
        let count = drawn.map_or(0, |at| u32::try_from(at + 1).unwrap_or(0));
        let mut lost = 0u64;
        for last in size.saturating_sub(count)..size {
            let bit = 1 << rng.below(u64::from(last) + 1);
            lost |= if lost & bit == 0 { bit } else { 1 << last };
        }
        Self { left: size, lost }
    }

    /// Takes the next packet; returns whether it is lost.
    fn take(&mut self) -> bool {
        let lost = self.lost & 1 == 1;
        self.left -= 1;
        self.lost >>= 1;
        lost
    }
}

/// The fate of one packet by the faults of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) lost: Option<DropReason>,
    pub(super) corrupt: bool,
    pub(super) duplicate: bool,
    pub(super) extra: Duration,
}

impl LinkFaults {
    /// No faults yet, on a link of `rate`.
    pub(super) const fn new(rate: Rate, rng: Rng) -> Self {
        Self { windows: Vec::new(), downs: Vec::new(), rate, changed_at: Instant::ZERO, rng }
    }

    /// Adds a fault at `now`, which may have begun before; the rate from now on.
    pub(super) fn add(&mut self, spec: FaultSpec, now: Instant) -> Rate {
        self.windows.push(ActiveFault { spec, bad: false, block: Block::default() });
        if spec.kind == FaultKind::Down {
            self.add_down(spec.from, spec.until);
        }
        self.changed_at = self.changed_at.max(now);
        self.rate_at(now)
    }

    /// Adds a time without the link, and makes one of those that touch it.
    fn add_down(&mut self, mut from: Instant, mut until: Instant) {
        self.downs.retain(|&(other_from, other_until)| {
            let apart = other_until < from || until < other_from;
            if !apart {
                (from, until) = (from.min(other_from), until.max(other_until));
            }
            apart
        });
        self.downs.push((from, until));
    }

    /// When the rate changes next; [`Instant::FAR_FUTURE`] when it stays.
    pub(super) fn rate_changes_at(&self) -> Instant {
        let degraded = self.windows.iter().filter(|window| window.spec.degrades());
        let ends = degraded.flat_map(|window| [window.spec.from, window.spec.until]);
        ends.filter(|end| *end > self.changed_at).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Passes the next change of the rate: the rate from then on.
    pub(super) fn pass_rate_change(&mut self) -> Rate {
        self.changed_at = self.rate_changes_at();
        self.rate_at(self.changed_at)
    }

    /// The rate of a transmission that starts at `at`.
    pub(super) fn rate_at(&self, at: Instant) -> Rate {
        let active = self.windows.iter().filter(|window| window.spec.acts_at(at));
        let share = active.fold(1.0, |least: f64, window| match window.spec.kind {
            FaultKind::Degrade { share } => least.min(share),
            _ => least,
        });
        if share < 1.0 { scaled(self.rate, share) } else { self.rate }
    }

    /// Whether routing avoids the link at `at`: it has been down for `detection`, or has not yet
    /// been back for as long. An outage shorter than `detection` goes unnoticed.
    pub(super) fn known_dead(&self, at: Instant, detection: Duration) -> bool {
        self.outages(detection).any(|(from, until)| from <= at && at < until)
    }

    /// When routing avoids the link.
    pub(super) fn outages(
        &self,
        detection: Duration,
    ) -> impl Iterator<Item = (Instant, Instant)> + '_ {
        let downs = self.downs.iter();
        downs
            .map(move |&(from, until)| (from + detection, until))
            .filter(|(noticed, until)| noticed < until)
            .map(move |(noticed, until)| (noticed, until + detection))
    }

    /// The fate of a packet whose transmission starts at `start` and which would be at the far end
    /// at `arrival`.
    pub(super) fn fate(&mut self, start: Instant, arrival: Instant) -> Fate {
        let mut fate = Fate::default();
        for window in &mut self.windows {
            if window.spec.kind == FaultKind::Down {
                if window.spec.from <= arrival && start < window.spec.until {
                    fate.lost = Some(DropReason::LinkDown);
                }
            } else if window.spec.acts_at(start) {
                window.decide(&mut fate, &mut self.rng);
            }
        }
        fate
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a rate, within 0 ..= rate; a bit a second more or less does not matter"
)]
fn scaled(rate: Rate, share: f64) -> Rate {
    Rate::from_bps((rate.as_bps() as f64 * share) as u64)
}

impl ActiveFault {
    /// Adds to the fate of a packet what this fault does to it.
    fn decide(&mut self, fate: &mut Fate, rng: &mut Rng) {
        match self.spec.kind {
            FaultKind::Loss { p } => {
                if rng.chance(p) {
                    fate.lost = fate.lost.or(Some(DropReason::RandomLoss));
                }
            }
            FaultKind::BurstLoss { enter, leave, loss } => {
                let turns = rng.chance(if self.bad { leave } else { enter });
                self.bad ^= turns;
                if self.bad && rng.chance(loss) {
                    fate.lost = fate.lost.or(Some(DropReason::BurstLoss));
                }
            }
            FaultKind::BlockLoss { block, losses } => {
                if self.block.left == 0 {
                    self.block = Block::draw(block, &losses, rng);
                }
                if self.block.take() {
                    fate.lost = fate.lost.or(Some(DropReason::BurstLoss));
                }
            }
            FaultKind::Duplicate { p } => fate.duplicate |= rng.chance(p),
            FaultKind::Reorder { p, extra_max } => {
                if rng.chance(p) {
                    fate.extra = Duration::from_ps(rng.below(extra_max.as_ps())) + fate.extra;
                }
            }
            FaultKind::Corrupt { p } => fate.corrupt |= rng.chance(p),
            FaultKind::Down | FaultKind::Crash | FaultKind::Degrade { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ps: u64) -> Instant {
        Instant::from_ps(ps)
    }

    fn faults(kinds: &[FaultKind]) -> LinkFaults {
        let mut faults = LinkFaults::new(Rate::from_gbps(800), Rng::new(4));
        for kind in kinds {
            let spec = FaultSpec { from: at(100), until: at(1_000_000), kind: *kind };
            spec.check().unwrap();
            faults.add(spec, Instant::ZERO);
        }
        faults
    }

    fn fates(faults: &mut LinkFaults, n: u64) -> Vec<Fate> {
        (0..n).map(|i| faults.fate(at(200 + i), at(300 + i))).collect()
    }

    #[test]
    fn a_fault_acts_only_inside_its_window() {
        let mut faults = faults(&[FaultKind::Loss { p: 1.0 }]);
        assert_eq!(faults.fate(at(99), at(150)).lost, None);
        assert_eq!(faults.fate(at(100), at(150)).lost, Some(DropReason::RandomLoss));
        assert_eq!(faults.fate(at(1_000_000), at(1_000_001)).lost, None);
    }

    #[test]
    fn independent_faults_happen_at_their_rates() {
        let fates = fates(
            &mut faults(&[
                FaultKind::Loss { p: 0.1 },
                FaultKind::Duplicate { p: 0.2 },
                FaultKind::Corrupt { p: 0.3 },
                FaultKind::Reorder { p: 0.4, extra_max: Duration::from_ps(1000) },
            ]),
            20_000,
        );
        let share = |of: fn(&Fate) -> bool| fates.iter().filter(|fate| of(fate)).count();
        assert!((1800..2200).contains(&share(|fate| fate.lost.is_some())));
        assert!((3800..4200).contains(&share(|fate| fate.duplicate)));
        assert!((5700..6300).contains(&share(|fate| fate.corrupt)));
        assert!((7700..8300).contains(&share(|fate| fate.extra > Duration::ZERO)));
        assert!(fates.iter().all(|fate| fate.extra < Duration::from_ps(1000)));
    }

    #[test]
    fn burst_losses_come_together() {
        let kind = FaultKind::BurstLoss { enter: 0.01, leave: 0.1, loss: 1.0 };
        let lost: Vec<_> =
            fates(&mut faults(&[kind]), 50_000).iter().map(|fate| fate.lost.is_some()).collect();
        let losses = lost.iter().filter(|lost| **lost).count();
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        // The share of the bad state is 0.01 / 0.11; a loss is followed by another nine times in
        // ten.
        assert!((3500..5700).contains(&losses), "{losses}");
        assert!(pairs * 100 > losses * 85, "{pairs} of {losses}");
    }

    #[test]
    fn blocks_lose_as_many_packets_as_their_table_says_and_all_places_alike() {
        let mut losses = [0.0; LOSSES_MAX];
        losses[..3].copy_from_slice(&[0.2, 0.1, 0.05]);
        let mut faults = faults(&[FaultKind::BlockLoss { block: 10, losses }]);
        let lost: Vec<_> =
            fates(&mut faults, 200_000).iter().map(|fate| fate.lost.is_some()).collect();
        let (mut by_count, mut by_place) = ([0u32; 11], [0u32; 10]);
        for block in lost.chunks(10) {
            by_count[block.iter().filter(|lost| **lost).count()] += 1;
            for (place, lost) in block.iter().enumerate() {
                by_place[place] += u32::from(*lost);
            }
        }
        // 20 000 blocks; standard deviations are below 70.
        for (count, expected) in [(0, 13_000), (1, 4_000), (2, 2_000), (3, 1_000)] {
            assert!(by_count[count].abs_diff(expected) < 300, "{count}: {by_count:?}");
        }
        assert_eq!(by_count[4..], [0; 7]);
        assert!(by_place.iter().all(|n| n.abs_diff(1_100) < 150), "{by_place:?}");
    }

    #[test]
    fn a_link_that_goes_down_loses_what_is_on_it() {
        let mut faults = faults(&[FaultKind::Down]);
        assert_eq!(faults.fate(at(50), at(99)).lost, None);
        assert_eq!(faults.fate(at(50), at(100)).lost, Some(DropReason::LinkDown));
        assert_eq!(faults.fate(at(999_999), at(1_000_500)).lost, Some(DropReason::LinkDown));
        assert_eq!(faults.fate(at(1_000_000), at(1_000_500)).lost, None);
    }

    #[test]
    fn routing_learns_of_an_outage_after_the_detection_delay_and_not_of_a_short_one() {
        let faults = faults(&[FaultKind::Down]);
        let delay = Duration::from_ps(500);
        let known = [599, 600, 1_000_499, 1_000_500].map(|ps| faults.known_dead(at(ps), delay));
        assert_eq!(known, [false, true, true, false]);
        assert!(!faults.known_dead(at(1_000_000), Duration::from_us(2)));
    }

    #[test]
    fn outages_that_touch_or_overlap_are_one() {
        let down =
            |from, until| FaultSpec { from: at(from), until: at(until), kind: FaultKind::Down };
        let delay = Duration::from_ps(500);
        let known = |specs: &[FaultSpec]| {
            let mut faults = LinkFaults::new(Rate::from_gbps(800), Rng::new(1));
            for spec in specs {
                faults.add(*spec, at(0));
            }
            [599, 600, 1499, 1500, 2500].map(|ps| faults.known_dead(at(ps), delay))
        };
        let whole = known(&[down(100, 1000)]);
        assert_eq!(whole, [false, true, true, false, false]);
        assert_eq!(known(&[down(400, 700), down(700, 1000), down(100, 400)]), whole);
        assert_eq!(known(&[down(100, 450), down(600, 1000), down(300, 650)]), whole);
        assert_eq!(known(&[down(100, 400), down(500, 900)]), [false; 5]);
    }

    #[test]
    fn the_lowest_share_of_a_degraded_link_counts() {
        let faults = faults(&[0.125, 0.5].map(|share| FaultKind::Degrade { share }));
        assert_eq!(faults.rate_at(at(500)), Rate::from_gbps(100));
        assert_eq!(faults.rate_at(at(5)), Rate::from_gbps(800));
    }

    #[test]
    fn nonsense_is_refused_with_what_to_do() {
        let spec = |kind| FaultSpec { from: at(0), until: at(1), kind };
        for p in [-0.1, 1.1, f64::NAN, 50.0] {
            let error = spec(FaultKind::Corrupt { p }).check().unwrap_err();
            assert!(error.to_string().contains("share"), "{error}");
        }
        let table = |first, block| {
            let mut losses = [0.0; LOSSES_MAX];
            losses[..2].copy_from_slice(&[first, 0.5]);
            spec(FaultKind::BlockLoss { block, losses }).check()
        };
        assert_eq!(table(0.25, 10), Ok(()));
        assert_eq!(table(0.75, 10), Err(FaultError::Probability { given: 1.25 }));
        assert_eq!(table(-0.5, 10), Err(FaultError::Probability { given: -0.5 }));
        for given in [0, 1, BLOCK_MAX + 1] {
            assert_eq!(table(0.25, given), Err(FaultError::Block { given }));
        }
        let stopped = spec(FaultKind::Degrade { share: 0.0 });
        assert_eq!(stopped.check(), Err(FaultError::NoRate));
        let backwards = FaultSpec { from: at(2), ..spec(FaultKind::Down) };
        assert!(backwards.check().is_err());
    }
}
