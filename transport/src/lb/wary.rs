//! Wary spraying: all paths in turn until one is dead, and then the paths that have answered. A
//! coded flow begins with a few paths and tries others once these have answered. It is the
//! project's own; the first paths of a coded flow are as in \[uno\] sec. 4.2.
//!
//! ```text
//!   coded      +-------+  each has answered or is silent,       +------+
//!   flow ----> | first | -------------------------------------> | wary |
//!              +-------+  or a path is dead                     +------+
//!   other      +-------+             a path is dead              ^    |
//!   flow ----> | well  | ----------------------------------------+    |
//!              +-------+ <--------------------------------------------+
//!                              every path of the flow is good
//! ```
//!
//! - *First*: the packets of each block take the same few paths. A dead link then costs every block
//!   of a flow the same packets, and most flows can do without them. Nothing better is possible
//!   before the first answer.
//! - *Well*: spraying, in rounds over all paths. Flows load all links alike. For each trimmed
//!   packet, one packet takes a path that has answered lately, since a trimmed packet is sent again
//!   before silence shows which paths are dead. A path takes one such packet between two of its
//!   answers, so that a few paths do not get all of them; if none is left, all are in turn.
//! - *Wary*: rounds over the good paths, which have answered and were not found dead since. A round
//!   takes those paths last to which packets were sent 0.6 to 0.8 base RTTs ago or earlier without
//!   an answer since. After *well* the paths that have answered lately, but for those that took a
//!   packet in place of a trimmed one since, are taken once before the others, which may have died
//!   with the path that was found dead. Answers are forgotten each two base RTTs and after a pause;
//!   right after that no path has answered lately. One packet in 17 to 65 tries a path that is
//!   neither good nor waits for an answer. Each packet that was found lost or trimmed puts the next
//!   try off by one packet. A flow sends again before it sends anew, so that what was lost is not
//!   lost again on a path that is tried.
//!
//! A path has answered when a packet of it was acknowledged or trimmed: a trimmed header has passed
//! the path, too. A path is dead when a packet on it is lost and it has not answered since one was
//! sent on it at least 1 to 1.2 base RTTs before. A full queue loses packets, too, but lets
//! others of the same path pass. Where a flow has fewer packets in a base RTT than paths, a full
//! queue may have lost the only one of a path, which then counts as dead, too. Dead paths are
//! forgotten within 256 base RTTs in which the flow sends, and tried again. Neither a mark nor a
//! trim takes a path away: congestion is the controller's.
//!
//! A balancer is not notified of losses in blocks that can be decoded. So silence alone ends
//! *first* once some path has answered, and a path that never answered is not good. A good path
//! that dies stays good until a loss on it is reported. With `ack_every` above 1 only the path of
//! the segment that an acknowledgement names has answered; paths of other segments may seem silent.
//!
//! A packet costs at most seven epochs, as its answer does, two searches of a bitmap and a step of
//! `Rounds`, which passes over numbers beyond the paths.

use super::paths::{Paths, paths_max};
use super::rounds::Rounds;
use super::{Balancer, LbParams, LoadBalancer, PathFeedback, entropy};
use crate::params::params;
use crate::path::Path;
use crate::registry::Registered;
use crate::rng::Rng;
use crate::time::{Duration, Instant};
use crate::units::EntropyValue;
use ages::Ages;

params! {
    /// Settings of [`Wary`].
    pub struct WaryParams {
        /// Wary: whether each block of a coded flow takes the same paths, one for each of its
        /// packets, until these have answered. Without it a flow is sprayed from its first packet
        /// on, and a dead link leaves every flow some blocks that cannot be decoded. Flows with
        /// `ec=auto` are sprayed from their first packet on, too.
        wary_first: bool = true;
    }
}

/// Packets on good paths between two that try others: as many as there are good paths, within these
/// bounds.
const GAP: core::ops::RangeInclusive<u32> = 16..=64;

/// Epochs in a base RTT: a path whose age is [`Ages::MAX`] has been silent for at least as many.
const EPOCHS: u8 = Ages::MAX - 2;

/// Epochs after which dead paths are forgotten: 256 base RTTs.
const FORGOTTEN_AFTER: u16 = 256 * EPOCHS as u16;

/// Epochs after which answers are old: two base RTTs.
const RECENT: u16 = 2 * EPOCHS as u16;

/// How the next path is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Each block takes the first paths of the rounds.
    First,
    /// All paths in rounds.
    Well,
    /// Good paths in rounds, and now and then another one.
    Wary,
}

/// The paths of one flow.
#[derive(Clone, Debug)]
pub struct Wary {
    /// Paths that have answered, and were not found dead since.
    good: Paths,
    /// The good paths that this round over them has not taken yet. While all is well: the paths
    /// that have answered lately and have not taken a packet in place of a trimmed one since. The
    /// first round over good paths begins with these.
    left: Paths,
    /// For how many epochs each path has had no answer. Dead paths are silent until forgotten.
    ages: Ages,
    /// The order of all paths. A round over good paths takes the good one that follows each.
    rounds: Rounds,
    base_rtt: Duration,
    /// When this epoch ends; means nothing before the first packet.
    epoch_end: Instant,
    mode: Mode,
    /// Whether the epochs have begun, with the first packet.
    began: bool,
    /// Paths that each block of a coded flow takes at first; 0 where it takes all from the start.
    firsts: u8,
    /// How many of these this block has taken, 0..=`firsts`.
    taken: u8,
    /// Packets before the next one that tries a path.
    until_try: u16,
    /// While all is well: trimmed packets in whose place no packet was sent yet.
    again: u16,
    /// Epochs since dead paths were forgotten, below [`FORGOTTEN_AFTER`].
    epochs: u16,
}

// With more a flow would be larger for every balancer.
const _: () = assert!(size_of::<Wary>() <= 200);

impl Wary {
    /// Begins the epochs that are due. The first is short: what a flow sends at once is silent a
    /// base RTT later, and later packets after 1 to 1.2. O(1): at most [`Ages::MAX`].
    #[inline]
    fn turn(&mut self, now: Instant) {
        if !self.began || now >= self.epoch_end {
            self.begin_epochs(now);
        }
    }

    #[cold]
    fn begin_epochs(&mut self, now: Instant) {
        if !self.began {
            self.began = true;
            self.epoch_end = now + self.base_rtt / 32;
            return;
        }
        let epoch = self.base_rtt / u64::from(EPOCHS);
        for _ in 0..Ages::MAX {
            if now < self.epoch_end {
                return;
            }
            self.begin_epoch();
            self.epoch_end += epoch;
        }
        if now >= self.epoch_end {
            // After a pause no more epochs are made up for.
            self.epoch_end = now + epoch;
            self.forget_answers();
        }
    }

    fn begin_epoch(&mut self) {
        self.epochs = (self.epochs + 1) % FORGOTTEN_AFTER;
        if self.epochs == 0 {
            self.ages.forget_silent();
        }
        if self.epochs.is_multiple_of(RECENT) {
            self.forget_answers();
        }
        self.ages.begin_epoch();
        if self.mode == Mode::First && !self.good.is_empty() {
            let mut known = self.good;
            known.insert_all(&self.ages.silent());
            if known.count() >= u32::from(self.firsts) {
                self.watch();
            }
        }
    }

    /// While all is well: no path counts as one that has answered lately.
    fn forget_answers(&mut self) {
        if self.mode == Mode::Well {
            self.left = Paths::default();
        }
    }

    /// The next path of a block whose predecessors took the same paths.
    fn next_first(&mut self, rng: &mut Rng) -> u16 {
        if self.taken == self.firsts {
            self.taken = 0;
            self.rounds.again();
        }
        self.taken += 1;
        self.rounds.next(rng)
    }

    /// The next path while all is well.
    #[inline]
    fn next_well(&mut self, rng: &mut Rng) -> u16 {
        let turn = self.rounds.next(rng);
        let Some(again) = self.again.checked_sub(1) else { return turn };
        self.again = again;
        let path = self.left.next_from(turn).unwrap_or(turn);
        self.left.remove(path);
        path
    }

    /// The next path while some may be dead.
    fn next_wary(&mut self, rng: &mut Rng) -> u16 {
        match self.until_try.checked_sub(1) {
            Some(left) => self.until_try = left,
            None => {
                self.await_try();
                if let Some(path) = self.unknown(rng) {
                    return path;
                }
            }
        }
        if self.left.is_empty() {
            self.left = self.good;
        }
        let turn = self.rounds.next(rng);
        let mut prompt = self.left;
        prompt.remove_all(&self.ages.late());
        // Where no path is good all are taken in turn.
        let path = prompt.next_from(turn).or_else(|| self.left.next_from(turn)).unwrap_or(turn);
        self.left.remove(path);
        path
    }

    /// A path to be tried: one that is neither good nor waits for an answer.
    fn unknown(&self, rng: &mut Rng) -> Option<u16> {
        let paths = self.rounds.paths();
        let mut unknown = Paths::below(paths);
        unknown.remove_all(&self.good);
        unknown.remove_all(&self.ages.waiting());
        if unknown.is_empty() {
            return None;
        }
        let start = rng.below(u64::from(paths));
        unknown.next_from(u16::try_from(start).unwrap_or(0))
    }

    /// Puts off the next try.
    fn await_try(&mut self) {
        let gap = self.good.count().clamp(*GAP.start(), *GAP.end());
        self.until_try = u16::try_from(gap).unwrap_or(u16::MAX);
    }

    /// Puts off the next try by a packet: one that is sent again.
    fn await_again(&mut self) {
        self.until_try = self.until_try.saturating_add(1);
    }

    /// The number of the path of `ev`, if it is one of this flow's.
    fn path_of(&self, ev: EntropyValue) -> Option<u16> {
        let path = ev.0.wrapping_sub(entropy(0).0);
        (path < self.rounds.paths()).then_some(path)
    }

    /// A packet on `path` has arrived, or its header has.
    fn answer(&mut self, path: u16) {
        self.ages.answer(path);
        if self.mode == Mode::Well {
            self.left.insert(path);
        }
        if self.good.has(path) {
            return;
        }
        self.good.insert(path);
        let good = self.good.count();
        if good == u32::from(self.rounds.paths()) {
            if self.mode != Mode::Well {
                self.mode = Mode::Well;
                self.forget_answers();
            }
        } else if self.mode == Mode::First && good >= u32::from(self.firsts) {
            self.watch();
        }
    }

    /// A packet was found lost on `path`.
    fn suspect(&mut self, path: u16) {
        if self.ages.is_silent(path) {
            self.good.remove(path);
            self.left.remove(path);
            self.watch();
        }
    }

    /// Keeps to good paths from now on.
    fn watch(&mut self) {
        match self.mode {
            Mode::Wary => return,
            Mode::First => self.left = self.good,
            // The round begins with what `left` has.
            Mode::Well => {}
        }
        self.mode = Mode::Wary;
        self.again = 0;
        self.await_try();
    }
}

impl Registered for Wary {
    const ABOUT: &'static str = "sprays until a path is dead, then over paths that answer";
    type Params = WaryParams;
}

impl Balancer for Wary {
    fn build(params: &LbParams, path: &Path, block: u8, rng: &mut Rng) -> Self {
        // A legal configuration has no more.
        let paths = params.common.paths.min(Paths::MAX);
        let firsts = if params.wary.wary_first { u16::from(block).min(paths) } else { 0 };
        Self {
            good: Paths::default(),
            left: Paths::default(),
            ages: Ages::default(),
            rounds: Rounds::new(paths, rng),
            base_rtt: path.base_rtt,
            epoch_end: Instant::ZERO,
            mode: if firsts == 0 { Mode::Well } else { Mode::First },
            began: false,
            firsts: u8::try_from(firsts).unwrap_or(u8::MAX),
            taken: 0,
            until_try: 0,
            again: 0,
            epochs: 0,
        }
    }

    fn paths_expected(paths: u16) -> Option<&'static str> {
        (paths > Paths::MAX).then_some(concat!("at most ", paths_max!(), " with the balancer wary"))
    }
}

impl LoadBalancer for Wary {
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue {
        self.turn(now);
        let path = match self.mode {
            Mode::First => self.next_first(rng),
            Mode::Well => self.next_well(rng),
            Mode::Wary => self.next_wary(rng),
        };
        self.ages.send_on(path);
        entropy(path)
    }

    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant) {
        let Some(path) = self.path_of(ev) else { return };
        self.turn(now);
        match what {
            PathFeedback::Good | PathFeedback::Ecn => self.answer(path),
            PathFeedback::Nack => {
                self.answer(path);
                self.await_again();
                if self.mode == Mode::Well {
                    self.again = self.again.saturating_add(1);
                }
            }
            PathFeedback::Lost | PathFeedback::Timeout => {
                self.suspect(path);
                self.await_again();
            }
        }
    }

    fn is_silent(&self, ev: EntropyValue, _now: Instant) -> bool {
        self.path_of(ev).is_some_and(|path| self.ages.is_silent(path))
    }
}

mod ages;
#[cfg(test)]
mod tests;
