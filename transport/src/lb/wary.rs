//! Wary spraying: all paths in turn until one is dead, and then the paths that have delivered. A
//! coded flow begins with a few paths and tries others once these have answered. It is the
//! project's own; the first paths of a coded flow are as in \[uno\] sec. 4.2.
//!
//! ```text
//!   coded      +-------+  all have answered, or a path is dead  +------+
//!   flow ----> | first | -------------------------------------> | wary |
//!              +-------+                                        +------+
//!   other      +-------+             a path is dead                 ^
//!   flow ----> | well  | -------------------------------------------+
//!              +-------+
//! ```
//!
//! - *First*: the packets of each block take the same few paths. A dead link then costs every block
//!   of a flow the same packets, and most flows can do without them. Nothing better is possible
//!   before the first answer.
//! - *Well*: spraying, in rounds over all paths. Flows load all links alike.
//! - *Wary*: rounds over the paths that were acknowledged. While nothing is lost, a packet of each
//!   such round tries a path that was not tried yet. So flows have all live paths again.
//!
//! A path is dead when a packet on it is lost and none has been acknowledged since one was sent on
//! it a base RTT or longer before. A full queue loses packets, too, but lets others of the same
//! path pass. A path counts as dead, too, when one packet took it and that packet was refused. Dead
//! paths are forgotten within 256 base RTTs in which the flow sends, and tried again. Marks move
//! nothing: congestion is the controller's.

use super::rounds::Rounds;
use super::{Balancer, LbParams, LoadBalancer, PathFeedback, entropy};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;

params! {
    /// Settings of [`Wary`].
    pub struct WaryParams {
        /// Wary: whether each block of a coded flow takes the same paths, at most 20, until these
        /// have answered. Without it a flow is sprayed from its first packet on, and a dead link
        /// leaves every flow some blocks that cannot be decoded. A flow has at most 256 paths.
        wary_first: bool = true;
    }
}

/// Paths of a flow at most, a multiple of 64.
const PATHS_MAX: u16 = 256;
/// Words of a bitmap of paths.
const WORDS: usize = PATHS_MAX as usize / 64;
/// First paths of a coded flow at most: the packets of a (16,4) block.
const FIRST_MAX: usize = 20;
/// Attempts to draw a first path unlike the others.
const DRAWS: u8 = 32;
/// Packets between two that try a path: as many as paths are used, within these bounds.
const GAP: core::ops::RangeInclusive<u32> = 16..=64;

/// A set of paths.
#[derive(Clone, Copy, Debug, Default)]
struct Paths([u64; WORDS]);

impl Paths {
    fn has(&self, path: u16) -> bool {
        self.0[usize::from(path / 64)] & 1 << (path % 64) != 0
    }

    fn set(&mut self, path: u16, is_in: bool) {
        let bit = 1 << (path % 64);
        let word = &mut self.0[usize::from(path / 64)];
        *word = if is_in { *word | bit } else { *word & !bit };
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// How the next path is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    First,
    Well,
    Wary,
}

/// The paths of one flow.
#[derive(Clone, Debug)]
pub struct Wary {
    /// Paths that were acknowledged, and were not found dead since.
    good: Paths,
    /// Paths without an answer since a packet was sent on them in this epoch, in the one before, or
    /// in an earlier one: the last are silent, as are dead paths.
    waiting: [Paths; 3],
    rounds: Rounds,
    /// The first paths of a coded flow, of which the first `firsts` exist.
    first: [u8; FIRST_MAX],
    /// 0..=`FIRST_MAX`.
    firsts: u8,
    /// The first path that is next, 0..`firsts`.
    next: u8,
    /// Packets until the next one that tries a path, 0..=64.
    until_try: u8,
    mode: Mode,
    /// Whether packets were lost in this epoch or the one before, and in this one.
    loses: bool,
    lost: bool,
    /// Epochs until dead paths are forgotten; wraps.
    epochs: u8,
    base_rtt: Duration,
    /// When this epoch ends; `None` before the first packet.
    epoch_end: Option<Instant>,
}

const _: () = assert!(PATHS_MAX as usize == WORDS * 64 && PATHS_MAX - 1 <= u8::MAX as u16);
const _: () = assert!(size_of::<Wary>() <= 224);

impl Wary {
    /// Begins the epochs that are due, each of a base RTT. The first is short: what a flow sends at
    /// once is silent an RTT later, and later packets after one to two RTTs. O(1).
    fn turn(&mut self, now: Instant) {
        let Some(mut end) = self.epoch_end else {
            self.epoch_end = Some(now + self.base_rtt / 32);
            return;
        };
        for _ in 0..self.waiting.len() {
            if now < end {
                break;
            }
            let [new, before, silent] = &mut self.waiting;
            self.epochs = self.epochs.wrapping_add(1);
            if self.epochs == 0 {
                *silent = Paths::default();
            }
            for (all, more) in silent.0.iter_mut().zip(before.0) {
                *all |= more;
            }
            (*before, *new) = (*new, Paths::default());
            (self.loses, self.lost) = (self.lost, false);
            end += self.base_rtt;
        }
        // After a pause no epoch is made up for.
        self.epoch_end = Some(if now < end { end } else { now + self.base_rtt });
    }

    /// The first paths of a coded flow.
    fn first(&self) -> impl Iterator<Item = u16> {
        self.first[..usize::from(self.firsts)].iter().map(|path| u16::from(*path))
    }

    fn is_waiting(&self, path: u16) -> bool {
        self.waiting.iter().any(|paths| paths.has(path))
    }

    /// The next path of the rounds for which `fits` holds. O(paths): two rounds have every path.
    fn next_of(&mut self, rng: &mut Rng, fits: impl Fn(&Self, u16) -> bool) -> Option<u16> {
        for _ in 0..2 * self.rounds.paths() {
            let path = self.rounds.next(rng);
            if fits(self, path) {
                return Some(path);
            }
        }
        None
    }

    /// The next path while some are dead.
    fn next_good(&mut self, rng: &mut Rng) -> u16 {
        if let Some(left) = self.until_try.checked_sub(1) {
            self.until_try = left;
        } else {
            self.begin_round();
            let is_new = |all: &Self, path| !all.good.has(path) && !all.is_waiting(path);
            // What was lost is sent again where it arrives.
            let tried = if self.loses { None } else { self.next_of(rng, is_new) };
            if let Some(path) = tried {
                return path;
            }
        }
        let good = self.next_of(rng, |all, path| all.good.has(path));
        good.unwrap_or_else(|| self.rounds.next(rng))
    }

    /// A round over the good paths begins, before the next path is tried.
    fn begin_round(&mut self) {
        let gap = self.good.count().clamp(*GAP.start(), *GAP.end());
        self.until_try = u8::try_from(gap).unwrap_or(u8::MAX);
    }

    /// The number of the path of `ev`, if it is one of this flow's.
    fn path_of(&self, ev: EntropyValue) -> Option<u16> {
        let path = ev.0.wrapping_sub(entropy(0).0);
        (path < self.rounds.paths()).then_some(path)
    }

    /// A packet was found lost on `path`.
    fn suspect(&mut self, path: u16, now: Instant) {
        self.turn(now);
        (self.loses, self.lost) = (true, true);
        if self.waiting[2].has(path) {
            self.good.set(path, false);
            self.watch();
        }
    }

    /// Keeps to good paths from now on.
    fn watch(&mut self) {
        if self.mode != Mode::Wary {
            self.mode = Mode::Wary;
            self.begin_round();
        }
    }
}

impl Registered for Wary {
    const ABOUT: &'static str = "sprays until a path is dead, then over paths that deliver";
    type Params = WaryParams;
}

impl Balancer for Wary {
    fn build(params: &LbParams, path: &Path, block: u8, rng: &mut Rng) -> Self {
        let paths = params.common.paths.clamp(1, PATHS_MAX);
        let mut first = [0; FIRST_MAX];
        let firsts = if params.wary.wary_first { usize::from(block).min(FIRST_MAX) } else { 0 };
        for place in 0..firsts {
            for _ in 0..DRAWS {
                first[place] = u8::try_from(rng.below(u64::from(paths))).unwrap_or(0);
                if !first[..place].contains(&first[place]) {
                    break;
                }
            }
        }
        Self {
            good: Paths::default(),
            waiting: [Paths::default(); 3],
            rounds: Rounds::new(paths, rng),
            first,
            firsts: u8::try_from(firsts).unwrap_or(0),
            next: 0,
            until_try: 0,
            mode: if firsts == 0 { Mode::Well } else { Mode::First },
            loses: false,
            lost: false,
            epochs: 0,
            base_rtt: path.base_rtt,
            epoch_end: None,
        }
    }

    fn paths_expected(paths: u16) -> Option<&'static str> {
        (paths > PATHS_MAX).then_some("at most 256 with the balancer wary")
    }
}

impl LoadBalancer for Wary {
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue {
        self.turn(now);
        let path = match self.mode {
            Mode::First => {
                let path = self.first[usize::from(self.next)];
                self.next = if self.next + 1 == self.firsts { 0 } else { self.next + 1 };
                u16::from(path)
            }
            Mode::Well => self.rounds.next(rng),
            Mode::Wary => self.next_good(rng),
        };
        if !self.is_waiting(path) {
            self.waiting[0].set(path, true);
        }
        entropy(path)
    }

    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant) {
        let Some(path) = self.path_of(ev) else { return };
        match what {
            PathFeedback::Good | PathFeedback::Ecn => {
                self.waiting.iter_mut().for_each(|paths| paths.set(path, false));
                self.good.set(path, true);
                if self.mode == Mode::First && self.first().all(|path| self.good.has(path)) {
                    self.watch();
                }
            }
            PathFeedback::Nack | PathFeedback::Lost | PathFeedback::Timeout => {
                self.suspect(path, now);
            }
        }
    }

    fn is_silent(&self, ev: EntropyValue, _now: Instant) -> bool {
        self.path_of(ev).is_some_and(|path| self.waiting[2].has(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::units::Bytes;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    const RTT: Duration = Duration::from_us(100);

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// A flow with blocks of so many packets, or without code.
    fn new(block: u8) -> (Wary, Rng) {
        let mut rng = Rng::new(7);
        let path = Path { base_rtt: RTT, line_rate: Rate::from_gbps(100), mtu: Bytes(4160) };
        (Wary::build(&LbParams::default(), &path, block, &mut rng), rng)
    }

    fn sent(lb: &mut Wary, packets: usize, now: Instant, rng: &mut Rng) -> Vec<EntropyValue> {
        (0..packets).map(|_| lb.next_ev(now, rng)).collect()
    }

    fn is_dead(ev: EntropyValue) -> bool {
        ev.0.is_multiple_of(8)
    }

    /// Sends `packets` at once, of which those on dead paths are lost, and reports on them a round
    /// trip later.
    fn round_trip(lb: &mut Wary, packets: usize, now: Instant, rng: &mut Rng) -> usize {
        let evs = sent(lb, packets, now, rng);
        let (lost, acked): (Vec<_>, Vec<_>) = evs.into_iter().partition(|ev| is_dead(*ev));
        acked.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, now + RTT));
        let found = now + RTT + RTT / 10;
        lost.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Timeout, found));
        lost.len()
    }

    #[test]
    fn a_flow_without_code_takes_every_path_in_each_round() {
        let (mut lb, mut rng) = new(0);
        for _ in 0..3 {
            let round: BTreeSet<_> = sent(&mut lb, 256, at(1), &mut rng).into_iter().collect();
            assert_eq!(round.len(), 256);
        }
    }

    #[test]
    fn each_block_takes_the_same_paths_until_all_of_them_have_answered() {
        for block in [2, 10, 20] {
            let (mut lb, mut rng) = new(block);
            let packets = usize::from(block);
            let first = sent(&mut lb, packets, at(1), &mut rng);
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), packets, "{first:?}");
            for ev in &first {
                assert_eq!(sent(&mut lb, packets, at(50), &mut rng), first);
                lb.on_feedback(*ev, PathFeedback::Good, at(101));
            }
            let later: BTreeSet<_> = sent(&mut lb, 2000, at(150), &mut rng).into_iter().collect();
            assert!(later.len() > 2 * packets, "{}", later.len());
        }
    }

    #[test]
    fn a_path_that_never_answers_is_taken_once() {
        for block in [0, 10] {
            let (mut lb, mut rng) = new(block);
            let mut lost = Vec::new();
            for round in 0..20 {
                lost.push(round_trip(&mut lb, 600, at(300 * round), &mut rng));
            }
            // A block's paths are few: all others are tried later.
            assert!(lost[0] > 30 && lost[1..].iter().sum::<usize>() <= 32, "{block}: {lost:?}");
        }
    }

    #[test]
    fn all_paths_that_answer_are_taken_again() {
        let (mut lb, mut rng) = new(10);
        for round in 0..80 {
            round_trip(&mut lb, 600, at(300 * round), &mut rng);
        }
        let evs: BTreeSet<_> = sent(&mut lb, 1000, at(20_000), &mut rng).into_iter().collect();
        assert_eq!(evs.iter().filter(|ev| !is_dead(**ev)).count(), 224);
    }

    #[test]
    fn a_full_queue_takes_no_path_away() {
        let (mut lb, mut rng) = new(0);
        let evs = sent(&mut lb, 256, at(1), &mut rng);
        for us in [101, 102] {
            evs.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(us)));
            sent(&mut lb, 256, at(us), &mut rng);
        }
        evs.iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Timeout, at(150)));
        let later: BTreeSet<_> = sent(&mut lb, 256, at(160), &mut rng).into_iter().collect();
        assert_eq!(later.len(), 256);
    }

    #[test]
    fn nothing_is_tried_while_packets_are_sent_again() {
        let (mut lb, mut rng) = new(10);
        let first = sent(&mut lb, 10, at(1), &mut rng);
        first[1..].iter().for_each(|ev| lb.on_feedback(*ev, PathFeedback::Good, at(101)));
        lb.on_feedback(first[0], PathFeedback::Timeout, at(110));
        let again = sent(&mut lb, 500, at(110), &mut rng);
        assert!(again.iter().all(|ev| first[1..].contains(ev)), "{again:?}");
        // Nothing was lost in the epoch before.
        let later = sent(&mut lb, 500, at(310), &mut rng);
        assert!(later.iter().any(|ev| !first.contains(ev)), "{later:?}");
    }

    #[test]
    fn a_path_is_silent_a_round_trip_after_the_first_burst() {
        let (mut lb, mut rng) = new(10);
        let evs = sent(&mut lb, 10, at(1), &mut rng);
        lb.on_feedback(evs[0], PathFeedback::Good, at(101));
        sent(&mut lb, 10, at(99), &mut rng);
        assert!(!lb.is_silent(evs[1], at(99)));
        sent(&mut lb, 1, at(105), &mut rng);
        assert!(lb.is_silent(evs[1], at(105)) && !lb.is_silent(evs[0], at(105)));
    }

    #[test]
    fn dead_paths_are_forgotten_in_the_end() {
        let (mut lb, mut rng) = new(0);
        let lost: Vec<_> =
            (0..300).map(|round| round_trip(&mut lb, 600, at(300 * round), &mut rng)).collect();
        let tried = lost[1..].iter().filter(|lost| **lost > 0).count();
        assert!(lost[1..80].iter().all(|lost| *lost == 0) && tried > 1, "{lost:?}");
    }
}
